#include "reference/normals.h"

#include <math.h>
#include <string.h>

/* Pairs are made PAIRS at a time, in vectors: most of what a large case takes on the host was sines and logarithms. */
enum { PAIRS = 4 };

typedef double numbers __attribute__((vector_size(32)));
typedef int64_t words __attribute__((vector_size(32)));
typedef uint64_t signs __attribute__((vector_size(32)));

#define INLINE static inline __attribute__((always_inline))

/* a where the mask is set, else b. Vectors are not handed over by value, which has another ABI in each tier. */
#define PICK(mask, a, b) ((numbers)(((words)(a) & (mask)) | ((words)(b) & ~(mask))))

/* Logarithms of numbers in (0, 1], none of them subnormal: of m in [sqrt(1/2), sqrt(2)) by the series of
 * 2 atanh((m - 1) / (m + 1)), whose first term left out is below 2^-56. */
INLINE void take_log(numbers *x)
{
    const words bits = (words)*x;
    numbers m = (numbers)((bits & 0xfffffffffffff) | 0x3ff0000000000000);
    numbers e = __builtin_convertvector((bits >> 52) - 1023, numbers);
    const words large = m > 1.4142135623730951;
    m = PICK(large, m * 0.5, m);
    e = PICK(large, e + 1, e);
    const numbers s = (m - 1) / (m + 1), z = s * s;
    numbers sum = z * (1.0 / 21) + 1.0 / 19;
    sum = sum * z + 1.0 / 17;
    sum = sum * z + 1.0 / 15;
    sum = sum * z + 1.0 / 13;
    sum = sum * z + 1.0 / 11;
    sum = sum * z + 1.0 / 9;
    sum = sum * z + 1.0 / 7;
    sum = sum * z + 1.0 / 5;
    sum = sum * z + 1.0 / 3;
    *x = e * 0.6931471805599453 + 2 * (s + s * z * sum);
}

/* Cosine and sine of so many turns in [0, 1): of at most an eighth of one by their series. */
INLINE void turn(const numbers *turns, numbers *cosine, numbers *sine)
{
    const double whole = 0x1.8p52; /* what is added to it loses its fraction */
    const numbers quarters = *turns * 4, near = quarters + whole;
    const words quarter = (words)near;
    const numbers a = (quarters - (near - whole)) * 1.5707963267948966, z = a * a;
    numbers s = z * (-1.0 / 1307674368000) + 1.0 / 6227020800;
    s = s * z - 1.0 / 39916800;
    s = s * z + 1.0 / 362880;
    s = s * z - 1.0 / 5040;
    s = s * z + 1.0 / 120;
    s = s * z - 1.0 / 6;
    s = a + a * z * s;
    numbers c = z * (1.0 / 20922789888000) - 1.0 / 87178291200;
    c = c * z + 1.0 / 479001600;
    c = c * z - 1.0 / 3628800;
    c = c * z + 1.0 / 40320;
    c = c * z - 1.0 / 720;
    c = c * z + 1.0 / 24;
    c = c * z - 0.5;
    c = 1 + z * c;
    const words odd = (quarter & 1) != 0;
    const signs minus_c = (signs)((quarter + 1) & 2) << 62, minus_s = (signs)(quarter & 2) << 62;
    *cosine = (numbers)((signs)PICK(odd, s, c) ^ minus_c);
    *sine = (numbers)((signs)PICK(odd, c, s) ^ minus_s);
}

INLINE void make_pairs(const double *u, const double *turns, float *values)
{
    numbers left, angle, cosine, sine;
    memcpy(&left, u, sizeof left);
    memcpy(&angle, turns, sizeof angle);
    numbers radius = 1 - left;
    take_log(&radius);
    radius *= -2;
    for (int i = 0; i < PAIRS; ++i) {
        radius[i] = sqrt(radius[i]);
    }
    turn(&angle, &cosine, &sine);
    cosine *= radius;
    sine *= radius;
    for (int i = 0; i < PAIRS; ++i) {
        values[2 * i] = (float)cosine[i];
        values[2 * i + 1] = (float)sine[i];
    }
}

INLINE void make(at_random *random, int64_t count, float *values)
{
    for (int64_t i = 0; i < count; i += 2 * PAIRS) {
        const int64_t left = count - i;
        double u[PAIRS] = {0}, turns[PAIRS] = {0};
        float some[2 * PAIRS];
        for (int64_t k = 0; k < PAIRS && 2 * k < left; ++k) {
            u[k] = at_random_uniform(random);
            turns[k] = at_random_uniform(random);
        }
        make_pairs(u, turns, some);
        memcpy(values + i, some, (size_t)(left < 2 * PAIRS ? left : 2 * PAIRS) * sizeof *values);
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void make_wide(at_random *random, int64_t count, float *values)
{
    make(random, count, values);
}
#endif

/* NOTE: no tier fuses a product and a sum, so that all give the same bits. */
void at_normals(at_random *random, int64_t count, float *values)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        make_wide(random, count, values);
        return;
    }
#endif
    make(random, count, values);
}
