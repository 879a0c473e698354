/* Scores in registers and what belongs to pairs of a query and a key: ALiBi, bias, mask. What each of them does to a
 * score is score.cuh's and visibility.cuh's to say.
 *
 * Bias and mask pass through shared memory, a tile of keys ahead: rows of whole 16-byte parts by cp.async where their
 * addresses allow it, else element by element, neighbours by neighbouring lanes. A warp copies its own rows and nobody
 * else reads them, so that there is one buffer, and no barrier but the warp's. */
#ifndef DEVICE_PAIRS_CUH
#define DEVICE_PAIRS_CUH

#include "device/schedule.cuh"
#include "device/score.cuh"

/* Whether a problem has any; such as add to a score; and such as are read from memory. */
enum {
    BY_PAIRS = ATTUNE_HAS_ALIBI || ATTUNE_HAS_BIAS || ATTUNE_HAS_MASK,
    ADDS_PAIRS = ATTUNE_HAS_ALIBI || ATTUNE_HAS_BIAS,
    STAGES_PAIRS = ATTUNE_HAS_BIAS || ATTUNE_HAS_MASK
};

/* ---- Tiles in shared memory ---- */

/* A warp's rows of bias and mask, `keys` of them. */
template <int rows, int keys> struct pair_tile {
    enum { of_bias = ATTUNE_HAS_BIAS ? rows * keys * (int)sizeof(element_bias) : 0 };
    alignas(16) unsigned char bytes[STAGES_PAIRS ? of_bias + ATTUNE_HAS_MASK * rows * keys : 16];
};

template <int rows, int keys> ATTUNE_INLINE element_bias *bias_of(pair_tile<rows, keys> &tile)
{
    return reinterpret_cast<element_bias *>(tile.bytes);
}

template <int rows, int keys> ATTUNE_INLINE unsigned char *mask_of(pair_tile<rows, keys> &tile)
{
    return tile.bytes + tile.of_bias;
}

/* Where 16-byte part `part` of a row lies. NOTE: eight rows read at one column fall into different banks: parts change
 * places within a row of 128 bytes or more, or within as many rows as make that up. */
template <class T, int keys> ATTUNE_INLINE unsigned pair_part(unsigned row, unsigned part)
{
    constexpr unsigned parts = keys * sizeof(T) / 16, turns = parts < 8 ? parts : 8, rows = 8 / turns;
    static_assert(parts >= 2 && 8 % turns == 0, "rows of 32 bytes, 64, or whole 128");
    return row * keys + (part ^ (row / rows % turns)) * (unsigned)(16 / sizeof(T));
}

template <class T, int keys> ATTUNE_INLINE unsigned pair_place(unsigned row, unsigned column)
{
    constexpr unsigned of_part = 16 / sizeof(T);
    return pair_part<T, keys>(row, column / of_part) + column % of_part;
}

/* Rows first_row ... of the matrix at `from`, of which those from `rows_end` on do not exist, and their columns from
 * `key` on, of which those from `end` on are not read; zeros in the place of both. */
template <int rows, int keys, class T>
ATTUNE_INLINE void copy_pairs(T *to, const T *from, attune_i64 stride, int first_row, int rows_end, int key, int end,
                              int lane)
{
    constexpr int of_part = 16 / (int)sizeof(T), parts = keys / of_part;
    if (((reinterpret_cast<attune_u64>(from) | (attune_u64)stride * sizeof(T)) & 15) == 0) {
        const unsigned base = ptx_cvta_shared(to);
        if (first_row + rows <= rows_end && key + keys <= end) { /* a lane keeps to one column of parts */
            constexpr int step = 32 / parts;
            static_assert(32 % parts == 0 && rows % step == 0, "whole rows of all lanes");
            const unsigned row = (unsigned)lane / parts, part = (unsigned)lane % parts;
            const T *at = from + (first_row + (int)row) * stride + key + part * of_part;
#pragma unroll
            for (int i = 0; i < rows; i += step, at += step * stride) {
                ptx_cp_async_cg_shared_global_16(base + pair_part<T, keys>(row + i, part) * (unsigned)sizeof(T), at,
                                                 16);
            }
            return;
        }
#pragma unroll 1
        for (int i = lane; i < rows * parts; i += 32) {
            const int row = i / parts, at = key + i % parts * of_part;
            const int left = first_row + row < rows_end ? min(max(end - at, 0), of_part) : 0;
            ptx_cp_async_cg_shared_global_16(
                base + pair_part<T, keys>((unsigned)row, (unsigned)i % parts) * (unsigned)sizeof(T),
                left > 0 ? from + (first_row + row) * stride + at : from, (unsigned)(left * (int)sizeof(T)));
        }
    } else {
#pragma unroll 1
        for (int i = lane; i < rows * keys; i += 32) {
            const int row = i / keys, column = i % keys;
            const bool exists = first_row + row < rows_end && key + column < end;
            to[pair_place<T, keys>((unsigned)row, (unsigned)column)] =
                exists ? from[(first_row + row) * stride + key + column] : T{};
        }
    }
}

/* Starts to copy a warp's rows of a tile of keys; done with the warp's copies so far. */
template <int rows, int keys>
ATTUNE_INLINE void copy_pair_tile(pair_tile<rows, keys> &to, const attune_args &args, const sequence &at, const work &w,
                                  int first_row, int key, int end, int lane)
{
    if constexpr (ATTUNE_HAS_BIAS) {
        const attune_tensor &bias = args.tensor[ATTUNE_BIAS];
        copy_pairs<rows, keys>(bias_of(to), row_of<const element_bias>(bias, w.batch, w.head, 0),
                               bias.stride[ATTUNE_STRIDE_SEQ], first_row, (int)at.length_q, key, end, lane);
    }
    if constexpr (ATTUNE_HAS_MASK) {
        const attune_tensor &mask = args.tensor[ATTUNE_MASK];
        copy_pairs<rows, keys>(mask_of(to), row_of<const unsigned char>(mask, w.batch, w.head, 0),
                               mask.stride[ATTUNE_STRIDE_SEQ], first_row, (int)at.length_q, key, end, lane);
    }
}

/* Whether the mask lets any of the warp's rows see any key of the tile. */
template <int rows, int keys> ATTUNE_INLINE bool mask_shows_any(pair_tile<rows, keys> &tile, int lane)
{
    unsigned any = 0;
    if constexpr (ATTUNE_HAS_MASK) {
#pragma unroll
        for (int i = lane; i < rows * keys / 16; i += 32) {
            const uint4 x = reinterpret_cast<const uint4 *>(mask_of(tile))[i];
            any |= x.x | x.y | x.z | x.w;
        }
    }
    return !ATTUNE_HAS_MASK || __any_sync(0xffffffff, any != 0);
}

/* ---- Scores ---- */

/* Two neighbours of a row, at an even place. */
template <class T> struct alignas(2 * sizeof(T)) pair {
    T e[2];
};

/* The place, in bytes, of the first pair that a lane reads of a tile: columns 2 (l % 4) and the next of row l / 4. */
template <class T, int keys> ATTUNE_INLINE unsigned lane_pair(unsigned lane)
{
    return pair_place<T, keys>(lane / 4, lane % 4 * 2) * (unsigned)sizeof(T);
}

/* Columns 8 `i` further on, in a row `down` below, a multiple of eight. NOTE: such rows' parts change places alike, and
 * by exclusive or, so that one register serves all. Tiles are aligned to 128. */
template <class two, class T, int keys> ATTUNE_INLINE const two *pair_at(const T *tile, unsigned lane, int down, int i)
{
    constexpr int row_bytes = keys * (int)sizeof(T), swizzled = row_bytes < 128 ? row_bytes : 128;
    const int at = i * 8 * (int)sizeof(T);
    const unsigned place = (lane ^ (unsigned)(at % swizzled / 16 * 16)) +
                           (unsigned)(at / swizzled * swizzled + at % 16 + down * row_bytes);
    return reinterpret_cast<const two *>(reinterpret_cast<const unsigned char *>(tile) + place);
}

/* What a score is multiplied by to be in units of log2, once what belongs to pairs is added; before, its product is. */
ATTUNE_INLINE float pair_scale(const attune_args &args)
{
    return ADDS_PAIRS ? LOG2_E : fabsf(score_factor(args));
}

/* What depends on the pair of query and key, in row r of the lane's two (rows.cuh), which is `down` below the lane's
 * first of the warp's: scores become whole, in their own units. A bias of -inf hides its key whatever the score: with
 * one that is not finite the sum is NaN, unless that is looked for. */
template <int scores, int rows>
ATTUNE_INLINE void add_pairs(const attune_args &args, const sequence &sequence_at, const work &w,
                             pair_tile<rows, scores * 2> &tile, int down, int row, int key, int lane, int r, bool looks,
                             float (&s)[scores])
{
    const int column = lane % 4 * 2;
    const float ahead = (float)((attune_i64)row + sequence_at.offset - key - column);
    const float factor = score_factor<PLAIN>(args);
    const unsigned first_bias = lane_pair<element_bias, scores * 2>((unsigned)lane);
    const unsigned first_mask = lane_pair<unsigned char, scores * 2>((unsigned)lane);
    float slope = 0;
    if constexpr (ATTUNE_HAS_ALIBI) {
        slope = *row_of<float>(args.tensor[ATTUNE_SLOPES], 0, w.head, 0);
    }
#pragma unroll
    for (int i = 0; i < scores / 4; ++i) {
        pair<element_bias> bias = {};
        unsigned seen = 0; /* two bytes */
        if constexpr (ATTUNE_HAS_BIAS) {
            bias = *pair_at<pair<element_bias>, element_bias, scores * 2>(bias_of(tile), first_bias, down, i);
        }
        if constexpr (ATTUNE_HAS_MASK) {
            seen = *pair_at<unsigned short, unsigned char, scores * 2>(mask_of(tile), first_mask, down, i);
        }
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            float &x = s[i * 4 + r * 2 + e];
            float more = 0;
            if constexpr (ATTUNE_HAS_BIAS) {
                more = to_float(bias.e[e]);
            }
            if constexpr (ATTUNE_HAS_ALIBI) {
                more = fmaf(-slope, fabsf(ahead - (float)(i * 8 + e)), more);
            }
            if constexpr (ADDS_PAIRS) {
                x = fmaf(x, factor, more);
            }
            if constexpr (ATTUNE_HAS_MASK) {
                x = (e == 0 ? (seen & 0xff) != 0 : seen > 0xff) ? x : negative_infinity();
            }
        }
    }
    if constexpr (ATTUNE_HAS_BIAS) {
        if (looks) {
#pragma unroll
            for (int i = 0; i < scores / 4; ++i) {
                const pair<element_bias> bias =
                    *pair_at<pair<element_bias>, element_bias, scores * 2>(bias_of(tile), first_bias, down, i);
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    float &x = s[i * 4 + r * 2 + e];
                    x = to_float(bias.e[e]) == negative_infinity() ? negative_infinity() : x;
                }
            }
        }
    }
}

#endif
