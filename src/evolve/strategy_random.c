/* random: the control. Every candidate as likely, none twice; it learns nothing, not even boundaries. Whatever claims
 * to search has to beat it. */
#include "evolve/strategy_kinds.h"

const at_strategy_kind at_strategy_random = {
    .name = "random",
    .summary = "the control: candidates by chance",
    .ask = at_strategy_any,
};
