/* From JSON to a verdict. Nothing in a file is trusted: every number has its range, every list its length. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "evidence/evidence_parts.h"
#include "evidence/evidence_tables.h"

enum { BLOCKS_MAX = 100000, CALLS_MAX = 1 << 20, UNIT_MAX = 1000000 };
static const int64_t SAMPLE_MAX = INT64_C(1) << 40; /* units */

/* An element of an array that must be an object. */
static attune_status get_object(const json_t *list, size_t index, const char *path, const char *key, json_t **object)
{
    *object = json_array_get(list, index);
    AT_FAIL_IF(!json_is_object(*object), ATTUNE_CORRUPT, "%s: entry %zu of \"%s\" is %s, expected an object", path,
               index, key, at_json_kind(*object));
    return ATTUNE_OK;
}

/* The array `key` of whole numbers in 0 ... largest, at most `most` of them; what it does not have stays. */
static attune_status read_ints(const json_t *object, const char *path, const char *key, int most, int largest, int *to)
{
    json_t *list;
    AT_FORWARD(at_json_list(object, path, key, 0, (size_t)most, &list));
    for (size_t i = 0; i < json_array_size(list); ++i) {
        const json_t *value = json_array_get(list, i);
        AT_FAIL_IF(!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > largest,
                   ATTUNE_CORRUPT, "%s: entry %zu of \"%s\" is no whole number of 0 ... %d", path, i, key, largest);
        to[i] = (int)json_integer_value(value);
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
    at_session_part arm[AT_SESSION_ARMS_MAX] = {{NULL, AT_PART_CANDIDATE, 0}};
    AT_FORWARD(at_fields_read(at_fields_of_arms, object, path, verdict));
    const at_session_policy policy = verdict->session.policy;
    const int count = verdict->session.arm_count;
    for (int i = 0; i < count; ++i) {
        arm[i].name = verdict->arm[i].name;
        AT_FORWARD(read_part(json_array_get(json_object_get(object, "arms"), (size_t)i), path, &arm[i]));
    }
    if (at_session_open(&policy, arm, count, &verdict->session) != ATTUNE_OK) {
        return at_fail_in(ATTUNE_CORRUPT, "%s", path);
    }
    AT_FAIL_IF(arm[0].part != AT_PART_CANDIDATE, ATTUNE_CORRUPT, "%s: the first arm is no candidate", path);
    return ATTUNE_OK;
}

static attune_status read_row(const at_field *table, const json_t *list, size_t index, const char *path,
                              const char *key, void *to)
{
    char inner[400];
    (void)snprintf(inner, sizeof inner, "%.300s.%s[%zu]", path, key, index);
    return at_row_read(table, json_array_get(list, index), inner, to);
}

static attune_status read_warmups(const json_t *object, const char *path, at_session *session)
{
    json_t *list;
    AT_FORWARD(at_json_list(object, path, "warmups", 0, (size_t)session->processes, &list));
    for (size_t i = 0; i < json_array_size(list); ++i) {
        at_warmup warmup;
        AT_FORWARD(read_row(at_fields_of_warmup, list, i, path, "warmups", &warmup));
        session->warmup_s[i] = warmup.seconds;
        session->settled[i] = warmup.settled;
    }
    return ATTUNE_OK;
}

static attune_status read_calls(const json_t *object, const char *path, at_session *session)
{
    json_t *calls;
    AT_FORWARD(read_ints(object, path, "wrong", session->arm_count, INT32_MAX, session->wrong));
    AT_FORWARD(read_ints(object, path, "pairs", AT_MODE_COUNT, BLOCKS_MAX, session->pairs));
    AT_FORWARD(at_json_field(object, path, "calls", JSON_OBJECT, &calls));
    for (int mode = 0; mode < AT_MODE_COUNT; ++mode) {
        if (session->pairs[mode] > 0) {
            AT_FORWARD(
                read_ints(calls, path, at_names_of_modes[mode], session->arm_count, CALLS_MAX, session->calls[mode]));
        }
    }
    return ATTUNE_OK;
}

static attune_status read_clocks(const json_t *object, const char *path, at_session *session)
{
    json_t *list;
    AT_FORWARD(at_json_list(object, path, "clocks", 0, AT_SESSION_PROCESSES_MAX * AT_SESSION_ARMS_MAX, &list));
    for (size_t i = 0; i < json_array_size(list); ++i) {
        at_two_clocks reading;
        AT_FORWARD(read_row(at_fields_of_clocks, list, i, path, "clocks", &reading));
        AT_FAIL_IF(reading.arm >= session->arm_count, ATTUNE_CORRUPT,
                   "%s.clocks[%zu]: field \"arm\" is %d, there are %d arms", path, i, reading.arm, session->arm_count);
        AT_FORWARD(at_session_add_clocks(session, &reading));
    }
    return ATTUNE_OK;
}

/* The blocks of one process in one mode. */
typedef struct stretch {
    at_block first; /* what they share */
    size_t blocks;
    bool packed; /* "ns": unit in ns, middle in units, differences from it; else "us" */
    const json_t *times[AT_SESSION_ARMS_MAX];
    int64_t unit[AT_SESSION_ARMS_MAX], middle[AT_SESSION_ARMS_MAX];
} stretch;

static attune_status open_packed(const char *path, int arm, stretch *of)
{
    const json_t *unit = json_array_get(of->times[arm], 0), *middle = json_array_get(of->times[arm], 1);
    AT_FAIL_IF(!json_is_integer(unit) || json_integer_value(unit) < 1 || json_integer_value(unit) > UNIT_MAX ||
                   !json_is_integer(middle) || llabs(json_integer_value(middle)) > SAMPLE_MAX,
               ATTUNE_CORRUPT, "%s: field \"ns\": arm %d has no unit and middle", path, arm);
    of->unit[arm] = json_integer_value(unit);
    of->middle[arm] = json_integer_value(middle);
    return ATTUNE_OK;
}

static attune_status open_times(const json_t *object, const char *path, int arms, stretch *of)
{
    json_t *list;
    of->packed = json_object_get(object, "ns") != NULL;
    const char *key = of->packed ? "ns" : "us";
    AT_FORWARD(at_json_field(object, path, key, JSON_ARRAY, &list));
    AT_FAIL_IF(json_array_size(list) != (size_t)arms, ATTUNE_CORRUPT,
               "%s: field \"%s\" has samples of %zu arms, there are %d", path, key, json_array_size(list), arms);
    for (int arm = 0; arm < arms; ++arm) {
        of->times[arm] = json_array_get(list, (size_t)arm);
        size_t head = of->packed ? 2 : 0;
        size_t samples = json_array_size(of->times[arm]);
        samples -= samples < head ? samples : head;
        of->blocks = arm == 0 ? samples / 2 : of->blocks;
        AT_FAIL_IF(samples == 0 || samples != 2 * of->blocks || of->blocks > BLOCKS_MAX, ATTUNE_CORRUPT,
                   "%s: field \"%s\": arm %d has %zu samples; two a block, as many as the first arm, and at most %d "
                   "blocks are needed",
                   path, key, arm, samples, BLOCKS_MAX);
        AT_FORWARD(of->packed ? open_packed(path, arm, of) : ATTUNE_OK);
    }
    return ATTUNE_OK;
}

static attune_status read_sample(const stretch *of, int arm, size_t index, const char *path, double *us)
{
    if (!of->packed) {
        return at_real_read(json_array_get(of->times[arm], index), path, "us", us);
    }
    const json_t *value = json_array_get(of->times[arm], index + 2);
    AT_FAIL_IF(!json_is_integer(value) || llabs(json_integer_value(value)) > SAMPLE_MAX, ATTUNE_CORRUPT,
               "%s: field \"ns\": sample %zu of arm %d is no whole number of units", path, index, arm);
    *us = (double)((of->middle[arm] + json_integer_value(value)) * of->unit[arm]) / 1000;
    return ATTUNE_OK;
}

/* Adds the blocks of one process in one mode. */
static attune_status read_stretch(const json_t *object, const char *path, at_session *session)
{
    stretch of = {.blocks = 0};
    const size_t begin = session->block_count;
    AT_FORWARD(at_fields_read(at_fields_of_stretch, object, path, &of.first));
    AT_FORWARD(open_times(object, path, session->arm_count, &of));
    for (size_t b = 0; b < of.blocks; ++b) {
        at_block block = of.first;
        for (size_t i = 0; i < 2 * (size_t)session->arm_count; ++i) {
            AT_FORWARD(read_sample(&of, (int)i / 2, 2 * b + i % 2, path, &block.us[i / 2][i % 2]));
        }
        AT_FORWARD(at_session_add(session, &block));
    }
    for (const at_field *column = at_fields_of_block; column->key != NULL; ++column) {
        AT_FORWARD(at_column_read(column, object, path, session->block + begin, sizeof *session->block, of.blocks));
    }
    return ATTUNE_OK;
}

static attune_status read_blocks(const json_t *object, const char *path, at_session *session)
{
    json_t *list, *item;
    AT_FORWARD(at_json_list(object, path, "blocks", 0, AT_SESSION_PROCESSES_MAX * AT_MODE_COUNT, &list));
    for (size_t i = 0; i < json_array_size(list); ++i) {
        char inner[400];
        (void)snprintf(inner, sizeof inner, "%.300s.blocks[%zu]", path, i);
        AT_FORWARD(get_object(list, i, path, "blocks", &item));
        AT_FORWARD(read_stretch(item, inner, session));
    }
    return ATTUNE_OK;
}

static attune_status read_session(const json_t *verdict_object, const char *above, at_verdict *verdict)
{
    at_session *session = &verdict->session;
    json_t *object = json_object_get(verdict_object, "session");
    char path[400];
    (void)snprintf(path, sizeof path, "%.300s.session", above);
    if (object == NULL) {
        return ATTUNE_OK;
    }
    AT_FORWARD(open_session(object, path, verdict));
    AT_FORWARD(at_fields_read(at_fields_of_session, object, path, session));
    AT_FORWARD(read_calls(object, path, session));
    AT_FORWARD(read_warmups(object, path, session));
    AT_FORWARD(read_clocks(object, path, session));
    return read_blocks(object, path, session);
}

/* ---- Counters, peers -------------------------------------------------------------------------------------------- */

static attune_status read_counters(const json_t *verdict_object, const char *path, at_counters *counters)
{
    json_t *object;
    counters->asked = json_object_get(verdict_object, "counters") != NULL;
    if (!counters->asked) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_json_field(verdict_object, path, "counters", JSON_OBJECT, &object));
    return at_fields_read(at_fields_of_counters, object, path, counters);
}

static attune_status read_peers(const json_t *object, const char *path, at_verdict *verdict)
{
    json_t *list, *item;
    AT_FORWARD(at_json_list(object, path, "peers", 0, AT_SESSION_ARMS_MAX, &list));
    for (size_t i = 0; i < json_array_size(list); ++i) {
        int64_t arm = 0;
        AT_FORWARD(get_object(list, i, path, "peers", &item));
        AT_FORWARD(at_json_int(item, path, "arm", 1, AT_SESSION_ARMS_MAX - 1, &arm));
        AT_FAIL_IF(!at_verdict_is_peer(verdict, (int)arm), ATTUNE_CORRUPT, "%s: arm %d is no peer", path, (int)arm);
        AT_FORWARD(at_fields_read(at_fields_of_speed, item, path, &verdict->speed[arm]));
        AT_FORWARD(at_fields_read(at_fields_of_modes, item, path, &verdict->speed[arm]));
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
    AT_FORWARD(at_fields_read(at_fields_of_verdict, object, path, verdict));
    AT_FORWARD(check_texts(path, verdict));
    AT_FORWARD(at_fields_read(at_fields_of_checks, object, path, verdict));
    AT_FORWARD(read_session(object, path, verdict));
    AT_FORWARD(read_counters(object, path, &verdict->counters));
    if (json_object_get(object, "sanitizer") != NULL) {
        AT_FORWARD(at_fields_read(at_fields_of_sanitizer, object, path, verdict));
    }
    return read_peers(object, path, verdict);
}
