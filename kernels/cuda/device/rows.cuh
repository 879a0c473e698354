/* A warp group's 64 rows in registers: the softmax of their scores, and the ways of their sums to memory.
 *
 * Lane l of warp w holds two rows, 16 w + l / 4 and 8 below: of an array of sums (wgmma.cuh) elements with i / 2 % 2
 * = 0 and 1, in columns i / 4 * 8 + 2 (l % 4) + i % 2. The four lanes of a row are neighbours. */
#ifndef DEVICE_ROWS_CUH
#define DEVICE_ROWS_CUH

#include "device/score.cuh"
#include "device/softmax.cuh"
#include "device/wgmma.cuh"

/* The two rows' softmax so far. Maxima are of scores as the product gave them; sums are this lane's share. */
struct row_pair {
    float maximum[2], sum[2];
};

/* What a tile's softmax carries from its maximum to its end. */
struct softmax_step {
    float factor[2];   /* for what was summed before */
    float subtract[2]; /* the maximum, scaled */
    float sum[2][2];
};

/* ---- Softmax: of the first `count` sums, where the rest is of columns that nobody sees ---- */

/* Products as they came become scores, but for score_factor. */
template <int count, int n> ATTUNE_INLINE void rows_shape(float (&s)[n], float inner)
{
#pragma unroll
    for (int i = 0; i < count; ++i) {
        s[i] = shape_score_fast(s[i], inner);
    }
}

/* ALiBi adds to a score -slope |distance|, `distance` being that of the lane's first row to its first column; slopes
 * and scores are in one unit. */
template <int count, int n> ATTUNE_INLINE void rows_slope(float (&s)[n], float slope, int distance)
{
    const float far[2] = {(float)distance, (float)(distance + 8)};
#pragma unroll
    for (int i = 0; i < count; ++i) {
        s[i] = fmaf(-slope, fabsf(far[i / 2 % 2] - (float)(i / 4 * 8 + i % 2)), s[i]);
    }
}

/* The same of columns alone: what they add to the first one's, where all are on one side of both rows. */
template <int count, int n> ATTUNE_INLINE void rows_slope_on(float (&s)[n], float slope)
{
#pragma unroll
    for (int i = 0; i < count; ++i) {
        s[i] = fmaf(slope, (float)(i / 4 * 8 + i % 2), s[i]);
    }
}

/* A bit for each group of eight columns whose column `place` is before `end`. */
ATTUNE_INLINE unsigned groups_before(int end, int place)
{
    int groups = min(max((end - place + 7) >> 3, 0), 32);
    return groups == 32 ? ~0u : (1u << groups) - 1;
}

/* `hidden` in place of a lane's scores of row r, columns e of each pair, whose group's bit is not set in `seen`. */
template <int count, int n>
ATTUNE_INLINE void rows_keep(float (&s)[n], int r, int e, unsigned seen, float hidden = negative_infinity())
{
#pragma unroll
    for (int i = 0; i < count / 4; ++i) {
        float &x = s[i * 4 + r * 2 + e];
        x = seen >> i & 1 ? x : hidden;
    }
}

/* `hidden` outside of columns first ... end - 1 of the tile; `bounded` says whether first matters. NOTE: as bits, which
 * one instruction turns into seven predicates; comparisons would be one each. */
template <bool bounded, int count, int n>
ATTUNE_INLINE void rows_hide(float (&s)[n], const int (&first)[2], const int (&end)[2], int lane,
                             float hidden = negative_infinity())
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            unsigned seen = groups_before(end[r], lane % 4 * 2 + e);
            if constexpr (bounded) {
                seen &= ~groups_before(first[r], lane % 4 * 2 + e);
            }
            rows_keep<count>(s, r, e, seen, hidden);
        }
    }
}

/* This lane's largest of row r's scores. */
template <int count, int n> ATTUNE_INLINE float row_maximum(const float (&s)[n], int r)
{
    float largest[4];
#pragma unroll
    for (int i = 0; i < count / 2; ++i) {
        float x = s[i / 2 * 4 + r * 2 + i % 2];
        largest[i % 4] = i < 4 ? x : fmaxf(largest[i % 4], x);
    }
    return fmaxf(fmaxf(largest[0], largest[1]), fmaxf(largest[2], largest[3]));
}

/* Takes in the maxima of both rows' scores. One stays while it has grown by less than a factor of 2^lazy (always moves
 * with 0): weights are then at most that, and what was summed before needs no rescaling. */
template <int lazy, int count, int n>
ATTUNE_INLINE void rows_raise(row_pair &rows, const float (&s)[n], float scale, softmax_step &f)
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float m = fmaxf(group_max<4>(row_maximum<count>(s, r)), rows.maximum[r]);
        if constexpr (lazy > 0) {
            m = (m - rows.maximum[r]) * scale > (float)lazy ? m : rows.maximum[r];
        }
        f.subtract[r] = subtrahend(m) * scale;
        f.factor[r] = ptx_ex2_approx_ftz_f32(fmaf(rows.maximum[r], scale, -f.subtract[r]));
        f.sum[r][0] = rows.sum[r] * f.factor[r];
        f.sum[r][1] = 0;
        rows.maximum[r] = m;
    }
}

/* Scores first ... end - 1 of both, a multiple of 4 each, become weights. */
template <int first, int end, int n> ATTUNE_INLINE void rows_exponentiate(float (&s)[n], float scale, softmax_step &f)
{
#pragma unroll
    for (int i = first; i < end; ++i) {
        s[i] = ptx_ex2_approx_ftz_f32(fmaf(s[i], scale, -f.subtract[i / 2 % 2]));
        f.sum[i / 2 % 2][i % 2] += s[i];
    }
}

ATTUNE_INLINE void rows_finish(row_pair &rows, const softmax_step &f)
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        rows.sum[r] = f.sum[r][0] + f.sum[r][1];
    }
}

/* Weights as operands of the next product; 0 behind the first `count`. */
template <int count, int n> ATTUNE_INLINE void rows_pack(const float (&s)[n], unsigned (&p)[n / 8][4])
{
    static_assert(count % 8 == 0, "whole operands");
#pragma unroll
    for (int i = 0; i < n / 8; ++i) {
        if (i < count / 8) {
            sums_as_a64(p[i], s + i * 8);
        } else {
            p[i][0] = p[i][1] = p[i][2] = p[i][3] = 0;
        }
    }
}

/* NOTE: with a lazy maximum factors are mostly 1, which is worth asking; else the question costs more than it saves. */
template <int lazy, int n> ATTUNE_INLINE void rows_rescale(float (&o)[n], const float (&factor)[2])
{
    if (lazy == 0 || __any_sync(0xffffffff, factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
        for (int i = 0; i < n; ++i) {
            o[i] *= factor[i / 2 % 2];
        }
    }
}

/* ---- Out ---- */

/* A quad's lanes hold two neighbouring elements of each of four groups of eight; afterwards lane l holds group l. */
ATTUNE_INLINE void quad_exchange(unsigned (&x)[4], int lane)
{
    bool odd = lane % 2, upper = lane / 2 % 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        unsigned got = __shfl_xor_sync(0xffffffff, odd ? x[i] : x[i + 1], 1);
        x[i] = odd ? got : x[i];
        x[i + 1] = odd ? x[i + 1] : got;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        unsigned got = __shfl_xor_sync(0xffffffff, upper ? x[i] : x[i + 2], 2);
        x[i] = upper ? got : x[i];
        x[i + 2] = upper ? x[i + 2] : got;
    }
}

/* Row r of the two, times `normaliser`, to global memory: 16 bytes a lane and 64 a row where 32 columns are left, else
 * what the lane holds. All lanes of the warp take part; those whose row does not exist write nothing. */
template <int n>
ATTUNE_INLINE void rows_store(element *row, bool exists, const float (&o)[n], int r, float normaliser, int lane)
{
#pragma unroll
    for (int c = 0; c < n / 4; c += 4) {
        unsigned x[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (c + i < n / 4) {
                x[i] = pack_two(o[(c + i) * 4 + r * 2] * normaliser, o[(c + i) * 4 + r * 2 + 1] * normaliser);
            }
        }
        if (c + 4 <= n / 4) {
            quad_exchange(x, lane);
            if (exists) {
                *reinterpret_cast<uint4 *>(row + c * 8 + lane % 4 * 8) = make_uint4(x[0], x[1], x[2], x[3]);
            }
        } else if (exists) {
#pragma unroll
            for (int i = 0; c + i < n / 4; ++i) {
                *reinterpret_cast<unsigned *>(row + (c + i) * 8 + lane % 4 * 2) = x[i];
            }
        }
    }
}

/* The warp's sixteen rows to shared memory, as a box of the copy engine with the 128-byte swizzle wants them: sixteen
 * lines of 128 bytes at `at` (a multiple of 1,024), the next 64 columns `chunk_bytes` further on. Columns are a
 * multiple of 16. */
template <unsigned chunk_bytes, int n>
ATTUNE_INLINE void rows_stage(unsigned at, const float (&o)[n], const float (&normaliser)[2], int lane)
{
    int row = lane % 16;
#pragma unroll
    for (int c = 0; c < n / 8; ++c) {
        unsigned x[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            x[i] = pack_two(o[c * 8 + i * 2] * normaliser[i % 2], o[c * 8 + i * 2 + 1] * normaliser[i % 2]);
        }
        ptx_stmatrix_x4(at + c / 4 * chunk_bytes + row * 128 + ((c % 4 * 2 + lane / 16) ^ (row & 7)) * 16, x);
    }
}

#endif
