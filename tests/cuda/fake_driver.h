/* A CUDA driver that runs nothing and remembers everything: what attune asks of a driver can be seen without one. Built
 * as a library of its own, which ATTUNE_LIBCUDA names; tests reach its record with dlsym("fake").
 *
 * NOTE: not under the name libcuda.so.1, where NVRTC looks for a driver too: it takes this one for complete, and
 * crashes. */
#ifndef TESTS_CUDA_FAKE_DRIVER_H
#define TESTS_CUDA_FAKE_DRIVER_H

#include "cuda/types.h"

enum { FAKE_DEVICES = 2, FAKE_CONTEXTS = 4, FAKE_LAUNCHES = 4, FAKE_PARAM_MAX = 4096 };

typedef struct fake_record {
    /* What it is asked to be. */
    int version;                   /* 13000 */
    at_cu_result init;             /* what cuInit says */
    const char *lacks;             /* an item it does not have */
    at_cu_result launch;           /* what launches say */
    at_cu_result load;             /* what loading a module says */
    at_cu_result mapping, locking; /* what it says to memory that is mapped, and to such as can only be read */
    size_t memory;                 /* bytes a device has */
    size_t param_bytes;            /* that a kernel takes; 0: an attune_args with the roles of the forward pass */
    float elapsed_ms;              /* between any two events */
    int late;                      /* copies on the device are done when somebody waits for a stream */
    const void *linked;            /* what comes of PTX; NULL: a failure */
    size_t linked_bytes;
    /* What it was asked to do. */
    int retained[FAKE_DEVICES];
    int modules;     /* loaded less unloaded */
    int allocations; /* likewise */
    int handles;     /* likewise: streams, graphs, events */
    int links;       /* created less destroyed */
    int mappings;    /* likewise: addresses, memory, what is mapped */
    int launches, fills, pointer_questions, stream_questions, map_encodes, map_moves;
    int strayed;             /* launches whose first map is not of where Q is */
    unsigned int smem_limit; /* the last one set */
    int non_portable;
    at_cu_launch_config config; /* of the last launch; its pointers are not kept */
    at_cu_launch_attribute attribute[2];
    at_cu_context launched_in;
    attune_args args;                                 /* of the last launch, as much as it had */
    _Alignas(64) unsigned char param[FAKE_PARAM_MAX]; /* the same, as many bytes as it took */
    attune_args args_of[FAKE_LAUNCHES];               /* of the launch of that number, modulo as many */
    unsigned int grid_of[FAKE_LAUNCHES];
    at_cu_pointer fill_at;
    size_t fill_words;
    unsigned int fill_pattern;
    char entry[64];
    /* Contexts 0 and 1 are the primary ones of devices 0 and 1, 2 and 3 others of the same. */
    at_cu_context context[FAKE_CONTEXTS];
    at_cu_stream stream[FAKE_CONTEXTS]; /* one of each context */
    void (*set_current)(at_cu_context context);
    at_cu_context (*current)(void);
} fake_record;

#endif
