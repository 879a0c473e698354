/* generations: what this project's origin did, made to work. A population is measured; its elites, the fastest seen so
 * far, have children: each parameter from one of two parents (crossover), and now and then moved by up to `radius`
 * steps (mutation). The radius shrinks as the budget is spent, so that the last generations only polish.
 *
 * The first population is half the heuristic's order, half chance. Children that are no candidates, were looked at
 * before or would probably be refused are drawn again. */
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "evolve/strategy_kinds.h"

enum {
    POPULATION = 12, /* of the first generation */
    ELITES = 6,
    ATTEMPTS = 200 /* at one child */
};

static int compare(const at_strategy *strategy, int a, int b)
{
    double difference = strategy->cost[a] - strategy->cost[b];
    return difference < 0 ? -1 : difference > 0 ? 1 : a - b;
}

/* The fastest that were measured, best first; returns how many. */
static int find_elites(const at_strategy *strategy, int elite[ELITES])
{
    int count = 0;
    for (int i = 0; i < strategy->tried_count; ++i) {
        int candidate = strategy->tried[i].candidate;
        if (isnan(strategy->cost[candidate])) {
            continue;
        }
        int at = count < ELITES ? count : ELITES;
        for (; at > 0 && compare(strategy, candidate, elite[at - 1]) < 0; --at) {
            if (at < ELITES) {
                elite[at] = elite[at - 1];
            }
        }
        if (at < ELITES) {
            elite[at] = candidate;
            count += count < ELITES;
        }
    }
    return count;
}

/* Up to three steps at first, one in the end. */
static int radius_of(const at_strategy *strategy)
{
    double left = 1 - (double)strategy->asked_count / strategy->horizon;
    return 1 + (int)(2.999 * fmax(0, left));
}

static int move(at_strategy *strategy, int position, int count, int radius)
{
    int step = 1 + (int)at_random_below(&strategy->random, (uint64_t)radius);
    int moved = position + (at_random_next(&strategy->random) >> 63 != 0 ? step : -step);
    return moved < 0 ? 0 : moved >= count ? count - 1 : moved;
}

/* -1 where the child is no candidate. */
static int child_of(at_strategy *strategy, int mother, int father, int radius)
{
    const at_space *space = strategy->space;
    uint8_t position[ATTUNE_PARAMS_MAX];
    double mutation = 1.0 / (at_space_live(space) > 0 ? at_space_live(space) : 1);
    for (int p = 0; p < space->param_count; ++p) {
        int parent = at_random_next(&strategy->random) >> 63 != 0 ? mother : father;
        int inherited = space->position[(size_t)parent * (size_t)space->param_count + (size_t)p];
        if (space->param[p].live && at_random_uniform(&strategy->random) < mutation) {
            inherited = move(strategy, inherited, space->param[p].count, radius);
        }
        position[p] = (uint8_t)inherited;
    }
    return at_space_at(space, position);
}

static int breed(at_strategy *strategy, const int *elite, int elites)
{
    int radius = radius_of(strategy);
    for (int attempt = 0; attempt < ATTEMPTS; ++attempt) {
        int mother = elite[at_random_below(&strategy->random, (uint64_t)elites)];
        int father = elite[at_random_below(&strategy->random, (uint64_t)elites)];
        int child = child_of(strategy, mother, father, radius + attempt / 50);
        if (child >= 0 && at_strategy_open(strategy, child) && at_strategy_accepts(strategy, child)) {
            return child;
        }
    }
    return -1;
}

static int ask(at_strategy *strategy)
{
    int elite[ELITES];
    int elites = find_elites(strategy, elite);
    if (strategy->asked_count < POPULATION || elites < 2) {
        int next = strategy->asked_count % 2 == 0 ? at_strategy_next_of_order(strategy) : -1;
        return next >= 0 ? next : at_strategy_any(strategy);
    }
    return breed(strategy, elite, elites);
}

const at_strategy_kind at_strategy_generations = {
    .name = "generations",
    .summary = "elites of a population, crossed and mutated, as the origin had it",
    .ask = ask,
};
