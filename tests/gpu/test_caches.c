/* Caches on the device, through the gate's own suite: pages, drafts, caches in another type, append and merge. What the
 * suite draws is in docs/decode.md: permuted and shared pages, nonsense in entries that nobody may read, NaN behind
 * lengths, pools beyond 2^31 elements, guards, each sequence again by itself. */
#include "base/cm.h"

#include <string.h>

#include "compile_ahead.h"
#include "judge/suite.h"
#include "kernels/wild_pages.h"
#include "library/catalogue.h"
#include "library/context.h"
#include "library/state.h"
#include "on_device.h"

enum { SEED = 11, CASES = 24, RECIPES_MAX = 64 };

typedef struct checked {
    const char *kernel, *problem;
} checked;

static const checked paged[] = {
    {"tiled", "b3,h8,hkv2,sq1,skv300,d64,fp16,seqused,page=16"},
    {"tiled", "b2,h4,hkv2,s100,d32,bf16,causal,seqused,page=8,varlen=3"},
    {"tiled", "b2,h4,hkv1,sq40,skv200,d40,bf16,window=60:0,seqused,page=24,vtable"},
    {"tiled", "b4,h8,hkv4,sq1,skv200,d128,bf16,page=1,sink"},
    {"tiled", "b1,h4,hkv2,sq3,skv1500,d48,fp16,seqused,page=1024"},
    {"decode", "b3,h8,hkv2,sq1,skv900,d128,bf16,seqused,page=16"},
    {"decode", "b3,h8,hkv2,sq1,skv900,d128,bf16,seqused,page=1"},
    {"decode", "b2,h4,hkv2,sq2,skv3000,d256,bf16,causal,window=500:0,softcap=30,seqused,page=24,vtable"},
    {"decode", "b2,h6,hkv2,sq5,skv700,d96,dv192,bf16,seqused,varlen,causal,page=256"},
    /* More jobs than multiprocessors: blocks go from one to the next. */
    {"decode", "b64,h32,hkv8,sq1,skv300,d128,bf16,seqused,page=64"},
    {"decode", "b20,h32,hkv8,sq1,skv1500,d128,fp16,seqused,page=1"},
    {"decode", "b9,h64,hkv8,sq1,skv4100,d64,bf16,seqused,page=256"},
    {"decode", "b24,h16,hkv4,sq2,skv1200,d128,bf16,causal,window=300:0,softcap=20,sink,seqused,page=8"},
};

static const checked drafts[] = {
    {"tiled", "b2,h4,hkv2,sq5,skv200,d40,dv24,bf16,seqused,page=64,vtable,draft"},
    {"tiled", "b3,h8,hkv2,sq8,skv90,d64,fp16,seqused,varlen=5,page=16,draft"},
    {"tiled", "b2,h3,sq32,skv90,d48,fp32,alibi,softcap=5,draft"},
    {"decode", "b2,h16,hkv2,sq4,skv2000,d128,fp16,draft,seqused,page=64,strict"},
    {"decode", "b2,h8,hkv2,sq9,skv900,d128,bf16,draft,varlen=11,page=8,seqused"},
};

static const checked types[] = {
    {"tiled", "b1,h2,sq70,skv130,d33,dv17,fp32,k=fp16,v=fp16,o=bf16,mask,seqused,page=3"},
    {"tiled", "b2,h8,hkv2,sq2,skv400,d64,fp32,k=bf16,v=fp16,bias=1xh,window=50:0,sink"},
};

static const checked appends[] = {
    {"append", "append:b3,h4,sq2,skv100,d64,dv40,bf16,page=16,slots"},
    {"append", "append:b3,h2,sq5,skv60,d33,fp32,k=fp16,slots"},
    {"append", "append:b4,h2,sq7,skv90,d16,fp16,page=5,vtable,seqused,varlen=2"},
    {"append", "append:b70,h8,sq3,skv40,d128,bf16,page=16,seqused,varlen=9"},
    {"append", "append:b2,h3,sq3,skv40,d24,fp32,seqused"},
};

static const checked merges[] = {
    {"merge", "merge:b2,h4,sq13,d64,fp32,o=bf16,states=4,sink"},
    {"merge", "merge:b1,h3,sq70,d33,fp16,states=17"},
    {"merge", "merge:b3,h2,sq1,d256,bf16,states=130"},
};

typedef struct chosen {
    attune_context *context;
    const char *kernel;
} chosen;

static attune_status plan_named(void *self, const attune_problem *problem, attune_plan **plan)
{
    const chosen *on = self;
    return attune_plan_create(on->context, problem, WITH_KERNEL(on->kernel), plan);
}

/* Compiles what the cases' plans will ask for. A case that is refused is the suite's to report. */
static void prepare(at_device *device, const char *name, const at_test_problem *problem)
{
    static at_recipe recipe[RECIPES_MAX];
    const attune_kernel *kernel = at_catalogue_find(name);
    int count = 0;
    for (int64_t index = 0; index < CASES; ++index) {
        at_gate_case one;
        attune_config config;
        attune_reason reason;
        at_case_make(problem, SEED, index, &one);
        if (at_first_fitting(kernel, &one.planned, &device->target, &config, &reason) &&
            at_recipe_ask(kernel, &one.planned, &device->target, &config, &recipe[count]) == ATTUNE_OK) {
            ++count;
        }
    }
    compile_ahead(device, recipe, count);
}

static void check_one(attune_context *context, const checked *of)
{
    chosen on = {context, of->kernel};
    at_test_problem problem;
    at_suite_result result;
    const at_suite suite = {.device = at_context_device(context),
                            .pool = at_context_pool(context),
                            .plan = plan_named,
                            .self = &on,
                            .seed = SEED,
                            .cases = CASES,
                            .only = -1,
                            .command = "attune check"};
    assert_ok(at_test_problem_parse(of->problem, &problem));
    prepare(at_context_device(context), of->kernel, &problem);
    assert_ok(at_suite_run(&suite, &problem, &result));
    if (result.failures > 0) {
        fail_msg("%s, %s: case %lld (%s): %s\n  %s", of->kernel, result.failure[0].problem,
                 (long long)result.failure[0].index, result.failure[0].how, result.failure[0].what,
                 result.failure[0].command);
    }
    assert_true(at_suite_right(&result));
    assert_int_equal(result.executed, CASES);
    print_message("%-8s %-76s right\n", of->kernel, of->problem);
}

#define CHECK_ALL(of)                                                                                                  \
    for (size_t i = 0; i < sizeof(of) / sizeof(of)[0]; ++i) {                                                          \
        check_one(*state, &(of)[i]);                                                                                   \
    }

static void pages_are_right(void **state)
{
    CHECK_ALL(paged)
}

static void drafts_are_right(void **state)
{
    CHECK_ALL(drafts)
}

static void caches_in_another_type_are_right(void **state)
{
    CHECK_ALL(types)
}

static void append_is_right(void **state)
{
    CHECK_ALL(appends)
}

static void merge_is_right(void **state)
{
    CHECK_ALL(merges)
}

static void wild_entries_and_lengths_are_clamped(void **state)
{
    attune_problem problem;
    attune_plan *plan = NULL;
    int wild = 0;
    assert_ok(attune_problem_parse("b9,h8,hkv2,sq2,skv256,d64,bf16,seqused,page=16", &problem));
    assert_ok(attune_plan_create(*state, &problem, WITH_KERNEL("tiled"), &plan));
    for (uint64_t seed = 1; seed <= 8; ++seed) {
        wild += expect_wild_to_be_clamped(at_context_device(*state), plan, &problem, seed, true);
    }
    assert_true(wild > 0);
    attune_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_right),
        cmocka_unit_test(drafts_are_right),
        cmocka_unit_test(caches_in_another_type_are_right),
        cmocka_unit_test(append_is_right),
        cmocka_unit_test(merge_is_right),
        cmocka_unit_test(wild_entries_and_lengths_are_clamped),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
