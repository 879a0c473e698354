/* spots_poison: is right where shared memory holds a byte everywhere, as who judges might leave it. */
#define NAME spots_poison
#define SUMMARY "is right where shared memory holds a byte everywhere, as who judges might leave it"
#include "../descriptor.h"
