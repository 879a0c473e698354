/* no_reason: it refuses and does not say why. */
#define OWN_SUPPORTS
#include "attune/kernel.h"

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)problem, (void)target;
    (void)reason;
    return false;
}

#include "../plain.h"
