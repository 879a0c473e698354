#include "reference/truth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/call.h"
#include "reference/merge.h"

static int64_t outputs_of(const at_truth *truth)
{
    return truth->rows.count * truth->args.head_dim_v;
}

/* Those of rows that see a key: the others are zeros, whatever the inputs. */
static int64_t telling_outputs(const at_truth *truth)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < truth->rows.count; ++i) {
        rows += truth->one.lse_reference[i] != -INFINITY;
    }
    return rows * truth->args.head_dim_v;
}

static attune_status choose_rows(const at_inputs *inputs, const at_truth_want *want, at_truth *truth)
{
    if (want->wanted == 0) {
        return at_rows_all(&truth->args, &truth->rows);
    }
    return at_rows_some(&truth->args, want->wanted, want->tile, inputs->draw.seed, &truth->rows);
}

static attune_status allocate(at_truth *truth)
{
    size_t rows = (size_t)truth->rows.count;
    size_t outputs = (size_t)outputs_of(truth);
    truth->block = malloc((2 * (rows + outputs) + 1) * sizeof *truth->block);
    AT_FAIL_IF(truth->block == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu reference values", 2 * (rows + outputs));
    return ATTUNE_OK;
}

/* Reference and naive result alone. */
static attune_status compute(const at_inputs *inputs, const at_truth_want *want, at_truth *truth)
{
    at_call_args(&inputs->problem, &inputs->call, &truth->args);
    AT_FORWARD(choose_rows(inputs, want, truth));
    AT_FORWARD(allocate(truth));
    double *o = truth->block;
    double *o_naive = o + outputs_of(truth);
    double *lse = o_naive + outputs_of(truth);
    double *lse_naive = lse + truth->rows.count;
    truth->one = (at_case){
        .args = &truth->args,
        .rows = &truth->rows,
        .o_reference = o,
        .lse_reference = lse,
        .o_naive = o_naive,
        .lse_naive = lse_naive,
        .standard_normal = inputs->draw.family == AT_FAMILY_NORMAL,
    };
    if (inputs->problem.op == ATTUNE_MERGE) {
        at_merge_run(&truth->args, &truth->rows, o, lse);
        at_merge_naive(&truth->args, &truth->rows, o_naive, lse_naive);
        return ATTUNE_OK;
    }
    AT_FORWARD(at_reference_run(truth->pool, &truth->args, &truth->rows, o, lse));
    return at_naive_run(truth->pool, &truth->args, &truth->rows, want->acc16, o_naive, lse_naive);
}

/* Grows the naive errors to those of another draw of the same problem. */
static attune_status redraw(const at_inputs *inputs, const at_truth_want *want, uint64_t index, at_truth *truth)
{
    at_inputs other;
    at_truth of_other = {.pool = truth->pool};
    at_draw draw = inputs->draw;
    draw.seed = inputs->draw.seed * (AT_REDRAWS + 1) + index;
    draw.far = draw.gaps = false;
    AT_FORWARD(at_inputs_draw(&inputs->problem, &draw, &other));
    attune_status status = compute(&other, want, &of_other);
    if (status == ATTUNE_OK) {
        at_judge_naive(&of_other.one, &truth->one);
    }
    at_truth_free(&of_other);
    at_inputs_free(&other);
    return status;
}

static attune_status add_noise(const at_inputs *inputs, at_truth *truth)
{
    size_t outputs = (size_t)outputs_of(truth);
    double *noise = malloc((outputs + (size_t)truth->rows.count + 1) * sizeof *noise);
    AT_FAIL_IF(noise == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu bounds", outputs);
    const at_case *one = &truth->one;
    if (inputs->problem.op == ATTUNE_MERGE) {
        at_merge_noise(&truth->args, &truth->rows, one->o_reference, one->lse_reference, noise, noise + outputs);
    } else {
        at_noise_run(truth->pool, &truth->args, &truth->rows, one->o_reference, one->lse_reference, noise,
                     noise + outputs);
    }
    at_judge_noise(&truth->one, noise, noise + outputs);
    free(noise);
    return ATTUNE_OK;
}

attune_status at_truth_compute(at_pool *pool, const at_inputs *inputs, const at_truth_want *want, at_truth *truth)
{
    memset(truth, 0, sizeof *truth);
    truth->pool = pool;
    if (inputs->problem.op == ATTUNE_APPEND) {
        return ATTUNE_OK; /* which at_append_judge knows */
    }
    AT_FORWARD(compute(inputs, want, truth));
    int64_t outputs = telling_outputs(truth);
    for (uint64_t k = 1; outputs < AT_SMALL_CASE && k <= AT_REDRAWS; ++k) {
        AT_FORWARD(redraw(inputs, want, k, truth));
    }
    int64_t most = truth->args.dtype == ATTUNE_FP32 && !inputs->problem.tf32 ? AT_NOISE_CASE : AT_SMALL_CASE;
    return outputs < most ? add_noise(inputs, truth) : ATTUNE_OK;
}

void at_truth_free(at_truth *truth)
{
    if (!truth->is_view) {
        free(truth->block);
        at_rows_free(&truth->rows);
    }
    truth->block = NULL;
}

void at_truth_view(const at_truth *from, const at_inputs *inputs, at_truth *view)
{
    *view = *from;
    view->is_view = true;
    at_call_args(&inputs->problem, &inputs->call, &view->args);
    view->one.args = &view->args;
    view->one.rows = &view->rows;
}

size_t at_truth_bytes(const at_truth *truth)
{
    return 2 * (size_t)(truth->rows.count + outputs_of(truth)) * sizeof *truth->block;
}
