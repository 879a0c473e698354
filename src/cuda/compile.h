/* From a build to a compiled kernel, by NVRTC. */
#ifndef CUDA_COMPILE_H
#define CUDA_COMPILE_H

#include "cuda/artifact.h"
#include "cuda/build.h"
#include "cuda/nvrtc.h"

/* ATTUNE_COMPILE_ERROR quotes the compiler's first errors. The caller frees the artifact. */
attune_status at_compile(const at_nvrtc *nvrtc, const at_build *build, at_artifact *artifact);

#endif
