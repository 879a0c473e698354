/* What can be done while something else is going on: inputs and truths of what is judged next are made while a device
 * is at work on what is judged now, and interpreters load what they need before anyone asks them. Neither touches a
 * device. */
#include <string.h>

#include "base/status.h"
#include "gate/gate_parts.h"
#include "judge/ground.h"
#include "judge/sanity.h"

/* ---- Inputs and truths ------------------------------------------------------------------------------------------- */

/* Threads that a device's own work leaves to others. */
static int helpers(const at_gate *gate)
{
    enum { KEPT = 4 };
    int threads = at_pool_threads(gate->pool);
    return threads > 2 * KEPT ? threads - KEPT : (threads + 1) / 2;
}

static attune_status foresee_for(at_gate *gate, int index, bool acc16)
{
    const at_gate_options *options = gate->options;
    const attune_problem *problem = &options->problem[index];
    const at_suite suite = {.memo = gate->memo, .seed = options->seed, .cases = options->cases};
    const at_ahead ahead = {at_gate_chapter(index, false), helpers(gate), acc16};
    at_foresight ground;
    AT_FORWARD(at_sanity_ahead(&suite, problem, &ahead));
    AT_FORWARD(at_suite_ahead(&suite, problem, &ahead));
    at_ground_foresee(problem, options->seed, acc16, &ground);
    return at_memo_ahead(gate->memo, at_gate_chapter(index, true), ahead.threads, &ground);
}

/* A candidate that evidence has for the problem will hardly be judged again. */
static bool will_be_judged(const at_gate *gate, const at_gate_candidate *candidate, const char *problem)
{
    for (size_t i = 0; i < gate->known_count; ++i) {
        for (size_t k = 0; k < gate->known[i].count; ++k) {
            const at_verdict *kept = gate->known[i].exhibit[k].verdict;
            if (kept != NULL && strcmp(kept->problem, problem) == 0 &&
                strncmp(kept->kernel, candidate->kernel->name, strlen(candidate->kernel->name)) == 0) {
                return false;
            }
        }
    }
    return true;
}

static attune_status foresee(at_gate *gate, int index)
{
    char problem[ATTUNE_PROBLEM_TEXT_MAX];
    bool wanted[2] = {false, false}; /* of kernels that accumulate in fp16, and of others */
    AT_FORWARD(attune_problem_print(&gate->options->problem[index], problem, sizeof problem));
    for (int i = 0; i < gate->options->candidate_count; ++i) {
        const at_gate_candidate *candidate = &gate->candidate[i];
        if (candidate->kernel != NULL && will_be_judged(gate, candidate, problem)) {
            wanted[(candidate->kernel->traits & ATTUNE_TRAIT_ACC16) != 0] = true;
        }
    }
    for (int acc16 = 0; acc16 < 2; ++acc16) {
        AT_FORWARD(wanted[acc16] ? foresee_for(gate, index, acc16 != 0) : ATTUNE_OK);
    }
    return ATTUNE_OK;
}

attune_status at_gate_foresee(at_gate *gate, int end)
{
    if (gate->target.kind != ATTUNE_TARGET_CUDA) { /* a CPU's cores are what is measured */
        return ATTUNE_OK;
    }
    for (; gate->foreseen < end && gate->foreseen < gate->options->problem_count; ++gate->foreseen) {
        AT_FORWARD(foresee(gate, gate->foreseen));
    }
    return ATTUNE_OK;
}

int at_gate_chapter(int index, bool timed)
{
    return 2 * index + timed;
}

/* ---- Interpreters ------------------------------------------------------------------------------------------------ */

attune_status at_gate_start_ahead(at_gate *gate, at_gate_worker which)
{
    at_remote_options options;
    at_gate_remote_options(gate, which, &options);
    bool wanted = at_gate_wants_fetcher(gate) && options.command != NULL && gate->coming[which] == NULL;
    return wanted ? at_remote_start(&options, &gate->coming[which]) : ATTUNE_OK;
}

attune_status at_gate_open_worker(at_gate *gate, at_gate_worker which, const at_remote_options *options,
                                  at_device **worker)
{
    at_device **ahead = &gate->coming[which];
    if (*ahead == NULL) {
        return at_remote_open(options, worker);
    }
    *worker = *ahead;
    *ahead = NULL;
    attune_status status = at_remote_begin(*worker, options);
    if (status != ATTUNE_OK) {
        (*worker)->ops->close(*worker);
        *worker = NULL;
    }
    return status;
}
