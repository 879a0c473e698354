#include "cli/evolve_replay.h"

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "evolve/study.h"

enum {
    REPEAT = 20,     /* seeds */
    LOOK = 5,        /* pairs that a search sees of a candidate */
    BUDGET = 15,     /* per cent of the candidates */
    STRATEGIES = 16, /* at most */
};

#define GOAL 0.97

static const at_column columns[] = {
    {"problem", AT_COLUMN_TEXT, NULL, 0},     {"candidates", AT_COLUMN_INTEGER, NULL, 0},
    {"strategy", AT_COLUMN_TEXT, NULL, 0},    {"budget", AT_COLUMN_INTEGER, NULL, 0},
    {"at_eighth", AT_COLUMN_NUMBER, NULL, 4}, {"at_third", AT_COLUMN_NUMBER, NULL, 4},
    {"at_budget", AT_COLUMN_NUMBER, NULL, 4}, {"least", AT_COLUMN_NUMBER, NULL, 4},
    {"needed_97", AT_COLUMN_NUMBER, NULL, 3}, {"arrived_97", AT_COLUMN_INTEGER, NULL, 0},
};

/* What one strategy reached on all ledgers together. */
typedef struct tally {
    double eighth, third, budget, least;
    double needed;
    int measurements, candidates;
    int arrived;
} tally;

typedef struct job {
    const at_cli *cli;
    at_replay_options options;
    int repeat;
    const char *strategy[STRATEGIES];
    int strategies;
    tally tally[STRATEGIES];
    int ledgers;
    at_table *table;
} job;

/* ---- The command line -------------------------------------------------------------------------------------------- */

/* "200runs"; without it a share of the candidates, of each ledger its own. */
static attune_status read_budget(job *on)
{
    const char *text = at_cli_text(on->cli, "--budget");
    size_t length = text == NULL ? 0 : strspn(text, "0123456789");
    char number[16] = "";
    int64_t runs = 0;
    if (text != NULL) {
        AT_FAIL_IF(length == 0 || length >= sizeof number || strcmp(text + length, "runs") != 0,
                   ATTUNE_INVALID_ARGUMENT, "--budget %s: a replay takes a number of measurements, as 200runs", text);
        memcpy(number, text, length);
        AT_FORWARD(at_parse_int64("--budget", number, 1, AT_SPACE_TOTAL_MAX, &runs));
    }
    on->options.budget = (int)runs;
    return ATTUNE_OK;
}

static attune_status read_job(job *on)
{
    const char *strategy = at_cli_text(on->cli, "--strategy");
    int64_t seed, repeat;
    for (int i = 0; strategy == NULL && i < STRATEGIES && at_strategy_kinds[i] != NULL; ++i) {
        on->strategy[on->strategies++] = at_strategy_kinds[i]->name;
    }
    if (strategy != NULL) {
        on->strategy[on->strategies++] = strategy;
    }
    AT_FORWARD(at_cli_integer(on->cli, "--seed", 0, INT64_MAX / 2, 1, &seed));
    AT_FORWARD(at_cli_integer(on->cli, "--repeat", 1, 10000, REPEAT, &repeat));
    on->options.seed = (uint64_t)seed;
    on->options.fitness = at_cli_evolve_fitness(on->cli);
    on->options.look = LOOK;
    on->options.blind = at_cli_given(on->cli, "--blind");
    on->repeat = (int)repeat;
    return read_budget(on);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static void add_row(job *on, const char *problem, const char *strategy, const tally *row)
{
    at_table_text(on->table, problem);
    at_table_integer(on->table, row->candidates);
    at_table_text(on->table, strategy);
    at_table_integer(on->table, row->measurements);
    at_table_number(on->table, row->eighth);
    at_table_number(on->table, row->third);
    at_table_number(on->table, row->budget);
    at_table_number(on->table, row->least);
    at_table_number(on->table, row->needed);
    at_table_integer(on->table, row->arrived);
}

static double share_of(const at_study *study, int part)
{
    int at = study->budget / part;
    return study->mean[at > 0 ? at - 1 : 0];
}

/* Means over the ledgers so far; the least of all. */
static void add_to_tally(job *on, const tally *row, tally *to)
{
    double weight = 1.0 / (on->ledgers + 1);
    to->eighth += (row->eighth - to->eighth) * weight;
    to->third += (row->third - to->third) * weight;
    to->budget += (row->budget - to->budget) * weight;
    to->needed += (row->needed - to->needed) * weight;
    to->least = on->ledgers == 0 ? row->least : fmin(to->least, row->least);
    to->measurements += row->measurements;
    to->candidates += row->candidates;
    to->arrived += row->arrived;
}

static attune_status run_strategy(job *on, const at_recorded *recorded, const char *problem, int index)
{
    at_replay_options options = on->options;
    at_study *study;
    int all = recorded->space->count;
    options.strategy = on->strategy[index];
    options.budget = options.budget > 0 ? options.budget : all * BUDGET / 100 > 0 ? all * BUDGET / 100 : 1;
    AT_FORWARD(at_study_run(recorded, &options, on->repeat, GOAL, &study));
    int last = study->budget - 1;
    tally row = {.eighth = share_of(study, 8),
                 .third = share_of(study, 3),
                 .budget = study->mean[last],
                 .least = study->low[last],
                 .needed = study->needed,
                 .measurements = study->budget,
                 .candidates = all,
                 .arrived = study->arrived};
    at_study_free(study);
    add_row(on, problem, on->strategy[index], &row);
    add_to_tally(on, &row, &on->tally[index]);
    return ATTUNE_OK;
}

static attune_status run_recorded(job *on, const at_recorded *recorded, const char *problem)
{
    for (int i = 0; i < on->strategies; ++i) {
        AT_FAIL_IF(at_cli_interrupted(), ATTUNE_INTERRUPTED, "interrupted");
        AT_FORWARD(run_strategy(on, recorded, problem, i));
    }
    ++on->ledgers;
    return ATTUNE_OK;
}

static attune_status run_ledger(job *on, const char *path)
{
    at_ledger_log *log;
    at_recorded *recorded = NULL;
    AT_FORWARD(at_ledger_read(path, &log));
    attune_status status = at_recorded_open(log, &recorded);
    if (status == ATTUNE_OK) {
        status = run_recorded(on, recorded, log->event[0].as.start.problem);
    }
    if (status != ATTUNE_OK) {
        status = at_fail_in(status, "%s", path);
    }
    at_recorded_close(recorded);
    at_ledger_free(log);
    return status;
}

static attune_status run_all(job *on)
{
    AT_FORWARD(at_table_create(columns, sizeof columns / sizeof columns[0], &on->table));
    for (int i = 1; i < on->cli->operand_count; ++i) {
        AT_FORWARD(run_ledger(on, on->cli->operand[i]));
    }
    for (int i = 0; on->ledgers > 1 && i < on->strategies; ++i) {
        add_row(on, "all", on->strategy[i], &on->tally[i]);
    }
    return at_table_print(on->table, at_cli_format(on->cli), on->cli->out);
}

at_fitness at_cli_evolve_fitness(const at_cli *cli)
{
    const char *text = at_cli_text(cli, "--fitness");
    return text != NULL && strcmp(text, "composite") == 0 ? AT_FITNESS_COMPOSITE : AT_FITNESS_TIME;
}

int at_cli_evolve_replay(const at_cli *cli)
{
    job on = {.cli = cli};
    if (cli->operand_count < 2) {
        return at_cli_usage(cli, "replay: the ledgers of exhaustive searches are needed");
    }
    if (read_job(&on) != ATTUNE_OK) {
        return at_cli_usage(cli, "%s", attune_last_detail());
    }
    attune_status status = run_all(&on);
    at_table_destroy(on.table);
    return status == ATTUNE_OK ? AT_EXIT_OK : at_cli_fail(cli, status);
}
