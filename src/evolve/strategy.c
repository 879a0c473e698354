#include "evolve/strategy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "evolve/strategy_kinds.h"

enum { HORIZON = 128 }; /* of a search whose budget is not a number of candidates */

const char *const at_names_of_refused[] = {"ran", "resources", "compile", "launch", "wrong", NULL};

const at_strategy_kind *const at_strategy_kinds[] = {
    &at_strategy_surrogate, /* the default */
    &at_strategy_generations,
    &at_strategy_random, /* the control */
    NULL,
};

double at_composite(double speedup, const at_figures *figures)
{
    double penalties = 5.0 * figures->barriers + fmax(0, figures->registers - 128) + figures->spill_bytes;
    return 1000 * speedup + 2 * figures->tensor_percent + figures->sm_percent - penalties;
}

const at_strategy_kind *at_strategy_find(const char *name)
{
    at_text names;
    char list[160];
    at_text_init_fixed(&names, list, sizeof list);
    for (const at_strategy_kind *const *kind = at_strategy_kinds; *kind != NULL; ++kind) {
        if (strcmp((*kind)->name, name) == 0) {
            return *kind;
        }
        at_text_add(&names, "%s%s", names.length > 0 ? ", " : "", (*kind)->name);
    }
    (void)at_fail(ATTUNE_NOT_FOUND, "there is no strategy '%.40s'; there are: %s", name, list);
    return NULL;
}

/* ---- Life -------------------------------------------------------------------------------------------------------- */

static attune_status take_first(at_strategy *strategy, const at_strategy_options *options)
{
    size_t bytes = (size_t)options->first_count * sizeof *options->first;
    for (int i = 0; i < options->first_count; ++i) {
        AT_FAIL_IF(options->first[i] < 0 || options->first[i] >= strategy->space->count, ATTUNE_INVALID_ARGUMENT,
                   "first candidate %d: the space has 0 ... %d", options->first[i], strategy->space->count - 1);
    }
    strategy->first = malloc(bytes + 1);
    AT_FAIL_IF(strategy->first == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a strategy");
    if (bytes > 0) {
        memcpy(strategy->first, options->first, bytes);
    }
    strategy->options.first = strategy->first;
    return ATTUNE_OK;
}

static attune_status prepare(at_strategy *strategy, const at_strategy_options *options)
{
    size_t count = (size_t)strategy->space->count;
    strategy->options = *options;
    strategy->random = at_random_seed(options->seed, 1);
    strategy->best = -1;
    strategy->asked = calloc(count, sizeof *strategy->asked);
    strategy->tried = calloc(count, sizeof *strategy->tried);
    strategy->cost = malloc(count * sizeof *strategy->cost);
    AT_FAIL_IF(strategy->asked == NULL || strategy->tried == NULL || strategy->cost == NULL, ATTUNE_OUT_OF_MEMORY,
               "no memory for a strategy over %zu configs", count);
    for (size_t i = 0; i < count; ++i) {
        strategy->cost[i] = NAN;
    }
    if (strategy->options.budget <= 0 || strategy->options.budget > strategy->space->count) {
        strategy->options.budget = strategy->space->count;
    }
    bool open_end = options->budget <= 0 && strategy->options.budget > HORIZON;
    strategy->horizon = open_end ? HORIZON : strategy->options.budget;
    AT_FORWARD(take_first(strategy, options));
    AT_FORWARD(at_boundary_create(strategy->space, options->seed, &strategy->boundary));
    return strategy->kind->create != NULL ? strategy->kind->create(strategy) : ATTUNE_OK;
}

attune_status at_strategy_create(const char *name, const at_space *space, const at_strategy_options *options,
                                 at_strategy **strategy)
{
    *strategy = NULL;
    const at_strategy_kind *kind = name == NULL ? at_strategy_kinds[0] : at_strategy_find(name);
    if (kind == NULL) {
        return ATTUNE_NOT_FOUND;
    }
    at_strategy *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a strategy");
    made->kind = kind;
    made->space = space;
    attune_status status = prepare(made, options);
    if (status != ATTUNE_OK) {
        at_strategy_destroy(made);
        return status;
    }
    *strategy = made;
    return ATTUNE_OK;
}

void at_strategy_destroy(at_strategy *strategy)
{
    if (strategy == NULL) {
        return;
    }
    if (strategy->kind->destroy != NULL && strategy->self != NULL) {
        strategy->kind->destroy(strategy);
    }
    at_boundary_destroy(strategy->boundary);
    free(strategy->asked);
    free(strategy->tried);
    free(strategy->cost);
    free(strategy->first);
    free(strategy);
}

/* ---- Asking ------------------------------------------------------------------------------------------------------ */

void at_strategy_offer(at_strategy *strategy, int candidate)
{
    strategy->asked_count += !strategy->asked[candidate];
    strategy->asked[candidate] = true;
}

static int next_of(const at_strategy *strategy, const int *list, int count)
{
    for (int i = 0; i < count; ++i) {
        if (at_strategy_open(strategy, list[i])) {
            return list[i];
        }
    }
    return -1;
}

int at_strategy_next_of_order(const at_strategy *strategy)
{
    return next_of(strategy, strategy->space->order, strategy->space->order_count);
}

int at_strategy_any(at_strategy *strategy)
{
    int open = strategy->space->count - strategy->asked_count;
    if (open == 0) {
        return -1;
    }
    uint64_t skip = at_random_below(&strategy->random, (uint64_t)open);
    int candidate = 0;
    for (;; ++candidate) {
        if (at_strategy_open(strategy, candidate) && skip-- == 0) {
            return candidate;
        }
    }
}

bool at_strategy_accepts(at_strategy *strategy, int candidate)
{
    double chance = at_boundary_chance(strategy->boundary, candidate);
    return chance <= 0 || (chance < 0.5 && at_random_uniform(&strategy->random) >= 2 * chance);
}

int at_strategy_ask(at_strategy *strategy)
{
    if (strategy->asked_count == strategy->space->count) {
        return -1;
    }
    int candidate = next_of(strategy, strategy->first, strategy->options.first_count);
    if (candidate < 0) {
        candidate = strategy->kind->ask(strategy);
    }
    if (candidate < 0) {
        candidate = at_strategy_any(strategy);
    }
    if (candidate >= 0) {
        at_strategy_offer(strategy, candidate);
    }
    return candidate;
}

/* ---- Telling ----------------------------------------------------------------------------------------------------- */

static double cost_of(at_strategy *strategy, const at_tried *tried)
{
    if (tried->refused != AT_RAN) {
        return NAN;
    }
    if (strategy->options.fitness == AT_FITNESS_TIME) {
        return tried->log_us;
    }
    return -at_composite(exp(strategy->baseline - tried->log_us), &tried->figures) / 1000;
}

static at_tried *place_of(at_strategy *strategy, int candidate)
{
    int at = 0;
    while (at < strategy->tried_count && strategy->tried[at].candidate != candidate) {
        ++at;
    }
    strategy->tried_count += at == strategy->tried_count;
    return &strategy->tried[at];
}

/* A longer race may have taken back what made one the best. */
static int find_best(const at_strategy *strategy)
{
    int best = -1;
    for (int i = 0; i < strategy->tried_count; ++i) {
        int candidate = strategy->tried[i].candidate;
        if (!isnan(strategy->cost[candidate]) && (best < 0 || strategy->cost[candidate] < strategy->cost[best])) {
            best = candidate;
        }
    }
    return best;
}

attune_status at_strategy_tell(at_strategy *strategy, const at_tried *tried)
{
    int candidate = tried->candidate;
    AT_FAIL_IF(candidate < 0 || candidate >= strategy->space->count || !strategy->asked[candidate],
               ATTUNE_INVALID_ARGUMENT, "candidate %d was not asked for", candidate);
    AT_FAIL_IF(tried->refused == AT_RAN && !isfinite(tried->log_us), ATTUNE_INVALID_ARGUMENT,
               "candidate %d ran in a time that is no number", candidate);
    bool first_time = strategy->best < 0 && tried->refused == AT_RAN;
    *place_of(strategy, candidate) = *tried;
    strategy->baseline = first_time ? tried->log_us : strategy->baseline;
    strategy->cost[candidate] = cost_of(strategy, tried);
    strategy->best = find_best(strategy);
    at_boundary_learn(strategy->boundary, candidate, tried->refused != AT_RAN);
    if (strategy->kind->tell != NULL) {
        strategy->kind->tell(strategy, tried);
    }
    return ATTUNE_OK;
}
