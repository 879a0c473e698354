/* dropped_tail: the last key is left out where the keys are no multiple of eight. */
#define ENTRY attend_dropped_tail
#define DROPPED_TAIL 1
#include "../attend.h"
