/* Swizzled tiles of 16-bit elements, and the registers of wmma's 16x16x16 fragments filled from them.
 *
 * A row is whole 128-byte groups of eight 16-byte parts; part p of row r lies at part p ^ (r % 8) of its group. Eight
 * rows read at one column, or eight parts of one row, then fall into different banks without padding.
 *
 * NOTE: PTX leaves the layout of wmma fragments open; from sm_80 to sm_120 an m16n16k16 product compiles into two
 * HMMA.16816 of neighbouring columns, so that registers 0 to 3 of A and B are those of ldmatrix, and of 8 sums the
 * first four belong to columns 0 to 7. tests/gpu checks every element of it on the device. That is what lets logits
 * stay in registers. */
#ifndef DEVICE_SWIZZLE_CUH
#define DEVICE_SWIZZLE_CUH

#include "device/copy.cuh"

/* Elements of a row in shared memory. */
template <int dim> constexpr int swizzled_pitch = (dim + 63) / 64 * 64;

template <int pitch> ATTUNE_INLINE int swizzled_index(int row, int part)
{
    return row * pitch + (part ^ (row & 7)) * 8;
}

/* Rows first ... into the tile by `threads` threads that call themselves `thread`; rows from `end` on become zero. */
template <int rows, int dim, int threads, int pitch = swizzled_pitch<dim>>
ATTUNE_INLINE void swizzled_copy(element *tile, const element *origin, attune_i64 stride, int first, int end,
                                 int thread)
{
    static_assert(dim % 8 == 0 && sizeof(element) == 2 && ATTUNE_ALIGN % 16 == 0, "whole, aligned 16-byte parts");
    unsigned base = ptx_cvta_shared(tile);
    copy_parts<rows, dim / 8, threads>(origin, stride, first, end, thread, [base](int row, int part) {
        return base + (unsigned)(2 * swizzled_index<pitch>(row, part));
    });
}

/* Where a lane reads operands of a tile: the address of the row it names for ldmatrix, part 0 or 1 already swizzled in.
 * NOTE: parts are chosen by exclusive or, so that k-step 2 k of the row lies at the address ^ 16 (2 k % 8): one
 * register serves all steps, where sums of swizzled parts would each keep an address of their own. Tiles are aligned to
 * 128. */
template <int pitch> ATTUNE_INLINE unsigned lane_address(const element *tile, int row, int part)
{
    return ptx_cvta_shared(tile) + (unsigned)(row * pitch * 2 + ((row & 7) ^ part) * 16);
}

/* For A, and for B whose rows are the tile's: rows row ... row + 15. */
template <int pitch> ATTUNE_INLINE unsigned lane_rows(const element *tile, int row, int lane)
{
    return lane_address<pitch>(tile, row + lane % 16, lane / 16);
}

/* For B whose columns are the tile's rows row ... row + 15. */
template <int pitch> ATTUNE_INLINE unsigned lane_columns(const element *tile, int row, int lane)
{
    return lane_address<pitch>(tile, row + lane % 8 + lane / 16 * 8, lane / 8 % 2);
}

/* The place of 16 elements from 16 `step` on, `down` x 16 rows below. */
template <int pitch> ATTUNE_INLINE unsigned operand_address(unsigned lane, int down, int step)
{
    return (lane ^ (unsigned)(2 * step % 8 * 16)) + (unsigned)(2 * step / 8 * 128 + down * 16 * pitch * 2);
}

template <int pitch> ATTUNE_INLINE void load_operand(unsigned (&x)[4], unsigned lane, int down, int step)
{
    ptx_ldmatrix_x4(x, operand_address<pitch>(lane, down, step));
}

template <int pitch> ATTUNE_INLINE void load_operand_trans(unsigned (&x)[4], unsigned lane, int down, int step)
{
    ptx_ldmatrix_x4_trans(x, operand_address<pitch>(lane, down, step));
}

/* c += a b, 16x16x16. Sums of lane l: row l / 4 in c[0], c[1], c[4], c[5], row l / 4 + 8 in the others; columns
 * 2 (l % 4) and the next in c[0 ... 3], 8 more in c[4 ... 7]. */
ATTUNE_INLINE void wmma_mma16(float (&c)[8], const unsigned (&a)[4], const unsigned (&b)[4])
{
#if ATTUNE_DTYPE == 1
    /* The upper four registers of each operand are duplicates that no hardware from sm_80 on reads. */
    asm volatile("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, "
                 "{%8,%9,%10,%11,%8,%9,%10,%11}, {%12,%13,%14,%15,%12,%13,%14,%15}, {%0,%1,%2,%3,%4,%5,%6,%7};"
#else
    asm volatile("wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, "
                 "{%8,%9,%10,%11}, {%12,%13,%14,%15}, {%0,%1,%2,%3,%4,%5,%6,%7};"
#endif
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]));
}

/* The sums of a product as the A operand of the next: P from S. */
ATTUNE_INLINE void sums_as_a16(unsigned (&a)[4], const float (&c)[8])
{
    a[0] = pack_two(c[0], c[1]);
    a[1] = pack_two(c[2], c[3]);
    a[2] = pack_two(c[4], c[5]);
    a[3] = pack_two(c[6], c[7]);
}

#endif
