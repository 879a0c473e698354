/* resource_overflow: needs more shared memory than a block is given. */
#define NAME resource_overflow
#define SUMMARY "needs more shared memory than a block is given"
#define SMEM(p) (300000 + 0 * p->head_dim_v)
#include "../descriptor.h"
