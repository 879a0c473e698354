/* Blocks that count, of a device that may be too hot for a moment, or that others use: time cures both. */
#ifndef EVOLVE_PATIENCE_H
#define EVOLVE_PATIENCE_H

#include "measure/session.h"

typedef struct at_patience {
    void *self;
    attune_status (*block)(void *self, at_block *block); /* times one, all zeros before */
    void (*pause)(void *self, double seconds);
} at_patience;

/* Seconds that are waited for a block that counts, in pauses that begin with the first and double up to the last. */
enum { AT_PATIENCE_S = 60 };

/* One block that counts: one that was disturbed is followed by a pause and another. AT_DISTURBED (race.h) where they
 * were for AT_PATIENCE_S of pauses, ATTUNE_INTERRUPTED where somebody interrupts; what fails otherwise is not tried
 * again. */
attune_status at_patience_block(const at_patience *patience, at_block *block);

#endif
