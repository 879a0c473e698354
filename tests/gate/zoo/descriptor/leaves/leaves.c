/* leaves: it ends its process. */
#include <stdlib.h>
#define OWN_SUPPORTS
#include "attune/kernel.h"

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)problem, (void)target;
    (void)reason;
    _Exit(0);
}

#include "../plain.h"
