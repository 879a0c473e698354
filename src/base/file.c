#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "base/status.h"
#include "base/text.h"

/* Between two pieces the interrupt is looked at. */
enum { PIECE_BYTES = 1 << 20, ALIGN_BYTES = 64 };

static volatile sig_atomic_t interrupted;

void at_file_interrupt(void)
{
    interrupted = 1;
}

bool at_file_interrupted(void)
{
    return interrupted != 0;
}

void at_file_resume(void)
{
    interrupted = 0;
}

static attune_status stopped(const char *path, const char *doing)
{
    return at_fail(ATTUNE_INTERRUPTED, "%s: interrupted while %s it", path, doing);
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

static attune_status open_to_read(const char *path, int *fd, struct stat *info)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0 && errno == EINTR) { /* a pipe that nobody writes to */
        return stopped(path, "opening");
    }
    AT_FAIL_IF(*fd < 0, errno == ENOENT || errno == ENOTDIR ? ATTUNE_NOT_FOUND : ATTUNE_IO_ERROR,
               "%s: cannot be opened: %s", path, strerror(errno));
    const char *trouble = fstat(*fd, info) != 0 ? strerror(errno) : S_ISDIR(info->st_mode) ? "it is a directory" : NULL;
    if (trouble != NULL) {
        (void)close(*fd);
        return at_fail(ATTUNE_IO_ERROR, "%s: cannot be read: %s", path, trouble);
    }
    return ATTUNE_OK;
}

/* realloc that keeps the alignment. The old memory is gone on failure too. */
static unsigned char *grow(unsigned char *data, size_t used, size_t capacity)
{
    void *larger = NULL;
    if (posix_memalign(&larger, ALIGN_BYTES, capacity) != 0) {
        larger = NULL;
    }
    if (larger != NULL && used > 0) {
        memcpy(larger, data, used);
    }
    free(data);
    return larger;
}

/* Fills *data until the file ends. One byte beyond the limit is asked for, to see that there is none. */
static attune_status read_all(int fd, const char *path, size_t limit, size_t capacity, unsigned char **data,
                              size_t *bytes)
{
    *data = grow(NULL, 0, capacity);
    *bytes = 0;
    for (;;) {
        AT_FAIL_IF(*data == NULL, ATTUNE_OUT_OF_MEMORY, "%s: no memory for its %zu bytes", path, capacity);
        if (at_file_interrupted()) {
            return stopped(path, "reading");
        }
        size_t room = capacity - 1 - *bytes;
        if (room == 0) {
            capacity = capacity < SIZE_MAX / 2 ? capacity * 2 : SIZE_MAX / 2;
            *data = grow(*data, *bytes, capacity);
            continue;
        }
        ssize_t got = read(fd, *data + *bytes, room < PIECE_BYTES ? room : PIECE_BYTES);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        AT_FAIL_IF(got < 0, ATTUNE_IO_ERROR, "%s: cannot be read: %s", path, strerror(errno));
        *bytes += (size_t)got;
        AT_FAIL_IF(*bytes > limit, ATTUNE_INVALID_ARGUMENT, "%s: is larger than the %zu bytes allowed", path, limit);
        if (got == 0) {
            (*data)[*bytes] = '\0';
            return ATTUNE_OK;
        }
    }
}

attune_status at_file_read(const char *path, size_t limit, void **data, size_t *bytes)
{
    *data = NULL;
    *bytes = 0;
    int fd;
    struct stat info;
    AT_FORWARD(open_to_read(path, &fd, &info));
    uint64_t size = S_ISREG(info.st_mode) && info.st_size > 0 ? (uint64_t)info.st_size : 0;
    if (size > limit || size > SIZE_MAX / 2) {
        (void)close(fd);
        return at_fail(ATTUNE_INVALID_ARGUMENT, "%s: has %llu bytes, at most %zu are allowed", path,
                       (unsigned long long)size, limit);
    }
    unsigned char *content = NULL;
    size_t used = 0;
    /* Two spare bytes: for the zero, and to see the end without growing. Files that do not report a size start small.
     */
    attune_status status = read_all(fd, path, limit, size > 0 ? (size_t)size + 2 : 4096, &content, &used);
    (void)close(fd);
    if (status != ATTUNE_OK) {
        free(content);
        return status;
    }
    *data = content;
    *bytes = used;
    return ATTUNE_OK;
}

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

struct at_writer {
    int fd;
    attune_status status; /* the first failure */
    char *path;           /* where the content goes, links resolved */
    char *temporary;      /* where it is until commit; NULL when written straight */
};

static void writer_free(at_writer *writer)
{
    if (writer->fd >= 0) {
        (void)close(writer->fd);
    }
    free(writer->temporary);
    free(writer->path);
    free(writer);
}

void at_writer_abandon(at_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    if (writer->temporary != NULL) {
        (void)unlink(writer->temporary);
    }
    writer_free(writer);
}

static attune_status cannot_write(const char *path, int error)
{
    bool missing = error == ENOENT || error == ENOTDIR;
    return at_fail(missing ? ATTUNE_NOT_FOUND : ATTUNE_IO_ERROR, "%s: cannot be written: %s", path,
                   missing ? "its directory does not exist" : strerror(error));
}

/* Length of the path up to and including its last slash. */
static size_t directory_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

/* NOTE: the name is short and does not contain the target's, which may already be as long as the file system allows. */
static attune_status create_temporary(at_writer *writer)
{
    at_random random = at_random_seed((uint64_t)getpid(), (uint64_t)(uintptr_t)writer);
    size_t directory = directory_length(writer->path);
    for (int attempt = 0; attempt < 100; attempt++) {
        at_text name;
        at_text_init(&name);
        at_text_add_bytes(&name, writer->path, directory);
        at_text_add(&name, ".attune-%ld-%06llx.tmp", (long)getpid(),
                    (unsigned long long)(at_random_next(&random) & 0xffffff));
        AT_FORWARD(at_text_take(&name, "a temporary file's name", &writer->temporary, NULL));
        writer->fd = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->fd >= 0) {
            return ATTUNE_OK;
        }
        int error = errno;
        free(writer->temporary);
        writer->temporary = NULL;
        if (error != EEXIST) {
            return cannot_write(writer->path, error);
        }
    }
    return at_fail(ATTUNE_IO_ERROR, "%s: cannot be written: 100 names for a temporary file beside it are taken",
                   writer->path);
}

/* Refuses what may not be written, though the directory would let us replace it; keeps a file's permissions. */
static attune_status open_over(at_writer *writer, const struct stat *old)
{
    if (S_ISDIR(old->st_mode)) {
        return at_fail(ATTUNE_IO_ERROR, "%s: cannot be written: it is a directory", writer->path);
    }
    if (!S_ISREG(old->st_mode)) {
        writer->fd = open(writer->path, O_WRONLY | O_CLOEXEC);
        return writer->fd < 0 ? cannot_write(writer->path, errno) : ATTUNE_OK;
    }
    if (access(writer->path, W_OK) != 0) {
        return cannot_write(writer->path, errno);
    }
    AT_FORWARD(create_temporary(writer));
    if (fchmod(writer->fd, old->st_mode & 07777) != 0) {
        return cannot_write(writer->path, errno);
    }
    return ATTUNE_OK;
}

static attune_status open_target(at_writer *writer, const char *path)
{
    struct stat old;
    bool exists = stat(path, &old) == 0;
    char *resolved = exists ? realpath(path, NULL) : NULL;
    /* Pipes behind /proc/self/fd have no path to resolve to: they keep the name they were given by. */
    bool named = resolved != NULL && access(resolved, F_OK) == 0;
    writer->path = named ? resolved : strdup(path);
    if (!named) {
        free(resolved);
    }
    AT_FAIL_IF(writer->path == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to open %s", path);
    return exists ? open_over(writer, &old) : create_temporary(writer);
}

attune_status at_writer_open(const char *path, at_writer **writer)
{
    *writer = NULL;
    AT_FAIL_IF(path[0] == '\0', ATTUNE_INVALID_ARGUMENT, "the path of a file to write is empty");
    at_writer *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to open %s", path);
    made->fd = -1;
    attune_status status = open_target(made, path);
    if (status != ATTUNE_OK) {
        at_writer_abandon(made);
        return status;
    }
    *writer = made;
    return ATTUNE_OK;
}

attune_status at_writer_add(at_writer *writer, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    while (writer->status == ATTUNE_OK && bytes > 0) {
        if (at_file_interrupted()) {
            return writer->status = stopped(writer->path, "writing");
        }
        ssize_t done = write(writer->fd, at, bytes < PIECE_BYTES ? bytes : PIECE_BYTES);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return writer->status = cannot_write(writer->path, done < 0 ? errno : ENOSPC);
        }
        at += done;
        bytes -= (size_t)done;
    }
    return writer->status;
}

/* The rename itself must reach the disk too. Some file systems cannot sync a directory and say EINVAL. */
static attune_status sync_directory(const char *path)
{
    size_t length = directory_length(path);
    char *directory = length == 0 ? strdup(".") : strndup(path, length);
    AT_FAIL_IF(directory == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to sync the directory of %s", path);
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(directory);
    if (fd < 0) {
        return ATTUNE_OK; /* a directory we may write but not read: the rename is done, only its sync is left out */
    }
    int error = fsync(fd) == 0 ? 0 : errno;
    (void)close(fd);
    return error == 0 || error == EINVAL || error == EROFS ? ATTUNE_OK : cannot_write(path, error);
}

static attune_status finish(at_writer *writer)
{
    AT_FORWARD(writer->status);
    bool straight = writer->temporary == NULL;
    if (!straight && fsync(writer->fd) != 0) {
        return cannot_write(writer->path, errno);
    }
    int fd = writer->fd;
    writer->fd = -1;
    if (close(fd) != 0) {
        return cannot_write(writer->path, errno);
    }
    if (straight) {
        return ATTUNE_OK;
    }
    if (at_file_interrupted()) {
        return stopped(writer->path, "writing");
    }
    if (rename(writer->temporary, writer->path) != 0) {
        return cannot_write(writer->path, errno);
    }
    free(writer->temporary);
    writer->temporary = NULL;
    return sync_directory(writer->path);
}

attune_status at_writer_commit(at_writer *writer)
{
    attune_status status = finish(writer);
    at_writer_abandon(writer);
    return status;
}

attune_status at_writer_check(const char *path)
{
    struct stat there;
    at_writer *writer;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode)) {
        /* Who reads a pipe would take its opening and closing for an empty answer. */
        return access(path, W_OK) == 0 ? ATTUNE_OK : cannot_write(path, errno);
    }
    AT_FORWARD(at_writer_open(path, &writer));
    at_writer_abandon(writer);
    return ATTUNE_OK;
}

attune_status at_file_write(const char *path, const void *data, size_t bytes)
{
    at_writer *writer;
    AT_FORWARD(at_writer_open(path, &writer));
    (void)at_writer_add(writer, data, bytes);
    return at_writer_commit(writer);
}

/* ---- Places ----------------------------------------------------------------------------------------------------- */

bool at_file_same(const char *a, const char *b)
{
    struct stat first, second;
    return strcmp(a, b) == 0 || (stat(a, &first) == 0 && stat(b, &second) == 0 && S_ISREG(first.st_mode) &&
                                 first.st_dev == second.st_dev && first.st_ino == second.st_ino);
}

static attune_status make_one(const char *path)
{
    struct stat info;
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && stat(path, &info) == 0 && S_ISDIR(info.st_mode))) {
        return ATTUNE_OK;
    }
    return at_fail(ATTUNE_IO_ERROR, "%s: the directory cannot be made: %s", path,
                   errno == EEXIST ? "something else has its name" : strerror(errno));
}

attune_status at_directory_make(const char *path)
{
    AT_FAIL_IF(path[0] == '\0', ATTUNE_INVALID_ARGUMENT, "the path of a directory to make is empty");
    char *part = strdup(path);
    AT_FAIL_IF(part == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to make the directory %s", path);
    attune_status status = ATTUNE_OK;
    for (char *at = part + 1; status == ATTUNE_OK && (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        status = make_one(part);
        *at = '/';
    }
    if (status == ATTUNE_OK) {
        status = make_one(part);
    }
    free(part);
    return status;
}

attune_status at_directory_check(const char *path)
{
    struct stat state;
    AT_FAIL_IF(path[0] == '\0', ATTUNE_INVALID_ARGUMENT, "the path of a directory to make is empty");
    char *part = strdup(path);
    AT_FAIL_IF(part == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to look at the directory %s", path);
    const char *there = part;
    while (stat(there, &state) != 0 && errno == ENOENT && there == part) {
        char *slash = strrchr(part, '/');
        there = slash == NULL ? "." : slash == part ? "/" : part;
        if (slash != NULL) {
            *slash = '\0';
        }
    }
    attune_status status = ATTUNE_OK;
    if (stat(there, &state) == 0 ? !S_ISDIR(state.st_mode) : errno == ENOTDIR) {
        status = at_fail(ATTUNE_IO_ERROR, "directory %s: something else has its name, or that of one above it", path);
    } else if (access(there, W_OK | X_OK) != 0) {
        status = at_fail(ATTUNE_IO_ERROR, "directory %s: %s: %s", path, there, strerror(errno));
    }
    free(part);
    return status;
}

attune_status at_path_user(at_place place, const char *name, char **path)
{
    static const struct {
        const char *variable, *fallback;
    } places[] = {
        [AT_PLACE_CACHE] = {"XDG_CACHE_HOME", "/.cache"},
        [AT_PLACE_DATA] = {"XDG_DATA_HOME", "/.local/share"},
        [AT_PLACE_CONFIG] = {"XDG_CONFIG_HOME", "/.config"},
    };
    *path = NULL;
    const char *base = getenv(places[place].variable), *home = getenv("HOME");
    bool given = base != NULL && base[0] == '/';
    AT_FAIL_IF(!given && (home == NULL || home[0] != '/'), ATTUNE_NOT_FOUND,
               "neither $%s nor $HOME is an absolute path: set one of them", places[place].variable);
    at_text text;
    at_text_init(&text);
    at_text_add(&text, "%s%s/attune", given ? base : home, given ? "" : places[place].fallback);
    if (name != NULL) {
        at_text_add(&text, "/%s", name);
    }
    return at_text_take(&text, "a path", path, NULL);
}
