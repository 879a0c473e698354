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
        size_t length = at_arm_name_length(list);
        AT_FAIL_IF(length == 0, ATTUNE_INVALID_ARGUMENT, "--arms: a name is missing before \"%s\"", list);
        AT_FAIL_IF(names->count == AT_LIST_ARMS_MAX, ATTUNE_INVALID_ARGUMENT,
                   "--arms: at most %d can be timed together", AT_LIST_ARMS_MAX);
        char *name = strndup(list, length);
        AT_FAIL_IF(name == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for the names of the arms");
        names->name[names->count++] = name;
        attune_status status = at_arms_check_hooked(name, false);
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

static attune_status open_arm(attune_context *context, at_bench_setup *setup, const char *name, at_entry *entry)
{
    AT_FORWARD(at_arms_open(context, name, &setup->work.inputs.problem, NULL, &entry->arm));
    return at_workload_reserve(&setup->work, &entry->arm);
}

/* NOTE: graphs keep the workspace's address, so every arm has reserved its own before the first is captured. */
static attune_status judge_arm(at_bench_setup *setup, at_entry *entry)
{
    const at_placement *place = &setup->work.place;
    int64_t call_ns;
    AT_FORWARD(at_workload_judge(&setup->work, &entry->arm, &call_ns));
    return at_bind(place->device, &entry->arm, &place->call, call_ns, &entry->binding);
}

attune_status at_bench_blame(at_entry *entry, attune_status status)
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

attune_status at_bench_setup_open(attune_context *context, const at_test_problem *test, const at_arm_names *names,
                                  at_bench_setup *setup)
{
    memset(setup, 0, sizeof *setup);
    AT_FORWARD(at_test_problem_print(test, setup->problem_text, sizeof setup->problem_text));
    AT_FORWARD(at_workload_open(context, test, &setup->work));
    attune_status status = ATTUNE_OK;
    for (int i = 0; status == ATTUNE_OK && i < names->count; ++i) {
        at_entry *entry = &setup->entry[setup->count++];
        status = at_bench_blame(entry, open_arm(context, setup, names->name[i], entry));
    }
    for (int i = 0; status == ATTUNE_OK && i < setup->count; ++i) {
        at_entry *entry = &setup->entry[i];
        status = entry->state == AT_ENTRY_READY ? at_bench_blame(entry, judge_arm(setup, entry)) : ATTUNE_OK;
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
        at_unbind(&setup->entry[i].binding);
        at_arm_close(&setup->entry[i].arm);
    }
    at_workload_close(&setup->work);
}

int at_bench_setup_ready(const at_bench_setup *setup, at_bound arms[AT_ARMS_MAX])
{
    int count = 0;
    for (int i = 0; i < setup->count; ++i) {
        if (setup->entry[i].state == AT_ENTRY_READY) {
            arms[count++] = setup->entry[i].binding.bound;
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
