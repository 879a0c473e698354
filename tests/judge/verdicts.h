/* Verdicts made of simulated sessions: what a gate would have seen of a candidate of known speed. */
#ifndef TESTS_GATE_VERDICTS_H
#define TESTS_GATE_VERDICTS_H

#include "base/cm.h"
#include "judge/verdict.h"
#include "measure/simulated.h"

#define VERDICTS_KERNEL "tiled:BLOCK_M=64,BLOCK_N=64"

/* What is to be simulated. */
typedef struct scene {
    double peer[2]; /* times of the peers warm and cold */
    double us;      /* the candidate's */
    double twin;    /* as many times as long as the second peer's, of which it is the twin */
    double cold;    /* added to the candidate's time when cold */
    int pairs, processes;
    bool quick;
    int wrong_arm, wrong_at; /* a wrong timed output */
    double slope_off;
} scene;

static inline scene scene_of(double flash_us, double cudnn_us)
{
    return (scene){.peer = {flash_us, cudnn_us}, .us = 10, .twin = 1, .pairs = 20, .processes = 8};
}

static inline void verdicts_session(const scene *of, at_verdict *verdict)
{
    static const at_session_part arms[] = {{VERDICTS_KERNEL, AT_PART_CANDIDATE, 0},
                                           {"torch:flash", AT_PART_PEER, 0},
                                           {"cudnn", AT_PART_PEER, 0},
                                           {"cudnn again", AT_PART_TWIN, 2}};
    simulated machine = {.seed = 3,
                         .calls = 10,
                         .process = 0.01,
                         .block = 0.01,
                         .wrong_arm = of->wrong_arm,
                         .wrong_at = of->wrong_at,
                         .slope_off = of->slope_off};
    for (int mode = 0; mode < AT_MODE_COUNT; ++mode) {
        machine.us[0][mode] = of->us + (mode == AT_MODE_COLD ? of->cold : 0);
        machine.us[1][mode] = of->peer[0];
        machine.us[2][mode] = of->peer[1];
        machine.us[3][mode] = of->peer[1] * of->twin;
    }
    at_session_policy policy;
    at_session session;
    at_executor executor = simulated_executor(&machine);
    at_session_policy_init(&policy, 7);
    policy.pairs = of->pairs;
    policy.processes = of->processes;
    policy.quick = of->quick;
    policy.warmup_s = policy.warmup_max_s = policy.sustained_s = 0.01;
    assert_ok(at_session_open(&policy, arms, 4, &session));
    attune_status status = at_session_run(&session, &executor);
    verdict->stage[AT_STAGE_SPEED] = (at_stage_run){.ran = true, .status = status, .seconds = 3.5};
    (void)snprintf(verdict->stage[AT_STAGE_SPEED].detail, AT_SENTENCE_MAX, "%s",
                   status == ATTUNE_OK ? "warm and cold" : attune_last_detail());
    assert_ok(at_verdict_session(verdict, &session, NULL, 0));
    at_session_close(&session);
}

static inline void verdicts_suite(at_suite_result *suite)
{
    *suite = (at_suite_result){.executed = 100, .exact = 40, .kernel = VERDICTS_KERNEL};
    suite->margins = (at_margins){.error = 0.31, .l2 = 0.5, .cosine = 0.2, .lse = 0.01, .max_error = 6.1e-4};
    suite->bias = (at_bias){.error = 1e-6,
                            .error_naive = 2e-6,
                            .reference_square = 100,
                            .cross = 100.0001,
                            .cross_naive = 100.0002,
                            .reference_absolute = 80,
                            .error_square = 1e-9,
                            .cross_square = 1e-9,
                            .count = 4096};
    suite->bias_normal = suite->bias;
}

static inline at_verdict *verdicts_make(const scene *of)
{
    static const attune_target target = {.size = sizeof target,
                                         .kind = ATTUNE_TARGET_CUDA,
                                         .model = "NVIDIA_H200",
                                         .arch = 90,
                                         .arch_features = 1,
                                         .sm_count = 132,
                                         .smem_block_bytes = 49152,
                                         .smem_optin_bytes = 232448,
                                         .smem_sm_bytes = 233472,
                                         .regs_sm = 65536,
                                         .threads_sm = 2048,
                                         .memory_l2_bytes = 62914560,
                                         .driver = 13000,
                                         .compiler = 13000};
    at_verdict *verdict;
    assert_ok(at_verdict_create(&verdict));
    (void)snprintf(verdict->kernel, sizeof verdict->kernel, VERDICTS_KERNEL);
    (void)snprintf(verdict->problem, sizeof verdict->problem, "b1,h8,s512,d64,fp16");
    (void)snprintf(verdict->when, sizeof verdict->when, "2026-11-21T09:30:00Z");
    verdict->options = (at_verdict_options){.must = 0.95, .cases = 100, .seed = UINT64_MAX, .quick = of->quick};
    verdict->target = target;
    verdict->version_count = 2;
    verdict->version[0] = (at_version){"attune", "0.1.0"};
    verdict->version[1] = (at_version){"pytorch", "2.11.0+cu130"};
    verdict->build = (at_build_facts){
        .compiler = "nvrtc 13.0", .threads = 128, .registers = 96, .smem_bytes = 40960, .blocks_sm = 5};
    memset(verdict->build.source, 'a', AT_DIGEST_TEXT_MAX - 1);
    memset(verdict->build.cubin, 'b', AT_DIGEST_TEXT_MAX - 1);
    for (int stage = 0; stage < AT_STAGE_SPEED; ++stage) {
        verdict->stage[stage] = (at_stage_run){.ran = true, .seconds = 0.25, .detail = "looked at"};
    }
    verdict->wrong_kernel = (at_stage_run){.ran = true, .status = ATTUNE_WRONG_RESULT, .detail = "rule 1"};
    verdicts_suite(&verdict->suite);
    verdicts_session(of, verdict);
    for (int arm = 0; arm < verdict->session.arm_count; ++arm) {
        (void)snprintf(verdict->arm[arm].account, AT_SENTENCE_MAX, "account of arm %d", arm);
    }
    return verdict;
}

#endif
