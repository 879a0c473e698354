/* What `attune evolve` prints: champions and self-checks as they come, what was found, then what the gate says of it.
 */
#ifndef CLI_EVOLVE_PRINT_H
#define CLI_EVOLVE_PRINT_H

#include "cli/gate_print.h"
#include "evolve/engine.h"

typedef struct at_evolve_printer {
    at_gate_printer gate; /* its output, progress and colours are used throughout */
    const char *kernel;
    char problem[ATTUNE_PROBLEM_TEXT_MAX]; /* that is searched */
    at_table *rows;                        /* for programs; NULL with text */
    int refused[5];                        /* candidates, by at_refused */
    char first_refusal[5][AT_RACE_WHY_MAX];
    bool each; /* one line for each candidate */
} at_evolve_printer;

/* Fills in the watch, whose functions print. `each`: a line for every candidate. */
void at_evolve_printer_start(at_evolve_printer *printer, const at_cli *cli, const char *kernel, bool each,
                             at_evolve_watch *watch);
/* Prints what is left to say, and the table that programs read. */
attune_status at_evolve_printer_end(at_evolve_printer *printer, const at_evolve_result *result);

#endif
