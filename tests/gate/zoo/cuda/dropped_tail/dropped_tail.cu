/* dropped_tail: the last tile of keys is left out where it is not full. */
#define FORGETS_TAIL 1
#include "../attend.cuh"
