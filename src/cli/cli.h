/* The command: `attune VERB [ARGUMENTS] [OPTIONS]`. A verb is a file of this folder that defines one const at_verb; its
 * options are data, from which parsing, help, the manual page and completion are made.
 *
 * To add a verb NAME:
 *   1. src/cli/NAME.c defines `const at_verb at_verb_NAME = {...}` (cli/version.c is the smallest one);
 *   2. declare it at the end of this header;
 *   3. add one row to the table in verbs.c, in the order in which the help lists verbs.
 * Nothing else: dispatch, --help, suggestions and completion follow.
 *
 * A verb writes results to cli->out and nothing else there, returns one of the exit codes below, and reports trouble
 * with at_cli_fail, at_cli_usage or at_cli_say, which write "attune: VERB: ..." to cli->err. It need not flush or check
 * cli->out: the dispatcher does, and turns a closed pipe or a full disk into AT_EXIT_FAILED.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "attune/attune.h"
#include "report/table.h"

/* Exit codes of every verb. */
typedef enum at_exit {
    AT_EXIT_OK = 0,
    AT_EXIT_WRONG = 1,        /* a result was wrong, or a check failed */
    AT_EXIT_USAGE = 64,       /* the command line, a problem or an input is bad: no verb means this by a finding */
    AT_EXIT_FAILED = 3,       /* it could not run: input or output, device, memory */
    AT_EXIT_INTERRUPTED = 130 /* stopped by SIGINT or SIGTERM; nothing half-written was kept */
} at_exit;

/* One option. Given as `--name VALUE` or `--name=VALUE`, at most once. */
typedef struct at_option {
    const char *name;     /* "--seed"; NULL ends a list */
    const char *argument; /* what the value is called in the help: "N", "FILE"; NULL: the option takes no value */
    const char *values;   /* the only values allowed, blanks between: "text tsv json"; NULL: anything */
    const char *summary;  /* a line or two for the help */
} at_option;

/* Which of the options that verbs share a verb takes (bits of at_verb.common). */
enum {
    AT_COMMON_TARGET = 1 << 0, /* --target --kernel --isa --threads --wisdom; read with at_cli_context */
    AT_COMMON_FORMAT = 1 << 1  /* --format; read with at_cli_format */
};

typedef struct at_cli at_cli;

typedef struct at_verb {
    const char *name;
    const char *arguments; /* for the usage line: "[PROBLEM...]"; "" for none */
    const char *summary;   /* a few words for the list of verbs */
    const char *help;      /* paragraphs for `attune VERB --help`, lines of at most 100 columns, ends with a newline */
    const char *examples;  /* command lines, each indented by two, ends with a newline */
    const at_option *options; /* the verb's own, ends with a NULL name; NULL for none */
    unsigned common;          /* AT_COMMON_ bits */
    int (*run)(const at_cli *cli);
} at_verb;

#define AT_CLI_OPTIONS_MAX 64

/* One parsed command line. Texts belong to argv. */
struct at_cli {
    const at_verb *verb;
    FILE *out, *err;
    int operand_count; /* what is not an option; `--` ends the options */
    const char *const *operand;
    const char *value[AT_CLI_OPTIONS_MAX]; /* of the options, common ones after the verb's own; NULL where not given */
};

/* The whole command: parses, dispatches, flushes. Returns the exit code. */
int at_cli_main(int argc, const char *const *argv, FILE *out, FILE *err);

/* ---- Reading options; `name` must be one of the verb's, its dashes included ----------------------------------------
 */

/* The option's value, "" for one given without a value, NULL if it was not given. */
const char *at_cli_text(const at_cli *cli, const char *name);
bool at_cli_given(const at_cli *cli, const char *name);
/* The value as an integer in low ... high, or `fallback` if it was not given. ATTUNE_INVALID_ARGUMENT names the range.
 */
attune_status at_cli_integer(const at_cli *cli, const char *name, int64_t low, int64_t high, int64_t fallback,
                             int64_t *value);
/* The same for a finite number. */
attune_status at_cli_number(const at_cli *cli, const char *name, double low, double high, double fallback,
                            double *value);
/* --format; without it, text on a terminal and otherwise. */
at_format at_cli_format(const at_cli *cli);
/* --target, --kernel, --isa, --threads and --wisdom as options whose texts belong to the command line. */
attune_status at_cli_options(const at_cli *cli, attune_options *options);
/* Opens a context with them, and says on cli->err how many corrupt wisdom lines were skipped, if any. */
attune_status at_cli_context(const at_cli *cli, attune_context **context);

/* ---- Saying things --------------------------------------------------------------------------------------------------
 */

/* "attune: VERB: ..." and a newline on cli->err. */
void at_cli_say(const at_cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Says attune_last_detail() (the status's text where it is empty) and returns the status's exit code. */
int at_cli_fail(const at_cli *cli, attune_status status);
/* Says what is wrong with the command line and where help is; returns AT_EXIT_USAGE. */
int at_cli_usage(const at_cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
at_exit at_cli_exit(attune_status status);

/* ---- Interrupts -----------------------------------------------------------------------------------------------------
 */

/* Makes SIGINT and SIGTERM set a flag (a second one ends the process) and a closed pipe an error of write. */
void at_cli_catch_signals(void);
/* Whether one has come. Verbs ask between steps of at most a second, clean up and return AT_EXIT_INTERRUPTED. */
bool at_cli_interrupted(void);

/* ---- Shared by help, the manual page and the dispatcher
 * ------------------------------------------------------------------------------
 */

/* Every verb, ends with NULL. */
extern const at_verb *const at_verbs[];
/* The index-th option of a verb, common ones after its own; NULL after the last. */
const at_option *at_verb_option(const at_verb *verb, int index);
/* The index of the option of a name of `length` characters; -1 where there is none. */
int at_verb_option_index(const at_verb *verb, const char *name, size_t length);
const at_verb *at_verb_find(const char *name);
/* What the whole command's help says beside its verbs; ends with a NULL name. */
typedef struct at_help_section {
    const char *name;  /* in the manual page */
    const char *title; /* in the help: a line */
    const char *lines; /* end with a newline */
} at_help_section;

extern const at_help_section at_help_sections[];
/* The manual page. */
void at_man_print(FILE *out);
/* The whole command's help, or one verb's. */
void at_help_command(FILE *out);
void at_help_verb(const at_verb *verb, FILE *out);

extern const at_verb at_verb_info;
extern const at_verb at_verb_bench;
extern const at_verb at_verb_check;
extern const at_verb at_verb_evolve;
extern const at_verb at_verb_export;
extern const at_verb at_verb_gate;
extern const at_verb at_verb_help;
extern const at_verb at_verb_new;
extern const at_verb at_verb_ratchet;
extern const at_verb at_verb_report;
extern const at_verb at_verb_run;
extern const at_verb at_verb_verify;
extern const at_verb at_verb_version;
extern const at_verb at_verb_sandbox;
extern const at_verb at_verb_worker;

#endif
