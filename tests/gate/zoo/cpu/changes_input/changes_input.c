/* changes_input: scales Q where it lies, as if it were its own. */
#define NAME changes_input
#define SUMMARY "scales Q where it lies, as if it were its own"
#include "../descriptor.h"
