#include "base/random.h"

#include <math.h>

/* SplitMix64 (Steele, Lea, Flood 2014): a Weyl sequence through a mixing function. */
static uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

at_random at_random_seed(uint64_t seed, uint64_t stream)
{
    at_random random = {mix(seed + 0x9e3779b97f4a7c15u) ^ mix(stream * 0xd1342543de82ef95u + 1)};
    return random;
}

uint64_t at_random_next(at_random *random)
{
    random->state += 0x9e3779b97f4a7c15u;
    return mix(random->state);
}

uint64_t at_random_below(at_random *random, uint64_t bound)
{
    /* Values under 2^64 mod bound would make the first remainders likelier. */
    uint64_t unfair = (0 - bound) % bound;
    uint64_t value = at_random_next(random);
    while (value < unfair) {
        value = at_random_next(random);
    }
    return value % bound;
}

double at_random_uniform(at_random *random)
{
    return (double)(at_random_next(random) >> 11) * 0x1p-53;
}

double at_random_normal(at_random *random)
{
    /* Box and Muller 1958; the second value is dropped so that a draw always advances the state by two. */
    double radius = sqrt(-2.0 * log(1.0 - at_random_uniform(random)));
    return radius * cos(6.283185307179586 * at_random_uniform(random));
}
