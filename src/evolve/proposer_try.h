/* attune-try: how a proposer that runs asks for a look at its candidate. Two pipes in the folder, which this process
 * opens before the proposer is there, so that nothing is opened by a name that the proposer could have changed. */
#ifndef EVOLVE_PROPOSER_TRY_H
#define EVOLVE_PROPOSER_TRY_H

#include "evolve/proposer.h"

typedef struct at_tries {
    const at_command_proposer *of;
    const char *folder;
    int ask, answer; /* descriptors; -1: none */
    int count;       /* of calls */
    double last_s;   /* when the last one ended */
} at_tries;

/* Writes bin/attune-try and makes the pipes, where the proposer may look. */
attune_status at_tries_open(const at_command_proposer *of, const char *folder, at_tries *tries);
void at_tries_close(at_tries *tries);
/* Answers one call, where there is one. ATTUNE_OK whatever the candidate is. */
attune_status at_tries_serve(at_tries *tries);

#endif
