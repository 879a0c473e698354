/* cublas: descriptor of Q K^T by GEMM, a softmax in place, P V by GEMM. The source says how the softmax works. */
#include "cublas.h"

enum { ROWS, PARAMS };

static const int32_t rows_values[] = {1, 2, 4, 8};

static const attune_param params[PARAMS] = {[ROWS] = {"ROWS", rows_values, 4, 0}};

enum { WARP = 32, ROUND = 8 };

/* seqlen_kv rounded up: a row of S. */
static attune_term pitch(void)
{
    return attune_term_mul(attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_SEQLEN_KV), attune_term_const(ROUND)),
                           attune_term_const(ROUND));
}

static attune_term head_pitch(void)
{
    return attune_term_mul(pitch(), attune_term_size(ATTUNE_SIZE_SEQLEN_Q));
}

static attune_term batch_pitch(void)
{
    return attune_term_mul(head_pitch(), attune_term_size(ATTUNE_SIZE_HEADS_Q));
}

attune_term at_cublas_scores_bytes(void)
{
    attune_term elements = attune_term_mul(batch_pitch(), attune_term_size(ATTUNE_SIZE_BATCH));
    return attune_term_mul(elements, attune_term_const(sizeof(float)));
}

attune_operand at_cublas_scores(attune_dtype dtype)
{
    attune_term times = attune_term_const(dtype == ATTUNE_FP32 ? 1 : 2);
    return (attune_operand){.role = -1,
                            .dtype = dtype,
                            .offset_bytes = attune_term_const(0),
                            .row_stride = attune_term_mul(pitch(), times),
                            .head_stride = attune_term_mul(head_pitch(), times),
                            .batch_stride = attune_term_mul(batch_pitch(), times)};
}

attune_step at_cublas_scores_step(const attune_problem *problem)
{
    attune_step_gemm gemm = {.a = {.role = ATTUNE_Q, .dtype = (int32_t)problem->dtype},
                             .b = {.role = ATTUNE_K, .dtype = (int32_t)problem->dtype},
                             .c = at_cublas_scores(ATTUNE_FP32),
                             .m = attune_term_size(ATTUNE_SIZE_SEQLEN_Q),
                             .n = attune_term_size(ATTUNE_SIZE_SEQLEN_KV),
                             .k = attune_term_const(problem->head_dim_qk),
                             .transpose_b = 1,
                             .scaled = 0};
    return (attune_step){.kind = ATTUNE_STEP_GEMM, .as = {.gemm = gemm}};
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)problem, (void)target, (void)config, (void)reason;
    return true;
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    (void)problem, (void)target;
    *out = (attune_resources){.threads = config->value[ROWS] * WARP,
                              .smem_bytes = 0,
                              .scratch_bytes = 0,
                              .workspace = at_cublas_scores_bytes()};
}

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    static const int32_t order[] = {8, 4, 2, 1};
    (void)problem, (void)target;
    if (index >= (int32_t)(sizeof order / sizeof *order)) {
        return false;
    }
    *config = (attune_config){{order[index]}};
    return true;
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    (void)target;
    attune_term rows =
        attune_term_mul(attune_term_mul(attune_term_size(ATTUNE_SIZE_BATCH), attune_term_size(ATTUNE_SIZE_HEADS_Q)),
                        attune_term_size(ATTUNE_SIZE_SEQLEN_Q));
    attune_step_kernel softmax = {.entry = "softmax_cublas",
                                  .grid = {attune_term_ceil_div(rows, attune_term_const(config->value[ROWS])),
                                           attune_term_const(1), attune_term_const(1)},
                                  .block = {config->value[ROWS] * WARP, 1, 1},
                                  .cluster = {1, 1, 1},
                                  .smem = attune_term_const(0)};
    attune_step_gemm values = {.a = at_cublas_scores(problem->dtype),
                               .b = {.role = ATTUNE_V, .dtype = (int32_t)problem->dtype},
                               .c = {.role = ATTUNE_O, .dtype = (int32_t)problem->dtype},
                               .m = attune_term_size(ATTUNE_SIZE_SEQLEN_Q),
                               .n = attune_term_const(problem->head_dim_v),
                               .k = attune_term_size(ATTUNE_SIZE_SEQLEN_KV),
                               .transpose_b = 0,
                               .scaled = 0};
    *out = (attune_steps){.count = 3,
                          .step = {at_cublas_scores_step(problem),
                                   {.kind = ATTUNE_STEP_KERNEL, .as = {.kernel = softmax}},
                                   {.kind = ATTUNE_STEP_GEMM, .as = {.gemm = values}}}};
}

static const attune_shipped shipped[] = {
    {"b1,h8,s512,d64,fp16", ""},
    {"b8,h16,s2048,d128,fp16", ""},
    {"b2,h8,hkv2,s300,d80,dv48,bf16,causal,softcap=30,alibi,sink", ""},
    {NULL, NULL},
};

#define ROW(mask, dtypes_of, step_of)                                                                                  \
    {                                                                                                                  \
        mask, .dtypes = (dtypes_of), .layouts = ATTUNE_LAYOUTS_FORWARD, .head_dim_qk = {step_of, 256, step_of},        \
              .head_dim_v = {step_of, 256, step_of}, .align = 16, .arch_least = 80, .arch_most = ATTUNE_ANY,           \
              .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL) | ATTUNE_BIT(ATTUNE_STEP_GEMM)                                   \
    }

static const attune_capability can[] = {
    ROW(AT_CUBLAS_CAUSAL, ATTUNE_BIT(ATTUNE_FP32), 4),
    ROW(AT_CUBLAS_UNMASKED, ATTUNE_BIT(ATTUNE_FP32), 4),
    ROW(AT_CUBLAS_CAUSAL, ATTUNE_DTYPES_HALF, 8),
    ROW(AT_CUBLAS_UNMASKED, ATTUNE_DTYPES_HALF, 8),
};

extern const attune_kernel at_kernel_cublas;
const attune_kernel at_kernel_cublas = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "cublas",
    .summary = "Q K^T and P V by cuBLAS, a softmax in place between them; S is in the workspace",
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
    .source = "cublas.cu",
};
