/* The two products of attention, transposed: numbers of K or V, broadcast, times vectors of query rows. The sums of one
 * call stay in registers. */
#ifndef KERNELS_CPU_DEVICE_PRODUCT_H
#define KERNELS_CPU_DEVICE_PRODUCT_H

#include "vector.h"

/* Rows of K, or columns of V, that a product takes at once with 1 to 4 vectors of query rows: its sums. NOTE: an FMA
 * takes 4 cycles and two start each cycle, so at least 8 must be under way; 12 leave room for the operands in 16
 * registers, 24 in 32. */
#define ROWS_1 12
#if defined(__AVX512F__)
#define ROWS_2 12
#define ROWS_3 8
#define ROWS_4 6
#else
#define ROWS_2 6
#define ROWS_3 4
#define ROWS_4 3
#endif
enum { VECTORS_MAX = 4 };

/* sum over n of a[r * across + n * along] * b[n][vectors], for `rows` of r. */
INLINE void product(int rows, int vectors, const float_unaligned *a, int64_t across, int64_t along, const float *b,
                    int count, vf sum[][VECTORS_MAX])
{
    UNROLL
    for (int r = 0; r < rows; ++r) {
        UNROLL
        for (int v = 0; v < vectors; ++v) {
            sum[r][v] = splat(0);
        }
    }
    for (int n = 0; n < count; ++n) {
        vf right[VECTORS_MAX];
        UNROLL
        for (int v = 0; v < vectors; ++v) {
            right[v] = load(b + (n * vectors + v) * VL);
        }
        UNROLL
        for (int r = 0; r < rows; ++r) {
            float left = a[r * across + n * along];
            UNROLL
            for (int v = 0; v < vectors; ++v) {
                sum[r][v] += left * right[v];
            }
        }
    }
}

INLINE void score_keys_of(int rows, int vectors, const float_unaligned *key, int64_t pitch, const float *query,
                          int depth, float *score)
{
    vf sum[ROWS_1][VECTORS_MAX];
    product(rows, vectors, key, pitch, 1, query, depth, sum);
    UNROLL
    for (int r = 0; r < rows; ++r) {
        UNROLL
        for (int v = 0; v < vectors; ++v) {
            store(score + (r * vectors + v) * VL, sum[r][v]);
        }
    }
}

INLINE void add_columns_of(int rows, int vectors, const float_unaligned *value, int64_t pitch, const float *weight,
                           int keys, const float *decay, float *out)
{
    vf sum[ROWS_1][VECTORS_MAX];
    product(rows, vectors, value, 1, pitch, weight, keys, sum);
    UNROLL
    for (int r = 0; r < rows; ++r) {
        UNROLL
        for (int v = 0; v < vectors; ++v) {
            float *to = out + (r * vectors + v) * VL;
            store(to, load(to) * load(decay + v * VL) + sum[r][v]);
        }
    }
}

/* Calls a function with numbers of rows and vectors that the compiler knows. */
#define CASE(rows, function, vectors, ...)                                                                             \
    case rows:                                                                                                         \
        function(rows, vectors, __VA_ARGS__);                                                                          \
        break;
#define WITH_ROWS_3(...) CASE(1, __VA_ARGS__) CASE(2, __VA_ARGS__) CASE(3, __VA_ARGS__)
#define WITH_ROWS_4(...) WITH_ROWS_3(__VA_ARGS__) CASE(4, __VA_ARGS__)
#define WITH_ROWS_6(...) WITH_ROWS_4(__VA_ARGS__) CASE(5, __VA_ARGS__) CASE(6, __VA_ARGS__)
#define WITH_ROWS_8(...) WITH_ROWS_6(__VA_ARGS__) CASE(7, __VA_ARGS__) CASE(8, __VA_ARGS__)
#define WITH_ROWS_12(...)                                                                                              \
    WITH_ROWS_8(__VA_ARGS__)                                                                                           \
    CASE(9, __VA_ARGS__) CASE(10, __VA_ARGS__) CASE(11, __VA_ARGS__) CASE(12, __VA_ARGS__)
#define JOIN(a, b) a##b
#define WITH_ROWS(most, ...) JOIN(WITH_ROWS_, most)(__VA_ARGS__)
#define WITH_PANEL(rows, vectors, function, ...)                                                                       \
    if ((vectors) == 1) {                                                                                              \
        switch (rows) {                                                                                                \
            WITH_ROWS(ROWS_1, function, 1, __VA_ARGS__)                                                                \
        }                                                                                                              \
    } else if ((vectors) == 2) {                                                                                       \
        switch (rows) {                                                                                                \
            WITH_ROWS(ROWS_2, function, 2, __VA_ARGS__)                                                                \
        }                                                                                                              \
    } else if ((vectors) == 3) {                                                                                       \
        switch (rows) {                                                                                                \
            WITH_ROWS(ROWS_3, function, 3, __VA_ARGS__)                                                                \
        }                                                                                                              \
    } else {                                                                                                           \
        switch (rows) {                                                                                                \
            WITH_ROWS(ROWS_4, function, 4, __VA_ARGS__)                                                                \
        }                                                                                                              \
    }

/* score[r][vectors] = sum over p of key[r][p] * query[p][vectors], for a group of rows of K `pitch` apart. */
static void score_keys(int rows, int vectors, const float_unaligned *key, int64_t pitch, const float *query, int depth,
                       float *score)
{
    WITH_PANEL(rows, vectors, score_keys_of, key, pitch, query, depth, score)
}

/* out[c][vectors] = out * decay + sum over n of value[n][c] * weight[n][vectors], for a group of columns of V. */
static void add_columns(int columns, int vectors, const float_unaligned *value, int64_t pitch, const float *weight,
                        int keys, const float *decay, float *out){
    WITH_PANEL(columns, vectors, add_columns_of, value, pitch, weight, keys, decay, out)}

/* The size of the next group of `count` rows or columns: all as even as can be, for a small rest would leave the FMA
 * units idle. */
INLINE int next_group(int count, int vectors)
{
    static const int most[VECTORS_MAX] = {ROWS_1, ROWS_2, ROWS_3, ROWS_4};
    int groups = (count + most[vectors - 1] - 1) / most[vectors - 1];
    return (count + groups - 1) / groups;
}

#endif
