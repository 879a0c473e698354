/* The mask of the wgmma kernel: a warp reads a tile's 64 rows and makes bits of its bytes, consumers hide by them.
 *
 * A row is of SEEN_LANES words, word l of the columns of part l, of 16, and of part SEEN_LANES + l; byte q of it is
 * what lane q of a quad has of these: bits 0 and 1 are columns 2 q and 2 q + 1, bits 2 and 3 those eight further on,
 * the upper four likewise of the other part. */
#ifndef DEVICE_WGMMA_MASK_CUH
#define DEVICE_WGMMA_MASK_CUH

#include "device/pair_rows.cuh"
#include "device/wgmma_block.cuh"

/* ---- Making bits ---- */

/* Words of a tile's row that a lane makes, and how many it reads at once, while as many are under way. NOTE: registers.
 */
enum { SEEN_WORDS = 64 * SEEN_LANES / 32, SEEN_AT_ONCE = SEEN_WORDS % 2 == 0 ? 2 : 1 };

struct mask_parts {
    uint4 of[SEEN_AT_ONCE][2];
};

/* Whether rows are of whole 16-byte parts. */
template <class T> ATTUNE_INLINE bool has_parts(const pair_rows<T> &from)
{
    return ((reinterpret_cast<attune_u64>(from.first) | (attune_u64)from.stride * sizeof(T)) & 15) == 0;
}

/* 16 bytes of which some may not exist: zeros in their place. NOTE: one by one, for want of registers. */
ATTUNE_INLINE unsigned word_of_edge(const unsigned char *at, int count)
{
    unsigned x = 0;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
        x |= (unsigned)at[i] << i * 8;
    }
    return x;
}

ATTUNE_INLINE uint4 part_of_edge(const pair_rows<unsigned char> &from, int row, int column)
{
    const unsigned char *at = from.first + row * from.stride + column;
    const int count = row < from.end_row ? from.end - column : 0;
    unsigned x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        x[i] = word_of_edge(at + i * 4, min(count - i * 4, 4));
    }
    return make_uint4(x[0], x[1], x[2], x[3]);
}

/* Whether all of a tile exists, in parts, and lanes keep to their columns. */
ATTUNE_INLINE bool is_whole(const pair_rows<unsigned char> &from, int row, int key)
{
    return 32 % SEEN_LANES == 0 && has_parts(from) && row + 64 <= from.end_row && key + BLOCK_N <= from.end;
}

/* Whether a lane's i-th word is of two parts. */
ATTUNE_INLINE bool has_both(int i)
{
    return BLOCK_N / 16 % 2 == 0 || i % SEEN_LANES + 1 < SEEN_LANES;
}

/* Where a lane reads: its part of the first row, and how far it is to that of its next word. NOTE: pointers that are
 * moved, or all are worked out ahead, for which there are no registers. */
struct mask_reader {
    const unsigned char *first;
    attune_i64 step;
};

ATTUNE_INLINE mask_reader reader_of(const pair_rows<unsigned char> &from, int row, int lane)
{
    return {from.first + (row + lane / SEEN_LANES) * from.stride + lane % SEEN_LANES * 16,
            from.stride * (32 / SEEN_LANES)};
}

/* The lane's parts of its next words; `at` moves on. */
ATTUNE_INLINE void load_parts(const unsigned char *&at, attune_i64 step, int lane, mask_parts &parts)
{
#pragma unroll
    for (int n = 0; n < SEEN_AT_ONCE; ++n) {
        parts.of[n][0] = ptx_ld_global_nc_v4_b32(at);
        parts.of[n][1] = has_both(lane) ? ptx_ld_global_nc_v4_b32(at + SEEN_LANES * 16) : make_uint4(0, 0, 0, 0);
        at += step;
    }
}

/* Has L2 fetch a tile that is to be read later: what comes from memory would take longer than a tile. */
ATTUNE_INLINE void announce_mask(const pair_rows<unsigned char> &from, int row, int key, int lane)
{
#pragma unroll
    for (int i = 0; i < 64; i += 32) {
        if (key >= 0 && key < from.end && row + i + lane < from.end_row) {
            ptx_prefetch_global_l2(from.first + (row + i + lane) * from.stride + key);
        }
    }
}

/* 1 for each byte that is not 0. */
ATTUNE_INLINE unsigned ones_of(unsigned x)
{
    return ((((x & 0x7f7f7f7f) + 0x7f7f7f7f) | x) & 0x80808080) >> 7;
}

/* The word of two parts whose bytes are 0 and 1: sums of words, shifted. */
ATTUNE_INLINE unsigned word_of(const uint4 &x, const uint4 &y)
{
    const unsigned left = x.x + x.z * 4 + (y.x + y.z * 4) * 16, right = x.y + x.w * 4 + (y.y + y.w * 4) * 16;
    return __byte_perm(left | left >> 7, right | right >> 7, 0x6420);
}

/* A word, to where consumers read it; what it has where all that exists is seen. */
ATTUNE_INLINE unsigned put_word(unsigned to, int i, const uint4 &x, const uint4 &y)
{
    const unsigned word = word_of(x, y);
    ptx_st_shared_b32(to + i * 4, word);
    return has_both(i) ? word : word | 0xf0f0f0f0;
}

ATTUNE_INLINE unsigned any_of(const uint4 &x)
{
    return x.x | x.y | x.z | x.w;
}

/* All words of the whole tile from `key` on, the first parts of which are here; then `parts` has the first of the tile
 * from `next` on, if that is whole. Returns whether all is seen, and has `any_byte` say whether there was a byte of
 * neither 0 nor 1, and words are not true. */
ATTUNE_INLINE bool pack_whole(const mask_reader &reader, int key, int next, bool next_whole, unsigned to, int lane,
                              mask_parts &parts, bool &any_byte)
{
    const unsigned char *at = reader.first + key + reader.step * SEEN_AT_ONCE;
    unsigned all = 0xffffffff, others = 0;
#pragma unroll
    for (int first = 0; first < SEEN_WORDS; first += SEEN_AT_ONCE) {
        const mask_parts now = parts;
        if (first + SEEN_AT_ONCE < SEEN_WORDS) {
            load_parts(at, reader.step, lane, parts);
        } else if (next_whole) {
            at = reader.first + next;
            load_parts(at, reader.step, lane, parts);
        }
#pragma unroll
        for (int n = 0; n < SEEN_AT_ONCE; ++n) {
            others |= any_of(now.of[n][0]) | any_of(now.of[n][1]);
            all &= put_word(to, (first + n) * 32 + lane, now.of[n][0], now.of[n][1]);
        }
    }
    any_byte = __any_sync(0xffffffff, (others & 0xfefefefe) != 0);
    return __all_sync(0xffffffff, all == 0xffffffff);
}

/* The same of any tile and any bytes, part by part. */
ATTUNE_INLINE bool pack_any(const pair_rows<unsigned char> &from, int row, int key, unsigned to, int lane)
{
    unsigned all = 0xffffffff;
#pragma unroll 1
    for (int i = lane; i < 64 * SEEN_LANES; i += 32) {
        uint4 x[2] = {};
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int of_row = row + i / SEEN_LANES, column = key + (i % SEEN_LANES + n * SEEN_LANES) * 16;
            if (n == 0 || has_both(i)) {
                x[n] = has_parts(from) && of_row < from.end_row && column + 16 <= from.end
                           ? ptx_ld_global_nc_v4_b32(from.first + of_row * from.stride + column)
                           : part_of_edge(from, of_row, column);
                x[n] = make_uint4(ones_of(x[n].x), ones_of(x[n].y), ones_of(x[n].z), ones_of(x[n].w));
            }
        }
        all &= put_word(to, i, x[0], x[1]);
    }
    return __all_sync(0xffffffff, all == 0xffffffff);
}

/* A warp's way through its tiles. NOTE: most masks are of 0 and 1; a warp that has met another byte turns all into ones
 * from then on, and reads nothing ahead. */
struct mask_packer {
    mask_parts parts; /* the first of the tile to come, if that is whole */
    bool any_byte;
};

ATTUNE_INLINE void begin_mask(const mask_reader &reader, int key, int lane, mask_packer &packer)
{
    const unsigned char *at = reader.first + key;
    load_parts(at, reader.step, lane, packer.parts);
}

ATTUNE_INLINE bool pack_tile(const pair_rows<unsigned char> &from, const mask_reader &reader, int row, int key,
                             int next, unsigned to, int lane, mask_packer &packer)
{
    const bool whole = is_whole(from, row, key), next_whole = is_whole(from, row, next);
    bool all = false;
    if (whole && !packer.any_byte) {
        all = pack_whole(reader, key, next, next_whole, to, lane, packer.parts, packer.any_byte);
    } else if (next_whole) {
        begin_mask(reader, next, lane, packer);
    }
    return whole && !packer.any_byte ? all : pack_any(from, row, key, to, lane);
}

/* ---- Hiding by them ---- */

/* Lane `quad`'s bits of the row that lies at `at`, eight of each word. */
ATTUNE_INLINE void take_seen(unsigned at, int quad, unsigned (&seen)[(SEEN_LANES + 3) / 4])
{
    const unsigned pick = (unsigned)quad * 0x11 + 0x40;
#pragma unroll
    for (int n = 0; n < (SEEN_LANES + 3) / 4; ++n) {
        unsigned x[4] = {0, 0, 0, 0};
        if constexpr (SEEN_LANES == 4) {
            const uint4 all = ptx_ld_shared_v4_b32(at);
            x[0] = all.x, x[1] = all.y, x[2] = all.z, x[3] = all.w;
        } else {
#pragma unroll
            for (int l = 0; l < 4; ++l) {
                if (n * 4 + l < SEEN_LANES) {
                    x[l] = ptx_ld_shared_b32(at + (n * 4 + l) * 4);
                }
            }
        }
        seen[n] = __byte_perm(__byte_perm(x[0], x[1], pick), __byte_perm(x[2], x[3], pick), 0x5410);
    }
}

/* Scores whose bit is 0 become `hidden`. NOTE: a word's bits in turn: one instruction makes predicates of seven. */
template <int count, int n>
ATTUNE_INLINE void hide_by_bits(const unsigned (&seen)[2][(SEEN_LANES + 3) / 4], float hidden, float (&s)[n])
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int k = 0; k < SEEN_LANES * 8; ++k) {
            const int part = k / 8 + k % 8 / 4 * SEEN_LANES, i = part * 8 + k % 4 / 2 * 4 + r * 2 + k % 2;
            if (i < count) {
                s[i] = seen[r][k / 32] >> (k % 32) & 1 ? s[i] : hidden;
            }
        }
    }
}

#endif
