#include "stranger/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "stranger/sandbox.h"
#include "wire/process.h"

const char *const at_names_of_jails[] = {"none", "network", "closed", NULL};

/* What programs look up below /etc; keys, shadows and other programs' settings are not among it. */
static const char *const settings[] = {
    "/etc/ld.so.cache",     "/etc/ld.so.conf",    "/etc/ld.so.conf.d",  "/etc/alternatives",    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/ca-trust",  "/etc/ca-certificates", "/etc/resolv.conf",
    "/etc/hosts",           "/etc/host.conf",     "/etc/nsswitch.conf", "/etc/gai.conf",        "/etc/services",
    "/etc/protocols",       "/etc/passwd",        "/etc/group",         "/etc/localtime",       "/etc/os-release"};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

/* ---- Landlock ---------------------------------------------------------------------------------------------------- */

/* What the first version of Landlock knows. */
static const uint64_t reading = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
static const uint64_t everything = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
static const uint64_t of_files =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;

static int landlock_version(void)
{
    return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

/* What is not there needs no rule. */
static attune_status let(int rules, const char *path, uint64_t access)
{
    struct landlock_path_beneath_attr below = {.allowed_access = access, .parent_fd = open(path, O_PATH | O_CLOEXEC)};
    struct stat info;
    if (below.parent_fd < 0) {
        return ATTUNE_OK;
    }
    if (fstat(below.parent_fd, &info) == 0 && !S_ISDIR(info.st_mode)) {
        below.allowed_access &= of_files;
    }
    bool well = syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &below, 0) == 0;
    attune_status status = well ? ATTUNE_OK : at_fail(ATTUNE_UNSUPPORTED, "jail: %s: %s", path, strerror(errno));
    (void)close(below.parent_fd);
    return status;
}

/* Programs and libraries can be read, the folder written to; homes, /tmp and /run are not there. */
static attune_status add_places(int rules, const char *folder)
{
    static const char *const read_places[] = {
        "/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/proc", "/nix", "/sys/devices/system"};
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/urandom", "/dev/random", "/dev/full"};
    for (size_t i = 0; i < sizeof read_places / sizeof read_places[0]; ++i) {
        AT_FORWARD(let(rules, read_places[i], reading));
    }
    for (size_t i = 0; i < SETTINGS; ++i) {
        AT_FORWARD(let(rules, settings[i], reading));
    }
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; ++i) {
        AT_FORWARD(let(rules, devices[i], LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE));
    }
    return let(rules, folder, everything);
}

static attune_status lock_files(const char *folder)
{
    const struct landlock_ruleset_attr attributes = {.handled_access_fs = everything};
    int rules = (int)syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0);
    AT_FAIL_IF(rules < 0, ATTUNE_UNSUPPORTED, "jail: this system has no Landlock: %s", strerror(errno));
    attune_status status = add_places(rules, folder);
    if (status == ATTUNE_OK &&
        (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(SYS_landlock_restrict_self, rules, 0) != 0)) {
        status = at_fail(ATTUNE_UNSUPPORTED, "jail: Landlock refuses: %s", strerror(errno));
    }
    (void)close(rules);
    return status;
}

/* ---- The command line -------------------------------------------------------------------------------------------- */

enum { WORDS_MAX = 128 };

static char *find_bubblewrap(void)
{
    char *path;
    return at_process_find("ATTUNE_BUBBLEWRAP", "bwrap", &path) == ATTUNE_OK ? path : NULL;
}

attune_status at_jail_here(void)
{
    char *path = find_bubblewrap();
    bool found = path != NULL;
    free(path);
    AT_FAIL_IF(!found && landlock_version() < 1, ATTUNE_UNSUPPORTED,
               "jail: neither bubblewrap (bwrap) nor Landlock is here");
    return ATTUNE_OK;
}

static void add(const char *word[WORDS_MAX], int *count, const char *const *more)
{
    for (; *more != NULL && *count < WORDS_MAX - 1; ++more) {
        word[(*count)++] = *more;
    }
    word[*count] = NULL;
}

static void add_bubblewrap(const char *word[WORDS_MAX], int *count, const char *path, const char *folder, at_jail jail)
{
    const char *const first[] = {path,
                                 "--die-with-parent",
                                 "--unshare-all",
                                 "--ro-bind",
                                 "/usr",
                                 "/usr",
                                 "--ro-bind-try",
                                 "/bin",
                                 "/bin",
                                 "--ro-bind-try",
                                 "/lib",
                                 "/lib",
                                 "--ro-bind-try",
                                 "/lib64",
                                 "/lib64",
                                 "--ro-bind-try",
                                 "/sbin",
                                 "/sbin",
                                 "--ro-bind-try",
                                 "/opt",
                                 "/opt",
                                 NULL};
    const char *const last[] = {"--proc",  "/proc",   "--dev",  "/dev",
                                "--tmpfs", "/tmp",    "--bind", folder,
                                folder,    "--chdir", folder,   jail == AT_JAIL_NETWORK ? "--share-net" : NULL,
                                NULL};
    add(word, count, first);
    for (size_t i = 0; i < SETTINGS; ++i) {
        const char *const one[] = {"--ro-bind-try", settings[i], settings[i], NULL};
        add(word, count, one);
    }
    add(word, count, last);
}

/* ---- Ends -------------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t asked_to_end;

static void on_end(int signal)
{
    (void)signal;
    asked_to_end = 1;
}

/* Who lost its parent becomes a child of this process (PR_SET_CHILD_SUBREAPER), so that nobody gets away by leaving its
 * group or session. */
static attune_status be_the_parent_of_all(void)
{
    struct sigaction action = {.sa_handler = on_end}; /* no SA_RESTART: waiting ends */
    AT_FAIL_IF(sigaction(SIGTERM, &action, NULL) != 0 || sigaction(SIGINT, &action, NULL) != 0 ||
                   prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) != 0,
               ATTUNE_UNSUPPORTED, "a command cannot be watched: %s", strerror(errno));
    return ATTUNE_OK;
}

/* Ends the children that there are now; false where there are none, or they cannot be seen. */
static bool end_children(int children)
{
    char list[4096];
    ssize_t bytes = pread(children, list, sizeof list - 1, 0);
    list[bytes > 0 ? bytes : 0] = '\0';
    bool some = false;
    for (char *at = list, *after; (void)0, at < list + strlen(list); at = after) {
        long process = strtol(at, &after, 10);
        if (after == at || (*after != ' ' && *after != '\0')) {
            break;
        }
        some = some || process > 1;
        if (process > 1) {
            (void)kill((pid_t)process, SIGKILL);
        }
        after += *after == ' ';
    }
    return some;
}

static void end_all(pid_t first, int children)
{
    int ignored;
    (void)kill(-first, SIGKILL);
    do {
        while (waitpid(-1, &ignored, WNOHANG) > 0) {
        }
    } while (end_children(children) && waitpid(-1, &ignored, 0) > 0);
    while (waitpid(-1, &ignored, WNOHANG) > 0) {
    }
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static int spawn(const char *folder, const char *const *word, pid_t *process)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    (void)sigemptyset(&none);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    int error = at_process_in_folder(&actions, folder);
    error = error != 0 ? error
                       : posix_spawnp(process, word[0], &actions, &attributes, (char *const *)(uintptr_t)word, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    return error;
}

static int wait_for(pid_t process)
{
    int end = 0;
    while (!asked_to_end) {
        pid_t who = waitpid(-1, &end, 0); /* others that were left to this process too */
        if (who == process || (who < 0 && errno != EINTR)) {
            return WIFSIGNALED(end) ? 128 + WTERMSIG(end) : WEXITSTATUS(end);
        }
    }
    return 128 + SIGTERM;
}

static attune_status run_words(const char *folder, const char *const *word, int *code)
{
    char path[64];
    pid_t process = 0;
    AT_FORWARD(be_the_parent_of_all());
    (void)snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)syscall(SYS_gettid));
    int children = open(path, O_RDONLY | O_CLOEXEC);
    int error = spawn(folder, word, &process);
    if (error == 0) {
        *code = wait_for(process);
        end_all(process, children);
    }
    if (children >= 0) {
        (void)close(children);
    }
    AT_FAIL_IF(error != 0, ATTUNE_IO_ERROR, "%s does not start: %s", word[0], strerror(error));
    return ATTUNE_OK;
}

attune_status at_jail_run(const char *folder, at_jail jail, const char *command, int *code)
{
    const char *word[WORDS_MAX];
    const char *const shell[] = {"sh", "-c", command, NULL};
    int count = 0;
    char *bubblewrap = jail != AT_JAIL_NONE ? find_bubblewrap() : NULL;
    if (bubblewrap != NULL) {
        add_bubblewrap(word, &count, bubblewrap, folder, jail);
    }
    add(word, &count, shell);
    bool landlock = jail != AT_JAIL_NONE && bubblewrap == NULL;
    attune_status status = landlock ? lock_files(folder) : ATTUNE_OK;
    status = status == ATTUNE_OK && landlock && jail == AT_JAIL_CLOSED ? at_sandbox_lock(AT_LOCK_OFFLINE) : status;
    status = status == ATTUNE_OK ? run_words(folder, word, code) : status;
    free(bubblewrap);
    return status;
}
