/* Tiles of rows, from global into shared memory as fp32. */
#ifndef DEVICE_TILE_CUH
#define DEVICE_TILE_CUH

#include "device/copy.cuh"

/* Rows from(0), from(1), ... into tile[0 ...], `columns` floats each (a multiple of the four that a thread takes, or
 * any); rows r that are not there, without exists(r), and columns from `dim` on become zero. All threads take part;
 * neighbours read neighbouring addresses. Returns whether all this thread saw was finite. */
template <int rows, int dim, int columns, int pitch, class From, class Exists>
ATTUNE_INLINE bool tile_fill(float (&tile)[rows][pitch], From from, Exists exists)
{
    constexpr int step = columns % 4 == 0 ? 4 : 1;
    constexpr int parts = columns / step;
    bool finite = true;
    for (int i = (int)threadIdx.x; with_loading && i < rows * parts; i += ATTUNE_THREADS) {
        int r = i / parts, c = i % parts * step;
        auto row = from(r);
        bool there = exists(r);
        if constexpr (step == 4) {
            float4 x = there ? load_four<dim>(row, c) : make_float4(0, 0, 0, 0);
            finite = finite && is_finite(x.x) && is_finite(x.y) && is_finite(x.z) && is_finite(x.w);
            *reinterpret_cast<float4 *>(&tile[r][c]) = x;
        } else {
            float x = there && c < dim ? to_float(row[c]) : 0;
            finite = finite && is_finite(x);
            tile[r][c] = x;
        }
    }
    return finite;
}

/* Rows first ... first + rows - 1 of those that are `stride` apart; there are `end`. */
template <int rows, int dim, int columns, int pitch, class T>
ATTUNE_INLINE bool tile_load(float (&tile)[rows][pitch], const T *origin, attune_i64 stride, int first, int end)
{
    return tile_fill<rows, dim, columns>(
        tile, [=](int r) { return origin + (first + r) * stride; }, [=](int r) { return first + r < end; });
}

/* Rows first ... first + rows - 1 into tile[0 ...] as they are stored. `dim` is a whole number of 16-byte parts, and
 * rows are aligned to 16 bytes on both sides. */
template <int rows, int dim, int threads = ATTUNE_THREADS, int pitch>
ATTUNE_INLINE void tile_copy(element (&tile)[rows][pitch], const element *origin, attune_i64 stride, int first, int end,
                             int thread = (int)threadIdx.x)
{
    constexpr int step = 16 / sizeof(element);
    static_assert(dim % step == 0 && pitch % step == 0 && ATTUNE_ALIGN % 16 == 0, "whole, aligned 16-byte parts");
    unsigned base = ptx_cvta_shared(&tile[0][0]);
    copy_parts<rows, dim / step, threads>(origin, stride, first, end, thread, [base](int row, int part) {
        return base + (unsigned)(row * pitch * (int)sizeof(element) + part * 16);
    });
}

#endif
