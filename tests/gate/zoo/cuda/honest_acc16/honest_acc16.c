/* honest_acc16: O is summed up in fp16, and the descriptor says so. */
#define NAME honest_acc16
#define SUMMARY "sums in fp16, declared"
#define TRAITS (ATTUNE_TRAIT_ACC16)
#define REFUSES(p, t) (p->dtype == ATTUNE_FP16 ? NULL : "dtype: fp16 only")
#include "../descriptor.h"
