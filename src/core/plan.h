/* The plan: kernel + config, loaded on a device, bound to a problem. */
#ifndef CORE_PLAN_H
#define CORE_PLAN_H

#include "core/config.h"
#include "core/device.h"
#include "core/recent.h"

typedef enum at_origin { AT_ORIGIN_HEURISTIC, AT_ORIGIN_MEASURED, AT_ORIGIN_PROVEN, AT_ORIGIN_NAMED } at_origin;

/* One kernel and config for all sizes, or for some. */
typedef struct at_plan_choice {
    const at_loaded *loaded; /* shared with the context's cache, which outlives the plan */
    size_t workspace_max;    /* bytes, over every call that it serves */
} at_plan_choice;

enum { AT_VARIANTS = 32, AT_VARIANT_LENGTHS = 24 };

/* Which variant serves a call, by its lengths: queries[i] and keys[j] are ascending, and the first that are not below
 * the call's are its row and column. The last of both are the problem's. */
typedef struct at_plan_choices {
    int32_t count, rows, columns;
    int64_t queries[AT_VARIANT_LENGTHS], keys[AT_VARIANT_LENGTHS];
    at_plan_choice variant[AT_VARIANTS];
    uint8_t which[AT_VARIANT_LENGTHS][AT_VARIANT_LENGTHS];
} at_plan_choices;

struct attune_plan {
    attune_problem problem;
    const at_loaded *loaded; /* for the problem's sizes; shared with the context's cache, which outlives the plan */
    at_origin origin;
    size_t workspace_max;            /* bytes, over every allowed call */
    const at_plan_choices *variants; /* NULL: `loaded` is for all calls; the context's, like `loaded` */
    at_recents *recents;             /* NULL: calls are not kept */
    char kernel_text[AT_KERNEL_TEXT_MAX];
};

/* Bytes of workspace for every call of a problem. */
attune_status at_plan_workspace_most(const attune_problem *problem, const at_loaded *loaded, size_t *bytes);
/* Binds a loaded kernel to a problem. */
attune_status at_plan_bind(const attune_problem *problem, const at_loaded *loaded, at_origin origin,
                           attune_plan **plan);

#endif
