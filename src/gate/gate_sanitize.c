/* --sanitize: what compute-sanitizer sees of a candidate. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"
#include "gate/gate_parts.h"
#include "judge/sanitizer.h"

enum { WORDS = 12 };

/* `attune check` of the candidate, on a problem that a sanitizer gets through. */
typedef struct command {
    char program[PATH_MAX]; /* below a sanitizer /proc/self/exe would be the sanitizer */
    char problem[ATTUNE_PROBLEM_TEXT_MAX];
    char seed[24];
    const char *word[WORDS];
} command;

static attune_status make_command(const at_gate *gate, const at_gate_entry *entry, command *made)
{
    const at_test_problem small = {at_sanitizer_problem(&entry->test->problem), entry->test->length_seed};
    const char *target = gate->options->target;
    size_t count = 0;
    ssize_t length = readlink("/proc/self/exe", made->program, sizeof made->program - 1);
    AT_FAIL_IF(length <= 0, ATTUNE_IO_ERROR, "where this program is cannot be read from /proc");
    made->program[length] = '\0';
    AT_FORWARD(at_test_problem_print(&small, made->problem, sizeof made->problem));
    (void)snprintf(made->seed, sizeof made->seed, "%" PRIu64, gate->options->seed);
    const char *const words[] = {made->program, "check",    "--cases",  "3",
                                 "--seed",      made->seed, "--kernel", entry->candidate->text};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; ++i) {
        made->word[count++] = words[i];
    }
    if (target != NULL) {
        made->word[count++] = "--target";
        made->word[count++] = target;
    }
    made->word[count] = made->problem;
    return ATTUNE_OK;
}

/* What a tool reports without an excuse is the candidate's fault. */
static attune_status look(const at_gate *gate, const char *sanitizer, at_sanitizer_tool tool, const command *made)
{
    at_sanitizer_finding found;
    const char *name = at_sanitizer_name(tool);
    const char *excuse = at_sanitizer_excuse(tool);
    if (at_sanitizer_run(sanitizer, tool, made->word, &found) != ATTUNE_OK) {
        at_gate_note(gate, "%s: not checked: %s", name, attune_last_detail());
        return ATTUNE_OK;
    }
    at_gate_note(gate, "%s, %s: %d reports%s%s%s%s", name, made->problem, found.reports,
                 found.reports > 0 ? ", the first: " : "", found.reports > 0 ? found.first : "",
                 found.reports > 0 && excuse != NULL ? "; decides nothing: " : "",
                 found.reports > 0 && excuse != NULL ? excuse : "");
    AT_FAIL_IF(found.reports > 0 && excuse == NULL, ATTUNE_WRONG_RESULT, "%s of %s: %d reports, the first: %s", name,
               made->problem, found.reports, found.first);
    return ATTUNE_OK;
}

attune_status at_gate_sanitize(const at_gate *gate, const at_gate_entry *entry)
{
    char *sanitizer;
    if (gate->target.kind != ATTUNE_TARGET_CUDA || at_sanitizer_find(&sanitizer) != ATTUNE_OK) {
        at_gate_note(gate, "sanitizer: not checked: %s",
                     gate->target.kind != ATTUNE_TARGET_CUDA ? "it looks at CUDA devices only" : attune_last_detail());
        return ATTUNE_OK;
    }
    command *made = calloc(1, sizeof *made);
    attune_status status =
        made == NULL ? at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a command") : make_command(gate, entry, made);
    for (int tool = 0; tool < AT_SANITIZER_TOOLS && status == ATTUNE_OK && !at_gate_stopped(gate); ++tool) {
        status = look(gate, sanitizer, (at_sanitizer_tool)tool, made);
    }
    free(made);
    free(sanitizer);
    return status;
}
