/* A block of wgmma_fp32: what it holds, which rows it has, and how fp32 becomes units of parts. The parameters are that
 * kernel's. */
#ifndef DEVICE_FP32_BLOCK_CUH
#define DEVICE_FP32_BLOCK_CUH

#include "device/bf16_parts.cuh"
#include "device/tma.cuh"

constexpr int dim_qk = ATTUNE_HEAD_DIM_QK, dim_v = ATTUNE_HEAD_DIM_V;
constexpr int BLOCK_M = GROUPS * 64, COLUMNS = 64; /* of a unit */
constexpr int chunks_qk = (dim_qk + COLUMNS - 1) / COLUMNS, chunks_v = (dim_v + COLUMNS - 1) / COLUMNS;
constexpr int steps_qk = (dim_qk + 15) / 16, steps_pv = BLOCK_N / 16;
constexpr int scores = BLOCK_N / 2, outputs = COLUMNS / 2; /* in a lane, of a tile and of 64 columns */
constexpr unsigned part_bytes = BLOCK_N * 128, unit_bytes = PARTS * part_bytes;
constexpr unsigned chunk_q_bytes = 64 * 128, part_q_bytes = chunks_qk * chunk_q_bytes,
                   group_q_bytes = PARTS * part_q_bytes;
constexpr unsigned control_bytes = 1024 + GROUPS * 128 * 16;
constexpr int STAGES = (ATTUNE_SMEM_BYTES - (int)control_bytes - GROUPS * (int)group_q_bytes) / (int)unit_bytes;

enum { FIRST_TILES = AHEAD ? 0 : 1 }; /* where keys are split ahead there may be none */

#include "device/fp32_rows.cuh"

struct alignas(1024) Shared {
    unsigned char q[GROUPS][group_q_bytes];
    unsigned char unit[STAGES][unit_bytes];
    uint4 edges[GROUPS * 128]; /* first and end of the keys that each of a consumer's two rows sees */
    unsigned long long full[STAGES], empty[STAGES];
    unsigned values_lost, keys_lost, queries_lost; /* some bits of some of them had no place */
    unsigned keys_large, queries_large;            /* some were above large_enough */
};
static_assert(sizeof(Shared) <= ATTUNE_SMEM_BYTES && ATTUNE_SMEM_BYTES - sizeof(Shared) < unit_bytes,
              "the descriptor predicts another amount of shared memory");
static_assert((GROUPS + 1) * 128 == ATTUNE_THREADS, "the descriptor predicts another number of threads");
static_assert(STAGES >= 2 && unit_bytes % 1024 == 0 && BLOCK_N % 16 == 0 && BLOCK_N <= 256, "units and products");

constexpr unsigned smem_unit = GROUPS * group_q_bytes, smem_full = smem_unit + STAGES * unit_bytes + GROUPS * 128 * 16,
                   smem_empty = smem_full + STAGES * 8;

/* Of a thread: together what the launch has given; rows that see different keys take more of a consumer. One group has
 * what the compiler takes. */
enum { PINGPONG = GROUPS == 2 };
enum { ROWS_DIFFER = ENDS_MOVE || BEGINS_MOVE };
constexpr int producer_registers = AHEAD                         ? 72
                                   : chunks_v == 1 || PARTS == 2 ? 120
                                   : ROWS_DIFFER                 ? 88
                                                                 : 104,
              consumer_registers = AHEAD                         ? 216
                                   : chunks_v == 1 || PARTS == 2 ? 192
                                   : ROWS_DIFFER                 ? 208
                                                                 : 200;

/* ---- Splitting ----------------------------------------------------------------------------------------------------
 */

/* A thread's share of 64 columns of `rows` rows: four columns of every eighth row. */
template <int rows> struct share {
    float4 x[rows / 8];
};

/* Rows from `first` on at `origin`; zeros in place of those that are not first_there ... end_there - 1. */
template <int rows, int dim>
ATTUNE_INLINE void load_share(share<rows> &to, const element *origin, attune_i64 stride, int first, int first_there,
                              int end_there, int chunk, int thread)
{
    const int row = first + thread / 16;
    const element *from = origin + row * stride;
    attune_i64 step = 8 * stride;
#pragma unroll
    for (int i = 0; i < rows / 8; ++i, from += step) {
        asm volatile("" : "+l"(step)); /* NOTE: or its multiples are kept, in registers that are not there */
        to.x[i] = row + i * 8 >= first_there && row + i * 8 < end_there
                      ? load_four<dim>(from, chunk * COLUMNS + thread % 16 * 4)
                      : make_float4(0, 0, 0, 0);
    }
}

ATTUNE_INLINE void store_two_words(unsigned char *global, unsigned low, unsigned high)
{
    *reinterpret_cast<uint2 *>(global) = make_uint2(low, high);
}

ATTUNE_INLINE void store_two_words(unsigned shared, unsigned low, unsigned high)
{
    ptx_st_shared_v2_b32(shared, low, high);
}

/* Its parts to shared memory, or global, each `part` bytes behind the one before. */
template <int rows, class Place>
ATTUNE_INLINE void store_share(const share<rows> &from, Place to, unsigned part, int thread, unsigned &lost)
{
    const int row = thread / 16, quad = thread % 16;
    to += (unsigned)(row * 128 + ((quad / 2) ^ row) * 16 + quad % 2 * 8);
#pragma unroll
    for (int i = 0; i < rows / 8; ++i) {
        unsigned low[PARTS], high[PARTS];
        float x[4] = {from.x[i].x, from.x[i].y, from.x[i].z, from.x[i].w};
        register_fence(x); /* NOTE: or all are split before the first is stored, in 48 registers */
        split_two(x[0], x[1], low, lost);
        split_two(x[2], x[3], high, lost);
#pragma unroll
        for (int p = 0; p < PARTS; ++p) {
            store_two_words(to + (unsigned)p * part + (unsigned)i * 1024, low[p], high[p]);
        }
    }
}

template <int rows> ATTUNE_INLINE float largest_of(const share<rows> &share, float largest)
{
#pragma unroll
    for (int i = 0; i < rows / 8; ++i) {
        const float4 x = share.x[i];
        largest = fmaxf(fmaxf(fmaxf(largest, fabsf(x.x)), fmaxf(fabsf(x.y), fabsf(x.z))), fabsf(x.w));
    }
    return largest;
}

#endif
