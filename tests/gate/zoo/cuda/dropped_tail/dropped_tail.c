/* dropped_tail: the last tile of keys is left out where it is not full. */
#define NAME dropped_tail
#define SUMMARY "the last tile of keys is left out where it is not full"
#include "../descriptor.h"
