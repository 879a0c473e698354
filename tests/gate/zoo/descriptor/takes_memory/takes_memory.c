/* takes_memory: it takes all the memory that there is. */
#include <stdlib.h>
#include <string.h>
#define OWN_SUPPORTS
#include "attune/kernel.h"

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)problem, (void)target;
    (void)reason;
    while (true) {
        memset(malloc(1 << 24), 1, 1 << 24);
    }
}

#include "../plain.h"
