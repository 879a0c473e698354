/* A model of AMX's tiles, 16 rows of 64 bytes, for a kernel to be compiled on. Built for AVX-512 BF16, like the tier.
 */
#ifndef TESTS_KERNELS_TILES_MODEL_H
#define TESTS_KERNELS_TILES_MODEL_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TILES = 8, TILE_ROWS = 16, TILE_ROW_BYTES = 64 };

static _Thread_local struct {
    bool open;
    unsigned char tile[TILES][TILE_ROWS][TILE_ROW_BYTES];
} amx;

/* Ends the process where the instruction would: a tile is used before its shape is configured. */
static unsigned char (*tile_of(int tile))[TILE_ROW_BYTES]
{
    if (!amx.open || tile < 0 || tile >= TILES) {
        abort();
    }
    return amx.tile[tile];
}

/* The configuration zeroes all tiles; here they hold NaN, lest a sum should begin with what nobody put there. */
static void tiles_open(void)
{
    amx.open = true;
    memset(amx.tile, 0xff, sizeof amx.tile);
}

static void tiles_close(void)
{
    (void)tile_of(0);
    amx.open = false;
}

static void tile_zero(int tile)
{
    memset(tile_of(tile), 0, sizeof amx.tile[tile]);
}

static void tile_load(int tile, const void *from, int64_t step)
{
    for (int row = 0; row < TILE_ROWS; ++row) {
        memcpy(tile_of(tile)[row], (const char *)from + row * step, TILE_ROW_BYTES);
    }
}

static void tile_store(int tile, void *to, int64_t step)
{
    for (int row = 0; row < TILE_ROWS; ++row) {
        memcpy((char *)to + row * step, tile_of(tile)[row], TILE_ROW_BYTES);
    }
}

/* A bf16 of a row; subnormal ones count as 0. */
static float number(const unsigned char *row, int at)
{
    uint32_t bits = 0;
    float value;
    memcpy((unsigned char *)&bits + 2, row + (ptrdiff_t)at * 2, 2);
    memcpy(&value, &bits, sizeof value);
    return fpclassify(value) == FP_SUBNORMAL ? copysignf(0, value) : value;
}

/* sum[m][n] += a[m][2k] b[k][2n] + a[m][2k + 1] b[k][2n + 1] for every k. */
static void tile_dots(int sum, int a, int b)
{
    for (int m = 0; m < TILE_ROWS; ++m) {
        for (int n = 0; n < TILE_ROWS; ++n) {
            float total;
            memcpy(&total, tile_of(sum)[m] + (ptrdiff_t)n * 4, sizeof total);
            for (int k = 0; k < TILE_ROWS; ++k) {
                total += number(tile_of(a)[m], 2 * k) * number(tile_of(b)[k], 2 * n);
                total += number(tile_of(a)[m], 2 * k + 1) * number(tile_of(b)[k], 2 * n + 1);
            }
            memcpy(tile_of(sum)[m] + (ptrdiff_t)n * 4, &total, sizeof total);
        }
    }
}

#define ATTUNE_TILES_MODELLED 1
#define ATTUNE_TIER(symbol) symbol##_modelled

#endif
