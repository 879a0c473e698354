/* The sandbox, seen from inside: processes of this program lock themselves and then do what they should not. */
#include "base/cm.h"

#if __has_include(<seccomp.h>)
#include <seccomp.h>
#define LIBRARY 1
#endif

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stranger/sandbox.h"
#include "stranger/seccomp.h"
#include "wire/process.h"

enum { DONE = 42, NOT_LOCKED = 99 };

/* ---- What is tried, in a process of its own ---------------------------------------------------------------------- */

static atomic_int turn, up;

/* Frees what it had of the heap, so that the heap shrinks. */
static void use_heap(void)
{
    enum { BLOCKS = 64, BLOCK = 60000 };
    char *block[BLOCKS];
    for (int i = 0; i < BLOCKS; ++i) {
        block[i] = malloc(BLOCK);
        memset(block[i], i, BLOCK);
    }
    for (int i = BLOCKS - 1; i >= 0; --i) {
        free(block[i]);
    }
}

/* A thread that was there before the lock. */
static void *wait_and_open(void *what)
{
    (void)what;
    atomic_store(&up, 1);
    while (atomic_load(&turn) == 0) {
    }
    if (atomic_load(&turn) == 3) {
        use_heap();
    } else {
        (void)open("/dev/null", O_RDONLY);
    }
    atomic_store(&turn, 2);
    return NULL;
}

static int compute(void)
{
    volatile char *memory = malloc(1 << 22);
    memory[1 << 20] = 1;
    free((void *)(uintptr_t)memory);
    return write(STDERR_FILENO, "still here\n", 11) == 11 ? DONE : 1;
}

static int open_file(void)
{
    return open("/dev/null", O_RDONLY) >= 0 ? DONE : 1;
}

static int create_file(void)
{
    return open("/tmp/attune-sandbox-test", O_WRONLY | O_CREAT, 0600) >= 0 ? DONE : 1;
}

static int make_socket(void)
{
    return socket(AF_INET, SOCK_STREAM, 0) >= 0 ? DONE : 1;
}

static int make_process(void)
{
    return fork() >= 0 ? DONE : 1;
}

static int make_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED ? DONE : 1;
}

static int load_object(void)
{
    return dlopen("libresolv.so.2", RTLD_NOW) != NULL ? DONE : 1;
}

static int read_clock(void)
{
    struct timespec now;
    return clock_gettime(CLOCK_MONOTONIC, &now) == 0 ? DONE : 1;
}

static int use_older_thread(void)
{
    atomic_store(&turn, 1);
    while (atomic_load(&turn) != 2) {
    }
    return DONE;
}

static int free_elsewhere(void)
{
    atomic_store(&turn, 3);
    while (atomic_load(&turn) != 2) {
    }
    return DONE;
}

static const struct trial {
    const char *name;
    int (*attempt)(void);
    /* What becomes of the process under each lock. */
    const char *compiler, *loading, *running, *items;
} trials[] = {
    {"free_elsewhere", free_elsewhere, "exit code 42", "exit code 42", "exit code 42", "by the sandbox"},
    {"compute", compute, "exit code 42", "exit code 42", "exit code 42", "by the sandbox"},
    {"open_file", open_file, "exit code 42", "exit code 42", "by the sandbox", "by the sandbox"},
    {"create_file", create_file, "exit code 42", "by the sandbox", "by the sandbox", "by the sandbox"},
    {"make_socket", make_socket, "by the sandbox", "by the sandbox", "by the sandbox", "by the sandbox"},
    {"make_process", make_process, "exit code 42", "by the sandbox", "by the sandbox", "by the sandbox"},
    {"make_code", make_code, "exit code 42", "exit code 42", "by the sandbox", "by the sandbox"},
    {"load_object", load_object, "exit code 42", "exit code 42", "by the sandbox", "by the sandbox"},
    {"use_older_thread", use_older_thread, "exit code 42", "exit code 42", "by the sandbox", "by the sandbox"},
};
enum { TRIALS = sizeof trials / sizeof trials[0] };

static atomic_int stage;

/* A thread that is locked by itself, all its signals blocked, and asks for memory when it may. */
static void *lock_and_map(void *filter)
{
    sigset_t all;
    (void)sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, NULL) != 0 || at_sandbox_lock_thread(filter) != ATTUNE_OK) {
        _exit(NOT_LOCKED);
    }
    atomic_store(&stage, 1);
    while (atomic_load(&stage) != 2) {
    }
    (void)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    _exit(DONE);
}

/* One thread's lock is no other's. Never returns. */
static int lock_a_thread(bool maps)
{
    at_sandbox_filter filter;
    pthread_t thread;
    if (at_sandbox_filter_make(AT_LOCK_ITEMS, &filter) != ATTUNE_OK ||
        pthread_create(&thread, NULL, lock_and_map, &filter) != 0) {
        _exit(NOT_LOCKED);
    }
    while (atomic_load(&stage) != 1) {
    }
    if (!maps) {
        _exit(open_file());
    }
    atomic_store(&stage, 2);
    (void)pthread_join(thread, NULL);
    _exit(NOT_LOCKED);
}

/* The process: attempt NAME under lock number LOCK. Never returns. */
static int attempt(const char *name, const char *lock, bool no_clock)
{
    const at_sandbox_limits limits = {.seconds = 20, .no_clock = no_clock};
    pthread_t thread;
    if (at_sandbox_begin(&limits) != ATTUNE_OK || pthread_create(&thread, NULL, wait_and_open, NULL) != 0) {
        _exit(NOT_LOCKED);
    }
    while (atomic_load(&up) == 0) { /* what a thread asks of the system as it begins is not what is tried */
    }
    if (lock != NULL && at_sandbox_lock((at_lock)(lock[0] - '0')) != ATTUNE_OK) {
        _exit(NOT_LOCKED);
    }
    if (strcmp(name, "other_thread") == 0 || strcmp(name, "locked_thread") == 0) {
        return lock_a_thread(name[0] == 'l');
    }
    for (size_t i = 0; i < TRIALS; ++i) {
        if (strcmp(trials[i].name, name) == 0) {
            _exit(trials[i].attempt());
        }
    }
    _exit(strcmp(name, "read_clock") == 0 ? read_clock() : NOT_LOCKED);
}

/* ---- Tests ------------------------------------------------------------------------------------------------------ */

static void tried(const char *name, const char *lock, const char *expected)
{
    const char *const command[] = {"/proc/self/exe", name, lock, NULL};
    char how[160];
    char *said = malloc(AT_SAID_MAX);
    int end;
    assert_non_null(said);
    assert_ok(at_process_run(command, 3600, said, &end));
    if (strstr(at_process_end(end, how), expected) == NULL) {
        fail_msg("%s under lock %s: it %s, expected '%s'", name, lock, how, expected);
    }
    free(said);
}

static void locks_are_as_tight_as_they_say(void **state)
{
    (void)state;
    assert_ok(at_sandbox_here());
    for (size_t i = 0; i < TRIALS; ++i) {
        tried(trials[i].name, "0", trials[i].compiler);
        tried(trials[i].name, "1", trials[i].loading);
        tried(trials[i].name, "2", trials[i].running);
        tried(trials[i].name, "3", trials[i].items);
    }
    (void)unlink("/tmp/attune-sandbox-test");
}

static void is_named(const char *name, const char *lock, const char *call)
{
    const char *const command[] = {"/proc/self/exe", name, lock, NULL};
    char *said = malloc(AT_SAID_MAX);
    char how[160];
    char wanted[80];
    int end;
    assert_non_null(said);
    assert_ok(at_process_run(command, 3600, said, &end));
    (void)snprintf(wanted, sizeof wanted, "system call %s is not allowed\n", call);
    assert_string_equal(said, wanted);
    assert_non_null(strstr(at_process_end(end, how), "by the sandbox"));
    free(said);
}

static void a_refused_call_is_named(void **state)
{
    (void)state;
    is_named("make_socket", "2", "socket");
    is_named("make_socket", "3", "socket");
    is_named("make_code", "3", "mmap");
}

static void a_thread_is_locked_alone_and_says_what_it_tried(void **state)
{
    (void)state;
    tried("other_thread", "none", "exit code 42");
    is_named("locked_thread", "none", "mmap");
}

static void without_a_lock_the_clock_is_there_and_with_no_clock_it_is_not(void **state)
{
    (void)state;
    tried("read_clock", "none", "exit code 42");
#if defined(__x86_64__) && !defined(ATTUNE_SANITIZED)
    tried("read_clock", "no_clock", "signal 11");
#endif
}

static void locks_want_their_library(void **state)
{
    at_seccomp library;
    (void)state;
    assert_int_equal(setenv("ATTUNE_SECCOMP", "/no/such/library", 1), 0);
    assert_fails(at_sandbox_here(), ATTUNE_UNSUPPORTED, "libseccomp");
    assert_fails(at_sandbox_lock(AT_LOCK_RUNNING), ATTUNE_UNSUPPORTED, "/no/such/library");
    assert_int_equal(setenv("ATTUNE_SECCOMP", "libm.so.6", 1), 0);
    assert_fails(at_seccomp_open(&library), ATTUNE_UNSUPPORTED, "seccomp_init");
    assert_int_equal(unsetenv("ATTUNE_SECCOMP"), 0);
    assert_ok(at_sandbox_here());
}

static void the_library_is_declared_as_it_is(void **state)
{
    (void)state;
#ifdef LIBRARY
    assert_int_equal(AT_SECCOMP_KILL_PROCESS, SCMP_ACT_KILL_PROCESS);
    assert_int_equal(AT_SECCOMP_TRAP, SCMP_ACT_TRAP);
    assert_int_equal(AT_SECCOMP_ALLOW, SCMP_ACT_ALLOW);
    assert_int_equal(AT_SECCOMP_ATTRIBUTE_TSYNC, SCMP_FLTATR_CTL_TSYNC);
    assert_int_equal(AT_SECCOMP_MASKED_EQ, SCMP_CMP_MASKED_EQ);
    assert_int_equal(sizeof(at_seccomp_compare), sizeof(struct scmp_arg_cmp));
    assert_int_equal(offsetof(at_seccomp_compare, argument), offsetof(struct scmp_arg_cmp, arg));
    assert_int_equal(offsetof(at_seccomp_compare, op), offsetof(struct scmp_arg_cmp, op));
    assert_int_equal(offsetof(at_seccomp_compare, a), offsetof(struct scmp_arg_cmp, datum_a));
    assert_int_equal(offsetof(at_seccomp_compare, b), offsetof(struct scmp_arg_cmp, datum_b));
#else
    skip();
#endif
}

static void processes_are_run_to_their_end(void **state)
{
    static const char *const says[] = {"sh", "-c", "echo here; echo there >&2; exit 3", NULL};
    static const char *const stays[] = {"sh", "-c", "sleep 1000", NULL};
    static const char *const many[] = {"sh", "-c", "yes | head -c 100000", NULL};
    static const char *const none[] = {"/no/such/program", NULL};
    char *said = malloc(AT_SAID_MAX);
    char how[160];
    int end;
    (void)state;
    assert_non_null(said);
    assert_ok(at_process_run(says, 3600, said, &end));
    assert_string_equal(said, "here\nthere\n");
    assert_string_equal(at_process_end(end, how), "ended by itself with exit code 3");
    assert_ok(at_process_run(many, 3600, said, &end));
    assert_int_equal(strlen(said), AT_SAID_MAX - 1);
    assert_fails(at_process_run(stays, 0.2, said, &end), ATTUNE_DEVICE_ERROR, "did not end within 0.2 s");
    /* What the caller has open stays the caller's. */
    static const char *const lists[] = {"sh", "-c", "echo there >&77", NULL};
    assert_int_equal(dup2(STDERR_FILENO, 77), 77);
    assert_ok(at_process_run(lists, 3600, said, &end));
    assert_int_not_equal(end, 0);
    assert_int_equal(close(77), 0);
    assert_fails(at_process_run(none, 3600, said, &end), ATTUNE_IO_ERROR, "does not start");
    free(said);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(locks_are_as_tight_as_they_say),
        cmocka_unit_test(a_refused_call_is_named),
        cmocka_unit_test(a_thread_is_locked_alone_and_says_what_it_tried),
        cmocka_unit_test(without_a_lock_the_clock_is_there_and_with_no_clock_it_is_not),
        cmocka_unit_test(locks_want_their_library),
        cmocka_unit_test(the_library_is_declared_as_it_is),
        cmocka_unit_test(processes_are_run_to_their_end),
    };
    if (argc == 3) {
        bool unlocked = strcmp(argv[2], "none") == 0 || strcmp(argv[2], "no_clock") == 0;
        return attempt(argv[1], unlocked ? NULL : argv[2], strcmp(argv[2], "no_clock") == 0);
    }
    return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
