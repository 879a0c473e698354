/* Running a program to its end: with a deadline, nothing on its standard input, and what it says kept. */
#ifndef WIRE_PROCESS_H
#define WIRE_PROCESS_H

#include <spawn.h>
#include <stddef.h>

#include "attune/attune.h"

enum { AT_SAID_MAX = 16 << 10 };

/* Runs `command` (words, ends with NULL; the first is searched for in PATH where it has no slash) and waits for its
 * end; it is ended, with whatever it started, after `seconds`. `said` receives the beginning of what it wrote to
 * standard output and error, terminated. *end is a wait status. ATTUNE_IO_ERROR where it does not start,
 * ATTUNE_DEVICE_ERROR where it had to be ended, ATTUNE_INTERRUPTED after at_file_interrupt. */
attune_status at_process_run(const char *const *command, double seconds, char said[AT_SAID_MAX], int *end);

/* Adds that the process closes every descriptor from `first` on; 0, or an errno. */
int at_process_close_from(posix_spawn_file_actions_t *actions, int first);
/* The same of those that are open now: what a glibc before 2.34, which has no action for all, is left with. */
int at_process_close_listed(posix_spawn_file_actions_t *actions, int first);

/* Adds that the process begins in a folder; 0, or an errno: ENOSYS of a glibc before 2.29. NOTE: these are looked up
 * when they are wanted, because the wheel is linked for an older glibc. */
int at_process_in_folder(posix_spawn_file_actions_t *actions, const char *folder);

/* What became of a process whose wait status this is, as part of a sentence: "was ended by the sandbox: ...", "was
 * ended by signal 11 (Segmentation fault)", "ended by itself with exit code 3". */
const char *at_process_end(int wait_status, char text[160]);
/* Where a program is: what the environment's `variable` names, else in PATH, else in /usr/local/cuda/bin.
 * ATTUNE_NOT_FOUND says where it was looked for. For the caller to free. */
attune_status at_process_find(const char *variable, const char *name, char **path);

#endif
