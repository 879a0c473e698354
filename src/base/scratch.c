#include "base/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"

/* A folder is ours by this file in it, whatever its name. */
static const char marker[] = ".attune-scratch", stem[] = "attune-";

enum { RANDOM_LETTERS = 6, YOUNG_S = 60 /* it may not have its lock yet */ };

static const char *where(void)
{
    const char *named = getenv("TMPDIR");
    return named != NULL && named[0] == '/' ? named : "/tmp";
}

static char *join(const char *folder, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

/* ---- Removing ---------------------------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info, (void)kind, (void)at;
    (void)remove(path);
    return 0;
}

void at_directory_remove(const char *folder)
{
    enum { DESCRIPTORS = 8 };
    (void)nftw(folder, remove_one, DESCRIPTORS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static bool has_marker(int folder)
{
    struct stat info;
    return fstatat(folder, marker, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode);
}

/* A folder of ours that nobody holds. */
static bool is_left(int folder)
{
    struct stat info;
    return fstat(folder, &info) == 0 && info.st_uid == geteuid() && time(NULL) - info.st_mtime > YOUNG_S &&
           has_marker(folder) && flock(folder, LOCK_EX | LOCK_NB) == 0;
}

static void look_at(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) {
        return;
    }
    if (is_left(folder)) {
        at_directory_remove(path);
    }
    (void)close(folder);
}

static void sweep(const char *folder)
{
    DIR *all = opendir(folder);
    for (const struct dirent *one = all == NULL ? NULL : readdir(all); one != NULL; one = readdir(all)) {
        bool named =
            strncmp(one->d_name, stem, strlen(stem)) == 0 && strlen(one->d_name) == strlen(stem) + RANDOM_LETTERS;
        char *path = named ? join(folder, one->d_name) : NULL;
        if (path != NULL) {
            look_at(path);
        }
        free(path);
    }
    if (all != NULL) {
        (void)closedir(all);
    }
}

/* ---- Making ------------------------------------------------------------------------------------------------------ */

static bool mark(const at_scratch *made)
{
    int file = openat(made->lock, marker, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return file >= 0 && close(file) == 0;
}

static attune_status fill(at_scratch *made)
{
    AT_FAIL_IF(mkdtemp(made->path) == NULL, ATTUNE_IO_ERROR, "%s: %s", made->path, strerror(errno));
    made->lock = open(made->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool held = made->lock >= 0 && flock(made->lock, LOCK_EX | LOCK_NB) == 0 && mark(made);
    if (held) {
        return ATTUNE_OK;
    }
    attune_status status = at_fail(ATTUNE_IO_ERROR, "%s: %s", made->path, strerror(errno));
    at_directory_remove(made->path);
    if (made->lock >= 0) {
        (void)close(made->lock);
    }
    return status;
}

attune_status at_scratch_make(at_scratch *made)
{
    *made = (at_scratch){NULL, -1};
    sweep(where());
    made->path = join(where(), "attune-XXXXXX");
    AT_FAIL_IF(made->path == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a path");
    attune_status status = fill(made);
    if (status != ATTUNE_OK) {
        free(made->path);
        *made = (at_scratch){NULL, -1};
    }
    return status;
}

void at_scratch_remove(at_scratch *made)
{
    if (made->path != NULL) {
        at_directory_remove(made->path);
        (void)close(made->lock);
        free(made->path);
    }
    *made = (at_scratch){NULL, -1};
}
