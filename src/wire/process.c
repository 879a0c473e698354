#include "wire/process.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "measure/clock.h"

int at_process_close_listed(posix_spawn_file_actions_t *actions, int first)
{
    DIR *open = opendir("/proc/self/fd");
    if (open == NULL) {
        return errno;
    }
    int error = 0;
    for (const struct dirent *one = readdir(open); one != NULL && error == 0; one = readdir(open)) {
        long number = strtol(one->d_name, NULL, 10); /* 0 for "." and ".." */
        error = number >= first ? posix_spawn_file_actions_addclose(actions, (int)number) : 0;
    }
    (void)closedir(open);
    return error;
}

int at_process_close_from(posix_spawn_file_actions_t *actions, int first)
{
    int (*close_from)(posix_spawn_file_actions_t *, int) = NULL;
    void *found = dlsym(RTLD_DEFAULT, "posix_spawn_file_actions_addclosefrom_np");
    memcpy(&close_from, &found, sizeof found);
    return close_from != NULL ? close_from(actions, first) : at_process_close_listed(actions, first);
}

int at_process_in_folder(posix_spawn_file_actions_t *actions, const char *folder)
{
    int (*change)(posix_spawn_file_actions_t *, const char *) = NULL;
    void *found = dlsym(RTLD_DEFAULT, "posix_spawn_file_actions_addchdir_np");
    memcpy(&change, &found, sizeof found);
    return change != NULL ? change(actions, folder) : ENOSYS;
}

/* In a process group of its own, so that it can be ended with all that it started. */
static int spawn(const char *const *command, int words, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    int error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    error = error != 0 ? error : posix_spawn_file_actions_adddup2(&actions, words, STDOUT_FILENO);
    error = error != 0 ? error : posix_spawn_file_actions_adddup2(&actions, words, STDERR_FILENO);
    error = error != 0 ? error : at_process_close_from(&actions, STDERR_FILENO + 1);
    if (error == 0) {
        error = posix_spawnp(pid, command[0], &actions, &attributes, (char *const *)(uintptr_t)command, environ);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    return error;
}

static int64_t now_ns(void)
{
    at_clock clock = at_clock_monotonic();
    return clock.now_ns(clock.self);
}

/* Listens until the other end is closed. */
static attune_status listen_to(int words, const char *name, double seconds, char said[AT_SAID_MAX])
{
    int64_t end_ns = now_ns() + (int64_t)(seconds * 1e9);
    size_t used = 0;
    while (true) {
        char text[4096];
        struct pollfd at = {words, POLLIN, 0};
        int64_t left_ms = (end_ns - now_ns()) / 1000000;
        AT_FAIL_IF(at_file_interrupted(), ATTUNE_INTERRUPTED, "interrupted");
        AT_FAIL_IF(left_ms <= 0, ATTUNE_DEVICE_ERROR, "%s did not end within %g s and was ended", name, seconds);
        if (poll(&at, 1, left_ms < 100 ? (int)left_ms + 1 : 100) <= 0) {
            continue;
        }
        ssize_t bytes = read(words, text, sizeof text);
        if (bytes == 0 || (bytes < 0 && errno != EINTR)) {
            return ATTUNE_OK;
        }
        size_t kept = bytes < 0 ? 0 : (size_t)bytes;
        kept = kept < AT_SAID_MAX - 1 - used ? kept : AT_SAID_MAX - 1 - used;
        memcpy(said + used, text, kept);
        used += kept;
        said[used] = '\0';
    }
}

attune_status at_process_run(const char *const *command, double seconds, char said[AT_SAID_MAX], int *end)
{
    int words[2];
    pid_t pid = 0;
    said[0] = '\0';
    *end = 0;
    AT_FAIL_IF(pipe2(words, O_CLOEXEC) != 0, ATTUNE_IO_ERROR, "no pipe for %s: %s", command[0], strerror(errno));
    int error = spawn(command, words[1], &pid);
    (void)close(words[1]);
    attune_status status = error != 0 ? at_fail(ATTUNE_IO_ERROR, "%s does not start: %s", command[0], strerror(error))
                                      : listen_to(words[0], command[0], seconds, said);
    if (error == 0) {
        if (status != ATTUNE_OK) {
            (void)kill(-pid, SIGKILL);
        }
        while (waitpid(pid, end, 0) < 0 && errno == EINTR) {
        }
    }
    (void)close(words[0]);
    return status;
}

const char *at_process_end(int wait_status, char text[160])
{
    enum { MOST = 160 };
    int signal = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
    if (signal == SIGSYS) {
        (void)snprintf(text, MOST, "was ended by the sandbox: it made a system call that is not allowed");
    } else if (signal == SIGXCPU) {
        (void)snprintf(text, MOST, "was ended by the sandbox: it used more processor time than it had");
    } else if (signal != 0) {
        const char *name = strsignal(signal);
        (void)snprintf(text, MOST, "was ended by signal %d (%s)", signal, name != NULL ? name : "unknown");
    } else {
        (void)snprintf(text, MOST, "ended by itself with exit code %d", WEXITSTATUS(wait_status));
    }
    return text;
}

/* The first NAME in the directories of a PATH that can be executed. */
static char *find_in(const char *directories, const char *name)
{
    for (const char *at = directories; at != NULL && *at != '\0';) {
        size_t length = strcspn(at, ":");
        char *path = NULL;
        if (asprintf(&path, "%.*s/%s", (int)length, at, name) < 0) {
            return NULL;
        }
        if (length > 0 && access(path, X_OK) == 0) {
            return path;
        }
        free(path);
        at += length + (at[length] == ':');
    }
    return NULL;
}

attune_status at_process_find(const char *variable, const char *name, char **path)
{
    const char *named = getenv(variable);
    if (named != NULL && named[0] != '\0') {
        *path = access(named, X_OK) == 0 ? strdup(named) : NULL;
        AT_FAIL_IF(*path == NULL, ATTUNE_NOT_FOUND, "%s names %s, which cannot be executed", variable, named);
        return ATTUNE_OK;
    }
    *path = find_in(getenv("PATH"), name);
    *path = *path != NULL ? *path : find_in("/usr/local/cuda/bin", name);
    AT_FAIL_IF(*path == NULL, ATTUNE_NOT_FOUND, "%s is neither in PATH nor in /usr/local/cuda/bin; %s can name it",
               name, variable);
    return ATTUNE_OK;
}
