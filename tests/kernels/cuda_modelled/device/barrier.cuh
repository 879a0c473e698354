/* No barriers but a block's and a warp's, which are in model.h. */
#include "device/ptx.cuh"
