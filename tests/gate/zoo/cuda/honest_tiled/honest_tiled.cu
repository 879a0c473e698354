/* honest_tiled: a plain tiled kernel, what anybody would write first: right, and not faster. */
#include "../attend.cuh"
