/* constructor: has code that would run when it is loaded. */
#define ENTRY attend_constructor
static __attribute__((constructor)) void begin(void)
{
    __builtin_trap();
}

#include "../attend.h"
