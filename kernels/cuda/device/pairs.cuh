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

/* Whether a problem has any; and such as are read from memory. */
enum {
    BY_PAIRS = ATTUNE_HAS_ALIBI || ATTUNE_HAS_BIAS || ATTUNE_HAS_MASK,
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
template <class T, int keys> ATTUNE_INLINE int pair_part(int row, int part)
{
    constexpr int parts = keys * (int)sizeof(T) / 16, turns = parts < 8 ? parts : 8, rows = 8 / turns;
    static_assert(parts >= 2 && 8 % turns == 0, "rows of 32 bytes, 64, or whole 128");
    return row * keys + (part ^ (row / rows % turns)) * (16 / (int)sizeof(T));
}

template <class T, int keys> ATTUNE_INLINE int pair_place(int row, int column)
{
    constexpr int of_part = 16 / (int)sizeof(T);
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
            const int row = lane / parts, part = lane % parts;
            const T *at = from + (first_row + row) * stride + key + part * of_part;
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
            ptx_cp_async_cg_shared_global_16(base + pair_part<T, keys>(row, i % parts) * (unsigned)sizeof(T),
                                             left > 0 ? from + (first_row + row) * stride + at : from,
                                             (unsigned)(left * (int)sizeof(T)));
        }
    } else {
#pragma unroll 1
        for (int i = lane; i < rows * keys; i += 32) {
            const int row = i / keys, column = i % keys;
            const bool exists = first_row + row < rows_end && key + column < end;
            to[pair_place<T, keys>(row, column)] = exists ? from[(first_row + row) * stride + key + column] : T{};
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

template <int keys, class T> ATTUNE_INLINE pair<T> pair_at(const T *tile, int row, int column)
{
    return *reinterpret_cast<const pair<T> *>(tile + pair_place<T, keys>(row, column));
}

/* What a score is multiplied by to be in units of log2, once what belongs to pairs is added; before, its product is. */
ATTUNE_INLINE float pair_scale(const attune_args &args)
{
    return BY_PAIRS ? LOG2_E : fabsf(score_factor(args));
}

/* What depends on the pair of query and key, in row r of the lane's two (rows.cuh), which is row `at_row` of the
 * warp's: scores become whole, in their own units. A bias of -inf hides its key whatever the score: such are seldom, so
 * that scores are looked at again where a row has one. True: some key is hidden from some of the warp's rows. */
template <int scores, int rows>
ATTUNE_INLINE bool add_pairs(const attune_args &args, const sequence &sequence_at, const work &w,
                             pair_tile<rows, scores * 2> &tile, int at_row, int row, int key, int lane, int r,
                             float (&s)[scores])
{
    const int column = lane % 4 * 2;
    const float ahead = (float)((attune_i64)row + sequence_at.offset - key - column);
    const float factor = score_factor<PLAIN>(args);
    float slope = 0, least = 0;
    unsigned all = 0xffff; /* of both columns' masks. NOTE: bytes are 0 or 1; others may say that a key is hidden */
    if constexpr (ATTUNE_HAS_ALIBI) {
        slope = *row_of<float>(args.tensor[ATTUNE_SLOPES], 0, w.head, 0);
    }
#pragma unroll
    for (int i = 0; i < scores / 4; ++i) {
        pair<element_bias> bias = {};
        pair<unsigned char> seen = {};
        if constexpr (ATTUNE_HAS_BIAS) {
            bias = pair_at<scores * 2>(bias_of(tile), at_row, i * 8 + column);
        }
        if constexpr (ATTUNE_HAS_MASK) {
            seen = pair_at<scores * 2>(mask_of(tile), at_row, i * 8 + column);
            all &= (unsigned)seen.e[0] | (unsigned)seen.e[1] << 8;
        }
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            float &x = s[i * 4 + r * 2 + e];
            float more = 0;
            if constexpr (ATTUNE_HAS_BIAS) {
                more = to_float(bias.e[e]);
                least = fminf(least, more);
            }
            if constexpr (ATTUNE_HAS_ALIBI) {
                more = fmaf(-slope, fabsf(ahead - (float)(i * 8 + e)), more);
            }
            x = fmaf(x, factor, more);
            if constexpr (ATTUNE_HAS_MASK) {
                x = seen.e[e] != 0 ? x : negative_infinity();
            }
        }
    }
    if constexpr (ATTUNE_HAS_BIAS) {
        if (__any_sync(0xffffffff, least == negative_infinity())) {
#pragma unroll
            for (int i = 0; i < scores / 4; ++i) {
                const pair<element_bias> bias = pair_at<scores * 2>(bias_of(tile), at_row, i * 8 + column);
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    float &x = s[i * 4 + r * 2 + e];
                    x = to_float(bias.e[e]) == negative_infinity() ? negative_infinity() : x;
                }
            }
        }
    }
    return STAGES_PAIRS &&
           __any_sync(0xffffffff, least == negative_infinity() || (all & 0xff) == 0 || all >> 8 == 0) != 0;
}

#endif
