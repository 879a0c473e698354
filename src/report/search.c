#include "report/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "evolve/importance.h"
#include "evolve/study.h"
#include "report/html.h"
#include "report/plot.h"

enum {
    FASTEST = 8,
    SEEDS = 20,
    LOOK = 5,   /* pairs */
    SHARE = 15, /* per cent of the space that replays may measure */
};

/* ---- Candidates -------------------------------------------------------------------------------------------------- */

static bool ran(const at_record *record)
{
    return record->refused == AT_RAN && record->pairs > 0;
}

static bool was_looked_at(const at_record *record)
{
    return record->refused != AT_RAN || record->pairs > 0;
}

static int by_time(const void *a, const void *b, void *self)
{
    const at_recorded *recorded = self;
    const at_record *one = &recorded->record[*(const int *)a];
    const at_record *other = &recorded->record[*(const int *)b];
    if (!ran(one) || !ran(other)) {
        return (int)ran(other) - (int)ran(one);
    }
    return one->middle < other->middle ? -1 : one->middle > other->middle;
}

/* Those that were looked at, the fastest first, into `order`, which has room for all; returns how many. */
static int sort_candidates(at_recorded *recorded, int *order)
{
    int count = 0;
    for (int candidate = 0; candidate < recorded->space->count; ++candidate) {
        if (was_looked_at(&recorded->record[candidate])) {
            order[count++] = candidate;
        }
    }
    qsort_r(order, (size_t)count, sizeof *order, by_time, recorded);
    return count;
}

static const at_column columns[] = {
    {"config", AT_COLUMN_TEXT, NULL, 0},   {"us", AT_COLUMN_NUMBER, NULL, 4},    {"of_best", AT_COLUMN_NUMBER, NULL, 4},
    {"pairs", AT_COLUMN_INTEGER, NULL, 0}, {"refused", AT_COLUMN_TEXT, NULL, 0},
};

static void add_row(at_table *table, const at_recorded *recorded, int candidate)
{
    const at_record *record = &recorded->record[candidate];
    char config[AT_KERNEL_TEXT_MAX];
    at_space_print(recorded->space, candidate, config);
    at_table_text(table, config);
    at_table_number(table, ran(record) ? exp(record->middle) : NAN);
    at_table_number(table, ran(record) ? exp(recorded->record[recorded->best].middle - record->middle) : NAN);
    at_table_integer(table, record->pairs);
    at_table_text(table, at_names_of_refused[record->refused]);
}

attune_status at_report_search(const at_ledger_log *log, at_format format, FILE *out)
{
    at_recorded *recorded;
    at_table *table = NULL;
    AT_FORWARD(at_recorded_open(log, &recorded));
    int *order = calloc((size_t)recorded->space->count, sizeof *order);
    attune_status status = order == NULL ? at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a report")
                                         : at_table_create(columns, sizeof columns / sizeof columns[0], &table);
    if (status == ATTUNE_OK) {
        int count = sort_candidates(recorded, order);
        for (int i = 0; i < count; ++i) {
            add_row(table, recorded, order[i]);
        }
        status = at_table_print(table, format, out);
    }
    at_table_destroy(table);
    free(order);
    at_recorded_close(recorded);
    return status;
}

/* ---- The page: what was asked, what came out ----------------------------------------------------------------------
 */

typedef struct sheet {
    const at_ledger_log *log;
    at_recorded *recorded;
    int *order;
    int count;
    at_text *page;
} sheet;

static void add_fact(const sheet *of, const char *name, const char *words)
{
    if (words[0] != '\0') {
        at_text_add(of->page, "<tr><th>%s</th><td>", name);
        at_html_words(of->page, words);
        at_text_add(of->page, "</td></tr>\n");
    }
}

static const at_event_end *end_of(const at_ledger_log *log)
{
    return log->ended ? &log->event[log->count - 1].as.end : NULL;
}

static void add_facts(const sheet *of)
{
    const at_event_start *start = &of->log->event[0].as.start;
    const at_event_end *end = end_of(of->log);
    char counts[200];
    at_text text;
    at_text_init_fixed(&text, counts, sizeof counts);
    at_text_add(&text, "%d of %lld combinations; %d were timed, %d refused", of->recorded->space->count,
                (long long)of->recorded->space->total, of->recorded->ran, of->count - of->recorded->ran);
    at_text_add(of->page, "<table class=\"facts\">\n");
    add_fact(of, "problem", start->problem);
    add_fact(of, "target", start->target);
    add_fact(of, "strategy", start->strategy);
    add_fact(of, "one config", start->one);
    add_fact(of, "budget", start->budget);
    add_fact(of, "candidates", counts);
    add_fact(of, "timed", start->policy);
    add_fact(of, "came out", end == NULL ? "the search has no end: it was interrupted, or goes on" : end->outcome);
    add_fact(of, "best", end == NULL ? "" : end->best);
    add_fact(of, "because", end == NULL ? "" : end->why);
    add_fact(of, "attune", start->attune);
    add_fact(of, "source", start->source);
    at_text_add(of->page, "</table>\n");
}

/* ---- Best so far ------------------------------------------------------------------------------------------------- */

/* A walk along a ledger: what was known when 1, 2, ... candidates had been measured. */
typedef struct walk {
    const at_recorded *recorded;
    bool *met;       /* [space->count] */
    double *reached; /* [space->count]: the best time of all / the best so far */
    double least;
    int count;
} walk;

static void meet(walk *on, const char *config)
{
    int candidate = at_space_find_text(on->recorded->space, config);
    const at_record *record = on->recorded->record;
    if (candidate < 0 || on->met[candidate] || !ran(&record[candidate])) {
        return;
    }
    on->met[candidate] = true;
    on->least = fmin(on->least, record[candidate].middle);
    on->reached[on->count++] = exp(record[on->recorded->best].middle - on->least);
}

/* Candidates are judged by all of their pairs. The first champion was timed beside the others and has no measurement of
 * its own until the final. */
static void follow_search(const at_ledger_log *log, walk *on)
{
    for (size_t i = 0; i < log->count; ++i) {
        const at_event_measurement *measured = &log->event[i].as.measurement;
        if (log->event[i].kind == AT_EVENT_MEASUREMENT && measured->round == 0) {
            meet(on, measured->champion);
            meet(on, measured->config);
        }
    }
}

static double least_of(const at_plot_line *lines, int count)
{
    double least = 1;
    for (int i = 0; i < count; ++i) {
        for (int k = 0; k < lines[i].count; ++k) {
            least = lines[i].y[k] > 0 ? fmin(least, lines[i].y[k]) : least;
        }
    }
    return fmin(0.98, fmax(0.5, floor(least * 20) / 20));
}

static attune_status plot_search(const sheet *of)
{
    size_t count = (size_t)of->recorded->space->count;
    walk on = {.recorded = of->recorded,
               .met = calloc(count, sizeof *on.met),
               .reached = calloc(count, sizeof *on.reached),
               .least = HUGE_VAL};
    attune_status status =
        on.met == NULL || on.reached == NULL ? at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a plot") : ATTUNE_OK;
    if (status == ATTUNE_OK) {
        follow_search(of->log, &on);
        at_plot_line line = {of->log->event[0].as.start.strategy, on.reached, on.count};
        at_plot_lines(of->page, "candidates measured", "the best time of all / the best so far", least_of(&line, 1), 1,
                      &line, 1);
    }
    free(on.met);
    free(on.reached);
    return status;
}

static attune_status study_all(const sheet *of, at_study **study, at_plot_line *line, int *count)
{
    int budget = of->recorded->space->count * SHARE / 100;
    for (int i = 0; i < AT_PLOT_LINES_MAX && at_strategy_kinds[i] != NULL; ++i) {
        at_replay_options options = {.strategy = at_strategy_kinds[i]->name,
                                     .seed = 1,
                                     .look = LOOK,
                                     .budget = budget > 0 ? budget : of->recorded->space->count};
        AT_FORWARD(at_study_run(of->recorded, &options, SEEDS, 1, &study[i]));
        line[i] = (at_plot_line){at_strategy_kinds[i]->name, study[i]->mean, study[i]->budget};
        ++*count;
    }
    return ATTUNE_OK;
}

static attune_status plot_strategies(const sheet *of)
{
    at_study *study[AT_PLOT_LINES_MAX] = {NULL};
    at_plot_line line[AT_PLOT_LINES_MAX];
    int count = 0;
    attune_status status = study_all(of, study, line, &count);
    if (status == ATTUNE_OK) {
        at_plot_lines(
            of->page, "measurements",
            "the best time of all / the time of the candidate that leads, mean of 20 searches by each strategy "
            "replayed on this ledger",
            least_of(line, count), 1, line, count);
    }
    for (int i = 0; i < AT_PLOT_LINES_MAX; ++i) {
        at_study_free(study[i]);
    }
    return status;
}

static attune_status add_progress(const sheet *of)
{
    at_html_element(of->page, "h2", "Best so far");
    if (of->recorded->best < 0) {
        at_html_element(of->page, "p", "Nothing ran.");
        return ATTUNE_OK;
    }
    return of->recorded->missing == 0 ? plot_strategies(of) : plot_search(of);
}

/* ---- Parameters, candidates, refusals, checks -------------------------------------------------------------------- */

static attune_status add_importance(const sheet *of)
{
    const at_space *space = of->recorded->space;
    double importance[ATTUNE_PARAMS_MAX];
    at_plot_bar bar[ATTUNE_PARAMS_MAX];
    char label[ATTUNE_PARAMS_MAX][32];
    double most = 0;
    at_html_element(of->page, "h2", "Which parameters matter");
    attune_status status = at_importance(of->recorded, 1, importance);
    if (status == ATTUNE_UNSUPPORTED) {
        at_html_element(of->page, "p", attune_last_detail());
        return ATTUNE_OK;
    }
    AT_FORWARD(status);
    for (int p = 0; p < space->param_count; ++p) {
        most = fmax(most, importance[p]);
    }
    for (int p = 0; p < space->param_count; ++p) {
        at_text text;
        at_text_init_fixed(&text, label[p], sizeof label[p]);
        at_text_add(&text, "%d %%", (int)lround(100 * importance[p]));
        bar[p] = (at_plot_bar){space->param[p].name, most > 0 ? importance[p] / most : 0, label[p]};
    }
    at_plot_bars(of->page, bar, space->param_count);
    at_html_element(
        of->page, "p",
        "The share of the variance of the measured times that a parameter explains, alone and with others.");
    return ATTUNE_OK;
}

static void add_fastest(const sheet *of)
{
    at_html_element(of->page, "h2", "The fastest");
    at_text_add(of->page, "<table>\n<tr><th>us</th><th>of the best</th><th>pairs</th><th>config</th></tr>\n");
    for (int i = 0; i < of->count && i < FASTEST && ran(&of->recorded->record[of->order[i]]); ++i) {
        const at_record *record = &of->recorded->record[of->order[i]];
        char config[AT_KERNEL_TEXT_MAX], us[48], share[48];
        at_space_print(of->recorded->space, of->order[i], config);
        at_number_print(exp(record->middle), 4, us);
        at_number_print(exp(of->recorded->record[of->recorded->best].middle - record->middle), 4, share);
        at_text_add(of->page, "<tr><td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"n\">%d</td><td><code>", us,
                    share, record->pairs);
        at_html_words(of->page, config);
        at_text_add(of->page, "</code></td></tr>\n");
    }
    at_text_add(of->page, "</table>\n");
}

static void add_refusal(const sheet *of, int count, const char *stage, const char *why)
{
    at_text_add(of->page, "<tr><td class=\"n\">%d</td><td>%s</td><td>", count, stage);
    at_html_words(of->page, why);
    at_text_add(of->page, "</td></tr>\n");
}

/* Before anything was compiled, by reason; then one by one. */
static void add_refusals(const sheet *of)
{
    const at_space *space = of->recorded->space;
    at_html_element(of->page, "h2", "Refused");
    at_text_add(of->page, "<table>\n<tr><th>configs</th><th>when</th><th>for example</th></tr>\n");
    for (int i = 0; i < space->refusal_count; ++i) {
        add_refusal(of, space->refusal[i].count, "before it was made", space->refusal[i].first.text);
    }
    for (size_t i = 0; i < of->log->count; ++i) {
        const at_event *event = &of->log->event[i];
        if (event->kind == AT_EVENT_REFUSAL) {
            add_refusal(of, 1, at_names_of_refused[event->as.refusal.refused], event->as.refusal.why);
        }
    }
    at_text_add(of->page, "</table>\n");
}

static void add_checks(const sheet *of)
{
    at_html_element(of->page, "h2", "What the search found when it looked at itself");
    at_text_add(of->page, "<table class=\"facts\">\n");
    for (size_t i = 0; i < of->log->count; ++i) {
        const at_event_check *check = &of->log->event[i].as.check;
        if (of->log->event[i].kind == AT_EVENT_CHECK) {
            at_text_add(of->page, "<tr><th>%s</th><td>%s</td><td>", at_names_of_checks[check->check],
                        check->holds ? "holds" : "does not hold");
            at_html_words(of->page, check->why);
            at_text_add(of->page, "</td></tr>\n");
        }
    }
    at_text_add(of->page, "</table>\n");
}

static attune_status add_all(const sheet *of)
{
    char title[200];
    at_text text;
    at_text_init_fixed(&text, title, sizeof title);
    at_text_add(&text, "%s: a search", of->log->event[0].as.start.kernel);
    at_html_begin(of->page, title);
    add_facts(of);
    AT_FORWARD(add_progress(of));
    AT_FORWARD(add_importance(of));
    add_fastest(of);
    add_refusals(of);
    add_checks(of);
    at_html_end(of->page);
    return ATTUNE_OK;
}

attune_status at_report_search_page(const at_ledger_log *log, char **page, size_t *bytes)
{
    at_text text;
    sheet of = {.log = log, .page = &text};
    *page = NULL;
    AT_FORWARD(at_recorded_open(log, &of.recorded));
    at_text_init(&text);
    of.order = calloc((size_t)of.recorded->space->count, sizeof *of.order);
    attune_status status = at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a report");
    if (of.order != NULL) {
        of.count = sort_candidates(of.recorded, of.order);
        status = add_all(&of);
    }
    free(of.order);
    at_recorded_close(of.recorded);
    if (status != ATTUNE_OK) {
        at_text_free(&text);
        return status;
    }
    return at_text_take(&text, "a page", page, bytes);
}
