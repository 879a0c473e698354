/* Inputs of a problem's text, whose `varlen=SEED` says how lengths are drawn. */
#ifndef TESTS_REFERENCE_DRAW_TEXT_H
#define TESTS_REFERENCE_DRAW_TEXT_H

#include "base/cm.h"
#include "core/problem.h"
#include "reference/inputs.h"

static inline void draw_text(const char *text, const at_draw *draw, at_inputs *inputs)
{
    at_test_problem test;
    at_draw how = *draw;
    assert_ok(at_test_problem_parse(text, &test));
    how.length_seed = test.length_seed;
    if (at_inputs_draw(&test.problem, &how, inputs) != ATTUNE_OK) {
        fail_msg("%s: %s", text, attune_last_detail());
    }
}

#endif
