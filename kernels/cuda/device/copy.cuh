/* Rows of 16-byte parts, copied asynchronously from global into shared memory by cp.async (sm_80). */
#ifndef DEVICE_COPY_CUH
#define DEVICE_COPY_CUH

#include "device/element.cuh"
#include "device/stage.cuh"

/* The 16-byte parts of rows first ... first + rows - 1, copied asynchronously by `threads` threads that call themselves
 * `thread`: to(row, part) is a part's address in shared memory. Rows from `end` on become zero. Commit and wait with
 * the cp.async groups, or a barrier.
 *
 * NOTE: a thread keeps to one column of parts, so that its source moves by a constant and its target by an immediate;
 * with a quotient, a remainder and a 64-bit product for each part instead, a copying warp spends most of its time on
 * addresses, and a small problem waits for it. */
template <bool whole, int rows, int parts, int threads, class To>
ATTUNE_INLINE void copy_column(const element *origin, attune_i64 stride, int first, int end, int thread, To to)
{
    constexpr int step = threads / parts;
    int row = (int)((unsigned)thread / parts), part = (int)((unsigned)thread % parts);
    const element *from = origin + (attune_i64)(first + row) * stride + part * (int)(16 / sizeof(element));
#pragma unroll(whole ? 16 : 1)
    for (int i = 0; i < rows; i += step, from += step * stride) {
        if (rows % step == 0 || row + i < rows) {
            bool exists = whole || first + row + i < end;
            ptx_cp_async_cg_shared_global_16(to(row + i, part), exists ? from : origin, exists ? 16 : 0);
        }
    }
}

template <int rows, int parts, int threads, class To>
ATTUNE_INLINE void copy_parts(const element *origin, attune_i64 stride, int first, int end, int thread, To to)
{
    if constexpr (!with_loading) {
        return;
    } else if constexpr (threads % parts == 0) {
        if (first + rows <= end) {
            copy_column<true, rows, parts, threads>(origin, stride, first, end, thread, to);
        } else {
            copy_column<false, rows, parts, threads>(origin, stride, first, end, thread, to);
        }
    } else {
#pragma unroll 4
        for (int i = thread; i < rows * parts; i += threads) {
            int row = i / parts, part = i % parts;
            bool exists = first + row < end;
            const element *from = origin + (exists ? (first + row) * stride : 0) + part * (int)(16 / sizeof(element));
            ptx_cp_async_cg_shared_global_16(to(row, part), from, exists ? 16 : 0);
        }
    }
}

#endif
