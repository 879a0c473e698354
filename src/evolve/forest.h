/* A random forest for regression (Breiman 2001), with thresholds drawn by chance between neighbouring values (Geurts,
 * Ernst, Wehenkel 2006): the disagreement of its trees is what it does not know. Small: tens of trees over at most some
 * thousand rows. */
#ifndef EVOLVE_FOREST_H
#define EVOLVE_FOREST_H

#include <stdint.h>

#include "attune/attune.h"

enum { AT_FOREST_COLUMNS_MAX = 32 };

typedef struct at_forest_options {
    int trees;
    int leaf; /* rows that a leaf has at least */
    uint64_t seed;
} at_forest_options;

typedef struct at_forest at_forest;

/* x is [rows][columns]; both are read now and not kept. At least one row, at most AT_FOREST_COLUMNS_MAX columns. */
attune_status at_forest_grow(const double *x, const double *y, int rows, int columns, const at_forest_options *options,
                             at_forest **forest);
void at_forest_destroy(at_forest *forest);
/* The mean of the trees' answers, and their standard deviation (with the spread within leaves); NULL: not wanted. */
double at_forest_ask(const at_forest *forest, const double *x, double *deviation);

#endif
