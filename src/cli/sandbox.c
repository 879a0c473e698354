/* attune sandbox: what the gate starts to do one thing with a stranger's files. Not for people. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "cli/cli.h"
#include "gate/question.h"
#include "gate/sandbox.h"

/* Becomes the compiler, without what no compiler needs. */
static attune_status compile(const at_cli *cli)
{
    enum { WORDS_MAX = 64 };
    const at_sandbox_limits limits = {.seconds = 120, .memory = (size_t)4 << 30};
    const char *word[WORDS_MAX] = {NULL};
    AT_FAIL_IF(cli->operand_count < 2 || cli->operand_count > WORDS_MAX, ATTUNE_INVALID_ARGUMENT,
               "compile takes a compiler and its arguments, at most %d in all", WORDS_MAX - 1);
    for (int i = 1; i < cli->operand_count; ++i) {
        word[i - 1] = cli->operand[i];
    }
    AT_FORWARD(at_sandbox_begin(&limits));
    AT_FORWARD(at_sandbox_lock(AT_LOCK_COMPILER));
    (void)execvp(word[0], (char *const *)(uintptr_t)word);
    return at_fail(ATTUNE_NOT_FOUND, "the compiler %s does not start: %s", word[0], strerror(errno));
}

static int run(const at_cli *cli)
{
    const char *what = cli->operand_count > 0 ? cli->operand[0] : "";
    if (strcmp(what, "compile") == 0) {
        return at_cli_fail(cli, compile(cli));
    }
    if (strcmp(what, "question") != 0 || cli->operand_count != 2) {
        return at_cli_usage(cli, "`compile -- COMMAND...` or `question OBJECT` is needed");
    }
    attune_status status = at_question_serve(cli->operand[1]);
    return status == ATTUNE_OK ? AT_EXIT_OK : at_cli_fail(cli, status);
}

const at_verb at_verb_sandbox = {
    .name = "sandbox",
    .arguments = "compile -- COMMAND... | question OBJECT",
    .summary = "compile or question what a stranger brought (started by the gate)",
    .help = "Gives up network, files, processes and the clock, as far as the task allows, and then either becomes a\n"
            "compiler, or loads a descriptor and answers questions about it on standard input and output.\n"
            "docs/kernels.md says what strangers may bring.\n",
    .examples = "  attune sandbox compile -- cc --version\n",
    .run = run,
};
