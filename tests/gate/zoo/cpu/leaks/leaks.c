/* leaks: multiplies hidden keys by zero instead of leaving them out, so that a hidden NaN shows. */
#define NAME leaks
#define SUMMARY "multiplies hidden keys by zero instead of leaving them out, so that a hidden NaN shows"
#include "../descriptor.h"
