/* Writing ledgers. */
#include "evolve/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "base/text.h"
#include "evolve/ledger_line.h"

struct at_ledger {
    char *path;
    int file;
    bool failed;
    int64_t next_seq;
    char digest[AT_DIGEST_TEXT_MAX]; /* of the line before */
};

/* ---- Files ------------------------------------------------------------------------------------------------------- */

/* Opens and locks: two processes that append to one ledger would break its chain. */
static attune_status open_file(const char *path, int flags, at_ledger **ledger)
{
    at_ledger *made = calloc(1, sizeof *made);
    char *copy = strdup(path);
    if (made == NULL || copy == NULL) {
        free(made);
        free(copy);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a ledger");
    }
    *made = (at_ledger){.path = copy, .file = open(path, O_RDWR | O_APPEND | O_CLOEXEC | flags, 0666)};
    attune_status status = ATTUNE_OK;
    if (made->file < 0) {
        status = at_fail(errno == ENOENT ? ATTUNE_NOT_FOUND : ATTUNE_IO_ERROR, "%s cannot be opened: %s", path,
                         strerror(errno));
    } else if (flock(made->file, LOCK_EX | LOCK_NB) != 0) {
        status = at_fail(ATTUNE_INVALID_ARGUMENT, "%s is being written by another process", path);
    }
    if (status != ATTUNE_OK) {
        at_ledger_close(made);
        return status;
    }
    *ledger = made;
    return ATTUNE_OK;
}

void at_ledger_close(at_ledger *ledger)
{
    if (ledger != NULL) {
        if (ledger->file >= 0) {
            (void)close(ledger->file);
        }
        free(ledger->path);
        free(ledger);
    }
}

/* The name itself is on disk only when its folder is. */
static attune_status sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
    AT_FAIL_IF(folder == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a ledger");
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool well = file >= 0 && fsync(file) == 0;
    attune_status status = well ? ATTUNE_OK : at_fail(ATTUNE_IO_ERROR, "%s: %s", folder, strerror(errno));
    if (file >= 0) {
        (void)close(file);
    }
    free(folder);
    return status;
}

static attune_status write_all(at_ledger *ledger, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(ledger->file, data, bytes);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        AT_FAIL_IF(written < 0, ATTUNE_IO_ERROR, "%s cannot be written: %s", ledger->path, strerror(errno));
        data += written;
        bytes -= (size_t)written;
    }
    AT_FAIL_IF(fdatasync(ledger->file) != 0 && errno != EINVAL, ATTUNE_IO_ERROR, "%s cannot be synced: %s",
               ledger->path, strerror(errno)); /* EINVAL: a pipe, which has nothing to sync */
    return ATTUNE_OK;
}

attune_status at_ledger_append(at_ledger *ledger, const at_event *event)
{
    AT_FAIL_IF(ledger->failed, ATTUNE_IO_ERROR, "%s: a line before could not be written", ledger->path);
    AT_FAIL_IF((event->kind == AT_EVENT_START) != (ledger->next_seq == 0), ATTUNE_INVALID_ARGUMENT,
               "%s: a ledger begins with its start, and has one", ledger->path);
    at_text line;
    at_text_init(&line);
    attune_status status = at_ledger_line(event, ledger->next_seq, ledger->digest, &line);
    if (status == ATTUNE_OK) {
        status = write_all(ledger, line.data, line.length);
    }
    at_text_free(&line);
    ledger->failed = status != ATTUNE_OK;
    ledger->next_seq += status == ATTUNE_OK;
    return status;
}

/* ---- Beginning and going on -------------------------------------------------------------------------------------- */

/* *bytes: that the file has. Looks at no more of them than a first line may have. */
static attune_status has_begun(const char *path, int file, off_t *bytes, bool *begun)
{
    char head[16384];
    struct stat about;
    AT_FAIL_IF(fstat(file, &about) != 0, ATTUNE_IO_ERROR, "%s: %s", path, strerror(errno));
    *bytes = about.st_size;
    *begun = *bytes > (off_t)sizeof head;
    if (*bytes == 0 || *begun) { /* a pipe has no bytes either, and cannot be looked into */
        return ATTUNE_OK;
    }
    ssize_t got = pread(file, head, sizeof head, 0);
    AT_FAIL_IF(got < 0, ATTUNE_IO_ERROR, "%s: %s", path, strerror(errno));
    *begun = !at_ledger_is_torn_start(head, (size_t)got);
    return ATTUNE_OK;
}

attune_status at_ledger_begun(const char *path, bool *begun)
{
    off_t bytes;
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe would wait for someone who writes */
    *begun = false;
    AT_FAIL_IF(file < 0 && errno != ENOENT, ATTUNE_IO_ERROR, "%s cannot be opened: %s", path, strerror(errno));
    if (file < 0) {
        return ATTUNE_OK;
    }
    attune_status status = has_begun(path, file, &bytes, begun);
    (void)close(file);
    return status;
}

static attune_status begin(at_ledger *ledger, const at_event *start)
{
    off_t bytes;
    bool begun;
    AT_FORWARD(has_begun(ledger->path, ledger->file, &bytes, &begun));
    AT_FAIL_IF(begun, ATTUNE_INVALID_ARGUMENT,
               "%s exists: a ledger is never overwritten; go on with it, or name another file", ledger->path);
    AT_FAIL_IF(bytes > 0 && ftruncate(ledger->file, 0) != 0, ATTUNE_IO_ERROR, "%s: its torn line cannot be cut off: %s",
               ledger->path, strerror(errno));
    AT_FORWARD(at_ledger_append(ledger, start));
    return sync_folder(ledger->path);
}

attune_status at_ledger_create(const char *path, const at_event *start, at_ledger **ledger)
{
    *ledger = NULL;
    at_ledger *made;
    AT_FORWARD(open_file(path, O_CREAT, &made));
    attune_status status = begin(made, start);
    if (status != ATTUNE_OK) {
        at_ledger_close(made);
        return status;
    }
    *ledger = made;
    return ATTUNE_OK;
}

static attune_status go_on(at_ledger *ledger, at_ledger_log *log)
{
    AT_FAIL_IF(log->ended, ATTUNE_INVALID_ARGUMENT, "%s: its search has ended", ledger->path);
    AT_FAIL_IF(ftruncate(ledger->file, (off_t)log->bytes) != 0 || fsync(ledger->file) != 0, ATTUNE_IO_ERROR,
               "%s: its torn tail cannot be cut off: %s", ledger->path, strerror(errno));
    ledger->next_seq = log->next_seq;
    memcpy(ledger->digest, log->digest, sizeof ledger->digest);
    return ATTUNE_OK;
}

attune_status at_ledger_resume(const char *path, at_ledger **ledger, at_ledger_log **log)
{
    *ledger = NULL;
    *log = NULL;
    at_ledger *made;
    AT_FORWARD(open_file(path, 0, &made));
    attune_status status = at_ledger_read(path, log);
    if (status == ATTUNE_OK) {
        status = go_on(made, *log);
    }
    if (status != ATTUNE_OK) {
        at_ledger_free(*log);
        *log = NULL;
        at_ledger_close(made);
        return status;
    }
    *ledger = made;
    return ATTUNE_OK;
}
