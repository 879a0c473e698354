/* The judge: honest noise passes over hundreds of draws, and every animal of the zoo is caught. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/pool.h"
#include "base/status.h"
#include "reference/draw_text.h"
#include "reference/sequence.h"
#include "reference/truth.h"
#include "worker/transform.h"
#include "zoo.h"

/* A case drawn and computed, ready for outputs to be judged; not to be moved. */
typedef struct trial {
    at_inputs inputs;
    at_truth truth;
} trial;

static void trial_draw(trial *on, const char *text, at_family family, uint64_t seed, bool acc16)
{
    at_draw draw = {.seed = seed, .family = family};
    const at_truth_want want = {.acc16 = acc16};
    draw_text(text, &draw, &on->inputs);
    assert_int_equal(at_truth_compute(pool, &on->inputs, &want, &on->truth), ATTUNE_OK);
}

static void trial_free(trial *on)
{
    at_truth_free(&on->truth);
    at_inputs_free(&on->inputs);
}

static void attend(trial *on, zoo_flaw flaw)
{
    float *score = malloc((size_t)(on->truth.args.seqlen_kv + 1) * sizeof *score);
    for (int64_t i = 0; i < on->truth.args.batch * on->truth.args.heads_q * on->truth.args.seqlen_q; ++i) {
        zoo_attend(&on->truth.args, i, score, flaw);
    }
    free(score);
}

static attune_status judged(const char *text, at_family family, uint64_t seed, zoo_flaw flaw, at_bias *bias)
{
    trial on;
    at_finding finding;
    trial_draw(&on, text, family, seed, false);
    attend(&on, flaw);
    attune_status status = at_judge_case(&on.truth.one, &finding, bias);
    trial_free(&on);
    return status;
}

/* ---- Honest noise ----------------------------------------------------------------------------------------------- */

static const char *const small[] = {
    "b1,h2,s70,d32,%s",
    "b1,h1,sq1,skv1,d8,%s",
    "b1,h1,sq3,skv5,d1,dv1,%s",
    "b2,h2,s40,d16,dv8,%s,causal",
    "b1,h2,sq3,skv130,d64,%s,softcap=3",
    "b2,h2,s33,d16,%s,bias=bxh,alibi,sink",
    "b1,h2,s66,d40,%s,window=5:0,mask",
    "b3,h2,s40,d16,%s,varlen=4,causal",
};

#ifdef ATTUNE_SANITIZED
enum { DRAWS = AT_FAMILY_COUNT };
#else
enum { DRAWS = 5 * AT_FAMILY_COUNT };
#endif

static void passes(const char *dtype, zoo_flaw flaw)
{
    at_bias bias = {0};
    for (size_t i = 0; i < sizeof small / sizeof *small; ++i) {
        char text[128];
        (void)snprintf(text, sizeof text, small[i], dtype);
        for (uint64_t draw = 0; draw < DRAWS; ++draw) {
            at_family family = (at_family)(draw % AT_FAMILY_COUNT);
            if (judged(text, family, 7 * draw + i, flaw, &bias) != ATTUNE_OK) {
                fail_msg("%s, %s, draw %llu: %s", text, at_family_name(family), (unsigned long long)draw,
                         attune_last_detail());
            }
        }
    }
    if (at_judge_bias(&bias) != ATTUNE_OK) {
        fail_msg("%s: %s", dtype, attune_last_detail());
    }
}

static void honest_passes(const char *dtype)
{
    passes(dtype, ZOO_HONEST);
}

/* What a case is granted for being small. */
static double granted(const char *text)
{
    trial on;
    trial_draw(&on, text, AT_FAMILY_NEGATIVE, 1, false);
    double error = on.truth.one.naive_error;
    trial_free(&on);
    return error;
}

/* Scores of 128 terms, all of one sign: what adding them up costs in two orders differs by luck, and both are honest.
 */
static void test_long_sums_are_granted_what_they_cost(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; ++seed) {
        trial on;
        double worst = 0;
        trial_draw(&on, "b1,h2,s40,d128,fp32,causal", AT_FAMILY_NEGATIVE, seed, false);
        for (int64_t i = 0; i < on.truth.rows.count * on.truth.args.head_dim_v; ++i) {
            worst = fmax(worst, fabs(on.truth.one.o_naive[i] - on.truth.one.o_reference[i]));
        }
        assert_true(worst <= 1.5 * on.truth.one.naive_error);
        trial_free(&on);
    }
}

/* Rows of few keys, whose rounding to bf16 alone is beyond the bar of fp16. */
static void test_honest_bf16_outputs_of_fp16_pass(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; ++seed) {
        if (judged("b2,h2,s15,d40,dv24,fp16,causal,o=bf16", AT_FAMILY_NORMAL, seed, ZOO_HONEST, NULL) != ATTUNE_OK) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, attune_last_detail());
        }
    }
}

static void test_rows_without_keys_make_no_case_larger(void **state)
{
    (void)state;
    assert_true(granted("b1,h8,sq600,skv50,d64,fp32") == 0);
    assert_true(granted("b1,h8,sq600,skv50,d64,fp32,causal") > 0);
}

static void test_honest_fp16_passes(void **state)
{
    (void)state;
    honest_passes("fp16");
}

static void test_honest_bf16_passes(void **state)
{
    (void)state;
    honest_passes("bf16");
}

static void test_honest_fp32_passes(void **state)
{
    (void)state;
    honest_passes("fp32");
}

/* With tf32 a kernel may be as exact as fp32, or as TF32; what is not is caught, as TF32 is without it. */
static void test_tf32_permits_tf32(void **state)
{
    (void)state;
    passes("fp32,tf32", ZOO_TF32);
    for (uint64_t seed = 1; seed <= 5; ++seed) {
        assert_int_equal(judged("b1,h2,s160,d64,fp32", AT_FAMILY_NORMAL, seed, ZOO_TF32, NULL), ATTUNE_WRONG_RESULT);
        assert_int_equal(judged("b1,h2,s160,d64,fp32,tf32", AT_FAMILY_NORMAL, seed, ZOO_BF16, NULL),
                         ATTUNE_WRONG_RESULT);
    }
}

/* Large logits: two results of TF32's products are as near each other as at_transform_share has it. */
static void test_tf32_is_within_half_its_share(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; ++seed) {
        trial on;
        trial_draw(&on, "b1,h8,s512,d64,fp32,tf32", AT_FAMILY_MIXED, seed, false);
        const double half = at_transform_share(&on.inputs.problem, 0, true) / 2;
        const double *wanted = on.truth.one.o_reference, *naive = on.truth.one.o_naive;
        for (int64_t r = 0; r < on.truth.rows.count; ++r, wanted += 64, naive += 64) {
            double largest = 0, off = 0;
            for (int c = 0; c < 64; ++c) {
                largest = fmax(largest, fabs(wanted[c]));
                off = fmax(off, fabs(wanted[c] - naive[c]));
            }
            assert_true(off <= half * largest);
        }
        trial_free(&on);
    }
}

/* A single row that is off by a twentieth of itself is caught with tf32 as with fp16. */
static void test_tf32_judges_each_row(void **state)
{
    static const at_family families[] = {AT_FAMILY_LARGE, AT_FAMILY_MIXED, AT_FAMILY_TAIL};
    (void)state;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; ++i) {
        trial on;
        at_finding finding;
        trial_draw(&on, "b1,h4,s600,d64,fp32,tf32,causal", families[i], 1, false);
        attend(&on, ZOO_TF32);
        assert_int_equal(at_judge_case(&on.truth.one, &finding, NULL), ATTUNE_OK);
        float *o = on.truth.args.tensor[ATTUNE_O].data;
        const int64_t *stride = on.truth.args.tensor[ATTUNE_O].stride;
        for (int64_t head = 0; head < 4; ++head) {
            float *row = o + head * stride[ATTUNE_STRIDE_HEAD] + 599 * stride[ATTUNE_STRIDE_SEQ];
            float size = 0;
            for (int c = 0; c < 64; ++c) {
                size += row[c] * row[c];
            }
            for (int c = 0; c < 64; ++c) {
                row[c] += (c % 2 == 0 ? 0.05F : -0.05F) * sqrtf(size / 64);
            }
        }
        assert_int_equal(at_judge_case(&on.truth.one, &finding, NULL), ATTUNE_WRONG_RESULT);
        assert_non_null(strstr(attune_last_detail(), "rule 3"));
        trial_free(&on);
    }
}

/* ---- Known-bad outputs ------------------------------------------------------------------------------------------ */

typedef struct bad {
    zoo_flaw flaw;
    const char *problem;
    at_family family;
    const char *rule; /* in the detail */
} bad;

static const bad menagerie[] = {
    {ZOO_SCALE_OFF, "b1,h2,s160,d64,%s", AT_FAMILY_NORMAL, "rule"},
    {ZOO_FP8_P, "b1,h2,s160,d64,%s", AT_FAMILY_NORMAL, "rule"},
    {ZOO_DROPS_TAIL, "b1,h1,s300,d64,%s", AT_FAMILY_NORMAL, "rule"},
    {ZOO_MEAN_OF_V, "b1,h2,s160,d64,%s", AT_FAMILY_NORMAL, "rule"},
    {ZOO_CAUSAL_OFF, "b1,h2,s160,d64,%s,causal", AT_FAMILY_NORMAL, "rule"},
    {ZOO_SWAPPED_HEADS, "b1,h4,hkv2,s128,d64,%s", AT_FAMILY_NORMAL, "rule"},
    {ZOO_NAN_ROW, "b1,h2,s160,d64,%s", AT_FAMILY_NORMAL, "inf and NaN"},
    {ZOO_ZEROS, "b1,h1,s300,d64,%s", AT_FAMILY_NORMAL, "rule"},
    {ZOO_SKIPS_ROW, "b1,h2,s160,d64,%s", AT_FAMILY_NORMAL, "rule"},
    {ZOO_LSE_OFF, "b1,h2,s160,d64,%s", AT_FAMILY_NORMAL, "rule 4"},
    {ZOO_EMPTY_NAN, "b1,h2,sq70,skv40,d64,%s,causal", AT_FAMILY_NORMAL, "inf and NaN"},
    {ZOO_NO_MAXIMUM, "b1,h2,s160,d64,%s", AT_FAMILY_LARGE, "rule"},
    {ZOO_NO_MAXIMUM, "b1,h2,s100,d64,%s", AT_FAMILY_NEGATIVE, "rule"},
    {ZOO_HIGH_REFERENCE, "b1,h1,sq40,skv2100,d64,%s", AT_FAMILY_TAIL, "rule"},
    {ZOO_HIGH_REFERENCE, "b1,h1,sq40,skv4000,d64,%s,causal", AT_FAMILY_TAIL, "rule"},
    {ZOO_HIGH_REFERENCE, "b1,h2,s320,d64,%s,causal", AT_FAMILY_TAIL, "rule"},
    {ZOO_LEAKS, "b6,h4,s40,d16,%s,causal,offset=tl", AT_FAMILY_VISIBLE, "inf and NaN"},
    {ZOO_SWAPPED_HEADS, "b2,h4,hkv2,s70,d64,%s", AT_FAMILY_MIXED, "rule"},
    {ZOO_DROPS_TAIL, "b1,h1,s200,d64,%s", AT_FAMILY_NEEDLE, "rule"},
};

static void bad_fails(const char *dtype)
{
    for (size_t i = 0; i < sizeof menagerie / sizeof *menagerie; ++i) {
        const bad *animal = &menagerie[i];
        char text[128];
        (void)snprintf(text, sizeof text, animal->problem, dtype);
        for (uint64_t seed = 1; seed <= 2; ++seed) {
            if (judged(text, animal->family, seed, ZOO_HONEST, NULL) != ATTUNE_OK) {
                fail_msg("%s, %s: honest, yet: %s", text, at_family_name(animal->family), attune_last_detail());
            }
            if (judged(text, animal->family, seed, animal->flaw, NULL) != ATTUNE_WRONG_RESULT) {
                fail_msg("%s: flaw %d passes", text, (int)animal->flaw);
            }
            if (strstr(attune_last_detail(), animal->rule) == NULL) {
                fail_msg("%s: flaw %d fails by another rule: %s", text, (int)animal->flaw, attune_last_detail());
            }
        }
    }
}

static void test_bad_fp16_fails(void **state)
{
    (void)state;
    bad_fails("fp16");
}

static void test_bad_bf16_fails(void **state)
{
    (void)state;
    bad_fails("bf16");
}

static void test_bad_fp32_fails(void **state)
{
    (void)state;
    bad_fails("fp32");
}

static void test_bad_tf32_fails(void **state)
{
    (void)state;
    bad_fails("fp32,tf32");
}

/* Rounding towards zero hides in every single case, and shows over a suite. */
static void test_bias_shows_over_a_suite(void **state)
{
    (void)state;
    at_bias honest = {0}, biased = {0};
    for (uint64_t seed = 0; seed < 12; ++seed) {
        assert_int_equal(judged("b1,h2,s128,d64,bf16", AT_FAMILY_NORMAL, seed, ZOO_HONEST, &honest), ATTUNE_OK);
        assert_int_equal(judged("b1,h2,s128,d64,bf16", AT_FAMILY_NORMAL, seed, ZOO_BIASED, &biased), ATTUNE_OK);
    }
    assert_int_equal(at_judge_bias(&honest), ATTUNE_OK);
    assert_int_equal(at_judge_bias(&biased), ATTUNE_WRONG_RESULT);
    assert_non_null(strstr(attune_last_detail(), "gain"));
}

static void test_nothing_summed_is_no_bias(void **state)
{
    (void)state;
    at_bias bias = {0};
    assert_int_equal(at_judge_bias(&bias), ATTUNE_OK);
}

/* ---- The judge's own errors ------------------------------------------------------------------------------------- */

static void test_infinite_tolerance_is_our_error(void **state)
{
    (void)state;
    const double strange[] = {NAN, INFINITY};
    for (int i = 0; i < 2; ++i) {
        trial on;
        at_finding finding;
        trial_draw(&on, "b1,h1,s8,d8,fp16", AT_FAMILY_NORMAL, 1, false);
        attend(&on, ZOO_HONEST);
        assert_int_equal(at_judge_case(&on.truth.one, &finding, NULL), ATTUNE_OK);
        on.truth.one.naive_error = strange[i];
        assert_int_equal(at_judge_case(&on.truth.one, &finding, NULL), ATTUNE_INTERNAL);
        on.truth.one.naive_error = 0;
        on.truth.one.naive_lse = strange[i];
        assert_int_equal(at_judge_case(&on.truth.one, &finding, NULL), ATTUNE_INTERNAL);
        on.truth.one.naive_lse = 0;
        double *naive = on.truth.block + (on.truth.one.o_naive - on.truth.block);
        naive[5] = strange[i];
        assert_int_equal(at_judge_case(&on.truth.one, &finding, NULL), ATTUNE_INTERNAL);
        trial_free(&on);
    }
}

static void test_finding_holds_the_numbers(void **state)
{
    (void)state;
    trial on;
    at_finding finding;
    trial_draw(&on, "b1,h2,s128,d64,fp16", AT_FAMILY_NORMAL, 1, false);
    attend(&on, ZOO_HONEST);
    assert_int_equal(at_judge_case(&on.truth.one, &finding, NULL), ATTUNE_OK);
    assert_true(finding.max_error > 0 && finding.max_error <= finding.max_error_limit);
    assert_true(finding.max_error_limit < 1e-2);
    assert_true(finding.l2 > 0 && finding.l2 <= finding.l2_limit);
    assert_true(finding.worst_cosine > 0.999 && finding.worst_cosine <= 1.0);
    assert_true(finding.lse_error <= finding.lse_limit);
    assert_true(finding.fixed_bar && finding.allclose);
    uint16_t *o = on.truth.args.tensor[ATTUNE_O].data;
    o[64 * 77 + 3] = at_fp16_from_float(at_fp16_to_float(o[64 * 77 + 3]) + 0.05F);
    assert_int_equal(at_judge_case(&on.truth.one, &finding, NULL), ATTUNE_WRONG_RESULT);
    assert_int_equal(finding.worst.row, 77);
    assert_non_null(strstr(attune_last_detail(), "row 77"));
    assert_false(finding.fixed_bar || finding.allclose);
    trial_free(&on);
}

/* A kernel that taints may spread NaN, and nothing else. */
/* One row among many shows in the largest of the rows' errors, and not in the others. */
static void test_rows_have_errors_of_their_own(void **state)
{
    (void)state;
    trial on;
    double before[70], after[70];
    trial_draw(&on, "b1,h1,s70,d32,fp32", AT_FAMILY_NORMAL, 3, false);
    attend(&on, ZOO_HONEST);
    assert_int_equal(on.truth.one.rows->count, 70);
    at_judge_rows(&on.truth.one, before);
    float *o = on.truth.args.tensor[ATTUNE_O].data;
    for (int64_t c = 0; c < 32; ++c) {
        o[at_row_index(&on.truth.args, ATTUNE_O, 0, 0, 0, 7) + c] *= 1.01f;
    }
    at_judge_rows(&on.truth.one, after);
    for (int r = 0; r < 70; ++r) {
        assert_true(before[r] < 1e-5);
        assert_true(r == 7 ? fabs(after[r] - 0.01) < 1e-4 : after[r] == before[r]);
    }
    trial_free(&on);
}

static void test_taint(void **state)
{
    (void)state;
    trial on;
    at_finding finding;
    trial_draw(&on, "b1,h3,s70,d64,fp16,causal,offset=tl", AT_FAMILY_VISIBLE, 2, false);
    on.truth.one.taints = true;
    attend(&on, ZOO_LEAKS);
    if (at_judge_case(&on.truth.one, &finding, NULL) != ATTUNE_OK) {
        fail_msg("%s", attune_last_detail());
    }
    attend(&on, ZOO_ZEROS);
    assert_int_equal(at_judge_case(&on.truth.one, &finding, NULL), ATTUNE_WRONG_RESULT);
    trial_free(&on);
}

/* ---- The naive computation -------------------------------------------------------------------------------------- */

static double naive_l2(const char *text, bool acc16)
{
    trial on;
    trial_draw(&on, text, AT_FAMILY_NORMAL, 5, acc16);
    at_judge_naive(&on.truth.one, &on.truth.one);
    double l2 = on.truth.one.naive_l2;
    trial_free(&on);
    return l2;
}

static void test_naive_errors_are_of_the_dtype(void **state)
{
    (void)state;
    double fp32 = naive_l2("b1,h8,s520,d64,fp32", false); /* so large that nothing is granted */
    double tf32 = naive_l2("b1,h2,s160,d64,fp32,tf32", false);
    double fp16 = naive_l2("b1,h2,s160,d64,fp16", false);
    double bf16 = naive_l2("b1,h2,s160,d64,bf16", false);
    double acc16 = naive_l2("b1,h2,s160,d64,fp16", true);
    assert_true(fp32 > 1e-8 && fp32 < 2e-6);
    assert_true(fp16 > 1e-4 && fp16 < 2e-3);
    assert_true(tf32 > 0.5 * fp16 && tf32 < 2 * fp16);
    assert_true(bf16 > 1e-3 && bf16 < 1e-2);
    assert_true(acc16 > 1.2 * fp16 && acc16 < 20 * fp16);
}

/* fp16 scores beyond 65,504 stay in fp32 where the truth is finite. */
static void test_naive_survives_overflow(void **state)
{
    (void)state;
    enum { VALUES = 64 * 64 };
    double *o = malloc(VALUES * sizeof *o), lse[64];
    for (int acc16 = 0; acc16 < 2; ++acc16) {
        trial on;
        trial_draw(&on, "b1,h1,s64,d64,fp16,scale=100", AT_FAMILY_NORMAL, 5, acc16 != 0);
        for (int64_t i = 0; i < VALUES; ++i) {
            ((uint16_t *)on.truth.args.tensor[ATTUNE_Q].data)[i] = at_fp16_from_float(200.0F);
            ((uint16_t *)on.truth.args.tensor[ATTUNE_K].data)[i] = at_fp16_from_float(i / 64 == 9 ? 200.0F : 150.0F);
        }
        assert_int_equal(at_naive_run(pool, &on.truth.args, &on.truth.rows, acc16, o, lse), ATTUNE_OK);
        for (int64_t i = 0; i < VALUES; ++i) {
            assert_true(isfinite(o[i]));
        }
        trial_free(&on);
    }
    free(o);
}

/* ---- What a declaration excuses ---------------------------------------------------------------------------------- */

/* A row's sums as a tensor core carries them in fp16: sixteen products at a time. */
typedef struct sums16 {
    float top, sum, out[128], part[128];
} sums16;

enum { GROUP16 = 16, TILE16 = 64 };

static float dot_acc16(const attune_args *args, const at_row *row, const float *query, int64_t key)
{
    float k[256], dot = 0;
    at_elements_float(&args->tensor[ATTUNE_K], at_row_index(args, ATTUNE_K, row->batch, row->head, 0, key),
                      args->head_dim_qk, k);
    for (int c = 0; c < args->head_dim_qk; ++c) {
        dot += query[c] * k[c];
        dot = c % GROUP16 == GROUP16 - 1 || c == args->head_dim_qk - 1 ? at_round(ATTUNE_FP16, dot) : dot;
    }
    return dot * args->scale;
}

/* A weight's leading digit and so many bits behind it: 10 of fp16, 3 of e4m3. */
static float weight_of(float score, int bits)
{
    int exponent;
    float digits = ldexpf(frexpf(at_round(ATTUNE_FP16, expf(score)), &exponent), bits + 1);
    return ldexpf(rintf(digits), exponent - bits - 1);
}

static void add_acc16(const attune_args *args, const at_row *row, int64_t key, float weight, bool ends, sums16 *on)
{
    float value[128];
    at_elements_float(&args->tensor[ATTUNE_V], at_row_index(args, ATTUNE_V, row->batch, row->head, 0, key),
                      args->head_dim_v, value);
    on->sum += weight;
    for (int c = 0; c < args->head_dim_v; ++c) {
        on->part[c] += weight * value[c];
        if (ends) {
            on->out[c] = at_round(ATTUNE_FP16, on->out[c] + on->part[c]);
            on->part[c] = 0;
        }
    }
}

/* What was summed, for another maximum: O is rescaled in fp16. */
static void raise_acc16(const attune_args *args, float top, sums16 *on)
{
    float factor = expf(on->top - top);
    for (int c = 0; c < args->head_dim_v; ++c) {
        on->out[c] = at_round(ATTUNE_FP16, on->out[c] * factor);
    }
    on->sum *= factor;
    on->top = top;
}

static void attend_acc16(const attune_args *args, const at_row *row, int bits)
{
    const at_sequence sequence = at_sequence_of(args, row->batch);
    sums16 on = {.top = -INFINITY};
    float query[256], score[TILE16];
    int64_t first, end;
    at_sequence_range(args, &sequence, row->row, &first, &end);
    at_elements_float(&args->tensor[ATTUNE_Q], at_row_index(args, ATTUNE_Q, row->batch, row->head, 0, row->row),
                      args->head_dim_qk, query);
    for (int64_t tile = first; tile < end; tile += TILE16) {
        float top = on.top;
        int64_t count = end - tile < TILE16 ? end - tile : TILE16;
        for (int64_t j = 0; j < count; ++j) {
            score[j] = dot_acc16(args, row, query, tile + j);
            top = fmaxf(top, score[j]);
        }
        raise_acc16(args, top, &on);
        for (int64_t j = 0; j < count; ++j) {
            bool ends = j % GROUP16 == GROUP16 - 1 || j == count - 1;
            add_acc16(args, row, tile + j, weight_of(score[j] - top, bits), ends, &on);
        }
    }
    uint16_t *to = args->tensor[ATTUNE_O].data;
    to += at_row_index(args, ATTUNE_O, row->batch, row->head, 0, row->row);
    for (int c = 0; c < args->head_dim_v; ++c) {
        to[c] = at_fp16_from_float(on.out[c] / on.sum);
    }
}

static attune_status judged_acc16(const char *text, at_family family, uint64_t seed, int bits, at_finding *finding)
{
    trial on;
    trial_draw(&on, text, family, seed, true);
    const attune_args *args = &on.truth.args;
    on.truth.args.tensor[ATTUNE_LSE].data = NULL;
    for (int64_t i = 0; i < args->batch * args->heads_q * args->seqlen_q; ++i) {
        const int64_t head = i / args->seqlen_q;
        const at_row row = {head / args->heads_q, head % args->heads_q, i % args->seqlen_q};
        attend_acc16(args, &row, bits);
    }
    attune_status status = at_judge_case(&on.truth.one, finding, NULL);
    trial_free(&on);
    return status;
}

/* Sums in fp16 excuse what they cost, and nothing that only looks as large. */
static void test_fp16_sums_excuse_themselves_alone(void **state)
{
    static const char *const texts[] = {"b1,h2,s512,d64,fp16", "b1,h2,s300,d128,fp16,causal",
                                        "b1,h1,s65,d64,fp16",  "b1,h1,sq10,skv8192,d64,fp16",
                                        "b1,h2,s130,d32,fp16", "b1,h1,sq20,skv17,d80,fp16"};
    enum { FP16 = 10, COVERED = 6, E4M3 = 3 };
    at_finding finding;
    (void)state;
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; ++t) {
        for (uint64_t seed = 1; seed <= 3; ++seed) {
            if (judged_acc16(texts[t], AT_FAMILY_SPARSE, seed, FP16, &finding) != ATTUNE_OK) {
                fail_msg("%s, seed %d: %s", texts[t], (int)seed, attune_last_detail());
            }
            assert_true(finding.max_error < 0.5 * finding.max_error_limit && finding.l2 < 0.75 * finding.l2_limit);
            assert_int_equal(judged_acc16(texts[t], AT_FAMILY_SPARSE, seed, COVERED, &finding), ATTUNE_WRONG_RESULT);
            assert_int_equal(judged_acc16(texts[t], AT_FAMILY_SPARSE, seed, E4M3, &finding), ATTUNE_WRONG_RESULT);
            assert_true(finding.max_error > 2 * finding.max_error_limit);
        }
    }
    /* Elsewhere it might have passed for what such sums cost. */
    assert_int_equal(judged_acc16("b1,h1,sq10,skv8192,d64,fp16", AT_FAMILY_NORMAL, 1, COVERED, &finding), ATTUNE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_sums_are_granted_what_they_cost),
        cmocka_unit_test(test_rows_without_keys_make_no_case_larger),
        cmocka_unit_test(test_honest_fp16_passes),
        cmocka_unit_test(test_honest_bf16_passes),
        cmocka_unit_test(test_honest_bf16_outputs_of_fp16_pass),
        cmocka_unit_test(test_honest_fp32_passes),
        cmocka_unit_test(test_bad_fp16_fails),
        cmocka_unit_test(test_bad_bf16_fails),
        cmocka_unit_test(test_bad_fp32_fails),
        cmocka_unit_test(test_bad_tf32_fails),
        cmocka_unit_test(test_tf32_permits_tf32),
        cmocka_unit_test(test_tf32_is_within_half_its_share),
        cmocka_unit_test(test_tf32_judges_each_row),
        cmocka_unit_test(test_bias_shows_over_a_suite),
        cmocka_unit_test(test_nothing_summed_is_no_bias),
        cmocka_unit_test(test_infinite_tolerance_is_our_error),
        cmocka_unit_test(test_finding_holds_the_numbers),
        cmocka_unit_test(test_rows_have_errors_of_their_own),
        cmocka_unit_test(test_taint),
        cmocka_unit_test(test_naive_errors_are_of_the_dtype),
        cmocka_unit_test(test_naive_survives_overflow),
        cmocka_unit_test(test_fp16_sums_excuse_themselves_alone),
    };
    return cmocka_run_group_tests_name("judge", tests, pool_open, pool_close);
}
