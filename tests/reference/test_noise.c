/* What rounding may do, against its formula written out once more, and against what rounding does. */
#include "base/cm.h"

#include <math.h>
#include <stdlib.h>

#include "base/pool.h"
#include "base/status.h"
#include "core/call.h"
#include "reference/draw_text.h"
#include "reference/inputs.h"
#include "reference/reference.h"

enum { KEYS = 9, DIM = 6, DIM_V = 4, ROWS_MAX = 64 };

/* Two heads of queries and one of keys, in fp32; what the library says of them. */
typedef struct bench {
    at_inputs inputs;
    attune_args args;
    at_rows rows;
    double o[ROWS_MAX * DIM_V], lse[ROWS_MAX], o_noise[ROWS_MAX * DIM_V], lse_noise[ROWS_MAX];
} bench;

static void bench_open(bench *on, const char *text)
{
    at_draw draw = {.seed = 5, .family = AT_FAMILY_NORMAL};
    draw_text(text, &draw, &on->inputs);
    at_call_args(&on->inputs.problem, &on->inputs.call, &on->args);
    assert_ok(at_rows_all(&on->args, &on->rows));
    assert_true(on->rows.count <= ROWS_MAX);
    assert_ok(at_reference_run(pool, &on->args, &on->rows, on->o, on->lse));
    at_noise_run(pool, &on->args, &on->rows, on->o, on->lse, on->o_noise, on->lse_noise);
}

static void bench_close(bench *on)
{
    at_rows_free(&on->rows);
    at_inputs_free(&on->inputs);
}

static double number(const bench *on, attune_role role, int64_t head, int64_t row, int64_t column)
{
    const attune_tensor *tensor = &on->args.tensor[role];
    const float *data = tensor->data;
    return (double)data[head * tensor->stride[ATTUNE_STRIDE_HEAD] + row * tensor->stride[ATTUNE_STRIDE_SEQ] + column];
}

/* Weight of key j: 2^-24 x its probability x the sizes of all that its score is the sum of. */
static double weight(const bench *on, int64_t head, int64_t row, int64_t j, double lse, double offset)
{
    double score = 0, sizes = 0;
    double scale = (double)on->args.scale, cap = (double)on->args.softcap;
    for (int64_t c = 0; c < DIM; ++c) {
        double term = number(on, ATTUNE_Q, head, row, c) * number(on, ATTUNE_K, 0, j, c) * scale;
        score += term;
        sizes += fabs(term);
    }
    score = cap > 0 ? cap * tanh(score / cap) : score;
    if (on->args.features & ATTUNE_FEATURE_BIAS) {
        double bias = number(on, ATTUNE_BIAS, head, row, j);
        if (isinf(bias)) {
            return 0; /* hides the key */
        }
        score += bias;
        sizes += fabs(bias);
    }
    if (on->args.features & ATTUNE_FEATURE_ALIBI) {
        double far = number(on, ATTUNE_SLOPES, head, 0, 0) * fabs((double)row + offset - (double)j);
        score -= far;
        sizes += fabs(far);
    }
    return 0x1p-24 * exp(score - lse) * sizes;
}

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-9 * expected)) {
        fail_msg("%.17g is not %.17g", value, expected);
    }
}

/* Every bound, where key j is seen by row i as long as j <= i + offset. */
static void check(const char *text, int64_t queries, bool causal)
{
    bench on;
    bench_open(&on, text);
    double offset = (double)(KEYS - queries);
    assert_int_equal(on.rows.count, 2 * queries);
    for (int64_t r = 0; r < on.rows.count; ++r) {
        int64_t head = r / queries, row = r % queries;
        double of_lse = 0, of_o[DIM_V] = {0};
        for (int64_t j = 0; j < KEYS && (!causal || (double)j <= (double)row + offset); ++j) {
            double w = weight(&on, head, row, j, on.lse[r], offset);
            of_lse += w;
            for (int64_t c = 0; c < DIM_V; ++c) {
                of_o[c] += w * fabs(number(&on, ATTUNE_V, 0, j, c) - on.o[r * DIM_V + c]);
            }
        }
        assert_near(on.lse_noise[r], of_lse);
        for (int64_t c = 0; c < DIM_V; ++c) {
            assert_near(on.o_noise[r * DIM_V + c], of_o[c]);
        }
    }
    bench_close(&on);
}

static void the_formula(void **state)
{
    (void)state;
    check("b1,h2,hkv1,sq5,skv9,d6,dv4,fp32", 5, false);
    check("b1,h2,hkv1,sq5,skv9,d6,dv4,fp32,causal,scale=-0.75", 5, true);
    check("b1,h2,hkv1,sq7,skv9,d6,dv4,fp32,softcap=2,bias=1xh", 7, false);
    check("b1,h2,hkv1,sq3,skv9,d6,dv4,fp32,alibi,causal", 3, true);
}

/* Rows that see nothing have nothing to round. */
static void nothing_seen(void **state)
{
    (void)state;
    bench on;
    bench_open(&on, "b1,h2,hkv1,sq9,skv2,d6,dv4,fp32,causal");
    for (int64_t i = 0; i < 7 * DIM_V; ++i) {
        assert_true(on.o_noise[i] == 0.0);
    }
    assert_true(on.lse_noise[6] == 0.0 && on.lse_noise[8] > 0.0);
    bench_close(&on);
}

/* The naive computation in fp32 rounds its scores, and little else: it stays within a few times the bound. */
static void rounding_stays_below(void **state)
{
    (void)state;
    bench on;
    double o[ROWS_MAX * DIM_V], lse[ROWS_MAX];
    bench_open(&on, "b1,h2,hkv1,sq20,skv9,d6,dv4,fp32,scale=20,offset=0");
    assert_ok(at_naive_run(pool, &on.args, &on.rows, 0, o, lse));
    for (int64_t i = 0; i < on.rows.count * DIM_V; ++i) {
        assert_true(fabs(o[i] - on.o[i]) <= on.o_noise[i] + 8 * 0x1p-24 * fabs(on.o[i]) + 0x1p-24);
    }
    bench_close(&on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_formula),
        cmocka_unit_test(nothing_seen),
        cmocka_unit_test(rounding_stays_below),
    };
    return cmocka_run_group_tests_name("noise", tests, pool_open, pool_close);
}
