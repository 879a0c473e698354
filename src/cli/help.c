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
    (void)fputs("\n"
                "`attune VERB --help` explains a verb.\n"
                "\n"
                "A problem says what is asked, in comma-separated terms in any order:\n"
                "  b1,h8,s512,d64,fp16                          batch 1, 8 heads, 512 tokens, head dim 64\n"
                "  b2,h32,hkv8,s4096,d128,bf16,causal           grouped-query attention with a causal mask\n"
                "  b1,h32,hkv8,sq1,skv8192,d128,bf16            one new token against 8192 cached ones\n"
                "  b1,h8,s1000,d64,fp32,window=256:0,softcap=30 a sliding window, capped logits\n"
                "Also: dv offset= scale= bias= mask alibi sink seqused strict align= varlen= layout=\n"
                "\n"
                "Environment, where no option says otherwise\n"
                "  ATTUNE_TARGET ATTUNE_KERNEL ATTUNE_ISA ATTUNE_THREADS ATTUNE_WISDOM ATTUNE_CACHE ATTUNE_PACK\n"
                "\n"
                "Exit codes\n"
                "  0    done, and right\n"
                "  1    a result was wrong, or a check failed\n"
                "  3    it could not run: input or output, device, memory\n"
                "  64   the command line, a problem or an input is bad\n"
                "  130  interrupted; nothing half-written was kept\n",
                out);
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

const at_verb at_verb_help = {
    .name = "help",
    .arguments = "[VERB]",
    .summary = "explain the command or a verb",
    .help = "Explains the command, or one verb of it. With --format tsv or json, lists every option of every verb,\n"
            "for programs.\n",
    .examples = "  attune help bench\n"
                "  attune help --format tsv\n",
    .common = AT_COMMON_FORMAT,
    .run = run,
};
