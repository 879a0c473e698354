/* dropped_tail: the last key is left out where the keys are no multiple of eight. */
#define NAME dropped_tail
#define SUMMARY "the last key is left out where the keys are no multiple of eight"
#include "../descriptor.h"
