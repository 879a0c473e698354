/* The descriptor of wmma and of its sibling that sums in fp16: each includes this and then defines its `kind`. */
#ifndef KERNELS_CUDA_WMMA_H
#define KERNELS_CUDA_WMMA_H

#include "launch.h"

/* Everything that depends on how sums are carried. */
typedef struct wmma_kind {
    const char *entry;
    bool acc16;
} wmma_kind;

static const wmma_kind kind;

enum { WARPS, BLOCK_N, FRAGMENT_M, TENSOR_CORES, SPLITS, STAGES, LAZY, PARAMS };

static const int32_t warps_values[] = {1, 2, 4, 8};
static const int32_t block_n_values[] = {32, 64, 128};
static const int32_t fragment_m_values[] = {8, 16, 32};
static const int32_t tensor_cores_values[] = {0, 1};
static const int32_t splits_values[] = {1, 2, 4, 8};
static const int32_t stages_values[] = {1, 2, 3};
static const int32_t lazy_values[] = {0, 8};

static const attune_param params[PARAMS] = {
    [WARPS] = {"WARPS", warps_values, 4, 0},
    [BLOCK_N] = {"BLOCK_N", block_n_values, 3, 0},
    [FRAGMENT_M] = {"FRAGMENT_M", fragment_m_values, 3, 0},
    [TENSOR_CORES] = {"TENSOR_CORES", tensor_cores_values, 2, 0},
    [SPLITS] = {"SPLITS", splits_values, 4, 0},
    [STAGES] = {"STAGES", stages_values, 3, 0},
    [LAZY] = {"LAZY", lazy_values, 2, 0},
};

enum { DIM_STEP = 16, DIM_MAX = 256, REGISTERS_MAX = 255, WARPS_MAX = 16 };

static int32_t warp_rows(const attune_config *config)
{
    return config->value[FRAGMENT_M] == 32 ? 32 : 16;
}

static int32_t fragment_n(const attune_config *config)
{
    return 256 / config->value[FRAGMENT_M];
}

static int32_t block_m(const attune_config *config)
{
    return config->value[WARPS] * warp_rows(config);
}

static int32_t warps_of(const attune_config *config)
{
    return config->value[WARPS] * config->value[SPLITS];
}

/* sizeof(Shared) of the source: Q; for each split K, V, the strips of its warps, maxima and sums. */
static int32_t smem_of(const attune_problem *problem, const attune_config *config)
{
    int32_t block_n = config->value[BLOCK_N];
    int32_t rows = block_m(config);
    int32_t pitch_qk = problem->head_dim_qk + 8;
    int32_t keys = config->value[STAGES] * block_n * (pitch_qk + problem->head_dim_v + 8);
    int32_t sums = rows * (block_n + (kind.acc16 ? 8 : 4)) + rows;
    int32_t shares = rows * (int32_t)(2 * sizeof(float));
    return 2 * rows * pitch_qk + config->value[SPLITS] * (2 * keys + (kind.acc16 ? 2 : 4) * sums + shares);
}

static const attune_config smallest = {{2, 32, 16, 1, 1, 1}};

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    return at_has_shared_memory(target, smem_of(problem, &smallest), reason);
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)target;
    int32_t columns = fragment_n(config);
    if (problem->head_dim_v % columns != 0) {
        return attune_refuse(reason, "FRAGMENT_M %d has %d columns: head_dim_v %d is no multiple",
                             config->value[FRAGMENT_M], columns, problem->head_dim_v);
    }
    if (!config->value[TENSOR_CORES] &&
        (config->value[SPLITS] > 1 || config->value[STAGES] > 1 || config->value[LAZY] > 0)) {
        return attune_refuse(reason, "TENSOR_CORES 0 is for comparing: SPLITS 1, STAGES 1 and LAZY 0");
    }
    if (kind.acc16 && config->value[LAZY] > 0) {
        return attune_refuse(reason, "LAZY %d: weights up to 2^%d are too large for fp16 sums", config->value[LAZY],
                             config->value[LAZY]);
    }
    if (kind.acc16 && (!config->value[TENSOR_CORES] || config->value[FRAGMENT_M] == 8)) {
        return attune_refuse(reason, "fp16 sums need TENSOR_CORES 1 and FRAGMENT_M 16 or 32");
    }
    if (warps_of(config) > WARPS_MAX) {
        return attune_refuse(reason, "WARPS * SPLITS = %d warps: at most %d", warps_of(config), WARPS_MAX);
    }
    /* Registers a thread holds at least: O, the logits (as fragments, then as numbers), and about seventy besides. */
    int32_t rows = warp_rows(config);
    int32_t held = rows * problem->head_dim_v / (kind.acc16 ? 64 : 32) + rows * config->value[BLOCK_N] / 32 + 72;
    int32_t given = 65536 / (warps_of(config) * 32);
    if (held > (given < REGISTERS_MAX ? given : REGISTERS_MAX)) {
        return attune_refuse(
            reason, "WARPS * SPLITS %d and BLOCK_N %d leave %d registers a thread: about %d are needed",
            warps_of(config), config->value[BLOCK_N], given < REGISTERS_MAX ? given : REGISTERS_MAX, held);
    }
    return true;
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    (void)target;
    *out = at_block_resources(warps_of(config) * 32, smem_of(problem, config));
}

static const attune_config large_first[] = {
    {{4, 32, 32, 1, 1, 1}}, {{4, 64, 16, 1, 1, 1}}, {{8, 64, 16, 1, 1, 1}}, {{4, 32, 16, 1, 1, 1}},
    {{2, 64, 16, 1, 1, 1}}, {{2, 32, 16, 1, 1, 1}}, {{2, 64, 32, 1, 1, 1}},
};
static const attune_config small_first[] = {
    {{2, 64, 16, 1, 4, 2}}, {{2, 64, 16, 1, 4, 1}}, {{2, 64, 16, 1, 2, 2}},
    {{2, 64, 16, 1, 2, 1}}, {{2, 32, 16, 1, 2, 1}}, {{2, 64, 16, 1, 1, 1}},
    {{4, 64, 16, 1, 1, 1}}, {{2, 32, 16, 1, 1, 1}}, {{4, 32, 16, 1, 1, 1}},
};

static bool fits(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    return valid(problem, target, config, NULL) && smem_of(problem, config) <= target->smem_optin_bytes;
}

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    return at_is_large(problem, target)
               ? at_fitting(large_first, AT_COUNT(large_first), fits, problem, target, index, config)
               : at_fitting(small_first, AT_COUNT(small_first), fits, problem, target, index, config);
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    (void)target;
    *out = at_follow_by_rows(kind.entry, block_m(config), warps_of(config) * 32, smem_of(problem, config));
}

#endif
