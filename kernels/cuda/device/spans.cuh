/* How the split over keys of short queries is divided among blocks, and how its parts are joined.
 *
 * The rows of a job are what one tile of packed rows (ROWS of the queries and heads that share a head of K and V) has
 * of one sequence. Its keys are cut into spans of SPAN by their place in the sequence, its units. All units of a call
 * are numbered in order, sequence by sequence, head by head, tile by tile, span by span, and each block has an equal
 * share of neighbours. It works out by itself which, from the lengths on the device. Where all jobs are alike they may
 * instead be cut into PIECES, of whole groups of spans, and each block has one.
 *
 * Which block has a unit may depend on everything; bits do not: a span is always computed from nothing, and joined from
 * left to right in groups of GROUP spans, groups from left to right. */
#ifndef DEVICE_SPANS_CUH
#define DEVICE_SPANS_CUH

#include "device/softmax.cuh"
#include "device/visibility.cuh"

/* Warps that share tiles of keys, each with as many of the rows: what they leave of a span is half as much then. */
constexpr int HALVES = ROWS > 32 ? 4 : ROWS > 16 ? 2 : 1, TEAMS = WARPS / HALVES;
/* Blocks of a cluster may share a span: each has some of its teams, and no other span. */
constexpr int SHARERS = PARTS > 1 ? PARTS : 1, OWN_TEAMS = TEAMS / SHARERS;
constexpr int SPAN = TEAMS * TILES * TILE, GROUP = 8;
constexpr int ROWS_WHOLE = 64; /* of all spans of a job: with fewer, parts of jobs cost nothing to speak of */

/* Whether nothing has to be read to know how many units a sequence has: all have the same. */
constexpr bool uniform_units = !ATTUNE_HAS_VARLEN && !ATTUNE_HAS_SEQUSED;
/* Whether clusters have a job each only where lengths turn out to be about even; else blocks have equal shares. */
constexpr bool MIXED = CLUSTER > 0 && PARTS <= 1 && !uniform_units;
/* Whether all sequences have the units of the first; where a cluster's blocks share spans there is one sequence. */
constexpr bool alike_units = uniform_units || (CLUSTER > 0 && !MIXED);
/* Whether lengths are read once, into shared memory: what a call begins with may be worked out from what lengths were
 * before the launch before has ended, and is looked at again when it has. NOTE: without clusters it gains many
 * sequences nothing, and lengths that differ lose by it. */
constexpr bool KEEPS_LENGTHS = MIXED && ATTUNE_HAS_SEQUSED && !ATTUNE_HAS_VARLEN && ROWS <= 32 &&
                               ATTUNE_HEAD_DIM_QK <= 128 && ATTUNE_HEAD_DIM_V <= 128;

/* Whether what a block's next job begins with is asked for before the last one ends: entries of its first tiles, and
 * its queries. NOTE: what asks for them waits behind all that is under way, and a block that has many short jobs waits
 * for it in each. Of more rows, or wider ones, there are no registers left. */
constexpr bool ASKS_EARLY = !alike_units && ROWS <= 8 && ATTUNE_HEAD_DIM_QK <= 128 && ATTUNE_HEAD_DIM_V <= 128;

/* a / b of numbers that are not negative, the quotient below 2^20. NOTE: a division of integers takes some forty
 * dependent instructions, and a block makes a handful before its first copy. */
ATTUNE_INLINE int quotient(int a, int b)
{
    const int q = (int)__fdividef((float)a, (float)b), rest = a - q * b;
    return q + (rest >= b) - (rest < 0);
}

/* The spans of a sequence that have keys which some row of it sees; where rows see none, one. */
struct span_range {
    int first, count;
};

ATTUNE_INLINE int heads_of_group(const attune_args &args)
{
    return quotient((int)args.heads_q, (int)args.heads_kv);
}

ATTUNE_INLINE key_range keys_of_sequence(const attune_args &args, const sequence &at)
{
    return keys_seen_by_any(args, at, 0, at.length_q - 1);
}

ATTUNE_INLINE span_range spans_of(const attune_args &args, const sequence &at)
{
    const key_range keys = keys_of_sequence(args, at);
    if (keys.first >= keys.end) {
        return span_range{0, 1};
    }
    const int first = keys.first / SPAN;
    return span_range{first, (keys.end + SPAN - 1) / SPAN - first};
}

/* Tiles of ROWS packed rows. */
ATTUNE_INLINE int tiles_of(const attune_args &args, const sequence &at)
{
    return ((int)at.length_q * heads_of_group(args) + ROWS - 1) / ROWS;
}

ATTUNE_INLINE int units_of(const attune_args &args, const sequence &at)
{
    const int tiles = tiles_of(args, at);
    return tiles == 0 ? 0 : tiles * spans_of(args, at).count * (int)args.heads_kv;
}

/* ---- Lengths ---------------------------------------------------------------------------------------------------- */

/* What is behind sums of units: a length of each sequence, where they are kept. */
ATTUNE_INLINE int *lengths_behind(const attune_args &args, int *before)
{
    return before + (int)args.batch + 1;
}

/* A length as it is now. NOTE: it is read from L2, and nothing stays behind that could be found there later. */
ATTUNE_INLINE int length_now(const attune_args &args, int batch)
{
    const attune_i32 used = static_cast<const volatile attune_i32 *>(args.tensor[ATTUNE_USED_KV].data)[batch];
    return min(max(used, 0), (int)args.seqlen_kv);
}

/* A sequence, of the length that is kept. */
ATTUNE_INLINE sequence sequence_kept(const attune_args &args, const int *before, int batch)
{
    sequence at = sequence_of(args, batch);
    if constexpr (KEEPS_LENGTHS) {
        at.length_kv = before[(int)args.batch + 1 + batch];
#if ATTUNE_OFFSET_KIND == 0
        at.offset = at.length_kv - at.length_q;
#endif
    }
    return at;
}

/* ---- Units ------------------------------------------------------------------------------------------------------ */

struct units {
    const int *before; /* [batch + 1]: units of the sequences before; unless uniform */
    int each;          /* of a sequence, where uniform */
    int total;
    int share, more; /* of a block, while there are any; the first `more` blocks have one more */
    bool together;   /* clusters have a job each */
    int group;       /* query heads that share one of K and V */
};

/* Sums of the sequences' units into `before`, [batch + 1] in shared memory; `sums` has room for a number a warp. All
 * threads take part. */
ATTUNE_INLINE void sum_units(const attune_args &args, int threads, int *before, int *sums)
{
    const int thread = (int)threadIdx.x, lane = thread % 32, batch = (int)args.batch;
    int done = 0;
    for (int first = 0; first < batch; first += threads) {
        int own = 0;
        if (first + thread < batch) {
            if constexpr (KEEPS_LENGTHS) {
                lengths_behind(args, before)[first + thread] = length_now(args, first + thread);
            }
            own = units_of(args, sequence_kept(args, before, first + thread));
        }
        int sum = own;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            const int left = __shfl_up_sync(0xffffffff, sum, step);
            sum += lane >= step ? left : 0;
        }
        if (lane == 31) {
            sums[thread / 32] = sum;
        }
        __syncthreads();
        int others = done;
        for (int warp = 0; warp < threads / 32; ++warp) {
            others += warp < thread / 32 ? sums[warp] : 0;
            done += sums[warp];
        }
        if (first + thread < batch) {
            before[first + thread] = others + sum - own;
        }
        __syncthreads();
    }
    if (thread == 0) {
        before[batch] = done;
    }
    __syncthreads();
}

/* Where all jobs are alike, have many spans or rows, and whole ones occupy nine blocks of ten, no block has a part of
 * one: what parts leave to the second launch then costs more than multiprocessors that are idle. */
ATTUNE_INLINE bool share_jobs(const attune_args &args, units &all)
{
    if (all.total == 0) {
        return false;
    }
    const sequence first = sequence_of(args, 0);
    const int blocks = (int)gridDim.x, spans = spans_of(args, first).count;
    const int jobs = (int)args.batch * (int)args.heads_kv * tiles_of(args, first);
    const int most = (int)((unsigned)(jobs + blocks - 1) / (unsigned)blocks);
    if (spans * ROWS < ROWS_WHOLE || jobs < most * blocks / 10 * 9) {
        return false;
    }
    all.share = most * spans;
    return true;
}

/* Whether clusters, a job each, are done about as early as blocks that have equal shares of all units: parts of jobs
 * cost what most of a unit does. One sequence's jobs are alike, and a plan for one has no second launch: however few of
 * its rows there are, clusters have them. All threads take part. */
ATTUNE_INLINE bool are_even(const attune_args &args, const units &all, int threads)
{
    const int jobs_each = (int)args.heads_kv * tiles_of(args, sequence_of(args, 0)), blocks = (int)gridDim.x;
    const int batch = (int)args.batch, needed = batch * jobs_each * CLUSTER;
    if (needed == 0 || needed > blocks) {
        return false;
    }
    if (batch == 1) {
        return true;
    }
    const int most = (all.total + blocks / 4 * 3) / blocks * CLUSTER; /* spans of a job, at least a block's unit each */
    bool above = false;
    for (int i = (int)threadIdx.x; i < batch; i += threads) {
        above |= all.before[i + 1] - all.before[i] > most * jobs_each;
    }
    return __syncthreads_or(above) == 0;
}

ATTUNE_INLINE units find_units(const attune_args &args, int threads, int *before, int *sums)
{
    units all = {before, 0, 0, 0, 0, CLUSTER > 0, heads_of_group(args)};
    if constexpr (alike_units) {
        all.each = args.batch > 0 ? units_of(args, sequence_of(args, 0)) : 0;
        all.total = all.each * (int)args.batch;
        all.share = (CLUSTER > 0 || PIECES > 0) && args.batch > 0 ? spans_of(args, sequence_of(args, 0)).count : 0;
    } else {
        sum_units(args, threads, before, sums);
        all.total = before[args.batch];
    }
    if constexpr (MIXED) {
        all.together = are_even(args, all, threads);
    } else if (CLUSTER > 0 || PIECES > 0 || (uniform_units && share_jobs(args, all))) {
        return all;
    }
    all.share = (int)((unsigned)all.total / gridDim.x);
    all.more = all.total - all.share * (int)gridDim.x;
    return all;
}

ATTUNE_INLINE int units_before(const units &all, int batch)
{
    return alike_units ? all.each * batch : all.before[batch];
}

/* The sequence that has a unit. */
ATTUNE_INLINE int sequence_with(const attune_args &args, const units &all, int unit)
{
    if constexpr (alike_units) {
        return quotient(unit, all.each);
    }
    int least = 0, most = (int)args.batch - 1;
    while (least < most) {
        const int middle = (least + most + 1) / 2;
        if (all.before[middle] <= unit) {
            least = middle;
        } else {
            most = middle - 1;
        }
    }
    return least;
}

/* The first unit of a block, and the block that has a unit. */
ATTUNE_INLINE int block_begin(const units &all, int block)
{
    const int begin = all.share * block + min(block, all.more);
    return uniform_units ? min(begin, all.total) : begin;
}

ATTUNE_INLINE int block_with(const units &all, int unit)
{
    const int larger = (all.share + 1) * all.more; /* units of the blocks that have one more */
    return unit < larger ? quotient(unit, all.share + 1) : all.more + quotient(unit - larger, all.share);
}

/* ---- Jobs ------------------------------------------------------------------------------------------------------- */

/* NOTE: what a sequence is comes of its number again where it is needed; registers are short. */
struct job {
    int batch, head, first_row; /* the sequence, the head of K and V, the first packed row */
    int first_kv;               /* of the sequence, in packed tensors */
    int begin, end;             /* units */
    int first_span;
    key_range keys; /* that some row of the sequence sees */
};

ATTUNE_INLINE job job_with(const attune_args &args, const units &all, int unit)
{
    job j;
    j.batch = sequence_with(args, all, unit);
    const sequence at = sequence_kept(args, all.before, j.batch);
    const span_range spans = spans_of(args, at);
    const int tiles = tiles_of(args, at), local = unit - units_before(all, j.batch),
              place = quotient(local, spans.count);
    j.head = quotient(place, tiles);
    j.first_row = (place - j.head * tiles) * ROWS;
    j.first_kv = (int)at.first_kv;
    j.begin = unit - (local - place * spans.count);
    j.end = j.begin + spans.count;
    j.first_span = spans.first;
    j.keys = keys_of_sequence(args, at);
    return j;
}

/* The job behind one, which begins with a unit that there is: as job_with finds it, but, with ASKS_EARLY, without a
 * search and divisions, for which short jobs would wait. */
ATTUNE_INLINE job job_behind(const attune_args &args, const units &all, const job &j, int unit)
{
    if constexpr (!ASKS_EARLY) {
        return job_with(args, all, unit);
    }
    job next = j;
    next.begin = unit;
    next.first_row += ROWS;
    if (next.begin < all.before[j.batch + 1]) {
        next.end = next.begin + j.end - j.begin;
        if (next.first_row >= (int)sequence_kept(args, all.before, j.batch).length_q * all.group) {
            next.first_row = 0;
            ++next.head;
        }
        return next;
    }
    do {
        ++next.batch;
    } while (all.before[next.batch + 1] == next.begin);
    const sequence at = sequence_kept(args, all.before, next.batch);
    const span_range spans = spans_of(args, at);
    next.head = 0;
    next.first_row = 0;
    next.first_kv = (int)at.first_kv;
    next.end = next.begin + spans.count;
    next.first_span = spans.first;
    next.keys = keys_of_sequence(args, at);
    return next;
}

ATTUNE_INLINE int span_of(const job &j, int unit)
{
    return j.first_span + unit - j.begin;
}

/* How a job is cut: the first of its groups, and how many of them a piece has. */
struct cut {
    int first, each;
};

ATTUNE_INLINE cut cut_of(const job &j)
{
    constexpr int pieces = PIECES > 0 ? PIECES : 1;
    const int first = j.first_span / GROUP, end = (j.first_span + j.end - j.begin + GROUP - 1) / GROUP;
    return cut{first, (end - first + pieces - 1) / pieces};
}

/* The first unit of a cluster's job; the number of all where it has none. */
ATTUNE_INLINE int unit_of_cluster(const attune_args &args, const units &all, int cluster)
{
    if constexpr (!MIXED) {
        return min(cluster * all.share, all.total);
    }
    const int jobs_each = (int)args.heads_kv * tiles_of(args, sequence_of(args, 0)),
              batch = quotient(cluster, jobs_each);
    if (batch >= (int)args.batch) {
        return all.total;
    }
    const int units_each = all.before[batch + 1] - all.before[batch];
    return all.before[batch] + (cluster - batch * jobs_each) * quotient(units_each, jobs_each);
}

/* A packed row: queries outside, heads inside. */
struct packed_row {
    int query, head;
    bool exists;
};

ATTUNE_INLINE packed_row packed_row_of(const attune_args &args, const job &j, const sequence &at, int row)
{
    const int heads = heads_of_group(args), query = quotient(j.first_row + row, heads);
    return packed_row{query, j.head * heads + j.first_row + row - query * heads, row < ROWS && query < at.length_q};
}

/* ---- Joining ---------------------------------------------------------------------------------------------------- */

/* Sums of weights and of weighted values relative to a maximum, in units of log2; nothing: -inf, 0. */
template <int n> struct partial {
    float maximum, sum, o[n];
};

template <int n> ATTUNE_INLINE void partial_clear(partial<n> &x)
{
    x.maximum = negative_infinity();
    x.sum = 0;
#pragma unroll
    for (float &o : x.o) {
        o = 0;
    }
}

/* x and what is to the right of it. */
template <int n> ATTUNE_INLINE void partial_join(partial<n> &x, const partial<n> &right)
{
    const float maximum = fmaxf(x.maximum, right.maximum), subtract = subtrahend(maximum);
    const float a = ptx_ex2_approx_ftz_f32(x.maximum - subtract), b = ptx_ex2_approx_ftz_f32(right.maximum - subtract);
    x.maximum = maximum;
    x.sum = fmaf(right.sum, b, x.sum * a);
#pragma unroll
    for (int i = 0; i < n; ++i) {
        x.o[i] = fmaf(right.o[i], b, x.o[i] * a);
    }
}

/* The sink has a weight and no value. */
template <int n> ATTUNE_INLINE void partial_take_sink(const attune_args &args, int head, partial<n> &x)
{
    if constexpr (ATTUNE_HAS_SINK) {
        partial<n> sink;
        partial_clear(sink);
        const online start = online_start(args, head, true);
        sink.maximum = start.maximum;
        sink.sum = start.sum;
        partial_join(x, sink);
    }
}

/* What a block leaves to others lies in the workspace: records of ROWS x dim_v sums and ROWS pairs of maximum and sum.
 * Of each block: its units that begin no job, in order; then two of a job that it begins and another goes on with, the
 * groups and the open group. Of pieces: their groups. */
struct alignas(16) record {
    float o[ROWS][ATTUNE_HEAD_DIM_V];
    float2 state[ROWS];
};

struct records {
    record *first;
    int of_block;
};

ATTUNE_INLINE records find_records(const attune_args &args, unsigned blocks)
{
    return records{static_cast<record *>(args.workspace),
                   (int)((unsigned)(args.workspace_bytes / sizeof(record)) / blocks)};
}

/* ---- Out -------------------------------------------------------------------------------------------------------- */

ATTUNE_INLINE element *output_of(const attune_args &args, const sequence &at, const packed_row &r)
{
    return row_of<element>(args.tensor[ATTUNE_O], at.batch, r.head, at.first_q + r.query);
}

ATTUNE_INLINE void store_row_lse(const attune_args &args, const sequence &at, const packed_row &r, float maximum,
                                 float sum)
{
    if (wants_lse(args)) {
        store_lse(args, at.batch, r.head, at.first_q + r.query, maximum, sum);
    }
}

#endif
