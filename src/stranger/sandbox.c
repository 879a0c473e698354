#include "stranger/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/status.h"
#include "stranger/seccomp.h"

/* ---- Limits ----------------------------------------------------------------------------------------------------- */

static attune_status set_limit(int which, const char *name, rlim_t value)
{
    struct rlimit limit;
    AT_FAIL_IF(getrlimit((__rlimit_resource_t)which, &limit) != 0, ATTUNE_UNSUPPORTED, "sandbox: %s: %s", name,
               strerror(errno));
    limit.rlim_cur = value < limit.rlim_max ? value : limit.rlim_max;
    limit.rlim_max = limit.rlim_cur;
    AT_FAIL_IF(setrlimit((__rlimit_resource_t)which, &limit) != 0, ATTUNE_UNSUPPORTED, "sandbox: %s of %llu: %s", name,
               (unsigned long long)value, strerror(errno));
    return ATTUNE_OK;
}

/* NOTE: sanitizers reserve terabytes of address space. */
static attune_status limit_memory(size_t bytes)
{
#if defined(ATTUNE_SANITIZED)
    (void)bytes;
    return ATTUNE_OK;
#else
    return bytes == 0 ? ATTUNE_OK : set_limit(RLIMIT_AS, "address space", bytes);
#endif
}

/* NOTE: the time stamp counter is read without a system call, and the system's clocks are functions of it that run in
 * the process: only the processor itself can refuse it. Threads made from now on inherit that. Sanitizers read clocks.
 */
static attune_status forbid_clock(void)
{
#if defined(__x86_64__) && !defined(ATTUNE_SANITIZED)
    AT_FAIL_IF(prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0, ATTUNE_UNSUPPORTED,
               "sandbox: the time stamp counter cannot be forbidden: %s", strerror(errno));
#endif
    return ATTUNE_OK;
}

/* NOTE: a thread that frees memory of a heap of its own lets glibc give that heap's end back, for which it first opens
 * /proc/sys/vm/overcommit_memory: a call that no filter here allows. With one heap for all threads it never does. The
 * sanitizers' allocator is another, and has no such option. */
static attune_status share_heap(void)
{
#if !defined(ATTUNE_SANITIZED)
    AT_FAIL_IF(mallopt(M_ARENA_MAX, 1) == 0, ATTUNE_UNSUPPORTED, "sandbox: threads cannot be given one heap");
#endif
    return ATTUNE_OK;
}

attune_status at_sandbox_begin(const at_sandbox_limits *limits)
{
    AT_FORWARD(share_heap());
    AT_FORWARD(set_limit(RLIMIT_CORE, "core dumps", 0));
    AT_FORWARD(limit_memory(limits->memory));
    if (limits->seconds > 0) {
        AT_FORWARD(set_limit(RLIMIT_CPU, "processor time", (rlim_t)limits->seconds));
    }
    AT_FAIL_IF(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0, ATTUNE_UNSUPPORTED,
               "sandbox: privileges cannot be given up: %s", strerror(errno));
    return limits->no_clock ? forbid_clock() : ATTUNE_OK;
}

/* ---- Which call was refused -------------------------------------------------------------------------------------- */

/* Names of system calls by number, looked up before the filter is there: the handler may allocate nothing. */
enum { CALLS_NAMED = 512, CALL_NAME_MAX = 24 };
static char call_name[CALLS_NAMED][CALL_NAME_MAX];
static bool is_handled; /* a second lock finds the handler there, and may not ask for it any more */

static void name_calls(const at_seccomp *library)
{
    for (int number = 0; number < CALLS_NAMED; ++number) {
        char *name = library->seccomp_syscall_resolve_num_arch(0, number);
        (void)snprintf(call_name[number], sizeof call_name[number], "%s", name != NULL ? name : "");
        free(name);
    }
}

static size_t append(char *line, size_t at, const char *text)
{
    for (; *text != '\0'; ++text) {
        line[at++] = *text;
    }
    return at;
}

/* Says on standard error what the thread tried, in one piece, for others may try it at the same time, and ends the
 * process: the signal is blocked here, so that a second refused call is its end, as if there were no handler. */
static void name_refused_call(int signal, siginfo_t *info, void *context)
{
    const int number = info->si_syscall;
    const bool named = number >= 0 && number < CALLS_NAMED && call_name[number][0] != '\0';
    char line[CALL_NAME_MAX + 64];
    (void)signal;
    (void)context;
    size_t length = append(line, 0, "system call ");
    length = append(line, length, named ? call_name[number] : "of unknown name");
    length = append(line, length, " is not allowed\n");
    ssize_t ignored = write(STDERR_FILENO, line, length);
    (void)ignored;
    (void)syscall(SYS_kill, 0, 0);
    _exit(SIGSYS);
}

static attune_status handle_refusals(const at_seccomp *library)
{
    struct sigaction action = {.sa_sigaction = name_refused_call, .sa_flags = SA_SIGINFO};
    name_calls(library);
    AT_FAIL_IF(sigaction(SIGSYS, &action, NULL) != 0, ATTUNE_UNSUPPORTED, "sandbox: a handler of SIGSYS: %s",
               strerror(errno));
    is_handled = true;
    return ATTUNE_OK;
}

/* ---- Filters ---------------------------------------------------------------------------------------------------- */

/* What any code needs: memory, descriptors that are open, waiting for threads, its own end. NOTE: a thread that was
 * made a moment before the lock has still to tell the system about itself (rseq, set_robust_list), and a thread's first
 * allocation counts processors. */
static const char *const running_calls[] = {
    "rseq",
    "gettid",
    "sched_getaffinity",
    "read",
    "close",
    "write",
    "readv",
    "writev",
    "futex",
    "sched_yield",
    "exit",
    "exit_group",
    "rt_sigreturn",
    "munmap",
    "mremap",
    "madvise",
    "brk",
    "poll",
    "ppoll",
    "recvfrom",
    "rt_sigprocmask",
    "sigaltstack",
    "set_robust_list",
    "restart_syscall",
    NULL,
};
/* What a thread needs that only computes, waits for others, and ends one day. NOTE: sanitizers have memory of a
 * thread's own, which it gives back at its end. */
static const char *const item_calls[] = {
    "futex",  "sched_yield", "exit", "exit_group", "rt_sigreturn", "rt_sigprocmask", "madvise", "restart_syscall",
#if defined(ATTUNE_SANITIZED)
    "munmap", "sigaltstack",
#endif
    NULL,
};
/* What the loader of shared objects needs beside them. The object itself is an anonymous file. */
static const char *const loading_calls[] = {
    "fstat",        "newfstatat", "stat",   "lstat",  "pread64",   "lseek",    "getrandom",
    "memfd_create", "ftruncate",  "fcntl",  "getpid", "prlimit64", "readlink", "access",
    "prctl",        "seccomp",    "getcwd", "statx",  NULL,
};
/* Who cannot make a socket has no network, and cannot ask others on this machine for one. */
static const char *const network_calls[] = {"socket", "io_uring_setup", NULL};
/* What no compiler needs. */
static const char *const foreign_calls[] = {
    "socket",
    "socketpair",
    "connect",
    "bind",
    "listen",
    "accept",
    "accept4",
    "sendto",
    "sendmsg",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "setns",
    "unshare",
    "bpf",
    "perf_event_open",
    "init_module",
    "finit_module",
    "delete_module",
    "kexec_load",
    "reboot",
    "swapon",
    "swapoff",
    "keyctl",
    "add_key",
    "request_key",
    "userfaultfd",
    "io_uring_setup",
    "pidfd_open",
    "pidfd_getfd",
    "open_by_handle_at",
    NULL,
};

static attune_status refused(const char *what, int error)
{
    return at_fail(ATTUNE_UNSUPPORTED, "sandbox: %s: %s", what, strerror(error < 0 ? -error : error));
}

/* A call of another architecture than this has no number here, and is then nothing to allow or forbid. */
static attune_status add_rules(const at_seccomp *library, at_seccomp_filter filter, uint32_t action,
                               const char *const *names)
{
    for (; *names != NULL; ++names) {
        int number = library->seccomp_syscall_resolve_name(*names);
        int error = number < 0 ? 0 : library->seccomp_rule_add_array(filter, action, number, 0, NULL);
        if (error != 0) {
            return refused(*names, error);
        }
    }
    return ATTUNE_OK;
}

/* Allows a call where (its argument & mask) == value. */
static attune_status add_compared(const at_seccomp *library, at_seccomp_filter filter, const char *name,
                                  const at_seccomp_compare *compare)
{
    int number = library->seccomp_syscall_resolve_name(name);
    int error = number < 0 ? 0
                           : library->seccomp_rule_add_array(filter, AT_SECCOMP_ALLOW, number, compare->a == 0 ? 0 : 1,
                                                             compare);
    return error == 0 ? ATTUNE_OK : refused(name, error);
}

/* Allows a call where the bits `mask` of its argument `index` are all zero. */
static attune_status add_masked(const at_seccomp *library, at_seccomp_filter filter, const char *name, unsigned index,
                                uint64_t mask)
{
    const at_seccomp_compare compare = {index, AT_SECCOMP_MASKED_EQ, mask, 0};
    return add_compared(library, filter, name, &compare);
}

static attune_status fill_items_filter(const at_seccomp *library, at_seccomp_filter filter)
{
    const at_seccomp_compare to_standard_error = {0, AT_SECCOMP_MASKED_EQ, UINT32_MAX, STDERR_FILENO};
    AT_FORWARD(add_rules(library, filter, AT_SECCOMP_ALLOW, item_calls));
    AT_FORWARD(add_compared(library, filter, "write", &to_standard_error));
    return add_compared(library, filter, "writev", &to_standard_error);
}

static attune_status fill_filter(const at_seccomp *library, at_seccomp_filter filter, at_lock lock)
{
    const bool loading = lock == AT_LOCK_LOADING;
    if (lock == AT_LOCK_OFFLINE) {
        return add_rules(library, filter, AT_SECCOMP_ERRNO(EPERM), network_calls);
    }
    if (lock == AT_LOCK_COMPILER) {
        return add_rules(library, filter, AT_SECCOMP_KILL_PROCESS, foreign_calls);
    }
    if (lock == AT_LOCK_ITEMS) {
        return fill_items_filter(library, filter);
    }
    AT_FORWARD(add_rules(library, filter, AT_SECCOMP_ALLOW, running_calls));
    AT_FORWARD(add_masked(library, filter, "mmap", 2, loading ? 0 : PROT_EXEC));
    AT_FORWARD(add_masked(library, filter, "mprotect", 2, loading ? 0 : PROT_EXEC));
    if (!loading) {
        return ATTUNE_OK;
    }
    AT_FORWARD(add_masked(library, filter, "openat", 2, O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND));
    return add_rules(library, filter, AT_SECCOMP_ALLOW, loading_calls);
}

static attune_status make_filter(at_seccomp *library, at_lock lock, at_seccomp_filter *filter)
{
    AT_FORWARD(at_seccomp_open(library));
    const bool all_but = lock == AT_LOCK_COMPILER || lock == AT_LOCK_OFFLINE;
    if (!all_but && !is_handled) {
        AT_FORWARD(handle_refusals(library));
    }
    *filter = library->seccomp_init(all_but ? AT_SECCOMP_ALLOW : AT_SECCOMP_TRAP);
    AT_FAIL_IF(*filter == NULL, ATTUNE_UNSUPPORTED, "sandbox: libseccomp does not work here");
    attune_status status = fill_filter(library, *filter, lock);
    if (status != ATTUNE_OK) {
        library->seccomp_release(*filter);
    }
    return status;
}

attune_status at_sandbox_lock(at_lock lock)
{
    at_seccomp library;
    at_seccomp_filter filter;
    AT_FORWARD(make_filter(&library, lock, &filter));
    int error = library.seccomp_attr_set(filter, AT_SECCOMP_ATTRIBUTE_TSYNC, 1);
    error = error != 0 ? error : library.seccomp_load(filter);
    library.seccomp_release(filter);
    return error == 0 ? ATTUNE_OK : refused("the filter of system calls", error);
}

/* ---- Threads of their own ---------------------------------------------------------------------------------------- */

static attune_status read_filter(int fd, at_sandbox_filter *filter)
{
    struct stat is;
    AT_FAIL_IF(fstat(fd, &is) != 0 || is.st_size <= 0 || is.st_size / (off_t)sizeof *filter->code > BPF_MAXINSNS,
               ATTUNE_UNSUPPORTED, "sandbox: a filter of system calls is none");
    filter->code = malloc((size_t)is.st_size);
    AT_FAIL_IF(filter->code == NULL, ATTUNE_OUT_OF_MEMORY, "sandbox: no memory for a filter");
    filter->count = (unsigned short)((size_t)is.st_size / sizeof *filter->code);
    if (pread(fd, filter->code, (size_t)is.st_size, 0) != (ssize_t)is.st_size) {
        at_sandbox_filter_free(filter);
        return refused("reading a filter of system calls", errno);
    }
    return ATTUNE_OK;
}

static attune_status export_filter(const at_seccomp *library, at_seccomp_filter from, at_sandbox_filter *filter)
{
    const int fd = memfd_create("filter", MFD_CLOEXEC);
    AT_FAIL_IF(fd < 0, ATTUNE_UNSUPPORTED, "sandbox: a file for a filter: %s", strerror(errno));
    const int error = library->seccomp_export_bpf(from, fd);
    attune_status status = error != 0 ? refused("a filter of system calls", error) : read_filter(fd, filter);
    (void)close(fd);
    return status;
}

attune_status at_sandbox_filter_make(at_lock lock, at_sandbox_filter *filter)
{
    at_seccomp library;
    at_seccomp_filter from;
    *filter = (at_sandbox_filter){NULL, 0};
    AT_FORWARD(make_filter(&library, lock, &from));
    attune_status status = export_filter(&library, from, filter);
    library.seccomp_release(from);
    return status;
}

void at_sandbox_filter_free(at_sandbox_filter *filter)
{
    free(filter->code);
    *filter = (at_sandbox_filter){NULL, 0};
}

/* NOTE: a thread that blocks the signal of a refusal would end without a word. */
attune_status at_sandbox_lock_thread(const at_sandbox_filter *filter)
{
    const struct sock_fprog program = {filter->count, filter->code};
    sigset_t refusals;
    (void)sigemptyset(&refusals);
    (void)sigaddset(&refusals, SIGSYS);
    (void)pthread_sigmask(SIG_UNBLOCK, &refusals, NULL);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0 ? ATTUNE_OK
                                                                           : refused("a thread's filter", errno);
}

attune_status at_sandbox_here(void)
{
    at_seccomp library;
    AT_FORWARD(at_seccomp_open(&library));
    AT_FAIL_IF(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0, ATTUNE_UNSUPPORTED, "sandbox: this system has no seccomp: %s",
               strerror(errno));
    return ATTUNE_OK;
}
