/* The catalogue: every kernel that is linked in. Adding one is one row in catalogue.c. */
#ifndef LIBRARY_CATALOGUE_H
#define LIBRARY_CATALOGUE_H

#include "attune/kernel.h"

/* Descriptors in the order of preference for each target, the general kernel behind all that are faster; ends with
 * NULL. */
extern const attune_kernel *const at_catalogue[];
/* The kernel of this name in such a list, or NULL. */
const attune_kernel *at_kernels_find(const attune_kernel *const *kernels, const char *name);
/* The kernel that supports every problem on this kind of target. */
const attune_kernel *at_catalogue_general(attune_target_kind target);
/* A kernel of the list that may have been meant by a misspelt name; NULL if none is near. */
const char *at_kernels_nearest(const attune_kernel *const *kernels, const char *name);
/* The kernel of this name in the catalogue, or NULL. */
const attune_kernel *at_catalogue_find(const char *name);
const char *at_catalogue_nearest(const char *name);
/* The kernel of this name in the list; ATTUNE_NOT_FOUND says which may have been meant. */
attune_status at_kernels_named(const attune_kernel *const *kernels, const char *name, const attune_kernel **kernel);
/* The same of the catalogue. */
attune_status at_catalogue_named(const char *name, const attune_kernel **kernel);
/* The same with parameters, "NAME:PARAM=VALUE,...", which must be the kernel's; `kernel` may be NULL. */
attune_status at_catalogue_check(const char *text, const attune_kernel **kernel);
/* Whether two texts "NAME:PARAM=VALUE,..." name one config: of evidence and wisdom, which may be older than a parameter
 * of the kernel's and lack it. What it adds is 0 then, as new parameters must have it. */
bool at_catalogue_same(const char *a, const char *b);
/* What a kernel of attune's that is not in the catalogue needs, as a clause with a verb: this build, or this machine's
 * architecture, had to do without. NULL where there is no such kernel, or it is there. */
const char *at_catalogue_left_out(const char *name);

#endif
