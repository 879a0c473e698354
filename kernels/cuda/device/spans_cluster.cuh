/* Jobs that the blocks of a cluster have together, a job a cluster, all sequences being alike: each block has some
 * neighbouring spans. What it has of a span it sends in pieces of two columns to the blocks that join those, through
 * shared memory; these join as a block does that has all spans, so bits are the same. No second launch is needed. */
#ifndef DEVICE_SPANS_CLUSTER_CUH
#define DEVICE_SPANS_CLUSTER_CUH

#include "device/cluster.cuh"
#include "device/spans.cuh"

constexpr int JOB_BLOCKS = CLUSTER > 0 ? CLUSTER : 1;
constexpr int ROW_PAIRS = PARTS > 1 ? (ATTUNE_HEAD_DIM_V + 31) / 32 * 16 : ATTUNE_HEAD_DIM_V / 2; /* of columns */
constexpr int OWN_PAIRS = (ROWS * ROW_PAIRS + JOB_BLOCKS - 1) / JOB_BLOCKS; /* that a block joins */

static_assert(PARTS == 0 || ROWS * ROW_PAIRS % (2 * JOB_BLOCKS) == 0, "blocks have as many pairs of pairs");

/* The units of the cluster's job that the block has; maybe none. */
struct piece {
    int begin, end;
};

ATTUNE_INLINE piece piece_of(const job &j)
{
    const int rank = (int)blockIdx.x % JOB_BLOCKS, count = j.end - j.begin;
    if constexpr (PARTS > 1) {
        const int begin = j.begin + min(rank / SHARERS, count - 1);
        return piece{begin, begin + (rank / SHARERS < count)};
    }
    return piece{j.begin + count * rank / JOB_BLOCKS, j.begin + count * (rank + 1) / JOB_BLOCKS};
}

/* Two columns of what somebody has of a row; then its maximum and its sum. */
typedef float4 letter;

/* Which of a span's parts the block has. */
ATTUNE_INLINE int part_of()
{
    return PARTS > 1 ? (int)blockIdx.x % SHARERS : 0;
}

/* What is sent to a block: of each span, or of each team that has some of it, two columns of each pair that the block
 * joins; with them, or for every row behind them, maximum and sum. */
constexpr bool STATES_APART = ROWS > 8 || PARTS > 1;
constexpr int PAIR_BYTES = STATES_APART ? 8 : 16, SENDERS = PARTS > 1 ? TEAMS : 1;

struct mailbox {
    unsigned char *letters;
    int spans; /* times SENDERS, as wherever a span is asked for */
};

ATTUNE_INLINE unsigned char *letter_at(const mailbox &box, int span, int pair)
{
    return box.letters + (span * OWN_PAIRS + pair) * PAIR_BYTES;
}

ATTUNE_INLINE unsigned char *state_at(const mailbox &box, int span, int row)
{
    return box.letters + box.spans * OWN_PAIRS * PAIR_BYTES + (span * ROWS + row) * 8;
}

/* To the block that joins these columns; the mailbox is the job's, as if it were here. Who has a row's first column
 * sends the row's state to all. */
ATTUNE_INLINE void send(const mailbox &box, int span, int row, int column, const letter &x)
{
    const int pair = row * ROW_PAIRS + column / 2, to = pair / OWN_PAIRS;
    const unsigned remote = ptx_mapa(ptx_cvta_shared(letter_at(box, span, pair - to * OWN_PAIRS)), (unsigned)to);
    if constexpr (STATES_APART) {
        ptx_st_shared_cluster_v2_f32(remote, x.x, x.y);
        if (column == 0) {
#pragma unroll
            for (unsigned block = 0; block < JOB_BLOCKS; ++block) {
                ptx_st_shared_cluster_v2_f32(ptx_mapa(ptx_cvta_shared(state_at(box, span, row)), block), x.z, x.w);
            }
        }
    } else {
        ptx_st_shared_cluster_v4_f32(remote, x.x, x.y, x.z, x.w);
    }
}

ATTUNE_INLINE letter letter_of(const mailbox &box, int span, int pair)
{
    if constexpr (STATES_APART) {
        const int row = ((int)blockIdx.x % JOB_BLOCKS * OWN_PAIRS + pair) / ROW_PAIRS;
        const float2 o = *reinterpret_cast<const float2 *>(letter_at(box, span, pair));
        const float2 state = *reinterpret_cast<const float2 *>(state_at(box, span, row));
        return letter{o.x, o.y, state.x, state.y};
    } else {
        return *reinterpret_cast<const letter *>(letter_at(box, span, pair));
    }
}

/* What the teams have of a span, joined as a block joins its warps' (spans_warps.cuh). */
ATTUNE_INLINE letter join_senders(const mailbox &box, int span, int pair)
{
    letter x[SENDERS], all = {0, 0, negative_infinity(), 0};
#pragma unroll
    for (int t = 0; t < SENDERS; ++t) {
        x[t] = letter_of(box, span * SENDERS + t, pair);
        all.z = fmaxf(all.z, x[t].z);
    }
#pragma unroll
    for (int t = 0; t < SENDERS; ++t) {
        const float weight = ptx_ex2_approx_ftz_f32(x[t].z - subtrahend(all.z));
        all.w = fmaf(x[t].w, weight, all.w);
        all.x = fmaf(x[t].x, weight, all.x);
        all.y = fmaf(x[t].y, weight, all.y);
    }
    return all;
}

/* How what was summed before a span, and the span's own sums, shrink where it is span i of those that are joined:
 * `maximum[i]` is that of all up to it. */
struct shrinking {
    float before, own;
};

template <int most> ATTUNE_INLINE shrinking shrinking_of(const float (&maximum)[most], int i, float own)
{
    const float subtract = subtrahend(maximum[i]);
    const float before = i > 0 ? maximum[i > 0 ? i - 1 : 0] : negative_infinity();
    return shrinking{ptx_ex2_approx_ftz_f32(before - subtract), ptx_ex2_approx_ftz_f32(own - subtract)};
}

/* The spans of a group, from left to right: maxima first, so that weights are worked out side by side. */
ATTUNE_INLINE partial<2> join_group(const mailbox &box, int first, int count, int pair)
{
    constexpr int most = PARTS > 1 ? JOB_BLOCKS / SHARERS : GROUP; /* spans of a group */
    letter x[most];
    float maximum[most];
    partial<2> group;
    partial_clear(group);
#pragma unroll
    for (int i = 0; i < most; ++i) {
        x[i] = letter{0, 0, negative_infinity(), 0};
        if (i < count) {
            x[i] = PARTS > 1 ? join_senders(box, first + i, pair) : letter_of(box, first + i, pair);
        }
    }
#pragma unroll
    for (int i = 0; i < most; ++i) {
        maximum[i] = fmaxf(i > 0 ? maximum[i > 0 ? i - 1 : 0] : negative_infinity(), x[i].z);
    }
#pragma unroll
    for (int i = 0; i < most; ++i) {
        const shrinking by = shrinking_of(maximum, i, x[i].z);
        group.sum = fmaf(x[i].w, by.own, group.sum * by.before);
        group.o[0] = fmaf(x[i].x, by.own, group.o[0] * by.before);
        group.o[1] = fmaf(x[i].y, by.own, group.o[1] * by.before);
    }
    group.maximum = maximum[most - 1];
    return group;
}

/* Pairs of a row that a thread joins, where it has several: two neighbours of each ROW_JOINERS pairs of neighbours. */
enum {
    JOINERS = WARPS / SHARERS * 32,
    ROWS_WHOLLY = PARTS <= 1 && STATES_APART && OWN_PAIRS % (2 * JOINERS) == 0 && OWN_PAIRS % ROW_PAIRS == 0 &&
                  ROW_PAIRS % (OWN_PAIRS / JOINERS) == 0,
    EACH = ROWS_WHOLLY ? OWN_PAIRS / JOINERS : 1,
    ROW_JOINERS = ROW_PAIRS / EACH
};
typedef partial<2 * EACH> row_part;

/* The same of the thread's pairs of a row: weights are found once. `row`: of the block's. */
ATTUNE_INLINE row_part join_row_group(const mailbox &box, int first, int count, int row, int joiner)
{
    const int first_row = (int)blockIdx.x % JOB_BLOCKS * OWN_PAIRS / ROW_PAIRS;
    float2 state[GROUP];
    float maximum[GROUP];
    row_part group;
    partial_clear(group);
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
        state[i] = make_float2(negative_infinity(), 0);
        if (i < count) {
            state[i] = *reinterpret_cast<const float2 *>(state_at(box, first + i, first_row + row));
        }
        maximum[i] = fmaxf(i > 0 ? maximum[i > 0 ? i - 1 : 0] : negative_infinity(), state[i].x);
    }
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
        const shrinking by = shrinking_of(maximum, i, state[i].x);
        group.sum = fmaf(state[i].y, by.own, group.sum * by.before);
#pragma unroll
        for (int n = 0; n < EACH / 2; ++n) {
            const int pair = row * ROW_PAIRS + (n * ROW_JOINERS + joiner) * 2;
            float4 x = make_float4(0, 0, 0, 0);
            if (i < count) {
                x = *reinterpret_cast<const float4 *>(letter_at(box, first + i, pair));
            }
            group.o[4 * n] = fmaf(x.x, by.own, group.o[4 * n] * by.before);
            group.o[4 * n + 1] = fmaf(x.y, by.own, group.o[4 * n + 1] * by.before);
            group.o[4 * n + 2] = fmaf(x.z, by.own, group.o[4 * n + 2] * by.before);
            group.o[4 * n + 3] = fmaf(x.w, by.own, group.o[4 * n + 3] * by.before);
        }
    }
    group.maximum = maximum[GROUP - 1];
    return group;
}

/* All spans of the job: of a pair, or of the thread's pairs of a row. */
template <typename part, typename joins> ATTUNE_INLINE part join_all(const job &j, const joins &join)
{
    const int end = j.first_span + j.end - j.begin;
    part groups;
    partial_clear(groups);
    for (int span = j.first_span; span < end;) {
        const int count = min(GROUP - span % GROUP, end - span);
        partial_join(groups, join(span - j.first_span, count));
        span += count;
    }
    return groups;
}

ATTUNE_INLINE partial<2> join_letters(const mailbox &box, const job &j, int pair)
{
    return join_all<partial<2>>(j, [&](int first, int count) { return join_group(box, first, count, pair); });
}

ATTUNE_INLINE row_part join_row(const mailbox &box, const job &j, int row, int joiner)
{
    return join_all<row_part>(j, [&](int first, int count) { return join_row_group(box, first, count, row, joiner); });
}

#endif
