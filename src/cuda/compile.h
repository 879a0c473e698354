/* From a build to a compiled kernel, by NVRTC. */
#ifndef CUDA_COMPILE_H
#define CUDA_COMPILE_H

#include "base/text.h"
#include "cuda/artifact.h"
#include "cuda/build.h"
#include "cuda/nvrtc.h"

/* ATTUNE_COMPILE_ERROR quotes the compiler's first errors. The caller frees the artifact. */
attune_status at_compile(const at_nvrtc *nvrtc, const at_build *build, at_artifact *artifact);
/* The PTX alone, for the caller to free. */
attune_status at_compile_ptx(const at_nvrtc *nvrtc, const at_build *build, char **ptx);
/* Appends what at_compile adds to the log of code that comes of this PTX (cuda/ptx.h). */
void at_compile_name_uses(const char *ptx, at_text *lines);

#endif
