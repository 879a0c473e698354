/* The plan: kernel + config, loaded on a device, bound to a problem. */
#ifndef CORE_PLAN_H
#define CORE_PLAN_H

#include "core/config.h"
#include "core/device.h"
#include "core/recent.h"

typedef enum at_origin { AT_ORIGIN_HEURISTIC, AT_ORIGIN_MEASURED, AT_ORIGIN_PROVEN, AT_ORIGIN_NAMED } at_origin;

struct attune_plan {
    attune_problem problem;
    const at_loaded *loaded; /* shared with the context's cache, which outlives the plan */
    at_origin origin;
    size_t workspace_max; /* bytes, over every allowed call */
    at_recents *recents;  /* NULL: calls are not kept */
    char kernel_text[AT_KERNEL_TEXT_MAX];
};

/* Binds a loaded kernel to a problem. */
attune_status at_plan_bind(const attune_problem *problem, const at_loaded *loaded, at_origin origin,
                           attune_plan **plan);

#endif
