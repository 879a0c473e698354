/* The two products of attention for up to 16 packed query rows and bf16, by the CPU's own dot products (dots.h): keys
 * are rows of the one operand as they lie in memory, values are put side by side two by two. A product takes as long
 * for one row as for sixteen. */
#ifndef KERNELS_CPU_DEVICE_PACKED_DOTS_H
#define KERNELS_CPU_DEVICE_PACKED_DOTS_H

#include "dots.h"
#include "packed.h"
#include "sequence.h"
#include "words.h"

/* Most of everything; keys of one product with the queries, and values of one with the weights. */
enum { DOT_LANES = 16, DOT_DIMS = 256, DOT_BLOCK = 256, DOT_KEYS = 32, DOT_VALUES = 32 };

typedef struct packed_dots {
    uint32_t query[DOT_DIMS / 2][DOT_LANES]; /* pairs of dims, of rows */
    float score[DOT_KEYS][DOT_LANES];        /* of keys and rows */
    uint16_t weight[DOT_LANES][DOT_BLOCK];   /* of rows and a block's keys */
    union {
        uint16_t key[DOT_KEYS][DOT_DIMS];                                /* where they cannot be taken as they lie */
        uint32_t value[DOT_DIMS / DOT_LANES][DOT_VALUES / 2][DOT_LANES]; /* pairs of values, by columns */
    };
    float out[DOT_DIMS / DOT_LANES][DOT_LANES][DOT_LANES]; /* by columns, of rows */
    vf overflow;                                           /* not finite if some product with a key is not */
    words tiny; /* the least magnitudes of values but 0, as words, doubled and less 1 */
} __attribute__((aligned(64))) packed_dots;

/* `count` bf16 numbers of any alignment, 32 at most; the others are zero. */
INLINE words dots_words(const char *from, int count)
{
    const __mmask32 some = count >= 32 ? ~(__mmask32)0 : ((__mmask32)1 << count) - 1;
    return (words)_mm512_maskz_loadu_epi16(some, from);
}

/* Before any key; weights of rows that do not exist stay 0. */
INLINE void dots_clear(packed_dots *d)
{
    memset(d->query, 0, sizeof d->query);
    memset(d->weight, 0, sizeof d->weight);
    memset(d->out, 0, sizeof d->out);
    d->tiny = (words){0} - 1;
    d->overflow = splat(0);
}

INLINE void dots_take_query(packed_dots *d, int row, const char *from, int depth)
{
    uint16_t dims[DOT_DIMS] = {0};
    memcpy(dims, from, (size_t)depth * sizeof *dims);
    for (int i = 0; i < whole(depth, 2) / 2; ++i) {
        d->query[i][row] = dims[2 * i] | (uint32_t)dims[2 * i + 1] << 16;
    }
}

/* ---- What is asked for ------------------------------------------------------------------------------------------ */

/* K or V from some row on, line by line. */
typedef struct stream {
    const kv_rows *rows;
    int64_t row, end; /* the next rows */
    int64_t bytes;    /* of a row */
    const char *at;   /* lines of those before that are left, in bytes */
    int64_t left;
} stream;

/* Goes on to the next rows that lie one behind the other, or to the next one. */
static bool stream_on(stream *s)
{
    enum { MOST = 1 << 20 };
    if (s->row >= s->end) {
        return false;
    }
    const int64_t run = s->rows->step == s->bytes ? kv_run(s->rows, s->row, (int)lesser_of(s->end - s->row, MOST)) : 1;
    s->at = kv_row(s->rows, s->row);
    s->left = run * s->bytes;
    s->row += run;
    return true;
}

enum { ASKED = 8 }; /* lines at once */

INLINE void stream_ask(stream *s)
{
    if (s->left >= ASKED * 64) {
        UNROLL
        for (int i = 0; i < ASKED; ++i) {
            ask_for_line(s->at + (int64_t)i * 64);
        }
        s->at += ASKED * 64;
        s->left -= ASKED * 64;
        return;
    }
    for (int i = 0; i < ASKED && (s->left > 0 || stream_on(s)); ++i, s->left -= 64) {
        ask_for_line(s->at);
        s->at += lesser_of(s->left, 64);
    }
}

/* K and V of keys to come, in turns. NOTE: asked for beside all that is done, evenly by the time that it takes: in
 * bursts beside a part of it, reading and arithmetic hardly overlap. */
typedef struct soon {
    stream of[2];
    int share, turn;       /* of K in what is asked for, in parts of 256; what has added up of it */
    int due;               /* lines that are to be asked for, in parts of 256; and how many more beside */
    int score, transposed; /* a step of the product with keys, a quarter of sixteen keys' scores, */
    int weight;            /* a row's weights of sixteen keys, */
    int pair, sum;         /* two values, a step of the product with them */
} soon;

INLINE void soon_ask(soon *s, int due)
{
    for (s->due += due; s->due >= ASKED * 256; s->due -= ASKED * 256) {
        s->turn += s->share;
        stream_ask(&s->of[s->turn < 256]);
        s->turn %= 256;
    }
}

/* For K and V as two streams, which go on in blocks of so many keys for so many query rows: a block and some is asked
 * for. */
INLINE soon soon_begin(const stream of[2], int depth, int columns, int rows, int block)
{
    /* What DOT_KEYS keys take of each, in nanoseconds on Sapphire Rapids. */
    enum { SCORE = 150, TRANSPOSED = 100, WEIGHT = 12, PAIR = 200, SUM = 150, FURTHER = 16 /* keys */ };
    const int all = SCORE + TRANSPOSED + WEIGHT * rows + PAIR + SUM;
    const int of_key = lines_of(depth, ATTUNE_BF16), of_both = of_key + lines_of(columns, ATTUNE_BF16);
    const int lines = 256 * DOT_KEYS * of_both;
    soon s = {.of = {of[0], of[1]},
              .share = 256 * of_key / of_both,
              .score = lines * SCORE / all / (whole(depth, 2 * DOT_PAIRS) / (2 * DOT_PAIRS)),
              .transposed = lines * TRANSPOSED / all / (DOT_KEYS / 4),
              .weight = lines * WEIGHT / all / (DOT_KEYS / DOT_LANES),
              .pair = lines * PAIR / all / (DOT_KEYS / 2),
              .sum = lines * SUM / all / (whole(columns, 2 * DOT_LANES) / DOT_LANES)};
    soon_ask(&s, lines / DOT_KEYS * (block + FURTHER));
    return s;
}

INLINE void ask_beside_scores(void *work)
{
    soon *s = work;
    soon_ask(s, s->score);
}

INLINE void ask_beside_sums(void *work)
{
    soon *s = work;
    soon_ask(s, s->sum);
}

/* ---- The products ----------------------------------------------------------------------------------------------- */

/* DOT_KEYS keys, which lie a step apart or are copied, as an operand; whole pairs and whole steps of dims. */
INLINE const uint32_t *dots_find_keys(packed_dots *d, const char *const *key, bool apart, int64_t step, int depth,
                                      int64_t *step_found)
{
    if (!apart && depth % (2 * DOT_PAIRS) == 0 && step % 4 == 0) {
        *step_found = step / 4;
        return (const uint32_t *)(const void *)key[0];
    }
    for (int k = 0; k < DOT_KEYS; ++k) {
        for (int c = 0; c < depth; c += 32) {
            *(words *)(d->key[k] + c) = dots_words(key[k] + (int64_t)c * 2, depth - c);
        }
    }
    *step_found = DOT_DIMS / 2;
    return (const uint32_t *)(const void *)d->key;
}

/* score[r * across + k] = scale query[r] key[k] for DOT_KEYS keys, while lines are asked for. */
INLINE void dots_score(packed_dots *d, const uint32_t *key, int64_t step, int depth, int rows, float scale, soon *next,
                       float *score, int across)
{
    const int steps = whole(depth, 2 * DOT_PAIRS) / (2 * DOT_PAIRS);
    const dots product = {
        .a = key, .a_step = step, .b = d->query[0], .c = d->score[0], .rows = DOT_KEYS, .pairs = steps * DOT_PAIRS};
    multiply_dots(1, false, &product, (meanwhile){ask_beside_scores, next});
    vf overflow = d->overflow;
    for (int half = 0; half < DOT_KEYS; half += DOT_LANES) {
        vf x[DOT_LANES];
        UNROLL
        for (int k = 0; k < DOT_LANES; ++k) {
            x[k] = load(d->score[half + k]);
            overflow += x[k] * 0.0f;
            x[k] *= scale;
            if (k % 8 == 7) {
                soon_ask(next, next->transposed);
            }
        }
        transpose(x);
        soon_ask(next, next->transposed);
        UNROLL
        for (int r = 0; r < DOT_LANES; ++r) {
            if (r < rows) {
                store(score + r * across + half, x[r]);
            }
        }
        soon_ask(next, next->transposed);
    }
    d->overflow = overflow;
}

/* A row's weights of a block, `count` of them, rounded; zeros up to whole DOT_KEYS. */
INLINE void dots_take_weights(packed_dots *d, int row, const float *weight, int count)
{
    for (int n = 0; n < count; n += DOT_KEYS) {
        const vf right = n + DOT_LANES < count ? load(weight + n + DOT_LANES) : splat(0);
        *(words *)(d->weight[row] + n) = (words)_mm512_cvtne2ps_pbh(right, load(weight + n));
    }
}

/* Two vectors of values side by side; `tiny` keeps the least magnitudes but 0, doubled, less 1. */
INLINE void dots_pair(packed_dots *d, int pair, int c, words x, words y, words tiny[2])
{
    const words all = (words){0} - 1;
    tiny[0] = (words)_mm512_min_epu16((__m512i)tiny[0], (__m512i)(x + x + all));
    tiny[1] = (words)_mm512_min_epu16((__m512i)tiny[1], (__m512i)(y + y + all));
    *(__m512i *)d->value[c / DOT_LANES][pair] = _mm512_unpacklo_epi16((__m512i)x, (__m512i)y);
    *(__m512i *)d->value[c / DOT_LANES + 1][pair] = _mm512_unpackhi_epi16((__m512i)x, (__m512i)y);
}

/* `count` values two by two, zeros up to DOT_VALUES, while some lines are asked for. */
INLINE void dots_take_values(packed_dots *d, const char *const *value, int count, int columns, soon *next)
{
    words tiny[2] = {d->tiny, d->tiny};
    for (int k = 0; k < DOT_VALUES; k += 2) {
        soon_ask(next, next->pair);
        int c = 0;
        for (; k + 1 < count && c + 32 <= columns; c += 32) {
            dots_pair(d, k / 2, c, dots_words(value[k] + (int64_t)c * 2, 32),
                      dots_words(value[k + 1] + (int64_t)c * 2, 32), tiny);
        }
        const int even = k < count ? columns : 0, odd = k + 1 < count ? columns : 0;
        for (; c < columns; c += 32) {
            dots_pair(d, k / 2, c, dots_words(value[k] + (int64_t)c * 2, even > c ? even - c : 0),
                      dots_words(value[k + 1] + (int64_t)c * 2, odd > c ? odd - c : 0), tiny);
        }
    }
    d->tiny = (words)_mm512_min_epu16((__m512i)tiny[0], (__m512i)tiny[1]);
}

/* Whether no value was so near to zero, by less than 2^-100, that dots may have counted it as 0, and no product with a
 * key beyond fp32, which it need not be once it is scaled. */
INLINE bool dots_are_right(const packed_dots *d)
{
    return !any((vi)(d->tiny < (27 << 8) - 1)) && !any(not_finite(d->overflow));
}

/* Columns are in whole pairs of panels, half of each eight in either. */
INLINE int panels_of(int columns)
{
    return whole(columns, 2 * DOT_LANES) / DOT_LANES;
}

/* out += weights of the block's keys from n on, times DOT_VALUES values. */
INLINE void dots_add(packed_dots *d, int n, int columns, soon *next)
{
    const int panels = panels_of(columns);
    const dots product = {.a = (const uint32_t *)(const void *)(d->weight[0] + n),
                          .a_step = DOT_BLOCK / 2,
                          .b = d->value[0][0],
                          .b_step = DOT_VALUES / 2 * DOT_LANES,
                          .c = d->out[0][0],
                          .c_step = DOT_LANES * DOT_LANES,
                          .rows = DOT_LANES,
                          .pairs = DOT_VALUES / 2};
    multiply_dots(panels, true, &product, (meanwhile){ask_beside_sums, next});
}

INLINE void dots_decay(packed_dots *d, int row, float decay, int columns)
{
    for (int panel = 0; panel < panels_of(columns); ++panel) {
        store(d->out[panel][row], load(d->out[panel][row]) * decay);
    }
}

/* A row of sums in the order of its columns, whole vectors of them. */
INLINE void dots_leave_row(const packed_dots *d, int row, int columns, float *out)
{
    for (int c = 0; c < columns; c += 2 * DOT_LANES) {
        const vf low = load(d->out[c / DOT_LANES][row]), high = load(d->out[c / DOT_LANES + 1][row]);
        store(out + c, __builtin_shufflevector(low, high, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23));
        if (c + DOT_LANES < columns) {
            store(out + c + DOT_LANES,
                  __builtin_shufflevector(low, high, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31));
        }
    }
}

#endif
