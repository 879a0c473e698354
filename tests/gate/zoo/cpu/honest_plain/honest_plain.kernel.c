/* honest_plain: a row at a time, as a textbook has it. */
#define ENTRY attend_honest_plain
#include "../attend.h"
