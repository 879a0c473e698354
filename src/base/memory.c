#include "base/memory.h"

#include <stdlib.h>

void *at_memory_take(const at_memory *memory, size_t bytes, size_t align)
{
    if (bytes > SIZE_MAX - align) {
        return NULL;
    }
    const size_t whole = (bytes + align - 1) / align * align;
    if (memory->allocate == NULL) {
        return aligned_alloc(align, whole > 0 ? whole : align);
    }
    void *data = memory->allocate(memory->user, whole > 0 ? whole : align, align);
    if (data != NULL && (uintptr_t)data % align != 0) { /* as good as none: kernels rely on it */
        memory->release(memory->user, data);
        return NULL;
    }
    return data;
}

void at_memory_give(const at_memory *memory, void *data)
{
    if (memory->release == NULL) {
        free(data);
    } else if (data != NULL) {
        memory->release(memory->user, data);
    }
}
