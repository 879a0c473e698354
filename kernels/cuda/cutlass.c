/* cutlass: descriptor of Q K^T, softmax and P V by CUTLASS's templates, built ahead. The source says how it works. */
#include "cutlass.h"

#include "cublas.h"

enum { OPCLASS, PARAMS };

enum { SIMT, TENSOR };

static const int32_t opclass_values[] = {SIMT, TENSOR};

static const attune_param params[PARAMS] = {[OPCLASS] = {"OPCLASS", opclass_values, 2, 0}};

enum { WARP = 32, DIM_STEP = 8 };

static bool tensor_cores(const attune_config *config)
{
    return config->value[OPCLASS] == TENSOR;
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)target;
    if (problem->dtype == ATTUNE_FP32 && tensor_cores(config)) {
        return attune_refuse(reason, "OPCLASS 1 with dtype fp32: tensor cores would round it to tf32");
    }
    if (problem->dtype == ATTUNE_BF16 && !tensor_cores(config)) {
        return attune_refuse(reason, "OPCLASS 0 with dtype bf16: CUTLASS has no scalar multiply-add for it");
    }
    return true;
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    (void)target;
    *out =
        (attune_resources){.threads = AT_CUTLASS_THREADS,
                           .smem_bytes = AT_CUTLASS_SMEM(tensor_cores(config), problem->dtype == ATTUNE_FP32 ? 4 : 2),
                           .scratch_bytes = 0,
                           .workspace = at_cublas_scores_bytes()};
}

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    static const attune_config order[] = {{{TENSOR}}, {{SIMT}}};
    for (size_t i = 0; i < sizeof order / sizeof *order; ++i) {
        if (valid(problem, target, &order[i], NULL) && index-- == 0) {
            *config = order[i];
            return true;
        }
    }
    return false;
}

/* The image's three entries for each pair of arithmetic and type. */
static const char *entry_of(int32_t step, const attune_problem *problem, const attune_config *config)
{
    static const char *const names[][3] = {
        {"cutlass_scores_simt_fp32", "cutlass_softmax_simt_fp32", "cutlass_values_simt_fp32"},
        {"cutlass_scores_simt_fp16", "cutlass_softmax_simt_fp16", "cutlass_values_simt_fp16"},
        {"cutlass_scores_tensor_fp16", "cutlass_softmax_tensor_fp16", "cutlass_values_tensor_fp16"},
        {"cutlass_scores_tensor_bf16", "cutlass_softmax_tensor_bf16", "cutlass_values_tensor_bf16"},
    };
    int32_t pair = problem->dtype == ATTUNE_FP32 ? 0 : problem->dtype == ATTUNE_BF16 ? 3 : tensor_cores(config) ? 2 : 1;
    return names[pair][step];
}

static attune_term rows_of_heads(void)
{
    return attune_term_mul(attune_term_size(ATTUNE_SIZE_HEADS_Q), attune_term_size(ATTUNE_SIZE_BATCH));
}

/* A block for each tile of an m x n product of every query head. */
static attune_term tiles(attune_term m, attune_term n)
{
    attune_term tile = attune_term_const(AT_CUTLASS_TILE);
    return attune_term_mul(attune_term_mul(attune_term_ceil_div(m, tile), attune_term_ceil_div(n, tile)),
                           rows_of_heads());
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    (void)target;
    attune_term queries = attune_term_size(ATTUNE_SIZE_SEQLEN_Q);
    attune_term rows = attune_term_mul(queries, rows_of_heads());
    const attune_term grid[] = {tiles(queries, attune_term_size(ATTUNE_SIZE_SEQLEN_KV)),
                                attune_term_ceil_div(rows, attune_term_const(AT_CUTLASS_THREADS / WARP)),
                                tiles(queries, attune_term_const(problem->head_dim_v))};
    *out = (attune_steps){.count = 3};
    for (int32_t i = 0; i < out->count; ++i) {
        attune_step_kernel kernel = {.entry = entry_of(i, problem, config),
                                     .grid = {grid[i], attune_term_const(1), attune_term_const(1)},
                                     .block = {AT_CUTLASS_THREADS, 1, 1},
                                     .cluster = {1, 1, 1},
                                     .smem = attune_term_const(0)};
        out->step[i] = (attune_step){.kind = ATTUNE_STEP_KERNEL, .as = {.kernel = kernel}};
    }
}

static const attune_shipped shipped[] = {
    {"b1,h8,s512,d64,fp16", ""},    {"b1,h8,s512,d64,fp16", "OPCLASS=0"},
    {"b8,h16,s2048,d128,fp16", ""}, {"b2,h8,hkv2,s300,d80,dv48,bf16,causal", ""},
    {"b1,h8,s512,d64,fp32", ""},    {NULL, NULL},
};

static const attune_capability can[] = {
    {.ops = ATTUNE_BIT(ATTUNE_FORWARD),
     .dtypes = ATTUNE_DTYPES_FORWARD,
     .features = ATTUNE_FEATURE_CAUSAL,
     .offsets = ATTUNE_BIT(ATTUNE_OFFSET_BOTTOM_RIGHT), /* as with every kernel of GEMMs: cublas.h says why */
     .layouts = ATTUNE_LAYOUTS_FORWARD,
     .head_dim_qk = {DIM_STEP, 256, DIM_STEP},
     .head_dim_v = {DIM_STEP, 256, DIM_STEP},
     .align = 16,
     .arch_least = 80, /* the image has code for some architectures, and PTX for all that come after */
     .arch_most = ATTUNE_ANY,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)},
};

extern const attune_kernel at_kernel_cutlass;
const attune_kernel at_kernel_cutlass = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "cutlass",
    .summary = "Q K^T and P V by CUTLASS's templates in plain kernels, built ahead; S is in the workspace",
    .traits = ATTUNE_TRAIT_TAINTS,
    .param_count = PARAMS,
    .params = params,
    .shipped = shipped,
    .can = can,
    .can_count = sizeof can / sizeof can[0],
    .valid = valid,
    .resources = resources,
    .heuristic = heuristic,
    .steps = steps,
    .image = "cutlass.fatbin",
};
