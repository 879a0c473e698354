/* Noise: drift (clocks ramp down as a package heats, neighbours come and go) and order (an arm finds the caches as the
 * arm before it left them). Cure: arms alternate within short blocks. A block is a random permutation of the arms
 * followed by its reverse (A B B A for two), so that all arms have the same mean place in it, which cancels linear
 * drift exactly; a fresh permutation each block gives every arm every predecessor in the long run. */
#ifndef MEASURE_ORDER_H
#define MEASURE_ORDER_H

#include "base/random.h"

#define AT_ARMS_MAX 32

typedef struct at_order {
    at_random random;
    int arms;
} at_order;

/* 1 <= arms <= AT_ARMS_MAX. */
at_order at_order_seed(uint64_t seed, int arms);
/* The next block: 2 * arms indices. */
void at_order_block(at_order *order, int block[2 * AT_ARMS_MAX]);

#endif
