/* A cuBLAS that multiplies nothing and remembers who asked: which handle, which stream, which workspace, and whether
 * two threads were in one handle at a time. Built as a library of its own, which ATTUNE_CUBLAS names; tests reach its
 * record with dlsym("fake_cublas"). */
#ifndef TESTS_CUDA_FAKE_CUBLAS_H
#define TESTS_CUDA_FAKE_CUBLAS_H

#include <pthread.h>
#include <stdatomic.h>

#include "cuda/types.h"

typedef struct fake_cublas_call {
    at_cublas_handle handle;
    at_cu_stream stream;
    void *workspace;
} fake_cublas_call;

typedef struct fake_cublas_record {
    int room;                /* handles that can be had, from here on */
    pthread_barrier_t *meet; /* not NULL: multiplications wait for each other here */
    atomic_int made, destroyed;
    atomic_int shared; /* calls that found another thread in their handle */
} fake_cublas_record;

/* What this thread's last multiplication was asked for, for dlsym("fake_cublas_last"). */
typedef fake_cublas_call fake_cublas_last_call(void);

#endif
