/* honest_tiled: a plain tiled kernel, what anybody would write first: right, and not faster. */
#define NAME honest_tiled
#define SUMMARY "a plain tiled kernel, what anybody would write first: right, and not faster"
#include "../descriptor.h"
