/* append: descriptor. The source says how it works. */
#include "attune/kernel.h"
#include "launch.h"

enum { TOKENS, HEADS, PARAMS };

static const int32_t tokens_values[] = {1, 2, 4, 8, 16, 32, 64};
static const int32_t heads_values[] = {1, 2, 4, 8, 16, 32};

static const attune_param params[PARAMS] = {
    [TOKENS] = {"TOKENS", tokens_values, 7, 0},
    [HEADS] = {"HEADS", heads_values, 6, 0},
};

enum { THREADS = 256, THREAD_PARTS_MAX = 8 };

static int32_t bytes_of(int32_t dtype)
{
    return dtype == ATTUNE_FP32 ? 4 : 2;
}

/* The source's ATTUNE_ALIGN: as stated, else what rows of both head dims are multiples of; an element at least. */
static int32_t align_of(const attune_problem *problem)
{
    int32_t rows = 16, widest = 2;
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        int32_t bytes = bytes_of(attune_dtype_of(problem, (attune_role)role));
        rows |= (role <= ATTUNE_K ? problem->head_dim_qk : problem->head_dim_v) * bytes;
        widest = bytes > widest ? bytes : widest;
    }
    int32_t align = problem->align != 0 ? problem->align : rows & -rows;
    return align > widest ? align : widest;
}

/* Parts of a row, as the source cuts it: the largest power of two up to 16 bytes that divides what it should. */
static int32_t parts_of(const attune_problem *problem, attune_role role, int32_t dims)
{
    int32_t row = dims * bytes_of(attune_dtype_of(problem, role));
    int32_t all = row | align_of(problem) | 16;
    return row / (all & -all);
}

static int32_t head_parts(const attune_problem *problem)
{
    return parts_of(problem, ATTUNE_K, problem->head_dim_qk) + parts_of(problem, ATTUNE_V, problem->head_dim_v);
}

static int32_t thread_parts(const attune_problem *problem, const attune_config *config)
{
    return (config->value[TOKENS] * config->value[HEADS] * head_parts(problem) + THREADS - 1) / THREADS;
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)target;
    int32_t parts = thread_parts(problem, config);
    return parts <= THREAD_PARTS_MAX ||
           attune_refuse(reason, "TOKENS %d x HEADS %d: %d parts a thread, at most %d", config->value[TOKENS],
                         config->value[HEADS], parts, THREAD_PARTS_MAX);
}

/* sizeof(Shared) of the source. */
static int32_t smem_of(const attune_problem *problem, const attune_config *config)
{
    int32_t tokens = config->value[TOKENS];
    int32_t owners = problem->varlen && !problem->slots ? tokens : 1;
    return (2 * tokens * 8 + owners * 4 + 7) / 8 * 8;
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    (void)target;
    *out = at_block_resources(THREADS, smem_of(problem, config));
}

/* A block for each multiprocessor as long as there is too little for all: a thread copies one part of a small step, and
 * as many of a large one as keep reads in flight. */
static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    const int64_t parts = problem->batch * problem->seqlen_q * problem->heads_kv * head_parts(problem);
    const int32_t most = THREADS * (parts > 8 * (int64_t)THREADS * target->sm_count ? 4 : 1);
    int32_t heads = 1, tokens = 1;
    while (heads < 32 && heads * 2 <= problem->heads_kv && heads * 2 * head_parts(problem) <= most) {
        heads *= 2;
    }
    while (tokens < 64 && tokens * 2 * heads * head_parts(problem) <= most) {
        tokens *= 2;
    }
    *config = (attune_config){{tokens, heads}};
    return index == 0;
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    (void)target;
    const attune_term rows = attune_term_size(ATTUNE_SIZE_TOTAL_Q), heads = attune_term_size(ATTUNE_SIZE_HEADS_KV);
    *out = (attune_steps){
        .count = 1,
        .step = {{.kind = ATTUNE_STEP_KERNEL,
                  .as.kernel = {.entry = "append",
                                .grid = {attune_term_ceil_div(rows, attune_term_const(config->value[TOKENS])),
                                         attune_term_ceil_div(heads, attune_term_const(config->value[HEADS])),
                                         attune_term_const(1)},
                                .block = {THREADS, 1, 1},
                                .cluster = {1, 1, 1},
                                .smem = attune_term_const(smem_of(problem, config)),
                                .programmatic = 1}}}};
}

static const attune_shipped shipped[] = {
    {"append:b64,h8,sq1,skv4096,d128,bf16,page=16,slots", ""},
    {"append:b64,h8,sq1,skv4096,d128,bf16,seqused,page=16", ""},
    {"append:b16,h8,sq4096,skv8192,d128,bf16,seqused,varlen=1,page=64", ""},
    {"append:b4,h2,sq7,skv90,d33,dv40,fp32,k=fp16,seqused", ""},
    {NULL, NULL},
};

static const attune_capability can[] = {
    {.ops = ATTUNE_BIT(ATTUNE_APPEND),
     .dtypes = ATTUNE_DTYPES_FORWARD,
     .dtypes_k = ATTUNE_DTYPES_FORWARD,
     .dtypes_v = ATTUNE_DTYPES_FORWARD,
     .features = ATTUNE_FEATURE_SEQUSED | ATTUNE_FEATURE_VARLEN | ATTUNE_FEATURE_PAGED | ATTUNE_FEATURE_PAGED_V |
                 ATTUNE_FEATURE_SLOTS,
     .offsets = ATTUNE_OFFSETS_FORWARD,
     .layouts = ATTUNE_LAYOUTS_FORWARD,
     .head_dim_qk = {1, 256, 1},
     .head_dim_v = {1, 256, 1},
     .align = 1,
     .arch_least = 80,
     .arch_most = ATTUNE_ANY,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)},
};

extern const attune_kernel at_kernel_append;
const attune_kernel at_kernel_append = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "append",
    .summary = "new keys and values into a cache, in one piece or in pages",
    .param_count = PARAMS,
    .params = params,
    .shipped = shipped,
    .can = can,
    .can_count = sizeof can / sizeof can[0],
    .valid = valid,
    .resources = resources,
    .heuristic = heuristic,
    .steps = steps,
    .source = "append.cu",
};
