/* Fragments of the wmma instructions, without the toolkit's mma.h: FRAGMENT_M x FRAGMENT_N x 16, 16x16, 8x32 or 32x8.
 * A warp owns a fragment; which lane holds which element is the hardware's secret, and nothing here needs to know it.
 *
 * With TENSOR_CORES 0 the same names compute the same sums in scalar arithmetic: operands are places in shared memory,
 * and element i of lane l is number 32 i + l of the fragment, row by row.
 *
 * With ATTUNE_ACC16 1 sums are carried in fp16 (operands in fp16 only). */
#ifndef DEVICE_FRAGMENT_CUH
#define DEVICE_FRAGMENT_CUH

#include "device/element.cuh"

#ifndef ATTUNE_ACC16
#define ATTUNE_ACC16 0
#endif

#if FRAGMENT_M == 16
constexpr int FRAGMENT_N = 16;
#define WMMA_SHAPE "m16n16k16"
#elif FRAGMENT_M == 8
constexpr int FRAGMENT_N = 32;
#define WMMA_SHAPE "m8n32k16"
#elif FRAGMENT_M == 32
constexpr int FRAGMENT_N = 8;
#define WMMA_SHAPE "m32n8k16"
#else
#error "FRAGMENT_M: 8, 16 or 32"
#endif
constexpr int FRAGMENT_K = 16;

/* A fragment's place in shared memory: its first element, and the elements from row to row. */
struct place {
    const element *first;
    int pitch;
};

#if TENSOR_CORES

/* NOTE: wmma operands of fp16 take 8 registers whatever the shape, those of bf16 as many as their elements fill. */
constexpr int registers_a = ATTUNE_DTYPE == 1 ? 8 : FRAGMENT_M * FRAGMENT_K / 64;
constexpr int registers_b = ATTUNE_DTYPE == 1 ? 8 : FRAGMENT_N * FRAGMENT_K / 64;
constexpr int registers_c = ATTUNE_ACC16 ? 4 : 8;

struct operand_a {
    unsigned x[registers_a];
};
struct operand_b {
    unsigned x[registers_b];
};
/* Sums: floats, or pairs of fp16. */
struct accumulator {
    unsigned x[registers_c];
};

#if ATTUNE_DTYPE == 1
#define WMMA_TYPE "f16"
#if ATTUNE_ACC16
#define WMMA_MMA_TYPES ".f16.f16"
#define WMMA_SUM "f16"
#else
#define WMMA_MMA_TYPES ".f32.f32"
#define WMMA_SUM "f32"
#endif
#else
#define WMMA_TYPE "bf16"
#define WMMA_MMA_TYPES ".f32.bf16.bf16.f32"
#define WMMA_SUM "f32"
#endif

/* One asm statement needs its registers spelt out; LISTn names n of them from %first on. */
#define OUT2(x) "=r"((x)[0]), "=r"((x)[1])
#define OUT4(x) OUT2(x), "=r"((x)[2]), "=r"((x)[3])
#define OUT8(x) OUT4(x), "=r"((x)[4]), "=r"((x)[5]), "=r"((x)[6]), "=r"((x)[7])
#define IN2(x) "r"((x)[0]), "r"((x)[1])
#define IN4(x) IN2(x), "r"((x)[2]), "r"((x)[3])
#define IN8(x) IN4(x), "r"((x)[4]), "r"((x)[5]), "r"((x)[6]), "r"((x)[7])
#define INOUT4(x) "+r"((x)[0]), "+r"((x)[1]), "+r"((x)[2]), "+r"((x)[3])
#define INOUT8(x) INOUT4(x), "+r"((x)[4]), "+r"((x)[5]), "+r"((x)[6]), "+r"((x)[7])

/* `place` lies in shared memory; `pitch` is a multiple of 16 bytes and `first` of 32. */
template <class T> ATTUNE_INLINE void wmma_load_a(T &a, place from)
{
#define WMMA_LOAD_A "wmma.load.a.sync.aligned.row." WMMA_SHAPE ".shared." WMMA_TYPE
    unsigned at = ptx_cvta_shared(from.first);
    if constexpr (sizeof(T) == 32) {
        asm volatile(WMMA_LOAD_A " {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;" : OUT8(a.x) : "r"(at), "r"(from.pitch));
    } else if constexpr (sizeof(T) == 16) {
        asm volatile(WMMA_LOAD_A " {%0,%1,%2,%3}, [%4], %5;" : OUT4(a.x) : "r"(at), "r"(from.pitch));
    } else {
        asm volatile(WMMA_LOAD_A " {%0,%1}, [%2], %3;" : OUT2(a.x) : "r"(at), "r"(from.pitch));
    }
}

/* `transposed`: rows in memory are columns of B, as K's are in Q K^T. */
template <bool transposed, class T> ATTUNE_INLINE void wmma_load_b(T &b, place from)
{
#define WMMA_LOAD_B(layout) "wmma.load.b.sync.aligned." layout "." WMMA_SHAPE ".shared." WMMA_TYPE
#define WMMA_LOAD_B_AS(layout)                                                                                         \
    if constexpr (sizeof(T) == 32) {                                                                                   \
        asm volatile(WMMA_LOAD_B(layout) " {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"                                       \
                     : OUT8(b.x)                                                                                       \
                     : "r"(at), "r"(from.pitch));                                                                      \
    } else if constexpr (sizeof(T) == 16) {                                                                            \
        asm volatile(WMMA_LOAD_B(layout) " {%0,%1,%2,%3}, [%4], %5;" : OUT4(b.x) : "r"(at), "r"(from.pitch));          \
    } else {                                                                                                           \
        asm volatile(WMMA_LOAD_B(layout) " {%0,%1}, [%2], %3;" : OUT2(b.x) : "r"(at), "r"(from.pitch));                \
    }
    unsigned at = ptx_cvta_shared(from.first);
    if constexpr (transposed) {
        WMMA_LOAD_B_AS("col")
    } else {
        WMMA_LOAD_B_AS("row")
    }
}

/* c += a b. The layout letters are those that b was loaded with. */
template <bool transposed, class A, class B> ATTUNE_INLINE void wmma_mma(accumulator &c, const A &a, const B &b)
{
#define WMMA_MMA(layout) "wmma.mma.sync.aligned.row." layout "." WMMA_SHAPE WMMA_MMA_TYPES
#define WMMA_MMA_AS(layout)                                                                                            \
    if constexpr (ATTUNE_ACC16) {                                                                                      \
        asm volatile(WMMA_MMA(layout) " {%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, "                                  \
                                      "{%12,%13,%14,%15,%16,%17,%18,%19}, {%0,%1,%2,%3};"                              \
                     : INOUT4(c.x)                                                                                     \
                     : IN8(a.x), IN8(b.x));                                                                            \
    } else if constexpr (sizeof(A) == 32 && sizeof(B) == 32) {                                                         \
        asm volatile(WMMA_MMA(layout) " {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11,%12,%13,%14,%15}, "                  \
                                      "{%16,%17,%18,%19,%20,%21,%22,%23}, {%0,%1,%2,%3,%4,%5,%6,%7};"                  \
                     : INOUT8(c.x)                                                                                     \
                     : IN8(a.x), IN8(b.x));                                                                            \
    } else if constexpr (sizeof(A) == 16) {                                                                            \
        asm volatile(WMMA_MMA(layout) " {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11}, {%12,%13,%14,%15}, "               \
                                      "{%0,%1,%2,%3,%4,%5,%6,%7};"                                                     \
                     : INOUT8(c.x)                                                                                     \
                     : IN4(a.x), IN4(b.x));                                                                            \
    } else if constexpr (sizeof(A) == 8) {                                                                             \
        asm volatile(WMMA_MMA(layout) " {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13,%14,%15,%16,%17}, "       \
                                      "{%0,%1,%2,%3,%4,%5,%6,%7};"                                                     \
                     : INOUT8(c.x)                                                                                     \
                     : IN2(a.x), IN8(b.x));                                                                            \
    } else {                                                                                                           \
        asm volatile(WMMA_MMA(layout) " {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17}, "       \
                                      "{%0,%1,%2,%3,%4,%5,%6,%7};"                                                     \
                     : INOUT8(c.x)                                                                                     \
                     : IN8(a.x), IN2(b.x));                                                                            \
    }
    if constexpr (transposed) {
        WMMA_MMA_AS("col")
    } else {
        WMMA_MMA_AS("row")
    }
}

ATTUNE_INLINE void fragment_clear(accumulator &c)
{
#pragma unroll
    for (int i = 0; i < registers_c; ++i) {
        c.x[i] = 0;
    }
}

/* Row by row into shared memory; `pitch` in sums (floats, or fp16 with ATTUNE_ACC16). */
ATTUNE_INLINE void fragment_store(const accumulator &c, void *to, int pitch)
{
#define WMMA_STORE "wmma.store.d.sync.aligned.row." WMMA_SHAPE ".shared." WMMA_SUM
    unsigned at = ptx_cvta_shared(to);
    if constexpr (ATTUNE_ACC16) {
        asm volatile(WMMA_STORE " [%0], {%1,%2,%3,%4}, %5;" ::"r"(at), IN4(c.x), "r"(pitch) : "memory");
    } else {
        asm volatile(WMMA_STORE " [%0], {%1,%2,%3,%4,%5,%6,%7,%8}, %9;" ::"r"(at), "r"(c.x[0]), "r"(c.x[1]),
                     "r"(c.x[2]), "r"(c.x[3]), "r"(c.x[4]), "r"(c.x[5]), "r"(c.x[6]), "r"(c.x[7]), "r"(pitch)
                     : "memory");
    }
}

/* A factor for each row, in the elements' places: a column-by-column load whose columns all begin at the same place. */
struct row_factors {
    accumulator f;
};

/* `from`: FRAGMENT_M sums in shared memory. */
ATTUNE_INLINE void fragment_load_factors(row_factors &rows, const void *from)
{
#define WMMA_LOAD_C "wmma.load.c.sync.aligned.col." WMMA_SHAPE ".shared." WMMA_SUM
    unsigned at = ptx_cvta_shared(from);
    if constexpr (ATTUNE_ACC16) {
        asm volatile(WMMA_LOAD_C " {%0,%1,%2,%3}, [%4], %5;" : OUT4(rows.f.x) : "r"(at), "r"(0) : "memory");
    } else {
        asm volatile(WMMA_LOAD_C " {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
                     : "=r"(rows.f.x[0]), "=r"(rows.f.x[1]), "=r"(rows.f.x[2]), "=r"(rows.f.x[3]), "=r"(rows.f.x[4]),
                       "=r"(rows.f.x[5]), "=r"(rows.f.x[6]), "=r"(rows.f.x[7])
                     : "r"(at), "r"(0)
                     : "memory");
    }
}

ATTUNE_INLINE void fragment_scale(accumulator &c, const row_factors &rows)
{
#pragma unroll
    for (int i = 0; i < registers_c; ++i) {
        if constexpr (ATTUNE_ACC16) {
            c.x[i] = ptx_mul_f16x2(c.x[i], rows.f.x[i]);
        } else {
            c.x[i] = __float_as_uint(__uint_as_float(c.x[i]) * __uint_as_float(rows.f.x[i]));
        }
    }
}

/* c += A B for one step of FRAGMENT_K, operands where they lie. */
template <int count, bool transposed>
ATTUNE_INLINE void fragment_multiply(accumulator (&c)[count], place a, place b, int step_b)
{
    operand_a left;
    wmma_load_a(left, a);
#pragma unroll
    for (int n = 0; n < count; ++n) {
        operand_b right;
        wmma_load_b<transposed>(right, place{b.first + n * step_b, b.pitch});
        wmma_mma<transposed>(c[n], left, right);
    }
}

#else /* scalar */

constexpr int registers_c = FRAGMENT_M * FRAGMENT_N / 32;

struct accumulator {
    float x[registers_c];
};

struct row_factors {
    const float *from;
};

ATTUNE_INLINE void fragment_clear(accumulator &c)
{
#pragma unroll
    for (int i = 0; i < registers_c; ++i) {
        c.x[i] = 0;
    }
}

ATTUNE_INLINE int fragment_index(int i)
{
    return i * 32 + (int)threadIdx.x % 32;
}

ATTUNE_INLINE void fragment_store(const accumulator &c, float *to, int pitch)
{
#pragma unroll
    for (int i = 0; i < registers_c; ++i) {
        to[fragment_index(i) / FRAGMENT_N * pitch + fragment_index(i) % FRAGMENT_N] = c.x[i];
    }
}

ATTUNE_INLINE void fragment_load_factors(row_factors &rows, const float *from)
{
    rows.from = from;
}

ATTUNE_INLINE void fragment_scale(accumulator &c, const row_factors &rows)
{
#pragma unroll
    for (int i = 0; i < registers_c; ++i) {
        c.x[i] *= rows.from[fragment_index(i) / FRAGMENT_N];
    }
}

template <int count, bool transposed>
ATTUNE_INLINE void fragment_multiply(accumulator (&c)[count], place a, place b, int step_b)
{
#pragma unroll
    for (int n = 0; n < count; ++n) {
        const element *from = b.first + n * step_b;
#pragma unroll
        for (int i = 0; i < registers_c; ++i) {
            int row = fragment_index(i) / FRAGMENT_N, column = fragment_index(i) % FRAGMENT_N;
#pragma unroll 4
            for (int k = 0; k < FRAGMENT_K; ++k) {
                float right = to_float(from[transposed ? column * b.pitch + k : k * b.pitch + column]);
                c[n].x[i] = fmaf(to_float(a.first[row * a.pitch + k]), right, c[n].x[i]);
            }
        }
    }
}

#endif

#endif
