/* uninitialised_stack: its sums begin with what happens to lie on its stack. */
#define NAME uninitialised_stack
#define SUMMARY "its sums begin with what happens to lie on its stack"
#include "../descriptor.h"
