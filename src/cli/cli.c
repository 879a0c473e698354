#include "cli/cli.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "base/text.h"

/* ---- Saying things --------------------------------------------------------------------------------------------------
 */

static void say(const at_cli *cli, const char *format, va_list list)
{
    (void)fprintf(cli->err, cli->verb != NULL ? "attune: %s: " : "attune: ", cli->verb != NULL ? cli->verb->name : "");
    (void)vfprintf(cli->err, format, list);
    (void)fputc('\n', cli->err);
}

void at_cli_say(const at_cli *cli, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(cli, format, list);
    va_end(list);
}

at_exit at_cli_exit(attune_status status)
{
    switch (status) {
    case ATTUNE_OK:
        return AT_EXIT_OK;
    case ATTUNE_WRONG_RESULT:
        return AT_EXIT_WRONG;
    case ATTUNE_INVALID_ARGUMENT:
    case ATTUNE_INVALID_PROBLEM:
    case ATTUNE_UNSUPPORTED:
    case ATTUNE_NOT_FOUND:
    case ATTUNE_CORRUPT:
        return AT_EXIT_USAGE;
    case ATTUNE_INTERRUPTED:
        return AT_EXIT_INTERRUPTED;
    default:
        return AT_EXIT_FAILED;
    }
}

int at_cli_fail(const at_cli *cli, attune_status status)
{
    const char *detail = attune_last_detail();
    at_cli_say(cli, "%s", detail[0] != '\0' ? detail : attune_status_string(status));
    if (status == ATTUNE_NO_DEVICE) {
        at_cli_say(cli,
                   "without a GPU, `attune info KERNEL --arch 80,90a` compiles a CUDA kernel, or a folder, and shows "
                   "what it needs; --target cpu asks for this CPU");
    }
    return at_cli_exit(status);
}

int at_cli_usage(const at_cli *cli, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(cli, format, list);
    va_end(list);
    (void)fprintf(cli->err, "Try `attune %s%s--help`.\n", cli->verb != NULL ? cli->verb->name : "",
                  cli->verb != NULL ? " " : "");
    return AT_EXIT_USAGE;
}

/* ---- Interrupts -----------------------------------------------------------------------------------------------------
 */

static void on_interrupt(int number)
{
    (void)number;
    at_file_interrupt();
}

void at_cli_catch_signals(void)
{
    /* One interrupt asks for a clean stop; the handler is then gone, so that a second one stops for sure. */
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

bool at_cli_interrupted(void)
{
    return at_file_interrupted();
}

/* ---- The options of a verb -----------------------------------------------------------------------------------------
 */

static const at_option target_options[] = {
    {"--target", "TARGET", "cpu cuda", "cpu, cuda or cuda:N; without it $ATTUNE_TARGET, else cuda where usable"},
    {"--kernel", "KERNEL", NULL, "NAME or NAME:PARAM=VALUE,...: use this kernel alone; without it $ATTUNE_KERNEL"},
    {"--isa", "TIER", "baseline avx2 avx512 avx512_bf16 amx",
     "highest CPU tier to use; without it $ATTUNE_ISA, else the CPU's best"},
    {"--threads", "N", NULL, "CPU threads; without it $ATTUNE_THREADS, else all this process may use"},
    {"--wisdom", "FILE", NULL, "read what was learned from this file; without it $ATTUNE_WISDOM"},
    {NULL, NULL, NULL, NULL},
};

static const at_option format_options[] = {
    {"--format", "FORMAT", "text tsv json", "text (for people, the default), tsv or json"},
    {NULL, NULL, NULL, NULL},
};

static const at_option help_options[] = {
    {"--help", NULL, NULL, "show this help"},
    {NULL, NULL, NULL, NULL},
};

const at_option *at_verb_option(const at_verb *verb, int index)
{
    const at_option *lists[] = {
        verb->options,
        verb->common & AT_COMMON_TARGET ? target_options : NULL,
        verb->common & AT_COMMON_FORMAT ? format_options : NULL,
        help_options,
    };
    for (size_t list = 0; list < sizeof lists / sizeof lists[0]; ++list) {
        for (const at_option *option = lists[list]; option != NULL && option->name != NULL; ++option) {
            if (index-- == 0) {
                return option;
            }
        }
    }
    return NULL;
}

int at_verb_option_index(const at_verb *verb, const char *name, size_t length)
{
    const at_option *option;
    for (int i = 0; (option = at_verb_option(verb, i)) != NULL; ++i) {
        if (strlen(option->name) == length && memcmp(option->name, name, length) == 0) {
            return i;
        }
    }
    return -1;
}

/* ---- Reading options ------------------------------------------------------------------------------------------------
 */

const char *at_cli_text(const at_cli *cli, const char *name)
{
    int index = at_verb_option_index(cli->verb, name, strlen(name));
    assert(index >= 0);
    return cli->value[index];
}

bool at_cli_given(const at_cli *cli, const char *name)
{
    return at_cli_text(cli, name) != NULL;
}

attune_status at_cli_integer(const at_cli *cli, const char *name, int64_t low, int64_t high, int64_t fallback,
                             int64_t *value)
{
    const char *text = at_cli_text(cli, name);
    if (text == NULL) {
        *value = fallback;
        return ATTUNE_OK;
    }
    return at_parse_int64(name, text, low, high, value);
}

attune_status at_cli_number(const at_cli *cli, const char *name, double low, double high, double fallback,
                            double *value)
{
    const char *text = at_cli_text(cli, name);
    if (text == NULL) {
        *value = fallback;
        return ATTUNE_OK;
    }
    double number;
    AT_FORWARD(at_parse_double(name, text, &number));
    AT_FAIL_IF(number < low || number > high, ATTUNE_INVALID_ARGUMENT, "%s is %s, allowed are %g ... %g", name, text,
               low, high);
    *value = number;
    return ATTUNE_OK;
}

at_format at_cli_format(const at_cli *cli)
{
    const char *text = at_cli_text(cli, "--format");
    at_format format = AT_FORMAT_TEXT;
    if (text != NULL) {
        (void)at_format_parse(text, &format); /* checked against the option's values when it was read */
    }
    return format;
}
