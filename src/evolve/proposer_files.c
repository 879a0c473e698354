#include "evolve/proposer_files.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"

/* ---- Names ------------------------------------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name);
    return length > strlen(end) && strcmp(name + length - strlen(end), end) == 0;
}

static bool is_source(const char *name)
{
    return ends_with(name, ".c") || ends_with(name, ".h") || ends_with(name, ".cu") || ends_with(name, ".cuh");
}

attune_status at_source_name_check(const char *name)
{
    size_t length = strlen(name);
    bool plain = length > 0 && length < AT_SOURCE_NAME_MAX;
    for (size_t i = 0; i < length && plain; ++i) {
        plain = isalnum((unsigned char)name[i]) || strchr("_-./", name[i]) != NULL;
        plain = plain && !((i == 0 || name[i - 1] == '/') && (name[i] == '.' || name[i] == '/'));
    }
    AT_FAIL_IF(!plain, ATTUNE_INVALID_ARGUMENT,
               "a file named \"%.100s\": relative names of letters, digits, '_', '-', '.' and '/' are taken, at most "
               "%d characters, no part of them hidden or \"..\"",
               name, AT_SOURCE_NAME_MAX - 1);
    AT_FAIL_IF(!is_source(name), ATTUNE_INVALID_ARGUMENT, "a file named \"%.100s\": sources end in .c, .h, .cu or .cuh",
               name);
    return ATTUNE_OK;
}

/* ---- Sets -------------------------------------------------------------------------------------------------------- */

/* Where the name is, or would be. */
static int place_of(const at_sources *sources, const char *name)
{
    int at = 0;
    while (at < sources->count && strcmp(sources->file[at].name, name) < 0) {
        ++at;
    }
    return at;
}

const at_source_file *at_sources_find(const at_sources *sources, const char *name)
{
    int at = place_of(sources, name);
    return at < sources->count && strcmp(sources->file[at].name, name) == 0 ? &sources->file[at] : NULL;
}

void at_sources_remove(at_sources *sources, const char *name)
{
    if (at_sources_find(sources, name) != NULL) {
        int at = place_of(sources, name);
        free(sources->file[at].data);
        --sources->count;
        memmove(&sources->file[at], &sources->file[at + 1], (size_t)(sources->count - at) * sizeof sources->file[0]);
        sources->file[sources->count] = (at_source_file){.data = NULL};
    }
}

static attune_status check_room(const at_sources *sources, const char *name, size_t bytes)
{
    size_t all = bytes;
    AT_FORWARD(at_source_name_check(name));
    AT_FAIL_IF(bytes > AT_SOURCE_BYTES_MAX, ATTUNE_INVALID_ARGUMENT, "%s has %zu bytes, at most %d are taken", name,
               bytes, AT_SOURCE_BYTES_MAX);
    for (int i = 0; i < sources->count; ++i) {
        all += strcmp(sources->file[i].name, name) == 0 ? 0 : sources->file[i].bytes;
    }
    AT_FAIL_IF(all > AT_SOURCES_BYTES_MAX, ATTUNE_INVALID_ARGUMENT, "the sources have %zu bytes, at most %d are taken",
               all, AT_SOURCES_BYTES_MAX);
    AT_FAIL_IF(sources->count == AT_SOURCES_MAX && at_sources_find(sources, name) == NULL, ATTUNE_INVALID_ARGUMENT,
               "more than %d source files", AT_SOURCES_MAX);
    return ATTUNE_OK;
}

attune_status at_sources_put(at_sources *sources, const char *name, const char *data, size_t bytes)
{
    AT_FORWARD(check_room(sources, name, bytes));
    char *copy = malloc(bytes + 1);
    AT_FAIL_IF(copy == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %s", name);
    memcpy(copy, data, bytes);
    copy[bytes] = '\0';
    at_sources_remove(sources, name);
    int at = place_of(sources, name);
    memmove(&sources->file[at + 1], &sources->file[at], (size_t)(sources->count - at) * sizeof sources->file[0]);
    sources->file[at] = (at_source_file){.data = copy, .bytes = bytes};
    memcpy(sources->file[at].name, name, strlen(name) + 1);
    ++sources->count;
    return ATTUNE_OK;
}

void at_sources_free(at_sources *sources)
{
    for (int i = 0; i < sources->count; ++i) {
        free(sources->file[i].data);
    }
    sources->count = 0;
}

attune_status at_sources_copy(const at_sources *from, at_sources *to)
{
    *to = (at_sources){.count = 0};
    for (int i = 0; i < from->count; ++i) {
        attune_status status = at_sources_put(to, from->file[i].name, from->file[i].data, from->file[i].bytes);
        if (status != ATTUNE_OK) {
            at_sources_free(to);
            return status;
        }
    }
    return ATTUNE_OK;
}

void at_sources_digest(const at_sources *sources, char digest[AT_DIGEST_TEXT_MAX])
{
    unsigned char raw[AT_DIGEST_BYTES];
    at_sha256 sha;
    at_sha256_init(&sha);
    for (int i = 0; i < sources->count; ++i) {
        const at_source_file *file = &sources->file[i];
        const uint64_t bytes = file->bytes;
        at_sha256_add(&sha, file->name, strlen(file->name) + 1);
        at_sha256_add(&sha, &bytes, sizeof bytes);
        at_sha256_add(&sha, file->data, file->bytes);
    }
    at_sha256_end(&sha, raw);
    at_digest_text(raw, digest);
}

/* ---- Folders ----------------------------------------------------------------------------------------------------- */

static attune_status read_open(int file, const char *name, at_sources *sources)
{
    struct stat about;
    AT_FAIL_IF(fstat(file, &about) != 0 || !S_ISREG(about.st_mode), ATTUNE_INVALID_ARGUMENT, "%s is no regular file",
               name);
    size_t bytes = about.st_size > AT_SOURCE_BYTES_MAX ? AT_SOURCE_BYTES_MAX + 1 : (size_t)about.st_size;
    char *data = malloc(bytes + 1);
    AT_FAIL_IF(data == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %s", name);
    size_t got = 0;
    for (ssize_t more = 1; more > 0 && got<bytes; got += more> 0 ? (size_t)more : 0) {
        more = read(file, data + got, bytes - got);
    }
    attune_status status = at_sources_put(sources, name, data, got);
    free(data);
    return status;
}

/* NOTE: a pipe would be waited for without O_NONBLOCK. */
static attune_status read_file(int folder, const char *entry, const char *name, at_sources *sources)
{
    int file = openat(folder, entry, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    AT_FAIL_IF(file < 0 && errno == ELOOP, ATTUNE_INVALID_ARGUMENT, "%s is a symbolic link", name);
    AT_FAIL_IF(file < 0, ATTUNE_IO_ERROR, "%s: %s", name, strerror(errno));
    attune_status status = read_open(file, name, sources);
    (void)close(file);
    return status;
}

static attune_status read_folder(int folder, const char *prefix, int depth, at_sources *sources);

static attune_status read_entry(int folder, const char *entry, const char *prefix, int depth, at_sources *sources)
{
    char name[AT_SOURCE_NAME_MAX + 256];
    struct stat about;
    if (entry[0] == '.' || fstatat(folder, entry, &about, AT_SYMLINK_NOFOLLOW) != 0) {
        return ATTUNE_OK;
    }
    (void)snprintf(name, sizeof name, "%s%s", prefix, entry);
    if (!S_ISDIR(about.st_mode)) {
        return is_source(entry) ? read_file(folder, entry, name, sources) : ATTUNE_OK;
    }
    AT_FAIL_IF(depth == AT_SOURCE_DEPTH_MAX || strlen(name) >= AT_SOURCE_NAME_MAX - 1, ATTUNE_INVALID_ARGUMENT,
               "%s: folders are %d deep at most", name, AT_SOURCE_DEPTH_MAX);
    int below = openat(folder, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    AT_FAIL_IF(below < 0, ATTUNE_IO_ERROR, "%s: %s", name, strerror(errno));
    (void)snprintf(name, sizeof name, "%s%s/", prefix, entry);
    return read_folder(below, name, depth + 1, sources);
}

/* Takes the descriptor. */
static attune_status read_folder(int folder, const char *prefix, int depth, at_sources *sources)
{
    enum { ENTRIES_MAX = 4096 };
    int seen = 0;
    attune_status status = ATTUNE_OK;
    DIR *all = fdopendir(folder);
    if (all == NULL) {
        (void)close(folder);
        return at_fail(ATTUNE_IO_ERROR, "%s: %s", prefix, strerror(errno));
    }
    for (const struct dirent *one; status == ATTUNE_OK && (one = readdir(all)) != NULL;) {
        status = ++seen > ENTRIES_MAX
                     ? at_fail(ATTUNE_INVALID_ARGUMENT, "%s has more than %d entries", prefix, ENTRIES_MAX)
                     : read_entry(folder, one->d_name, prefix, depth, sources);
    }
    (void)closedir(all);
    return status;
}

attune_status at_sources_read(const char *folder, at_sources *sources)
{
    *sources = (at_sources){.count = 0};
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    AT_FAIL_IF(file < 0, errno == ENOENT ? ATTUNE_NOT_FOUND : ATTUNE_INVALID_ARGUMENT, "%s: %s", folder,
               strerror(errno));
    attune_status status = read_folder(file, "", 0, sources);
    if (status != ATTUNE_OK) {
        at_sources_free(sources);
    }
    return status;
}

attune_status at_sources_write(const at_sources *sources, const char *folder)
{
    for (int i = 0; i < sources->count; ++i) {
        const at_source_file *file = &sources->file[i];
        char path[4096];
        int length = snprintf(path, sizeof path, "%s/%s", folder, file->name);
        AT_FAIL_IF(length < 0 || (size_t)length >= sizeof path, ATTUNE_INVALID_ARGUMENT, "%s: its name is too long",
                   folder);
        char *slash = strrchr(path, '/');
        *slash = '\0';
        AT_FORWARD(at_directory_make(path));
        *slash = '/';
        AT_FORWARD(at_file_write(path, file->data, file->bytes));
    }
    return ATTUNE_OK;
}
