#include "cli/arms.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "core/config.h"
#include "library/catalogue.h"

static const char auto_name[] = "auto";
static const char openblas_name[] = "openblas";

/* ---- Names ----------------------------------------------------------------------------------------------------------
 */

static attune_status unknown_arm(const char *name)
{
    const char *candidates[] = {auto_name, openblas_name, at_catalogue_nearest(name)};
    const char *nearest = at_text_nearest(name, candidates, sizeof candidates / sizeof candidates[0]);
    if (nearest != NULL) {
        return at_fail(ATTUNE_NOT_FOUND, "--arms: there is no kernel %s: did you mean %s?", name, nearest);
    }
    return at_fail(ATTUNE_NOT_FOUND, "--arms: there is no kernel %s: `attune info` lists them", name);
}

static attune_status check_name(const char *text)
{
    char name[AT_KERNEL_TEXT_MAX];
    const char *params;
    attune_config config = {{0}};
    if (strcmp(text, auto_name) == 0 || strcmp(text, openblas_name) == 0) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_kernel_text_split(text, name, sizeof name, &params));
    const attune_kernel *kernel = at_catalogue_find(name);
    if (kernel == NULL) {
        return unknown_arm(name);
    }
    at_config_at(kernel, 0, &config);
    attune_status status = at_config_parse(kernel, params, &config);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "--arms: %s", text);
}

/* Length of the first arm of a list: up to the comma that ends it. */
static size_t first_length(const char *list)
{
    size_t length = strcspn(list, ",");
    bool params = memchr(list, ':', length) != NULL;
    while (params && list[length] == ',') {
        const char *next = list + length + 1;
        size_t more = strcspn(next, ",");
        if (memchr(next, '=', more) == NULL || memchr(next, ':', more) != NULL) {
            break;
        }
        length += more + 1;
    }
    return length;
}

attune_status at_arm_names_read(const char *list, at_arm_names *names)
{
    *names = (at_arm_names){0};
    while (true) {
        size_t length = first_length(list);
        AT_FAIL_IF(length == 0, ATTUNE_INVALID_ARGUMENT, "--arms: a name is missing before \"%s\"", list);
        AT_FAIL_IF(names->count == AT_ARMS_MAX, ATTUNE_INVALID_ARGUMENT, "--arms: at most %d can be timed together",
                   AT_ARMS_MAX);
        char *name = strndup(list, length);
        AT_FAIL_IF(name == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for the names of the arms");
        names->name[names->count++] = name;
        AT_FORWARD(check_name(name));
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

static attune_status run_plan(void *self)
{
    const at_entry *entry = self;
    return attune_plan_execute(entry->plan, &entry->track->call);
}

static attune_status wait_for_plan(void *self)
{
    const at_entry *entry = self;
    return entry->track->device->ops->synchronise(entry->track->device, NULL);
}

static attune_status prepare_plan(attune_context *context, at_stand *stand, const char *name, at_entry *entry)
{
    size_t workspace;
    const attune_problem *problem = &stand->track.inputs.problem;
    if (strcmp(name, auto_name) == 0) {
        AT_FORWARD(attune_plan_create(context, problem, ATTUNE_ESTIMATE, &entry->plan));
    } else {
        AT_FORWARD(at_plan_named(context, problem, name, &entry->plan));
    }
    AT_FORWARD(attune_plan_workspace(entry->plan, NULL, &workspace));
    AT_FORWARD(at_course_reserve(&stand->track, workspace));
    bool enqueues = stand->track.device->target.kind == ATTUNE_TARGET_CUDA;
    entry->arm = (at_arm){.name = name, .self = entry, .run = run_plan, .finish = enqueues ? wait_for_plan : NULL};
    return ATTUNE_OK;
}

static attune_status prepare_peer(attune_context *context, at_stand *stand, at_entry *entry)
{
    const attune_target *target = &stand->track.device->target;
    AT_FAIL_IF(target->kind != ATTUNE_TARGET_CPU, ATTUNE_UNSUPPORTED, "openblas runs on the CPU only (--target cpu)");
    if (stand->blas == NULL) {
        AT_FORWARD(at_openblas_open(&stand->blas));
    }
    AT_FORWARD(at_openblas_bind(stand->blas, at_context_pool(context), target->isa, &stand->track.inputs.problem,
                                &stand->track.call, &entry->peer));
    entry->arm = at_openblas_arm(entry->peer);
    return ATTUNE_OK;
}

static attune_status prepare(attune_context *context, at_stand *stand, const char *name, at_entry *entry)
{
    int64_t unused;
    entry->track = &stand->track;
    if (strcmp(name, openblas_name) == 0) {
        AT_FORWARD(prepare_peer(context, stand, entry));
        return at_course_judge_arm(&stand->track, &entry->arm, &unused);
    }
    AT_FORWARD(prepare_plan(context, stand, name, entry));
    return at_course_judge(&stand->track, entry->plan, &unused);
}

/* Turns what an arm alone is to blame for into its state; the rest ends the stand. */
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

attune_status at_stand_open(attune_context *context, const attune_problem *problem, const at_arm_names *names,
                            at_stand *stand)
{
    memset(stand, 0, sizeof *stand);
    AT_FORWARD(attune_problem_print(problem, stand->problem_text, sizeof stand->problem_text));
    AT_FORWARD(at_course_open(context, problem, &stand->track));
    attune_status status = ATTUNE_OK;
    for (int i = 0; status == ATTUNE_OK && i < names->count; ++i) {
        at_entry *entry = &stand->entry[stand->count++];
        status = blame(entry, prepare(context, stand, names->name[i], entry));
        if (status == ATTUNE_OK && at_file_interrupted()) {
            status = at_fail(ATTUNE_INTERRUPTED, "interrupted");
        }
    }
    if (status != ATTUNE_OK) {
        at_stand_close(stand);
    }
    return status;
}

void at_stand_close(at_stand *stand)
{
    for (int i = 0; i < stand->count; ++i) {
        at_openblas_unbind(stand->entry[i].peer);
        attune_plan_destroy(stand->entry[i].plan);
    }
    at_openblas_close(stand->blas);
    at_course_close(&stand->track);
}

int at_stand_ready(const at_stand *stand, at_arm arms[AT_ARMS_MAX])
{
    int count = 0;
    for (int i = 0; i < stand->count; ++i) {
        if (stand->entry[i].state == AT_ENTRY_READY) {
            arms[count++] = stand->entry[i].arm;
        }
    }
    return count;
}

size_t at_stand_bytes(const at_stand *stand)
{
    size_t bytes = 0;
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        bytes += stand->track.inputs.buffer[role].bytes;
    }
    return bytes;
}
