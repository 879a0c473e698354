/* What attune-try says of a candidate. */
#include <math.h>
#include <stdio.h>

#include "base/status.h"
#include "evolve/code_machine_parts.h"

enum { TRIED = -2 }; /* the id of what is looked at */

/* Of seeds that nothing else has: what is raced and judged goes by the user's. */
enum { PUBLIC_CASES = 3 };
static const uint64_t public_seed = 0x7075626c6963;

/* Inputs of another seed, in a worker of its own. */
static attune_status draw_again(at_code_bench *on, at_opened *one, uint64_t seed)
{
    at_measurer_close(one->measurer);
    one->measurer = NULL;
    one->seed = seed;
    return at_opened_measurer(on, one);
}

/* Launches it a few times; *best_us is the least that it took. */
static attune_status try_case(const at_opened *one, at_first_run *seen, double *best_us)
{
    enum { LAUNCHES = 3 };
    const at_machine machine = at_measurer_machine(one->measurer);
    for (int i = 0; i < LAUNCHES && seen->refused == AT_RAN; ++i) {
        AT_FORWARD(machine.racer.try(machine.self, at_opened_first(one->space), seen));
        *best_us = fmin(*best_us, seen->us);
    }
    return ATTUNE_OK;
}

static attune_status try_cases(at_code_bench *on, at_opened *one, at_text *answer)
{
    at_first_run seen = {.refused = AT_RAN};
    double best_us = INFINITY;
    for (int i = 1; i <= PUBLIC_CASES && seen.refused == AT_RAN; ++i) {
        AT_FORWARD(i > 1 ? draw_again(on, one, public_seed + (uint64_t)i) : ATTUNE_OK);
        AT_FORWARD(try_case(one, &seen, &best_us));
    }
    if (seen.refused != AT_RAN) {
        char why[AT_SENTENCE_MAX];
        at_opened_words(one->place.path, seen.why, why, sizeof why);
        return at_fail(ATTUNE_WRONG_RESULT, "%s: %s", at_names_of_refused[seen.refused], why);
    }
    at_text_add(answer, "right on %d public cases; %d configs; about %.1f us a call, untuned and by a rough clock\n",
                PUBLIC_CASES, one->space->count, best_us);
    return ATTUNE_OK;
}

attune_status at_code_bench_try(void *self, const at_sources *candidate, at_text *answer)
{
    at_code_bench *on = self;
    at_opened *one;
    char why[AT_SENTENCE_MAX];
    AT_FORWARD(at_opened_find(on, TRIED, public_seed + 1, candidate, &one));
    attune_status status = at_opened_alone(on, one);
    status = status == ATTUNE_OK ? try_cases(on, one, answer) : status;
    (void)snprintf(why, sizeof why, "%s", attune_last_detail());
    at_opened_close(one);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail(status, "%s", why);
}
