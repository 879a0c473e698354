/* guarded against tiled, on the device: equal results where inputs are finite, the specification where they are not,
 * and what its guards counted, which is printed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cm.h"
#include "base/half.h"
#include "core/problem.h"
#include "library/context.h"
#include "library/placement.h"
#include "on_device.h"

enum { DIAGNOSTICS = 3 };

typedef struct outcome {
    uint16_t *o;
    size_t count;
    uint32_t caught[DIAGNOSTICS]; /* exponents, logits, denominators */
} outcome;

static void run_kernel(attune_context *context, const char *kernel, const attune_problem *problem, at_inputs *inputs,
                       outcome *out)
{
    at_placement place = {0};
    attune_plan *plan = NULL;
    assert_ok(attune_plan_create(context, problem, WITH_KERNEL(kernel), &plan));
    assert_ok(at_placement_create(at_context_device(context), inputs, &place));
    assert_ok(at_placement_fit(&place, plan, &place.call));
    assert_ok(at_placement_poison(&place, (at_poison){0}));
    assert_ok(at_placement_run(&place, plan, &place.call));
    if (place.workspace_bytes >= sizeof out->caught) {
        assert_ok(place.device->ops->download(place.device, out->caught, place.call.workspace, sizeof out->caught));
    }
    out->count = inputs->buffer[ATTUNE_O].bytes / sizeof *out->o;
    out->o = malloc(out->count * sizeof *out->o);
    assert_non_null(out->o);
    memcpy(out->o, inputs->call.tensor[ATTUNE_O].data, out->count * sizeof *out->o);
    at_placement_free(&place);
    attune_plan_destroy(plan);
}

/* The largest difference in units of the last place of fp16 (relative 2^-11); NaN equals NaN. */
static double worst_difference(const outcome *a, const outcome *b)
{
    double worst = 0;
    for (size_t i = 0; i < a->count; ++i) {
        float x = at_fp16_to_float(a->o[i]), y = at_fp16_to_float(b->o[i]);
        if (isnan(x) || isnan(y)) {
            assert_true(isnan(x) && isnan(y));
            continue;
        }
        worst = fmax(worst, fabs((double)x - y) / (fmax(fabs(x), 1e-4) * 0x1p-11));
    }
    return worst;
}

static void compare(void **state, const char *text, at_family family, outcome *guarded)
{
    attune_problem problem;
    at_inputs inputs;
    outcome tiled = {0};
    at_draw draw = {.seed = 7, .family = family};
    assert_ok(attune_problem_parse(text, &problem));
    assert_ok(at_inputs_draw(&problem, &draw, &inputs));
    run_kernel(*state, "tiled", &problem, &inputs, &tiled);
    run_kernel(*state, "guarded", &problem, &inputs, guarded);
    double worst = worst_difference(&tiled, guarded);
    print_message("%-28s %-10s exponents %9u  logits %6u  denominators %4u  |guarded - tiled| %.2f ulp\n", text,
                  at_family_name(family), guarded->caught[0], guarded->caught[1], guarded->caught[2], worst);
    assert_true(worst <= 2);
    free(tiled.o);
    free(guarded->o);
    at_inputs_free(&inputs);
}

static void finite_inputs_give_tiled_s_results(void **state)
{
    static const at_family families[] = {AT_FAMILY_NORMAL, AT_FAMILY_LARGE,    AT_FAMILY_EQUAL,
                                         AT_FAMILY_NEEDLE, AT_FAMILY_NEGATIVE, AT_FAMILY_SUBNORMAL};
    for (size_t i = 0; i < sizeof families / sizeof *families; ++i) {
        outcome guarded = {0};
        compare(state, "b1,h8,s512,d64,fp16", families[i], &guarded);
        assert_int_equal(guarded.caught[1], 0);
        assert_int_equal(guarded.caught[2], 0);
        /* What lies 126 powers of two below its row's maximum is what large logits have and normal ones have not. */
        assert_true(families[i] != AT_FAMILY_NORMAL || guarded.caught[0] == 0);
        assert_true(families[i] != AT_FAMILY_LARGE || guarded.caught[0] > 0);
    }
}

static void empty_rows_are_counted_and_zero(void **state)
{
    outcome guarded = {0};
    compare(state, "b1,h2,sq64,skv32,d64,fp16,causal", AT_FAMILY_NORMAL, &guarded);
    assert_int_equal(guarded.caught[2], 2 * 32); /* the first 32 rows of each head see no key */
}

static void visible_faults_are_counted_and_kept(void **state)
{
    outcome guarded = {0};
    compare(state, "b1,h2,s128,d64,fp16", AT_FAMILY_VISIBLE, &guarded);
    assert_true(guarded.caught[1] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finite_inputs_give_tiled_s_results),
        cmocka_unit_test(empty_rows_are_counted_and_zero),
        cmocka_unit_test(visible_faults_are_counted_and_kept),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
