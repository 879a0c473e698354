/* One a file strategy_NAME.c, whose head says how it works. */
#ifndef EVOLVE_STRATEGY_KINDS_H
#define EVOLVE_STRATEGY_KINDS_H

#include "evolve/strategy.h"

extern const at_strategy_kind at_strategy_generations, at_strategy_random, at_strategy_surrogate;

#endif
