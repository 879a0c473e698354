/* One problem: its ledger, what to begin with, its search. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "cpu/source.h"
#include "cuda/build.h"
#include "evolve/engine_parts.h"
#include "evolve/micro.h"

/* Many at once share the champion's samples, few let a strategy learn sooner. */
static int batch_of(const at_engine *on)
{
    enum { SEARCHED = 8 };
    return on->options->exhaustive ? AT_SEARCH_BATCH_MAX : SEARCHED;
}

/* ---- Ledgers ----------------------------------------------------------------------------------------------------- */

static bool is_directory(const char *path)
{
    struct stat seen;
    return stat(path, &seen) == 0 && S_ISDIR(seen.st_mode);
}

/* DIR/KERNEL[_PARAM_VALUE...]_PROBLEM.jsonl, where there are several or a directory is given. */
static attune_status ledger_path(const at_engine *on, const at_cell *cell, char path[PATH_MAX])
{
    const at_evolve_options *options = on->options;
    bool within = options->problem_count > 1 || is_directory(options->ledger);
    int length = within ? snprintf(path, PATH_MAX, "%s/%s%s%s_%s.jsonl", options->ledger, on->kernel->name,
                                   on->fixed[0] != '\0' ? "_" : "", on->fixed, cell->text)
                        : snprintf(path, PATH_MAX, "%s", options->ledger);
    AT_FAIL_IF(length >= PATH_MAX, ATTUNE_INVALID_ARGUMENT, "the ledger's name is too long: %.60s...", options->ledger);
    for (char *at = path + strlen(options->ledger); *at != '\0'; ++at) {
        *at = *at == ':' || *at == ',' || *at == '=' ? '_' : *at;
    }
    return within ? at_directory_make(options->ledger) : ATTUNE_OK;
}

/* Of the kernel's own file; what it includes is in the digests of builds. */
static void digest_source(const attune_kernel *kernel, char digest[AT_DIGEST_TEXT_MAX])
{
    const char *name = kernel->source != NULL ? kernel->source : kernel->name;
    if (kernel->target == ATTUNE_TARGET_CPU && at_cpu_source_digest(kernel->name, digest) == ATTUNE_OK) {
        return;
    }
    at_digest_of(name, strlen(name), digest);
    for (const at_embedded *file = at_cuda_sources; file->name != NULL; ++file) {
        if (kernel->source != NULL && strcmp(file->name, kernel->source) == 0) {
            at_digest_of(file->data, file->size, digest);
        }
    }
}

void at_engine_micro_key(const at_engine *on, const at_cell *cell, at_micro_key *key)
{
    *key = (at_micro_key){.kernel = ""};
    (void)snprintf(key->kernel, sizeof key->kernel, "%s", on->kernel->name);
    (void)snprintf(key->target, sizeof key->target, "%s", on->target_text);
    at_problem_class(cell->problem, key->class_text);
    digest_source(on->kernel, key->source);
    if (on->fixed[0] != '\0') { /* the best among few is not the best among all */
        char of_both[AT_DIGEST_TEXT_MAX + AT_KERNEL_TEXT_MAX];
        int length = snprintf(of_both, sizeof of_both, "%s %s", key->source, on->fixed);
        at_digest_of(of_both, (size_t)length < sizeof of_both ? (size_t)length : sizeof of_both - 1, key->source);
    }
}

static void fill_start(const at_engine *on, const at_cell *cell, at_event_start *start)
{
    const at_evolve_options *options = on->options;
    const char *strategy = options->strategy != NULL ? options->strategy : at_strategy_kinds[0]->name;
    *start = (at_event_start){.seed = options->seed};
    (void)snprintf(start->attune, sizeof start->attune, "%s", attune_version_string());
    (void)snprintf(start->kernel, sizeof start->kernel, "%s", on->kernel->name);
    (void)snprintf(start->problem, sizeof start->problem, "%s", cell->text);
    (void)snprintf(start->target, sizeof start->target, "%s", on->target_text);
    digest_source(on->kernel, start->source);
    (void)snprintf(start->strategy, sizeof start->strategy, "%s%s",
                   options->one != NULL  ? "one"
                   : options->exhaustive ? "exhaustive"
                   : options->refresh    ? "refresh"
                                         : strategy,
                   options->fitness == AT_FITNESS_COMPOSITE ? ":composite" : "");
    (void)snprintf(start->budget, sizeof start->budget, "%s",
                   options->one != NULL || options->budget == NULL ? "" : options->budget);
    (void)snprintf(start->fixed, sizeof start->fixed, "%s", on->fixed);
    (void)snprintf(start->one, sizeof start->one, "%s", options->one != NULL ? options->one : "");
    (void)snprintf(
        start->policy, sizeof start->policy,
        "heats of up to %d beside the champion and its copy, two samples of each a block, trimmed means and "
        "99 %% intervals of log ratios, ties within 2 %% or by overlapping intervals, winners win twice; the "
        "final's ties are shown to be within 2 %% over fresh processes",
        batch_of(on));
}

/* A ledger goes on only where it asked the same. */
static attune_status check_start(const at_engine *on, const char *path, const at_event_start *was,
                                 const at_event_start *is)
{
    char fixed[AT_KERNEL_TEXT_MAX];
    bool settled = at_config_settle(on->kernel, was->fixed, fixed) == ATTUNE_OK;
    const struct {
        const char *what, *was, *is;
    } fields[] = {{"kernel", was->kernel, is->kernel},
                  {"problem", was->problem, is->problem},
                  {"target", was->target, is->target},
                  {"source", was->source, is->source},
                  {"strategy", was->strategy, is->strategy},
                  {"one config", was->one, is->one},
                  {"list of fixed parameters", settled ? fixed : was->fixed, is->fixed}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i) {
        AT_FAIL_IF(strcmp(fields[i].was, fields[i].is) != 0, ATTUNE_INVALID_ARGUMENT,
                   "ledger %.200s: its %s is %.160s, not %.160s: it is of another search", path, fields[i].what,
                   fields[i].was, fields[i].is);
    }
    AT_FAIL_IF(was->seed != is->seed, ATTUNE_INVALID_ARGUMENT, "ledger %.200s: its seed is %llu, not %llu", path,
               (unsigned long long)was->seed, (unsigned long long)is->seed);
    return ATTUNE_OK;
}

/* Fills in what a ledger is known by, and finds its place. *begun: it is there. */
static attune_status look_at_ledger(const at_engine *on, const at_cell *cell, at_event *event, char path[PATH_MAX],
                                    bool *begun)
{
    fill_start(on, cell, &event->as.start);
    AT_FORWARD(ledger_path(on, cell, path));
    AT_FORWARD(at_ledger_begun(path, begun));
    AT_FAIL_IF(
        *begun && !on->options->resume, ATTUNE_INVALID_ARGUMENT,
        "ledger %s is there already, and none is overwritten: --resume goes on with it, another name begins anew",
        path);
    return ATTUNE_OK;
}

/* Once the target is known, what is in it too. */
static attune_status check_begun(const at_engine *on, const char *path, const at_event_start *start)
{
    at_ledger_log *log;
    AT_FAIL_IF(access(path, W_OK) != 0, ATTUNE_IO_ERROR, "ledger %s cannot be written: %s", path, strerror(errno));
    AT_FORWARD(at_ledger_read(path, &log));
    bool known = on->target_text[0] != '\0' && log->count > 0;
    attune_status status = known ? check_start(on, path, &log->event[0].as.start, start) : ATTUNE_OK;
    at_ledger_free(log);
    return status;
}

attune_status at_engine_check_ledger(const at_engine *on, const attune_problem *problem)
{
    char path[PATH_MAX];
    at_event event = {.kind = AT_EVENT_START};
    at_cell cell = {.problem = problem};
    bool begun;
    AT_FORWARD(attune_problem_print(problem, cell.text, sizeof cell.text));
    AT_FORWARD(look_at_ledger(on, &cell, &event, path, &begun));
    return begun ? check_begun(on, path, &event.as.start) : at_writer_check(path);
}

attune_status at_engine_check_micro(const at_engine *on)
{
    const char *path = on->options->seeds;
    return path == NULL || strcmp(path, "none") == 0 || on->options->one != NULL ? ATTUNE_OK : at_micro_check(path);
}

/* *ended: there is nothing to go on with. */
static attune_status resume_ledger(const at_engine *on, at_cell *cell, const char *path, const at_event_start *start,
                                   bool *ended)
{
    at_ledger_log *log;
    AT_FORWARD(at_ledger_read(path, &log));
    *ended = log->ended;
    attune_status status = log->count > 0 ? check_start(on, path, &log->event[0].as.start, start) : ATTUNE_OK;
    at_ledger_free(log);
    AT_FORWARD(status);
    return *ended ? ATTUNE_OK : at_ledger_resume(path, &cell->ledger, &cell->before);
}

static attune_status open_ledger(const at_engine *on, at_cell *cell, bool *ended)
{
    char path[PATH_MAX];
    at_event event = {.kind = AT_EVENT_START};
    bool begun;
    if (on->options->ledger == NULL) {
        return ATTUNE_OK;
    }
    AT_FORWARD(look_at_ledger(on, cell, &event, path, &begun));
    return begun ? resume_ledger(on, cell, path, &event.as.start, ended)
                 : at_ledger_create(path, &event, &cell->ledger);
}

/* ---- The search -------------------------------------------------------------------------------------------------- */

static attune_status open_live(at_engine *on, at_cell *cell)
{
    const at_live_options options = {.space = cell->space,
                                     .kernel = on->kernel,
                                     .problem = *cell->problem,
                                     .target = on->target,
                                     .worker = &on->worker,
                                     .compilers = on->compilers,
                                     .pool = on->pool,
                                     .seed = on->options->seed};
    return at_live_open(&options, &cell->live);
}

/* The search's own choices that nobody is asked about. Few blocks and processes where many problems are to be
 * refreshed, all that a final can use where one is searched for. */
static void fill_search(const at_engine *on, const at_cell *cell, at_search_options *search)
{
    const at_evolve_options *options = on->options;
    static const double final_s = 45;
    const bool brief = options->refresh;
    bool hurry = options->budget_s > 0 && options->budget_s < final_s; /* a final is no longer than its search */
    *search = (at_search_options){.space = cell->space,
                                  .strategy = options->strategy,
                                  .fitness = options->fitness,
                                  .seed = options->seed,
                                  .budget_s = options->budget_s,
                                  .budget_runs = options->budget_runs,
                                  .exhaustive = options->exhaustive,
                                  .listed = brief || options->one != NULL,
                                  .batch = batch_of(on),
                                  .rival = -1,
                                  .final_processes = brief ? 3 : 5,
                                  .final_processes_max = brief ? 3 : 23,
                                  .final_blocks = brief ? 6 : 10,
                                  .final_s = hurry ? options->budget_s : final_s,
                                  .brief = brief,
                                  .watch = options->watch.search};
    if (options->one != NULL) { /* nothing but what it begins with */
        search->budget_s = 0;
        search->budget_runs = 2;
    }
    at_race_policy_init(&search->policy, options->seed);
    if (options->exhaustive) {
        search->policy.blocks_max = 8;
    }
}

/* What the planner would take now takes part in the final, where it is another kernel's, or is not searched. */
static attune_status admit_rival(const at_engine *on, const at_cell *cell, const char *chosen,
                                 at_search_options *search)
{
    size_t length = strlen(on->kernel->name);
    bool own = strncmp(chosen, on->kernel->name, length) == 0 && (chosen[length] == ':' || chosen[length] == '\0');
    own = own && (on->fixed[0] == '\0' || at_space_find_text(cell->space, chosen) >= 0);
    return own || chosen[0] == '\0' ? ATTUNE_OK : at_live_admit(cell->live, chosen, &search->rival);
}

static attune_status search_live(at_engine *on, at_cell *cell, const at_seed *seeds, int count, const char *chosen)
{
    at_search_options search;
    fill_search(on, cell, &search);
    search.first = seeds;
    search.first_count = count;
    AT_FORWARD(admit_rival(on, cell, chosen, &search));
    const at_stand stand = at_live_stand(cell->live);
    AT_FORWARD(at_search_run(&search, &stand, cell->ledger, cell->before, &cell->result));
    cell->searched = true;
    if (cell->result.winner >= 0) {
        stand.name(stand.self, cell->result.winner, cell->winner);
    }
    if (cell->result.opponent >= 0) {
        stand.name(stand.self, cell->result.opponent, cell->opponent);
    }
    return ATTUNE_OK;
}

static void tell_found(const at_engine *on, const at_cell *cell)
{
    const at_evolve_watch *watch = &on->options->watch;
    for (int i = 0; watch->top != NULL && i < cell->result.top_count; ++i) {
        char config[AT_KERNEL_TEXT_MAX];
        at_space_print(cell->space, cell->result.top[i], config);
        watch->top(watch->self, i + 1, config, cell->result.top_us[i], cell->result.top_score[i]);
    }
    if (watch->found != NULL) {
        watch->found(watch->self, &cell->result, cell->winner, cell->opponent);
    }
}

static void count_end(at_engine *on, at_cell *cell)
{
    int *counts[] = {[AT_SEARCH_GAIN] = &on->result->gains,
                     [AT_SEARCH_NO_GAIN] = &on->result->no_gains,
                     [AT_SEARCH_VOID] = &on->result->voids};
    ++*counts[cell->result.end];
    if (cell->result.end != AT_SEARCH_VOID) {
        (void)snprintf(on->learned[on->learned_count++ % AT_CELLS_SOME], AT_KERNEL_TEXT_MAX, "%s", cell->winner);
    }
}

static attune_status search_open(at_engine *on, at_cell *cell)
{
    at_seed seeds[AT_SEARCH_FIRST_MAX];
    char first[AT_KERNEL_TEXT_MAX], chosen[AT_KERNEL_TEXT_MAX];
    int count = 0;
    AT_FORWARD(at_engine_seeds(on, cell, seeds, &count, chosen));
    at_space_print(cell->space, seeds[0].candidate, first);
    if (on->options->watch.problem != NULL) {
        on->options->watch.problem(on->options->watch.self, cell->text, cell->space, first, seeds[0].from);
    }
    AT_FORWARD(open_live(on, cell));
    attune_status status = search_live(on, cell, seeds, count, chosen);
    at_live_close(cell->live);
    cell->live = NULL;
    AT_FORWARD(status);
    count_end(on, cell);
    tell_found(on, cell);
    return ATTUNE_OK;
}

/* A problem that the kernel does not support is passed over, and said. */
attune_status at_engine_search(at_engine *on, at_cell *cell)
{
    bool ended = false;
    AT_FORWARD(attune_problem_print(cell->problem, cell->text, sizeof cell->text));
    attune_status status = at_space_open(on->kernel, cell->problem, &on->target, on->fixed, &cell->space);
    if (status == ATTUNE_UNSUPPORTED) {
        ++on->result->refused;
        at_engine_note(on, "%s: %s", cell->text, attune_last_detail());
        return ATTUNE_OK;
    }
    AT_FORWARD(status);
    AT_FORWARD(open_ledger(on, cell, &ended));
    if (ended) {
        ++on->result->known;
        at_engine_note(on, "%s: its ledger has an end already", cell->text);
        return ATTUNE_OK;
    }
    return search_open(on, cell);
}
