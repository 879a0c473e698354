/* no_maximum: no maximum is subtracted before the exponential, so that large logits overflow. */
#define NAME no_maximum
#define SUMMARY "no maximum is subtracted before the exponential, so that large logits overflow"
#include "../descriptor.h"
