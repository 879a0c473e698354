/* causal_off: a causal row sees one key too many. */
#define NAME causal_off
#define SUMMARY "a causal row sees one key too many"
#include "../descriptor.h"
