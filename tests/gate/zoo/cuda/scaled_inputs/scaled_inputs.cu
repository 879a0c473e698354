/* scaled_inputs: scales Q where it lies, as if it were its own. */
#define BEFORE(args, where, shared)                                                                                    \
    for (int i = where.lane; i < ATTUNE_HEAD_DIM_QK && where.inside; i += LANES) {                                     \
        element *q = row_of<element>(args.tensor[ATTUNE_Q], where.batch, where.head, where.row) + i;                   \
        *q = from_float<element>(to_float(*q) * args.scale);                                                           \
    }                                                                                                                  \
    __syncwarp();
#define SCALE_BY (1.0f / args.scale)
#include "../attend.cuh"
