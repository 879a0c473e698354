/* Between a consumer's products and its softmax: which keys its rows see, what place and cap make of scores. */
#ifndef DEVICE_WGMMA_SCORE_CUH
#define DEVICE_WGMMA_SCORE_CUH

#include "device/static_max.cuh"
#include "device/wgmma_pairs.cuh"

#if !PLACED /* nothing is brought */
ATTUNE_INLINE void await_pairs(consumer &)
{
}

ATTUNE_INLINE void take_pairs(consumer &)
{
}

ATTUNE_INLINE void leave_pairs(const consumer &)
{
}
#endif

/* The first of the lane's two rows, within the tile of queries; the other is 8 below. */
ATTUNE_INLINE int first_row(const consumer &c)
{
    return c.group * 64 + c.thread / 32 * 16 + c.thread % 32 / 4;
}

/* What a hidden key's score is before scaling. */
ATTUNE_INLINE float hidden_score()
{
    return CURVED ? hidden_on_line() : negative_infinity();
}

/* Hides columns from `end` on: in the left half only where some row of the warp needs it. */
template <int half, int n> ATTUNE_INLINE void hide_right(float (&s)[n], const int (&end)[2], int lane)
{
    const int none[2] = {0, 0}, end_right[2] = {end[0] - half * 2, end[1] - half * 2};
    if (!__all_sync(0xffffffff, min(end_right[0], end_right[1]) >= 0)) {
        rows_hide<false, half>(s, none, end, lane, hidden_score());
    }
    rows_hide<false, half>(*reinterpret_cast<float(*)[n - half]>(s + half), none, end_right, lane, hidden_score());
}

/* Hides keys that a row does not see. */
template <int count> ATTUNE_INLINE void hide(const job &j, const consumer &c, int key, scores &s)
{
    int first[2], end[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        int row = first_row(c) + r * 8;
        first[r] = begins_move ? max(j.sees_first + row, 0) - key : 0; /* unbounded ones are far below 0 */
        end[r] = (ends_move ? min(j.sees_end + row, j.keys) : j.keys) - key;
    }
    constexpr int half = count / 2;
    if constexpr (!begins_move && half >= 32 && half % 4 == 0) {
        hide_right<half>(s, end, c.thread % 32);
    } else {
        rows_hide<begins_move, count>(s, first, end, c.thread % 32, hidden_score());
    }
}

/* Whether groups leave out tiles that none of their rows sees: on the right, and where a packed sequence has ended
 * before the group's rows, all but one. NOTE: with two groups, whose tiles have fewer such rows, up to 5 % slower. */
constexpr bool skips = ends_move || (ATTUNE_HAS_VARLEN && GROUPS == 3);

#if ATTUNE_HAS_ALIBI
/* Where the lane's first row is from its first column, the slope as c.scale will have it, and how many
 * tiles take their maxima: those before the group's first row's own position, towards which scores rise. */
ATTUNE_INLINE void find_place(const job &j, consumer &c)
{
    c.begins = walk_begins<BLOCK_M, BLOCK_N>(j);
    c.position = j.position + first_row(c) - c.thread % 4 * 2;
    c.slope = j.slope * LOG2_E / c.scale;
    int first_key = j.key - (c.begins + c.first) * BLOCK_N, above = first_key - (j.position + c.group * 64);
    c.exact_until = min(c.first + (max(above, 0) + BLOCK_N - 1) / BLOCK_N, c.blocks);
}
#endif

/* Which of the job's tiles some row of the group does not see whole: those on the right, and with a window those on the
 * left. NOTE: kept in registers. A load from shared memory in the loop waits behind the products, some 400 cycles. */
ATTUNE_INLINE void find_edges(const job &j, consumer &c)
{
    int row = c.group * 64;
    int end = ends_move ? max(min(j.sees_end + row, j.keys), 0) : j.keys;
    c.blocks = j.blocks;
    c.right_edge = (j.key - end + 2 * BLOCK_N - 1) / BLOCK_N;
    if constexpr (skips) {
        int last_end = max(min(j.sees_end + row + 63, j.keys), 0);
        int hidden = j.key < last_end ? 0 : (j.key - last_end) / BLOCK_N + 1;
        c.first = max(j.row + row < j.rows ? min(hidden, c.blocks - 1) : c.blocks - 1, 0);
        c.narrow = !FROM_DIAGONAL && last_end - (j.key - c.first * BLOCK_N) <= 2 * some_scores;
    }
    if constexpr (begins_move) {
        int first = max(j.sees_first + row + 63, 0);
        c.left_edge = j.key < first ? 0 : (j.key - first) / BLOCK_N + 1;
    }
    c.exact_until = c.first;
    c.sharp = c.blocks;
#if ATTUNE_HAS_ALIBI
    find_place(j, c);
#endif
}

#if ATTUNE_HAS_ALIBI
/* What the tile from `key` on has of ALiBi. Where all its columns are on one side of all the warp's rows, that is a
 * shift of each row and a step a column. */
template <int count> ATTUNE_INLINE void place(consumer &c, int key, scores &s)
{
    int distance = c.position - key;
    bool left = CAUSAL || __all_sync(0xffffffff, distance >= count * 2);
    if (SHIFTED && (left || __all_sync(0xffffffff, distance <= -8))) {
        float slope = left ? c.slope : -c.slope;
        rows_slope_on<count>(s, slope);
        c.shift[0] = -slope * c.scale * (float)distance;
        c.shift[1] = -slope * c.scale * (float)(distance + 8);
    } else {
        rows_slope<count>(s, c.slope, distance);
        c.shift[0] = c.shift[1] = 0;
    }
}
#endif

/* Whether some row does not see the whole of tile `number`. */
ATTUNE_INLINE bool has_edge(const consumer &c, int number)
{
    return number < c.right_edge || (begins_move && number >= c.left_edge);
}

/* What the products of the tile that the group takes i-th begin with. */
ATTUNE_INLINE void begin_scores(const attune_args &args, const job &j, consumer &c, int i, scores &s)
{
#if PAIRED
    if constexpr (BIAS_FIRST) {
        take_bias<all_scores, true>(args, j, c, j.row + first_row(c), j.key - WALK(c.begins, c.blocks, i) * BLOCK_N, s);
    }
#endif
}

#if PAIRED
/* Bias and mask; at once, or the bias left to the exponentials. NOTE: keys that are hidden may have a bias of NaN,
 * which is then not to be added behind. */
template <int count> ATTUNE_INLINE void take_in_pairs(consumer &c, bool at_once, scores &s)
{
    if (!BIAS_LATE || at_once) {
        add_pairs<count>(c, hidden_score(), s);
#if BIAS_PLACED
        if constexpr (BIAS_LATE) {
            forget_bias(c);
        }
#endif
    }
}
#endif

/* Scores of the tile that the group takes i-th as the softmax wants them: capped, placed, hidden where that is so.
 * `exact`: with a softcap, not by a curve; with a bias, all of it. `again`: products from memory, which have begun with
 * nothing. */
template <int count, bool again = false>
ATTUNE_INLINE void prepare(const attune_args &args, const job &j, consumer &c, int i, bool exact, scores &s)
{
    int number = WALK(c.begins, c.blocks, i);
#if ATTUNE_HAS_SOFTCAP
    exact = exact || c.bends;
    c.now = exact ? score_line_of(c.scale) : c.curve;
#endif
    if (!CURVED || exact) {
        rows_shape<count>(s, ATTUNE_HAS_SOFTCAP ? curve_inner(args) : 1.0f);
    }
#if ATTUNE_HAS_ALIBI
    place<count>(c, j.key - number * BLOCK_N, s);
#endif
#if PAIRED
    if constexpr (ATTUNE_HAS_BIAS && !BIAS_PLACED && (again || !BIAS_FIRST)) {
        take_bias<count, false>(args, j, c, j.row + first_row(c), j.key - number * BLOCK_N, s);
    }
    take_in_pairs<count>(c, exact || has_edge(c, number), s);
#endif
    if (has_edge(c, number)) {
        hide<count>(j, c, j.key - number * BLOCK_N, s);
    }
}

/* Scores first ... end - 1 become weights, having taken in a bias that is left. */
template <int first, int end, class scaling>
ATTUNE_INLINE void exponentiate(const consumer &c, const row_pair &rows, scores &s, scaling &by, float (&sum)[2][2])
{
#if BIAS_PLACED
    if constexpr (BIAS_LATE) {
        exponentiate_biased<first, end>(c, rows, s, by, sum);
    } else {
        static_max_exponentiate<first, end>(rows, s, by, sum);
    }
#else
    static_max_exponentiate<first, end>(rows, s, by, sum);
#endif
}

#if ATTUNE_HAS_SOFTCAP
/* Whether the job's scores are not for the curve, by the maxima of its first tile: one is behind its end, or no number
 * there, as where a row has seen no key; or some come near the end, in two of the warp's rows at least (0.38 is tanh
 * 0.4), so that a later tile would be done again, which takes the time of many; or a row's are so low that keys below
 * the curve's other end weigh something beside them. */
ATTUNE_INLINE bool find_bends(const attune_args &args, const job &j, const consumer &c)
{
    float high = 0.38f * LOG2_E * args.softcap, low = -0.1f * LOG2_E * args.softcap;
    int near = 0, left = j.rows - j.row - first_row(c); /* rows that do not exist may see nothing */
    bool outside = args.softcap < CURVE_SOFTCAP || !curve_hides(c.curve);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        bool exists = !ATTUNE_HAS_VARLEN || left > r * 8, begun = c.rows.maximum[r] != positive_infinity();
        float maximum = begun ? c.rows.maximum[r] : 0;
        near += __popc(__ballot_sync(0xffffffff, maximum > high));
        outside = outside || (exists && !begun) || maximum < low || maximum > curve_end(args);
    }
    return near > 4 || __any_sync(0xffffffff, outside);
}
#endif

#endif
