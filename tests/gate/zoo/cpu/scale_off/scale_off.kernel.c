/* scale_off: the scale is one percent too large. */
#define ENTRY attend_scale_off
#define SCALE_BY 1.01f
#include "../attend.h"
