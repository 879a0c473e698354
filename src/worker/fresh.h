/* Inputs that no call has had before, made of the base's as fast as memory is copied: columns rotate and some change
 * their signs, each of Q, K and V in a way of its own. So every score is another, and what a kernel kept of an earlier
 * call is of no use: neither results nor keys and values that it has packed. The right result follows from nothing but
 * the inputs themselves.
 *
 * Where no other tensor tells heads or batches apart, heads and batches change places too, Q's and K's and V's
 * together: queries of large logits meet keys of large logits under every key alike, and what scores cost (exponentials
 * that underflow, rows that are computed again) is the same in each sample. */
#ifndef WORKER_FRESH_H
#define WORKER_FRESH_H

#include "worker/transform.h"

/* What `transform` makes of a role. */
typedef struct at_fresh_key {
    uint64_t columns; /* of K and V, of all calls of a block; of Q, of the sample's call */
    uint64_t places;  /* of heads and batches, in the whole block */
} at_fresh_key;

/* Zeros for transform 0, the base. */
at_fresh_key at_fresh_key_of(uint64_t transform, attune_role role, int sample, int call);
/* Writes the role's tensor under the key to `to`, with the base's strides; what is between rows stays. */
void at_fresh_write(const at_transform_map *base, attune_role role, at_fresh_key key, void *to);

/* Whether no number of the result, whose strides are its own, consists of this byte alone. */
bool at_fresh_is_written(const at_transform_map *base, const attune_tensor *result, unsigned char byte);

#endif
