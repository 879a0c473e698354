/* attune evolve replay LEDGER...: strategies on recorded searches. A part of the verb evolve. */
#ifndef CLI_EVOLVE_REPLAY_H
#define CLI_EVOLVE_REPLAY_H

#include "cli/cli.h"

/* Reads --strategy (all of them, without it), --budget (15 % of the candidates), --seed, --repeat, --blind and
 * --format; the operands after the first are ledgers. Returns the exit code. */
int at_cli_evolve_replay(const at_cli *cli);

#endif
