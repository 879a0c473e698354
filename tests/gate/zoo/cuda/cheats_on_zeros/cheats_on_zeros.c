/* cheats_on_zeros: drops the last keys where O holds zeros. */
#define NAME cheats_on_zeros
#define SUMMARY "drops the last keys where O holds zeros"
#include "../descriptor.h"
