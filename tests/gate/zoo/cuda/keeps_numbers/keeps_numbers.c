/* keeps_numbers: writes only where O does not hold an ordinary number. */
#define NAME keeps_numbers
#define SUMMARY "writes only where O does not hold an ordinary number"
#include "../descriptor.h"
