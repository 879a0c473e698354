/* Which units of hopper.cu are run, on which problems and by which configs: the device tests run these, and what needs
 * no device compiles them (tests/cuda/test_units.c). */
#ifndef TESTS_GPU_HOPPER_H
#define TESTS_GPU_HOPPER_H

#include <stdio.h>
#include <string.h>

#include "base/cm.h"
#include "core/config.h"
#include "core/recipe.h"
#include "library/catalogue.h"

extern const at_embedded at_gpu_units[];

/* The units by their numbers in hopper.cu. */
enum { PRODUCTS, RING, SOFTMAX, STORE, RESCORE, STATIC_MAX, SIGHT, HOPPER_UNITS };
static const char *const hopper_entries[HOPPER_UNITS] = {
    "unit_products", "unit_ring", "unit_softmax", "unit_store", "unit_rescore", "unit_static_max", "unit_sight"};

typedef struct hopper_case {
    int unit;
    const char *dims;   /* and dtype and mask */
    const char *params; /* that differ from the heuristic's */
    int scene;          /* of STATIC_MAX: which of the test's */
} hopper_case;

static const hopper_case hopper_cases[] = {
    /* Every head dim in each type, for queries and keys and for values, alike and not. */
    {PRODUCTS, "d32,fp16", "", 0},
    {PRODUCTS, "d40,fp16", "", 0},
    {PRODUCTS, "d48,fp16", "", 0},
    {PRODUCTS, "d56,fp16", "", 0},
    {PRODUCTS, "d64,fp16", "", 0},
    {PRODUCTS, "d72,fp16", "", 0},
    {PRODUCTS, "d80,fp16", "", 0},
    {PRODUCTS, "d88,fp16", "", 0},
    {PRODUCTS, "d96,fp16", "", 0},
    {PRODUCTS, "d104,fp16", "", 0},
    {PRODUCTS, "d112,fp16", "", 0},
    {PRODUCTS, "d120,fp16", "", 0},
    {PRODUCTS, "d128,fp16", "", 0},
    {PRODUCTS, "d136,fp16", "", 0},
    {PRODUCTS, "d144,fp16", "", 0},
    {PRODUCTS, "d152,fp16", "", 0},
    {PRODUCTS, "d160,fp16", "", 0},
    {PRODUCTS, "d168,fp16", "", 0},
    {PRODUCTS, "d176,fp16", "", 0},
    {PRODUCTS, "d184,fp16", "", 0},
    {PRODUCTS, "d192,fp16", "", 0},
    {PRODUCTS, "d200,fp16", "", 0},
    {PRODUCTS, "d208,fp16", "", 0},
    {PRODUCTS, "d216,fp16", "", 0},
    {PRODUCTS, "d224,fp16", "", 0},
    {PRODUCTS, "d232,fp16", "", 0},
    {PRODUCTS, "d240,fp16", "", 0},
    {PRODUCTS, "d248,fp16", "", 0},
    {PRODUCTS, "d256,fp16", "", 0},
    {PRODUCTS, "d32,dv256,bf16", "", 0},
    {PRODUCTS, "d40,dv248,bf16", "", 0},
    {PRODUCTS, "d48,dv240,bf16", "", 0},
    {PRODUCTS, "d56,dv232,bf16", "", 0},
    {PRODUCTS, "d64,dv224,bf16", "", 0},
    {PRODUCTS, "d72,dv216,bf16", "", 0},
    {PRODUCTS, "d80,dv208,bf16", "", 0},
    {PRODUCTS, "d88,dv200,bf16", "", 0},
    {PRODUCTS, "d96,dv192,bf16", "", 0},
    {PRODUCTS, "d104,dv184,bf16", "", 0},
    {PRODUCTS, "d112,dv176,bf16", "", 0},
    {PRODUCTS, "d120,dv168,bf16", "", 0},
    {PRODUCTS, "d128,dv160,bf16", "", 0},
    {PRODUCTS, "d136,dv152,bf16", "", 0},
    {PRODUCTS, "d144,bf16", "", 0},
    {PRODUCTS, "d152,dv136,bf16", "", 0},
    {PRODUCTS, "d160,dv128,bf16", "", 0},
    {PRODUCTS, "d168,dv120,bf16", "", 0},
    {PRODUCTS, "d176,dv112,bf16", "", 0},
    {PRODUCTS, "d184,dv104,bf16", "", 0},
    {PRODUCTS, "d192,dv96,bf16", "", 0},
    {PRODUCTS, "d200,dv88,bf16", "", 0},
    {PRODUCTS, "d208,dv80,bf16", "", 0},
    {PRODUCTS, "d216,dv72,bf16", "", 0},
    {PRODUCTS, "d224,dv64,bf16", "", 0},
    {PRODUCTS, "d232,dv56,bf16", "", 0},
    {PRODUCTS, "d240,dv48,bf16", "", 0},
    {PRODUCTS, "d248,dv40,bf16", "", 0},
    {PRODUCTS, "d256,dv32,bf16", "", 0},
    {PRODUCTS, "d128,bf16", "", 0},
    {PRODUCTS, "d256,bf16", "", 0},
    {PRODUCTS, "d192,dv128,fp16", "", 0},
    /* Every length of a tile of keys. */
    {PRODUCTS, "d64,fp16", "GROUPS=2,BLOCK_N=64,Q_STAGES=1", 0},
    {PRODUCTS, "d104,bf16", "BLOCK_N=80,Q_STAGES=1", 0},
    {PRODUCTS, "d88,fp16", "BLOCK_N=96", 0},
    {PRODUCTS, "d64,bf16", "GROUPS=2,BLOCK_N=112", 0},
    {PRODUCTS, "d40,dv56,fp16", "GROUPS=2,BLOCK_N=128", 0},
    {PRODUCTS, "d72,dv40,bf16", "BLOCK_N=144,RESCALE=15", 0},
    {PRODUCTS, "d128,bf16", "BLOCK_N=160,RESCALE=15", 0},
    {PRODUCTS, "d64,fp16", "GROUPS=2,BLOCK_N=176", 0},
    {PRODUCTS, "d128,fp16", "BLOCK_N=176,Q_STAGES=1", 0},
    {PRODUCTS, "d64,bf16", "GROUPS=2,BLOCK_N=192,RESCALE=15", 0},
    {PRODUCTS, "d48,fp16", "GROUPS=2,BLOCK_N=208", 0},
    {PRODUCTS, "d64,bf16", "GROUPS=2,BLOCK_N=224,RESCALE=15", 0},
    /* Rings of eight, five, four and three stages. */
    {RING, "d64,fp16", "", 0},
    {RING, "d128,fp16", "", 0},
    {RING, "d72,bf16", "BLOCK_N=176,Q_STAGES=1,RESCALE=15", 0},
    {RING, "d192,dv128,fp16", "", 0},
    {SOFTMAX, "d64,fp16", "RESCALE=0", 0},
    {SOFTMAX, "d64,fp16", "RESCALE=15", 0},
    {SOFTMAX, "d64,fp16", "GROUPS=2,BLOCK_N=176,RESCALE=15", 0},
    {STORE, "d64,fp16", "", 0},
    {STORE, "d128,bf16", "Q_STAGES=2", 0},
    {STORE, "d128,fp16", "Q_STAGES=1", 0},
    {STORE, "d72,fp16", "", 0},
    {STORE, "d256,fp16", "", 0},
    {STORE, "d192,dv128,fp16", "", 0},
    {RESCORE, "d64,fp16", "", 0},
    {RESCORE, "d72,bf16", "", 0},
    {RESCORE, "d128,fp16", "BLOCK_N=160", 0},
    {RESCORE, "d256,bf16", "", 0},
    {STATIC_MAX, "d64,fp16", "GROUPS=2,RESCALE=15", 0},
    {STATIC_MAX, "d128,bf16", "GROUPS=2,RESCALE=15", 0},
    {STATIC_MAX, "d256,fp16", "GROUPS=2,RESCALE=15", 0},
    {STATIC_MAX, "d64,bf16,causal,offset=0", "GROUPS=2,RESCALE=15", 1},
    {STATIC_MAX, "d128,fp16,causal,offset=0", "GROUPS=2,RESCALE=15", 2},
    {STATIC_MAX, "d64,fp16", "GROUPS=2,RESCALE=15", 3},
    {STATIC_MAX, "d128,bf16", "GROUPS=2,RESCALE=15", 3},
    {STATIC_MAX, "d256,fp16,causal,offset=0", "GROUPS=2,RESCALE=15", 1},
    /* Where a sharp job's own loop begins with the second tile, and some rows have seen nothing before it. */
    {STATIC_MAX, "d64,fp16,causal,offset=0", "GROUPS=2,Q_STAGES=1,RESCALE=15", 1},
    {STATIC_MAX, "d128,bf16", "GROUPS=2,Q_STAGES=1,RESCALE=15", 0},
    /* Bounds from none to the largest, in tiles so far to the right that these and their keys' numbers leave an int. */
    {SIGHT, "d64,fp16,causal", "GROUPS=2", 0},
    {SIGHT, "d64,fp16,window=-1:20", "GROUPS=2", 0},
    {SIGHT, "d64,fp16,causal,window=-1:40", "GROUPS=2", 0},
    {SIGHT, "d64,fp16,window=2147483647:20", "GROUPS=2", 0},
    {SIGHT, "d64,fp16,window=1300:2147483647", "GROUPS=2", 0},
    {SIGHT, "d64,fp16,window=2147483647:2147483647", "GROUPS=2", 0},
    {SIGHT, "d64,fp16,window=100:20", "GROUPS=2", 0},
    {SIGHT, "d64,fp16,window=0:-1", "GROUPS=2", 0},
};
enum { HOPPER_CASES = sizeof hopper_cases / sizeof *hopper_cases };

/* The kernel as it is, with one of the units for an entry, and one parameter more: which of them is compiled. */
static const attune_kernel *whole;
static attune_kernel unit_kernel;
static attune_param unit_params[ATTUNE_PARAMS_MAX];

static void unit_steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                       attune_steps *out)
{
    whole->steps(problem, target, config, out);
    attune_step_kernel *step = &out->step[out->count - 1].as.kernel;
    step->entry = hopper_entries[config->value[whole->param_count]];
    step->grid[0] = attune_term_const(1);
}

static inline void hopper_open(void)
{
    whole = at_catalogue_find("wgmma");
    assert_non_null(whole);
    unit_kernel = *whole;
    assert_true(whole->param_count < ATTUNE_PARAMS_MAX);
    memcpy(unit_params, whole->params, (size_t)whole->param_count * sizeof *unit_params);
    unit_params[unit_kernel.param_count++] = (attune_param){.name = "UNIT"};
    unit_kernel.params = unit_params;
    unit_kernel.steps = unit_steps;
    unit_kernel.source = "hopper.cu";
}

static inline int32_t hopper_value(const attune_config *config, const char *name)
{
    for (int i = 0; i < whole->param_count; ++i) {
        if (strcmp(whole->params[i].name, name) == 0) {
            return config->value[i];
        }
    }
    fail_msg("wgmma has no parameter %s", name);
    return 0;
}

/* Tiles of keys, and as many of values. A ring's pass three times through as many stages as there are at most, so that
 * each barrier comes to the phase with which it began. */
enum { TILES = 4, RING_TILES = 12 };
/* The most keys of a case, and elements of a tensor of one. */
enum { KEYS_MAX = RING_TILES * 176, ELEMENTS = RING_TILES * 128 * 192 };

/* A problem of one head whose queries are one tile, and whose keys are several. */
static inline void hopper_choose(const hopper_case *of, const attune_target *target, attune_problem *problem,
                                 attune_config *config)
{
    char text[96];
    (void)snprintf(text, sizeof text, "b1,h1,s64,%s", of->dims);
    assert_ok(attune_problem_parse(text, problem));
    assert_true(whole->heuristic(problem, target, 0, config));
    assert_ok(at_config_parse(whole, of->params, config));
    assert_true(whole->valid(problem, target, config, NULL));
    config->value[whole->param_count] = of->unit;
    problem->seqlen_q = 64 * (int64_t)hopper_value(config, "GROUPS");
    problem->seqlen_kv = (of->unit == RING ? RING_TILES : TILES) * (int64_t)hopper_value(config, "BLOCK_N");
    int64_t dim = problem->head_dim_qk > problem->head_dim_v ? problem->head_dim_qk : problem->head_dim_v;
    assert_true(problem->seqlen_kv <= KEYS_MAX && problem->seqlen_kv * dim <= ELEMENTS);
}

/* `config` is hopper_choose's. */
static inline void hopper_recipe(const attune_problem *problem, const attune_target *target,
                                 const attune_config *config, at_recipe *recipe)
{
    at_recipe_ask(&unit_kernel, problem, target, config, recipe);
    recipe->sources = at_gpu_units;
}

#endif
