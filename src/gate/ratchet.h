/* The ratchet: evidence that got worse. A kernel's newest verdict on a problem is held against its best one. */
#ifndef GATE_RATCHET_H
#define GATE_RATCHET_H

#include "gate/verify.h"

/* One step back. */
typedef struct at_slip {
    const at_record *newest, *best;
    char peer[AT_KERNEL_TEXT_MAX]; /* "" where the newest is not right and an earlier one was */
    at_mode mode;
    at_interval now, then; /* r */
} at_slip;

typedef struct at_ratchet {
    int64_t compared; /* newest verdicts that had an earlier one to be compared with */
    size_t count;
    at_slip *slip;
} at_ratchet;

/* Compares verdicts of the same device, kernel and problem (its config may have changed), against the same peer with
 * the same account of itself (a newer cuDNN is another peer), warm and cold: the newest is worse where its interval of
 * r lies wholly below the best one's. A newest one that is not right, where an earlier was, is worse in any case.
 * Broken verdicts, and those that were not in earnest, are passed over. Records of the archive must outlive the result;
 * free with at_ratchet_free.
 */
attune_status at_ratchet_run(const at_archive *archive, at_ratchet *ratchet);
void at_ratchet_free(at_ratchet *ratchet);

#endif
