/* toward_zero: rounds results towards zero. */
#define NAME toward_zero
#define SUMMARY "rounds results towards zero"
#include "../descriptor.h"
