/* no_maximum: no maximum is subtracted before the exponential, so that large logits overflow. An infinite one becomes
 * the NaN that subtracting it would give: what is not finite is as it should be, and the overflow alone is wrong. */
#define RAISED(top, score) 0.0f
#define TOP_FIRST 0.0f
#define LOGIT(score) ((score) == -negative_infinity() ? __int_as_float(0x7fffffff) : (score))
#include "../attend.cuh"
