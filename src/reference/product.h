/* Products of small matrices for the reference and the naive computation. Each element sums one product after another,
 * each rounded for itself (nothing is fused), so that every tier of every machine gives the bits of the plain loop. */
#ifndef REFERENCE_PRODUCT_H
#define REFERENCE_PRODUCT_H

#include <stdint.h>

/* Distances between rows are in elements. `columns` is a multiple of AT_PRODUCT_COLUMNS. */
typedef struct at_product {
    int64_t rows, columns, depth;
    int64_t left_pitch, right_pitch, out_pitch;
} at_product;

enum { AT_PRODUCT_COLUMNS = 16, AT_PRODUCT_TIERS = 3 };

/* out[rows][columns] += left[rows][depth] times right[depth][columns]. */
typedef struct at_product_ops {
    void (*of_float)(const at_product *shape, const float *left, const float *right, float *out);
    void (*of_double)(const at_product *shape, const double *left, const double *right, double *out);
} at_product_ops;

/* The widest that this machine runs. */
const at_product_ops *at_product_best(void);
/* Tier 0 runs everywhere; NULL where this machine lacks the tier. */
const at_product_ops *at_product_tier(int tier);

#endif
