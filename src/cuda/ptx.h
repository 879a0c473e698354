/* Reading PTX for the one thing that a cubin does not say: which device globals its code uses.
 *
 * NOTE: NVRTC gives every namespace-scope constexpr a place among the mutable globals, although its uses are folded,
 * and the cubin holds an address for each of them, used or not. In the PTX of the same compilation the unused are
 * declared and never named again. */
#ifndef CUDA_PTX_H
#define CUDA_PTX_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a global is named beyond its declaration; if so, `name` is the first such one's, cut where it does not fit.
 */
bool at_ptx_uses_global(const char *ptx, char *name, size_t bytes);

/* How a compilation's result is handed on: as the last line of its log, followed by the name, or by nothing where no
 * global is used. */
#define AT_PTX_GLOBALS "attune: globals in use:"

#endif
