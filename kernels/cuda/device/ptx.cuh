/* One PTX instruction a wrapper, named after the instruction. Nothing here decides anything. */
#ifndef DEVICE_PTX_CUH
#define DEVICE_PTX_CUH

#include "attune/args.h"

#define ATTUNE_INLINE static __device__ __forceinline__

/* ---- Arithmetic ---- */

/* 2^x, relative error 2^-22, subnormal results flushed to 0; 2^-inf = 0. */
ATTUNE_INLINE float ptx_ex2_approx_ftz_f32(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 1 / x, relative error 2^-23; 1 / 0 = inf. */
ATTUNE_INLINE float ptx_rcp_approx_ftz_f32(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* log2 x, absolute error 2^-22 near 1; lg2 0 = -inf. */
ATTUNE_INLINE float ptx_lg2_approx_ftz_f32(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* ---- Conversion ---- */

ATTUNE_INLINE float ptx_cvt_f32_f16(unsigned short x)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}

ATTUNE_INLINE unsigned short ptx_cvt_rn_f16_f32(float x)
{
    unsigned short y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

ATTUNE_INLINE unsigned short ptx_cvt_rn_bf16_f32(float x)
{
    unsigned short y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

/* Two values in one register; `low` lands in bits 0 to 15. */
ATTUNE_INLINE unsigned ptx_cvt_rn_f16x2_f32(float high, float low)
{
    unsigned y;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

ATTUNE_INLINE unsigned ptx_cvt_rn_bf16x2_f32(float high, float low)
{
    unsigned y;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

/* Products of two pairs of fp16. */
ATTUNE_INLINE unsigned ptx_mul_f16x2(unsigned x, unsigned y)
{
    unsigned z;
    asm("mul.f16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
    return z;
}

/* x y + z of two pairs. */
ATTUNE_INLINE unsigned ptx_fma_rn_f16x2(unsigned x, unsigned y, unsigned z)
{
    unsigned sum;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(x), "r"(y), "r"(z));
    return sum;
}

ATTUNE_INLINE unsigned ptx_fma_rn_bf16x2(unsigned x, unsigned y, unsigned z)
{
    unsigned sum;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(x), "r"(y), "r"(z));
    return sum;
}

/* ---- Asynchronous copies, global to shared (sm_80) ---- */

ATTUNE_INLINE unsigned ptx_cvta_shared(const void *generic)
{
    return (unsigned)__cvta_generic_to_shared(generic);
}

/* 16 bytes past L1; bytes beyond `bytes` (0 to 16) are not read but zero-filled. Both addresses are multiples of 16. */
ATTUNE_INLINE void ptx_cp_async_cg_shared_global_16(unsigned shared, const void *global, unsigned bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}

ATTUNE_INLINE void ptx_cp_async_ca_shared_global_4(unsigned shared, const void *global)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(global) : "memory");
}

ATTUNE_INLINE void ptx_cp_async_commit_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most `pending` of this thread's latest groups are in flight. */
template <int pending> ATTUNE_INLINE void ptx_cp_async_wait_group()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/* Has L2 fetch the line. */
ATTUNE_INLINE void ptx_prefetch_global_l2(const void *global)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(global));
}

/* ---- Loads from and stores to shared memory ---- */

ATTUNE_INLINE unsigned ptx_ld_shared_b32(unsigned shared)
{
    unsigned x;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(shared) : "memory");
    return x;
}

ATTUNE_INLINE uint4 ptx_ld_shared_v4_b32(unsigned shared)
{
    uint4 x;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "r"(shared)
                 : "memory");
    return x;
}

ATTUNE_INLINE void ptx_st_shared_b32(unsigned shared, unsigned x)
{
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared), "r"(x) : "memory");
}

ATTUNE_INLINE unsigned ptx_ld_shared_u16(unsigned shared)
{
    unsigned short x;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(x) : "r"(shared) : "memory");
    return x;
}

ATTUNE_INLINE void ptx_st_shared_v2_b32(unsigned shared, unsigned x, unsigned y)
{
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(shared), "r"(x), "r"(y) : "memory");
}

/* ---- Barriers in shared memory (sm_80) ---- */

/* `count` arrivals complete a phase. */
ATTUNE_INLINE void ptx_mbarrier_init(unsigned barrier, unsigned count)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

ATTUNE_INLINE void ptx_mbarrier_arrive(unsigned barrier)
{
    asm volatile("{\n .reg .b64 state;\n mbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(barrier) : "memory");
}

/* Arrives once all of this thread's cp.async so far have landed; the arrival was counted by init. */
ATTUNE_INLINE void ptx_cp_async_mbarrier_arrive_noinc(unsigned barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

/* Whether the phase of this parity has completed. */
ATTUNE_INLINE bool ptx_mbarrier_test_wait_parity(unsigned barrier, unsigned parity)
{
    unsigned done;
    asm volatile("{\n .reg .pred p;\n mbarrier.test_wait.parity.shared.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return done != 0;
}

/* ---- Matrices from shared memory ---- */

/* Four 8x8 matrices of 16-bit elements; lane 8 i + r gives the address of row r of matrix i. */
ATTUNE_INLINE void ptx_ldmatrix_x4(unsigned (&x)[4], unsigned shared)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared)
                 : "memory");
}

ATTUNE_INLINE void ptx_ldmatrix_x4_trans(unsigned (&x)[4], unsigned shared)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared)
                 : "memory");
}

/* 8x8 elements of 16 bits, as ldmatrix leaves them, with rows and columns exchanged. */
ATTUNE_INLINE unsigned ptx_movmatrix_trans(unsigned x)
{
    unsigned turned;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(x));
    return turned;
}

/* ---- Products of matrices in a warp's registers (sm_80) ---- */

/* c[16][8] += a[16][16] b[16][8], of 16-bit elements; c is four registers. */
ATTUNE_INLINE void ptx_mma_m16n8k16_f16(float *c, const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

ATTUNE_INLINE void ptx_mma_m16n8k16_bf16(float *c, const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* ---- Bits ---- */

/* The lowest `count` bits, all of them from 32 on. */
ATTUNE_INLINE unsigned ptx_bmsk_clamp(unsigned count)
{
    unsigned bits;
    asm("bmsk.clamp.b32 %0, 0, %1;" : "=r"(bits) : "r"(count));
    return bits;
}

/* ---- Special registers ---- */

/* threadIdx.x, read anew each time: what is computed from it is not kept in registers from one use to the next. */
ATTUNE_INLINE unsigned ptx_mov_tid_x()
{
    unsigned x;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
    return x;
}

/* blockIdx.x likewise. */
ATTUNE_INLINE unsigned ptx_mov_ctaid_x()
{
    unsigned x;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(x));
    return x;
}

/* ---- Named barriers ---- */

ATTUNE_INLINE void ptx_barrier_sync(int id, int threads)
{
    asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* The same where all threads of a warp are sure to come here together. */
ATTUNE_INLINE void ptx_barrier_sync_aligned(int id, int threads)
{
    asm volatile("barrier.sync.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

ATTUNE_INLINE void ptx_barrier_arrive(int id, int threads)
{
    asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* 128 threads meet; whether any of them says so. */
ATTUNE_INLINE bool ptx_barrier_red_or_128(int id, bool says)
{
    int any;
    asm volatile("{\n.reg .pred mine, any;\nsetp.ne.s32 mine, %1, 0;\n"
                 "barrier.cta.red.or.pred any, %2, 128, mine;\nselp.s32 %0, 1, 0, any;\n}"
                 : "=r"(any)
                 : "r"((int)says), "r"(id)
                 : "memory");
    return any != 0;
}

/* Sleeps for so many nanoseconds, more or less. */
ATTUNE_INLINE void ptx_nanosleep(unsigned ns)
{
    asm volatile("nanosleep.u32 %0;" ::"r"(ns));
}

#endif
