/* What a kernel says that it supports compiles: problems drawn within its table, architectures and configs that fit,
 * asked of its descriptor and of the compiler. ATTUNE_DRAWS says how many a kernel (4), ATTUNE_SEED which. */
#include <stdlib.h>

#include "base/random.h"
#include "base/text.h"
#include "base/threads.h"
#include "core/config.h"
#include "core/problem.h"
#include "cuda/fixture.h"
#include "cuda/provide.h"
#include "library/catalogue.h"

enum { DRAWS = 4, TRIES = 400, PAIRS_MAX = 4096 };

typedef struct pair {
    const attune_kernel *kernel;
    attune_problem problem;
    attune_target target;
    attune_config config;
    char fault[600];
} pair;

static pair *pairs;
static int pair_count;
static at_provider provider;

static int64_t below(at_random *random, int64_t count)
{
    return (int64_t)at_random_below(random, (uint64_t)count);
}

/* Ends of the range more often than their share: that is where tables and sources part. */
static int32_t draw_dim(at_random *random, const attune_dims *dims)
{
    int64_t steps = (dims->most - dims->least) / dims->step;
    int64_t at = below(random, 4) == 0 ? 0 : below(random, 4) == 0 ? steps : below(random, steps + 1);
    return (int32_t)(dims->least + at * dims->step);
}

static void add_features(at_random *random, at_text *text)
{
    static const char *const windows[] = {
        "", "", ",causal", ",causal,offset=tl", ",window=40:5", ",causal,window=40:0", ",causal,offset=7"};
    static const char *const terms[] = {",softcap=15", ",bias=bxh",    ",mask",    ",alibi",   ",sink",    ",seqused",
                                        ",strict",     ",layout=bshd", ",align=2", ",align=4", ",varlen=3"};
    at_text_add(text, "%s", windows[below(random, sizeof windows / sizeof windows[0])]);
    for (size_t i = 0; i < sizeof terms / sizeof terms[0]; ++i) {
        at_text_add(text, "%s", below(random, 6) == 0 ? terms[i] : "");
    }
}

static const char *const dtypes[] = {"fp32", "fp16", "bf16"};

/* Caches, and tensors in a type of their own. Half of the terms are refused beside one another, and drawn again. */
static void add_cache(at_random *random, bool append, at_text *text)
{
    static const char *const pages[] = {"", ",page=1", ",page=16", ",page=24,vtable"};
    static const char *const appended[] = {",slots", ",seqused", ",seqused,varlen=2"};
    at_text_add(text, "%s%s", pages[below(random, 4)], append ? appended[below(random, 3)] : "");
    at_text_add(text, "%s", !append && below(random, 2) == 0 ? ",draft" : "");
    for (const char *role = append ? "kv" : "kvo"; *role != '\0'; ++role) {
        if (below(random, 4) == 0) {
            at_text_add(text, ",%c=%s", *role, dtypes[below(random, 3)]);
        }
    }
}

/* A problem within the dims and dtypes of one row of the table; whether the rest is supported, the kernel says. */
static bool draw_problem(at_random *random, const attune_kernel *kernel, attune_problem *problem)
{
    static const char *const shapes[] = {"b1,h8,s512", "b2,h8,hkv2,sq1,skv1024", "b1,h16,hkv4,sq300,skv130",
                                         "b1,h32,hkv8,s4096"};
    const attune_capability *can = &kernel->can[below(random, kernel->can_count)];
    char words[ATTUNE_PROBLEM_TEXT_MAX];
    at_text text;
    int32_t qk = draw_dim(random, &can->head_dim_qk);
    int32_t v = can->dims_equal != 0 || below(random, 2) == 0 ? qk : draw_dim(random, &can->head_dim_v);
    at_text_init_fixed(&text, words, sizeof words);
    if ((can->ops & ATTUNE_BIT(ATTUNE_MERGE)) != 0) {
        at_text_add(&text, "merge:b2,h4,sq%d,d%d,%s,states=9,o=%s%s", (int)below(random, 20), (int)v,
                    dtypes[below(random, 3)], dtypes[below(random, 3)], below(random, 2) == 0 ? ",sink" : "");
    } else if ((can->ops & ATTUNE_BIT(ATTUNE_APPEND)) != 0) {
        at_text_add(&text, "append:b2,h%d,sq3,skv100,d%d,dv%d,%s", (int)below(random, 9) + 1, (int)qk, (int)v,
                    dtypes[below(random, 3)]);
        add_cache(random, true, &text);
    } else {
        at_text_add(&text, "%s,d%d,dv%d,%s", shapes[below(random, 4)], (int)qk, (int)v, dtypes[below(random, 3)]);
        add_features(random, &text);
    }
    if ((can->features & ATTUNE_FEATURE_DRAFT) != 0) {
        add_cache(random, false, &text);
    }
    return attune_problem_parse(words, problem) == ATTUNE_OK;
}

/* One of the configs that fit, the kernel's first more often than others. */
static bool draw_config(at_random *random, pair *of)
{
    for (int tries = 0; tries < 20; ++tries) {
        if (tries == 0 && below(random, 2) == 0) {
            (void)of->kernel->heuristic(&of->problem, &of->target, 0, &of->config);
        } else {
            at_config_at(of->kernel, below(random, at_config_count(of->kernel)), &of->config);
        }
        if (at_kernel_fits(of->kernel, &of->problem, &of->target, &of->config, NULL)) {
            return true;
        }
    }
    return false;
}

static bool draw(at_random *random, const attune_kernel *kernel, pair *of)
{
    static const int archs[] = {80, 86, 89, 90};
    *of = (pair){.kernel = kernel, .target = fixture_target(archs[below(random, 4)])};
    return draw_problem(random, kernel, &of->problem) && at_kernel_supports(kernel, &of->problem, &of->target, NULL) &&
           draw_config(random, of);
}

static void compile_pair(void *context, int64_t item, void *scratch)
{
    pair *at = &((pair *)context)[item];
    at_artifact artifact;
    at_recipe recipe;
    (void)scratch;
    (void)at_recipe_ask(at->kernel, &at->problem, &at->target, &at->config, &recipe);
    if (at_provide(&provider, &recipe, &at->target, &artifact, NULL) != ATTUNE_OK) {
        (void)snprintf(at->fault, sizeof at->fault, "%.590s", attune_last_detail());
        return;
    }
    at_artifact_free(&artifact);
}

static int compile_pairs(void)
{
    at_pool *pool = NULL;
    int faults = 0;
    assert_ok(at_pool_create(at_cpu_count(), 64, &pool));
    at_pool_run(pool, pair_count, compile_pair, pairs);
    at_pool_destroy(pool);
    for (int i = 0; i < pair_count; ++i) {
        char config[AT_KERNEL_TEXT_MAX], problem[ATTUNE_PROBLEM_TEXT_MAX];
        at_config_print(pairs[i].kernel, &pairs[i].config, config);
        (void)attune_problem_print(&pairs[i].problem, problem, sizeof problem);
        if (pairs[i].fault[0] != '\0') {
            print_error("%s, %s, sm_%d: supported, and %s\n", config, problem, (int)pairs[i].target.arch,
                        pairs[i].fault);
            ++faults;
        }
    }
    return faults;
}

static int64_t number_of(const char *variable, int64_t otherwise)
{
    int64_t value = otherwise;
    const char *text = getenv(variable);
    return text != NULL && at_parse_int64(variable, text, 1, INT32_MAX, &value) == ATTUNE_OK ? value : otherwise;
}

/* Of a kernel's name: the same draws wherever it stands in the catalogue, which not every build has whole. */
static uint64_t number_of_name(const char *name)
{
    uint64_t number = 0;
    for (; *name != '\0'; ++name) {
        number = number * 31 + (unsigned char)*name;
    }
    return number;
}

static void what_is_supported_compiles(void **state)
{
    const int64_t draws = number_of("ATTUNE_DRAWS", DRAWS);
    (void)state;
    if (provider.nvrtc == NULL) {
        skip();
    }
    for (const attune_kernel *const *kernel = at_catalogue; *kernel != NULL; ++kernel) {
        at_random random = at_random_seed((uint64_t)number_of("ATTUNE_SEED", 1), number_of_name((*kernel)->name));
        int found = 0;
        if ((*kernel)->target != ATTUNE_TARGET_CUDA || (*kernel)->image != NULL) {
            continue;
        }
        for (int64_t tries = 0; tries < TRIES * draws && found < draws && pair_count < PAIRS_MAX; ++tries) {
            bool taken = draw(&random, *kernel, &pairs[pair_count]);
            pair_count += taken;
            found += taken;
        }
        if (found < draws) {
            fail_msg("%s: of %d draws it supports %d", (*kernel)->name, (int)(TRIES * draws), found);
        }
    }
    assert_int_equal(compile_pairs(), 0);
}

/* It can fail: a table that says more than the source keeps. */
static void a_table_that_says_too_much_is_found(void **state)
{
    (void)state;
    if (provider.nvrtc == NULL) {
        skip();
    }
    static attune_kernel kernel;
    static attune_capability can[ATTUNE_CAN_MAX];
    const attune_kernel *honest = at_catalogue_find("cublas_qk");
    assert_non_null(honest);
    kernel = *honest;
    memcpy(can, honest->can, (size_t)honest->can_count * sizeof *can);
    can[0].head_dim_qk = (attune_dims){8, 256, 8};
    kernel.can = can;
    pairs[0] = (pair){.kernel = &kernel, .target = fixture_target(90)};
    pair_count = 1;
    assert_ok(attune_problem_parse("b1,h8,s512,d8,dv96,fp16", &pairs[0].problem));
    assert_true(at_kernel_supports(&kernel, &pairs[0].problem, &pairs[0].target, NULL));
    assert_true(kernel.heuristic(&pairs[0].problem, &pairs[0].target, 0, &pairs[0].config));
    assert_int_equal(compile_pairs(), 1);
    pair_count = 0;
}

static int open_all(void **state)
{
    (void)state;
    pairs = calloc(PAIRS_MAX, sizeof *pairs);
    fixture_provider_open(&provider, ATTUNE_KERNEL_CACHE);
    return pairs == NULL ? -1 : 0;
}

static int close_all(void **state)
{
    (void)state;
    fixture_provider_close(&provider);
    free(pairs);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_that_says_too_much_is_found),
        cmocka_unit_test(what_is_supported_compiles),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
