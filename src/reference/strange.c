/* Values that are not finite: where nobody sees them, and where somebody does. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/problem.h"
#include "reference/chunks.h"
#include "reference/fill.h"
#include "reference/pages.h"
#include "reference/values.h"

static const float strangers[] = {NAN, INFINITY, -INFINITY};

static void set_element(at_inputs *inputs, attune_role role, int64_t batch, int64_t head, int64_t row, int64_t column,
                        float value)
{
    const bool pool = inputs->problem.page_size > 0 && role != ATTUNE_Q;
    size_t at = at_pages_row(inputs, role, inputs->problem.varlen && !pool ? 0 : batch, head, row);
    at_fill_store(inputs, role, at + (size_t)column * at_dtype_bytes(inputs->call.tensor[role].dtype), &value, 1);
}

/* Among the rows of a head in memory, which a sequence's key is in K or V. */
static int64_t row_in_memory(const attune_args *args, attune_role role, const at_sequence *sequence, int64_t key)
{
    return args->features & ATTUNE_FEATURE_PAGED
               ? at_page_of(args, role, sequence->batch, key) * args->page_size + key % args->page_size
               : sequence->kv_first + key;
}

/* Marks in `seen` the rows of K or V that some query row of the head sees. */
static void mark_seen(const attune_args *args, attune_role role, int64_t batch, int64_t head_kv, unsigned char *seen,
                      unsigned char *row)
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
                if (row[j - chunk.key_first]) {
                    seen[row_in_memory(args, role, &sequence, j)] = 1;
                }
            }
        }
    }
}

/* NaN and infinities in all of K or V that no row of the head sees, in one sequence or all pages. */
static void strange_unseen(at_inputs *inputs, attune_role role, int64_t batch, int64_t head, const unsigned char *seen)
{
    const at_extent extent = at_inputs_extent(inputs, role);
    const size_t bytes = at_dtype_bytes(inputs->call.tensor[role].dtype);
    const bool pool = inputs->problem.page_size > 0;
    const int64_t rows = extent.count[2];
    for (int64_t j = 0; j < (pool ? extent.count[0] : 1) * rows; ++j) {
        const size_t at = at_inputs_row(inputs, role, pool ? j / rows : batch, head, j % rows);
        for (int64_t c = 0; !seen[j] && c < extent.row; ++c) {
            at_fill_store(inputs, role, at + (size_t)c * bytes, &strangers[(j + c) % 3], 1);
        }
    }
}

static void hide_in(at_inputs *inputs, const attune_args *args, attune_role role, unsigned char *seen, size_t rows)
{
    const int64_t batch = args->batch;
    const bool together = inputs->problem.varlen || inputs->problem.page_size > 0; /* one row of marks for all */
    for (int64_t h = 0; h < args->heads_kv; ++h) {
        for (int64_t b = 0; b < batch; ++b) {
            if (b == 0 || !together) {
                memset(seen, 0, rows);
            }
            mark_seen(args, role, b, h, seen, seen + rows);
            if (b == batch - 1 || !together) {
                strange_unseen(inputs, role, together ? 0 : b, h, seen);
            }
        }
    }
}

attune_status at_fill_hidden(at_inputs *inputs, const attune_args *args)
{
    const at_extent extent = at_inputs_extent(inputs, ATTUNE_K);
    const int64_t of_pool = inputs->problem.page_size > 0 ? extent.count[0] : 1;
    const size_t rows = (size_t)(of_pool * extent.count[2] + args->seqlen_kv) + 1;
    unsigned char *seen = malloc(2 * rows);
    AT_FAIL_IF(seen == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu keys", rows);
    hide_in(inputs, args, ATTUNE_K, seen, rows);
    hide_in(inputs, args, ATTUNE_V, seen, rows);
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
    /* From a turn on from which each kind is beside a causal edge, where some rows see it and some do not. */
    const uint64_t period = (uint64_t)(2 * STRANGE_EACH * strange_kinds(problem));
    return seed * period + STRANGE_EACH * (uint64_t)(draw * strangers_at_least(problem));
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
    at_random random = at_fill_stream(inputs, ATTUNE_DO, sequence->batch, head, 0);
    int64_t first = 0;
    int64_t end = 0;
    int64_t key = sequence->kv_first + strange_key(args, sequence, turn / kinds % 2 == 0, &random);
    if (inputs->problem.page_size > 0 && role != ATTUNE_Q) { /* a key that has a page, and no other sequence's */
        at_pages_own(inputs, sequence->batch, &first, &end);
        key = first < end && key < first ? end - 1 : key;
    }
    if (role != ATTUNE_Q && inputs->problem.page_size > 0 && first >= end) {
        return;
    }
    int64_t query = sequence->q_first + (int64_t)at_random_below(&random, (uint64_t)sequence->seqlen_q);
    int64_t columns = role == ATTUNE_V ? args->head_dim_v : args->head_dim_qk;
    int64_t column = (int64_t)at_random_below(&random, (uint64_t)columns);
    bool of_query = role == ATTUNE_Q;
    set_element(inputs, role, sequence->batch, of_query ? head * (args->heads_q / args->heads_kv) : head,
                of_query ? query : key, column, strange[kind].value);
}

void at_fill_visible(at_inputs *inputs, const attune_args *args)
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
