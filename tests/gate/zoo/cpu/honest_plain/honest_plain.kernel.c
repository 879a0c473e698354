/* honest_plain: nothing is wrong with it, and nothing fast. */
#define ENTRY attend_honest_plain
#include "../attend.h"
