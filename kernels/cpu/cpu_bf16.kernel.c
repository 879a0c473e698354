/* cpu_bf16: attention in bf16 by the CPU's own dot products of bf16 pairs, in vectors or in tiles. docs/cpu.md explains
 * it.
 *
 * As in cpu_tiled everything is transposed: S^T[key][row] = K Q^T and O^T[column][row] = V^T P^T, lanes being query
 * rows, so that the softmax is lane by lane. A first step packs K (its rows padded) and V (transposed) by tiles of keys
 * into the workspace, once for all query rows; a work item of the second step is a block of query rows, of one head or
 * of several that share their KV head. Both products then have the same form, that of device/dots.h.
 */
#include "device/dots.h"
#include "device/exact.h"
#include "device/pairs.h"
#include "device/score.h"
#include "device/vector.h"

enum { BLOCK_M, BLOCK_N, HEADS, PACK }; /* places in attune_args.param */
enum { HEAD_BYTES = 64 };               /* of the workspace: the number of the running step; of a tile: its flag */
enum { IN_FLIGHT = 3, SCORES = 2 };     /* under way at once; arrays of scores that they need */

#define LOG2_E 0x1.715476p0f
#define LN_2 0x1.62e430p-1f

/* ---- Packed keys and values ------------------------------------------------------------------------------------- */

/* What one tile of BLOCK_N keys of one KV head is packed into. */
typedef struct packed {
    uint32_t *flag;  /* 1: values so small that the products do not treat them as they should */
    uint16_t *key;   /* [BLOCK_N][pitch_k]: rows of K, then zeros */
    uint16_t *value; /* [pitch_v][BLOCK_N]: columns of V, then zeros */
} packed;

static packed find_packed(const attune_args *args, int64_t batch, int64_t head_kv, int64_t nth)
{
    int64_t block = args->param[BLOCK_N];
    int64_t tiles = (args->seqlen_kv + block - 1) / block;
    int64_t bytes = HEAD_BYTES + 2 * block * (pitch_k(args) + pitch_v(args));
    char *at = (char *)args->workspace + HEAD_BYTES + ((batch * args->heads_kv + head_kv) * tiles + nth) * bytes;
    uint16_t *key = (uint16_t *)(at + HEAD_BYTES);
    return (packed){(uint32_t *)at, key, key + block * pitch_k(args)};
}

/* Packs keys begin ... end - 1 of a sequence, to where the first of them belongs; returns whether values are to be
 * flagged. */
static bool pack_range(const attune_args *args, const lengths *of, int64_t batch, int64_t head_kv, int64_t begin,
                       int64_t end, uint16_t *key, uint16_t *value)
{
    const int count = (int)(end - begin);
    const kv_rows keys = find_kv(args, ATTUNE_K, batch, head_kv, of);
    const kv_rows values = find_kv(args, ATTUNE_V, batch, head_kv, of);
    pack_keys(args, &keys, begin, count, key);
    return pack_values(args, &values, begin, count, value, args->param[BLOCK_N]);
}

/* Packs the tile of keys that is item `index`, as far as some row of its sequence sees them. */
static void pack_tile(const attune_args *args, int64_t index)
{
    int64_t block = args->param[BLOCK_N];
    int64_t tiles = (args->seqlen_kv + block - 1) / block;
    int64_t batch = index / tiles / args->heads_kv;
    int64_t head = index / tiles % args->heads_kv;
    int64_t nth = index % tiles;
    lengths of = find_lengths(args, batch);
    window first = find_window(args, &of, 0);
    window last = find_window(args, &of, of.length_q - 1);
    int64_t begin = greater_of(first.left, nth * block);
    int64_t end = lesser_of(lesser_of(last.right + 1, of.keys), (nth + 1) * block);
    if (of.length_q <= 0 || begin >= end) {
        return; /* no item reads it */
    }
    begin = begin / 32 * 32;
    int64_t at = begin - nth * block;
    packed to = find_packed(args, batch, head, nth);
    *to.flag = pack_range(args, &of, batch, head, begin, end, to.key + at * pitch_k(args), to.value + at);
}

/* ---- The item: which rows, which keys --------------------------------------------------------------------------- */

typedef struct item {
    const attune_args *args;
    int64_t batch, head_kv;
    int64_t head; /* of the first row; `heads` from there on have `each` lanes one after another */
    int heads, each;
    lengths of;
    int64_t first; /* query of each head's first row */
    window seen;   /* by that row */
    int queries;   /* rows of each head; its other lanes are idle */
    int panels;
    bool flagged;    /* some values are */
    uint32_t *query; /* [panels][pitch_k / 2][LANES]: pairs of columns */
    float *out;      /* [panels][pitch_v][LANES] */
    float *score;    /* [SCORES][2][BLOCK_N][LANES]: S^T of two panels, then pairs of P^T */
    float *top;      /* [panels][LANES]: what is subtracted from each row's scores, times log2 e */
    float *sum;      /* likewise, of 2^(S - top) */
    float *ahead;    /* likewise, queries after the first */
    float *slope;    /* likewise, ALiBi's */
    uint16_t *key;   /* [BLOCK_N][pitch_k], where an item packs its own tiles; then their values */
} item;

/* Some keys of the sequence, of one packed tile. */
typedef struct tile {
    int64_t first;
    int count;
    const uint16_t *key, *value; /* from the first on */
} tile;

/* A tile of keys by one or two panels: what goes through three stages, to scores, to weights, and into O. */
typedef struct product {
    tile t;
    int panel, panels; /* panels 0: there is none */
    float *score;      /* [2][BLOCK_N][LANES] */
    bool shrinks[2];   /* by the panel's decay, before values are added */
    float decay[2][LANES] __attribute__((aligned(64)));
} product;

/* Which rows item `index` has; false if its sequence ends before them. */
static bool find_rows(item *it, const attune_args *args, int64_t index)
{
    int most = args->param[HEADS];
    int64_t group = args->heads_q / args->heads_kv;
    int64_t bundles = (group + most - 1) / most; /* of heads, of one KV head */
    it->each = args->param[BLOCK_M] / most;
    int64_t blocks = (args->seqlen_q + it->each - 1) / it->each;
    int64_t nth = index % blocks;
    int64_t bundle = index / blocks;
    /* Under a causal mask the last rows see the most keys: they go first, so that threads finish together. */
    nth = args->features & ATTUNE_FEATURE_CAUSAL ? blocks - 1 - nth : nth;
    it->args = args;
    it->batch = bundle / (args->heads_kv * bundles);
    it->head_kv = bundle / bundles % args->heads_kv;
    it->head = it->head_kv * group + bundle % bundles * most;
    it->heads = (int)lesser_of((it->head_kv + 1) * group - it->head, most);
    it->of = find_lengths(args, it->batch);
    it->first = nth * it->each;
    it->seen = find_window(args, &it->of, it->first);
    it->queries = (int)lesser_of(it->of.length_q - it->first, it->each);
    it->panels = whole(it->heads == 1 ? it->queries : it->heads * it->each, LANES) / LANES;
    return it->queries > 0;
}

/* Lays the scratch out. The descriptor's resources() counts the same. */
static void place(item *it, float *scratch)
{
    const attune_args *args = it->args;
    int lanes = args->param[BLOCK_M];
    it->query = (uint32_t *)scratch;
    it->out = scratch + lanes * pitch_k(args) / 2;
    it->score = it->out + lanes * pitch_v(args);
    it->top = it->score + SCORES * 2 * LANES * args->param[BLOCK_N];
    it->sum = it->top + lanes;
    it->ahead = it->sum + lanes;
    it->slope = it->ahead + lanes;
    it->key = (uint16_t *)(it->slope + lanes);
}

/* Whether a lane has a row. */
static bool has_row(const item *it, int lane)
{
    return lane / it->each < it->heads && lane % it->each < it->queries;
}

static int64_t head_of(const item *it, int lane)
{
    return it->head + lane / it->each;
}

/* The lane's row in Q, O and LSE. */
static int64_t row_of(const item *it, int lane)
{
    return it->of.start_q + it->first + lane % it->each;
}

/* ---- Stages of an item ------------------------------------------------------------------------------------------ */

/* Q in pairs, its signs changed where the scale is negative: what scores are multiplied by is then not. */
static void pack_query(const item *it)
{
    const attune_args *args = it->args;
    const uint32_t signs = args->scale < 0 ? 0x80008000u : 0;
    int pairs = pitch_k(args) / 2;
    for (int panel = 0; panel < it->panels; ++panel) {
        for (int p = 0; p < pairs; p += LANES) {
            vf x[LANES];
            for (int lane = 0; lane < LANES; ++lane) {
                int at = panel * LANES + lane;
                x[lane] = splat(0);
                if (has_row(it, at)) {
                    const char *row = row_address(args, ATTUNE_Q, it->batch, head_of(it, at), row_of(it, at));
                    x[lane] = (vf)load_words(row + (int64_t)p * 4, args->head_dim_qk - 2 * p);
                }
            }
            transpose(x);
            for (int k = 0; k < LANES; ++k) {
                *(vu *)(it->query + ((int64_t)panel * pairs + p + k) * LANES) = (vu)x[k] ^ signs;
            }
        }
    }
}

static void clear_rows(const item *it)
{
    const attune_args *args = it->args;
    for (int lane = 0; lane < it->panels * LANES; ++lane) {
        it->top[lane] = -INFINITY;
        it->sum[lane] = 0;
        it->ahead[lane] = (float)(lane % it->each);
        it->slope[lane] = has_row(it, lane) ? slope_of(args, head_of(it, lane)) : 0;
    }
    memset(it->out, 0, sizeof(float) * (size_t)(it->panels * LANES) * (size_t)pitch_v(args));
}

/* Multiplies, and computes something else meanwhile. */
INLINE void multiply_beside(int panels, bool add, const dots *d, meanwhile other)
{
    if (panels == 2) {
        multiply_dots(2, add, d, other);
    } else {
        multiply_dots(1, add, d, other);
    }
}

INLINE void score_keys(const item *it, const product *m, meanwhile other)
{
    int pairs = pitch_k(it->args) / 2;
    dots d = {.a = (const uint32_t *)m->t.key,
              .a_step = pairs,
              .b = it->query + (int64_t)m->panel * pairs * LANES,
              .b_step = (int64_t)pairs * LANES,
              .c = m->score,
              .c_step = (int64_t)it->args->param[BLOCK_N] * LANES,
              .rows = whole(m->t.count, 32),
              .pairs = pairs};
    multiply_beside(m->panels, false, &d, other);
}

/* Multiplies what a panel's rows have so far. */
static void shrink_rows(const item *it, int panel, vf decay)
{
    int columns = pitch_v(it->args);
    float *out = it->out + (int64_t)panel * columns * LANES;
    for (int c = 0; c < columns; ++c) {
        store(out + c * LANES, load(out + c * LANES) * decay);
    }
}

static void shrink_panels(const item *it, const product *m)
{
    for (int i = 0; i < m->panels; ++i) {
        if (m->shrinks[i]) {
            shrink_rows(it, m->panel + i, load(m->decay[i]));
        }
    }
}

INLINE void add_values(const item *it, const product *m, meanwhile other)
{
    int columns = pitch_v(it->args);
    int64_t block = it->args->param[BLOCK_N];
    dots d = {.a = (const uint32_t *)m->t.value,
              .a_step = block / 2,
              .b = (const uint32_t *)m->score,
              .b_step = block * LANES,
              .c = it->out + (int64_t)m->panel * columns * LANES,
              .c_step = (int64_t)columns * LANES,
              .rows = columns,
              .pairs = whole(m->t.count, 32) / 2};
    multiply_beside(m->panels, true, &d, other);
}

/* ---- Scores: everything between Q K^T and the softmax ----------------------------------------------------------- */

/* Whether scores are scaled before the softmax; else it does that itself. */
static bool are_scaled(const item *it)
{
    return (it->args->features & (ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_ALIBI)) != 0;
}

/* Products become scores; what fills the tile up to whole pairs of tiles is hidden. NOTE: a call, since its registers
 * would be spilled around the loops of products (1 % of the time). */
static __attribute__((noinline)) void prepare_scores(const item *it, const tile *t, int panel, float *score)
{
    vf lane = load(it->ahead + panel * LANES);
    scores s = scores_of_rows(score, t->count, LANES, lane, it->seen.position - t->first);
    apply_score(it->args, &s, are_scaled(it) ? fabsf(it->args->scale) : 1, load(it->slope + panel * LANES));
    if (needs_mask(&it->seen, it->queries, t->first, t->first + t->count - 1)) {
        hide_outside(&s, lane + side_of_tile(it->seen.left, t->first), lane + side_of_tile(it->seen.right, t->first));
    }
    for (int n = t->count; n < whole(t->count, 32); ++n) {
        store(score + n * LANES, splat(-INFINITY));
    }
}

/* ---- Softmax ---------------------------------------------------------------------------------------------------- */

/* What scores are multiplied by to be powers of two. */
static float factor_of(const item *it)
{
    return LOG2_E * (are_scaled(it) ? 1 : fabsf(it->args->scale));
}

/* Raises what is subtracted from the scores of rows whose maximum has grown by much. NOTE: bf16 weights up to 2^8 are
 * as exact as those up to 1, so a little growth need not cost a pass over O. Returns what is subtracted, finite. */
static vf raise_top(const item *it, product *m, int i, vf highest)
{
    int row = (m->panel + i) * LANES;
    vf before = load(it->top + row);
    vi grown = (vi)(highest > before + 8.0f);
    vf top = blend(grown, highest, before);
    vf base = blend(top == splat(-INFINITY), splat(0), top);
    m->shrinks[i] = any(grown);
    if (m->shrinks[i]) {
        vf decay = power(before - base);
        store(it->top + row, top);
        store(m->decay[i], decay);
        store(it->sum + row, load(it->sum + row) * decay);
    }
    return base;
}

/* Scores that become weights, four keys of each panel at a time. */
typedef struct weighing {
    float *score[2];
    int at, count;
    vf factor, base[2], total[2];
} weighing;

static void begin_weighing(const item *it, product *m, weighing *w)
{
    int64_t panel = (int64_t)it->args->param[BLOCK_N] * LANES;
    *w = (weighing){
        .score = {m->score, m->score + panel}, .count = whole(m->t.count, 32), .factor = splat(factor_of(it))};
    for (int i = 0; i < m->panels; ++i) {
        prepare_scores(it, &m->t, m->panel + i, w->score[i]);
        w->base[i] = raise_top(it, m, i, highest_score(w->score[i], w->count) * w->factor);
    }
}

INLINE void weigh_keys(int panels, weighing *w)
{
    UNROLL
    for (int i = 0; i < panels; ++i) {
        w->total[i] += weigh_pair(w->score[i], w->at, w->factor, w->base[i]) +
                       weigh_pair(w->score[i], w->at + 2, w->factor, w->base[i]);
    }
    w->at += 4;
}

INLINE void weigh_some(void *work)
{
    weighing *w = work;
    if (w->at < w->count) {
        weigh_keys(2, w);
    }
}

INLINE void weigh_nothing(void *work)
{
    (void)work;
}

/* Weighs what is left. */
static void end_weighing(const item *it, const product *m, weighing *w)
{
    while (w->at < w->count) {
        if (m->panels == 2) {
            weigh_keys(2, w);
        } else {
            weigh_keys(1, w);
        }
    }
    for (int i = 0; i < m->panels; ++i) {
        float *sum = it->sum + (m->panel + i) * LANES;
        store(sum, load(sum) + w->total[i]);
    }
}

/* ---- The end of an item ----------------------------------------------------------------------------------------- */

/* Sum becomes what O must be multiplied by. */
static void close_rows(const item *it)
{
    for (int lane = 0; lane < it->panels * LANES; ++lane) {
        if (has_row(it, lane)) {
            int64_t head = head_of(it, lane);
            float top = it->top[lane] * LN_2;
            it->sum[lane] = close_row(sink_of(it->args, head), it->sum[lane], &top);
            store_row_lse(it->args, it->batch, head, row_of(it, lane), top);
        }
    }
}

/* Computes a lane's row again. */
static void redo_lane(const item *it, int lane)
{
    if (has_row(it, lane)) {
        redo_row(it->args, it->batch, head_of(it, lane), it->first + lane % it->each, 0, INT64_MAX, NULL, NULL);
    }
}

/* Stores rows of O, and computes those again that have numbers that are not finite. */
static void store_out(const item *it)
{
    const attune_args *args = it->args;
    const int dtype = args->tensor[ATTUNE_O].dtype;
    int columns = pitch_v(args);
    for (int panel = 0; panel < it->panels; ++panel) {
        vf share = load(it->sum + panel * LANES);
        vi bad = {0};
        for (int c = 0; c < columns; c += LANES) {
            vf x[LANES];
            UNROLL
            for (int k = 0; k < LANES; ++k) {
                x[k] = load(it->out + ((int64_t)panel * columns + c + k) * LANES) * share;
                bad |= not_finite(x[k]);
            }
            transpose(x);
            for (int lane = 0; lane < LANES; ++lane) {
                int at = panel * LANES + lane;
                if (has_row(it, at)) {
                    char *row = row_address(args, ATTUNE_O, it->batch, head_of(it, at), row_of(it, at));
                    store_some(row + c * bytes_of(dtype), dtype, args->head_dim_v - c, x[lane]);
                }
            }
        }
        for (int lane = 0; lane < LANES && any(bad); ++lane) {
            if (bad[lane] != 0) {
                redo_lane(it, panel * LANES + lane);
            }
        }
    }
}

/* The keys of the `nth` tile that some row of the item sees, packed. */
static tile find_tile(item *it, int64_t nth)
{
    const attune_args *args = it->args;
    int64_t block = args->param[BLOCK_N];
    int64_t begin = greater_of(it->seen.left, nth * block) / 32 * 32;
    int64_t end = lesser_of(lesser_of(it->seen.right + it->queries, it->of.keys), (nth + 1) * block);
    int64_t at = begin - nth * block;
    if (args->param[PACK] == 0) {
        uint16_t *value = it->key + block * pitch_k(args);
        it->flagged |= pack_range(args, &it->of, it->batch, it->head_kv, begin, end, it->key, value);
        return (tile){begin, (int)(end - begin), it->key, value};
    }
    packed from = find_packed(args, it->batch, it->head_kv, nth);
    return (tile){begin, (int)(end - begin), from.key + at * pitch_k(args), from.value + at};
}

/* The tiles that some row of the item sees: *first ... last. */
static int64_t find_tiles(const item *it, int64_t *first)
{
    int64_t block = it->args->param[BLOCK_N];
    int64_t end = lesser_of(it->seen.right + it->queries, it->of.keys);
    *first = greater_of(it->seen.left, 0) / block;
    return end <= greater_of(it->seen.left, 0) ? -1 : (end - 1) / block;
}

/* Whether there are flagged values among the tiles first ... last that were packed ahead. */
static bool has_flags(const item *it, int64_t first, int64_t last)
{
    uint32_t flags = 0;
    for (int64_t nth = first; it->args->param[PACK] == 1 && nth <= last; ++nth) {
        flags |= *find_packed(it->args, it->batch, it->head_kv, nth).flag;
    }
    return flags != 0;
}

/* All stages of a tile and its panels, one after the other. */
static void attend_at_once(const item *it, product *m)
{
    const meanwhile nothing = {weigh_nothing, NULL};
    weighing w;
    score_keys(it, m, nothing);
    begin_weighing(it, m, &w);
    end_weighing(it, m, &w);
    shrink_panels(it, m);
    add_values(it, m, nothing);
}

/* A stage each of three products: while products of the first and the last keep their unit busy, the vector units turn
 * the scores of the one between into weights. When values have been added, new scores take the place of their weights.
 */
static void attend_pipelined(const item *it, const product *scored, product *weighed, const product *added)
{
    const meanwhile nothing = {weigh_nothing, NULL};
    weighing w;
    const meanwhile beside = {weigh_some, &w};
    if (weighed->panels > 0) {
        begin_weighing(it, weighed, &w);
    }
    shrink_panels(it, added);
    if (scored->panels == 2 && weighed->panels == 2 && added->panels == 2) {
        add_values(it, added, beside);
        score_keys(it, scored, beside);
    } else {
        if (added->panels > 0) {
            add_values(it, added, nothing);
        }
        if (scored->panels > 0) {
            score_keys(it, scored, nothing);
        }
    }
    if (weighed->panels > 0) {
        end_weighing(it, weighed, &w);
    }
}

/* Products follow one another. They are pipelined only where their tiles stay. */
typedef struct queue {
    product m[IN_FLIGHT];
    int last, count;
} queue;

static bool is_pipelined(const item *it)
{
    return DOTS_OVERLAP && it->args->param[PACK] == 1;
}

static void start_product(const item *it, queue *q, const tile *t, int panel)
{
    q->last = (q->last + 1) % IN_FLIGHT;
    product *m = &q->m[q->last];
    m->t = *t;
    m->panel = panel;
    m->panels = it->panels - panel > 2 ? 2 : it->panels - panel;
    m->score = it->score + (int64_t)(q->count % SCORES) * 2 * LANES * it->args->param[BLOCK_N];
    ++q->count;
    if (!is_pipelined(it)) {
        attend_at_once(it, m);
    } else {
        attend_pipelined(it, m, &q->m[(q->last + 2) % IN_FLIGHT], &q->m[(q->last + 1) % IN_FLIGHT]);
    }
}

/* The two stages that the last products lack. */
static void drain_products(const item *it, queue *q)
{
    const product none = {.panels = 0};
    product over = none;
    if (is_pipelined(it)) {
        attend_pipelined(it, &none, &q->m[q->last], &q->m[(q->last + 2) % IN_FLIGHT]);
        attend_pipelined(it, &none, &over, &q->m[q->last]);
    }
}

static void sweep_keys(item *it, int64_t first, int64_t last)
{
    queue q = {.count = 0};
    clear_rows(it);
    tiles_open();
    for (int64_t nth = first; nth <= last; ++nth) {
        tile t = find_tile(it, nth);
        for (int panel = 0; panel < it->panels; panel += 2) {
            start_product(it, &q, &t, panel);
        }
    }
    drain_products(it, &q);
    tiles_close();
}

static void attend_rows(const attune_args *args, int64_t index, void *scratch)
{
    item it;
    if (!find_rows(&it, args, index)) {
        return;
    }
    int64_t first;
    int64_t last = find_tiles(&it, &first);
    place(&it, scratch);
    pack_query(&it);
    it.flagged = has_flags(&it, first, last);
    if (!it.flagged) {
        sweep_keys(&it, first, last);
    }
    if (!it.flagged) { /* neither was there anything in what the item packs itself */
        close_rows(&it);
        store_out(&it);
        return;
    }
    for (int lane = 0; lane < it.panels * LANES; ++lane) {
        redo_lane(&it, lane);
    }
}

void ATTUNE_TIER(attune_cpu_bf16)(const attune_args *args, int64_t index, void *scratch);

void ATTUNE_TIER(attune_cpu_bf16)(const attune_args *args, int64_t index, void *scratch)
{
    if (args->param[PACK] == 1 && *(const uint32_t *)args->workspace == 0) {
        pack_tile(args, index);
    } else {
        attend_rows(args, index, scratch);
    }
}
