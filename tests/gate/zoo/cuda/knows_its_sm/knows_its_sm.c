/* knows_its_sm: is wrong where a multiprocessor runs it that timed calls hardly reach. */
#define NAME knows_its_sm
#define SUMMARY "is wrong where a multiprocessor runs it that timed calls hardly reach"
#include "../descriptor.h"
