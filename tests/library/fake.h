/* A device that computes with the reference and whose time is a counter, and kernels for it: what the planner does is
 * then a matter of fact. Kernels differ in name, traits and what `fake_rule` says of them. */
#ifndef TESTS_LIBRARY_FAKE_H
#define TESTS_LIBRARY_FAKE_H

#include <stdatomic.h>
#include <stdlib.h>

#include "base/status.h"
#include "library/state.h"
#include "reference/reference.h"

typedef struct fake_device {
    at_device device; /* first */
    at_hand_clock hand;
    atomic_int loads, unloads, launches, buffers;
    int64_t adds; /* bytes that loading adds to a kernel's workspace, as cuBLAS's scratch does */
    bool closed;
} fake_device;

/* How a fake kernel behaves. Its parameter A (1, 2, 3, 4) multiplies its cost: 1 is fastest, unless slow_first. */
typedef struct fake_rule {
    const char *kernel;
    int64_t cost_ns;
    float gain;       /* of its output: 1 is right */
    bool broken;      /* does not load */
    bool slow_first;  /* A = 4 is fastest */
    int32_t dim_most; /* largest head dim it supports */
    int64_t skv_most; /* and longest seqlen_kv of a config */
    int64_t workspace_per_row;
    bool constant_steps; /* its steps hold the problem's own seqlen_q, which they should not */
} fake_rule;

extern const fake_rule fake_rules[];

static inline const fake_rule *fake_rule_of(const char *kernel)
{
    const fake_rule *rule = fake_rules;
    while (rule->kernel != NULL && strcmp(rule->kernel, kernel) != 0) {
        ++rule;
    }
    return rule;
}

/* ---- Device ----------------------------------------------------------------------------------------------------- */

static inline attune_status fake_load(at_device *device, const at_recipe *recipe, at_loaded **loaded)
{
    const attune_kernel *kernel = recipe->kernel;
    fake_device *fake = (fake_device *)device;
    if (fake_rule_of(kernel->name)->broken) {
        return at_fail(ATTUNE_COMPILE_ERROR, "the fake compiler refused %s", kernel->name);
    }
    at_loaded *made = calloc(1, sizeof *made);
    *made = (at_loaded){device, kernel, recipe->config, recipe->resources, recipe->steps, 0};
    made->resources.workspace =
        attune_term_join(made->resources.workspace, ATTUNE_TERM_ADD, attune_term_const(fake->adds));
    atomic_fetch_add(&fake->loads, 1);
    *loaded = made;
    return ATTUNE_OK;
}

static inline void fake_unload(at_loaded *loaded)
{
    atomic_fetch_add(&((fake_device *)loaded->device)->unloads, 1);
    free(loaded);
}

static inline attune_status fake_compute(const attune_args *args, float gain)
{
    at_rows rows;
    at_pool *pool;
    AT_FORWARD(at_pool_create(1, 65536, &pool));
    AT_FORWARD(at_rows_all(args, &rows));
    size_t dim = (size_t)args->head_dim_v;
    double *o = calloc((size_t)rows.count * dim + 1, sizeof *o);
    double *lse = calloc((size_t)rows.count + 1, sizeof *lse);
    attune_status status = at_reference_run(pool, args, &rows, o, lse);
    for (int64_t i = 0; i < rows.count; ++i) {
        const at_row *row = &rows.row[i];
        const attune_tensor *to = &args->tensor[ATTUNE_O];
        const attune_tensor *to_lse = &args->tensor[ATTUNE_LSE];
        float *out =
            (float *)to->data + row->batch * to->stride[0] + row->head * to->stride[1] + row->row * to->stride[2];
        for (size_t d = 0; d < dim; ++d) {
            out[d] = gain * (float)o[(size_t)i * dim + d];
        }
        if (to_lse->data != NULL) {
            ((float *)to_lse->data)[row->batch * to_lse->stride[0] + row->head * to_lse->stride[1] +
                                    row->row * to_lse->stride[2]] = (float)lse[i];
        }
    }
    free(o);
    free(lse);
    at_rows_free(&rows);
    at_pool_destroy(pool);
    return status;
}

static inline attune_status fake_launch(const at_loaded *loaded, at_made *made, void *stream)
{
    attune_args *args = &made->args;
    fake_device *fake = (fake_device *)loaded->device;
    const fake_rule *rule = fake_rule_of(loaded->kernel->name);
    int64_t a = args->param[0];
    (void)stream;
    atomic_fetch_add(&fake->launches, 1);
    fake->hand.now_ns += rule->cost_ns * (rule->slow_first ? 5 - a : a);
    return fake_compute(args, rule->gain);
}

static inline attune_status fake_synchronise(at_device *device, void *stream)
{
    (void)device;
    (void)stream;
    return ATTUNE_OK;
}

static inline attune_status fake_allocate(at_device *device, size_t bytes, void **data)
{
    *data = aligned_alloc(256, (bytes + 255) / 256 * 256);
    atomic_fetch_add(&((fake_device *)device)->buffers, 1);
    return *data == NULL ? ATTUNE_OUT_OF_MEMORY : ATTUNE_OK;
}

static inline void fake_release(at_device *device, void *data)
{
    atomic_fetch_sub(&((fake_device *)device)->buffers, 1);
    free(data);
}

static inline attune_status fake_copy(at_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    memcpy(to, from, bytes);
    return ATTUNE_OK;
}

static inline void fake_close(at_device *device)
{
    ((fake_device *)device)->closed = true;
}

static const at_device_ops fake_ops = {
    .load = fake_load,
    .unload = fake_unload,
    .launch = fake_launch,
    .synchronise = fake_synchronise,
    .allocate = fake_allocate,
    .release = fake_release,
    .upload = fake_copy,
    .download = fake_copy,
    .close = fake_close,
};

static inline attune_status fake_context(fake_device *fake, const attune_kernel *const *kernels,
                                         attune_context **context)
{
    memset(fake, 0, sizeof *fake);
    fake->device.ops = &fake_ops;
    fake->device.target = (attune_target){.size = sizeof(attune_target),
                                          .kind = ATTUNE_TARGET_CPU,
                                          .model = "FAKE_1",
                                          .isa = ATTUNE_ISA_BASELINE,
                                          .threads = 1};
    at_parts parts = {.device = &fake->device, .kernels = kernels, .clock = at_clock_by_hand(&fake->hand)};
    AT_FORWARD(at_pool_create(1, ATTUNE_SCRATCH_MAX, &parts.pool));
    return at_context_assemble(&parts, context);
}

/* ---- Kernels ---------------------------------------------------------------------------------------------------- */

#define FAKE_KERNEL(symbol, trait_bits)                                                                                \
    static bool symbol##_supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)   \
    {                                                                                                                  \
        (void)target;                                                                                                  \
        return fake_supports(#symbol, problem, reason);                                                                \
    }                                                                                                                  \
    static bool symbol##_valid(const attune_problem *problem, const attune_target *target,                             \
                               const attune_config *config, attune_reason *reason)                                     \
    {                                                                                                                  \
        (void)target;                                                                                                  \
        return fake_valid(#symbol, problem, config, reason);                                                           \
    }                                                                                                                  \
    static void symbol##_resources(const attune_problem *problem, const attune_target *target,                         \
                                   const attune_config *config, attune_resources *resources)                           \
    {                                                                                                                  \
        (void)problem;                                                                                                 \
        (void)target;                                                                                                  \
        (void)config;                                                                                                  \
        resources->workspace = attune_term_mul(attune_term_size(ATTUNE_SIZE_SEQLEN_Q),                                 \
                                               attune_term_const(fake_rule_of(#symbol)->workspace_per_row));           \
    }                                                                                                                  \
    static void symbol##_steps(const attune_problem *problem, const attune_target *target,                             \
                               const attune_config *config, attune_steps *steps)                                       \
    {                                                                                                                  \
        (void)target;                                                                                                  \
        (void)config;                                                                                                  \
        fake_steps(#symbol, problem, steps);                                                                           \
    }                                                                                                                  \
    static const attune_kernel symbol = {                                                                              \
        .size = sizeof(attune_kernel),                                                                                 \
        .abi = ATTUNE_ABI,                                                                                             \
        .target = ATTUNE_TARGET_CPU,                                                                                   \
        .name = #symbol,                                                                                               \
        .summary = "a fake",                                                                                           \
        .traits = (trait_bits),                                                                                        \
        .param_count = 1,                                                                                              \
        .params = fake_params,                                                                                         \
        .can = &fake_can[((trait_bits)&ATTUNE_TRAIT_TAINTS) != 0],                                                     \
        .can_count = 1,                                                                                                \
        .supports = symbol##_supports,                                                                                 \
        .valid = symbol##_valid,                                                                                       \
        .resources = symbol##_resources,                                                                               \
        .heuristic = fake_heuristic,                                                                                   \
        .steps = symbol##_steps,                                                                                       \
        .attend = {fake_attend},                                                                                       \
    }

/* Without and with ATTUNE_TRAIT_TAINTS. */
static const attune_capability fake_can[] = {
    ATTUNE_CAN_FORWARD(0, ATTUNE_BIT(ATTUNE_STEP_KERNEL)),
    {.ops = ATTUNE_BIT(ATTUNE_FORWARD),
     .dtypes = ATTUNE_DTYPES_FORWARD,
     .features = ATTUNE_FEATURES_FORWARD & ~(uint32_t)ATTUNE_FEATURE_STRICT,
     .offsets = ATTUNE_OFFSETS_FORWARD,
     .biases = ATTUNE_BIASES_FORWARD,
     .layouts = ATTUNE_LAYOUTS_FORWARD,
     .head_dim_qk = {1, 256, 1},
     .head_dim_v = {1, 256, 1},
     .align = 1,
     .arch_most = ATTUNE_ANY,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)},
};
static const int32_t fake_values[] = {1, 2, 3, 4};
static const attune_param fake_params[] = {{"A", fake_values, 4, 0}};

static inline void fake_attend(const attune_args *args, int64_t item, void *scratch)
{
    (void)args;
    (void)item;
    (void)scratch;
}

static inline bool fake_supports(const char *name, const attune_problem *problem, attune_reason *reason)
{
    int32_t most = fake_rule_of(name)->dim_most;
    return problem->head_dim_qk <= most ||
           attune_refuse(reason, "head_dim_qk %d: at most %d", problem->head_dim_qk, most);
}

static inline bool fake_valid(const char *name, const attune_problem *problem, const attune_config *config,
                              attune_reason *reason)
{
    int64_t most = fake_rule_of(name)->skv_most;
    return most == 0 || problem->seqlen_kv <= most * config->value[0] ||
           attune_refuse(reason, "seqlen_kv %lld: at most %lld", (long long)problem->seqlen_kv,
                         (long long)most * config->value[0]);
}

/* 2 first, then 1, 3 and 4. */
static inline bool fake_heuristic(const attune_problem *problem, const attune_target *target, int32_t index,
                                  attune_config *config)
{
    static const int32_t order[] = {2, 1, 3, 4};
    (void)problem;
    (void)target;
    if (index >= 4) {
        return false;
    }
    config->value[0] = order[index];
    return true;
}

static inline void fake_steps(const char *name, const attune_problem *problem, attune_steps *steps)
{
    bool constant = fake_rule_of(name)->constant_steps;
    steps->count = 1;
    steps->step[0].kind = ATTUNE_STEP_KERNEL;
    steps->step[0].as.kernel = (attune_step_kernel){
        .entry = "fake",
        .grid = {constant ? attune_term_const(problem->seqlen_q) : attune_term_size(ATTUNE_SIZE_SEQLEN_Q),
                 attune_term_const(1), attune_term_const(1)},
        .block = {1, 1, 1},
        .cluster = {1, 1, 1},
        .smem = attune_term_const(0)};
}

#endif
