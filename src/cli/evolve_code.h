/* attune evolve KERNEL --proposer CMD: the search for code. A part of the verb evolve. */
#ifndef CLI_EVOLVE_CODE_H
#define CLI_EVOLVE_CODE_H

#include "cli/judging.h"

/* The kernel is the first operand; problems and the gate's options are read. Sets *exit_code to 0 for a search that
 * ended, gain or not, 1 where the gate found the winner wrong, 4 where it was not proven. */
attune_status at_cli_evolve_code(const at_judging *of, int *exit_code);
/* attune evolve replay FOLDER: goes through a recorded search again. The exit code. */
int at_cli_evolve_code_replay(const at_cli *cli, const char *folder);

#endif
