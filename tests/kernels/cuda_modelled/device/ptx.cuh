/* The instructions of kernels/cuda/device/ptx.cuh that plain code uses, as a CPU computes them. */
#ifndef DEVICE_PTX_CUH
#define DEVICE_PTX_CUH

#include "attune/args.h"

#define ATTUNE_INLINE static inline

ATTUNE_INLINE float ptx_ex2_approx_ftz_f32(float x)
{
    float y = exp2f(x);
    return fabsf(y) < 0x1p-126f ? 0 : y;
}

ATTUNE_INLINE float ptx_rcp_approx_ftz_f32(float x)
{
    return 1 / x;
}

ATTUNE_INLINE float ptx_lg2_approx_ftz_f32(float x)
{
    return log2f(x);
}

ATTUNE_INLINE float ptx_cvt_f32_f16(unsigned short x)
{
    return (float)same_bits<_Float16>(x);
}

ATTUNE_INLINE unsigned short ptx_cvt_rn_f16_f32(float x)
{
    return same_bits<unsigned short>((_Float16)x);
}

ATTUNE_INLINE unsigned short ptx_cvt_rn_bf16_f32(float x)
{
    unsigned bits = __float_as_uint(x);
    return x != x ? 0x7fff : (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

ATTUNE_INLINE unsigned ptx_cvt_rn_f16x2_f32(float high, float low)
{
    return (unsigned)ptx_cvt_rn_f16_f32(high) << 16 | ptx_cvt_rn_f16_f32(low);
}

ATTUNE_INLINE unsigned ptx_cvt_rn_bf16x2_f32(float high, float low)
{
    return (unsigned)ptx_cvt_rn_bf16_f32(high) << 16 | ptx_cvt_rn_bf16_f32(low);
}

ATTUNE_INLINE unsigned ptx_fma_rn_f16x2(unsigned x, unsigned y, unsigned z)
{
    const float high = ptx_cvt_f32_f16(x >> 16) * ptx_cvt_f32_f16(y >> 16) + ptx_cvt_f32_f16(z >> 16);
    const float low = ptx_cvt_f32_f16(x & 0xffff) * ptx_cvt_f32_f16(y & 0xffff) + ptx_cvt_f32_f16(z & 0xffff);
    return ptx_cvt_rn_f16x2_f32(high, low);
}

ATTUNE_INLINE unsigned ptx_fma_rn_bf16x2(unsigned x, unsigned y, unsigned z)
{
    const float high =
        __uint_as_float(x & 0xffff0000) * __uint_as_float(y & 0xffff0000) + __uint_as_float(z & 0xffff0000);
    const float low = __uint_as_float(x << 16) * __uint_as_float(y << 16) + __uint_as_float(z << 16);
    return ptx_cvt_rn_bf16x2_f32(high, low);
}

/* ---- Shared memory, by addresses of 32 bits ---- */

ATTUNE_INLINE unsigned ptx_cvta_shared(const void *generic)
{
    return (unsigned)(static_cast<const unsigned char *>(generic) - memory);
}

/* The bytes arrive no sooner than they are waited for; until then anything is there. */
ATTUNE_INLINE void ptx_cp_async_cg_shared_global_16(unsigned shared, const void *global, unsigned bytes)
{
    model_copy(shared, global, bytes);
}

ATTUNE_INLINE void ptx_cp_async_commit_group()
{
    model_commit();
}

template <int pending> ATTUNE_INLINE void ptx_cp_async_wait_group()
{
    model_wait(pending);
}

ATTUNE_INLINE void ptx_prefetch_global_l2(const void *)
{
}

ATTUNE_INLINE unsigned ptx_ld_shared_b32(unsigned shared)
{
    return *static_cast<const unsigned *>(model_shared(shared, 4));
}

ATTUNE_INLINE uint4 ptx_ld_shared_v4_b32(unsigned shared)
{
    return *static_cast<const uint4 *>(model_shared(shared, 16));
}

ATTUNE_INLINE void ptx_st_shared_b32(unsigned shared, unsigned x)
{
    *static_cast<unsigned *>(model_shared(shared, 4)) = x;
}

ATTUNE_INLINE unsigned ptx_ld_shared_u16(unsigned shared)
{
    return *static_cast<const unsigned short *>(model_shared(shared, 2));
}

/* ---- Matrices: lane l holds elements 2 (l % 4) and the next of row l / 4 of each 8x8 of them ---- */

/* Two bytes of what the lanes of a warp point to. */
ATTUNE_INLINE unsigned short element_at(const unsigned (&rows)[32], int matrix, int row, int column)
{
    return *static_cast<const unsigned short *>(model_shared(rows[matrix * 8 + row] + (unsigned)column * 2, 2));
}

template <bool transposed> ATTUNE_INLINE void load_matrices(unsigned (&x)[4], unsigned shared)
{
    unsigned rows[32];
    const int lane = (int)threadIdx.x % 32, row = lane / 4, column = lane % 4 * 2;
    (void)model_shared(shared, 16);
    model_warp(shared, rows);
    for (int i = 0; i < 4; ++i) {
        const unsigned low = transposed ? element_at(rows, i, column, row) : element_at(rows, i, row, column);
        const unsigned high = transposed ? element_at(rows, i, column + 1, row) : element_at(rows, i, row, column + 1);
        x[i] = high << 16 | low;
    }
}

ATTUNE_INLINE void ptx_ldmatrix_x4(unsigned (&x)[4], unsigned shared)
{
    load_matrices<false>(x, shared);
}

ATTUNE_INLINE void ptx_ldmatrix_x4_trans(unsigned (&x)[4], unsigned shared)
{
    load_matrices<true>(x, shared);
}

ATTUNE_INLINE unsigned ptx_movmatrix_trans(unsigned x)
{
    unsigned all[32];
    const int lane = (int)threadIdx.x % 32, row = lane / 4, column = lane % 4 * 2;
    model_warp(x, all);
    const unsigned low = all[column * 4 + row / 2] >> row % 2 * 16 & 0xffff;
    return low | (all[(column + 1) * 4 + row / 2] >> row % 2 * 16) << 16;
}

ATTUNE_INLINE float of_bf16(unsigned short x)
{
    return __uint_as_float((unsigned)x << 16);
}

/* The sums of a lane, of what all lanes of the warp bring. */
template <float (*of)(unsigned short)>
ATTUNE_INLINE void multiply_16x8x16(float *c, const unsigned (&a)[4], const unsigned (&b)[2])
{
    const unsigned own[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    unsigned all[6][32];
    const int lane = (int)threadIdx.x % 32;
    model_warp_many(own, all);
    for (int i = 0; i < 4; ++i) {
        const int row = lane / 4, half = i / 2, column = lane % 4 * 2 + i % 2;
        double sum = c[i];
        for (int k = 0; k < 16; ++k) {
            const int pair = k % 8 / 2;
            const unsigned left = all[half + k / 8 * 2][row * 4 + pair], right = all[4 + k / 8][column * 4 + pair];
            sum += (double)of((unsigned short)(left >> k % 2 * 16)) * of((unsigned short)(right >> k % 2 * 16));
        }
        c[i] = (float)sum;
    }
}

ATTUNE_INLINE void ptx_mma_m16n8k16_f16(float *c, const unsigned (&a)[4], const unsigned (&b)[2])
{
    multiply_16x8x16<ptx_cvt_f32_f16>(c, a, b);
}

ATTUNE_INLINE void ptx_mma_m16n8k16_bf16(float *c, const unsigned (&a)[4], const unsigned (&b)[2])
{
    multiply_16x8x16<of_bf16>(c, a, b);
}

/* ---- Bits ---- */

ATTUNE_INLINE unsigned ptx_bmsk_clamp(unsigned count)
{
    return count >= 32 ? ~0u : (1u << count) - 1;
}

/* ---- Places and barriers ---- */

ATTUNE_INLINE unsigned ptx_mov_tid_x()
{
    return threadIdx.x;
}

ATTUNE_INLINE unsigned ptx_mov_ctaid_x()
{
    return blockIdx.x;
}

ATTUNE_INLINE void ptx_mbarrier_init(unsigned barrier, unsigned arrivals)
{
    model_barrier_init(barrier, arrivals);
}

ATTUNE_INLINE void ptx_cp_async_ca_shared_global_4(unsigned shared, const void *global)
{
    model_copy(shared, global, 4, 4);
}

ATTUNE_INLINE void ptx_cp_async_mbarrier_arrive_noinc(unsigned barrier)
{
    model_barrier_arrive_behind_copies(barrier);
}

ATTUNE_INLINE void ptx_mbarrier_arrive(unsigned barrier)
{
    model_barrier_arrive(barrier);
}

ATTUNE_INLINE void ptx_barrier_sync(int id, int threads)
{
    model_barrier(id, threads);
}

ATTUNE_INLINE bool ptx_barrier_red_or_128(int id, bool says)
{
    return model_barrier_count(id, 128, says) != 0;
}

ATTUNE_INLINE void ptx_barrier_arrive(int id, int threads)
{
    model_barrier_pass(id, threads);
}

ATTUNE_INLINE void ptx_st_shared_v2_b32(unsigned shared, unsigned x, unsigned y)
{
    unsigned *to = static_cast<unsigned *>(model_shared(shared, 8));
    to[0] = x;
    to[1] = y;
}

ATTUNE_INLINE void ptx_barrier_sync_aligned(int id, int threads)
{
    model_barrier(id, threads);
}

#endif
