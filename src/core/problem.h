/* The problem noun beyond the public calls: derived facts, its class, and what tests state beside it. */
#ifndef CORE_PROBLEM_H
#define CORE_PROBLEM_H

#include <stdbool.h>

#include "attune/kernel.h"

/* A size of the problem, with its term in the text form and its limits. */
typedef struct at_size_field {
    const char *term;  /* "b" */
    const char *field; /* "batch" */
    size_t offset;     /* in attune_problem */
    size_t bytes;      /* of the field: 8 or 4 */
    int64_t least, most;
} at_size_field;

enum {
    AT_FIELD_BATCH,
    AT_FIELD_HEADS_Q,
    AT_FIELD_HEADS_KV,
    AT_FIELD_SEQLEN_Q,
    AT_FIELD_SEQLEN_KV,
    AT_FIELD_HEAD_DIM_QK,
    AT_FIELD_HEAD_DIM_V,
    AT_FIELD_COUNT
};
extern const at_size_field at_size_fields[AT_FIELD_COUNT];

#define AT_DIM_MAX INT64_C(2147483647)           /* batch, heads, lengths, window sides, magnitude of an offset */
#define AT_ALIGN_MAX 256                         /* bytes */
#define AT_PAGE_MAX 1024                         /* rows of a page */
#define AT_DRAFT_MAX 32                          /* rows of a draft: bits of a word */
#define AT_STATES_MAX 65536                      /* to merge */
#define AT_ELEMENTS_MAX ((INT64_C(1) << 62) - 1) /* of any tensor of a problem */

/* Bytes of one element; 0 for an unknown dtype. */
size_t at_dtype_bytes(int dtype);
const char *at_op_name(int op);         /* "fwd"; "?" for none */
const char *at_dtype_name(int dtype);   /* "fp16"; "?" for an unknown one */
const char *at_role_name(int role);     /* "Q", "CU_KV"; "?" */
const char *at_bias_name(int bias);     /* "1xh"; "?" for none or an unknown one */
const char *at_layout_name(int layout); /* "bhsd"; "?" */

/* The caller's problem, of whatever age, as a valid one of this library's; or what attune_problem_check returns. */
attune_status at_problem_take(const attune_problem *given, attune_problem *problem);
/* This library's problem into a caller's struct of `size` bytes. */
attune_status at_problem_give(const attune_problem *whole, attune_problem *problem, size_t size);

/* The dtype of a role's tensor: its own (LSE, MASK, ...), the problem's for it, or the problem's; -1 for no role. */
int at_problem_dtype(const attune_problem *problem, int role);
/* The problem's dtype in the lowest byte, in others those of the roles that have another, + 1. */
uint64_t at_problem_dtypes(const attune_problem *problem);
/* The scale in effect: the problem's, or 1 / sqrt(head_dim_qk). */
float at_problem_scale(const attune_problem *problem);
/* The alignment in effect, in bytes: at least one element; and the one in effect where none is given. */
int at_problem_align(const attune_problem *problem);
int at_problem_align_default(const attune_problem *problem);
/* The layout of a problem that gives none. */
int32_t at_problem_layout_default(const attune_problem *problem);
/* The same problem with what has no meaning, or equals its default, set to its default. Equal problems have equal
 * canonical forms. */
attune_problem at_problem_canonical(const attune_problem *problem);
/* ATTUNE_FEATURE_ bits of the problem. */
uint32_t at_problem_features(const attune_problem *problem);
/* Those that a kernel has to state: a permission, which it may leave unused, is none. */
uint32_t at_problem_demands(const attune_problem *problem);
bool at_problem_equal(const attune_problem *a, const attune_problem *b);
/* Whether the problem needs the role's tensor (LSE: false, it is always optional). */
bool at_problem_needs(const attune_problem *problem, attune_role role);
/* All of those, a bit for each role; and those that the operation writes, LSE, where it has that, among them. */
uint64_t at_problem_roles(const attune_problem *problem);
uint64_t at_problem_writes(const attune_problem *problem);
/* Whether it is decoding: few queries over many keys, or rows for a cache. What it reads has left the caches by then.
 */
bool at_problem_is_decode(const attune_problem *problem);
/* Columns that a page table of sequences of this length needs; 0 without pages. */
int64_t at_problem_table_width(const attune_problem *problem, int64_t seqlen_kv);

/* (query, key) pairs that causal, window and offset leave visible in one head of one sequence of these lengths. */
uint64_t at_problem_pairs(const attune_problem *problem, int64_t seqlen_q, int64_t seqlen_kv);

/* A problem as tests, benches and the gate state it: with how inputs draw the lengths of packed sequences. Its text is
 * the problem's with `varlen=SEED`; a problem's own text reads that term and forgets the number. */
typedef struct at_test_problem {
    attune_problem problem;
    uint64_t length_seed; /* 0 unless varlen */
} at_test_problem;

/* As the public functions of a problem; seeds count. A problem hashes and prints as one whose seed is 0. */
attune_status at_test_problem_parse(const char *text, at_test_problem *test);
attune_status at_test_problem_print(const at_test_problem *test, char *text, size_t bytes);
uint64_t at_test_problem_hash(const at_test_problem *test);
bool at_test_problem_equal(const at_test_problem *a, const at_test_problem *b);

#define AT_CLASS_TEXT_MAX 256
/* The key of wisdom and of the plan cache: the op, the static part, heads_q / heads_kv, and the power-of-two buckets
 * (rounded up) of batch * heads_q, seqlen_q and seqlen_kv; for example "fwd,bh8,g1,sq512,skv512,d64,dv64,fp16,causal".
 * Equal classes have equal texts. Values that kernels read at run time (scale, softcap, offset, seed) are not part of
 * it; a window's sides are, as buckets. `problem` is valid. */
void at_problem_class(const attune_problem *problem, char text[AT_CLASS_TEXT_MAX]);

#endif
