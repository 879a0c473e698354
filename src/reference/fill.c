#include "reference/fill.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/random.h"
#include "base/status.h"
#include "core/call.h"
#include "core/problem.h"
#include "reference/chunks.h"

/* Keys of one of a kernel's tiles, so that NEGATIVE and MASK know where a partial or a whole one may lie. */
enum { TILE = 64 };

enum { STREAMS = ATTUNE_ROLES_FORWARD }; /* of one row: what is drawn does not change with roles to come */

/* Random streams: one for each row of each role, so that values depend neither on layout nor on order. */
static at_random stream(const at_inputs *inputs, attune_role role, int64_t batch, int64_t head, int64_t row)
{
    const at_extent extent = at_inputs_extent(inputs, role);
    int64_t index = (batch * extent.count[1] + head) * (extent.count[2] + 1) + row + 1;
    return at_random_seed(inputs->draw.seed, (uint64_t)index * STREAMS + (uint64_t)role);
}

/* Standard normals, both values of each Box-Muller pair. */
static void draw_normals(at_random *random, int64_t count, float *values)
{
    for (int64_t i = 0; i < count; i += 2) {
        double radius = sqrt(-2.0 * log(1.0 - at_random_uniform(random)));
        double angle = 6.283185307179586 * at_random_uniform(random);
        values[i] = (float)(radius * cos(angle));
        if (i + 1 < count) {
            values[i + 1] = (float)(radius * sin(angle));
        }
    }
}

static void store(const at_inputs *inputs, attune_role role, size_t at, const float *values, int64_t count)
{
    unsigned char *to = (unsigned char *)inputs->call.tensor[role].data + at;
    int32_t dtype = inputs->call.tensor[role].dtype;
    for (int64_t i = 0; i < count; ++i) {
        if (dtype == ATTUNE_FP32) {
            ((float *)to)[i] = values[i];
        } else {
            ((uint16_t *)to)[i] = dtype == ATTUNE_FP16 ? at_fp16_from_float(values[i]) : at_bf16_from_float(values[i]);
        }
    }
}

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
    int64_t rows = at_inputs_extent(inputs, ATTUNE_K).count[2];
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
    const int64_t rows = at_inputs_extent(inputs, ATTUNE_V).count[2];
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
    at_random random = stream(inputs, ATTUNE_Q, batch, head, row);
    draw_normals(&random, count, values);
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

static void key_row(const at_inputs *inputs, int64_t batch, int64_t head, int64_t row, float *values)
{
    int64_t count = inputs->problem.head_dim_qk;
    int64_t rows = at_inputs_extent(inputs, ATTUNE_K).count[2];
    at_family kind = kind_of(inputs, batch, head);
    at_random random = stream(inputs, ATTUNE_K, batch, head, kind == AT_FAMILY_EQUAL ? 0 : row);
    draw_normals(&random, count, values);
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
    at_random random = stream(inputs, ATTUNE_V, batch, head, row);
    draw_normals(&random, count, values);
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
    (void)scratch;
    for (int64_t i = 0; i < on->extent.count[2]; ++i) {
        on->row(on->inputs, batch, head, i, values);
        store(on->inputs, on->role, at_inputs_row(on->inputs, on->role, batch, head, i), values, on->extent.row);
    }
}

static void fill_main(at_inputs *inputs, attune_role role, row_maker row)
{
    main_role on = {inputs, role, at_inputs_extent(inputs, role), row};
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
                at_random random = stream(inputs, ATTUNE_BIAS, b, h, i);
                size_t at = at_inputs_row(inputs, ATTUNE_BIAS, b, h, i);
                bool hidden = at_random_below(&random, 32) == 0;
                for (int64_t j = 0; j < extent.row; j += 64) {
                    float values[64];
                    int64_t count = extent.row - j < 64 ? extent.row - j : 64;
                    draw_normals(&random, count, values);
                    for (int64_t k = 0; k < count; ++k) {
                        values[k] = hidden || at_random_below(&random, 16) == 0 ? -INFINITY : values[k];
                    }
                    store(inputs, ATTUNE_BIAS, at + (size_t)j * at_dtype_bytes(inputs->call.tensor[ATTUNE_BIAS].dtype),
                          values, count);
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

/* One row of a mask: nothing, seven in ten, or whole tiles. Nonzero is seen, whatever the number. */
static void mask_row(at_random *random, uint64_t seed, unsigned char *mask, int64_t count)
{
    uint64_t kind = at_random_below(random, 16);
    uint64_t tiles = at_random_next(random);
    for (int64_t j = 0; j < count; ++j) {
        uint64_t draw = at_random_next(random);
        bool seen = kind == 0 ? false : kind < 8 ? draw % 10 < 7 : tiles >> (j / TILE % 64) & 1;
        mask[j] = seen && !is_column_hidden(seed, j) ? (unsigned char)(1 + (draw >> 32) % 255) : 0;
    }
}

static void fill_mask(at_inputs *inputs)
{
    const at_extent extent = at_inputs_extent(inputs, ATTUNE_MASK);
    for (int64_t b = 0; b < extent.count[0]; ++b) {
        for (int64_t h = 0; h < extent.count[1]; ++h) {
            for (int64_t i = 0; i < extent.count[2]; ++i) {
                at_random random = stream(inputs, ATTUNE_MASK, b, h, i);
                unsigned char *mask = inputs->call.tensor[ATTUNE_MASK].data;
                mask_row(&random, inputs->draw.seed, mask + at_inputs_row(inputs, ATTUNE_MASK, b, h, i), extent.row);
            }
        }
    }
}

/* A number a head: sinks around the usual logits, slopes as ALiBi has them. */
static void fill_heads(at_inputs *inputs, attune_role role)
{
    for (int64_t h = 0; h < inputs->problem.heads_q; ++h) {
        at_random random = stream(inputs, role, 0, h, 0);
        float value = (float)(2.0 * at_random_normal(&random));
        if (role == ATTUNE_SLOPES) {
            value = (float)exp2(-8.0 * (double)(h + 1) / (double)inputs->problem.heads_q);
        }
        store(inputs, role, at_inputs_row(inputs, role, 0, h, 0), &value, 1);
    }
}

static void fill_used(at_inputs *inputs)
{
    int32_t *used = inputs->call.tensor[ATTUNE_USED_KV].data;
    const int32_t *cu = inputs->problem.varlen ? inputs->call.tensor[ATTUNE_CU_KV].data : NULL;
    for (int64_t b = 0; b < inputs->problem.batch; ++b) {
        at_random random = stream(inputs, ATTUNE_USED_KV, 0, 0, b);
        int64_t most = cu != NULL ? cu[b + 1] - cu[b] : inputs->call.seqlen_kv;
        uint64_t kind = at_random_below(&random, 8);
        uint64_t drawn = at_random_below(&random, (uint64_t)most + 1);
        used[b] = (int32_t)(kind == 0 ? 0 : kind == 1 ? (uint64_t)most : drawn);
    }
}

/* ---- Values that are not finite --------------------------------------------------------------------------------- */

static const float strangers[] = {NAN, INFINITY, -INFINITY};

static void set_element(at_inputs *inputs, attune_role role, int64_t batch, int64_t head, int64_t row, int64_t column,
                        float value)
{
    size_t at = at_inputs_row(inputs, role, inputs->problem.varlen ? 0 : batch, head, row);
    store(inputs, role, at + (size_t)column * at_dtype_bytes(inputs->call.tensor[role].dtype), &value, 1);
}

/* Marks in `seen` the rows of K and V that some query row of the head sees. */
static void mark_seen(const attune_args *args, int64_t batch, int64_t head_kv, unsigned char *seen, unsigned char *row)
{
    const at_sequence sequence = at_sequence_of(args, batch);
    int64_t group = args->heads_q / args->heads_kv;
    for (int64_t h = head_kv * group; h < (head_kv + 1) * group; ++h) {
        for (int64_t i = 0; i < sequence.seqlen_q; ++i) {
            const at_row where = {batch, h, i};
            at_chunk chunk = {.rows = 1, .row = &where, .head = h, .head_kv = head_kv, .sequence = sequence};
            at_sequence_range(args, &sequence, i, &chunk.key_first, &chunk.key_end);
            at_chunk_seen(args, &chunk, 0, row);
            for (int64_t j = chunk.key_first; j < chunk.key_end; ++j) {
                seen[sequence.kv_first + j] |= row[j - chunk.key_first];
            }
        }
    }
}

/* NaN and infinities in all of K and V that no row of the head sees. */
static void strange_unseen(at_inputs *inputs, int64_t batch, int64_t head, const unsigned char *seen)
{
    const at_extent extent = at_inputs_extent(inputs, ATTUNE_K);
    for (int64_t j = 0; j < extent.count[2]; ++j) {
        for (int64_t c = 0; !seen[j] && c < inputs->problem.head_dim_qk; ++c) {
            set_element(inputs, ATTUNE_K, batch, head, j, c, strangers[(j + c) % 3]);
        }
        for (int64_t c = 0; !seen[j] && c < inputs->problem.head_dim_v; ++c) {
            set_element(inputs, ATTUNE_V, batch, head, j, c, strangers[(j + c) % 3]);
        }
    }
}

static attune_status fill_hidden(at_inputs *inputs, const attune_args *args)
{
    size_t rows = (size_t)at_inputs_extent(inputs, ATTUNE_K).count[2] + 1;
    unsigned char *seen = malloc(2 * rows);
    AT_FAIL_IF(seen == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu keys", rows);
    int64_t batch = args->batch;
    for (int64_t h = 0; h < args->heads_kv; ++h) {
        for (int64_t b = 0; b < batch; ++b) {
            if (b == 0 || !inputs->problem.varlen) {
                memset(seen, 0, rows); /* packed sequences share one row of marks */
            }
            mark_seen(args, b, h, seen, seen + rows);
            if (b == batch - 1 || !inputs->problem.varlen) {
                strange_unseen(inputs, b, h, seen);
            }
        }
    }
    free(seen);
    return ATTUNE_OK;
}

/* What a stranger is. The kinds take turns, and those that show most come first: a NaN value shows where a key that a
 * row does not see is multiplied by zero instead of left out. */
typedef enum strange_kind {
    STRANGE_V_NAN,
    STRANGE_K_NAN,
    STRANGE_Q_NAN,
    STRANGE_V_INF,
    STRANGE_K_INF,
    STRANGE_KINDS
} strange_kind;

/* One head in so many has a stranger; in fewer heads each has one. */
enum { STRANGE_EACH = 3 };

/* An infinite key hides itself from half the queries, and an infinite value times a weight too small for fp32 is NaN
 * there but not in fp64: only where neither can blur what is right. */
static int strange_kinds(const attune_problem *problem)
{
    bool plain =
        !(at_problem_features(problem) & (ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_BIAS | ATTUNE_FEATURE_MASK |
                                          ATTUNE_FEATURE_ALIBI | ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_SINK)) &&
        fabs((double)at_problem_scale(problem)) * sqrt((double)problem->head_dim_qk) <= 1.001;
    return plain ? STRANGE_KINDS : STRANGE_V_INF;
}

/* Strangers that every draw has for certain, as far as they count: lengths that are drawn may leave room for one only.
 */
static int64_t strangers_at_least(const attune_problem *problem)
{
    int64_t heads = problem->batch * problem->heads_kv;
    int64_t planted = heads < STRANGE_EACH ? heads : heads / STRANGE_EACH;
    planted = problem->varlen || problem->seqused_kv ? 1 : planted;
    return planted < STRANGE_KINDS ? planted : STRANGE_KINDS;
}

int at_visible_draws(const attune_problem *problem)
{
    int64_t each = strangers_at_least(problem);
    return (int)((strange_kinds(problem) + each - 1) / each);
}

uint64_t at_visible_seed(const attune_problem *problem, uint64_t seed, int draw)
{
    return seed + STRANGE_EACH * (uint64_t)(draw * strangers_at_least(problem));
}

static bool has_room(const at_sequence *sequence)
{
    return sequence->seqlen_kv >= 2 && sequence->seqlen_q >= 1;
}

/* Whether the first query row that sees an odd key, or behind a left edge alone the first that does not see it any
 * more, is even. */
static bool is_edge_even(const attune_args *args, const at_sequence *sequence)
{
    int64_t edge = sequence->offset;
    if (!(args->features & ATTUNE_FEATURE_CAUSAL)) {
        edge ^= args->window_right >= 0 ? args->window_right : args->window_left + 1;
    }
    return edge & 1;
}

/* Any key but the first; below a causal mask or a window one whose edge lies between an even and an odd query row,
 * which no kernel's tile parts: there is a row of the tile that sees it, and one that does not. `beside`: not one that
 * a causal mask shows to all rows, where there are others. */
static int64_t strange_key(const attune_args *args, const at_sequence *sequence, bool beside, at_random *random)
{
    int64_t first = 1;
    int64_t step = 1;
    if (args->features & (ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_WINDOW)) {
        bool shifted = is_edge_even(args, sequence) && sequence->seqlen_kv > 2;
        first = shifted ? 2 : 1;
        step = 2;
    }
    if (args->features & ATTUNE_FEATURE_CAUSAL && beside && sequence->offset >= 0 &&
        sequence->offset + 1 < sequence->seqlen_kv) {
        first = sequence->offset + 1;
    }
    int64_t count = (sequence->seqlen_kv - first + step - 1) / step;
    return first + step * (int64_t)at_random_below(random, (uint64_t)count);
}

/* One stranger in one head of one sequence, which has room; the turn says of which kind. */
static void strange_visible(at_inputs *inputs, const attune_args *args, const at_sequence *sequence, int64_t head,
                            uint64_t turn)
{
    static const struct {
        attune_role role;
        float value;
    } strange[STRANGE_KINDS] = {[STRANGE_V_NAN] = {ATTUNE_V, NAN},
                                [STRANGE_K_NAN] = {ATTUNE_K, NAN},
                                [STRANGE_Q_NAN] = {ATTUNE_Q, NAN},
                                [STRANGE_V_INF] = {ATTUNE_V, INFINITY},
                                [STRANGE_K_INF] = {ATTUNE_K, INFINITY}};
    const uint64_t kinds = (uint64_t)strange_kinds(&inputs->problem);
    const uint64_t kind = turn % kinds;
    const attune_role role = strange[kind].role;
    at_random random = stream(inputs, ATTUNE_DO, sequence->batch, head, 0);
    int64_t key = sequence->kv_first + strange_key(args, sequence, turn / kinds % 2 == 0, &random);
    int64_t query = sequence->q_first + (int64_t)at_random_below(&random, (uint64_t)sequence->seqlen_q);
    int64_t columns = role == ATTUNE_V ? args->head_dim_v : args->head_dim_qk;
    int64_t column = (int64_t)at_random_below(&random, (uint64_t)columns);
    bool of_query = role == ATTUNE_Q;
    set_element(inputs, role, sequence->batch, of_query ? head * (args->heads_q / args->heads_kv) : head,
                of_query ? query : key, column, strange[kind].value);
}

static void fill_visible(at_inputs *inputs, const attune_args *args)
{
    uint64_t turn = inputs->draw.seed / STRANGE_EACH;
    uint64_t index = inputs->draw.seed % STRANGE_EACH;
    int64_t heads = 0;
    for (int64_t b = 0; b < args->batch; ++b) {
        const at_sequence sequence = at_sequence_of(args, b);
        heads += has_room(&sequence) ? args->heads_kv : 0;
    }
    for (int64_t b = 0; b < args->batch; ++b) {
        const at_sequence sequence = at_sequence_of(args, b);
        for (int64_t h = 0; has_room(&sequence) && h < args->heads_kv; ++h) {
            if (index++ % STRANGE_EACH == 0 || heads < STRANGE_EACH) {
                strange_visible(inputs, args, &sequence, h, turn++);
            }
        }
    }
}

attune_status at_fill(at_inputs *inputs)
{
    const attune_problem *problem = &inputs->problem;
    attune_args args;
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
    if (problem->sink) {
        fill_heads(inputs, ATTUNE_SINK);
    }
    if (problem->varlen) {
        at_inputs_lengths(problem, inputs->draw.length_seed, inputs->call.tensor[ATTUNE_CU_Q].data,
                          inputs->call.tensor[ATTUNE_CU_KV].data);
    }
    if (problem->seqused_kv) {
        fill_used(inputs);
    }
    at_call_args(problem, &inputs->call, &args);
    if (inputs->draw.family == AT_FAMILY_HIDDEN) {
        return fill_hidden(inputs, &args);
    }
    if (inputs->draw.family == AT_FAMILY_VISIBLE) {
        fill_visible(inputs, &args);
    }
    return ATTUNE_OK;
}
