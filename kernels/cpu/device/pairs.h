/* What device/dots.h multiplies: K and V of bf16, packed as rows whose numbers, two by two, meet the pairs of 16 query
 * rows; and scores that become such pairs, of weights. */
#ifndef KERNELS_CPU_DEVICE_PAIRS_H
#define KERNELS_CPU_DEVICE_PAIRS_H

#include "sequence.h"
#include "words.h"

enum { LANES = 16 }; /* query rows side by side: a panel */

typedef uint16_t words_unaligned __attribute__((vector_size(64), may_alias, aligned(1)));

/* ---- Keys and values -------------------------------------------------------------------------------------------- */

static int pitch_k(const attune_args *args)
{
    return whole(args->head_dim_qk, 32);
}

static int pitch_v(const attune_args *args)
{
    return whole(args->head_dim_v, 16);
}

/* `count` bf16 numbers of any alignment, at most 32; the others are zero. */
INLINE words load_words(const char *from, int count)
{
    if (count >= 32) {
        return *(const words_unaligned *)from;
    }
    uint16_t some[32] = {0};
    memcpy(some, from, (size_t)(count > 0 ? count : 0) * sizeof *some);
    return *(const words_unaligned *)some;
}

/* What is flagged: where a value is nearer to zero than 2^-100, so that products with it could be subnormal. */
INLINE words find_tiny(words x)
{
    words size = x & 0x7fff;
    return (words)((size - 1) < (27 << 7) - 1);
}

/* Rows of K from `first` on, padded with zeros to whole 32s of columns and of rows. */
static void pack_keys(const attune_args *args, const kv_rows *rows, int64_t first, int count, uint16_t *to)
{
    int pitch = pitch_k(args);
    for (int n = 0; n < whole(count, 32); ++n) {
        const char *from = kv_row(rows, first + lesser_of(n, count - 1));
        for (int c = 0; c < pitch; c += 32) {
            words x = {0};
            if (n < count) {
                x = load_words(from + (int64_t)c * 2, args->head_dim_qk - c);
            }
            *(words *)(to + n * pitch + c) = x;
        }
    }
}

/* Rows n ... n + 31, of `count` from `first` on, and columns c ... c + 31 of V, transposed. */
INLINE words pack_values_of(const attune_args *args, const kv_rows *rows, int64_t first, int n, int c, int count,
                            uint16_t *to, int block)
{
    words tiny = {0};
    vf x[2][LANES]; /* pairs of columns */
    for (int half = 0; half < 2; ++half) {
        UNROLL
        for (int r = 0; r < LANES; ++r) {
            int row = n + half * LANES + r;
            words some = {0};
            if (row < count) {
                some = load_words(kv_row(rows, first + row) + (int64_t)c * 2, args->head_dim_v - c);
            }
            tiny |= find_tiny(some);
            x[half][r] = (vf)some;
        }
        transpose(x[half]);
    }
    UNROLL
    for (int pair = 0; pair < LANES; ++pair) {
        words even =
            __builtin_shufflevector((words)x[0][pair], (words)x[1][pair], 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24,
                                    26, 28, 30, 32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62);
        words odd =
            __builtin_shufflevector((words)x[0][pair], (words)x[1][pair], 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25,
                                    27, 29, 31, 33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63);
        if (c + 2 * pair < pitch_v(args)) {
            *(words *)(to + (int64_t)(c + 2 * pair) * block + n) = even;
            *(words *)(to + (int64_t)(c + 2 * pair + 1) * block + n) = odd;
        }
    }
    return tiny;
}

/* Rows of V from `first` on, transposed: columns of `block` numbers, of which whole 32s are written. Returns whether
 * some are to be flagged. */
static bool pack_values(const attune_args *args, const kv_rows *rows, int64_t first, int count, uint16_t *to, int block)
{
    words tiny = {0};
    for (int n = 0; n < count; n += 32) {
        for (int c = 0; c < args->head_dim_v; c += 32) {
            tiny |= pack_values_of(args, rows, first, n, c, count, to, block);
        }
    }
    return any((vi)tiny);
}

/* ---- Weights ---------------------------------------------------------------------------------------------------- */

/* 2^x for x below 128, with a relative error of 3e-6, a thousandth of what rounding to bf16 adds; +0 below -126; NaN
 * stays NaN. */
INLINE vf power(vf x)
{
    const float magic = 0x1.8p23f + 127; /* see exponential_of() */
    vf shifted = x + magic;
    vf scale = (vf)((vu)shifted << 23);
    vf p = power_of_two(4, x - (shifted - magic));
    return _mm512_maskz_mul_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(-126), _CMP_NLT_UQ), p, scale);
}

INLINE vf highest_score(const float *score, int count)
{
    vf top[4];
    UNROLL
    for (int i = 0; i < 4; ++i) {
        top[i] = load(score + i * LANES);
    }
    for (int n = 4; n < count; n += 4) {
        UNROLL
        for (int i = 0; i < 4; ++i) {
            top[i] = greater(load(score + (n + i) * LANES), top[i]);
        }
    }
    return greater(greater(top[0], top[1]), greater(top[2], top[3]));
}

/* Turns two scores into a pair of weights 2^(S factor - base), in place; returns their sum. */
INLINE vf weigh_pair(float *score, int n, vf factor, vf base)
{
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    vf p[2];
    UNROLL
    for (int i = 0; i < 2; ++i) {
        p[i] = power(load(score + (n + i) * LANES) * factor - base);
    }
    vf sum = p[0] + p[1];
    __m512i both = (__m512i)_mm512_cvtne2ps_pbh(p[1], p[0]);
    store(score + n / 2 * LANES, (vf)_mm512_permutexvar_epi16(order, both));
    return sum;
}

#endif
