/* undeclared_atomics: adds up a row with atomics, in whatever order its blocks come, and does not say so. */
#include "../atomics.cuh"
