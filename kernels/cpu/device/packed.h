/* The two products of attention for a few packed query rows: lanes run along the head dims, and what is read of K or V
 * serves all rows of a group while it is in registers. Storage types are widened on the way. */
#ifndef KERNELS_CPU_DEVICE_PACKED_H
#define KERNELS_CPU_DEVICE_PACKED_H

#include "vector.h"

/* Vectors of columns whose sums a group of 4, 2 or 1 rows keeps in registers. NOTE: 8 chains of FMAs hide their
 * latency; 32 registers hold 16 beside the operands. */
#if VL == 16
#define VECTORS_4 4
#define VECTORS_2 8
#else
#define VECTORS_4 2
#define VECTORS_2 4
#endif
#define VECTORS_1 8

/* Vectors of eight lanes: half as many products for all else that a step takes, and registers for few operands. So
 * there several rows take two steps of head dims at once, and what several products read is held in a register. */
enum { NARROW = VL == 8 };

INLINE vf held(vf x)
{
#if VL == 8
    __asm__("" : "+x"(x)); /* or each product reads it from memory, where two reads a cycle are all */
#endif
    return x;
}

/* Where there is AMX, which only Intel's CPUs have; a test models its tiles. */
#if defined(__AMX_BF16__) || defined(ATTUNE_TILES_MODELLED)
#define WITH_TILES 1
#else
#define WITH_TILES 0
#endif

/* ---- Pairs ------------------------------------------------------------------------------------------------------ */

/* Whether two vectors that lie one behind the other are taken as elements in even places and elements in odd ones: of
 * bf16, for a shift and a mask widen both, where shuffles would take as long as the products. Rows of query and out are
 * in that order, too. */
INLINE bool is_paired(int dtype)
{
    return (NARROW || WITH_TILES) && dtype == ATTUNE_BF16;
}

INLINE void load_pair(const char *from, vf x[2])
{
    const vu both = (vu) * (const vf_unaligned *)from;
    x[0] = (vf)(both << 16);
    x[1] = (vf)(both & 0xffff0000u);
}

/* The first `count` floats of a row, but for what is no whole pair, into that order, or out of it. */
INLINE void part_pairs(float *row, int count)
{
    for (; count >= 2 * VL; count -= 2 * VL, row += 2 * VL) {
        float whole[2 * VL];
        memcpy(whole, row, sizeof whole);
        for (int i = 0; i < VL; ++i) {
            row[i] = whole[2 * i];
            row[VL + i] = whole[2 * i + 1];
        }
    }
}

INLINE void join_pairs(float *row, int count)
{
    for (; count >= 2 * VL; count -= 2 * VL, row += 2 * VL) {
        float parts[2 * VL];
        memcpy(parts, row, sizeof parts);
        for (int i = 0; i < VL; ++i) {
            row[2 * i] = parts[i];
            row[2 * i + 1] = parts[VL + i];
        }
    }
}

/* ---- What is asked for ------------------------------------------------------------------------------------------ */

/* Rows that will be needed: `count` of them, of which every line is to be asked for. NOTE: a few at a time between
 * arithmetic, for many at once fill the buffers of the L1 cache's misses, and computing waits until they have come; and
 * in memory's order, whatever the order of computing, for that is what the hardware's own prefetchers follow. */
typedef struct ahead {
    const char *const *row;
    int64_t line, bytes; /* of a row: the next line, all */
    int count;
#if WITH_TILES
    int groups; /* that ask */
#endif
} ahead;

#if WITH_TILES
/* Rows, one for each of 16 keys, of which so many groups of four query rows ask for a share each. NOTE: if the first
 * group alone asked, nothing would be asked for beside the others' arithmetic. */
typedef struct asked {
    const char *const *row; /* of the share; NULL: none */
    int groups;             /* 0: nobody asks */
} asked;

/* The groups that ask, of up to 16 query rows: a power of two, so that of three the last does not. */
INLINE int asking_groups(int rows)
{
    return rows <= 4 ? 1 : rows <= 12 ? 2 : 4;
}

/* The share of the group from query row `row` on, from key k on. */
INLINE asked share_of(const char *const *next, int groups, int row, int k)
{
    const bool asks = row % 4 == 0 && row / 4 < groups;
    return (asked){asks ? next + (row / 4 * VL + k) / groups : NULL, groups};
}

/* What a group asks for beside `keys` keys. */
INLINE ahead begin_asking(asked next, int64_t bytes, int keys)
{
    return (ahead){next.row, 0, bytes, next.row != NULL ? keys / next.groups : 0, next.groups};
}

/* Whether a group asks beside this step: one of as many steps as there are groups. */
INLINE bool asks_beside(const ahead *a, int step)
{
    return (step & (a->groups - 1)) == 0;
}
#else
/* NOTE: macros where functions would change what gcc makes of the other tiers. */
typedef const char *const *asked; /* rows, one for each key; NULL: none */

#define share_of(next, groups, row, k) ((void)(groups), (row) == 0 ? (next) + (k) : NULL)

INLINE ahead begin_asking(asked next, int64_t bytes, int keys)
{
    return (ahead){next, 0, bytes, next != NULL ? keys : 0};
}

#define asks_beside(a, step) true
#endif

/* NOTE: for all caches, but where there is AMX for the L2 cache: those for the L1 cache wait in its buffers, and on
 * Sapphire Rapids hardly overlap with arithmetic. */
INLINE void ask_for_line(const char *line)
{
    __builtin_prefetch(line, 0, WITH_TILES ? 2 : 3);
}

/* Asks for the next lines. NOTE: lines that are asked for as ones that need not stay pass Intel's L2
 * cache by, and no more of them are under way than the L1 cache has buffers for: on Sapphire Rapids that halves the
 * rate, and the more the further ahead. On Zen 5 it makes no difference. */
INLINE void ask_for(ahead *a, int lines)
{
    UNROLL
    for (int i = 0; i < lines; ++i) {
        if (a->count == 0) {
            return;
        }
        ask_for_line(*a->row + a->line);
        a->line += 64;
        if (a->line >= a->bytes) {
            a->line = 0;
            ++a->row;
            --a->count;
        }
    }
}

INLINE int lines_of(int count, int dtype)
{
    return (int)((count * bytes_of(dtype) + 63) / 64);
}

/* Whether a group asks for all of its share before it computes. NOTE: on Zen 3 faster than a few lines between the
 * arithmetic with one row of fp32; of 16-bit numbers, and with four rows, slower. */
INLINE bool asks_at_once(int rows, int dtype)
{
    return NARROW && rows == 1 && dtype == ATTUNE_FP32;
}

/* sum[r][k] += query[r] key[k], for the `count` dims from c on: so many keys side by side; so many lines are asked for.
 */
INLINE void add_dims(int rows, int dtype, const char *const *key, ahead *soon, int lines, const float *query, int pitch,
                     int c, int count, vf sum[VL])
{
    const int keys = VL / rows;
    vf q[4];
    ask_for(soon, lines);
    UNROLL
    for (int r = 0; r < rows; ++r) {
        q[r] = held(load(query + r * pitch + c));
    }
    UNROLL
    for (int k = 0; k < keys; ++k) {
        vf x = load_some(key[k] + c * bytes_of(dtype), dtype, count);
        UNROLL
        for (int r = 0; r < rows; ++r) {
            sum[r * keys + k] += x * q[r];
        }
    }
}

/* The same for two vectors of dims, a pair. */
INLINE void add_pair(int rows, const char *const *key, const float *query, int pitch, int c, vf sum[VL])
{
    const int keys = VL / rows;
    vf x[VL][2];
    if (!NARROW) {
        vf q[2][4];
        UNROLL
        for (int i = 0; i < 2 * rows; ++i) {
            q[i / rows][i % rows] = load(query + i % rows * pitch + c + i / rows * VL);
        }
        UNROLL
        for (int k = 0; k < keys; ++k) {
            load_pair(key[k] + c * bytes_of(ATTUNE_BF16), x[k]);
            UNROLL
            for (int i = 0; i < 2 * rows; ++i) {
                sum[i % rows * keys + k] += x[k][i / rows] * q[i / rows][i % rows];
            }
        }
        return;
    }
    UNROLL
    for (int k = 0; k < keys; ++k) {
        load_pair(key[k] + c * bytes_of(ATTUNE_BF16), x[k]);
    }
    UNROLL
    for (int i = 0; i < 2 * rows; ++i) {
        const vf q = held(load(query + i % rows * pitch + c + i / rows * VL));
        UNROLL
        for (int k = 0; k < keys; ++k) {
            sum[i % rows * keys + k] += x[k][i / rows] * q;
        }
    }
}

/* sum[r][k] += query[r] key, for one key and all dims. */
INLINE void add_key(int rows, int dtype, const char *key, ahead *soon, const float *query, int pitch, int depth, int k,
                    vf sum[VL])
{
    int c = 0;
    for (; is_paired(dtype) && c + 2 * VL <= depth; c += 2 * VL) {
        vf x[2];
        load_pair(key + c * bytes_of(dtype), x);
        ask_for(soon, c * bytes_of(dtype) % 64 == 0);
        UNROLL
        for (int i = 0; i < 2 * rows; ++i) {
            sum[i / 2 * (VL / rows) + k] += x[i % 2] * load(query + i / 2 * pitch + c + i % 2 * VL);
        }
    }
    for (; c < depth; c += VL) {
        vf x = load_some(key + c * bytes_of(dtype), dtype, depth - c);
        ask_for(soon, c * bytes_of(dtype) % 64 == 0);
        UNROLL
        for (int r = 0; r < rows; ++r) {
            sum[r * (VL / rows) + k] += x * load(query + r * pitch + c);
        }
    }
}

/* score[r * across + k] = query[r] key[k], for 4, 2 or 1 rows and VL / rows keys, while as many rows of `next`, or the
 * group's share of them, are asked for. Rows of `query` are padded with zeros to whole vectors. */
INLINE void score_group_of(int dtype, int rows, bool key_by_key, const char *const *key, asked next, const float *query,
                           int pitch, int depth, float *score, int across)
{
    ahead soon = begin_asking(next, depth * bytes_of(dtype), VL / rows);
    vf sum[VL];
    UNROLL
    for (int i = 0; i < VL; ++i) {
        sum[i] = splat(0);
    }
    if (key_by_key) {
        UNROLL
        for (int k = 0; k < VL / rows; ++k) {
            add_key(rows, dtype, key[k], &soon, query, pitch, depth, k, sum);
        }
    } else {
        const int keys = VL / rows, lines = asks_at_once(rows, dtype) ? 0 : lines_of(keys * VL, dtype);
        int c = 0;
        if (asks_at_once(rows, dtype)) {
            ask_for(&soon, keys * lines_of(depth, dtype));
        }
        for (; ((NARROW && rows > 1) || is_paired(dtype)) && c + 2 * VL <= depth; c += 2 * VL) {
            ask_for(&soon, asks_beside(&soon, c / VL / 2) ? lines_of(2 * keys * VL, dtype) : 0);
            if (is_paired(dtype)) {
                add_pair(rows, key, query, pitch, c, sum);
            } else {
                add_dims(rows, dtype, key, &soon, 0, query, pitch, c, VL, sum);
                add_dims(rows, dtype, key, &soon, 0, query, pitch, c + VL, VL, sum);
            }
        }
        for (; c + VL <= depth; c += VL) {
            add_dims(rows, dtype, key, &soon, asks_beside(&soon, c / VL) ? lines : 0, query, pitch, c, VL, sum);
        }
        if (c < depth) {
            add_dims(rows, dtype, key, &soon, asks_beside(&soon, c / VL) ? lines : 0, query, pitch, c, depth - c, sum);
        }
    }
    while (WITH_TILES && soon.count > 0) { /* of rows that are no multiples of a step's lines */
        ask_for(&soon, 1);
    }
    float whole[VL];
    vf all = lane_sums(sum);
    memcpy(whole, &all, sizeof whole);
    UNROLL
    for (int r = 0; r < rows; ++r) {
        memcpy(score + r * across, whole + r * (VL / rows), sizeof(float) * (size_t)(VL / rows));
    }
}

/* Whether a group takes half a line of each value: a line is asked for beside two. NOTE: beside each, all lines would
 * be asked for in the first half of the columns, more than the L1 cache has buffers for, and none in the other. */
INLINE bool takes_half_lines(int vectors, int dtype)
{
    return NARROW && dtype != ATTUNE_FP32 && vectors * VL * bytes_of(dtype) == 32;
}

/* out[r][columns] += sum over n of weight[r * across + n] * value[n][columns], for so many vectors of columns, the
 * last one perhaps not whole. */
INLINE void add_group_of(int rows, int vectors, int columns, int dtype, const char *value, int64_t step, ahead *soon,
                         const float *weight, int across, int keys, float *out, int pitch)
{
    vf sum[4][8];
    UNROLL
    for (int r = 0; r < rows; ++r) {
        UNROLL
        for (int v = 0; v < vectors; ++v) {
            sum[r][v] = load(out + r * pitch + v * VL);
        }
    }
    if (asks_at_once(rows, dtype)) {
        ask_for(soon, lines_of(keys * vectors * VL, dtype));
    }
    for (int n = 0; n < keys; ++n, value += step) {
        vf x[8];
        if (asks_beside(soon, n) && (!takes_half_lines(vectors, dtype) || n % 2 == 0)) {
            ask_for(soon, asks_at_once(rows, dtype) ? 0 : lines_of(vectors * VL, dtype));
        }
        UNROLL
        for (int v = 0; v < vectors; ++v) {
            const char *from = value + v * VL * bytes_of(dtype);
            if (!is_paired(dtype) || vectors == 1) {
                x[v] = load_some(from, dtype, columns - v * VL);
            } else if (v % 2 == 0) {
                load_pair(from, x + v);
            }
        }
        UNROLL
        for (int r = 0; r < rows; ++r) {
            float w = weight[r * across + n];
            UNROLL
            for (int v = 0; v < vectors; ++v) {
                sum[r][v] += w * x[v];
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; ++r) {
        UNROLL
        for (int v = 0; v < vectors; ++v) {
            store(out + r * pitch + v * VL, sum[r][v]);
        }
    }
}

/* All columns, as many vectors at once as the group's registers hold, while `keys` rows of `next`, or the group's share
 * of them, are asked for. */
INLINE void add_columns_of(int dtype, int rows, int most, const char *value, int64_t step, asked next,
                           const float *weight, int across, int keys, float *out, int pitch, int columns)
{
    const int64_t bytes = VL * bytes_of(dtype);
    ahead soon = begin_asking(next, columns * bytes_of(dtype), keys);
    for (; columns >= most * VL; columns -= most * VL, value += most * bytes, out += most * VL) {
        add_group_of(rows, most, most * VL, dtype, value, step, &soon, weight, across, keys, out, pitch);
    }
    for (; is_paired(dtype) && columns >= 2 * VL; columns -= 2 * VL, value += 2 * bytes, out += 2 * VL) {
        add_group_of(rows, 2, 2 * VL, dtype, value, step, &soon, weight, across, keys, out, pitch);
    }
    for (; columns >= VL; columns -= VL, value += bytes, out += VL) {
        add_group_of(rows, 1, VL, dtype, value, step, &soon, weight, across, keys, out, pitch);
    }
    if (columns > 0) {
        add_group_of(rows, 1, columns, dtype, value, step, &soon, weight, across, keys, out, pitch);
    }
    while ((NARROW || WITH_TILES) && soon.count > 0) { /* a row of an odd number of half lines */
        ask_for(&soon, 1);
    }
}

/* The rows of the next group: 4, 2 or 1; three are done as four. */
INLINE int group_of(int rows)
{
    return rows > 2 ? 4 : rows;
}

INLINE void score_rows_of(int dtype, int rows, bool key_by_key, const char *const *key, asked next, const float *query,
                          int pitch, int depth, float *score, int across)
{
    if (key_by_key) {
        score_group_of(dtype, rows, true, key, next, query, pitch, depth, score, across);
    } else {
        score_group_of(dtype, rows, false, key, next, query, pitch, depth, score, across);
    }
}

static void score_group(int rows, int dtype, bool key_by_key, const char *const *key, asked next, const float *query,
                        int pitch, int depth, float *score, int across)
{
    if (rows == 4) {
        WITH_DTYPE(dtype, score_rows_of, 4, key_by_key, key, next, query, pitch, depth, score, across)
    } else if (rows == 2) {
        WITH_DTYPE(dtype, score_rows_of, 2, key_by_key, key, next, query, pitch, depth, score, across)
    } else {
        WITH_DTYPE(dtype, score_rows_of, 1, key_by_key, key, next, query, pitch, depth, score, across)
    }
}

static void add_group(int rows, int dtype, const char *value, int64_t step, asked next, const float *weight, int across,
                      int keys, float *out, int pitch, int columns)
{
    if (rows == 4) {
        WITH_DTYPE(dtype, add_columns_of, 4, VECTORS_4, value, step, next, weight, across, keys, out, pitch, columns)
    } else if (rows == 2) {
        WITH_DTYPE(dtype, add_columns_of, 2, VECTORS_2, value, step, next, weight, across, keys, out, pitch, columns)
    } else {
        WITH_DTYPE(dtype, add_columns_of, 1, VECTORS_1, value, step, next, weight, across, keys, out, pitch, columns)
    }
}

#endif
