#include "peers/openblas.h"

#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/call.h"
#include "core/problem.h"
#include "peers/plain.h"
#include "peers/vector.h"

/* ---- The library ----------------------------------------------------------------------------------------------------
 */

/* Declared here and not included: attune builds where OpenBLAS is not. Enumerators are those of every CBLAS. */
enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };

typedef void (*sgemm_function)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                               const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef void (*sgemv_function)(int order, int transpose, int m, int n, float alpha, const float *a, int lda,
                               const float *x, int incx, float beta, float *y, int incy);
typedef char *(*config_function)(void);
typedef void (*set_threads_function)(int threads);

struct at_openblas {
    void *library;
    sgemm_function sgemm;
    sgemv_function sgemv;
    const char *version;
};

/* POSIX lets data pointers hold functions, ISO C does not say how to get them out. */
static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static attune_status look_up(at_openblas *blas, const char *path)
{
    config_function config = NULL;
    set_threads_function set_threads = NULL;
    blas->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    AT_FAIL_IF(blas->library == NULL, ATTUNE_NOT_FOUND, "OpenBLAS is not available: %s", dlerror());
    if (!find(blas->library, "cblas_sgemm", &blas->sgemm) || !find(blas->library, "cblas_sgemv", &blas->sgemv) ||
        !find(blas->library, "openblas_get_config", &config) ||
        !find(blas->library, "openblas_set_num_threads", &set_threads)) {
        return at_fail(ATTUNE_NOT_FOUND, "OpenBLAS is not available: %s lacks %s", path,
                       blas->sgemm == NULL || blas->sgemv == NULL ? "cblas_sgemm or cblas_sgemv"
                                                                  : "openblas_ functions");
    }
    blas->version = config();
    AT_FAIL_IF(strstr(blas->version, "USE64BITINT") != NULL, ATTUNE_NOT_FOUND,
               "OpenBLAS is not available: %s was built for 64-bit integers", path);
    set_threads(1);
    return ATTUNE_OK;
}

attune_status at_openblas_open(at_openblas **blas)
{
    const char *path = getenv("ATTUNE_OPENBLAS");
    *blas = NULL;
    at_openblas *opened = calloc(1, sizeof *opened);
    AT_FAIL_IF(opened == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to open OpenBLAS");
    attune_status status = look_up(opened, path != NULL && path[0] != '\0' ? path : "libopenblas.so.0");
    if (status != ATTUNE_OK) {
        at_openblas_close(opened);
        return status;
    }
    *blas = opened;
    return ATTUNE_OK;
}

void at_openblas_close(at_openblas *blas)
{
    if (blas != NULL) {
        /* NOTE: the library is not unloaded: it starts threads of its own, which would be left without their code. */
        free(blas);
    }
}

const char *at_openblas_version(const at_openblas *blas)
{
    return blas->version;
}

bool at_openblas_supports(const attune_problem *problem, attune_reason *reason)
{
    if (!at_plain(problem, "the GEMM, softmax, GEMM of this peer has no place for it", reason)) {
        return false;
    }
    if (problem->seqlen_kv > INT_MAX || problem->seqlen_q > INT_MAX) {
        return attune_refuse(
            reason, "seqlen %lld: BLAS counts in 32 bits",
            (long long)(problem->seqlen_q > problem->seqlen_kv ? problem->seqlen_q : problem->seqlen_kv));
    }
    return true;
}

/* ---- A bound call ---------------------------------------------------------------------------------------------------
 */

/* A matrix of fp32 whose rows are `stride` apart. */
typedef struct matrix {
    float *data;
    int stride;
} matrix;

/* What a thread needs for a block of rows, carved out of one allocation. */
typedef struct slot {
    atomic_bool taken;
    float *scores;         /* [block_rows][score_stride] */
    float *query, *output; /* [block_rows][head_dim]; only for 16-bit types */
    float *sum, *largest;  /* [block_rows] */
} slot;

struct at_openblas_call {
    const at_openblas *blas;
    const at_vector_ops *vector;
    at_pool *pool;
    attune_args args;
    int block_rows;
    int score_stride;
    int64_t blocks;       /* of rows, of one head */
    int64_t offset;       /* position of query row 0 */
    float *keys, *values; /* 16-bit types: converted in the call, [batch * heads_kv][seqlen_kv][head_dim] */
    int slot_count;
    slot *slots;
    float *slot_memory;
};

/* Scores of a block should stay in a core's share of the caches, and a block be tall enough for a fast GEMM. */
enum { SCORES_TARGET = 256 * 1024, ROWS_MIN = 32, ROWS_MAX = 256, LINE_FLOATS = 16 };

static int64_t round_up(int64_t value, int64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static bool is_half(const attune_args *args)
{
    return args->dtype != ATTUNE_FP32;
}

static void choose_blocks(at_openblas_call *bound)
{
    int64_t keys = bound->args.seqlen_kv > 0 ? bound->args.seqlen_kv : 1;
    int64_t rows = SCORES_TARGET / keys / ROWS_MIN * ROWS_MIN;
    rows = rows < ROWS_MIN ? ROWS_MIN : rows > ROWS_MAX ? ROWS_MAX : rows;
    rows = rows < bound->args.seqlen_q ? rows : bound->args.seqlen_q > 0 ? bound->args.seqlen_q : 1;
    bound->block_rows = (int)rows;
    bound->score_stride = (int)round_up(keys, LINE_FLOATS);
    bound->blocks = (bound->args.seqlen_q + rows - 1) / rows;
    bound->offset = bound->args.offset_kind == ATTUNE_OFFSET_BOTTOM_RIGHT ? bound->args.seqlen_kv - bound->args.seqlen_q
                    : bound->args.offset_kind == ATTUNE_OFFSET_TOP_LEFT   ? 0
                                                                          : bound->args.offset;
}

static attune_status allocate(float **data, size_t floats)
{
    *data = aligned_alloc(64, (size_t)round_up((int64_t)(floats * sizeof **data), 64) + 64);
    AT_FAIL_IF(*data == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu bytes of the OpenBLAS peer",
               floats * sizeof **data);
    return ATTUNE_OK;
}

static attune_status make_slots(at_openblas_call *bound)
{
    size_t rows = (size_t)bound->block_rows;
    size_t scores = rows * (size_t)bound->score_stride;
    size_t query = is_half(&bound->args) ? rows * (size_t)bound->args.head_dim_qk : 0;
    size_t output = is_half(&bound->args) ? rows * (size_t)bound->args.head_dim_v : 0;
    size_t each = (size_t)round_up((int64_t)(scores + query + output + 2 * rows), LINE_FLOATS);
    bound->slot_count = at_pool_threads(bound->pool);
    bound->slots = calloc((size_t)bound->slot_count, sizeof *bound->slots);
    AT_FAIL_IF(bound->slots == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d threads of the OpenBLAS peer",
               bound->slot_count);
    AT_FORWARD(allocate(&bound->slot_memory, each * (size_t)bound->slot_count));
    for (int i = 0; i < bound->slot_count; ++i) {
        slot *one = &bound->slots[i];
        one->scores = bound->slot_memory + each * (size_t)i;
        one->query = one->scores + scores;
        one->output = one->query + query;
        one->sum = one->output + output;
        one->largest = one->sum + rows;
    }
    return ATTUNE_OK;
}

static attune_status make_converted(at_openblas_call *bound)
{
    const attune_args *args = &bound->args;
    if (!is_half(args)) {
        return ATTUNE_OK;
    }
    size_t rows = (size_t)(args->batch * args->heads_kv * args->seqlen_kv);
    AT_FORWARD(allocate(&bound->keys, rows * (size_t)args->head_dim_qk));
    return allocate(&bound->values, rows * (size_t)args->head_dim_v);
}

static attune_status check_strides(const attune_args *args)
{
    static const attune_role roles[] = {ATTUNE_Q, ATTUNE_K, ATTUNE_V, ATTUNE_O};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; ++i) {
        int64_t stride = args->tensor[roles[i]].stride[ATTUNE_STRIDE_SEQ];
        AT_FAIL_IF(stride > INT_MAX, ATTUNE_UNSUPPORTED, "%s: rows %lld elements apart, but BLAS counts in 32 bits",
                   at_role_name(roles[i]), (long long)stride);
    }
    return ATTUNE_OK;
}

static attune_status prepare(at_openblas_call *bound)
{
    AT_FORWARD(check_strides(&bound->args));
    choose_blocks(bound);
    AT_FORWARD(make_slots(bound));
    return make_converted(bound);
}

attune_status at_openblas_bind(const at_openblas *blas, at_pool *pool, attune_isa isa, const attune_problem *problem,
                               const attune_call *call, at_openblas_call **bound)
{
    attune_reason reason;
    *bound = NULL;
    AT_FAIL_IF(!at_openblas_supports(problem, &reason), ATTUNE_UNSUPPORTED, "openblas: %s", reason.text);
    AT_FORWARD(at_call_check(problem, call));
    at_openblas_call *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to bind OpenBLAS to a call");
    made->blas = blas;
    made->vector = at_vector_of(isa);
    made->pool = pool;
    at_call_args(problem, call, &made->args);
    attune_status status = prepare(made);
    if (status != ATTUNE_OK) {
        at_openblas_unbind(made);
        return status;
    }
    *bound = made;
    return ATTUNE_OK;
}

static bool same_sizes(const attune_args *a, const attune_args *b)
{
    return a->batch == b->batch && a->heads_q == b->heads_q && a->heads_kv == b->heads_kv &&
           a->seqlen_q == b->seqlen_q && a->seqlen_kv == b->seqlen_kv && a->head_dim_qk == b->head_dim_qk &&
           a->head_dim_v == b->head_dim_v && a->dtype == b->dtype;
}

attune_status at_openblas_rebind(const attune_problem *problem, const attune_call *call, at_openblas_call *bound,
                                 bool *done)
{
    attune_args args;
    *done = false;
    AT_FORWARD(at_call_check(problem, call));
    at_call_args(problem, call, &args);
    AT_FORWARD(check_strides(&args));
    if (same_sizes(&args, &bound->args)) {
        bound->args = args;
        choose_blocks(bound);
        *done = true;
    }
    return ATTUNE_OK;
}

void at_openblas_unbind(at_openblas_call *bound)
{
    if (bound == NULL) {
        return;
    }
    free(bound->keys);
    free(bound->values);
    free(bound->slot_memory);
    free(bound->slots);
    free(bound);
}

/* ---- Running --------------------------------------------------------------------------------------------------------
 */

/* One block of rows of one head. */
typedef struct block {
    int64_t batch, head, first; /* first row */
    int rows;
    int64_t key_first; /* keys that some row of it sees: key_first ... key_first + keys - 1 */
    int keys;
} block;

/* The keys that a row sees, as first and one behind the last. */
static void visible(const at_openblas_call *bound, int64_t row, int64_t *first, int64_t *behind)
{
    const attune_args *args = &bound->args;
    int64_t position = row + bound->offset;
    *first = 0;
    *behind = args->seqlen_kv;
    if ((args->features & ATTUNE_FEATURE_WINDOW) != 0 && args->window_left >= 0 && position - args->window_left > 0) {
        *first = position - args->window_left;
    }
    if ((args->features & ATTUNE_FEATURE_WINDOW) != 0 && args->window_right >= 0 &&
        position + args->window_right + 1 < *behind) {
        *behind = position + args->window_right + 1;
    }
    if ((args->features & ATTUNE_FEATURE_CAUSAL) != 0 && position + 1 < *behind) {
        *behind = position + 1;
    }
    *first = *first < args->seqlen_kv ? *first : args->seqlen_kv;
    *behind = *behind > *first ? *behind : *first;
}

static void *element(const attune_args *args, attune_role role, int64_t batch, int64_t head, int64_t row)
{
    const attune_tensor *tensor = &args->tensor[role];
    int64_t index = batch * tensor->stride[ATTUNE_STRIDE_BATCH] + head * tensor->stride[ATTUNE_STRIDE_HEAD] +
                    row * tensor->stride[ATTUNE_STRIDE_SEQ];
    return (char *)tensor->data + index * (int64_t)at_dtype_bytes(tensor->dtype);
}

static int row_stride(const attune_args *args, attune_role role, int width)
{
    int64_t stride = args->tensor[role].stride[ATTUNE_STRIDE_SEQ];
    return stride < width ? width : (int)stride; /* of a single row a stride may be anything */
}

static block block_of(const at_openblas_call *bound, int64_t item)
{
    const attune_args *args = &bound->args;
    block made = {.batch = item / bound->blocks / args->heads_q, .head = item / bound->blocks % args->heads_q};
    /* Later rows of a causal mask see more: they go first, so that no thread is left with a long one at the end. */
    made.first = (bound->blocks - 1 - item % bound->blocks) * bound->block_rows;
    int64_t left = args->seqlen_q - made.first, behind, unused;
    made.rows = left < bound->block_rows ? (int)left : bound->block_rows;
    visible(bound, made.first, &made.key_first, &unused);
    visible(bound, made.first + made.rows - 1, &unused, &behind);
    made.keys = behind > made.key_first ? (int)(behind - made.key_first) : 0;
    return made;
}

/* The block's rows of Q, converted into the slot where they are 16 bits wide. */
static matrix query_of(const at_openblas_call *bound, const block *of, const slot *with)
{
    const attune_args *args = &bound->args;
    int width = args->head_dim_qk;
    if (!is_half(args)) {
        return (matrix){element(args, ATTUNE_Q, of->batch, of->head, of->first), row_stride(args, ATTUNE_Q, width)};
    }
    for (int row = 0; row < of->rows; ++row) {
        bound->vector->widen(with->query + (size_t)row * (size_t)width,
                             element(args, ATTUNE_Q, of->batch, of->head, of->first + row), width,
                             (attune_dtype)args->dtype);
    }
    return (matrix){with->query, width};
}

/* The keys or values that the block sees. */
static matrix keys_of(const at_openblas_call *bound, const block *of, attune_role role)
{
    const attune_args *args = &bound->args;
    int64_t head = of->head / (args->heads_q / args->heads_kv);
    int width = role == ATTUNE_K ? args->head_dim_qk : args->head_dim_v;
    if (!is_half(args)) {
        return (matrix){element(args, role, of->batch, head, of->key_first), row_stride(args, role, width)};
    }
    float *converted = role == ATTUNE_K ? bound->keys : bound->values;
    int64_t row = (of->batch * args->heads_kv + head) * args->seqlen_kv + of->key_first;
    return (matrix){converted + row * width, width};
}

static matrix output_of(const at_openblas_call *bound, const block *of, const slot *with)
{
    const attune_args *args = &bound->args;
    if (!is_half(args)) {
        return (matrix){element(args, ATTUNE_O, of->batch, of->head, of->first),
                        row_stride(args, ATTUNE_O, args->head_dim_v)};
    }
    return (matrix){with->output, args->head_dim_v};
}

/* NOTE: some versions of OpenBLAS make 0 * NaN of what y held before, even with a beta of zero. */
static void clear(float *data, int64_t count)
{
    memset(data, 0, (size_t)count * sizeof *data);
}

/* S <- scale Q K^T. A single row is a matrix-vector product, which BLAS does faster. */
static void multiply_scores(const at_openblas_call *bound, const block *of, const slot *with)
{
    matrix query = query_of(bound, of, with);
    matrix keys = keys_of(bound, of, ATTUNE_K);
    int depth = bound->args.head_dim_qk;
    if (of->rows == 1) {
        clear(with->scores, of->keys);
        bound->blas->sgemv(ROW_MAJOR, PLAIN, of->keys, depth, bound->args.scale, keys.data, keys.stride, query.data, 1,
                           0, with->scores, 1);
        return;
    }
    bound->blas->sgemm(ROW_MAJOR, PLAIN, TRANSPOSED, of->rows, of->keys, depth, bound->args.scale, query.data,
                       query.stride, keys.data, keys.stride, 0, with->scores, bound->score_stride);
}

/* Rows of S become exp(S - max); what a row does not see becomes 0. */
static void exponentiate(const at_openblas_call *bound, const block *of, const slot *with)
{
    for (int row = 0; row < of->rows; ++row) {
        float *scores = with->scores + (size_t)row * (size_t)bound->score_stride;
        int64_t first, behind;
        visible(bound, of->first + row, &first, &behind);
        first -= of->key_first;
        behind -= of->key_first;
        with->sum[row] = 0;
        with->largest[row] = -INFINITY;
        if (first >= behind) {
            clear(scores, of->keys);
            continue;
        }
        clear(scores, first);
        clear(scores + behind, of->keys - behind);
        with->sum[row] = bound->vector->exponentials(scores + first, behind - first, &with->largest[row]);
    }
}

/* O <- P V, before it is divided by the sums. */
static void multiply_values(const at_openblas_call *bound, const block *of, const slot *with, matrix output)
{
    matrix values = keys_of(bound, of, ATTUNE_V);
    int width = bound->args.head_dim_v;
    if (of->rows == 1) {
        clear(output.data, width);
        bound->blas->sgemv(ROW_MAJOR, TRANSPOSED, of->keys, width, 1, values.data, values.stride, with->scores, 1, 0,
                           output.data, 1);
        return;
    }
    bound->blas->sgemm(ROW_MAJOR, PLAIN, PLAIN, of->rows, width, of->keys, 1, with->scores, bound->score_stride,
                       values.data, values.stride, 0, output.data, output.stride);
}

static void finish_rows(const at_openblas_call *bound, const block *of, const slot *with, matrix output)
{
    const attune_args *args = &bound->args;
    for (int row = 0; row < of->rows; ++row) {
        float *o = output.data + (size_t)row * (size_t)output.stride;
        if (with->sum[row] == 0) { /* the row sees no key */
            clear(o, args->head_dim_v);
        } else {
            bound->vector->scale(o, args->head_dim_v, 1 / with->sum[row]);
        }
        if (is_half(args)) {
            bound->vector->narrow(element(args, ATTUNE_O, of->batch, of->head, of->first + row), o, args->head_dim_v,
                                  (attune_dtype)args->dtype);
        }
        if (args->tensor[ATTUNE_LSE].data != NULL) {
            *(float *)element(args, ATTUNE_LSE, of->batch, of->head, of->first + row) =
                with->largest[row] + logf(with->sum[row]);
        }
    }
}

/* There are as many slots as threads, so that one is always free. */
static slot *take_slot(const at_openblas_call *bound)
{
    for (int i = 0;; i = (i + 1) % bound->slot_count) {
        if (!atomic_exchange_explicit(&bound->slots[i].taken, true, memory_order_acquire)) {
            return &bound->slots[i];
        }
    }
}

static void attend_block(void *context, int64_t item, void *scratch)
{
    const at_openblas_call *bound = context;
    (void)scratch;
    slot *with = take_slot(bound);
    block of = block_of(bound, item);
    matrix output = output_of(bound, &of, with);
    if (of.keys > 0) {
        multiply_scores(bound, &of, with);
        exponentiate(bound, &of, with);
        multiply_values(bound, &of, with, output);
    } else {
        for (int row = 0; row < of.rows; ++row) {
            with->sum[row] = 0;
            with->largest[row] = -INFINITY;
        }
    }
    finish_rows(bound, &of, with, output);
    atomic_store_explicit(&with->taken, false, memory_order_release);
}

/* Converts the keys and values of one head: part of the call, since sgemm reads nothing but fp32. */
static void convert_head(void *context, int64_t item, void *scratch)
{
    const at_openblas_call *bound = context;
    const attune_args *args = &bound->args;
    int64_t batch = item / args->heads_kv, head = item % args->heads_kv;
    (void)scratch;
    for (int64_t row = 0; row < args->seqlen_kv; ++row) {
        int64_t to = item * args->seqlen_kv + row;
        bound->vector->widen(bound->keys + to * args->head_dim_qk, element(args, ATTUNE_K, batch, head, row),
                             args->head_dim_qk, (attune_dtype)args->dtype);
        bound->vector->widen(bound->values + to * args->head_dim_v, element(args, ATTUNE_V, batch, head, row),
                             args->head_dim_v, (attune_dtype)args->dtype);
    }
}

void at_openblas_run(at_openblas_call *bound)
{
    const attune_args *args = &bound->args;
    if (is_half(args)) {
        at_pool_run(bound->pool, args->batch * args->heads_kv, convert_head, bound);
    }
    at_pool_run(bound->pool, args->batch * args->heads_q * bound->blocks, attend_block, bound);
}
