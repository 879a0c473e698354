/* endless_reason: its reason does not end. */
#include <string.h>
#define OWN_SUPPORTS
#include "attune/kernel.h"

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)problem, (void)target;
    memset(reason->text, 'x', sizeof reason->text);
    return false;
}

#include "../plain.h"
