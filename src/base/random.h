/* Reproducible random numbers: counter based, so that value i of a stream is a function of (seed, i) alone. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

typedef struct at_random {
    uint64_t state;
} at_random;

/* A stream for this seed; streams of different `stream` numbers are independent. */
at_random at_random_seed(uint64_t seed, uint64_t stream);
uint64_t at_random_next(at_random *random);
/* Uniform in [0, bound), without bias; bound >= 1. */
uint64_t at_random_below(at_random *random, uint64_t bound);
/* Uniform in [0, 1). */
double at_random_uniform(at_random *random);
/* Standard normal. */
double at_random_normal(at_random *random);

#endif
