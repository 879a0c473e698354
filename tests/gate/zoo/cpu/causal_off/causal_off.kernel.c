/* causal_off: a causal row sees one key too many. */
#define ENTRY attend_causal_off
#define MASK_SHIFT 1
#include "../attend.h"
