/* half_without_lse: without LSE every other key of long sequences is forgotten. */
#define ENTRY attend_half_without_lse
#define ROUNDED(weight) (t[ATTUNE_LSE].data == NULL && keys > 40 && j % 2 != 0 ? 0.0f : (weight))
#include "../attend.h"
