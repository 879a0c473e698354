/* reads_counter: reads the processor's time stamp. */
#define NAME reads_counter
#define SUMMARY "reads the processor's time stamp"
#include "../descriptor.h"
