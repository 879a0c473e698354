#include "cli/gate_print.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "report/verdicts.h"

/* ---- Words and colours ------------------------------------------------------------------------------------------ */

static const char *colour_of(const at_gate_printer *on, at_outcome outcome)
{
    static const char *const code[] = {
        [AT_NOT_RUN] = "\033[2m", [AT_PASS] = "\033[32m", [AT_FAIL] = "\033[31m", [AT_INCONCLUSIVE] = "\033[33m"};
    return on->colour ? code[outcome] : "";
}

static const char *plain(const at_gate_printer *on)
{
    return on->colour ? "\033[0m" : "";
}

static void print_outcome(const at_gate_printer *on, at_outcome outcome, int width)
{
    (void)fprintf(on->out, "%s%-*s%s", colour_of(on, outcome), width, at_outcome_name(outcome), plain(on));
}

/* ---- As it goes ------------------------------------------------------------------------------------------------- */

static void on_machine(void *self, const char *what, const char *found)
{
    const at_gate_printer *on = self;
    (void)fprintf(on->out, "%-12s %s\n", what, found);
    (void)fflush(on->out);
}

static void on_problem(void *self, const char *problem)
{
    const at_gate_printer *on = self;
    (void)fprintf(on->out, "\n%s%s%s\n", on->colour ? "\033[1m" : "", problem, plain(on));
}

static void on_candidate(void *self, const at_verdict *verdict)
{
    at_gate_printer *on = self;
    at_progress_end(&on->progress);
    (void)fprintf(on->out, "  %s\n", verdict->kernel);
    (void)fflush(on->out);
}

static void print_stage(const at_gate_printer *on, const at_verdict *verdict, at_stage stage)
{
    const at_stage_finding *finding = &verdict->finding[stage];
    (void)fprintf(on->out, "    %-12s ", at_stage_name(stage));
    print_outcome(on, finding->outcome, 12);
    (void)fprintf(on->out, " %6.1f s  %s\n", verdict->stage[stage].seconds, finding->sentence);
    if (finding->look[0] != '\0') {
        (void)fprintf(on->out, "    %-12s %-12s %8s  look at: %s\n", "", "", "", finding->look);
    }
    (void)fflush(on->out);
}

/* Times are printed with the verdict: candidates and problems are timed together. */
static void on_stage(void *self, const at_verdict *verdict, at_stage stage)
{
    at_gate_printer *on = self;
    at_progress_end(&on->progress);
    if (stage != AT_STAGE_SPEED) {
        print_stage(on, verdict, stage);
    }
}

static void on_note(void *self, const char *text)
{
    at_gate_printer *on = self;
    at_progress_end(&on->progress);
    (void)fprintf(on->out, "    %s\n", text);
    (void)fflush(on->out);
}

static void on_progress(void *self, const char *doing, double done)
{
    at_gate_printer *on = self;
    at_progress_label(&on->progress, doing);
    at_progress_update(&on->progress, done);
}

static bool is_stopped(void *self)
{
    (void)self;
    return at_cli_interrupted();
}

/* ---- A verdict -------------------------------------------------------------------------------------------------- */

static void print_ratio(const at_gate_printer *on, const at_verdict *verdict, int arm)
{
    const at_speed *speed = &verdict->speed[arm];
    const at_ratio *warm = &speed->ratio[AT_MODE_WARM];
    const at_ratio *cold = &speed->ratio[AT_MODE_COLD];
    char own[AT_TIME_TEXT], its[AT_TIME_TEXT];
    (void)fprintf(on->out, "      %-20s ", verdict->arm[arm].name);
    print_outcome(on, speed->outcome, 12);
    if (speed->known[AT_MODE_WARM]) {
        at_time_print(warm->candidate_us, own);
        at_time_print(warm->peer_us, its);
        (void)fprintf(on->out, "  r %.3f (%.3f to %.3f), %s against %s, %.3g TFLOP/s", warm->r.middle, warm->r.low,
                      warm->r.high, own, its, at_verdict_tflops(verdict, warm->candidate_us));
    }
    if (speed->known[AT_MODE_COLD]) {
        at_time_print(cold->candidate_us, own);
        at_time_print(cold->peer_us, its);
        (void)fprintf(on->out, "; cold r %.3f, %s against %s", cold->median_r, own, its);
    }
    (void)fputc('\n', on->out);
}

static void print_controls(const at_gate_printer *on, const at_verdict *verdict)
{
    for (int i = 0; i < AT_CONTROL_COUNT; ++i) {
        const at_control *control = &verdict->control[i];
        if (control->outcome == AT_INCONCLUSIVE) {
            (void)fprintf(on->out, "      control \"%s\" does not hold: %s\n", at_control_name((at_control_kind)i),
                          control->sentence);
        }
    }
}

/* The fastest of PyTorch's back ends that were timed; 0 where there is none. */
static int best_of_pytorch(const at_verdict *verdict)
{
    int best = 0;
    for (int arm = 1; arm < verdict->session.arm_count; ++arm) {
        const at_speed *speed = &verdict->speed[arm];
        if (at_verdict_is_peer(verdict, arm) && strncmp(verdict->arm[arm].name, "torch:", 6) == 0 &&
            speed->known[AT_MODE_WARM] &&
            (best == 0 || speed->ratio[AT_MODE_WARM].peer_us < verdict->speed[best].ratio[AT_MODE_WARM].peer_us)) {
            best = arm;
        }
    }
    return best;
}

/* The definition of success that there was first, beside the stricter one; whatever was asked for. */
static void print_origin(const at_gate_printer *on, const at_verdict *verdict)
{
    enum { CASES = 100 };
    static const double error_most = 2e-3, share_most = 0.95;
    int best = best_of_pytorch(verdict);
    const at_suite_result *suite = &verdict->suite;
    if (best == 0) {
        (void)fprintf(on->out, "    by the origin's definition: not known, no back end of PyTorch was timed\n");
        return;
    }
    double error = suite->margins.max_error; /* 0: there was no case that its bar is for */
    if (error == 0) {
        (void)fprintf(on->out, "    by the origin's definition: not known, no fp16 case had standard-normal inputs\n");
        return;
    }
    const at_ratio *warm = &verdict->speed[best].ratio[AT_MODE_WARM];
    double share = warm->candidate_us / warm->peer_us;
    bool met = verdict->right == AT_PASS && suite->executed >= CASES && error <= error_most && share < share_most &&
               warm->difference_us.high < 0;
    (void)fprintf(on->out,
                  "    by the origin's definition: %s; %lld of %lld cases right (%d needed), max |error| %.2g (at most "
                  "%g), median %.3f of %s's (below %g), difference of medians %.4g us (%.4g to %.4g, below 0)\n",
                  met ? "success" : "no success", (long long)(suite->executed - suite->failed),
                  (long long)suite->executed, CASES, error, error_most, share, verdict->arm[best].name, share_most,
                  warm->difference_us.middle, warm->difference_us.low, warm->difference_us.high);
}

static void on_verdict(void *self, const at_verdict *verdict)
{
    at_gate_printer *on = self;
    at_progress_end(&on->progress);
    (void)fprintf(on->out, "\n  %s on %s\n", verdict->kernel, verdict->problem);
    if (verdict->stage[AT_STAGE_SPEED].ran) {
        print_stage(on, verdict, AT_STAGE_SPEED);
    }
    for (int arm = 1; arm < verdict->session.arm_count; ++arm) {
        if (at_verdict_is_peer(verdict, arm)) {
            print_ratio(on, verdict, arm);
        }
    }
    if (on->table != NULL) {
        at_report_add(on->table, verdict, at_freshness_name(AT_FRESH));
    }
    print_controls(on, verdict);
    if (verdict->stage[AT_STAGE_SPEED].ran) {
        print_origin(on, verdict);
    }
    (void)fprintf(on->out, "    right: ");
    print_outcome(on, verdict->right, 0);
    (void)fprintf(on->out, "   faster: ");
    print_outcome(on, verdict->fast, 0);
    (void)fprintf(on->out, "%s\n", verdict->options.quick ? "   (quick: a first impression)" : "");
    (void)fflush(on->out);
}

/* ---- Beginning and end ------------------------------------------------------------------------------------------ */

void at_gate_printer_start(at_gate_printer *printer, const at_cli *cli, at_gate_watch *watch)
{
    const char *no_colour = getenv("NO_COLOR");
    bool text = at_cli_format(cli) == AT_FORMAT_TEXT;
    *printer = (at_gate_printer){.cli = cli, .out = text ? cli->out : cli->err};
    int fd = fileno(printer->out);
    printer->colour = fd >= 0 && isatty(fd) && (no_colour == NULL || no_colour[0] == '\0');
    if (!text) {
        (void)at_report_rows(&printer->table);
    }
    at_progress_start(&printer->progress, cli->err, "");
    *watch = (at_gate_watch){.self = printer,
                             .machine = on_machine,
                             .problem = on_problem,
                             .candidate = on_candidate,
                             .stage = on_stage,
                             .verdict = on_verdict,
                             .note = on_note,
                             .progress = on_progress,
                             .stop = is_stopped};
}

static void print_tally(const at_gate_result *result, FILE *out)
{
    (void)fprintf(out, "\n%d pass, %d fail, %d inconclusive, %d could not run", result->passed, result->failed,
                  result->inconclusive, result->not_run);
    if (result->known > 0) {
        (void)fprintf(out, "; %d had fresh evidence", result->known);
    }
    if (result->left > 0) {
        (void)fprintf(out, "; %d left for the next call", result->left);
    }
    if (result->faster > 1) {
        (void)fprintf(out, "\n%d faster, each asked by itself; %d where it is asked whether any is (Holm)",
                      result->faster, result->faster_among);
    }
    (void)fputc('\n', out);
}

/* What has not begun has nothing to count, and no rows. */
attune_status at_gate_printer_end(at_gate_printer *printer, const at_gate_result *result)
{
    attune_status status = ATTUNE_OK;
    at_progress_end(&printer->progress);
    if (result->begun) {
        print_tally(result, printer->out);
    }
    if (printer->table != NULL && result->begun) {
        status = at_table_print(printer->table, at_cli_format(printer->cli), printer->cli->out);
    }
    at_table_destroy(printer->table);
    return status;
}
