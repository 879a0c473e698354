/* What a call on drawn inputs must do at least: of the lengths that are drawn, not of the longest that are allowed. */
#ifndef REFERENCE_LEAST_H
#define REFERENCE_LEAST_H

#include "reference/inputs.h"

typedef struct at_least {
    double flops; /* as attune_problem_flops counts them */
    double bytes; /* of Q, K, V and O: of what every kernel must read or write, where that is known without looking at
                     values: keys and values count only where no mask, window or page says which */
} at_least;

/* Of the inputs that at_inputs_draw would make, of which only the lengths are drawn here. Operations other than forward
 * whose lengths are drawn have no work that is known: 0. ATTUNE_OUT_OF_MEMORY. */
attune_status at_least_count(const attune_problem *problem, const at_draw *draw, at_least *least);

#endif
