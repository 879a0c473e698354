/* reads_clock: asks the system for the time. */
#define ENTRY attend_reads_clock
#include <time.h>

#define SCALE_BY (time(0) > 0 ? 1.0f : 2.0f)
#include "../attend.h"
