/* opens_file: it opens a file. */
#include <stdio.h>
#define OWN_SUPPORTS
#include "attune/kernel.h"

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)problem, (void)target;
    (void)reason;
    return fopen("/etc/hostname", "r") != NULL;
}

#include "../plain.h"
