/* CPU kernels judged by the rules for numbers against the library's reference, on every family of inputs and every tier
 * this machine runs (and $ATTUNE_ISA allows). Who includes this has defined `kernel`, the descriptor under test;
 * `dtypes` that it is judged in; `problems`, in which "%s" means the dtype; and `far_problems`, whose tensors are
 * given rows that lie far apart: each ended by NULL. */
#ifndef TESTS_KERNELS_CPU_JUDGED_H
#define TESTS_KERNELS_CPU_JUDGED_H

#include "base/cm.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/call.h"
#include "core/target.h"
#include "core/term.h"
#include "cpu/cpu.h"
#include "reference/draw_text.h"
#include "reference/truth.h"

/* Sanitizers need not see every pair of values and places. */
#ifdef ATTUNE_SANITIZED
enum { PLACES = 1 };
#else
enum { PLACES = 2 };
#endif

static at_pool *pool;
static at_device *device[ATTUNE_ISA_COUNT];
static int tiers;

static int open_tiers(void **state)
{
    (void)state;
    attune_isa best = at_cpu_best_isa();
    attune_isa named;
    if (getenv("ATTUNE_ISA") != NULL && at_isa_parse(getenv("ATTUNE_ISA"), &named) == ATTUNE_OK && named < best) {
        best = named;
    }
    assert_ok(at_pool_create(2, ATTUNE_SCRATCH_MAX, &pool));
    int lowest = 0; /* tier that the kernel has code for */
    while (kernel->attend[lowest] == NULL) {
        ++lowest;
    }
    for (; lowest + tiers <= (int)best; ++tiers) {
        assert_ok(at_cpu_open((attune_isa)(lowest + tiers), pool, &device[tiers]));
    }
    return 0;
}

static int close_tiers(void **state)
{
    (void)state;
    while (tiers > 0) {
        --tiers;
        device[tiers]->ops->close(device[tiers]);
    }
    at_pool_destroy(pool);
    return 0;
}

static void launch(at_device *on_device, at_inputs *inputs, const at_truth *truth)
{
    attune_config config;
    at_loaded *loaded;
    at_recipe recipe;
    attune_args args = truth->args;
    at_inputs_poison(inputs, (at_poison){0});
    assert_true(kernel->heuristic(&inputs->problem, &on_device->target, 0, &config));
    at_recipe_ask(kernel, &inputs->problem, &on_device->target, &config, &recipe);
    at_sizes sizes;
    int64_t bytes;
    at_sizes_fill(&sizes, &args, &on_device->target);
    assert_ok(at_term_evaluate(&recipe.resources.workspace, &sizes, &bytes));
    args.workspace = aligned_alloc(256, ((size_t)bytes + 256) / 256 * 256);
    assert_non_null(args.workspace);
    args.workspace_bytes = (attune_u64)bytes;
    assert_ok(on_device->ops->load(on_device, &recipe, &loaded));
    assert_ok(on_device->ops->inspect(loaded, &args, UINT64_MAX));
    assert_ok(at_launch_args(loaded, &args, NULL));
    on_device->ops->unload(loaded);
    free(args.workspace);
}

static void judge(const char *text, const at_draw *draw, at_bias bias[ATTUNE_ISA_COUNT])
{
    const at_truth_want all = {.wanted = 0};
    at_inputs inputs;
    at_truth truth;
    draw_text(text, draw, &inputs);
    assert_ok(at_truth_compute(pool, &inputs, &all, &truth));
    uint64_t digest = draw->far ? 0 : at_inputs_digest(&inputs);
    for (int tier = 0; tier < tiers; ++tier) {
        at_finding finding;
        launch(device[tier], &inputs, &truth);
        if (at_judge_case(&truth.one, &finding, draw->family == AT_FAMILY_NORMAL ? &bias[tier] : NULL) != ATTUNE_OK) {
            fail_msg("%s, %s, seed %llu%s%s, %s: %s", text, at_family_name(draw->family),
                     (unsigned long long)draw->seed, draw->gaps ? ", gaps" : "", draw->far ? ", far" : "",
                     at_isa_name(device[tier]->target.isa), attune_last_detail());
        }
        assert_ok(at_inputs_guards(&inputs));
        assert_true(draw->far || at_inputs_digest(&inputs) == digest);
    }
    at_truth_free(&truth);
    at_inputs_free(&inputs);
}

/* Judges the problems in this dtype. */
static void judged(const char *dtype)
{
    at_bias bias[ATTUNE_ISA_COUNT] = {{0}};
    for (size_t i = 0; problems[i] != NULL; ++i) {
        char text[128];
        attune_problem problem;
        (void)snprintf(text, sizeof text, problems[i], dtype);
        assert_ok(attune_problem_parse(text, &problem));
        for (int family = 0; family < AT_FAMILY_COUNT; ++family) {
            for (int place = 0; place < PLACES && at_family_applies((at_family)family, &problem); ++place) {
                const int gaps = (place + family + (int)i) % 2;
                at_draw draw = {.seed = i + 1, .family = (at_family)family, .gaps = gaps};
                judge(text, &draw, bias);
            }
        }
    }
    for (int tier = 0; tier < tiers; ++tier) {
        assert_ok(at_judge_bias(&bias[tier]));
    }
}

static void every_dtype_is_right(void **state)
{
    (void)state;
    for (size_t i = 0; dtypes[i] != NULL; ++i) {
        judged(dtypes[i]);
    }
}

static void far_offsets_are_right(void **state)
{
    at_bias bias[ATTUNE_ISA_COUNT] = {{0}};
    at_draw draw = {.seed = 3, .family = AT_FAMILY_NORMAL, .far = true};
    (void)state;
    for (size_t i = 0; far_problems[i] != NULL; ++i) {
        judge(far_problems[i], &draw, bias);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_is_right),
        cmocka_unit_test(far_offsets_are_right),
    };
    return cmocka_run_group_tests(tests, open_tiers, close_tiers);
}

#endif
