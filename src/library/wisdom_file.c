/* Wisdom of a context, from and to files. */
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "library/state.h"

static attune_status read_file(const char *path, at_wisdom *wisdom, size_t *skipped)
{
    void *data = NULL;
    size_t bytes = 0;
    AT_FORWARD(at_file_read(path, AT_WISDOM_BYTES_MAX, &data, &bytes));
    attune_status status = at_wisdom_parse(wisdom, data, bytes, skipped);
    free(data);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "wisdom file %s", path);
}

/* What is known has changed, so that every choice must be made anew. Loaded kernels, and what plans have, stay. */
static void forget_choices(attune_context *context)
{
    atomic_fetch_add(&context->changes, 1);
    for (size_t i = 0; i < at_lookup_count(context->choices); ++i) {
        free(at_lookup_at(context->choices, i));
    }
    at_lookup_clear(context->choices);
}

static attune_status adopt(attune_context *context, const at_wisdom *rows)
{
    pthread_mutex_lock(&context->planning);
    pthread_rwlock_wrlock(&context->lock);
    attune_status status = at_wisdom_merge(context->wisdom, rows);
    forget_choices(context);
    pthread_rwlock_unlock(&context->lock);
    pthread_mutex_unlock(&context->planning);
    return status;
}

attune_status attune_wisdom_read(attune_context *context, const char *path, size_t *skipped)
{
    at_wisdom *rows;
    size_t bad = 0;
    AT_FAIL_IF(context == NULL, ATTUNE_INVALID_ARGUMENT, "context is NULL");
    AT_FAIL_IF(path == NULL || *path == '\0', ATTUNE_INVALID_ARGUMENT, "path of the wisdom file is %s",
               path == NULL ? "NULL" : "empty");
    AT_FORWARD(at_wisdom_create(&rows));
    attune_status status = read_file(path, rows, &bad);
    if (status == ATTUNE_OK) {
        status = adopt(context, rows);
    }
    at_wisdom_destroy(rows);
    if (status == ATTUNE_OK && skipped != NULL) {
        *skipped = bad;
    }
    return status;
}

enum { LOCK_TRIES = 200, LOCK_WAIT_NS = 10000000 }; /* two seconds in all */

/* Locks the folder of a file, so that programs that merge into it at the same moment take turns. Returns a descriptor
 * to close, or -1: where locks do not work, or someone holds this one for long, merging goes on without, for the file
 * stays whole either way. The folder is locked, not the file, because the file is replaced. */
static int lock_folder(const char *path)
{
    char *resolved = realpath(path, NULL);
    char *copy = resolved != NULL ? resolved : strdup(path);
    int folder = copy == NULL ? -1 : open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    for (int tries = 0; folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) != 0; ++tries) {
        const struct timespec wait = {0, LOCK_WAIT_NS};
        if (tries >= LOCK_TRIES || at_file_interrupted()) {
            (void)close(folder);
            return -1;
        }
        (void)nanosleep(&wait, NULL);
    }
    return folder;
}

static attune_status write_file(const at_wisdom *rows, const char *path)
{
    char *text;
    size_t bytes;
    AT_FORWARD(at_wisdom_print(rows, &text, &bytes));
    attune_status status =
        bytes > AT_WISDOM_BYTES_MAX
            ? at_fail(ATTUNE_INVALID_ARGUMENT, "wisdom for %s has %zu bytes, at most %zu can be read back", path, bytes,
                      AT_WISDOM_BYTES_MAX)
            : at_file_write(path, text, bytes);
    free(text);
    return status;
}

/* Puts rows before those of a file. A file that is no wisdom of ours is not replaced: it may be something that the
 * caller named by mistake. */
static attune_status merge(const char *path, const at_wisdom *newer, at_wisdom *rows)
{
    attune_status status = read_file(path, rows, NULL);
    if (status != ATTUNE_OK && status != ATTUNE_NOT_FOUND) {
        return status;
    }
    AT_FORWARD(at_wisdom_merge(rows, newer));
    return write_file(rows, path);
}

static attune_status merge_in_turn(const char *path, const at_wisdom *newer)
{
    at_wisdom *rows;
    AT_FORWARD(at_wisdom_create(&rows));
    int folder = lock_folder(path);
    attune_status status = merge(path, newer, rows);
    if (folder >= 0) {
        (void)close(folder);
    }
    at_wisdom_destroy(rows);
    return status;
}

attune_status attune_wisdom_write(const attune_context *context, const char *path)
{
    at_wisdom *own;
    AT_FAIL_IF(context == NULL, ATTUNE_INVALID_ARGUMENT, "context is NULL");
    AT_FAIL_IF(path == NULL || *path == '\0', ATTUNE_INVALID_ARGUMENT, "path of the wisdom file is %s",
               path == NULL ? "NULL" : "empty");
    AT_FORWARD(at_wisdom_create(&own));
    pthread_rwlock_t *lock = (pthread_rwlock_t *)&context->lock;
    pthread_rwlock_rdlock(lock);
    attune_status status = at_wisdom_merge(own, context->wisdom);
    pthread_rwlock_unlock(lock);
    status = status == ATTUNE_OK ? merge_in_turn(path, own) : status;
    at_wisdom_destroy(own);
    return status;
}

attune_status at_wisdom_file_read(const char *path, at_wisdom *wisdom)
{
    return read_file(path, wisdom, NULL);
}

attune_status at_wisdom_file_check(const char *path)
{
    at_wisdom *rows;
    AT_FORWARD(at_wisdom_create(&rows));
    attune_status status = read_file(path, rows, NULL);
    at_wisdom_destroy(rows);
    return status == ATTUNE_OK || status == ATTUNE_NOT_FOUND ? at_writer_check(path) : status;
}

attune_status at_wisdom_file_add(const char *path, const at_wisdom_row *row)
{
    at_wisdom *one;
    AT_FORWARD(at_wisdom_create(&one));
    attune_status status = at_wisdom_add(one, row);
    status = status == ATTUNE_OK ? merge_in_turn(path, one) : status;
    at_wisdom_destroy(one);
    return status;
}
