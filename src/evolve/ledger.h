/* The ledger of a search: an append-only file of events, one line of JSON each, from which a search that was killed
 * goes on and strategies are replayed.
 *
 * A line is {"seq":N,"kind":"...",...,"digest":"..."}: seq counts from 0, and digest is the SHA-256 of the digest of
 * the line before it (nothing, for the first) followed by the line up to and without `,"digest"`. So a line that was
 * changed, dropped, inserted or moved breaks the chain where it is. Every line is written by one call and synced
 * before the search goes on: a process or machine that dies can damage the last line only.
 *
 * That last line, if it is no whole one, is torn: whoever reads passes over it, whoever resumes cuts it off. Anything
 * else that is wrong is refused by its line's number. Fields and kinds of events of later versions are passed over. */
#ifndef EVOLVE_LEDGER_H
#define EVOLVE_LEDGER_H

#include "evolve/event.h"

#define AT_LEDGER_VERSION 1

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

typedef struct at_ledger at_ledger;

/* Whether there is a ledger with something in it: not where there is no file, an empty one, or one that is torn in its
 * first line, as a process leaves it that died at once. */
attune_status at_ledger_begun(const char *path, bool *begun);
/* A new ledger whose first event is `start`. ATTUNE_INVALID_ARGUMENT where the file has begun, or is no ledger: nothing
 * is ever overwritten. */
attune_status at_ledger_create(const char *path, const at_event *start, at_ledger **ledger);

struct at_ledger_log;
/* Opens a ledger to go on with it, its torn tail cut off, and reads what it holds. ATTUNE_INVALID_ARGUMENT where
 * another process writes it, or its search has ended. */
attune_status at_ledger_resume(const char *path, at_ledger **ledger, struct at_ledger_log **log);
/* Writes the event and syncs. After a failure nothing more is written: every append fails. */
attune_status at_ledger_append(at_ledger *ledger, const at_event *event);
void at_ledger_close(at_ledger *ledger);

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

typedef struct at_ledger_log {
    at_event *event; /* [count]; the first is the start */
    size_t count;
    size_t passed;     /* events of kinds that this version does not know */
    size_t torn_bytes; /* of a tail that is no whole line */
    size_t bytes;      /* of the whole lines */
    int64_t next_seq;
    char digest[AT_DIGEST_TEXT_MAX]; /* of the last whole line */
    bool ended;                      /* an end is the last event */
    const at_space *space;           /* of the last space event; NULL where there is none */
} at_ledger_log;

/* `what` names the text in errors. ATTUNE_CORRUPT names the line. */
attune_status at_ledger_parse(const char *what, const char *text, size_t bytes, at_ledger_log **log);
/* Reads a file, also one that gzip compressed. */
attune_status at_ledger_read(const char *path, at_ledger_log **log);
void at_ledger_free(at_ledger_log *log);

#endif
