/* Transforms: many input sets from one. A transform is a number; under it signs of the columns of Q and K flip
 * together, so that no score changes, signs of V's columns flip and O's with them, and, where no other tensor tells
 * heads or batches apart, heads and batches change places. Every transform has other bits at the same addresses, and
 * its right result is known from the base's: the same numbers, moved and with other signs. So timed inputs can change
 * in secret as often as one likes, and every timed output be looked at, while only the base's result is judged by the
 * reference.
 *
 * kernels/cuda/harness.cu does the same on a device. */
#ifndef WORKER_TRANSFORM_H
#define WORKER_TRANSFORM_H

#include <stdbool.h>

#include "attune/attune.h"

/* One tensor's rows: packed tensors are one batch of all rows. */
typedef struct at_transform_role {
    int64_t batch, heads, rows, columns; /* of a pool: pages, heads, rows of a page */
    attune_tensor tensor;                /* of the base */
    size_t bytes;                        /* from its first element to its last */
} at_transform_role;

typedef struct at_transform_map {
    at_transform_role role[ATTUNE_O + 1]; /* Q, K, V, O */
    int64_t batch, heads_kv;
    bool moves; /* heads and batches may change places */
} at_transform_map;

/* What transforms do to calls of the problem. `rows_q` is the number of rows of Q that count, where they are packed. */
void at_transform_describe(const attune_problem *problem, const attune_call *call, int64_t rows_q,
                           at_transform_map *transformed);

/* Bytes from the first element of a result to its last, where it is laid out with these strides. */
size_t at_transform_result_bytes(const at_transform_map *transformed, const attune_tensor *strides);

/* Writes Q, K or V of the base under the transform to `to`, with the base's strides. Transform 0 changes nothing. */
void at_transform_apply(const at_transform_map *transformed, attune_role role, uint64_t transform, void *to);
/* Whether `got` (strides its own) is the base's O under the transform: bit by bit where `share` is 0, else within this
 * share of the row's largest. Zeros of either sign are the same. */
bool at_transform_matches(const at_transform_map *transformed, uint64_t transform, const attune_tensor *got,
                          double share);

/* How far a result may be off another of the same inputs, as such a share: 16 roundings in a row (in fp32, what sums in
 * another order and another exponential make of them; with tf32 of its eleven bits); 512 where one of the two
 * accumulates in fp16: large logits over 512 keys, computed naively so, are off by up to 360 at 128 columns; with tf32
 * 192 if they are of two kernels: large logits over 512 keys, computed naively so, are off by up to 63 at 64 columns,
 * and both may be. Whether a result is right is for the reference to say; this says whether it is that result. */
double at_transform_share(const attune_problem *problem, uint32_t traits, bool of_two);

#endif
