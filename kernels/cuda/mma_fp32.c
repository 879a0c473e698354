/* mma_fp32: descriptor. The source says how it works. */
#include "launch.h"

enum { WARPS, BLOCK_N, MIN_BLOCKS, PARAMS };

static const int32_t warps_values[] = {4, 8};
static const int32_t block_n_values[] = {32, 64};
static const int32_t min_blocks_values[] = {1, 2};

static const attune_param params[PARAMS] = {
    [WARPS] = {"WARPS", warps_values, 2, 0},
    [BLOCK_N] = {"BLOCK_N", block_n_values, 2, 0},
    [MIN_BLOCKS] = {"MIN_BLOCKS", min_blocks_values, 2, 0},
};

enum { DIM_MAX = 128, CONTROL_BYTES = 128, EDGES_BYTES = 16, RESERVED = 1024 };

static int32_t threads_of(const attune_config *config)
{
    return config->value[WARPS] * 32;
}

static int32_t block_m(const attune_config *config)
{
    return config->value[WARPS] * 16;
}

static int32_t pitch_of(int32_t dim)
{
    return (dim + 63) / 64 * 64;
}

/* Of bf16, for a number. */
static int32_t parts_of(const attune_problem *problem)
{
    return problem->tf32 ? 2 : 3;
}

/* What the source takes: queries, and a tile of keys and one of values, in parts. */
static int32_t smem_of(const attune_problem *problem, const attune_config *config)
{
    const int32_t qk = pitch_of(problem->head_dim_qk), v = pitch_of(problem->head_dim_v);
    return parts_of(problem) * 2 * (block_m(config) * qk + config->value[BLOCK_N] * (qk + v)) +
           threads_of(config) * EDGES_BYTES + CONTROL_BYTES;
}

/* NOTE: predicted. On the others tensor cores add in fp32 at half their rate, or CUDA cores are twice as many: six
 * products of bf16 take them as long as `tiled` takes, or longer; three some of them, too (docs/ladder.md). */
static bool is_worth_it(int32_t arch)
{
    return arch == 80 || arch == 90 || arch == 100 || arch == 103;
}

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    const double scale = problem->scale, least = 1e-6, most = 1e6;
    if (scale < 0 || (scale > 0 && (scale < least || scale > most))) {
        return attune_refuse(reason, "scale %g: 1e-6 to 1e6", scale);
    }
    return is_worth_it(target->arch) ||
           attune_refuse(reason, "sm_%d: its CUDA cores are as fast as six products of its tensor cores",
                         (int)target->arch);
}

/* Registers a thread is about to hold, O, scores, what travels and the rest, and may have: with more the compiler
 * spills. From sm_100 on it takes more. */
static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    const int32_t dim = problem->head_dim_qk > problem->head_dim_v ? problem->head_dim_qk : problem->head_dim_v;
    const int32_t columns = (dim + 15) / 16 * 16, travels = config->value[BLOCK_N] * columns / threads_of(config);
    const int32_t besides = !problem->tf32 ? 112 : target->arch >= 100 ? 84 : 76;
    const int32_t held = columns / 2 + config->value[BLOCK_N] + travels * 3 / 2 + besides;
    const int32_t most = 65536 / (threads_of(config) * config->value[MIN_BLOCKS]), given = most < 255 ? most : 255;
    return held <= given || attune_refuse(reason,
                                          "WARPS, BLOCK_N, MIN_BLOCKS leave %d registers a thread: about %d "
                                          "are needed",
                                          given, held);
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    (void)target;
    *out = at_block_resources(threads_of(config), smem_of(problem, config));
}

static bool fits(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    const int32_t smem = smem_of(problem, config);
    return valid(problem, target, config, NULL) && smem <= target->smem_optin_bytes &&
           config->value[MIN_BLOCKS] * (smem + RESERVED) <= target->smem_sm_bytes;
}

/* Eight warps where tiles of 128 queries are enough, or head dims leave no choice. */
static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    const int64_t tiles = (problem->seqlen_q + 127) / 128 * problem->batch * problem->heads_q;
    static const attune_config many[] = {{{8, 64, 1}}, {{8, 32, 1}}, {{4, 32, 2}}, {{4, 32, 1}}};
    static const attune_config few[] = {{{4, 32, 1}}, {{8, 32, 1}}};
    static const attune_config few_tf32[] = {{{4, 64, 2}}, {{8, 64, 1}}, {{4, 32, 1}}, {{8, 32, 1}}};
    if (tiles >= target->sm_count) {
        return at_fitting(many, AT_COUNT(many), fits, problem, target, index, config);
    }
    return problem->tf32 ? at_fitting(few_tf32, AT_COUNT(few_tf32), fits, problem, target, index, config)
                         : at_fitting(few, AT_COUNT(few), fits, problem, target, index, config);
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    (void)target;
    *out = (attune_steps){.count = 1,
                          .step = {{.kind = ATTUNE_STEP_KERNEL,
                                    .as.kernel = at_launch_by_rows("fwd_mma_fp32", block_m(config), threads_of(config),
                                                                   smem_of(problem, config))}}};
}

static const attune_shipped shipped[] = {
    {"b4,h16,s4096,d128,fp32", ""},
    {"b4,h16,s4096,d128,fp32,causal", ""},
    {"b4,h16,s4096,d64,fp32,causal", ""},
    {"b1,h8,s512,d64,fp32", ""},
    {"b2,h8,s512,d128,fp32,causal", ""},
    {"b2,h8,hkv2,s300,d72,dv40,fp32,causal,window=64:0,softcap=30,bias=bxh,mask,alibi,sink,seqused,strict", ""},
    {"b3,h4,s100,d5,fp32,causal,varlen=1,sink,align=4", ""},
    {"b4,h16,s4096,d128,fp32,tf32", ""},
    {"b4,h16,s4096,d64,fp32,causal,tf32", ""},
    {"b1,h8,s512,d64,fp32,tf32", ""},
    {"b2,h8,hkv2,s300,d72,dv40,fp32,causal,window=64:0,softcap=30,bias=bxh,mask,alibi,sink,seqused,strict,tf32", ""},
    {NULL, NULL},
};

static const attune_capability can[] = {
    {.ops = ATTUNE_BIT(ATTUNE_FORWARD),
     .dtypes = ATTUNE_BIT(ATTUNE_FP32),
     .dtypes_bias = ATTUNE_DTYPES_FORWARD,
     .features = ATTUNE_FEATURES_FORWARD,
     .offsets = ATTUNE_OFFSETS_FORWARD,
     .biases = ATTUNE_BIASES_FORWARD,
     .layouts = ATTUNE_LAYOUTS_FORWARD,
     .head_dim_qk = {1, DIM_MAX, 1},
     .head_dim_v = {1, DIM_MAX, 1},
     .align = 4,
     .arch_least = 80,
     .arch_most = ATTUNE_ANY,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)},
};

extern const attune_kernel at_kernel_mma_fp32;
const attune_kernel at_kernel_mma_fp32 = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "mma_fp32",
    .summary = "tensor cores by mma.sync: fp32 by six products of bf16, tf32 by three; sm_80, 90, 100",
    .param_count = PARAMS,
    .params = params,
    .shipped = shipped,
    .can = can,
    .can_count = sizeof can / sizeof can[0],
    .supports = supports,
    .valid = valid,
    .resources = resources,
    .heuristic = heuristic,
    .steps = steps,
    .source = "mma_fp32.cu",
};
