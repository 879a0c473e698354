/* Inputs and truths of what is judged next are made while a device is at work on what is judged now. */
#include <string.h>

#include "base/status.h"
#include "gate/gate_parts.h"
#include "judge/sanity.h"
#include "judge/timed_case.h"

/* ---- Inputs and truths ------------------------------------------------------------------------------------------- */

/* Threads that a device's own work leaves to others. */
static int helpers(const at_gate *gate)
{
    enum { KEPT = 4 };
    int threads = at_pool_threads(gate->pool);
    return threads > 2 * KEPT ? threads - KEPT : (threads + 1) / 2;
}

static attune_status prefetch_for(at_gate *gate, int index, bool acc16)
{
    const at_gate_options *options = gate->options;
    const at_test_problem *test = &options->problem[index];
    const at_suite suite = {.cache = gate->cache, .seed = options->seed, .cases = options->cases};
    const at_ahead ahead = {at_gate_cache_scope(index, false), helpers(gate), acc16};
    at_prefetch timed_case;
    AT_FORWARD(at_sanity_ahead(&suite, test, &ahead));
    AT_FORWARD(at_suite_ahead(&suite, test, &ahead));
    at_timed_case_prefetch(test, options->seed, acc16, &timed_case);
    return at_case_cache_ahead(gate->cache, at_gate_cache_scope(index, true), ahead.threads, &timed_case);
}

/* A candidate that evidence has for the problem will hardly be judged again. */
static bool will_be_judged(const at_gate *gate, const at_gate_candidate *candidate, const char *problem)
{
    for (size_t i = 0; i < gate->known_count; ++i) {
        for (size_t k = 0; k < gate->known[i].count; ++k) {
            const at_verdict *kept = gate->known[i].entry[k].verdict;
            if (kept != NULL && strcmp(kept->problem, problem) == 0 &&
                strncmp(kept->kernel, candidate->kernel->name, strlen(candidate->kernel->name)) == 0) {
                return false;
            }
        }
    }
    return true;
}

static attune_status prefetch(at_gate *gate, int index)
{
    char problem[ATTUNE_PROBLEM_TEXT_MAX];
    bool wanted[2] = {false, false}; /* of kernels that accumulate in fp16, and of others */
    AT_FORWARD(at_test_problem_print(&gate->options->problem[index], problem, sizeof problem));
    for (int i = 0; i < gate->options->candidate_count; ++i) {
        const at_gate_candidate *candidate = &gate->candidate[i];
        if (candidate->kernel != NULL && will_be_judged(gate, candidate, problem)) {
            wanted[(candidate->kernel->traits & ATTUNE_TRAIT_ACC16) != 0] = true;
        }
    }
    for (int acc16 = 0; acc16 < 2; ++acc16) {
        AT_FORWARD(wanted[acc16] ? prefetch_for(gate, index, acc16 != 0) : ATTUNE_OK);
    }
    return ATTUNE_OK;
}

attune_status at_gate_prefetch(at_gate *gate, int end)
{
    if (gate->target.kind != ATTUNE_TARGET_CUDA) { /* a CPU's cores are what is measured */
        return ATTUNE_OK;
    }
    for (; gate->prefetched < end && gate->prefetched < gate->options->problem_count; ++gate->prefetched) {
        AT_FORWARD(prefetch(gate, gate->prefetched));
    }
    return ATTUNE_OK;
}

int at_gate_cache_scope(int index, bool timed)
{
    return 2 * index + timed;
}
