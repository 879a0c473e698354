/* cpu_decode on modelled tiles. */
#include "kernels/tiles_model.h"
#include "kernels/tiles_modelled.h"

#include "../../kernels/cpu/cpu_decode.kernel.c"
