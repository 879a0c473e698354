/* state_in_globals: counts its calls in a device global. */
#define NAME state_in_globals
#define SUMMARY "counts its calls in a device global"
#include "../descriptor.h"
