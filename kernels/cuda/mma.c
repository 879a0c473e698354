/* mma: descriptor. The source says how it works. */
#include "launch.h"

enum { WARPS, SPLITS, STRIPS, BLOCK_N, STAGES, Q_REGISTERS, AHEAD, MIN_BLOCKS, PACK, CHUNK, PARAMS };

static const int32_t warps_values[] = {1, 2, 4, 8};
static const int32_t splits_values[] = {1, 2, 4, 8};
static const int32_t strips_values[] = {1, 2};
static const int32_t block_n_values[] = {32, 48, 64, 96, 128};
static const int32_t stages_values[] = {1, 2, 3, 4};
static const int32_t switch_values[] = {0, 1};
static const int32_t min_blocks_values[] = {1, 2, 3, 4};

static const int32_t chunk_values[] = {0, 256, 512, 1024, 2048, 4096};

static const attune_param params[PARAMS] = {
    [WARPS] = {"WARPS", warps_values, 4, 0},    [SPLITS] = {"SPLITS", splits_values, 4, 0},
    [STRIPS] = {"STRIPS", strips_values, 2, 0}, [BLOCK_N] = {"BLOCK_N", block_n_values, 5, 0},
    [STAGES] = {"STAGES", stages_values, 4, 0}, [Q_REGISTERS] = {"Q_REGISTERS", switch_values, 2, 0},
    [AHEAD] = {"AHEAD", switch_values, 2, 0},   [MIN_BLOCKS] = {"MIN_BLOCKS", min_blocks_values, 4, 0},
    [PACK] = {"PACK", switch_values, 2, 0},     [CHUNK] = {"CHUNK", chunk_values, 6, 0},
};

/* Of the second launch, warps of a block, which has a row; and bytes of a workspace beyond which chunks are too many.
 */
enum { JOIN_WARPS = 4, WORKSPACE_MOST = 256 << 20 };

enum {
    TILE_BYTES = 256,
    PLACE_BYTES = 32,
    STRIP_ROWS = 16,
    WARPS_MAX = 8,
    DIM_STEP = 8,
    DIM_MAX = 256,
    REGISTERS_MAX = 255
};

static int32_t threads_of(const attune_config *config)
{
    return config->value[WARPS] * config->value[SPLITS] * 32;
}

static int32_t block_m(const attune_config *config)
{
    return config->value[WARPS] * config->value[STRIPS] * STRIP_ROWS;
}

static int32_t pitch_of(int32_t dim)
{
    return (dim + 63) / 64 * 64;
}

/* Bytes of a split's ring. */
static int32_t ring_of(const attune_problem *problem, const attune_config *config)
{
    return 2 * config->value[STAGES] * config->value[BLOCK_N] *
           (pitch_of(problem->head_dim_qk) + pitch_of(problem->head_dim_v));
}

static bool has_pairs(const attune_problem *problem)
{
    return problem->bias != ATTUNE_BIAS_NONE || problem->mask;
}

/* Bytes of bias and mask for a split's tile of keys. */
static int32_t pairs_of(const attune_problem *problem, const attune_config *config)
{
    int32_t of_bias = attune_dtype_of(problem, ATTUNE_BIAS) == ATTUNE_FP32 ? 4 : 2;
    int32_t bytes = (problem->bias != ATTUNE_BIAS_NONE ? of_bias : 0) + (problem->mask ? 1 : 0);
    return bytes * block_m(config) * config->value[BLOCK_N];
}

/* Whether the block's tile lies in shared memory, registers being short. */
static bool shares_tile(const attune_problem *problem, const attune_config *config)
{
    return problem->softcap != 0 || problem->draft_mask || attune_is_windowed(problem) ||
           (attune_is_causal(problem) && (config->value[AHEAD] || has_pairs(problem) || problem->varlen ||
                                          problem->strict || problem->offset_kind != 0));
}

/* The same, and where it is kept for the end. */
static bool keeps_tile(const attune_problem *problem, const attune_config *config)
{
    return shares_tile(problem, config) || (problem->varlen && config->value[CHUNK] == 0);
}

/* Whether threads keep addresses to copy from. */
static bool keeps_places(const attune_problem *problem, const attune_config *config)
{
    const int32_t parts = problem->head_dim_qk / 8, threads = config->value[WARPS] * 32, rows = threads / parts;
    const bool slopes_and_ends = problem->alibi && (attune_is_causal(problem) || attune_is_windowed(problem));
    return config->value[AHEAD] && problem->page_size == 0 && !slopes_and_ends &&
           problem->head_dim_qk == problem->head_dim_v && threads % parts == 0 && rows % 8 == 0 &&
           config->value[BLOCK_N] % rows == 0;
}

/* What the source takes: Q, the rings, bias and mask, the block's tile, and threads' addresses. */
static int32_t smem_of(const attune_problem *problem, const attune_config *config)
{
    return (keeps_tile(problem, config) ? TILE_BYTES : 0) +
           (keeps_places(problem, config) ? threads_of(config) * PLACE_BYTES : 0) +
           2 * block_m(config) * pitch_of(problem->head_dim_qk) +
           config->value[SPLITS] * (ring_of(problem, config) + pairs_of(problem, config));
}

static int32_t columns_of(int32_t dim)
{
    return (dim + 15) / 16 * 16;
}

/* Registers more for each strip that bias, mask, pages and drafts take; from sm_100 on with the compiler at hand. */
static int32_t registers_beside(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    const bool late = target->arch >= 100;
    if (has_pairs(problem)) {
        return config->value[BLOCK_N] / 16 + (late ? 2 : 0);
    }
    return problem->draft_mask ? 8 : problem->page_size > 0 && late ? 6 : 0;
}

/* Registers a thread is about to hold: O, scores, queries, and what addresses and the rest take. */
static int32_t registers_held(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    int32_t queries = config->value[Q_REGISTERS] ? columns_of(problem->head_dim_qk) / 4 : 4;
    int32_t strip = columns_of(problem->head_dim_v) / 2 + config->value[BLOCK_N] / 2 + queries +
                    registers_beside(problem, target, config);
    return config->value[STRIPS] * strip + 44;
}

/* Registers a thread may have: each of a multiprocessor's four parts holds 512 for each lane of a warp. */
static int32_t registers_given(const attune_config *config)
{
    int32_t warps = config->value[MIN_BLOCKS] * threads_of(config) / 32;
    int32_t given = 512 / ((warps + 3) / 4) / 8 * 8;
    return given < REGISTERS_MAX ? given : REGISTERS_MAX;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Tiles of rows of the largest call, be heads grouped as they may. */
static int64_t tiles_of(const attune_problem *problem, const attune_config *config)
{
    const int64_t rows = block_m(config);
    return problem->batch * (config->value[PACK]
                                 ? problem->heads_kv + ceil_div(problem->seqlen_q * problem->heads_q, rows)
                                 : problem->heads_q * ceil_div(problem->seqlen_q, rows));
}

static int64_t chunks_of(const attune_problem *problem, const attune_config *config)
{
    const int64_t chunks = ceil_div(problem->seqlen_kv, config->value[CHUNK]);
    return chunks < 1 ? 1 : chunks;
}

/* Bytes of the records that blocks leave to the second launch. */
static int64_t workspace_of(const attune_problem *problem, const attune_config *config)
{
    if (config->value[CHUNK] == 0) {
        return 0;
    }
    const int64_t record = (int64_t)block_m(config) * (problem->head_dim_v * 4 + 8);
    return tiles_of(problem, config) * chunks_of(problem, config) * ceil_div(record, 16) * 16;
}

static bool valid_rows(const attune_problem *problem, const attune_config *config, attune_reason *reason)
{
    const int32_t tiles = config->value[SPLITS] * config->value[BLOCK_N];
    if (config->value[PACK] && (has_pairs(problem) || problem->alibi)) {
        return attune_refuse(reason, "PACK 1: with a bias, a mask or ALiBi 0 only");
    }
    if (config->value[PACK] && config->value[CHUNK] == 0) {
        return attune_refuse(reason, "PACK 1: with CHUNK only");
    }
    if (config->value[CHUNK] % tiles != 0) {
        return attune_refuse(reason, "CHUNK %d: a multiple of SPLITS x BLOCK_N = %d is needed", config->value[CHUNK],
                             tiles);
    }
    if (workspace_of(problem, config) > WORKSPACE_MOST) {
        return attune_refuse(reason, "CHUNK %d: a workspace of %lld B, at most %d", config->value[CHUNK],
                             (long long)workspace_of(problem, config), WORKSPACE_MOST);
    }
    return true;
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    if (config->value[WARPS] * config->value[SPLITS] > WARPS_MAX) {
        return attune_refuse(reason, "WARPS * SPLITS = %d warps: at most %d",
                             config->value[WARPS] * config->value[SPLITS], WARPS_MAX);
    }
    if (config->value[AHEAD] && (config->value[STAGES] != 2 || has_pairs(problem))) {
        return attune_refuse(reason, "AHEAD 1: with STAGES 2, no bias and no mask only");
    }
    if (config->value[AHEAD] && (problem->draft_mask || config->value[PACK])) {
        return attune_refuse(reason, "AHEAD 1: without drafts, and with PACK 0");
    }
    if (has_pairs(problem) && (config->value[BLOCK_N] & (config->value[BLOCK_N] - 1)) != 0) {
        return attune_refuse(reason, "BLOCK_N %d: with a bias or a mask a power of 2", config->value[BLOCK_N]);
    }
    if (has_pairs(problem) && config->value[STAGES] != 2) {
        return attune_refuse(reason, "STAGES %d: with a bias or a mask 2 only", config->value[STAGES]);
    }
    int32_t partial = config->value[STRIPS] * (columns_of(problem->head_dim_v) / 2 + 4) * 4 * config->value[WARPS] * 32;
    if (config->value[SPLITS] > 1 && partial > ring_of(problem, config)) {
        return attune_refuse(reason, "SPLITS %d: each hands over %d B, its ring has %d", config->value[SPLITS], partial,
                             ring_of(problem, config));
    }
    if (registers_held(problem, target, config) > registers_given(config)) {
        return attune_refuse(reason, "WARPS, SPLITS, MIN_BLOCKS leave %d registers a thread: about %d are needed",
                             registers_given(config), registers_held(problem, target, config));
    }
    return valid_rows(problem, config, reason);
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    (void)target;
    *out = at_block_resources(threads_of(config), smem_of(problem, config));
    out->workspace = attune_term_const(workspace_of(problem, config));
}

/* By what was fastest on an H200 or an H100, for head dims up to 64, 128 and 256; then what fits where there is less
 * shared memory. FEW: where there is not a tile of 128 queries for each multiprocessor. CAPPED: with softcap, where
 * larger tiles spill. LONG: where queries that share keys fit into a strip, and keys are many: the chunk is the same
 * whatever the lengths, so that bits are. PAIRS: with a bias or a mask. */
enum { FEW = 1, CAPPED = 2, LONG = 4, PAIRS = 8, LONG_KEYS = 512 };
static const struct {
    int32_t where, arch, dim_least, dim_most; /* from this architecture on: with others the compiler spills */
    attune_config config;
} candidates[] = {
    {LONG | PAIRS, 80, 0, 128, {{1, 2, 1, 32, 2, 1, 0, 1, 0, 256}}},
    {LONG, 80, 0, 128, {{1, 4, 1, 32, 3, 1, 0, 1, 1, 512}}},
    {LONG, 80, 0, 128, {{1, 2, 1, 32, 2, 1, 0, 1, 1, 512}}},
    {LONG, 80, 0, 128, {{1, 4, 1, 32, 2, 1, 0, 1, 0, 512}}},
    {LONG, 80, 0, 128, {{1, 2, 1, 32, 2, 1, 0, 1, 0, 512}}},
    {LONG, 80, 129, 256, {{1, 2, 1, 32, 2, 0, 0, 1, 1, 512}}},
    {LONG, 80, 129, 256, {{1, 2, 1, 32, 2, 0, 0, 1, 0, 512}}},
    {LONG, 80, 129, 256, {{1, 1, 1, 32, 2, 0, 0, 1, 1, 512}}},
    {FEW, 80, 0, 64, {{2, 2, 1, 128, 2, 1, 0, 1}}},
    {FEW, 80, 0, 128, {{2, 4, 1, 64, 2, 1, 0, 1}}},
    {FEW, 80, 0, 128, {{2, 2, 1, 64, 2, 1, 0, 1}}},
    {FEW, 80, 65, 256, {{2, 2, 1, 32, 2, 0, 0, 1}}},
    {CAPPED, 90, 0, 64, {{4, 1, 2, 96, 2, 0, 1, 2}}},
    {0, 90, 0, 64, {{4, 1, 2, 128, 2, 0, 1, 2}}},
    {0, 90, 0, 64, {{4, 1, 2, 128, 2, 0, 0, 2}}},
    {0, 80, 0, 64, {{4, 1, 2, 64, 2, 1, 0, 2}}},
    {CAPPED, 90, 65, 128, {{4, 1, 2, 48, 2, 0, 1, 2}}},
    {CAPPED, 80, 65, 128, {{4, 1, 2, 48, 2, 0, 0, 2}}},
    {0, 90, 65, 128, {{4, 1, 2, 64, 2, 0, 1, 2}}},
    {0, 80, 65, 128, {{4, 1, 2, 64, 2, 0, 0, 2}}},
    {0, 80, 65, 128, {{4, 1, 2, 32, 2, 0, 0, 2}}},
    {0, 80, 65, 128, {{8, 1, 1, 64, 2, 0, 0, 1}}},
    {0, 80, 65, 128, {{4, 1, 1, 32, 2, 1, 0, 2}}},
    {0, 90, 129, 256, {{4, 1, 1, 64, 1, 0, 0, 2}}},
    {0, 80, 129, 256, {{8, 1, 1, 64, 2, 0, 0, 1}}},
    {0, 80, 129, 256, {{4, 1, 1, 32, 2, 0, 0, 2}}},
    {0, 80, 0, 256, {{8, 1, 1, 32, 2, 0, 0, 1}}},
    {0, 80, 0, 256, {{4, 1, 1, 32, 2, 0, 0, 1}}},
    {0, 80, 0, 256, {{2, 1, 1, 32, 2, 0, 0, 1}}},
};

enum { TILE = 128, RESERVED = 1024 }; /* bytes of shared memory that the system takes of each block */

static bool suits(const attune_problem *problem, const attune_target *target, size_t index)
{
    const attune_config *config = &candidates[index].config;
    const int32_t dim = problem->head_dim_qk > problem->head_dim_v ? problem->head_dim_qk : problem->head_dim_v;
    const int64_t tiles = (problem->seqlen_q + TILE - 1) / TILE * problem->batch * problem->heads_q;
    const int32_t smem = smem_of(problem, config), where = candidates[index].where;
    const int64_t rows = has_pairs(problem) || problem->alibi
                             ? problem->seqlen_q
                             : ceil_div(problem->seqlen_q * problem->heads_q, problem->heads_kv);
    const bool is_long = rows <= STRIP_ROWS && problem->seqlen_kv > LONG_KEYS;
    return target->arch >= candidates[index].arch && dim >= candidates[index].dim_least &&
           dim <= candidates[index].dim_most && (!(where & FEW) || tiles <= target->sm_count) &&
           (!(where & CAPPED) || problem->softcap != 0) && (!(where & PAIRS) || has_pairs(problem)) &&
           (!(where & LONG) || is_long) && valid(problem, target, config, NULL) && smem <= target->smem_optin_bytes &&
           config->value[MIN_BLOCKS] * (smem + RESERVED) <= target->smem_sm_bytes;
}

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; ++i) {
        if (suits(problem, target, i) && index-- == 0) {
            *config = candidates[i].config;
            return true;
        }
    }
    return false;
}

static const attune_config smallest = {{2, 1, 1, 32, 2, 0, 0, 1}};

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    return at_has_shared_memory(target, smem_of(problem, &smallest), reason);
}

/* Rows that heads share, or a head's. */
static attune_term rows_of(const attune_config *config)
{
    const attune_term rows = attune_term_size(ATTUNE_SIZE_SEQLEN_Q);
    return config->value[PACK] ? attune_term_ceil_div(attune_term_mul(rows, attune_term_size(ATTUNE_SIZE_HEADS_Q)),
                                                      attune_term_size(ATTUNE_SIZE_HEADS_KV))
                               : rows;
}

/* What its warps hand to one another: of four neighbouring columns of each 128 a lane, and a sum. */
static int32_t join_smem_of(const attune_problem *problem)
{
    return JOIN_WARPS * ((problem->head_dim_v + 127) / 128 * 512 + 4);
}

/* Tiles of rows that heads share. */
static attune_term packed_tiles(const attune_config *config)
{
    const attune_term heads = attune_term_size(ATTUNE_SIZE_HEADS_KV);
    const attune_term rows =
        attune_term_mul(attune_term_size(ATTUNE_SIZE_SEQLEN_Q), attune_term_size(ATTUNE_SIZE_HEADS_Q));
    const attune_term tiles = attune_term_ceil_div(rows, attune_term_mul(attune_term_const(block_m(config)), heads));
    return attune_term_mul(attune_term_mul(attune_term_size(ATTUNE_SIZE_BATCH), heads), tiles);
}

/* Tiles of packed sequences' rows, of all heads: what is left of a sequence takes one more. */
static attune_term varlen_tiles(const attune_config *config)
{
    const attune_term rows = attune_term_const(block_m(config)), batch = attune_term_size(ATTUNE_SIZE_BATCH);
    const attune_term longest = attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_SEQLEN_Q), rows);
    const attune_term all =
        attune_term_join(attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_TOTAL_Q), rows), ATTUNE_TERM_ADD, batch);
    return attune_term_mul(attune_term_size(ATTUNE_SIZE_HEADS_Q),
                           attune_term_min(attune_term_mul(batch, longest), all));
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    const attune_term chunks =
        attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_SEQLEN_KV), attune_term_const(config->value[CHUNK]));
    attune_steps steps = at_follow_by_rows("fwd_mma", block_m(config), threads_of(config), smem_of(problem, config));
    const bool by_length = shares_tile(problem, config) || problem->batch <= 32; /* see find_tile_of_block */
    (void)target;
    if (problem->varlen && by_length && config->value[CHUNK] == 0) {
        steps.step[0].as.kernel.grid[0] = varlen_tiles(config);
    }
    if (config->value[PACK]) {
        steps.step[0].as.kernel.grid[0] = packed_tiles(config);
    }
    if (config->value[CHUNK] > 0) {
        steps.step[0].as.kernel.grid[1] = attune_term_join(chunks, ATTUNE_TERM_MAX, attune_term_const(1));
        steps.step[1] =
            (attune_step){.kind = ATTUNE_STEP_KERNEL,
                          .as.kernel = {.entry = "fwd_mma_join",
                                        .grid = {steps.step[0].as.kernel.grid[0],
                                                 attune_term_min(rows_of(config), attune_term_const(block_m(config))),
                                                 attune_term_const(1)},
                                        .block = {JOIN_WARPS * 32, 1, 1},
                                        .cluster = {1, 1, 1},
                                        .smem = attune_term_const(join_smem_of(problem)),
                                        .programmatic = 1}};
        steps.count = 2;
    }
    *out = steps;
}

static const attune_shipped shipped[] = {
    {"b1,h8,s512,d64,fp16", ""},
    {"b8,h16,s2048,d64,fp16", ""},
    {"b8,h16,s2048,d64,bf16,causal",
     "WARPS=4,SPLITS=1,STRIPS=2,BLOCK_N=64,STAGES=2,Q_REGISTERS=1,AHEAD=0,MIN_BLOCKS=2"},
    {"b8,h16,s2048,d128,fp16", ""},
    {"b8,h16,s2048,d128,fp16", "WARPS=4,SPLITS=1,STRIPS=1,BLOCK_N=32,STAGES=2,Q_REGISTERS=1,AHEAD=0,MIN_BLOCKS=2"},
    {"b8,h16,s2048,d128,bf16,causal", ""},
    {"b4,h16,s2048,d256,fp16,causal", ""},
    {"b4,h16,s2048,d256,bf16", "WARPS=4,SPLITS=1,STRIPS=1,BLOCK_N=32,STAGES=2,Q_REGISTERS=0,AHEAD=0,MIN_BLOCKS=1"},
    {"b1,h32,hkv8,sq1,skv8192,d128,bf16",
     "WARPS=1,SPLITS=2,STRIPS=1,BLOCK_N=32,STAGES=2,Q_REGISTERS=1,AHEAD=0,MIN_BLOCKS=1,PACK=1,CHUNK=512"},
    {"b2,h8,hkv2,s300,d72,dv40,bf16,causal,window=64:0,softcap=30,bias=bxh,mask,alibi,sink,seqused,strict", ""},
    {"b4,h16,s2048,d128,bf16,bias=1xh", ""},
    {"b4,h16,s2048,d128,fp16,causal,mask", ""},
    {"b4,h16,s2048,d128,bf16,softcap=30", ""},
    {"b4,h32,s2048,d64,bf16,softcap=30", ""},
    {"b1,h16,s4096,d128,bf16,window=1024:0", ""},
    {"b1,h32,s4096,d64,bf16,window=1024:0", ""},
    {"b8,h16,s2048,d64,fp16,causal", ""},
    {"b16,h16,s4096,d128,bf16,varlen=1,causal", ""},
    {"b4,h32,hkv8,sq1,skv2048,d128,bf16,mask", ""},
    {"b4,h16,s2048,d64,fp16,bias=bxh:fp32,mask", ""},
    {"b2,h8,s1024,d256,bf16,bias=1xh", ""},
    {"b4,h32,hkv8,sq512,skv4096,d128,bf16,causal,seqused,page=64", ""},
    {"b8,h32,hkv8,sq8,skv4096,d128,fp16,seqused,varlen=1,page=16,vtable,draft", ""},
    {"b1,h8,s1024,d128,bf16,causal,window=256:0,o=fp32", ""},
    {NULL, NULL},
};

/* Caches, and O and a bias of types of their own, in a row of their own: code for problems without caches has no room
 * for their roles. */
enum { CACHES = ATTUNE_FEATURE_PAGED | ATTUNE_FEATURE_PAGED_V | ATTUNE_FEATURE_DRAFT };
static const attune_capability can[] = {
    {AT_TILES(ATTUNE_DTYPES_HALF, ATTUNE_FEATURES_FORWARD, ATTUNE_BIASES_FORWARD, DIM_STEP, DIM_MAX),
     .dtypes_o = ATTUNE_DTYPES_FORWARD, .dtypes_bias = ATTUNE_DTYPES_FORWARD},
    {AT_TILES(ATTUNE_DTYPES_HALF, ATTUNE_FEATURES_FORWARD | CACHES, ATTUNE_BIASES_FORWARD, DIM_STEP, DIM_MAX),
     .dtypes_o = ATTUNE_DTYPES_FORWARD, .dtypes_bias = ATTUNE_DTYPES_FORWARD},
};

extern const attune_kernel at_kernel_mma;
const attune_kernel at_kernel_mma = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "mma",
    .summary = "tensor cores by mma.sync: scores and O in registers, cp.async rings; every GPU from sm_80 on",
    .traits = ATTUNE_TRAIT_TAINTS,
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
    .source = "mma.cu",
};
