#include "report/verdicts.h"

#include <math.h>
#include <string.h>

#include "base/status.h"

static const at_verdict *verdict_of(const at_record *record)
{
    return record->entry != NULL ? record->entry->verdict : NULL;
}

bool at_report_shows(const at_record *record, unsigned which)
{
    return verdict_of(record) != NULL && (record->newest || (which & AT_REPORT_ALL) != 0) &&
           (at_verdict_is_earnest(verdict_of(record)) || (which & AT_REPORT_EARNEST) == 0);
}

/* ---- Rows for tools ---------------------------------------------------------------------------------------------- */

static const at_column row_columns[] = {
    {"device", AT_COLUMN_TEXT, NULL, 0},    {"problem", AT_COLUMN_TEXT, NULL, 0},
    {"kernel", AT_COLUMN_TEXT, NULL, 0},    {"config", AT_COLUMN_TEXT, NULL, 0},
    {"peer", AT_COLUMN_TEXT, NULL, 0},      {"mode", AT_COLUMN_TEXT, NULL, 0},
    {"ratio", AT_COLUMN_NUMBER, NULL, 4},   {"lo", AT_COLUMN_NUMBER, NULL, 4},
    {"hi", AT_COLUMN_NUMBER, NULL, 4},      {"candidate_us", AT_COLUMN_NUMBER, NULL, 4},
    {"peer_us", AT_COLUMN_NUMBER, NULL, 4}, {"tflops", AT_COLUMN_NUMBER, NULL, 3},
    {"right", AT_COLUMN_TEXT, NULL, 0},     {"faster", AT_COLUMN_TEXT, NULL, 0},
    {"state", AT_COLUMN_TEXT, NULL, 0},
};

/* A verdict beside one peer in one mode, or beside nobody. */
typedef struct row {
    const at_verdict *verdict;
    const char *state;
    const char *peer, *mode;
    const at_ratio *ratio;
    at_outcome faster;
} row;

static const at_ratio no_ratio = {.r = {NAN, NAN, NAN}, .candidate_us = NAN, .peer_us = NAN, .median_r = NAN};

static row row_of_none(const at_verdict *verdict, const char *state)
{
    return (row){verdict, state, "", "", &no_ratio, verdict->fast};
}

static row row_of(const at_verdict *verdict, const char *state, int arm, at_mode mode)
{
    const at_speed *speed = &verdict->speed[arm];
    return (row){verdict,
                 state,
                 verdict->arm[arm].name,
                 at_mode_name(mode),
                 speed->known[mode] ? &speed->ratio[mode] : &no_ratio,
                 speed->outcome};
}

static void add_row(at_table *table, const row *of)
{
    const at_verdict *verdict = of->verdict;
    char name[AT_KERNEL_TEXT_MAX];
    at_record_kernel(verdict, name);
    at_table_text(table, verdict->target.model);
    at_table_text(table, verdict->problem);
    at_table_text(table, name);
    at_table_text(table, at_record_config(verdict));
    at_table_text(table, of->peer);
    at_table_text(table, of->mode);
    at_table_number(table, of->ratio->median_r);
    at_table_number(table, of->ratio->r.low);
    at_table_number(table, of->ratio->r.high);
    at_table_number(table, of->ratio->candidate_us);
    at_table_number(table, of->ratio->peer_us);
    at_table_number(table, at_verdict_tflops(verdict, of->ratio->candidate_us));
    at_table_text(table, at_outcome_name(verdict->right));
    at_table_text(table, at_outcome_name(of->faster));
    at_table_text(table, of->state);
}

attune_status at_report_rows(at_table **table)
{
    return at_table_create(row_columns, sizeof row_columns / sizeof row_columns[0], table);
}

void at_report_add(at_table *table, const at_verdict *verdict, const char *state)
{
    int rows = 0;
    for (int i = 0; i < verdict->session.arm_count * AT_MODE_COUNT; ++i) {
        int arm = i / AT_MODE_COUNT, mode = i % AT_MODE_COUNT;
        if (at_verdict_is_peer(verdict, arm) && verdict->speed[arm].known[mode]) {
            const row one = row_of(verdict, state, arm, (at_mode)mode);
            add_row(table, &one);
            ++rows;
        }
    }
    if (rows == 0) {
        const row none = row_of_none(verdict, state);
        add_row(table, &none);
    }
}

static attune_status print_rows(const at_archive *archive, unsigned which, at_format format, FILE *out)
{
    at_table *table = NULL;
    AT_FORWARD(at_report_rows(&table));
    for (size_t i = 0; i < archive->count; ++i) {
        if (at_report_shows(&archive->record[i], which)) {
            at_report_add(table, verdict_of(&archive->record[i]), at_freshness_name(archive->record[i].state));
        }
    }
    attune_status status = at_table_print(table, format, out);
    at_table_destroy(table);
    return status;
}

/* ---- Text for people --------------------------------------------------------------------------------------------- */

static const at_column text_columns[] = {
    {"kernel", AT_COLUMN_TEXT, NULL, 0},    {"us", AT_COLUMN_NUMBER, NULL, 4},
    {"TFLOP/s", AT_COLUMN_NUMBER, NULL, 3}, {"peer", AT_COLUMN_TEXT, NULL, 0},
    {"us", AT_COLUMN_NUMBER, NULL, 4},      {"times as fast", AT_COLUMN_NUMBER, NULL, 4},
    {"from", AT_COLUMN_NUMBER, NULL, 4},    {"to", AT_COLUMN_NUMBER, NULL, 4},
    {"cold", AT_COLUMN_NUMBER, NULL, 4},    {"right", AT_COLUMN_TEXT, NULL, 0},
    {"faster", AT_COLUMN_TEXT, NULL, 0},    {"state", AT_COLUMN_TEXT, NULL, 0},
};

static void add_line(at_table *table, const char *kernel, const row *of, double cold)
{
    const at_verdict *verdict = of->verdict;
    at_table_text(table, kernel);
    at_table_number(table, of->ratio->candidate_us);
    at_table_number(table, at_verdict_tflops(verdict, of->ratio->candidate_us));
    at_table_text(table, of->peer);
    at_table_number(table, of->ratio->peer_us);
    at_table_number(table, of->ratio->r.middle);
    at_table_number(table, of->ratio->r.low);
    at_table_number(table, of->ratio->r.high);
    at_table_number(table, cold);
    at_table_text(table, at_outcome_name(verdict->right));
    at_table_text(table, at_outcome_name(of->faster));
    at_table_text(table, of->state);
}

static void add_lines(at_table *table, const at_record *record)
{
    const at_verdict *verdict = verdict_of(record);
    const char *state = at_freshness_name(record->state);
    const char *kernel = verdict->kernel; /* in the first of its lines */
    for (int arm = 1; arm < verdict->session.arm_count; ++arm) {
        if (at_verdict_is_peer(verdict, arm)) {
            const row warm = row_of(verdict, state, arm, AT_MODE_WARM),
                      cold = row_of(verdict, state, arm, AT_MODE_COLD);
            add_line(table, kernel, &warm, cold.ratio->median_r);
            kernel = "";
        }
    }
    if (kernel[0] != '\0') {
        const row none = row_of_none(verdict, state);
        add_line(table, kernel, &none, NAN);
    }
}

/* What a table has no room for. */
void at_report_notes(const at_record *record, FILE *out)
{
    const at_verdict *verdict = verdict_of(record);
    (void)fprintf(out, "  %s, %s%s\n", verdict->kernel, verdict->when, verdict->options.quick ? ", quick" : "");
    for (int stage = 0; stage < AT_STAGE_SPEED; ++stage) {
        const at_stage_finding *finding = &verdict->finding[stage];
        if (finding->outcome != AT_PASS && finding->outcome != AT_NOT_RUN) {
            (void)fprintf(out, "    %s: %s: %s\n", at_stage_name((at_stage)stage), at_outcome_name(finding->outcome),
                          finding->sentence);
        }
    }
    if (verdict->finding[AT_STAGE_SPEED].sentence[0] != '\0') {
        (void)fprintf(out, "    speed: %s\n", verdict->finding[AT_STAGE_SPEED].sentence);
    }
    for (int control = 0; control < AT_CONTROL_COUNT; ++control) {
        if (verdict->control[control].outcome != AT_NOT_RUN) {
            (void)fprintf(out, "    control %s: %s: %s\n", at_control_name((at_control_kind)control),
                          at_outcome_name(verdict->control[control].outcome), verdict->control[control].sentence);
        }
    }
    if (verdict->counters.asked) {
        const at_counters *counters = &verdict->counters;
        (void)fprintf(out, "    counters: %s\n",
                      counters->why_not[0] != '\0' ? counters->why_not : counters->diagnosis);
    }
    for (int i = 0; i < verdict->sanitizer_count; ++i) {
        char said[AT_SANITIZER_SENTENCE];
        (void)fprintf(out, "    %s\n", at_sanitizer_print(&verdict->sanitizer[i], said));
    }
    if (record->why[0] != '\0') {
        (void)fprintf(out, "    %s: %s\n", at_freshness_name(record->state), record->why);
    }
}

bool at_report_same_section(const at_archive *archive, size_t first, size_t index, unsigned which)
{
    const at_record *one = &archive->record[first], *other = &archive->record[index];
    const at_verdict *a = verdict_of(one), *b = verdict_of(other);
    return a != NULL && b != NULL && at_report_shows(one, which) && at_report_shows(other, which) &&
           strcmp(a->target.model, b->target.model) == 0 && strcmp(a->problem, b->problem) == 0;
}

bool at_report_opens(const at_archive *archive, size_t index, unsigned which)
{
    for (size_t i = 0; i < index; ++i) {
        if (at_report_same_section(archive, index, i, which)) {
            return false;
        }
    }
    return at_report_shows(&archive->record[index], which);
}

attune_status at_report_section(const at_archive *archive, size_t first, unsigned which, at_table **table)
{
    AT_FORWARD(at_table_create(text_columns, sizeof text_columns / sizeof text_columns[0], table));
    for (size_t i = first; i < archive->count; ++i) {
        if (at_report_same_section(archive, first, i, which)) {
            add_lines(*table, &archive->record[i]);
        }
    }
    return ATTUNE_OK;
}

static attune_status print_section(const at_archive *archive, size_t first, unsigned which, FILE *out)
{
    const at_verdict *head = verdict_of(&archive->record[first]);
    at_table *table = NULL;
    AT_FORWARD(at_report_section(archive, first, which, &table));
    (void)fprintf(out, "%s on %s\n\n", head->problem, head->target.model);
    attune_status status = at_table_print(table, AT_FORMAT_TEXT, out);
    (void)fputc('\n', out);
    for (size_t i = first; i < archive->count; ++i) {
        if (at_report_same_section(archive, first, i, which)) {
            at_report_notes(&archive->record[i], out);
        }
    }
    (void)fputc('\n', out);
    at_table_destroy(table);
    return status;
}

static attune_status print_text(const at_archive *archive, unsigned which, FILE *out)
{
    for (size_t i = 0; i < archive->count; ++i) {
        if (at_report_opens(archive, i, which)) {
            AT_FORWARD(print_section(archive, i, which, out));
        }
    }
    return ATTUNE_OK;
}

attune_status at_report_verdicts(const at_archive *archive, unsigned which, at_format format, FILE *out)
{
    return format == AT_FORMAT_TEXT ? print_text(archive, which, out) : print_rows(archive, which, format, out);
}

/* ---- Freshness --------------------------------------------------------------------------------------------------- */

attune_status at_report_freshness(const at_archive *archive, at_format format, FILE *out)
{
    static const at_column columns[] = {
        {"state", AT_COLUMN_TEXT, NULL, 0},   {"device", AT_COLUMN_TEXT, NULL, 0}, {"kernel", AT_COLUMN_TEXT, NULL, 0},
        {"problem", AT_COLUMN_TEXT, NULL, 0}, {"when", AT_COLUMN_TEXT, NULL, 0},   {"newest", AT_COLUMN_TEXT, NULL, 0},
        {"file", AT_COLUMN_TEXT, NULL, 0},    {"why", AT_COLUMN_TEXT, NULL, 0},
    };
    at_table *table = NULL;
    AT_FORWARD(at_table_create(columns, sizeof columns / sizeof columns[0], &table));
    for (size_t i = 0; i < archive->count; ++i) {
        const at_record *record = &archive->record[i];
        const at_verdict *verdict = verdict_of(record);
        at_table_text(table, at_freshness_name(record->state));
        at_table_text(table, verdict != NULL ? verdict->target.model : "");
        at_table_text(table, verdict != NULL ? verdict->kernel : "");
        at_table_text(table, verdict != NULL ? verdict->problem : "");
        at_table_text(table, verdict != NULL ? verdict->when : "");
        at_table_text(table, record->newest ? "yes" : "no");
        at_table_text(table, record->file);
        at_table_text(table, record->why);
    }
    attune_status status = at_table_print(table, format, out);
    at_table_destroy(table);
    return status;
}
