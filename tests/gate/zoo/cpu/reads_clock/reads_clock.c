/* reads_clock: asks the system for the time. */
#define NAME reads_clock
#define SUMMARY "asks the system for the time"
#include "../descriptor.h"
