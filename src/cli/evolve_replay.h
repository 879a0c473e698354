/* attune evolve replay LEDGER...: strategies on recorded searches. A part of the verb evolve. */
#ifndef CLI_EVOLVE_REPLAY_H
#define CLI_EVOLVE_REPLAY_H

#include "cli/cli.h"
#include "evolve/strategy.h"

/* Reads --strategy (all of them, without it), --budget (15 % of the candidates), --seed, --fitness, --repeat, --blind
 * and
 * --format; the operands after the first are ledgers. Returns the exit code. */
int at_cli_evolve_replay(const at_cli *cli);
/* --fitness, of a search as of a replay. */
at_fitness at_cli_evolve_fitness(const at_cli *cli);

#endif
