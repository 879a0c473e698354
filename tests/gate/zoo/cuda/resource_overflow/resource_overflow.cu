/* resource_overflow: needs more shared memory than a block is given. */
#include "../attend.cuh"
