#include "reference/least.h"

#include <stdlib.h>

#include "base/status.h"
#include "core/problem.h"
#include "reference/fill.h"

static int64_t clamp(int64_t value, int64_t most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

/* Arrays of lengths in `room`, 3 x (batch + 1) entries. */
static attune_status draw_lengths(int32_t *room, at_inputs *inputs)
{
    const attune_problem *problem = &inputs->problem;
    const int64_t entries = problem->batch + 1;
    const uint64_t roles = at_problem_roles(problem);
    static const attune_role role[] = {ATTUNE_CU_Q, ATTUNE_CU_KV, ATTUNE_USED_KV};
    for (int i = 0; i < 3; ++i) {
        inputs->call.tensor[role[i]].data = roles >> role[i] & 1 ? room + i * entries : NULL;
    }
    inputs->call.seqlen_kv = problem->seqlen_kv;
    return at_fill_lengths(inputs);
}

static double row_bytes(const attune_problem *problem, attune_role role, int32_t columns)
{
    return (double)at_dtype_bytes(at_problem_dtype(problem, role)) * columns;
}

/* Of one sequence. A row that sees no key need not be read, and a causal row sees the keys up to its own position. */
static void add_sequence(const attune_problem *p, int64_t queries, int64_t keys, at_least *least)
{
    const int64_t offset = p->offset_kind == ATTUNE_OFFSET_NUMBER     ? p->offset
                           : p->offset_kind == ATTUNE_OFFSET_TOP_LEFT ? 0
                                                                      : keys - queries;
    const bool bounded = p->window_right >= 0;
    const bool hidden = p->page_size > 0 || p->mask || p->draft_mask || p->window_left >= 0 || p->window_right > 0;
    const int64_t seen = queries == 0 ? 0 : bounded ? clamp(offset + queries, keys) : keys;
    const int64_t seeing = keys == 0 ? 0 : bounded ? clamp(offset + queries, queries) : queries;
    const double heads_q = (double)p->heads_q;
    least->flops += 2.0 * (p->head_dim_qk + p->head_dim_v) * (double)at_problem_pairs(p, queries, keys) * heads_q;
    least->bytes += heads_q * ((double)seeing * row_bytes(p, ATTUNE_Q, p->head_dim_qk) +
                               (double)queries * row_bytes(p, ATTUNE_O, p->head_dim_v));
    if (!hidden) {
        least->bytes += (double)p->heads_kv * (double)seen *
                        (row_bytes(p, ATTUNE_K, p->head_dim_qk) + row_bytes(p, ATTUNE_V, p->head_dim_v));
    }
}

static int64_t length_at(const int32_t *cu, int64_t batch, int64_t otherwise)
{
    return cu != NULL ? cu[batch + 1] - cu[batch] : otherwise;
}

attune_status at_least_count(const attune_problem *problem, const at_draw *draw, at_least *least)
{
    *least = (at_least){0, 0};
    if (problem->op != ATTUNE_FORWARD) {
        const double rows = (double)(problem->batch * problem->heads_q * problem->seqlen_q);
        const bool drawn = problem->varlen || problem->seqused_kv;
        least->flops = drawn ? 0 : attune_problem_flops(problem);
        least->bytes = drawn ? 0 : rows * row_bytes(problem, ATTUNE_O, problem->head_dim_qk + problem->head_dim_v);
        return ATTUNE_OK;
    }
    at_inputs inputs = {.problem = *problem, .draw = *draw};
    int32_t *room = calloc(3 * ((size_t)problem->batch + 1), sizeof *room);
    AT_FAIL_IF(room == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %lld lengths", (long long)problem->batch);
    attune_status status = draw_lengths(room, &inputs);
    const attune_tensor *tensor = inputs.call.tensor;
    const int32_t *used = tensor[ATTUNE_USED_KV].data;
    for (int64_t b = 0; status == ATTUNE_OK && b < problem->batch; ++b) {
        int64_t keys = length_at(tensor[ATTUNE_CU_KV].data, b, problem->seqlen_kv);
        keys = used != NULL && used[b] < keys ? used[b] : keys;
        add_sequence(problem, length_at(tensor[ATTUNE_CU_Q].data, b, problem->seqlen_q), keys, least);
    }
    free(room);
    return status;
}
