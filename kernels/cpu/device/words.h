/* Numbers of bf16 as words, 32 of them in a vector of AVX-512. */
#ifndef KERNELS_CPU_DEVICE_WORDS_H
#define KERNELS_CPU_DEVICE_WORDS_H

#include "vector.h"

typedef uint16_t words __attribute__((vector_size(64), may_alias));
typedef uint16_t words_unaligned __attribute__((vector_size(64), may_alias, aligned(1)));

INLINE int whole(int count, int unit)
{
    return (count + unit - 1) / unit * unit;
}

/* `count` bf16 numbers of any alignment, at most 32; the others are zero. */
INLINE words load_words(const char *from, int count)
{
    if (count >= 32) {
        return *(const words_unaligned *)from;
    }
    uint16_t some[32] = {0};
    memcpy(some, from, (size_t)(count > 0 ? count : 0) * sizeof *some);
    return *(const words_unaligned *)some;
}

/* What is flagged: where a value is nearer to zero than 2^-100, so that products with it could be subnormal. */
INLINE words find_tiny(words x)
{
    words size = x & 0x7fff;
    return (words)((size - 1) < (27 << 7) - 1);
}

#endif
