/* The run-time compiler, looked up at run time. */
#ifndef CUDA_NVRTC_H
#define CUDA_NVRTC_H

#include "attune/attune.h"
#include "cuda/types.h"

#define AT_NVRTC_OLDEST 12000 /* 1000 * major + 10 * minor: sm_90a */

typedef struct at_nvrtc {
    void *library;
    int version;
#define ITEM(name, result, parameters) result(*name) parameters;
    AT_NVRTC_ITEMS(ITEM)
#undef ITEM
} at_nvrtc;

/* Opens $ATTUNE_NVRTC, or the newest libnvrtc there is, PyTorch's packages included (cuda/load.h).
 * ATTUNE_COMPILE_ERROR, saying what is missing or how old it is, where that does not work. */
attune_status at_nvrtc_open(at_nvrtc **nvrtc);
void at_nvrtc_close(at_nvrtc *nvrtc);

#endif
