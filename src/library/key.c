#include <string.h>

#include "core/problem.h"
#include "library/state.h"

/* The exponent of the power of two at or above the value: -1 for 0 and -2 for the unbounded, as classes count. */
static int64_t bucket_of(int64_t value)
{
    if (value <= 0) {
        return value == 0 ? -1 : -2;
    }
    return value == 1 ? 0 : 64 - __builtin_clzll((unsigned long long)value - 1);
}

void at_key_fill(at_key *key, const attune_problem *problem)
{
    memset(key, 0, sizeof *key);
    key->shape[0] = problem->op;
    key->shape[1] = (int64_t)at_problem_dtypes(problem);
    key->shape[2] = problem->head_dim_qk;
    key->shape[3] = problem->head_dim_v;
    key->shape[4] = problem->heads_q / problem->heads_kv;
    key->form[0] = problem->layout;
    key->form[1] = problem->bias;
    key->form[2] = at_problem_align(problem);
    key->form[3] = problem->offset_kind;
    key->form[4] = at_problem_features(problem);
    key->cache[0] = problem->page_size;
    key->cache[1] = bucket_of(problem->states);
    key->bucket[0] = bucket_of(problem->window_left);
    key->bucket[1] = bucket_of(problem->window_right);
    key->bucket[2] = bucket_of(problem->batch * problem->heads_q);
    key->bucket[3] = bucket_of(problem->seqlen_q);
    key->bucket[4] = bucket_of(problem->seqlen_kv);
}
