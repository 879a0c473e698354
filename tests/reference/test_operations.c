/* Append and merge by the rules: what is right passes, and each way to be wrong does not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "core/call.h"
#include "core/problem.h"
#include "reference/append.h"
#include "reference/merge.h"
#include "reference/sequence.h"
#include "reference/truth.h"

static at_pool *pool;

static void ok(attune_status status)
{
    if (status != ATTUNE_OK) {
        fail_msg("%s", attune_last_detail());
    }
}

static void draw(const char *text, at_family family, uint64_t seed, at_inputs *inputs, attune_args *args)
{
    at_test_problem test;
    ok(at_test_problem_parse(text, &test));
    const at_draw how = {.seed = seed,
                         .length_seed = test.length_seed,
                         .family = family,
                         .gaps = seed & 1,
                         .poison = at_poison_draw(seed)};
    ok(at_inputs_draw(&test.problem, &how, inputs));
    at_call_args(&inputs->problem, &inputs->call, args);
}

/* ---- Append ----------------------------------------------------------------------------------------------------- */

static const char *const appends[] = {
    "append:b3,h2,sq5,skv40,d8,dv12,fp16,page=4,slots",
    "append:b3,h2,sq5,skv40,d8,fp32,slots",
    "append:b4,h2,sq3,skv40,d8,dv12,bf16,v=fp32,page=4,vtable,seqused",
    "append:b4,h2,sq3,skv40,d8,fp16,seqused,layout=bshd",
    "append:b5,h1,sq6,skv40,d8,fp16,page=16,seqused,varlen=3",
    "append:b5,h1,sq6,skv40,d8,fp16,seqused,varlen=3",
};
enum { APPENDS = sizeof appends / sizeof *appends };

static size_t row_bytes(const at_inputs *inputs, attune_role role)
{
    return (size_t)at_inputs_extent(inputs, role).row * at_dtype_bytes(inputs->call.tensor[role].dtype);
}

/* Copies new row `i` where it goes, and returns the place of its first head, or NULL. */
static unsigned char *copy_row(const at_inputs *inputs, const attune_args *args, attune_role role, int64_t i)
{
    const attune_role from = role == ATTUNE_K ? ATTUNE_NEW_K : ATTUNE_NEW_V;
    int64_t outer, row;
    if (!at_append_place(args, role, i, &outer, &row)) {
        return NULL;
    }
    unsigned char *to = args->tensor[role].data;
    for (int64_t h = 0; h < args->heads_kv; ++h) {
        memcpy(to + at_inputs_row(inputs, role, outer, h, row),
               (unsigned char *)args->tensor[from].data + at_inputs_row(inputs, from, 0, h, i),
               row_bytes(inputs, role));
    }
    return to + at_inputs_row(inputs, role, outer, 0, row);
}

static void refused(const at_inputs *inputs, const char *words)
{
    assert_int_equal(at_append_judge(inputs), ATTUNE_WRONG_RESULT);
    if (strstr(attune_last_detail(), words) == NULL) {
        fail_msg("'%s' has no '%s'", attune_last_detail(), words);
    }
}

/* Each new row's first byte, and a byte of a row that nothing goes to. */
static int break_everything(const at_inputs *inputs, const attune_args *args, attune_role role)
{
    int broken = 0;
    for (int64_t i = 0; i < args->total_new; ++i) {
        unsigned char *at = copy_row(inputs, args, role, i);
        if (at != NULL) {
            *at ^= 1;
            refused(inputs, "bit for bit");
            *at ^= 1;
            ++broken;
        }
    }
    return broken;
}

static void break_another(const at_inputs *inputs, const attune_args *args)
{
    const at_extent extent = at_inputs_extent(inputs, ATTUNE_V);
    bool taken[4096] = {false};
    int64_t outer, row;
    for (int64_t i = 0; i < args->total_new; ++i) {
        if (at_append_place(args, ATTUNE_V, i, &outer, &row)) {
            taken[outer * extent.count[2] + row] = true;
        }
    }
    for (int64_t r = 0; r < extent.count[0] * extent.count[2]; ++r) {
        if (!taken[r]) {
            unsigned char *at = (unsigned char *)args->tensor[ATTUNE_V].data +
                                at_inputs_row(inputs, ATTUNE_V, r / extent.count[2], 0, r % extent.count[2]);
            *at ^= 1;
            refused(inputs, "no row goes there");
            *at ^= 1;
        }
    }
}

static void copies_are_exact_and_nothing_else(void **state)
{
    (void)state;
    for (int t = 0; t < APPENDS; ++t) {
        int broken = 0, left_out = 0;
        for (uint64_t seed = 0; seed < 12; ++seed) {
            at_inputs inputs;
            attune_args args;
            draw(appends[t], AT_FAMILY_NORMAL, seed, &inputs, &args);
            for (int64_t i = 0; i < args.total_new; ++i) {
                left_out += copy_row(&inputs, &args, ATTUNE_K, i) == NULL;
                (void)copy_row(&inputs, &args, ATTUNE_V, i);
            }
            ok(at_append_judge(&inputs));
            ok(at_inputs_guards(&inputs));
            broken += break_everything(&inputs, &args, ATTUNE_K) + break_everything(&inputs, &args, ATTUNE_V);
            break_another(&inputs, &args);
            at_inputs_free(&inputs);
        }
        assert_true(broken > 50 && left_out > 0);
    }
}

/* By hand: slots, and places from lengths that count the new rows. */
static void places_by_hand(void **state)
{
    at_inputs inputs;
    attune_args args;
    int64_t outer, row;
    (void)state;
    draw(appends[0], AT_FAMILY_NORMAL, 3, &inputs, &args);
    int32_t *slots = args.tensor[ATTUNE_SLOTS].data;
    slots[0] = 4 * 7 + 3;
    slots[1] = -1;
    slots[2] = (int32_t)(4 * args.page_count);
    assert_true(at_append_place(&args, ATTUNE_K, 0, &outer, &row) && outer == 7 && row == 3);
    assert_false(at_append_place(&args, ATTUNE_K, 1, &outer, &row));
    assert_false(at_append_place(&args, ATTUNE_K, 2, &outer, &row));
    at_inputs_free(&inputs);
    draw("append:b2,h1,sq3,skv10,d8,fp16,page=4,seqused", AT_FAMILY_NORMAL, 3, &inputs, &args);
    int32_t *used = args.tensor[ATTUNE_USED_KV].data;
    int32_t *table = args.tensor[ATTUNE_PAGE_TABLE_K].data;
    used[0] = 5; /* rows go to positions 2, 3 and 4 */
    used[1] = 2; /* the first of three has no place */
    table[0] = 1;
    table[1] = (int32_t)args.page_count;
    table[args.tensor[ATTUNE_PAGE_TABLE_K].stride[0]] = 0;
    assert_true(at_append_place(&args, ATTUNE_K, 1, &outer, &row) && outer == 1 && row == 3);
    assert_false(at_append_place(&args, ATTUNE_K, 2, &outer, &row)); /* no such page */
    assert_false(at_append_place(&args, ATTUNE_K, 3, &outer, &row));
    assert_true(at_append_place(&args, ATTUNE_V, 4, &outer, &row) && outer == 0 && row == 0);
    at_inputs_free(&inputs);
}

/* ---- Merge ------------------------------------------------------------------------------------------------------ */

static void merged_row(float a, float b, double sink, double expected_lse, double expected_o)
{
    at_inputs inputs;
    attune_args args;
    at_row where = {0, 0, 0};
    const at_rows rows = {1, &where};
    double o[8], lse;
    draw(isinf(sink) ? "merge:b1,h1,sq1,d8,fp32,states=2" : "merge:b1,h1,sq1,d8,fp32,sink,states=2", AT_FAMILY_NORMAL,
         1, &inputs, &args);
    float *states = args.tensor[ATTUNE_STATE_O].data;
    float *lses = args.tensor[ATTUNE_STATE_LSE].data;
    states[0] = 1;
    states[args.state_stride_o] = 5;
    lses[0] = a;
    lses[args.state_stride_lse] = b;
    if (!isinf(sink)) {
        *(float *)args.tensor[ATTUNE_SINK].data = (float)sink;
    }
    at_merge_run(&args, &rows, o, &lse);
    if (isnan(expected_o)) {
        assert_true(isnan(o[0]) && isnan(lse));
    } else {
        assert_true(fabs(o[0] - expected_o) < 1e-12);
        assert_true(lse == expected_lse || fabs(lse - expected_lse) < 1e-12);
    }
    at_merge_naive(&args, &rows, o, &lse);
    assert_true(isnan(expected_o) ? isnan(o[0]) : fabs(o[0] - expected_o) < 1e-5);
    at_inputs_free(&inputs);
}

static void merges_by_hand(void **state)
{
    (void)state;
    merged_row(0, 0, -INFINITY, log(2), 3);
    merged_row(2, -INFINITY, -INFINITY, 2, 1);
    merged_row(-INFINITY, -INFINITY, -INFINITY, -INFINITY, 0);
    merged_row(-INFINITY, -INFINITY, 4, 4, 0);
    merged_row(0, 0, 0, log(3), 2); /* the sink once */
    merged_row(NAN, 0, -INFINITY, 0, NAN);
    merged_row(0, INFINITY, -INFINITY, 0, NAN);
    merged_row(-2000, -2000, -INFINITY, -2000 + log(2), 3);
}

/* Attention over all keys is the merge of attention over parts of them. */
static void parts_make_the_whole(void **state)
{
    enum { KEYS = 37, CUT = 21, DIM = 8, ROWS = 3 };
    at_inputs inputs, into;
    attune_args whole, part, merge;
    at_rows rows;
    double o[ROWS * DIM], lse[ROWS], again[ROWS * DIM], lse_again[ROWS], state_o[ROWS * DIM], state_lse[ROWS];
    (void)state;
    draw("b1,h1,sq3,skv37,d8,fp32,sink", AT_FAMILY_NORMAL, 2, &inputs, &whole);
    draw("merge:b1,h1,sq3,d8,fp32,sink,states=2", AT_FAMILY_NORMAL, 4, &into, &merge);
    ok(at_rows_all(&whole, &rows));
    ok(at_reference_run(pool, &whole, &rows, o, lse));
    *(float *)merge.tensor[ATTUNE_SINK].data = *(float *)whole.tensor[ATTUNE_SINK].data;
    for (int s = 0; s < 2; ++s) {
        part = whole;
        part.features = 0;
        part.seqlen_kv = s == 0 ? CUT : KEYS - CUT;
        for (attune_role role = ATTUNE_K; role <= ATTUNE_V; ++role) {
            part.tensor[role].data =
                (float *)whole.tensor[role].data + (s == 0 ? 0 : CUT * whole.tensor[role].stride[ATTUNE_STRIDE_SEQ]);
        }
        ok(at_reference_run(pool, &part, &rows, state_o, state_lse));
        for (int64_t i = 0; i < ROWS; ++i) {
            for (int64_t c = 0; c < DIM; ++c) {
                ((float *)merge.tensor[ATTUNE_STATE_O]
                     .data)[s * merge.state_stride_o + at_row_index(&merge, ATTUNE_STATE_O, 0, 0, 0, i) + c] =
                    (float)state_o[i * DIM + c];
            }
            ((float *)merge.tensor[ATTUNE_STATE_LSE]
                 .data)[s * merge.state_stride_lse + at_row_index(&merge, ATTUNE_STATE_LSE, 0, 0, 0, i)] =
                (float)state_lse[i];
        }
    }
    at_merge_run(&merge, &rows, again, lse_again);
    for (int i = 0; i < ROWS * DIM; ++i) {
        assert_true(fabs(o[i] - again[i]) < 1e-5);
    }
    for (int i = 0; i < ROWS; ++i) {
        assert_true(fabs(lse[i] - lse_again[i]) < 1e-5);
    }
    at_rows_free(&rows);
    at_inputs_free(&inputs);
    at_inputs_free(&into);
}

/* The naive result, stored as an output, is right; one that forgets a state is not. */
static void judged_as_attention_is(void **state)
{
    static const char *const texts[] = {"merge:b2,h3,sq5,d16,fp32,states=4", "merge:b2,h3,sq5,d16,fp16,sink,states=3",
                                        "merge:b2,h3,sq5,d16,fp32,o=bf16,sink,states=1,layout=bshd"};
    static const at_family families[] = {AT_FAMILY_NORMAL, AT_FAMILY_LARGE,   AT_FAMILY_TAIL,    AT_FAMILY_EQUAL,
                                         AT_FAMILY_HIDDEN, AT_FAMILY_VISIBLE, AT_FAMILY_NEGATIVE};
    (void)state;
    for (size_t t = 0; t < sizeof texts / sizeof *texts; ++t) {
        for (size_t f = 0; f < sizeof families / sizeof *families; ++f) {
            at_inputs inputs;
            attune_args args;
            at_truth truth;
            at_finding finding;
            const at_truth_want want = {0};
            draw(texts[t], families[f], 5 + f, &inputs, &args);
            ok(at_truth_compute(pool, &inputs, &want, &truth));
            for (int64_t r = 0; r < truth.rows.count; ++r) {
                const at_row *row = &truth.rows.row[r];
                const int64_t at = at_row_index(&args, ATTUNE_O, row->batch, row->head, 0, row->row);
                for (int64_t c = 0; c < args.head_dim_v; ++c) {
                    const float value = (float)truth.one.o_naive[r * args.head_dim_v + c];
                    if (args.tensor[ATTUNE_O].dtype == ATTUNE_FP32) {
                        ((float *)args.tensor[ATTUNE_O].data)[at + c] = value;
                    } else {
                        ((uint16_t *)args.tensor[ATTUNE_O].data)[at + c] = args.tensor[ATTUNE_O].dtype == ATTUNE_FP16
                                                                               ? at_fp16_from_float(value)
                                                                               : at_bf16_from_float(value);
                    }
                }
                ((float *)args.tensor[ATTUNE_LSE]
                     .data)[at_row_index(&args, ATTUNE_LSE, row->batch, row->head, 0, row->row)] =
                    (float)truth.one.lse_naive[r];
            }
            ok(at_judge_case(&truth.one, &finding, NULL));
            *(uint16_t *)args.tensor[ATTUNE_O].data ^= 0x4000;
            assert_int_equal(families[f] == AT_FAMILY_NORMAL && args.tensor[ATTUNE_O].dtype != ATTUNE_FP32
                                 ? at_judge_case(&truth.one, &finding, NULL)
                                 : ATTUNE_WRONG_RESULT,
                             ATTUNE_WRONG_RESULT);
            at_truth_free(&truth);
            at_inputs_free(&inputs);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_exact_and_nothing_else),
        cmocka_unit_test(places_by_hand),
        cmocka_unit_test(merges_by_hand),
        cmocka_unit_test(parts_make_the_whole),
        cmocka_unit_test(judged_as_attention_is),
    };
    ok(at_pool_create(1, 0, &pool));
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    at_pool_destroy(pool);
    return failed;
}
