/* The context behind the public handle, and the way from a problem to a loaded kernel. */
#ifndef LIBRARY_CONTEXT_H
#define LIBRARY_CONTEXT_H

#include "base/threads.h"
#include "core/plan.h"

/* A context for a target that need not be here, which plans by wisdom and heuristics and runs nothing; with `elsewhere`
 * NULL, the same as attune_context_create. */
attune_status at_context_elsewhere(const attune_options *options, const attune_target *elsewhere,
                                   attune_context **context);
/* The device the context opened; belongs to it. */
at_device *at_context_device(const attune_context *context);
/* A pool of the context's CPU threads for host-side work (references, inputs); belongs to it. */
at_pool *at_context_pool(const attune_context *context);
/* Plans with this kernel, which need not be in the catalogue and outlives the context, whatever wisdom says. `params`
 * is "PARAM=VALUE,...". */
attune_status at_plan_kernel(attune_context *context, const attune_problem *problem, const attune_kernel *kernel,
                             const char *params, attune_plan **plan);
/* Why this kernel could not be made ready, or gave a wrong result in a race, when it was first preferred in this
 * context; NULL if that never happened. Belongs to the context. */
const char *at_context_failure(const attune_context *context, const attune_kernel *kernel);

#endif
