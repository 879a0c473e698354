/* cpu_tiled: attention in tiles with an online softmax; the CPU's general kernel. docs/cpu.md explains it.
 *
 * A work item is BLOCK_M query rows of one head. Everything stands transposed, so that the lanes of a vector are query
 * rows: S^T[key][row] = K Q^T, and O^T[column][row] = V^T P^T. Keys and values are then read as single numbers that are
 * broadcast, in the order they have in memory, and the softmax's maximum and sum need no reduction across lanes. Only
 * the queries and the result are ever transposed, once an item.
 *
 * One source for every tier: device/vector.h's vectors are as wide as the tier's registers.
 */
#include "device/product.h"
#include "device/sequence.h"
#include "device/vector.h"

enum { BLOCK_M, BLOCK_N }; /* places in attune_args.param */

/* ---- The item: which rows, which keys --------------------------------------------------------------------------- */

typedef struct item {
    const attune_args *args;
    int64_t batch, head, head_kv;
    int64_t start_q, start_kv; /* rows of the tensors where the sequence begins; 0 unless varlen */
    int64_t length_q, keys;    /* of the sequence; valid ones of its keys */
    int64_t first;             /* query row of the sequence */
    int64_t position;          /* of that row among the keys */
    int64_t left, right;       /* it sees keys left ... right; each row after it, one further */
    int rows;
    int vectors; /* of a panel */
    int panel;   /* rows (lanes) of a panel */
    int panels;
    int pitch;    /* floats from one row of `tile` to the next */
    bool careful; /* with keys and values that are not finite */
    float *query; /* [panels][head_dim_qk][panel], scaled */
    float *out;   /* [panels][head_dim_v][panel] */
    float *score; /* [panels][BLOCK_N][panel]: S^T, then P^T */
    float *tile;  /* [BLOCK_N][pitch]: keys or values as fp32 */
    float *top;   /* [rows, padded]: maximum of each row so far */
    float *sum;   /* likewise, of e^(S - maximum) */
    float *decay; /* likewise, what the last tile multiplies earlier sums by */
} item;

/* Some keys of the sequence, and where they or their values stand as fp32. */
typedef struct tile {
    int64_t first;
    int count;
    int64_t pitch;
    const float *data;
} tile;

/* Which rows item `index` has; false if its sequence ends before them. */
static bool find_rows(item *it, const attune_args *args, int64_t index)
{
    int64_t block = args->param[BLOCK_M];
    int64_t blocks = (args->seqlen_q + block - 1) / block;
    int64_t nth = index % blocks;
    int64_t head = index / blocks;
    /* Under a causal mask the last rows see the most keys: they go first, so that threads finish together. */
    nth = args->features & ATTUNE_FEATURE_CAUSAL ? blocks - 1 - nth : nth;
    it->args = args;
    it->first = nth * block;
    it->batch = head / args->heads_q;
    it->head = head - it->batch * args->heads_q;
    it->head_kv = it->head / (args->heads_q / args->heads_kv);
    lengths of = find_lengths(args, it->batch);
    it->start_q = of.start_q;
    it->start_kv = of.start_kv;
    it->length_q = of.length_q;
    it->keys = of.keys;
    window seen = find_window(args, &of, it->first);
    it->position = seen.position;
    it->left = seen.left;
    it->right = seen.right;
    it->rows = (int)lesser_of(it->length_q - it->first, block);
    return it->rows > 0;
}

/* Lays the scratch out. The descriptor's resources() counts the same. */
static void place(item *it, float *scratch)
{
    const attune_args *args = it->args;
    int block_m = args->param[BLOCK_M];
    int lanes = block_m < 16 ? 16 : block_m; /* of every tier: none has wider vectors */
    int widest = args->head_dim_qk > args->head_dim_v ? args->head_dim_qk : args->head_dim_v;
    it->vectors = it->rows <= VL || block_m <= VL ? 1 : 2;
    it->panel = it->vectors * VL;
    it->panels = (it->rows + it->panel - 1) / it->panel;
    it->pitch = (widest + 15) / 16 * 16;
    it->query = scratch;
    it->out = it->query + lanes * args->head_dim_qk;
    it->top = it->out + lanes * args->head_dim_v;
    it->sum = it->top + lanes;
    it->decay = it->sum + lanes;
    it->score = it->decay + lanes;
    it->tile = it->score + lanes * args->param[BLOCK_N];
}

/* Address of a row of Q, O, K or V, in its sequence. */
static char *row_of(const item *it, attune_role role, int64_t head, int64_t start, int64_t row)
{
    return row_address(it->args, role, it->batch, head, start + row);
}

/* ---- Stages of an item ------------------------------------------------------------------------------------------ */

static void pack_query(const item *it)
{
    int depth = it->args->head_dim_qk;
    int dtype = it->args->dtype;
    int64_t step = it->args->tensor[ATTUNE_Q].stride[ATTUNE_STRIDE_SEQ] * bytes_of(dtype);
    const char *from = row_of(it, ATTUNE_Q, it->head, it->start_q, it->first);
    for (int row = 0; row < it->panels * it->panel; row += VL) {
        float *to = it->query + (int64_t)(row / it->panel) * depth * it->panel + row % it->panel;
        for (int p = 0; p < depth; p += VL) {
            vf x[VL];
            UNROLL
            for (int r = 0; r < VL; ++r) {
                x[r] = splat(0);
                if (row + r < it->rows) {
                    const char *at = from + (row + r) * step + p * bytes_of(dtype);
                    x[r] = load_some(at, dtype, depth - p) * it->args->scale;
                }
            }
            transpose(x);
            for (int c = 0; c < VL && p + c < depth; ++c) {
                store(to + (p + c) * it->panel, x[c]);
            }
        }
    }
}

static void clear_rows(const item *it)
{
    for (int row = 0; row < it->panels * it->panel; row += VL) {
        store(it->top + row, splat(-INFINITY));
        store(it->sum + row, splat(0));
    }
    memset(it->out, 0, sizeof(float) * (size_t)(it->panels * it->panel) * (size_t)it->args->head_dim_v);
}

/* The tile's rows of K or V as fp32: where they are, if they can be read there, else copied. */
static void fetch(const item *it, attune_role role, int start_dim, tile *t)
{
    const int dtype = it->args->dtype;
    const char *from = row_of(it, role, it->head_kv, it->start_kv, t->first);
    int64_t step = it->args->tensor[role].stride[ATTUNE_STRIDE_SEQ] * bytes_of(dtype);
    /* NOTE: rows a multiple of 4096 bytes apart share one set of the L1 cache, whose 8 ways a product's rows would
     * overflow; up to 1 KB apart they do not. */
    if (dtype == ATTUNE_FP32 && (uintptr_t)from % sizeof(float) == 0 && step <= 1024) {
        t->data = (const float *)from;
        t->pitch = step / (int64_t)sizeof(float);
        return;
    }
    for (int row = 0; row < t->count; ++row) {
        for (int c = 0; c < start_dim; c += VL) {
            store(it->tile + row * it->pitch + c,
                  load_some(from + row * step + c * bytes_of(dtype), dtype, start_dim - c));
        }
    }
    t->data = it->tile;
    t->pitch = it->pitch;
}

/* Scores of rows row ... row + VL - 1 of the item, in the tile. */
static float *scores_of(const item *it, int row)
{
    int64_t panel = row / it->panel;
    return it->score + panel * it->args->param[BLOCK_N] * it->panel + row % it->panel;
}

static void score_tile(const item *it, const tile *t)
{
    int depth = it->args->head_dim_qk;
    for (int n = 0, rows; n < t->count; n += rows) {
        rows = next_group(t->count - n, it->vectors);
        for (int panel = 0; panel < it->panels; ++panel) {
            int row = panel * it->panel;
            score_keys(rows, it->vectors, t->data + n * t->pitch, t->pitch, it->query + (int64_t)row * depth, depth,
                       scores_of(it, row) + n * it->panel);
        }
    }
}

static void add_values(const item *it, const tile *t)
{
    int columns = it->args->head_dim_v;
    for (int panel = 0; panel < it->panels; ++panel) {
        int row = panel * it->panel;
        float *out = it->out + (int64_t)row * columns;
        for (int c = 0, group; c < columns; c += group) {
            group = next_group(columns - c, it->vectors);
            add_columns(group, it->vectors, t->data + c, t->pitch, scores_of(it, row), t->count, it->decay + row,
                        out + c * it->panel);
        }
    }
}

/* The same, careful with values that are not finite: a hidden key, whose weight is -0, is left out, and a weight or a
 * decay that has become 0 does not turn infinity into NaN. */
static void add_values_carefully(const item *it, const tile *t)
{
    int columns = it->args->head_dim_v;
    for (int row = 0; row < it->panels * it->panel; row += VL) {
        const float *weight = scores_of(it, row);
        float *out = it->out + (int64_t)(row / it->panel) * columns * it->panel + row % it->panel;
        for (int c = 0; c < columns; ++c, out += it->panel) {
            vf before = load(out);
            vf sum = blend(magnitude(before) == splat(INFINITY), before, before * load(it->decay + row));
            for (int n = 0; n < t->count; ++n) {
                float value = t->data[n * t->pitch + c];
                vf p = load(weight + n * it->panel);
                vi seen = (vi)((vu)p != SIGN);
                sum += (vf)(seen & (vi)(greater(p, splat(isinf(value) ? 0x1p-126f : 0)) * value));
            }
            store(out, sum);
        }
    }
}

/* ---- Scores: everything between Q K^T and the softmax ----------------------------------------------------------- */

static void cap_scores(const item *it, const tile *t, float *score)
{
    float cap = it->args->softcap;
    for (int i = 0; i < t->count * it->panel; i += VL) {
        store(score + i, hyperbolic_tangent(load(score + i) / cap) * cap);
    }
}

/* Address of element (row, key) of BIAS or MASK. */
static const char *plane_of(const item *it, attune_role role, int64_t row, int64_t key, int64_t bytes)
{
    const attune_tensor *t = &it->args->tensor[role];
    int64_t at = it->batch * t->stride[ATTUNE_STRIDE_BATCH] + it->head * t->stride[ATTUNE_STRIDE_HEAD] +
                 row * t->stride[ATTUNE_STRIDE_SEQ] + key;
    return (const char *)t->data + at * bytes;
}

/* VL lanes of rows from `row` on, for the VL keys from n on: bias, transposed. Zero where there is nothing. */
INLINE void load_bias(const item *it, const tile *t, int row, int n, vf x[VL])
{
    int dtype = it->args->dtype;
    UNROLL
    for (int r = 0; r < VL; ++r) {
        x[r] = splat(0);
        if (row + r < it->rows) {
            const char *from = plane_of(it, ATTUNE_BIAS, it->first + row + r, t->first + n, bytes_of(dtype));
            x[r] = load_some(from, dtype, t->count - n);
        }
    }
    transpose(x);
}

/* The same from the mask: all bits set where the key is hidden. */
INLINE void load_mask(const item *it, const tile *t, int row, int n, vf x[VL])
{
    UNROLL
    for (int r = 0; r < VL; ++r) {
        vb seen = {0};
        if (row + r < it->rows) {
            int count = t->count - n < VL ? t->count - n : VL;
            memcpy(&seen, plane_of(it, ATTUNE_MASK, it->first + row + r, t->first + n, 1), (size_t)count);
        }
        x[r] = (vf)(__builtin_convertvector(seen, vu) == 0u);
    }
    transpose(x);
}

static void add_bias(const item *it, const tile *t, int row)
{
    float *score = scores_of(it, row);
    for (int n = 0; n < t->count; n += VL) {
        vf x[VL];
        load_bias(it, t, row, n, x);
        for (int k = 0; k < VL && n + k < t->count; ++k) {
            float *at = score + (n + k) * it->panel;
            /* -infinity hides its key whatever the score: NaN and +infinity too. */
            store(at, blend(x[k] == splat(-INFINITY), x[k], load(at) + x[k]));
        }
    }
}

static void add_alibi(const item *it, const tile *t, int row)
{
    const attune_tensor *slopes = &it->args->tensor[ATTUNE_SLOPES];
    float slope;
    memcpy(&slope, (const float *)slopes->data + it->head * slopes->stride[ATTUNE_STRIDE_HEAD], sizeof slope);
    float *score = scores_of(it, row);
    vf ahead = lane_numbers() + (float)(it->position + row - t->first);
    for (int n = 0; n < t->count; ++n) {
        float *at = score + n * it->panel;
        store(at, load(at) - slope * magnitude(ahead - (float)n));
    }
}

static void hide_masked(const item *it, const tile *t, int row)
{
    float *score = scores_of(it, row);
    for (int n = 0; n < t->count; n += VL) {
        vf x[VL];
        load_mask(it, t, row, n, x);
        for (int k = 0; k < VL && n + k < t->count; ++k) {
            float *at = score + (n + k) * it->panel;
            store(at, blend((vi)x[k], splat(-INFINITY), load(at)));
        }
    }
}

/* Hides keys outside of each row's window. */
static void hide_outside(const item *it, const tile *t, int row)
{
    const int64_t far = 1 << 20; /* beyond any tile, exact in fp32 */
    float *score = scores_of(it, row);
    vf left = lane_numbers() + (float)lesser_of(greater_of(it->left + row - t->first, -far), far);
    vf right = lane_numbers() + (float)lesser_of(greater_of(it->right + row - t->first, -far), far);
    for (int n = 0; n < t->count; ++n) {
        float *at = score + n * it->panel;
        vf key = splat((float)n);
        store(at, blend((key < left) | (key > right), splat(-INFINITY), load(at)));
    }
}

/* Applies what the problem asks for. */
static void dress_scores(const item *it, const tile *t)
{
    uint32_t features = it->args->features;
    bool cut = t->first < it->left + it->rows - 1 || t->first + t->count - 1 > it->right;
    for (int panel = 0; (features & ATTUNE_FEATURE_SOFTCAP) && panel < it->panels; ++panel) {
        cap_scores(it, t, scores_of(it, panel * it->panel));
    }
    for (int row = 0; row < it->panels * it->panel; row += VL) {
        if (features & ATTUNE_FEATURE_BIAS) {
            add_bias(it, t, row);
        }
        if (features & ATTUNE_FEATURE_ALIBI) {
            add_alibi(it, t, row);
        }
        if (features & ATTUNE_FEATURE_MASK) {
            hide_masked(it, t, row);
        }
        if (cut) {
            hide_outside(it, t, row);
        }
    }
}

/* ---- Softmax ---------------------------------------------------------------------------------------------------- */

/* Turns scores into weights e^(S - maximum), and carries maximum and sum on: so many vectors of each key, whose scores
 * are `step` vectors from the next key's. */
INLINE void weigh(int vectors, int step, bool careful, int keys, float *score, float *top, float *sum, float *decay)
{
    vf highest[2], base[2], total[2];
    UNROLL
    for (int v = 0; v < vectors; ++v) {
        highest[v] = load(top + v * VL);
    }
    for (int n = 0; n < keys; ++n) {
        UNROLL
        for (int v = 0; v < vectors; ++v) {
            highest[v] = greater(load(score + (n * step + v) * VL), highest[v]);
        }
    }
    UNROLL
    for (int v = 0; v < vectors; ++v) {
        /* A row that has seen nothing yet keeps its maximum of -infinity, from which nothing can be subtracted. */
        base[v] = blend(highest[v] == splat(-INFINITY), splat(0), highest[v]);
        store(decay + v * VL, exponential(load(top + v * VL) - base[v]));
        store(top + v * VL, highest[v]);
        total[v] = splat(0);
    }
    for (int n = 0; n < keys; ++n) {
        UNROLL
        for (int v = 0; v < vectors; ++v) {
            float *at = score + (n * step + v) * VL;
            vf s = load(at);
            vf p = exponential(s - base[v]);
            total[v] += p;
            /* Hidden keys get the weight -0, by which add_values_carefully knows them. */
            store(at, careful ? (vf)((vu)p | ((vu)(s == splat(-INFINITY)) & SIGN)) : p);
        }
    }
    UNROLL
    for (int v = 0; v < vectors; ++v) {
        store(sum + v * VL, load(sum + v * VL) * load(decay + v * VL) + total[v]);
    }
}

static void weigh_tile(const item *it, const tile *t)
{
    for (int panel = 0; panel < it->panels; ++panel) {
        int row = panel * it->panel;
        float *score = scores_of(it, row);
        if (it->careful) {
            for (int v = 0; v < it->vectors; ++v) {
                weigh(1, it->vectors, true, t->count, score + v * VL, it->top + row + v * VL, it->sum + row + v * VL,
                      it->decay + row + v * VL);
            }
        } else if (it->vectors == 1) {
            weigh(1, 1, false, t->count, score, it->top + row, it->sum + row, it->decay + row);
        } else {
            weigh(2, 2, false, t->count, score, it->top + row, it->sum + row, it->decay + row);
        }
    }
}

/* ---- The end of an item ----------------------------------------------------------------------------------------- */

/* Decay becomes what O must be multiplied by, top the LSE. */
static void close_rows(const item *it)
{
    float sink = sink_of(it->args, it->head);
    for (int row = 0; row < it->rows; ++row) {
        it->decay[row] = close_row(sink, it->sum[row], &it->top[row]);
    }
}

static void store_lse(const item *it)
{
    for (int row = 0; row < it->rows; ++row) {
        store_row_lse(it->args, it->batch, it->head, it->start_q + it->first + row, it->top[row]);
    }
}

/* False if a row has NaN. */
static bool store_out(const item *it)
{
    vi bad = {0};
    int columns = it->args->head_dim_v;
    int dtype = it->args->dtype;
    int64_t step = it->args->tensor[ATTUNE_O].stride[ATTUNE_STRIDE_SEQ] * bytes_of(dtype);
    char *to = row_of(it, ATTUNE_O, it->head, it->start_q, it->first);
    for (int row = 0; row < it->rows; row += VL) {
        const float *from = it->out + (int64_t)(row / it->panel) * columns * it->panel + row % it->panel;
        for (int c = 0; c < columns; c += VL) {
            vf x[VL];
            UNROLL
            for (int k = 0; k < VL; ++k) {
                x[k] = c + k < columns ? load(from + (c + k) * it->panel) : splat(0);
            }
            transpose(x);
            for (int r = 0; r < VL && row + r < it->rows; ++r) {
                bad |= x[r] != x[r];
                store_some(to + (row + r) * step + c * bytes_of(dtype), dtype, columns - c, x[r] * it->decay[row + r]);
            }
        }
    }
    return !any(bad);
}

static void sweep_keys(const item *it)
{
    const attune_args *args = it->args;
    int64_t last = lesser_of(it->keys - 1, it->right + it->rows - 1);
    tile t = {.first = greater_of(it->left, 0)};
    clear_rows(it);
    for (; t.first <= last; t.first += t.count) {
        t.count = (int)lesser_of(last + 1 - t.first, args->param[BLOCK_N]);
        fetch(it, ATTUNE_K, args->head_dim_qk, &t);
        score_tile(it, &t);
        dress_scores(it, &t);
        weigh_tile(it, &t);
        fetch(it, ATTUNE_V, args->head_dim_v, &t);
        if (it->careful) {
            add_values_carefully(it, &t);
        } else {
            add_values(it, &t);
        }
    }
    close_rows(it);
}

void ATTUNE_TIER(attune_cpu_tiled)(const attune_args *args, int64_t index, void *scratch);

void ATTUNE_TIER(attune_cpu_tiled)(const attune_args *args, int64_t index, void *scratch)
{
    item it;
    if (!find_rows(&it, args, index)) {
        return;
    }
    place(&it, scratch);
    pack_query(&it);
    it.careful = false;
    sweep_keys(&it);
    store_lse(&it);
    if (!store_out(&it)) {
        /* A NaN may be a row's own, or 0 times a value that the row does not see. The weights of hidden keys always
         * meet such a value, so nothing else needs to be looked at: only then is the item done again, carefully. */
        it.careful = true;
        sweep_keys(&it);
        (void)store_out(&it);
    }
}
