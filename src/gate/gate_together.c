/* What many verdicts say together. */
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "gate/gate_parts.h"
#include "measure/ratio.h"

/* How likely r is as it was seen, where the candidate is not faster than its hardest peer; 1 where it did not pass. */
static double chance(const at_verdict *verdict)
{
    double p = verdict->fast == AT_PASS ? 0 : 1;
    for (int arm = 1; arm < verdict->session.arm_count && verdict->fast == AT_PASS; ++arm) {
        p = at_verdict_is_peer(verdict, arm) ? fmax(p, verdict->speed[arm].ratio[AT_MODE_WARM].p_above) : p;
    }
    return p;
}

attune_status at_gate_question(at_gate *gate, const at_verdict *verdict)
{
    double *more = realloc(gate->chance, (size_t)(gate->questions + 1) * sizeof *more);
    AT_FAIL_IF(more == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d questions", gate->questions + 1);
    gate->chance = more;
    gate->chance[gate->questions++] = chance(verdict);
    return ATTUNE_OK;
}

attune_status at_gate_weigh(const at_gate *gate, at_gate_result *result)
{
    static const double level = 0.025; /* one side of an interval of 95 % */
    bool *holds = calloc((size_t)gate->questions + 1, sizeof *holds);
    AT_FAIL_IF(holds == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d questions", gate->questions);
    at_holm(gate->chance, gate->questions, level, holds);
    for (int i = 0; i < gate->questions; ++i) {
        result->faster += gate->chance[i] < 1;
        result->faster_among += holds[i];
    }
    free(holds);
    return ATTUNE_OK;
}
