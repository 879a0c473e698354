/* honest_words: speaks of __DATE__ and pastes names. */
#define PASTED(a, b) a##b
static __device__ constexpr float PASTED(one_, whole) = 1'000 / 1e3f; // not by __TIME__: it does not matter when
#define SCALE_BY (sizeof "__DATE__" == 9 ? one_whole : 0.5f)
#include "../attend.cuh"
