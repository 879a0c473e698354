/* Parsing a command line, and finding whose it is. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"

/* ---- Parsing --------------------------------------------------------------------------------------------------------
 */

static bool value_allowed(const at_option *option, const char *value)
{
    size_t length = strlen(value);
    if (strcmp(option->name, "--target") == 0 && strncmp(value, "cuda:", 5) == 0) {
        return true; /* which devices there are is for the library to say */
    }
    for (const char *at = option->values; at != NULL && *at != '\0'; at += *at == ' ') {
        size_t word = strcspn(at, " ");
        if (word == length && memcmp(at, value, length) == 0) {
            return true;
        }
        at += word;
    }
    return option->values == NULL;
}

static int unknown_option(const at_cli *cli, const char *text, size_t length)
{
    const char *names[AT_CLI_OPTIONS_MAX];
    char word[64];
    int count = 0;
    const at_option *option;
    while ((option = at_verb_option(cli->verb, count)) != NULL) {
        names[count++] = option->name;
    }
    (void)snprintf(word, sizeof word, "%.*s", (int)length, text);
    const char *nearest = at_text_nearest(word, names, (size_t)count);
    if (nearest != NULL) {
        return at_cli_usage(cli, "unknown option %s: did you mean %s?", word, nearest);
    }
    return at_cli_usage(cli, "unknown option %s", word);
}

/* Reads the option at argv[*at] and moves *at over a value that is an argument of its own. */
static int parse_option(at_cli *cli, int argc, const char *const *argv, int *at)
{
    const char *text = argv[*at];
    size_t length = strcspn(text, "=");
    const char *value = text[length] == '=' ? text + length + 1 : NULL;
    int index = at_verb_option_index(cli->verb, text, length);
    if (index < 0) {
        return unknown_option(cli, text, length);
    }
    const at_option *option = at_verb_option(cli->verb, index);
    if (cli->value[index] != NULL) {
        return at_cli_usage(cli, "%s is given twice", option->name);
    }
    if (option->argument == NULL) {
        cli->value[index] = "";
        return value == NULL ? AT_EXIT_OK : at_cli_usage(cli, "%s takes no value", option->name);
    }
    if (value == NULL) {
        if (*at + 1 >= argc || strncmp(argv[*at + 1], "--", 2) == 0) {
            return at_cli_usage(cli, "%s needs a value: %s=%s", option->name, option->name, option->argument);
        }
        value = argv[++*at];
    }
    if (!value_allowed(option, value)) {
        return at_cli_usage(cli, "%s %s: one of %s is needed", option->name, value, option->values);
    }
    cli->value[index] = value;
    return AT_EXIT_OK;
}

/* Operands are gathered into `operands`, room for argc of them. */
static int parse(at_cli *cli, int argc, const char *const *argv, const char **operands)
{
    bool options = true;
    cli->operand = operands;
    for (int at = 0; at < argc; ++at) {
        if (options && strcmp(argv[at], "--") == 0) {
            options = false;
        } else if (options && strcmp(argv[at], "-h") == 0) {
            cli->value[at_verb_option_index(cli->verb, "--help", 6)] = "";
        } else if (options && argv[at][0] == '-' && argv[at][1] != '\0') {
            int code = parse_option(cli, argc, argv, &at);
            if (code != AT_EXIT_OK) {
                return code;
            }
        } else {
            operands[cli->operand_count++] = argv[at];
        }
    }
    return AT_EXIT_OK;
}

/* ---- Dispatch -------------------------------------------------------------------------------------------------------
 */

static int unknown_verb(const at_cli *cli, const char *name)
{
    const char *names[AT_CLI_OPTIONS_MAX];
    int count = 0;
    for (const at_verb *const *verb = at_verbs; *verb != NULL && count < AT_CLI_OPTIONS_MAX; ++verb) {
        names[count++] = (*verb)->name;
    }
    const char *nearest = at_text_nearest(name, names, (size_t)count);
    if (nearest != NULL) {
        return at_cli_usage(cli, "unknown verb %s: did you mean %s?", name, nearest);
    }
    return at_cli_usage(cli, "unknown verb %s", name);
}

static int run_verb(at_cli *cli, int argc, const char *const *argv)
{
    const char **operands = calloc((size_t)argc + 1, sizeof *operands);
    if (operands == NULL) {
        at_cli_say(cli, "out of memory");
        return AT_EXIT_FAILED;
    }
    int code = parse(cli, argc, argv, operands);
    if (code == AT_EXIT_OK && at_cli_given(cli, "--help")) {
        at_help_verb(cli->verb, cli->out);
    } else if (code == AT_EXIT_OK) {
        code = cli->verb->run(cli);
    }
    free(operands);
    return code;
}

static int dispatch(at_cli *cli, int argc, const char *const *argv)
{
    if (argc < 2) {
        at_help_command(cli->err);
        return AT_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        name = "help";
    } else if (strcmp(name, "--version") == 0) {
        name = "version";
    } else if (name[0] == '-') {
        return at_cli_usage(cli, "unknown option %s: a verb comes first", name);
    }
    cli->verb = at_verb_find(name);
    return cli->verb == NULL ? unknown_verb(cli, name) : run_verb(cli, argc - 2, argv + 2);
}

int at_cli_main(int argc, const char *const *argv, FILE *out, FILE *err)
{
    at_cli cli = {.out = out, .err = err};
    int code = dispatch(&cli, argc, argv);
    errno = 0;
    if (fflush(out) != 0 || ferror(out)) {
        at_cli_say(&cli, "writing the output failed: %s", errno != 0 ? strerror(errno) : "an earlier write failed");
        return AT_EXIT_FAILED;
    }
    return code;
}
