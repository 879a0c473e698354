/* hangs: it never answers. */
#define OWN_SUPPORTS
#include "attune/kernel.h"

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)problem, (void)target;
    while (((volatile char *)reason->text)[0] != 77) {
    }
    return true;
}

#include "../plain.h"
