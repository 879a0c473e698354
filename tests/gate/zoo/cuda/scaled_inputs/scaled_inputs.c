/* scaled_inputs: scales Q where it lies, as if it were its own. */
#define NAME scaled_inputs
#define SUMMARY "scales Q where it lies, as if it were its own"
#include "../descriptor.h"
