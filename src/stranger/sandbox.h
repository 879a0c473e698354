/* The sandbox: a process gives up what a stranger's code has no business with, before that code is there.
 *
 *     attune's worker                            a stranger's compiler
 *     at_sandbox_begin     limits of memory, of open files, of processor time; no core dumps, no new privileges
 *     threads are made     (they inherit what was begun)
 *     at_sandbox_lock(AT_LOCK_LOADING)           at_sandbox_lock(AT_LOCK_COMPILER)
 *     dlopen               files can be read     exec of the compiler
 *     at_sandbox_lock_thread(items)              on each thread that runs the code: nothing but to compute and to wait
 *     at_sandbox_lock_thread(running)            on the others: memory, the descriptors that are open, waiting
 *     the code runs
 *
 * Locks are filters of system calls (seccomp, by libseccomp, which is looked up at run time) over all threads of the
 * process, or one. They can be tightened and never loosened; a call outside of them ends the process (SIGSYS). */
#ifndef STRANGER_SANDBOX_H
#define STRANGER_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "attune/attune.h"

typedef enum at_lock {
    AT_LOCK_COMPILER, /* files and processes, but no network, no other process's memory, no privileges */
    AT_LOCK_LOADING,  /* memory, open descriptors, and reading files */
    AT_LOCK_RUNNING,  /* memory that is not executable, and open descriptors */
    AT_LOCK_ITEMS,    /* waiting for other threads, and a last word on standard error: no memory, no descriptor */
    AT_LOCK_OFFLINE   /* all but sockets, which cannot be had */
} at_lock;

typedef struct at_sandbox_limits {
    int seconds;   /* of processor time, of all threads together; 0: as it is */
    size_t memory; /* bytes of address space; 0: as it is */
    bool no_clock; /* reading the processor's time stamp ends the process too, where the processor can see to that */
} at_sandbox_limits;

/* Whether a sandbox can be had here; the detail of ATTUNE_UNSUPPORTED says what is missing. */
attune_status at_sandbox_here(void);
/* Before any thread is made. ATTUNE_UNSUPPORTED where the system refuses. */
attune_status at_sandbox_begin(const at_sandbox_limits *limits);
/* ATTUNE_UNSUPPORTED, the process being as it was, where the system refuses. */
attune_status at_sandbox_lock(at_lock lock);

/* A lock made ready for single threads. */
typedef struct at_sandbox_filter {
    struct sock_filter *code;
    unsigned short count;
} at_sandbox_filter;

/* Release with at_sandbox_filter_free; ATTUNE_UNSUPPORTED or ATTUNE_OUT_OF_MEMORY leave nothing. */
attune_status at_sandbox_filter_make(at_lock lock, at_sandbox_filter *filter);
void at_sandbox_filter_free(at_sandbox_filter *filter);
/* Locks the calling thread alone; allocates nothing. No at_sandbox_lock follows: threads whose locks differ cannot be
 * locked together any more. ATTUNE_UNSUPPORTED, the thread being as it was, where the system refuses. */
attune_status at_sandbox_lock_thread(const at_sandbox_filter *filter);

#endif
