#include "cuda/load.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "base/text.h"

enum { FLAGS = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };

/* ---- The packages that PyTorch brings -------------------------------------------------------------------------------
 */

/* A path with whatever glob would read as a pattern taken literally. */
static void add_literally(at_text *pattern, const char *path, int length)
{
    for (int i = 0; i < length; ++i) {
        at_text_add(pattern, strchr("*?[]\\", path[i]) != NULL ? "\\%c" : "%c", path[i]);
    }
}

/* The library in the folders of packages that `below` a folder are. NOTE: wheels of CUDA 12 have a folder a library,
 * those of 13 one for all: hence the star. */
static void *open_matching(const char *folder, int length, const char *below, const char *name)
{
    char text[2 * PATH_MAX];
    at_text pattern;
    glob_t found = {.gl_pathc = 0};
    void *library = NULL;
    at_text_init_fixed(&pattern, text, sizeof text);
    add_literally(&pattern, folder, length);
    at_text_add(&pattern, "%s/nvidia/*/lib/%s", below, name);
    if (at_text_status(&pattern, "the path of a package") == ATTUNE_OK && glob(text, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc && library == NULL; ++i) {
            library = dlopen(found.gl_pathv[i], FLAGS);
        }
    }
    globfree(&found);
    return library;
}

/* The library among the packages of one Python. NOTE: a Python has several folders of them: lib and lib64, its own and
 * the distribution's. */
static void *open_below(const char *prefix, const char *name)
{
    return open_matching(prefix, (int)strlen(prefix), "/lib*/python3*/*-packages", name);
}

/* PREFIX of PREFIX/bin/python3; false where the path is another. */
static bool cut_prefix(char *path)
{
    for (int up = 0; up < 2; ++up) {
        char *slash = strrchr(path, '/');
        if (slash == NULL) {
            return false;
        }
        *slash = '\0';
    }
    return true;
}

/* The python3 of one folder of $PATH: the environment that it belongs to, and, where it is a link, what it leads to. */
static void *open_beside(const char *folder, int length, const char *name)
{
    char path[PATH_MAX];
    char target[PATH_MAX];
    int written = snprintf(path, sizeof path, "%.*s/python3", length, folder);
    if (length == 0 || written >= (int)sizeof path || access(path, X_OK) != 0) {
        return NULL;
    }
    bool linked = realpath(path, target) != NULL && strcmp(path, target) != 0;
    void *library = cut_prefix(path) ? open_below(path, name) : NULL;
    return library == NULL && linked && cut_prefix(target) ? open_below(target, name) : library;
}

/* A folder that holds packages itself. */
static void *open_among(const char *folder, int length, const char *name)
{
    return length > 0 && folder[0] == '/' && length < PATH_MAX ? open_matching(folder, length, "", name) : NULL;
}

/* The first that opens by one of the folders that a variable lists. */
static void *open_along(const char *variable, void *(*open_in)(const char *folder, int length, const char *name),
                        const char *name)
{
    void *library = NULL;
    for (const char *at = getenv(variable); at != NULL && library == NULL;) {
        const char *end = strchrnul(at, ':');
        library = open_in(at, (int)(end - at), name);
        at = *end == '\0' ? NULL : end + 1;
    }
    return library;
}

static void *open_active(const char *name)
{
    static const char *const variables[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
    void *library = NULL;
    for (int i = 0; i < 2 && library == NULL; ++i) {
        const char *prefix = getenv(variables[i]);
        library = prefix != NULL && prefix[0] == '/' ? open_below(prefix, name) : NULL;
    }
    return library;
}

static void *open_users(const char *name)
{
    char local[PATH_MAX];
    const char *home = getenv("HOME");
    bool fits = home != NULL && home[0] == '/' && snprintf(local, sizeof local, "%s/.local", home) < (int)sizeof local;
    return fits ? open_below(local, name) : NULL;
}

static void *open_package(const char *name)
{
    void *library = open_along("ATTUNE_PACKAGES", open_among, name);
    library = library != NULL ? library : open_active(name);
    library = library != NULL ? library : open_along("PATH", open_beside, name);
    /* NOTE: Debian's python3 of /usr has what pip installs for all users in /usr/local. */
    library = library != NULL ? library : open_below("/usr/local", name);
    return library != NULL ? library : open_users(name);
}

/* ---- In order -------------------------------------------------------------------------------------------------------
 */

typedef struct wanted {
    const char *what, *variable;
    const char *const *names;
    attune_status status; /* of its absence */
    bool packaged;
} wanted;

static attune_status open_wanted(const wanted *w, void **library)
{
    const char *path = getenv(w->variable);
    char why[512] = "";
    *library = NULL;
    if (path != NULL && path[0] != '\0') {
        *library = dlopen(path, FLAGS);
        AT_FAIL_IF(*library == NULL, w->status, "%s from %s: %s", w->what, w->variable, dlerror());
        return ATTUNE_OK;
    }
    for (int i = 0; w->names[i] != NULL && *library == NULL; ++i) {
        *library = dlopen(w->names[i], FLAGS);
    }
    if (*library == NULL) {
        (void)snprintf(why, sizeof why, "%s", dlerror());
    }
    for (int i = 0; w->packaged && w->names[i] != NULL && *library == NULL; ++i) {
        *library = strchr(w->names[i], '/') == NULL ? open_package(w->names[i]) : NULL;
    }
    AT_FAIL_IF(*library == NULL, w->status, "no %s (%s%s; %s can name it)", w->what, why,
               w->packaged ? "; nor is it among the packages of a Python" : "", w->variable);
    return ATTUNE_OK;
}

attune_status at_load_library(attune_status status, const char *what, const char *variable, const char *const *names,
                              void **library)
{
    return open_wanted(&(wanted){what, variable, names, status, false}, library);
}

attune_status at_load_packaged_library(attune_status status, const char *what, const char *variable,
                                       const char *const *names, void **library)
{
    return open_wanted(&(wanted){what, variable, names, status, true}, library);
}

attune_status at_load_symbol(attune_status status, const char *what, void *library, const char *name, void *function,
                             size_t bytes)
{
    void *symbol = dlsym(library, name);
    AT_FAIL_IF(symbol == NULL || bytes != sizeof symbol, status, "%s has no %s", what, name);
    /* POSIX promises that a data pointer can hold a function's; copying keeps the compiler out of it. */
    memcpy(function, &symbol, sizeof symbol);
    return ATTUNE_OK;
}

void at_load_close(void *library)
{
    if (library != NULL) {
        (void)dlclose(library);
    }
}
