/* The one loop that times arms against each other, for whoever times: benches and races in their own process
 * (interleave.h), the gate and searches in workers (session.h). Its rules:
 *
 * - A block is a fresh random permutation of the arms and its reverse (order.h), and holds two samples of each arm.
 * - Warm-up comes first: whole blocks that are thrown away, until whoever times has had enough; the usual reason is
 * that the times have settled (warmup.h).
 * - Then each block is kept as it was measured, every sample raw, until whoever times has enough. What does not count
 * is dropped block by block, and by whoever judges.
 * - Warm, arms find the caches as the arms before them left them; cold, whoever takes blocks empties them before each
 *   sample.
 *
 * How a block is taken (calls in this process, replays of graphs, workers) is behind `take`. */
#ifndef MEASURE_BLOCKS_H
#define MEASURE_BLOCKS_H

#include <stdbool.h>

#include "attune/attune.h"
#include "measure/clock.h"
#include "measure/order.h"
#include "measure/warmup.h"

typedef struct at_blocks {
    /* Fill these in. */
    void *self; /* handed to every member */
    at_clock clock;
    at_order order;
    double settled; /* the warm-up may end when rounds agree within this share */
    /* Times `count` samples, of the arms in this order, into us[arm][0] and [1]. */
    attune_status (*take)(void *self, const int *order, int count, double (*us)[2]);
    /* After each block of the warm-up. */
    bool (*warm)(void *self, int blocks, double spent_s);
    /* Before each block that is kept, and after each. */
    bool (*more)(void *self, int blocks, double spent_s);
    attune_status (*keep)(void *self, double (*us)[2]);
    /* These start as zeros. */
    double us[AT_ARMS_MAX][2];
    at_warmup warmup[AT_ARMS_MAX];
} at_blocks;

/* One block at least; *spent_s may be NULL. */
attune_status at_blocks_warm_up(at_blocks *on, double *spent_s);
/* Whether the warm-up's times have settled, of all arms. */
bool at_blocks_settled(const at_blocks *on);
attune_status at_blocks_sample(at_blocks *on);

#endif
