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

static void set(attune_config *config, const char *params)
{
    assert_ok(at_config_parse(&at_kernel_wgmma, params, config));
}

/* Races of bench/results/hopper_arms.tsv: the choice is one of those that were within 1 % of the best. */
static void chooses_what_was_fastest(void **state)
{
    static const struct {
        const char *problem, *params;
    } asked[] = {
        {"b1,h8,s8118,d64,bf16", "GROUPS=3,BLOCK_N=128,Q_STAGES=2,PINGPONG=1,SCHEDULER=1,RESCALE=16,AHEAD=4"},
        {"b8,h32,hkv8,s823,d64,bf16", "GROUPS=2,BLOCK_N=176,Q_STAGES=2,PINGPONG=1,SCHEDULER=1,RESCALE=15,AHEAD=4"},
        {"b2,h64,hkv16,s1472,d64,bf16", "GROUPS=3,BLOCK_N=128,Q_STAGES=2,PINGPONG=1,SCHEDULER=1,RESCALE=16,AHEAD=4"},
        {"b2,h32,s3277,d64,bf16,causal", "GROUPS=3,BLOCK_N=128,Q_STAGES=1,PINGPONG=1,SCHEDULER=2,RESCALE=16,AHEAD=4"},
        {"b16,h16,s670,d64,bf16,causal", "GROUPS=3,BLOCK_N=128,Q_STAGES=1,PINGPONG=1,SCHEDULER=1,RESCALE=16,AHEAD=4"},
        {"b2,h8,s7701,d64,bf16,causal", "GROUPS=3,BLOCK_N=128,Q_STAGES=2,PINGPONG=1,SCHEDULER=1,RESCALE=16,AHEAD=4"},
        {"b1,h16,hkv2,s1809,d96,fp16", "GROUPS=2,BLOCK_N=128,Q_STAGES=2,PINGPONG=1,SCHEDULER=1,RESCALE=15,AHEAD=4"},
        {"b1,h32,hkv4,s5567,d96,bf16", "GROUPS=2,BLOCK_N=192,Q_STAGES=1,PINGPONG=1,SCHEDULER=1,RESCALE=15,AHEAD=1"},
        {"b32,h8,hkv2,s1448,d96,bf16", "GROUPS=2,BLOCK_N=128,Q_STAGES=2,PINGPONG=1,SCHEDULER=1,RESCALE=16,AHEAD=4"},
        {"b1,h8,s6999,d96,fp16,causal", "GROUPS=2,BLOCK_N=128,Q_STAGES=2,PINGPONG=1,SCHEDULER=1,RESCALE=15,AHEAD=4"},
        {"b1,h64,hkv16,s5927,d96,bf16,causal",
         "GROUPS=2,BLOCK_N=128,Q_STAGES=2,PINGPONG=1,SCHEDULER=1,RESCALE=16,AHEAD=3"},
        {"b1,h64,s3485,d96,bf16,causal", "GROUPS=2,BLOCK_N=128,Q_STAGES=2,PINGPONG=1,SCHEDULER=1,RESCALE=16,AHEAD=4"},
        {"b1,h16,s7082,d128,fp16", "GROUPS=2,BLOCK_N=128,Q_STAGES=2,PINGPONG=1,SCHEDULER=1,RESCALE=15,AHEAD=2"},
        {"b16,h32,s635,d128,fp16", "GROUPS=2,BLOCK_N=128,Q_STAGES=2,PINGPONG=1,SCHEDULER=1,RESCALE=15,AHEAD=2"},
        {"b16,h32,s331,d64,fp16", "GROUPS=3,BLOCK_N=128,Q_STAGES=2,PINGPONG=1,SCHEDULER=1,RESCALE=15,AHEAD=4"},
        {"b16,h16,s959,d128,fp16", "GROUPS=2,BLOCK_N=160,Q_STAGES=2,PINGPONG=1,SCHEDULER=2,RESCALE=15,AHEAD=3"},
        {"b2,h32,hkv8,s614,d128,bf16,causal",
         "GROUPS=2,BLOCK_N=128,Q_STAGES=2,PINGPONG=1,SCHEDULER=1,RESCALE=16,AHEAD=4"},
        {"b4,h32,s1960,d128,bf16,causal", "GROUPS=2,BLOCK_N=128,Q_STAGES=2,PINGPONG=1,SCHEDULER=2,RESCALE=16,AHEAD=2"},
        {"b8,h32,hkv4,s1659,d128,fp16,causal",
         "GROUPS=2,BLOCK_N=128,Q_STAGES=2,PINGPONG=1,SCHEDULER=2,RESCALE=15,AHEAD=2"},
        {"b8,h8,s1546,d256,fp16", "GROUPS=2,BLOCK_N=64,Q_STAGES=1,PINGPONG=1,SCHEDULER=1,RESCALE=15,AHEAD=3"},
        {"b4,h8,hkv1,s1702,d256,bf16", "GROUPS=2,BLOCK_N=64,Q_STAGES=1,PINGPONG=1,SCHEDULER=1,RESCALE=16,AHEAD=3"},
        {"b2,h32,hkv8,s1149,d192,bf16", "GROUPS=2,BLOCK_N=64,Q_STAGES=1,PINGPONG=1,SCHEDULER=1,RESCALE=16,AHEAD=3"},
        {"b2,h64,s642,d256,fp16,causal", "GROUPS=2,BLOCK_N=64,Q_STAGES=1,PINGPONG=1,SCHEDULER=2,RESCALE=15,AHEAD=3"},
        {"b2,h16,s2795,d256,fp16,causal", "GROUPS=2,BLOCK_N=64,Q_STAGES=1,PINGPONG=0,SCHEDULER=1,RESCALE=15,AHEAD=3"},
        {"b32,h8,s830,d256,fp16,causal", "GROUPS=2,BLOCK_N=64,Q_STAGES=1,PINGPONG=1,SCHEDULER=2,RESCALE=15,AHEAD=3"},
    };
    attune_target target = h200();
    (void)state;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        attune_problem problem = problem_of(asked[i].problem);
        attune_config config, expected = {{0}};
        set(&expected, asked[i].params);
        assert_true(at_kernel_wgmma.heuristic(&problem, &target, 0, &config));
        if (memcmp(&config, &expected, sizeof config) != 0) {
            char text[AT_KERNEL_TEXT_MAX];
            at_config_print(&at_kernel_wgmma, &config, text);
            fail_msg("%s: %s", asked[i].problem, text);
        }
    }
}

/* What was not raced keeps to what registers and packed sequences allow. */
static void features_limit_the_choice(void **state)
{
    static const struct {
        const char *problem, *name;
        int32_t value;
    } asked[] = {
        {"b8,h32,s2048,d64,fp16,window=100:0", "GROUPS", 2},
        {"b32,h32,hkv8,s670,d64,bf16,causal,offset=tl", "PINGPONG", 1},
        {"b8,h16,s2048,d128,fp16", "RESCALE", 15},
        {"b8,h16,s2048,d128,bf16,causal", "RESCALE", 16},
        {"b8,h16,s2048,d128,bf16,causal,sink", "RESCALE", 15},
        {"b8,h16,s2048,d128,fp16,varlen=1", "RESCALE", 15},
        {"b8,h16,s2048,d128,fp16,varlen=1", "SCHEDULER", 2},
        {"b8,h16,s2048,d128,fp16,causal,strict,varlen=1", "SCHEDULER", 1},
        {"b16,h32,s2048,d64,bf16,varlen=1", "GROUPS", 3},
        {"b16,h32,s2048,d64,bf16,varlen=1,alibi", "GROUPS", 2},
        {"b1,h32,s16384,d64,bf16,causal,window=511:0", "GROUPS", 2},
        {"b1,h32,s16384,d64,bf16,causal,window=1023:0", "GROUPS", 3},
        {"b1,h32,s16384,d64,bf16,causal,window=1023:0,alibi", "GROUPS", 2},
        {"b8,h16,s2048,d128,fp16,seqused", "BLOCK_N", 128},
        {"b8,h8,s2048,d256,fp16,window=100:0", "BLOCK_N", 64},
        {"b2,h16,s4096,d192,dv128,bf16", "BLOCK_N", 128},
        {"b2,h16,s4096,d256,dv128,bf16", "BLOCK_N", 96},
        {"b4,h16,s4096,d128,bf16,softcap=30", "AHEAD", 4},
        {"b4,h16,s4096,d96,bf16,softcap=30", "AHEAD", 4},
        {"b4,h16,s4096,d128,bf16,softcap=30", "SCHEDULER", 1},
        {"b4,h16,s4096,d128,bf16,causal,softcap=30", "SCHEDULER", 2},
        {"b4,h16,s4096,d128,bf16,causal,softcap=30,strict", "SCHEDULER", 1},
        {"b4,h16,s4096,d128,bf16,causal,softcap=30,alibi", "SCHEDULER", 1},
        {"b1,h16,s16384,d128,bf16,softcap=30,window=1023:0", "AHEAD", 4},
        {"b1,h16,s16384,d128,bf16,softcap=30,window=1023:0", "Q_STAGES", 1},
        {"b1,h16,s16384,d128,bf16,softcap=30,window=511:0", "Q_STAGES", 2},
        {"b4,h16,s4096,d128,bf16,causal,softcap=30", "Q_STAGES", 2},
        {"b4,h16,s4096,d96,bf16,causal,softcap=30", "Q_STAGES", 2},
        {"b4,h16,s4096,d96,bf16,causal,softcap=30", "AHEAD", 4},
        {"b16,h16,s4096,d128,bf16,softcap=30,varlen=1", "AHEAD", 4},
        {"b4,h8,s4096,d256,bf16,softcap=30", "BLOCK_N", 80},
        {"b4,h8,s4096,d256,bf16,causal,softcap=30", "BLOCK_N", 64},
        {"b4,h8,s4096,d256,bf16,softcap=30,alibi", "BLOCK_N", 64},
        {"b1,h8,s16384,d256,bf16,softcap=30,window=4095:0", "BLOCK_N", 64},
        {"b16,h32,s2048,d64,bf16,softcap=30,varlen=1,window=1023:0", "GROUPS", 2},
        {"b16,h8,s4096,d256,bf16,varlen=1,softcap=30", "PINGPONG", 1},
        {"b1,h8,s16384,d256,bf16,softcap=30,window=1023:0", "AHEAD", 4},
        {"b4,h16,s4096,d128,bf16,softcap=30,bias=1xh", "AHEAD", 3},
        {"b4,h16,s4096,d128,bf16,softcap=30,alibi", "AHEAD", 4},
        {"b4,h8,s4096,d256,bf16,causal,softcap=30", "AHEAD", 4},
        {"b2,h8,s1000,d192,dv128,bf16,causal,softcap=30", "AHEAD", 3},
        {"b1,h16,s16384,d96,bf16,causal,window=2047:0", "Q_STAGES", 2},
        {"b4,h16,s4096,d96,bf16,causal,alibi", "Q_STAGES", 1},
        {"b16,h8,s4096,d192,bf16,varlen=1", "PINGPONG", 1},
        {"b16,h8,s4096,d192,bf16,varlen=1", "BLOCK_N", 80},
        {"b4,h32,s1960,d128,bf16,causal,strict", "SCHEDULER", 1},
        {"b4,h32,s4096,d64,bf16,causal,strict", "GROUPS", 3},
        {"b4,h32,s4096,d64,bf16,causal,alibi,strict", "GROUPS", 2},
        {"b4,h32,s4096,d64,bf16,softcap=30", "GROUPS", 3},
        {"b4,h32,s4096,d64,bf16,softcap=30", "Q_STAGES", 2},
        {"b4,h32,s4096,d64,bf16,causal,softcap=30", "Q_STAGES", 1},
        {"b4,h32,s4096,d64,bf16,causal,softcap=30", "GROUPS", 3},
        {"b4,h32,s4096,d64,bf16,softcap=30,alibi", "GROUPS", 2},
        {"b4,h32,s4096,d64,bf16,causal,softcap=30,strict", "GROUPS", 2},
        {"b1,h32,s16384,d64,bf16,softcap=30,window=1023:0", "GROUPS", 3},
        {"b16,h32,s2048,d64,bf16,softcap=30,varlen=1", "GROUPS", 3},
        {"b4,h16,s4096,d128,bf16,causal,softcap=30", "AHEAD", 4},
        {"b4,h8,s4096,d256,bf16,softcap=30", "AHEAD", 4},
        {"b4,h32,s4096,d64,bf16,softcap=30", "AHEAD", 4},
        {"b4,h16,s4096,d128,bf16,mask", "AHEAD", 4},
        {"b4,h8,s4096,d256,bf16,mask", "AHEAD", 4},
        {"b4,h16,s4096,d128,bf16,bias=1xh", "AHEAD", 2},
        {"b1,h16,s16384,d128,bf16,causal,window=511:0", "AHEAD", 4},
        {"b1,h16,s16384,d128,bf16,causal,window=511:0", "Q_STAGES", 2},
        {"b1,h16,s16384,d128,bf16,causal,window=2047:0", "Q_STAGES", 1},
        {"b1,h16,s16384,d128,bf16,causal,window=2047:0", "AHEAD", 2},
        {"b1,h16,s16384,d128,bf16,window=1024:1024", "Q_STAGES", 1},
        {"b1,h32,s16384,d64,bf16,causal,window=511:0", "Q_STAGES", 2},
        {"b1,h32,s16384,d64,bf16,causal,window=1023:0", "Q_STAGES", 1},
        {"b4,h16,s4096,d128,bf16,alibi", "Q_STAGES", 2},
        {"b4,h16,s4096,d128,bf16,causal,alibi", "Q_STAGES", 1},
        {"b4,h32,s4096,d64,bf16,causal,alibi", "Q_STAGES", 1},
        {"b4,h16,s4096,d128,bf16,causal,strict", "Q_STAGES", 2},
        {"b4,h32,s4096,d64,bf16,causal,strict", "Q_STAGES", 1},
        {"b16,h32,s2048,d64,bf16,varlen=1", "Q_STAGES", 1},
        {"b16,h16,s4096,d128,bf16,varlen=1", "Q_STAGES", 2},
        {"b16,h16,s4096,d128,bf16,causal,varlen=1,alibi", "Q_STAGES", 2},
        {"b16,h16,s4096,d128,bf16,varlen=1,window=2000:0", "Q_STAGES", 2},
        {"b16,h16,s4096,d128,bf16,window=1000:1000,alibi", "Q_STAGES", 2},
        {"b16,h8,s4096,d256,bf16,varlen=1,window=100:0", "BLOCK_N", 64},
        {"b4,h16,s4096,d128,bf16,bias=1xh,window=100:0", "AHEAD", 3},
        {"b16,h8,s4096,d256,bf16,varlen=1", "BLOCK_N", 80},
        {"b16,h8,s4096,d256,bf16,varlen=1", "PINGPONG", 0},
        {"b16,h8,s4096,d256,bf16,causal,varlen=1", "BLOCK_N", 80},
        {"b16,h8,s4096,d256,bf16,causal,varlen=1", "PINGPONG", 1},
        {"b1,h8,s16384,d256,bf16,causal,window=2047:0", "BLOCK_N", 80},
        {"b1,h8,s16384,d256,bf16,causal,window=511:0", "BLOCK_N", 64},
        {"b16,h8,s4096,d256,bf16,varlen=1,softcap=30", "BLOCK_N", 80},
        {"b16,h8,s4096,d256,bf16,causal,varlen=1,strict", "BLOCK_N", 64},
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

/* What cannot be computed is refused with the number and its limits; what can is taken. */
static void says_what_it_takes(void **state)
{
    static const struct {
        const char *problem, *reason;
    } asked[] = {
        {"b1,h8,s512,d128,bf16,causal,window=64:0,softcap=30,alibi,sink,seqused,strict,varlen=1", NULL},
        {"b1,h8,s512,d128,bf16,alibi,offset=2147483647", NULL},
        {"b1,h8,s512,d128,bf16,softcap=1e-7", "softcap 1e-07: 1e-6 to 1e6"},
        {"b1,h8,s512,d128,bf16,softcap=30,scale=1e7", "scale 1e+07 with a softcap, ALiBi or a bias: 1e-6 to 1e6"},
        {"b1,h8,s512,d128,bf16,alibi,scale=1e-7", "scale 1e-07 with a softcap, ALiBi or a bias: 1e-6 to 1e6"},
        {"b1,h8,s512,d128,bf16,bias=1xh,scale=1e-7", "scale 1e-07 with a softcap, ALiBi or a bias: 1e-6 to 1e6"},
        {"b1,h8,s512,d128,bf16,bias=bxh,mask", NULL},
        {"b1,h8,sq17,skv512,d128,bf16,mask", NULL},
        {"b1,h8,sq16,skv512,d128,bf16,mask", "seqlen_q 16: more than 16 with a bias or a mask"},
        {"b1,h8,sq1,skv512,d128,bf16,bias=1x1", "seqlen_q 1: more than 16 with a bias or a mask"},
        {"b1,h8,sq16,skv512,d128,bf16", NULL},
        {"b1,h8,s512,d128,bf16,bias=1xh:fp32,mask", NULL},
        {"b1,h8,s512,d128,fp16,softcap=30,bias=1xh:bf16", NULL},
        {"b1,h8,s512,d128,bf16,scale=1e-7", NULL},
        {"b1,h8,s512,d128,bf16,scale=-1", "scale -1: above 0 is needed"},
    };
    attune_target target = h200();
    (void)state;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        attune_problem problem = problem_of(asked[i].problem);
        attune_reason reason = {""};
        assert_int_equal(at_kernel_supports(&at_kernel_wgmma, &problem, &target, &reason), asked[i].reason == NULL);
        assert_string_equal(reason.text, asked[i].reason == NULL ? "" : asked[i].reason);
    }
}

/* A strict problem's rows are mended in the order of turns; where all rows see the same keys there are none. */
static void strict_jobs_go_in_turns(void **state)
{
    attune_problem causal = problem_of("b8,h8,s2048,d128,fp16,causal,strict");
    attune_problem plain = problem_of("b8,h8,s2048,d128,fp16,strict");
    attune_target target = h200();
    attune_config config = {{0}};
    attune_reason reason = {""};
    (void)state;
    set(&config, "GROUPS=2,BLOCK_N=128,Q_STAGES=2,PINGPONG=1,SCHEDULER=2,RESCALE=15,AHEAD=2");
    assert_true(at_kernel_fits(&at_kernel_wgmma, &plain, &target, &config, &reason));
    assert_false(at_kernel_fits(&at_kernel_wgmma, &causal, &target, &config, &reason));
    assert_non_null(strstr(reason.text, "SCHEDULER 2, strict"));
    plain.mask = 1;
    assert_false(at_kernel_fits(&at_kernel_wgmma, &plain, &target, &config, &reason));
    plain.mask = 0;
    assert_true((at_kernel_traits(&at_kernel_wgmma, &plain) & ATTUNE_TRAIT_TAINTS) == 0);
    plain.strict = 0;
    assert_true((at_kernel_traits(&at_kernel_wgmma, &plain) & ATTUNE_TRAIT_TAINTS) != 0);
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

/* Whatever the head dims, there is another config to race the first. */
static void there_is_more_than_one_choice(void **state)
{
    static const char *const problems[] = {
        "b2,h16,s4096,d64,fp16,causal",         "b2,h16,s4096,d96,fp16,causal",
        "b2,h16,s4096,d128,fp16,causal",        "b2,h16,s4096,d192,dv128,bf16,causal",
        "b2,h16,s4096,d256,dv128,bf16",         "b2,h16,s4096,d256,dv32,bf16,causal",
        "b2,h16,s4096,d128,dv192,bf16",         "b2,h16,s4096,d256,fp16,causal",
        "b16,h16,s4096,d160,bf16,varlen=1",     "b16,h16,s4096,d256,bf16,varlen=1",
        "b4,h16,s4096,d96,bf16,window=100:100", "b2,h8,s2048,d256,bf16,mask",
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

/* Texts of evidence and wisdom name parameters that are gone, by the only value that is left of each. */
static void texts_of_before_are_read(void **state)
{
    static const char now[] = "GROUPS=2,BLOCK_N=128,Q_STAGES=2,PINGPONG=1,SCHEDULER=1,RESCALE=15,AHEAD=2";
    static const char *const before[] = {
        "GROUPS=2,BLOCK_N=128,Q_STAGES=2,OVERLAP=1,PINGPONG=1,SCHEDULER=1,RESCALE=15,AHEAD=2",
        "GROUPS=2,BLOCK_N=128,Q_STAGES=2,OVERLAP=1,PINGPONG=1,SCHEDULER=1,RESCALE=15,AHEAD=2,CLUSTER=0,KV_STAGES=0,"
        "EMULATED=0",
    };
    static const char *const gone[] = {"OVERLAP=0", "CLUSTER=2",   "KV_STAGES=4", "EMULATED=1",
                                       "OVERLAP=",  "SCHEDULER=0", "RESCALE=8",   "PAIRS=0"};
    attune_config expected = {{0}};
    (void)state;
    set(&expected, now);
    for (size_t i = 0; i < sizeof before / sizeof before[0]; ++i) {
        attune_config config = {{0}};
        char text[AT_KERNEL_TEXT_MAX];
        set(&config, before[i]);
        assert_memory_equal(&config, &expected, sizeof config);
        assert_ok(at_config_settle(&at_kernel_wgmma, before[i], text));
        assert_string_equal(text, now);
    }
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; ++i) {
        attune_config config = expected;
        assert_int_equal(at_config_parse(&at_kernel_wgmma, gone[i], &config), ATTUNE_INVALID_ARGUMENT);
    }
}

/* The device tests take a config of each value from there. */
static void each_value_has_a_config_of_a_small_problem(void **state)
{
    const attune_problem plain = problem_of("b1,h4,s200,d64,bf16"), causal = problem_of("b1,h4,s200,d64,bf16,causal");
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
            if (!found) {
                fail_msg("%s %d: not found", param->name, (int)param->values[v]);
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
        cmocka_unit_test(features_limit_the_choice),
        cmocka_unit_test(says_what_it_takes),
        cmocka_unit_test(strict_jobs_go_in_turns),
        cmocka_unit_test(forecasts_end),
        cmocka_unit_test(there_is_more_than_one_choice),
        cmocka_unit_test(texts_of_before_are_read),
        cmocka_unit_test(each_value_has_a_config_of_a_small_problem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
