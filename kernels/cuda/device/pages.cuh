/* Keys and values of a sequence, in one piece or in pages of a pool.
 *
 * Row j of a sequence is row j % PAGE_ROWS of page table[j / PAGE_ROWS]. Tables lie on the device and nobody has
 * checked them: who reads takes an entry that is no page for the nearest one, and reads the entries of rows alone that
 * somebody sees, so that others may hold anything. Offsets are of 64 bits: pools have more than 2^31 elements. */
#ifndef DEVICE_PAGES_CUH
#define DEVICE_PAGES_CUH

#include "device/element.cuh"
#include "device/sequence.cuh"

enum { PAGED = ATTUNE_PAGE_SIZE > 0, PAGE_ROWS = PAGED ? ATTUNE_PAGE_SIZE : 1 };

/* ---- Tables ---- */

/* The entries of a sequence for K or V. `index` is its place in the batch, be its queries packed or not. */
template <int role> ATTUNE_INLINE const attune_i32 *page_table_of(const attune_args &args, attune_i64 index)
{
    constexpr int table = role == ATTUNE_V && ATTUNE_HAS_PAGED_V ? ATTUNE_PAGE_TABLE_V : ATTUNE_PAGE_TABLE_K;
    return row_of<const attune_i32>(args.tensor[table], index, 0, 0);
}

/* The page that an entry stands for; of a pool that has any. */
ATTUNE_INLINE int page_in_pool(const attune_args &args, attune_i32 entry)
{
    return min(max(entry, 0), (int)args.page_count - 1);
}

/* ---- Rows ---- */

/* Rows of K or V of a head of a sequence. */
template <class T> struct kv_rows {
    const T *origin; /* row 0; in pages, that of page 0 */
    attune_i64 stride;
    int first, end; /* rows that may be read */
    /* In pages: */
    const attune_i32 *table;
    attune_i64 page_stride;
};

/* Those that are seen, first ... end - 1, of which there may be none. In one piece all that the sequence has may be
 * read. */
template <int role, class T>
ATTUNE_INLINE kv_rows<T> kv_rows_of(const attune_args &args, const sequence &at, attune_i64 index, int head_kv,
                                    int first, int end)
{
    const attune_tensor &tensor = args.tensor[role];
    const attune_i64 stride = tensor.stride[ATTUNE_STRIDE_SEQ];
    if constexpr (PAGED) {
        return kv_rows<T>{row_of<const T>(tensor, 0, head_kv, 0), stride, first, end, page_table_of<role>(args, index),
                          tensor.stride[ATTUNE_STRIDE_BATCH]};
    } else {
        return kv_rows<T>{
            row_of<const T>(tensor, at.batch, head_kv, at.first_kv), stride, 0, (int)at.length_kv, nullptr, 0};
    }
}

template <class T> ATTUNE_INLINE bool kv_may_read(const kv_rows<T> &rows, int row)
{
    return (!PAGED || row >= rows.first) && row < rows.end;
}

/* Where a row is that may be read. */
template <class T> ATTUNE_INLINE const T *kv_row(const attune_args &args, const kv_rows<T> &rows, int row)
{
    if constexpr (PAGED) {
        const int page = page_in_pool(args, rows.table[(unsigned)row / PAGE_ROWS]);
        return rows.origin + page * rows.page_stride + (unsigned)row % PAGE_ROWS * rows.stride;
    } else {
        return rows.origin + row * rows.stride;
    }
}

#endif
