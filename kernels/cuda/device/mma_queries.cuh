/* Q K^T of mma: queries as operands, times a tile of keys. */
#ifndef DEVICE_MMA_QUERIES_CUH
#define DEVICE_MMA_QUERIES_CUH

#include "device/mma.cuh"
#include "device/mma_block.cuh"

/* The warp's queries as operands: read once into registers, or again for every tile where registers are short. */
struct queries {
    unsigned rows; /* lane_rows of the warp's first strip */
    unsigned a[Q_REGISTERS ? steps_qk : 1][STRIPS][4];
};

ATTUNE_INLINE void load_queries(queries &q, int to, int step)
{
#pragma unroll
    for (int t = 0; t < STRIPS; ++t) {
        load_operand<pitch_qk>(q.a[to][t], q.rows, t * (STRIP_STEP / 16), step);
    }
}

/* Sixteen columns of them, times those of keys, sixteen for each eight of a strip's scores. `columns`: lane_columns of
 * the keys. */
template <int n> ATTUNE_INLINE void multiply_step(unsigned columns, queries &q, int d, float (&s)[STRIPS][n])
{
    if constexpr (!Q_REGISTERS) {
        load_queries(q, 0, d);
    }
#pragma unroll
    for (int i = 0; i < n / 8; ++i) {
        unsigned b[4];
        load_operand<pitch_qk>(b, columns, i, d);
#pragma unroll
        for (int t = 0; t < STRIPS; ++t) {
            mma_16x16(&s[t][i * 8], q.a[Q_REGISTERS ? d : 0][t], b);
        }
    }
}

ATTUNE_INLINE void clear(float *s, int n)
{
#pragma unroll
    for (int i = 0; i < n; ++i) {
        s[i] = 0;
    }
}

template <int n> ATTUNE_INLINE void multiply_keys(const element *k, queries &q, int lane, float (&s)[STRIPS][n])
{
    const unsigned columns = lane_columns<pitch_qk>(k, 0, lane);
    clear(s[0], STRIPS * n);
#pragma unroll
    for (int d = 0; d < steps_qk; ++d) {
        multiply_step(columns, q, d, s);
    }
}

/* A negative scale is the queries' affair: products then have the sign that maxima are taken of. */
ATTUNE_INLINE void negate_queries(Shared &shared)
{
    for (int i = (int)threadIdx.x; i < BLOCK_M * pitch_qk / 8; i += ATTUNE_THREADS) {
        uint4 &x = reinterpret_cast<uint4 *>(shared.q)[i];
        x = make_uint4(x.x ^ 0x80008000u, x.y ^ 0x80008000u, x.z ^ 0x80008000u, x.w ^ 0x80008000u);
    }
}

#endif
