/* Which keys a query row sees, and what is added to its logits. */
#ifndef DEVICE_MASK_CUH
#define DEVICE_MASK_CUH

#include "device/element.cuh"
#include "device/sequence.cuh"

/* The keys that any of the rows first_row ... last_row sees: both ends move one way with the row. */
ATTUNE_INLINE key_range keys_seen_by_rows(const attune_args &args, const sequence &at, attune_i64 first_row,
                                          attune_i64 last_row)
{
    return key_range{keys_seen(args, at, first_row).first, keys_seen(args, at, last_row).end};
}

/* Rows of optional tensors that belong to one query row. */
struct extras {
    const element *bias;
    const unsigned char *mask;
    float slope; /* times log2 e */
};

ATTUNE_INLINE extras extras_of(const attune_args &args, int batch, int head, int row)
{
    extras x = {nullptr, nullptr, 0};
    if constexpr (ATTUNE_HAS_BIAS) {
        x.bias = row_of<element>(args.tensor[ATTUNE_BIAS], batch, head, row);
    }
    if constexpr (ATTUNE_HAS_MASK) {
        x.mask = row_of<unsigned char>(args.tensor[ATTUNE_MASK], batch, head, row);
    }
    if constexpr (ATTUNE_HAS_ALIBI) {
        x.slope = LOG2_E * *row_of<float>(args.tensor[ATTUNE_SLOPES], 0, head, 0);
    }
    return x;
}

/* Keys that are hidden from every row need not lie behind the sequence's end: a mask or a bias of -inf hides them
 * anywhere, windows and offsets at either end. Their weight is 0, but 0 x NaN is NaN: a kernel that multiplies whole
 * tiles of V keeps such values out of them. With ATTUNE_OFFSET_KIND 0, bottom right, the last row sees the last key.
 */
enum {
    HIDES_ANYWHERE = ATTUNE_HAS_MASK || ATTUNE_HAS_BIAS,
    HIDES_ENDS = ATTUNE_HAS_WINDOW || (ATTUNE_HAS_CAUSAL && ATTUNE_OFFSET_KIND != 0)
};

/* Whether mask and bias let the row see the key. Whatever its logit is: one of -inf that comes of q k hides nothing. */
ATTUNE_INLINE bool shown(const extras &x, int key)
{
    bool is_shown = true;
    if constexpr (ATTUNE_HAS_BIAS) {
        is_shown = to_float(x.bias[key]) != negative_infinity();
    }
    if constexpr (ATTUNE_HAS_MASK) {
        is_shown = is_shown && x.mask[key];
    }
    return is_shown;
}

/* The logit of (row, key) in units of log2, from the dot product q k. Call for keys inside the sequence only. */
ATTUNE_INLINE float logit(const attune_args &args, const sequence &at, const extras &x, int row, int key, float dot)
{
    float value = dot * (args.scale * LOG2_E);
    if constexpr (ATTUNE_HAS_SOFTCAP) {
        value = args.softcap * LOG2_E * tanhf(dot * args.scale / args.softcap);
    }
    if constexpr (ATTUNE_HAS_ALIBI) {
        attune_i64 distance = (attune_i64)row + at.offset - key;
        value -= x.slope * (float)(distance < 0 ? -distance : distance);
    }
    if constexpr (ATTUNE_HAS_BIAS) {
        /* A bias of -inf hides its key exactly as a mask does: a NaN there must not survive the sum. */
        float bias = to_float(x.bias[key]);
        value = bias == negative_infinity() ? bias : fmaf(LOG2_E, bias, value);
    }
    if constexpr (ATTUNE_HAS_MASK) {
        value = x.mask[key] ? value : negative_infinity();
    }
    return value;
}

#endif
