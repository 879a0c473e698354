/* annealing: simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983) with tabu and a nearest-neighbour filter.
 *
 * It stands on a candidate and looks at those few steps away. Nothing that was looked at is looked at again (the tabu
 * list is as long as the search). Of some neighbours drawn by chance the one is asked for whose nearest known
 * neighbours are fastest: measuring is dear, guessing is free. When it is told, it moves there if that is faster, or,
 * with a chance that falls with the temperature, if it is not. The temperature falls from a tenth of the time to a
 * thousandth as the budget is spent. It starts from the heuristic's first; where every neighbour is known it looks
 * further away, from the best. */
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "evolve/strategy_kinds.h"

enum {
    STARTS = 4,    /* of the heuristic order, of which the fastest is where it begins */
    PROPOSALS = 8, /* of which the most promising is asked for */
    NEAREST = 3    /* known neighbours that a guess rests on */
};

#define HOT 0.1
#define COLD 0.001

typedef struct walker {
    int here;  /* -1: nowhere yet */
    int *list; /* [space->count], for neighbours */
} walker;

static attune_status create(at_strategy *strategy)
{
    walker *made = calloc(1, sizeof *made);
    strategy->self = made;
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a strategy");
    made->here = -1;
    made->list = malloc((size_t)strategy->space->count * sizeof *made->list);
    AT_FAIL_IF(made->list == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a strategy");
    return ATTUNE_OK;
}

static void destroy(at_strategy *strategy)
{
    walker *self = strategy->self;
    free(self->list);
    free(self);
}

static double temperature_of(const at_strategy *strategy)
{
    double spent = fmin(1, (double)strategy->asked_count / strategy->horizon);
    return HOT * pow(COLD / HOT, spent);
}

/* The mean cost of the nearest that are known, nearer ones counting more. */
static double guess(const at_strategy *strategy, int candidate)
{
    double apart[NEAREST + 1];
    double cost[NEAREST + 1];
    int count = 0;
    for (int i = 0; i < strategy->tried_count; ++i) {
        int known = strategy->tried[i].candidate;
        if (isnan(strategy->cost[known])) {
            continue;
        }
        double distance = at_space_distance(strategy->space, candidate, known);
        int at = count < NEAREST ? count++ : NEAREST;
        for (; at > 0 && distance < apart[at - 1]; --at) {
            apart[at] = apart[at - 1];
            cost[at] = cost[at - 1];
        }
        apart[at] = distance;
        cost[at] = strategy->cost[known];
    }
    double weights = 0;
    double sum = 0;
    for (int i = 0; i < count; ++i) {
        double weight = 1 / (apart[i] + 1e-3);
        weights += weight;
        sum += weight * cost[i];
    }
    return weights > 0 ? sum / weights : 0;
}

/* The most promising of some that are drawn by chance from the list; -1 where none is dared. */
static int choose(at_strategy *strategy, const int *list, int count)
{
    int best = -1;
    double least = HUGE_VAL;
    for (int i = 0; i < PROPOSALS; ++i) {
        int candidate = list[at_random_below(&strategy->random, (uint64_t)count)];
        double cost = guess(strategy, candidate);
        if (cost < least && at_strategy_dares(strategy, candidate)) {
            best = candidate;
            least = cost;
        }
    }
    return best;
}

static int open_neighbours(const at_strategy *strategy, int from, int radius, int *list)
{
    int all = at_space_neighbours(strategy->space, from, radius, list);
    int open = 0;
    for (int i = 0; i < all; ++i) {
        if (at_strategy_open(strategy, list[i])) {
            list[open++] = list[i];
        }
    }
    return open;
}

static int ask(at_strategy *strategy)
{
    walker *self = strategy->self;
    if (strategy->asked_count < STARTS || self->here < 0) {
        return at_strategy_next_of_order(strategy);
    }
    for (int radius = 1; radius <= 8; ++radius) {
        int from = radius <= 2 ? self->here : strategy->best;
        int open = open_neighbours(strategy, from, radius, self->list);
        int chosen = open > 0 ? choose(strategy, self->list, open) : -1;
        if (chosen >= 0) {
            return chosen;
        }
    }
    return -1;
}

static void tell(at_strategy *strategy, const at_tried *tried)
{
    walker *self = strategy->self;
    double cost = strategy->cost[tried->candidate];
    if (isnan(cost)) {
        return;
    }
    bool begins = self->here < 0 || strategy->tried_count <= STARTS;
    double worse = self->here < 0 || isnan(strategy->cost[self->here]) ? 0 : cost - strategy->cost[self->here];
    double chance = begins ? 0 : exp(-worse / temperature_of(strategy));
    if (worse <= 0 || at_random_uniform(&strategy->random) < chance) {
        self->here = tried->candidate;
    }
}

const at_strategy_kind at_strategy_annealing = {
    .name = "annealing",
    .summary = "simulated annealing with tabu and a nearest-neighbour filter",
    .create = create,
    .ask = ask,
    .tell = tell,
    .destroy = destroy,
};
