/* cpu_decode: attention of a few query rows over many keys, as fast as K and V can be read. docs/cpu.md explains it.
 *
 * A work item is one part of the keys of one KV head, with all query rows that share the head: those of its query
 * heads, and of each of them seqlen_q. Each key is read once. Lanes run along the head dims; while a block of keys is
 * computed with, the next is fetched from memory. Several rows of bf16 are multiplied in tiles (AMX) instead. Where the
 * keys are in several parts, each leaves its maximum, sum and output in the workspace, and items of a second step merge
 * them.
 */
#include "device/exact.h"
#include "device/packed.h"
#include "device/parts.h"
#include "device/score.h"
#include "device/vector.h"

#if WITH_TILES
#include "device/packed_dots.h"
#endif

enum { SPLIT, BLOCK_N, AHEAD, ORDER }; /* places in attune_args.param */
enum { ROWS = 16 };                    /* packed at once: more are done 16 by 16 */

/* ---- The item: which rows, which keys --------------------------------------------------------------------------- */

typedef struct item {
    const attune_args *args;
    int64_t batch, head_kv, part, parts;
    lengths of;
    kv_rows key, value;
    int64_t packed;              /* query rows of the KV head: row r is query r % length_q of its head r / length_q */
    int64_t start;               /* the first of them that is done now */
    int64_t first, last;         /* keys of the part that a row may see */
    window seen[ROWS];           /* by each row */
    draft_row draft[ROWS];       /* likewise, where the queries are drafts */
    int64_t all_left, all_right; /* the keys that every row sees */
    int rows;
    int pitch_qk, pitch_v, across; /* floats from row to row of query, out and score */
    float *query;                  /* [ROWS][pitch_qk], scaled, padded with zeros; in pairs, where K is */
    float *out;                    /* [ROWS][pitch_v]; likewise, where V is, until its rows are finished */
    float *score;                  /* [ROWS][across]: S, then P */
    float *sum;                    /* [ROWS][16]: lanes of the sums of e^(S - maximum) */
    float *top;                    /* [ROWS]: maximum of each row so far */
#if WITH_TILES
    packed_dots *dots; /* what replaces query and out while keys are gone through in tiles; else NULL */
    soon *next;        /* then: keys and values to come */
#endif
} item;

INLINE int padded(int count)
{
    return (count + 15) / 16 * 16;
}

static int64_t head_of(const item *it, int64_t row)
{
    return it->head_kv * (it->args->heads_q / it->args->heads_kv) + row / it->of.length_q;
}

/* Where a query head's row is in Q, O and LSE. */
static int64_t query_of(const item *it, int64_t row)
{
    return it->of.start_q + row % it->of.length_q;
}

/* Finds the sequence of KV head `head`, counted over the batch. */
static void find_head(item *it, const attune_args *args, int64_t head)
{
    it->args = args;
    it->batch = head / args->heads_kv;
    it->head_kv = head % args->heads_kv;
    it->of = find_lengths(args, it->batch);
    it->key = find_kv(args, ATTUNE_K, it->batch, it->head_kv, &it->of);
    it->value = find_kv(args, ATTUNE_V, it->batch, it->head_kv, &it->of);
    it->packed = it->of.length_q * (args->heads_q / args->heads_kv);
    it->pitch_qk = padded(args->head_dim_qk);
    it->pitch_v = padded(args->head_dim_v);
    it->across = args->param[BLOCK_N] + 16;
}

/* Lays the scratch out: behind it is what tiles need. The descriptor's resources() counts the same. */
static void place(item *it, float *scratch)
{
    it->query = scratch;
    it->out = it->query + (int64_t)ROWS * it->pitch_qk;
    it->score = it->out + (int64_t)ROWS * it->pitch_v;
    it->sum = it->score + (int64_t)ROWS * it->across;
    it->top = it->sum + (int64_t)ROWS * 16;
}

/* Which rows are done now, and which keys they see. */
static void find_keys(item *it, int64_t start)
{
    int64_t split = it->args->param[SPLIT];
    int64_t lowest = INT64_MAX;
    int64_t highest = INT64_MIN;
    it->start = start;
    it->rows = (int)lesser_of(it->packed - start, ROWS);
    it->all_left = INT64_MIN;
    it->all_right = INT64_MAX;
    for (int r = 0; r < it->rows; ++r) {
        window seen = find_window(it->args, &it->of, (start + r) % it->of.length_q);
        it->seen[r] = seen;
        if (it->args->features & ATTUNE_FEATURE_DRAFT) {
            it->draft[r] = find_draft(it->args, &it->of, it->batch, (start + r) % it->of.length_q);
        }
        it->all_left = greater_of(it->all_left, seen.left);
        it->all_right = lesser_of(it->all_right, seen.right);
        lowest = lesser_of(lowest, seen.left);
        highest = greater_of(highest, seen.right);
    }
    it->first = greater_of(lowest, it->part * split);
    it->last = lesser_of(highest, it->of.keys - 1);
    it->last = it->parts == 1 ? it->last : lesser_of(it->last, (it->part + 1) * split - 1);
}

static void pack_query(const item *it)
{
    const attune_args *args = it->args;
    int dtype = args->tensor[ATTUNE_Q].dtype;
    memset(it->query, 0, sizeof(float) * (size_t)ROWS * (size_t)it->pitch_qk);
    for (int r = 0; r < it->rows; ++r) {
        const char *from =
            row_address(args, ATTUNE_Q, it->batch, head_of(it, it->start + r), query_of(it, it->start + r));
        for (int c = 0; c < args->head_dim_qk; c += VL) {
            vf x = load_some(from + c * bytes_of(dtype), dtype, args->head_dim_qk - c);
            store(it->query + r * it->pitch_qk + c, x * args->scale);
        }
        if (is_paired(args->tensor[ATTUNE_K].dtype)) {
            part_pairs(it->query + r * it->pitch_qk, args->head_dim_qk);
        }
    }
}

static void clear_rows(const item *it)
{
    memset(it->out, 0, sizeof(float) * (size_t)ROWS * (size_t)it->pitch_v);
    memset(it->sum, 0, sizeof(float) * (size_t)ROWS * 16);
    for (int r = 0; r < ROWS; ++r) {
        it->top[r] = -INFINITY;
    }
}

/* ---- A block of keys -------------------------------------------------------------------------------------------- */

typedef struct block {
    int64_t first;
    int count;
    int64_t key_ahead, value_ahead; /* rows, to those that are asked for */
} block;

/* Where `count` rows from `row` on are, the last of them again up to `size`. */
INLINE void find_rows(const kv_rows *rows, int64_t row, int count, int size, const char *at[])
{
    if (kv_run(rows, row, count) == count) {
        const char *first = kv_row(rows, row);
        for (int k = 0; k < size; ++k) {
            at[k] = first + lesser_of(k, count - 1) * rows->step;
        }
        return;
    }
    for (int k = 0; k < size; ++k) {
        at[k] = k < count ? kv_row(rows, row + k) : at[count - 1];
    }
}

/* The rows `distance` after row ... row + size - 1, as far as the item has some; its last row instead of others. */
INLINE void find_ahead(const item *it, const kv_rows *rows, int64_t row, int64_t distance, int size, const char *at[])
{
    const int64_t first = lesser_of(row + distance, it->last);
    find_rows(rows, first, (int)lesser_of(it->last + 1 - first, size), size, at);
}

enum { FEW = 16 }; /* values that stay in the L1 cache for all groups of rows and columns; rows asked for at once */

/* Where the rows are that are asked for beside those from n on of a block, of K or of V. */
INLINE void find_same(const item *it, const block *b, bool values, int n, int size, const char *at[])
{
    if (values) {
        find_ahead(it, &it->value, b->first + n, b->value_ahead, size, at);
    } else {
        find_ahead(it, &it->key, b->first + n, b->key_ahead, size, at);
    }
}

#if WITH_TILES
_Static_assert(VL == FEW, "as many rows are asked for beside keys as beside values");

/* Whether K and V are asked for in turns, row by row, a block ahead. NOTE: on two CPUs faster than a block's lines of
 * the one and then of the other, on 16 alike. The descriptor's in_turns() says the same. */
INLINE bool in_turns(const item *it)
{
    const attune_args *args = it->args;
    return args->head_dim_qk * bytes_of(args->tensor[ATTUNE_K].dtype) ==
           args->head_dim_v * bytes_of(args->tensor[ATTUNE_V].dtype);
}

/* FEW / 2 rows of K and as many of V from `row` on, alternating; the item's last row instead of those that it does not
 * have. */
INLINE void find_both(const item *it, int64_t row, const char *at[FEW])
{
    enum { MANY = FEW / 2 };
    const bool all = row + MANY - 1 <= it->last;
    if (all && kv_run(&it->key, row, MANY) == MANY && kv_run(&it->value, row, MANY) == MANY) {
        const char *key = kv_row(&it->key, row), *value = kv_row(&it->value, row);
        UNROLL
        for (int i = 0; i < MANY; ++i, key += it->key.step, value += it->value.step) {
            at[2 * i] = key;
            at[2 * i + 1] = value;
        }
        return;
    }
    for (int i = 0; i < MANY; ++i) {
        at[2 * i] = kv_row(&it->key, lesser_of(row + i, it->last));
        at[2 * i + 1] = kv_row(&it->value, lesser_of(row + i, it->last));
    }
}

/* In turns the first half of the next block is asked for beside keys, the second beside values. */
INLINE void find_next(const item *it, const block *b, bool values, int n, int size, const char *at[])
{
    if (in_turns(it)) {
        find_both(it, b->first + it->args->param[BLOCK_N] + (values ? b->count + n : n) / 2, at);
    } else {
        find_same(it, b, values, n, size, at);
    }
}

/* The groups of query rows that ask beside a block: one, or as many as asking_groups() says; none beside the last block
 * if the next is what they would ask for. */
INLINE int groups_beside(const item *it, const block *b, bool one)
{
    if (in_turns(it) && b->first + it->args->param[BLOCK_N] > it->last) {
        return 0;
    }
    return one ? 1 : asking_groups(it->rows);
}

/* Asks for the first block at once, where the others are asked for beside one. */
static void ask_first(const item *it)
{
    if (!in_turns(it)) {
        return;
    }
    const int64_t end = lesser_of(it->first + it->args->param[BLOCK_N], it->last + 1);
    for (int64_t row = it->first; row < end; row += FEW / 2) {
        const char *both[FEW];
        ahead lines = {both, 0, it->args->head_dim_v * bytes_of(it->args->tensor[ATTUNE_V].dtype), FEW, 1};
        find_both(it, row, both);
        while (lines.count > 0) {
            ask_for(&lines, 1);
        }
    }
}
#else
INLINE void find_next(const item *it, const block *b, bool values, int n, int size, const char *at[])
{
    find_same(it, b, values, n, size, at);
}

#define groups_beside(it, b, one) ((void)(one), 1)

INLINE void ask_first(const item *it)
{
    (void)it;
}
#endif

/* ---- A block of keys in tiles ----------------------------------------------------------------------------------- */

#if WITH_TILES
INLINE bool in_tiles(const item *it)
{
    return it->dots != NULL;
}

static void decay_in_tiles(const item *it, int row, float decay)
{
    dots_decay(it->dots, row, decay, it->args->head_dim_v);
}

INLINE void ask_beside_weights(const item *it)
{
    if (in_tiles(it)) {
        soon_ask(it->next, it->next->weight);
    }
}

/* Raw scores of all rows, scaled; those of keys beyond the block, up to DOT_KEYS, are of its last key. */
static void score_in_tiles(const item *it, const block *b)
{
    const attune_args *args = it->args;
    for (int n = 0; n < b->count; n += DOT_KEYS) {
        const char *key[DOT_KEYS];
        const int count = (int)lesser_of(b->count - n, DOT_KEYS);
        int64_t step;
        find_rows(&it->key, b->first + n, count, DOT_KEYS, key);
        const bool apart = kv_run(&it->key, b->first + n, DOT_KEYS) < DOT_KEYS || count < DOT_KEYS;
        const uint32_t *keys = dots_find_keys(it->dots, key, apart, it->key.step, args->head_dim_qk, &step);
        dots_score(it->dots, keys, step, args->head_dim_qk, it->rows, args->scale, it->next, it->score + n, it->across);
    }
}

/* Adds a block's values. What a row does not see weighs 0; where that leaves NaN, the row is done again. */
static void add_in_tiles(const item *it, const block *b)
{
    const int columns = it->args->head_dim_v;
    for (int row = 0; row < it->rows; ++row) {
        dots_take_weights(it->dots, row, it->score + row * it->across, b->count);
    }
    for (int n = 0; n < b->count; n += DOT_VALUES) {
        const char *value[DOT_VALUES];
        find_rows(&it->value, b->first + n, (int)lesser_of(b->count - n, DOT_VALUES), DOT_VALUES, value);
        dots_take_values(it->dots, value, (int)lesser_of(b->count - n, DOT_VALUES), columns, it->next);
        dots_add(it->dots, n, columns, it->next);
    }
}
#else
INLINE bool in_tiles(const item *it)
{
    (void)it;
    return false;
}

INLINE void decay_in_tiles(const item *it, int row, float decay)
{
    (void)it, (void)row, (void)decay;
}

INLINE void ask_beside_weights(const item *it)
{
    (void)it;
}

INLINE void score_in_tiles(const item *it, const block *b)
{
    (void)it, (void)b;
}

INLINE void add_in_tiles(const item *it, const block *b)
{
    (void)it, (void)b;
}
#endif

/* ---- A block of keys row by row --------------------------------------------------------------------------------- */

/* Raw scores of all rows; those of keys beyond the block, up to a whole vector, are of its last key. */
static void score_block(const item *it, const block *b)
{
    int dtype = it->args->tensor[ATTUNE_K].dtype;
    int depth = it->args->head_dim_qk;
    bool key_by_key = it->args->param[ORDER] != 0;
    const int groups = groups_beside(it, b, key_by_key);
    for (int n = 0; n < b->count; n += VL) {
        const char *key[VL], *next[VL];
        find_rows(&it->key, b->first + n, (int)lesser_of(b->count - n, VL), VL, key);
        find_next(it, b, false, n, VL, next);
        for (int r = 0, group; r < it->rows; r += group) {
            group = group_of(it->rows - r);
            for (int k = 0; k < VL; k += VL / group) {
                score_group(group, dtype, key_by_key, key + k, share_of(next, groups, r, k),
                            it->query + r * it->pitch_qk, it->pitch_qk, depth, it->score + r * it->across + n + k,
                            it->across);
            }
        }
    }
}

/* Products become scores, but for the scale, which the queries have; what fills the last vector is hidden. */
static void prepare_row(const item *it, const block *b, int row, float *score)
{
    const window *seen = &it->seen[row];
    scores s = scores_of_keys(score, b->count, seen->position - b->first);
    int64_t last = b->first + b->count - 1;
    apply_score(it->args, &s, 1, splat(slope_of(it->args, head_of(it, it->start + row))));
    if (needs_mask(seen, 1, b->first, last) || b->count % VL != 0) {
        hide_outside(&s, splat(side_of_tile(seen->left, b->first)),
                     splat(side_of_tile(lesser_of(seen->right, last), b->first)));
    }
    if ((it->args->features & ATTUNE_FEATURE_DRAFT) && last >= it->draft[row].first) {
        hide_draft(&s, &it->draft[row], b->first);
    }
}

/* Multiplies a row of O and its sum by `decay`. */
static void decay_row(const item *it, int row, float decay)
{
    if (in_tiles(it)) {
        decay_in_tiles(it, row, decay);
    } else {
        float *out = it->out + row * it->pitch_v;
        for (int c = 0; c < it->pitch_v; c += VL) {
            store(out + c, load(out + c) * decay);
        }
    }
    store(it->sum + row * 16, load(it->sum + row * 16) * decay);
}

/* The greatest of all lanes, none of which is NaN. */
INLINE float highest_lane(vf x)
{
#if VL == 16
    return _mm512_reduce_max_ps(x);
#else
    float top = x[0];
    for (int lane = 1; lane < VL; ++lane) {
        top = x[lane] > top ? x[lane] : top;
    }
    return top;
#endif
}

/* Turns a row's scores into weights e^(S - maximum), and carries maximum and sum on. */
static void weigh_row(const item *it, int count, int row, float *score)
{
    float before = it->top[row];
    vf highest = splat(before);
    for (int n = 0; n < count; n += VL) {
        highest = greater(load(score + n), highest);
    }
    const float top = highest_lane(highest);
    /* A row that has seen nothing yet keeps its maximum of -infinity, from which nothing can be subtracted. */
    float base = top == -INFINITY ? 0 : top;
    if (top != before) {
        decay_row(it, row, exponential(splat(before - base))[0]);
    }
    vf sum = load(it->sum + row * 16);
    for (int n = 0; n < count; n += VL) {
        vf p = exponential(load(score + n) - base);
        ask_beside_weights(it);
        sum += p;
        store(score + n, p);
    }
    store(it->sum + row * 16, sum);
    it->top[row] = top;
}

/* Some values, a step apart: where they lie, or copied where pages are too short. */
typedef struct values {
    const char *first;
    int64_t step;
    const char *next[FEW]; /* those that are asked for */
    char copy[FEW * EXACT_DIMS * sizeof(float)];
} values;

static void find_values(const item *it, const block *b, int n, int count, values *v)
{
    const int64_t row = b->first + n;
    find_next(it, b, true, n, FEW, v->next);
    const int64_t bytes = it->args->head_dim_v * bytes_of(it->args->tensor[ATTUNE_V].dtype);
    if (kv_run(&it->value, row, count) == count) {
        v->first = kv_row(&it->value, row);
        v->step = it->value.step;
        return;
    }
    for (int k = 0; k < count; ++k) {
        memcpy(v->copy + k * bytes, kv_row(&it->value, row + k), (size_t)bytes);
    }
    v->first = v->copy;
    v->step = bytes;
}

/* Adds the values that the row sees. */
static void add_row(const item *it, const block *b, int row)
{
    int dtype = it->args->tensor[ATTUNE_V].dtype;
    float *out = it->out + row * it->pitch_v;
    const float *weight = it->score + row * it->across;
    int from = (int)lesser_of(greater_of(it->seen[row].left - b->first, 0), b->count);
    int to = (int)lesser_of(greater_of(it->seen[row].right - b->first + 1, from), b->count);
    values v;
    for (int n = from, count; n < to; n += count) {
        count = (int)lesser_of(to - n, FEW);
        find_values(it, b, n, count, &v);
        add_group(1, dtype, v.first, v.step, share_of(v.next, groups_beside(it, b, true), 0, 0), weight + n, it->across,
                  count, out, it->pitch_v, it->args->head_dim_v);
    }
}

static void add_block(const item *it, const block *b)
{
    /* Value by value, a group's sums are all columns, of fewer rows. */
    const int most = it->args->param[ORDER] != 0 ? 2 : 4;
    const int groups = groups_beside(it, b, most < 4);
    int dtype = it->args->tensor[ATTUNE_V].dtype;
    int columns = it->args->head_dim_v;
    values v;
    for (int n = 0; n < b->count; n += FEW) {
        const int count = (int)lesser_of(b->count - n, FEW);
        find_values(it, b, n, count, &v);
        for (int r = 0, group; r < it->rows; r += group) {
            group = group_of(it->rows - r);
            group = group > most ? most : group;
            add_group(group, dtype, v.first, v.step, share_of(v.next, groups, r, 0), it->score + r * it->across + n,
                      it->across, count, it->out + r * it->pitch_v, it->pitch_v, columns);
        }
    }
}

static void do_block(const item *it, const block *b)
{
    if (in_tiles(it)) {
        score_in_tiles(it, b);
    } else {
        score_block(it, b);
    }
    for (int row = 0; row < it->rows; ++row) {
        float *score = it->score + row * it->across;
        prepare_row(it, b, row, score);
        weigh_row(it, b->count, row, score);
    }
    if (in_tiles(it)) {
        add_in_tiles(it, b);
        return;
    }
    bool cut = b->first < it->all_left || b->first + b->count - 1 > it->all_right;
    if (!cut) {
        add_block(it, b);
        return;
    }
    for (int row = 0; row < it->rows; ++row) {
        add_row(it, b, row);
    }
}

/* Rows to the one that is AHEAD KB after, where rows are without gaps. */
static int64_t rows_ahead(const attune_args *args, attune_role role, int dims)
{
    int64_t bytes = dims * bytes_of(args->tensor[role].dtype);
    return (args->param[AHEAD] * 1024 + bytes - 1) / bytes;
}

static void sweep_keys(const item *it)
{
    const attune_args *args = it->args;
    int64_t most = args->param[BLOCK_N];
    block b = {.first = it->first,
               .key_ahead = rows_ahead(args, ATTUNE_K, args->head_dim_qk),
               .value_ahead = rows_ahead(args, ATTUNE_V, args->head_dim_v)};
    clear_rows(it);
    if (!in_tiles(it)) {
        ask_first(it);
    }
    for (; b.first <= it->last; b.first += b.count) {
        b.count = (int)lesser_of(it->last + 1 - b.first, most);
        do_block(it, &b);
    }
}

/* ---- The end of an item ----------------------------------------------------------------------------------------- */

static bool is_finite(const item *it, const float *out)
{
    vi bad = {0};
    for (int c = 0; c < it->pitch_v; c += VL) {
        bad |= not_finite(load(out + c));
    }
    return !any(bad);
}

static part_rows parts_of(const item *it)
{
    int64_t rows = it->args->seqlen_q * (it->args->heads_q / it->args->heads_kv);
    return find_parts(it->args, it->batch * it->args->heads_kv + it->head_kv, it->parts, rows, it->pitch_v);
}

static void finish_row(const item *it, int row)
{
    const float *out = it->out + row * it->pitch_v;
    const int64_t packed = it->start + row;
    part_rows parts;
    float *to = NULL;
    if (it->parts > 1) {
        parts = parts_of(it);
        to = part_row(&parts, it->part, packed);
    }
    float sum = 0;
    for (int lane = 0; lane < VL; ++lane) {
        sum += it->sum[row * 16 + lane];
    }
    if (!is_finite(it, out)) {
        redo_row(it->args, it->batch, head_of(it, packed), packed % it->of.length_q, it->first, it->last, &parts, to);
    } else if (to != NULL) {
        memcpy(to, out, sizeof(float) * (size_t)it->pitch_v);
        leave_part(&parts, to, it->top[row], sum);
    } else {
        store_row(it->args, it->batch, head_of(it, packed), query_of(it, packed), out, it->top[row], sum);
    }
}

#if WITH_TILES
/* NOTE: up to four rows are faster one by one from memory, up to two where head dims are few; tiles are faster from
 * caches. */
static bool is_for_tiles(const item *it)
{
    const attune_tensor *t = it->args->tensor;
    const int depth = it->args->head_dim_qk, columns = it->args->head_dim_v;
    const bool copied =
        (it->key.table != NULL && it->key.page_size % DOT_KEYS != 0) || depth % 32 != 0 || columns % 32 != 0;
    const bool few = !copied && depth <= 64 && columns <= 64;
    return it->rows > (few ? 2 : 4) && t[ATTUNE_Q].dtype == ATTUNE_BF16 && t[ATTUNE_K].dtype == ATTUNE_BF16 &&
           t[ATTUNE_V].dtype == ATTUNE_BF16 && t[ATTUNE_O].dtype == ATTUNE_BF16;
}

/* Goes through the keys in tiles. Returns whether sums are right (dots_are_right). */
static bool sweep_in_tiles(item *it)
{
    const attune_args *args = it->args;
    const int depth = args->head_dim_qk, columns = args->head_dim_v;
    const stream of[2] = {
        {.rows = &it->key, .row = it->first, .end = it->last + 1, .bytes = (int64_t)depth * 2},
        {.rows = &it->value, .row = it->first, .end = it->last + 1, .bytes = (int64_t)columns * 2},
    };
    soon next = soon_begin(of, depth, columns, it->rows, args->param[BLOCK_N]);
    packed_dots *d = (packed_dots *)(void *)(it->top + ROWS);
    _Static_assert(sizeof *d == 51328, "as the descriptor's DOTS says");
    it->next = &next;
    it->dots = d;
    dots_clear(d);
    for (int r = 0; r < it->rows; ++r) {
        const int64_t row = it->start + r;
        dots_take_query(d, r, row_address(args, ATTUNE_Q, it->batch, head_of(it, row), query_of(it, row)), depth);
    }
    tiles_open();
    sweep_keys(it);
    tiles_close();
    it->dots = NULL;
    for (int r = 0; r < it->rows; ++r) {
        dots_leave_row(d, r, columns, it->out + r * it->pitch_v);
    }
    return dots_are_right(d);
}
#else
INLINE bool is_for_tiles(const item *it)
{
    (void)it;
    return false;
}

INLINE bool sweep_in_tiles(const item *it)
{
    (void)it;
    return false;
}
#endif

/* The rows from `start` on, over the item's keys. */
static void attend_rows(item *it, int64_t start)
{
    find_keys(it, start);
    const bool tiled = is_for_tiles(it) && sweep_in_tiles(it);
    if (!tiled) {
        pack_query(it);
        sweep_keys(it);
    }
    for (int row = 0; row < it->rows; ++row) {
        if (!tiled && is_paired(it->args->tensor[ATTUNE_V].dtype)) {
            join_pairs(it->out + row * it->pitch_v, it->args->head_dim_v);
        }
        finish_row(it, row);
    }
}

/* ---- Merging parts ---------------------------------------------------------------------------------------------- */

static void merge_row(const item *it, int64_t row)
{
    part_rows parts = parts_of(it);
    const int64_t head = head_of(it, row);
    float lse;
    merge_parts(&parts, row, sink_of(it->args, head), it->out, &lse);
    store_row_out(it->args, it->batch, head, query_of(it, row), it->out, 1);
    store_row_lse(it->args, it->batch, head, query_of(it, row), lse);
}

void ATTUNE_TIER(attune_cpu_decode)(const attune_args *args, int64_t index, void *scratch);

void ATTUNE_TIER(attune_cpu_decode)(const attune_args *args, int64_t index, void *scratch)
{
    item it = {.parts = count_parts(args, args->param[SPLIT])};
    bool merging = are_merging(args, it.parts);
    find_head(&it, args, merging ? index : index / it.parts);
    place(&it, scratch);
    if (merging) {
        for (int64_t row = 0; row < it.packed; ++row) {
            merge_row(&it, row);
        }
        return;
    }
    it.part = index % it.parts;
    for (int64_t start = 0; start < it.packed; start += ROWS) {
        attend_rows(&it, start);
    }
}
