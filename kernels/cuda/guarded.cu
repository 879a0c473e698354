/* guarded: tiled with numerical guards: exponents clamped to exp's range, visible non-finite logits and empty
 * denominators counted, an epsilon in the division. Equal to tiled within rounding on finite inputs.
 *
 * What it taught: in an online softmax the largest exponent argument is 0 by construction, a denominator is 0 only for
 * a row without keys, and what lies below exp's range contributes nothing with a clamp or without. There is nothing to
 * cure: errors of a kernel are errors of its tiles and masks, which guards hide. docs/ladder.md has the counts. */
#define ATTUNE_GUARDED 1
#include "tiled.cu"
