/* --counters: one call of a candidate in a worker that runs below ncu. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/scratch.h"
#include "base/status.h"
#include "gate/gate_parts.h"
#include "judge/counters.h"
#include "library/placement.h"

/* A profiler repeats each launch, a few counters at a time. */
enum { PATIENCE_S = 120, LEAVE_S = 60, WORDS_MAX = 32, LOG_MAX = 16 << 20 };

/* ---- The worker below ncu ---------------------------------------------------------------------------------------- */

typedef struct profiled {
    const char *word[WORDS_MAX]; /* of the command */
    char program[PATH_MAX];      /* of the worker: below ncu, /proc/self/exe would be ncu */
    at_device *device;
    attune_plan *plan;
    at_inputs inputs;
    at_placement place;
} profiled;

static attune_status make_command(const at_gate *gate, const char *ncu, const char *metrics, const char *log,
                                  profiled *on)
{
    const char *const *worker = gate->options->worker;
    const char *const ours[] = {ncu,         "--clock-control", "none",       "--csv",     "--page",
                                "raw",       "--print-units",   "base",       "--section", "WarpStateStats",
                                "--metrics", metrics,           "--log-file", log};
    size_t count = sizeof ours / sizeof ours[0];
    memcpy(on->word, ours, sizeof ours);
    ssize_t length = readlink(worker[0], on->program, sizeof on->program - 1);
    on->program[length > 0 ? length : 0] = '\0';
    on->word[count++] = length > 0 ? on->program : worker[0];
    for (int i = 1; worker[i] != NULL; ++i) {
        AT_FAIL_IF(count + 1 == WORDS_MAX, ATTUNE_INVALID_ARGUMENT, "the worker's command has too many words for ncu");
        on->word[count++] = worker[i];
    }
    return ATTUNE_OK;
}

static attune_status prepare(const at_gate *gate, const at_gate_entry *entry, profiled *on)
{
    const at_draw draw = {
        .seed = gate->options->seed, .length_seed = entry->test->length_seed, .family = AT_FAMILY_NORMAL};
    at_remote_options options;
    at_gate_remote_options(gate, AT_WORKER_CANDIDATES, &options);
    options.command = on->word;
    options.patience_s = options.load_s = PATIENCE_S;
    AT_FORWARD(at_remote_open(&options, &on->device));
    AT_FORWARD(at_gate_plan(entry->candidate, on->device, &entry->test->problem, &on->plan));
    AT_FORWARD(at_inputs_draw(&entry->test->problem, &draw, &on->inputs));
    AT_FORWARD(at_placement_create(on->device, &on->inputs, &on->place));
    return at_placement_fit(&on->place, on->plan, &on->place.call);
}

/* ncu writes its table when the worker has ended, and keeps the line open until it has. */
static attune_status run_and_leave(profiled *on)
{
    at_channel *channel = at_remote_channel(on->device);
    AT_FORWARD(attune_plan_execute(on->plan, &on->place.call));
    AT_FORWARD(on->device->ops->synchronise(on->device, NULL));
    AT_FORWARD(at_channel_ask(channel, "quit", NULL, PATIENCE_S, NULL));
    (void)at_channel_ask(channel, "hello", NULL, LEAVE_S, NULL); /* the end of the line is the answer */
    return ATTUNE_OK;
}

static void clean_up(profiled *on)
{
    if (on->place.device != NULL) {
        at_placement_free(&on->place);
    }
    at_inputs_free(&on->inputs);
    attune_plan_destroy(on->plan);
    if (on->device != NULL) {
        on->device->ops->close(on->device);
    }
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

static attune_status read_log(const char *log, at_counters *counters)
{
    void *text;
    size_t bytes;
    AT_FORWARD(at_file_read(log, LOG_MAX, &text, &bytes));
    attune_status status = at_counters_parse("ncu", text, bytes, counters);
    free(text);
    if (status == ATTUNE_OK) {
        at_counters_diagnose(counters);
    }
    return status;
}

/* What ncu says in its log is nearer to the reason than what its end looks like from here. */
static attune_status count_into(const at_gate *gate, const at_gate_entry *entry, const char *ncu, const char *metrics,
                                const char *log)
{
    profiled *on = calloc(1, sizeof *on);
    AT_FAIL_IF(on == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to ask for counters");
    attune_status status = make_command(gate, ncu, metrics, log, on);
    if (status == ATTUNE_OK) {
        status = prepare(gate, entry, on);
    }
    if (status == ATTUNE_OK) {
        status = run_and_leave(on);
    }
    char detail[AT_SENTENCE_MAX];
    (void)snprintf(detail, sizeof detail, "%s", attune_last_detail());
    clean_up(on);
    free(on);
    attune_status read = status == ATTUNE_OUT_OF_MEMORY ? status : read_log(log, &entry->verdict->counters);
    return read == ATTUNE_CORRUPT || status == ATTUNE_OK ? read : at_fail(status, "%s", detail);
}

static attune_status count_with(const at_gate *gate, const at_gate_entry *entry, const char *ncu)
{
    char log[PATH_MAX];
    char *metrics;
    at_scratch folder;
    AT_FORWARD(at_counters_metrics(ncu, &metrics));
    attune_status status = at_scratch_make(&folder);
    if (status == ATTUNE_OK) {
        (void)snprintf(log, sizeof log, "%s/log", folder.path);
        status = count_into(gate, entry, ncu, metrics, log);
    }
    at_scratch_remove(&folder);
    free(metrics);
    return status;
}

attune_status at_gate_counters(const at_gate *gate, const at_gate_entry *entry)
{
    at_counters *counters = &entry->verdict->counters;
    char *ncu = NULL;
    *counters = (at_counters){.asked = true};
    attune_status status = gate->target.kind == ATTUNE_TARGET_CUDA
                               ? at_counters_find(&ncu)
                               : at_fail(ATTUNE_UNSUPPORTED, "counters are read on CUDA devices only");
    if (status == ATTUNE_OK) {
        status = count_with(gate, entry, ncu);
    }
    free(ncu);
    if (status != ATTUNE_OK) {
        (void)snprintf(counters->why_not, sizeof counters->why_not, "%s", attune_last_detail());
    }
    at_gate_note(gate, "counters: %s", status == ATTUNE_OK ? counters->diagnosis : counters->why_not);
    return status == ATTUNE_INTERRUPTED || status == ATTUNE_OUT_OF_MEMORY ? status : ATTUNE_OK;
}

attune_status at_gate_count(const at_gate_options *options, const attune_target *target, at_counters *counters)
{
    at_gate gate = {.options = options, .target = *target};
    at_verdict *verdict;
    *counters = (at_counters){.asked = true};
    AT_FORWARD(at_verdict_create(&verdict));
    attune_status status = at_gate_candidates_open(&gate);
    if (status == ATTUNE_OK) {
        const at_gate_entry entry = {.candidate = &gate.candidate[0], .test = &options->problem[0], .verdict = verdict};
        status = at_gate_counters(&gate, &entry);
        *counters = verdict->counters;
    }
    at_gate_candidates_close(&gate);
    at_verdict_destroy(verdict);
    return status;
}
