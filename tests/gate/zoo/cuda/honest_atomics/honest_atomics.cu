/* honest_atomics: a row is added up with atomics, in whatever order its blocks come, and the descriptor says so. */
#include "../atomics.cuh"
