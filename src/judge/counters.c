#include "judge/counters.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/scratch.h"
#include "base/status.h"
#include "wire/process.h"

/* ---- Which metrics ----------------------------------------------------------------------------------------------- */

enum { NAMES = 3 };

/* A counter, and the metrics that say it: the first that the device and its ncu have. */
typedef struct wanted {
    const char *name;
    const char *metric[NAMES];
    bool adds; /* over launches; else the mean, weighted by duration */
    double factor;
} wanted;

#define ACTIVE ".avg.pct_of_peak_sustained_active"
#define ELAPSED ".avg.pct_of_peak_sustained_elapsed"

static const wanted wants[] = {
    {"duration_us", {"gpu__time_duration.sum"}, true, 1e-3},
    {"tensor_pipe_percent",
     {"sm__pipe_tensor_cycles_active" ACTIVE, "sm__pipe_tensor_op_hmma_cycles_active" ACTIVE,
      "sm__inst_executed_pipe_tensor" ACTIVE},
     false,
     1},
    {"sm_throughput_percent", {"sm__throughput" ELAPSED}, false, 1},
    {"issue_percent", {"smsp__issue_active" ACTIVE, "sm__inst_issued" ACTIVE}, false, 1},
    {"active_warps_percent", {"sm__warps_active" ACTIVE}, false, 1},
    {"dram_percent", {"dram__throughput" ELAPSED, "gpu__dram_throughput" ELAPSED}, false, 1},
    {"dram_read_bytes", {"dram__bytes_read.sum"}, true, 1},
    {"dram_write_bytes", {"dram__bytes_write.sum"}, true, 1},
    {"dram_read_sectors", {"dram__sectors_read.sum"}, true, 1},
    {"dram_write_sectors", {"dram__sectors_write.sum"}, true, 1},
    {"l2_hit_percent", {"lts__t_sector_hit_rate.pct"}, false, 1},
};
enum { WANTS = sizeof wants / sizeof wants[0], DURATION = 0 };

/* Whether a line of the query begins with the metric's name, without its suffixes. */
static bool is_known(const char *query, const char *metric)
{
    size_t length = strcspn(metric, ".");
    for (const char *line = query; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, metric, length) == 0 && strchr(" \t\r\n", line[length]) != NULL) {
            return true;
        }
    }
    return false;
}

attune_status at_counters_choose(const char *query, char **metrics)
{
    at_text text;
    at_text_init(&text);
    *metrics = NULL;
    for (int i = 0; i < WANTS; ++i) {
        const char *const *metric = wants[i].metric;
        int name = 0;
        while (name < NAMES && metric[name] != NULL && !is_known(query, metric[name])) {
            ++name;
        }
        if (name < NAMES && metric[name] != NULL) {
            at_text_add(&text, "%s%s", text.length > 0 ? "," : "", metric[name]);
        }
    }
    if (text.length == 0) {
        at_text_free(&text);
        return at_fail(ATTUNE_UNSUPPORTED, "ncu knows none of the metrics: it may not be allowed to read the counters");
    }
    return at_text_take(&text, "the metrics", metrics, NULL);
}

/* ---- ncu --------------------------------------------------------------------------------------------------------- */

attune_status at_counters_find(char **ncu)
{
    return at_process_find("ATTUNE_NCU", "ncu", ncu);
}

/* The list is long, so it goes through a file. */
static attune_status query(const char *ncu, const char *file, char **metrics)
{
    enum { QUERY_S = 60, LIST_MAX = 16 << 20 };
    const char *const command[] = {"sh", "-c", "exec \"$0\" --query-metrics > \"$1\"", ncu, file, NULL};
    char said[AT_SAID_MAX];
    void *list;
    size_t bytes;
    int end;
    AT_FORWARD(at_process_run(command, QUERY_S, said, &end));
    AT_FAIL_IF(end != 0, ATTUNE_UNSUPPORTED, "ncu --query-metrics failed: %.300s", said);
    AT_FORWARD(at_file_read(file, LIST_MAX, &list, &bytes));
    attune_status status = at_counters_choose(list, metrics);
    free(list);
    return status;
}

attune_status at_counters_metrics(const char *ncu, char **metrics)
{
    char file[PATH_MAX];
    at_scratch folder;
    AT_FORWARD(at_scratch_make(&folder));
    (void)snprintf(file, sizeof file, "%s/list", folder.path);
    attune_status status = query(ncu, file, metrics);
    at_scratch_remove(&folder);
    return status;
}

/* ---- ncu's table ------------------------------------------------------------------------------------------------- */

enum { COLUMNS_MAX = 1024 };

typedef struct line {
    int count;
    char *cell[COLUMNS_MAX];
} line;

/* Ends a cell that begins at `at` (in place: quotes go, doubled ones become one) and returns what follows it. */
static char *end_cell(char *at, char **cell, bool *last)
{
    char *to = at;
    bool quoted = *at == '"';
    *cell = at;
    at += quoted;
    while (*at != '\0') {
        if (quoted && at[0] == '"' && at[1] == '"') {
            ++at;
        } else if (quoted && *at == '"') {
            quoted = false;
            ++at;
            continue;
        } else if (!quoted && (*at == ',' || *at == '\n')) {
            break;
        }
        *to++ = *at++;
    }
    *last = *at != ',';
    char *next = *at != '\0' ? at + 1 : at;
    *to = '\0';
    return next;
}

/* The cells of the line at `at`; what is beyond COLUMNS_MAX is passed over. Returns the next line. */
static char *read_line(char *at, line *cells)
{
    bool last = false;
    cells->count = 0;
    while (!last) {
        char *cell;
        at = end_cell(at, &cell, &last);
        cells->cell[cells->count] = cell;
        cells->count += cells->count + 1 < COLUMNS_MAX;
    }
    return at;
}

/* "1,234.5" as ncu prints it; NAN for what is no number. */
static double number(const char *text)
{
    char digits[64];
    size_t length = 0;
    for (; *text != '\0' && length + 1 < sizeof digits; ++text) {
        if (*text != ',') {
            digits[length++] = *text;
        }
    }
    digits[length] = '\0';
    double value = NAN;
    return at_parse_double("a counter", digits, &value) == ATTUNE_OK ? value : NAN;
}

/* "short_scoreboard" of "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio" and of
 * "smsp__average_warp_latency_issue_stalled_short_scoreboard.ratio"; false for other metrics. */
static bool stall_name(const char *metric, char name[32])
{
    static const char before[] = "_issue_stalled_";
    static const char *const after[] = {"_per_issue_active.ratio", ".ratio"};
    const char *begin =
        strncmp(metric, "smsp__average_warp", strlen("smsp__average_warp")) == 0 ? strstr(metric, before) : NULL;
    for (int i = 0; begin != NULL && i < 2; ++i) {
        const char *reason = begin + strlen(before);
        const char *end = strstr(reason, after[i]);
        if (end != NULL && end[strlen(after[i])] == '\0' && (size_t)(end - reason) < 32) {
            memcpy(name, reason, (size_t)(end - reason));
            name[end - reason] = '\0';
            return strcmp(name, "selected") != 0 && strstr(name, "not_issued") == NULL;
        }
    }
    return false;
}

/* ---- Sums over launches ------------------------------------------------------------------------------------------ */

enum { REASONS_MAX = 64 };

typedef struct sums {
    int launches;
    double weight; /* the launch's, its duration */
    double value[WANTS], weights[WANTS];
    int reasons;
    at_counter reason[REASONS_MAX];
} sums;

static const char *cell_of(const line *head, const line *row, const char *metric)
{
    for (int i = 0; i < head->count && i < row->count; ++i) {
        if (strcmp(head->cell[i], metric) == 0) {
            return row->cell[i];
        }
    }
    return "";
}

static double value_of(const line *head, const line *row, const wanted *want)
{
    double value = NAN;
    for (int i = 0; i < NAMES && want->metric[i] != NULL && isnan(value); ++i) {
        value = number(cell_of(head, row, want->metric[i]));
    }
    return value * want->factor;
}

static void add_reason(sums *all, const char *name, double value)
{
    int i = 0;
    while (i < all->reasons && strcmp(all->reason[i].name, name) != 0) {
        ++i;
    }
    if (i == REASONS_MAX) {
        return;
    }
    if (i == all->reasons) {
        (void)snprintf(all->reason[all->reasons++].name, sizeof all->reason[0].name, "%s", name);
    }
    all->reason[i].value += value * all->weight;
}

static void add_launch(sums *all, const line *head, const line *row)
{
    double duration = value_of(head, row, &wants[DURATION]);
    all->weight = duration > 0 ? duration : 1;
    ++all->launches;
    for (int i = 0; i < WANTS; ++i) {
        double value = value_of(head, row, &wants[i]);
        double weight = wants[i].adds ? 1 : all->weight;
        if (isfinite(value)) {
            all->value[i] += value * weight;
            all->weights[i] += weight;
        }
    }
    for (int i = 0; i < head->count && i < row->count; ++i) {
        char name[32];
        double value = stall_name(head->cell[i], name) ? number(row->cell[i]) : NAN;
        if (value > 0 && isfinite(value)) {
            add_reason(all, name, value);
        }
    }
}

/* To a thousandth: what is beyond is not in the counters. */
static double rounded(double value)
{
    return round(value * 1000) / 1000;
}

static void put(at_counters *counters, const char *name, double value)
{
    at_counter *counter = &counters->counter[counters->count++];
    (void)snprintf(counter->name, sizeof counter->name, "%s", name);
    counter->value = rounded(value);
}

static int larger_first(const void *left, const void *right)
{
    const at_counter *a = left, *b = right;
    return (a->value < b->value) - (a->value > b->value);
}

static void sum_up(sums *all, at_counters *counters)
{
    double total = 0;
    counters->count = counters->stalls = 0;
    put(counters, "launches", all->launches);
    for (int i = 0; i < WANTS; ++i) {
        if (all->weights[i] > 0) {
            put(counters, wants[i].name, wants[i].adds ? all->value[i] : all->value[i] / all->weights[i]);
        }
    }
    for (int i = 0; i < all->reasons; ++i) {
        total += all->reason[i].value;
    }
    qsort(all->reason, (size_t)all->reasons, sizeof all->reason[0], larger_first);
    for (int i = 0; i < all->reasons && i < AT_VERDICT_STALLS; ++i) {
        counters->stall[i] = all->reason[i];
        counters->stall[i].value = rounded(100 / total * counters->stall[i].value);
        counters->stalls = i + 1;
    }
}

/* Where there is no table: the first error that ncu reports, else how its words begin. */
static attune_status refuse(const char *what, const char *text)
{
    const char *error = strstr(text, "==ERROR==");
    text = error != NULL ? error : text;
    return at_fail(ATTUNE_CORRUPT, "%s: there is no table in what it says: %.*s", what,
                   error != NULL ? (int)strcspn(text, "\n") : 200, text);
}

/* The table begins with "ID"; its second line holds the units, and no number. */
static attune_status parse(const char *what, char *text, line *head, line *row, sums *all)
{
    char *at = strncmp(text, "\"ID\",", 5) == 0 ? text : strstr(text, "\n\"ID\",");
    if (at == NULL) {
        return refuse(what, text);
    }
    at = read_line(at + (*at == '\n'), head);
    while (*at != '\0') {
        at = read_line(at, row);
        if (row->count > 1 && isfinite(number(row->cell[0]))) {
            add_launch(all, head, row);
        }
    }
    AT_FAIL_IF(all->launches == 0, ATTUNE_CORRUPT, "%s: ncu saw no launch", what);
    return ATTUNE_OK;
}

attune_status at_counters_parse(const char *what, const char *text, size_t bytes, at_counters *counters)
{
    sums all = {.launches = 0};
    char *copy = strndup(text, bytes);
    line *lines = malloc(2 * sizeof *lines);
    attune_status status = copy != NULL && lines != NULL
                               ? parse(what, copy, &lines[0], &lines[1], &all)
                               : at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for ncu's %zu bytes", bytes);
    if (status == ATTUNE_OK) {
        sum_up(&all, counters);
    }
    free(copy);
    free(lines);
    return status;
}

double at_counters_value(const at_counters *counters, const char *name)
{
    for (int i = 0; i < counters->count; ++i) {
        if (strcmp(counters->counter[i].name, name) == 0) {
            return counters->counter[i].value;
        }
    }
    return NAN;
}

/* ---- Diagnosis --------------------------------------------------------------------------------------------------- */

static const char *meaning_of(const char *stall)
{
    static const char *const meanings[][2] = {
        {"long_scoreboard", "waiting for global or local memory"},
        {"short_scoreboard", "waiting for shared memory or special functions"},
        {"wait", "waiting out the fixed latency of dependent instructions"},
        {"barrier", "waiting at barriers for slower warps of the block"},
        {"math_pipe_throttle", "waiting for a free arithmetic pipe"},
        {"mio_throttle", "waiting for room in the queue to shared memory and special functions"},
        {"lg_throttle", "waiting for room in the queue to global memory"},
        {"gmma", "waiting for warp group products"},
        {"warpgroup_arrive", "waiting for the other warps of a warp group"},
        {"not_selected", "ready while other warps were issued"},
        {"no_instruction", "waiting for instructions to be fetched"},
        {"no_instructions", "waiting for instructions to be fetched"},
        {"dispatch_stall", "waiting for the dispatcher"},
        {"imc_miss", "waiting for constants"},
        {"branch_resolving", "waiting for branches"},
        {"membar", "waiting for memory fences"},
        {"sleeping", "asleep, waiting for an asynchronous barrier"},
        {"drain", "waiting for stores at the end"},
    };
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; ++i) {
        if (strcmp(meanings[i][0], stall) == 0) {
            return meanings[i][1];
        }
    }
    return stall;
}

/* What most of the device is busy with, in a few words. */
static const char *bound_by(const at_counters *counters)
{
    double tensor = at_counters_value(counters, "tensor_pipe_percent");
    double dram = at_counters_value(counters, "dram_percent");
    double sm = at_counters_value(counters, "sm_throughput_percent");
    double warps = at_counters_value(counters, "active_warps_percent");
    if (isnan(tensor) && isnan(dram) && isnan(sm)) {
        return "the counters do not show what bounds it";
    }
    if (tensor >= 60) {
        return "bound by the tensor pipes";
    }
    if (dram >= 60) {
        return "bound by DRAM";
    }
    if (sm >= 70) {
        return "bound by the multiprocessors' pipes other than the tensor ones";
    }
    return warps < 15 ? "bound by latency, with few warps to hide it" : "bound by latency";
}

void at_counters_diagnose(at_counters *counters)
{
    double tensor = at_counters_value(counters, "tensor_pipe_percent");
    double warps = at_counters_value(counters, "active_warps_percent");
    double dram = at_counters_value(counters, "dram_percent");
    at_text text;
    at_text_init_fixed(&text, counters->diagnosis, sizeof counters->diagnosis);
    at_text_add(&text, "%s", bound_by(counters));
    if (isfinite(tensor)) {
        at_text_add(&text, "; tensor pipes %.0f %%", tensor);
    }
    if (isfinite(dram)) {
        at_text_add(&text, ", DRAM %.0f %%", dram);
    }
    if (isfinite(warps)) {
        at_text_add(&text, ", %.0f %% of the warps active", warps);
    }
    for (int i = 0; i < counters->stalls && i < 2; ++i) {
        at_text_add(&text, "%s %.0f %% %s", i == 0 ? "; stalls:" : ",", counters->stall[i].value,
                    meaning_of(counters->stall[i].name));
    }
}
