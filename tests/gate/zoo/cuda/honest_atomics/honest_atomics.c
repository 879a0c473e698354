/* honest_atomics: a row is added up with atomics, in whatever order its blocks come, and the descriptor says so. */
#define NAME honest_atomics
#define SUMMARY "a sum with atomics, declared"
#define TRAITS (ATTUNE_TRAIT_NONDETERMINISTIC)
#include "../atomics.h"
