/* Arrays as files hold them: a dtype, a shape, and elements in row-major (C) order without gaps. */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include "attune/attune.h"

enum { AT_RANK_MAX = 8, AT_ARRAY_TEXT_MAX = 256 };

/* A view: the data belong to someone else. NOTE: files do not align their data; what reads elements through typed
 * pointers checks the address first. */
typedef struct at_array {
    int32_t dtype; /* attune_dtype; -1 for one that attune does not compute with */
    int32_t rank;  /* 0: a single number */
    int64_t shape[AT_RANK_MAX];
    const void *data;
    size_t bytes;
} at_array;

/* Bytes of one element; 0 for an unknown dtype. */
size_t at_array_element(int32_t dtype);
/* The product of the shape times `element` bytes; ATTUNE_CORRUPT, naming `what`, for a negative dimension or a product
 * that no memory could hold. A dimension of zero makes it zero. */
attune_status at_array_size(const char *what, const int64_t *shape, int32_t rank, size_t element, size_t *bytes);
/* Writes "[2, 8, 512, 64]". */
void at_array_shape_text(const at_array *array, char text[AT_ARRAY_TEXT_MAX]);

#endif
