/* Which kernel and config a plan gets, and why. */
#include "base/cm.h"

#include "base/folder.h"
#include "core/problem.h"
#include "library/fake.h"

const fake_rule fake_rules[] = {
    {.kernel = "broken", .cost_ns = 1000, .gain = 1, .dim_most = 256, .broken = true},
    {.kernel = "wrong", .cost_ns = 1000, .gain = 1.01f, .dim_most = 256},
    {.kernel = "named_only", .cost_ns = 1000, .gain = 1, .dim_most = 256},
    {.kernel = "wavering", .cost_ns = 10000, .gain = 1, .dim_most = 256},
    {.kernel = "varying", .cost_ns = 20000, .gain = 1, .dim_most = 256},
    {.kernel = "tainting", .cost_ns = 100000, .gain = 1, .dim_most = 64},
    {.kernel = "backward", .cost_ns = 50000, .gain = 1, .dim_most = 32, .slow_first = true},
    {.kernel = "constant", .cost_ns = 50000, .gain = 1, .dim_most = 16, .constant_steps = true},
    {.kernel = "short_kv", .cost_ns = 50000, .gain = 1, .dim_most = 256, .skv_most = 24},
    {.kernel = "general", .cost_ns = 200000, .gain = 1, .dim_most = 256, .workspace_per_row = 512},
    {.kernel = NULL},
};

FAKE_KERNEL(broken, 0);
FAKE_KERNEL(wrong, 0);
FAKE_KERNEL(named_only, ATTUNE_TRAIT_NAMED_ONLY);
FAKE_KERNEL(tainting, ATTUNE_TRAIT_TAINTS);
FAKE_KERNEL(wavering, ATTUNE_TRAIT_NONDETERMINISTIC);
FAKE_KERNEL(varying, ATTUNE_TRAIT_BATCH_VARIANT);
FAKE_KERNEL(backward, 0);
FAKE_KERNEL(constant, 0);
FAKE_KERNEL(short_kv, 0);
FAKE_KERNEL(general, ATTUNE_TRAIT_GENERAL);

static fake_device fake;
static attune_context *context;

/* A context with these kernels, in this order. */
#define WITH(...)                                                                                                      \
    static const attune_kernel *const kernels[] = {__VA_ARGS__, NULL};                                                 \
    (void)state;                                                                                                       \
    assert_ok(fake_context(&fake, kernels, &context))

static void done(void)
{
    attune_context_destroy(context);
    assert_int_equal(fake.loads, fake.unloads);
    assert_int_equal(fake.buffers, 0);
    assert_true(fake.closed);
}

/* Whether a term of these letters and a number is in the text. */
static bool has_term(const char *text, const char *letters)
{
    size_t length = strlen(letters);
    for (const char *at = text, *comma; at != NULL; at = comma == NULL ? NULL : comma + 1) {
        comma = strchr(at, ',');
        if (strncmp(at, letters, length) == 0 && at[length] >= '0' && at[length] <= '9') {
            return true;
        }
    }
    return false;
}

/* A problem of one batch, one head and head_dim 64 unless the text says otherwise. */
static attune_problem parsed(const char *text)
{
    attune_problem problem;
    char whole[256];
    (void)snprintf(whole, sizeof whole, "%s%s%s%s", has_term(text, "b") ? "" : "b1,", has_term(text, "h") ? "" : "h1,",
                   text, has_term(text, "d") ? "" : ",d64");
    assert_ok(attune_problem_parse(whole, &problem));
    return problem;
}

/* Plans and checks what would run, and where that came from. */
static void expect_plan(const char *text, attune_effort effort, const char *kernel, const char *origin)
{
    attune_plan *plan;
    attune_problem problem = parsed(text);
    assert_ok(attune_plan_create(context, &problem, WITH_EFFORT(effort), &plan));
    assert_string_equal(attune_plan_kernel(plan), kernel);
    assert_string_equal(attune_plan_origin(plan), origin);
    attune_plan_destroy(plan);
}

static attune_status try_plan(const char *text, attune_effort effort)
{
    attune_plan *plan;
    attune_problem problem = parsed(text);
    attune_status status = attune_plan_create(context, &problem, WITH_EFFORT(effort), &plan);
    assert_true((status == ATTUNE_OK) == (plan != NULL));
    attune_plan_destroy(plan);
    return status;
}

static void know(at_row_kind kind, const char *problem_text, const char *target, const char *kernel)
{
    char class_text[AT_CLASS_TEXT_MAX];
    char verdict[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    attune_problem problem = parsed(problem_text);
    at_problem_class(&problem, class_text);
    at_wisdom_row row = {kind, class_text, (char *)target, (char *)kernel, kind == AT_PROVEN ? verdict : NULL};
    assert_ok(at_wisdom_add(context->wisdom, &row));
}

/* ---- Estimating ------------------------------------------------------------------------------------------------- */

static void estimates_by_preference(void **state)
{
    WITH(&named_only, &tainting, &general);
    expect_plan("s20,d64,fp32", ATTUNE_ESTIMATE, "tainting:A=2", "heuristic");
    expect_plan("s20,d65,fp32", ATTUNE_ESTIMATE, "general:A=2", "heuristic");
    expect_plan("s20,d64,fp32,strict", ATTUNE_ESTIMATE, "general:A=2", "heuristic");
    assert_int_equal(fake.launches, 0);
    done();
}

/* Kernels whose results are not as they are demanded are passed over, at every effort. */
static void keeps_demands(void **state)
{
    WITH(&wavering, &varying, &general);
    const attune_problem problem = parsed("s20,fp32");
    attune_plan_options options;
    attune_plan_options_init(&options);
    for (int i = 0; i < 4; ++i) {
        static const char *const expected[] = {"wavering:A=2", "varying:A=2", "wavering:A=2", "general:A=2"};
        attune_plan *plan;
        options.deterministic = i & 1;
        options.batch_invariant = i >> 1;
        assert_ok(attune_plan_create(context, &problem, &options, &plan));
        assert_string_equal(attune_plan_kernel(plan), expected[i]);
        attune_plan_destroy(plan);
    }
    attune_plan *plan;
    options.effort = ATTUNE_MEASURE;
    assert_ok(attune_plan_create(context, &problem, &options, &plan));
    assert_string_equal(attune_plan_kernel(plan), "general:A=1");
    attune_plan_destroy(plan);
    options.kernel = "wavering";
    assert_fails(attune_plan_create(context, &problem, &options, &plan), ATTUNE_UNSUPPORTED,
                 "kernel wavering cannot: deterministic: equal inputs may give different bits");
    options.deterministic = 0;
    assert_ok(attune_plan_create(context, &problem, &options, &plan));
    assert_string_equal(attune_plan_kernel(plan), "wavering:A=2");
    attune_plan_destroy(plan);
    options.kernel = "wavering:A=7";
    assert_fails(attune_plan_create(context, &problem, &options, &plan), ATTUNE_INVALID_ARGUMENT, "A");
    options = (attune_plan_options){.size = sizeof options, .deterministic = 2};
    assert_fails(attune_plan_create(context, &problem, &options, &plan), ATTUNE_INVALID_ARGUMENT, "deterministic");
    options.size = 8;
    assert_fails(attune_plan_create(context, &problem, &options, &plan), ATTUNE_INVALID_ARGUMENT, "plan options.size");
    done();
}

/* A problem that no kernel has code for is refused by each, and not by chance. */
static void roles_of_other_dtypes(void **state)
{
    WITH(&tainting, &general);
    assert_fails(try_plan("s20,fp16,k=bf16", ATTUNE_ESTIMATE), ATTUNE_UNSUPPORTED, "K in bf16: kernel general");
    assert_fails(try_plan("s20,fp16,k=bf16", ATTUNE_MEASURE), ATTUNE_UNSUPPORTED, "K in bf16: kernel general");
    done();
}

static void takes_the_first_config_that_fits(void **state)
{
    WITH(&short_kv, &general);
    expect_plan("sq4,skv48,fp32", ATTUNE_ESTIMATE, "short_kv:A=2", "heuristic");
    expect_plan("sq4,skv65,fp32", ATTUNE_ESTIMATE, "short_kv:A=3", "heuristic");
    expect_plan("sq4,skv97,fp32", ATTUNE_ESTIMATE, "general:A=2", "heuristic");
    done();
}

static void falls_to_the_next_and_remembers_why(void **state)
{
    WITH(&broken, &general);
    assert_null(at_context_failure(context, &broken));
    expect_plan("s20,fp32", ATTUNE_ESTIMATE, "general:A=2", "heuristic");
    assert_string_equal(at_context_failure(context, &broken), "the fake compiler refused broken");
    assert_null(at_context_failure(context, &general));
    done();
}

static void reports_that_nothing_loads(void **state)
{
    WITH(&broken);
    assert_fails(try_plan("s20,fp32", ATTUNE_ESTIMATE), ATTUNE_COMPILE_ERROR, "fake compiler refused");
    done();
}

static void says_what_is_not_supported(void **state)
{
    WITH(&tainting, &named_only);
    attune_problem large = parsed("s20,d65,fp32");
    attune_problem strict = parsed("s20,fp32,strict");
    assert_fails(try_plan("s20,d65,fp32", ATTUNE_ESTIMATE), ATTUNE_UNSUPPORTED, "no kernel can");
    assert_fails(attune_supports(context, &large, "tainting"), ATTUNE_UNSUPPORTED, "head_dim_qk 65: at most 64");
    assert_fails(attune_supports(context, &strict, "tainting"), ATTUNE_UNSUPPORTED, "strict: ");
    assert_fails(attune_supports(context, &large, NULL), ATTUNE_UNSUPPORTED, "asked for by name");
    assert_fails(attune_supports(context, &large, "taintin"), ATTUNE_NOT_FOUND, "did you mean \"tainting\"");
    assert_fails(attune_supports(context, &large, "zzzzzzzzzzz"), ATTUNE_NOT_FOUND, "attune info");
    assert_ok(attune_supports(context, &large, "named_only"));
    assert_fails(attune_supports(NULL, &large, NULL), ATTUNE_INVALID_ARGUMENT, "context is NULL");
    large.batch = 0;
    assert_fails(attune_supports(context, &large, NULL), ATTUNE_INVALID_PROBLEM, "batch");
    done();
}

static void refuses_bad_arguments(void **state)
{
    WITH(&general);
    attune_plan *plan = (attune_plan *)&fake;
    attune_problem problem = parsed("s20,fp32");
    assert_fails(attune_plan_create(context, &problem, NULL, NULL), ATTUNE_INVALID_ARGUMENT, "plan is NULL");
    assert_fails(attune_plan_create(NULL, &problem, NULL, &plan), ATTUNE_INVALID_ARGUMENT, "context");
    assert_null(plan);
    assert_int_not_equal(attune_plan_create(context, NULL, NULL, &plan), ATTUNE_OK);
    assert_fails(attune_plan_create(
                     context, &problem,
                     &(attune_plan_options){.size = sizeof(attune_plan_options), .effort = (attune_effort)4}, &plan),
                 ATTUNE_INVALID_ARGUMENT, "effort is 4; allowed are 0");
    done();
}

/* ---- Wisdom ----------------------------------------------------------------------------------------------------- */

static void wisdom_outranks_heuristics(void **state)
{
    WITH(&tainting, &general);
    know(AT_MEASURED, "s20,fp32", context->target_text, "general:A=3");
    expect_plan("s20,fp32", ATTUNE_ESTIMATE, "general:A=3", "measured");
    expect_plan("s30,fp32", ATTUNE_WISDOM_ONLY, "general:A=3", "measured");
    assert_fails(try_plan("s33,fp32", ATTUNE_WISDOM_ONLY), ATTUNE_NOT_FOUND, "no usable wisdom for class");
    assert_int_equal(fake.launches, 0);
    done();
}

static void proven_wisdom_answers_every_effort(void **state)
{
    WITH(&general);
    know(AT_MEASURED, "s20,fp32", context->target_text, "general:A=3");
    know(AT_PROVEN, "s20,fp32", context->target_text, "general:A=4");
    for (int effort = ATTUNE_ESTIMATE; effort <= ATTUNE_WISDOM_ONLY; ++effort) {
        expect_plan("s20,fp32", (attune_effort)effort, "general:A=4", "proven");
    }
    assert_int_equal(fake.launches, 0);
    done();
}

static void unusable_wisdom_is_passed_over(void **state)
{
    static const char *const bad[] = {"gone:A=1",   "general:A=9", "general:B=1", "named_only:A=1",
                                      "broken:A=1", "general:A",   "short_kv:A=1"};
    WITH(&named_only, &general, &short_kv, &broken);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        char text[64];
        (void)snprintf(text, sizeof text, "sq%d,skv100,fp32", 1 << (i + 1));
        know(AT_PROVEN, text, context->target_text, bad[i]);
        expect_plan(text, ATTUNE_ESTIMATE, "general:A=2", "heuristic");
        assert_int_equal(try_plan(text, ATTUNE_WISDOM_ONLY), ATTUNE_NOT_FOUND);
    }
    assert_non_null(at_context_failure(context, &broken));
    done();
}

static void the_next_row_answers_for_an_unusable_one(void **state)
{
    WITH(&general, &broken);
    at_wisdom *own = context->wisdom;
    know(AT_PROVEN, "s4,fp32", context->target_text, "broken:A=1");
    know(AT_MEASURED, "s4,fp32", context->target_text, "general:A=3");
    context->wisdom = context->shipped;
    know(AT_PROVEN, "s4,fp32", context->target_text, "gone:A=1");
    know(AT_MEASURED, "s4,fp32", context->target_text, "general:A=1");
    context->wisdom = own;
    expect_plan("s4,fp32", ATTUNE_WISDOM_ONLY, "general:A=3", "measured");
    done();
}

static void own_wisdom_before_shipped_of_the_same_rank(void **state)
{
    WITH(&general);
    at_wisdom *own = context->wisdom;
    context->wisdom = context->shipped;
    know(AT_PROVEN, "s4,fp32", context->target_text, "general:A=1");
    know(AT_PROVEN, "s20,fp32", context->target_text, "general:A=1");
    context->wisdom = own;
    know(AT_PROVEN, "s4,fp32", context->target_text, "general:A=3");
    know(AT_MEASURED, "s20,fp32", context->target_text, "general:A=3");
    expect_plan("s4,fp32", ATTUNE_ESTIMATE, "general:A=3", "proven");
    expect_plan("s20,fp32", ATTUNE_ESTIMATE, "general:A=1", "proven");
    done();
}

static void wisdom_goes_through_files(void **state)
{
    WITH(&tainting, &general);
    folder f;
    size_t skipped = 9;
    assert_int_equal(folder_make(&f), 0);
    know(AT_MEASURED, "s20,fp32", context->target_text, "general:A=3");
    assert_ok(attune_wisdom_write(context, folder_file(&f, "w")));
    attune_context_destroy(context);
    assert_ok(fake_context(&fake, kernels, &context));
    expect_plan("s20,fp32", ATTUNE_ESTIMATE, "tainting:A=2", "heuristic");
    know(AT_MEASURED, "s200,fp32", context->target_text, "general:A=1");
    assert_ok(attune_wisdom_write(context, f.file)); /* merges */
    assert_ok(attune_wisdom_read(context, f.file, &skipped));
    assert_int_equal(skipped, 0);
    /* The choice that was made before is made anew. */
    expect_plan("s20,fp32", ATTUNE_ESTIMATE, "general:A=3", "measured");
    assert_int_equal(folder_count(&f), 1);
    assert_fails(attune_wisdom_read(context, folder_file(&f, "none"), NULL), ATTUNE_NOT_FOUND, "none");
    assert_fails(attune_wisdom_read(context, NULL, NULL), ATTUNE_INVALID_ARGUMENT, "NULL");
    assert_fails(attune_wisdom_write(context, ""), ATTUNE_INVALID_ARGUMENT, "empty");
    assert_fails(attune_wisdom_write(NULL, "x"), ATTUNE_INVALID_ARGUMENT, "context");
    assert_fails(attune_wisdom_write(context, "/proc/none/w"), ATTUNE_NOT_FOUND, "/proc/none");
    folder_remove(&f);
    done();
}

static void foreign_files_are_not_replaced(void **state)
{
    WITH(&general);
    folder f;
    assert_int_equal(folder_make(&f), 0);
    FILE *file = fopen(folder_file(&f, "letter.txt"), "w");
    assert_non_null(file);
    (void)fputs("Dear reader", file);
    (void)fclose(file);
    assert_fails(attune_wisdom_write(context, f.file), ATTUNE_CORRUPT, "letter.txt");
    assert_fails(attune_wisdom_read(context, f.file, NULL), ATTUNE_CORRUPT, "attune-wisdom 1");
    folder_remove(&f);
    done();
}

enum { WRITERS = 6, WRITES = 15 };
static folder shared_folder;

/* Writes rows of its own, one more each time, to the file that all write to. */
static void *writer(void *self)
{
    static const attune_kernel *const kernels[] = {&general, NULL};
    static atomic_int number;
    int mine = atomic_fetch_add(&number, 1);
    char path[96], class_text[32];
    fake_device device;
    attune_context *own;
    (void)snprintf(path, sizeof path, "%s/w", shared_folder.path);
    if (fake_context(&device, kernels, &own) != ATTUNE_OK) {
        return self;
    }
    for (int i = 0; i < WRITES; ++i) {
        at_wisdom_row row = {AT_MEASURED, class_text, own->target_text, "general:A=1", NULL};
        (void)snprintf(class_text, sizeof class_text, "class%d_%d", mine, i);
        if (at_wisdom_add(own->wisdom, &row) != ATTUNE_OK || attune_wisdom_write(own, path) != ATTUNE_OK) {
            attune_context_destroy(own);
            return self;
        }
    }
    attune_context_destroy(own);
    return NULL;
}

static void writers_take_turns(void **state)
{
    WITH(&general);
    pthread_t thread[WRITERS];
    void *failed;
    assert_int_equal(folder_make(&shared_folder), 0);
    for (int i = 0; i < WRITERS; ++i) {
        assert_int_equal(pthread_create(&thread[i], NULL, writer, &fake), 0);
    }
    for (int i = 0; i < WRITERS; ++i) {
        assert_int_equal(pthread_join(thread[i], &failed), 0);
        assert_null(failed);
    }
    assert_ok(attune_wisdom_read(context, folder_file(&shared_folder, "w"), NULL));
    assert_int_equal(at_wisdom_count(context->wisdom), WRITERS * WRITES);
    assert_int_equal(folder_count(&shared_folder), 1);
    folder_remove(&shared_folder);
    done();
}

/* ---- Measuring -------------------------------------------------------------------------------------------------- */

static void the_fastest_right_config_wins(void **state)
{
    WITH(&broken, &wrong, &named_only, &tainting, &general);
    expect_plan("h2,s20,d40,fp32", ATTUNE_MEASURE, "tainting:A=1", "measured");
    assert_non_null(strstr(at_context_failure(context, &wrong), "wrong:A="));
    assert_non_null(at_context_failure(context, &broken));
    assert_int_equal(at_wisdom_count(context->wisdom), 1);
    assert_string_equal(at_wisdom_at(context->wisdom, 0)->kernel_text, "tainting:A=1");
    int launches = fake.launches;
    expect_plan("h2,s21,d40,fp32", ATTUNE_PATIENT, "tainting:A=1", "measured");
    expect_plan("h2,s21,d40,fp32", ATTUNE_ESTIMATE, "tainting:A=1", "measured");
    assert_int_equal(fake.launches, launches);
    done();
}

static void heuristic_choices_do_not_answer_for_measured_ones(void **state)
{
    WITH(&backward, &general);
    expect_plan("s20,d32,fp32", ATTUNE_ESTIMATE, "backward:A=2", "heuristic");
    assert_int_equal(try_plan("s20,d32,fp32", ATTUNE_WISDOM_ONLY), ATTUNE_NOT_FOUND);
    expect_plan("s20,d32,fp32", ATTUNE_MEASURE, "backward:A=4", "measured");
    expect_plan("s20,d32,fp32", ATTUNE_ESTIMATE, "backward:A=4", "measured");
    done();
}

static void patience_searches_the_same_and_more(void **state)
{
    WITH(&backward, &short_kv, &general);
    expect_plan("sq8,skv30,d32,fp32", ATTUNE_PATIENT, "backward:A=4", "measured");
    expect_plan("sq8,skv30,d33,fp32", ATTUNE_PATIENT, "short_kv:A=2", "measured");
    done();
}

static void nothing_to_compute_is_not_raced(void **state)
{
    WITH(&general);
    expect_plan("sq0,skv20,fp32", ATTUNE_MEASURE, "general:A=2", "heuristic");
    expect_plan("sq20,skv0,fp32", ATTUNE_PATIENT, "general:A=2", "heuristic");
    assert_int_equal(fake.launches, 0);
    done();
}

static void all_wrong_is_an_error(void **state)
{
    WITH(&wrong, &broken);
    attune_status status = try_plan("s20,fp32", ATTUNE_MEASURE);
    assert_true(status == ATTUNE_WRONG_RESULT || status == ATTUNE_COMPILE_ERROR);
    assert_int_equal(at_wisdom_count(context->wisdom), 0);
    done();
}

/* ---- By name ---------------------------------------------------------------------------------------------------- */

static void plans_by_name(void **state)
{
    WITH(&tainting, &named_only, &general);
    attune_plan *plan;
    attune_problem problem = parsed("s20,fp32");
    attune_problem strict = parsed("s20,fp32,strict");
    attune_problem large = parsed("s20,d80,fp32");
    know(AT_PROVEN, "s20,fp32", context->target_text, "general:A=4");
    assert_ok(attune_plan_create(context, &problem, WITH_KERNEL("named_only"), &plan));
    assert_string_equal(attune_plan_kernel(plan), "named_only:A=2");
    assert_string_equal(attune_plan_origin(plan), "named");
    attune_plan_destroy(plan);
    assert_ok(attune_plan_create(context, &problem, WITH_KERNEL("tainting:A=3"), &plan));
    assert_string_equal(attune_plan_kernel(plan), "tainting:A=3");
    attune_plan_destroy(plan);
    assert_fails(attune_plan_create(context, &problem, WITH_KERNEL("tainting:A=9"), &plan), ATTUNE_INVALID_ARGUMENT,
                 "");
    assert_null(plan);
    assert_fails(attune_plan_create(context, &strict, WITH_KERNEL("tainting"), &plan), ATTUNE_UNSUPPORTED, "strict");
    assert_fails(attune_plan_create(context, &large, WITH_KERNEL("tainting"), &plan), ATTUNE_UNSUPPORTED, "dim_qk 80:");
    assert_fails(attune_plan_create(context, &problem, WITH_KERNEL("generl"), &plan), ATTUNE_NOT_FOUND, "\"general\"");
    assert_fails(attune_plan_create(context, &problem, WITH_KERNEL(""), &plan), ATTUNE_INVALID_ARGUMENT, "");
    done();
}

static void a_context_can_be_held_to_a_kernel(void **state)
{
    WITH(&tainting, &named_only, &general);
    attune_problem large = parsed("s20,d80,fp32");
    know(AT_PROVEN, "s20,fp32", context->target_text, "general:A=4");
    assert_fails(at_context_name(context, "ATTUNE_KERNEL", "tainted"), ATTUNE_NOT_FOUND, "ATTUNE_KERNEL \"tainted\"");
    assert_fails(at_context_name(context, "options.kernel", "tainting:B=1"), ATTUNE_INVALID_ARGUMENT, "B");
    assert_ok(at_context_name(context, "options.kernel", "tainting:A=3"));
    for (int effort = ATTUNE_ESTIMATE; effort <= ATTUNE_WISDOM_ONLY; ++effort) {
        expect_plan("s20,fp32", (attune_effort)effort, "tainting:A=3", "named");
    }
    assert_fails(attune_supports(context, &large, NULL), ATTUNE_UNSUPPORTED, "kernel tainting cannot");
    assert_ok(attune_supports(context, &large, "general"));
    assert_fails(try_plan("s20,d80,fp32", ATTUNE_ESTIMATE), ATTUNE_UNSUPPORTED, "kernel tainting cannot");
    done();
}

/* ---- The cache -------------------------------------------------------------------------------------------------- */

static void a_class_is_loaded_once(void **state)
{
    WITH(&general);
    expect_plan("h2,s20,fp32", ATTUNE_ESTIMATE, "general:A=2", "heuristic");
    expect_plan("b2,h1,s31,fp32", ATTUNE_ESTIMATE, "general:A=2", "heuristic");
    expect_plan("h2,s32,fp32,scale=0.5", ATTUNE_ESTIMATE, "general:A=2", "heuristic");
    expect_plan("h2,s2000,fp32", ATTUNE_ESTIMATE, "general:A=2", "heuristic");
    assert_int_equal(fake.loads, 1);
    expect_plan("h2,s20,fp32,causal", ATTUNE_ESTIMATE, "general:A=2", "heuristic");
    assert_int_equal(fake.loads, 2);
    done();
}

static void what_a_target_adds_to_a_kernel_is_no_difference(void **state)
{
    WITH(&general);
    fake.adds = 4096;
    expect_plan("h2,s20,fp32", ATTUNE_ESTIMATE, "general:A=2", "heuristic");
    expect_plan("h2,s20,fp32", ATTUNE_ESTIMATE, "general:A=2", "heuristic");
    assert_int_equal(fake.loads, 1);
    done();
}

static void steps_with_constants_are_not_shared(void **state)
{
    WITH(&constant, &general);
    for (int i = 0; i < 3; ++i) {
        expect_plan("s20,d16,fp32", ATTUNE_ESTIMATE, "constant:A=2", "heuristic");
        expect_plan("s31,d16,fp32", ATTUNE_ESTIMATE, "constant:A=2", "heuristic");
    }
    assert_int_equal(fake.loads, 2);
    done();
}

static void exact_sizes_are_checked_within_a_class(void **state)
{
    WITH(&short_kv, &general);
    expect_plan("sq4,skv66,fp32", ATTUNE_ESTIMATE, "short_kv:A=3", "heuristic");
    expect_plan("sq4,skv72,fp32", ATTUNE_ESTIMATE, "short_kv:A=3", "heuristic");
    expect_plan("sq4,skv90,fp32", ATTUNE_ESTIMATE, "short_kv:A=4", "heuristic");
    expect_plan("sq4,skv100,fp32", ATTUNE_ESTIMATE, "general:A=2", "heuristic");
    done();
}

static void keys_agree_with_classes(void **state)
{
    static const char *const texts[] = {
        "s20,fp32",
        "s31,fp32",
        "s33,fp32",
        "s20,fp16",
        "s20,bf16,d80",
        "s20,fp32,d80,dv16",
        "s20,fp32,causal",
        "s20,fp32,window=3:0",
        "s20,fp32,window=4:0",
        "s20,fp32,window=5:-1",
        "s20,fp32,window=-1:5",
        "s20,fp32,softcap=3",
        "s20,fp32,softcap=4",
        "s20,fp32,scale=4",
        "s20,fp32,bias=1xh",
        "s20,fp32,bias=bxh",
        "s20,fp32,mask",
        "s20,fp32,alibi",
        "s20,fp32,sink",
        "s20,fp32,seqused",
        "s20,fp32,strict",
        "s20,fp32,align=4",
        "s20,fp32,align=64",
        "s20,fp32,varlen=1",
        "s20,fp32,varlen=2",
        "s20,fp32,layout=bshd",
        "s20,fp32,offset=tl",
        "s20,fp32,offset=5",
        "s20,fp32,offset=6",
        "b2,s20,fp32",
        "h2,s20,fp32",
        "h2,hkv1,s20,fp32",
        "h4,hkv2,s20,fp32",
        "b2,h2,hkv1,s20,fp32",
        "sq1,skv20,fp32",
        "sq0,skv20,fp32",
        "sq20,skv1,fp32",
        "sq20,skv2,fp32",
        "sq20,skv0,fp32",
        "s20,fp32,causal,offset=tl",
    };
    enum { TEXTS = sizeof texts / sizeof texts[0] };
    static char class_text[TEXTS][AT_CLASS_TEXT_MAX];
    static at_key key[TEXTS];
    int same = 0;
    (void)state;
    for (int i = 0; i < TEXTS; ++i) {
        attune_problem problem = parsed(texts[i]);
        at_problem_class(&problem, class_text[i]);
        at_key_fill(&key[i], &problem);
        for (int j = 0; j < i; ++j) {
            bool same_key = memcmp(&key[i], &key[j], sizeof key[i]) == 0;
            if (same_key != (strcmp(class_text[i], class_text[j]) == 0)) {
                fail_msg("%s and %s: one key says the same class, another does not (%s, %s)", texts[i], texts[j],
                         class_text[i], class_text[j]);
            }
            same += same_key;
        }
    }
    assert_true(same >= 5);
}

/* ---- Plans ------------------------------------------------------------------------------------------------------ */

static void workspace_is_exact_and_bounded(void **state)
{
    WITH(&general);
    attune_plan *plan;
    attune_call call;
    size_t bytes = 0;
    attune_problem problem = parsed("s20,fp32");
    assert_ok(attune_plan_create(context, &problem, NULL, &plan));
    assert_ok(attune_plan_workspace(plan, NULL, &bytes));
    assert_int_equal(bytes, 20 * 512);
    assert_ok(attune_call_init(&call, &problem));
    call.seqlen_q = 3;
    assert_ok(attune_plan_workspace(plan, &call, &bytes));
    assert_int_equal(bytes, 3 * 512);
    call.seqlen_q = 21;
    assert_fails(attune_plan_workspace(plan, &call, &bytes), ATTUNE_INVALID_ARGUMENT, "seqlen_q is 21");
    call.seqlen_q = -1;
    assert_fails(attune_plan_workspace(plan, &call, &bytes), ATTUNE_INVALID_ARGUMENT, "seqlen_q is -1");
    call.seqlen_q = 20;
    call.heads_kv = 0;
    assert_fails(attune_plan_workspace(plan, &call, &bytes), ATTUNE_INVALID_ARGUMENT, "heads_kv is 0");
    assert_fails(attune_plan_workspace(NULL, &call, &bytes), ATTUNE_INVALID_ARGUMENT, "plan is NULL");
    assert_fails(attune_plan_workspace(plan, NULL, NULL), ATTUNE_INVALID_ARGUMENT, "bytes is NULL");
    attune_plan_destroy(plan);
    done();
}

static void execute_wants_its_workspace(void **state)
{
    WITH(&general);
    static float q[20 * 64], k[20 * 64], v[20 * 64], o[20 * 64];
    static _Alignas(256) unsigned char workspace[20 * 512 + 4];
    attune_plan *plan;
    attune_call call;
    attune_problem problem = parsed("s20,fp32,align=4");
    assert_ok(attune_plan_create(context, &problem, NULL, &plan));
    assert_ok(attune_call_init(&call, &problem));
    call.tensor[ATTUNE_Q].data = q;
    call.tensor[ATTUNE_K].data = k;
    call.tensor[ATTUNE_V].data = v;
    call.tensor[ATTUNE_O].data = o;
    assert_fails(attune_plan_execute(plan, &call), ATTUNE_WORKSPACE_TOO_SMALL, "10240 bytes are needed");
    call.workspace = workspace;
    call.workspace_bytes = 10239;
    assert_fails(attune_plan_execute(plan, &call), ATTUNE_WORKSPACE_TOO_SMALL, "is 10239, 10240 bytes are needed");
    call.workspace_bytes = 10240;
    call.workspace = workspace + 4;
    assert_fails(attune_plan_execute(plan, &call), ATTUNE_INVALID_ARGUMENT, "256");
    assert_int_equal(fake.launches, 0);
    call.workspace = workspace;
    assert_ok(attune_plan_execute(plan, &call));
    call.stream = &fake;
    assert_fails(attune_plan_execute(plan, &call), ATTUNE_INVALID_ARGUMENT, "stream");
    assert_fails(attune_plan_execute(NULL, &call), ATTUNE_INVALID_ARGUMENT, "plan is NULL");
    assert_fails(attune_plan_execute(plan, NULL), ATTUNE_INVALID_ARGUMENT, "NULL");
    assert_int_equal(fake.launches, 1);
    attune_plan_destroy(plan);
    done();
}

static void nothing_is_fine_to_destroy(void **state)
{
    (void)state;
    attune_plan_destroy(NULL);
    attune_context_destroy(NULL);
    assert_string_equal(attune_plan_kernel(NULL), "");
    assert_string_equal(attune_plan_origin(NULL), "");
    assert_string_equal(attune_context_target(NULL), "");
    assert_int_equal(attune_wisdom_skipped(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(estimates_by_preference),
        cmocka_unit_test(keeps_demands),
        cmocka_unit_test(roles_of_other_dtypes),
        cmocka_unit_test(takes_the_first_config_that_fits),
        cmocka_unit_test(falls_to_the_next_and_remembers_why),
        cmocka_unit_test(reports_that_nothing_loads),
        cmocka_unit_test(says_what_is_not_supported),
        cmocka_unit_test(refuses_bad_arguments),
        cmocka_unit_test(wisdom_outranks_heuristics),
        cmocka_unit_test(proven_wisdom_answers_every_effort),
        cmocka_unit_test(unusable_wisdom_is_passed_over),
        cmocka_unit_test(the_next_row_answers_for_an_unusable_one),
        cmocka_unit_test(own_wisdom_before_shipped_of_the_same_rank),
        cmocka_unit_test(wisdom_goes_through_files),
        cmocka_unit_test(foreign_files_are_not_replaced),
        cmocka_unit_test(writers_take_turns),
        cmocka_unit_test(the_fastest_right_config_wins),
        cmocka_unit_test(heuristic_choices_do_not_answer_for_measured_ones),
        cmocka_unit_test(patience_searches_the_same_and_more),
        cmocka_unit_test(nothing_to_compute_is_not_raced),
        cmocka_unit_test(all_wrong_is_an_error),
        cmocka_unit_test(plans_by_name),
        cmocka_unit_test(a_context_can_be_held_to_a_kernel),
        cmocka_unit_test(a_class_is_loaded_once),
        cmocka_unit_test(what_a_target_adds_to_a_kernel_is_no_difference),
        cmocka_unit_test(steps_with_constants_are_not_shared),
        cmocka_unit_test(exact_sizes_are_checked_within_a_class),
        cmocka_unit_test(keys_agree_with_classes),
        cmocka_unit_test(workspace_is_exact_and_bounded),
        cmocka_unit_test(execute_wants_its_workspace),
        cmocka_unit_test(nothing_is_fine_to_destroy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
