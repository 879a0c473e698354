/* Gemm steps, by cuBLAS, looked up at run time.
 *
 * One handle a device, used under a lock by one thread at a time for the few microseconds a call takes. Its scratch
 * memory is a part of each call's own workspace, so calls on different streams share none, nothing is allocated at
 * execute, and a call can be captured without having run before. */
#ifndef CUDA_CUBLAS_H
#define CUDA_CUBLAS_H

#include <pthread.h>
#include <stdbool.h>

#include "attune/kernel.h"
#include "core/term.h"
#include "cuda/types.h"

typedef struct at_cublas {
    void *library;
    at_cublas_handle handle;
    pthread_mutex_t lock;
#define ITEM(name, result, parameters) result(*name) parameters;
    AT_CUBLAS_ITEMS(ITEM)
#undef ITEM
} at_cublas;

/* Opens $ATTUNE_CUBLAS or the newest cuBLAS there is, and makes a handle in the current context. ATTUNE_UNSUPPORTED
 * where there is none. */
attune_status at_cublas_open(at_cublas **cublas);
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

attune_status at_gemm_run(at_cublas *cublas, const attune_step_gemm *step, const attune_args *args,
                          const at_sizes *sizes, at_cu_stream stream, void *scratch, size_t scratch_bytes);

#endif
