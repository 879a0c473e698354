/* What `attune gate` prints: stages as they end, a table of ratios for each verdict, and at the end what came of it. */
#ifndef CLI_GATE_PRINT_H
#define CLI_GATE_PRINT_H

#include "cli/cli.h"
#include "cli/progress.h"
#include "gate/gate.h"

typedef struct at_gate_printer {
    const at_cli *cli;
    FILE *out; /* of what is for people: standard output, or standard error where a program reads that */
    bool colour;
    at_table *table; /* of all ratios, for programs; NULL with text */
    at_progress progress;
} at_gate_printer;

/* Fills in the watch, whose functions print. */
void at_gate_printer_start(at_gate_printer *printer, const at_cli *cli, at_gate_watch *watch);
/* Prints what is left to say, and the table that programs read. */
attune_status at_gate_printer_end(at_gate_printer *printer, const at_gate_result *result);

#endif
