/* What verbs that judge have in common on their command lines: problems, peers, and the programs that are workers. */
#ifndef CLI_JUDGING_H
#define CLI_JUDGING_H

#include "cli/cli.h"
#include "gate/gate.h"

enum { AT_MANY = 256 };

typedef struct at_judging {
    const at_cli *cli;
    at_gate_options gate; /* what the options say; candidates, problems and wisdom are the verb's to fill in */
    at_test_problem problem[AT_MANY];
    int problem_count;
    const char *peer[AT_MANY];
    char *peers; /* what `peer` points into */
    const char *worker[3], *python[4];
} at_judging;

/* Whether an operand is meant to be a problem: a list of terms; else it is a kernel or a directory. */
bool at_judging_is_problem(const char *text);
attune_status at_judging_add_problem(at_judging *on, const char *text);
/* The question that there was first, where nobody asks another one. */
attune_status at_judging_default_problem(at_judging *on);
/* Reads --against, which is `fallback` where it is not given (NULL: no peers). at_judging_run releases them. */
attune_status at_judging_read_peers(const at_cli *cli, const char *fallback, at_judging *on);
/* The other options of the gate, or their defaults. This program is a worker too, unless --worker names another; the
 * one in Python comes with PyTorch. */
attune_status at_judging_read_options(const at_cli *cli, at_judging *on);
/* A verb's job: `bytes` of zeroes that begin with an at_judging, which is released when `work` is back. Its exit code.
 */
int at_judging_run(const at_cli *cli, size_t bytes, int (*work)(at_judging *on));
/* The exit code: `exit_code` where all went well; else it says what could not be done, for which 1 and 2 are findings
 * and 64 is the command line's. `begun`: nothing is wrong with what was asked for. */
int at_judging_end(const at_cli *cli, attune_status status, attune_status printed, bool begun, int exit_code);

#endif
