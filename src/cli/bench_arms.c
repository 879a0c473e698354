#include "cli/bench_arms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"

/* ---- Names ----------------------------------------------------------------------------------------------------------
 */

attune_status at_arm_names_read(const char *list, at_arm_names *names)
{
    *names = (at_arm_names){0};
    while (true) {
        size_t length = at_contender_length(list);
        AT_FAIL_IF(length == 0, ATTUNE_INVALID_ARGUMENT, "--arms: a name is missing before \"%s\"", list);
        AT_FAIL_IF(names->count == AT_LIST_ARMS_MAX, ATTUNE_INVALID_ARGUMENT,
                   "--arms: at most %d can be timed together", AT_LIST_ARMS_MAX);
        char *name = strndup(list, length);
        AT_FAIL_IF(name == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for the names of the arms");
        names->name[names->count++] = name;
        attune_status status = at_contenders_check(name);
        if (status != ATTUNE_OK) {
            return at_fail_in(status, "--arms");
        }
        if (list[length] == '\0') {
            return ATTUNE_OK;
        }
        list += length + 1;
    }
}

void at_arm_names_free(at_arm_names *names)
{
    for (int i = 0; i < names->count; ++i) {
        free(names->name[i]);
    }
    *names = (at_arm_names){0};
}

/* ---- Getting ready --------------------------------------------------------------------------------------------------
 */

static attune_status run_entry(void *self)
{
    const at_entry *entry = self;
    return entry->graph != NULL ? at_cuda_graph_launch(entry->graph, entry->work->place.call.stream)
                                : entry->contender.run(entry->contender.self, &entry->work->place.call);
}

static attune_status wait_for_device(void *self)
{
    const at_entry *entry = self;
    return entry->work->place.device->ops->synchronise(entry->work->place.device, entry->work->place.call.stream);
}

/* A graph of as many calls as fit into two milliseconds, by what the first took, and no more than 20. */
static attune_status capture(at_entry *entry, int64_t call_ns)
{
    enum { CALLS_MAX = 20, GRAPH_NS = 2000000 };
    const at_workload *work = entry->work;
    int64_t fits = GRAPH_NS / (call_ns > 0 ? call_ns : 1);
    int calls = fits < 1 ? 1 : fits > CALLS_MAX ? CALLS_MAX : (int)fits;
    at_cuda_graph *graph = NULL;
    char why[sizeof entry->reason];
    AT_FORWARD(at_cuda_capture_begin(work->place.device, work->place.call.stream));
    attune_status status = ATTUNE_OK;
    for (int i = 0; i < calls && status == ATTUNE_OK; ++i) {
        status = run_entry(entry);
    }
    (void)snprintf(why, sizeof why, "%s", attune_last_detail());
    attune_status ended = at_cuda_capture_end(work->place.device, work->place.call.stream, &graph);
    entry->graph = graph;
    entry->calls = calls;
    return status == ATTUNE_OK ? ended : at_fail(status, "%s", why);
}

static attune_status open_arm(attune_context *context, at_bench_setup *setup, const char *name, at_entry *entry)
{
    size_t workspace = 0;
    entry->work = &setup->work;
    entry->calls = 1;
    AT_FORWARD(at_contenders_open(context, name, &setup->work.inputs.problem, NULL, &entry->contender));
    entry->arm = (at_arm){.name = name, .self = entry, .run = run_entry};
    if (entry->contender.workspace != NULL) {
        AT_FORWARD(entry->contender.workspace(entry->contender.self, &setup->work.place.call, &workspace));
    }
    return at_workload_reserve(&setup->work, workspace);
}

/* NOTE: graphs keep the workspace's address, so every arm has reserved its own before the first is captured. */
static attune_status judge_arm(at_bench_setup *setup, at_entry *entry)
{
    int64_t call_ns;
    bool enqueues = setup->work.place.device->target.kind == ATTUNE_TARGET_CUDA;
    entry->arm.finish = enqueues ? wait_for_device : NULL;
    AT_FORWARD(at_workload_judge_arm(&setup->work, &entry->arm, entry->contender.traits, &call_ns));
    return enqueues ? capture(entry, call_ns) : ATTUNE_OK;
}

/* Turns what an arm alone is to blame for into its state; the rest ends the setup. */
static attune_status blame(at_entry *entry, attune_status status)
{
    switch (status) {
    case ATTUNE_OK:
        return ATTUNE_OK;
    case ATTUNE_OUT_OF_MEMORY:
    case ATTUNE_INTERRUPTED:
    case ATTUNE_DEVICE_ERROR:
    case ATTUNE_INTERNAL:
        return status;
    default:
        entry->state = status == ATTUNE_WRONG_RESULT ? AT_ENTRY_WRONG : AT_ENTRY_REFUSED;
        (void)snprintf(entry->reason, sizeof entry->reason, "%s: %s",
                       status == ATTUNE_WRONG_RESULT ? "wrong, and therefore not timed" : "cannot run",
                       attune_last_detail());
        return ATTUNE_OK;
    }
}

attune_status at_bench_setup_open(attune_context *context, const attune_problem *problem, const at_arm_names *names,
                                  at_bench_setup *setup)
{
    memset(setup, 0, sizeof *setup);
    AT_FORWARD(attune_problem_print(problem, setup->problem_text, sizeof setup->problem_text));
    AT_FORWARD(at_workload_open(context, problem, &setup->work));
    attune_status status = setup->work.place.device->target.kind != ATTUNE_TARGET_CUDA
                               ? ATTUNE_OK
                               : at_cuda_stream_create(setup->work.place.device, &setup->work.place.call.stream);
    for (int i = 0; status == ATTUNE_OK && i < names->count; ++i) {
        at_entry *entry = &setup->entry[setup->count++];
        status = blame(entry, open_arm(context, setup, names->name[i], entry));
    }
    for (int i = 0; status == ATTUNE_OK && i < setup->count; ++i) {
        at_entry *entry = &setup->entry[i];
        status = entry->state == AT_ENTRY_READY ? blame(entry, judge_arm(setup, entry)) : ATTUNE_OK;
        if (status == ATTUNE_OK && at_file_interrupted()) {
            status = at_fail(ATTUNE_INTERRUPTED, "interrupted");
        }
    }
    if (status != ATTUNE_OK) {
        at_bench_setup_close(setup);
    }
    return status;
}

void at_bench_setup_close(at_bench_setup *setup)
{
    for (int i = 0; i < setup->count; ++i) {
        at_cuda_graph_destroy(setup->entry[i].graph);
        at_contender_close(&setup->entry[i].contender);
    }
    if (setup->work.place.call.stream != NULL) {
        at_cuda_stream_destroy(setup->work.place.device, setup->work.place.call.stream);
    }
    at_workload_close(&setup->work);
}

int at_bench_setup_ready(const at_bench_setup *setup, at_arm arms[AT_ARMS_MAX], int calls[AT_ARMS_MAX])
{
    int count = 0;
    for (int i = 0; i < setup->count; ++i) {
        if (setup->entry[i].state == AT_ENTRY_READY) {
            calls[count] = setup->entry[i].calls;
            arms[count++] = setup->entry[i].arm;
        }
    }
    return count;
}

size_t at_bench_setup_bytes(const at_bench_setup *setup)
{
    size_t bytes = 0;
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        bytes += setup->work.inputs.buffer[role].bytes;
    }
    return bytes;
}
