/* Bias and mask of the wgmma kernel, which belong to pairs of a query and a key. Their strides are the call's, so no
 * tensor map brings them: for each consumer group a warp of the producer's group brings the group's 64 rows of each
 * tile into places of the group's own, up to PLACES tiles ahead.
 *
 * A bias of 16 bits is copied as it is, by cp.async where rows are of whole 16-byte parts: these lie swizzled, or rows
 * padded, and ldmatrix gives each thread its scores' pairs. One of fp32 is read from memory by those who need it. Of
 * the mask bits are made (wgmma_mask.cuh). */
#ifndef DEVICE_WGMMA_PAIRS_CUH
#define DEVICE_WGMMA_PAIRS_CUH

#include "device/pair_rows.cuh"
#include "device/wgmma_consumer.cuh"
#include "device/wgmma_mask.cuh"

#if PAIRED

/* ---- Bringing them ---- */

/* Where part `part` of a row lies, of a tile of `parts` parts a row, in parts. NOTE: eight rows read at one part fall
 * into different banks. */
template <int parts> ATTUNE_INLINE int pair_part(int row, int part)
{
    return row * parts + (parts % 8 == 0 ? part ^ (row & 7) : part);
}

template <class T>
ATTUNE_INLINE pair_rows<T> pair_rows_of(const attune_args &args, const attune_tensor &from, const job &j)
{
    return {row_of<const T>(from, j.sequence, j.head, 0), from.stride[ATTUNE_STRIDE_SEQ], j.rows, (int)args.seqlen_kv};
}

ATTUNE_INLINE unsigned bits_of(element_bias x)
{
    return reinterpret_cast<const unsigned short &>(x);
}

/* Copies 64 rows from `row` on, columns `key` and on, all of which exist. NOTE: one warp has some 2,000 cycles for a
 * tile, so a lane keeps to its column, its source moves by a constant and its target by an immediate. */
template <int parts, class T>
ATTUNE_INLINE void copy_whole(unsigned to, const pair_rows<T> &from, int row, int key, int lane)
{
    enum { OF_PART = 16 / sizeof(T), USED = BLOCK_N / OF_PART, ROWS = 32 / USED };
    constexpr int at_once = GROUPS == 3 ? 4 : 64 / ROWS; /* registers */
    static_assert(32 % USED == 0, "rows of a power of two parts");
    const int first = lane / USED, part = lane % USED;
    const T *at = from.first + (row + first) * from.stride + key + part * OF_PART;
    const attune_i64 step = ROWS * from.stride;
    to += pair_part<parts>(first, part) * 16;
#pragma unroll(at_once)
    for (int i = 0; i < 64 / ROWS; ++i, at += step) {
        const unsigned turned = parts % 8 == 0 ? to ^ (unsigned)(i * ROWS % 8 * 16) : to;
        ptx_cp_async_cg_shared_global_16(turned + (unsigned)(i * ROWS * parts * 16), at, 16);
    }
}

/* The same of which some may not: zeros in their place. */
template <int parts, class T>
ATTUNE_INLINE void copy_parts_of(unsigned to, const pair_rows<T> &from, int row, int key, int lane)
{
    enum { OF_PART = 16 / sizeof(T), USED = BLOCK_N / OF_PART };
#pragma unroll 2
    for (int i = lane; i < 64 * USED; i += 32) {
        const int at = i / USED, part = i % USED, column = key + part * OF_PART;
        const int left = row + at < from.end_row ? min(max(from.end - column, 0), (int)OF_PART) : 0;
        ptx_cp_async_cg_shared_global_16(to + pair_part<parts>(at, part) * 16,
                                         left > 0 ? from.first + (row + at) * from.stride + column : from.first,
                                         (unsigned)(left * (int)sizeof(T)));
    }
}

/* Whichever. Returns whether it has begun copies that are yet to arrive. */
template <int parts, class T>
ATTUNE_INLINE bool copy_group(unsigned to, const pair_rows<T> &from, int row, int key, int lane)
{
    enum { OF_PART = 16 / sizeof(T), USED = BLOCK_N / OF_PART };
    if (has_parts(from)) {
        if constexpr (32 % USED == 0) {
            if (row + 64 <= from.end_row && key + BLOCK_N <= from.end) {
                copy_whole<parts>(to, from, row, key, lane);
                return true;
            }
        }
        copy_parts_of<parts>(to, from, row, key, lane);
        return true;
    }
    enum { OF_WORD = 4 / sizeof(T) };
#pragma unroll 1
    for (int i = lane; i < 64 * BLOCK_N / OF_WORD; i += 32) {
        const int at = i / (BLOCK_N / OF_WORD), column = i % (BLOCK_N / OF_WORD) * OF_WORD;
        unsigned word = 0;
        for (int e = 0; e < OF_WORD; ++e) {
            const bool exists = row + at < from.end_row && key + column + e < from.end;
            word |= exists ? bits_of(from.first[(row + at) * from.stride + key + column + e]) << e * 8 * sizeof(T) : 0;
        }
        ptx_st_shared_b32(to + pair_part<parts>(at, column / OF_PART) * 16 + column % OF_PART * sizeof(T), word);
    }
    return false;
}

#if PLACED
/* Gives `take` the block's jobs, once the queries of `count` groups from `first` on are here: then a job is known. */
template <int count, class T> ATTUNE_INLINE void each_known_job(const Shared &shared, unsigned base, int first, T take)
{
#pragma unroll 1
    for (int number = 0;; ++number) {
#pragma unroll
        for (int i = 0; i < (Q_PARTS > 1 ? count : 1); ++i) {
            const int part = number % Q_STAGES * Q_PARTS + (Q_PARTS > 1 ? first + i : 0);
            barrier_wait(base + smem_full_q + part * 8, number / Q_STAGES % 2);
        }
        const job &j = shared.jobs[number % JOBS];
        if (j.blocks == 0) {
            return;
        }
        take(j);
    }
}

ATTUNE_INLINE int key_of_tile(const job &j, int i)
{
    const int begins = walk_begins<BLOCK_M, BLOCK_N>(j);
    (void)begins;
    return j.key - WALK(begins, j.blocks, i) * BLOCK_N;
}

/* A group's place: its number among all. */
ATTUNE_INLINE int place_number(int group, held place)
{
    return group * PLACES + place.stage;
}

ATTUNE_INLINE unsigned place_at(unsigned base, int group, held place)
{
    return base + smem_pairs + group * GROUP_PAIRS_BYTES + place.stage * PLACE_BYTES;
}

#if BIAS_PLACED
/* What one warp does for `count` groups. */
template <int count>
ATTUNE_INLINE void produce_bias(const attune_args &args, const Shared &shared, unsigned base, int first, int lane)
{
    ring<PLACES> places;
    each_known_job<count>(shared, base, first, [&](const job &j) {
        const auto bias = pair_rows_of<element_bias>(args, args.tensor[ATTUNE_BIAS], j);
#pragma unroll 1
        for (int i = 0; i < j.blocks; ++i) {
            const held place = places.next();
#pragma unroll 1
            for (int group = first; group < first + count; ++group) {
                const unsigned number = place_number(group, place) * 8;
                barrier_wait(base + smem_empty_pairs + number, place.parity ^ 1);
                if (copy_group<BIAS_PARTS>(place_at(base, group, place), bias, j.row + group * 64, key_of_tile(j, i),
                                           lane)) {
                    ptx_cp_async_mbarrier_arrive_noinc(base + smem_full_pairs + number);
                } else {
                    ptx_mbarrier_arrive(base + smem_full_pairs + number);
                }
            }
        }
    });
}
#endif

#if ATTUNE_HAS_MASK
/* What one warp does for its group. */
ATTUNE_INLINE void produce_mask(const attune_args &args, const Shared &shared, unsigned base, int group, int lane)
{
    ring<PLACES> places;
    mask_packer packer = {};
    each_known_job<1>(shared, base, group, [&](const job &j) {
        const auto mask = pair_rows_of<unsigned char>(args, args.tensor[ATTUNE_MASK], j);
        const int row = j.row + group * 64;
        const mask_reader reader = reader_of(mask, row, lane);
        if (is_whole(mask, row, key_of_tile(j, 0))) {
            begin_mask(reader, key_of_tile(j, 0), lane, packer);
        }
#pragma unroll 1
        for (int i = 0; i < j.blocks; ++i) {
            const int key = key_of_tile(j, i), next = i + 1 < j.blocks ? key_of_tile(j, i + 1) : key;
            const held place = places.next();
            const int number = place_number(group, place);
            const unsigned to = place_at(base, group, place) + BIAS_BYTES;
            announce_mask(mask, row, i + 2 < j.blocks ? key_of_tile(j, i + 2) : -1, lane);
            barrier_wait(base + smem_empty_pairs + number * 8, place.parity ^ 1);
            const unsigned whole = pack_tile(mask, reader, row, key, next, to, lane, packer);
            if (lane == 0) {
                ptx_st_shared_b32(base + smem_all_seen + number * 4, whole);
            }
            ptx_mbarrier_arrive(base + smem_full_pairs + number * 8);
        }
    });
}
#endif

/* The warps of the producer's group but the first. With both, one warp copies all groups' bias. */
ATTUNE_INLINE void produce_pairs(const attune_args &args, const Shared &shared)
{
    enum { OF_BIAS = !BIAS_PLACED ? 0 : ATTUNE_HAS_MASK ? 1 : GROUPS, OF_MASK = ATTUNE_HAS_MASK ? GROUPS : 0 };
    static_assert(OF_BIAS + OF_MASK <= 3, "warps of the producer's group");
    const int warp = __shfl_sync(0xffffffff, (int)threadIdx.x / 32, 0) - 1, lane = (int)threadIdx.x % 32;
    unsigned base = ptx_cvta_shared(&shared);
    asm("" : "+r"(base)); /* NOTE: as in consumer_of */
#if BIAS_PLACED
    if (warp < OF_BIAS) {
        produce_bias<GROUPS / OF_BIAS>(args, shared, base, warp, lane);
    }
#endif
#if ATTUNE_HAS_MASK
    if (warp >= OF_BIAS && warp < OF_BIAS + OF_MASK) {
        produce_mask(args, shared, base, warp - OF_BIAS, lane);
    }
#endif
}

#endif

/* ---- A consumer's part of them ---- */

/* Until the next tile's are here. */
ATTUNE_INLINE void await_pairs(consumer &c)
{
#if PLACED
    c.place = c.places.next();
    barrier_wait(c.base + smem_full_pairs + place_number(c.group, c.place) * 8, c.place.parity);
#endif
}

/* NOTE: each warp for itself, once all its lanes have seen that they were here. */
ATTUNE_INLINE void leave_pairs(const consumer &c)
{
#if PLACED
    __syncwarp();
    if (c.thread % 32 == 0) {
        ptx_mbarrier_arrive(c.base + smem_empty_pairs + place_number(c.group, c.place) * 8);
    }
#endif
}

/* What the mask shows of the tile, to registers. */
ATTUNE_INLINE void take_mask(consumer &c)
{
#if ATTUNE_HAS_MASK
    const int row = c.thread / 32 * 16 + c.thread % 32 / 4;
    const unsigned at = place_at(c.base, c.group, c.place) + BIAS_BYTES + row * SEEN_ROW_BYTES;
    take_seen(at, c.thread % 4, c.seen[0]);
    take_seen(at + 8 * SEEN_ROW_BYTES, c.thread % 4, c.seen[1]);
    c.all_seen = ptx_ld_shared_b32(c.base + smem_all_seen + place_number(c.group, c.place) * 4);
#endif
}

/* Scores take in a bias, or, not being there yet, begin with it. */
template <bool begins> ATTUNE_INLINE void take_in(const consumer &c, float bias, float &s)
{
    s = begins ? bias * c.of_bias : fmaf(bias, c.of_bias, s);
}

#if BIAS_PLACED /* NOTE: of another type the compiler is lost, though nobody asks */
ATTUNE_INLINE float bias_in_half(unsigned two, int which)
{
    return to_float(element_bias{(unsigned short)(two >> which * 16)});
}
#endif

/* The bias of a tile from memory: of fp32, or, of a tile whose place may have been given back, any; `row` is the
 * lane's first in the sequence, `key` the tile's first. */
template <int count, bool begins>
ATTUNE_INLINE void take_bias_from_memory(const attune_args &args, const job &j, const consumer &c, int row, int key,
                                         scores &s)
{
    each_two<count>(pair_rows_of<element_bias>(args, args.tensor[ATTUNE_BIAS], j), row, key, c.thread % 32,
                    [&](int i, element_bias x, element_bias y) {
                        take_in<begins>(c, to_float(x), s[i]);
                        take_in<begins>(c, to_float(y), s[i + 1]);
                    });
}

/* The bias of the tile at hand. */
template <int count, bool begins>
ATTUNE_INLINE void take_bias(const attune_args &args, const job &j, const consumer &c, int row, int key, scores &s)
{
#if BIAS_PLACED
    const unsigned at = place_at(c.base, c.group, c.place);
    const int lane = c.thread % 32, first = c.thread / 32 * 16;
#pragma unroll
    for (int i = 0; i < count / 8; ++i) {
        unsigned two[4];
        ptx_ldmatrix_x4(two, at + pair_part<BIAS_PARTS>(first + lane % 16, i * 2 + lane / 16) * 16);
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            take_in<begins>(c, bias_in_half(two[n / 2], n % 2), s[i * 8 + n]);
        }
    }
#elif ATTUNE_HAS_BIAS
    take_bias_from_memory<count, begins>(args, j, c, row, key, s);
#endif
}

/* Scores that the mask hides. */
template <int count> ATTUNE_INLINE void hide_unseen(const consumer &c, float hidden, scores &s)
{
    if constexpr (ATTUNE_HAS_MASK) {
        if (c.all_seen == 0) {
            hide_by_bits<count>(c.seen, hidden, s);
        }
    }
}

/* What the products of a tile begin with, where that is not 0. */
ATTUNE_INLINE void begin_with_pairs(const attune_args &args, const job &j, consumer &c, int row, int key, scores &s)
{
    if constexpr (PAIRS_FIRST) {
        await_pairs(c);
        take_mask(c);
        take_bias<BLOCK_N / 2, true>(args, j, c, row, key, s);
        leave_pairs(c);
        hide_unseen<BLOCK_N / 2>(c, negative_infinity(), s);
    }
}

/* Bias and mask of a tile from memory, its place being gone. */
template <int count>
ATTUNE_INLINE void take_pairs_again(const attune_args &args, const job &j, consumer &c, int row, int key, float hidden,
                                    scores &s)
{
    if constexpr (ATTUNE_HAS_BIAS) {
        take_bias_from_memory<count, false>(args, j, c, row, key, s);
    }
    if constexpr (ATTUNE_HAS_MASK) {
        each_two<count>(pair_rows_of<unsigned char>(args, args.tensor[ATTUNE_MASK], j), row, key, c.thread % 32,
                        [&](int i, unsigned char x, unsigned char y) {
                            s[i] = x != 0 ? s[i] : hidden;
                            s[i + 1] = y != 0 ? s[i + 1] : hidden;
                        });
    }
}

#endif
#endif
