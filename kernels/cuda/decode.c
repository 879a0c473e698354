/* decode: descriptor. The source says how it works. */
#include "launch.h"

enum { ROWS, WARPS, TILE, TILES, STAGES, CLUSTER, PARTS, PIECES, BLOCKS, PARAMS };

static const int32_t rows_values[] = {1, 2, 4, 8, 16, 32, 64};
static const int32_t warps_values[] = {4, 8};
static const int32_t tile_values[] = {16, 32};
static const int32_t tiles_values[] = {2, 4, 8, 16};
static const int32_t stages_values[] = {1, 2, 3, 4};
static const int32_t cluster_values[] = {0, 2, 4, 8};           /* 0: none */
static const int32_t parts_values[] = {0, 2, 4};                /* of a span, for blocks of a cluster; 0: whole */
static const int32_t pieces_values[] = {0, 1, 2, 4, 8, 16, 32}; /* of a job, each a block's; 0: equal shares of all */
static const int32_t blocks_values[] = {1, 2};                  /* of a multiprocessor */

static const attune_param params[PARAMS] = {
    [ROWS] = {"ROWS", rows_values, AT_COUNT(rows_values), 0},
    [WARPS] = {"WARPS", warps_values, AT_COUNT(warps_values), 0},
    [TILE] = {"TILE", tile_values, AT_COUNT(tile_values), 0},
    [TILES] = {"TILES", tiles_values, AT_COUNT(tiles_values), 0},
    [STAGES] = {"STAGES", stages_values, AT_COUNT(stages_values), 0},
    [CLUSTER] = {"CLUSTER", cluster_values, AT_COUNT(cluster_values), 0},
    [PARTS] = {"PARTS", parts_values, AT_COUNT(parts_values), 0},
    [PIECES] = {"PIECES", pieces_values, AT_COUNT(pieces_values), 0},
    [BLOCKS] = {"BLOCKS", blocks_values, AT_COUNT(blocks_values), 0},
};

enum { LINE = 128, DIM_STEP = 8, DIM_LEAST = 32, DIM_MOST = 256, ROWS_MOST = 64, GROUP = 8 };

/* Limits: of lengths that a block sums up in shared memory; of spans, whose number times that of a multiprocessor
 * keeps to 32 bits; of rows, beyond which keys would be read ever again. */
enum { BATCH_MOST = 4096, UNITS_MOST = 1 << 24, PACKED_MOST = 256 };

static int32_t chunks_of(int32_t dim)
{
    return (dim + 63) / 64;
}

static int32_t columns_of(int32_t dim)
{
    return (dim + 15) / 16 * 16;
}

static int32_t parts_of(const attune_config *config)
{
    return config->value[PARTS] > 1 ? config->value[PARTS] : 1;
}

/* Of a block. */
static int32_t threads_of(const attune_config *config)
{
    return config->value[WARPS] / parts_of(config) * 32;
}

/* Warps, or pairs of them that share tiles. */
static int32_t teams_of(const attune_config *config)
{
    return config->value[WARPS] / (config->value[ROWS] > 32 ? 4 : config->value[ROWS] > 16 ? 2 : 1);
}

static int32_t span_of(const attune_config *config)
{
    return teams_of(config) * config->value[TILE] * config->value[TILES];
}

/* Columns that are joined at once. */
static int32_t slice_of(const attune_problem *problem, const attune_config *config)
{
    const int32_t most = 64 * config->value[WARPS] / config->value[ROWS], all = columns_of(problem->head_dim_v);
    return most < all ? most : all;
}

static int32_t slices_of(const attune_problem *problem, const attune_config *config)
{
    return (columns_of(problem->head_dim_v) + slice_of(problem, config) - 1) / slice_of(problem, config);
}

/* Whether sequences may have lengths of their own. */
static bool lengths_differ(const attune_problem *problem)
{
    return problem->varlen || problem->seqused_kv;
}

/* Whether clusters have jobs where lengths turn out to be about even, and blocks equal shares where not; the source
 * has both then, of a single sequence too. */
static bool may_mix(const attune_problem *problem, const attune_config *config)
{
    return config->value[CLUSTER] > 0 && config->value[PARTS] <= 1 && lengths_differ(problem);
}

/* Whether blocks keep lengths: where there is room for those of any batch, so that no batch has another way. */
static bool keeps_lengths(const attune_problem *problem, const attune_config *config)
{
    enum { ROWS_KEPT = 32, DIM_KEPT = 128 };
    return may_mix(problem, config) && problem->seqused_kv && !problem->varlen && config->value[ROWS] <= ROWS_KEPT &&
           problem->head_dim_qk <= DIM_KEPT && problem->head_dim_v <= DIM_KEPT;
}

/* Sums of units by sequence, where lengths differ; then lengths. */
static int32_t sums_of(const attune_problem *problem, const attune_config *config)
{
    const int32_t batch = (int32_t)problem->batch;
    return !lengths_differ(problem) ? 0 : ((keeps_lengths(problem, config) ? 2 : 1) * batch + 1) * 4;
}

/* Whether there is a second launch. */
static bool joins(const attune_problem *problem, const attune_config *config)
{
    return config->value[CLUSTER] == 0 ? config->value[PIECES] != 1 : may_mix(problem, config) && problem->batch > 1;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t spans_of(const attune_problem *problem, const attune_config *config)
{
    const int64_t spans = ceil_div(problem->seqlen_kv, span_of(config));
    return spans < 1 ? 1 : spans;
}

/* What the blocks of a cluster send one of them. */
static int64_t letters_of(const attune_problem *problem, const attune_config *config)
{
    const bool parts = config->value[PARTS] > 1;
    const int32_t row_pairs = parts ? (problem->head_dim_v + 31) / 32 * 16 : problem->head_dim_v / 2;
    const int64_t pairs = ceil_div(config->value[ROWS] * row_pairs, config->value[CLUSTER]);
    const int64_t of_span = parts || config->value[ROWS] > 8 ? 8 * (pairs + config->value[ROWS]) : 16 * pairs;
    return spans_of(problem, config) * of_span * (parts ? teams_of(config) : 1);
}

/* Bytes of all rings. */
static int32_t ring_of(const attune_problem *problem, const attune_config *config)
{
    return teams_of(config) / parts_of(config) * config->value[STAGES] * config->value[TILE] * LINE *
           (chunks_of(problem->head_dim_qk) + chunks_of(problem->head_dim_v));
}

/* sizeof(Shared) of the source, and those. */
static int32_t smem_of(const attune_problem *problem, const attune_config *config)
{
    const int32_t teams = teams_of(config), rows = config->value[ROWS];
    const int32_t qk = chunks_of(problem->head_dim_qk), ring = ring_of(problem, config);
    const int32_t queries = problem->head_dim_qk <= 128 ? 16 : (rows < 16 ? 16 : rows) * qk * LINE;
    const int32_t slices = slices_of(problem, config), staged = rows > 16 && slices % 2 == 0 ? 2 : 1;
    const bool sent = config->value[PARTS] > 1; /* by warps, and not joined before */
    const int32_t joined =
        (sent ? 1 : teams * rows) * (staged * slice_of(problem, config) + 4) * 4 + (sent ? 1 : teams) * rows * 8;
    const bool alone = config->value[CLUSTER] == 0 || may_mix(problem, config);
    const int32_t kept = (alone ? 2 * (2 * slices + 2) : 1) * threads_of(config) * 4;
    const int32_t barriers = teams * config->value[STAGES] * 8 + 8 + config->value[WARPS] * 4;
    const int32_t entries = problem->page_size > 0 ? config->value[STAGES] * config->value[WARPS] * 64 * 4 : teams * 4;
    const int64_t letters = config->value[CLUSTER] > 0 ? letters_of(problem, config) : 0;
    const int64_t more = letters + (alone ? (sums_of(problem, config) + 15) / 16 * 16 : 0);
    const int64_t all = (ring + queries + joined + kept + barriers + entries + 1023) / 1024 * 1024 + more;
    return all < INT32_MAX ? (int32_t)all : INT32_MAX;
}

/* Groups of spans that a block of the second launch joins at once, and of how many rows: a warp has a row of one. NOTE:
 * few warps and blocks unless spans are many: more find no registers beside the first launch, and begin when it ends.
 */
static int32_t join_groups_of(const attune_problem *problem, const attune_config *config)
{
    enum { FEW_SPANS = 32, MANY_SPANS = 64 };
    const int64_t spans = spans_of(problem, config);
    const int32_t most = spans > MANY_SPANS ? config->value[WARPS] : spans > FEW_SPANS ? 4 : 2;
    int32_t groups = 1;
    while (config->value[PIECES] == 0 && groups < most && groups * GROUP < spans) {
        groups *= 2;
    }
    return groups;
}

static int32_t join_rows_of(const attune_problem *problem, const attune_config *config)
{
    const int32_t rows = 4 / join_groups_of(problem, config);
    return rows < 1 ? 1 : rows < config->value[ROWS] ? rows : config->value[ROWS];
}

/* sizeof(Joint), and sums of units. */
static int32_t join_smem_of(const attune_problem *problem, const attune_config *config)
{
    return config->value[WARPS] * ((problem->head_dim_v + 127) / 128 * 512 + 8 + 4) + sums_of(problem, config);
}

static int64_t heads_of_group(const attune_problem *problem)
{
    return problem->heads_q / problem->heads_kv;
}

/* Jobs of the largest call. */
static int64_t jobs_of(const attune_problem *problem, const attune_config *config)
{
    const int64_t tiles = ceil_div(problem->seqlen_q * heads_of_group(problem), config->value[ROWS]);
    return problem->batch * problem->heads_kv * tiles;
}

/* Units of the largest call. */
static int64_t units_of(const attune_problem *problem, const attune_config *config)
{
    return jobs_of(problem, config) * spans_of(problem, config);
}

/* Blocks that have pieces of jobs, or equal shares, of clusters too where these do not have a job each. */
static int64_t blocks_of(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    const int32_t cluster = config->value[CLUSTER] > 0 ? config->value[CLUSTER] : 1;
    return config->value[PIECES] > 0 ? jobs_of(problem, config) * config->value[PIECES]
                                     : target->sm_count / cluster * cluster;
}

/* Records of a block: of each of its units that begin no job, and two of one that it begins; or of a piece's groups. */
static int64_t records_of(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    if (config->value[PIECES] > 0) {
        return ceil_div(ceil_div(spans_of(problem, config), GROUP), config->value[PIECES]);
    }
    const int64_t units = ceil_div(units_of(problem, config), blocks_of(problem, target, config));
    const int64_t spans = spans_of(problem, config);
    return (units < spans ? units : spans) + 2;
}

static int64_t record_bytes(const attune_problem *problem, const attune_config *config)
{
    return ((int64_t)config->value[ROWS] * (problem->head_dim_v * 4 + 8) + 15) / 16 * 16;
}

/* Where kernels with whole tiles of queries take the problem, too: with keys few or rows many they are faster, unless
 * their tiles leave most multiprocessors idle. They have a tile of up to 128 queries for each head, which takes three
 * fifths of the time of 32 packed rows (docs/decode.md). */
enum { KEYS_LEAST = 1024, ROWS_ANY = 32, ROWS_SLOWER = 128 };

static int32_t rows_suited(const attune_problem *problem, const attune_target *target)
{
    const int64_t group = problem->heads_q / problem->heads_kv, tiles = ceil_div(problem->seqlen_q, 128) * group;
    const int64_t rows = tiles * 3 / 5 * 32;
    const bool few = 2 * problem->batch * problem->heads_q <= target->sm_count;
    const int64_t least = few ? ROWS_SLOWER : ROWS_ANY;
    return (int32_t)(rows > PACKED_MOST ? PACKED_MOST : rows > least ? rows : least);
}

static bool suits(const attune_problem *problem, const attune_target *target, int64_t rows, attune_reason *reason)
{
    const int32_t most = rows_suited(problem, target);
    if (problem->seqlen_kv < KEYS_LEAST) {
        return attune_refuse(reason, "seqlen_kv %lld: at least %d in one piece", (long long)problem->seqlen_kv,
                             KEYS_LEAST);
    }
    return rows <= most || attune_refuse(reason,
                                         "seqlen_q %lld: %lld rows share a head of K and V, at most %d with keys in "
                                         "one piece and %lld heads",
                                         (long long)problem->seqlen_q, (long long)rows, most,
                                         (long long)(problem->batch * problem->heads_q));
}

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    const int64_t rows = problem->seqlen_q * heads_of_group(problem);
    if (problem->batch > BATCH_MOST && lengths_differ(problem)) {
        return attune_refuse(reason, "batch %lld: at most %d, where lengths differ", (long long)problem->batch,
                             BATCH_MOST);
    }
    if (rows > PACKED_MOST) {
        return attune_refuse(reason, "seqlen_q %lld: %lld rows share a head of K and V, at most %d",
                             (long long)problem->seqlen_q, (long long)rows, PACKED_MOST);
    }
    return problem->page_size > 0 || problem->draft_mask || suits(problem, target, rows, reason);
}

/* Each job has a cluster of its own; of sequences that differ there is one. */
static bool valid_cluster(const attune_problem *problem, const attune_target *target, const attune_config *config,
                          attune_reason *reason)
{
    const int64_t jobs = jobs_of(problem, config);
    const int64_t parts = config->value[PARTS], blocks = spans_of(problem, config) * parts;
    if (problem->batch > 1 && lengths_differ(problem) && (problem->varlen || parts > 1)) {
        return attune_refuse(reason, "CLUSTER %d, PARTS %lld: lengths differ, and batch is %lld",
                             config->value[CLUSTER], (long long)parts, (long long)problem->batch);
    }
    if (parts > 1 && (blocks != config->value[CLUSTER] || config->value[ROWS] > 16 ||
                      config->value[STAGES] != config->value[TILES])) {
        return attune_refuse(reason, "PARTS %lld: CLUSTER %lld, STAGES %d and at most 16 ROWS are needed",
                             (long long)parts, (long long)blocks, config->value[TILES]);
    }
    return jobs * config->value[CLUSTER] <= target->sm_count ||
           attune_refuse(reason, "CLUSTER %d: %lld clusters, for %d multiprocessors", config->value[CLUSTER],
                         (long long)jobs, target->sm_count);
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    if (slice_of(problem, config) < columns_of(problem->head_dim_v) &&
        slice_of(problem, config) * (config->value[ROWS] > 16 ? 2 : 1) % 16 != 0) {
        return attune_refuse(reason,
                             "ROWS %d with WARPS %d: %d columns would be joined at once, a multiple of 16 is "
                             "needed",
                             config->value[ROWS], config->value[WARPS], slice_of(problem, config));
    }
    if (config->value[CLUSTER] == 0 && config->value[PARTS] > 1) {
        return attune_refuse(reason, "PARTS %d: of a cluster's blocks, and CLUSTER is 0", config->value[PARTS]);
    }
    if (config->value[PIECES] > 0 && (config->value[CLUSTER] > 0 || lengths_differ(problem))) {
        return attune_refuse(reason, "PIECES %d: CLUSTER is %d, or lengths differ", config->value[PIECES],
                             config->value[CLUSTER]);
    }
    if (config->value[PIECES] == 0 && config->value[BLOCKS] > 1) {
        return attune_refuse(reason, "BLOCKS %d: of pieces, and PIECES is 0", config->value[BLOCKS]);
    }
    if (config->value[CLUSTER] > 0 && !valid_cluster(problem, target, config, reason)) {
        return false;
    }
    if (units_of(problem, config) > UNITS_MOST) {
        return attune_refuse(reason, "WARPS, TILE, TILES: %lld spans of %d keys, at most %d",
                             (long long)units_of(problem, config), span_of(config), UNITS_MOST);
    }
    return true;
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    *out = at_block_resources(threads_of(config), smem_of(problem, config));
    if (joins(problem, config)) {
        out->workspace = attune_term_const(blocks_of(problem, target, config) * records_of(problem, target, config) *
                                           record_bytes(problem, config));
    }
}

static int32_t rows_for(const attune_problem *problem)
{
    const int64_t rows = problem->seqlen_q * heads_of_group(problem);
    int32_t of_tile = 1;
    while (of_tile < rows && of_tile < ROWS_MOST) {
        of_tile *= 2;
    }
    return of_tile;
}

/* Bytes that are to be under way in each multiprocessor: with less memory waits, more it does not serve faster. */
enum { UNDER_WAY = 112 * 1024 };

/* Whether it is valid, and a multiprocessor has room for its blocks. */
static bool takes(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    enum { RESERVED = 1024 }; /* bytes, in each block */
    const int32_t room = (target->smem_optin_bytes + RESERVED) / config->value[BLOCKS] - RESERVED;
    return valid(problem, target, config, NULL) && smem_of(problem, config) <= room;
}

/* The fewest stages that have enough under way; else as many as there is room for. */
static bool stages_for(const attune_problem *problem, const attune_target *target, attune_config *config)
{
    bool found = false;
    for (size_t i = 0; i < AT_COUNT(stages_values); ++i) {
        attune_config at = *config;
        at.value[STAGES] = stages_values[i];
        if (takes(problem, target, &at)) {
            *config = at;
            found = true;
            if (ring_of(problem, &at) * at.value[BLOCKS] >= UNDER_WAY) {
                break;
            }
        }
    }
    return found;
}

/* Blocks of a cluster for each job, where no block would have more to do than without: where each span has a block of
 * its own; and where nearly all multiprocessors have as many spans. */
static int32_t cluster_for(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    const int64_t jobs = jobs_of(problem, config), spans = spans_of(problem, config);
    const bool differ = problem->batch > 1 && lengths_differ(problem);
    /* NOTE: of clusters of eight no more are under way at once than fit into nine multiprocessors of ten. */
    const int64_t room = spans == 8 ? target->sm_count * 9 / 10 : target->sm_count;
    if (!differ && (spans == 2 || spans == 4 || spans == 8) && jobs * spans <= room) {
        return (int32_t)spans;
    }
    const bool fills = 2 * jobs <= target->sm_count && 20 * jobs >= 9 * target->sm_count;
    return spans >= 8 && fills && !(differ && problem->varlen) ? 2 : 0;
}

/* The most parts of a span: a part has two tiles' worth of warps or more, and all clusters are under way at once. */
static bool parts_for(const attune_problem *problem, const attune_target *target, attune_config *config)
{
    const int64_t jobs = jobs_of(problem, config), spans = spans_of(problem, config);
    for (int32_t parts = 4; parts > 1 && config->value[TILES] <= 4; parts /= 2) {
        attune_config at = *config;
        at.value[PARTS] = parts;
        at.value[CLUSTER] = (int32_t)spans * parts;
        at.value[STAGES] = at.value[TILES];
        if ((spans * parts == 4 || spans * parts == 8) && jobs * spans * parts <= target->sm_count * 9 / 10 &&
            takes(problem, target, &at)) {
            *config = at;
            return true;
        }
    }
    return false;
}

/* Whether as many blocks occupy nine places of ten in all rounds. */
static bool occupies(int64_t blocks, int64_t places)
{
    return 10 * blocks >= 9 * ceil_div(blocks, places) * places;
}

static bool cut_into(const attune_problem *problem, const attune_target *target, int32_t pieces, int32_t blocks,
                     attune_config *config)
{
    attune_config at = *config;
    at.value[PIECES] = pieces;
    at.value[BLOCKS] = blocks;
    if (!occupies(jobs_of(problem, config) * pieces, (int64_t)target->sm_count * blocks) ||
        !stages_for(problem, target, &at) || ring_of(problem, &at) * blocks < UNDER_WAY) {
        return false;
    }
    *config = at;
    return true;
}

/* Whether two blocks of a multiprocessor find the registers they need: of up to eight rows that have little of their
 * own, with keys in one piece. */
static bool two_have_registers(const attune_problem *problem, const attune_config *config)
{
    enum { ROWS_OF_TWO = 8 };
    return config->value[ROWS] <= ROWS_OF_TWO && !problem->draft_mask && !problem->alibi && problem->page_size == 0;
}

/* Jobs that are alike: whole ones in any number of rounds, two blocks a multiprocessor if that comes out even, so that
 * one copies while the other joins; else pieces of as many groups each, all at once. */
static bool pieces_for(const attune_problem *problem, const attune_target *target, attune_config *config)
{
    enum { PIECES_MOST = 32 };
    const int64_t jobs = jobs_of(problem, config), groups = ceil_div(spans_of(problem, config), GROUP);
    const bool sees_all = !attune_is_windowed(problem) &&
                          (!attune_is_causal(problem) || problem->offset_kind == ATTUNE_OFFSET_BOTTOM_RIGHT);
    if (!sees_all) {
        return false;
    }
    if ((two_have_registers(problem, config) && cut_into(problem, target, 1, 2, config)) ||
        cut_into(problem, target, 1, 1, config)) {
        return true;
    }
    for (int32_t pieces = 2; pieces <= PIECES_MOST && jobs * pieces <= target->sm_count; pieces *= 2) {
        if (groups % pieces == 0 && cut_into(problem, target, pieces, 1, config)) {
            return true;
        }
    }
    return false;
}

static bool way_for(const attune_problem *problem, const attune_target *target, attune_config *config)
{
    attune_config at = *config;
    if (parts_for(problem, target, config)) {
        return true;
    }
    at.value[CLUSTER] = cluster_for(problem, target, config);
    if (at.value[CLUSTER] > 0 && stages_for(problem, target, &at) && ring_of(problem, &at) >= UNDER_WAY) {
        *config = at;
        return true;
    }
    return pieces_for(problem, target, config) || stages_for(problem, target, config);
}

/* Nothing here that bits depend on depends on batch or lengths. Rows for which there is no room, as of
 * wide heads, become two jobs. */
static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    for (int32_t rows = rows_for(problem); rows > 0; rows /= 2) {
        const attune_config few[] = {{{rows, 8, 16, 4, 0, 0, 0, 0, 1}}, {{rows, 8, 16, 2, 0, 0, 0, 0, 1}},
                                     {{rows, 8, 16, 8, 0, 0, 0, 0, 1}}, {{rows, 8, 32, 2, 0, 0, 0, 0, 1}},
                                     {{rows, 4, 32, 4, 0, 0, 0, 0, 1}}, {{rows, 4, 16, 8, 0, 0, 0, 0, 1}}};
        const int32_t longer = rows > 32 ? 2 : 1; /* half as many teams */
        const attune_config many[] = {{{rows, 8, 32, 8 * longer, 0, 0, 0, 0, 1}},
                                      {{rows, 8, 16, 8 * longer, 0, 0, 0, 0, 1}},
                                      {{rows, 8, 32, 4 * longer, 0, 0, 0, 0, 1}}};
        const int32_t asked = index;
        const size_t count = rows > 16 ? AT_COUNT(many) : AT_COUNT(few);
        for (size_t i = 0; i < count; ++i) {
            attune_config at = rows > 16 ? many[i] : few[i];
            if (way_for(problem, target, &at) && (rows <= 16 || ring_of(problem, &at) >= UNDER_WAY) && index-- == 0) {
                *config = at;
                return true;
            }
        }
        if (index < asked) {
            return false;
        }
    }
    return false;
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    const int32_t page = problem->page_size > 0 ? problem->page_size : config->value[TILE];
    int32_t box = config->value[TILE];
    while (page % box != 0) {
        box /= 2;
    }
    const int32_t cluster = config->value[CLUSTER];
    const int32_t pieces = config->value[PIECES], of_job = cluster > 0 ? cluster : pieces > 0 ? pieces : 1;
    const attune_term jobs = attune_term_mul(attune_term_size(ATTUNE_SIZE_BATCH),
                                             attune_term_const(jobs_of(problem, config) / problem->batch));
    const attune_term blocks =
        cluster > 0 ? attune_term_const(blocks_of(problem, target, config)) : attune_term_size(ATTUNE_SIZE_SM_COUNT);
    const bool of_jobs = pieces > 0 || (cluster > 0 && !joins(problem, config));
    const attune_term grid = of_jobs ? attune_term_mul(jobs, attune_term_const(of_job)) : blocks;
    const attune_step_kernel attend = {.entry = "fwd_decode",
                                       .grid = {grid, attune_term_const(1), attune_term_const(1)},
                                       .block = {threads_of(config), 1, 1},
                                       .cluster = {cluster > 0 ? cluster : 1, 1, 1},
                                       .smem = attune_term_const(smem_of(problem, config)),
                                       .programmatic = 1,
                                       .map_count = box % 8 == 0 ? 2 : 0,
                                       .map = {{ATTUNE_K, ATTUNE_SWIZZLE_128B, {64, box, 1, 1}, 128, ""},
                                               {ATTUNE_V, ATTUNE_SWIZZLE_128B, {64, box, 1, 1}, 128, ""}}};
    const attune_step_kernel join = {
        .entry = "fwd_decode_join",
        .grid = {pieces > 0 ? jobs : blocks, attune_term_const(config->value[ROWS] / join_rows_of(problem, config)),
                 attune_term_const(1)},
        .block = {join_groups_of(problem, config) * join_rows_of(problem, config) * 32, 1, 1},
        .cluster = {1, 1, 1},
        .smem = attune_term_const(join_smem_of(problem, config)),
        .programmatic = 1};
    *out = (attune_steps){.count = joins(problem, config) ? 2 : 1,
                          .step = {{.kind = ATTUNE_STEP_KERNEL, .as = {.kernel = attend}},
                                   {.kind = ATTUNE_STEP_KERNEL, .as = {.kernel = join}}}};
}

static const attune_shipped shipped[] = {
    {"b1,h32,hkv8,sq1,skv8192,d128,bf16", ""},
    {"b8,h32,hkv8,sq1,skv8192,d128,bf16", ""},
    {"b1,h32,hkv8,sq1,skv65536,d128,bf16", ""},
    {"b16,h32,hkv8,sq1,skv32768,d128,bf16", ""},
    {"b64,h32,hkv8,sq2,skv4096,d128,bf16,causal", ""},
    {"b128,h32,hkv8,sq2,skv4096,d128,fp16,causal,strict,softcap=20,sink", ""},
    {"b64,h32,hkv8,sq1,skv4096,d128,bf16,seqused,page=16", ""},
    {"b64,h32,hkv8,sq1,skv4096,d128,fp16,seqused,page=1", ""},
    {"b64,h32,hkv8,sq2,skv4096,d128,bf16,causal,window=1000:0,seqused,page=1,alibi", ""},
    {"b8,h32,hkv8,sq4,skv8192,d128,bf16,causal", ""},
    {"b8,h32,hkv8,sq8,skv8192,d128,bf16,causal", ""},
    {"b8,h32,hkv8,sq1,skv8192,d128,bf16,seqused,page=64", ""},
    {"b8,h64,hkv8,sq8,skv8192,d128,bf16,causal", ""},
    {"b8,h32,hkv8,sq8,skv8192,d128,bf16,causal,seqused,page=64", ""},
    {"b8,h64,hkv8,sq4,skv8192,d64,fp16,draft,seqused,page=256,strict", ""},
    {"b4,h16,hkv4,sq2,skv4096,d256,bf16,causal,window=1024:0,softcap=30,alibi,sink", ""},
    {"b4,h16,hkv2,sq4,skv4096,d256,bf16,causal,seqused,page=64", ""},
    {"b4,h16,hkv4,sq1,skv4096,d192,dv128,bf16", ""},
    {"b4,h32,hkv8,sq3,skv4096,d96,bf16,varlen,causal", ""},
    {NULL, NULL},
};

#define FEATURES                                                                                                       \
    (ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_ALIBI |                   \
     ATTUNE_FEATURE_SINK | ATTUNE_FEATURE_SEQUSED | ATTUNE_FEATURE_VARLEN | ATTUNE_FEATURE_STRICT |                    \
     ATTUNE_FEATURE_PAGED | ATTUNE_FEATURE_PAGED_V | ATTUNE_FEATURE_DRAFT)

static const attune_capability can[] = {
    {.ops = ATTUNE_BIT(ATTUNE_FORWARD),
     .dtypes = ATTUNE_DTYPES_HALF,
     .features = FEATURES,
     .offsets = ATTUNE_OFFSETS_FORWARD,
     .layouts = ATTUNE_LAYOUTS_FORWARD,
     .head_dim_qk = {DIM_LEAST, DIM_MOST, DIM_STEP},
     .head_dim_v = {DIM_LEAST, DIM_MOST, DIM_STEP},
     .align = 16,
     .arch_least = 90,
     .arch_most = 100,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)},
};

extern const attune_kernel at_kernel_decode;
const attune_kernel at_kernel_decode = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "decode",
    .summary = "few queries against many keys or pages: split over keys, a ring for each warp; sm_90 and sm_100",
    .traits = 0,
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
    .source = "decode.cu",
};
