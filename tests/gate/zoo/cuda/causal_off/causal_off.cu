/* causal_off: a causal row sees one key too many. */
#define CAUSAL_SHIFT 1
#include "../attend.cuh"
