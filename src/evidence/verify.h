/* Does evidence still hold? Every verdict is judged again from its samples, and its kernel made again from today's
 * source with the compiler that made it then. What compiles to the same code is the same. */
#ifndef EVIDENCE_VERIFY_H
#define EVIDENCE_VERIFY_H

#include "evidence/evidence.h"

typedef enum at_freshness {
    AT_FRESH = 0, /* the same findings from the same samples, and the same code from today's source */
    AT_STALE,     /* today's source, or today's attune, makes other code, or has no such kernel */
    AT_UNCHECKED, /* the compiler that made the code is not here, or the source is not attune's */
    AT_BROKEN     /* a field or a digest is wrong, or other findings follow from the samples */
} at_freshness;

const char *at_freshness_name(at_freshness state); /* "fresh", "stale", "unchecked", "broken" */

/* One verdict of an archive. */
typedef struct at_record {
    const char *file;         /* belongs to the archive */
    at_evidence_entry *entry; /* likewise; what follows from its verdict's samples was derived anew */
    at_freshness state;
    char why[AT_SENTENCE_MAX]; /* "" for a fresh one */
    bool newest;               /* of its series; not in earnest only where none was */
} at_record;

/* All evidence below a directory (or of one file). */
typedef struct at_archive {
    size_t files, count;
    char **file;
    at_evidence *evidence; /* of each file */
    at_record *record;     /* by device, kernel, problem, then from old to new; broken ones that have no name first */
} at_archive;

/* Judges a verdict again: whether the recorded findings follow from what was seen. Fails only for want of memory. */
attune_status at_verify_follows(at_verdict *verdict, bool *follows);
/* Looks at one verdict. `cache` is where compiled kernels are kept (NULL: the user's; "": nowhere). Fails only for want
 * of memory. */
attune_status at_verify(at_evidence_entry *entry, const char *cache, at_record *record);

/* How an archive is looked at. */
typedef struct at_archive_options {
    const char *cache; /* as above */
    bool by_source;    /* source, headers and options that are today's, and the recorded compiler, are taken to give the
                          recorded code, as they have before: nothing is compiled that did not change */
    void (*progress)(void *self, double done); /* 0 ... 1, from the thread that opens it; may be NULL */
    void *self;
} at_archive_options;

/* The same as at_archive_open, by all processors. */
attune_status at_archive_open_with(const char *path, const at_archive_options *options, at_archive *archive);
/* Reads and looks at everything. A file that cannot be read as a whole is one broken record without a verdict.
 * ATTUNE_NOT_FOUND where there is nothing at `path`. Free with at_archive_close, which is fine with what failed. */
attune_status at_archive_open(const char *path, const char *cache, at_archive *archive);
void at_archive_close(at_archive *archive);

/* Whether both have verdicts on the same device, kernel (whatever its config) and problem. */
bool at_record_same_series(const at_record *a, const at_record *b);
/* The name of a verdict's kernel, without its config. */
void at_record_kernel(const at_verdict *verdict, char name[AT_KERNEL_TEXT_MAX]);
/* "PARAM=VALUE,..." of it; "" where there is none. */
const char *at_record_config(const at_verdict *verdict);

#endif
