/* How an arm was made, as its worker says. */
#ifndef JUDGE_BUILT_H
#define JUDGE_BUILT_H

#include "core/plan.h"
#include "judge/verdict.h"
#include "wire/channel.h"

enum { AT_FUNCTION_TEXT_MAX = 24 };

/* Asks the worker that has the plan's arm; compiles nothing anew. `function`, which may be NULL, receives a text that
 * is another for every function that can be launched there. ATTUNE_INTERNAL where what is loaded is not what was built.
 */
attune_status at_built_ask(at_device *device, const attune_plan *plan, at_build_facts *build,
                           char function[AT_FUNCTION_TEXT_MAX]);

/* Has any worker compile a kernel, "NAME:PARAM=VALUE,...", for a target that it need not have, into the cache that all
 * workers share; at most so many seconds. *took: those that were needed. */
attune_status at_built_compile(at_channel *channel, const char *kernel, const attune_problem *problem,
                               const attune_target *target, double seconds, at_build_facts *build, double *took);

#endif
