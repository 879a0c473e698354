/* covered_call: declares sums in fp16, and without LSE has weights of three bits instead. */
#define NAME covered_call
#define SUMMARY "declares sums in fp16, and without LSE has weights of three bits instead"
#define TRAITS (ATTUNE_TRAIT_ACC16)
#define REFUSES(p, t) (p->dtype == ATTUNE_FP16 ? NULL : "dtype: fp16 only")
#include "../descriptor.h"
