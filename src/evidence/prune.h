/* What of an archive need not be kept: verdicts that are neither the newest nor the best of their kind. */
#ifndef EVIDENCE_PRUNE_H
#define EVIDENCE_PRUNE_H

#include "evidence/verify.h"

/* Removes them from their files, and counts them. What stays: of each device, kernel and problem the newest verdict,
 * and those that the ratchet holds it against (the best one against each peer, or, where the newest is not right, the
 * last one that was); verdicts that the shipped wisdom names; and what is broken, which is for a person to look at. The
 * archive's records stay as read. */
attune_status at_archive_prune(const at_archive *archive, size_t *removed);

#endif
