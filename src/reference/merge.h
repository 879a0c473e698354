/* Merging states by their LSE: in fp64, as a plain framework would, and what fp32 may do to it. */
#ifndef REFERENCE_MERGE_H
#define REFERENCE_MERGE_H

#include "reference/reference.h"

/* As at_reference_run and at_naive_run (all in fp32, O rounded to its dtype), of args of a merge. */
void at_merge_run(const attune_args *args, const at_rows *rows, double *o, double *lse);
void at_merge_naive(const attune_args *args, const at_rows *rows, double *o, double *lse);
/* As at_noise_run: the difference of two LSEs is off by 2^-24 of itself, and so is each product. */
void at_merge_noise(const attune_args *args, const at_rows *rows, const double *o, const double *lse, double *o_noise,
                    double *lse_noise);

#endif
