/* The truth about one set of inputs: reference, naive result and tolerances, ready for the judge. */
#ifndef REFERENCE_TRUTH_H
#define REFERENCE_TRUTH_H

#include "reference/inputs.h"
#include "reference/judge.h"

typedef struct at_truth {
    at_pool *pool;
    attune_args args; /* over the inputs' host buffers */
    at_rows rows;
    double *block; /* all arrays of `one` */
    at_case one;
    bool is_view; /* rows and block are another's */
} at_truth;

typedef struct at_truth_want {
    bool acc16;     /* the kernel accumulates in fp16, and so does the naive computation */
    int64_t wanted; /* rows beside every tile's edges; 0: all rows */
    int64_t tile;   /* keys and rows of a tile, where not all rows are wanted */
} at_truth_want;

/* Computes the truth of `inputs`, which must outlive it; small cases get their redraws and their noise. Free with
 * at_truth_free, also after an error. */
attune_status at_truth_compute(at_pool *pool, const at_inputs *inputs, const at_truth_want *want, at_truth *truth);
void at_truth_free(at_truth *truth);
/* The same truth over other host buffers with the same inputs; what it was made from must outlive it. */
void at_truth_view(const at_truth *from, const at_inputs *inputs, at_truth *view);
/* Bytes of the arrays. */
size_t at_truth_bytes(const at_truth *truth);

#endif
