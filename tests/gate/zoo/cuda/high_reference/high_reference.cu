/* high_reference: 2^8 of headroom above the maximum, so that fp16 loses the weights of a tail beside one large one. */
#include "device/element.cuh"

#define RAISED(top, score) fmaxf(top, (score) + 8.0f)
#define ROUNDED(weight) to_float(from_float<element>(weight))
#include "../attend.cuh"
