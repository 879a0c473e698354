/* writes_past: writes an element behind the last row of O. */
#define ENDED(args, where, state)                                                                                      \
    if (where.row == args.seqlen_q - 1 && where.lane == 0) {                                                           \
        row_of<element>(args.tensor[ATTUNE_O], args.batch - 1, args.heads_q - 1,                                       \
                        args.seqlen_q - 1)[ATTUNE_HEAD_DIM_V] = from_float<element>(1.0f);                             \
    }
#include "../attend.cuh"
