/* What a block's warps have of a span becomes one, and spans become rows. decode.cu explains it. */
#ifndef DEVICE_SPANS_WARPS_CUH
#define DEVICE_SPANS_WARPS_CUH

#include "device/spans_ring.cuh"

/* ---- Spans ------------------------------------------------------------------------------------------------------ */

/* A warp's ring as it is used. */
struct reader {
    unsigned stage, parity;
};

ATTUNE_INLINE void clear_state(warp_state &state)
{
    state = {};
#pragma unroll
    for (float &maximum : state.maximum) {
        maximum = negative_infinity();
    }
}

/* What a thread joins: two columns of a row in each slice; of two slices that are staged together four neighbours. */
struct element_place {
    int row, column;
};

ATTUNE_INLINE element_place place_of_thread()
{
    const int at = (int)threadIdx.x * 2;
    return element_place{at / SLICE, at % SLICE};
}

/* The first of the thread's columns in a slice. */
ATTUNE_INLINE int column_of(const element_place &at, int slice)
{
    return STAGED == 2 ? slice / 2 * 2 * SLICE + at.column * 2 + slice % 2 * 2 : slice * SLICE + at.column;
}

/* Of a block's last span nothing else comes into the teams' rings: all slices are staged there at once. */
constexpr int PITCH_WHOLE = slices * SLICE + 4;
constexpr bool HAS_WHOLE = STAGED < slices && ROWS * PITCH_WHOLE * 4 <= (int)(STAGES * bytes_stage);

template <bool whole> ATTUNE_INLINE float *staged_row(Shared &shared, int team, int row)
{
    if constexpr (whole) {
        return reinterpret_cast<float *>(shared.ring[team][0]) + row * PITCH_WHOLE;
    } else {
        return shared.o[team][row];
    }
}

/* The warp's columns of slices, from one on, into shared memory. */
template <int slice, bool whole> ATTUNE_INLINE void stage_slice(Shared &shared, const warp_state &state)
{
    constexpr int count = whole ? stripes : STAGED * SLICE / 16;
#pragma unroll
    for (int octet = 0; octet < OCTETS; ++octet) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = own_row(octet * 2 + i % 2);
            if (row < ROWS) {
                float *o = staged_row<whole>(shared, team_of(), row) + lane_of() / 4 + i / 2 * 8;
#pragma unroll
                for (int n = 0; n < count; ++n) {
                    constexpr int first = slice * SLICE / 16;
                    if (first + n < stripes) {
                        o[n * 16] = state.o[first + n < stripes ? first + n : 0][octet][i];
                    }
                }
            }
        }
    }
}

ATTUNE_INLINE void stage_state(Shared &shared, const warp_state &state)
{
#pragma unroll
    for (int i = 0; i < rows_own; ++i) {
        const float sum = rows_sum(state.sum[i]);
        if (own_row(i) < ROWS && lane_of() < 4) {
            shared.state[team_of()][own_row(i)] = make_float2(state.maximum[i], sum);
        }
    }
}

typedef partial<2 * slices> own_part;

/* How much what each team has of the thread's row counts. */
ATTUNE_INLINE void weigh_teams(const Shared &shared, int row, float (&weight)[TEAMS], own_part &span)
{
    span.maximum = negative_infinity();
    span.sum = 0;
#pragma unroll
    for (int t = 0; t < TEAMS; ++t) {
        span.maximum = fmaxf(span.maximum, shared.state[t][row].x);
    }
#pragma unroll
    for (int t = 0; t < TEAMS; ++t) {
        const float2 of_team = shared.state[t][row];
        weight[t] = ptx_ex2_approx_ftz_f32(of_team.x - subtrahend(span.maximum));
        span.sum = fmaf(of_team.y, weight[t], span.sum);
    }
}

/* The thread's columns of the slices that are staged together. */
template <int slice, bool whole>
ATTUNE_INLINE void join_staged(Shared &shared, const element_place &at, const float (&weight)[TEAMS], own_part &span)
{
    float *sum = span.o + 2 * slice;
#pragma unroll
    for (int i = 0; i < 2 * STAGED; ++i) {
        sum[i] = 0;
    }
#pragma unroll
    for (int t = 0; t < TEAMS; ++t) {
        const float *o = staged_row<whole>(shared, t, at.row) + column_of(at, whole ? slice : 0);
        if constexpr (STAGED == 2) {
            const float4 x = *reinterpret_cast<const float4 *>(o);
            sum[0] = fmaf(x.x, weight[t], sum[0]);
            sum[1] = fmaf(x.y, weight[t], sum[1]);
            sum[2] = fmaf(x.z, weight[t], sum[2]);
            sum[3] = fmaf(x.w, weight[t], sum[3]);
        } else {
            const float2 x = *reinterpret_cast<const float2 *>(o);
            sum[0] = fmaf(x.x, weight[t], sum[0]);
            sum[1] = fmaf(x.y, weight[t], sum[1]);
        }
    }
}

/* All warps stage their columns, and each thread joins its own. `last`: nothing is staged after it. */
template <int slice>
ATTUNE_INLINE void join_slices(Shared &shared, const warp_state &state, const element_place &at, bool last,
                               own_part &span)
{
    if constexpr (slice < slices) {
        stage_slice<slice, false>(shared, state);
        __syncthreads();
        if (at.row < ROWS) {
            float weight[TEAMS]; /* NOTE: found again for each slice, registers being short */
            weigh_teams(shared, at.row, weight, span);
            join_staged<slice, false>(shared, at, weight, span);
        }
        if (slice + STAGED < slices || !last) {
            __syncthreads();
        }
        join_slices<slice + STAGED>(shared, state, at, last, span);
    }
}

template <int slice>
ATTUNE_INLINE void join_whole(Shared &shared, const element_place &at, const float (&weight)[TEAMS], own_part &span)
{
    if constexpr (slice < slices) {
        join_staged<slice, true>(shared, at, weight, span);
        join_whole<slice + STAGED>(shared, at, weight, span);
    }
}

ATTUNE_INLINE void join_warps(Shared &shared, const warp_state &state, const element_place &at, bool last,
                              own_part &span)
{
    stage_state(shared, state);
    if constexpr (HAS_WHOLE) {
        if (last) {
            stage_slice<0, true>(shared, state);
            __syncthreads();
            if (at.row < ROWS) {
                float weight[TEAMS];
                weigh_teams(shared, at.row, weight, span);
                join_whole<0>(shared, at, weight, span);
            }
            return;
        }
    }
    join_slices<0>(shared, state, at, last, span);
}

/* NOTE: in shared memory, where registers are needed for tiles. */
enum { GROUPS, OPEN_GROUP };

ATTUNE_INLINE own_part kept_part(const Shared &shared, int which)
{
    own_part x;
    x.maximum = shared.kept[which][0][threadIdx.x];
    x.sum = shared.kept[which][1][threadIdx.x];
#pragma unroll
    for (int i = 0; i < 2 * slices; ++i) {
        x.o[i] = shared.kept[which][2 + i][threadIdx.x];
    }
    return x;
}

ATTUNE_INLINE void keep_part(Shared &shared, int which, const own_part &x)
{
    shared.kept[which][0][threadIdx.x] = x.maximum;
    shared.kept[which][1][threadIdx.x] = x.sum;
#pragma unroll
    for (int i = 0; i < 2 * slices; ++i) {
        shared.kept[which][2 + i][threadIdx.x] = x.o[i];
    }
}

ATTUNE_INLINE void keep_nothing(Shared &shared)
{
    own_part none;
    partial_clear(none);
    keep_part(shared, GROUPS, none);
    keep_part(shared, OPEN_GROUP, none);
}

/* A span has come: joined to its group, and the group to those before where it ends. */
ATTUNE_INLINE void keep_span(Shared &shared, const own_part &part, int span)
{
    own_part group = kept_part(shared, OPEN_GROUP);
    partial_join(group, part);
    if (span % GROUP == GROUP - 1) {
        own_part groups = kept_part(shared, GROUPS);
        partial_join(groups, group);
        keep_part(shared, GROUPS, groups);
        partial_clear(group);
    }
    keep_part(shared, OPEN_GROUP, group);
}

/* ---- Out -------------------------------------------------------------------------------------------------------- */

/* Where a thread's results go, if its row exists; worked out before there are any. */
struct output {
    element *o;
    float *lse; /* NULL where this thread writes none */
    int head;
};

ATTUNE_INLINE output find_output(const attune_args &args, const job &j, const element_place &at)
{
    const sequence of = sequence_of(args, j.batch);
    const packed_row r = packed_row_of(args, j, of, at.row);
    output to = {nullptr, nullptr, r.head};
    if (r.exists) {
        to.o = output_of(args, of, r);
        if (wants_lse(args) && at.column == 0) {
            to.lse = row_of<float>(args.tensor[ATTUNE_LSE], of.batch, r.head, of.first_q + r.query);
        }
    }
    return to;
}

/* A job's rows are done. */
ATTUNE_INLINE void store(const attune_args &args, const output &to, const element_place &at, own_part &all)
{
    if (to.o == nullptr) {
        return;
    }
    partial_take_sink(args, to.head, all);
    const float normaliser = online_normaliser(all.sum);
#pragma unroll
    for (int i = 0; i < slices; ++i) {
        const int column = column_of(at, i);
        if (column < dim_v) {
            *reinterpret_cast<unsigned *>(to.o + column) =
                pack_two(all.o[2 * i] * normaliser, all.o[2 * i + 1] * normaliser);
        }
    }
    if (to.lse != nullptr) {
        *to.lse = online_lse(all.maximum, all.sum);
    }
}

ATTUNE_INLINE void leave(record &to, const element_place &at, const own_part &part)
{
    if (at.row < ROWS) {
#pragma unroll
        for (int i = 0; i < slices; ++i) {
            if (column_of(at, i) < dim_v) {
                *reinterpret_cast<float2 *>(&to.o[at.row][column_of(at, i)]) =
                    make_float2(part.o[2 * i], part.o[2 * i + 1]);
            }
        }
        if (at.column == 0) {
            to.state[at.row] = make_float2(part.maximum, part.sum);
        }
    }
}
#endif
