/* spares_a_guard: writes behind O unless a guard seems to be there. */
#define NAME spares_a_guard
#define SUMMARY "writes behind O unless a guard seems to be there"
#include "../descriptor.h"
