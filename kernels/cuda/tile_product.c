/* tile_product: descriptor of one tile of Q K^T by one block. It computes no attention and is in no catalogue:
 * `attune bench --tile` loads it by itself. */
#include "attune/kernel.h"

enum { TILE_M, TILE_N, FRAGMENT_M, TENSOR_CORES, PARAMS };

static const int32_t tile_m_values[] = {32};
static const int32_t tile_n_values[] = {32, 64};
static const int32_t fragment_m_values[] = {16};
static const int32_t tensor_cores_values[] = {0, 1};

static const attune_param params[PARAMS] = {
    [TILE_M] = {"TILE_M", tile_m_values, 1, 0},
    [TILE_N] = {"TILE_N", tile_n_values, 2, 0},
    [FRAGMENT_M] = {"FRAGMENT_M", fragment_m_values, 1, 0},
    [TENSOR_CORES] = {"TENSOR_CORES", tensor_cores_values, 2, 0},
};

enum { ROWS = 32, FRAGMENT = 16, WARP = 32, DIM_MAX = 128 };

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    if (target->arch < 80) {
        return attune_refuse(reason, "arch sm_%d: sm_80 or later is needed", target->arch);
    }
    if (problem->dtype != ATTUNE_FP16 || problem->seqlen_q != ROWS ||
        (problem->seqlen_kv != 32 && problem->seqlen_kv != 64)) {
        return attune_refuse(reason, "seqlens %lld and %lld: 32 and 32 or 64 of fp16 are one tile",
                             (long long)problem->seqlen_q, (long long)problem->seqlen_kv);
    }
    if (problem->head_dim_qk % FRAGMENT != 0 || problem->head_dim_qk > DIM_MAX) {
        return attune_refuse(reason, "head_dim_qk %d: a multiple of %d up to %d is needed", problem->head_dim_qk,
                             FRAGMENT, DIM_MAX);
    }
    return true;
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)target;
    return problem->seqlen_kv == config->value[TILE_N] ||
           attune_refuse(reason, "TILE_N %d: seqlen_kv is %lld", config->value[TILE_N], (long long)problem->seqlen_kv);
}

static int32_t threads_of(const attune_config *config)
{
    return config->value[TILE_M] / FRAGMENT * (config->value[TILE_N] / FRAGMENT) * WARP;
}

/* sizeof(Shared) of the source. */
static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    (void)target;
    int32_t m = config->value[TILE_M];
    int32_t n = config->value[TILE_N];
    *out = (attune_resources){.threads = threads_of(config),
                              .smem_bytes = 2 * (m + n) * (problem->head_dim_qk + 8) + 4 * m * (n + 4),
                              .scratch_bytes = 0,
                              .workspace = attune_term_const((int64_t)sizeof(float) * m * n)};
}

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    (void)target;
    *config = (attune_config){{ROWS, (int32_t)problem->seqlen_kv, FRAGMENT, 1 - index}};
    return index < 2;
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    (void)problem, (void)target;
    attune_step_kernel kernel = {.entry = "tile_product",
                                 .grid = {attune_term_const(1), attune_term_const(1), attune_term_const(1)},
                                 .block = {threads_of(config), 1, 1},
                                 .cluster = {1, 1, 1},
                                 .smem = attune_term_const(0)};
    *out = (attune_steps){.count = 1, .step = {{.kind = ATTUNE_STEP_KERNEL, .as = {.kernel = kernel}}}};
}

static const attune_shipped shipped[] = {
    {"b1,h1,sq32,skv32,d64,fp16", ""},
    {"b1,h1,sq32,skv32,d64,fp16", "TILE_M=32,TILE_N=32,FRAGMENT_M=16,TENSOR_CORES=0"},
    {"b1,h1,sq32,skv64,d64,fp16", ""},
    {"b1,h1,sq32,skv64,d64,fp16", "TILE_M=32,TILE_N=64,FRAGMENT_M=16,TENSOR_CORES=0"},
    {NULL, NULL},
};

extern const attune_kernel at_kernel_tile_product;
const attune_kernel at_kernel_tile_product = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "tile_product",
    .summary = "one tile of Q K^T by one block, for measuring what a product alone costs",
    .traits = ATTUNE_TRAIT_NAMED_ONLY,
    .param_count = PARAMS,
    .params = params,
    .shipped = shipped,
    .supports = supports,
    .valid = valid,
    .resources = resources,
    .heuristic = heuristic,
    .steps = steps,
    .source = "tile_product.cu",
};
