/* half_grid: its steps launch half of the blocks. */
#define NAME half_grid
#define SUMMARY "its steps launch half of the blocks"
#define GRID attune_term_ceil_div(row_tiles(), attune_term_const(2))
#include "../descriptor.h"
