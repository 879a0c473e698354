/* What belongs to pairs of a query and a key, bias or mask, as it lies in memory, and a lane's share of a tile of it:
 * that of its sums (rows.cuh). */
#ifndef DEVICE_PAIR_ROWS_CUH
#define DEVICE_PAIR_ROWS_CUH

#include "device/element.cuh"

/* Rows of a matrix: those from `end_row` on do not exist, nor do columns from `end` on. */
template <class T> struct pair_rows {
    const T *first; /* row 0, column 0 */
    attune_i64 stride;
    int end_row, end;
};

template <class T> struct alignas(2 * sizeof(T)) pair_of {
    T e[2];
};

/* Two neighbours in a row; zeros where there is none. */
template <class T> ATTUNE_INLINE pair_of<T> two_in_row(const pair_rows<T> &from, int row, int column)
{
    const T *at = from.first + row * from.stride + column;
    pair_of<T> two = {};
#pragma unroll
    for (int e = 0; e < 2; ++e) {
        if (row < from.end_row && column + e < from.end) {
            two.e[e] = at[e];
        }
    }
    return two;
}

/* Gives `take` what a lane's first `count` sums of a tile have in a matrix: i, and the elements of i and i + 1. `row`
 * is the first of the lane's two rows, `key` the tile's first column, an even one. NOTE: four lanes read what is
 * together, 32 bytes of fp32, which no copy to shared memory would do better. */
template <int count, class T, class F>
ATTUNE_INLINE void each_two(const pair_rows<T> &from, int row, int key, int lane, F take)
{
    const int column = key + lane % 4 * 2;
    const unsigned odd =
        (unsigned)reinterpret_cast<attune_u64>(from.first) | (unsigned)from.stride * (unsigned)sizeof(T);
    const bool whole = row + 8 < from.end_row && key + count * 2 <= from.end;
    if (odd % sizeof(pair_of<T>) == 0 && __all_sync(0xffffffff, whole)) {
        const T *at = from.first + row * from.stride + column;
#pragma unroll
        for (int i = 0; i < count / 2; ++i) {
            const pair_of<T> two = *reinterpret_cast<const pair_of<T> *>(at + i % 2 * 8 * from.stride + i / 2 * 8);
            take(i * 2, two.e[0], two.e[1]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < count / 2; ++i) {
            const pair_of<T> two = two_in_row(from, row + i % 2 * 8, column + i / 2 * 8);
            take(i * 2, two.e[0], two.e[1]);
        }
    }
}

#endif
