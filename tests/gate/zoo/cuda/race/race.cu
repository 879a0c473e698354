/* race: the barriers around the tiles are missing, so that warps read what others are still loading. */
#define LOADED()
#define USED()
#include "../attend.cuh"
