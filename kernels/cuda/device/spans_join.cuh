/* The second launch of a split over keys: what blocks have left of a job in pieces becomes its rows. */
#ifndef DEVICE_SPANS_JOIN_CUH
#define DEVICE_SPANS_JOIN_CUH

#include "device/barrier.cuh"
#include "device/spans.cuh"

constexpr int JOIN_WARPS = 8, JOIN_ROWS = ROWS < 4 ? ROWS : 4; /* of a block */
constexpr int JOIN_GROUPS = JOIN_WARPS / JOIN_ROWS;            /* groups of spans that it joins at once */
constexpr int join_threads = JOIN_WARPS * 32;
constexpr int joined = (ATTUNE_HEAD_DIM_V + 127) / 128 * 4; /* columns of a lane: four neighbours of each 128 */
constexpr int own_columns = (JOIN_ROWS * ATTUNE_HEAD_DIM_V + join_threads - 1) / join_threads; /* of a thread */

struct Joint {
    float o[JOIN_ROWS][JOIN_GROUPS][ATTUNE_HEAD_DIM_V];
    float2 state[JOIN_ROWS][JOIN_GROUPS];
    int sums[JOIN_WARPS];
};

/* A job that several blocks have had: the units of the first of them end before `begin`. */
struct torn_job {
    job j;
    sequence at;
    int begin, left_block;
};

/* Whether block `block` was the second to have units of a job. */
ATTUNE_INLINE bool find_torn(const attune_args &args, const units &all, int block, torn_job &t)
{
    t.begin = block_begin(all, block);
    if (t.begin == 0 || t.begin == block_begin(all, block + 1)) {
        return false;
    }
    t.j = job_with(args, all, t.begin);
    t.at = sequence_of(args, t.j.batch);
    t.left_block = block_with(all, t.begin - 1);
    return t.j.begin < t.begin && t.j.begin >= block_begin(all, t.left_block);
}

ATTUNE_INLINE void take_record(const record &from, int row, int lane, partial<joined> &x)
{
    const float2 state = from.state[row];
    x.maximum = state.x;
    x.sum = state.y;
#pragma unroll
    for (int i = 0; i < joined; i += 4) {
        const int column = i * 32 + lane * 4;
        float4 o = make_float4(0, 0, 0, 0);
        if (column < ATTUNE_HEAD_DIM_V) {
            o = *reinterpret_cast<const float4 *>(&from.o[row][column]);
        }
        x.o[i] = o.x;
        x.o[i + 1] = o.y;
        x.o[i + 2] = o.z;
        x.o[i + 3] = o.w;
    }
}

/* Spans first ... end - 1, all of one group, to the right of what x has. A lane finds out where each lies. */
ATTUNE_INLINE void join_group(const units &all, const records &kept, const torn_job &t, int row, int first, int end,
                              partial<joined> &x)
{
    constexpr int ahead = 4;
    const int lane = (int)threadIdx.x % 32, unit = min(t.j.begin + first + lane - t.j.first_span, t.j.end - 1);
    const int block = block_with(all, unit), place = block * kept.of_block + unit - block_begin(all, block);
#pragma unroll 1
    for (int span = first; span < end; span += ahead) {
        partial<joined> next[ahead];
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            const int at = __shfl_sync(0xffffffff, place, span + i - first & 31);
            if (span + i < end) {
                take_record(kept.first[at], row, lane, next[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            if (span + i < end) {
                partial_join(x, next[i]);
            }
        }
    }
}

ATTUNE_INLINE void stage_group(Joint &joint, int row, int place, const partial<joined> &group)
{
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < joined; ++i) {
        const int column = i / 4 * 128 + lane * 4 + i % 4;
        if (column < ATTUNE_HEAD_DIM_V) {
            joint.o[row][place][column] = group.o[i];
        }
    }
    if (lane == 0) {
        joint.state[row][place] = make_float2(group.maximum, group.sum);
    }
}

/* The thread's columns: which, and what has been joined of them. */
struct own_column {
    int row, column;
    partial<1> x;
};

ATTUNE_INLINE void begin_columns(const records &kept, const torn_job &t, int first_row, own_column (&own)[own_columns])
{
#pragma unroll
    for (int i = 0; i < own_columns; ++i) {
        const int at = i * join_threads + (int)threadIdx.x;
        own[i].row = at / ATTUNE_HEAD_DIM_V;
        own[i].column = at % ATTUNE_HEAD_DIM_V;
        partial_clear(own[i].x);
        if (own[i].row < JOIN_ROWS) {
            const record &left = kept.first[(t.left_block + 1) * kept.of_block - 2];
            const float2 state = left.state[first_row + own[i].row];
            own[i].x = partial<1>{state.x, state.y, {left.o[first_row + own[i].row][own[i].column]}};
        }
    }
}

/* The staged groups, which are neighbours, to the right of what there is. */
ATTUNE_INLINE void join_staged(const Joint &joint, int count, own_column (&own)[own_columns])
{
    __syncthreads();
#pragma unroll
    for (int i = 0; i < own_columns; ++i) {
        if (own[i].row < JOIN_ROWS) {
            for (int g = 0; g < count; ++g) {
                const float2 state = joint.state[own[i].row][g];
                partial_join(own[i].x, partial<1>{state.x, state.y, {joint.o[own[i].row][g][own[i].column]}});
            }
        }
    }
    __syncthreads();
}

ATTUNE_INLINE void store_column(const attune_args &args, const torn_job &t, int first_row, own_column &own)
{
    const packed_row r = packed_row_of(args, t.j, t.at, first_row + own.row);
    if (own.row >= JOIN_ROWS || !r.exists) {
        return;
    }
    partial_take_sink(args, r.head, own.x);
    output_of(args, t.at, r)[own.column] = from_float<element>(own.x.o[0] * online_normaliser(own.x.sum));
    if (own.column == 0) {
        store_row_lse(args, t.at, r, own.x.maximum, own.x.sum);
    }
}

/* Block (c, y) joins rows y JOIN_ROWS ... of the job that block c was the second to have, if there is one. */
ATTUNE_INLINE void join_torn(const attune_args &args, Joint &joint, int *before)
{
    const units all = find_units<join_threads>(args, before, joint.sums);
    torn_job t;
    const bool found = find_torn(args, all, (int)blockIdx.x, t);
    const records kept = find_records(args);
    const int first_row = (int)blockIdx.y * JOIN_ROWS, warp = (int)threadIdx.x / 32;
    ptx_griddepcontrol_wait();
    if (!found) {
        return;
    }
    const int first = span_of(t.j, t.begin), end = span_of(t.j, t.j.end);
    own_column own[own_columns];
    begin_columns(kept, t, first_row, own);
#pragma unroll 1
    for (int g = first / GROUP; g * GROUP < end; g += JOIN_GROUPS) {
        const int row = warp % JOIN_ROWS, place = warp / JOIN_ROWS, mine = g + place;
        partial<joined> group;
        partial_clear(group);
        if (mine == first / GROUP) {
            take_record(kept.first[(t.left_block + 1) * kept.of_block - 1], first_row + row, (int)threadIdx.x % 32,
                        group);
        }
        join_group(all, kept, t, first_row + row, max(mine * GROUP, first), min((mine + 1) * GROUP, end), group);
        stage_group(joint, row, place, group);
        join_staged(joint, min(JOIN_GROUPS, (end + GROUP - 1) / GROUP - g), own);
    }
#pragma unroll
    for (int i = 0; i < own_columns; ++i) {
        if (end % GROUP == 0) { /* as where a block has all: the group that follows, empty */
            partial<1> none;
            partial_clear(none);
            partial_join(own[i].x, none);
        }
        store_column(args, t, first_row, own[i]);
    }
}

#endif
