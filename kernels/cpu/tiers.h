/* The entries of a CPU source that is compiled for every tier, as its descriptor lists them. `symbol` is what the
 * source gives to ATTUNE_TIER. */
#ifndef KERNELS_CPU_TIERS_H
#define KERNELS_CPU_TIERS_H

#include "attune/kernel.h"

#define TIER_ENTRY(symbol) void symbol(const attune_args *args, int64_t item, void *scratch)

#if defined(__x86_64__)
#define DECLARE_EVERY_TIER(symbol)                                                                                     \
    TIER_ENTRY(symbol##_baseline);                                                                                     \
    TIER_ENTRY(symbol##_avx2);                                                                                         \
    TIER_ENTRY(symbol##_avx512)
#define EVERY_TIER(symbol)                                                                                             \
    {                                                                                                                  \
        [ATTUNE_ISA_BASELINE] = symbol##_baseline, [ATTUNE_ISA_AVX2] = symbol##_avx2,                                  \
        [ATTUNE_ISA_AVX512] = symbol##_avx512                                                                          \
    }
/* Of a source that has code for AMX besides. */
#define DECLARE_EVERY_TIER_AND_AMX(symbol)                                                                             \
    DECLARE_EVERY_TIER(symbol);                                                                                        \
    TIER_ENTRY(symbol##_amx)
#define EVERY_TIER_AND_AMX(symbol)                                                                                     \
    {                                                                                                                  \
        [ATTUNE_ISA_BASELINE] = symbol##_baseline, [ATTUNE_ISA_AVX2] = symbol##_avx2,                                  \
        [ATTUNE_ISA_AVX512] = symbol##_avx512, [ATTUNE_ISA_AMX] = symbol##_amx                                         \
    }
#else
#define DECLARE_EVERY_TIER(symbol) TIER_ENTRY(symbol##_baseline)
#define EVERY_TIER(symbol)                                                                                             \
    {                                                                                                                  \
        [ATTUNE_ISA_BASELINE] = symbol##_baseline                                                                      \
    }
#define DECLARE_EVERY_TIER_AND_AMX(symbol) DECLARE_EVERY_TIER(symbol)
#define EVERY_TIER_AND_AMX(symbol) EVERY_TIER(symbol)
#endif

#endif
