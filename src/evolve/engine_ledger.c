/* The ledgers of the engine: one a problem. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "evolve/engine_parts.h"

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

static void fill_start(const at_engine *on, const at_cell *cell, at_event_start *start)
{
    const at_evolve_options *options = on->options;
    const char *strategy = options->strategy != NULL ? options->strategy : at_strategy_kinds[0]->name;
    *start = (at_event_start){.seed = options->gate.seed};
    (void)snprintf(start->attune, sizeof start->attune, "%s", attune_version_string());
    (void)snprintf(start->kernel, sizeof start->kernel, "%s", on->kernel->name);
    (void)snprintf(start->problem, sizeof start->problem, "%s", cell->text);
    (void)snprintf(start->target, sizeof start->target, "%s", on->target_text);
    at_engine_source(on, start->source);
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
        at_engine_batch(on));
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

attune_status at_engine_check_ledger(const at_engine *on, const at_test_problem *test)
{
    char path[PATH_MAX];
    at_event event = {.kind = AT_EVENT_START};
    at_cell cell = {.test = test};
    bool begun;
    AT_FORWARD(at_test_problem_print(test, cell.text, sizeof cell.text));
    AT_FORWARD(look_at_ledger(on, &cell, &event, path, &begun));
    return begun ? check_begun(on, path, &event.as.start) : at_writer_check(path);
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

attune_status at_engine_open_ledger(const at_engine *on, at_cell *cell, bool *ended)
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
