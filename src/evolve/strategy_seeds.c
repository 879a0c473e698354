/* seeds: no search at all. What was known before (wisdom, the micro-benchmark), then the descriptor's heuristic order,
 * and an end after `budget` candidates: enough to refresh the wisdom of a whole grid of problems. */
#include "evolve/strategy_kinds.h"

static int ask(at_strategy *strategy)
{
    return strategy->asked_count < strategy->options.budget ? at_strategy_next_of_order(strategy) : -1;
}

const at_strategy_kind at_strategy_seeds = {
    .name = "seeds",
    .summary = "what was known before, then the kernel's own order, and no search",
    .ask = ask,
    .stops = true,
};
