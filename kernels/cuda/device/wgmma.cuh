/* Products of a warp group (sm_90a): D[64][n] += A[64][16] B[16][n], operands from shared memory or A from registers,
 * sums in fp32 registers. One PTX instruction a wrapper.
 *
 * Sums: lane l of warp w holds rows 16 w + l / 4 (d[4 i], d[4 i + 1]) and 8 below (d[4 i + 2], d[4 i + 3]), columns
 * 8 i + 2 (l % 4) and the next. A from registers lies likewise, 16 columns a step: four registers of two elements, so
 * that sums of one product become the A of the next without leaving their lane (sums_as_a64).
 *
 * Between touching registers of a product and issuing it: ptx_wgmma_fence. Between issuing and reading D:
 * ptx_wgmma_wait_group. No register of a product in flight may be read or written; register_fence keeps the compiler
 * from moving what it sees as independent. */
#ifndef DEVICE_WGMMA_CUH
#define DEVICE_WGMMA_CUH

#include "device/element.cuh"

/* ---- Where operands lie ---- */

/* Tiles as the copy engine writes them with boxes of 64 elements by `rows` and the 128-byte swizzle: chunks of 64
 * columns, each `rows` lines of 128 bytes, one behind the other, beginning at a multiple of 1,024 bytes.
 *
 * A descriptor: address / 16 in bits 0 to 13, leading offset / 16 from bit 16, stride offset / 16 from bit 32, swizzle
 * from bit 62 (1: 128 bytes). Eight lines, 1,024 bytes, are the unit that the swizzle repeats. */
constexpr attune_u64 WGMMA_SWIZZLE_128B = 1ull << 62;

ATTUNE_INLINE constexpr attune_u64 wgmma_descriptor_bits(unsigned leading_bytes, unsigned stride_bytes)
{
    return WGMMA_SWIZZLE_128B | (attune_u64)(stride_bytes >> 4) << 32 | (attune_u64)(leading_bytes >> 4) << 16;
}

/* Operand whose k runs along the columns: Q, K. Step 16 of k with wgmma_step_k. The leading offset is not used. */
ATTUNE_INLINE attune_u64 wgmma_descriptor_k(unsigned shared)
{
    return wgmma_descriptor_bits(16, 1024) | (shared >> 4 & 0x3fff);
}

/* B whose k runs down the rows: V. Columns beyond 64 are found `chunk_bytes` = rows * 128 further on, so that one
 * product spans chunks. Sixteen rows further: + 16 * 128 bytes, 128 in the descriptor. */
ATTUNE_INLINE attune_u64 wgmma_descriptor_mn(unsigned shared, unsigned chunk_bytes)
{
    return wgmma_descriptor_bits(chunk_bytes, 1024) | (shared >> 4 & 0x3fff);
}

/* A descriptor whose lower half, the address / 16 and from bit 16 on the leading offset / 16, is a number in 32 bits.
 */
ATTUNE_INLINE attune_u64 wgmma_descriptor(unsigned low)
{
    return (wgmma_descriptor_bits(0, 1024) & ~0xffffffffull) | low;
}

/* What to add to the descriptor of an operand along k for columns 16 step ... of a tile of `rows` rows. */
template <int rows> ATTUNE_INLINE constexpr unsigned wgmma_step_k(int step)
{
    return (unsigned)(step / 4 * rows * 128 + step % 4 * 32) >> 4;
}

template <int rows> ATTUNE_INLINE constexpr unsigned wgmma_step_mn(int step)
{
    return (unsigned)(step * 16 * 128) >> 4;
}

/* ---- Order ---- */

ATTUNE_INLINE void ptx_wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

ATTUNE_INLINE void ptx_wgmma_commit_group()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Until at most `pending` of the latest groups are in flight. */
template <int pending> ATTUNE_INLINE void ptx_wgmma_wait_group()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

/* The compiler must have, and keep, these registers as they are here. No instruction. */
template <int count> ATTUNE_INLINE void register_fence(float (&x)[count])
{
#pragma unroll
    for (int i = 0; i < count; ++i) {
        asm volatile("" : "+f"(x[i])::"memory");
    }
}

template <int count> ATTUNE_INLINE void register_fence(unsigned (&x)[count])
{
#pragma unroll
    for (int i = 0; i < count; ++i) {
        asm volatile("" : "+r"(x[i])::"memory");
    }
}

/* ---- Products ---- */

#if ATTUNE_DTYPE == 1
#define WGMMA_TYPES "f32.f16.f16"
#else
#define WGMMA_TYPES "f32.bf16.bf16"
#endif

/* The first n quads of sums, as operands of the statement and as their numbers in its text. */
#define WGMMA_D1 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define WGMMA_D2 WGMMA_D1, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define WGMMA_D3 WGMMA_D2, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define WGMMA_D4 WGMMA_D3, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define WGMMA_D5 WGMMA_D4, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define WGMMA_D6 WGMMA_D5, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define WGMMA_D7 WGMMA_D6, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define WGMMA_D8 WGMMA_D7, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define WGMMA_D9 WGMMA_D8, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define WGMMA_D10 WGMMA_D9, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define WGMMA_D11 WGMMA_D10, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define WGMMA_D12 WGMMA_D11, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define WGMMA_D13 WGMMA_D12, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define WGMMA_D14 WGMMA_D13, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define WGMMA_D15 WGMMA_D14, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define WGMMA_D16 WGMMA_D15, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define WGMMA_D17 WGMMA_D16, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define WGMMA_D18 WGMMA_D17, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define WGMMA_D19 WGMMA_D18, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define WGMMA_D20 WGMMA_D19, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define WGMMA_D21 WGMMA_D20, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define WGMMA_D22 WGMMA_D21, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define WGMMA_D23 WGMMA_D22, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define WGMMA_D24 WGMMA_D23, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define WGMMA_D25 WGMMA_D24, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define WGMMA_D26 WGMMA_D25, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define WGMMA_D27 WGMMA_D26, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define WGMMA_D28 WGMMA_D27, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define WGMMA_D29 WGMMA_D28, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define WGMMA_D30 WGMMA_D29, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define WGMMA_D31 WGMMA_D30, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define WGMMA_D32 WGMMA_D31, "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
#define WGMMA_T1 "%0, %1, %2, %3"
#define WGMMA_T2 WGMMA_T1 ", %4, %5, %6, %7"
#define WGMMA_T3 WGMMA_T2 ", %8, %9, %10, %11"
#define WGMMA_T4 WGMMA_T3 ", %12, %13, %14, %15"
#define WGMMA_T5 WGMMA_T4 ", %16, %17, %18, %19"
#define WGMMA_T6 WGMMA_T5 ", %20, %21, %22, %23"
#define WGMMA_T7 WGMMA_T6 ", %24, %25, %26, %27"
#define WGMMA_T8 WGMMA_T7 ", %28, %29, %30, %31"
#define WGMMA_T9 WGMMA_T8 ", %32, %33, %34, %35"
#define WGMMA_T10 WGMMA_T9 ", %36, %37, %38, %39"
#define WGMMA_T11 WGMMA_T10 ", %40, %41, %42, %43"
#define WGMMA_T12 WGMMA_T11 ", %44, %45, %46, %47"
#define WGMMA_T13 WGMMA_T12 ", %48, %49, %50, %51"
#define WGMMA_T14 WGMMA_T13 ", %52, %53, %54, %55"
#define WGMMA_T15 WGMMA_T14 ", %56, %57, %58, %59"
#define WGMMA_T16 WGMMA_T15 ", %60, %61, %62, %63"
#define WGMMA_T17 WGMMA_T16 ", %64, %65, %66, %67"
#define WGMMA_T18 WGMMA_T17 ", %68, %69, %70, %71"
#define WGMMA_T19 WGMMA_T18 ", %72, %73, %74, %75"
#define WGMMA_T20 WGMMA_T19 ", %76, %77, %78, %79"
#define WGMMA_T21 WGMMA_T20 ", %80, %81, %82, %83"
#define WGMMA_T22 WGMMA_T21 ", %84, %85, %86, %87"
#define WGMMA_T23 WGMMA_T22 ", %88, %89, %90, %91"
#define WGMMA_T24 WGMMA_T23 ", %92, %93, %94, %95"
#define WGMMA_T25 WGMMA_T24 ", %96, %97, %98, %99"
#define WGMMA_T26 WGMMA_T25 ", %100, %101, %102, %103"
#define WGMMA_T27 WGMMA_T26 ", %104, %105, %106, %107"
#define WGMMA_T28 WGMMA_T27 ", %108, %109, %110, %111"
#define WGMMA_T29 WGMMA_T28 ", %112, %113, %114, %115"
#define WGMMA_T30 WGMMA_T29 ", %116, %117, %118, %119"
#define WGMMA_T31 WGMMA_T30 ", %120, %121, %122, %123"
#define WGMMA_T32 WGMMA_T31 ", %124, %125, %126, %127"

/* wgmma_shape<n>: ss takes descriptors of A and B, rs four registers and a descriptor. accumulate 0 ignores what D
 * held. transposed_b 1: B's k runs down the rows. e ... k number the operands behind the sums. */
template <int n> struct wgmma_shape;

#define WGMMA_SHAPE(n, quads, e, f, g, h, i, j, k)                                                                     \
    template <> struct wgmma_shape<n> {                                                                                \
        template <int transposed_b>                                                                                    \
        static __device__ __forceinline__ void ss(float (&d)[n / 2], attune_u64 a, attune_u64 b, int accumulate)       \
        {                                                                                                              \
            asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %" #g ", 0;\n wgmma.mma_async.sync.aligned.m64n" #n       \
                         "k16." WGMMA_TYPES " {" WGMMA_T##quads "}, %" #e ", %" #f ", p, 1, 1, 0, %" #h ";\n}"         \
                         : WGMMA_D##quads                                                                              \
                         : "l"(a), "l"(b), "r"(accumulate), "n"(transposed_b));                                        \
        }                                                                                                              \
        template <int transposed_b>                                                                                    \
        static __device__ __forceinline__ void rs(float (&d)[n / 2], const unsigned (&a)[4], attune_u64 b,             \
                                                  int accumulate)                                                      \
        {                                                                                                              \
            asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %" #j ", 0;\n wgmma.mma_async.sync.aligned.m64n" #n       \
                         "k16." WGMMA_TYPES " {" WGMMA_T##quads "}, {%" #e ", %" #f ", %" #g ", %" #h "}, %" #i        \
                                                                ", p, 1, 1, %" #k ";\n}"                               \
                         : WGMMA_D##quads                                                                              \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(transposed_b));    \
        }                                                                                                              \
    };

WGMMA_SHAPE(8, 1, 4, 5, 6, 7, 8, 9, 10)
WGMMA_SHAPE(16, 2, 8, 9, 10, 11, 12, 13, 14)
WGMMA_SHAPE(24, 3, 12, 13, 14, 15, 16, 17, 18)
WGMMA_SHAPE(32, 4, 16, 17, 18, 19, 20, 21, 22)
WGMMA_SHAPE(40, 5, 20, 21, 22, 23, 24, 25, 26)
WGMMA_SHAPE(48, 6, 24, 25, 26, 27, 28, 29, 30)
WGMMA_SHAPE(56, 7, 28, 29, 30, 31, 32, 33, 34)
WGMMA_SHAPE(64, 8, 32, 33, 34, 35, 36, 37, 38)
WGMMA_SHAPE(72, 9, 36, 37, 38, 39, 40, 41, 42)
WGMMA_SHAPE(80, 10, 40, 41, 42, 43, 44, 45, 46)
WGMMA_SHAPE(88, 11, 44, 45, 46, 47, 48, 49, 50)
WGMMA_SHAPE(96, 12, 48, 49, 50, 51, 52, 53, 54)
WGMMA_SHAPE(104, 13, 52, 53, 54, 55, 56, 57, 58)
WGMMA_SHAPE(112, 14, 56, 57, 58, 59, 60, 61, 62)
WGMMA_SHAPE(120, 15, 60, 61, 62, 63, 64, 65, 66)
WGMMA_SHAPE(128, 16, 64, 65, 66, 67, 68, 69, 70)
WGMMA_SHAPE(136, 17, 68, 69, 70, 71, 72, 73, 74)
WGMMA_SHAPE(144, 18, 72, 73, 74, 75, 76, 77, 78)
WGMMA_SHAPE(152, 19, 76, 77, 78, 79, 80, 81, 82)
WGMMA_SHAPE(160, 20, 80, 81, 82, 83, 84, 85, 86)
WGMMA_SHAPE(168, 21, 84, 85, 86, 87, 88, 89, 90)
WGMMA_SHAPE(176, 22, 88, 89, 90, 91, 92, 93, 94)
WGMMA_SHAPE(184, 23, 92, 93, 94, 95, 96, 97, 98)
WGMMA_SHAPE(192, 24, 96, 97, 98, 99, 100, 101, 102)
WGMMA_SHAPE(200, 25, 100, 101, 102, 103, 104, 105, 106)
WGMMA_SHAPE(208, 26, 104, 105, 106, 107, 108, 109, 110)
WGMMA_SHAPE(216, 27, 108, 109, 110, 111, 112, 113, 114)
WGMMA_SHAPE(224, 28, 112, 113, 114, 115, 116, 117, 118)
WGMMA_SHAPE(232, 29, 116, 117, 118, 119, 120, 121, 122)
WGMMA_SHAPE(240, 30, 120, 121, 122, 123, 124, 125, 126)
WGMMA_SHAPE(248, 31, 124, 125, 126, 127, 128, 129, 130)
WGMMA_SHAPE(256, 32, 128, 129, 130, 131, 132, 133, 134)

/* ---- Sums as operands, and out again ---- */

/* Sixteen columns of sums as A: the weights of a step of P V. */
ATTUNE_INLINE void sums_as_a64(unsigned (&a)[4], const float *s)
{
    a[0] = pack_two(s[0], s[1]);
    a[1] = pack_two(s[2], s[3]);
    a[2] = pack_two(s[4], s[5]);
    a[3] = pack_two(s[6], s[7]);
}

/* Four 8x8 matrices of 16-bit elements into shared memory; lane 8 i + r gives the address of row r of matrix i. */
ATTUNE_INLINE void ptx_stmatrix_x4(unsigned shared, const unsigned (&x)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(x[0]), "r"(x[1]),
                 "r"(x[2]), "r"(x[3])
                 : "memory");
}

ATTUNE_INLINE void ptx_stmatrix_x2(unsigned shared, const unsigned (&x)[2])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(shared), "r"(x[0]), "r"(x[1])
                 : "memory");
}

#endif
