/* Products of kernels/cuda/device/wgmma.cuh as a CPU computes them, at once: operands of 16 bits at swizzled places,
 * sums cut off as the plainest tensor core does it. Waiting is the group's, as on the device. */
#ifndef DEVICE_WGMMA_CUH
#define DEVICE_WGMMA_CUH

#include "device/element.cuh"

ATTUNE_INLINE attune_u64 wgmma_descriptor(unsigned low)
{
    return (1ull << 62) | (1024ull >> 4 << 32) | low;
}

template <int rows> ATTUNE_INLINE constexpr unsigned wgmma_step_k(int step)
{
    return (unsigned)(step / 4 * rows * 128 + step % 4 * 32) >> 4;
}

template <int rows> ATTUNE_INLINE constexpr unsigned wgmma_step_mn(int step)
{
    return (unsigned)(step * 16 * 128) >> 4;
}

ATTUNE_INLINE void ptx_wgmma_fence()
{
}

ATTUNE_INLINE void ptx_wgmma_commit_group()
{
}

template <int pending> ATTUNE_INLINE void ptx_wgmma_wait_group()
{
    model_group();
}

template <class T> ATTUNE_INLINE void register_fence(T &)
{
}

/* An operand's type is fp16 or bf16, whatever the tensors'. */
ATTUNE_INLINE float of_operand(unsigned short x)
{
    return ATTUNE_DTYPE == 1 ? ptx_cvt_f32_f16(x) : of_bf16(x);
}

/* The element at `row` of eight-row units and column `column` of 64, of an operand of lines of 128 bytes. */
ATTUNE_INLINE float swizzled_operand(unsigned base, unsigned row, unsigned column)
{
    const unsigned plain = base + row / 8 * 1024 + row % 8 * 128 + column * 2, at = plain ^ (plain >> 7 & 7) << 4;
    return of_operand(*static_cast<const unsigned short *>(model_shared(at, 2)));
}

/* B of k and n: along the columns, or down the rows with 64 columns every so many bytes. */
template <int transposed_b> ATTUNE_INLINE float wgmma_b(attune_u64 b, int k, int n)
{
    const unsigned base = (unsigned)(b & 0x3fff) * 16, leading = (unsigned)(b >> 16 & 0x3fff) * 16;
    return transposed_b ? swizzled_operand(base + (unsigned)(n / 64) * leading, (unsigned)k, (unsigned)n % 64)
                        : swizzled_operand(base, (unsigned)n, (unsigned)k);
}

/* A sum and sixteen products: none has bits below the last of the largest one's 24, nor has their sum. */
ATTUNE_INLINE float add_cut_off(float sum, const float (&a)[16], const float (&b)[16])
{
    double product[17], largest = fabs((double)sum), plain = sum;
    product[16] = sum;
    for (int k = 0; k < 16; ++k) {
        product[k] = (double)a[k] * b[k];
        largest = fmax(largest, fabs(product[k]));
        plain += product[k];
    }
    if (largest == 0 || !__builtin_isfinite(plain)) {
        return (float)plain;
    }
    const int unit = ilogb(largest) - 23;
    const double up = ldexp(1, -unit);
    long long total = 0;
    for (int k = 0; k < 17; ++k) {
        total += (long long)(product[k] * up);
    }
    const double exact = ldexp((double)total, unit);
    const float near = (float)exact;
    return fabs((double)near) > fabs(exact) ? nextafterf(near, 0) : near;
}

template <int n, int transposed_b>
ATTUNE_INLINE void model_products(float (&d)[n / 2], const float (&a)[2][16], attune_u64 b, int accumulate)
{
    const int lane = (int)threadIdx.x % 32;
    for (int i = 0; i < n / 4; ++i) {
        const int column = i / 2 * 8 + lane % 4 * 2 + i % 2;
        float of_column[16];
        for (int k = 0; k < 16; ++k) {
            of_column[k] = wgmma_b<transposed_b>(b, k, column);
        }
        for (int r = 0; r < 2; ++r) {
            float &sum = d[i / 2 * 4 + r * 2 + i % 2];
            sum = add_cut_off(accumulate ? sum : 0, a[r], of_column);
        }
    }
}

template <int n> struct wgmma_shape {
    template <int transposed_b> static void ss(float (&d)[n / 2], attune_u64 a, attune_u64 b, int accumulate)
    {
        const int thread = (int)threadIdx.x % 128, row = thread / 32 * 16 + thread % 32 / 4;
        float of_row[2][16];
        for (int i = 0; i < 32; ++i) {
            of_row[i / 16][i % 16] =
                swizzled_operand((unsigned)(a & 0x3fff) * 16, (unsigned)(row + i / 16 * 8), (unsigned)i % 16);
        }
        model_products<n, transposed_b>(d, of_row, b, accumulate);
    }
    template <int transposed_b> static void rs(float (&d)[n / 2], const unsigned (&a)[4], attune_u64 b, int accumulate)
    {
        const int lane = (int)threadIdx.x % 32;
        unsigned all[4][32];
        float of_row[2][16];
        model_warp_many(a, all);
        for (int i = 0; i < 32; ++i) {
            const int r = i / 16, k = i % 16;
            const unsigned two = all[r + k / 8 * 2][lane / 4 * 4 + k % 8 / 2];
            of_row[r][k] = of_operand((unsigned short)(two >> k % 2 * 16));
        }
        model_products<n, transposed_b>(d, of_row, b, accumulate);
    }
};

ATTUNE_INLINE void sums_as_a64(unsigned (&a)[4], const float *s)
{
    a[0] = pack_two(s[0], s[1]);
    a[1] = pack_two(s[2], s[3]);
    a[2] = pack_two(s[4], s[5]);
    a[3] = pack_two(s[6], s[7]);
}

ATTUNE_INLINE void ptx_stmatrix_x4(unsigned shared, const unsigned (&x)[4])
{
    unsigned rows[32];
    const int lane = (int)threadIdx.x % 32;
    (void)model_shared(shared, 16);
    model_warp(shared, rows);
    for (int i = 0; i < 4; ++i) {
        *static_cast<unsigned *>(model_shared(rows[i * 8 + lane / 4] + (unsigned)lane % 4 * 4, 4)) = x[i];
    }
}

#endif
