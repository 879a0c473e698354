/* The descriptor that the CPU zoo shares: what attend.h computes. A kernel's descriptor defines NAME and SUMMARY, and
 * perhaps one of the other macros, and includes this. */
#ifndef ZOO_CPU_DESCRIPTOR_H
#define ZOO_CPU_DESCRIPTOR_H

#include "../cuda/frame.h"

#ifndef SCRATCH
#define SCRATCH ((12288 + 256) * 4)
#endif

#ifndef REFUSES /* what else it does not support: a text, or NULL */
#define REFUSES(p) NULL
#endif

#ifndef ITEMS /* terms of the grid; `p` is the problem */
#define ITEMS(p)                                                                                                       \
    attune_term_size(ATTUNE_SIZE_SEQLEN_Q), attune_term_size(ATTUNE_SIZE_HEADS_Q), attune_term_size(ATTUNE_SIZE_BATCH)
#endif

#ifndef LEAVES /* a number that the first step leaves in the workspace, if there is such a step */
#define FIRST 0
#define LEAVES(p) 0
#else
#define FIRST 1
#endif

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    const char *refused = REFUSES(problem);
    (void)target;
    if (refused != NULL) {
        return attune_refuse(reason, "%s", refused);
    }
    if (problem->seqlen_kv > 12288) {
        return attune_refuse(reason, "seqlen_kv %lld: at most 12288", (long long)problem->seqlen_kv);
    }
    return true;
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *needs)
{
    (void)problem, (void)target, (void)config;
    *needs = (attune_resources){.scratch_bytes = SCRATCH, .workspace = WORKSPACE};
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    (void)problem, (void)target, (void)config;
    *list = (attune_steps){.count = FIRST + 1};
    list->step[0] = (attune_step){.kind = ATTUNE_STEP_FILL,
                                  .as.fill = {.offset_bytes = attune_term_const(0),
                                              .bytes = attune_term_const(4),
                                              .pattern = (uint32_t)LEAVES(problem)}};
    list->step[FIRST] = (attune_step){.kind = ATTUNE_STEP_KERNEL,
                                      .as.kernel = {.entry = "attend_" TEXT(NAME),
                                                    .grid = {ITEMS(problem)},
                                                    .block = {1, 1, 1},
                                                    .cluster = {1, 1, 1},
                                                    .smem = attune_term_const(0)}};
}

static const attune_capability can[] = {
    {.ops = ATTUNE_BIT(ATTUNE_FORWARD),
     .dtypes = ATTUNE_DTYPES_FORWARD,
     .features = ATTUNE_FEATURE_CAUSAL | (TRAITS & ATTUNE_TRAIT_TAINTS ? 0 : ATTUNE_FEATURE_STRICT),
     .offsets = ATTUNE_OFFSETS_FORWARD,
     .layouts = ATTUNE_LAYOUTS_FORWARD,
     .head_dim_qk = {1, 256, 1},
     .head_dim_v = {1, 256, 1},
     .align = 1,
     .arch_least = ATTUNE_ISA_BASELINE,
     .arch_most = ATTUNE_ANY,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL) | ATTUNE_BIT(ATTUNE_STEP_FILL)}};

ZOO_KERNEL(ATTUNE_TARGET_CPU, NULL);

#endif
