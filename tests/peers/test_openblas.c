#include "base/cm.h"

#include <math.h>
#include <stdlib.h>

#include "core/call.h"
#include "peers/openblas.h"
#include "reference/draw_text.h"
#include "reference/inputs.h"
#include "reference/judge.h"

static at_openblas *blas;
static at_pool *pool;

static int open_all(void **state)
{
    (void)state;
    attune_status status = at_openblas_open(&blas);
    if (status != ATTUNE_OK) {
        print_message("%s\n", attune_last_detail());
    }
    return status == ATTUNE_OK && at_pool_create(2, 0, &pool) == ATTUNE_OK ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    at_openblas_close(blas);
    at_pool_destroy(pool);
    return 0;
}

static attune_isa best_isa(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") ? ATTUNE_ISA_AVX2 : ATTUNE_ISA_BASELINE;
#else
    return ATTUNE_ISA_BASELINE;
#endif
}

/* Runs the peer on a draw and judges every row by the rules for numbers. */
static void is_right(const char *text, at_family family, bool gaps)
{
    at_inputs inputs;
    draw_text(text, &(at_draw){.seed = 7, .family = family, .gaps = gaps}, &inputs);
    const attune_problem problem = inputs.problem;
    uint64_t digest = at_inputs_digest(&inputs);

    at_openblas_call *bound = NULL;
    assert_ok(at_openblas_bind(blas, pool, best_isa(), &problem, &inputs.call, &bound));
    at_openblas_run(bound);
    at_inputs_poison(&inputs, at_poison_draw(1));
    at_openblas_run(bound); /* a second call does not depend on the first */

    attune_args args;
    at_rows rows;
    at_call_args(&problem, &inputs.call, &args);
    assert_ok(at_rows_all(&args, &rows));
    size_t count = (size_t)rows.count, wide = count * (size_t)problem.head_dim_v;
    double *o = calloc(2 * wide + 2 * count, sizeof *o);
    at_case one = {.args = &args,
                   .rows = &rows,
                   .o_reference = o,
                   .o_naive = o + wide,
                   .lse_reference = o + 2 * wide,
                   .lse_naive = o + 2 * wide + count,
                   .naive_error = 1e-6, /* small cases: what fp32 rounding gives on any draw */
                   .naive_l2 = 1e-6,
                   .naive_lse = 1e-6};
    assert_ok(at_reference_run(pool, &args, &rows, o, o + 2 * wide));
    assert_ok(at_naive_run(pool, &args, &rows, 0, o + wide, o + 2 * wide + count));
    at_finding finding;
    attune_status status = at_judge_case(&one, &finding, NULL);
    if (status != ATTUNE_OK) {
        fail_msg("%s %s: %s", text, at_family_name(family), attune_last_detail());
    }
    assert_int_equal(at_inputs_digest(&inputs), digest);
    assert_ok(at_inputs_guards(&inputs));
    free(o);
    at_rows_free(&rows);
    at_openblas_unbind(bound);
    at_inputs_free(&inputs);
}

static void plain_attention_in_every_dtype(void **state)
{
    (void)state;
    is_right("b2,h3,s70,d40,fp32", AT_FAMILY_NORMAL, false);
    is_right("b2,h3,s70,d40,fp16", AT_FAMILY_NORMAL, false);
    is_right("b2,h3,s70,d40,bf16", AT_FAMILY_NORMAL, false);
    is_right("b1,h1,s1,d1,fp32", AT_FAMILY_NORMAL, false);
    is_right("b1,h2,sq300,skv1100,d64,fp32", AT_FAMILY_NORMAL, false); /* several blocks of rows */
}

static void shapes(void **state)
{
    (void)state;
    is_right("b2,h6,hkv2,s33,d24,dv56,fp32,layout=bshd", AT_FAMILY_NORMAL, false);
    is_right("b2,h6,hkv1,sq5,skv129,d64,fp16", AT_FAMILY_NORMAL, true);
    is_right("b3,h4,hkv2,sq1,skv257,d128,fp32", AT_FAMILY_NORMAL, true);
    is_right("b3,h4,sq1,skv100,d64,bf16,layout=bshd", AT_FAMILY_NORMAL, true);
    is_right("b1,h2,sq40,skv0,d8,fp32", AT_FAMILY_NORMAL, false); /* no key at all: O = 0, LSE = -inf */
    is_right("b1,h2,sq0,skv40,d8,fp32", AT_FAMILY_NORMAL, false);
}

static void masks_and_offsets(void **state)
{
    (void)state;
    is_right("b1,h2,s300,d32,fp32,causal", AT_FAMILY_NORMAL, false);
    is_right("b1,h2,sq300,skv100,d32,fp32,causal", AT_FAMILY_NORMAL, false); /* rows that see nothing */
    is_right("b1,h2,sq100,skv300,d32,fp16,causal", AT_FAMILY_NORMAL, false);
    is_right("b1,h2,sq100,skv300,d32,fp32,causal,offset=tl", AT_FAMILY_NORMAL, false);
    is_right("b1,h2,sq100,skv300,d32,fp32,causal,offset=-20", AT_FAMILY_NORMAL, false);
    is_right("b1,h2,s300,d32,fp32,window=40:0", AT_FAMILY_NORMAL, false);
    is_right("b1,h2,s300,d32,fp32,window=-1:17", AT_FAMILY_NORMAL, false);
    is_right("b1,h2,s300,d32,bf16,window=3:5,causal,offset=9", AT_FAMILY_NORMAL, false);
    is_right("b1,h2,sq300,skv50,d32,fp32,window=3:5,offset=tl", AT_FAMILY_NORMAL, false);
}

static void inputs_that_find_bugs(void **state)
{
    (void)state;
    is_right("b1,h2,s130,d64,fp32", AT_FAMILY_LARGE, false);
    is_right("b1,h2,s130,d64,fp16", AT_FAMILY_LARGE, false);
    is_right("b1,h2,s130,d64,fp32", AT_FAMILY_EQUAL, false);
    is_right("b1,h2,s130,d64,fp16,causal", AT_FAMILY_NEEDLE, false);
    is_right("b2,h4,s130,d64,fp32,causal", AT_FAMILY_MIXED, false);
    is_right("b1,h2,s130,d64,fp32", AT_FAMILY_NEGATIVE, false);
}

static void refusals_name_the_feature(void **state)
{
    (void)state;
    const char *refused[] = {"softcap=30", "bias=1x1", "mask",   "alibi",
                             "sink",       "seqused",  "strict", "varlen=3,layout=bshd"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; ++i) {
        attune_problem problem;
        attune_call call;
        attune_reason reason;
        at_openblas_call *bound = NULL;
        char text[128], word[16];
        (void)snprintf(text, sizeof text, "b1,h2,s64,d64,fp32,%s", refused[i]);
        (void)snprintf(word, sizeof word, "%.*s", (int)strcspn(refused[i], "=,"), refused[i]);
        assert_ok(attune_problem_parse(text, &problem));
        assert_false(at_openblas_supports(&problem, &reason));
        assert_non_null(strstr(reason.text, word));
        assert_ok(attune_call_init(&call, &problem));
        assert_fails(at_openblas_bind(blas, pool, ATTUNE_ISA_BASELINE, &problem, &call, &bound), ATTUNE_UNSUPPORTED,
                     word);
        assert_null(bound);
    }
}

static void a_call_is_checked(void **state)
{
    (void)state;
    attune_problem problem;
    attune_call call;
    at_openblas_call *bound = NULL;
    assert_ok(attune_problem_parse("b1,h2,s64,d64,fp32", &problem));
    assert_ok(attune_call_init(&call, &problem)); /* without buffers */
    assert_fails(at_openblas_bind(blas, pool, ATTUNE_ISA_BASELINE, &problem, &call, &bound), ATTUNE_INVALID_ARGUMENT,
                 "Q");
    assert_null(bound);
    at_openblas_unbind(NULL);
}

static void absence_has_a_reason(void **state)
{
    (void)state;
    at_openblas *none = NULL;
    assert_int_equal(setenv("ATTUNE_OPENBLAS", "/nonexistent/libopenblas.so", 1), 0);
    assert_fails(at_openblas_open(&none), ATTUNE_NOT_FOUND, "/nonexistent/libopenblas.so");
    assert_null(none);
    assert_int_equal(setenv("ATTUNE_OPENBLAS", "libm.so.6", 1), 0); /* a library, but another one */
    assert_fails(at_openblas_open(&none), ATTUNE_NOT_FOUND, "libm.so.6 lacks cblas_sgemm");
    assert_int_equal(unsetenv("ATTUNE_OPENBLAS"), 0);
    assert_non_null(strstr(at_openblas_version(blas), "OpenBLAS"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_attention_in_every_dtype),
        cmocka_unit_test(shapes),
        cmocka_unit_test(masks_and_offsets),
        cmocka_unit_test(inputs_that_find_bugs),
        cmocka_unit_test(refusals_name_the_feature),
        cmocka_unit_test(a_call_is_checked),
        cmocka_unit_test(absence_has_a_reason),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
