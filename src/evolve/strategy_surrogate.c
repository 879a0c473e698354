/* surrogate: a model of the time over the space, asked instead of the machine. A random forest is grown over all that
 * was measured; the candidate is asked for whose expected improvement on the best (Jones, Schonlau, Welch 1998), times
 * the chance that it is not refused, is greatest. So it looks where the forest expects speed, and where it knows
 * little.
 *
 * It begins with the first of the heuristic order and, in turn with them, candidates far from all that are known. The
 * heuristic's order is also a column of the forest: a good one makes learning short, a bad one is ignored. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "evolve/forest.h"
#include "evolve/strategy_kinds.h"
#include "measure/statistics.h"

enum {
    TREES = 40,
    BEGINNING = 8, /* candidates before the first forest */
    SERVES = 24,   /* known candidates */
    FAR_DRAWS = 4  /* of which the farthest is taken */
};

/* Of logarithms: what takes a sixth longer than the best may be as bad as what takes a hundred times as long. Else the
 * few that are hopeless would be all that a forest sees. */
#define HOPELESS 0.15

typedef struct modeller {
    int columns;
    double *x;        /* [space->count][columns] */
    double *rows, *y; /* what the forest is grown from, [space->count][columns] */
    double *worth;    /* [space->count], what the last forest promised */
    int served;       /* asks that it answered; -1: there was none */
} modeller;

/* ---- Life -------------------------------------------------------------------------------------------------------- */

/* Live parameters, then the place in the heuristic order, logarithmically: first places differ more than last ones. */
static void fill_columns(const at_space *space, modeller *made)
{
    double *x = made->x;
    double last = log1p(space->order_count > 0 ? space->order_count : 1);
    for (int candidate = 0; candidate < space->count; ++candidate) {
        for (int p = 0; p < space->param_count; ++p) {
            if (space->param[p].live) {
                *x++ = at_space_feature(space, candidate, p);
            }
        }
        int rank = space->rank[candidate] < space->order_count ? space->rank[candidate] : space->order_count;
        *x++ = log1p(rank) / last;
    }
}

static attune_status create(at_strategy *strategy)
{
    const at_space *space = strategy->space;
    modeller *made = calloc(1, sizeof *made);
    strategy->self = made;
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a strategy");
    made->columns = at_space_live(space) + 1;
    size_t cells = (size_t)space->count * (size_t)made->columns;
    made->x = malloc(cells * sizeof *made->x);
    made->rows = malloc(cells * sizeof *made->rows);
    made->y = malloc((size_t)space->count * sizeof *made->y);
    made->worth = malloc((size_t)space->count * sizeof *made->worth);
    made->served = -1;
    AT_FAIL_IF(made->x == NULL || made->rows == NULL || made->y == NULL || made->worth == NULL, ATTUNE_OUT_OF_MEMORY,
               "no memory for a model of %d configs", space->count);
    fill_columns(space, made);
    return ATTUNE_OK;
}

static void destroy(at_strategy *strategy)
{
    modeller *self = strategy->self;
    free(self->x);
    free(self->rows);
    free(self->y);
    free(self->worth);
    free(self);
}

/* ---- Beginning --------------------------------------------------------------------------------------------------- */

/* As many as a forest needs to say anything, and no more than half of a small budget. */
static int beginning(const at_strategy *strategy)
{
    int half = strategy->options.budget / 2;
    return BEGINNING < half ? BEGINNING : half;
}

/* Of some candidates drawn by chance, the one farthest from all that were asked for. */
static int far_away(at_strategy *strategy)
{
    int best = -1;
    double farthest = -1;
    for (int draw = 0; draw < FAR_DRAWS; ++draw) {
        int candidate = at_strategy_any(strategy);
        double nearest = HUGE_VAL;
        for (int other = 0; other < strategy->space->count; ++other) {
            if (!at_strategy_open(strategy, other)) {
                nearest = fmin(nearest, at_space_distance(strategy->space, candidate, other));
            }
        }
        if (nearest > farthest && at_strategy_accepts(strategy, candidate)) {
            best = candidate;
            farthest = nearest;
        }
    }
    return best;
}

/* ---- Modelling --------------------------------------------------------------------------------------------------- */

/* The cost from which on all are as bad: of the slowest quarter of those that are known, and none that is near the
 * best. While nearly all are far from it, a search that took them for alike would not see which way is down. */
static double hopeless_from(const at_strategy *strategy)
{
    const modeller *self = strategy->self;
    double near = strategy->cost[strategy->best] + HOPELESS;
    size_t known = 0;
    for (int i = 0; i < strategy->tried_count; ++i) {
        double cost = strategy->cost[strategy->tried[i].candidate];
        self->y[known] = cost;
        known += !isnan(cost);
    }
    at_sort(self->y, known);
    return fmax(near, self->y[3 * known / 4]);
}

static attune_status grow(at_strategy *strategy, at_forest **forest)
{
    modeller *self = strategy->self;
    size_t columns = (size_t)self->columns;
    int rows = 0;
    const double hopeless = hopeless_from(strategy);
    for (int i = 0; i < strategy->tried_count; ++i) {
        int candidate = strategy->tried[i].candidate;
        if (!isnan(strategy->cost[candidate])) {
            memcpy(self->rows + (size_t)rows * columns, self->x + (size_t)candidate * columns,
                   columns * sizeof *self->rows);
            self->y[rows++] = fmin(strategy->cost[candidate], hopeless);
        }
    }
    at_forest_options options = {.trees = TREES, .leaf = 1, .seed = at_random_next(&strategy->random)};
    return at_forest_grow(self->rows, self->y, rows, self->columns, &options, forest);
}

/* Of a normal distribution below `best`, on average. */
static double expected_improvement(double mean, double deviation, double best)
{
    if (deviation <= 0) {
        return fmax(0, best - mean);
    }
    double z = (best - mean) / deviation;
    double below = 0.5 * erfc(-z * 0.7071067811865476);
    double density = exp(-0.5 * z * z) * 0.3989422804014327;
    return (best - mean) * below + deviation * density;
}

/* Expected improvements on the best, times the chance not to be refused. */
static void find_worths(at_strategy *strategy, const at_forest *forest)
{
    modeller *self = strategy->self;
    double best = strategy->cost[strategy->best];
    for (int candidate = 0; candidate < strategy->space->count; ++candidate) {
        if (at_strategy_open(strategy, candidate)) {
            double deviation;
            double mean = at_forest_ask(forest, self->x + (size_t)candidate * (size_t)self->columns, &deviation);
            double chance = at_boundary_chance(strategy->boundary, candidate);
            double sure = chance < 0.5 ? 1 - chance : 0; /* where it knows nothing it would promise most */
            self->worth[candidate] = expected_improvement(mean, deviation, best) * sure;
        }
    }
}

/* -1 where nothing is promised. */
static int most_promising(const at_strategy *strategy)
{
    const modeller *self = strategy->self;
    double most = 0;
    int best = -1;
    for (int candidate = 0; candidate < strategy->space->count; ++candidate) {
        if (at_strategy_open(strategy, candidate) && self->worth[candidate] > most) {
            most = self->worth[candidate];
            best = candidate;
        }
    }
    return best;
}

/* The more is known, the less one more measurement changes: a forest answers once, and once more for every SERVES that
 * it knows. */
static attune_status renew(at_strategy *strategy)
{
    modeller *self = strategy->self;
    at_forest *forest;
    if (self->served >= 0 && self->served <= strategy->tried_count / SERVES) {
        return ATTUNE_OK;
    }
    AT_FORWARD(grow(strategy, &forest));
    find_worths(strategy, forest);
    at_forest_destroy(forest);
    self->served = 0;
    return ATTUNE_OK;
}

static int ask(at_strategy *strategy)
{
    if (strategy->asked_count < beginning(strategy) || strategy->best < 0) {
        int next = strategy->asked_count % 2 == 0 ? at_strategy_next_of_order(strategy) : -1;
        return next >= 0 && at_strategy_accepts(strategy, next) ? next : far_away(strategy);
    }
    modeller *self = strategy->self;
    if (renew(strategy) != ATTUNE_OK) {
        return -1; /* no memory for a model: chance goes on */
    }
    ++self->served;
    return most_promising(strategy);
}

const at_strategy_kind at_strategy_surrogate = {
    .name = "surrogate",
    .summary = "a random forest of the times, and the most expected improvement",
    .create = create,
    .ask = ask,
    .destroy = destroy,
};
