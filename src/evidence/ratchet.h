/* The ratchet: evidence that got worse. A kernel's newest verdict on a problem is held against its best one. */
#ifndef EVIDENCE_RATCHET_H
#define EVIDENCE_RATCHET_H

#include "evidence/verify.h"

/* One step back. */
typedef struct at_slip {
    const at_record *newest, *best;
    char peer[AT_KERNEL_TEXT_MAX]; /* "" where the newest is not right and an earlier one was */
    at_mode mode;
    at_interval now, then; /* r */
    double reach;          /* by so large a factor ratios of unchanged arms may differ between the two sessions, and
                              excuse the candidate */
    int unchanged;         /* arms that this is known by, peers and a peer's twin; fewer than two: nothing is known */
} at_slip;

typedef struct at_ratchet {
    int64_t compared; /* newest verdicts that had an earlier one to be compared with */
    size_t count, excused;
    at_slip *slip;
    at_slip *excuse; /* comparisons whose intervals do not touch, and are no further apart than sessions differ */
} at_ratchet;

/* However far unchanged arms have moved, no more than such a factor is put down to sessions. */
#define AT_RATCHET_REACH_MOST 1.05

/* Compares verdicts of the same device, kernel and problem (its config may have changed), against the same peer with
 * the same account of itself (a newer cuDNN is another peer), warm and cold: the newest is worse where its interval of
 * r lies wholly below the best one's, by more than `reach` (at most AT_RATCHET_REACH_MOST). A newest one that is not
 * right, where an earlier was, is worse in any case.
 *
 * Noise: an interval is over the processes of one session, and sessions differ by more (where a driver lays buffers,
 * how warm a device is): two of the same code are up to some percent apart. Cure: arms that are the same in both
 * sessions show it. How far each has moved against the candidate is one number for each; their deviation is that of
 * what a session does to one arm, a ratio has two, and Student's t for so few makes 95 % of it. Broken verdicts, and
 * those that were not in earnest, are passed over. Records of the archive must outlive the result; free with
 * at_ratchet_free.
 */
attune_status at_ratchet_run(const at_archive *archive, at_ratchet *ratchet);
void at_ratchet_free(at_ratchet *ratchet);

/* Marks those of `count` records of one series, from old to new, that a ratchet looks at: the newest, the best before
 * it against each of its peers, and where it is not right the last one that was. */
void at_ratchet_mark(const at_record *record, size_t count, bool *marks);

#endif
