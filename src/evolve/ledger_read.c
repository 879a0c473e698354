/* Reading ledgers: a chain of lines, each believed only when it follows from the one before. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/status.h"
#include "evolve/ledger.h"
#include "evolve/ledger_line.h"

#define BYTES_MAX ((size_t)1 << 30)

/* ---- Lines ------------------------------------------------------------------------------------------------------- */

/* The bytes before the digest of a line (its newline not counted); 0 where it does not end in one. */
static size_t body_of(const char *line, size_t bytes, char digest[AT_DIGEST_TEXT_MAX])
{
    const size_t mark = strlen(AT_LEDGER_DIGEST);
    const size_t tail = mark + (AT_DIGEST_TEXT_MAX - 1) + strlen("\"}");
    if (bytes <= tail || memcmp(line + bytes - tail, AT_LEDGER_DIGEST, mark) != 0 ||
        memcmp(line + bytes - 2, "\"}", 2) != 0) {
        return 0;
    }
    memcpy(digest, line + bytes - tail + mark, AT_DIGEST_TEXT_MAX - 1);
    digest[AT_DIGEST_TEXT_MAX - 1] = '\0';
    return bytes - tail;
}

/* Believes the line if its digest follows from the log's. */
static attune_status check_chain(const char *path, const char *line, size_t bytes, at_ledger_log *log)
{
    char said[AT_DIGEST_TEXT_MAX];
    char digest[AT_DIGEST_TEXT_MAX];
    size_t body = body_of(line, bytes, said);
    AT_FAIL_IF(body == 0, ATTUNE_CORRUPT, "%s does not end in a digest", path);
    at_ledger_digest(log->digest, line, body, digest);
    AT_FAIL_IF(strcmp(said, digest) != 0, ATTUNE_CORRUPT,
               "%s: its digest is not that of what it says after the line before: one of them was changed, or lines "
               "are missing",
               path);
    memcpy(log->digest, digest, sizeof digest);
    return ATTUNE_OK;
}

static attune_status add_event(const at_event *event, at_ledger_log *log)
{
    /* Room for 2^n events. */
    if ((log->count & (log->count - 1)) == 0) {
        size_t room = log->count == 0 ? 1 : 2 * log->count;
        at_event *grown = realloc(log->event, room * sizeof *grown);
        AT_FAIL_IF(grown == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu events of a ledger", room);
        log->event = grown;
    }
    log->event[log->count++] = *event;
    return ATTUNE_OK;
}

static attune_status take_event(const char *path, const at_event *event, at_ledger_log *log)
{
    AT_FAIL_IF((event->kind == AT_EVENT_START) != (event->seq == 0), ATTUNE_CORRUPT,
               "%s: kind is \"%s\": a ledger begins with its start, and has one", path,
               at_names_of_events[event->kind]);
    AT_FORWARD(add_event(event, log));
    log->ended = event->kind == AT_EVENT_END;
    log->space = event->kind == AT_EVENT_SPACE ? event->as.space : log->space;
    return ATTUNE_OK;
}

static attune_status take_object(const char *path, const json_t *object, at_ledger_log *log)
{
    at_event event;
    int64_t seq;
    AT_FORWARD(at_json_int(object, path, "seq", log->next_seq, log->next_seq, &seq));
    attune_status status = at_event_read(object, path, &event);
    ++log->next_seq;
    if (status == ATTUNE_NOT_FOUND && seq > 0) {
        ++log->passed;
        log->ended = false;
        return ATTUNE_OK;
    }
    AT_FAIL_IF(status == ATTUNE_NOT_FOUND, ATTUNE_CORRUPT, "%s: a ledger begins with its start", path);
    AT_FORWARD(status);
    event.seq = seq;
    status = take_event(path, &event, log);
    if (status != ATTUNE_OK && event.kind == AT_EVENT_SPACE && log->space != event.as.space) {
        at_space_close(event.as.space);
    }
    return status;
}

static attune_status take_line(const char *path, const char *line, size_t bytes, at_ledger_log *log)
{
    json_t *object;
    AT_FORWARD(check_chain(path, line, bytes, log));
    AT_FORWARD(at_json_parse(path, line, bytes, &object));
    attune_status status = take_object(path, object, log);
    json_decref(object);
    return status;
}

/* ---- Texts ------------------------------------------------------------------------------------------------------- */

static attune_status take_text(const char *what, const char *text, size_t bytes, at_ledger_log *log)
{
    for (int64_t number = 1; log->bytes < bytes; ++number) {
        char path[160];
        const char *line = text + log->bytes;
        size_t length = at_ledger_next_line(line, bytes - log->bytes);
        if (length == 0) {
            log->torn_bytes = bytes - log->bytes;
            break;
        }
        (void)snprintf(path, sizeof path, "%.120s, line %" PRId64, what, number);
        AT_FORWARD(take_line(path, line, length - 1, log));
        log->bytes += length;
    }
    AT_FAIL_IF(log->count == 0 && at_ledger_is_torn_start(text, bytes), ATTUNE_CORRUPT,
               "%s is torn in its first line: nothing of its search was kept, and with --resume it is begun anew",
               what);
    AT_FAIL_IF(log->count == 0, ATTUNE_CORRUPT, "%s is no ledger: it has no whole line", what);
    return ATTUNE_OK;
}

attune_status at_ledger_parse(const char *what, const char *text, size_t bytes, at_ledger_log **log)
{
    *log = calloc(1, sizeof **log);
    AT_FAIL_IF(*log == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a ledger");
    attune_status status = take_text(what, text, bytes, *log);
    if (status != ATTUNE_OK) {
        at_ledger_free(*log);
        *log = NULL;
    }
    return status;
}

void at_ledger_free(at_ledger_log *log)
{
    if (log != NULL) {
        for (size_t i = 0; i < log->count; ++i) {
            if (log->event[i].kind == AT_EVENT_SPACE) {
                at_space_close(log->event[i].as.space);
            }
        }
        free(log->event);
        free(log);
    }
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static attune_status inflate_all(const char *path, gzFile file, at_text *text)
{
    char piece[65536];
    int got;
    while ((got = gzread(file, piece, sizeof piece)) > 0) {
        at_text_add_bytes(text, piece, (size_t)got);
        AT_FAIL_IF(text->length > BYTES_MAX, ATTUNE_CORRUPT, "%s holds more than %zu bytes", path, BYTES_MAX);
    }
    int code = Z_OK;
    const char *why = gzerror(file, &code);
    AT_FAIL_IF(code == Z_ERRNO, ATTUNE_IO_ERROR, "%s cannot be read: %s", path, strerror(errno));
    AT_FAIL_IF(got < 0 || code != Z_OK, ATTUNE_CORRUPT, "%s cannot be decompressed: %s", path, why);
    return at_text_status(text, path);
}

attune_status at_ledger_read(const char *path, at_ledger_log **log)
{
    *log = NULL;
    errno = 0;
    gzFile file = gzopen(path, "rb"); /* reads plain files as they are */
    AT_FAIL_IF(file == NULL, errno == ENOENT ? ATTUNE_NOT_FOUND : ATTUNE_IO_ERROR, "%s cannot be opened: %s", path,
               errno == 0 ? "no memory" : strerror(errno));
    at_text text;
    at_text_init(&text);
    attune_status status = inflate_all(path, file, &text);
    (void)gzclose(file);
    if (status == ATTUNE_OK) {
        status = at_ledger_parse(path, text.data, text.length, log);
    }
    at_text_free(&text);
    return status;
}
