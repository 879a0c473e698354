/* honest_plain: nothing is wrong with it, and nothing fast. */
#define NAME honest_plain
#define SUMMARY "plain attention, a row at a time"
#include "../descriptor.h"
