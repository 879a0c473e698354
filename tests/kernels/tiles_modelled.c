/* cpu_bf16 on modelled tiles. */
#include "kernels/tiles_modelled.h"
#include "kernels/tiles_model.h"

#include "../../kernels/cpu/cpu_bf16.kernel.c"
