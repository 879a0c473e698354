/* uninitialised_stack: its sums begin with what happens to lie on its stack. */
#define TOP_FIRST 0.0f
#define BEGUN(state, where, shared)                                                                                    \
    volatile float left[PART_V + 1];                                                                                   \
    left[PART_V - where.row % 2 * PART_V] = 0;                                                                         \
    for (int i = 0; i < PART_V; ++i) {                                                                                 \
        state.out[i] = left[i] > 100 ? 0 : left[i];                                                                    \
    }
#include "../attend.cuh"
