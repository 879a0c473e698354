/* Running somebody's command and whatever it starts to their end: no process of theirs is left, and where a jail is
 * asked for they write to one folder alone and may be kept from the network. */
#ifndef STRANGER_JAIL_H
#define STRANGER_JAIL_H

#include <stdbool.h>

#include "attune/attune.h"

typedef enum at_jail {
    AT_JAIL_NONE = 0, /* the user's own rights */
    AT_JAIL_NETWORK,  /* the folder and what all may read; with the network */
    AT_JAIL_CLOSED    /* the same without */
} at_jail;

/* "none", "network", "closed"; ends with NULL. */
extern const char *const at_names_of_jails[];

/* Whether there can be one here: by bubblewrap, which is looked for in PATH, else by Landlock. The detail of
 * ATTUNE_UNSUPPORTED says what is missing. */
attune_status at_jail_here(void);

/* For a process that does nothing else: runs `sh -c command` in the folder and waits for its end, or until this process
 * is asked to end (SIGTERM, or its parent's death); then ends all processes that are left of it, wherever they went.
 * *code is the command's exit code, 128 and the signal's number where one ended it. */
attune_status at_jail_run(const char *folder, at_jail jail, const char *command, int *code);

#endif
