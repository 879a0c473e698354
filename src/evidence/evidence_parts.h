/* What the files that read and write evidence share. */
#ifndef EVIDENCE_EVIDENCE_PARTS_H
#define EVIDENCE_EVIDENCE_PARTS_H

#include "judge/verdict.h"
#include "wire/json.h"

/* A verdict as an object without its digest; NULL for want of memory. */
json_t *at_evidence_write_verdict(const at_verdict *verdict);
/* Back again, into a verdict with nothing in it. ATTUNE_CORRUPT names `path` and the field. */
attune_status at_evidence_read_verdict(const json_t *object, const char *path, at_verdict *verdict);

/* A new object of a verdict that begins with its digest. */
attune_status at_evidence_object(const at_verdict *verdict, char digest[AT_DIGEST_TEXT_MAX], json_t **object);

/* The verdicts of a file as they are; release the object, to which the list belongs. */
attune_status at_evidence_list(const char *path, json_t **object, json_t **list);
/* Replaces a file by one with these verdicts. */
attune_status at_evidence_write(const char *path, const json_t *list);

#endif
