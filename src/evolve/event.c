#include "evolve/event.h"

#include <string.h>

#include "base/status.h"
#include "evolve/ledger.h"
#include "evolve/proposer.h"

#define FORMAT "attune-ledger"

const char *const at_names_of_events[] = {
    "start",  "space",    "candidate", "refusal", "build", "measurement", "decision", "check", "gate", "wisdom",
    "resume", "proposal", "made",      "tuned",   "duel",  "last",        "judged",   "end",   NULL};
const char *const at_names_of_decisions[] = {"eliminated", "champion", "tie", "confirmed", "not confirmed", NULL};
const char *const at_names_of_checks[] = {"placebo", "mutant", "execution", "alarm", "dead", NULL};
static const char *const names_of_findings[] = {"not run", "pass", "fail", "inconclusive", NULL};

/* ---- Tables ------------------------------------------------------------------------------------------------------ */

#define TEXT(type, member, key) AT_FIELD(AT_FIELD_TEXT, type, member, key)
#define REAL(type, member, key) AT_FIELD(AT_FIELD_REAL, type, member, key)
#define BOOL(type, member, key) AT_FIELD(AT_FIELD_BOOL, type, member, key)

static const at_field of_nothing[] = {{.key = NULL}};

static const at_field of_start[] = {
    TEXT(at_event_start, attune, "attune"),
    TEXT(at_event_start, kernel, "kernel"),
    TEXT(at_event_start, problem, "problem"),
    TEXT(at_event_start, target, "target"),
    TEXT(at_event_start, source, "source"),
    TEXT(at_event_start, strategy, "strategy"),
    AT_FIELD(AT_FIELD_SEED, at_event_start, seed, "seed"),
    TEXT(at_event_start, budget, "budget"),
    TEXT(at_event_start, policy, "policy"),
    AT_FIELD(AT_FIELD_NOTE, at_event_start, one, "one"), /* most searches have neither */
    AT_FIELD(AT_FIELD_NOTE, at_event_start, fixed, "fixed"),
    {.key = NULL},
};

static const at_field of_candidate[] = {
    TEXT(at_event_candidate, config, "config"),
    TEXT(at_event_candidate, from, "from"),
    {.key = NULL},
};

static const at_field of_refusal[] = {
    TEXT(at_event_refusal, config, "config"),
    AT_FIELD_NAMED(at_event_refusal, refused, "stage", at_names_of_refused),
    TEXT(at_event_refusal, why, "why"),
    {.key = NULL},
};

static const at_field of_figures[] = {
    REAL(at_figures, tensor_percent, "tensor_percent"),     REAL(at_figures, sm_percent, "sm_percent"),
    AT_FIELD_COUNT(at_figures, barriers, "barriers"),       AT_FIELD_COUNT(at_figures, registers, "registers"),
    AT_FIELD_COUNT(at_figures, spill_bytes, "spill_bytes"), {.key = NULL},
};

static const at_field of_build[] = {
    TEXT(at_event_build, config, "config"),
    TEXT(at_event_build, source, "source"),
    TEXT(at_event_build, code, "code"),
    TEXT(at_event_build, entry, "entry"),
    TEXT(at_event_build, same_as, "same_as"),
    AT_FIELD_COUNT(at_event_build, smem_bytes, "smem_bytes"),
    AT_FIELD_TABLE(at_event_build, figures, "figures", of_figures),
    REAL(at_event_build, seconds, "seconds"),
    {.key = NULL},
};

static const at_field of_measurement[] = {
    TEXT(at_event_measurement, config, "config"),     TEXT(at_event_measurement, champion, "champion"),
    TEXT(at_event_measurement, code, "code"),         AT_FIELD_COUNT(at_event_measurement, round, "round"),
    BOOL(at_event_measurement, censored, "censored"), {.key = NULL},
};

static const at_field of_interval[] = {
    REAL(at_interval, middle, "middle"),
    REAL(at_interval, low, "low"),
    REAL(at_interval, high, "high"),
    {.key = NULL},
};

static const at_field of_decision[] = {
    AT_FIELD_NAMED(at_event_decision, decision, "decision", at_names_of_decisions),
    TEXT(at_event_decision, config, "config"),
    TEXT(at_event_decision, against, "against"),
    AT_FIELD_TABLE(at_event_decision, ratio, "ratio", of_interval),
    TEXT(at_event_decision, why, "why"),
    {.key = NULL},
};

static const at_field of_check[] = {
    AT_FIELD_NAMED(at_event_check, check, "check", at_names_of_checks),
    BOOL(at_event_check, holds, "holds"),
    TEXT(at_event_check, why, "why"),
    {.key = NULL},
};

static const at_field of_gate[] = {
    TEXT(at_event_gate, config, "config"),
    TEXT(at_event_gate, verdict, "verdict"),
    AT_FIELD_NAMED(at_event_gate, right, "right", names_of_findings),
    AT_FIELD_NAMED(at_event_gate, fast, "fast", names_of_findings),
    TEXT(at_event_gate, why, "why"),
    {.key = NULL},
};

static const at_field of_wisdom[] = {
    TEXT(at_event_wisdom, row, "row"),
    {.key = NULL},
};

static const at_field of_end[] = {
    TEXT(at_event_end, outcome, "outcome"),
    TEXT(at_event_end, best, "best"),
    AT_FIELD_COUNT(at_event_end, measured, "measured"),
    TEXT(at_event_end, why, "why"),
    {.key = NULL},
};

/* ---- Of searches for code -----------------------------------------------------------------------------------------
 */

const char *const at_names_of_code_kinds[] = {"improve", "repair", "cross", "new", NULL};
const char *const at_names_of_arms[] = {"engine", "parameters alone", "independent samples", "sequential refinement",
                                        NULL};
const char *const at_names_of_verdicts[] = {"accepted",  "tied",  "slower", "refused", "denied",
                                            "duplicate", "alarm", "void",   "none",    NULL};

static const at_field of_proposal[] = {
    AT_FIELD_COUNT(at_event_proposal, id, "id"),
    AT_FIELD_COUNT(at_event_proposal, parent, "parent"),
    AT_FIELD_NAMED(at_event_proposal, arm, "arm", at_names_of_arms),
    AT_FIELD_NAMED(at_event_proposal, kind, "asked", at_names_of_code_kinds),
    AT_FIELD_NAMED(at_event_proposal, proposed, "proposed", at_names_of_proposed),
    TEXT(at_event_proposal, request, "request"),
    TEXT(at_event_proposal, answer, "answer"),
    TEXT(at_event_proposal, why, "why"),
    TEXT(at_event_proposal, idea, "idea"),
    TEXT(at_event_proposal, tags, "tags"),
    TEXT(at_event_proposal, model, "model"),
    TEXT(at_event_proposal, tokens_in, "tokens_in"),
    TEXT(at_event_proposal, tokens_out, "tokens_out"),
    TEXT(at_event_proposal, usd, "usd"),
    AT_FIELD_COUNT(at_event_proposal, bytes_in, "bytes_in"),
    AT_FIELD_COUNT(at_event_proposal, bytes_out, "bytes_out"),
    AT_FIELD_COUNT(at_event_proposal, tries, "tries"),
    REAL(at_event_proposal, seconds, "seconds"),
    {.key = NULL},
};

static const at_field of_made[] = {
    AT_FIELD_COUNT(at_event_made, id, "id"),
    AT_FIELD_NAMED(at_event_made, refused, "stage", at_names_of_refused),
    TEXT(at_event_made, why, "why"),
    TEXT(at_event_made, code, "code"),
    TEXT(at_event_made, facts, "facts"),
    TEXT(at_event_made, binds, "binds"),
    REAL(at_event_made, us, "us"),
    REAL(at_event_made, error, "error"),
    REAL(at_event_made, row_error[0], "row_error_median"),
    REAL(at_event_made, row_error[1], "row_error_99"),
    {.key = NULL},
};

static const at_field of_tuned[] = {
    AT_FIELD_COUNT(at_event_tuned, id, "id"),
    BOOL(at_event_tuned, well, "well"),
    TEXT(at_event_tuned, why, "why"),
    TEXT(at_event_tuned, config, "config"),
    AT_FIELD_COUNT(at_event_tuned, measured, "measured"),
    REAL(at_event_tuned, us, "us"),
    TEXT(at_event_tuned, counters, "counters"),
    {.key = NULL},
};

static const at_field of_duel[] = {
    AT_FIELD_COUNT(at_event_duel, id, "id"),
    AT_FIELD_COUNT(at_event_duel, against, "against"),
    BOOL(at_event_duel, well, "well"),
    TEXT(at_event_duel, why, "why"),
    AT_FIELD_RANGE(at_event_duel, blocks, "blocks", 0, AT_HEAT_BLOCKS_MAX),
    AT_FIELD(AT_FIELD_REALS, at_event_duel, us, "us"),
    AT_FIELD(AT_FIELD_REALS, at_event_duel, champion_us, "champion_us"),
    AT_FIELD(AT_FIELD_REALS, at_event_duel, placebo_us, "placebo_us"),
    {.key = NULL},
};

static const at_field of_last[] = {
    AT_FIELD_COUNT(at_event_last, id, "id"),
    TEXT(at_event_last, config, "config"),
    BOOL(at_event_last, well, "well"),
    TEXT(at_event_last, why, "why"),
    AT_FIELD_RANGE(at_event_last, processes, "processes", 0, AT_FINAL_PROCESSES_MAX),
    AT_FIELD(AT_FIELD_REALS, at_event_last, us, "us"),
    {.key = NULL},
};

static const at_field of_judged[] = {
    AT_FIELD_COUNT(at_event_judged, id, "id"),
    AT_FIELD_NAMED(at_event_judged, verdict, "verdict", at_names_of_verdicts),
    AT_FIELD_COUNT(at_event_judged, against, "against"),
    AT_FIELD_TABLE(at_event_judged, ratio, "ratio", of_interval),
    REAL(at_event_judged, chance, "chance"),
    TEXT(at_event_judged, why, "why"),
    {.key = NULL},
};

static const at_field *const tables[AT_EVENT_KINDS] = {
    [AT_EVENT_START] = of_start,       [AT_EVENT_SPACE] = of_nothing,  [AT_EVENT_CANDIDATE] = of_candidate,
    [AT_EVENT_REFUSAL] = of_refusal,   [AT_EVENT_BUILD] = of_build,    [AT_EVENT_MEASUREMENT] = of_measurement,
    [AT_EVENT_DECISION] = of_decision, [AT_EVENT_CHECK] = of_check,    [AT_EVENT_GATE] = of_gate,
    [AT_EVENT_WISDOM] = of_wisdom,     [AT_EVENT_RESUME] = of_nothing, [AT_EVENT_END] = of_end,
    [AT_EVENT_PROPOSAL] = of_proposal, [AT_EVENT_MADE] = of_made,      [AT_EVENT_TUNED] = of_tuned,
    [AT_EVENT_DUEL] = of_duel,         [AT_EVENT_LAST] = of_last,      [AT_EVENT_JUDGED] = of_judged,
};

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static json_t *write_samples(const double *us, int pairs)
{
    json_t *list = json_array();
    for (int i = 0; i < pairs; ++i) {
        (void)json_array_append_new(list, at_real_write(us[i]));
    }
    return list;
}

/* What no table can say. */
static bool write_rest(const at_event *event, json_t *object)
{
    const at_event_measurement *measured = &event->as.measurement;
    switch (event->kind) {
    case AT_EVENT_START:
        return json_object_set_new(object, "format", json_string(FORMAT)) == 0 &&
               json_object_set_new(object, "version", json_integer(AT_LEDGER_VERSION)) == 0;
    case AT_EVENT_SPACE:
        return json_object_set_new(object, "space", at_space_write(event->as.space)) == 0;
    case AT_EVENT_MEASUREMENT:
        return json_object_set_new(object, "us", write_samples(measured->us, measured->pairs)) == 0 &&
               json_object_set_new(object, "champion_us", write_samples(measured->champion_us, measured->pairs)) == 0;
    default:
        return true;
    }
}

json_t *at_event_write(const at_event *event)
{
    json_t *object =
        json_pack("{s:s,s:o}", "kind", at_names_of_events[event->kind], "at_s", at_real_write(event->at_s));
    json_t *fields = at_fields_write(tables[event->kind], &event->as);
    bool well =
        object != NULL && fields != NULL && write_rest(event, object) && json_object_update(object, fields) == 0;
    json_decref(fields);
    if (!well) {
        json_decref(object);
    }
    return well ? object : NULL;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static attune_status read_samples(const json_t *object, const char *path, const char *key, double *us, int32_t *pairs)
{
    json_t *list;
    AT_FORWARD(at_json_list(object, path, key, 1, AT_EVENT_PAIRS_MAX, &list));
    const size_t count = json_array_size(list);
    for (size_t i = 0; i < count; ++i) {
        AT_FORWARD(at_real_read(json_array_get(list, i), path, key, &us[i]));
        AT_FAIL_IF(!(us[i] > 0 && us[i] < 1e15), ATTUNE_CORRUPT, "%s: field \"%s\" holds a time that is none", path,
                   key);
    }
    *pairs = (int32_t)count;
    return ATTUNE_OK;
}

static attune_status read_measurement(const json_t *object, const char *path, at_event_measurement *measured)
{
    int32_t pairs;
    AT_FORWARD(read_samples(object, path, "us", measured->us, &measured->pairs));
    AT_FORWARD(read_samples(object, path, "champion_us", measured->champion_us, &pairs));
    AT_FAIL_IF(pairs != measured->pairs, ATTUNE_CORRUPT, "%s: field \"champion_us\" has %d times beside %d", path,
               pairs, measured->pairs);
    return ATTUNE_OK;
}

static attune_status read_version(const json_t *object, const char *path)
{
    const char *format;
    int64_t version;
    AT_FORWARD(at_json_string(object, path, "format", &format));
    AT_FAIL_IF(strcmp(format, FORMAT) != 0, ATTUNE_CORRUPT, "%s: field \"format\" is \"%.40s\", expected \"%s\"", path,
               format, FORMAT);
    AT_FORWARD(at_json_int(object, path, "version", 1, INT32_MAX, &version));
    AT_FAIL_IF(version > AT_LEDGER_VERSION, ATTUNE_UNSUPPORTED, "%s: its version is %lld, this attune reads up to %d",
               path, (long long)version, AT_LEDGER_VERSION);
    return ATTUNE_OK;
}

static attune_status read_rest(const json_t *object, const char *path, at_event *event)
{
    json_t *space;
    char inner[160];
    switch (event->kind) {
    case AT_EVENT_START:
        return read_version(object, path);
    case AT_EVENT_SPACE:
        AT_FORWARD(at_json_field(object, path, "space", JSON_OBJECT, &space));
        (void)snprintf(inner, sizeof inner, "%.140s: space", path);
        return at_space_read(space, inner, &event->as.space);
    case AT_EVENT_MEASUREMENT:
        return read_measurement(object, path, &event->as.measurement);
    case AT_EVENT_REFUSAL:
        AT_FAIL_IF(event->as.refusal.refused == AT_RAN, ATTUNE_CORRUPT, "%s: field \"stage\" is \"ran\" in a refusal",
                   path);
        return ATTUNE_OK;
    default:
        return ATTUNE_OK;
    }
}

attune_status at_event_read(const json_t *object, const char *path, at_event *event)
{
    const char *name;
    int kind = 0;
    memset(event, 0, sizeof *event);
    AT_FORWARD(at_json_string(object, path, "kind", &name));
    while (at_names_of_events[kind] != NULL && strcmp(at_names_of_events[kind], name) != 0) {
        ++kind;
    }
    AT_FAIL_IF(kind == AT_EVENT_KINDS, ATTUNE_NOT_FOUND, "%s: kind \"%.40s\" is not known to this attune", path, name);
    event->kind = (at_event_kind)kind;
    AT_FORWARD(at_real_read(json_object_get(object, "at_s"), path, "at_s", &event->at_s));
    AT_FORWARD(at_fields_read(tables[kind], object, path, &event->as));
    return read_rest(object, path, event);
}
