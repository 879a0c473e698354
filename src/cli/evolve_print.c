#include "cli/evolve_print.h"

#include <math.h>
#include <string.h>

#include "base/status.h"

static const at_column columns[] = {
    {"problem", AT_COLUMN_TEXT, NULL, 0},      {"kernel", AT_COLUMN_TEXT, NULL, 0},
    {"outcome", AT_COLUMN_TEXT, NULL, 0},      {"winner", AT_COLUMN_TEXT, NULL, 0},
    {"us", AT_COLUMN_NUMBER, "us", 4},         {"against", AT_COLUMN_TEXT, NULL, 0},
    {"gain", AT_COLUMN_NUMBER, NULL, 4},       {"gain_low", AT_COLUMN_NUMBER, NULL, 4},
    {"gain_high", AT_COLUMN_NUMBER, NULL, 4},  {"author", AT_COLUMN_TEXT, NULL, 0},
    {"tuned", AT_COLUMN_NUMBER, NULL, 4},      {"tuned_low", AT_COLUMN_NUMBER, NULL, 4},
    {"tuned_high", AT_COLUMN_NUMBER, NULL, 4}, {"measured", AT_COLUMN_INTEGER, NULL, 0},
    {"refused", AT_COLUMN_INTEGER, NULL, 0},   {"duplicates", AT_COLUMN_INTEGER, NULL, 0},
    {"champions", AT_COLUMN_INTEGER, NULL, 0}, {"seconds", AT_COLUMN_NUMBER, "s", 3},
};

enum { COLUMNS = sizeof columns / sizeof columns[0] };

/* ---- Words ------------------------------------------------------------------------------------------------------- */

static const char *paint(const at_evolve_printer *on, const char *code)
{
    return on->gate.colour ? code : "";
}

static const char green[] = "\033[32m", red[] = "\033[31m", yellow[] = "\033[33m", bold[] = "\033[1m",
                  plain[] = "\033[0m";

/* Parameters without the kernel's name, which all lines share. */
static const char *parameters(const at_evolve_printer *on, const char *config)
{
    size_t length = strlen(on->kernel);
    return strncmp(config, on->kernel, length) == 0 && config[length] == ':' ? config + length + 1 : config;
}

/* ---- As it goes -------------------------------------------------------------------------------------------------- */

static void on_problem(void *self, const char *problem, const at_space *space, const char *champion, const char *from)
{
    at_evolve_printer *on = self;
    at_progress_end(&on->gate.progress);
    (void)snprintf(on->problem, sizeof on->problem, "%s", problem);
    memset(on->refused, 0, sizeof on->refused);
    (void)fprintf(on->gate.out, "\n%s%s%s\n  %s: %d candidates of %lld combinations, %d live parameters\n",
                  paint(on, bold), problem, paint(on, plain), on->kernel, space->count, (long long)space->total,
                  at_space_live(space));
    for (int i = 0; i < space->refusal_count; ++i) {
        (void)fprintf(on->gate.out, "    %d left out before they were made: %s\n", space->refusal[i].count,
                      space->refusal[i].first.text);
    }
    (void)fprintf(on->gate.out, "    begins with  %s (%s)\n", parameters(on, champion), from);
    (void)fflush(on->gate.out);
}

/* One or two blocks, or a first launch, are enough to leave, and bound nothing. */
static void print_interval(const at_evolve_printer *on, const at_entrant *entrant)
{
    if (entrant->blocks < 3) {
        (void)fprintf(on->gate.out, ", about\n");
    } else {
        (void)fprintf(on->gate.out, " (%.3f to %.3f)\n", exp(entrant->ratio.low), exp(entrant->ratio.high));
    }
}

static void on_tried(void *self, const char *config, const at_entrant *entrant)
{
    at_evolve_printer *on = self;
    at_refused refused = entrant->first.refused;
    if (entrant->result == AT_RACE_REFUSED && on->refused[refused]++ == 0) {
        memcpy(on->first_refusal[refused], entrant->first.why, sizeof on->first_refusal[0]);
    }
    if (!on->each) {
        return;
    }
    at_progress_end(&on->gate.progress);
    if (entrant->result == AT_RACE_REFUSED) {
        (void)fprintf(on->gate.out, "    %-8s %s: %s\n", at_names_of_refused[refused], parameters(on, config),
                      entrant->first.why);
    } else {
        (void)fprintf(on->gate.out, "    %-8s %s: %.3f of the champion's time", at_race_result_name(entrant->result),
                      parameters(on, config), exp(entrant->ratio.middle));
        print_interval(on, entrant);
    }
    (void)fflush(on->gate.out);
}

static void on_champion(void *self, const char *config, double gain)
{
    at_evolve_printer *on = self;
    at_progress_end(&on->gate.progress);
    (void)fprintf(on->gate.out, "    champion     %s, %.3f times as fast as the first\n", parameters(on, config), gain);
    (void)fflush(on->gate.out);
}

static void on_checked(void *self, const at_event_check *check)
{
    at_evolve_printer *on = self;
    at_progress_end(&on->gate.progress);
    (void)fprintf(on->gate.out, "    check        %s%s %s%s: %s\n", paint(on, check->holds ? green : red),
                  at_names_of_checks[check->check], check->holds ? "holds" : "does not hold", paint(on, plain),
                  check->why);
    (void)fflush(on->gate.out);
}

static void on_note(void *self, const char *text)
{
    at_evolve_printer *on = self;
    at_progress_end(&on->gate.progress);
    (void)fprintf(on->gate.out, "    %s\n", text);
    (void)fflush(on->gate.out);
}

static void on_progress(void *self, const char *doing, double done)
{
    at_evolve_printer *on = self;
    at_progress_label(&on->gate.progress, doing);
    at_progress_update(&on->gate.progress, done);
}

static bool is_stopped(void *self)
{
    (void)self;
    return at_cli_interrupted();
}

/* ---- What was found ---------------------------------------------------------------------------------------------- */

static void on_top(void *self, int place, const char *config, double us, double score)
{
    at_evolve_printer *on = self;
    at_progress_end(&on->gate.progress);
    if (place == 1) {
        (void)fprintf(on->gate.out, "    the fastest, as seen on the way, with the composite score\n");
    }
    char time[AT_TIME_TEXT];
    at_time_print(us, time);
    (void)fprintf(on->gate.out, "      %d %10s %6.0f  %s\n", place, time, score, parameters(on, config));
}

static void print_refusals(const at_evolve_printer *on)
{
    for (int i = AT_RAN + 1; i <= AT_REFUSED_WRONG; ++i) {
        if (on->refused[i] > 0) {
            (void)fprintf(on->gate.out, "    %d refused (%s), the first: %s\n", on->refused[i], at_names_of_refused[i],
                          on->first_refusal[i]);
        }
    }
}

static void add_row(const at_evolve_printer *on, const at_search_result *result, const at_found_texts *texts)
{
    at_table *rows = on->rows;
    if (rows == NULL) {
        return;
    }
    at_table_text(rows, on->problem);
    at_table_text(rows, on->kernel);
    at_table_text(rows, at_search_end_name(result->end));
    at_table_text(rows, texts->winner);
    at_table_number(rows, result->us);
    at_table_text(rows, texts->opponent);
    at_table_number(rows, result->gain.middle);
    at_table_number(rows, result->gain.low);
    at_table_number(rows, result->gain.high);
    at_table_text(rows, texts->author);
    at_table_number(rows, result->tuned.middle);
    at_table_number(rows, result->tuned.low);
    at_table_number(rows, result->tuned.high);
    at_table_integer(rows, result->measured);
    at_table_integer(rows, result->refused);
    at_table_integer(rows, result->duplicates);
    at_table_integer(rows, result->champions);
    at_table_number(rows, result->seconds);
}

/* What tuning is worth is measured against what there was before it: the first config of the kernel's own order. */
static void print_tuned(const at_evolve_printer *on, const at_search_result *result, const at_found_texts *texts)
{
    if (result->author < 0) {
        return;
    }
    if (result->author == result->winner) {
        (void)fprintf(on->gate.out, "    tuning gained nothing over its author's own first config, which this is\n");
        return;
    }
    (void)fprintf(on->gate.out, "    tuning gained %.3f (%.3f to %.3f) over its author's own first config, %s\n",
                  result->tuned.middle, result->tuned.low, result->tuned.high, texts->author);
}

static void on_found(void *self, const at_search_result *result, const at_found_texts *texts)
{
    at_evolve_printer *on = self;
    const char *colour = result->end == AT_SEARCH_GAIN ? green : result->end == AT_SEARCH_VOID ? red : yellow;
    at_progress_end(&on->gate.progress);
    print_refusals(on);
    (void)fprintf(on->gate.out, "    %d measured, %d refused, %d of the same code as another, %.1f s", result->measured,
                  result->refused, result->duplicates, result->seconds);
    if (result->reused > 0) {
        (void)fprintf(on->gate.out, "; %d taken from the ledger", result->reused);
    }
    (void)fprintf(on->gate.out, "\n  %s%s%s", paint(on, colour), at_search_end_name(result->end), paint(on, plain));
    if (texts->winner[0] != '\0') {
        (void)fprintf(on->gate.out, ": %s", texts->winner);
    }
    (void)fprintf(on->gate.out, "\n    %s\n", result->why);
    print_tuned(on, result, texts);
    (void)fflush(on->gate.out);
    add_row(on, result, texts);
}

static void on_wisdom(void *self, const at_wisdom_row *row, const char *why_not)
{
    at_evolve_printer *on = self;
    at_progress_end(&on->gate.progress);
    if (why_not == NULL) {
        (void)fprintf(on->gate.out, "    wisdom: %s for %s\n", row->kernel_text, row->class_text);
    } else {
        (void)fprintf(on->gate.out, "    no row of wisdom for %s: %s\n", row->class_text, why_not);
    }
}

/* ---- Beginning and end ------------------------------------------------------------------------------------------- */

void at_evolve_printer_start(at_evolve_printer *printer, const at_cli *cli, const char *kernel, bool each,
                             at_evolve_watch *watch)
{
    *printer = (at_evolve_printer){.kernel = kernel, .each = each};
    *watch = (at_evolve_watch){.self = printer,
                               .problem = on_problem,
                               .found = on_found,
                               .top = on_top,
                               .wisdom = on_wisdom,
                               .search = {.self = printer,
                                          .tried = on_tried,
                                          .champion = on_champion,
                                          .checked = on_checked,
                                          .note = on_note,
                                          .progress = on_progress,
                                          .stop = is_stopped}};
    at_gate_printer_start(&printer->gate, cli, &watch->gate);
    at_table_destroy(printer->gate.table); /* this verb has rows of its own */
    printer->gate.table = NULL;
    if (at_cli_format(cli) != AT_FORMAT_TEXT) {
        (void)at_table_create(columns, COLUMNS, &printer->rows);
    }
}

static void print_tally(const at_evolve_result *result, FILE *out)
{
    (void)fprintf(out, "\n%d gain, %d no gain, %d void; %d right, %d wrong, %d not proven", result->gains,
                  result->no_gains, result->voids, result->right, result->wrong, result->unproven);
    if (result->slower > 0) {
        (void)fprintf(out, "; %d slower than a peer", result->slower);
    }
    if (result->rows > 0) {
        (void)fprintf(out, "; %d rows of wisdom", result->rows);
    }
    if (result->refused > 0) {
        (void)fprintf(out, "; %d not for this kernel", result->refused);
    }
    if (result->known > 0) {
        (void)fprintf(out, "; %d had their end already", result->known);
    }
    if (result->left > 0) {
        (void)fprintf(out, "; %d left for the next call", result->left);
    }
    (void)fputc('\n', out);
}

/* What has not begun has nothing to count, and no rows. */
attune_status at_evolve_printer_end(at_evolve_printer *printer, const at_evolve_result *result)
{
    attune_status status = ATTUNE_OK;
    at_progress_end(&printer->gate.progress);
    if (result->begun) {
        print_tally(result, printer->gate.out);
    }
    if (printer->rows != NULL && result->begun) {
        status = at_table_print(printer->rows, at_cli_format(printer->gate.cli), printer->gate.cli->out);
    }
    at_table_destroy(printer->rows);
    return status;
}
