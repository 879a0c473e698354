/* weak_cpu_tiled: kernels/cpu/cpu_tiled.kernel.c without what makes it fast, for searches to begin from: libm's expf, a
 * panel of one vector of query rows that meets one key or one column of V at a time, nothing packed.
 *
 * What is left is its order: a work item is BLOCK_M query rows of one head, keys come in tiles, the lanes of a vector
 * are query rows, the softmax is online. */
#include <math.h>
#include <string.h>

#include "attune/kernel.h"

enum { BLOCK_M, BLOCK_N, PREFETCH, ORDER }; /* places in attune_args.param */

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif

typedef float vf __attribute__((vector_size(LANES * 4), may_alias));

/* ---- Elements and rows ------------------------------------------------------------------------------------------ */

static float from_fp16(uint16_t half)
{
    union {
        uint32_t bits;
        float value;
    } x;
    const uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
    x.bits = (uint32_t)(half & 0x8000) << 16;
    if (exponent == 0) {
        return (x.bits != 0 ? -1.0f : 1.0f) * ((float)fraction * 0x1p-24f);
    }
    x.bits |= exponent == 31 ? 0x7f800000 | fraction << 13 : (exponent + 112) << 23 | fraction << 13;
    return x.value;
}

static inline float element(const char *row, int dtype, int64_t at)
{
    union {
        uint32_t bits;
        float value;
    } x;
    if (dtype == ATTUNE_FP32) {
        return ((const float *)row)[at];
    }
    if (dtype == ATTUNE_FP16) {
        return from_fp16(((const uint16_t *)row)[at]);
    }
    x.bits = (uint32_t)((const uint16_t *)row)[at] << 16;
    return x.value;
}

static uint16_t to_fp16(float value)
{
    union {
        float value;
        uint32_t bits;
    } x = {value};
    const uint16_t sign = (uint16_t)(x.bits >> 16 & 0x8000);
    const float size = fabsf(value);
    if (size >= 65520.0f) {
        return sign | 0x7c00;
    }
    if (size < 0x1p-14f) {
        return sign | (uint16_t)rintf(size * 0x1p24f);
    }
    return sign | (uint16_t)(((x.bits & 0x7fffffff) - 0x38000000 + 0xfff + (x.bits >> 13 & 1)) >> 13);
}

static void store(char *row, int dtype, int64_t at, float value)
{
    union {
        float value;
        uint32_t bits;
    } x = {value};
    uint16_t *half = (uint16_t *)row + at;
    if (dtype == ATTUNE_FP32) {
        ((float *)row)[at] = value;
    } else if (value != value) {
        *half = 0x7fff;
    } else if (dtype == ATTUNE_BF16) {
        *half = (uint16_t)((x.bits + 0x7fff + (x.bits >> 16 & 1)) >> 16);
    } else {
        *half = to_fp16(value);
    }
}

static int64_t bytes_of(int dtype)
{
    return dtype == ATTUNE_FP32 ? 4 : 2;
}

static char *row_of(const attune_args *args, attune_role role, int64_t batch, int64_t head, int64_t row)
{
    const attune_tensor *t = &args->tensor[role];
    const int64_t at = batch * t->stride[ATTUNE_STRIDE_BATCH] + head * t->stride[ATTUNE_STRIDE_HEAD] +
                       row * t->stride[ATTUNE_STRIDE_SEQ];
    return (char *)t->data + at * bytes_of(args->dtype);
}

static int64_t lesser_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t greater_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- The item --------------------------------------------------------------------------------------------------- */

typedef struct item {
    const attune_args *args;
    int64_t batch, head, head_kv;
    int64_t first;       /* query row; `rows` of them */
    int64_t left, right; /* keys that it sees; each row after it sees one further */
    int rows, vectors;
    int tile;     /* keys */
    float *query; /* [vectors][head_dim_qk][LANES], scaled */
    float *out;   /* [vectors][head_dim_v][LANES] */
    float *score; /* [vectors][tile][LANES] */
    float *top;   /* [vectors][LANES]: maximum of each row so far */
    float *sum;   /* likewise, of e^(S - maximum) */
    float *decay; /* likewise, what earlier sums are multiplied by */
} item;

/* Some keys of the sequence, and where they or their values are. */
typedef struct tile {
    int64_t first;
    int count;
    const char *from;
    int64_t step, ahead; /* bytes: from row to row, and to the rows that are asked for in advance; 0: none are */
} tile;

/* A row without bounds sees from far left to far right. */
static void find_window(item *it)
{
    const attune_args *args = it->args;
    const int64_t far = INT64_C(1) << 60;
    const int64_t offset = args->offset_kind == ATTUNE_OFFSET_TOP_LEFT ? 0
                           : args->offset_kind == ATTUNE_OFFSET_NUMBER ? args->offset
                                                                       : args->seqlen_kv - args->seqlen_q;
    const int64_t left = args->window_left, right = args->window_right;
    it->left = left < 0 || left > far ? -far : it->first + offset - left;
    it->right = right < 0 || right > far ? far : it->first + offset + right;
}

static void find_rows(item *it, const attune_args *args, int64_t index)
{
    const int64_t block = args->param[BLOCK_M];
    const int64_t blocks = (args->seqlen_q + block - 1) / block;
    const int64_t heads = args->batch * args->heads_q;
    const int by_blocks = args->param[ORDER] != 0;
    const int64_t nth = by_blocks ? index / heads : index % blocks;
    const int64_t head = by_blocks ? index % heads : index / blocks;
    it->args = args;
    /* Under a causal mask the last rows see the most keys: they go first, so that threads finish together. */
    it->first = (args->features & ATTUNE_FEATURE_CAUSAL ? blocks - 1 - nth : nth) * block;
    it->batch = head / args->heads_q;
    it->head = head % args->heads_q;
    it->head_kv = it->head / (args->heads_q / args->heads_kv);
    it->rows = (int)lesser_of(args->seqlen_q - it->first, block);
    find_window(it);
}

/* Lays the scratch out. The descriptor's resources() counts the same. */
static void place(item *it, float *scratch)
{
    const int lanes = (it->args->param[BLOCK_M] + LANES - 1) / LANES * LANES;
    it->vectors = (it->rows + LANES - 1) / LANES;
    it->tile = it->args->param[BLOCK_N];
    it->query = scratch;
    it->out = it->query + lanes * it->args->head_dim_qk;
    it->score = it->out + lanes * it->args->head_dim_v;
    it->top = it->score + lanes * it->tile;
    it->sum = it->top + lanes;
    it->decay = it->sum + lanes;
}

static void begin_rows(const item *it)
{
    const int depth = it->args->head_dim_qk;
    for (int row = 0; row < it->vectors * LANES; ++row) {
        float *to = it->query + row / LANES * LANES * depth + row % LANES;
        const int there = row < it->rows;
        const char *from = row_of(it->args, ATTUNE_Q, it->batch, it->head, it->first + (there ? row : 0));
        for (int c = 0; c < depth; ++c) {
            to[c * LANES] = there ? element(from, it->args->dtype, c) * it->args->scale : 0;
        }
        it->top[row] = -INFINITY;
        it->sum[row] = 0;
    }
    memset(it->out, 0, sizeof(float) * LANES * (size_t)it->vectors * (size_t)it->args->head_dim_v);
}

static void find_tile(const item *it, attune_role role, tile *t)
{
    t->from = row_of(it->args, role, it->batch, it->head_kv, t->first);
    t->step = it->args->tensor[role].stride[ATTUNE_STRIDE_SEQ] * bytes_of(it->args->dtype);
    t->ahead = t->step * it->tile * it->args->param[PREFETCH];
}

static void fetch_ahead(const tile *t, int64_t bytes)
{
    for (int n = 0; n < t->count && t->ahead != 0; ++n) {
        for (int64_t line = 0; line < bytes; line += 64) {
            __builtin_prefetch((const void *)((uintptr_t)t->from + (uintptr_t)(t->ahead + n * t->step + line)), 0);
        }
    }
}

/* ---- The two products ------------------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) void score_keys(const int dtype, const item *it, const tile *t)
{
    const int depth = it->args->head_dim_qk;
    for (int v = 0; v < it->vectors; ++v) {
        const vf *query = (const vf *)it->query + v * depth;
        vf *score = (vf *)it->score + v * it->tile;
        for (int n = 0; n < t->count; ++n) {
            const char *key = t->from + n * t->step;
            vf sum = {0};
            for (int c = 0; c < depth; ++c) {
                sum += element(key, dtype, c) * query[c];
            }
            score[n] = sum;
        }
    }
}

static inline __attribute__((always_inline)) void add_values(const int dtype, const item *it, const tile *t)
{
    const int columns = it->args->head_dim_v;
    for (int v = 0; v < it->vectors; ++v) {
        const vf *weight = (const vf *)it->score + v * it->tile;
        const vf decay = ((const vf *)it->decay)[v];
        vf *out = (vf *)it->out + v * columns;
        for (int c = 0; c < columns; ++c) {
            vf sum = out[c] * decay;
            for (int n = 0; n < t->count; ++n) {
                sum += element(t->from + n * t->step, dtype, c) * weight[n];
            }
            out[c] = sum;
        }
    }
}

static void score_tile(const item *it, const tile *t)
{
    fetch_ahead(t, it->args->head_dim_qk * bytes_of(it->args->dtype));
    switch (it->args->dtype) {
    case ATTUNE_FP32:
        score_keys(ATTUNE_FP32, it, t);
        break;
    case ATTUNE_FP16:
        score_keys(ATTUNE_FP16, it, t);
        break;
    default:
        score_keys(ATTUNE_BF16, it, t);
        break;
    }
}

static void add_tile(const item *it, const tile *t)
{
    fetch_ahead(t, it->args->head_dim_v * bytes_of(it->args->dtype));
    switch (it->args->dtype) {
    case ATTUNE_FP32:
        add_values(ATTUNE_FP32, it, t);
        break;
    case ATTUNE_FP16:
        add_values(ATTUNE_FP16, it, t);
        break;
    default:
        add_values(ATTUNE_BF16, it, t);
        break;
    }
}

/* ---- Softmax ---------------------------------------------------------------------------------------------------- */

static void hide_keys(const item *it, const tile *t)
{
    if (t->first >= it->left + it->rows - 1 && t->first + t->count - 1 <= it->right) {
        return;
    }
    for (int row = 0; row < it->vectors * LANES; ++row) {
        float *score = it->score + row / LANES * LANES * it->tile + row % LANES;
        for (int n = 0; n < t->count; ++n) {
            const int64_t key = t->first + n;
            if (key < it->left + row || key > it->right + row) {
                score[n * LANES] = -INFINITY;
            }
        }
    }
}

/* Turns scores into weights e^(S - maximum), and carries maximum and sum on. */
static void weigh_tile(const item *it, const tile *t)
{
    for (int v = 0; v < it->vectors; ++v) {
        float *score = it->score + v * it->tile * LANES;
        float *top = it->top + v * LANES, *sum = it->sum + v * LANES, *decay = it->decay + v * LANES;
        float base[LANES], total[LANES];
        for (int l = 0; l < LANES; ++l) {
            base[l] = top[l];
        }
        for (int n = 0; n < t->count; ++n) {
            for (int l = 0; l < LANES; ++l) {
                base[l] = score[n * LANES + l] > base[l] ? score[n * LANES + l] : base[l];
            }
        }
        for (int l = 0; l < LANES; ++l) {
            const float highest = base[l];
            /* A row that has seen nothing yet keeps its maximum of -infinity, from which nothing can be subtracted. */
            base[l] = highest == -INFINITY ? 0 : highest;
            decay[l] = expf(top[l] - base[l]);
            total[l] = sum[l] * decay[l];
            top[l] = highest;
        }
        for (int n = 0; n < t->count; ++n) {
            for (int l = 0; l < LANES; ++l) {
                const float p = expf(score[n * LANES + l] - base[l]);
                score[n * LANES + l] = p;
                total[l] += p;
            }
        }
        for (int l = 0; l < LANES; ++l) {
            sum[l] = total[l];
        }
    }
}

/* ---- The end of an item ----------------------------------------------------------------------------------------- */

static void store_lse(const item *it, int row, float lse)
{
    const attune_tensor *t = &it->args->tensor[ATTUNE_LSE];
    const int64_t at = it->batch * t->stride[ATTUNE_STRIDE_BATCH] + it->head * t->stride[ATTUNE_STRIDE_HEAD] +
                       (it->first + row) * t->stride[ATTUNE_STRIDE_SEQ];
    if (t->data != NULL) {
        ((float *)t->data)[at] = lse;
    }
}

/* Zeros where there is no sum. */
static void store_row(const item *it, int row, const float *out, float top, float sum)
{
    char *to = row_of(it->args, ATTUNE_O, it->batch, it->head, it->first + row);
    for (int c = 0; c < it->args->head_dim_v; ++c) {
        store(to, it->args->dtype, c, sum == 0 ? 0 : out[c * LANES] / sum);
    }
    store_lse(it, row, sum == 0 ? -INFINITY : top + logf(sum));
}

static int is_finite(const item *it, int row, const float *out)
{
    int finite = isfinite(it->sum[row]) != 0;
    for (int c = 0; c < it->args->head_dim_v; ++c) {
        finite = finite && isfinite(out[c * LANES]);
    }
    return finite;
}

static float score_of(const item *it, int row, int64_t key)
{
    const float *query = it->query + row / LANES * LANES * it->args->head_dim_qk + row % LANES;
    const char *from = row_of(it->args, ATTUNE_K, it->batch, it->head_kv, key);
    float dot = 0;
    for (int c = 0; c < it->args->head_dim_qk; ++c) {
        dot += element(from, it->args->dtype, c) * query[c * LANES];
    }
    return dot;
}

/* A row of which something is not finite, again, key after key. NOTE: tiles multiply hidden values by a weight of zero,
 * and 0 times infinity is no number; here a weight of zero meets no value. */
static void redo_row(const item *it, int row, float *out)
{
    float top = -INFINITY, sum = 0;
    const int64_t first = greater_of(it->left + row, 0), last = lesser_of(it->right + row, it->args->seqlen_kv - 1);
    for (int64_t key = first; key <= last; ++key) {
        top = fmaxf(top, score_of(it, row, key));
    }
    const float base = top == -INFINITY ? 0 : top;
    for (int c = 0; c < it->args->head_dim_v; ++c) {
        out[c * LANES] = 0;
    }
    for (int64_t key = first; key <= last; ++key) {
        const float weight = expf(score_of(it, row, key) - base);
        const char *value = row_of(it->args, ATTUNE_V, it->batch, it->head_kv, key);
        sum += weight;
        for (int c = 0; c < it->args->head_dim_v && weight != 0; ++c) {
            out[c * LANES] += weight * element(value, it->args->dtype, c);
        }
    }
    store_row(it, row, out, top, sum);
}

static void finish_rows(const item *it)
{
    for (int row = 0; row < it->rows; ++row) {
        float *out = it->out + row / LANES * LANES * it->args->head_dim_v + row % LANES;
        if (is_finite(it, row, out)) {
            store_row(it, row, out, it->top[row], it->sum[row]);
        } else {
            redo_row(it, row, out);
        }
    }
}

void ATTUNE_TIER(attend_weak_cpu_tiled)(const attune_args *args, int64_t index, void *scratch);

void ATTUNE_TIER(attend_weak_cpu_tiled)(const attune_args *args, int64_t index, void *scratch)
{
    item it;
    find_rows(&it, args, index);
    place(&it, scratch);
    begin_rows(&it);
    const int64_t last = lesser_of(args->seqlen_kv - 1, it.right + it.rows - 1);
    tile t = {.first = greater_of(it.left, 0)};
    for (; t.first <= last; t.first += t.count) {
        t.count = (int)lesser_of(last + 1 - t.first, it.tile);
        find_tile(&it, ATTUNE_K, &t);
        score_tile(&it, &t);
        hide_keys(&it, &t);
        weigh_tile(&it, &t);
        find_tile(&it, ATTUNE_V, &t);
        add_tile(&it, &t);
    }
    finish_rows(&it);
}
