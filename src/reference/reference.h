/* Attention in fp64, and the naive low-precision computation the numbers rules measure kernels by. Both read host
 * tensors through attune_args, exactly as stored, and share no code with any kernel. */
#ifndef REFERENCE_REFERENCE_H
#define REFERENCE_REFERENCE_H

#include "attune/args.h"
#include "base/threads.h"

/* One query row of one head of one sequence. */
typedef struct at_row {
    int64_t batch, head, row;
} at_row;

/* Rows to compute, in a fixed order. Varlen: only rows that exist. */
typedef struct at_rows {
    int64_t count;
    at_row *row;
} at_rows;

/* Every row of the call: batch outermost, then head, then row. Free with at_rows_free. */
attune_status at_rows_all(const attune_args *args, at_rows *rows);
/* A seeded choice of about `wanted` rows, the first and last row of every head, and the first and last rows of every
 * `tile` rows, sorted as above. Of more than AT_EDGES_MOST such edges each tile's are taken in some of the heads only,
 * other tiles' in other heads, so that about so many remain. */
enum { AT_EDGES_MOST = 8192 };
attune_status at_rows_some(const attune_args *args, int64_t wanted, int64_t tile, uint64_t seed, at_rows *rows);
void at_rows_free(at_rows *rows);

/* o: [rows][head_dim_v], lse: [rows]. */
attune_status at_reference_run(at_pool *pool, const attune_args *args, const at_rows *rows, double *o, double *lse);

/* As a plain framework would: S and P rounded to the problem's dtype, softmax in fp32, O rounded to the dtype; S stays
 * fp32 where the rounded one overflows and the fp64 result is finite. acc16: sums of Q K^T and P V are carried in fp16,
 * for judging kernels that declare ATTUNE_TRAIT_ACC16. */
attune_status at_naive_run(at_pool *pool, const attune_args *args, const at_rows *rows, int acc16, double *o,
                           double *lse);

/* How far rounding each score in fp32 may move the results, to first order; o and lse are the reference's. Cases too
 * small for their naive error to mean much are granted this much. */
void at_noise_run(at_pool *pool, const attune_args *args, const at_rows *rows, const double *o, const double *lse,
                  double *o_noise, double *lse_noise);

#endif
