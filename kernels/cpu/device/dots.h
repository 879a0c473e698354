/* Products of bf16 numbers, two by two, accumulated in fp32: by tiles (AMX) where the tier has them, else by vectors.
 *
 *     c[panel][row][16] (+)= sum over pairs p of a[row][p] . b[panel][p][16]
 *
 * Rows of `a` are rows of K, or columns of V; the 16 lanes of a panel are query rows. Both forms read the same arrays:
 * a row of `a` is contiguous, and a pair of it meets the pairs of 16 lanes, which are side by side.
 *
 * Subnormal numbers count as 0, and so do subnormal sums: that is how the instructions are made.
 */
#ifndef KERNELS_CPU_DEVICE_DOTS_H
#define KERNELS_CPU_DEVICE_DOTS_H

#include "vector.h"

/* Pairs and rows come in multiples of these: what a tile has. */
enum { DOT_ROWS = 16, DOT_PAIRS = 16 };

/* What a caller has to compute at the same time, in portions: the instructions of a product leave the vector units
 * idle. `next` computes a portion. */
typedef struct meanwhile {
    void (*next)(void *work);
    void *work;
} meanwhile;

typedef struct dots {
    const uint32_t *a; /* [rows][a_step], of which `pairs` count */
    int64_t a_step;
    const uint32_t *b; /* [panels][b_step] */
    int64_t b_step;
    float *c; /* [panels][c_step] */
    int64_t c_step;
    int rows, pairs;
} dots;

#if defined(ATTUNE_TILES_MODELLED) /* by a test, which has defined what follows */
#define DOTS_IN_TILES
#elif defined(__AMX_BF16__)
#define DOTS_IN_TILES

/* Rows and bytes of every tile, as LDTILECFG reads them. */
typedef struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_shapes;

INLINE void tiles_open(void)
{
    static const tile_shapes whole = {
        .palette = 1,
        .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
        .rows = {16, 16, 16, 16, 16, 16, 16, 16},
    };
    _tile_loadconfig(&whole);
}

INLINE void tiles_close(void)
{
    _tile_release();
}

#define tile_zero(tile) _tile_zero(tile)
#define tile_load(tile, from, step_bytes) _tile_loadd(tile, from, step_bytes)
#define tile_store(tile, to, step_bytes) _tile_stored(tile, to, step_bytes)
#define tile_dots(sum, a, b) _tile_dpbf16ps(sum, a, b)
#endif

#if defined(DOTS_IN_TILES)

enum { DOTS_OVERLAP = 1 }; /* other work costs no time beside a product */

/* NOTE: tiles 0 ... 3 are sums, 4 and 5 rows of a, 6 and 7 panels of b: two by two, so that four products (16 cycles
 * each) wait for four loads (8 cycles each). */
#define LOAD_SUM(tile, c, add)                                                                                         \
    if (add) {                                                                                                         \
        tile_load(tile, c, 64);                                                                                        \
    } else {                                                                                                           \
        tile_zero(tile);                                                                                               \
    }

/* Two tiles of rows and `panels` panels, 1 or 2. */
INLINE void tiles_2(int panels, bool add, const dots *d, int row, meanwhile other)
{
    const uint32_t *a = d->a + row * d->a_step;
    const uint32_t *b = d->b;
    float *c = d->c + (int64_t)row * 16;
    const int64_t step = d->a_step * 4;
    LOAD_SUM(0, c, add)
    LOAD_SUM(2, c + 256, add)
    if (panels == 2) {
        LOAD_SUM(1, c + d->c_step, add)
        LOAD_SUM(3, c + d->c_step + 256, add)
    }
    for (int p = 0; p < d->pairs; p += DOT_PAIRS) {
        tile_load(4, a + p, step);
        tile_load(6, b + (int64_t)p * 16, 64);
        tile_dots(0, 4, 6);
        tile_load(5, a + 16 * d->a_step + p, step);
        tile_dots(2, 5, 6);
        if (panels == 2) {
            tile_load(7, b + d->b_step + (int64_t)p * 16, 64);
            tile_dots(1, 4, 7);
            tile_dots(3, 5, 7);
        }
        other.next(other.work);
    }
    tile_store(0, c, 64);
    tile_store(2, c + 256, 64);
    if (panels == 2) {
        tile_store(1, c + d->c_step, 64);
        tile_store(3, c + d->c_step + 256, 64);
    }
}

/* One tile of rows and one panel. */
INLINE void tiles_1(bool add, const dots *d, int row, int panel, meanwhile other)
{
    const uint32_t *a = d->a + row * d->a_step;
    const uint32_t *b = d->b + panel * d->b_step;
    float *c = d->c + panel * d->c_step + (int64_t)row * 16;
    LOAD_SUM(0, c, add)
    for (int p = 0; p < d->pairs; p += DOT_PAIRS) {
        tile_load(4, a + p, d->a_step * 4);
        tile_load(6, b + (int64_t)p * 16, 64);
        tile_dots(0, 4, 6);
        other.next(other.work);
    }
    tile_store(0, c, 64);
}

/* Adds to c, or writes it, for 1 or 2 panels; of the other work there may be a portion too many, or too few. */
INLINE void multiply_dots(int panels, bool add, const dots *d, meanwhile other)
{
    int row = 0;
    /* NOTE: gcc 12 does not know that a tile is loaded from memory: what was stored must not be moved past this. */
    __asm__ volatile("" ::: "memory");
    for (; row + 32 <= d->rows; row += 32) {
        tiles_2(panels, add, d, row, other);
    }
    for (int panel = 0; row < d->rows && panel < panels; ++panel) {
        tiles_1(add, d, row, panel, other);
    }
    __asm__ volatile("" ::: "memory");
}

#else

enum { DOTS_OVERLAP = 0 };

INLINE void tiles_open(void)
{
}

INLINE void tiles_close(void)
{
}

/* NOTE: a dot product takes 5 to 6 cycles, and two start in each at most: 16 sums keep the units busy. */
INLINE void vectors_of(int rows, int panels, bool add, const dots *d, int row)
{
    vf sum[16][2];
    float *c = d->c + (int64_t)row * 16;
    UNROLL
    for (int r = 0; r < rows; ++r) {
        UNROLL
        for (int v = 0; v < panels; ++v) {
            sum[r][v] = add ? load(c + v * d->c_step + (int64_t)r * 16) : splat(0);
        }
    }
    const uint32_t *a = d->a + row * d->a_step;
    for (int p = 0; p < d->pairs; ++p) {
        __m512bh right[2];
        UNROLL
        for (int v = 0; v < panels; ++v) {
            right[v] = (__m512bh)_mm512_load_si512(d->b + v * d->b_step + (int64_t)p * 16);
        }
        UNROLL
        for (int r = 0; r < rows; ++r) {
            __m512bh left = (__m512bh)_mm512_set1_epi32((int)a[r * d->a_step + p]);
            UNROLL
            for (int v = 0; v < panels; ++v) {
                sum[r][v] = _mm512_dpbf16_ps(sum[r][v], left, right[v]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; ++r) {
        UNROLL
        for (int v = 0; v < panels; ++v) {
            store(c + v * d->c_step + (int64_t)r * 16, sum[r][v]);
        }
    }
}

/* Adds to c, or writes it, for 1 or 2 panels. The other work would only be in the way. */
INLINE void multiply_dots(int panels, bool add, const dots *d, meanwhile other)
{
    const int rows = panels == 1 ? 16 : 8;
    (void)other;
    for (int row = 0; row < d->rows; row += rows) {
        vectors_of(rows, panels, add, d, row);
    }
}

#endif

#endif
