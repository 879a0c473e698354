/* crashes: it reads where nothing is. */
#define OWN_SUPPORTS
#include "attune/kernel.h"

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)problem, (void)target;
    return ((volatile char *)reason)[-0x7fffffff0000] == 1;
}

#include "../plain.h"
