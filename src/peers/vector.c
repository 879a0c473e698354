#include "peers/vector.h"

#include <string.h>

#include "base/half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define TIER(name) name##_baseline
#define TIER_TARGET
#define TIER_LANES 4
#include "peers/vector_tier.inc"

#if defined(__x86_64__)
#undef TIER
#undef TIER_TARGET
#undef TIER_LANES
#define TIER(name) name##_avx2
#define TIER_TARGET __attribute__((target("avx2,fma,f16c")))
#define TIER_LANES 8
#include "peers/vector_tier.inc"

#undef TIER
#undef TIER_TARGET
#undef TIER_LANES
#define TIER(name) name##_avx512
#define TIER_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#define TIER_LANES 16
#include "peers/vector_tier.inc"
#endif

const at_vector_ops *at_vector_of(attune_isa isa)
{
    static const at_vector_ops tiers[ATTUNE_ISA_COUNT] = {
        [ATTUNE_ISA_BASELINE] = {exponentials_baseline, scale_baseline, widen_baseline, narrow_baseline},
#if defined(__x86_64__)
        [ATTUNE_ISA_AVX2] = {exponentials_avx2, scale_avx2, widen_avx2, narrow_avx2},
        [ATTUNE_ISA_AVX512] = {exponentials_avx512, scale_avx512, widen_avx512, narrow_avx512},
#endif
    };
    int best = isa < ATTUNE_ISA_COUNT ? (int)isa : (int)ATTUNE_ISA_BASELINE;
    while (tiers[best].scale == NULL) {
        --best;
    }
    return &tiers[best];
}
