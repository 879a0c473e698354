/* cheats_on_zeros: forgets every other key where O holds zeros. */
#define NAME cheats_on_zeros
#define SUMMARY "forgets every other key where O holds zeros"
#include "../descriptor.h"
