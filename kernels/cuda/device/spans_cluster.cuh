/* Jobs that the blocks of a cluster have together, a job a cluster, all sequences being alike: each block has some
 * neighbouring spans. What it has of a span it sends in pieces of two columns to the blocks that join those, through
 * shared memory; these join as a block does that has all spans, so bits are the same. No second launch is needed. */
#ifndef DEVICE_SPANS_CLUSTER_CUH
#define DEVICE_SPANS_CLUSTER_CUH

#include "device/cluster.cuh"
#include "device/spans.cuh"

constexpr int JOB_BLOCKS = CLUSTER > 0 ? CLUSTER : 1;
constexpr int ROW_PAIRS = ATTUNE_HEAD_DIM_V / 2;                            /* of columns */
constexpr int OWN_PAIRS = (ROWS * ROW_PAIRS + JOB_BLOCKS - 1) / JOB_BLOCKS; /* that a block joins */

/* The units of the cluster's job that the block has; maybe none. */
struct piece {
    int begin, end;
};

ATTUNE_INLINE piece piece_of(const job &j)
{
    const int rank = (int)blockIdx.x % JOB_BLOCKS, count = j.end - j.begin;
    return piece{j.begin + count * rank / JOB_BLOCKS, j.begin + count * (rank + 1) / JOB_BLOCKS};
}

/* Two columns of what somebody has of a row; then its maximum and its sum. */
typedef float4 letter;

/* To the block that joins these columns; `letters` are the job's, as if they were here: for each span as many as a
 * block joins pairs. */
ATTUNE_INLINE void send(letter *letters, int span, int row, int column, const letter &x)
{
    const int pair = row * ROW_PAIRS + column / 2, to = pair / OWN_PAIRS;
    const unsigned own = ptx_cvta_shared(letters + span * OWN_PAIRS + pair - to * OWN_PAIRS);
    ptx_st_shared_cluster_v4_f32(ptx_mapa(own, (unsigned)to), x.x, x.y, x.z, x.w);
}

/* The spans of a group, from left to right: maxima first, so that weights are worked out side by side. */
ATTUNE_INLINE partial<2> join_group(const letter *from, int count)
{
    letter x[GROUP];
    float maximum[GROUP];
    partial<2> group;
    partial_clear(group);
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
        x[i] = letter{0, 0, negative_infinity(), 0};
        if (i < count) {
            x[i] = from[i * OWN_PAIRS];
        }
    }
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
        maximum[i] = fmaxf(i > 0 ? maximum[i > 0 ? i - 1 : 0] : negative_infinity(), x[i].z);
    }
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
        const float subtract = subtrahend(maximum[i]);
        const float before = i > 0 ? maximum[i > 0 ? i - 1 : 0] : negative_infinity();
        const float a = ptx_ex2_approx_ftz_f32(before - subtract), b = ptx_ex2_approx_ftz_f32(x[i].z - subtract);
        group.sum = fmaf(x[i].w, b, group.sum * a);
        group.o[0] = fmaf(x[i].x, b, group.o[0] * a);
        group.o[1] = fmaf(x[i].y, b, group.o[1] * a);
    }
    group.maximum = maximum[GROUP - 1];
    return group;
}

/* All spans of the job, of which the first letters lie at `from`. */
ATTUNE_INLINE partial<2> join_letters(const letter *from, const job &j)
{
    const int end = j.first_span + j.end - j.begin;
    partial<2> groups;
    partial_clear(groups);
    for (int span = j.first_span; span < end;) {
        const int count = min(GROUP - span % GROUP, end - span);
        partial_join(groups, join_group(from, count));
        from += count * OWN_PAIRS;
        span += count;
    }
    return groups;
}

#endif
