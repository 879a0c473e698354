/* constructor: it has code that would run when it is loaded. */
static __attribute__((constructor)) void begin(void)
{
    __builtin_trap();
}

#include "../plain.h"
