/* The library as its callers see it, on this machine's CPU. */
#include "base/cm.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/folder.h"
#include "base/status.h"
#include "core/target.h"
#include "cpu/cpu.h"
#include "library/context.h"
#include "reference/draw_text.h"
#include "reference/inputs.h"

/* A variable set for one test, and unset after it. */
static void with(const char *name, const char *value)
{
    assert_int_equal(value == NULL ? unsetenv(name) : setenv(name, value, 1), 0);
}

static const char *const variables[] = {"ATTUNE_TARGET",  "ATTUNE_KERNEL", "ATTUNE_ISA",
                                        "ATTUNE_THREADS", "ATTUNE_WISDOM", "ATTUNE_CACHE",
                                        "ATTUNE_PACK",    "ATTUNE_CPUS",   "ATTUNE_WAIT"};

static char *tier; /* of the run as a whole, so that lower tiers are tested by all of this */

static int clear(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; ++i) {
        with(variables[i], NULL);
    }
    if (tier != NULL) {
        with("ATTUNE_ISA", tier);
    }
    return 0;
}

static attune_options on_cpu(void)
{
    attune_options options;
    attune_options_init(&options);
    options.target = "cpu";
    return options;
}

static attune_status try_options(const attune_options *options)
{
    attune_context *context = (attune_context *)&options;
    attune_status status = attune_context_create(options, &context);
    assert_true((status == ATTUNE_OK) == (context != NULL));
    attune_context_destroy(context);
    return status;
}

/* ---- Options and environment ------------------------------------------------------------------------------------ */

static void options_say_what_is_wrong(void **state)
{
    (void)state;
    attune_options bad = on_cpu();
    bad.size = 8;
    assert_fails(try_options(&bad), ATTUNE_INVALID_ARGUMENT, "options.size is 8");
    bad = on_cpu();
    bad.reserved = 1;
    assert_fails(try_options(&bad), ATTUNE_INVALID_ARGUMENT, "options.reserved is 1");
    bad = on_cpu();
    bad.target = "tpu";
    assert_fails(try_options(&bad), ATTUNE_INVALID_ARGUMENT, "options.target");
    assert_non_null(strstr(attune_last_detail(), "tpu"));
    bad = on_cpu();
    bad.isa = "avx9";
    assert_fails(try_options(&bad), ATTUNE_INVALID_ARGUMENT, "options.isa");
    assert_non_null(strstr(attune_last_detail(), "avx9"));
    assert_non_null(strstr(attune_last_detail(), "avx512"));
    bad = on_cpu();
    bad.threads = 1025;
    assert_fails(try_options(&bad), ATTUNE_INVALID_ARGUMENT, "options.threads is 1025; allowed are 1 ... 1024");
    bad.threads = -1;
    assert_fails(try_options(&bad), ATTUNE_INVALID_ARGUMENT, "options.threads is -1");
    bad = on_cpu();
    bad.kernel = "cpu_tild";
    assert_fails(try_options(&bad), ATTUNE_NOT_FOUND, "options.kernel \"cpu_tild\"");
    assert_non_null(strstr(attune_last_detail(), "did you mean \"cpu_tiled\""));
    bad.kernel = "cpu_tiled:NO_SUCH=1";
    assert_fails(try_options(&bad), ATTUNE_INVALID_ARGUMENT, "NO_SUCH");
    bad = on_cpu();
    bad.wisdom = "/none/such";
    assert_fails(try_options(&bad), ATTUNE_NOT_FOUND, "options.wisdom");
    assert_non_null(strstr(attune_last_detail(), "/none/such"));
    bad.wisdom = "";
    assert_fails(try_options(&bad), ATTUNE_INVALID_ARGUMENT, "options.wisdom is empty");
    assert_fails(attune_context_create(NULL, NULL), ATTUNE_INVALID_ARGUMENT, "context is NULL");
}

static void variables_say_what_is_wrong(void **state)
{
    static const struct {
        const char *name, *value;
        attune_status status;
    } bad[] = {
        {"ATTUNE_TARGET", "tpu", ATTUNE_INVALID_ARGUMENT},  {"ATTUNE_ISA", "sse", ATTUNE_INVALID_ARGUMENT},
        {"ATTUNE_THREADS", "0", ATTUNE_INVALID_ARGUMENT},   {"ATTUNE_THREADS", "1025", ATTUNE_INVALID_ARGUMENT},
        {"ATTUNE_THREADS", "two", ATTUNE_INVALID_ARGUMENT}, {"ATTUNE_THREADS", "-1", ATTUNE_INVALID_ARGUMENT},
        {"ATTUNE_KERNEL", "nonesuch", ATTUNE_NOT_FOUND},    {"ATTUNE_KERNEL", ":", ATTUNE_INVALID_ARGUMENT},
        {"ATTUNE_WISDOM", "/none/such", ATTUNE_NOT_FOUND},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        with("ATTUNE_TARGET", "cpu");
        with(bad[i].name, bad[i].value);
        assert_fails(try_options(NULL), bad[i].status, bad[i].name);
        assert_non_null(strstr(attune_last_detail(), bad[i].value));
        (void)clear(state);
    }
}

static void options_outrank_variables(void **state)
{
    (void)state;
    attune_options options = on_cpu();
    options.threads = 1;
    options.isa = "baseline";
    options.kernel = "cpu_tiled";
    with("ATTUNE_TARGET", "tpu");
    with("ATTUNE_ISA", "nonsense");
    with("ATTUNE_THREADS", "nonsense");
    with("ATTUNE_KERNEL", "nonsense");
    attune_context *context;
    assert_ok(attune_context_create(&options, &context));
    assert_non_null(strstr(attune_context_target(context), "/baseline,threads=1"));
    attune_context_destroy(context);
}

static void variables_are_heeded(void **state)
{
    (void)state;
    attune_context *context;
    with("ATTUNE_TARGET", "cpu");
    with("ATTUNE_ISA", "baseline");
    with("ATTUNE_THREADS", "3");
    assert_ok(attune_context_create(NULL, &context));
    assert_memory_equal(attune_context_target(context), "cpu/", 4);
    assert_non_null(strstr(attune_context_target(context), "/baseline,threads=3"));
    assert_int_equal(at_pool_threads(at_context_pool(context)), 3);
    attune_context_destroy(context);
}

static void empty_variables_are_not_set(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; ++i) {
        with(variables[i], "");
    }
    assert_ok(try_options(NULL));
}

static void a_named_kernel_brings_its_target(void **state)
{
    (void)state;
    attune_context *context;
    attune_options options;
    attune_options_init(&options);
    options.kernel = "cpu_tiled";
    assert_ok(attune_context_create(&options, &context));
    assert_memory_equal(attune_context_target(context), "cpu/", 4);
    attune_context_destroy(context);
    options.target = "cpu";
    options.kernel = "tiled";
    assert_fails(try_options(&options), ATTUNE_UNSUPPORTED, "kernel tiled is for cuda");
}

static void tiers_beyond_the_machine_are_refused(void **state)
{
    (void)state;
    attune_options options = on_cpu();
    if (at_cpu_best_isa() < ATTUNE_ISA_AVX512) {
        options.isa = "avx512";
        assert_fails(try_options(&options), ATTUNE_UNSUPPORTED, "options.isa");
        assert_non_null(strstr(attune_last_detail(), at_isa_name(at_cpu_best_isa())));
    }
    for (int isa = 0; isa <= (int)at_cpu_best_isa(); ++isa) {
        options.isa = at_isa_name((attune_isa)isa);
        assert_ok(try_options(&options));
    }
}

static void corrupt_wisdom_is_counted(void **state)
{
    (void)state;
    attune_context *context;
    attune_options options = on_cpu();
    options.wisdom = ATTUNE_SOURCE_DIR "/tests/library/corrupt_wisdom/1-1-flipped-digit.wisdom";
    assert_ok(attune_context_create(&options, &context));
    assert_int_equal(attune_wisdom_skipped(context), 1);
    attune_context_destroy(context);
    options.wisdom = ATTUNE_SOURCE_DIR "/tests/library/corrupt_wisdom/refused-version-2.wisdom";
    assert_fails(try_options(&options), ATTUNE_CORRUPT, "refused-version-2.wisdom");
    options.wisdom = "/";
    assert_fails(try_options(&options), ATTUNE_IO_ERROR, "options.wisdom");
}

/* ---- Planning and executing ------------------------------------------------------------------------------------- */

static attune_problem parsed(const char *text)
{
    attune_problem problem;
    assert_ok(attune_problem_parse(text, &problem));
    return problem;
}

/* The plain formula in fp64, for fp32 without features. */
static void expect_attention(const attune_problem *problem, const float *q, const float *k, const float *v,
                             const float *o)
{
    int64_t s = problem->seqlen_kv, d = problem->head_dim_qk;
    double *p = malloc((size_t)s * sizeof *p);
    for (int64_t row = 0; row < problem->batch * problem->heads_q * problem->seqlen_q; ++row) {
        int64_t head = row / problem->seqlen_q;
        double sum = 0;
        for (int64_t j = 0; j < s; ++j) {
            double dot = 0;
            for (int64_t c = 0; c < d; ++c) {
                dot += (double)q[row * d + c] * k[(head * s + j) * d + c];
            }
            sum += p[j] = exp(dot / sqrt((double)d));
        }
        for (int64_t c = 0; c < d; ++c) {
            double want = 0;
            for (int64_t j = 0; j < s; ++j) {
                want += p[j] / sum * v[(head * s + j) * d + c];
            }
            assert_true(fabs(want - o[row * d + c]) < 1e-5);
        }
    }
    free(p);
}

static void execute_and_expect(attune_context *context, const char *text, attune_effort effort)
{
    attune_plan *plan;
    at_inputs inputs;
    size_t bytes;
    void *workspace = NULL;
    at_draw draw = {.seed = 7};
    draw_text(text, &draw, &inputs);
    assert_ok(attune_plan_create(context, &inputs.problem, WITH_EFFORT(effort), &plan));
    assert_ok(attune_plan_workspace(plan, &inputs.call, &bytes));
    if (bytes > 0) {
        workspace = aligned_alloc(256, (bytes + 255) / 256 * 256);
        inputs.call.workspace = workspace;
        inputs.call.workspace_bytes = bytes;
    }
    assert_ok(attune_plan_execute(plan, &inputs.call));
    expect_attention(&inputs.problem, inputs.call.tensor[ATTUNE_Q].data, inputs.call.tensor[ATTUNE_K].data,
                     inputs.call.tensor[ATTUNE_V].data, inputs.call.tensor[ATTUNE_O].data);
    assert_ok(at_inputs_guards(&inputs));
    free(workspace);
    at_inputs_free(&inputs);
    attune_plan_destroy(plan);
}

static void attends(void **state)
{
    (void)state;
    attune_context *context;
    attune_options options = on_cpu();
    assert_ok(attune_context_create(&options, &context));
    execute_and_expect(context, "b2,h3,s37,d24,fp32", ATTUNE_ESTIMATE);
    execute_and_expect(context, "b1,h1,s16,d64,fp32", ATTUNE_ESTIMATE);
    attune_context_destroy(context);
}

static void measures_and_saves(void **state)
{
    (void)state;
    attune_context *context;
    attune_plan *plan;
    folder f;
    attune_problem problem = parsed("b1,h2,s64,d32,fp32");
    attune_options options = on_cpu();
    assert_int_equal(folder_make(&f), 0);
    assert_ok(attune_context_create(&options, &context));
    execute_and_expect(context, "b1,h2,s64,d32,fp32", ATTUNE_MEASURE);
    assert_ok(attune_wisdom_write(context, folder_file(&f, "w")));
    attune_context_destroy(context);

    options.wisdom = f.file;
    assert_ok(attune_context_create(&options, &context));
    assert_ok(attune_plan_create(context, &problem, WITH_EFFORT(ATTUNE_WISDOM_ONLY), &plan));
    assert_string_equal(attune_plan_origin(plan), "measured");
    attune_plan_destroy(plan);
    attune_context_destroy(context);
    folder_remove(&f);
}

static void supports_every_valid_problem(void **state)
{
    static const char *const texts[] = {
        "b1,h1,s1,d1,fp32",
        "b2,h6,hkv2,sq3,skv9,d80,dv256,bf16,causal,offset=tl,sink,alibi,bias=1xh,softcap=3",
        "b3,h2,s40,d72,fp16,varlen=5,window=3:1,strict",
        "b1,h4,hkv1,sq1,skv70000,d256,fp16,seqused,mask",
    };
    (void)state;
    attune_context *context;
    attune_options options = on_cpu();
    assert_ok(attune_context_create(&options, &context));
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
        attune_problem problem = parsed(texts[i]);
        assert_ok(attune_supports(context, &problem, NULL));
        assert_ok(attune_supports(context, &problem, "cpu_tiled"));
    }
    attune_context_destroy(context);
}

/* ---- Many threads ----------------------------------------------------------------------------------------------- */

enum { THREADS = 8, TURNS = 40 };

typedef struct crowd {
    attune_context *context;
    atomic_int failures;
    atomic_int number;
} crowd;

/* Plans, executes twice and compares: other threads must not be able to change a bit. */
static attune_status one_turn(attune_context *context, const attune_problem *problem, attune_effort effort,
                              at_inputs *inputs)
{
    attune_plan *plan = NULL;
    size_t bytes = 0;
    size_t size = inputs->buffer[ATTUNE_O].bytes;
    void *first = malloc(size);
    attune_status status = attune_plan_create(context, problem, WITH_EFFORT(effort), &plan);
    if (status == ATTUNE_OK) {
        status = attune_plan_workspace(plan, &inputs->call, &bytes);
    }
    void *workspace = bytes == 0 ? NULL : aligned_alloc(256, (bytes + 255) / 256 * 256);
    inputs->call.workspace = workspace;
    inputs->call.workspace_bytes = bytes;
    for (int turn = 0; turn < 2 && status == ATTUNE_OK; ++turn) {
        at_inputs_poison(inputs, (at_poison){0});
        status = attune_plan_execute(plan, &inputs->call);
        if (turn == 0) {
            memcpy(first, inputs->call.tensor[ATTUNE_O].data, size);
        }
    }
    if (status == ATTUNE_OK && memcmp(first, inputs->call.tensor[ATTUNE_O].data, size) != 0) {
        status = at_fail(ATTUNE_WRONG_RESULT, "two executions of %s differ", attune_plan_kernel(plan));
    }
    free(first);
    free(workspace);
    attune_plan_destroy(plan);
    return status;
}

static void *member(void *self)
{
    static const char *const texts[] = {"b1,h2,s33,d32,fp32", "b1,h2,s40,d32,fp32", "b2,h1,s20,d16,fp16,causal",
                                        "b1,h4,hkv2,s17,d64,bf16,window=4:0"};
    crowd *all = self;
    unsigned number = (unsigned)atomic_fetch_add(&all->number, 1);
    for (unsigned turn = 0; turn < TURNS; ++turn) {
        attune_problem problem;
        at_inputs inputs;
        at_draw draw = {.seed = number};
        attune_effort effort = (turn + number) % 5 == 0 ? ATTUNE_MEASURE : ATTUNE_ESTIMATE;
        if (attune_problem_parse(texts[(turn + number) % 4], &problem) != ATTUNE_OK ||
            at_inputs_draw(&problem, &draw, &inputs) != ATTUNE_OK) {
            atomic_fetch_add(&all->failures, 1);
            continue;
        }
        if (one_turn(all->context, &problem, effort, &inputs) != ATTUNE_OK || at_inputs_guards(&inputs) != ATTUNE_OK) {
            (void)fprintf(stderr, "thread %u, turn %u: %s\n", number, turn, attune_last_detail());
            atomic_fetch_add(&all->failures, 1);
        }
        at_inputs_free(&inputs);
        if (turn % 16 == 0 &&
            attune_wisdom_read(all->context, ATTUNE_SOURCE_DIR "/tests/library/corrupt_wisdom/0-2-whole.wisdom",
                               NULL) != ATTUNE_OK) {
            atomic_fetch_add(&all->failures, 1);
        }
    }
    return NULL;
}

static void many_threads_share_a_context(void **state)
{
    (void)state;
    crowd all = {0};
    pthread_t thread[THREADS];
    attune_options options = on_cpu();
    options.threads = 2;
    assert_ok(attune_context_create(&options, &all.context));
    for (int i = 0; i < THREADS; ++i) {
        assert_int_equal(pthread_create(&thread[i], NULL, member, &all), 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    }
    assert_int_equal(all.failures, 0);
    attune_context_destroy(all.context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(options_say_what_is_wrong, clear),
        cmocka_unit_test_setup(variables_say_what_is_wrong, clear),
        cmocka_unit_test_setup(options_outrank_variables, clear),
        cmocka_unit_test_setup(variables_are_heeded, clear),
        cmocka_unit_test_setup(empty_variables_are_not_set, clear),
        cmocka_unit_test_setup(a_named_kernel_brings_its_target, clear),
        cmocka_unit_test_setup(tiers_beyond_the_machine_are_refused, clear),
        cmocka_unit_test_setup(corrupt_wisdom_is_counted, clear),
        cmocka_unit_test_setup(attends, clear),
        cmocka_unit_test_setup(measures_and_saves, clear),
        cmocka_unit_test_setup(supports_every_valid_problem, clear),
        cmocka_unit_test_setup(many_threads_share_a_context, clear),
    };
    tier = getenv("ATTUNE_ISA") == NULL ? NULL : strdup(getenv("ATTUNE_ISA"));
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(tier);
    return failed;
}
