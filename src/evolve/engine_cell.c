/* One problem: its space, its ledger, its search. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "evolve/engine_parts.h"

static attune_status open_live(at_engine *on, at_cell *cell)
{
    const at_measurer_options options = {.space = cell->space,
                                         .kernel = on->kernel,
                                         .test = *cell->test,
                                         .target = on->target,
                                         .worker = &on->worker,
                                         .compilers = on->compilers,
                                         .source =
                                             on->found.stranger != NULL ? at_stranger_digest(on->found.stranger) : NULL,
                                         .pool = on->pool,
                                         .seed = on->options->gate.seed};
    return at_measurer_open(&options, &cell->measurer);
}

/* Fresh processes of a final that ties may take: no more than a search that counts its runs was given. */
static int final_processes(const at_evolve_options *options)
{
    enum { LEAST = 5, MOST = 23 };
    const bool few = options->budget_runs > 0 && options->budget_runs < MOST;
    return !few ? MOST : options->budget_runs > LEAST ? options->budget_runs : LEAST;
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
                                  .seed = options->gate.seed,
                                  .budget_s = options->budget_s,
                                  .budget_runs = options->budget_runs,
                                  .exhaustive = options->exhaustive,
                                  .listed = brief || options->one != NULL,
                                  .batch = at_engine_batch(on),
                                  .baseline = -1,
                                  .final_processes = brief ? 3 : 5,
                                  .final_processes_max = brief ? 3 : final_processes(options),
                                  .final_blocks = brief ? 6 : 10,
                                  .final_s = hurry ? options->budget_s : final_s,
                                  .brief = brief,
                                  .watch = options->watch.search};
    if (options->one != NULL) { /* nothing but what it begins with */
        search->budget_s = 0;
        search->budget_runs = 2;
    }
    at_race_policy_init(&search->policy, options->gate.seed);
    if (options->exhaustive) {
        search->policy.blocks_max = 8;
    }
}

/* What the planner would take now takes part in the final, where it is another kernel's, or is not searched. */
static attune_status add_baseline(const at_engine *on, const at_cell *cell, const char *chosen,
                                  at_search_options *search)
{
    size_t length = strlen(on->kernel->name);
    if (on->worker.confined) {
        return ATTUNE_OK; /* its worker runs nothing else: others are for the gate to hold it against */
    }
    bool own = strncmp(chosen, on->kernel->name, length) == 0 && (chosen[length] == ':' || chosen[length] == '\0');
    own = own && (on->fixed[0] == '\0' || at_space_find_text(cell->space, chosen) >= 0);
    return own || chosen[0] == '\0' ? ATTUNE_OK : at_measurer_add(cell->measurer, chosen, &search->baseline);
}

static attune_status search_live(at_engine *on, at_cell *cell, const at_seed *seeds, int count, const char *chosen)
{
    at_search_options search;
    fill_search(on, cell, &search);
    search.first = seeds;
    search.first_count = count;
    AT_FORWARD(add_baseline(on, cell, chosen, &search));
    const at_machine machine = at_measurer_machine(cell->measurer);
    AT_FORWARD(at_search_run(&search, &machine, cell->ledger, cell->before, &cell->result));
    cell->searched = true;
    if (cell->result.winner >= 0) {
        machine.name(machine.self, cell->result.winner, cell->winner);
        at_engine_named(on, cell->winner);
    }
    if (cell->result.opponent >= 0) {
        machine.name(machine.self, cell->result.opponent, cell->opponent);
        at_engine_named(on, cell->opponent);
    }
    if (cell->result.author >= 0) {
        machine.name(machine.self, cell->result.author, cell->author);
        at_engine_named(on, cell->author);
    }
    return ATTUNE_OK;
}

static void report_found(const at_engine *on, const at_cell *cell)
{
    const at_evolve_watch *watch = &on->options->watch;
    for (int i = 0; watch->top != NULL && i < cell->result.top_count; ++i) {
        char config[AT_KERNEL_TEXT_MAX];
        at_space_print(cell->space, cell->result.top[i], config);
        watch->top(watch->self, i + 1, config, cell->result.top_us[i], cell->result.top_score[i]);
    }
    if (watch->found != NULL) {
        const at_found_texts texts = {cell->winner, cell->opponent, cell->author};
        watch->found(watch->self, &cell->result, &texts);
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
    at_measurer_close(cell->measurer);
    cell->measurer = NULL;
    AT_FORWARD(status);
    count_end(on, cell);
    report_found(on, cell);
    return ATTUNE_OK;
}

/* A problem that the kernel does not support is passed over, and said. */
attune_status at_engine_search(at_engine *on, at_cell *cell)
{
    bool ended = false;
    AT_FORWARD(at_test_problem_print(cell->test, cell->text, sizeof cell->text));
    attune_status status = at_space_open(on->kernel, &cell->test->problem, &on->target, on->fixed, &cell->space);
    if (status == ATTUNE_UNSUPPORTED) {
        ++on->result->refused;
        at_engine_note(on, "%s: %s", cell->text, attune_last_detail());
        return ATTUNE_OK;
    }
    AT_FORWARD(status);
    AT_FORWARD(at_engine_open_ledger(on, cell, &ended));
    if (ended) {
        ++on->result->known;
        at_engine_note(on, "%s: its ledger has an end already", cell->text);
        return ATTUNE_OK;
    }
    return search_open(on, cell);
}
