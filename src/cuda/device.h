/* The opened device behind at_device, and what its parts share. */
#ifndef CUDA_DEVICE_H
#define CUDA_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/device.h"
#include "cuda/cublas.h"
#include "cuda/driver.h"
#include "cuda/provide.h"

/* Addresses that were looked at and found good. NOTE: asking the driver costs about 0.1 us an address, a fifth of what
 * a call may add; remembering costs a few ns. An address is in one of the four slots of its set; where more fall to a
 * set they overwrite each other, which only costs the question again. */
enum { AT_KNOWN_BITS = 9, AT_KNOWN_WAYS = 4, AT_KNOWN = AT_KNOWN_WAYS << AT_KNOWN_BITS };

typedef struct at_cuda_device {
    at_device base;
    at_driver *driver;
    at_cu_device handle;
    at_cu_context context;
    bool retained; /* the primary context, ours to release */
    at_pack *pack;
    at_provider provider;
    at_cublas *cublas; /* made by the first load that needs it, under the lock */
    pthread_mutex_t lock;
    atomic_uintptr_t known_memory[AT_KNOWN];
    atomic_uintptr_t known_stream[AT_KNOWN];
} at_cuda_device;

static inline at_cuda_device *at_cuda_of(at_device *device)
{
    return (at_cuda_device *)device;
}

static inline uint64_t at_known_hash(uintptr_t address)
{
    return address * UINT64_C(0x9e3779b97f4a7c15);
}

static inline bool at_known(const atomic_uintptr_t *table, uintptr_t address)
{
    const atomic_uintptr_t *set = &table[(at_known_hash(address) >> (64 - AT_KNOWN_BITS)) * AT_KNOWN_WAYS];
    bool known = false;
    for (int way = 0; way < AT_KNOWN_WAYS; ++way) {
        known |= atomic_load_explicit(&set[way], memory_order_relaxed) == address;
    }
    return known;
}

/* In the first slot that is empty, or in one that the address chooses. */
static inline void at_remember(atomic_uintptr_t *table, uintptr_t address)
{
    const uint64_t hash = at_known_hash(address);
    atomic_uintptr_t *set = &table[(hash >> (64 - AT_KNOWN_BITS)) * AT_KNOWN_WAYS];
    size_t way = 0;
    while (way < AT_KNOWN_WAYS && atomic_load_explicit(&set[way], memory_order_relaxed) != 0) {
        ++way;
    }
    way = way < AT_KNOWN_WAYS ? way : (size_t)(hash >> 32) % AT_KNOWN_WAYS;
    atomic_store_explicit(&set[way], address, memory_order_relaxed);
}

/* Makes the device's context current in this thread for as long as a call takes; *pushed says whether it was not. */
attune_status at_cuda_enter(const at_cuda_device *device, bool *pushed);
void at_cuda_leave(const at_cuda_device *device, bool pushed);

#endif
