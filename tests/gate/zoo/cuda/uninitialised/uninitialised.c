/* uninitialised: its sums begin with what happens to lie in shared memory. */
#define NAME uninitialised
#define SUMMARY "its sums begin with what happens to lie in shared memory"
#include "../descriptor.h"
