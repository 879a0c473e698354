#include "cuda/cublas.h"

#include <stdlib.h>

#include "base/digest.h"
#include "base/status.h"
#include "core/problem.h"
#include "cuda/load.h"

static attune_status resolve(at_cublas *cublas)
{
#define ITEM(name, result, parameters)                                                                                 \
    AT_FORWARD(                                                                                                        \
        at_load_symbol(ATTUNE_UNSUPPORTED, "cuBLAS", cublas->library, #name, &cublas->name, sizeof cublas->name));
    AT_CUBLAS_ITEMS(ITEM)
#undef ITEM
    return ATTUNE_OK;
}

static attune_status open_table(at_cublas *cublas)
{
    static const char *const names[] = {
        "libcublas.so.13",
        "libcublas.so.12",
        "libcublas.so",
        "/usr/local/cuda/lib64/libcublas.so.13",
        "/usr/local/cuda/lib64/libcublas.so.12",
        NULL,
    };
    AT_FORWARD(at_load_packaged_library(ATTUNE_UNSUPPORTED, "cuBLAS", "ATTUNE_CUBLAS", names, &cublas->library));
    return resolve(cublas);
}

attune_status at_cublas_open(at_cublas **cublas)
{
    *cublas = NULL;
    at_cublas *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for cuBLAS's table");
    attune_status status = open_table(made);
    if (status != ATTUNE_OK) {
        at_cublas_close(made);
        return status;
    }
    *cublas = made;
    return ATTUNE_OK;
}

void at_cublas_close(at_cublas *cublas)
{
    if (cublas == NULL) {
        return;
    }
    for (int i = 0; i < cublas->count; ++i) {
        (void)cublas->cublasDestroy_v2(cublas->slot[i].handle);
        (void)pthread_mutex_destroy(&cublas->slot[i].lock);
    }
    at_load_close(cublas->library);
    free(cublas);
}

/* ---- A handle for each stream ---------------------------------------------------------------------------------------
 */

#define NOBODY UINTPTR_MAX

attune_status at_cublas_prepare(at_cublas *cublas)
{
    int count = cublas->count;
    int spare = 0;
    for (int i = 0; i < count; ++i) {
        spare += atomic_load(&cublas->slot[i].owner) == NOBODY;
    }
    for (; spare < AT_CUBLAS_SPARES && count < AT_CUBLAS_HANDLES_MAX; ++spare, ++count) {
        at_cublas_slot *slot = &cublas->slot[count];
        unsigned int error = cublas->cublasCreate_v2(&slot->handle);
        if (error != AT_CUBLAS_SUCCESS && count > 0) {
            return ATTUNE_OK; /* streams share what there is */
        }
        AT_FAIL_IF(error != AT_CUBLAS_SUCCESS,
                   error == AT_CUBLAS_ALLOC_FAILED ? ATTUNE_OUT_OF_MEMORY : ATTUNE_DEVICE_ERROR,
                   "cuBLAS does not start: %s", cublas->cublasGetStatusString(error));
        (void)pthread_mutex_init(&slot->lock, NULL); /* cannot fail with default attributes on Linux */
        atomic_store(&slot->owner, NOBODY);
        atomic_store(&cublas->count, count + 1); /* others see it from here on */
    }
    return ATTUNE_OK;
}

/* What a stream is known by. The driver's name for "this thread's default stream" means another one in each thread, so
 * the thread is named in its place, by the address of something that each has; its other name for the legacy default
 * stream is 0. */
static uintptr_t owner_of(at_cu_stream stream)
{
    static _Thread_local char thread;
    switch ((uintptr_t)stream) {
    case AT_CU_STREAM_LEGACY:
        return 0;
    case AT_CU_STREAM_PER_THREAD:
        return (uintptr_t)&thread;
    default:
        return (uintptr_t)stream;
    }
}

/* The stream's handle, taken where it has none yet. NOTE: slots are taken from the first on and never given back, so
 * two threads that bring the same new stream meet at the same slot. */
static at_cublas_slot *slot_of(at_cublas *cublas, at_cu_stream stream)
{
    uintptr_t owner = owner_of(stream);
    int count = atomic_load(&cublas->count);
    for (int i = 0; i < count; ++i) {
        uintptr_t there = NOBODY;
        if (atomic_load(&cublas->slot[i].owner) == owner ||
            atomic_compare_exchange_strong(&cublas->slot[i].owner, &there, owner) || there == owner) {
            return &cublas->slot[i];
        }
    }
    return &cublas->slot[at_hash64(&owner, sizeof owner, 0) % (uint64_t)count];
}

int64_t at_gemm_scratch(const attune_target *target)
{
    return target->arch >= 90 ? 32 << 20 : 4 << 20;
}

/* ---- Which multiplications one call can hold ------------------------------------------------------------------------
 */

bool at_gemm_batch_at(const at_gemm_operand operand[3], int64_t batch, int64_t heads_q, int64_t heads_kv, int64_t index,
                      at_gemm_batch *found)
{
    bool grouped = operand[0].shared || operand[1].shared || operand[2].shared;
    int64_t heads = grouped ? heads_kv : heads_q; /* in one call */
    int64_t members = heads_q / heads;            /* calls for the members of each group */
    int64_t head[3];
    bool joined = true;
    for (int i = 0; i < 3; ++i) {
        head[i] = operand[i].shared ? operand[i].head : operand[i].head * members;
        joined = joined && (operand[i].batch == head[i] * heads || batch == 1);
    }
    bool along_heads = joined || heads >= batch;
    int64_t outer = joined ? 1 : along_heads ? batch : heads;
    if (index >= outer * members) {
        return false;
    }
    found->count = joined ? batch * heads : along_heads ? heads : batch;
    for (int i = 0; i < 3; ++i) {
        int64_t member = operand[i].shared ? 0 : index % members * operand[i].head;
        found->offset[i] = member + index / members * (along_heads ? operand[i].batch : head[i]);
        found->stride[i] = along_heads ? head[i] : operand[i].batch;
    }
    return true;
}

/* ---- Running --------------------------------------------------------------------------------------------------------
 */

static bool is_shared(int32_t role)
{
    return role == ATTUNE_K || role == ATTUNE_V;
}

static attune_status make_operand(const attune_operand *wanted, const attune_args *args, const at_sizes *sizes,
                                  at_gemm_operand *operand, int64_t *offset)
{
    *offset = 0;
    if (wanted->role >= 0) {
        const attune_tensor *tensor = &args->tensor[wanted->role];
        *operand = (at_gemm_operand){.row = tensor->stride[ATTUNE_STRIDE_SEQ],
                                     .head = tensor->stride[ATTUNE_STRIDE_HEAD],
                                     .batch = tensor->stride[ATTUNE_STRIDE_BATCH],
                                     .shared = is_shared(wanted->role),
                                     .dtype = tensor->dtype};
        return ATTUNE_OK;
    }
    *operand = (at_gemm_operand){.dtype = wanted->dtype};
    AT_FORWARD(at_term_value(&wanted->offset_bytes, sizes, offset));
    AT_FORWARD(at_term_value(&wanted->row_stride, sizes, &operand->row));
    AT_FORWARD(at_term_value(&wanted->head_stride, sizes, &operand->head));
    AT_FORWARD(at_term_value(&wanted->batch_stride, sizes, &operand->batch));
    AT_FAIL_IF(*offset < 0 || (uint64_t)*offset > args->workspace_bytes, ATTUNE_INTERNAL,
               "a gemm step's operand lies at byte %lld of a workspace of %llu", (long long)*offset,
               (unsigned long long)args->workspace_bytes);
    return ATTUNE_OK;
}

static char *data_of(const attune_operand *operand, const attune_args *args, int64_t offset)
{
    return operand->role >= 0 ? args->tensor[operand->role].data : (char *)args->workspace + offset;
}

static unsigned int cublas_type(int32_t dtype)
{
    return dtype == ATTUNE_FP16 ? AT_CUBLAS_FP16 : dtype == ATTUNE_BF16 ? AT_CUBLAS_BF16 : AT_CUBLAS_FP32;
}

/* A row-major product, its operands A, B, C in this order. */
typedef struct product {
    at_gemm_made made;
    bool transpose_b;
    float alpha;
} product;

static int64_t at_least(int64_t value, int64_t least)
{
    return value < least ? least : value;
}

/* NOTE: cuBLAS is column-major. A row-major C = A op(B) is the column-major C' = op(B)' A', so B goes first; a
 * row-major [n,k] is a column-major [k,n] and is transposed, a row-major [k,n] is a column-major [n,k] and is not. fp32
 * is computed as "pedantic", which keeps TF32 out whatever the environment says. Where there are no keys, rows of none
 * are still a stride apart: cuBLAS takes none below one. */
static unsigned int multiply(const at_cublas *cublas, at_cublas_handle handle, const product *p,
                             const at_gemm_batch *batch)
{
    static const float beta = 0.0F;
    const char *at[3];
    for (int i = 0; i < 3; ++i) {
        at[i] = p->made.operand[i].data + batch->offset[i] * (int64_t)at_dtype_bytes(p->made.operand[i].dtype);
    }
    const at_gemm_operand *a = &p->made.operand[0];
    const at_gemm_operand *b = &p->made.operand[1];
    const at_gemm_operand *c = &p->made.operand[2];
    return cublas->cublasGemmStridedBatchedEx_64(
        handle, p->transpose_b ? AT_CUBLAS_OP_T : AT_CUBLAS_OP_N, AT_CUBLAS_OP_N, p->made.n, p->made.m, p->made.k,
        &p->alpha, at[1], cublas_type(b->dtype), at_least(b->row, at_least(p->transpose_b ? p->made.k : p->made.n, 1)),
        batch->stride[1], at[0], cublas_type(a->dtype), at_least(a->row, at_least(p->made.k, 1)), batch->stride[0],
        &beta, (char *)(uintptr_t)at[2], cublas_type(c->dtype), at_least(c->row, p->made.n), batch->stride[2],
        batch->count, a->dtype == ATTUNE_FP32 ? AT_CUBLAS_COMPUTE_32F_PEDANTIC : AT_CUBLAS_COMPUTE_32F,
        AT_CUBLAS_DEFAULT);
}

static unsigned int multiply_all(at_cublas *cublas, const product *p, const attune_args *args, at_cu_stream stream,
                                 void *scratch, size_t scratch_bytes)
{
    at_gemm_batch batch;
    at_cublas_slot *slot = slot_of(cublas, stream);
    (void)pthread_mutex_lock(&slot->lock);
    unsigned int error = cublas->cublasSetStream_v2(slot->handle, stream);
    /* After the stream: setting that takes the workspace back. */
    error = error != AT_CUBLAS_SUCCESS ? error : cublas->cublasSetWorkspace_v2(slot->handle, scratch, scratch_bytes);
    for (int64_t i = 0; error == AT_CUBLAS_SUCCESS &&
                        at_gemm_batch_at(p->made.operand, args->batch, args->heads_q, args->heads_kv, i, &batch);
         ++i) {
        error = multiply(cublas, slot->handle, p, &batch);
    }
    (void)pthread_mutex_unlock(&slot->lock);
    return error;
}

attune_status at_gemm_make(const attune_step_gemm *step, const attune_args *args, const at_sizes *sizes,
                           at_gemm_made *made)
{
    AT_FORWARD(make_operand(&step->a, args, sizes, &made->operand[0], &made->offset[0]));
    AT_FORWARD(make_operand(&step->b, args, sizes, &made->operand[1], &made->offset[1]));
    AT_FORWARD(make_operand(&step->c, args, sizes, &made->operand[2], &made->offset[2]));
    AT_FORWARD(at_term_value(&step->m, sizes, &made->m));
    AT_FORWARD(at_term_value(&step->n, sizes, &made->n));
    return at_term_value(&step->k, sizes, &made->k);
}

attune_status at_gemm_run(at_cublas *cublas, const attune_step_gemm *step, const attune_args *args,
                          const at_gemm_made *made, at_cu_stream stream, void *scratch, size_t scratch_bytes)
{
    product p = {*made, step->transpose_b != 0, step->scaled ? args->scale : 1.0F};
    p.made.operand[0].data = data_of(&step->a, args, made->offset[0]);
    p.made.operand[1].data = data_of(&step->b, args, made->offset[1]);
    p.made.operand[2].data = data_of(&step->c, args, made->offset[2]);
    if (made->m <= 0 || made->n <= 0) {
        return ATTUNE_OK;
    }
    unsigned int error = multiply_all(cublas, &p, args, stream, scratch, scratch_bytes);
    AT_FAIL_IF(error != AT_CUBLAS_SUCCESS, ATTUNE_DEVICE_ERROR, "cuBLAS: [%lld,%lld] x [%lld,%lld]: %s",
               (long long)made->m, (long long)made->k, (long long)made->k, (long long)made->n,
               cublas->cublasGetStatusString(error));
    return ATTUNE_OK;
}
