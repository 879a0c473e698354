/* The second launch of a split over keys: what blocks have left of a job in pieces becomes its rows. */
#ifndef DEVICE_SPANS_JOIN_CUH
#define DEVICE_SPANS_JOIN_CUH

#include "device/barrier.cuh"
#include "device/spans.cuh"

constexpr int JOIN_WARPS = WARPS, join_threads = JOIN_WARPS * 32; /* of a block, at most */
constexpr int quads = (ATTUNE_HEAD_DIM_V + 127) / 128;            /* of a lane: four neighbouring columns of each 128 */

struct Joint {
    float4 o[JOIN_WARPS][quads][32];
    float2 state[JOIN_WARPS];
    int sums[JOIN_WARPS];
};

typedef partial<quads * 4> lane_part;

/* What a block joins at once: some rows, and of each some neighbouring groups of spans. A warp has a row of a group. */
struct join_shape {
    int rows, groups;
};

ATTUNE_INLINE join_shape join_shape_of()
{
    const int rows = ROWS / (int)gridDim.y;
    return join_shape{rows, (int)((unsigned)blockDim.x / 32 / (unsigned)rows)};
}

/* A job that several blocks have had: the units of the first of them end before `begin`. */
struct torn_job {
    job j;
    int begin, left_block;
};

/* Whether block `block` was the second to have units of a job. */
ATTUNE_INLINE bool find_torn(const attune_args &args, const units &all, int block, torn_job &t)
{
    t.begin = block_begin(all, block);
    if (all.together || t.begin == 0 || t.begin == block_begin(all, block + 1)) {
        return false;
    }
    t.j = job_with(args, all, t.begin);
    t.left_block = block_with(all, t.begin - 1);
    return t.j.begin < t.begin && t.j.begin >= block_begin(all, t.left_block);
}

/* What a warp joins of one group, a record a lane: GROUP at most, and an open group that is empty, which counts in no
 * maximum. */
struct chain {
    int count;
    bool open; /* the first is what another block has of the group so far */
    int place;
};

ATTUNE_INLINE chain find_chain(const units &all, const records &kept, const torn_job &t, int group)
{
    const int lane = (int)threadIdx.x % 32, begun = span_of(t.j, t.begin), end = span_of(t.j, t.j.end);
    chain c;
    c.open = group == begun / GROUP;
    const int first = max(group * GROUP, begun) - c.open;
    c.count = max(min((group + 1) * GROUP, end) - first, 0);
    const int unit = min(t.j.begin + first + lane - t.j.first_span, t.j.end - 1), block = block_with(all, unit);
    c.place = block * kept.of_block + unit - block_begin(all, block);
    if (c.open && lane == 0) {
        c.place = (t.left_block + 1) * kept.of_block - 1;
    }
    return c;
}

ATTUNE_INLINE float4 quad_of(const record &from, int row, int quad)
{
    const int column = quad * 128 + (int)threadIdx.x % 32 * 4;
    return column < ATTUNE_HEAD_DIM_V ? *reinterpret_cast<const float4 *>(&from.o[row][column])
                                      : make_float4(0, 0, 0, 0);
}

ATTUNE_INLINE float of_quad(const float4 &x, int i)
{
    return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

/* How much what is to the left of a record and the record itself count when it is joined (partial_join): lanes work it
 * out side by side, the maxima so far being known. `before`: the maximum of what is left of them all. */
struct link {
    float maximum, before, own, sum;
};

template <int most> ATTUNE_INLINE link link_of(float before, float2 state)
{
    const int lane = (int)threadIdx.x % 32;
    link l = {fmaxf(state.x, before), 0, 0, state.y};
#pragma unroll
    for (int step = 1; step < most; step *= 2) {
        const float left = __shfl_up_sync(0xffffffff, l.maximum, step);
        l.maximum = lane >= step ? fmaxf(left, l.maximum) : l.maximum;
    }
    float left = __shfl_up_sync(0xffffffff, l.maximum, 1);
    left = lane == 0 ? before : left;
    l.before = ptx_ex2_approx_ftz_f32(left - subtrahend(l.maximum));
    l.own = ptx_ex2_approx_ftz_f32(state.x - subtrahend(l.maximum));
    return l;
}

/* The warp's columns of a row, of all records in turn. */
ATTUNE_INLINE void join_chain(const records &kept, const chain &c, int row, lane_part &x)
{
    constexpr int ahead = GROUP / quads; /* records that are read at once */
    const int lane = (int)threadIdx.x % 32, last = c.count - 1;
    partial_clear(x);
    if (c.count == 0) {
        return;
    }
    link l;
#pragma unroll 1
    for (int first = 0; first < c.count; first += ahead) {
        float4 next[ahead][quads];
#pragma unroll
        for (int i = 0; i < ahead; ++i) { /* behind the last the last again: no load waits for a branch */
            const int place = __shfl_sync(0xffffffff, c.place, min(first + i, last));
#pragma unroll
            for (int n = 0; n < quads; ++n) {
                next[i][n] = quad_of(kept.first[place], row, n);
            }
        }
        if (first == 0) {
            const float2 state = kept.first[c.place].state[row];
            l = link_of<GROUP>(negative_infinity(), lane <= last ? state : make_float2(negative_infinity(), 0));
        }
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            const bool as_is = c.open && first + i == 0, counts = first + i <= last;
            const float before = __shfl_sync(0xffffffff, l.before, first + i);
            const float own = __shfl_sync(0xffffffff, l.own, first + i);
            const float sum = __shfl_sync(0xffffffff, l.sum, first + i);
            x.sum = as_is ? sum : counts ? fmaf(sum, own, x.sum * before) : x.sum;
#pragma unroll
            for (int n = 0; n < quads * 4; ++n) {
                const float o = of_quad(next[i][n / 4], n % 4);
                x.o[n] = as_is ? o : counts ? fmaf(o, own, x.o[n] * before) : x.o[n];
            }
        }
    }
    x.maximum = __shfl_sync(0xffffffff, l.maximum, last);
}

ATTUNE_INLINE void take_part(float2 state, const float4 (&quad)[quads], lane_part &x)
{
    x.maximum = state.x;
    x.sum = state.y;
#pragma unroll
    for (int n = 0; n < quads * 4; ++n) {
        x.o[n] = of_quad(quad[n / 4], n % 4);
    }
}

/* Warps of one row hand their groups, which are neighbours, to the first of them. */
ATTUNE_INLINE void join_groups(Joint &joint, int rows, int count, const lane_part &group, lane_part &x)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    if (warp < rows) {
        partial_join(x, group);
    }
    if (count == 1) {
        return;
    }
    if (warp >= rows) {
#pragma unroll
        for (int n = 0; n < quads; ++n) {
            joint.o[warp][n][lane] =
                make_float4(group.o[4 * n], group.o[4 * n + 1], group.o[4 * n + 2], group.o[4 * n + 3]);
        }
        joint.state[warp] = make_float2(group.maximum, group.sum);
    }
    __syncthreads();
    for (int from = warp + rows; warp < rows && from < count * rows; from += rows) {
        float4 quad[quads];
        lane_part right;
#pragma unroll
        for (int n = 0; n < quads; ++n) {
            quad[n] = joint.o[from][n][lane];
        }
        take_part(joint.state[from], quad, right);
        partial_join(x, right);
    }
    __syncthreads();
}

ATTUNE_INLINE void store_joined(const attune_args &args, const sequence &at, const packed_row &r, lane_part &x)
{
    const int lane = (int)threadIdx.x % 32;
    partial_take_sink(args, r.head, x);
    const float normaliser = online_normaliser(x.sum);
#pragma unroll
    for (int n = 0; n < quads; ++n) {
        if (n * 128 + lane * 4 < ATTUNE_HEAD_DIM_V) {
            *reinterpret_cast<uint2 *>(output_of(args, at, r) + n * 128 + lane * 4) =
                make_uint2(pack_two(x.o[4 * n] * normaliser, x.o[4 * n + 1] * normaliser),
                           pack_two(x.o[4 * n + 2] * normaliser, x.o[4 * n + 3] * normaliser));
        }
    }
    if (lane == 0) {
        store_row_lse(args, at, r, x.maximum, x.sum);
    }
}

/* Block (c, y) joins the y-th rows of the job that block c was the second to have, if there is one. NOTE: what
 * can be known before the other launch has ended is worked out before. */
ATTUNE_INLINE void join_torn(const attune_args &args, Joint &joint, int *before)
{
    const join_shape shape = join_shape_of();
    const int warp = (int)threadIdx.x / 32, own_group = (int)((unsigned)warp / (unsigned)shape.rows);
    const int row = (int)blockIdx.y * shape.rows + warp - own_group * shape.rows;
    const units all = find_units(args, (int)blockDim.x, before, joint.sums);
    torn_job t;
    if (!find_torn(args, all, (int)blockIdx.x, t)) {
        if (!all.together || blockIdx.x + blockIdx.y == 0) { /* NOTE: where no job is torn one block waits for all */
            ptx_griddepcontrol_wait();
        }
        return;
    }
    const records kept = find_records(args, gridDim.x);
    const sequence at = sequence_of(args, t.j.batch);
    const packed_row r = packed_row_of(args, t.j, at, row);
    const int end = span_of(t.j, t.j.end);
    int g = span_of(t.j, t.begin) / GROUP;
    chain c = find_chain(all, kept, t, g + own_group);
    const record &left = kept.first[(t.left_block + 1) * kept.of_block - 2];
    ptx_griddepcontrol_wait();
    lane_part x, group;
    float4 quad[quads];
#pragma unroll
    for (int n = 0; n < quads; ++n) {
        quad[n] = quad_of(left, row, n);
    }
    take_part(left.state[row], quad, x);
#pragma unroll 1
    for (; g * GROUP < end; g += shape.groups) {
        join_chain(kept, c, row, group);
        join_groups(joint, shape.rows, min(shape.groups, (end + GROUP - 1) / GROUP - g), group, x);
        c = find_chain(all, kept, t, g + shape.groups + own_group);
    }
    if (end % GROUP == 0) { /* as where a block has all: the group that follows, empty */
        partial_clear(group);
        partial_join(x, group);
    }
    if (warp < shape.rows && r.exists) {
        store_joined(args, at, r, x);
    }
}

/* ---- Pieces ------------------------------------------------------------------------------------------------------ */

/* The warp's columns of a row, of the job's groups in turn, 32 at a time. */
ATTUNE_INLINE void join_job(const records &kept, const cut &of, int groups, int row, lane_part &x)
{
    constexpr int ahead = 16 / quads, most = 32;
    const int lane = (int)threadIdx.x % 32;
    partial_clear(x);
#pragma unroll 1
    for (int begin = 0; begin < groups; begin += most) {
        const int count = min(most, groups - begin), group = begin + min(lane, count - 1);
        const int piece = quotient(group, of.each);
        const int own = ((int)blockIdx.x * PIECES + piece) * kept.of_block + group - piece * of.each;
        link l;
#pragma unroll 1
        for (int first = 0; first < count; first += ahead) {
            float4 next[ahead][quads];
#pragma unroll
            for (int i = 0; i < ahead; ++i) { /* behind the last the last again, as above */
                const int place = __shfl_sync(0xffffffff, own, min(first + i, count - 1));
#pragma unroll
                for (int n = 0; n < quads; ++n) {
                    next[i][n] = quad_of(kept.first[place], row, n);
                }
            }
            if (first == 0) {
                const float2 state = kept.first[own].state[row];
                l = link_of<most>(x.maximum, lane < count ? state : make_float2(negative_infinity(), 0));
            }
#pragma unroll
            for (int i = 0; i < ahead; ++i) {
                const bool counts = first + i < count;
                const float before = __shfl_sync(0xffffffff, l.before, first + i);
                const float weight = __shfl_sync(0xffffffff, l.own, first + i);
                const float sum = __shfl_sync(0xffffffff, l.sum, first + i);
                x.sum = counts ? fmaf(sum, weight, x.sum * before) : x.sum;
#pragma unroll
                for (int n = 0; n < quads * 4; ++n) {
                    x.o[n] = counts ? fmaf(of_quad(next[i][n / 4], n % 4), weight, x.o[n] * before) : x.o[n];
                }
            }
        }
        x.maximum = __shfl_sync(0xffffffff, l.maximum, count - 1);
    }
}

/* Block (c, y) joins the y-th rows of job c, of which each group is a record. */
ATTUNE_INLINE void join_pieces(const attune_args &args)
{
    const units all = find_units(args, (int)blockDim.x, nullptr, nullptr);
    const int unit = (int)blockIdx.x * all.share;
    if (unit >= all.total) {
        ptx_griddepcontrol_wait();
        return;
    }
    const int row = (int)blockIdx.y * join_shape_of().rows + (int)threadIdx.x / 32;
    const job j = job_with(args, all, unit);
    const records kept = find_records(args, gridDim.x * PIECES);
    const sequence at = sequence_of(args, j.batch);
    const packed_row r = packed_row_of(args, j, at, row);
    const cut of = cut_of(j);
    const int end = j.first_span + j.end - j.begin;
    lane_part x, none;
    ptx_griddepcontrol_wait();
    join_job(kept, of, (end + GROUP - 1) / GROUP - of.first, row, x);
    if (end % GROUP == 0) { /* as where a block has all: the group that follows, empty */
        partial_clear(none);
        partial_join(x, none);
    }
    if (r.exists) {
        store_joined(args, at, r, x);
    }
}

#endif
