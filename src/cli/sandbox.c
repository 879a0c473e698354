/* attune sandbox: what the gate starts to do one thing with a stranger's files. Not for people. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "cli/cli.h"
#include "stranger/jail.h"
#include "stranger/question.h"
#include "stranger/sandbox.h"

/* Becomes the compiler, without what no compiler needs. What it leaves when it is ended goes with the folder. */
static attune_status compile(const at_cli *cli)
{
    enum { FIRST = 2, WORDS_MAX = 64 };
    const at_sandbox_limits limits = {.seconds = 120, .memory = (size_t)4 << 30};
    const char *word[WORDS_MAX] = {NULL};
    AT_FAIL_IF(cli->operand_count <= FIRST || cli->operand_count >= FIRST + WORDS_MAX, ATTUNE_INVALID_ARGUMENT,
               "compile takes a folder for temporary files, a compiler and its arguments, at most %d of these",
               WORDS_MAX - 1);
    for (int i = FIRST; i < cli->operand_count; ++i) {
        word[i - FIRST] = cli->operand[i];
    }
    AT_FAIL_IF(setenv("TMPDIR", cli->operand[1], 1) != 0, ATTUNE_OUT_OF_MEMORY, "no memory for a compiler's folder");
    AT_FORWARD(at_sandbox_begin(&limits));
    AT_FORWARD(at_sandbox_lock(AT_LOCK_COMPILER));
    (void)execvp(word[0], (char *const *)(uintptr_t)word);
    return at_fail(ATTUNE_NOT_FOUND, "the compiler %s does not start: %s", word[0], strerror(errno));
}

/* Runs a proposer; its exit code is this process's. */
static int propose(const at_cli *cli)
{
    enum { NOT_RUN = 125 }; /* 3 would say that it has nothing to propose */
    int jail = 0, code = NOT_RUN;
    if (cli->operand_count != 4) {
        return at_cli_usage(cli, "`propose FOLDER none|network|closed COMMAND` is needed");
    }
    while (at_names_of_jails[jail] != NULL && strcmp(at_names_of_jails[jail], cli->operand[2]) != 0) {
        ++jail;
    }
    if (at_names_of_jails[jail] == NULL) {
        return at_cli_usage(cli, "%s is no jail: none, network or closed", cli->operand[2]);
    }
    attune_status status = at_jail_run(cli->operand[1], (at_jail)jail, cli->operand[3], &code);
    if (status != ATTUNE_OK) {
        (void)at_cli_fail(cli, status);
    }
    return status == ATTUNE_OK ? code : NOT_RUN;
}

static int run(const at_cli *cli)
{
    const char *what = cli->operand_count > 0 ? cli->operand[0] : "";
    if (strcmp(what, "compile") == 0) {
        return at_cli_fail(cli, compile(cli));
    }
    if (strcmp(what, "propose") == 0) {
        return propose(cli);
    }
    if (strcmp(what, "question") != 0 || cli->operand_count != 2) {
        return at_cli_usage(
            cli, "`compile FOLDER -- COMMAND...`, `question OBJECT` or `propose FOLDER JAIL COMMAND` is needed");
    }
    attune_status status = at_question_serve(cli->operand[1]);
    return status == ATTUNE_OK ? AT_EXIT_OK : at_cli_fail(cli, status);
}

const at_verb at_verb_sandbox = {
    .name = "sandbox",
    .arguments = "compile FOLDER -- COMMAND... | question OBJECT | propose FOLDER JAIL COMMAND",
    .summary = "compile or question what a stranger brought (started by the gate)",
    .help = "Gives up network, files, processes and the clock, as far as the task allows, and then either becomes a\n"
            "compiler, or loads a descriptor and answers questions about it on standard input and output;\n"
            "or runs a proposer's command to its end, with all that it started.\n"
            "docs/kernels.md says what strangers may bring.\n",
    .examples = "  attune sandbox compile /tmp -- cc --version\n",
    .run = run,
};
