/* Proposers that need no model: changes of one file by a rule (mutate.h), and of crosses what two kernels changed since
 * they were one (combine.h). */
#ifndef EVOLVE_PROPOSER_RULES_H
#define EVOLVE_PROPOSER_RULES_H

#include "evolve/proposer.h"

typedef struct at_rules_proposer {
    uint64_t seed;
} at_rules_proposer;

/* "mutate". */
bool at_proposer_is_rules(const char *name);
/* The same request has the same answer. They cannot repair. */
at_proposer at_proposer_of_rules(at_rules_proposer *rules);

#endif
