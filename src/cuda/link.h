/* Cubins made of PTX by the driver. */
#ifndef CUDA_LINK_H
#define CUDA_LINK_H

#include "cuda/artifact.h"

/* at_assembler's function; `device` is an at_cuda_device with a context. ATTUNE_COMPILE_ERROR quotes the driver. */
attune_status at_cuda_assemble(void *device, const char *ptx, size_t bytes, at_artifact *artifact);

#endif
