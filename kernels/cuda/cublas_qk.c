/* cublas_qk: descriptor of Q K^T by GEMM and a fused softmax and P V. */
#include "cublas.h"
#include "launch.h"

enum { WARPS, BLOCK_N, FRAGMENT_M, TENSOR_CORES, PARAMS };

static const int32_t warps_values[] = {2, 4, 8};
static const int32_t block_n_values[] = {32, 64, 128};
static const int32_t fragment_m_values[] = {16};
static const int32_t tensor_cores_values[] = {1};

static const attune_param params[PARAMS] = {
    [WARPS] = {"WARPS", warps_values, 3, 0},
    [BLOCK_N] = {"BLOCK_N", block_n_values, 3, 0},
    [FRAGMENT_M] = {"FRAGMENT_M", fragment_m_values, 1, 0},
    [TENSOR_CORES] = {"TENSOR_CORES", tensor_cores_values, 1, 0},
};

enum { ROWS_WARP = 16, DIM_STEP = 16, DIM_MAX = 256 };

/* sizeof(Shared) of the source: V, the strips of logits, a factor, a maximum and a sum for each row. */
static int32_t smem_of(const attune_problem *problem, const attune_config *config)
{
    int32_t rows = config->value[WARPS] * ROWS_WARP;
    int32_t block_n = config->value[BLOCK_N];
    return 2 * block_n * (problem->head_dim_v + 8) + (int32_t)sizeof(float) * rows * (block_n + 4 + 1 + 2);
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)target;
    int32_t held = (problem->head_dim_v + config->value[BLOCK_N]) / 2 + 80;
    int32_t given = 2048 / config->value[WARPS];
    given = given < 255 ? given : 255;
    if (held > given) {
        return attune_refuse(reason, "WARPS %d and BLOCK_N %d leave %d registers a thread: about %d are needed",
                             config->value[WARPS], config->value[BLOCK_N], given, held);
    }
    return true;
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    (void)target;
    *out = (attune_resources){.threads = config->value[WARPS] * 32,
                              .smem_bytes = smem_of(problem, config),
                              .scratch_bytes = 0,
                              .workspace = at_cublas_scores_bytes()};
}

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    static const attune_config order[] = {{{4, 128, 16, 1}}, {{2, 128, 16, 1}}, {{2, 64, 16, 1}},
                                          {{4, 64, 16, 1}},  {{4, 32, 16, 1}},  {{2, 32, 16, 1}}};
    for (size_t i = 0; i < sizeof order / sizeof *order; ++i) {
        if (valid(problem, target, &order[i], NULL) && index-- == 0) {
            *config = order[i];
            return true;
        }
    }
    return false;
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    (void)target;
    attune_step_kernel kernel = at_launch_by_rows("fwd_cublas_qk", config->value[WARPS] * ROWS_WARP,
                                                  config->value[WARPS] * 32, smem_of(problem, config));
    *out = (attune_steps){
        .count = 2, .step = {at_cublas_scores_step(problem), {.kind = ATTUNE_STEP_KERNEL, .as = {.kernel = kernel}}}};
}

static const attune_shipped shipped[] = {
    {"b1,h8,s512,d64,fp16", ""},
    {"b8,h16,s2048,d128,fp16", ""},
    {"b2,h8,hkv2,s300,d80,dv48,bf16,causal,softcap=30,alibi,sink", ""},
    {NULL, NULL},
};

/* Head dims are those of the source, which has whole fragments of them as wmma has. */
#define ROW(mask)                                                                                                      \
    {                                                                                                                  \
        mask, .dtypes = ATTUNE_DTYPES_HALF, .layouts = ATTUNE_LAYOUTS_FORWARD,                                         \
              .head_dim_qk = {DIM_STEP, DIM_MAX, DIM_STEP}, .head_dim_v = {DIM_STEP, DIM_MAX, DIM_STEP}, .align = 16,  \
              .arch_least = 80, .arch_most = ATTUNE_ANY,                                                               \
              .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL) | ATTUNE_BIT(ATTUNE_STEP_GEMM)                                   \
    }

static const attune_capability can[] = {ROW(AT_CUBLAS_CAUSAL), ROW(AT_CUBLAS_UNMASKED)};

extern const attune_kernel at_kernel_cublas_qk;
const attune_kernel at_kernel_cublas_qk = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "cublas_qk",
    .summary = "Q K^T by cuBLAS, softmax and P V fused in one kernel; S is in the workspace",
    .traits = ATTUNE_TRAIT_TAINTS | ATTUNE_TRAIT_BATCH_VARIANT, /* cuBLAS may choose by batch count */
    .param_count = PARAMS,
    .params = params,
    .shipped = shipped,
    .can = can,
    .can_count = sizeof can / sizeof can[0],
    .valid = valid,
    .resources = resources,
    .heuristic = heuristic,
    .steps = steps,
    .source = "cublas_qk.cu",
};
