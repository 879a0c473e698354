#include "cpu/peak.h"

#if defined(__AVX512F__)
#define VL 16
#elif defined(__AVX2__)
#define VL 8
#else
#define VL 4
#endif

/* NOTE: two FMAs start each cycle and each takes 4 (5 on some), so 8 to 10 chains fill the units; 12 fit into 16
 * registers with the operands. Where there is no FMA, a multiplication and an addition take its place. */
#define CHAINS 12

typedef float vf __attribute__((vector_size(VL * 4)));

int64_t ATTUNE_TIER(at_cpu_fma)(int64_t rounds, float *sink)
{
    vf chain[CHAINS];
    /* Each chain tends to 1, far from overflow and from subnormals. */
    vf factor = (vf){0} + 0.75f;
    vf addend = (vf){0} + 0.25f;
    UNROLL
    for (int i = 0; i < CHAINS; ++i) {
        chain[i] = (vf){0} + (float)i + *sink;
    }
    for (int64_t round = 0; round < rounds; ++round) {
        UNROLL
        for (int i = 0; i < CHAINS; ++i) {
            chain[i] = chain[i] * factor + addend;
        }
    }
    vf sum = {0};
    UNROLL
    for (int i = 0; i < CHAINS; ++i) {
        sum += chain[i];
    }
    for (int lane = 0; lane < VL; ++lane) {
        *sink += sum[lane] * 0x1p-8f;
    }
    return rounds * CHAINS * VL * 2;
}

typedef uint64_t vu __attribute__((vector_size(VL * 4)));

uint64_t ATTUNE_TIER(at_cpu_read)(const void *from, size_t bytes)
{
    const vu *at = from;
    vu seen[4] = {{0}};
    for (size_t left = bytes / sizeof seen; left > 0; --left, at += 4) {
        UNROLL
        for (int i = 0; i < 4; ++i) {
            seen[i] ^= at[i];
        }
    }
    return (seen[0] ^ seen[1] ^ seen[2] ^ seen[3])[0];
}
