/* The outputs of a run, kept as dense rows, so that another run can be held against them bit for bit. */
#ifndef JUDGE_OUTPUTS_H
#define JUDGE_OUTPUTS_H

#include "reference/inputs.h"

typedef struct at_outputs {
    unsigned char *row[2]; /* of O and LSE, row after row; malloced */
    at_poison poison;      /* what the buffers held before the run */
} at_outputs;

/* A part of the outputs: everything, or one sequence. */
typedef struct at_part {
    int64_t first_batch, end_batch, first_row, end_row;
} at_part;

/* The rows of one output: packed sequences are one batch with the rows of all. */
typedef struct at_grid {
    int64_t batch, heads, rows;
    size_t row_bytes, element_bytes;
} at_grid;

at_grid at_outputs_grid(const at_inputs *inputs, attune_role role);
at_part at_outputs_whole(const at_inputs *inputs);
at_part at_outputs_sequence(const at_inputs *inputs, int64_t batch);

/* Copies O and LSE out of the host's buffers. Free with at_outputs_free, also after an error. */
attune_status at_outputs_keep(const at_inputs *inputs, at_outputs *kept);
void at_outputs_free(at_outputs *kept);
/* Puts back about every other row that was kept, drawn by the seed. */
void at_outputs_put_back(const at_outputs *kept, at_inputs *inputs, uint64_t seed);
/* Whether O (k 0) or LSE (k 1) in the buffers has the bits that were kept. ATTUNE_WRONG_RESULT begins with `rule`; or
 * with "outputs" where an element still holds what it was poisoned with, differently, before either run. */
attune_status at_outputs_same(const at_outputs *kept, const at_inputs *inputs, int k, const at_part *where,
                              const char *rule);

#endif
