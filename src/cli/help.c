/* Help for the command and its verbs, made from their tables. */
#include <string.h>

#include "cli/cli.h"

void at_help_command(FILE *out)
{
    (void)fputs("attune plans, proves and runs fused attention.\n"
                "\n"
                "Usage: attune VERB [ARGUMENTS] [OPTIONS]\n"
                "\n"
                "Verbs\n",
                out);
    for (const at_verb *const *verb = at_verbs; *verb != NULL; ++verb) {
        (void)fprintf(out, "  %-9s %s\n", (*verb)->name, (*verb)->summary);
    }
    (void)fputs("\n`attune VERB --help` explains a verb.\n", out);
    for (const at_help_section *section = at_help_sections; section->name != NULL; ++section) {
        (void)fprintf(out, "\n%s\n%s", section->title, section->lines);
    }
}

static void print_option(const at_option *option, FILE *out)
{
    char left[64];
    (void)snprintf(left, sizeof left, "%s %s", option->name, option->argument != NULL ? option->argument : "");
    (void)fprintf(out, "  %-18s %s\n", left, option->summary);
}

void at_help_verb(const at_verb *verb, FILE *out)
{
    (void)fprintf(out, "attune %s: %s\n\nUsage: attune %s%s%s [OPTIONS]\n\n%s\nOptions\n", verb->name, verb->summary,
                  verb->name, verb->arguments[0] != '\0' ? " " : "", verb->arguments, verb->help);
    const at_option *option;
    for (int i = 0; (option = at_verb_option(verb, i)) != NULL; ++i) {
        print_option(option, out);
    }
    (void)fprintf(out, "\nExamples\n%s", verb->examples);
}

/* Every verb's options as rows: what completion and other programs read. */
static attune_status print_options(const at_cli *cli)
{
    static const at_column columns[] = {
        {"verb", AT_COLUMN_TEXT, NULL, 0},     {"option", AT_COLUMN_TEXT, NULL, 0},
        {"argument", AT_COLUMN_TEXT, NULL, 0}, {"values", AT_COLUMN_TEXT, NULL, 0},
        {"summary", AT_COLUMN_TEXT, NULL, 0},
    };
    at_table *table;
    attune_status status = at_table_create(columns, 5, &table);
    for (const at_verb *const *verb = at_verbs; status == ATTUNE_OK && *verb != NULL; ++verb) {
        const at_option *option;
        for (int i = 0; (option = at_verb_option(*verb, i)) != NULL; ++i) {
            at_table_text(table, (*verb)->name);
            at_table_text(table, option->name);
            at_table_text(table, option->argument);
            at_table_text(table, option->values);
            at_table_text(table, option->summary);
        }
    }
    if (status == ATTUNE_OK) {
        status = at_table_print(table, at_cli_format(cli), cli->out);
    }
    at_table_destroy(table);
    return status;
}

static int run(const at_cli *cli)
{
    if (cli->operand_count > 1) {
        return at_cli_usage(cli, "%s: one verb at a time", cli->operand[1]);
    }
    if (at_cli_given(cli, "--man")) {
        at_man_print(cli->out);
        return AT_EXIT_OK;
    }
    if (cli->operand_count == 0) {
        if (at_cli_format(cli) == AT_FORMAT_TEXT) {
            at_help_command(cli->out);
            return AT_EXIT_OK;
        }
        attune_status status = print_options(cli);
        return status == ATTUNE_OK ? AT_EXIT_OK : at_cli_fail(cli, status);
    }
    const at_verb *verb = at_verb_find(cli->operand[0]);
    if (verb == NULL) {
        return at_cli_usage(cli, "unknown verb %s", cli->operand[0]);
    }
    at_help_verb(verb, cli->out);
    return AT_EXIT_OK;
}

static const at_option options[] = {
    {"--man", NULL, NULL, "print the manual page, attune(1)"},
    {NULL, NULL, NULL, NULL},
};

const at_verb at_verb_help = {
    .name = "help",
    .arguments = "[VERB]",
    .summary = "explain the command or a verb",
    .help = "Explains the command, or one verb of it. With --format tsv or json, lists every option of every verb,\n"
            "for programs; with --man, prints the manual page.\n",
    .examples = "  attune help bench\n"
                "  attune help --format tsv\n"
                "  attune help --man | man -l -\n",
    .options = options,
    .common = AT_COMMON_FORMAT,
    .run = run,
};
