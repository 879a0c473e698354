/* Gemm steps, by cuBLAS, looked up at run time.
 *
 * A handle belongs to a stream: the first call on a stream takes one of the spares that were made at load, so that
 * nothing is made or allocated at execute, a call can be captured without having run before, and threads on streams of
 * their own do not wait for each other. Streams beyond the spares share handles; a lock for each handle keeps that
 * right, and a handle gets its stream at every call, so that a stream which took a dead one's address is no danger.
 *
 * Scratch memory is a part of each call's own workspace: so streams share none, nor do graphs that were captured from
 * one stream and are replayed on several. */
#ifndef CUDA_CUBLAS_H
#define CUDA_CUBLAS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "attune/kernel.h"
#include "core/term.h"
#include "cuda/types.h"

/* Handles of a device: at the most, and spare ones after each load. */
enum { AT_CUBLAS_HANDLES_MAX = 32, AT_CUBLAS_SPARES = 8 };

typedef struct at_cublas_slot {
    at_cublas_handle handle;
    _Atomic(uintptr_t) owner; /* the stream, or UINTPTR_MAX for a spare */
    pthread_mutex_t lock;     /* held while the handle is used */
} at_cublas_slot;

typedef struct at_cublas {
    void *library;
    at_cublas_slot slot[AT_CUBLAS_HANDLES_MAX];
    _Atomic int count;
#define ITEM(name, result, parameters) result(*name) parameters;
    AT_CUBLAS_ITEMS(ITEM)
#undef ITEM
} at_cublas;

/* Opens $ATTUNE_CUBLAS or the newest cuBLAS there is (cuda/load.h), without a handle. ATTUNE_UNSUPPORTED where there is
 * none. */
attune_status at_cublas_open(at_cublas **cublas);
/* Makes handles in the current context until AT_CUBLAS_SPARES are spare or AT_CUBLAS_HANDLES_MAX are there; fails only
 * where that leaves none. One thread at a time; others may be multiplying. */
attune_status at_cublas_prepare(at_cublas *cublas);
/* In the context it was made in. NULL is fine. */
void at_cublas_close(at_cublas *cublas);

/* Bytes of scratch memory that a call hands to at_gemm_run: what NVIDIA advises. A multiple of 256. */
int64_t at_gemm_scratch(const attune_target *target);

/* One batch of equal multiplications whose operands lie at constant strides, in elements. */
typedef struct at_gemm_batch {
    int64_t offset[3]; /* of A, B and C, in elements */
    int64_t stride[3];
    int64_t count;
} at_gemm_batch;

/* An operand's place in memory. */
typedef struct at_gemm_operand {
    char *data;
    int64_t row, head, batch; /* strides, elements */
    bool shared;              /* has heads_kv heads: heads_q / heads_kv query heads use each */
    int32_t dtype;
} at_gemm_operand;

/* The index-th of the batches that cover (batch, head) for these operands; false when there are no more. Batch and head
 * are joined into one where the strides allow, else the smaller one is gone through one by one; with grouped heads
 * there is a batch for each member of the groups. */
bool at_gemm_batch_at(const at_gemm_operand operand[3], int64_t batch, int64_t heads_q, int64_t heads_kv, int64_t index,
                      at_gemm_batch *found);

/* What sizes and strides make of a step: C[m,n] = A[m,k] B, and where its operands lie in a workspace. */
typedef struct at_gemm_made {
    int64_t m, n, k;
    int64_t offset[3];          /* bytes of the workspace; 0 for tensors */
    at_gemm_operand operand[3]; /* without data */
} at_gemm_made;

/* The step's terms have been checked. */
attune_status at_gemm_make(const attune_step_gemm *step, const attune_args *args, const at_sizes *sizes,
                           at_gemm_made *made);
/* Multiplies where args' tensors and workspace are now. Any thread, after at_cublas_prepare. */
attune_status at_gemm_run(at_cublas *cublas, const attune_step_gemm *step, const attune_args *args,
                          const at_gemm_made *made, at_cu_stream stream, void *scratch, size_t scratch_bytes);

#endif
