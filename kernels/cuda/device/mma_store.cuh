/* The way out of mma's rows: the sink, LSE and O. */
#ifndef DEVICE_MMA_STORE_CUH
#define DEVICE_MMA_STORE_CUH

#include "device/mma_rows.cuh"

/* The sink counts in the denominator, once. From here on maxima are in units of log2. */
ATTUNE_INLINE void add_sink(const attune_args &args, const tile &t, bool first_lane, strip_state &state)
{
    const float scale = pair_scale(args);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        state.rows.maximum[r] = state.rows.maximum[r] * scale;
        if constexpr (ATTUNE_HAS_SINK) {
            const online sink = online_start(args, t.w.head, first_lane);
            const float root = take_sink(sink, state.rows.maximum[r], state.rows.sum[r]);
#pragma unroll
            for (int i = 0; i < outputs / 2; ++i) {
                float &o = state.o[i / 2 * 4 + r * 2 + i % 2];
                o = o * root * root;
            }
        }
    }
}

ATTUNE_INLINE void store_strip(const attune_args &args, const tile &t, const place &p, int strip,
                               const strip_state &state)
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int row = p.row + strip * STRIP_STEP + r * 8;
        const bool exists = row < t.at.length_q;
        const float sum = group_sum<4>(state.rows.sum[r]);
        const attune_i64 place = t.at.first_q + row;
        if (wants_lse(args) && exists && p.lane % 4 == 0) {
            store_lse(args, t.at.batch, t.w.head, place, state.rows.maximum[r], sum);
        }
        if constexpr (ATTUNE_DTYPE_O != ATTUNE_DTYPE) {
            const float normaliser = online_normaliser(sum);
            element_o *out = row_of<element_o>(args.tensor[ATTUNE_O], t.at.batch, t.w.head, place) + p.lane % 4 * 2;
#pragma unroll
            for (int i = 0; i < dim_v / 8 && exists; ++i) {
                *reinterpret_cast<pair<element_o> *>(out + i * 8) = {
                    {from_float<element_o>(state.o[i * 4 + r * 2] * normaliser),
                     from_float<element_o>(state.o[i * 4 + r * 2 + 1] * normaliser)}};
            }
            continue;
        }
        element *out = row_of<element>(args.tensor[ATTUNE_O], t.at.batch, t.w.head, place);
        rows_store(out, exists, reinterpret_cast<const float(&)[dim_v / 2]>(state.o), r, online_normaliser(sum),
                   p.lane);
    }
}

/* Whether O leaves by way of the place of the warp's queries, which nobody reads any more: whole rows at a time, and
 * half the instructions. NOTE: these are read once a block, from far away. With splits, where a block is alone on its
 * multiprocessor, rows leave sooner as they are. */
enum { STORES_ROWS = SPLITS == 1 && ATTUNE_DTYPE_O == ATTUNE_DTYPE && pitch_v <= pitch_qk };

/* O of the warp's rows, all of sums in `state`, into the place of its queries; LSE leaves. Each lane of a quad finishes
 * one of its rows. */
ATTUNE_INLINE void stage_strips(const attune_args &args, Shared &shared, const tile &t, const place &p,
                                const strip_state (&state)[STRIPS])
{
    const unsigned first = lane_address<pitch_qk>(shared.q, p.warp * WARP_STEP + p.lane / 4, 0) + p.lane % 4 * 4;
    const int own = p.lane % 4, row = p.row + own / 2 * STRIP_STEP + own % 2 * 8;
    float sum = 0, maximum = 0;
#pragma unroll
    for (int i = 0; i < STRIPS * 2; ++i) {
        const float all = group_sum<4>(state[i / 2].rows.sum[i % 2]);
        sum = own == i ? all : sum;
        maximum = own == i ? state[i / 2].rows.maximum[i % 2] : maximum;
    }
    if (wants_lse(args) && own < STRIPS * 2 && row < t.at.length_q) {
        store_lse(args, t.at.batch, t.w.head, t.at.first_q + row, maximum, sum);
    }
    const float own_normaliser = online_normaliser(sum);
    __syncwarp(); /* queries are done with */
#pragma unroll
    for (int i = 0; i < STRIPS * 2; ++i) {
        const float normaliser = __shfl_sync(0xffffffff, own_normaliser, p.lane / 4 * 4 + i);
        const unsigned to = (unsigned)((i / 2 * STRIP_STEP + i % 2 * 8) * pitch_qk * 2);
#pragma unroll
        for (int part = 0; part < dim_v / 8; ++part) {
            const float *o = state[i / 2].o + part * 4 + i % 2 * 2;
            ptx_st_shared_b32((first ^ (unsigned)(part % 8 * 16)) + to + (unsigned)(part / 8 * 128),
                              pack_two(o[0] * normaliser, o[1] * normaliser));
        }
    }
    __syncwarp();
}

ATTUNE_INLINE void store_strips(const attune_args &args, Shared &shared, const tile &t, const place &p,
                                strip_state (&state)[STRIPS])
{
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
        add_sink(args, t, p.lane % 4 == 0, state[strip]);
        if constexpr (!STORES_ROWS) {
            store_strip(args, t, p, strip, state[strip]);
        }
    }
    if constexpr (STORES_ROWS) {
        constexpr int parts = dim_v / 8;
        stage_strips(args, shared, t, p, state);
        const int first_row = p.row - p.lane / 4, rows = (int)min(t.at.length_q - first_row, (attune_i64)BLOCK_M);
        const attune_i64 stride = args.tensor[ATTUNE_O].stride[ATTUNE_STRIDE_SEQ];
        element *out = row_of<element>(args.tensor[ATTUNE_O], t.at.batch, t.w.head, t.at.first_q + first_row);
        const element *from = shared.q + p.warp * WARP_STEP * pitch_qk;
#pragma unroll 1
        for (int strip = 0; strip < STRIPS; ++strip) {
            if constexpr (32 % parts == 0) { /* a lane keeps to one column of parts */
                const int part = p.lane % parts;
                int row = strip * STRIP_STEP + p.lane / parts;
                element *to = out + row * stride + part * 8;
#pragma unroll
                for (int i = 0; i < 16 * parts / 32; ++i, row += 32 / parts, to += 32 / parts * stride) {
                    if (row < rows) {
                        *reinterpret_cast<uint4 *>(to) =
                            *reinterpret_cast<const uint4 *>(from + swizzled_index<pitch_qk>(row, part));
                    }
                }
            } else {
#pragma unroll 1
                for (int i = p.lane; i < 16 * parts; i += 32) {
                    const int row = strip * STRIP_STEP + i / parts, part = i % parts;
                    if (row < rows) {
                        *reinterpret_cast<uint4 *>(out + row * stride + part * 8) =
                            *reinterpret_cast<const uint4 *>(from + swizzled_index<pitch_qk>(row, part));
                    }
                }
            }
        }
    }
}

#endif
