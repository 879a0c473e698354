/* Reading PTX for what a cubin does not say: which device globals its code uses, and which special registers it reads.
 *
 * NOTE: NVRTC gives every namespace-scope constexpr a place among the mutable globals, although its uses are folded,
 * and the cubin holds an address for each of them, used or not. In the PTX of the same compilation the unused are
 * declared and never named again. */
#ifndef CUDA_PTX_H
#define CUDA_PTX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

/* Whether a global is named beyond its declaration, or a pointer to constant memory is made, through which it could be
 * written; if so, `name` is the first such one's, or says that, cut where it does not fit. */
bool at_ptx_uses_global(const char *ptx, char *name, size_t bytes);

/* How many globals are declared, where none is used: a cubin of the same compilation that has another number of them
 * has some that nobody saw. */
int at_ptx_unused_globals(const char *ptx);

/* What of assembler makes a statement part of a line or a directive that nobody reads, and no compiler writes: "#" in
 * any place, a second .target. NULL where there is nothing of that kind. */
const char *at_ptx_hides(const char *ptx);

/* Whether a special register is named that is not on the list of those that any kernel may read: its place in block,
 * cluster, grid and warp, their sizes, its dynamic shared memory. Clocks, timers, counters and what tells
 * multiprocessors, launches or graphs apart are not, nor is what a later compiler adds. If so, `name` is the first's,
 * "%smid". A register of the code's own may have any other name. */
bool at_ptx_reads_special(const char *ptx, char *name, size_t bytes);

/* Behind blanks and comments, which a compiler puts around all that is the source's own assembler. */
const char *at_ptx_skip(const char *at);
/* A statement's opcode: what comes behind those and a predicate. */
const char *at_ptx_opcode(const char *statement);
/* Behind the statement that begins here, or the brace or label that does. */
const char *at_ptx_end(const char *statement);
/* Whether it begins as one of the list does, which ends with NULL. */
bool at_ptx_begins(const char *opcode, const char *const *list);

/* The PTX without comments and places in sources, and without names of those that the passes over it give: whoever
 * wrote the code cannot keep a pass from its work by a comment, or by a name that stands there already. */
void at_ptx_plain(const char *ptx, at_text *to);

/* How a compilation's result is handed on: as the last such lines of its log, followed by the name, or by nothing where
 * there is none. */
#define AT_PTX_GLOBALS "attune: globals in use:"
#define AT_PTX_UNUSED "attune: globals not in use:"
#define AT_PTX_SPECIAL "attune: special registers:"

#endif
