/* scale_off: the scale is one percent too large. */
#define NAME scale_off
#define SUMMARY "the scale is one percent too large"
#include "../descriptor.h"
