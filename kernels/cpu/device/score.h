/* What a product q k becomes before the softmax: scale, softcap, ALiBi, bias, and -infinity where its row does not see
 * its key. This is the one place that knows; a score of the caller's own will be one more function here. */
#ifndef KERNELS_CPU_DEVICE_SCORE_H
#define KERNELS_CPU_DEVICE_SCORE_H

#include "visibility.h"

/* Vectors of scores, `step` floats apart. Their lanes are query rows, each next vector the next key's; or they are
 * keys, each next vector VL keys on. Places count from the tile's first key. */
typedef struct scores {
    float *first;
    int count, step;
    vf position; /* of each lane's query row */
    vf key;      /* of each lane, in the first vector */
    float keys;  /* from vector to vector */
} scores;

/* Scores whose lanes are rows: `lane` says how far each is behind the first, which is at `position`. */
INLINE scores scores_of_rows(float *first, int count, int step, vf lane, int64_t position)
{
    return (scores){first, count, step, lane + (float)position, splat(0), 1};
}

/* Scores of one row, whose lanes are keys. */
INLINE scores scores_of_keys(float *first, int keys, int64_t position)
{
    return (scores){first, (keys + VL - 1) / VL, VL, splat((float)position), lane_numbers(), VL};
}

static inline void scale_scores(const scores *s, float scale)
{
    for (int i = 0; i < s->count; ++i) {
        float *at = s->first + i * s->step;
        store(at, load(at) * scale);
    }
}

static inline void cap_scores(const scores *s, float cap)
{
    for (int i = 0; i < s->count; ++i) {
        float *at = s->first + i * s->step;
        store(at, hyperbolic_tangent(load(at) / cap) * cap);
    }
}

static inline void add_alibi(const scores *s, vf slope)
{
    vf distance = s->position - s->key;
    for (int i = 0; i < s->count; ++i, distance -= s->keys) {
        float *at = s->first + i * s->step;
        store(at, load(at) - slope * magnitude(distance));
    }
}

/* A bias of -infinity hides its key whatever the score: NaN and +infinity too. */
INLINE vf add_bias(vf score, vf bias)
{
    return blend(bias == splat(-INFINITY), bias, score + bias);
}

/* All that needs nothing of the pair but its places. `scale`: what products are still to be multiplied by. */
INLINE void apply_score(const attune_args *args, const scores *s, float scale, vf slope)
{
    if (scale != 1) {
        scale_scores(s, scale);
    }
    if (args->features & ATTUNE_FEATURE_SOFTCAP) {
        cap_scores(s, args->softcap);
    }
    if (args->features & ATTUNE_FEATURE_ALIBI) {
        add_alibi(s, slope);
    }
}

/* A side of a window, counted from the tile's first key: as near as a number that is exact in fp32. */
INLINE float side_of_tile(int64_t side, int64_t first)
{
    const int64_t far = 1 << 20; /* beyond any tile */
    return (float)lesser_of(greater_of(side - first, -far), far);
}

/* Hides the keys outside of left ... right of each lane's row. */
static inline void hide_outside(const scores *s, vf left, vf right)
{
    vf key = s->key;
    for (int i = 0; i < s->count; ++i, key += s->keys) {
        float *at = s->first + i * s->step;
        store(at, blend((key < left) | (key > right), splat(-INFINITY), load(at)));
    }
}

/* Hides, where lanes are keys, what a draft's row does not see; the tile's first key is `first`. */
static inline void hide_draft(const scores *s, const draft_row *draft, int64_t first)
{
    vf place =
        s->key - side_of_tile(draft->first, first); /* its bit; below 0 before the draft, above 31 far behind it */
    for (int i = 0; i < s->count; ++i, place += s->keys) {
        float *at = s->first + i * s->step;
        vi bit = __builtin_convertvector(place, vi);
        vi own = (place >= splat(0)) & (place < splat(32));
        vu word = (vu){0} + draft->sees;
        vi seen = ((vi)((word >> (vu)(bit & 31)) & 1u) != 0) | ~own;
        store(at, blend(seen, load(at), splat(-INFINITY)));
    }
}

/* ALiBi's slope of a head; 0 where there is none. */
static inline float slope_of(const attune_args *args, int64_t head)
{
    float slope = 0;
    if (args->features & ATTUNE_FEATURE_ALIBI) {
        const attune_tensor *slopes = &args->tensor[ATTUNE_SLOPES];
        memcpy(&slope, (const float *)slopes->data + head * slopes->stride[ATTUNE_STRIDE_HEAD], sizeof slope);
    }
    return slope;
}

#endif
