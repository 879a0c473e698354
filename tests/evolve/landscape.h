/* A synthetic kernel and its landscape: five parameters whose values nobody else shares, combinations that the
 * descriptor refuses, a region that only a compiler refuses, times with one best candidate and, if wanted, noise. */
#ifndef TESTS_EVOLVE_LANDSCAPE_H
#define TESTS_EVOLVE_LANDSCAPE_H

#include <math.h>

#include "base/cm.h"

#include "evolve/strategy.h"

enum { TILE, KEYS, STAGES, UNROLL, ORDER, IDLE, LANDSCAPE_PARAMS };
enum { LANDSCAPE_TOTAL = 5 * 5 * 4 * 4 * 2 }; /* combinations */

static const int32_t landscape_tile[] = {8, 16, 32, 64, 128};
static const int32_t landscape_keys[] = {16, 32, 64, 96, 128};
static const int32_t landscape_stages[] = {1, 2, 3, 4};
static const int32_t landscape_unroll[] = {1, 2, 4, 8};
static const int32_t landscape_order[] = {0, 1};
static const int32_t landscape_idle[] = {7};
static const attune_param landscape_params[LANDSCAPE_PARAMS] = {
    [TILE] = {"TILE", landscape_tile, 5, 0},       [KEYS] = {"KEYS", landscape_keys, 5, 0},
    [STAGES] = {"STAGES", landscape_stages, 4, 0}, [UNROLL] = {"UNROLL", landscape_unroll, 4, 0},
    [ORDER] = {"ORDER", landscape_order, 2, 0},    [IDLE] = {"IDLE", landscape_idle, 1, 0},
};

static const attune_capability landscape_can[] = {{.ops = ATTUNE_BIT(ATTUNE_FORWARD),
                                                   .dtypes = ATTUNE_BIT(ATTUNE_FP32),
                                                   .features = ATTUNE_FEATURES_FORWARD,
                                                   .offsets = ATTUNE_OFFSETS_FORWARD,
                                                   .biases = ATTUNE_BIASES_FORWARD,
                                                   .layouts = ATTUNE_LAYOUTS_FORWARD,
                                                   .head_dim_qk = {1, 256, 1},
                                                   .head_dim_v = {1, 256, 1},
                                                   .align = 1,
                                                   .arch_most = ATTUNE_ANY,
                                                   .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)}};

/* Refuses for two reasons: 128 x 128 whatever the rest, and four stages of large tiles. */
static bool landscape_valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                            attune_reason *reason)
{
    (void)problem;
    (void)target;
    int32_t cells = config->value[TILE] * config->value[KEYS];
    if (cells > 96 * 128) {
        return attune_refuse(reason, "a tile of %d cells: at most %d are allowed", cells, 96 * 128);
    }
    if (config->value[STAGES] == 4 && config->value[TILE] > 32) {
        return attune_refuse(reason, "STAGES 4 with TILE %d: at most 32", config->value[TILE]);
    }
    return true;
}

static void landscape_resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                                attune_resources *resources)
{
    (void)problem;
    (void)target;
    (void)config;
    resources->scratch_bytes = 1024;
    resources->workspace = attune_term_const(0);
}

/* Good ideas, none the best. */
static bool landscape_heuristic(const attune_problem *problem, const attune_target *target, int32_t index,
                                attune_config *config)
{
    static const attune_config order[] = {
        {{32, 64, 2, 4, 0, 7}}, {{64, 64, 2, 2, 0, 7}}, {{16, 32, 1, 4, 1, 7}}, {{128, 128, 1, 1, 0, 7}}};
    (void)problem;
    (void)target;
    if (index < 0 || index >= 4) {
        return false;
    }
    *config = order[index];
    return true;
}

static const attune_kernel landscape_kernel = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CPU,
    .name = "landscape",
    .param_count = LANDSCAPE_PARAMS,
    .params = landscape_params,
    .can = landscape_can,
    .can_count = 1,
    .valid = landscape_valid,
    .resources = landscape_resources,
    .heuristic = landscape_heuristic,
    .attend = {(attune_attend)1}, /* a tier that is never called */
};

static inline at_space *landscape_open(void)
{
    attune_problem problem;
    attune_target target = {.size = sizeof target, .kind = ATTUNE_TARGET_CPU, .threads = 1};
    at_space *space;
    assert_ok(attune_problem_parse("b1,h1,s64,d64,fp32", &problem));
    assert_ok(at_space_open(&landscape_kernel, &problem, &target, "", &space));
    return space;
}

/* A compiler that gives up on much unrolling of long key tiles. */
static inline bool landscape_refused(const at_space *space, int candidate)
{
    attune_config config;
    at_space_config(space, candidate, &config);
    return config.value[UNROLL] >= 4 && config.value[KEYS] >= 96;
}

/* Logarithm of a time: a bowl with its bottom, 0, at TILE 64, KEYS 96, STAGES 3, UNROLL 2, ORDER 1; bent, as the best
 * KEYS depends on TILE. */
static inline double landscape_of(const attune_config *config)
{
    double tile = log2(config->value[TILE] / 64.0);
    double keys = log2(config->value[KEYS] / 96.0) + 0.5 * tile;
    double stages = config->value[STAGES] - 3;
    double unroll = log2(config->value[UNROLL] / 2.0);
    return 0.06 * tile * tile + 0.05 * keys * keys + 0.03 * stages * stages + 0.02 * unroll * unroll +
           0.04 * (config->value[ORDER] == 0);
}

static inline double landscape_log_us(const at_space *space, int candidate)
{
    attune_config config;
    at_space_config(space, candidate, &config);
    return landscape_of(&config);
}

/* What a machine with this noise (of logarithms) would tell. */
static inline at_tried landscape_try(const at_space *space, int candidate, double noise, at_random *random)
{
    at_tried tried = {.candidate = candidate};
    if (landscape_refused(space, candidate)) {
        tried.refused = AT_REFUSED_COMPILE;
        return tried;
    }
    tried.log_us = landscape_log_us(space, candidate) + noise * at_random_normal(random);
    return tried;
}

#endif
