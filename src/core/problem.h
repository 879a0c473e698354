/* The problem noun beyond the public calls: derived facts, and its class. */
#ifndef CORE_PROBLEM_H
#define CORE_PROBLEM_H

#include <stdbool.h>

#include "attune/kernel.h"

/* Bytes of one element; 0 for an unknown dtype. */
size_t at_dtype_bytes(int dtype);
const char *at_dtype_name(int dtype); /* "fp16"; "?" for an unknown one */
const char *at_role_name(int role);   /* "Q", "CU_KV"; "?" */

/* The scale in effect: the problem's, or 1 / sqrt(head_dim_qk). */
float at_problem_scale(const attune_problem *problem);
/* The alignment in effect, in bytes. */
int at_problem_align(const attune_problem *problem);
/* ATTUNE_FEATURE_ bits of the problem. */
uint32_t at_problem_features(const attune_problem *problem);
bool at_problem_equal(const attune_problem *a, const attune_problem *b);
/* Whether the problem needs the role's tensor (LSE: false, it is always optional). */
bool at_problem_needs(const attune_problem *problem, attune_role role);

#define AT_CLASS_TEXT_MAX 256
/* The key of wisdom and of the plan cache: the static part, heads_q / heads_kv, and the power-of-two buckets (rounded
 * up) of batch * heads_q, seqlen_q and seqlen_kv; for example "fwd,bh8,g1,sq512,skv512,d64,dv64,fp16,causal". Equal
 * classes have equal texts. `problem` is valid. */
void at_problem_class(const attune_problem *problem, char text[AT_CLASS_TEXT_MAX]);

#endif
