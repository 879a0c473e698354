/* The rate of bf16 dot products: of vectors, or of tiles. Each sum stays finite: every product is 0. */
#include <immintrin.h>

#include "cpu/peak.h"

#if defined(__AMX_BF16__)

/* Rows and bytes of every tile, as LDTILECFG reads them. */
typedef struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_shapes;

/* NOTE: a product takes 16 cycles and its sum is there after 52, so four tiles of sums keep the unit busy. */
int64_t ATTUNE_TIER(at_cpu_dots)(int64_t rounds, float *sink)
{
    float sum[16][16];
    tile_shapes shapes = {.palette = 1};
    for (int tile = 0; tile < 8; ++tile) {
        shapes.row_bytes[tile] = 64;
        shapes.rows[tile] = 16;
    }
    _tile_loadconfig(&shapes);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (int64_t round = 0; round < rounds; ++round) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sum, 64);
    _tile_release();
    *sink += sum[0][0];
    return rounds * 4 * (16 * 16 * 32 * 2);
}

#else

/* As many as the FMA loop of peak.kernel.c: a dot product takes 5 to 6 cycles, and two start in each at most. */
#define CHAINS 12

int64_t ATTUNE_TIER(at_cpu_dots)(int64_t rounds, float *sink)
{
    __m512 chain[CHAINS];
    __m512bh zero = (__m512bh)_mm512_setzero_si512();
    UNROLL
    for (int i = 0; i < CHAINS; ++i) {
        chain[i] = _mm512_set1_ps(*sink);
    }
    for (int64_t round = 0; round < rounds; ++round) {
        UNROLL
        for (int i = 0; i < CHAINS; ++i) {
            chain[i] = _mm512_dpbf16_ps(chain[i], zero, zero);
        }
    }
    for (int i = 0; i < CHAINS; ++i) {
        *sink += _mm512_cvtss_f32(chain[i]);
    }
    return rounds * CHAINS * (16 * 2 * 2);
}

#endif
