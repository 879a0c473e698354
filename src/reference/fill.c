#include "reference/fill.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/status.h"
#include "core/call.h"
#include "core/problem.h"
#include "reference/chunks.h"
#include "reference/normals.h"
#include "reference/pages.h"
#include "reference/values.h"

/* Keys of one of a kernel's tiles, so that NEGATIVE and MASK know where a partial or a whole one may lie. */
enum { TILE = 64 };

/* ---- Families of Q, K, V ---------------------------------------------------------------------------------------- */

/* The kind of one key/value head and of the query heads that read it. */
static at_family kind_of(const at_inputs *inputs, int64_t batch, int64_t head_kv)
{
    static const at_family mix[] = {AT_FAMILY_NORMAL, AT_FAMILY_LARGE, AT_FAMILY_EQUAL, AT_FAMILY_NEEDLE,
                                    AT_FAMILY_NEGATIVE};
    if (inputs->draw.family != AT_FAMILY_MIXED) {
        return inputs->draw.family;
    }
    return mix[(uint64_t)(batch + head_kv + (int64_t)(inputs->draw.seed % 5)) % 5];
}

static float capped(double value, double most)
{
    return (float)(isfinite(value) ? fmax(-most, fmin(most, value)) : most);
}

/* A key factor that makes q . k, with q of ones or of normals, about this logit. */
static float key_factor(const at_inputs *inputs, double logit)
{
    return capped(logit / ((double)at_problem_scale(&inputs->problem) * inputs->problem.head_dim_qk), 1000.0);
}

/* What normals of LARGE are multiplied by: logits of standard deviation 50, the largest far above 88. */
static float large_factor(const at_inputs *inputs)
{
    double root = sqrt(inputs->problem.head_dim_qk);
    return capped(sqrt(50.0 / (fabs((double)at_problem_scale(&inputs->problem)) * root)), 100.0);
}

static float subnormal_factor(const at_inputs *inputs)
{
    return inputs->problem.dtype == ATTUNE_FP16 ? 0x1p-17F : 0x1p-129F;
}

static void multiply_all(float *values, int64_t count, float factor)
{
    for (int64_t i = 0; i < count; ++i) {
        values[i] *= factor;
    }
}

/* ---- TAIL: one key outweighs each of the others by far, and O is their sum's ------------------------------------ */

/* Half the columns of queries and keys say by which key a query is outweighed, one column for each such key or two; the
 * other half makes the flat rest not quite flat. */
static int64_t tail_codes(const at_inputs *inputs)
{
    return inputs->problem.head_dim_qk > 1 ? inputs->problem.head_dim_qk / 2 : 1;
}

/* Kernels that walk the keys from left to right meet the first one in their first tile, those that walk from right to
 * left the last one, and below a causal mask one beside the diagonal. */
typedef enum tail_kind { TAIL_FIRST, TAIL_LAST, TAIL_TILE, TAIL_KINDS } tail_kind;

/* The column of the first key, of the last, or of the first of a tile. */
static int64_t tail_code(const at_inputs *inputs, tail_kind kind, int64_t tile)
{
    int64_t codes = tail_codes(inputs);
    if (codes < TAIL_KINDS) {
        return kind % codes;
    }
    return kind == TAIL_TILE ? TAIL_TILE + tile % (codes - TAIL_TILE) : kind;
}

/* The column of a key that outweighs others; -1: one of the others. */
static int64_t tail_key(const at_inputs *inputs, int64_t row)
{
    int64_t rows = at_pages_extent(inputs, ATTUNE_K).count[2];
    if (row == 0 || row == rows - 1) {
        return tail_code(inputs, row == 0 ? TAIL_FIRST : TAIL_LAST, 0);
    }
    return row % TILE == 0 ? tail_code(inputs, TAIL_TILE, row / TILE) : -1;
}

/* Of a query: the rows take turns; a tile is the one of the query's own position, which a causal mask leaves to it. */
static int64_t tail_query(const at_inputs *inputs, int64_t row)
{
    const attune_problem *problem = &inputs->problem;
    int64_t offset = problem->offset_kind == ATTUNE_OFFSET_NUMBER ? problem->offset
                     : problem->offset_kind == ATTUNE_OFFSET_TOP_LEFT || problem->varlen
                         ? 0
                         : problem->seqlen_kv - problem->seqlen_q;
    int64_t position = row + offset > 0 ? row + offset : 0;
    tail_kind kind = (tail_kind)(row % TAIL_KINDS);
    return tail_code(inputs, kind == TAIL_LAST && attune_is_causal(problem) ? TAIL_TILE : kind, position / TILE);
}

/* The largest distance, and a query's entry that makes it; the key's entry follows from the scale. */
static const double tail_nats = 13.0;
static const double tail_entry = 4.0;

static void tail_query_row(const at_inputs *inputs, int64_t row, at_random *random, float *values)
{
    double nats = 10.0 + (tail_nats - 10.0) * at_random_uniform(random);
    memset(values, 0, (size_t)tail_codes(inputs) * sizeof *values);
    values[tail_query(inputs, row)] = (float)(tail_entry * nats / tail_nats);
}

/* The others' logits deviate from 0 by about a quarter. */
static void tail_key_row(const at_inputs *inputs, int64_t row, float *values)
{
    int64_t count = inputs->problem.head_dim_qk;
    double scale = (double)at_problem_scale(&inputs->problem);
    int64_t code = tail_key(inputs, row);
    if (code < 0) {
        multiply_all(values, count, capped(0.3 / (scale * sqrt((double)count)), 1000.0));
        return;
    }
    memset(values, 0, (size_t)count * sizeof *values);
    values[code] = capped(tail_nats / (tail_entry * scale), 1000.0);
}

/* Values of the few are 0, those of the many about 1: O is the share of the many. */
static void tail_value_row(const at_inputs *inputs, int64_t row, float *values)
{
    bool outweighs = tail_key(inputs, row) >= 0;
    for (int64_t c = 0; c < inputs->problem.head_dim_v; ++c) {
        values[c] = outweighs ? 0.0F : 1.0F + 0.5F * values[c];
    }
}

/* ---- SPARSE: what a sum in fp16 does not round ------------------------------------------------------------------ */

/* Small integers, whose products' sums are integers too. */
static void sparse_integers(at_random *random, int64_t count, float *values)
{
    for (int64_t c = 0; c < count; ++c) {
        values[c] = (float)at_random_below(random, 3) - 1.0F;
    }
}

/* A column of O is the sum of about eight values, wherever their keys are: there is little to round, whatever the
 * order. An error of the weights is as large as ever. */
static void sparse_value_row(const at_inputs *inputs, at_random *random, float *values)
{
    enum { SUMMED = 8 };
    const int64_t rows = at_pages_extent(inputs, ATTUNE_V).count[2];
    for (int64_t c = 0; c < inputs->problem.head_dim_v; ++c) {
        const bool counts = at_random_below(random, (uint64_t)rows) < SUMMED;
        const float size = 1.0F + 0.25F * (float)at_random_below(random, 4);
        values[c] = !counts ? 0.0F : at_random_below(random, 2) == 0 ? size : -size;
    }
}

/* ---- Rows of all families --------------------------------------------------------------------------------------- */

static void query_row(const at_inputs *inputs, int64_t batch, int64_t head, int64_t row, float *values)
{
    int64_t count = inputs->problem.head_dim_qk;
    int64_t group = inputs->problem.heads_q / inputs->problem.heads_kv;
    at_random random = at_fill_stream(inputs, ATTUNE_Q, batch, head, row);
    at_normals(&random, count, values);
    switch (kind_of(inputs, batch, head / group)) {
    case AT_FAMILY_LARGE:
        multiply_all(values, count, large_factor(inputs));
        break;
    case AT_FAMILY_NEGATIVE:
        for (int64_t c = 0; c < count; ++c) {
            values[c] = 1.0F + 0.05F * values[c];
        }
        break;
    case AT_FAMILY_SUBNORMAL:
        multiply_all(values, count, subnormal_factor(inputs));
        break;
    case AT_FAMILY_TAIL:
        tail_query_row(inputs, row, &random, values);
        break;
    case AT_FAMILY_SPARSE:
        sparse_integers(&random, count, values);
        break;
    default:
        break;
    }
}

/* Whether NEEDLE makes this key match a query: the first, the last, two at a tile's edge and about one in a hundred. */
static bool is_needle(int64_t row, int64_t rows, at_random *random)
{
    bool drawn = at_random_below(random, 100) == 0;
    return drawn || row == 0 || row == rows - 1 || row == TILE - 1 || row == TILE;
}

/* The key is its query, long enough to win by far: a logit of 15. */
static void needle_row(const at_inputs *inputs, int64_t batch, int64_t head, int64_t row, float *values)
{
    const at_extent queries = at_inputs_extent(inputs, ATTUNE_Q);
    int64_t group = inputs->problem.heads_q / inputs->problem.heads_kv;
    int64_t count = inputs->problem.head_dim_qk;
    double square = 0;
    if (queries.count[2] == 0) {
        return;
    }
    query_row(inputs, batch, head * group + row % group, row % queries.count[2], values);
    for (int64_t c = 0; c < count; ++c) {
        square += (double)values[c] * (double)values[c];
    }
    double least = 0.5 * (double)count; /* a short query must not make a key that dwarfs every other logit */
    multiply_all(values, count, key_factor(inputs, 15.0 * (double)count / fmax(square, least)));
}

/* Rows with the same number are equal: all of them, or in every other head three at a time, as of a token that comes
 * again and again. */
static int64_t equal_row(const at_inputs *inputs, int64_t batch, int64_t head, int64_t row)
{
    enum { RUN = 3 };
    return ((inputs->draw.seed + (uint64_t)(batch + head)) & 1) != 0 ? row / RUN : 0;
}

static void key_row(const at_inputs *inputs, int64_t batch, int64_t head, int64_t row, float *values)
{
    int64_t count = inputs->problem.head_dim_qk;
    int64_t rows = at_pages_extent(inputs, ATTUNE_K).count[2];
    at_family kind = kind_of(inputs, batch, head);
    at_random random = at_fill_stream(inputs, ATTUNE_K, batch, head,
                                      kind == AT_FAMILY_EQUAL ? equal_row(inputs, batch, head, row) : row);
    at_normals(&random, count, values);
    switch (kind) {
    case AT_FAMILY_LARGE:
        multiply_all(values, count, large_factor(inputs));
        break;
    case AT_FAMILY_NEGATIVE: {
        /* The last, partial tile is lower still: padding it with zero logits would drown everything. */
        float factor = key_factor(inputs, row >= rows / TILE * TILE ? -300.0 : -200.0);
        for (int64_t c = 0; c < count; ++c) {
            values[c] = factor * (1.0F + 0.05F * values[c]);
        }
        break;
    }
    case AT_FAMILY_NEEDLE:
        if (is_needle(row, rows, &random)) {
            needle_row(inputs, batch, head, row, values);
        }
        break;
    case AT_FAMILY_SUBNORMAL:
        multiply_all(values, count, subnormal_factor(inputs));
        break;
    case AT_FAMILY_TAIL:
        tail_key_row(inputs, row, values);
        break;
    case AT_FAMILY_SPARSE:
        sparse_integers(&random, count, values);
        break;
    default:
        break;
    }
}

static void value_row(const at_inputs *inputs, int64_t batch, int64_t head, int64_t row, float *values)
{
    int64_t count = inputs->problem.head_dim_v;
    at_random random = at_fill_stream(inputs, ATTUNE_V, batch, head, row);
    at_normals(&random, count, values);
    if (kind_of(inputs, batch, head) == AT_FAMILY_TAIL) {
        tail_value_row(inputs, row, values);
    } else if (kind_of(inputs, batch, head) == AT_FAMILY_SPARSE) {
        sparse_value_row(inputs, &random, values);
    } else if (kind_of(inputs, batch, head) == AT_FAMILY_SUBNORMAL) {
        /* fp16 results must keep their subnormals. The other types' are so small that a device may flush them: there
         * they are beside values that count. */
        bool all = inputs->problem.dtype == ATTUNE_FP16;
        for (int64_t c = 0; c < count; c += all ? 1 : 4) {
            values[c] *= all ? 0x1p-15F : 0x1p-129F;
        }
    }
}

typedef void (*row_maker)(const at_inputs *inputs, int64_t batch, int64_t head, int64_t row, float *values);

/* One role's rows, each drawn from a stream of its own. */
typedef struct main_role {
    at_inputs *inputs;
    attune_role role;
    at_extent extent;
    row_maker row;
} main_role;

/* The rows of one head of one sequence. */
static void fill_head(void *context, int64_t item, void *scratch)
{
    const main_role *on = context;
    int64_t batch = item / on->extent.count[1];
    int64_t head = item % on->extent.count[1];
    float values[256] = {0};
    int64_t first = 0;
    int64_t end = on->extent.count[2];
    (void)scratch;
    if (on->role == ATTUNE_K || on->role == ATTUNE_V) {
        at_pages_own(on->inputs, batch, &first, &end);
    }
    for (int64_t i = first; i < end; ++i) {
        on->row(on->inputs, batch, head, i, values);
        at_fill_store(on->inputs, on->role, at_pages_row(on->inputs, on->role, batch, head, i), values, on->extent.row);
    }
}

static void fill_main(at_inputs *inputs, attune_role role, row_maker row)
{
    main_role on = {inputs, role, at_pages_extent(inputs, role), row};
    int64_t heads = on.extent.count[0] * on.extent.count[1];
    if (inputs->draw.pool != NULL) {
        at_pool_run(inputs->draw.pool, heads, fill_head, &on);
        return;
    }
    for (int64_t item = 0; item < heads; ++item) {
        fill_head(&on, item, NULL);
    }
}

/* ---- Optional roles --------------------------------------------------------------------------------------------- */

static void fill_bias(at_inputs *inputs)
{
    const at_extent extent = at_inputs_extent(inputs, ATTUNE_BIAS);
    for (int64_t b = 0; b < extent.count[0]; ++b) {
        for (int64_t h = 0; h < extent.count[1]; ++h) {
            for (int64_t i = 0; i < extent.count[2]; ++i) {
                at_random random = at_fill_stream(inputs, ATTUNE_BIAS, b, h, i);
                size_t at = at_inputs_row(inputs, ATTUNE_BIAS, b, h, i);
                bool hidden = at_random_below(&random, 32) == 0;
                for (int64_t j = 0; j < extent.row; j += 64) {
                    float values[64];
                    int64_t count = extent.row - j < 64 ? extent.row - j : 64;
                    at_normals(&random, count, values);
                    for (int64_t k = 0; k < count; ++k) {
                        values[k] = hidden || at_random_below(&random, 16) == 0 ? -INFINITY : values[k];
                    }
                    at_fill_store(inputs, ATTUNE_BIAS,
                                  at + (size_t)j * at_dtype_bytes(inputs->call.tensor[ATTUNE_BIAS].dtype), values,
                                  count);
                }
            }
        }
    }
}

/* Whether a key is hidden from every row: one in sixteen, and one tile in eight. */
static bool is_column_hidden(uint64_t seed, int64_t key)
{
    at_random column = at_random_seed(seed, (uint64_t)key);
    at_random tile = at_random_seed(~seed, (uint64_t)(key / TILE));
    return at_random_next(&column) % 16 == 0 || at_random_next(&tile) % 8 == 0;
}

/* Nonzero is seen, whatever the number; but most callers' masks are of 0 and 1, for which a kernel may have code of its
 * own. So is every other, and all that are timed. */
static bool has_ones(const at_draw *draw)
{
    at_random random = at_random_seed(draw->seed, UINT64_MAX);
    return draw->family == AT_FAMILY_MIXED || at_random_below(&random, 2) == 0;
}

/* One row of a mask: nothing, seven in ten, or whole tiles. */
static void mask_row(at_random *random, uint64_t seed, bool ones, unsigned char *mask, int64_t count)
{
    uint64_t kind = at_random_below(random, 16);
    uint64_t tiles = at_random_next(random);
    for (int64_t j = 0; j < count; ++j) {
        uint64_t draw = at_random_next(random);
        bool seen = kind == 0 ? false : kind < 8 ? draw % 10 < 7 : tiles >> (j / TILE % 64) & 1;
        const unsigned char number = ones ? 1 : (unsigned char)(1 + (draw >> 32) % 255);
        mask[j] = seen && !is_column_hidden(seed, j) ? number : 0;
    }
}

static void fill_mask(at_inputs *inputs)
{
    const at_extent extent = at_inputs_extent(inputs, ATTUNE_MASK);
    const bool ones = has_ones(&inputs->draw);
    for (int64_t b = 0; b < extent.count[0]; ++b) {
        for (int64_t h = 0; h < extent.count[1]; ++h) {
            for (int64_t i = 0; i < extent.count[2]; ++i) {
                at_random random = at_fill_stream(inputs, ATTUNE_MASK, b, h, i);
                unsigned char *mask = inputs->call.tensor[ATTUNE_MASK].data;
                mask_row(&random, inputs->draw.seed, ones, mask + at_inputs_row(inputs, ATTUNE_MASK, b, h, i),
                         extent.row);
            }
        }
    }
}

/* A number a head: sinks around the usual logits, slopes as ALiBi has them. */
static void fill_heads(at_inputs *inputs, attune_role role)
{
    for (int64_t h = 0; h < inputs->problem.heads_q; ++h) {
        at_random random = at_fill_stream(inputs, role, 0, h, 0);
        float value = (float)(2.0 * at_random_normal(&random));
        if (role == ATTUNE_SLOPES) {
            value = (float)exp2(-8.0 * (double)(h + 1) / (double)inputs->problem.heads_q);
        }
        at_fill_store(inputs, role, at_inputs_row(inputs, role, 0, h, 0), &value, 1);
    }
}

/* Where pages end, and beside that. */
static int64_t beside_page(const attune_problem *problem, at_random *random, int64_t most)
{
    const int64_t size = problem->page_size;
    const int64_t full = (int64_t)at_random_below(random, (uint64_t)(most / size) + 1) * size;
    const int64_t length = full + (int64_t)at_random_below(random, 3) - 1;
    return length < 0 ? 1 < most ? 1 : most : length < most ? length : most;
}

static void fill_used(at_inputs *inputs)
{
    int32_t *used = inputs->call.tensor[ATTUNE_USED_KV].data;
    const int32_t *cu = inputs->call.tensor[ATTUNE_CU_KV].data;
    for (int64_t b = 0; b < inputs->problem.batch; ++b) {
        at_random random = at_fill_stream(inputs, ATTUNE_USED_KV, 0, 0, b);
        int64_t most = cu != NULL ? cu[b + 1] - cu[b] : inputs->call.seqlen_kv;
        uint64_t kind = at_random_below(&random, 8);
        uint64_t drawn = at_random_below(&random, (uint64_t)most + 1);
        used[b] = (int32_t)(kind == 0 ? 0 : kind == 1 ? (uint64_t)most : drawn);
        if (inputs->problem.page_size > 0 && kind > 1 && kind < 5) {
            used[b] = (int32_t)beside_page(&inputs->problem, &random, most);
        }
    }
}

/* Where keys are not packed, no call has the lengths that they would have. */
static attune_status fill_packed(at_inputs *inputs)
{
    int32_t *cu_kv = inputs->call.tensor[ATTUNE_CU_KV].data;
    int32_t *own = cu_kv == NULL ? malloc(((size_t)inputs->problem.batch + 1) * sizeof *own) : NULL;
    AT_FAIL_IF(cu_kv == NULL && own == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %lld lengths",
               (long long)inputs->problem.batch);
    at_inputs_lengths(&inputs->problem, inputs->draw.length_seed, inputs->call.tensor[ATTUNE_CU_Q].data,
                      cu_kv == NULL ? own : cu_kv);
    free(own);
    return ATTUNE_OK;
}

attune_status at_fill_lengths(at_inputs *inputs)
{
    AT_FORWARD(inputs->problem.varlen ? fill_packed(inputs) : ATTUNE_OK);
    if (inputs->problem.seqused_kv) {
        fill_used(inputs);
    }
    return ATTUNE_OK;
}

attune_status at_fill(at_inputs *inputs)
{
    const attune_problem *problem = &inputs->problem;
    attune_args args;
    AT_FORWARD(at_fill_lengths(inputs));
    AT_FORWARD(at_pages_fill(inputs)); /* which say where keys and values are */
    if (problem->sink) {
        fill_heads(inputs, ATTUNE_SINK);
    }
    if (problem->op != ATTUNE_FORWARD) {
        return problem->op == ATTUNE_APPEND ? at_fill_append(inputs) : at_fill_merge(inputs);
    }
    fill_main(inputs, ATTUNE_Q, query_row);
    fill_main(inputs, ATTUNE_K, key_row);
    fill_main(inputs, ATTUNE_V, value_row);
    if (problem->bias != ATTUNE_BIAS_NONE) {
        fill_bias(inputs);
    }
    if (problem->mask) {
        fill_mask(inputs);
    }
    if (problem->alibi) {
        fill_heads(inputs, ATTUNE_SLOPES);
    }
    at_call_args(problem, &inputs->call, &args);
    if (inputs->draw.family == AT_FAMILY_HIDDEN) {
        return at_fill_hidden(inputs, &args);
    }
    if (inputs->draw.family == AT_FAMILY_VISIBLE) {
        at_fill_visible(inputs, &args);
    }
    return ATTUNE_OK;
}
