#include "cli/evolve_code.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/embedded.h"
#include "base/file.h"
#include "base/status.h"
#include "core/target.h"
#include "cuda/build.h"
#include "evolve/code_about.h"
#include "evolve/code_facts.h"
#include "evolve/code_machine.h"
#include "evolve/proposer_rules.h"
#include "report/code.h"

extern const at_embedded at_public_headers[], at_guide_pages[]; /* written by the build */

enum { PROBLEMS_TEXT = 4096, TUNE_RUNS = 12, PROPOSALS = 10, EXTRAS = 96 };

/* One search for code. */
typedef struct code_job {
    const at_cli *cli;
    const at_judging *of;
    at_pool *pool;
    at_code_bench *bench;
    at_sources first;
    char problems[PROBLEMS_TEXT], target_text[AT_TARGET_TEXT_MAX];
    at_text roof;
    double roof_us;
    bool warned; /* that costs are not counted */
    int extras;
    at_proposer_extra extra[EXTRAS];
    char extra_name[EXTRAS][96];
    at_code_asked asked;
    at_command_proposer command;
    at_recorded_proposer record;
    at_rules_proposer rules;
    at_code_bench_options machine;
    at_code_options code;
} code_job;

/* ---- The command line ----------------------------------------------------------------------------------------------
 */

/* One part of --proposer-budget: "2h", "90m", "30s", "5usd", "2Mtok". */
static attune_status read_part(const char *name, const char *text, size_t length, at_code_budget *budget)
{
    const struct {
        const char *unit;
        double *to;
        double times;
    } units[] = {{"s", &budget->seconds, 1},    {"m", &budget->seconds, 60}, {"h", &budget->seconds, 3600},
                 {"usd", &budget->usd, 1},      {"tok", &budget->tokens, 1}, {"ktok", &budget->tokens, 1e3},
                 {"Mtok", &budget->tokens, 1e6}};
    char part[64], number[64];
    (void)snprintf(part, sizeof part, "%.*s", (int)length, text);
    size_t digits = strspn(part, "0123456789.");
    (void)snprintf(number, sizeof number, "%.*s", (int)digits, part);
    for (size_t i = 0; digits > 0 && i < sizeof units / sizeof units[0]; ++i) {
        if (strcmp(part + digits, units[i].unit) == 0) {
            double value;
            AT_FORWARD(at_parse_double(name, number, &value));
            AT_FAIL_IF(value <= 0 || value > 1e6, ATTUNE_INVALID_ARGUMENT, "%s %s: above 0, at most 1e6", name, part);
            *units[i].to = value * units[i].times;
            return ATTUNE_OK;
        }
    }
    return at_fail(ATTUNE_INVALID_ARGUMENT,
                   "%s %s: numbers with units are needed, commas between: 2h, 90m, 30s, 5usd, 2Mtok", name, part);
}

/* --budget: 4m, 90s, 1h. */
static attune_status read_time(const at_cli *cli, at_code_budget *budget)
{
    const char *text = at_cli_text(cli, "--budget");
    at_code_budget read = {.seconds = 0};
    AT_FORWARD(text != NULL ? read_part("--budget", text, strlen(text), &read) : ATTUNE_OK);
    AT_FAIL_IF(text != NULL && read.seconds <= 0, ATTUNE_INVALID_ARGUMENT,
               "--budget %s: of a search for code a time is needed: 4m, 90s, 1h; --proposals counts", text);
    budget->all_s = read.seconds;
    return ATTUNE_OK;
}

static attune_status read_budget(const at_cli *cli, at_code_budget *budget)
{
    int64_t proposals;
    AT_FORWARD(at_cli_integer(cli, "--proposals", 1, 100000, PROPOSALS, &proposals));
    AT_FORWARD(at_cli_number(cli, "--proposer-time", 1, 1e6, 600, &budget->each_s));
    budget->proposals = (int)proposals;
    AT_FORWARD(read_time(cli, budget));
    for (const char *at = at_cli_text(cli, "--proposer-budget"); at != NULL && *at != '\0';) {
        size_t length = strcspn(at, ",");
        AT_FORWARD(read_part("--proposer-budget", at, length, budget));
        at += length + (at[length] == ',');
    }
    return ATTUNE_OK;
}

static int number_of(const char *const *names, const char *text, int fallback)
{
    for (int i = 0; text != NULL && names[i] != NULL; ++i) {
        fallback = strcmp(names[i], text) == 0 ? i : fallback;
    }
    return fallback;
}

static void read_command(code_job *on)
{
    static const char *const runner[] = {"/proc/self/exe", "sandbox", NULL};
    const at_cli *cli = on->cli;
    const char *jail = at_cli_text(cli, "--proposer-jail");
    on->command = (at_command_proposer){.command = at_cli_text(cli, "--proposer"),
                                        .env = at_cli_text(cli, "--proposer-env"),
                                        .jail = (at_jail)number_of(at_names_of_jails, jail, AT_JAIL_NONE),
                                        .run_command = runner,
                                        .look = at_code_bench_try,
                                        .allow = at_cli_text(cli, "--allow"),
                                        .tries_max = AT_PROPOSER_TRIES,
                                        .try_pause_s = 1};
}

static attune_status read_options(code_job *on)
{
    const at_cli *cli = on->cli;
    int64_t runs;
    at_code_options *code = &on->code;
    AT_FORWARD(read_budget(cli, &code->budget));
    AT_FORWARD(at_cli_integer(cli, "--tune", 1, 10000, TUNE_RUNS, &runs));
    code->tune_runs = (int)runs;
    code->level = (at_task_level)number_of(at_names_of_levels, at_cli_text(cli, "--level"), AT_TASK_INSIGHT);
    code->controls = !at_cli_given(cli, "--no-controls");
    code->keep_comments = at_cli_given(cli, "--keep-comments");
    code->prove = !at_cli_given(cli, "--no-gate");
    code->no_repairs = at_proposer_is_rules(at_cli_text(cli, "--proposer"));
    code->allow = at_cli_text(cli, "--allow");
    code->seed = on->of->gate.seed;
    code->limit_s = on->of->gate.limit_s;
    code->folder = at_cli_text(cli, "--ledger");
    code->resume = at_cli_given(cli, "--resume");
    AT_FAIL_IF(code->resume && code->folder == NULL, ATTUNE_INVALID_ARGUMENT,
               "--resume goes on with a ledger: --ledger names its folder");
    AT_FAIL_IF(code->limit_s > 0 && code->folder == NULL, ATTUNE_INVALID_ARGUMENT,
               "--limit leaves a search that is gone on with: --ledger names its folder");
    read_command(on);
    return at_command_proposer_check(&on->command);
}

/* ---- What is searched ----------------------------------------------------------------------------------------------
 */

static bool is_cuda(const at_sources *sources)
{
    for (int i = 0; i < sources->count; ++i) {
        size_t length = strlen(sources->file[i].name);
        if (length > 3 && strcmp(sources->file[i].name + length - 3, ".cu") == 0) {
            return true;
        }
    }
    return false;
}

static attune_status print_problems(code_job *on)
{
    at_text text;
    at_text_init_fixed(&text, on->problems, sizeof on->problems);
    for (int i = 0; i < on->of->problem_count; ++i) {
        char one[ATTUNE_PROBLEM_TEXT_MAX];
        AT_FORWARD(at_test_problem_print(&on->of->problem[i], one, sizeof one));
        at_text_add(&text, "%s%s", i > 0 ? "\n" : "", one);
    }
    return at_text_status(&text, "the problems");
}

/* A worker says what the target is. */
static attune_status open_machine(code_job *on)
{
    const at_gate_options *gate = &on->of->gate;
    at_device *device;
    on->machine = (at_code_bench_options){.problem = on->of->problem,
                                          .problem_count = on->of->problem_count,
                                          .strategy = at_cli_text(on->cli, "--strategy"),
                                          .seed = gate->seed,
                                          .counters = at_cli_given(on->cli, "--counters"),
                                          .gate = gate};
    on->machine.worker = (at_remote_options){.command = gate->worker,
                                             .target = gate->target != NULL  ? gate->target
                                                       : is_cuda(&on->first) ? "cuda"
                                                                             : "cpu",
                                             .isa = gate->isa,
                                             .threads = gate->threads};
    AT_FORWARD(at_remote_open(&on->machine.worker, &device));
    on->machine.target = device->target;
    attune_status status =
        at_pool_create(gate->threads > 0 ? gate->threads : at_cpu_count(), ATTUNE_SCRATCH_MAX, &on->pool);
    status = status == ATTUNE_OK
                 ? at_code_facts_roof(device, &on->of->problem[0].problem, on->pool, &on->roof, &on->roof_us)
                 : status;
    device->ops->close(device);
    AT_FORWARD(status);
    at_target_print(&on->machine.target, on->target_text);
    on->machine.pool = on->pool;
    return at_code_bench_open(&on->machine, &on->bench);
}

/* Files of a list whose names begin so, below docs/. */
static void add_extra(code_job *on, const at_embedded *list, const char *begin, const char *below)
{
    for (const at_embedded *file = list; file->name != NULL; ++file) {
        if (strncmp(file->name, begin, strlen(begin)) == 0 && on->extras + 1 < EXTRAS) {
            char *name = on->extra_name[on->extras];
            (void)snprintf(name, sizeof on->extra_name[0], "%s%s", below, file->name);
            on->extra[on->extras++] = (at_proposer_extra){name, (const char *)file->data};
        }
    }
}

/* How to write a kernel, the headers, and at level full what the device expects. */
static void fill_about(code_job *on)
{
    const bool cuda = is_cuda(&on->first), full = on->code.level == AT_TASK_FULL;
    add_extra(on, at_guide_pages, "docs/kernels", "");
    add_extra(on, at_public_headers, "", "docs/attune/");
    add_extra(on, at_cuda_sources, cuda ? "device/" : "none", "docs/");
    add_extra(on, at_guide_pages, full ? cuda ? "docs/cuda" : "docs/cpu" : "none", "");
    add_extra(on, at_guide_pages, full && cuda ? "docs/hopper" : "none", "");
    on->code.about = (at_code_about){.problems = on->problems,
                                     .target = on->target_text,
                                     .machine = on->roof.data,
                                     .roof_us = on->roof_us,
                                     .device = !full  ? ""
                                               : cuda ? "`docs/cuda.md` and `docs/hopper.md` say what it expects.\n"
                                                      : "`docs/cpu.md` says what it expects.\n",
                                     .extra = on->extra,
                                     .cuda = cuda};
}

/* What makes a ledger another search's. */
static void fill_start(code_job *on)
{
    at_event_start *start = &on->code.start;
    const at_code_options *code = &on->code;
    (void)snprintf(start->attune, sizeof start->attune, "%s", attune_version_string());
    (void)snprintf(start->kernel, sizeof start->kernel, "%.60s", on->cli->operand[0]);
    (void)snprintf(start->problem, sizeof start->problem, "%.*s", (int)strcspn(on->problems, "\n"), on->problems);
    (void)snprintf(start->target, sizeof start->target, "%s", on->target_text);
    at_sources_digest(&on->first, start->source);
    (void)snprintf(start->strategy, sizeof start->strategy, "code");
    start->seed = code->seed;
    (void)snprintf(start->budget, sizeof start->budget, "%d proposals", code->budget.proposals);
    if (code->budget.all_s > 0) {
        (void)snprintf(start->budget, sizeof start->budget, "%d proposals, %g s", code->budget.proposals,
                       code->budget.all_s);
    }
    (void)snprintf(start->policy, sizeof start->policy,
                   "level %s, %d measurements of parameters for each source, %s; %g s, %g usd, %g tokens; %s",
                   at_names_of_levels[code->level], code->tune_runs, code->controls ? "controls" : "no controls",
                   code->budget.seconds, code->budget.usd, code->budget.tokens, code->prove ? "proven" : "not proven");
}

/* ---- As it goes ----------------------------------------------------------------------------------------------------
 */

/* What nobody counts is no cost, and no budget ends by it: said once. */
static void warn_of_costs(code_job *on, const at_event_proposal *one)
{
    if (on->code.budget.usd > 0 && !on->warned && one->proposed != AT_PROPOSED_FAILED &&
        strcmp(one->usd, "unknown") == 0) {
        (void)fprintf(on->cli->err, "attune: evolve: the proposer does not say what it costs (usd in answer.json): a "
                                    "budget of money does not end it\n");
        on->warned = true;
    }
}

static void on_event(void *self, const at_event *event, const at_lineage *lineage)
{
    code_job *on = self;
    FILE *out = at_cli_format(on->cli) == AT_FORMAT_TEXT ? on->cli->out : on->cli->err;
    if (event->kind == AT_EVENT_PROPOSAL) {
        warn_of_costs(on, &event->as.proposal);
    }
    if (event->kind == AT_EVENT_JUDGED) {
        const at_program *one = &lineage->program[event->as.judged.id];
        (void)fprintf(out, "  %3d %-22s %-7s of %-3d %-9s %s%s%.*s\n", one->id, at_names_of_arms[one->arm],
                      at_names_of_code_kinds[one->kind], one->parent, at_names_of_verdicts[event->as.judged.verdict],
                      one->idea, one->idea[0] != '\0' ? ": " : "", (int)strcspn(event->as.judged.why, "\n"),
                      event->as.judged.why);
    }
    (void)fflush(out);
}

static void say_controls(FILE *out, const at_code_result *result)
{
    (void)fprintf(out, "  in the final, as many times as fast as the first source:");
    for (int arm = 0; arm < AT_ARM_COUNT; ++arm) {
        (void)fprintf(out, "%s %s ", arm > 0 ? "," : "", at_names_of_arms[arm]);
        (void)(result->gain_of[arm] > 0 ? fprintf(out, "%.3f", result->gain_of[arm]) : fprintf(out, "nothing"));
    }
    (void)fprintf(out, "\n");
    for (int arm = 0; arm < AT_ARM_COUNT; ++arm) {
        const at_interval *beside = &result->beside[arm];
        if (beside->middle > 0) {
            (void)fprintf(out, "  process by process the engine's is %.3f times as fast (%.3f to %.3f) as that of %s\n",
                          beside->middle, beside->low, beside->high, at_names_of_arms[arm]);
        }
    }
}

/* Each of them was the best until the gate's word. */
static void say_refuted(FILE *out, const at_code_result *result)
{
    if (result->refuted > 0) {
        (void)fprintf(out, "  the gate called %d faster finalist%s wrong%s%s\n", result->refuted,
                      result->refuted > 1 ? "s" : "", result->wrong ? ", the last one: " : ": the next best is judged",
                      result->wrong ? result->why : "");
    }
}

static void say_result(const code_job *on, const at_code_result *result)
{
    FILE *out = at_cli_format(on->cli) == AT_FORMAT_TEXT ? on->cli->out : on->cli->err;
    if (result->unfinished) {
        (void)fprintf(out, "unfinished: the limit came; --resume goes on\n");
        return;
    }
    if (result->winner == 0) {
        (void)fprintf(out, "no gain: the first source stays%s\n", result->wrong ? "; what was faster is wrong" : "");
        say_controls(out, result);
        say_refuted(out, result);
        return;
    }
    (void)fprintf(out, "gain: proposal %d with %s is %.3f times as fast (%.3f to %.3f) as the first source\n",
                  result->winner, result->config, result->gain, result->gain_low, result->gain_high);
    say_controls(out, result);
    say_refuted(out, result);
    (void)fprintf(out, "  the gate: %s%s%s\n", result->proven ? "right" : "not proven",
                  result->why[0] != '\0' ? ": " : "", result->why);
}

/* ---- Afterwards ----------------------------------------------------------------------------------------------------
 */

static attune_status write_report(const char *folder)
{
    char path[4096];
    at_ledger_log *log;
    at_code_ledger_path(folder, path, sizeof path);
    AT_FORWARD(at_ledger_read(path, &log));
    (void)snprintf(path, sizeof path, "%s/report.html", folder);
    char *page;
    size_t bytes;
    attune_status status = at_report_code_page(log, &page, &bytes);
    at_ledger_free(log);
    AT_FORWARD(status);
    status = at_file_write(path, page, bytes);
    free(page);
    return status;
}

static attune_status keep(const code_job *on, const at_code_result *result, const at_sources *winner)
{
    const char *to = at_cli_text(on->cli, "--output");
    AT_FORWARD(on->code.folder != NULL ? write_report(on->code.folder) : ATTUNE_OK);
    return to != NULL && result->winner > 0 ? at_sources_write(winner, to) : ATTUNE_OK;
}

/* Who is ended, by the device or by people, has what there is until then. */
static attune_status keep_begun(const code_job *on, attune_status status)
{
    char why[AT_SENTENCE_MAX];
    const bool by_what_it_is = status == ATTUNE_INVALID_ARGUMENT || status == ATTUNE_UNSUPPORTED ||
                               status == ATTUNE_CORRUPT || status == ATTUNE_NOT_FOUND;
    if (by_what_it_is || on->code.folder == NULL) {
        return status;
    }
    (void)snprintf(why, sizeof why, "%s", attune_last_detail());
    return write_report(on->code.folder) == ATTUNE_OK
               ? at_fail(status, "%s; what was found until then is in %.200s, and --resume goes on", why,
                         on->code.folder)
               : at_fail(status, "%s", why);
}

static attune_status run_search(code_job *on, int *exit_code)
{
    enum { FINE = 0, WRONG = 1, UNPROVEN = 4 };
    at_code_result result;
    at_sources winner;
    if (at_cli_format(on->cli) == AT_FORMAT_TEXT) {
        (void)fprintf(on->cli->out, "The proposer runs with %s\n",
                      on->code.no_repairs                ? "no rights: it is attune's own"
                      : on->command.jail == AT_JAIL_NONE ? "your own rights (--proposer-jail takes most of them away)"
                                                         : "the rights of a jail");
    }
    attune_status status = at_code_run(&on->code, &result, &winner);
    if (status != ATTUNE_OK) {
        return keep_begun(on, status);
    }
    status = keep(on, &result, &winner);
    at_sources_free(&winner);
    say_result(on, &result);
    bool unproven = result.winner > 0 && on->code.prove && !result.proven;
    *exit_code = result.wrong ? WRONG : unproven || result.unfinished ? UNPROVEN : FINE;
    return status;
}

/* "mutate", "replay:FOLDER", or a command. */
static attune_status open_proposer(code_job *on)
{
    static const char replay[] = "replay:";
    const char *text = on->command.command;
    if (at_proposer_is_rules(text)) {
        on->rules = (at_rules_proposer){.seed = on->code.seed};
        on->code.proposer = at_proposer_of_rules(&on->rules);
        return ATTUNE_OK;
    }
    if (strncmp(text, replay, strlen(replay)) == 0) {
        AT_FORWARD(at_recorded_proposer_open(text + strlen(replay), &on->record));
        on->code.proposer = at_proposer_of_record(&on->record);
        return ATTUNE_OK;
    }
    on->code.proposer = at_proposer_of_command(&on->command);
    return ATTUNE_OK;
}

/* The roof is measured, and tasks say it: a run that goes on says what it said before. */
static attune_status go_on_or_begin(code_job *on)
{
    char path[4096];
    bool begun = false;
    if (on->code.folder == NULL) {
        return ATTUNE_OK;
    }
    at_code_ledger_path(on->code.folder, path, sizeof path);
    AT_FORWARD(at_ledger_begun(path, &begun));
    if (!begun) {
        on->code.first = &on->first;
        return at_code_about_write(on->code.folder, &on->code);
    }
    AT_FORWARD(at_code_about_read(on->code.folder, &on->asked));
    on->code.about.machine = on->asked.machine;
    on->code.about.roof_us = on->asked.roof_us;
    return ATTUNE_OK;
}

static attune_status run_job(code_job *on, int *exit_code)
{
    AT_FORWARD(read_options(on));
    AT_FORWARD(at_code_sources_of(on->cli->operand[0], &on->first));
    AT_FORWARD(print_problems(on));
    AT_FORWARD(open_machine(on));
    fill_about(on);
    fill_start(on);
    AT_FORWARD(go_on_or_begin(on));
    on->command.look_self = on->bench;
    on->code.first = &on->first;
    AT_FORWARD(open_proposer(on));
    on->code.machine = at_code_bench_machine(on->bench);
    on->code.watch = (at_code_watch){on, on_event};
    return run_search(on, exit_code);
}

attune_status at_cli_evolve_code(const at_judging *of, int *exit_code)
{
    code_job *on = calloc(1, sizeof *on);
    *exit_code = AT_EXIT_FAILED;
    AT_FAIL_IF(on == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a search");
    on->cli = of->cli;
    on->of = of;
    at_text_init(&on->roof);
    attune_status status = run_job(on, exit_code);
    at_recorded_proposer_close(&on->record);
    at_code_bench_close(on->bench);
    at_pool_destroy(on->pool);
    at_sources_free(&on->first);
    at_text_free(&on->roof);
    free(on);
    return status;
}

/* ---- Going through a run again --------------------------------------------------------------------------------------
 */

int at_cli_evolve_code_replay(const at_cli *cli, const char *folder)
{
    at_code_result result;
    const at_code_watch nobody = {NULL, NULL};
    attune_status status = at_code_replay(folder, at_cli_text(cli, "--output"), &nobody, &result);
    if (status != ATTUNE_OK) {
        return at_cli_fail(cli, status);
    }
    (void)fprintf(cli->out, "%s: %d proposals, every decision is the recorded one; ", folder,
                  result.proposals[AT_ARM_ENGINE] + result.proposals[AT_ARM_SAMPLES] +
                      result.proposals[AT_ARM_REFINEMENT]);
    if (result.winner > 0) {
        (void)fprintf(cli->out, "proposal %d is %.3f times as fast as the first source\n", result.winner, result.gain);
    } else {
        (void)fprintf(cli->out, "no gain\n");
    }
    return result.replayed ? AT_EXIT_OK : AT_EXIT_WRONG;
}
