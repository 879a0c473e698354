/* What compute-sanitizer sees of a candidate: where it is asked for, and always where evidence of a CUDA kernel of the
 * library's is written. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "core/config.h"
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

/* The kernel as it is judged, with clusters and all, where that fits the small problem; else as that one has it. */
static const char *kernel_of(const at_gate *gate, const at_gate_entry *entry, const attune_problem *small)
{
    const at_gate_candidate *candidate = entry->candidate;
    const char *params = strchr(entry->verdict->kernel, ':');
    attune_config config = {.value = {0}};
    const bool fits = candidate->stranger == NULL && candidate->kernel != NULL && params != NULL &&
                      at_config_parse(candidate->kernel, params + 1, &config) == ATTUNE_OK &&
                      at_kernel_fits(candidate->kernel, small, &gate->target, &config, NULL);
    return fits ? entry->verdict->kernel : candidate->text;
}

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
                                 "--seed",      made->seed, "--kernel", kernel_of(gate, entry, &small.problem)};
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

bool at_gate_wants_sanitizer(const at_gate *gate, const at_gate_entry *entry)
{
    const at_gate_options *options = gate->options;
    return options->sanitize ||
           (options->evidence != NULL && gate->target.kind == ATTUNE_TARGET_CUDA && !entry->verdict->stranger);
}

/* What a tool reports without an excuse is the candidate's fault. */
static attune_status weigh(const at_gate *gate, const command *made, const at_sanitizer_finding *finding)
{
    char said[AT_SANITIZER_SENTENCE];
    at_gate_note(gate, "%s: %s", made->problem, at_sanitizer_print(finding, said));
    AT_FAIL_IF(at_sanitizer_refutes(finding), ATTUNE_WRONG_RESULT, "%s: %s", made->problem, said);
    return ATTUNE_OK;
}

static attune_status run_tools(const at_gate *gate, const at_gate_entry *entry, const char *sanitizer,
                               const command *made)
{
    const at_gate_options *options = gate->options;
    const double patience_s = options->patience_s > 0 ? options->patience_s : AT_SANITIZER_PATIENCE_S;
    at_verdict *verdict = entry->verdict;
    for (int tool = 0; tool < AT_SANITIZER_TOOLS && !at_gate_stopped(gate); ++tool) {
        at_sanitizer_finding *finding = &verdict->sanitizer[verdict->sanitizer_count++];
        at_sanitizer_run(sanitizer, (at_sanitizer_tool)tool, verdict->kernel, made->word, patience_s, finding);
        AT_FORWARD(weigh(gate, made, finding));
    }
    return ATTUNE_OK;
}

static void miss_all(const at_gate *gate, at_verdict *verdict)
{
    at_gate_note(gate, "sanitizer: not checked: %s", attune_last_detail());
    for (int tool = 0; tool < AT_SANITIZER_TOOLS; ++tool) {
        at_sanitizer_miss((at_sanitizer_tool)tool, &verdict->sanitizer[verdict->sanitizer_count++]);
    }
}

attune_status at_gate_sanitize(const at_gate *gate, const at_gate_entry *entry)
{
    char *sanitizer;
    if ((gate->target.kind != ATTUNE_TARGET_CUDA
             ? at_fail(ATTUNE_UNSUPPORTED, "compute-sanitizer looks at CUDA devices only")
             : at_sanitizer_find(&sanitizer)) != ATTUNE_OK) {
        miss_all(gate, entry->verdict);
        return ATTUNE_OK;
    }
    command *made = calloc(1, sizeof *made);
    attune_status status =
        made == NULL ? at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a command") : make_command(gate, entry, made);
    status = status != ATTUNE_OK ? status : run_tools(gate, entry, sanitizer, made);
    free(made);
    free(sanitizer);
    return status;
}
