/* Numbers of bf16 as words, 32 of them in a vector of AVX-512. */
#ifndef KERNELS_CPU_DEVICE_WORDS_H
#define KERNELS_CPU_DEVICE_WORDS_H

#include "vector.h"

typedef uint16_t words __attribute__((vector_size(64), may_alias));

INLINE int whole(int count, int unit)
{
    return (count + unit - 1) / unit * unit;
}

#endif
