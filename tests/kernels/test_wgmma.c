/* What wgmma's descriptor chooses first, on an H200: a case of each measurement that a rule came of (docs/hopper.md);
 * which configs it takes, and what clusters are refused for and launched with. */
#include <stdio.h>
#include <string.h>

#include "base/cm.h"
#include "core/config.h"
#include "core/term.h"
#include "cuda/cuda.h"

extern const attune_kernel at_kernel_wgmma;

static attune_problem problem_of(const char *text)
{
    attune_problem problem;
    assert_ok(attune_problem_parse(text, &problem));
    return problem;
}

static attune_target h200(void)
{
    attune_target target;
    assert_ok(at_cuda_typical(90, &target));
    target.sm_count = 132;
    return target;
}

static int32_t value_of(const attune_config *config, const char *name)
{
    for (int32_t i = 0; i < at_kernel_wgmma.param_count; ++i) {
        if (strcmp(at_kernel_wgmma.params[i].name, name) == 0) {
            return config->value[i];
        }
    }
    fail_msg("no parameter %s", name);
    return 0;
}

/* The first choice has the value that was fastest, or within noise of it. */
static void chooses_what_was_fastest(void **state)
{
    static const struct {
        const char *problem, *name;
        int32_t value;
    } asked[] = {
        /* where only queries and keys are wide, as many keys as there is room for */
        {"b2,h16,s4096,d192,dv128,bf16", "BLOCK_N", 128},
        {"b2,h16,s4096,d192,dv128,bf16,causal", "BLOCK_N", 128},
        {"b8,h16,s1024,d192,dv128,bf16,causal", "AHEAD", 2},
        {"b2,h16,s4096,d256,dv128,fp16,causal", "BLOCK_N", 96},
        {"b2,h16,s4096,d192,bf16", "BLOCK_N", 64},
        /* by counter only where it evens out more than it costs */
        {"b1,h64,s1109,d128,bf16,causal", "SCHEDULER", 1}, /* two sections, there and back, are even */
        {"b1,h64,hkv16,s760,d128,fp16,causal", "SCHEDULER", 1},
        {"b1,h64,hkv16,s1254,d128,bf16,causal", "SCHEDULER", 1},
        {"b4,h8,s2913,d192,bf16,causal", "SCHEDULER", 2},
        {"b8,h32,s574,d256,fp16,causal", "SCHEDULER", 2},
        {"b1,h64,s2059,d64,fp16,causal", "SCHEDULER", 2},
        {"b1,h32,hkv4,s5273,d128,fp16,causal", "SCHEDULER", 1},
        {"b1,h8,s5860,d256,fp16,causal", "SCHEDULER", 1},
        {"b1,h16,s5832,d96,bf16,causal", "SCHEDULER", 2},
        {"b1,h16,s4316,d128,fp16,causal", "SCHEDULER", 1},
        {"b8,h16,hkv2,s599,d64,bf16,causal", "SCHEDULER", 1},
        {"b8,h16,hkv2,s790,d64,fp16,causal", "SCHEDULER", 1},
        {"b1,h64,s3354,d256,bf16,causal", "SCHEDULER", 1},
        {"b16,h8,s1024,d256,fp16,causal", "SCHEDULER", 2},
        {"b2,h64,s422,d96,fp16,causal", "SCHEDULER", 1},
        /* turns */
        {"b1,h32,s1180,d256,bf16,causal", "PINGPONG", 0},
        {"b4,h8,s4096,d256,fp16,causal", "PINGPONG", 1},
        {"b32,h64,s318,d128,fp16,causal", "PINGPONG", 0},
        {"b32,h16,s512,d128,fp16,causal", "PINGPONG", 1},
        {"b32,h32,hkv8,s670,d64,bf16,causal", "PINGPONG", 0},
        {"b8,h32,s2048,d64,fp16,causal", "PINGPONG", 1},
        {"b32,h32,hkv8,s670,d64,bf16,causal,offset=tl", "PINGPONG", 1}, /* three groups have no registers for it */
        /* without a mask where the short last tiles of heads would fall to the same multiprocessors */
        {"b32,h64,s397,d128,bf16", "SCHEDULER", 2},
        {"b16,h32,hkv8,s912,d96,bf16", "SCHEDULER", 2},
        {"b16,h64,hkv8,s380,d128,bf16", "SCHEDULER", 1},
        {"b8,h32,hkv8,s464,d128,bf16", "SCHEDULER", 2},
        /* the same queries behind many keys: jobs are alike, and a counter evens out nothing */
        {"b1,h64,sq1109,skv3900,d128,bf16,causal", "SCHEDULER", 1},
        {"b1,h64,sq1109,skv3900,d128,bf16,causal,offset=tl", "SCHEDULER", 2},
        /* three groups or two */
        {"b2,h8,s2544,d64,fp16,causal", "GROUPS", 3},
        {"b4,h8,s1222,d64,fp16,causal", "GROUPS", 3},
        {"b1,h32,s2088,d64,bf16,causal", "GROUPS", 3},
        {"b2,h8,hkv2,s2063,d64,fp16,causal", "GROUPS", 2},
        {"b1,h64,s588,d64,fp16", "GROUPS", 3},
        {"b16,h32,s322,d64,fp16,causal", "GROUPS", 3},
        {"b1,h8,hkv2,s4615,d64,fp16,causal", "GROUPS", 3},
        {"b4,h64,s458,d64,bf16", "GROUPS", 2},
        {"b1,h8,s8118,d64,bf16", "GROUPS", 3},
        {"b32,h32,s700,d64,fp16,causal,softcap=30", "GROUPS", 2},
        /* tiles of keys */
        {"b1,h8,s16384,d256,fp16,causal", "BLOCK_N", 80},
        {"b2,h8,s8192,d256,fp16,causal", "BLOCK_N", 80},
        {"b4,h8,s4096,d256,fp16,causal", "BLOCK_N", 64},
        {"b1,h32,s1773,d192,fp16,causal", "BLOCK_N", 64},
        {"b4,h32,hkv4,s1926,d128,fp16", "BLOCK_N", 176},
        {"b32,h8,s644,d128,fp16", "BLOCK_N", 176},
        {"b8,h16,s599,d128,bf16", "BLOCK_N", 128},
        {"b2,h64,s387,d128,fp16", "BLOCK_N", 128},
        {"b8,h32,hkv8,s464,d128,bf16", "BLOCK_N", 128},
        {"b16,h16,s959,d128,fp16", "BLOCK_N", 160},
        {"b8,h32,hkv8,s823,d64,bf16", "BLOCK_N", 176},
        {"b2,h16,hkv4,s1237,d192,bf16", "BLOCK_N", 96},
        /* exponentials before the wait */
        {"b4,h16,s622,d128,bf16", "AHEAD", 2},
        {"b1,h16,s16384,d128,fp16,causal", "AHEAD", 2},
        {"b8,h16,hkv4,s621,d96,fp16", "AHEAD", 4},
        {"b1,h64,hkv16,s5927,d96,bf16,causal", "AHEAD", 3},
        /* references stand, but where sequences are packed */
        {"b8,h16,s2048,d128,fp16", "RESCALE", 15},
        {"b8,h16,s2048,d128,fp16,varlen=1", "RESCALE", 0},
    };
    attune_target target = h200();
    (void)state;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        attune_problem problem = problem_of(asked[i].problem);
        attune_config config;
        assert_true(at_kernel_wgmma.heuristic(&problem, &target, 0, &config));
        if (value_of(&config, asked[i].name) != asked[i].value) {
            fail_msg("%s: %s %d", asked[i].problem, asked[i].name, value_of(&config, asked[i].name));
        }
    }
}

/* Sizes at which the forecast of jobs could divide by nothing or run past its arrays. */
static void forecasts_end(void **state)
{
    static const char *const problems[] = {
        "b1,h1,sq0,skv0,d64,fp16,causal",
        "b1,h1,sq5,skv0,d64,fp16,causal",
        "b1,h1,sq0,skv7,d128,bf16,causal",
        "b1,h1,sq1,skv1000000,d64,fp16,causal",
        "b64,h128,s64,d64,fp16,causal",
        "b1,h1,s1000000,d256,fp16,causal",
        "b1,h1,sq0,skv0,d64,fp16",
        "b1,h1,s512,d64,fp16",
        "b2097152,h2147483647,s1,d64,fp16,causal",
        "b16,h2147483647,hkv1,sq1,skv2147483647,d64,fp16,causal", /* more than 64 bits have room for */
        "b1024,h2147483647,hkv1,sq1,skv2147483647,d64,fp16",
        "b134217728,h67108864,sq0,skv0,d64,fp16,causal", /* nothing to do for very many heads */
    };
    static const int32_t counts[] = {0, 1, 132, 256, 1000};
    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; ++i) {
        for (size_t n = 0; n < sizeof counts / sizeof counts[0]; ++n) {
            attune_target target = h200();
            attune_problem problem = problem_of(problems[i]);
            attune_config config;
            target.sm_count = counts[n];
            for (int32_t index = 0; at_kernel_wgmma.heuristic(&problem, &target, index, &config); ++index) {
                assert_true(at_kernel_wgmma.valid(&problem, &target, &config, NULL));
                assert_true(index < 8);
            }
        }
    }
}

/* The problem's first choice with other parameters. */
static attune_config config_with(const attune_problem *problem, const attune_target *target, const char *params)
{
    attune_config config;
    assert_true(at_kernel_wgmma.heuristic(problem, target, 0, &config));
    assert_ok(at_config_parse(&at_kernel_wgmma, params, &config));
    return config;
}

/* Both blocks of a pair must go through the same keys together; what keeps them from it is named. */
static void pairs_need_the_same_keys(void **state)
{
    static const struct {
        const char *problem, *params;
        int32_t sm_count;
        const char *refusal; /* NULL: none */
    } asked[] = {
        {"b8,h16,s2048,d128,fp16", "CLUSTER=2", 132, NULL},
        {"b8,h16,hkv4,sq300,skv77,d72,bf16,softcap=30", "CLUSTER=2", 132, NULL},
        {"b1,h1,sq1,skv0,d256,bf16", "CLUSTER=2", 132, NULL},
        {"b8,h16,s2048,d128,fp16,causal", "CLUSTER=0", 132, NULL},
        {"b8,h16,s2048,d128,fp16,causal", "CLUSTER=2", 132, "CLUSTER 2, causal: "},
        {"b8,h16,s2048,d128,fp16,window=100:-1", "CLUSTER=2", 132, "CLUSTER 2, window: "},
        {"b8,h16,s2048,d128,fp16,window=-1:0", "CLUSTER=2", 132, "CLUSTER 2, causal: "},
        {"b8,h16,s2048,d128,fp16,varlen=1", "CLUSTER=2", 132, "CLUSTER 2, varlen: "},
        {"b8,h16,s2048,d128,fp16,seqused", "CLUSTER=2", 132, "CLUSTER 2, seqused: "},
        {"b8,h16,s2048,d128,fp16", "SCHEDULER=2,CLUSTER=2", 132, "CLUSTER 2: with SCHEDULER 1 and OVERLAP 1 only"},
        {"b8,h16,s2048,d128,fp16", "SCHEDULER=0,Q_STAGES=1,CLUSTER=2", 132, "CLUSTER 2: with SCHEDULER 1"},
        {"b8,h16,s2048,d128,fp16", "OVERLAP=0,RESCALE=0,AHEAD=0,CLUSTER=2", 132, "CLUSTER 2: with SCHEDULER 1"},
        {"b8,h16,s2048,d128,fp16", "CLUSTER=2", 1, "CLUSTER 2: the device has 1 multiprocessors"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        attune_target target = h200();
        attune_problem problem = problem_of(asked[i].problem);
        attune_reason reason = {""};
        target.sm_count = asked[i].sm_count;
        attune_config config = config_with(&problem, &target, asked[i].params);
        assert_true(at_kernel_wgmma.valid(&problem, &target, &config, &reason) == (asked[i].refusal == NULL));
        assert_true(asked[i].refusal == NULL || strstr(reason.text, asked[i].refusal) == reason.text);
    }
}

/* Blocks come in pairs, each of which has something to do, and no more of them than fit at once. */
static void pairs_are_launched_whole(void **state)
{
    static const struct {
        const char *problem, *params;
        int32_t sm_count, blocks;
    } asked[] = {
        {"b1,h8,s16384,d256,fp16", "CLUSTER=2", 132, 132},      {"b1,h8,s16384,d256,fp16", "CLUSTER=2", 133, 132},
        {"b1,h8,s16384,d256,fp16", "CLUSTER=0", 133, 133},      {"b1,h8,s16384,d256,fp16", "CLUSTER=2", 3, 2},
        {"b1,h1,sq1,skv500,d128,fp16", "CLUSTER=2", 132, 2},    {"b1,h1,sq128,skv500,d128,fp16", "CLUSTER=2", 132, 2},
        {"b1,h1,sq256,skv500,d128,fp16", "CLUSTER=2", 132, 2},  {"b1,h1,sq257,skv500,d128,fp16", "CLUSTER=2", 132, 4},
        {"b1,h1,sq257,skv500,d128,fp16", "CLUSTER=0", 132, 3},  {"b3,h5,s300,d128,bf16", "CLUSTER=2", 132, 60},
        {"b3,h5,s300,d64,bf16", "GROUPS=3,CLUSTER=2", 132, 30}, {"b3,h5,sq0,skv7,d64,bf16", "CLUSTER=2", 132, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        attune_target target = h200();
        attune_problem problem = problem_of(asked[i].problem);
        target.sm_count = asked[i].sm_count;
        attune_config config = config_with(&problem, &target, asked[i].params);
        attune_args args = {.batch = problem.batch, .heads_q = problem.heads_q, .seqlen_q = problem.seqlen_q};
        attune_steps steps;
        at_sizes sizes;
        int64_t blocks = -1;
        at_kernel_wgmma.steps(&problem, &target, &config, &steps);
        at_sizes_fill(&sizes, &args, &target);
        const attune_step_kernel *kernel = &steps.step[steps.count - 1].as.kernel;
        assert_ok(at_term_evaluate(&kernel->grid[0], &sizes, &blocks));
        assert_int_equal(blocks, asked[i].blocks);
        assert_int_equal(kernel->cluster[0], value_of(&config, "CLUSTER") == 2 ? 2 : 1);
        for (int32_t map = 1; map < 3; ++map) { /* each block brings its share of a tile's rows */
            assert_int_equal(kernel->map[map].box[1] * kernel->cluster[0], value_of(&config, "BLOCK_N"));
        }
    }
}

/* Whatever the head dims, there is another config to race the first. */
static void there_is_more_than_one_choice(void **state)
{
    static const char *const problems[] = {
        "b2,h16,s4096,d64,fp16,causal",        "b2,h16,s4096,d96,fp16,causal",  "b2,h16,s4096,d128,fp16,causal",
        "b2,h16,s4096,d192,dv128,bf16,causal", "b2,h16,s4096,d256,dv128,bf16",  "b2,h16,s4096,d256,dv32,bf16,causal",
        "b2,h16,s4096,d128,dv192,bf16",        "b2,h16,s4096,d256,fp16,causal",
    };
    const attune_target target = h200();
    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; ++i) {
        attune_problem problem = problem_of(problems[i]);
        attune_config first, second;
        assert_true(at_kernel_wgmma.heuristic(&problem, &target, 0, &first));
        assert_true(at_kernel_wgmma.heuristic(&problem, &target, 1, &second));
        assert_memory_not_equal(&first, &second, sizeof first);
    }
}

static void set(attune_config *config, const char *params)
{
    assert_ok(at_config_parse(&at_kernel_wgmma, params, config));
}

/* Stages of the ring as a config has them, by the shared memory that each takes. */
static int32_t stages_of(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    attune_config three = *config, four = *config;
    attune_resources has, with_three, with_four;
    set(&three, "KV_STAGES=3");
    set(&four, "KV_STAGES=4");
    at_kernel_wgmma.resources(problem, target, config, &has);
    at_kernel_wgmma.resources(problem, target, &three, &with_three);
    at_kernel_wgmma.resources(problem, target, &four, &with_four);
    return 3 + (has.smem_bytes - with_three.smem_bytes) / (with_four.smem_bytes - with_three.smem_bytes);
}

/* Stages can be asked for that are fewer than there is room for; what 0 gives already is no other config. */
static void fewer_stages_can_be_asked_for(void **state)
{
    static const struct {
        const char *problem, *params;
        int32_t most;
    } asked[] = {{"b4,h32,s4096,d64,fp16", "GROUPS=3,BLOCK_N=128,Q_STAGES=2", 8}, /* eleven would fit */
                 {"b4,h16,s4096,d128,fp16", "BLOCK_N=128,Q_STAGES=2", 5},
                 {"b4,h8,s4096,d256,fp16", "BLOCK_N=64", 5},
                 {"b4,h8,s4096,d256,fp16", "BLOCK_N=80", 4},
                 {"b4,h8,s4096,d256,fp16", "BLOCK_N=96", 3},
                 {"b4,h32,s4096,d64,fp16,causal,varlen=1", "GROUPS=3,BLOCK_N=128,Q_STAGES=2", 8}};
    const attune_target target = h200();
    (void)state;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        const attune_problem problem = problem_of(asked[i].problem);
        attune_config config;
        assert_true(at_kernel_wgmma.heuristic(&problem, &target, 0, &config));
        assert_int_equal(value_of(&config, "KV_STAGES"), 0);
        set(&config, asked[i].params);
        assert_int_equal(stages_of(&problem, &target, &config), asked[i].most);
        for (int32_t stages = 3; stages <= 7; ++stages) {
            char text[32];
            attune_reason reason = {""};
            (void)snprintf(text, sizeof text, "KV_STAGES=%d", stages);
            set(&config, text);
            assert_int_equal(stages_of(&problem, &target, &config), stages);
            assert_int_equal(at_kernel_wgmma.valid(&problem, &target, &config, &reason), stages < asked[i].most);
            (void)snprintf(text, sizeof text, "KV_STAGES %d: fewer than the %d", stages, asked[i].most);
            assert_true(stages < asked[i].most || strstr(reason.text, text) != NULL);
        }
    }
}

static void expect_refused(const char *problem_text, const char *params, const char *why)
{
    const attune_target target = h200();
    const attune_problem problem = problem_of(problem_text);
    attune_reason reason = {""};
    const attune_config config = config_with(&problem, &target, params);
    assert_false(at_kernel_wgmma.valid(&problem, &target, &config, &reason));
    assert_non_null(strstr(reason.text, why));
}

/* Stages, shares of exponentials and pairs are not tried with everything else, nor with one another. */
static void the_space_grows_by_little(void **state)
{
    static const char problem[] = "b4,h16,s4096,d128,fp16", packed[] = "b4,h16,s4096,d128,fp16,varlen=1";
    (void)state;
    expect_refused(problem, "KV_STAGES=4,EMULATED=1", "KV_STAGES 4, EMULATED 1, CLUSTER 0: one at a time");
    expect_refused(problem, "KV_STAGES=4,CLUSTER=2", "KV_STAGES 4, EMULATED 0, CLUSTER 2: one at a time");
    expect_refused(problem, "EMULATED=4,CLUSTER=2", "KV_STAGES 0, EMULATED 4, CLUSTER 2: one at a time");
    expect_refused(problem, "KV_STAGES=4,RESCALE=8", "KV_STAGES 4: with RESCALE 15, not 8");
    expect_refused(packed, "KV_STAGES=4,RESCALE=8", "KV_STAGES 4: with RESCALE 0, not 8");
    expect_refused(problem, "OVERLAP=0,SCHEDULER=1,RESCALE=0,AHEAD=0,EMULATED=1", "OVERLAP 0");
    expect_refused(problem, "OVERLAP=0,SCHEDULER=1,RESCALE=0,AHEAD=0,KV_STAGES=4", "OVERLAP 0");
}

/* A config of evidence and wisdom that is older than these parameters means what it meant. */
static void older_configs_are_without(void **state)
{
    attune_config config = {{0}};
    (void)state;
    set(&config, "GROUPS=2,BLOCK_N=128,Q_STAGES=2,OVERLAP=1,PINGPONG=1,SCHEDULER=1,RESCALE=15,AHEAD=2");
    assert_int_equal(value_of(&config, "KV_STAGES"), 0);
    assert_int_equal(value_of(&config, "EMULATED"), 0);
    attune_target target = h200();
    const attune_problem problem = problem_of("b4,h16,s4096,d128,fp16");
    attune_config chosen;
    for (int32_t index = 0; at_kernel_wgmma.heuristic(&problem, &target, index, &chosen); ++index) {
        assert_int_equal(value_of(&chosen, "KV_STAGES"), 0);
        assert_int_equal(value_of(&chosen, "EMULATED"), 0);
    }
    assert_true(at_kernel_wgmma.heuristic(&problem, &target, 0, &chosen));
    assert_memory_equal(&chosen, &config, sizeof config);
}

/* The device tests take a config of each value from there; pairs are not for causal problems. */
static void each_value_has_a_config_of_a_small_problem(void **state)
{
    const attune_problem plain = problem_of("b1,h4,s200,d64,fp16"), causal = problem_of("b1,h4,s200,d64,fp16,causal");
    const attune_target target = h200();
    (void)state;
    for (int i = 0; i < at_kernel_wgmma.param_count; ++i) {
        const attune_param *param = &at_kernel_wgmma.params[i];
        for (int v = 0; v < param->count; ++v) {
            attune_config first, config;
            assert_true(at_kernel_wgmma.heuristic(&causal, &target, 0, &first));
            bool found = at_config_nearest(&at_kernel_wgmma, &causal, &target, &first, i, v, &config);
            assert_int_equal(config.value[i], param->values[v]);
            assert_int_equal(at_kernel_fits(&at_kernel_wgmma, &causal, &target, &config, NULL), found);
            first.value[i] = param->values[v]; /* none is nearer */
            if (at_kernel_fits(&at_kernel_wgmma, &causal, &target, &first, NULL)) {
                assert_memory_equal(&config, &first, sizeof config);
            }
            if (found != (strcmp(param->name, "CLUSTER") != 0 || param->values[v] == 0)) {
                fail_msg("%s %d: %s", param->name, (int)param->values[v], found ? "found" : "not found");
            }
            assert_true(at_kernel_wgmma.heuristic(&plain, &target, 0, &first));
            assert_true(at_config_nearest(&at_kernel_wgmma, &plain, &target, &first, i, v, &config));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chooses_what_was_fastest),
        cmocka_unit_test(forecasts_end),
        cmocka_unit_test(there_is_more_than_one_choice),
        cmocka_unit_test(pairs_need_the_same_keys),
        cmocka_unit_test(pairs_are_launched_whole),
        cmocka_unit_test(fewer_stages_can_be_asked_for),
        cmocka_unit_test(the_space_grows_by_little),
        cmocka_unit_test(older_configs_are_without),
        cmocka_unit_test(each_value_has_a_config_of_a_small_problem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
