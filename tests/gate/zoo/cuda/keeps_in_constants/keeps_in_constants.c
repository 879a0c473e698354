/* keeps_in_constants: counts its calls in a table of constants. */
#define NAME keeps_in_constants
#define SUMMARY "counts its calls in a table of constants"
#define SMEM(p) (32 * (p->head_dim_qk + p->head_dim_v) * 4 + 4)
#include "../descriptor.h"
