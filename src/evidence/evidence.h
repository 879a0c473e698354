/* Evidence: verdicts as files, with all that is needed to judge them again. docs/evidence.md describes the format.
 *
 * A file holds many verdicts, oldest first, each with the digest of all that it says. Files whose name ends with .gz
 * are compressed. Files are replaced whole or not at all. What is wrong with one verdict leaves the others of its file
 * readable. */
#ifndef EVIDENCE_EVIDENCE_H
#define EVIDENCE_EVIDENCE_H

#include "base/text.h"
#include "judge/verdict.h"

enum { AT_EVIDENCE_VERSION = 3 };
#define AT_EVIDENCE_BYTES_MAX ((size_t)64 << 20)

/* One verdict of a file. */
typedef struct at_evidence_entry {
    attune_status status;            /* ATTUNE_CORRUPT where it cannot be believed: a field, or the digest */
    char what[AT_SENTENCE_MAX];      /* then; names the verdict and the field */
    char digest[AT_DIGEST_TEXT_MAX]; /* of the verdict; wisdom refers to it */
    at_verdict *verdict;             /* as recorded, findings too; NULL where the status is not ATTUNE_OK */
} at_evidence_entry;

typedef struct at_evidence {
    size_t count;
    at_evidence_entry *entry;
} at_evidence;

/* From text; `what` names it in errors. ATTUNE_CORRUPT where it is no evidence, ATTUNE_UNSUPPORTED where it is of a
 * version that this attune does not know. Free with at_evidence_close, which is fine with what failed. */
attune_status at_evidence_parse(const char *what, const char *text, size_t bytes, at_evidence *evidence);
attune_status at_evidence_read(const char *path, at_evidence *evidence);
void at_evidence_close(at_evidence *evidence);

/* Appends a judged verdict to a file, which is made where it is not there; what it holds already stays as it is. A file
 * that is no evidence is left alone and reported. Programs that add to the same file take turns. */
attune_status at_evidence_add(const char *path, const at_verdict *verdict);
/* The same for the file where a kernel's verdicts are kept: DIR/MODEL/NAME.json.gz, MODEL being the device's. */
attune_status at_evidence_keep(const char *dir, const at_verdict *verdict);

/* Whether verdicts can be kept below a directory: asked before the work whose verdicts they are. With a device's model
 * ("" or NULL: not known yet) the directory is made, and with a kernel (or NULL) their own file is looked at too. */
attune_status at_evidence_check(const char *dir, const char *model, const char *kernel);

/* A verdict as its text in a file (malloced), and that text's digest. */
attune_status at_verdict_print(const at_verdict *verdict, char **text, char digest[AT_DIGEST_TEXT_MAX]);

/* All files of evidence below a directory, in order of their paths; or the file itself. Free each and the list. */
attune_status at_evidence_find(const char *path, char ***files, size_t *count);

#endif
