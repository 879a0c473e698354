/* scale_off: the scale is one percent too large. */
#define SCALE_BY 1.01f
#include "../attend.cuh"
