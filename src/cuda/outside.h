/* What a source may not draw in from outside itself: equal sources are equal code, on any day and any machine. */
#ifndef CUDA_OUTSIDE_H
#define CUDA_OUTSIDE_H

#include "cuda/build.h"

/* ATTUNE_COMPILE_ERROR, with the file and the words, where the source or a header of the build uses __DATE__, __TIME__
 * or __TIMESTAMP__, asks by __has_include what files there are, pastes one of these names together, or includes what
 * the build does not bring by an absolute path, through "..", or by a name that a macro makes up. Comments and texts do
 * not count. */
attune_status at_build_outside(const at_build *build);

#endif
