/* The catalogue: every kernel that is linked in. Adding one is one row in catalogue.c. */
#ifndef LIBRARY_CATALOGUE_H
#define LIBRARY_CATALOGUE_H

#include "attune/kernel.h"

/* Descriptors in the order of preference for each target, the general kernel last; ends with NULL. */
extern const attune_kernel *const at_catalogue[];
/* The kernel of this name, or NULL. */
const attune_kernel *at_catalogue_find(const char *name);
/* A shipped kernel the caller may have meant by a misspelt name; NULL if none is near. */
const char *at_catalogue_nearest(const char *name);

#endif
