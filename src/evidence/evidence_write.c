/* From a verdict to JSON. Building never fails on the spot: jansson passes NULL on, and the whole is looked at once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evidence/evidence_parts.h"
#include "evidence/evidence_tables.h"
#include "measure/statistics.h"

static bool set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

/* NULL, and the object gone, unless all went well. */
static json_t *sound(json_t *object, bool well)
{
    if (!well) {
        json_decref(object);
    }
    return well ? object : NULL;
}

static json_t *write_ints(const int *values, int count)
{
    json_t *list = json_array();
    bool well = list != NULL;
    for (int i = 0; well && i < count; ++i) {
        well = json_array_append_new(list, json_integer(values[i])) == 0;
    }
    return sound(list, well);
}

/* ---- Session ----------------------------------------------------------------------------------------------------- */

/* What part each arm has, beside its facts. */
static bool set_parts(const json_t *arms, const at_session *session)
{
    bool well = true;
    for (int i = 0; well && i < session->arm_count; ++i) {
        const at_session_part *arm = &session->arm[i];
        json_t *object = json_array_get(arms, (size_t)i);
        well = set(object, "part", json_string(at_names_of_parts[arm->part]));
        if (well && arm->part == AT_PART_TWIN) {
            well = set(object, "twin_of", json_integer(arm->twin_of));
        }
    }
    return well;
}

static json_t *write_warmups(const at_session *session)
{
    json_t *list = json_array();
    bool well = list != NULL;
    for (int i = 0; well && i < session->processes; ++i) {
        const at_warmup warmup = {session->warmup_s[i], session->settled[i]};
        well = json_array_append_new(list, at_row_write(at_fields_of_warmup, &warmup)) == 0;
    }
    return sound(list, well);
}

static json_t *write_clocks(const at_session *session)
{
    json_t *list = json_array();
    bool well = list != NULL;
    for (size_t i = 0; well && i < session->clocks_count; ++i) {
        well = json_array_append_new(list, at_row_write(at_fields_of_clocks, &session->clocks[i])) == 0;
    }
    return sound(list, well);
}

/* One process in one mode: blocks that follow each other. */
typedef struct stretch {
    const at_session *session;
    const at_block *block;
    size_t count;
} stretch;

static stretch next_stretch(const at_session *session, size_t from)
{
    stretch found = {session, &session->block[from], 0};
    while (from + found.count < session->block_count && found.block[found.count].mode == found.block[0].mode &&
           found.block[found.count].process == found.block[0].process) {
        ++found.count;
    }
    return found;
}

static double sample(const stretch *of, int arm, size_t i)
{
    return of->block[i / 2].us[arm][i % 2];
}

static json_t *write_plain(const stretch *of, int arm)
{
    json_t *times = json_array();
    bool well = times != NULL;
    for (size_t i = 0; well && i < 2 * of->count; ++i) {
        well = json_array_append_new(times, at_real_write(sample(of, arm, i))) == 0;
    }
    return sound(times, well);
}

/* The largest power of ten, in ns, of which all samples are multiples; 0 where there is none. */
static int64_t unit_of(const stretch *of, int arm)
{
    int64_t unit = 1000000;
    for (size_t i = 0; unit > 0 && i < 2 * of->count; ++i) {
        double us = sample(of, arm, i);
        int64_t ns = isfinite(us) && fabs(us) < 1e8 ? llround(us * 1000) : 1;
        while (unit > 0 && ns % unit != 0) {
            unit /= 10;
        }
        unit = (double)ns / 1000 == us ? unit : 0;
    }
    return unit;
}

/* In ns; any number near the samples would do. */
static int64_t middle_of(const stretch *of, int arm)
{
    double middle = sample(of, arm, 0);
    double *us = malloc(2 * of->count * sizeof *us);
    for (size_t i = 0; us != NULL && i < 2 * of->count; ++i) {
        us[i] = sample(of, arm, i);
    }
    if (us != NULL) {
        (void)at_median(us, 2 * of->count, &middle);
    }
    free(us);
    return llround(middle * 1000);
}

/* Small numbers are short: unit in ns, their middle in units, and how far each is from it. */
static json_t *write_packed(const stretch *of, int arm, int64_t unit)
{
    int64_t middle = middle_of(of, arm) / unit;
    json_t *times = json_array();
    bool well = times != NULL && json_array_append_new(times, json_integer(unit)) == 0 &&
                json_array_append_new(times, json_integer(middle)) == 0;
    for (size_t i = 0; well && i < 2 * of->count; ++i) {
        int64_t units = llround(sample(of, arm, i) * 1000) / unit;
        well = json_array_append_new(times, json_integer(units - middle)) == 0;
    }
    return sound(times, well);
}

/* Times of each arm, two a block: as whole numbers where that loses nothing. */
static bool set_times(json_t *object, const stretch *of)
{
    json_t *arms = json_array();
    int64_t unit[AT_SESSION_ARMS_MAX];
    bool packed = true, well = arms != NULL;
    for (int arm = 0; arm < of->session->arm_count; ++arm) {
        unit[arm] = unit_of(of, arm);
        packed = packed && unit[arm] > 0;
    }
    for (int arm = 0; well && arm < of->session->arm_count; ++arm) {
        well = json_array_append_new(arms, packed ? write_packed(of, arm, unit[arm]) : write_plain(of, arm)) == 0;
    }
    return set(object, packed ? "ns" : "us", sound(arms, well));
}

static json_t *write_stretch(const stretch *of)
{
    json_t *object = at_fields_write(at_fields_of_stretch, of->block);
    bool well = object != NULL && set_times(object, of);
    for (const at_field *column = at_fields_of_block; well && column->key != NULL; ++column) {
        well = at_column_add(object, column, of->block, sizeof *of->block, of->count);
    }
    return sound(object, well);
}

static json_t *write_blocks(const at_session *session)
{
    json_t *list = json_array();
    bool well = list != NULL;
    for (size_t b = 0; well && b < session->block_count;) {
        stretch of = next_stretch(session, b);
        well = json_array_append_new(list, write_stretch(&of)) == 0;
        b += of.count;
    }
    return sound(list, well);
}

static json_t *write_calls(const at_session *session)
{
    json_t *object = json_object();
    bool well = object != NULL;
    for (int mode = 0; well && mode < AT_MODE_COUNT; ++mode) {
        if (session->pairs[mode] > 0) {
            well = set(object, at_names_of_modes[mode], write_ints(session->calls[mode], session->arm_count));
        }
    }
    return sound(object, well);
}

static json_t *write_session(const at_verdict *verdict)
{
    const at_session *session = &verdict->session;
    json_t *object = at_fields_write(at_fields_of_arms, verdict);
    bool well = object != NULL && set_parts(json_object_get(object, "arms"), session) &&
                at_fields_add(object, at_fields_of_session, session) &&
                set(object, "wrong", write_ints(session->wrong, session->arm_count)) &&
                set(object, "pairs", write_ints(session->pairs, AT_MODE_COUNT)) &&
                set(object, "calls", write_calls(session)) && set(object, "warmups", write_warmups(session)) &&
                set(object, "clocks", write_clocks(session)) && set(object, "blocks", write_blocks(session));
    return sound(object, well);
}

/* ---- Peers, the whole ------------------------------------------------------------------------------------------- */

static json_t *write_speed(const at_speed *speed, int arm)
{
    json_t *object = at_fields_write(at_fields_of_speed, speed);
    bool well =
        object != NULL && set(object, "arm", json_integer(arm)) && at_fields_add(object, at_fields_of_modes, speed);
    return sound(object, well);
}

static json_t *write_peers(const at_verdict *verdict)
{
    json_t *list = json_array();
    bool well = list != NULL;
    for (int arm = 0; well && arm < verdict->session.arm_count; ++arm) {
        if (at_verdict_is_peer(verdict, arm)) {
            well = json_array_append_new(list, write_speed(&verdict->speed[arm], arm)) == 0;
        }
    }
    return sound(list, well);
}

json_t *at_evidence_write_verdict(const at_verdict *verdict)
{
    json_t *object = at_fields_write(at_fields_of_verdict, verdict);
    bool well = object != NULL && set(object, "peers", write_peers(verdict)) &&
                at_fields_add(object, at_fields_of_checks, verdict);
    if (well && verdict->counters.asked) {
        well = set(object, "counters", at_fields_write(at_fields_of_counters, &verdict->counters));
    }
    if (well && verdict->sanitizer_count > 0) {
        well = at_fields_add(object, at_fields_of_sanitizer, verdict);
    }
    if (well && verdict->session.arm_count > 0) {
        well = set(object, "session", write_session(verdict));
    }
    return sound(object, well);
}
