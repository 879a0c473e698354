/* A consumer's softmax: of a job's first tile, of tiles by their maximum or by a static maximum, of sharp jobs; and
 * what the first tile says of which it is. */
#ifndef DEVICE_WGMMA_SOFTMAX_CUH
#define DEVICE_WGMMA_SOFTMAX_CUH

#include "device/wgmma_score.cuh"

/* Before any key. */
ATTUNE_INLINE row_pair no_keys()
{
    float none = static_max ? positive_infinity() : negative_infinity();
    return {{none, none}, {0, 0}};
}

/* Whether jobs whose tiles all take their maxima, being sharp or with rows that have seen no key in the first, have a
 * loop of their own: O's rescaling is in the shadow of the exponentials there, and behind all else where warps decide
 * for themselves. NOTE: above, registers are too few for both; and a constant that is no enumerator is in the cubin,
 * whether used or not. */
enum { sharp_apart = static_max && dim_v <= 128 };

/* Where the maxima of the first tile say little about those to come, further tiles take their own: what it says lies in
 * its sums. NOTE: nothing of this may outlast the job, or a head's bits would depend on which came before it. */
ATTUNE_INLINE void predict_growth(const job &j, consumer &c)
{
    int seen[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        int end = ends_move ? min(j.sees_end + first_row(c) + r * 8, j.keys) : j.keys;
        seen[r] = end - (j.key - WALK(c.begins, c.blocks, c.first) * BLOCK_N);
    }
    static_max_signs signs = find_static_max_signs(c.rows.sum, seen);
#if ATTUNE_HAS_VARLEN
    int left = j.rows - j.row - first_row(c); /* rows that do not exist may see nothing */
    bool begun = (c.rows.maximum[0] != positive_infinity() || left <= 0) &&
                 (c.rows.maximum[1] != positive_infinity() || left <= 8);
#else
    bool begun = c.rows.maximum[0] != positive_infinity() && c.rows.maximum[1] != positive_infinity();
#endif
    bool sharp = 2 * signs.sharp > signs.rows || !__all_sync(0xffffffff, begun);
    if constexpr (sharp_apart) {
        sharp = any_of_group<GROUPS>(c.group, sharp);
        c.sharp = sharp ? min(c.first + 1 + early, c.blocks) : c.blocks;
    }
    if (sharp) {
        c.exact_until = c.blocks;
    } else if (signs.few && (!ends_move || 2 * signs.mild > signs.rows)) {
        c.exact_until = max(c.exact_until, c.first + 1);
    }
}

/* With a softcap: the first tile's scores and maxima, by the curve, and by the formula if the job is not for it. */
template <int count> ATTUNE_INLINE void begin_on_curve(const attune_args &args, const job &j, consumer &c, scores &s)
{
#if ATTUNE_HAS_SOFTCAP
    c.bends = false;
#pragma unroll 1
    for (;;) {
        float factor[2];
        prepare<count>(args, j, c, c.first, false, s);
        static_max_raise<count>(c.rows, s, c.now, factor);
        if (c.bends || !find_bends(args, j, c)) {
            break;
        }
        c.bends = true;
        c.rows = no_keys();
    }
#endif
}

/* The first tile: nothing to multiply yet. */
template <int count>
ATTUNE_INLINE void first_weights(const attune_args &args, const job &j, consumer &c, scores &s, weights &p)
{
    if constexpr (CURVED) {
        begin_on_curve<count>(args, j, c, s);
    } else {
        prepare<count>(args, j, c, c.first, true, s);
    }
    if constexpr (static_max) {
        auto by = scaling_of(c);
        float factor[2], sum[2][2] = {};
        if constexpr (!CURVED) {
            static_max_raise<count>(c.rows, s, by, factor);
        }
        static_max_exponentiate<0, count>(c.rows, s, by, sum);
        static_max_finish(c.rows, sum);
    } else {
        softmax_step f;
        rows_raise<0, count>(c.rows, s, c.scale, f);
        rows_exponentiate<0, count>(s, c.scale, f);
        rows_finish(c.rows, f);
    }
    rows_pack<count>(s, p);
}

/* Scores that become weights before the wait for O: AHEAD quarters; with 4 the compiler puts the wait where it likes,
 * which at head dim 64 is best. NOTE: else it is behind keep_order, or the compiler moves it before them. */
constexpr int scores_ahead = BLOCK_N / 2 * AHEAD / 4 / 4 * 4;

/* Until the products of the tile before are added to O; all that comes then shares the time of the slowest of it. */
template <bool ordered> ATTUNE_INLINE void finish_values(const consumer &c, held values, weights &p, outputs &o)
{
    if constexpr (ordered) {
        keep_order(c);
    }
    await_outputs<0>(p, o);
    leave_tile(c, values);
}

/* The references as the compiler cannot have them before keep_order, since it moves no shuffle across: or all
 * exponentials come before the wait, and the rounding, which would be free beside them, alone behind it. */
ATTUNE_INLINE row_pair rows_behind(const consumer &c)
{
    row_pair rows = c.rows;
    if constexpr (AHEAD > 0 && AHEAD < 4) {
        rows.maximum[0] = __shfl_sync(0xffffffff, rows.maximum[0], c.thread % 32);
        rows.maximum[1] = __shfl_sync(0xffffffff, rows.maximum[1], c.thread % 32);
    }
    return rows;
}

/* A tile's softmax, each row by its maximum so far. */
ATTUNE_INLINE void softmax_by_maximum(consumer &c, held values, scores &s, weights &p, outputs &o)
{
    softmax_step f;
    rows_raise<0, all_scores>(c.rows, s, c.scale, f);
    rows_exponentiate<0, scores_ahead>(s, c.scale, f);
    finish_values<(AHEAD < 4)>(c, values, p, o);
    rows_rescale<0>(o, f.factor);
    rows_exponentiate<scores_ahead, all_scores>(s, c.scale, f);
    rows_finish(c.rows, f);
    rows_pack<all_scores>(s, p);
}

/* The scores of tile `i` once more: the tile itself may be gone from shared memory. */
ATTUNE_INLINE void rescore(const attune_args &args, const job &j, consumer &c, int i, scores &s)
{
    const attune_tensor &q = args.tensor[ATTUNE_Q], &k = args.tensor[ATTUNE_K];
    rows_at queries = {row_of<element>(q, j.batch, j.head, (attune_i64)j.first_q + j.row), q.stride[ATTUNE_STRIDE_SEQ],
                       j.rows - j.row};
    rows_at keys = {row_of<element>(k, j.batch, j.head_kv, j.first_kv), k.stride[ATTUNE_STRIDE_SEQ], j.keys};
    static_max_rescore<dim_qk>(queries, keys, first_row(c), j.key - WALK(c.begins, c.blocks, i) * BLOCK_N,
                               c.thread % 32, s);
#if PAIRED
    take_pairs_again(args, j, c, first_row(c), j.key - WALK(c.begins, c.blocks, i) * BLOCK_N);
#endif
    prepare<all_scores, true>(args, j, c, i, true, s);
}

/* Weights of tile `i` are out of reach: a higher reference for them, their sums and O. Each warp does so for itself,
 * which costs much where scores are lost; one needle among the keys is the rule, but what rises twice may go on rising
 * (with RESCALE 16: thrice): then, and where scores are lost, the job's other tiles take their maxima. So they do where
 * a softcap's curve has ended. */
ATTUNE_INLINE void raise_reference(const attune_args &args, const job &j, consumer &c, int i, bool is_true, scores &s,
                                   outputs &o, float (&sum)[2][2])
{
    float factor[2];
    bool lost = static_max_lost(s, is_true);
#if RESCALE == 16
    bool last = lost || c.exact_until <= c.first - STATIC_MAX_RISES;
    c.exact_until = last ? c.blocks : min(c.exact_until, c.first) - 1;
#else
    c.exact_until = lost || c.exact_until < c.first ? c.blocks : c.first - 1;
#endif
    if (lost) {
        rescore(args, j, c, i, s);
        auto by = scaling_of(c);
        static_max_raise<all_scores>(c.rows, s, by, factor);
        sum[0][0] = sum[0][1] = sum[1][0] = sum[1][1] = 0;
        static_max_exponentiate<0, all_scores>(c.rows, s, by, sum);
    } else {
        static_max_lower(c.rows, s, sum, factor);
    }
    rows_rescale<0>(o, factor);
}

#if ATTUNE_HAS_SOFTCAP
/* That of a softcap's curve. What few tiles need is behind one branch, and so are all their exponentials. */
ATTUNE_INLINE void softmax_on_curve(const attune_args &args, const job &j, consumer &c, int i, held values, scores &s,
                                    weights &p, outputs &o)
{
    float factor[2] = {1, 1}, sum[2][2] = {};
    bool exact = i <= c.exact_until, apart = exact || c.bends || has_edge(c, i);
    if (apart) {
        prepare<all_scores>(args, j, c, i, exact, s);
        if (exact) {
            static_max_raise<all_scores>(c.rows, s, c.now, factor);
        }
        static_max_exponentiate<0, all_scores>(c.rows, s, c.now, sum);
    } else {
        static_max_exponentiate<0, scores_ahead>(c.rows, s, c.curve, sum);
    }
    weights_reach reach = reach_of(c.rows, c.bends ? LINE_END : curve_end(args));
    finish_values<(AHEAD < 4)>(c, values, p, o);
    if (AHEAD < 4 && !apart) {
        static_max_exponentiate<scores_ahead, all_scores>(rows_behind(c), s, c.curve, sum);
    }
    rows_pack<all_scores>(s, p);
    if (exact) {
        rows_rescale<1>(o, factor);
    } else if (!static_max_holds(sum, is_within(reach, sum))) {
        raise_reference(args, j, c, i, is_within(reach, sum), s, o, sum);
        rows_pack<all_scores>(s, p);
    }
    static_max_finish(c.rows, sum);
}
#endif

/* A tile's softmax by the static maximum; up to tile c.exact_until by the maximum. NOTE: warps decide for themselves,
 * and what waits for products is of the whole group: one wait for all, outside of what only some warps do. */
ATTUNE_INLINE void softmax_by_static_max(const attune_args &args, const job &j, consumer &c, int i, held values,
                                         scores &s, weights &p, outputs &o)
{
    auto by = scaling_of(c);
    float factor[2] = {1, 1}, sum[2][2] = {};
    bool exact = i <= c.exact_until;
    if (exact) {
        static_max_raise<all_scores>(c.rows, s, by, factor);
    }
    exponentiate<0, scores_ahead>(c, c.rows, s, by, sum);
    finish_values<(AHEAD < 4)>(c, values, p, o);
    exponentiate<scores_ahead, all_scores>(c, rows_behind(c), s, by, sum);
    rows_pack<all_scores>(s, p);
    if (exact) {
        rows_rescale<1>(o, factor);
    } else if (!static_max_holds(sum)) {
        raise_reference(args, j, c, i, true, s, o, sum);
        rows_pack<all_scores>(s, p);
    }
    static_max_finish(c.rows, sum);
}

/* A tile's softmax in a sharp job. */
ATTUNE_INLINE void softmax_of_sharp_job(consumer &c, held values, scores &s, weights &p, outputs &o)
{
    auto by = scaling_of(c);
    float factor[2], sum[2][2] = {};
    static_max_follow<all_scores>(c.rows, s, by, factor);
    finish_values<true>(c, values, p, o);
    rows_rescale<0>(o, factor);
    static_max_exponentiate<0, all_scores>(c.rows, s, by, sum);
    static_max_finish(c.rows, sum);
    rows_pack<all_scores>(s, p);
}

#endif
