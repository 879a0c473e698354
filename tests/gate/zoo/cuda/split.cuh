/* What the zoo's split kernels share: the keys of a row are divided among blocks, whose partial sums lie in the
 * workspace, [split][row of O][head_dim_v sums, maximum, denominator] as fp32. */
#define OWN_ENTRY
#include "../attend.cuh"

constexpr int SPLITS = 4, PITCH = ATTUNE_HEAD_DIM_V + 2;

ATTUNE_INLINE float *partial_of(const attune_args &args, const place &at, int split)
{
    const attune_i64 rows = args.batch * args.heads_q * args.seqlen_q;
    const attune_i64 row = (at.batch * args.heads_q + at.head) * args.seqlen_q + at.row;
    return static_cast<float *>(args.workspace) + (split * rows + row) * PITCH;
}

ATTUNE_INLINE void store_partial(const attune_args &args, const place &at, int split, const running &state)
{
    float *to = partial_of(args, at, split);
    for (int i = 0; i < PART_V && at.inside; ++i) {
        const int column = at.lane + i * LANES;
        if (column < ATTUNE_HEAD_DIM_V) {
            to[column] = state.out[i];
        }
    }
    if (at.inside && at.lane == 0) {
        to[ATTUNE_HEAD_DIM_V] = state.top;
        to[ATTUNE_HEAD_DIM_V + 1] = state.sum;
    }
}

/* The share of the keys that is this split's, for the row's tile. */
ATTUNE_INLINE void attend_share(const attune_args &args, const place &at, shared_tile *shared, int split)
{
    const int tiles = ((int)args.seqlen_kv + KEYS - 1) / KEYS;
    const int share = (tiles + SPLITS - 1) / SPLITS * KEYS;
    running state;
    begin_row(args, at, state);
    attend_keys(args, at, shared, state, split * share, (split + 1) * share);
    store_partial(args, at, split, state);
}

/* Adds the splits up in their order. */
ATTUNE_INLINE void combine_row(const attune_args &args, const place &at)
{
    running state = {};
    state.top = negative_infinity();
    for (int split = 0; split < SPLITS && at.inside; ++split) {
        state.top = fmaxf(state.top, partial_of(args, at, split)[ATTUNE_HEAD_DIM_V]);
    }
    for (int split = 0; split < SPLITS && at.inside; ++split) {
        const float *part = partial_of(args, at, split);
        const float top = part[ATTUNE_HEAD_DIM_V];
        const float factor = top == state.top ? 1.0f : ptx_ex2_approx_ftz_f32(top - state.top);
        state.sum += factor * part[ATTUNE_HEAD_DIM_V + 1];
        for (int i = 0; i < PART_V; ++i) {
            const int column = at.lane + i * LANES;
            state.out[i] += column < ATTUNE_HEAD_DIM_V ? factor * part[column] : 0;
        }
    }
    store_row(args, at, state);
}
