/* The reference against numbers worked out by hand, and against a second computation written without it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/call.h"
#include "reference/draw_text.h"
#include "reference/inputs.h"
#include "reference/reference.h"

enum { TINY = 16 };

/* A call small enough to think through: one head, head dims 1, fp32. */
typedef struct tiny {
    attune_args args;
    float q[TINY], k[TINY], v[TINY], bias[TINY], sink[TINY], slopes[TINY];
    unsigned char mask[TINY];
    int32_t used[TINY], cu_q[TINY], cu_kv[TINY];
    double o[TINY], lse[TINY];
} tiny;

static void set_tensor(tiny *on, attune_role role, void *data, attune_dtype dtype, int64_t batch, int64_t head,
                       int64_t row)
{
    on->args.tensor[role] = (attune_tensor){.data = data, .stride = {batch, head, row}, .dtype = (int32_t)dtype};
}

/* All keys zero, so that every seen key weighs the same; value j is 2^j, so that a mean tells which keys were seen. */
static void tiny_init(tiny *on, int64_t seqlen_q, int64_t seqlen_kv)
{
    memset(on, 0, sizeof *on);
    on->args = (attune_args){.size = sizeof on->args,
                             .abi = ATTUNE_ABI,
                             .dtype = ATTUNE_FP32,
                             .batch = 1,
                             .heads_q = 1,
                             .heads_kv = 1,
                             .seqlen_q = seqlen_q,
                             .seqlen_kv = seqlen_kv,
                             .total_q = seqlen_q,
                             .total_kv = seqlen_kv,
                             .head_dim_qk = 1,
                             .head_dim_v = 1,
                             .scale = 1.0F,
                             .window_left = -1,
                             .window_right = -1};
    for (int j = 0; j < TINY; ++j) {
        on->q[j] = 1.0F;
        on->v[j] = (float)(1 << j);
        on->mask[j] = 1;
    }
    set_tensor(on, ATTUNE_Q, on->q, ATTUNE_FP32, seqlen_q, seqlen_q, 1);
    set_tensor(on, ATTUNE_K, on->k, ATTUNE_FP32, seqlen_kv, seqlen_kv, 1);
    set_tensor(on, ATTUNE_V, on->v, ATTUNE_FP32, seqlen_kv, seqlen_kv, 1);
    set_tensor(on, ATTUNE_BIAS, on->bias, ATTUNE_FP32, 0, 0, seqlen_kv);
    set_tensor(on, ATTUNE_MASK, on->mask, ATTUNE_BOOL, 0, 0, seqlen_kv);
    set_tensor(on, ATTUNE_SINK, on->sink, ATTUNE_FP32, 0, 1, 0);
    set_tensor(on, ATTUNE_SLOPES, on->slopes, ATTUNE_FP32, 0, 1, 0);
    set_tensor(on, ATTUNE_CU_Q, on->cu_q, ATTUNE_INT32, 0, 0, 1);
    set_tensor(on, ATTUNE_CU_KV, on->cu_kv, ATTUNE_INT32, 0, 0, 1);
    set_tensor(on, ATTUNE_USED_KV, on->used, ATTUNE_INT32, 0, 0, 1);
}

static void tiny_run(tiny *on)
{
    at_pool *pool;
    at_rows rows;
    assert_int_equal(at_pool_create(1, 0, &pool), ATTUNE_OK);
    assert_int_equal(at_rows_all(&on->args, &rows), ATTUNE_OK);
    assert_true(rows.count <= TINY);
    assert_int_equal(at_reference_run(pool, &on->args, &rows, on->o, on->lse), ATTUNE_OK);
    at_rows_free(&rows);
    at_pool_destroy(pool);
}

static void assert_close(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-7 * fmax(1.0, fabs(expected))) && !(value == expected)) {
        fail_msg("%.12g is not %.12g", value, expected);
    }
}

static void two_keys(tiny *on)
{
    tiny_init(on, 1, 2);
    on->k[1] = logf(3.0F); /* weights 1 and 3 */
    on->v[0] = 0.0F;
    on->v[1] = 4.0F;
}

static void test_two_keys(void **state)
{
    (void)state;
    tiny on;
    two_keys(&on);
    tiny_run(&on);
    assert_close(on.o[0], 3.0);
    assert_close(on.lse[0], log(4.0));
}

static void test_scale(void **state)
{
    (void)state;
    tiny on;
    two_keys(&on);
    on.args.scale = 2.0F; /* weights 1 and 9 */
    tiny_run(&on);
    assert_close(on.o[0], 3.6);
    assert_close(on.lse[0], log(10.0));
}

static void test_sink_joins_the_denominator(void **state)
{
    (void)state;
    tiny on;
    two_keys(&on);
    on.args.features = ATTUNE_FEATURE_SINK;
    on.sink[0] = logf(4.0F); /* weights 1, 3 and a 4 without a value */
    tiny_run(&on);
    assert_close(on.o[0], 1.5);
    assert_close(on.lse[0], log(8.0));
}

static void test_softcap(void **state)
{
    (void)state;
    tiny on;
    two_keys(&on);
    on.args.features = ATTUNE_FEATURE_SOFTCAP;
    on.args.softcap = 2.0F;
    on.k[1] = 1e9F; /* capped to 2 */
    tiny_run(&on);
    assert_close(on.o[0], 4.0 * exp(2.0) / (1.0 + exp(2.0)));
    on.k[1] = 1.0F;
    tiny_run(&on);
    assert_close(on.lse[0], log(1.0 + exp(2.0 * tanh(0.5))));
}

static void test_softcap_comes_before_bias(void **state)
{
    (void)state;
    tiny on;
    two_keys(&on);
    on.args.features = ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_BIAS;
    on.args.softcap = 1.0F;
    on.k[1] = 1e9F;
    on.bias[1] = 5.0F;
    tiny_run(&on);
    assert_close(on.lse[0], log(1.0 + exp(6.0)));
}

static void test_alibi(void **state)
{
    (void)state;
    tiny on;
    tiny_init(&on, 1, 3);
    on.args.features = ATTUNE_FEATURE_ALIBI;
    on.slopes[0] = logf(2.0F);
    tiny_run(&on); /* offset 2: distances 2, 1, 0, weights 1/4, 1/2, 1 of values 1, 2, 4 */
    assert_close(on.o[0], 5.25 / 1.75);
    assert_close(on.lse[0], log(1.75));
    on.args.offset_kind = ATTUNE_OFFSET_TOP_LEFT;
    tiny_run(&on); /* distances 0, 1, 2 */
    assert_close(on.o[0], 3.0 / 1.75);
    on.args.offset_kind = ATTUNE_OFFSET_NUMBER;
    on.args.offset = 4;
    tiny_run(&on); /* distances 4, 3, 2 */
    assert_close(on.lse[0], log(7.0 / 16.0));
}

/* ---- Positions -------------------------------------------------------------------------------------------------- */

typedef struct sight {
    const char *what;
    uint32_t features;
    attune_offset offset_kind;
    int64_t offset, left, right;
    int64_t first[3], end[3]; /* of each of three rows, over five keys; equal: none */
} sight;

static const sight sights[] = {
    {"no mask", 0, ATTUNE_OFFSET_BOTTOM_RIGHT, 0, -1, -1, {0, 0, 0}, {5, 5, 5}},
    {"bottom right", ATTUNE_FEATURE_CAUSAL, ATTUNE_OFFSET_BOTTOM_RIGHT, 0, -1, -1, {0, 0, 0}, {3, 4, 5}},
    {"top left", ATTUNE_FEATURE_CAUSAL, ATTUNE_OFFSET_TOP_LEFT, 0, -1, -1, {0, 0, 0}, {1, 2, 3}},
    {"a number", ATTUNE_FEATURE_CAUSAL, ATTUNE_OFFSET_NUMBER, 1, -1, -1, {0, 0, 0}, {2, 3, 4}},
    {"a negative number", ATTUNE_FEATURE_CAUSAL, ATTUNE_OFFSET_NUMBER, -2, -1, -1, {0, 0, 0}, {0, 0, 1}},
    {"far past the end", ATTUNE_FEATURE_CAUSAL, ATTUNE_OFFSET_NUMBER, INT32_MAX, -1, -1, {0, 0, 0}, {5, 5, 5}},
    {"left", ATTUNE_FEATURE_WINDOW, ATTUNE_OFFSET_BOTTOM_RIGHT, 0, 1, -1, {1, 2, 3}, {5, 5, 5}},
    {"right", ATTUNE_FEATURE_WINDOW, ATTUNE_OFFSET_TOP_LEFT, 0, -1, 1, {0, 0, 0}, {2, 3, 4}},
    {"both", ATTUNE_FEATURE_WINDOW, ATTUNE_OFFSET_BOTTOM_RIGHT, 0, 1, 1, {1, 2, 3}, {4, 5, 5}},
    {"itself", ATTUNE_FEATURE_WINDOW, ATTUNE_OFFSET_TOP_LEFT, 0, 0, 0, {0, 1, 2}, {1, 2, 3}},
    {"window and causal",
     ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_CAUSAL,
     ATTUNE_OFFSET_TOP_LEFT,
     0,
     1,
     3,
     {0, 0, 1},
     {1, 2, 3}},
    {"window left behind", ATTUNE_FEATURE_WINDOW, ATTUNE_OFFSET_NUMBER, 5, 1, -1, {4, 5, 5}, {5, 5, 5}},
    {"huge window", ATTUNE_FEATURE_WINDOW, ATTUNE_OFFSET_NUMBER, -7, INT64_MAX, INT64_MAX, {0, 0, 0}, {5, 5, 5}},
};

static void test_positions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sights / sizeof *sights; ++i) {
        const sight *see = &sights[i];
        tiny on;
        tiny_init(&on, 3, 5);
        on.args.features = see->features;
        on.args.offset_kind = (int32_t)see->offset_kind;
        on.args.offset = see->offset;
        on.args.window_left = see->left;
        on.args.window_right = see->right;
        tiny_run(&on);
        for (int r = 0; r < 3; ++r) {
            int64_t count = see->end[r] - see->first[r];
            double sum = (double)((1 << see->end[r]) - (1 << see->first[r]));
            if (count > 0 ? fabs(on.o[r] - sum / (double)count) > 1e-12 : on.o[r] != 0.0) {
                fail_msg("%s, row %d: O is %g", see->what, r, on.o[r]);
            }
            assert_close(on.lse[r], count > 0 ? log((double)count) : -INFINITY);
        }
    }
}

static void test_rows_that_see_nothing(void **state)
{
    (void)state;
    tiny on;
    tiny_init(&on, 3, 1);
    on.args.features = ATTUNE_FEATURE_CAUSAL; /* bottom right: offset -2 */
    on.k[0] = 1.0F;
    tiny_run(&on);
    assert_true(on.o[0] == 0.0 && on.o[1] == 0.0);
    assert_true(on.lse[0] == -INFINITY && on.lse[1] == -INFINITY);
    assert_close(on.o[2], 1.0);
    on.args.features |= ATTUNE_FEATURE_SINK;
    on.sink[0] = -3.5F;
    tiny_run(&on);
    assert_true(on.o[0] == 0.0);
    assert_close(on.lse[0], -3.5);
}

static void test_no_keys_at_all(void **state)
{
    (void)state;
    tiny on;
    tiny_init(&on, 2, 0);
    tiny_run(&on);
    assert_true(on.o[0] == 0.0 && on.lse[1] == -INFINITY);
}

/* ---- What is hidden --------------------------------------------------------------------------------------------- */

static void test_mask_and_bias_hide(void **state)
{
    (void)state;
    tiny on;
    tiny_init(&on, 1, 3);
    on.args.features = ATTUNE_FEATURE_MASK;
    on.mask[1] = 0;
    on.mask[2] = 128;
    on.k[1] = NAN;
    on.v[1] = INFINITY;
    tiny_run(&on);
    assert_close(on.o[0], 2.5);
    on.args.features = ATTUNE_FEATURE_BIAS;
    on.bias[1] = -INFINITY;
    tiny_run(&on);
    assert_close(on.o[0], 2.5);
    on.bias[0] = on.bias[2] = -INFINITY;
    tiny_run(&on);
    assert_true(on.o[0] == 0.0 && on.lse[0] == -INFINITY);
}

static void test_hidden_values_leave_no_trace(void **state)
{
    (void)state;
    tiny on;
    tiny_init(&on, 3, 3);
    on.args.features = ATTUNE_FEATURE_CAUSAL;
    on.v[1] = NAN; /* row 0 does not see it, rows 1 and 2 do */
    tiny_run(&on);
    assert_close(on.o[0], 1.0);
    assert_true(isnan(on.o[1]) && isnan(on.o[2]));
    assert_close(on.lse[2], log(3.0));
    on.v[1] = INFINITY;
    tiny_run(&on);
    assert_true(on.o[1] == INFINITY);
    on.v[1] = 2.0F;
    on.k[1] = NAN;
    tiny_run(&on);
    assert_close(on.o[0], 1.0);
    assert_true(isnan(on.o[1]) && isnan(on.lse[1]));
}

static void test_visible_infinite_logits(void **state)
{
    (void)state;
    tiny on;
    two_keys(&on);
    on.k[1] = INFINITY;
    tiny_run(&on);
    assert_true(isnan(on.o[0]) && isnan(on.lse[0]));
    on.k[1] = -INFINITY; /* weight zero */
    tiny_run(&on);
    assert_true(on.o[0] == 0.0);
    assert_close(on.lse[0], 0.0);
    on.k[0] = -INFINITY; /* and nothing else */
    tiny_run(&on);
    assert_true(on.o[0] == 0.0 && on.lse[0] == -INFINITY);
}

/* A logit that is finite has a weight, and one of -infinity has none: that is what their values show. */
static void test_infinite_values(void **state)
{
    (void)state;
    tiny on;
    tiny_init(&on, 1, 2);
    on.k[1] = -800.0F; /* exp(-800) is no number of fp64 */
    on.v[1] = INFINITY;
    tiny_run(&on);
    assert_true(isinf(on.o[0]) && on.o[0] > 0);
    on.v[1] = NAN;
    tiny_run(&on);
    assert_true(isnan(on.o[0]));
    on.k[1] = -INFINITY;
    on.v[1] = INFINITY;
    tiny_run(&on);
    assert_true(isnan(on.o[0])); /* 0 * infinity */
    on.v[1] = 2.0F;
    tiny_run(&on);
    assert_true(on.o[0] == 1.0); /* the other value's */
    tiny_init(&on, 1, 4);
    for (int j = 0; j < 4; ++j) {
        on.v[j] = 3e38F;
    }
    tiny_run(&on);
    assert_true(fabs(on.o[0] - (double)3e38F) < 1e30);
}

/* The sink has nothing to say where no key has a weight, whatever it is. */
static void test_a_sink_that_is_no_number(void **state)
{
    (void)state;
    tiny on;
    tiny_init(&on, 1, 2);
    on.args.features = ATTUNE_FEATURE_SINK | ATTUNE_FEATURE_MASK;
    on.sink[0] = NAN;
    on.mask[0] = on.mask[1] = 0;
    tiny_run(&on);
    assert_true(on.o[0] == 0.0 && isnan(on.lse[0]));
    on.mask[0] = on.mask[1] = 1;
    on.k[0] = on.k[1] = -INFINITY;
    tiny_run(&on);
    assert_true(on.o[0] == 0.0 && isnan(on.lse[0]));
    on.k[1] = 1.0F;
    tiny_run(&on);
    assert_true(isnan(on.o[0]) && isnan(on.lse[0]));
}

static void test_seqused_sets_end_and_offset(void **state)
{
    (void)state;
    tiny on;
    tiny_init(&on, 2, 5);
    on.args.features = ATTUNE_FEATURE_SEQUSED | ATTUNE_FEATURE_CAUSAL;
    on.used[0] = 3; /* offset 1: rows see 2 and 3 keys */
    on.v[3] = on.k[4] = NAN;
    tiny_run(&on);
    assert_close(on.o[0], 1.5);
    assert_close(on.o[1], 7.0 / 3.0);
    on.used[0] = 99; /* clamped to five */
    on.v[3] = 8.0F;
    on.k[4] = 0.0F;
    tiny_run(&on);
    assert_close(on.o[1], 31.0 / 5.0);
    on.used[0] = -1;
    tiny_run(&on);
    assert_true(on.o[1] == 0.0);
}

static void test_varlen(void **state)
{
    (void)state;
    tiny on;
    tiny_init(&on, 2, 3); /* at most 2 queries and 3 keys a sequence */
    on.args.features = ATTUNE_FEATURE_VARLEN;
    on.args.batch = 4;
    on.args.total_q = 4;
    on.args.total_kv = 6;
    const int32_t cu_q[] = {0, 1, 1, 3, 4};
    const int32_t cu_kv[] = {0, 2, 4, 6, 6};
    memcpy(on.cu_q, cu_q, sizeof cu_q);
    memcpy(on.cu_kv, cu_kv, sizeof cu_kv);
    tiny_run(&on);
    assert_close(on.o[0], 1.5);  /* keys 0, 1 */
    assert_close(on.o[1], 24.0); /* keys 4, 5 */
    assert_close(on.o[2], 24.0);
    assert_true(on.o[3] == 0.0); /* no keys */
    on.cu_kv[1] = 5;             /* five keys where three are declared */
    tiny_run(&on);
    assert_close(on.o[0], 7.0 / 3.0);
}

static void test_grouped_heads(void **state)
{
    (void)state;
    tiny on;
    tiny_init(&on, 1, 1);
    on.args.heads_q = 6;
    on.args.heads_kv = 3;
    tiny_run(&on);
    for (int h = 0; h < 6; ++h) {
        assert_close(on.o[h], (double)(1 << h / 2));
    }
}

/* ---- A second computation --------------------------------------------------------------------------------------- */

/* Straight from the definition, in long double, with an index for everything and nothing shared. */
typedef struct brute {
    const at_inputs *in;
    int64_t batch, head, row, begin_q, begin_kv, keys, offset;
} brute;

static long double item(const at_inputs *in, attune_role role, int64_t batch, int64_t head, int64_t row, int64_t column)
{
    const attune_tensor *tensor = &in->call.tensor[role];
    int64_t at = batch * tensor->stride[0] + head * tensor->stride[1] + row * tensor->stride[2] + column;
    if (tensor->dtype == ATTUNE_BOOL) {
        return ((const unsigned char *)tensor->data)[at];
    }
    if (tensor->dtype == ATTUNE_FP32) {
        return ((const float *)tensor->data)[at];
    }
    uint16_t bits = ((const uint16_t *)tensor->data)[at];
    if (tensor->dtype == ATTUNE_BF16) {
        uint32_t wide = (uint32_t)bits << 16;
        float value;
        memcpy(&value, &wide, sizeof value);
        return value;
    }
    _Static_assert(sizeof(uint16_t) == 2, "halves");
    int exponent = bits >> 10 & 31;
    long double fraction = bits & 1023;
    long double value = exponent == 31 ? (bits & 1023 ? (long double)NAN : (long double)INFINITY)
                        : exponent     ? ldexpl(1024 + fraction, exponent - 25)
                                       : ldexpl(fraction, -24);
    return bits >> 15 ? -value : value;
}

static bool visible(const brute *at, int64_t j)
{
    const attune_problem *p = &at->in->problem;
    int64_t position = at->row + at->offset;
    bool hidden = (p->window_left >= 0 && j < position - p->window_left) ||
                  (p->window_right >= 0 && j > position + p->window_right) ||
                  (p->mask && item(at->in, ATTUNE_MASK, at->batch, at->head, at->row, j) == 0) ||
                  (p->bias != ATTUNE_BIAS_NONE &&
                   item(at->in, ATTUNE_BIAS, at->batch, at->head, at->row, j) == -(long double)INFINITY);
    return !hidden;
}

static long double logit(const brute *at, int64_t j)
{
    const attune_problem *p = &at->in->problem;
    int64_t batch = p->varlen ? 0 : at->batch;
    long double s = 0;
    for (int64_t c = 0; c < p->head_dim_qk; ++c) {
        s += item(at->in, ATTUNE_Q, batch, at->head, at->begin_q + at->row, c) *
             item(at->in, ATTUNE_K, batch, at->head * p->heads_kv / p->heads_q, at->begin_kv + j, c);
    }
    s *= p->scale != 0 ? (long double)p->scale : (long double)(float)(1.0 / sqrt(p->head_dim_qk));
    if (p->softcap > 0) {
        s = p->softcap * tanhl(s / p->softcap);
    }
    if (p->bias != ATTUNE_BIAS_NONE) {
        s += item(at->in, ATTUNE_BIAS, at->batch, at->head, at->row, j);
    }
    if (p->alibi) {
        s -= item(at->in, ATTUNE_SLOPES, 0, at->head, 0, 0) * fabsl((long double)(at->row + at->offset - j));
    }
    return s;
}

static void brute_row(const brute *at, double *o, double *lse)
{
    const attune_problem *p = &at->in->problem;
    int64_t batch = p->varlen ? 0 : at->batch;
    long double sink = p->sink ? item(at->in, ATTUNE_SINK, 0, at->head, 0, 0) : -(long double)INFINITY;
    long double most = sink;
    long double sum = 0;
    long double *out = calloc(256, sizeof *out);
    int64_t seen = 0;
    for (int64_t j = 0; j < at->keys; ++j) {
        most = visible(at, j) ? fmaxl(most, logit(at, j)) : most;
    }
    for (int64_t j = 0; j < at->keys; ++j) {
        if (visible(at, j)) {
            ++seen;
            long double weight = expl(logit(at, j) - most);
            sum += weight;
            for (int64_t c = 0; c < p->head_dim_v; ++c) {
                out[c] +=
                    weight * item(at->in, ATTUNE_V, batch, at->head * p->heads_kv / p->heads_q, at->begin_kv + j, c);
            }
        }
    }
    sum += p->sink ? expl(sink - most) : 0;
    for (int64_t c = 0; c < p->head_dim_v; ++c) {
        o[c] = seen ? (double)(out[c] / sum) : 0.0;
    }
    *lse = seen ? (double)(most + logl(sum)) : (double)sink;
    free(out);
}

static void assert_alike(double value, double expected, const char *text, const char *what, int64_t at)
{
    bool alike = isnan(expected) ? isnan(value)
                                 : value == expected || fabs(value - expected) <= 1e-10 * fmax(1.0, fabs(expected));
    if (!alike) {
        fail_msg("%s: %s %lld is %.17g, brute force %.17g", text, what, (long long)at, value, expected);
    }
}

static void compare(at_pool *pool, const char *text, const at_draw *draw)
{
    at_inputs in;
    attune_args args;
    at_rows rows;
    draw_text(text, draw, &in);
    const attune_problem problem = in.problem;
    at_call_args(&problem, &in.call, &args);
    assert_int_equal(at_rows_all(&args, &rows), ATTUNE_OK);
    size_t width = (size_t)problem.head_dim_v;
    double *o = malloc(((size_t)rows.count + 1) * width * sizeof *o);
    double *lse = malloc(((size_t)rows.count + 1) * sizeof *lse);
    assert_int_equal(at_reference_run(pool, &args, &rows, o, lse), ATTUNE_OK);
    for (int64_t r = 0; r < rows.count; ++r) {
        const at_row *row = &rows.row[r];
        const int32_t *cu_q = in.call.tensor[ATTUNE_CU_Q].data;
        const int32_t *cu_kv = in.call.tensor[ATTUNE_CU_KV].data;
        int64_t lq = problem.varlen ? cu_q[row->batch + 1] - cu_q[row->batch] : problem.seqlen_q;
        int64_t lk = problem.varlen ? cu_kv[row->batch + 1] - cu_kv[row->batch] : problem.seqlen_kv;
        const int32_t *used = in.call.tensor[ATTUNE_USED_KV].data;
        lk = problem.seqused_kv && used[row->batch] < lk ? used[row->batch] : lk;
        brute at = {&in,
                    row->batch,
                    row->head,
                    row->row,
                    problem.varlen ? cu_q[row->batch] : 0,
                    problem.varlen ? cu_kv[row->batch] : 0,
                    lk,
                    lk - lq};
        at.offset = problem.offset_kind == ATTUNE_OFFSET_TOP_LEFT ? 0
                    : problem.offset_kind == ATTUNE_OFFSET_NUMBER ? problem.offset
                                                                  : at.offset;
        double expected[256], expected_lse;
        brute_row(&at, expected, &expected_lse);
        for (size_t c = 0; c < width; ++c) {
            assert_alike(o[(size_t)r * width + c], expected[c], text, "output of row", r);
        }
        assert_alike(lse[r], expected_lse, text, "LSE of row", r);
    }
    free(o);
    free(lse);
    at_rows_free(&rows);
    at_inputs_free(&in);
}

static const char *const problems[] = {
    "b1,h1,s1,d1,fp32",
    "b1,h2,s65,d64,fp16",
    "b2,h4,hkv2,sq33,skv70,d40,dv24,fp32,causal",
    "b1,h4,hkv1,sq70,skv33,d16,bf16,causal",
    "b1,h2,s67,d8,fp16,causal,offset=tl",
    "b1,h2,sq5,skv67,d8,fp32,causal,offset=-3",
    "b2,h2,s70,d16,fp32,window=7:3",
    "b1,h2,s66,d16,fp16,causal,window=10:-1,softcap=5",
    "b2,h2,s40,d16,fp32,bias=bxh,alibi,sink",
    "b2,h2,s40,d16,bf16,bias=1xh,mask",
    "b2,h2,sq17,skv90,d256,fp16,mask,causal",
    "b5,h2,s40,d16,fp32,varlen=7",
    "b5,h4,hkv2,sq20,skv70,d16,fp16,varlen=3,causal,seqused,sink",
    "b4,h2,s66,d16,fp32,seqused,causal,scale=0.5,layout=bshd",
    "b3,h3,sq7,skv129,d9,dv3,fp32,alibi,offset=tl",
};

static void test_brute_force(void **state)
{
    (void)state;
    at_pool *pool;
    assert_int_equal(at_pool_create(2, 0, &pool), ATTUNE_OK);
    for (size_t i = 0; i < sizeof problems / sizeof *problems; ++i) {
        for (int family = 0; family < AT_FAMILY_COUNT; ++family) {
            at_draw draw = {.seed = i + 100, .family = (at_family)family, .gaps = family % 2 == 1};
            compare(pool, problems[i], &draw);
        }
    }
    at_pool_destroy(pool);
}

static void test_some_rows(void **state)
{
    (void)state;
    tiny on;
    at_rows some, all;
    tiny_init(&on, 16, 16);
    on.args.seqlen_q = 1000;
    on.args.heads_q = 2;
    assert_int_equal(at_rows_all(&on.args, &all), ATTUNE_OK);
    assert_int_equal(all.count, 2000);
    assert_int_equal(at_rows_some(&on.args, 200, 64, 5, &some), ATTUNE_OK);
    assert_in_range(some.count, 200, 340); /* 2 heads of 16 tiles' edges, and about 200 */
    int edges = 0;
    for (int64_t r = 0; r < some.count; ++r) {
        int64_t row = some.row[r].row;
        edges += row % 64 == 0 || row % 64 == 63 || row == 999;
        if (r > 0) {
            const at_row *before = &some.row[r - 1];
            assert_true(before->head < some.row[r].head || before->row < row);
        }
    }
    assert_int_equal(edges, 64);
    at_rows_free(&some);
    at_rows_free(&all);
}

/* Of many heads, each tile has its edges taken in as many as every other tile, and not all in the same ones. */
static void test_edges_are_dealt_to_heads(void **state)
{
    enum { HEADS = 64, LENGTH = 16384, TILES = LENGTH / 64, DEAL = 4 };
    static int heads_of[TILES], tiles_of[HEADS];
    tiny on;
    at_rows some;
    (void)state;
    tiny_init(&on, LENGTH, 1);
    on.args.heads_q = HEADS;
    assert_int_equal(at_rows_some(&on.args, 0, 64, 7, &some), ATTUNE_OK);
    for (int64_t r = 0; r < some.count; ++r) {
        heads_of[some.row[r].row / 64] += some.row[r].row % 64 == 0;
        tiles_of[some.row[r].head] += some.row[r].row % 64 == 63;
    }
    assert_int_equal(heads_of[0], HEADS); /* the first row of every head */
    for (int tile = 1; tile < TILES; ++tile) {
        assert_int_equal(heads_of[tile], HEADS / DEAL);
    }
    for (int head = 0; head < HEADS; ++head) {
        assert_in_range(tiles_of[head], TILES / DEAL, TILES / DEAL + 1); /* the last row of every head */
    }
    at_rows_free(&some);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_keys),
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_sink_joins_the_denominator),
        cmocka_unit_test(test_softcap),
        cmocka_unit_test(test_softcap_comes_before_bias),
        cmocka_unit_test(test_alibi),
        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_edges_are_dealt_to_heads),
        cmocka_unit_test(test_rows_that_see_nothing),
        cmocka_unit_test(test_no_keys_at_all),
        cmocka_unit_test(test_mask_and_bias_hide),
        cmocka_unit_test(test_hidden_values_leave_no_trace),
        cmocka_unit_test(test_visible_infinite_logits),
        cmocka_unit_test(test_infinite_values),
        cmocka_unit_test(test_a_sink_that_is_no_number),
        cmocka_unit_test(test_seqused_sets_end_and_offset),
        cmocka_unit_test(test_varlen),
        cmocka_unit_test(test_grouped_heads),
        cmocka_unit_test(test_brute_force),
        cmocka_unit_test(test_some_rows),
    };
    return cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
