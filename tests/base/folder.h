/* A folder for one test's files, removed with all that is in it. */
#ifndef TESTS_BASE_FOLDER_H
#define TESTS_BASE_FOLDER_H

#include <dirent.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct folder {
    char path[64];
    char file[PATH_MAX]; /* what folder_file wrote last */
} folder;

static inline int folder_make(folder *f)
{
    (void)snprintf(f->path, sizeof f->path, "/tmp/attune-test-XXXXXX");
    return mkdtemp(f->path) == NULL ? -1 : 0;
}

/* The path of a file in the folder; valid until the next call. */
static inline const char *folder_file(folder *f, const char *name)
{
    (void)snprintf(f->file, sizeof f->file, "%s/%s", f->path, name);
    return f->file;
}

/* The same in memory of the caller's. */
static inline const char *folder_path(const folder *f, const char *name, char path[PATH_MAX])
{
    (void)snprintf(path, PATH_MAX, "%s/%s", f->path, name);
    return path;
}

/* How many entries the folder has, hidden ones included. */
static inline int folder_count(const folder *f)
{
    int count = 0;
    DIR *directory = opendir(f->path);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
    return count;
}

static inline int folder_remove_one(const char *path, const struct stat *about, int kind, struct FTW *at)
{
    (void)about, (void)kind, (void)at;
    (void)remove(path);
    return 0;
}

/* All of it. What stays in /tmp is removed by people sooner or later, perhaps with what another test is using. */
static inline void folder_remove(folder *f)
{
    enum { DESCRIPTORS = 8 };
    (void)chmod(f->path, 0700);
    (void)nftw(f->path, folder_remove_one, DESCRIPTORS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

#endif
