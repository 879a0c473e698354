/* nan_swallower: takes NaN for a hidden key, so that none ever reaches a result. */
#define NAME nan_swallower
#define SUMMARY "takes NaN for a hidden key, so that none ever reaches a result"
#include "../descriptor.h"
