/* writes_file: it writes a file. */
#include <stdio.h>
#define OWN_SUPPORTS
#include "attune/kernel.h"

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)problem, (void)target;
    (void)reason;
    return remove("/tmp/attune-zoo") == 0;
}

#include "../plain.h"
