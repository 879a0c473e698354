#include "evolve/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "measure/statistics.h"

/* ---- What a ledger recorded -------------------------------------------------------------------------------------- */

/* Appends `count` values to *list, which has *length of them. */
static attune_status append(double **list, int *length, const double *values, int count)
{
    double *grown = realloc(*list, ((size_t)*length + (size_t)count) * sizeof *grown);
    AT_FAIL_IF(grown == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for the times of a ledger");
    memcpy(grown + *length, values, (size_t)count * sizeof *grown);
    *list = grown;
    *length += count;
    return ATTUNE_OK;
}

/* A champion, and the logarithm of the median of its times. */
typedef struct level {
    const char *champion; /* NULL: none looked up yet */
    double log_us;
} level;

static attune_status find_level(const at_ledger_log *from, const char *champion, level *of)
{
    double *all = NULL;
    double median = 1;
    int count = 0;
    attune_status status = ATTUNE_OK;
    if (of->champion != NULL && strcmp(of->champion, champion) == 0) {
        return ATTUNE_OK;
    }
    for (size_t i = 0; i < from->count && status == ATTUNE_OK; ++i) {
        const at_event_measurement *measured = &from->event[i].as.measurement;
        if (from->event[i].kind == AT_EVENT_MEASUREMENT && strcmp(measured->champion, champion) == 0) {
            status = append(&all, &count, measured->champion_us, measured->pairs);
        }
    }
    if (status == ATTUNE_OK) {
        status = at_median(all, (size_t)count, &median);
    }
    free(all);
    *of = (level){champion, log(median)};
    return status;
}

static attune_status take_measurement(const at_event_measurement *measured, double log_us, at_record *record)
{
    double sample[AT_EVENT_PAIRS_MAX];
    for (int i = 0; i < measured->pairs; ++i) {
        sample[i] = log(measured->us[i] / measured->champion_us[i]) + log_us;
    }
    return append(&record->log_us, &record->pairs, sample, measured->pairs);
}

/* The record of a config; NULL, which is passed over, for one that is no candidate of the space. */
static at_record *record_of(at_recorded *recorded, const char *config)
{
    int candidate = at_space_find_text(recorded->space, config);
    return candidate < 0 ? NULL : &recorded->record[candidate];
}

static attune_status take_event(const at_ledger_log *log, const at_event *event, level *of, at_recorded *recorded)
{
    at_record *record;
    switch (event->kind) {
    case AT_EVENT_MEASUREMENT:
        record = record_of(recorded, event->as.measurement.config);
        AT_FORWARD(find_level(log, event->as.measurement.champion, of));
        return record == NULL ? ATTUNE_OK : take_measurement(&event->as.measurement, of->log_us, record);
    case AT_EVENT_REFUSAL:
        record = record_of(recorded, event->as.refusal.config);
        if (record != NULL) {
            record->refused = event->as.refusal.refused;
        }
        return ATTUNE_OK;
    case AT_EVENT_BUILD:
        record = record_of(recorded, event->as.build.config);
        if (record != NULL) {
            record->figures = event->as.build.figures;
        }
        return ATTUNE_OK;
    default:
        return ATTUNE_OK;
    }
}

static attune_status summarise(at_recorded *recorded)
{
    recorded->best = -1;
    for (int i = 0; i < recorded->space->count; ++i) {
        at_record *record = &recorded->record[i];
        recorded->missing += record->pairs == 0 && record->refused == AT_RAN;
        if (record->pairs == 0 || record->refused != AT_RAN) {
            continue;
        }
        AT_FORWARD(at_median(record->log_us, (size_t)record->pairs, &record->middle));
        ++recorded->ran;
        if (recorded->best < 0 || record->middle < recorded->record[recorded->best].middle) {
            recorded->best = i;
        }
    }
    return ATTUNE_OK;
}

static attune_status take_log(const at_ledger_log *log, at_recorded *recorded)
{
    level of = {NULL, 0};
    recorded->space = log->space;
    recorded->record = calloc((size_t)log->space->count, sizeof *recorded->record);
    AT_FAIL_IF(recorded->record == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a ledger's records");
    for (size_t i = 0; i < log->count; ++i) {
        AT_FORWARD(take_event(log, &log->event[i], &of, recorded));
    }
    return summarise(recorded);
}

attune_status at_recorded_open(const at_ledger_log *log, at_recorded **recorded)
{
    *recorded = NULL;
    AT_FAIL_IF(log->space == NULL, ATTUNE_UNSUPPORTED, "the ledger has no space event: its search never began");
    at_recorded *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a ledger's records");
    attune_status status = take_log(log, made);
    if (status != ATTUNE_OK) {
        at_recorded_close(made);
        return status;
    }
    *recorded = made;
    return ATTUNE_OK;
}

void at_recorded_close(at_recorded *recorded)
{
    if (recorded != NULL) {
        for (int i = 0; recorded->record != NULL && i < recorded->space->count; ++i) {
            free(recorded->record[i].log_us);
        }
        free(recorded->record);
        free(recorded);
    }
}

/* ---- Running a strategy ------------------------------------------------------------------------------------------ */

enum { LOOKS = 3 /* at who leads */ };

typedef struct simulation {
    const at_recorded *recorded;
    const at_replay_options *options;
    at_strategy *strategy;
    unsigned char *looks; /* [candidates]: how often each was looked at */
    double *drawn;        /* room for any record's pairs */
    double *reached;
    int used, budget;
} simulation;

/* The recorded pairs in an order by chance, which is the same at every look of one replay. */
static void shuffle(const simulation *of, int candidate)
{
    const at_record *record = &of->recorded->record[candidate];
    at_random random = at_random_seed(of->options->seed, 16 + (uint64_t)candidate);
    for (int i = 0; i < record->pairs; ++i) {
        int other = (int)at_random_below(&random, (uint64_t)i + 1);
        of->drawn[i] = of->drawn[other];
        of->drawn[other] = record->log_us[i];
    }
}

/* How many of its pairs are seen after the looks so far. */
static int pairs_seen(const simulation *of, int candidate)
{
    int all = of->recorded->record[candidate].pairs;
    int64_t seen = (int64_t)of->options->look * of->looks[candidate];
    return of->options->look <= 0 || seen > all ? all : (int)seen;
}

/* One measurement: tells the strategy all that was seen of the candidate so far. */
static attune_status look_at(simulation *of, int candidate)
{
    const at_record *record = &of->recorded->record[candidate];
    at_tried tried = {.candidate = candidate, .refused = record->refused, .figures = record->figures};
    ++of->looks[candidate];
    if (record->refused == AT_RAN) {
        shuffle(of, candidate);
        AT_FORWARD(at_median(of->drawn, (size_t)pairs_seen(of, candidate), &tried.log_us));
    }
    AT_FORWARD(at_strategy_tell(of->strategy, &tried));
    int best = of->strategy->best;
    of->reached[of->used++] =
        best < 0 ? 0 : exp(of->recorded->record[of->recorded->best].middle - of->recorded->record[best].middle);
    return ATTUNE_OK;
}

/* Looks at who leads until it is known well. */
static attune_status confirm(simulation *of)
{
    int best = of->strategy->best;
    while (of->used < of->budget && best >= 0 && of->looks[best] < LOOKS &&
           pairs_seen(of, best) < of->recorded->record[best].pairs) {
        AT_FORWARD(look_at(of, best));
        best = of->strategy->best;
    }
    return ATTUNE_OK;
}

/* Asks for a batch as long as there is budget; returns how many there were. */
static int ask_batch(const simulation *of, int batch, int *asked)
{
    int most = of->budget - of->used;
    int count = 0;
    while (count < batch && count < most && (asked[count] = at_strategy_ask(of->strategy)) >= 0) {
        ++count;
    }
    return count;
}

static attune_status simulate(simulation *of)
{
    int batch = of->options->batch < AT_REPLAY_BATCH_MAX ? of->options->batch : AT_REPLAY_BATCH_MAX;
    int asked[AT_REPLAY_BATCH_MAX];
    int count;
    while ((count = ask_batch(of, batch > 1 ? batch : 1, asked)) > 0) {
        for (int i = 0; i < count; ++i) {
            AT_FORWARD(look_at(of, asked[i]));
        }
        AT_FORWARD(confirm(of));
    }
    for (; of->used < of->budget; ++of->used) { /* it has ended by itself */
        of->reached[of->used] = of->used > 0 ? of->reached[of->used - 1] : 0;
    }
    return ATTUNE_OK;
}

int at_replay_budget(const at_recorded *recorded, const at_replay_options *options)
{
    int all = recorded->space->count;
    return options->budget > 0 && options->budget < all ? options->budget : all;
}

attune_status at_replay_run(const at_recorded *recorded, const at_replay_options *options, double *reached)
{
    AT_FAIL_IF(
        recorded->missing > 0, ATTUNE_UNSUPPORTED,
        "%d of the ledger's %d candidates were never measured: a replay needs the ledger of an exhaustive search",
        recorded->missing, recorded->space->count);
    AT_FAIL_IF(recorded->best < 0, ATTUNE_UNSUPPORTED, "every candidate of the ledger was refused");
    int budget = at_replay_budget(recorded, options);
    at_strategy_options how = {.seed = options->seed, .fitness = options->fitness, .budget = budget};
    simulation of = {.recorded = recorded, .options = options, .reached = reached, .budget = budget};
    at_space space = *recorded->space; /* borrows */
    space.order_count = options->blind ? 0 : space.order_count;
    size_t pairs = 1;
    for (int i = 0; i < recorded->space->count; ++i) {
        pairs = (size_t)recorded->record[i].pairs > pairs ? (size_t)recorded->record[i].pairs : pairs;
    }
    AT_FORWARD(at_strategy_create(options->strategy, &space, &how, &of.strategy));
    of.looks = calloc((size_t)recorded->space->count, 1);
    of.drawn = malloc(pairs * sizeof *of.drawn);
    attune_status status = of.looks != NULL && of.drawn != NULL
                               ? simulate(&of)
                               : at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a replay of %d candidates", budget);
    free(of.looks);
    free(of.drawn);
    at_strategy_destroy(of.strategy);
    return status;
}
