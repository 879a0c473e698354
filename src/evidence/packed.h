/* Samples as compressed files have them: in bits, which are a verdict's last member, what the lists "ns" of
 * docs/evidence.md say in digits. Lists are what verdicts are read from and what digests are of. */
#ifndef EVIDENCE_PACKED_H
#define EVIDENCE_PACKED_H

#include "base/text.h"
#include "wire/json.h"

/* Makes a verdict's lists of its bits, if it has any. ATTUNE_CORRUPT names `path`, and leaves it as it is. */
attune_status at_packed_open(json_t *verdict, const char *path);
/* A new verdict whose lists went into bits, which are added to a text; NULL for want of memory. */
json_t *at_packed_close(const json_t *verdict, at_text *bits);

#endif
