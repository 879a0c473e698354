/* What the files that read and write evidence share. */
#ifndef EVIDENCE_EVIDENCE_PARTS_H
#define EVIDENCE_EVIDENCE_PARTS_H

#include "judge/verdict.h"
#include "wire/json.h"

/* A verdict as an object without its digest; NULL for want of memory. */
json_t *at_evidence_write_verdict(const at_verdict *verdict);
/* Back again, into a verdict with nothing in it. ATTUNE_CORRUPT names `path` and the field. */
attune_status at_evidence_read_verdict(const json_t *object, const char *path, at_verdict *verdict);

#endif
