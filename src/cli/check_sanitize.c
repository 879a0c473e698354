#include "cli/check_sanitize.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "judge/sanitizer.h"

enum { WORDS = 20 };

/* `attune check` again, of a problem that a sanitizer gets through. */
typedef struct command {
    char program[PATH_MAX]; /* below a sanitizer /proc/self/exe would be the sanitizer */
    char problem[ATTUNE_PROBLEM_TEXT_MAX];
    const char *word[WORDS];
} command;

static attune_status make_command(const at_cli *cli, const at_test_problem *test, command *made)
{
    static const char *const repeated[] = {"--target", "--kernel", "--isa", "--threads", "--wisdom", "--seed"};
    const at_test_problem small = {at_sanitizer_problem(&test->problem), test->length_seed};
    size_t count = 0;
    ssize_t length = readlink("/proc/self/exe", made->program, sizeof made->program - 1);
    AT_FAIL_IF(length <= 0, ATTUNE_IO_ERROR, "where this program is cannot be read from /proc");
    made->program[length] = '\0';
    AT_FORWARD(at_test_problem_print(&small, made->problem, sizeof made->problem));
    made->word[count++] = made->program;
    made->word[count++] = "check";
    for (size_t i = 0; i < sizeof repeated / sizeof repeated[0]; ++i) {
        if (at_cli_text(cli, repeated[i]) != NULL) {
            made->word[count++] = repeated[i];
            made->word[count++] = at_cli_text(cli, repeated[i]);
        }
    }
    made->word[count++] = "--cases";
    made->word[count++] = "3";
    made->word[count++] = made->problem;
    made->word[count] = NULL;
    return ATTUNE_OK;
}

/* One tool over one problem; a tool that cannot be run is named, and no fault. */
static void look(const at_cli *cli, const char *sanitizer, at_sanitizer_tool tool, const command *made, bool *wrong)
{
    at_sanitizer_finding found;
    char said[AT_SANITIZER_SENTENCE];
    at_sanitizer_run(sanitizer, tool, at_cli_text(cli, "--kernel"), made->word, AT_SANITIZER_PATIENCE_S, &found);
    at_cli_say(cli, "%s, %s", made->problem, at_sanitizer_print(&found, said));
    *wrong |= at_sanitizer_refutes(&found);
}

attune_status at_check_sanitize(const at_cli *cli, const at_check_list *list, bool *wrong)
{
    char *sanitizer;
    AT_FORWARD(at_sanitizer_find(&sanitizer));
    attune_status status = ATTUNE_OK;
    for (int i = 0; i < list->count && status == ATTUNE_OK && !at_cli_interrupted(); ++i) {
        command *made = calloc(1, sizeof *made);
        status = made == NULL ? at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a command")
                              : make_command(cli, &list->entry[i].test, made);
        for (int tool = 0; tool < AT_SANITIZER_TOOLS && status == ATTUNE_OK && !at_cli_interrupted(); ++tool) {
            look(cli, sanitizer, (at_sanitizer_tool)tool, made, wrong);
        }
        free(made);
    }
    free(sanitizer);
    return status;
}
