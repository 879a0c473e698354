/* How the product of a query and a key becomes its score, for tiles in registers: by a factor; by a factor and a shift
 * of each of the lane's two rows (ALiBi, once what depends on the column is added); by a curve (softcap).
 *
 * Scores are in units of log2. Of each scaling: score_of, a product's score; score_above, less its row's reference. */
#ifndef DEVICE_SCALING_CUH
#define DEVICE_SCALING_CUH

#include "device/score.cuh"

/* ---- By a factor ---- */

ATTUNE_INLINE float score_of(float factor, float product, int)
{
    return product * factor;
}

ATTUNE_INLINE float score_above(float factor, float product, float reference, int)
{
    return fmaf(product, factor, -reference);
}

/* ---- By a factor and a shift ---- */

/* `shift` is that of the lane's first column. */
struct shifted {
    float factor, shift[2];
};

ATTUNE_INLINE float score_of(const shifted &by, float product, int r)
{
    return fmaf(product, by.factor, by.shift[r]);
}

ATTUNE_INLINE float score_above(const shifted &by, float product, float reference, int r)
{
    return fmaf(product, by.factor, by.shift[r] - reference);
}

/* ---- By a curve ---- */

/* softcap tanh(x) with x = product scale / softcap, as x (a + b x^2 + c x^4): off by 3.9e-5 of itself where |x| is at
 * most 0.55, the least that such a polynomial can be off by. So a score costs no second exponential; where some x is
 * larger, the tile is done again with true ones: no weight may be above that of the score at the curve's end. Below
 * -0.55 the polynomial is too low: a score weighs less than it ought to, with a softcap of 28 (CURVE_SOFTCAP) by 1.2e-9
 * of the weight of a score of 0 at most, with 30 by 4.2e-10; that is 2.0e-8 and 8.4e-9 of the largest weight where a
 * row's scores are as low as find_bends lets them be. Here a, b and c are of the product itself. A line, where scores
 * are capped already, has no end. */
struct score_curve {
    float a, b, c;
};

constexpr float CURVE_SOFTCAP = 28; /* the least that scores follow the curve with */
constexpr float LINE_END = 1e30f;   /* no score is as large */

/* What hides a key where the curve is a line. NOTE: -inf times 0 would be NaN. No constant: it would be in every cubin.
 */
ATTUNE_INLINE float hidden_on_line()
{
    return -1e18f;
}

/* What tanh is taken of, of a product. NOTE: a division would be a call. */
ATTUNE_INLINE float curve_inner(const attune_args &args)
{
    return args.scale * ptx_rcp_approx_ftz_f32(args.softcap);
}

ATTUNE_INLINE score_curve score_curve_of(const attune_args &args)
{
    float inner = curve_inner(args), a = args.scale * LOG2_E, square = inner * inner;
    return {a * 0.99996126f, a * square * -0.33099829f, a * square * square * 0.11188017f};
}

/* tanh(product inner) alone; whoever asks for it knows where it ends. Off by 2.3e-5 up to 1/2. */
ATTUNE_INLINE score_curve tanh_curve_of(float inner)
{
    float square = inner * inner;
    return {inner * 0.99997746f, inner * square * -0.33169097f, inner * square * square * 0.1152069f};
}

/* Of scores that are capped, but for the factor. */
ATTUNE_INLINE score_curve score_line_of(float factor)
{
    return {factor, 0, 0};
}

ATTUNE_INLINE float on_curve(const score_curve &by, float product, float square)
{
    return product * fmaf(fmaf(by.c, square, by.b), square, by.a);
}

ATTUNE_INLINE float score_of(const score_curve &by, float product, int)
{
    return product <= hidden_on_line() ? negative_infinity() : on_curve(by, product, product * product);
}

ATTUNE_INLINE float score_above(const score_curve &by, float product, float reference, int)
{
    float square = product * product;
    return fmaf(product, fmaf(fmaf(by.c, square, by.b), square, by.a), -reference);
}

/* Whether what hides a key weighs nothing on the curve, whose least part has all its bits. */
ATTUNE_INLINE bool curve_hides(const score_curve &by)
{
    float product = hidden_on_line();
    return by.c >= 0x1p-126f && on_curve(by, product, product * product) < -1e30f;
}

/* The score where the curve ends: at tanh 0.55. NOTE: worked out where it is wanted, since registers are few. */
ATTUNE_INLINE float curve_end(const attune_args &args)
{
    return args.softcap * (LOG2_E * 0.50052f);
}

#endif
