/* From JSON to a verdict. Nothing in a file is trusted: every number has its range, every list its length. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "evidence/evidence_parts.h"
#include "evidence/evidence_tables.h"

enum { BLOCKS_MAX = 100000, CALLS_MAX = 1 << 20, UNIT_MAX = 1000000 };
static const int64_t SAMPLE_MAX = INT64_C(1) << 40; /* units */

/* The elements of the array `key`, at most `most`. */
static attune_status open_list(const json_t *object, const char *path, const char *key, size_t most, json_t **list)
{
    AT_FORWARD(at_json_field(object, path, key, JSON_ARRAY, list));
    AT_FAIL_IF(json_array_size(*list) > most, ATTUNE_CORRUPT, "%s: \"%s\" has %zu entries, at most %zu are allowed",
               path, key, json_array_size(*list), most);
    return ATTUNE_OK;
}

/* An element of an array that must be an object. */
static attune_status get_object(const json_t *list, size_t index, const char *path, const char *key, json_t **object)
{
    *object = json_array_get(list, index);
    AT_FAIL_IF(!json_is_object(*object), ATTUNE_CORRUPT, "%s: entry %zu of \"%s\" is %s, expected an object", path,
               index, key, at_json_kind(*object));
    return ATTUNE_OK;
}

/* An element of an array that must be a whole number. */
static attune_status get_int(const json_t *list, size_t index, const char *path, int64_t least, int64_t most, int *to)
{
    const json_t *value = json_array_get(list, index);
    AT_FAIL_IF(!json_is_integer(value) || json_integer_value(value) < least || json_integer_value(value) > most,
               ATTUNE_CORRUPT, "%s: entry %zu is no whole number of %lld ... %lld", path, index, (long long)least,
               (long long)most);
    *to = (int)json_integer_value(value);
    return ATTUNE_OK;
}

static attune_status read_list(const at_field *table, const json_t *object, const char *path, const char *key,
                               void *items, size_t bytes, size_t most, int *count)
{
    json_t *list, *item;
    AT_FORWARD(open_list(object, path, key, most, &list));
    for (size_t i = 0; i < json_array_size(list); ++i) {
        AT_FORWARD(get_object(list, i, path, key, &item));
        AT_FORWARD(at_fields_read(table, item, path, (char *)items + i * bytes));
    }
    *count = (int)json_array_size(list);
    return ATTUNE_OK;
}

static attune_status read_named(const at_field *table, const json_t *object, const char *path, const char *key,
                                void *items, size_t bytes, const char *const *names)
{
    json_t *group, *item;
    AT_FORWARD(at_json_field(object, path, key, JSON_OBJECT, &group));
    for (int i = 0; names[i] != NULL; ++i) {
        AT_FORWARD(at_json_field(group, path, names[i], JSON_OBJECT, &item));
        AT_FORWARD(at_fields_read(table, item, path, (char *)items + (size_t)i * bytes));
    }
    return ATTUNE_OK;
}

/* ---- Session ----------------------------------------------------------------------------------------------------- */

static attune_status read_part(const json_t *item, const char *path, at_session_part *arm)
{
    const char *part;
    int value = 0;
    int64_t twin_of = 0;
    AT_FORWARD(at_json_string(item, path, "part", &part));
    AT_FORWARD(at_name_read(part, path, "part", at_names_of_parts, &value));
    arm->part = (at_arm_part)value;
    if (arm->part == AT_PART_TWIN) {
        AT_FORWARD(at_json_int(item, path, "twin_of", 0, AT_SESSION_ARMS_MAX - 1, &twin_of));
    }
    arm->twin_of = (int)twin_of;
    return ATTUNE_OK;
}

static attune_status open_session(const json_t *object, const char *path, at_verdict *verdict)
{
    at_session_policy policy = {0};
    at_session_part arm[AT_SESSION_ARMS_MAX] = {{NULL, AT_PART_CANDIDATE, 0}};
    json_t *part;
    int count = 0;
    AT_FORWARD(at_json_field(object, path, "policy", JSON_OBJECT, &part));
    AT_FORWARD(at_fields_read(at_fields_of_policy, part, path, &policy));
    AT_FORWARD(read_list(at_fields_of_arm, object, path, "arms", verdict->arm, sizeof verdict->arm[0],
                         AT_SESSION_ARMS_MAX, &count));
    for (int i = 0; i < count; ++i) {
        arm[i].name = verdict->arm[i].name;
        AT_FORWARD(read_part(json_array_get(json_object_get(object, "arms"), (size_t)i), path, &arm[i]));
    }
    attune_status status = at_session_open(&policy, arm, count, &verdict->session);
    if (status != ATTUNE_OK) {
        return at_fail_in(ATTUNE_CORRUPT, "%s", path);
    }
    AT_FAIL_IF(arm[0].part != AT_PART_CANDIDATE, ATTUNE_CORRUPT, "%s: the first arm is no candidate", path);
    return ATTUNE_OK;
}

static attune_status read_wrong(const json_t *object, const char *path, at_session *session)
{
    json_t *list;
    AT_FORWARD(open_list(object, path, "wrong", (size_t)session->arm_count, &list));
    for (size_t arm = 0; arm < json_array_size(list); ++arm) {
        AT_FORWARD(get_int(list, arm, path, 0, INT32_MAX, &session->wrong[arm]));
    }
    return ATTUNE_OK;
}

static attune_status read_warmups(const json_t *object, const char *path, at_session *session)
{
    json_t *list;
    AT_FORWARD(open_list(object, path, "warmups", (size_t)session->processes, &list));
    for (size_t i = 0; i < json_array_size(list); ++i) {
        const json_t *row = json_array_get(list, i);
        AT_FORWARD(at_real_read(json_array_get(row, 0), path, "warmups", &session->warmup_s[i]));
        session->settled[i] = json_is_true(json_array_get(row, 1));
    }
    return ATTUNE_OK;
}

static attune_status read_calls(const json_t *object, const char *path, at_session *session)
{
    json_t *pairs, *calls;
    AT_FORWARD(open_list(object, path, "pairs", AT_MODE_COUNT, &pairs));
    AT_FORWARD(at_json_field(object, path, "calls", JSON_OBJECT, &calls));
    for (size_t mode = 0; mode < json_array_size(pairs); ++mode) {
        json_t *row;
        AT_FORWARD(get_int(pairs, mode, path, 0, BLOCKS_MAX, &session->pairs[mode]));
        if (session->pairs[mode] == 0) {
            continue;
        }
        AT_FORWARD(open_list(calls, path, at_names_of_modes[mode], (size_t)session->arm_count, &row));
        for (size_t arm = 0; arm < json_array_size(row); ++arm) {
            AT_FORWARD(get_int(row, arm, path, 0, CALLS_MAX, &session->calls[mode][arm]));
        }
    }
    return ATTUNE_OK;
}

static attune_status read_clocks(const json_t *object, const char *path, at_session *session)
{
    json_t *list;
    AT_FORWARD(open_list(object, path, "clocks", AT_SESSION_PROCESSES_MAX * AT_SESSION_ARMS_MAX, &list));
    for (size_t i = 0; i < json_array_size(list); ++i) {
        const json_t *row = json_array_get(list, i);
        at_two_clocks reading;
        AT_FORWARD(get_int(row, 0, path, 0, AT_SESSION_PROCESSES_MAX - 1, &reading.process));
        AT_FORWARD(get_int(row, 1, path, 0, session->arm_count - 1, &reading.arm));
        AT_FORWARD(at_real_read(json_array_get(row, 2), path, "clocks", &reading.us));
        AT_FORWARD(at_real_read(json_array_get(row, 3), path, "clocks", &reading.slope_us));
        AT_FORWARD(at_session_add_clocks(session, &reading));
    }
    return ATTUNE_OK;
}

/* A column of one whole number a block, zeros where it is not there. */
typedef struct column {
    const json_t *list;
    int64_t least, most;
} column;

static attune_status open_column(const json_t *object, const char *path, const char *key, size_t blocks, int64_t most,
                                 column *found)
{
    *found = (column){json_object_get(object, key), 0, most};
    AT_FAIL_IF(found->list != NULL && json_array_size(found->list) != blocks, ATTUNE_CORRUPT,
               "%s: \"%s\" is no array of %zu numbers, one a block", path, key, blocks);
    return ATTUNE_OK;
}

static attune_status read_entry(const column *from, size_t index, const char *path, int *value)
{
    *value = 0;
    return from->list == NULL ? ATTUNE_OK : get_int(from->list, index, path, from->least, from->most, value);
}

/* The columns of one process in one mode. */
typedef struct stretch {
    int process, mode;
    size_t blocks;
    bool packed; /* "ns": unit in ns, middle in units, differences from it; else "us" */
    const json_t *times[AT_SESSION_ARMS_MAX];
    int64_t unit[AT_SESSION_ARMS_MAX], middle[AT_SESSION_ARMS_MAX];
    column sm_mhz, power_w, throttle;
} stretch;

static attune_status open_packed(const char *path, int arm, stretch *of)
{
    const json_t *unit = json_array_get(of->times[arm], 0), *middle = json_array_get(of->times[arm], 1);
    AT_FAIL_IF(!json_is_integer(unit) || json_integer_value(unit) < 1 || json_integer_value(unit) > UNIT_MAX ||
                   !json_is_integer(middle) || llabs(json_integer_value(middle)) > SAMPLE_MAX,
               ATTUNE_CORRUPT, "%s: arm %d has no unit and middle", path, arm);
    of->unit[arm] = json_integer_value(unit);
    of->middle[arm] = json_integer_value(middle);
    return ATTUNE_OK;
}

static attune_status open_times(const json_t *object, const char *path, int arms, stretch *of)
{
    json_t *list;
    of->packed = json_object_get(object, "ns") != NULL;
    AT_FORWARD(at_json_field(object, path, of->packed ? "ns" : "us", JSON_ARRAY, &list));
    AT_FAIL_IF(json_array_size(list) != (size_t)arms, ATTUNE_CORRUPT, "%s: samples of %zu arms, there are %d", path,
               json_array_size(list), arms);
    for (int arm = 0; arm < arms; ++arm) {
        of->times[arm] = json_array_get(list, (size_t)arm);
        size_t head = of->packed ? 2 : 0;
        size_t samples = json_array_size(of->times[arm]);
        samples -= samples < head ? samples : head;
        of->blocks = arm == 0 ? samples / 2 : of->blocks;
        AT_FAIL_IF(
            samples == 0 || samples != 2 * of->blocks || of->blocks > BLOCKS_MAX, ATTUNE_CORRUPT,
            "%s: arm %d has %zu samples; two a block, as many as the first arm, and at most %d blocks are needed", path,
            arm, samples, BLOCKS_MAX);
        AT_FORWARD(of->packed ? open_packed(path, arm, of) : ATTUNE_OK);
    }
    return ATTUNE_OK;
}

static attune_status open_stretch(const json_t *object, const char *path, const at_session *session, stretch *of)
{
    const char *mode;
    int64_t process = 0;
    AT_FORWARD(at_json_int(object, path, "process", 0, AT_SESSION_PROCESSES_MAX - 1, &process));
    of->process = (int)process;
    AT_FORWARD(at_json_string(object, path, "mode", &mode));
    AT_FORWARD(at_name_read(mode, path, "mode", at_names_of_modes, &of->mode));
    AT_FORWARD(open_times(object, path, session->arm_count, of));
    AT_FORWARD(open_column(object, path, "sm_mhz", of->blocks, INT32_MAX, &of->sm_mhz));
    AT_FORWARD(open_column(object, path, "power_w", of->blocks, INT32_MAX, &of->power_w));
    return open_column(object, path, "throttle", of->blocks, 0xff, &of->throttle);
}

static attune_status read_sample(const stretch *of, int arm, size_t index, const char *path, double *us)
{
    if (!of->packed) {
        return at_real_read(json_array_get(of->times[arm], index), path, "us", us);
    }
    const json_t *value = json_array_get(of->times[arm], index + 2);
    AT_FAIL_IF(!json_is_integer(value) || llabs(json_integer_value(value)) > SAMPLE_MAX, ATTUNE_CORRUPT,
               "%s: sample %zu of arm %d is no whole number of units", path, index, arm);
    *us = (double)((of->middle[arm] + json_integer_value(value)) * of->unit[arm]) / 1000;
    return ATTUNE_OK;
}

static attune_status read_block(const stretch *of, size_t index, const char *path, int arms, at_block *block)
{
    int throttle = 0;
    *block = (at_block){.mode = (at_mode)of->mode, .process = of->process};
    for (int i = 0; i < 2 * arms; ++i) {
        AT_FORWARD(read_sample(of, i / 2, 2 * index + (size_t)(i % 2), path, &block->us[i / 2][i % 2]));
    }
    AT_FORWARD(read_entry(&of->sm_mhz, index, path, &block->sm_mhz));
    AT_FORWARD(read_entry(&of->power_w, index, path, &block->power_w));
    AT_FORWARD(read_entry(&of->throttle, index, path, &throttle));
    block->throttle = (unsigned)throttle;
    return ATTUNE_OK;
}

static attune_status read_blocks(const json_t *object, const char *path, at_session *session)
{
    json_t *list, *item;
    AT_FORWARD(open_list(object, path, "blocks", AT_SESSION_PROCESSES_MAX * AT_MODE_COUNT, &list));
    for (size_t i = 0; i < json_array_size(list); ++i) {
        stretch of;
        AT_FORWARD(get_object(list, i, path, "blocks", &item));
        AT_FORWARD(open_stretch(item, path, session, &of));
        for (size_t b = 0; b < of.blocks; ++b) {
            at_block block;
            AT_FORWARD(read_block(&of, b, path, session->arm_count, &block));
            AT_FORWARD(at_session_add(session, &block));
        }
    }
    return ATTUNE_OK;
}

static attune_status read_session(const json_t *verdict_object, const char *above, at_verdict *verdict)
{
    at_session *session = &verdict->session;
    json_t *object = json_object_get(verdict_object, "session");
    int64_t processes = 0;
    char path[160];
    (void)snprintf(path, sizeof path, "%.140s: session", above);
    if (object == NULL) {
        return ATTUNE_OK;
    }
    AT_FORWARD(open_session(object, path, verdict));
    AT_FORWARD(at_json_int(object, path, "processes", 0, AT_SESSION_PROCESSES_MAX, &processes));
    session->processes = (int)processes;
    AT_FORWARD(at_json_bool(object, path, "stopped", &session->stopped));
    AT_FORWARD(read_wrong(object, path, session));
    AT_FORWARD(read_calls(object, path, session));
    AT_FORWARD(read_warmups(object, path, session));
    AT_FORWARD(read_clocks(object, path, session));
    return read_blocks(object, path, session);
}

/* ---- Suite, counters, what follows ------------------------------------------------------------------------------- */

static attune_status read_suite(const json_t *verdict_object, const char *path, at_suite_result *suite)
{
    json_t *object;
    AT_FORWARD(at_json_field(verdict_object, path, "suite", JSON_OBJECT, &object));
    AT_FORWARD(at_fields_read(at_fields_of_suite, object, path, suite));
    AT_FORWARD(read_list(at_fields_of_failure, object, path, "failures", suite->failure, sizeof suite->failure[0],
                         AT_KEPT_FAILURES, &suite->failures));
    return read_list(at_fields_of_refusal, object, path, "refusals", suite->refusal, sizeof suite->refusal[0],
                     AT_KEPT_REFUSALS, &suite->refusals);
}

static attune_status copy_text(const char *path, const char *key, const char *text, char *to, size_t bytes)
{
    AT_FAIL_IF(strlen(text) >= bytes, ATTUNE_CORRUPT, "%s: %s has %zu bytes, at most %zu are allowed", path, key,
               strlen(text), bytes - 1);
    memcpy(to, text, strlen(text) + 1);
    return ATTUNE_OK;
}

static attune_status read_numbers(const json_t *object, const char *path, const char *key, at_counter *counters,
                                  size_t most, int32_t *count)
{
    json_t *group, *value;
    const char *name;
    AT_FORWARD(at_json_field(object, path, key, JSON_OBJECT, &group));
    AT_FAIL_IF(json_object_size(group) > most, ATTUNE_CORRUPT, "%s: \"%s\" has %zu entries, at most %zu are allowed",
               path, key, json_object_size(group), most);
    *count = 0;
    json_object_foreach(group, name, value)
    {
        at_counter *counter = &counters[(*count)++];
        AT_FORWARD(copy_text(path, key, name, counter->name, sizeof counter->name));
        AT_FORWARD(at_real_read(value, path, name, &counter->value));
    }
    return ATTUNE_OK;
}

static attune_status read_counters(const json_t *verdict_object, const char *path, at_counters *counters)
{
    const json_t *object = json_object_get(verdict_object, "counters");
    if (object == NULL) {
        return ATTUNE_OK;
    }
    counters->asked = true;
    AT_FORWARD(at_fields_read(at_fields_of_counters, object, path, counters));
    AT_FORWARD(read_numbers(object, path, "values", counters->counter, AT_VERDICT_COUNTERS, &counters->count));
    return read_numbers(object, path, "stalls", counters->stall, AT_VERDICT_STALLS, &counters->stalls);
}

static attune_status read_versions(const json_t *object, const char *path, at_verdict *verdict)
{
    json_t *group, *value;
    const char *name;
    AT_FORWARD(at_json_field(object, path, "versions", JSON_OBJECT, &group));
    AT_FAIL_IF(json_object_size(group) > AT_VERDICT_VERSIONS, ATTUNE_CORRUPT,
               "%s: %zu versions, at most %d are allowed", path, json_object_size(group), AT_VERDICT_VERSIONS);
    json_object_foreach(group, name, value)
    {
        at_version *version = &verdict->version[verdict->version_count++];
        AT_FAIL_IF(!json_is_string(value), ATTUNE_CORRUPT, "%s: the version of \"%.40s\" is %s, expected a string",
                   path, name, at_json_kind(value));
        AT_FORWARD(copy_text(path, "versions", name, version->name, sizeof version->name));
        AT_FORWARD(copy_text(path, name, json_string_value(value), version->text, sizeof version->text));
    }
    return ATTUNE_OK;
}

static attune_status read_modes(const json_t *object, const char *path, at_speed *speed)
{
    json_t *modes;
    AT_FORWARD(at_json_field(object, path, "modes", JSON_OBJECT, &modes));
    for (int mode = 0; mode < AT_MODE_COUNT; ++mode) {
        const json_t *ratio = json_object_get(modes, at_names_of_modes[mode]);
        speed->known[mode] = ratio != NULL;
        if (ratio != NULL) {
            AT_FORWARD(at_fields_read(at_fields_of_ratio, ratio, path, &speed->ratio[mode]));
        }
    }
    return ATTUNE_OK;
}

static attune_status read_peers(const json_t *object, const char *path, at_verdict *verdict)
{
    json_t *list, *item;
    AT_FORWARD(open_list(object, path, "peers", AT_SESSION_ARMS_MAX, &list));
    for (size_t i = 0; i < json_array_size(list); ++i) {
        int64_t arm = 0;
        AT_FORWARD(get_object(list, i, path, "peers", &item));
        AT_FORWARD(at_json_int(item, path, "arm", 1, AT_SESSION_ARMS_MAX - 1, &arm));
        AT_FAIL_IF(!at_verdict_is_peer(verdict, (int)arm), ATTUNE_CORRUPT, "%s: arm %d is no peer", path, (int)arm);
        AT_FORWARD(at_fields_read(at_fields_of_speed, item, path, &verdict->speed[arm]));
        AT_FORWARD(read_modes(item, path, &verdict->speed[arm]));
    }
    return ATTUNE_OK;
}

/* The texts that others will parse must parse. */
static attune_status check_texts(const char *path, at_verdict *verdict)
{
    attune_problem problem;
    verdict->target.size = sizeof verdict->target;
    attune_status status = attune_problem_parse(verdict->problem, &problem);
    if (status != ATTUNE_OK) {
        return at_fail_in(ATTUNE_CORRUPT, "%s", path);
    }
    AT_FAIL_IF(verdict->kernel[0] == '\0' || verdict->target.model[0] == '\0', ATTUNE_CORRUPT,
               "%s: the kernel or the device has no name", path);
    AT_FAIL_IF(!(verdict->options.must > 0), ATTUNE_CORRUPT, "%s: must is %g, more than 0 is needed", path,
               verdict->options.must);
    return ATTUNE_OK;
}

attune_status at_evidence_read_verdict(const json_t *object, const char *path, at_verdict *verdict)
{
    json_t *part;
    AT_FORWARD(at_fields_read(at_fields_of_verdict, object, path, verdict));
    AT_FORWARD(check_texts(path, verdict));
    AT_FORWARD(read_versions(object, path, verdict));
    AT_FORWARD(read_named(at_fields_of_run, object, path, "stages", verdict->stage, sizeof verdict->stage[0],
                          at_names_of_stages));
    AT_FORWARD(at_json_field(object, path, "wrong_kernel", JSON_OBJECT, &part));
    AT_FORWARD(at_fields_read(at_fields_of_run, part, path, &verdict->wrong_kernel));
    AT_FORWARD(read_suite(object, path, &verdict->suite));
    AT_FORWARD(read_list(at_fields_of_arm, object, path, "absent", verdict->absent, sizeof verdict->absent[0],
                         AT_VERDICT_ABSENT, &verdict->absent_count));
    AT_FORWARD(read_session(object, path, verdict));
    AT_FORWARD(read_counters(object, path, &verdict->counters));
    AT_FORWARD(read_named(at_fields_of_finding, object, path, "findings", verdict->finding, sizeof verdict->finding[0],
                          at_names_of_stages));
    AT_FORWARD(read_named(at_fields_of_control, object, path, "controls", verdict->control, sizeof verdict->control[0],
                          at_names_of_controls));
    return read_peers(object, path, verdict);
}
