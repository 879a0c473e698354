/* Device memory in whose neighbourhood nothing is, as in a program whose tensor ends where its memory ends: who reads
 * or writes behind it ends the context. */
#ifndef CUDA_FENCED_H
#define CUDA_FENCED_H

#include "core/device.h"

typedef struct at_cuda_fenced {
    void *data;
    /* The driver's: addresses, of which those in the middle have memory. */
    uint64_t addresses, memory;
    size_t reserved_bytes, begin, bytes;
    bool has_memory, is_mapped;
} at_cuda_fenced;

/* Reserves addresses, and memory for `bytes` of them; `data` is a multiple of `align`, and less than that lies between
 * its end and that of the memory. What was made is for at_cuda_fenced_free, after a failure too. ATTUNE_UNSUPPORTED
 * where the driver has no such memory. */
attune_status at_cuda_fenced_make(at_device *device, size_t bytes, size_t align, at_cuda_fenced *made);
/* From now on nothing can be written there. ATTUNE_UNSUPPORTED where the driver cannot see to that. */
attune_status at_cuda_fenced_lock(at_device *device, const at_cuda_fenced *made);
void at_cuda_fenced_free(at_device *device, at_cuda_fenced *made);

#endif
