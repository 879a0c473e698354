/* leaks: multiplies hidden keys by zero instead of leaving them out, so that a hidden NaN shows. */
#define ENTRY attend_leaks
#define MULTIPLIES_HIDDEN 1
#include "../attend.h"
