#include <string.h>

#include "base/status.h"
#include "reference/fill.h"

attune_status at_inputs_draw(const attune_problem *problem, const at_draw *draw, at_inputs *inputs)
{
    memset(inputs, 0, sizeof *inputs);
    AT_FORWARD(attune_problem_check(problem));
    inputs->problem = *problem;
    inputs->draw = *draw;
    attune_status status = at_inputs_place(inputs);
    if (status == ATTUNE_OK) {
        status = at_fill(inputs);
    }
    if (status == ATTUNE_OK) {
        at_inputs_poison(inputs, draw->poison);
    } else {
        at_inputs_free(inputs);
    }
    return status;
}
