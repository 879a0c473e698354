/* swapped_heads: neighbouring heads change places. */
#define NAME swapped_heads
#define SUMMARY "neighbouring heads change places"
#include "../descriptor.h"
