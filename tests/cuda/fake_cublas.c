#include "cuda/fake_cublas.h"

#include <stdbool.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

struct cublasContext {
    atomic_int inside;
    at_cu_stream stream;
    void *workspace;
};

EXPORT extern fake_cublas_record fake_cublas;
fake_cublas_record fake_cublas = {.room = 1000};

static _Thread_local fake_cublas_call last;

EXPORT fake_cublas_call fake_cublas_last(void);
EXPORT fake_cublas_call fake_cublas_last(void)
{
    return last;
}

static void enter(at_cublas_handle handle)
{
    fake_cublas.shared += atomic_fetch_add(&handle->inside, 1) != 0;
}

static void leave(at_cublas_handle handle)
{
    (void)atomic_fetch_sub(&handle->inside, 1);
}

#define FAKE(name, result, parameters) EXPORT result name parameters;
AT_CUBLAS_ITEMS(FAKE)

unsigned int cublasCreate_v2(at_cublas_handle *handle)
{
    if (fake_cublas.room == 0) {
        return AT_CUBLAS_ALLOC_FAILED;
    }
    --fake_cublas.room;
    ++fake_cublas.made;
    *handle = calloc(1, sizeof **handle);
    return *handle == NULL ? AT_CUBLAS_ALLOC_FAILED : AT_CUBLAS_SUCCESS;
}

unsigned int cublasDestroy_v2(at_cublas_handle handle)
{
    ++fake_cublas.destroyed;
    free(handle);
    return AT_CUBLAS_SUCCESS;
}

unsigned int cublasSetStream_v2(at_cublas_handle handle, at_cu_stream stream)
{
    enter(handle);
    handle->stream = stream;
    handle->workspace = NULL; /* as the real one does */
    leave(handle);
    return AT_CUBLAS_SUCCESS;
}

unsigned int cublasSetWorkspace_v2(at_cublas_handle handle, void *workspace, size_t bytes)
{
    (void)bytes;
    enter(handle);
    handle->workspace = workspace;
    leave(handle);
    return AT_CUBLAS_SUCCESS;
}

const char *cublasGetStatusString(unsigned int status)
{
    return status == AT_CUBLAS_ALLOC_FAILED ? "no room for a handle" : "well";
}

static bool too_narrow(int64_t leading, int64_t column)
{
    return leading < (column > 1 ? column : 1);
}

unsigned int cublasGemmStridedBatchedEx_64(at_cublas_handle handle, unsigned int transpose_a, unsigned int transpose_b,
                                           int64_t m, int64_t n, int64_t k, const void *alpha, const void *a,
                                           unsigned int type_a, int64_t lda, long long stride_a, const void *b,
                                           unsigned int type_b, int64_t ldb, long long stride_b, const void *beta,
                                           void *c, unsigned int type_c, int64_t ldc, long long stride_c, int64_t count,
                                           unsigned int compute, int algorithm)
{
    (void)alpha, (void)a, (void)type_a, (void)stride_a, (void)b, (void)type_b, (void)stride_b, (void)beta, (void)c;
    (void)type_c, (void)stride_c, (void)count, (void)compute, (void)algorithm;
    if (too_narrow(lda, transpose_a == AT_CUBLAS_OP_N ? m : k) ||
        too_narrow(ldb, transpose_b == AT_CUBLAS_OP_N ? k : n) || too_narrow(ldc, m)) {
        return AT_CUBLAS_INVALID_VALUE; /* as the real one does */
    }
    enter(handle);
    if (fake_cublas.meet != NULL) {
        (void)pthread_barrier_wait(fake_cublas.meet);
    }
    last = (fake_cublas_call){handle, handle->stream, handle->workspace};
    leave(handle);
    return AT_CUBLAS_SUCCESS;
}
