/* Bias and mask of the wgmma kernel, which belong to pairs of a query and a key. Their strides are the call's, so no
 * tensor map brings them: for each consumer group a warp of the producer's group copies the group's 64 rows of each
 * tile into places of the group's own, PLACES tiles ahead, rows of whole 16-byte parts by cp.async where addresses
 * allow it.
 *
 * The bias lies as it comes, 16-byte parts swizzled or rows padded, and ldmatrix gives each thread its scores' pairs.
 * Of the mask the copying warp makes bits: of 64 columns of a row eight bytes, byte p of columns p, 8 + p, 16 + p, ...,
 * so that a thread reads two bytes at once, and says whether all are 1. Consumers read both before they wait for the
 * tile's scores. */
#ifndef DEVICE_WGMMA_PAIRS_CUH
#define DEVICE_WGMMA_PAIRS_CUH

#include "device/pair_rows.cuh"
#include "device/wgmma_consumer.cuh"

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

ATTUNE_INLINE unsigned bits_of(unsigned char x)
{
    return x;
}

ATTUNE_INLINE unsigned bits_of(element_bias x)
{
    return reinterpret_cast<const unsigned short &>(x);
}

/* Whether rows are of whole 16-byte parts. */
template <class T> ATTUNE_INLINE bool has_parts(const pair_rows<T> &from)
{
    return ((reinterpret_cast<attune_u64>(from.first) | (attune_u64)from.stride * sizeof(T)) & 15) == 0;
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

/* Tells L2 of rows that are to be copied later. NOTE: the mask has one place as it comes, and what comes from memory
 * would take longer than a tile. */
template <class T> ATTUNE_INLINE void announce_group(const pair_rows<T> &from, int row, int key, int lane)
{
    if (key >= 0 && key < from.end) {
#pragma unroll
        for (int i = 0; i < 64; i += 32) {
            if (row + i + lane < from.end_row) {
                ptx_prefetch_global_l2(from.first + (row + i + lane) * from.stride + key);
            }
        }
    }
}

/* Bit 7 of each byte that is not 0. */
ATTUNE_INLINE unsigned nonzero_bytes(unsigned x)
{
    return (((x & 0x7f7f7f7f) + 0x7f7f7f7f) | x) & 0x80808080;
}

/* The mask's bits of a tile that lies at `from` as it came, and whether all are 1. Returns whether it has bytes that
 * are neither 0 nor 1: then its bits are not true unless `any_byte`. NOTE: 64 columns at a time, for want of registers.
 * The masks of most have bytes of 0 and 1, whose sums, shifted, are their bits: a quarter of the instructions. */
template <bool any_byte> ATTUNE_INLINE bool pack_group(unsigned to, unsigned all_seen, unsigned from, int lane)
{
    unsigned all = 0xffffffff, others = 0;
#pragma unroll 1
    for (int i = lane; i < 64 * OCTETS; i += 32) {
        const int row = i % 64, first = i / 64 * 4;
        unsigned bits[2] = {0, 0}, none = 0xffffffff; /* of columns 0 ... 3 and 4 ... 7: a bit for each eight */
#pragma unroll
        for (int p = 0; p < 4; ++p) {
            if (BLOCK_N % 64 == 0 || first + p < BLOCK_N / 16) {
                const uint4 x = ptx_ld_shared_v4_b32(from + pair_part<MASK_PARTS>(row, first + p) * 16);
                if constexpr (any_byte) {
                    bits[0] |= nonzero_bytes(x.x) >> (7 - p * 2) | nonzero_bytes(x.z) >> (6 - p * 2);
                    bits[1] |= nonzero_bytes(x.y) >> (7 - p * 2) | nonzero_bytes(x.w) >> (6 - p * 2);
                } else {
                    bits[0] += (x.z * 2 + x.x) << p * 2;
                    bits[1] += (x.w * 2 + x.y) << p * 2;
                    others |= x.x | x.y | x.z | x.w;
                }
                none &= ~(0x03030303u << p * 2);
            }
        }
        all &= (bits[0] & bits[1]) | none;
        ptx_st_shared_v2_b32(to + row * SEEN_ROW_BYTES + i / 64 * 8, bits[0], bits[1]);
    }
    const bool whole = __all_sync(0xffffffff, all == 0xffffffff);
    if (lane == 0) {
        ptx_st_shared_b32(all_seen, whole);
    }
    return __any_sync(0xffffffff, (others & 0xfefefefe) != 0);
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
/* What one warp does for its group. NOTE: the mask is copied two tiles ahead, but not into the next job, whose queries
 * may wait for this one's last tile. */
ATTUNE_INLINE void produce_mask(const attune_args &args, const Shared &shared, unsigned base, int group, int lane)
{
    const unsigned raw = base + smem_pairs + group * GROUP_PAIRS_BYTES + PLACES * PLACE_BYTES;
    ring<PLACES> places;
    bool any_byte = false; /* some byte so far was neither 0 nor 1 */
    each_known_job<1>(shared, base, group, [&](const job &j) {
        const auto mask = pair_rows_of<unsigned char>(args, args.tensor[ATTUNE_MASK], j);
        const int row = j.row + group * 64;
        const auto copy = [&](int i) {
            if (i < j.blocks) {
                (void)copy_group<MASK_PARTS>(raw + i % PLACES * RAW_BYTES, mask, row, key_of_tile(j, i), lane);
                announce_group(mask, row, key_of_tile(j, i + 2), lane);
            }
            ptx_cp_async_commit_group();
        };
#pragma unroll 1
        for (int i = 0; i < PLACES; ++i) {
            copy(i);
        }
#pragma unroll 1
        for (int i = 0; i < j.blocks; ++i) {
            const held place = places.next();
            const int number = place_number(group, place);
            barrier_wait(base + smem_empty_pairs + number * 8, place.parity ^ 1);
            ptx_cp_async_wait_group<PLACES - 1>();
            __syncwarp();
            const unsigned to = place_at(base, group, place) + BIAS_BYTES, from = raw + i % PLACES * RAW_BYTES;
            const unsigned all_seen = base + smem_all_seen + number * 4;
            any_byte = any_byte || pack_group<false>(to, all_seen, from, lane);
            if (any_byte) {
                pack_group<true>(to, all_seen, from, lane);
            }
            ptx_mbarrier_arrive(base + smem_full_pairs + number * 8);
            __syncwarp();
            copy(i + PLACES);
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

#if PLACED
/* Until the next tile's are here. */
ATTUNE_INLINE void await_pairs(consumer &c)
{
    c.place = c.places.next();
    barrier_wait(c.base + smem_full_pairs + place_number(c.group, c.place) * 8, c.place.parity);
}

/* NOTE: each warp for itself, once all its lanes have seen that they were here. */
ATTUNE_INLINE void leave_pairs(const consumer &c)
{
    __syncwarp();
    if (c.thread % 32 == 0) {
        ptx_mbarrier_arrive(c.base + smem_empty_pairs + place_number(c.group, c.place) * 8);
    }
}

/* The next tile's, to registers. */
ATTUNE_INLINE void take_pairs(consumer &c)
{
    await_pairs(c);
    const unsigned at = place_at(c.base, c.group, c.place);
    const int lane = c.thread % 32, first = c.thread / 32 * 16;
    if constexpr (BIAS_PLACED) {
#pragma unroll
        for (int i = 0; i < steps_kv; ++i) {
            ptx_ldmatrix_x4(c.bias[i], at + pair_part<BIAS_PARTS>(first + lane % 16, i * 2 + lane / 16) * 16);
        }
    }
    if constexpr (ATTUNE_HAS_MASK) {
        const unsigned bits = at + BIAS_BYTES + (first + lane / 4) * SEEN_ROW_BYTES + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < OCTETS * 2; ++i) {
            c.seen[i / OCTETS][i % OCTETS] =
                ptx_ld_shared_u16(bits + i / OCTETS * (8 * SEEN_ROW_BYTES) + i % OCTETS * 8);
        }
        c.all_seen = ptx_ld_shared_b32(c.base + smem_all_seen + place_number(c.group, c.place) * 4);
    }
}

#endif

/* The same of a tile whose place may have been given back, from memory; `row` is the lane's first, in the tile. */
ATTUNE_INLINE void take_pairs_again(const attune_args &args, const job &j, consumer &c, int row, int key)
{
    const int column = key + c.thread % 4 * 2;
    if constexpr (BIAS_PLACED) {
        const pair_rows<element_bias> bias = pair_rows_of<element_bias>(args, args.tensor[ATTUNE_BIAS], j);
#pragma unroll
        for (int i = 0; i < BLOCK_N / 4; ++i) {
            const int of_row = j.row + row + i % 2 * 8, at = column + i / 2 * 8;
            const element_bias *from = bias.first + of_row * bias.stride + at;
            unsigned two[2] = {0, 0};
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                if (of_row < bias.end_row && at + e < bias.end) {
                    two[e] = reinterpret_cast<const unsigned short &>(from[e]);
                }
            }
            c.bias[i / 4][i % 4] = two[1] << 16 | two[0];
        }
    }
    if constexpr (ATTUNE_HAS_MASK) {
        const pair_rows<unsigned char> mask = pair_rows_of<unsigned char>(args, args.tensor[ATTUNE_MASK], j);
        c.all_seen = 0;
#pragma unroll
        for (int i = 0; i < OCTETS * 2; ++i) {
            const int of_row = j.row + row + i / OCTETS * 8;
            unsigned bits = 0;
#pragma unroll 1
            for (int bit = 0; bit < 16; ++bit) {
                const int at = column + i % OCTETS * 64 + bit % 8 * 8 + bit / 8;
                const bool seen = of_row < mask.end_row && at < mask.end && mask.first[of_row * mask.stride + at] != 0;
                bits |= (unsigned)seen << bit;
            }
            c.seen[i / OCTETS][i % OCTETS] = bits;
        }
    }
}

/* A bias of fp32 from memory: products begin with it, or take it in. `row` is the lane's first in the sequence, `key`
 * the tile's first. */
template <int count, bool begins>
ATTUNE_INLINE void take_bias(const attune_args &args, const job &j, const consumer &c, int row, int key, scores &s)
{
    each_two<count>(pair_rows_of<element_bias>(args, args.tensor[ATTUNE_BIAS], j), row, key, c.thread % 32,
                    [&](int i, element_bias x, element_bias y) {
                        s[i] = begins ? to_float(x) * c.of_bias : fmaf(to_float(x), c.of_bias, s[i]);
                        s[i + 1] = begins ? to_float(y) * c.of_bias : fmaf(to_float(y), c.of_bias, s[i + 1]);
                    });
}

#if BIAS_PLACED /* NOTE: of another type the compiler is lost, though nobody asks */
ATTUNE_INLINE float bias_of(const consumer &c, int i)
{
    return to_float(element_bias{(unsigned short)(c.bias[i / 8][i / 2 % 4] >> i % 2 * 16)});
}

#endif

/* Products take in the bias, and what the mask hides becomes `hidden`. */
template <int count> ATTUNE_INLINE void add_pairs(const consumer &c, float hidden, scores &s)
{
#if BIAS_PLACED
#pragma unroll
    for (int i = 0; i < count; ++i) {
        s[i] = fmaf(bias_of(c, i), c.of_bias, s[i]);
    }
#endif
    if constexpr (ATTUNE_HAS_MASK) {
        if (c.all_seen == 0) {
#pragma unroll
            for (int n = 0; n < OCTETS * 32; ++n) { /* NOTE: a word's bits in turn: one instruction makes predicates */
                const int word = n / 16, i = word / 2 * 32 + n % 8 * 4 + word % 2 * 2 + n / 8 % 2;
                if (i < count) {
                    s[i] = c.seen[word % 2][word / 2] >> (n % 16) & 1 ? s[i] : hidden;
                }
            }
        }
    }
}

#if BIAS_PLACED
/* A tile that has taken in its bias: none is left. */
ATTUNE_INLINE void forget_bias(consumer &c)
{
#pragma unroll
    for (int i = 0; i < BLOCK_N / 4; ++i) {
        c.bias[i / 4][i % 4] = 0;
    }
}

/* static_max_exponentiate of products that are yet to take in their bias. NOTE: in the shadow of the exponentials;
 * before them, on the other side of a branch, it would be waited for. */
template <int first, int end, class scaling>
ATTUNE_INLINE void exponentiate_biased(const consumer &c, const row_pair &rows, scores &s, const scaling &by,
                                       float (&sum)[2][2])
{
#pragma unroll
    for (int i = first; i < end; ++i) {
        float product = fmaf(bias_of(c, i), c.of_bias, s[i]);
        s[i] = ptx_ex2_approx_ftz_f32(score_above(by, product, rows.maximum[i / 2 % 2], i / 2 % 2));
        sum[i / 2 % 2][i % 2] += s[i];
    }
}

#endif

#endif
#endif
