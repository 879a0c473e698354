/* wgmma: descriptor. The source and docs/hopper.md say how it works. */
#include "wgmma.h"

static const int32_t groups_values[] = {2, 3};
static const int32_t block_n_values[] = {64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224};
static const int32_t q_stages_values[] = {1, 2};
static const int32_t switch_values[] = {0, 1};
static const int32_t scheduler_values[] = {TURNS, COUNTER, NEAR};
static const int32_t rescale_values[] = {0, STATIC_MAX, FAR_MAX};
static const int32_t ahead_values[] = {0, 1, 2, 3, 4};

static const attune_param params[PARAMS] = {
    [GROUPS] = {"GROUPS", groups_values, 2, 0},
    [BLOCK_N] = {"BLOCK_N", block_n_values, 11, 0},
    [Q_STAGES] = {"Q_STAGES", q_stages_values, 2, 0},
    [PINGPONG] = {"PINGPONG", switch_values, 2, 0},
    [SCHEDULER] = {"SCHEDULER", scheduler_values, 3, 0},
    [RESCALE] = {"RESCALE", rescale_values, 3, 0},
    [AHEAD] = {"AHEAD", ahead_values, 5, 0},
};

/* What evidence and wisdom of before name; docs/notes/wgmma-parameters.md says why they went. */
static const attune_retired retired[] = {{"OVERLAP", 1}, {"CLUSTER", 0}, {"KV_STAGES", 0}, {"EMULATED", 0}, {NULL, 0}};

enum {
    DIM_STEP = 8,
    DIM_MIN = 32,
    DIM_MAX = 256,
    CONTROL_BYTES = 1024,
    STAGES_MAX = 8,
    STAGES_MIN = 3,
    COUNTER_BYTES = 16,
    PLACES = 2,
    PART_BYTES = 16,
    OCTET_BYTES = 8
};

static int32_t threads_of(const attune_config *config)
{
    return (config->value[GROUPS] + 1) * 128;
}

/* Bytes of a row in shared memory: whole chunks of 64 elements. */
static int32_t pitch_of(int32_t dim)
{
    return (dim + 63) / 64 * 128;
}

static int32_t queries_bytes(const attune_problem *problem, const attune_config *config)
{
    return config->value[Q_STAGES] * block_m(config) * pitch_of(problem->head_dim_qk);
}

/* Of a stage of the ring: a tile of keys or of values. */
static int32_t stage_bytes(const attune_problem *problem, const attune_config *config)
{
    int32_t pitch_qk = pitch_of(problem->head_dim_qk), pitch_v = pitch_of(problem->head_dim_v);
    return config->value[BLOCK_N] * (pitch_qk > pitch_v ? pitch_qk : pitch_v);
}

static bool has_placed_bias(const attune_problem *problem)
{
    return problem->bias != ATTUNE_BIAS_NONE && attune_dtype_of(problem, ATTUNE_BIAS) != ATTUNE_FP32;
}

/* Of bias and mask: PLACES tiles of each group's rows, of the mask as it comes too. A bias in fp32 has none. */
static int32_t pairs_bytes(const attune_problem *problem, const attune_config *config)
{
    const int32_t bias_parts = config->value[BLOCK_N] / 8, mask_parts = config->value[BLOCK_N] / 16 | 1;
    int32_t bytes = 0; /* of a row */
    if (has_placed_bias(problem)) {
        bytes += PLACES * PART_BYTES * (bias_parts % 8 == 0 ? bias_parts : bias_parts + 1);
    }
    if (problem->mask) {
        bytes += PLACES * (OCTET_BYTES * ((config->value[BLOCK_N] + 63) / 64) + PART_BYTES * mask_parts);
    }
    return block_m(config) * bytes;
}

/* What every config has: queries, bias and mask, jobs and barriers. */
static int32_t fixed_bytes(const attune_problem *problem, const attune_config *config)
{
    return queries_bytes(problem, config) + pairs_bytes(problem, config) + CONTROL_BYTES;
}

/* As many as there is room for. */
static int32_t stages_of(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    const int32_t room = (target->smem_optin_bytes - fixed_bytes(problem, config)) / stage_bytes(problem, config);
    return room < STAGES_MIN ? STAGES_MIN : room < STAGES_MAX ? room : STAGES_MAX;
}

/* sizeof(Shared) of the source: what every config has, and the ring of keys and values. */
static int32_t smem_of(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    return fixed_bytes(problem, config) + stages_of(problem, target, config) * stage_bytes(problem, config);
}

/* ---- What it computes ---- */

/* Its powers, with another such factor, are numbers, and what hides a key by its product is not small. */
static bool is_usual(double factor)
{
    return factor >= 1e-6 && factor <= 1e6;
}

/* With so few queries most rows of a tile are nobody's, and `decode`, which takes them otherwise, has no mask: mma, of
 * tiles that are a quarter as high and keys in chunks, takes 0.2 to 0.6 of the time. */
enum { QUERIES_FEW = 16 };

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)target;
    const double scale = problem->scale;
    if ((problem->mask || problem->bias != ATTUNE_BIAS_NONE) && problem->seqlen_q <= QUERIES_FEW) {
        return attune_refuse(reason, "seqlen_q %lld: more than %d with a bias or a mask", (long long)problem->seqlen_q,
                             QUERIES_FEW);
    }
    if (scale < 0) {
        return attune_refuse(reason, "scale %g: above 0 is needed", scale);
    }
    const bool adds = problem->softcap != 0 || problem->alibi || problem->bias != ATTUNE_BIAS_NONE;
    if (adds && scale != 0 && !is_usual(scale)) {
        return attune_refuse(reason, "scale %g with a softcap, ALiBi or a bias: 1e-6 to 1e6", scale);
    }
    return problem->softcap == 0 || is_usual(problem->softcap) ||
           attune_refuse(reason, "softcap %g: 1e-6 to 1e6", (double)problem->softcap);
}

/* ---- Which configs ---- */

/* Registers that a consumer thread has, and those that its fragments take; the rest of the code needs some 30 more. */
static int32_t registers_given(const attune_problem *problem, const attune_config *config)
{
    return config->value[GROUPS] == 3 ? 160 : is_elaborate(problem) ? 232 : 240;
}

static int32_t registers_held(const attune_problem *problem, const attune_config *config)
{
    const int32_t bias = has_placed_bias(problem) ? config->value[BLOCK_N] / 4 : 0;
    return config->value[BLOCK_N] * 3 / 4 + (problem->head_dim_v + 7) / 8 * 4 + bias;
}

/* What else the code needs. */
static int32_t registers_besides(const attune_problem *problem, const attune_config *config)
{
    const bool is_more =
        problem->mask || problem->softcap != 0 || problem->varlen || problem->seqused_kv || attune_is_windowed(problem);
    return has_placed_bias(problem) && is_more && config->value[BLOCK_N] > 96 ? 48 : 32;
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)target;
    const int32_t held = registers_held(problem, config), given = registers_given(problem, config);
    const int32_t besides = registers_besides(problem, config);
    if (held + besides > given) {
        return attune_refuse(reason, "BLOCK_N %d, GROUPS %d: %d registers for fragments and %d besides, of %d",
                             config->value[BLOCK_N], config->value[GROUPS], held, besides, given);
    }
    if (config->value[RESCALE] == FAR_MAX && !may_be_far(problem, config->value[BLOCK_N])) {
        return attune_refuse(reason,
                             "RESCALE 16, BLOCK_N %d: bf16, no more features than a causal mask, and up to 128 "
                             "keys, above head dim 128 up to 80",
                             config->value[BLOCK_N]);
    }
    if (problem->mask && config->value[GROUPS] == 3) {
        return attune_refuse(reason, "GROUPS 3 with a mask: 2, since the producer's warps pack one group's each");
    }
    if (contains(problem) && is_by_counter(config)) {
        return attune_refuse(reason, "SCHEDULER %d, strict, a bias or a mask: rows are mended job by job, in turns",
                             config->value[SCHEDULER]);
    }
    return true;
}

bool at_wgmma_fits(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    return valid(problem, target, config, NULL) && smem_of(problem, target, config) <= target->smem_optin_bytes;
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    *out = (attune_resources){.threads = threads_of(config),
                              .smem_bytes = smem_of(problem, target, config),
                              .scratch_bytes = 0,
                              .workspace = attune_term_const(is_by_counter(config) ? COUNTER_BYTES : 0)};
}

/* ---- What to launch ---- */

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    const int32_t m = block_m(config), n = config->value[BLOCK_N];
    const int32_t q_rows = config->value[Q_STAGES] > 1 ? m : GROUP_ROWS; /* one place: each group's by themselves */
    attune_term tiles =
        attune_term_mul(attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_SEQLEN_Q), attune_term_const(m)),
                        attune_term_mul(attune_term_size(ATTUNE_SIZE_HEADS_Q), attune_term_size(ATTUNE_SIZE_BATCH)));
    attune_step_kernel kernel = {.entry = "sm90_fwd_wgmma",
                                 .grid = {attune_term_min(tiles, attune_term_size(ATTUNE_SIZE_SM_COUNT)),
                                          attune_term_const(1), attune_term_const(1)},
                                 .block = {threads_of(config), 1, 1},
                                 .cluster = {1, 1, 1},
                                 .smem = attune_term_const(smem_of(problem, target, config)),
                                 .map_count = problem->varlen ? 3 : 4,
                                 .map = {{ATTUNE_Q, ATTUNE_SWIZZLE_128B, {64, q_rows, 1, 1}, 256, ""},
                                         {ATTUNE_K, ATTUNE_SWIZZLE_128B, {64, n, 1, 1}, 256, ""},
                                         {ATTUNE_V, ATTUNE_SWIZZLE_128B, {64, n, 1, 1}, 256, ""},
                                         {ATTUNE_O, ATTUNE_SWIZZLE_128B, {64, 16, 1, 1}, 0, ""}}};
    attune_step_fill reset = {
        .offset_bytes = attune_term_const(0), .bytes = attune_term_const(COUNTER_BYTES), .pattern = 0};
    *out = (attune_steps){0};
    if (is_by_counter(config)) {
        out->step[out->count++] = (attune_step){.kind = ATTUNE_STEP_FILL, .as = {.fill = reset}};
    }
    out->step[out->count++] = (attune_step){.kind = ATTUNE_STEP_KERNEL, .as = {.kernel = kernel}};
}

static const attune_shipped shipped[] = {
    {"b8,h16,s2048,d128,fp16", ""},
    {"b8,h16,s2048,d128,fp16,causal", ""},
    {"b8,h16,s2048,d128,bf16,causal", ""},
    {"b8,h32,s2048,d64,fp16", ""},
    {"b8,h32,s2048,d64,fp16,causal", ""},
    {"b32,h32,s512,d64,fp16,causal", ""},
    {"b32,h32,s700,d64,fp16,causal", ""},
    {"b32,h32,s700,d64,fp16,causal,offset=tl", ""},
    {"b32,h32,s700,d64,fp16,causal,softcap=30", ""},
    {"b32,h32,s400,d128,fp16,causal", ""},
    {"b16,h16,s300,d64,fp16,causal,varlen=1", ""},
    {"b32,h32,s400,d128,fp16,causal,window=64:0,softcap=30,seqused", ""},
    {"b8,h8,s2048,d256,fp16,causal,window=64:0,softcap=30,seqused", ""},
    {"b8,h8,s2048,d256,fp16", ""},
    {"b8,h8,s2048,d256,fp16,causal", ""},
    {"b32,h8,s512,d256,fp16,causal", ""},
    {"b1,h16,s16384,d128,fp16", ""},
    {"b2,h8,s1900,d128,fp16", ""},
    {"b8,h64,s300,d128,bf16", ""},
    {"b1,h8,s16384,d256,fp16", ""},
    {"b1,h8,s16384,d256,bf16,causal", ""},
    {"b1,h16,s16384,d128,fp16,causal", ""},
    {"b2,h8,s1000,d96,bf16,causal", ""},
    {"b2,h8,s1000,d192,dv128,bf16,causal", ""},
    {"b8,h16,s2048,d80,bf16,causal", ""},
    {"b8,h16,s2048,d96,fp16,causal", ""},
    {"b8,h16,s2048,d192,fp16,causal", ""},
    {"b32,h16,s512,d192,dv128,bf16,causal", ""},
    {"b2,h16,s4096,d192,dv128,bf16", ""},
    {"b2,h16,s4096,d256,dv128,fp16,causal", ""},
    {"b8,h16,s2048,d192,dv128,bf16,causal,window=64:0,softcap=30,seqused", ""},
    {"b2,h8,hkv2,s300,d72,bf16,causal,window=64:0,softcap=30,seqused,varlen=1", ""},
    {"b2,h8,hkv2,s300,d64,fp16,causal,window=64:0,softcap=30,seqused,varlen=1", ""},
    {"b2,h8,hkv2,s300,d256,fp16,causal,window=64:0,softcap=30,seqused,varlen=1", ""},
    {"b16,h16,s300,d64,fp16,varlen=1", ""},
    {"b16,h16,s4096,d128,bf16,varlen=1", ""},
    {"b16,h16,s4096,d128,bf16,causal,varlen=1", ""},
    {"b16,h32,s2048,d64,bf16,causal,varlen=1,alibi,sink", ""},
    {"b8,h8,s2048,d256,fp16,causal,varlen=1", ""},
    {"b1,h32,s16384,d64,bf16,causal,window=1023:0", ""},
    {"b4,h16,s4096,d128,bf16,sink", ""},
    {"b4,h16,s4096,d128,bf16,causal,sink", ""},
    {"b4,h16,s4096,d128,bf16,alibi", ""},
    {"b4,h16,s4096,d128,bf16,causal,alibi", ""},
    {"b4,h16,s4096,d128,bf16,softcap=30", ""},
    {"b4,h16,s4096,d128,bf16,causal,softcap=30", ""},
    {"b4,h16,s4096,d128,bf16,causal,strict", ""},
    {"b4,h32,s4096,d64,bf16,alibi", ""},
    {"b4,h32,s4096,d64,bf16,softcap=30", ""},
    {"b1,h32,s16384,d64,fp16,causal,window=1023:0,softcap=30,sink", ""},
    {"b16,h32,s2048,d64,fp16,causal,varlen=1,softcap=30", ""},
    {"b4,h8,s4096,d256,fp16,softcap=30,seqused,sink", ""},
    {"b16,h8,s4096,d256,bf16,varlen=1,softcap=30", ""},
    {"b4,h8,s4096,d256,bf16,causal,softcap=30", ""},
    {"b1,h16,s16384,d128,bf16,causal,window=4095:0,softcap=50,sink", ""},
    {"b16,h16,s2048,d128,fp16,causal,varlen=1,softcap=30,seqused", ""},
    {"b4,h32,s4096,d64,fp16,causal,alibi,sink,strict", ""},
    {"b2,h8,s4096,d256,bf16,alibi,sink", ""},
    {"b2,h8,s2048,d256,fp16,causal,window=64:0,softcap=30,alibi,sink,seqused,strict", ""},
    {"b2,h8,hkv2,s300,d128,bf16,causal,window=64:0,softcap=30,alibi,sink,seqused,varlen=1,strict", ""},
    {"b2,h8,s2048,d128,fp16,window=64:32,alibi,strict", ""},
    {"b2,h8,s1000,d192,dv128,bf16,causal,softcap=30,alibi", ""},
    {"b4,h32,s4096,d64,fp16,causal,softcap=30,sink", ""},
    {"b4,h32,s4096,d64,bf16,causal,strict", ""},
    {"b4,h32,s4096,d64,fp16,causal,alibi,sink", ""},
    {"b1,h16,s16384,d128,bf16,causal,window=4095:0", ""},
    {"b1,h16,s16384,d128,fp16,causal,window=2047:0,softcap=30,alibi,sink,seqused,strict", ""},
    {"b1,h16,s16384,d96,bf16,window=1024:1024,alibi,sink", ""},
    {"b1,h32,s16384,d64,fp16,window=1023:100,sink,seqused", ""},
    {"b1,h32,s4096,d64,bf16,causal,window=2000:0,sink,seqused,strict", ""},
    {"b16,h32,s2048,d64,bf16,causal,varlen=1,sink,strict", ""},
    {"b16,h8,s4096,d256,bf16,varlen=1", ""},
    {"b16,h8,s4096,d256,fp16,varlen=1,softcap=30,alibi,sink", ""},
    {"b16,h8,s4096,d256,fp16,causal,varlen=1,softcap=30,alibi,sink,strict", ""},
    {"b16,h8,s4096,d256,bf16,causal,varlen=1,alibi,sink", ""},
    {"b1,h8,s16384,d256,bf16,causal,window=2047:0,alibi,sink,seqused", ""},
    {"b16,h8,s2048,d192,bf16,varlen=1,softcap=30", ""},
    {"b2,h8,s4096,d256,bf16,softcap=30,alibi,sink", ""},
    {"b2,h8,s4096,d128,fp16,mask,softcap=30,alibi,sink", ""},
    {"b2,h8,s2048,d256,bf16,mask,softcap=30,alibi,sink", ""},
    {"b2,h8,s1000,d128,bf16,varlen=1,window=64:0,alibi", ""},
    {"b4,h16,s4096,d128,bf16,bias=1xh", ""},
    {"b4,h16,s4096,d128,bf16,causal,bias=bxh", ""},
    {"b4,h16,s4096,d128,bf16,mask", ""},
    {"b4,h16,s4096,d128,fp16,bias=1xh,mask", ""},
    {"b4,h32,s4096,d64,bf16,bias=1xh", ""},
    {"b4,h32,s4096,d64,bf16,mask", ""},
    {"b2,h8,s2048,d256,fp16,bias=1x1,mask", ""},
    {"b2,h4,s512,d64,bf16,softcap=30,bias=bxh,mask,alibi,sink", ""},
    {"b2,h8,hkv2,s300,d128,bf16,causal,window=64:0,softcap=30,bias=bxh,mask,alibi,sink,seqused,varlen=1,strict", ""},
    {"b2,h8,s1000,d192,dv128,bf16,causal,bias=bx1,mask", ""},
    {"b4,h16,s4096,d128,bf16,bias=1xh:fp32", ""},
    {"b2,h8,s2048,d256,bf16,causal,bias=1xh:fp32,mask", ""},
    {NULL, NULL},
};

static const attune_capability can[] = {
    {.ops = ATTUNE_BIT(ATTUNE_FORWARD),
     .dtypes = ATTUNE_DTYPES_HALF,
     .dtypes_bias = ATTUNE_DTYPES_FORWARD,
     .features = ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_SEQUSED |
                 ATTUNE_FEATURE_VARLEN | ATTUNE_FEATURE_SINK | ATTUNE_FEATURE_ALIBI | ATTUNE_FEATURE_STRICT |
                 ATTUNE_FEATURE_BIAS | ATTUNE_FEATURE_MASK,
     .offsets = ATTUNE_OFFSETS_FORWARD,
     .biases = ATTUNE_BIASES_FORWARD,
     .layouts = ATTUNE_LAYOUTS_FORWARD,
     .head_dim_qk = {DIM_MIN, DIM_MAX, DIM_STEP},
     .head_dim_v = {DIM_MIN, DIM_MAX, DIM_STEP},
     .align = 16,
     .arch_least = 90,
     .arch_most = 90,
     .arch_features = 1,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL) | ATTUNE_BIT(ATTUNE_STEP_FILL)},
};

extern const attune_kernel at_kernel_wgmma;
const attune_kernel at_kernel_wgmma = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "wgmma",
    .summary = "Hopper: warp group products, the copy engine, warp specialisation, persistent blocks",
    .traits = ATTUNE_TRAIT_TAINTS,
    .param_count = PARAMS,
    .params = params,
    .retired = retired,
    .shipped = shipped,
    .can = can,
    .can_count = sizeof can / sizeof can[0],
    .supports = supports,
    .valid = valid,
    .resources = resources,
    .heuristic = at_wgmma_heuristic,
    .steps = steps,
    .source = "wgmma.cu",
};
