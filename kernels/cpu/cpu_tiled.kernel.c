/* cpu_tiled: attention in tiles with an online softmax; the CPU's general kernel. docs/cpu.md explains it.
 *
 * A work item is BLOCK_M query rows of one head. Everything is transposed, so that the lanes of a vector are query
 * rows: S^T[key][row] = K Q^T, and O^T[column][row] = V^T P^T. Keys and values are then read as single numbers that are
 * broadcast, in the order they have in memory, and the softmax's maximum and sum need no reduction across lanes. Only
 * the queries and the result are ever transposed, once an item.
 *
 * One source for every tier: device/vector.h's vectors are as wide as the tier's registers.
 */
#include "device/exact.h"
#include "device/parts.h"
#include "device/product.h"
#include "device/score.h"

enum { BLOCK_M, BLOCK_N, PANEL, EXP, PREFETCH, PACK, ORDER, SPLIT }; /* places in attune_args.param */

/* ---- The item: which rows, which keys --------------------------------------------------------------------------- */

typedef struct item {
    const attune_args *args;
    int64_t batch, head, head_kv;
    lengths of;
    kv_rows key, value;
    int64_t first;       /* query row of the sequence */
    window seen;         /* by that row; each row after it sees one key further */
    int64_t part, parts; /* of the keys */
    int rows;
    int vectors; /* of a panel */
    int panel;   /* rows (lanes) of a panel */
    int panels;
    float *query; /* [panels][head_dim_qk][panel], scaled */
    float *out;   /* [panels][head_dim_v][panel] */
    float *score; /* [panels][BLOCK_N][panel]: S^T, then P^T */
    float *piece; /* [at most 12][head_dim_qk] or [BLOCK_N][PACKED_COLUMNS], padded: what is packed of K or V */
    float *top;   /* [rows, padded]: maximum of each row so far */
    float *sum;   /* likewise, of e^(S - maximum) */
    float *decay; /* likewise, what the last tile multiplies earlier sums by */
} item;

/* Some keys of the sequence, and their rows of K or V. */
typedef struct tile {
    int64_t first;
    int count;
    int dtype;
    const kv_rows *rows;
    int64_t ahead; /* bytes to the rows that are asked for in advance */
} tile;

/* Numbers of a tile as fp32, some of its rows and columns. */
typedef struct piece {
    const float_unaligned *data;
    int64_t pitch; /* floats */
} piece;

/* Columns of V that are packed at once. NOTE: whole groups of 12, 8 or 6 columns, and whole vectors. */
enum { PACKED_COLUMNS = 48 };

/* Which `block` rows item `index` has, not counting parts; false if its sequence ends before them. Heads by heads, or
 * all heads' blocks of the same rows together. */
static bool find_rows(item *it, const attune_args *args, int64_t block, int64_t index)
{
    int64_t blocks = (args->seqlen_q + block - 1) / block;
    int64_t heads = args->batch * args->heads_q;
    bool by_blocks = args->param[ORDER] != 0;
    int64_t nth = by_blocks ? index / heads : index % blocks;
    int64_t head = by_blocks ? index % heads : index / blocks;
    /* Under a causal mask the last rows see the most keys: they go first, so that threads finish together. */
    nth = args->features & ATTUNE_FEATURE_CAUSAL ? blocks - 1 - nth : nth;
    it->args = args;
    it->first = nth * block;
    it->batch = head / args->heads_q;
    it->head = head - it->batch * args->heads_q;
    it->head_kv = it->head / (args->heads_q / args->heads_kv);
    it->of = find_lengths(args, it->batch);
    it->key = find_kv(args, ATTUNE_K, it->batch, it->head_kv, &it->of);
    it->value = find_kv(args, ATTUNE_V, it->batch, it->head_kv, &it->of);
    it->seen = find_window(args, &it->of, it->first);
    it->rows = (int)lesser_of(it->of.length_q - it->first, block);
    return it->rows > 0;
}

/* Lays the scratch out. The descriptor's resources() counts the same. */
static void place(item *it, float *scratch)
{
    const attune_args *args = it->args;
    int block_m = args->param[BLOCK_M];
    int lanes = (block_m + VL - 1) / VL * VL;
    it->vectors = (int)lesser_of(args->param[PANEL], (it->rows + VL - 1) / VL);
    it->panel = it->vectors * VL;
    it->panels = (it->rows + it->panel - 1) / it->panel;
    it->query = scratch;
    it->out = it->query + lanes * args->head_dim_qk;
    it->top = it->out + lanes * args->head_dim_v;
    it->sum = it->top + lanes;
    it->decay = it->sum + lanes;
    it->score = it->decay + lanes;
    it->piece = it->score + lanes * args->param[BLOCK_N];
}

/* Address of a row of Q or O, in its sequence. */
static char *row_of(const item *it, attune_role role, int64_t row)
{
    return row_address(it->args, role, it->batch, it->head, it->of.start_q + row);
}

/* Asks for `rows` rows of `bytes`, to read or to write, `ahead` bytes after `from`: that may be beyond all memory. */
INLINE void ask_for(const char *from, int64_t ahead, int64_t step, int rows, int64_t bytes, const int writing)
{
    uintptr_t at = (uintptr_t)from + (uintptr_t)ahead;
    for (int row = 0; row < rows; ++row, at += (uintptr_t)step) {
        for (int64_t line = 0; line < bytes; line += 64) {
            const void *there = (const void *)(at + (uintptr_t)line);
            if (writing) { /* clang takes the kind of a prefetch as a literal only */
                __builtin_prefetch(there, 1);
            } else {
                __builtin_prefetch(there, 0);
            }
        }
    }
}

/* ---- Stages of an item ------------------------------------------------------------------------------------------ */

/* Packs VL rows from `row` on, of which `rows` are there; the others are zero. */
INLINE void pack_rows(int dtype, const item *it, const char *from, int64_t step, int rows, float *to)
{
    int depth = it->args->head_dim_qk;
    for (int p = 0; p < depth; p += VL) {
        vf x[VL];
        UNROLL
        for (int r = 0; r < VL; ++r) {
            x[r] = splat(0);
            if (r < rows) {
                x[r] = load_some(from + r * step + p * bytes_of(dtype), dtype, depth - p) * it->args->scale;
            }
        }
        transpose(x);
        for (int c = 0; c < VL && p + c < depth; ++c) {
            store(to + (p + c) * it->panel, x[c]);
        }
    }
}

static void pack_query(const item *it)
{
    int dtype = it->args->tensor[ATTUNE_Q].dtype;
    int64_t step = it->args->tensor[ATTUNE_Q].stride[ATTUNE_STRIDE_SEQ] * bytes_of(dtype);
    const char *from = row_of(it, ATTUNE_Q, it->first);
    /* A transposition reads few bytes of many rows at a time: too few for the hardware to see that all will be read. */
    ask_for(from, 0, step, it->rows, it->args->head_dim_qk * bytes_of(dtype), 0);
    for (int row = 0; row < it->panels * it->panel; row += VL) {
        float *to = it->query + (int64_t)(row / it->panel) * it->args->head_dim_qk * it->panel + row % it->panel;
        WITH_DTYPE(dtype, pack_rows, it, from + row * step, step, it->rows - row, to)
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

INLINE void copy_rows(int dtype, const char *from, int64_t step, int rows, int dims, float *to, int pitch)
{
    for (int row = 0; row < rows; ++row, from += step, to += pitch) {
        int c = 0;
        for (; c <= dims - VL; c += VL) {
            store(to + c, load_any(from + c * bytes_of(dtype), dtype));
        }
        if (c < dims) {
            store(to + c, load_some(from + c * bytes_of(dtype), dtype, dims - c));
        }
    }
}

/* Finds the tile's rows in K or V. NOTE: where the next tile's lie is not asked for in pages. */
static void find_tile(const item *it, attune_role role, tile *t)
{
    t->rows = role == ATTUNE_K ? &it->key : &it->value;
    t->dtype = it->args->tensor[role].dtype;
    t->ahead = t->rows->table == NULL ? t->rows->step * it->args->param[BLOCK_N] * it->args->param[PREFETCH] : 0;
}

static void pack_piece(const item *it, const tile *t, int row, int rows, int column, int columns, int pitch)
{
    for (int n = 0, run; n < rows; n += run) {
        run = kv_run(t->rows, t->first + row + n, rows - n);
        const char *from = kv_row(t->rows, t->first + row + n) + column * bytes_of(t->dtype);
        WITH_DTYPE(t->dtype, copy_rows, from, t->rows->step, run, columns, it->piece + n * pitch, pitch)
    }
}

/* Rows and columns of the tile as fp32: where they are, or packed. */
static piece fetch(const item *it, const tile *t, int row, int rows, int column, int columns)
{
    if (it->args->param[PACK] == 0) {
        const char *from = kv_row(t->rows, t->first + row) + column * bytes_of(t->dtype);
        return (piece){(const float_unaligned *)from, t->rows->step / (int64_t)sizeof(float)};
    }
    int pitch = (columns + 15) / 16 * 16;
    pack_piece(it, t, row, rows, column, columns, pitch);
    return (piece){it->piece, pitch};
}

/* The columns of V from `column` on that are fetched at once. */
static int columns_at_once(const item *it, int column)
{
    int rest = it->args->head_dim_v - column;
    return it->args->param[PACK] == 0 || rest < PACKED_COLUMNS ? rest : PACKED_COLUMNS;
}

/* Asks for rows of K or V of a tile to come, `bytes` of each. */
static void fetch_ahead(const tile *t, int row, int rows, int64_t bytes)
{
    if (t->ahead != 0) {
        ask_for(kv_row(t->rows, t->first + row), t->ahead, t->rows->step, rows, bytes, 0);
    }
}

/* Scores of rows row ... row + VL - 1 of the item, in the tile. */
static float *score_at(const item *it, int row)
{
    int64_t panel = row / it->panel;
    return it->score + panel * it->args->param[BLOCK_N] * it->panel + row % it->panel;
}

static void score_tile(const item *it, const tile *t)
{
    int depth = it->args->head_dim_qk;
    for (int n = 0, rows; n < t->count; n += rows) {
        rows = next_group(t->count - n, it->vectors);
        piece keys = fetch(it, t, n, rows, 0, depth);
        fetch_ahead(t, n, rows, depth * bytes_of(t->dtype));
        for (int panel = 0; panel < it->panels; ++panel) {
            int row = panel * it->panel;
            score_keys(rows, it->vectors, keys.data, keys.pitch, it->query + (int64_t)row * depth, depth,
                       score_at(it, row) + n * it->panel);
        }
    }
}

/* Asks for an even share of the rows to come with every group of columns. */
static void fetch_share(const item *it, const tile *t, int column, int group)
{
    int columns = it->args->head_dim_v;
    int row = t->count * column / columns;
    fetch_ahead(t, row, t->count * (column + group) / columns - row, columns * bytes_of(t->dtype));
}

/* Adds the values of some columns. */
static void add_piece(const item *it, const tile *t, const piece *values, int first, int columns)
{
    for (int panel = 0; panel < it->panels; ++panel) {
        int row = panel * it->panel;
        float *out = it->out + (int64_t)row * it->args->head_dim_v + (int64_t)first * it->panel;
        for (int c = 0, group; c < columns; c += group) {
            group = next_group(columns - c, it->vectors);
            if (panel == 0) {
                fetch_share(it, t, first + c, group);
            }
            add_columns(group, it->vectors, values->data + c, values->pitch, score_at(it, row), t->count,
                        it->decay + row, out + c * it->panel);
        }
    }
}

static void add_values(const item *it, const tile *t)
{
    for (int c = 0, columns; c < it->args->head_dim_v; c += columns) {
        columns = columns_at_once(it, c);
        piece values = fetch(it, t, 0, t->count, c, columns);
        add_piece(it, t, &values, c, columns);
    }
}

/* ---- Scores: everything between Q K^T and the softmax ----------------------------------------------------------- */

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
    int dtype = it->args->tensor[ATTUNE_BIAS].dtype;
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

static void add_biases(const item *it, const tile *t, int row)
{
    float *score = score_at(it, row);
    for (int n = 0; n < t->count; n += VL) {
        vf x[VL];
        load_bias(it, t, row, n, x);
        for (int k = 0; k < VL && n + k < t->count; ++k) {
            float *at = score + (n + k) * it->panel;
            store(at, add_bias(load(at), x[k]));
        }
    }
}

static void hide_masked(const item *it, const tile *t, int row)
{
    float *score = score_at(it, row);
    for (int n = 0; n < t->count; n += VL) {
        vf x[VL];
        load_mask(it, t, row, n, x);
        for (int k = 0; k < VL && n + k < t->count; ++k) {
            float *at = score + (n + k) * it->panel;
            store(at, blend((vi)x[k], splat(-INFINITY), load(at)));
        }
    }
}

/* Hides what drafts do not see of the queries' own keys. */
static void hide_drafts(const item *it, const tile *t, int row)
{
    uint32_t sees[VL];
    draft_row draft = {.first = t->first + t->count};
    for (int r = 0; r < VL; ++r) {
        draft = find_draft(it->args, &it->of, it->batch, it->first + lesser_of(row + r, it->rows - 1));
        sees[r] = draft.sees;
    }
    vu all;
    memcpy(&all, sees, sizeof all);
    for (int64_t n = greater_of(draft.first - t->first, 0); n < t->count; ++n) {
        float *at = score_at(it, row) + n * it->panel;
        vi seen = (vi)((all >> (uint32_t)(t->first + n - draft.first) & 1u) != 0u);
        store(at, blend(seen, load(at), splat(-INFINITY)));
    }
}

/* Products become scores, but for the scale, which the queries have. */
static void prepare_scores(const item *it, const tile *t)
{
    uint32_t features = it->args->features;
    vf slope = splat(slope_of(it->args, it->head));
    bool masked = needs_mask(&it->seen, it->rows, t->first, t->first + t->count - 1);
    for (int row = 0; row < it->panels * it->panel; row += VL) {
        scores s =
            scores_of_rows(score_at(it, row), t->count, it->panel, lane_numbers(), it->seen.position + row - t->first);
        apply_score(it->args, &s, 1, slope);
        if (features & ATTUNE_FEATURE_BIAS) {
            add_biases(it, t, row);
        }
        if (features & ATTUNE_FEATURE_MASK) {
            hide_masked(it, t, row);
        }
        if (masked) {
            hide_outside(&s, lane_numbers() + side_of_tile(it->seen.left + row, t->first),
                         lane_numbers() + side_of_tile(it->seen.right + row, t->first));
        }
        if ((features & ATTUNE_FEATURE_DRAFT) && t->first + t->count > it->of.keys - it->of.length_q) {
            hide_drafts(it, t, row);
        }
    }
}

/* ---- Softmax ---------------------------------------------------------------------------------------------------- */

/* Turns scores into weights e^(S - maximum), by a polynomial of this degree, and carries maximum and sum on: so many
 * vectors of each key, whose scores are `step` vectors from the next key's. */
INLINE void weigh(int degree, int vectors, int step, int keys, float *score, float *top, float *sum, float *decay)
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
            vf p = exponential_of(degree, load(at) - base[v]);
            total[v] += p;
            store(at, p);
        }
    }
    UNROLL
    for (int v = 0; v < vectors; ++v) {
        store(sum + v * VL, load(sum + v * VL) * load(decay + v * VL) + total[v]);
    }
}

INLINE void weigh_panel(int degree, const item *it, int keys, int row)
{
    float *score = score_at(it, row);
    int v = 0;
    for (; v + 2 <= it->vectors; v += 2) {
        int at = row + v * VL;
        weigh(degree, 2, it->vectors, keys, score + v * VL, it->top + at, it->sum + at, it->decay + at);
    }
    for (; v < it->vectors; ++v) {
        int at = row + v * VL;
        weigh(degree, 1, it->vectors, keys, score + v * VL, it->top + at, it->sum + at, it->decay + at);
    }
}

static void weigh_tile(const item *it, const tile *t)
{
    for (int row = 0; row < it->panels * it->panel; row += it->panel) {
        switch (it->args->param[EXP]) {
        case 4:
            weigh_panel(4, it, t->count, row);
            break;
        case 5:
            weigh_panel(5, it, t->count, row);
            break;
        default:
            weigh_panel(6, it, t->count, row);
            break;
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
        store_row_lse(it->args, it->batch, it->head, it->of.start_q + it->first + row, it->top[row]);
    }
}

static part_rows parts_of(const item *it)
{
    const attune_args *args = it->args;
    return find_parts(args, it->batch * args->heads_q + it->head, it->parts, args->seqlen_q,
                      (args->head_dim_v + 15) / 16 * 16);
}

/* Columns c ... of rows row ... row + VL - 1, one vector a row. */
INLINE void load_rows(const item *it, int row, int c, vf x[VL])
{
    int columns = it->args->head_dim_v;
    const float *from = it->out + (int64_t)(row / it->panel) * columns * it->panel + row % it->panel;
    UNROLL
    for (int k = 0; k < VL; ++k) {
        x[k] = c + k < columns ? load(from + (c + k) * it->panel) : splat(0);
    }
    transpose(x);
}

/* Stores VL rows of O from `row` on, as many of them as there are; *bad becomes all ones where a number is not finite.
 */
INLINE void store_rows(int dtype, const item *it, int row, vi *bad)
{
    int columns = it->args->head_dim_v;
    int64_t step = it->args->tensor[ATTUNE_O].stride[ATTUNE_STRIDE_SEQ] * bytes_of(dtype);
    char *to = row_of(it, ATTUNE_O, it->first + row);
    for (int c = 0; c < columns; c += VL) {
        vf x[VL];
        load_rows(it, row, c, x);
        for (int r = 0; r < VL && row + r < it->rows; ++r) {
            *bad |= not_finite(x[r]);
            store_some(to + r * step + c * bytes_of(dtype), dtype, columns - c, x[r] * it->decay[row + r]);
        }
    }
}

/* Stores what O is; false if something is not finite. */
static bool store_out(const item *it)
{
    vi bad = {0};
    for (int row = 0; row < it->rows; row += VL) {
        WITH_DTYPE(it->args->tensor[ATTUNE_O].dtype, store_rows, it, row, &bad)
    }
    return !any(bad);
}

/* Leaves the rows in the workspace; false if something is not finite. */
static bool store_part(const item *it)
{
    vi bad = {0};
    part_rows parts = parts_of(it);
    for (int row = 0; row < it->rows; row += VL) {
        for (int c = 0; c < parts.pitch; c += VL) {
            vf x[VL];
            load_rows(it, row, c, x);
            for (int r = 0; r < VL && row + r < it->rows; ++r) {
                bad |= not_finite(x[r]);
                store(part_row(&parts, it->part, it->first + row + r) + c, x[r]);
            }
        }
    }
    for (int row = 0; row < it->rows; ++row) {
        leave_part(&parts, part_row(&parts, it->part, it->first + row), it->top[row], it->sum[row]);
    }
    return !any(bad);
}

/* Stores the rows' results; false if something is not finite. */
static bool finish_rows(const item *it)
{
    if (it->parts > 1) {
        return store_part(it);
    }
    const attune_args *args = it->args;
    int64_t bytes = bytes_of(args->tensor[ATTUNE_O].dtype);
    ask_for(row_of(it, ATTUNE_O, it->first), 0, args->tensor[ATTUNE_O].stride[ATTUNE_STRIDE_SEQ] * bytes, it->rows,
            args->head_dim_v * bytes, 1);
    close_rows(it);
    store_lse(it);
    return store_out(it);
}

static bool is_finite(const item *it, int row)
{
    const int columns = it->args->head_dim_v;
    const float *from = it->out + (int64_t)(row / it->panel) * columns * it->panel + row % it->panel;
    bool finite = true;
    for (int c = 0; c < columns; ++c) {
        finite = finite && isfinite(from[c * it->panel]);
    }
    return finite;
}

/* Computes those rows again that have numbers that are not finite. */
static void redo_rows(const item *it)
{
    const int64_t split = it->args->param[SPLIT];
    for (int row = 0; row < it->rows; ++row) {
        const int64_t query = it->first + row;
        if (is_finite(it, row)) {
            continue;
        }
        if (it->parts > 1) {
            const part_rows parts = parts_of(it);
            redo_row(it->args, it->batch, it->head, query, it->part * split, (it->part + 1) * split - 1, &parts,
                     part_row(&parts, it->part, query));
        } else {
            redo_row(it->args, it->batch, it->head, query, 0, INT64_MAX, NULL, NULL);
        }
    }
}

/* Rows of an item that merges: few, so that there is work for all threads. */
enum { MERGED_ROWS = 8 };

/* Merges what the parts left of the item's rows. */
static void merge_rows(const item *it, float *out)
{
    part_rows parts = parts_of(it);
    float sink = sink_of(it->args, it->head);
    for (int row = 0; row < it->rows; ++row) {
        const int64_t query = it->first + row;
        float lse;
        merge_parts(&parts, query, sink, out, &lse);
        store_row_out(it->args, it->batch, it->head, it->of.start_q + query, out, 1);
        store_row_lse(it->args, it->batch, it->head, it->of.start_q + query, lse);
    }
}

/* ---- The whole -------------------------------------------------------------------------------------------------- */

static void sweep_keys(const item *it)
{
    const attune_args *args = it->args;
    int64_t split = args->param[SPLIT];
    int64_t last = lesser_of(it->of.keys - 1, it->seen.right + it->rows - 1);
    last = it->parts == 1 ? last : lesser_of(last, (it->part + 1) * split - 1);
    tile t = {.first = greater_of(it->seen.left, it->part * split)};
    clear_rows(it);
    for (; t.first <= last; t.first += t.count) {
        t.count = (int)lesser_of(last + 1 - t.first, args->param[BLOCK_N]);
        find_tile(it, ATTUNE_K, &t);
        score_tile(it, &t);
        prepare_scores(it, &t);
        weigh_tile(it, &t);
        find_tile(it, ATTUNE_V, &t);
        add_values(it, &t);
    }
}

void ATTUNE_TIER(attune_cpu_tiled)(const attune_args *args, int64_t index, void *scratch);

void ATTUNE_TIER(attune_cpu_tiled)(const attune_args *args, int64_t index, void *scratch)
{
    item it = {.parts = count_parts(args, args->param[SPLIT])};
    bool merging = are_merging(args, it.parts);
    it.part = index % it.parts;
    if (merging) {
        if (find_rows(&it, args, MERGED_ROWS, index)) {
            merge_rows(&it, scratch);
        }
        return;
    }
    if (!find_rows(&it, args, args->param[BLOCK_M], index / it.parts)) {
        return;
    }
    place(&it, scratch);
    pack_query(&it);
    sweep_keys(&it);
    if (!finish_rows(&it)) {
        redo_rows(&it);
    }
}
