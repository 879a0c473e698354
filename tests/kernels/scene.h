/* A problem with its buffers, drawn at random, and attention on it written out in fp64 as the specification reads: an
 * oracle of the tests' own, which shares nothing with the library's reference. */
#ifndef TESTS_KERNELS_SCENE_H
#define TESTS_KERNELS_SCENE_H

#include "base/cm.h"

#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "base/random.h"
#include "core/problem.h"

/* ---- A scene: a problem with its buffers --------------------------------------------------------------------------
 */

typedef struct scene {
    attune_problem problem;
    attune_call call;
    at_random random;
    unsigned char *memory[ATTUNE_ROLE_COUNT]; /* whole buffers; those of O and LSE are compared whole, too */
    size_t bytes[ATTUNE_ROLE_COUNT];
    int64_t gap;   /* elements between rows, heads and batches */
    double spread; /* of the standard-normal inputs */
    int bad_keys;  /* keys and values made NaN or infinite where rows may see them */
    bool huge;     /* a column of V has numbers whose sum is beyond fp32 */
    int skew;      /* bytes that buffers are shifted by */
} scene;

static double get(const void *data, int dtype, int64_t at)
{
    uint16_t half;
    float value;
    if (dtype == ATTUNE_FP32) {
        memcpy(&value, (const char *)data + at * 4, 4);
        return (double)value;
    }
    memcpy(&half, (const char *)data + at * 2, 2);
    return dtype == ATTUNE_FP16 ? (double)at_fp16_to_float(half) : (double)at_bf16_to_float(half);
}

static void put(void *data, int dtype, int64_t at, double x)
{
    float value = (float)x;
    if (dtype == ATTUNE_FP32) {
        memcpy((char *)data + at * 4, &value, 4);
        return;
    }
    uint16_t half = dtype == ATTUNE_FP16 ? at_fp16_from_float(value) : at_bf16_from_float(value);
    memcpy((char *)data + at * 2, &half, 2);
}

static const attune_tensor *tensor_of(const scene *s, int role)
{
    return &s->call.tensor[role];
}

static bool in_pages(const scene *s, int role)
{
    return s->problem.page_size > 0 && (role == ATTUNE_K || role == ATTUNE_V);
}

static int64_t index_of(const scene *s, int role, int64_t batch, int64_t head, int64_t row)
{
    const int64_t *stride = tensor_of(s, role)->stride;
    if (in_pages(s, role)) {
        const attune_tensor *table =
            tensor_of(s, role == ATTUNE_V && s->problem.page_table_v ? ATTUNE_PAGE_TABLE_V : ATTUNE_PAGE_TABLE_K);
        const int32_t *entries = (const int32_t *)table->data + batch * table->stride[0];
        const int64_t page = entries[row / s->problem.page_size];
        return page * stride[0] + head * stride[1] + row % s->problem.page_size * stride[2];
    }
    return (s->problem.varlen && role <= ATTUNE_LSE ? 0 : batch * stride[0]) + head * stride[1] + row * stride[2];
}

/* Extents of a role's three strided dimensions, and of its row. */
static void extents(const scene *s, int role, int64_t extent[4])
{
    const attune_problem *p = &s->problem;
    bool of_query = role == ATTUNE_Q || role == ATTUNE_O || role == ATTUNE_LSE;
    if (in_pages(s, role)) {
        extent[0] = s->call.page_count;
        extent[1] = s->call.heads_kv;
        extent[2] = p->page_size;
        extent[3] = role == ATTUNE_K ? p->head_dim_qk : p->head_dim_v;
        return;
    }
    extent[0] = p->varlen && role <= ATTUNE_LSE ? 1 : s->call.batch;
    extent[1] = role == ATTUNE_K || role == ATTUNE_V ? s->call.heads_kv : s->call.heads_q;
    extent[2] = of_query ? (p->varlen ? s->call.total_q : s->call.seqlen_q)
                         : (p->varlen ? s->call.total_kv : s->call.seqlen_kv);
    extent[3] = role == ATTUNE_Q || role == ATTUNE_K ? p->head_dim_qk : role == ATTUNE_LSE ? 1 : p->head_dim_v;
    if (role == ATTUNE_BIAS || role == ATTUNE_MASK) {
        extent[2] = s->call.seqlen_q;
        extent[3] = s->call.seqlen_kv;
    }
    if (role == ATTUNE_BIAS) {
        extent[0] = p->bias == ATTUNE_BIAS_BX1 || p->bias == ATTUNE_BIAS_BXH ? extent[0] : 1;
        extent[1] = p->bias == ATTUNE_BIAS_1XH || p->bias == ATTUNE_BIAS_BXH ? extent[1] : 1;
    }
}

/* Strides with gaps, and a buffer full of NaN patterns. */
static void give_memory(scene *s, int role)
{
    attune_tensor *t = &s->call.tensor[role];
    int64_t extent[4];
    extents(s, role, extent);
    bool bshd = s->problem.layout == ATTUNE_BSHD && role <= ATTUNE_O;
    int inner = bshd ? 1 : 2;
    int outer = bshd ? 2 : 1;
    const int64_t unit = role > ATTUNE_O ? 1 : at_problem_align(&s->problem) / (int64_t)at_dtype_bytes(t->dtype);
    t->stride[inner] = (extent[3] + s->gap + unit - 1) / unit * unit;
    t->stride[outer] = extent[inner] * t->stride[inner] + s->gap * 3 * unit;
    t->stride[0] = extent[outer] * t->stride[outer] + s->gap * unit;
    if (role == ATTUNE_LSE && s->problem.varlen) {
        t->stride[0] = 0;
    }
    size_t elements = (size_t)(t->stride[0] * extent[0] + t->stride[outer] * extent[outer] + extent[3] + 1);
    if (role == ATTUNE_BIAS || role == ATTUNE_MASK) {
        t->stride[0] = extent[0] == 1 ? 0 : t->stride[0];
        t->stride[1] = extent[1] == 1 ? 0 : t->stride[1];
    }
    s->bytes[role] = elements * at_dtype_bytes(t->dtype) + (size_t)s->skew;
    s->memory[role] = malloc(s->bytes[role]);
    assert_non_null(s->memory[role]);
    memset(s->memory[role], 0xff, s->bytes[role]);
    t->data = s->memory[role] + s->skew;
}

/* Lengths of sequence b and where it begins. */
static int64_t span(const scene *s, int role, int64_t batch, int64_t *start)
{
    *start = 0;
    if (!s->problem.varlen || (role == ATTUNE_CU_KV && s->problem.page_size > 0)) {
        return role == ATTUNE_CU_Q ? s->call.seqlen_q : s->call.seqlen_kv;
    }
    const int32_t *cu = tensor_of(s, role)->data;
    *start = cu[batch];
    return cu[batch + 1] - cu[batch];
}

static int64_t used_keys(const scene *s, int64_t batch)
{
    int64_t start;
    int64_t keys = span(s, ATTUNE_CU_KV, batch, &start);
    return s->problem.seqused_kv ? ((const int32_t *)tensor_of(s, ATTUNE_USED_KV)->data)[batch] : keys;
}

/* Rows that belong to a sequence get normal numbers; all else stays NaN, and so do keys beyond the used ones. */
static void fill_rows(scene *s, int role)
{
    int64_t heads = role == ATTUNE_Q ? s->call.heads_q : s->call.heads_kv;
    int64_t dims = role == ATTUNE_V ? s->problem.head_dim_v : s->problem.head_dim_qk;
    for (int64_t b = 0; b < s->call.batch; ++b) {
        int64_t start;
        int64_t rows = span(s, role == ATTUNE_Q ? ATTUNE_CU_Q : ATTUNE_CU_KV, b, &start);
        rows = role == ATTUNE_Q ? rows : used_keys(s, b);
        for (int64_t h = 0; h < heads; ++h) {
            for (int64_t r = 0; r < rows; ++r) {
                for (int64_t c = 0; c < dims; ++c) {
                    put(tensor_of(s, role)->data, tensor_of(s, role)->dtype, index_of(s, role, b, h, start + r) + c,
                        s->spread * at_random_normal(&s->random));
                }
            }
        }
    }
}

static void spoil_keys(scene *s)
{
    for (int i = 0; i < s->bad_keys; ++i) {
        int64_t start;
        int64_t b = (int64_t)at_random_below(&s->random, (uint64_t)s->call.batch);
        int64_t h = (int64_t)at_random_below(&s->random, (uint64_t)s->call.heads_kv);
        int64_t keys = used_keys(s, b);
        int role = at_random_below(&s->random, 2) ? ATTUNE_K : ATTUNE_V;
        (void)span(s, ATTUNE_CU_KV, b, &start);
        if (keys == 0) {
            continue;
        }
        int64_t dims = role == ATTUNE_V ? s->problem.head_dim_v : s->problem.head_dim_qk;
        int64_t key = start + (int64_t)at_random_below(&s->random, (uint64_t)keys);
        int64_t at = index_of(s, role, b, h, key) + (int64_t)at_random_below(&s->random, (uint64_t)dims);
        double bad[] = {NAN, INFINITY, -INFINITY};
        put(tensor_of(s, role)->data, tensor_of(s, role)->dtype, at, bad[at_random_below(&s->random, 3)]);
    }
}

static void enlarge_column(scene *s)
{
    int64_t column = (int64_t)at_random_below(&s->random, (uint64_t)s->problem.head_dim_v);
    const int dtype = tensor_of(s, ATTUNE_V)->dtype;
    double large = dtype == ATTUNE_FP16 || tensor_of(s, ATTUNE_O)->dtype == ATTUNE_FP16 ? 60000 : 3e38;
    for (int64_t b = 0; s->huge && b < s->call.batch; ++b) {
        int64_t start;
        (void)span(s, ATTUNE_CU_KV, b, &start);
        for (int64_t h = 0; h < s->call.heads_kv; ++h) {
            for (int64_t r = 0; r < used_keys(s, b); ++r) {
                put(tensor_of(s, ATTUNE_V)->data, dtype, index_of(s, ATTUNE_V, b, h, start + r) + column,
                    large * (0.5 + 0.5 * at_random_uniform(&s->random)));
            }
        }
    }
}

static void fill_plane(scene *s, int role)
{
    int64_t extent[4];
    extents(s, role, extent);
    for (int64_t b = 0; b < extent[0]; ++b) {
        for (int64_t h = 0; h < extent[1]; ++h) {
            for (int64_t r = 0; r < extent[2]; ++r) {
                int64_t at = index_of(s, role, b, h, r);
                bool blind = at_random_below(&s->random, 6) == 0; /* a row that sees nothing */
                for (int64_t c = 0; c < extent[3]; ++c) {
                    bool hidden = blind || at_random_below(&s->random, 3) == 0;
                    if (role == ATTUNE_MASK) {
                        ((unsigned char *)tensor_of(s, role)->data)[at + c] = hidden ? 0 : (unsigned char)(1 + c % 255);
                    } else {
                        put(tensor_of(s, role)->data, tensor_of(s, role)->dtype, at + c,
                            hidden && s->bad_keys ? -INFINITY : at_random_normal(&s->random));
                    }
                }
            }
        }
    }
}

static void give_vector(scene *s, int role, int64_t count, size_t bytes)
{
    s->bytes[role] = (size_t)count * bytes;
    s->memory[role] = malloc(s->bytes[role] + 1);
    assert_non_null(s->memory[role]);
    s->call.tensor[role].data = s->memory[role];
}

static void give_floats(scene *s, int role, double scale)
{
    give_vector(s, role, s->call.heads_q * 2, sizeof(float));
    s->call.tensor[role].stride[ATTUNE_STRIDE_HEAD] = 2;
    for (int64_t h = 0; h < s->call.heads_q * 2; ++h) {
        put(s->memory[role], ATTUNE_FP32, h, h % 2 ? NAN : scale * at_random_normal(&s->random));
    }
}

static void give_lengths(scene *s)
{
    if (s->problem.varlen) {
        int64_t *total[2] = {&s->call.total_q, &s->call.total_kv};
        for (int i = 0; i < (s->problem.page_size > 0 ? 1 : 2); ++i) {
            int role = ATTUNE_CU_Q + i;
            int64_t longest = i == 0 ? s->call.seqlen_q : s->call.seqlen_kv;
            give_vector(s, role, s->call.batch + 1, sizeof(int32_t));
            int32_t *cu = s->call.tensor[role].data;
            int64_t most = s->call.batch * longest; /* rows that the plan allows */
            cu[0] = (int32_t)at_random_below(&s->random, (uint64_t)(most < 3 ? most : 3) + 1);
            for (int64_t b = 0; b < s->call.batch; ++b) {
                int64_t end = cu[b] + (int64_t)at_random_below(&s->random, (uint64_t)longest + 1);
                cu[b + 1] = (int32_t)(end < most ? end : most);
            }
            *total[i] =
                cu[s->call.batch] + (int64_t)at_random_below(&s->random, (uint64_t)(most - cu[s->call.batch]) + 1);
        }
    }
    if (s->problem.seqused_kv) {
        give_vector(s, ATTUNE_USED_KV, s->call.batch, sizeof(int32_t));
        for (int64_t b = 0; b < s->call.batch; ++b) {
            int64_t start;
            int64_t keys = span(s, ATTUNE_CU_KV, b, &start);
            ((int32_t *)s->memory[ATTUNE_USED_KV])[b] = (int32_t)at_random_below(&s->random, (uint64_t)keys + 1);
        }
    }
}

/* Pages of a pool in any order, twice as many as are needed; nonsense where no row of the sequence lies. */
static void give_table(scene *s, int role)
{
    const int64_t width = s->call.page_table_width, page = s->problem.page_size;
    give_vector(s, role, s->call.batch * width, sizeof(int32_t));
    int32_t *table = (int32_t *)(void *)s->memory[role];
    int32_t next = (int32_t)at_random_below(&s->random, (uint64_t)s->call.page_count + 1);
    for (int64_t b = 0; b < s->call.batch; ++b) {
        for (int64_t i = 0; i < width; ++i) {
            table[b * width + i] = at_random_below(&s->random, 2) ? INT32_MAX - 7 : -5;
            if (i * page < used_keys(s, b)) {
                table[b * width + i] = (int32_t)(s->call.page_count - 1 - next++ % s->call.page_count);
            }
        }
    }
}

static void give_pages(scene *s)
{
    if (s->problem.page_size > 0) {
        s->call.page_count = 2 * s->call.batch * s->call.page_table_width;
        give_table(s, ATTUNE_PAGE_TABLE_K);
    }
    if (s->problem.page_table_v) {
        give_table(s, ATTUNE_PAGE_TABLE_V);
    }
}

/* Words of any bits: a row may see any of the others, or not even itself. */
static void give_drafts(scene *s)
{
    const int64_t rows = s->problem.varlen ? s->call.total_q : s->call.batch * s->call.seqlen_q;
    give_vector(s, ATTUNE_DRAFT_MASK, rows, sizeof(int32_t));
    for (int64_t i = 0; i < rows; ++i) {
        ((uint32_t *)(void *)s->memory[ATTUNE_DRAFT_MASK])[i] = (uint32_t)at_random_next(&s->random);
    }
}

/* Draws everything for a scene whose problem, gap, spread, skew and bad_keys are set. */
static void draw(scene *s, uint64_t seed)
{
    s->random = at_random_seed(seed, 1);
    assert_ok(attune_call_init(&s->call, &s->problem));
    give_lengths(s);
    give_pages(s);
    if (s->problem.draft_mask) {
        give_drafts(s);
    }
    for (int role = ATTUNE_Q; role <= ATTUNE_LSE; ++role) {
        give_memory(s, role);
    }
    for (int role = ATTUNE_Q; role <= ATTUNE_V; ++role) {
        fill_rows(s, role);
    }
    enlarge_column(s);
    spoil_keys(s);
    for (int role = ATTUNE_BIAS; role <= ATTUNE_MASK; ++role) {
        if (at_problem_needs(&s->problem, (attune_role)role)) {
            give_memory(s, role);
            fill_plane(s, role);
        }
    }
    if (s->problem.sink) {
        give_floats(s, ATTUNE_SINK, 2);
        if (s->bad_keys > 0 && at_random_below(&s->random, 4) == 0) {
            put(s->memory[ATTUNE_SINK], ATTUNE_FP32, 0, NAN);
        }
    }
    if (s->problem.alibi) {
        give_floats(s, ATTUNE_SLOPES, 0.1);
    }
}

static void clear(scene *s)
{
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        free(s->memory[role]);
        s->memory[role] = NULL;
    }
}

/* ---- Attention in fp64 --------------------------------------------------------------------------------------------
 */

typedef struct row {
    double out[256];
    double lse;
    double largest; /* |logit| */
} row;

/* The logit of one key; NaN-safe: *seen says whether the row sees the key at all. */
static double logit(const scene *s, int64_t b, int64_t h, int64_t i, int64_t j, bool *seen)
{
    const attune_problem *p = &s->problem;
    int64_t start_q, start_kv;
    int64_t rows = span(s, ATTUNE_CU_Q, b, &start_q);
    int64_t keys = used_keys(s, b);
    (void)span(s, ATTUNE_CU_KV, b, &start_kv);
    int64_t offset = p->offset_kind == ATTUNE_OFFSET_BOTTOM_RIGHT ? keys - rows
                     : p->offset_kind == ATTUNE_OFFSET_TOP_LEFT   ? 0
                                                                  : s->call.offset;
    int64_t at = i + offset;
    *seen = j < keys && (p->window_left < 0 || j >= at - p->window_left) &&
            (p->window_right < 0 || j <= at + p->window_right);
    int64_t q = index_of(s, ATTUNE_Q, b, h, start_q + i);
    if (p->mask) {
        *seen =
            *seen && ((const unsigned char *)tensor_of(s, ATTUNE_MASK)->data)[index_of(s, ATTUNE_MASK, b, h, i) + j];
    }
    if (p->draft_mask && j >= keys - rows) {
        const int64_t first = p->varlen ? start_q : b * s->call.seqlen_q;
        *seen =
            *seen && (((const uint32_t *)tensor_of(s, ATTUNE_DRAFT_MASK)->data)[first + i] >> (j - keys + rows) & 1);
    }
    if (!*seen) {
        return 0;
    }
    int64_t k = index_of(s, ATTUNE_K, b, h / (s->call.heads_q / s->call.heads_kv), start_kv + j);
    const attune_tensor *of_q = tensor_of(s, ATTUNE_Q), *of_k = tensor_of(s, ATTUNE_K);
    double sum = 0;
    for (int c = 0; c < p->head_dim_qk; ++c) {
        sum += get(of_q->data, of_q->dtype, q + c) * get(of_k->data, of_k->dtype, k + c);
    }
    sum *= (double)at_problem_scale(p);
    if (p->softcap > 0) {
        sum = (double)p->softcap * tanh(sum / (double)p->softcap);
    }
    if (p->bias != ATTUNE_BIAS_NONE) {
        const attune_tensor *biases = tensor_of(s, ATTUNE_BIAS);
        double bias = get(biases->data, biases->dtype, index_of(s, ATTUNE_BIAS, b, h, i) + j);
        *seen = !(bias == -INFINITY);
        sum += bias;
    }
    if (p->alibi) {
        sum -= get(tensor_of(s, ATTUNE_SLOPES)->data, ATTUNE_FP32, 2 * h) * fabs((double)(at - j));
    }
    return sum;
}

static void truth(const scene *s, int64_t b, int64_t h, int64_t i, row *r)
{
    int64_t start_kv;
    int64_t keys = used_keys(s, b);
    const double sink = s->problem.sink ? get(tensor_of(s, ATTUNE_SINK)->data, ATTUNE_FP32, 2 * h) : -INFINITY;
    double top = -INFINITY;
    bool weighs = false; /* some key */
    double *score = malloc(sizeof(double) * (size_t)(keys + 1));
    bool *seen = malloc((size_t)keys + 1);
    (void)span(s, ATTUNE_CU_KV, b, &start_kv);
    memset(r, 0, sizeof *r);
    for (int64_t j = 0; j < keys; ++j) {
        score[j] = logit(s, b, h, i, j, &seen[j]);
        if (seen[j]) {
            top = score[j] > top ? score[j] : top;
            weighs = weighs || !(score[j] == -INFINITY);
            r->largest = fabs(score[j]) > r->largest ? fabs(score[j]) : r->largest;
        }
    }
    top = sink > top || isnan(sink) ? sink : top;
    double sum = s->problem.sink ? exp(sink - top) : 0;
    for (int64_t j = 0; j < keys && weighs; ++j) {
        if (!seen[j]) {
            continue;
        }
        double weight = exp(score[j] - top);
        const double least = score[j] > -INFINITY && weight < 1e-300 ? 1e-300 : weight; /* of an infinity */
        int64_t v = index_of(s, ATTUNE_V, b, h / (s->call.heads_q / s->call.heads_kv), start_kv + j);
        sum += weight;
        for (int c = 0; c < s->problem.head_dim_v; ++c) {
            const double value = get(tensor_of(s, ATTUNE_V)->data, tensor_of(s, ATTUNE_V)->dtype, v + c);
            r->out[c] += (isinf(value) ? least : weight) * value;
        }
    }
    for (int c = 0; c < s->problem.head_dim_v; ++c) {
        r->out[c] = weighs ? r->out[c] / sum : 0;
    }
    r->lse = weighs ? top + log(sum) : sink;
    free(score);
    free(seen);
}

#endif
