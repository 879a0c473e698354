/* Keys in several parts: what a part leaves of a row in the workspace, and how the parts of a row are merged. The
 * descriptors' side is split.h. */
#ifndef KERNELS_CPU_DEVICE_PARTS_H
#define KERNELS_CPU_DEVICE_PARTS_H

#include "sequence.h"

/* The workspace: the number of the running step, then for each owner (a head of a sequence), part and row the output in
 * whole vectors, the maximum and the sum. */
enum { PARTS_HEAD = 64, PARTS_ROW = 16 }; /* bytes before the first row; floats after a row's output */

/* The parts of `split` keys that there are; 1 where split is 0: all keys. */
static inline int64_t count_parts(const attune_args *args, int64_t split)
{
    return split == 0 ? 1 : greater_of((args->seqlen_kv + split - 1) / split, 1);
}

/* Whether the step that runs is the one that merges: the fill before it has written so. */
static inline bool are_merging(const attune_args *args, int64_t parts)
{
    return parts > 1 && *(const uint32_t *)args->workspace != 0;
}

typedef struct part_rows {
    float *first; /* the owner's first row in its first part */
    int64_t rows; /* of a part */
    int64_t parts;
    int pitch; /* floats of a row's output */
} part_rows;

static inline part_rows find_parts(const attune_args *args, int64_t owner, int64_t parts, int64_t rows, int pitch)
{
    float *all = (float *)((char *)args->workspace + PARTS_HEAD);
    return (part_rows){all + owner * parts * rows * (pitch + PARTS_ROW), rows, parts, pitch};
}

/* The output of a row; its maximum and its sum follow. */
static inline float *part_row(const part_rows *of, int64_t part, int64_t row)
{
    return of->first + (part * of->rows + row) * (of->pitch + PARTS_ROW);
}

static inline void leave_part(const part_rows *of, float *to, float top, float sum)
{
    to[of->pitch] = top;
    to[of->pitch + 1] = sum;
}

/* x * share; what is not finite stays where that is too small for fp32. */
INLINE vf scaled(vf x, float share)
{
    return blend(not_finite(x) & (splat(share) == splat(0)), x, x * share);
}

/* What a part weighs beside the others, whose maximum is `top`. Parts that have seen nothing (-infinity) or only NaN
 * weigh nothing, but NaN stays NaN. */
static inline float share_of_part(float own, float top)
{
    return own == top ? 1 : expf(own - top);
}

/* Merges a row's parts into `out`, in whole vectors, and closes the row with its sink: *lse is what it says. The sum
 * comes first, so that large outputs of many parts stay finite. */
static inline void merge_parts(const part_rows *of, int64_t row, float sink, float *out, float *lse)
{
    float top = -INFINITY, sum = 0;
    for (int64_t part = 0; part < of->parts; ++part) {
        float own = part_row(of, part, row)[of->pitch];
        top = own > top ? own : top;
    }
    for (int64_t part = 0; part < of->parts; ++part) {
        const float *from = part_row(of, part, row) + of->pitch;
        sum += from[1] * share_of_part(from[0], top);
    }
    *lse = top;
    float whole = close_row(sink, sum, lse);
    memset(out, 0, sizeof(float) * (size_t)of->pitch);
    for (int64_t part = 0; part < of->parts && sum != 0; ++part) {
        const float *from = part_row(of, part, row);
        float share = share_of_part(from[of->pitch], top) * whole;
        for (int c = 0; c < of->pitch; c += VL) {
            store(out + c, load(out + c) + scaled(load(from + c), share));
        }
    }
}

/* Stores a row of O in its storage type, each number times `share`. */
static inline void store_row_out(const attune_args *args, int64_t batch, int64_t head, int64_t row, const float *out,
                                 float share)
{
    const int dtype = args->tensor[ATTUNE_O].dtype;
    char *to = row_address(args, ATTUNE_O, batch, head, row);
    for (int c = 0; c < args->head_dim_v; c += VL) {
        vf x = load(out + c);
        store_some(to + c * bytes_of(dtype), dtype, args->head_dim_v - c, scaled(x, share));
    }
}

/* Lets the sink join, and stores the row's output and LSE. */
static inline void store_row(const attune_args *args, int64_t batch, int64_t head, int64_t row, const float *out,
                             float top, float sum)
{
    float share = close_row(sink_of(args, head), sum, &top);
    store_row_out(args, batch, head, row, out, share);
    store_row_lse(args, batch, head, row, top);
}

#endif
