/* What memory holds before a call. The bytes follow from kind, seed and place alone, so that what was not written is
 * known again, and from nothing that a kernel could know. */
#ifndef BASE_POISON_H
#define BASE_POISON_H

#include <stddef.h>
#include <stdint.h>

/* What elements are, read as fp16, bf16 or fp32. */
typedef enum at_poison_kind {
    AT_POISON_NAN = 0, /* NaN with any sign and payload */
    AT_POISON_ZERO,
    AT_POISON_BITS,    /* anything */
    AT_POISON_NUMBERS, /* ordinary numbers, as a result has them: up to 2 in size */
    AT_POISON_KINDS
} at_poison_kind;

/* All zero: NaN. */
typedef struct at_poison {
    uint64_t seed;
    int32_t kind; /* at_poison_kind */
} at_poison;

/* Any kind, by the seed. */
at_poison at_poison_draw(uint64_t seed);
/* Another one: of the kind that many kinds after this one, of another seed. */
at_poison at_poison_other(at_poison poison, int kinds);
/* Writes bytes `place`, `place` + 1, ... of a poison. */
void at_poison_write(at_poison poison, uint64_t place, void *data, size_t bytes);
/* How many of the bytes are still those, from the first on: `bytes` where all are. */
size_t at_poison_intact(at_poison poison, uint64_t place, const void *data, size_t bytes);

#endif
