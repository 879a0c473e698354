#include "judge/trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/plan.h"
#include "core/problem.h"
#include "judge/projection.h"
#include "reference/append.h"
#include "reference/sequence.h"

/* Big problems: rows beside the edges of every tile that are compared with fp64. */
enum { SOME_ROWS = 512, TILE = 64 };

/* Rows on each side of a sequence that hold something else when it is alone: more than a kernel's tile has. */
enum { BESIDE_ROWS = 512 };

/* Rows that a thread compares at a time. */
enum { COMPARED_ROWS = 256 };

static uint32_t traits_of(const at_trial *on)
{
    return attune_plan_traits(on->plan);
}

static bool is_big(const at_suite *suite, const attune_problem *problem)
{
    double limit = suite->big_flops > 0 ? suite->big_flops : AT_BIG_FLOPS;
    return attune_problem_flops(problem) > limit;
}

at_truth_want at_trial_rows(const at_suite *suite, const attune_problem *problem)
{
    return is_big(suite, problem) ? (at_truth_want){.wanted = SOME_ROWS, .tile = TILE} : (at_truth_want){0};
}

/* ---- Runs ------------------------------------------------------------------------------------------------------- */

static attune_status run_first(at_trial *on)
{
    attune_status status = at_placement_run(&on->place, on->plan, &on->place.call);
    if (status != ATTUNE_OK) {
        return at_fail_in(status, "execute");
    }
    AT_FORWARD(at_placement_untouched(&on->place));
    return at_outputs_keep(&on->inputs, &on->first);
}

static bool may_differ(const at_trial *on)
{
    return (traits_of(on) & ATTUNE_TRAIT_NONDETERMINISTIC) != 0;
}

/* Whether the first so many outputs are those of the first run, as far as the kernel says that they are. */
static attune_status same_again(at_trial *on, int outputs, const char *rule)
{
    const at_part all = at_outputs_whole(&on->inputs);
    for (int k = 0; k < outputs; ++k) {
        attune_status status = at_outputs_same(&on->first, &on->inputs, k, &all, rule);
        if (status != ATTUNE_OK && (!may_differ(on) || strncmp(attune_last_detail(), "outputs", 7) == 0)) {
            return status;
        }
    }
    return ATTUNE_OK;
}

/* Where the plan is for larger calls, a run has its buffers to itself: who goes by the plan's sizes reaches far beyond
 * them, where nobody looks. */
static attune_status fence_smaller(const at_trial *on)
{
    at_device *device = on->place.device;
    const bool is_smaller = !at_problem_equal(&on->which->planned, &on->which->problem);
    return is_smaller && !on->which->draw.far && device->ops->fence != NULL ? device->ops->fence(device) : ATTUNE_OK;
}

/* The same in every other case with Q, K and V between one another. Another path of a kernel may serve such strides,
 * and round otherwise: its numbers must be right. */
static attune_status run_between(at_trial *on)
{
    static const char rule[] = "inputs that lie between one another";
    at_finding finding;
    attune_call call = on->place.call;
    void *slab = NULL;
    const uint64_t kind = on->which->draw.seed >> 9 & 3; /* two of four */
    attune_status status = kind < 2 ? at_projection_make(&on->place, kind == 1, &call, &slab) : ATTUNE_OK;
    status = status == ATTUNE_OK ? at_placement_run(&on->place, on->plan, &call) : status;
    if (slab != NULL) {
        on->place.device->ops->release(on->place.device, slab);
    }
    AT_FORWARD(status);
    AT_FORWARD(at_placement_untouched(&on->place));
    status = same_again(on, 2, slab == NULL ? "rule 5, determinism" : rule);
    if (status != ATTUNE_WRONG_RESULT || slab == NULL || strncmp(attune_last_detail(), "outputs", 7) == 0) {
        return status;
    }
    status = at_judge_case(&on->truth.one, &finding, NULL);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, rule);
}

/* Once more on other poison, in every other case with some of the first run's rows in it: every output written, every
 * bit as before. */
static attune_status run_again(at_trial *on)
{
    const at_poison poison = at_poison_other(on->inputs.draw.poison, 1 + (int)(on->which->draw.seed % 3));
    AT_FORWARD(at_placement_poison(&on->place, poison));
    if (on->which->draw.seed >> 8 & 1) {
        at_outputs_put_back(&on->first, &on->inputs, poison.seed);
        AT_FORWARD(at_placement_send_outputs(&on->place));
    }
    AT_FORWARD(fence_smaller(on));
    return run_between(on);
}

/* And without LSE, as most calls are: O has the bits that it has with it. Where bits may differ, it is judged anew. */
static attune_status run_without_lse(at_trial *on)
{
    at_finding finding;
    at_case bare = on->truth.one;
    attune_args args = *bare.args;
    attune_call call = on->place.call;
    args.tensor[ATTUNE_LSE].data = NULL;
    bare.args = &args;
    call.tensor[ATTUNE_LSE].data = NULL;
    AT_FORWARD(at_placement_poison(&on->place, at_poison_other(on->inputs.draw.poison, 1)));
    AT_FORWARD(at_placement_run(&on->place, on->plan, &call));
    AT_FORWARD(at_placement_untouched(&on->place));
    AT_FORWARD(same_again(on, 1, "rule 5, without LSE"));
    attune_status status = may_differ(on) ? at_judge_case(&bare, &finding, NULL) : ATTUNE_OK;
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "without LSE");
}

static void advance(attune_call *call, attune_role role, int64_t elements)
{
    attune_tensor *tensor = &call->tensor[role];
    if (tensor->data != NULL) {
        tensor->data = (unsigned char *)tensor->data + elements * (int64_t)at_dtype_bytes(tensor->dtype);
    }
}

/* The call of one sequence alone, on the same buffers. */
static attune_call alone(const at_trial *on, int64_t batch)
{
    attune_call call = on->place.call;
    bool packed = on->inputs.problem.varlen != 0;
    call.batch = 1;
    const bool pool = on->inputs.problem.page_size > 0;
    for (attune_role role = ATTUNE_Q; role <= ATTUNE_MASK; ++role) {
        bool of_batch = role == ATTUNE_BIAS || role == ATTUNE_MASK || !packed;
        of_batch = of_batch && !(pool && (role == ATTUNE_K || role == ATTUNE_V));
        advance(&call, role, of_batch ? batch * call.tensor[role].stride[ATTUNE_STRIDE_BATCH] : 0);
    }
    for (attune_role role = ATTUNE_CU_Q; role <= ATTUNE_USED_KV; ++role) {
        advance(&call, role, batch);
    }
    advance(&call, ATTUNE_STATE_O, batch * call.tensor[ATTUNE_STATE_O].stride[ATTUNE_STRIDE_BATCH]);
    advance(&call, ATTUNE_STATE_LSE, batch * call.tensor[ATTUNE_STATE_LSE].stride[ATTUNE_STRIDE_BATCH]);
    advance(&call, ATTUNE_PAGE_TABLE_K, batch * call.tensor[ATTUNE_PAGE_TABLE_K].stride[ATTUNE_STRIDE_BATCH]);
    advance(&call, ATTUNE_PAGE_TABLE_V, batch * call.tensor[ATTUNE_PAGE_TABLE_V].stride[ATTUNE_STRIDE_BATCH]);
    advance(&call, ATTUNE_DRAFT_MASK, packed ? 0 : batch * call.tensor[ATTUNE_DRAFT_MASK].stride[ATTUNE_STRIDE_BATCH]);
    return call;
}

/* Bytes [*first, *end) of a role that the sequence's rows span, whichever of its dimensions is the outermost. */
static void span_of(const at_inputs *inputs, attune_role role, int64_t batch, size_t *first, size_t *end)
{
    const at_extent extent = at_inputs_extent(inputs, role);
    const int32_t *cu = inputs->call.tensor[role == ATTUNE_Q ? ATTUNE_CU_Q : ATTUNE_CU_KV].data;
    const bool packed = inputs->problem.varlen != 0;
    const int64_t of = packed ? 0 : batch;
    const int64_t first_row = packed ? cu[batch] : 0,
                  end_row = packed ? cu[batch + 1] : extent.count[ATTUNE_STRIDE_SEQ];
    *first = at_inputs_row(inputs, role, of, 0, first_row);
    *end = first_row == end_row ? *first
                                : at_inputs_row(inputs, role, of, extent.count[ATTUNE_STRIDE_HEAD] - 1, end_row - 1) +
                                      (size_t)extent.row * at_dtype_bytes(inputs->call.tensor[role].dtype);
}

/* What is beside the sequence becomes other queries, keys and values, in some cases zeros or wild: its neighbours
 * are not in the call, but still in memory, where a tile that reaches over its end finds them. */
static attune_status poison_neighbours(at_trial *on, int64_t batch)
{
    static const int32_t kinds[] = {AT_POISON_BITS, AT_POISON_ZERO, AT_POISON_NUMBERS};
    const at_poison poison = {on->which->draw.seed, kinds[on->which->index % 3]};
    for (attune_role role = ATTUNE_Q; role <= ATTUNE_V && !on->which->draw.far; ++role) {
        const attune_tensor *tensor = &on->inputs.call.tensor[role];
        size_t most = BESIDE_ROWS * (size_t)tensor->stride[ATTUNE_STRIDE_SEQ] * at_dtype_bytes(tensor->dtype);
        size_t bytes = on->inputs.buffer[role].bytes;
        size_t first, end;
        if (bytes == 0 || (on->inputs.problem.page_size > 0 && role != ATTUNE_Q)) {
            continue; /* a sequence's pages have anybody's beside them */
        }
        span_of(&on->inputs, role, batch, &first, &end);
        first = first < bytes ? first : bytes; /* after the last rows of all comes nothing */
        end = end < bytes ? end : bytes;
        size_t before = first < most ? first : most;
        size_t after = bytes - end < most ? bytes - end : most;
        AT_FORWARD(at_placement_poison_input(&on->place, role, first - before, before, poison));
        AT_FORWARD(at_placement_poison_input(&on->place, role, end, after, poison));
    }
    return ATTUNE_OK;
}

/* One sequence without its neighbours: its O must not change a bit, nor its LSE where it is there. The last that is
 * done with a case's inputs, for it spoils them. */
static attune_status run_alone(at_trial *on)
{
    int64_t batch = (int64_t)(on->which->draw.seed % (uint64_t)on->inputs.problem.batch);
    if (on->inputs.problem.batch < 2 ||
        (traits_of(on) & (ATTUNE_TRAIT_BATCH_VARIANT | ATTUNE_TRAIT_NONDETERMINISTIC)) != 0) {
        return ATTUNE_OK;
    }
    const attune_call call = alone(on, batch);
    const at_part only = at_outputs_sequence(&on->inputs, batch);
    AT_FORWARD(at_placement_poison(&on->place, at_poison_other(on->inputs.draw.poison, 1)));
    AT_FORWARD(poison_neighbours(on, batch));
    attune_status status = at_placement_run(&on->place, on->plan, &call);
    if (status != ATTUNE_OK) {
        return at_fail_in(status, "rule 5, batch invariance: sequence %lld alone", (long long)batch);
    }
    AT_FORWARD(at_inputs_guards(&on->inputs));
    static const char rule[] = "rule 5, batch invariance";
    AT_FORWARD(at_outputs_same(&on->first, &on->inputs, 0, &only, rule));
    return at_outputs_same(&on->first, &on->inputs, 1, &only, rule);
}

/* ---- Rows that the reference leaves out ------------------------------------------------------------------------- */

typedef struct comparison {
    const at_trial *on;
    at_grid over;
    attune_tensor now, first;
    int64_t rows;
    double *apart; /* of each row */
} comparison;

static double distance(double a, double b)
{
    if (isfinite(a) && isfinite(b)) {
        return fabs(a - b);
    }
    return (isnan(a) && isnan(b)) || a == b ? 0.0 : HUGE_VAL;
}

static void compare_row(const comparison *by, int64_t r)
{
    double a[256], b[256], worst = 0;
    int64_t columns = by->on->inputs.problem.head_dim_v;
    int64_t head = r / by->over.rows;
    size_t at =
        at_inputs_row(&by->on->inputs, ATTUNE_O, head / by->over.heads, head % by->over.heads, r % by->over.rows);
    at_elements_double(&by->now, (int64_t)(at / by->over.element_bytes), columns, a);
    at_elements_double(&by->first, r * columns, columns, b);
    for (int64_t c = 0; c < columns; ++c) {
        double apart = distance(a[c], b[c]);
        worst = apart > worst ? apart : worst;
    }
    by->apart[r] = worst;
}

static void compare_rows(void *context, int64_t item, void *scratch)
{
    const comparison *by = context;
    int64_t first = item * COMPARED_ROWS;
    (void)scratch;
    for (int64_t r = first; r < by->rows && r < first + COMPARED_ROWS; ++r) {
        compare_row(by, r);
    }
}

/* The largest distance between the outputs in the buffers and the first run's, and its row; infinite where kinds
 * differ. */
static attune_status compare_outputs(const at_trial *on, double *apart, at_row *where)
{
    comparison by = {.on = on, .over = at_outputs_grid(&on->inputs, ATTUNE_O), .now = on->inputs.call.tensor[ATTUNE_O]};
    by.rows = by.over.batch * by.over.heads * by.over.rows;
    by.first = by.now;
    by.first.data = on->first.row[0];
    by.apart = malloc((size_t)(by.rows + 1) * sizeof *by.apart);
    AT_FAIL_IF(by.apart == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to compare %lld rows", (long long)by.rows);
    at_pool_run(on->suite->pool, (by.rows + COMPARED_ROWS - 1) / COMPARED_ROWS, compare_rows, &by);
    *apart = 0;
    for (int64_t r = 0; r < by.rows; ++r) {
        if (by.apart[r] > *apart) {
            *apart = by.apart[r];
            *where = (at_row){r / by.over.rows / by.over.heads, r / by.over.rows % by.over.heads, r % by.over.rows};
        }
    }
    free(by.apart);
    return ATTUNE_OK;
}

/* The general kernel, judged on the same rows, replaces the reference on the others. */
static attune_status compare_general(at_trial *on, const attune_plan *general)
{
    at_finding of_general;
    at_row where = {0, 0, 0};
    double apart = 0;
    AT_FORWARD(at_placement_poison(&on->place, at_poison_other(on->inputs.draw.poison, 1)));
    AT_FORWARD(at_placement_run(&on->place, general, &on->place.call));
    attune_status status = at_judge_case(&on->truth.one, &of_general, NULL);
    if (status != ATTUNE_OK) {
        return at_fail_in(ATTUNE_INTERNAL, "the general kernel %s, needed to judge this one", general->kernel_text);
    }
    double limit = on->finding.max_error_limit + of_general.max_error;
    AT_FORWARD(compare_outputs(on, &apart, &where));
    AT_FAIL_IF(!(apart <= limit), ATTUNE_WRONG_RESULT,
               "rule 1, against the general kernel %s: batch %lld, head %lld, row %lld: they differ by %.4g, at most "
               "%.4g is allowed",
               general->kernel_text, (long long)where.batch, (long long)where.head, (long long)where.row, apart, limit);
    return ATTUNE_OK;
}

static attune_status judge_other_rows(at_trial *on)
{
    attune_plan *general = NULL;
    if (!is_big(on->suite, &on->which->problem) || on->suite->general == NULL || traits_of(on) & ATTUNE_TRAIT_GENERAL) {
        return ATTUNE_OK;
    }
    AT_FORWARD(on->suite->general(on->suite->self, &on->which->problem, &general));
    attune_status status = compare_general(on, general);
    attune_plan_destroy(general);
    return status;
}

/* ---- The trial -------------------------------------------------------------------------------------------------- */

static attune_status find_truth(at_trial *on)
{
    at_truth_want want = at_trial_rows(on->suite, &on->which->problem);
    want.acc16 = (traits_of(on) & ATTUNE_TRAIT_ACC16) != 0;
    AT_FORWARD(at_case_cache_truth(on->suite->cache, on->suite->pool, &on->inputs, &want, &on->truth));
    on->truth.one.taints = (traits_of(on) & ATTUNE_TRAIT_TAINTS) && on->which->draw.family == AT_FAMILY_VISIBLE;
    return ATTUNE_OK;
}

/* A control: once, with queries that are off. */
static attune_status judge_control(at_trial *on, at_bias *bias)
{
    AT_FORWARD(find_truth(on));
    AT_FORWARD(at_placement_scale(&on->place, ATTUNE_Q, on->suite->query_scale));
    AT_FORWARD(at_placement_run(&on->place, on->plan, &on->place.call));
    return at_judge_case(&on->truth.one, &on->finding, bias);
}

/* What is copied is right bit for bit or wrong; what is not written shows by two poisons. */
static attune_status judge_append(at_trial *on)
{
    for (int run = 0; run < 2; ++run) {
        const at_poison poison = at_poison_other(on->inputs.draw.poison, run);
        AT_FORWARD(run == 0 ? ATTUNE_OK : at_placement_poison(&on->place, poison));
        attune_status status = at_placement_run(&on->place, on->plan, &on->place.call);
        if (status != ATTUNE_OK) {
            return at_fail_in(status, "execute");
        }
        AT_FORWARD(at_placement_untouched(&on->place));
        AT_FORWARD(at_append_judge(&on->inputs));
    }
    on->finding.worst_cosine = 1;
    return ATTUNE_OK;
}

static attune_status judge(at_trial *on, at_bias *bias)
{
    if (on->inputs.problem.op == ATTUNE_APPEND) {
        return judge_append(on);
    }
    if (on->suite->query_scale > 0) {
        return judge_control(on, bias);
    }
    AT_FORWARD(run_first(on));
    AT_FORWARD(find_truth(on));
    AT_FORWARD(at_judge_case(&on->truth.one, &on->finding, bias));
    AT_FORWARD(run_again(on));
    AT_FORWARD(run_without_lse(on));
    AT_FORWARD(judge_other_rows(on));
    return run_alone(on);
}

/* An offset beyond 2^31 takes gigabytes of address space, and on a device of memory: lacking it refuses the case. */
static attune_status prepare(at_trial *on)
{
    at_draw draw = on->which->draw;
    draw.pool = on->suite->pool;
    attune_status status = at_case_cache_inputs(on->suite->cache, &on->which->problem, &draw, &on->inputs);
    if (status == ATTUNE_OK) {
        status = at_placement_create(on->suite->device, &on->inputs, &on->place);
    }
    bool far = on->which->draw.far && status == ATTUNE_OUT_OF_MEMORY;
    return far ? at_fail_in(ATTUNE_UNSUPPORTED, "offsets over 2^31") : status;
}

static void clean_up(at_trial *on, bool right)
{
    bool changed = !right || !at_placement_apart(&on->place);
    if (on->place.device != NULL) {
        at_placement_free(&on->place);
    }
    at_truth_free(&on->truth);
    at_case_cache_return(on->suite->cache, &on->inputs, changed);
    at_outputs_free(&on->first);
    attune_plan_destroy(on->plan);
}

attune_status at_trial_run(const at_suite *suite, const at_gate_case *which, at_finding *finding, at_bias *bias,
                           char kernel[512])
{
    at_trial on = {.suite = suite, .which = which};
    attune_status status = suite->plan(suite->self, &which->planned, &on.plan);
    if (status == ATTUNE_OK && kernel[0] == '\0') {
        (void)snprintf(kernel, 512, "%s", attune_plan_kernel(on.plan));
    }
    if (status == ATTUNE_OK) {
        status = prepare(&on);
    }
    if (status == ATTUNE_OK) {
        status = judge(&on, bias);
    }
    *finding = on.finding;
    clean_up(&on, status == ATTUNE_OK && suite->query_scale <= 0);
    return status;
}
