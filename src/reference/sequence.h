/* One sequence of a call as the reference sees it: where its rows lie, how many there are, and what each row sees. */
#ifndef REFERENCE_SEQUENCE_H
#define REFERENCE_SEQUENCE_H

#include <stdbool.h>

#include "attune/args.h"

typedef struct at_sequence {
    int64_t batch;
    int64_t q_first, kv_first;   /* varlen: first row in the packed tensors; else, and with pages kv_first, 0 */
    int64_t seqlen_q, seqlen_kv; /* rows, clamped to the declared maxima; seqused_kv applied */
    int64_t offset;              /* query row i is at position i + offset */
} at_sequence;

/* Reads CU_Q, CU_KV and USED_KV from host memory and clamps them to the declared maxima and to the tensors' totals. */
at_sequence at_sequence_of(const attune_args *args, int64_t batch);
/* Keys [*first, *end) that position alone lets query row `row` see (causal, window, length); MASK, DRAFT_MASK and BIAS
 * may hide more. Empty ranges have *first == *end. */
void at_sequence_range(const attune_args *args, const at_sequence *sequence, int64_t row, int64_t *first, int64_t *end);

/* Index of a tensor's element (batch, head, row, 0); `first` is the sequence's first packed row. */
int64_t at_row_index(const attune_args *args, attune_role role, int64_t batch, int64_t head, int64_t first,
                     int64_t row);
/* Index of element (head, key, 0) of a sequence in K or V, through its page table where there is one. */
int64_t at_key_index(const attune_args *args, attune_role role, const at_sequence *sequence, int64_t head, int64_t key);
/* The page of K's or V's pool that has a sequence's key; entries out of the pool count as the nearest that is in it. */
int64_t at_page_of(const attune_args *args, attune_role role, int64_t batch, int64_t key);
/* Whether DRAFT_MASK lets a query row see a key that it would see without. */
bool at_draft_sees(const attune_args *args, const at_sequence *sequence, int64_t row, int64_t key);
/* Index of element (sequence, head, row, key 0) of BIAS or MASK. */
int64_t at_pair_index(const attune_args *args, attune_role role, int64_t batch, int64_t head, int64_t row);

/* Elements of a tensor, converted exactly. */
double at_element(const attune_tensor *tensor, int64_t index);
void at_elements_double(const attune_tensor *tensor, int64_t index, int64_t count, double *to);
void at_elements_float(const attune_tensor *tensor, int64_t index, int64_t count, float *to);
/* `value` as the dtype would store it, and back. */
float at_round(int dtype, float value);

#endif
