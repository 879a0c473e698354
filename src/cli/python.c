#include "cli/python.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folder of this executable, without the slash. */
static bool find_folder(char folder[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (length <= 0) {
        return false;
    }
    folder[length] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash == NULL) {
        return false;
    }
    *slash = '\0';
    return true;
}

/* PLACE below the folder, if the package is there. */
static bool is_there(const char *folder, const char *place, char found[PATH_MAX])
{
    char file[PATH_MAX + 32];
    int length = snprintf(file, sizeof file, "%s/%s/attune/worker.py", folder, place);
    if (length >= PATH_MAX || access(file, R_OK) != 0) {
        return false;
    }
    file[(size_t)length - strlen("/attune/worker.py")] = '\0';
    return realpath(file, found) != NULL;
}

static void extend(const char *place)
{
    const char *given = getenv("PYTHONPATH");
    char *path = NULL;
    bool more = given != NULL && given[0] != '\0';
    if (asprintf(&path, "%s%s%s", more ? given : "", more ? ":" : "", place) >= 0) {
        (void)setenv("PYTHONPATH", path, 1);
        free(path);
    }
}

void at_cli_python_path(void)
{
    static const char *const places[] = {"../../python", "../share/attune/python", "../..", "python"};
    char folder[PATH_MAX];
    char found[PATH_MAX];
    if (!find_folder(folder)) {
        return;
    }
    for (size_t i = 0; i < sizeof places / sizeof places[0]; ++i) {
        if (is_there(folder, places[i], found)) {
            extend(found);
            return;
        }
    }
}

void at_cli_python_worker(const char *command[4])
{
    const char *python = getenv("ATTUNE_PYTHON");
    at_cli_python_path();
    command[0] = python != NULL && python[0] != '\0' ? python : "python3";
    command[1] = "-m";
    command[2] = "attune.worker";
    command[3] = NULL;
}
