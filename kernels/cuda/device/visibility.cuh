/* Which keys a query row sees. This is the one place that knows: the sequence's length, causality and windows, a mask,
 * a bias of -inf, a draft. Kernels ask for ranges of keys first (which tiles to visit, which of them to mask), and for
 * a single key where a range does not say it. */
#ifndef DEVICE_VISIBILITY_CUH
#define DEVICE_VISIBILITY_CUH

#include "device/element.cuh"
#include "device/sequence.cuh"

/* Values of ATTUNE_WINDOW_LEFT and ATTUNE_WINDOW_RIGHT: how far from its own position a row sees. A causal mask is a
 * right side of zero. */
enum { WINDOW_UNBOUNDED = 0, WINDOW_BOUNDED = 1, WINDOW_ZERO = 2 };

/* NOTE: enumerators, here and below: a constant that is none is in the cubin, whether used or not. */
enum {
    CAUSAL = ATTUNE_WINDOW_RIGHT == WINDOW_ZERO,
    BEGINS_MOVE = ATTUNE_WINDOW_LEFT != WINDOW_UNBOUNDED, /* rows see different keys on the left */
    ENDS_MOVE = ATTUNE_WINDOW_RIGHT != WINDOW_UNBOUNDED,  /* and on the right */
    WINDOWED = ATTUNE_WINDOW_LEFT == WINDOW_BOUNDED || ATTUNE_WINDOW_RIGHT == WINDOW_BOUNDED
};

/* Keys that are hidden from every row need not lie behind the sequence's end: a mask or a bias of -inf hides them
 * anywhere, a draft among the last 32, windows and offsets at either end. Their weight is 0, but 0 x NaN is NaN: a
 * kernel that multiplies whole tiles of V keeps such values out of them. With ATTUNE_OFFSET_KIND 0, bottom right, the
 * last row sees the last key. */
enum {
    HIDES_ANYWHERE = ATTUNE_HAS_MASK || ATTUNE_HAS_BIAS || ATTUNE_HAS_DRAFT,
    HIDES_ENDS = WINDOWED || (CAUSAL && ATTUNE_OFFSET_KIND != 0)
};

/* ---- Ranges ---- */

/* Keys [first, end); none if first >= end. */
struct key_range {
    int first, end;
};

/* The ends of the window of the row at `position`; to be asked for where they move. */
ATTUNE_INLINE attune_i64 window_first(const attune_args &args, attune_i64 position)
{
    return position - args.window_left;
}

ATTUNE_INLINE attune_i64 window_end(const attune_args &args, attune_i64 position)
{
    return CAUSAL ? position + 1 : position + args.window_right + 1;
}

/* The keys that length and window let query row `row` see. They fit an int whatever the offset. */
ATTUNE_INLINE key_range keys_seen(const attune_args &args, const sequence &at, attune_i64 row)
{
    attune_i64 first = 0, end = at.length_kv;
    if constexpr (BEGINS_MOVE) {
        first = max(first, window_first(args, row + at.offset));
    }
    if constexpr (ENDS_MOVE) {
        end = min(end, window_end(args, row + at.offset));
    }
    return key_range{(int)min(first, at.length_kv), (int)max(end, (attune_i64)0)};
}

/* Those that any of the rows first_row ... last_row sees: both ends move one way with the row. */
ATTUNE_INLINE key_range keys_seen_by_any(const attune_args &args, const sequence &at, attune_i64 first_row,
                                         attune_i64 last_row)
{
    return key_range{keys_seen(args, at, first_row).first, keys_seen(args, at, last_row).end};
}

/* Those that all of them see. */
ATTUNE_INLINE key_range keys_seen_by_all(const attune_args &args, const sequence &at, attune_i64 first_row,
                                         attune_i64 last_row)
{
    return key_range{keys_seen(args, at, last_row).first, keys_seen(args, at, first_row).end};
}

/* Whether a tile of `keys` keys from `key` on has any that some row does not see. */
ATTUNE_INLINE bool needs_mask(int all_first, int all_end, int key, int keys)
{
    return key < all_first || key + keys > all_end;
}

/* Whether no row sees any of its keys. */
ATTUNE_INLINE bool hides_tile(int first_seen, int end_seen, int key, int keys)
{
    return !(key < end_seen && key + keys > first_seen);
}

/* ---- Single keys ---- */

/* A row of a draft: bit j says whether it sees key first + j, the last keys of the sequence being those of its queries;
 * every key before `first` it sees. */
struct draft_row {
    int first; /* below 0 where there are fewer keys than queries */
    unsigned bits;
};

/* That of query row `row`, which exists. */
ATTUNE_INLINE draft_row draft_row_of(const attune_args &args, const sequence &at, attune_i64 row)
{
    return draft_row{(int)(at.length_kv - at.length_q),
                     *row_of<const unsigned>(args.tensor[ATTUNE_DRAFT_MASK], at.batch, 0, at.first_q + row)};
}

ATTUNE_INLINE bool draft_sees(const draft_row &draft, int key)
{
    return key < draft.first || (draft.bits >> ((key - draft.first) & 31) & 1) != 0;
}

/* A query row, and its rows of what belongs to pairs of a query and a key. */
struct query_row {
    int row;
    key_range keys;
    bool exists;
    const element_bias *bias;
    const unsigned char *mask;
    float slope;
    draft_row draft;
};

ATTUNE_INLINE query_row query_row_of(const attune_args &args, const sequence &at, attune_i64 batch, attune_i64 head,
                                     attune_i64 row)
{
    query_row q = {(int)row, keys_seen(args, at, row), row < at.length_q, nullptr, nullptr, 0, {}};
    if (q.exists) {
        if constexpr (ATTUNE_HAS_BIAS) {
            q.bias = row_of<element_bias>(args.tensor[ATTUNE_BIAS], batch, head, row);
        }
        if constexpr (ATTUNE_HAS_MASK) {
            q.mask = row_of<unsigned char>(args.tensor[ATTUNE_MASK], batch, head, row);
        }
        if constexpr (ATTUNE_HAS_ALIBI) {
            q.slope = *row_of<float>(args.tensor[ATTUNE_SLOPES], 0, head, 0);
        }
        if constexpr (ATTUNE_HAS_DRAFT) {
            q.draft = draft_row_of(args, at, row);
        }
    }
    return q;
}

/* Whether the row sees the key. A score of -inf that comes of q k hides nothing; a bias of -inf hides its key exactly
 * as a mask does: a NaN there must not survive the sum. */
ATTUNE_INLINE bool sees(const query_row &q, int key)
{
    bool seen = q.exists & (key >= q.keys.first) & (key < q.keys.end);
    if constexpr (ATTUNE_HAS_MASK) {
        seen = seen && q.mask[key];
    }
    if constexpr (ATTUNE_HAS_BIAS) {
        seen = seen && to_float(q.bias[key]) != negative_infinity();
    }
    if constexpr (ATTUNE_HAS_DRAFT) {
        seen = seen && draft_sees(q.draft, key);
    }
    return seen;
}

#endif
