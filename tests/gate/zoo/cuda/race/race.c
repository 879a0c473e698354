/* race: the barriers around the tiles are missing, so that warps read what others are still loading. */
#define NAME race
#define SUMMARY "the barriers around the tiles are missing, so that warps read what others are still loading"
#include "../descriptor.h"
