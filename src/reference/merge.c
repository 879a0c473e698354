#include "reference/merge.h"

#include <math.h>

#include "reference/sequence.h"

static double lse_of(const attune_args *args, const at_row *row, int64_t state)
{
    const int64_t at = at_row_index(args, ATTUNE_STATE_LSE, row->batch, row->head, 0, row->row);
    return at_element(&args->tensor[ATTUNE_STATE_LSE], at + state * args->state_stride_lse);
}

static void load_o(const attune_args *args, const at_row *row, int64_t state, double *o)
{
    const int64_t at = at_row_index(args, ATTUNE_STATE_O, row->batch, row->head, 0, row->row);
    at_elements_double(&args->tensor[ATTUNE_STATE_O], at + state * args->state_stride_o, args->head_dim_v, o);
}

/* -inf without one. */
static double sink_of(const attune_args *args, const at_row *row)
{
    const attune_tensor *sinks = &args->tensor[ATTUNE_SINK];
    return args->features & ATTUNE_FEATURE_SINK ? at_element(sinks, row->head * sinks->stride[ATTUNE_STRIDE_HEAD])
                                                : -INFINITY;
}

/* The largest LSE, or the sink; -inf where all are empty. NaN is found by the sums. */
static double largest(const attune_args *args, const at_row *row)
{
    double most = sink_of(args, row);
    for (int64_t s = 0; s < args->states; ++s) {
        most = fmax(most, lse_of(args, row, s));
    }
    return most;
}

static void merge_row(const attune_args *args, const at_row *row, double *o, double *lse)
{
    const double most = largest(args, row);
    const double sink = sink_of(args, row);
    double sum = sink == -INFINITY ? 0.0 : exp(sink - most);
    double value[256];
    bool empty = true;
    for (int32_t c = 0; c < args->head_dim_v; ++c) {
        o[c] = 0;
    }
    for (int64_t s = 0; s < args->states; ++s) {
        const double own = lse_of(args, row, s);
        if (own == -INFINITY) {
            continue;
        }
        const double weight = exp(own - most);
        empty = false;
        sum += weight;
        load_o(args, row, s, value);
        for (int32_t c = 0; c < args->head_dim_v; ++c) {
            o[c] += weight * value[c];
        }
    }
    *lse = empty ? sink : most + log(sum);
    for (int32_t c = 0; c < args->head_dim_v && !empty; ++c) {
        o[c] /= sum;
    }
}

void at_merge_run(const attune_args *args, const at_rows *rows, double *o, double *lse)
{
    for (int64_t r = 0; r < rows->count; ++r) {
        merge_row(args, &rows->row[r], o + r * args->head_dim_v, &lse[r]);
    }
}

static void naive_row(const attune_args *args, const at_row *row, double *o, double *lse)
{
    const float most = (float)largest(args, row);
    const float sink = (float)sink_of(args, row);
    float sum = sink == -INFINITY ? 0.0F : expf(sink - most);
    float total[256] = {0};
    double value[256];
    bool empty = true;
    for (int64_t s = 0; s < args->states; ++s) {
        const float own = (float)lse_of(args, row, s);
        const float weight = own == -INFINITY ? 0.0F : expf(own - most);
        load_o(args, row, s, value);
        for (int32_t c = 0; c < args->head_dim_v && own != -INFINITY; ++c) {
            total[c] += weight * (float)value[c];
        }
        sum += weight;
        empty = empty && own == -INFINITY;
    }
    *lse = empty ? sink : most + logf(sum);
    for (int32_t c = 0; c < args->head_dim_v; ++c) {
        o[c] = at_round(args->tensor[ATTUNE_O].dtype, empty ? 0.0F : total[c] / sum);
    }
}

void at_merge_naive(const attune_args *args, const at_rows *rows, double *o, double *lse)
{
    for (int64_t r = 0; r < rows->count; ++r) {
        naive_row(args, &rows->row[r], o + r * args->head_dim_v, &lse[r]);
    }
}

void at_merge_noise(const attune_args *args, const at_rows *rows, const double *o, const double *lse, double *o_noise,
                    double *lse_noise)
{
    const double unit_roundoff = 0x1p-24;
    for (int64_t r = 0; r < rows->count; ++r) {
        double value[256];
        lse_noise[r] = 0;
        for (int32_t c = 0; c < args->head_dim_v; ++c) {
            o_noise[r * args->head_dim_v + c] = 0;
        }
        for (int64_t s = 0; s < args->states && isfinite(lse[r]); ++s) {
            const double own = lse_of(args, &rows->row[r], s);
            const double weight = own == -INFINITY ? 0.0 : unit_roundoff * exp(own - lse[r]) * (fabs(own - lse[r]) + 2);
            load_o(args, &rows->row[r], s, value);
            lse_noise[r] += weight;
            for (int32_t c = 0; c < args->head_dim_v && weight > 0; ++c) {
                const double part = weight * (fabs(value[c]) + fabs(o[r * args->head_dim_v + c]));
                o_noise[r * args->head_dim_v + c] += isfinite(part) ? part : 0.0;
            }
        }
    }
}
