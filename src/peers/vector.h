/* Vector work around the GEMMs of a peer, built for each CPU tier: a library is only as good a peer as what is
 * between its calls. */
#ifndef PEERS_VECTOR_H
#define PEERS_VECTOR_H

#include <stdint.h>

#include "attune/kernel.h"

typedef struct at_vector_ops {
    /* row[i] <- exp(row[i] - m) with m the largest of count >= 1 values; returns their sum and *largest = m. Within
     * 2 ulp of the exact exponential; what lies below exp(-87) is 0. A NaN makes the sum NaN. */
    float (*exponentials)(float *row, int64_t count, float *largest);
    /* row[i] <- row[i] * factor. */
    void (*scale)(float *row, int64_t count, float factor);
    /* fp16 or bf16 to fp32, and back with rounding to nearest even. */
    void (*widen)(float *to, const uint16_t *from, int64_t count, attune_dtype dtype);
    void (*narrow)(uint16_t *to, const float *from, int64_t count, attune_dtype dtype);
} at_vector_ops;

/* The functions of a tier, which the CPU must have. Static storage. */
const at_vector_ops *at_vector_of(attune_isa isa);

#endif
