/* half_grid: its steps launch half of the blocks. */
#include "../attend.cuh"
