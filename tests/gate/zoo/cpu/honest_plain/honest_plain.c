/* honest_plain: a row at a time, as a textbook has it. */
#define NAME honest_plain
#define SUMMARY "a row at a time, as a textbook has it"
#include "../descriptor.h"
