/* Memory from the caller's allocator, where it brought one. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include "attune/attune.h"

/* Both functions NULL: the C library's. */
typedef struct at_memory {
    attune_allocate allocate;
    attune_release release;
    void *user;
} at_memory;

/* `bytes` at a multiple of `align`, a power of two of at most 4096; NULL where there are none. */
void *at_memory_take(const at_memory *memory, size_t bytes, size_t align);
/* NULL is fine. */
void at_memory_give(const at_memory *memory, void *data);

#endif
