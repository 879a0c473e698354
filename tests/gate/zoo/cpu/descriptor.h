/* The descriptor that the CPU zoo shares: what attend.h computes. A kernel's descriptor defines NAME and SUMMARY, and
 * perhaps one of the other macros, and includes this. */
#ifndef ZOO_CPU_DESCRIPTOR_H
#define ZOO_CPU_DESCRIPTOR_H

#include "attune/kernel.h"

#ifndef TRAITS
#define TRAITS 0
#endif
#ifndef SCRATCH
#define SCRATCH ((12288 + 256) * 4)
#endif
#ifndef WORKSPACE
#define WORKSPACE attune_term_const(0)
#endif
#define TEXT(x) TEXT_OF(x)
#define TEXT_OF(x) #x
#define JOIN(a, b) JOIN_OF(a, b)
#define JOIN_OF(a, b) a##b

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)target;
    if (problem->window_left >= 0 || problem->window_right >= 0 || problem->softcap > 0 || problem->bias ||
        problem->mask || problem->alibi || problem->sink || problem->seqused_kv || problem->varlen) {
        return attune_refuse(reason, "features: causal masks only");
    }
    if (problem->seqlen_kv > 12288) {
        return attune_refuse(reason, "seqlen_kv %lld: at most 12288", (long long)problem->seqlen_kv);
    }
    return true;
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)problem, (void)target, (void)config, (void)reason;
    return true;
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *needs)
{
    (void)problem, (void)target, (void)config;
    *needs = (attune_resources){.scratch_bytes = SCRATCH, .workspace = WORKSPACE};
}

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    (void)problem, (void)target, (void)config;
    return index == 0;
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    (void)problem, (void)target, (void)config;
    *list = (attune_steps){.count = 1};
    list->step[0] = (attune_step){
        .kind = ATTUNE_STEP_KERNEL,
        .as.kernel = {.entry = "attend_" TEXT(NAME),
                      .grid = {attune_term_size(ATTUNE_SIZE_SEQLEN_Q), attune_term_size(ATTUNE_SIZE_HEADS_Q),
                               attune_term_size(ATTUNE_SIZE_BATCH)},
                      .block = {1, 1, 1},
                      .cluster = {1, 1, 1},
                      .smem = attune_term_const(0)}};
}

extern const attune_kernel JOIN(at_kernel_, NAME);
const attune_kernel JOIN(at_kernel_, NAME) = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CPU,
    .name = TEXT(NAME),
    .summary = SUMMARY,
    .traits = TRAITS,
    .supports = supports,
    .valid = valid,
    .resources = resources,
    .heuristic = heuristic,
    .steps = steps,
};

#endif
