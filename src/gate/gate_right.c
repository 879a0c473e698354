/* Is it right? Build, launch, sanity, correctness: everything before the clock. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "core/plan.h"
#include "core/problem.h"
#include "gate/gate_parts.h"
#include "judge/built.h"
#include "judge/cases.h"
#include "judge/sanity.h"
#include "judge/verdict_parts.h"
#include "library/catalogue.h"

/* Runs that must give the same bits; fewer of problems whose many blocks are as good as many runs. */
enum { REPEATS = 20, REPEATS_FEW = 3 };
enum { COMMAND_MAX = 1024 };

/* ---- Plans ------------------------------------------------------------------------------------------------------ */

/* What the suite's plans are made of. */
typedef struct planner {
    at_device *device;
    const at_gate_candidate *candidate;
} planner;

static attune_status plan_arm(void *self, const attune_problem *problem, attune_plan **plan)
{
    const planner *by = self;
    return at_gate_plan(by->candidate, by->device, problem, plan);
}

static attune_status plan_general(void *self, const attune_problem *problem, attune_plan **plan)
{
    const planner *by = self;
    return at_remote_plan(by->device, problem, at_catalogue_general(by->device->target.kind)->name, plan);
}

/* ---- Stages ----------------------------------------------------------------------------------------------------- */

/* What ends a gate rather than a candidate. */
static bool ends_gate(attune_status status)
{
    return status == ATTUNE_INTERRUPTED || status == ATTUNE_NO_DEVICE || status == ATTUNE_IO_ERROR;
}

attune_status at_gate_end_stage(at_gate *gate, const at_gate_entry *entry, at_stage stage, attune_status status,
                                const char *detail, double seconds)
{
    at_stage_run *run = &entry->verdict->stage[stage];
    run->ran = true;
    run->status = status;
    run->seconds = seconds;
    if (status != ATTUNE_OK) {
        at_sentence_print(run->detail, "%s", detail);
    }
    AT_FORWARD(at_verdict_judge(entry->verdict));
    if (gate->options->watch.stage != NULL) {
        gate->options->watch.stage(gate->options->watch.self, entry->verdict, stage);
    }
    return ends_gate(status) ? at_fail(status, "%s", run->detail) : ATTUNE_OK;
}

attune_status at_gate_stage(at_gate *gate, const at_gate_entry *entry, at_stage stage, at_gate_work work)
{
    char detail[AT_SENTENCE_MAX];
    double began = at_gate_seconds(gate);
    attune_status status = work(gate, entry);
    at_sentence_print(detail, "%s", attune_last_detail());
    at_gate_close_broken(gate);
    return at_gate_end_stage(gate, entry, stage, status, detail, at_gate_seconds(gate) - began);
}

/* A command that a reader can paste: `tool` over the candidate, and the problem where that is wanted. */
static void write_command(const at_gate_entry *entry, const char *tool, const char *problem, char *command,
                          size_t bytes)
{
    at_text text;
    at_text_init_fixed(&text, command, bytes);
    at_text_add(&text, "%s ", tool);
    at_text_add_word(&text, entry->candidate->text);
    if (problem != NULL) {
        at_text_add(&text, " ");
        at_text_add_word(&text, problem);
    }
    if (at_text_status(&text, tool) != ATTUNE_OK) { /* half a command might do anything */
        (void)snprintf(command, bytes, "%s (its name is too long)", tool);
    }
}

/* NOTE: a GPU's tools see nothing of a CPU. */
static void look(const at_gate_entry *entry, at_stage stage, const char *tool)
{
    const char *own = strstr(tool, "attune ");
    tool = own != NULL && entry->verdict->target.kind == ATTUNE_TARGET_CPU ? own : tool;
    write_command(entry, tool, entry->verdict->problem, entry->verdict->stage[stage].look, AT_SENTENCE_MAX);
}

/* ---- Build ------------------------------------------------------------------------------------------------------ */

static attune_status build(at_gate *gate, const at_gate_entry *entry)
{
    at_device *device;
    attune_plan *plan;
    at_verdict *verdict = entry->verdict;
    look(entry, AT_STAGE_BUILD, verdict->stranger ? "attune check --kernel" : "attune info --kernel");
    AT_FORWARD(at_gate_candidate_worker(gate, entry->candidate, &device));
    AT_FORWARD(at_gate_plan(entry->candidate, device, &entry->test->problem, &plan));
    (void)snprintf(verdict->kernel, sizeof verdict->kernel, "%s", plan->kernel_text);
    verdict->traits = plan->loaded->kernel->traits;
    attune_status status = at_built_ask(device, plan, &verdict->build, NULL);
    verdict->build.workspace_bytes = (int64_t)plan->workspace_max;
    attune_plan_destroy(plan);
    return status;
}

/* ---- Launch, sanity, correctness -------------------------------------------------------------------------------- */

static bool is_stopped(void *watcher)
{
    const at_gate *gate = watcher;
    return at_gate_stopped(gate) || gate->candidate_worker == NULL || at_remote_is_broken(gate->candidate_worker);
}

static void show_progress(void *watcher, double done)
{
    at_gate_progress(watcher, "correctness", done);
}

static attune_status make_suite(at_gate *gate, const at_gate_entry *entry, planner *by, char command[COMMAND_MAX],
                                at_suite *suite)
{
    AT_FORWARD(at_gate_candidate_worker(gate, entry->candidate, &by->device));
    by->candidate = entry->candidate;
    write_command(entry, "attune check --kernel", NULL, command, COMMAND_MAX);
    *suite = (at_suite){.device = by->device,
                        .pool = gate->pool,
                        .cache = gate->cache,
                        .plan = plan_arm,
                        .general = at_gate_is_confined(entry->candidate) ? NULL : plan_general,
                        .self = by,
                        .seed = gate->options->seed,
                        .cases = gate->options->cases,
                        .acc16 = (entry->verdict->traits & ATTUNE_TRAIT_ACC16) != 0,
                        .only = -1,
                        .command = command,
                        .progress = show_progress,
                        .stop = is_stopped,
                        .watcher = gate};
    return ATTUNE_OK;
}

static attune_status launch(at_gate *gate, const at_gate_entry *entry)
{
    planner by;
    at_suite suite;
    char command[COMMAND_MAX];
    look(entry, AT_STAGE_LAUNCH, "compute-sanitizer attune check --cases 1 --kernel");
    AT_FORWARD(make_suite(gate, entry, &by, command, &suite));
    AT_FORWARD(at_sanity_launch(&suite, entry->test));
    at_sentence_print(entry->verdict->stage[AT_STAGE_LAUNCH].detail, "one call of the problem ran to its end");
    return ATTUNE_OK;
}

static attune_status sanity(at_gate *gate, const at_gate_entry *entry)
{
    planner by;
    at_suite suite;
    char command[COMMAND_MAX];
    const char *done;
    look(entry, AT_STAGE_SANITY, "compute-sanitizer --tool racecheck attune check --cases 1 --kernel");
    AT_FORWARD(make_suite(gate, entry, &by, command, &suite));
    bool few = gate->options->quick || at_case_big(&entry->test->problem);
    AT_FORWARD(at_sanity_run(&suite, entry->test, few ? REPEATS_FEW : REPEATS, &done));
    at_sentence_print(entry->verdict->stage[AT_STAGE_SANITY].detail, "%s", done);
    return ATTUNE_OK;
}

static attune_status correctness(at_gate *gate, const at_gate_entry *entry)
{
    planner by;
    at_suite suite;
    char command[COMMAND_MAX];
    at_suite_result *result = &entry->verdict->suite;
    look(entry, AT_STAGE_CORRECTNESS, "attune check --kernel");
    AT_FORWARD(make_suite(gate, entry, &by, command, &suite));
    AT_FORWARD(at_suite_run(&suite, entry->test, result));
    AT_FAIL_IF(at_gate_stopped(gate), ATTUNE_INTERRUPTED, "interrupted");
    AT_FAIL_IF(result->failed > 0, ATTUNE_WRONG_RESULT, "%.400s", result->failure[0].what);
    AT_FAIL_IF(result->bias_status != ATTUNE_OK, ATTUNE_WRONG_RESULT, "%s", result->bias_what);
    return at_gate_wants_sanitizer(gate, entry) ? at_gate_sanitize(gate, entry) : ATTUNE_OK;
}

/* ---- The control ------------------------------------------------------------------------------------------------ */

/* The candidate itself, made wrong: its queries are 2 % too large. A suite that lets this pass would let anything pass.
 * NOTE: plan and call are those of the suite, and a kernel of one fixed scale is made wrong as well. */
static attune_status control(at_gate *gate, const at_gate_entry *entry, at_suite_result *result)
{
    enum { CASES = 5 };
    planner by;
    at_suite suite;
    char command[COMMAND_MAX];
    AT_FORWARD(make_suite(gate, entry, &by, command, &suite));
    suite.query_scale = 1.02;
    suite.cases = CASES;
    suite.progress = NULL;
    AT_FORWARD(at_suite_run(&suite, entry->test, result));
    AT_FAIL_IF(result->failed > 0, ATTUNE_WRONG_RESULT, "with queries 2 %% off: %.300s", result->failure[0].what);
    return at_judge_bias(&result->bias);
}

static attune_status run_control(at_gate *gate, const at_gate_entry *entry)
{
    at_suite_result result;
    at_stage_run *run = &entry->verdict->wrong_kernel;
    double began = at_gate_seconds(gate);
    run->status = control(gate, entry, &result);
    run->ran = true;
    run->seconds = at_gate_seconds(gate) - began;
    at_sentence_print(run->detail, "%s", run->status == ATTUNE_OK ? "" : attune_last_detail());
    at_gate_close_broken(gate);
    AT_FORWARD(at_verdict_judge(entry->verdict));
    return ends_gate(run->status) ? run->status : ATTUNE_OK;
}

/* ---- All of it -------------------------------------------------------------------------------------------------- */

attune_status at_gate_right(at_gate *gate, at_gate_entry *entry)
{
    static const at_gate_work works[] = {build, launch, sanity, correctness};
    for (int stage = AT_STAGE_BUILD; stage <= AT_STAGE_CORRECTNESS; ++stage) {
        AT_FORWARD(at_gate_stage(gate, entry, (at_stage)stage, works[stage]));
        if (entry->verdict->finding[stage].outcome != AT_PASS) {
            return ATTUNE_OK;
        }
        if (stage == AT_STAGE_BUILD) {
            AT_FORWARD(at_gate_find_known(gate, entry->verdict, &entry->known));
        }
        if (entry->known != NULL) {
            return ATTUNE_OK;
        }
    }
    return run_control(gate, entry);
}
