/* What nobody tunes for, on the device: the Hopper kernel's results against the reference at head dims, of keys and
 * values alike and not, that are no power of two, and by pairs of blocks; where jobs are few and where there are more
 * than multiprocessors, so that one follows another in a block. */
#include <string.h>

#include "base/cm.h"
#include "core/config.h"
#include "gpu/compile_ahead.h"
#include "library/catalogue.h"
#include "library/state.h"
#include "on_device.h"
#include "one_case.h"

enum { CASES = 6 }; /* of a suite, those that are exactly the problem */

static const struct {
    const char *problem, *kernel;
} asked[] = {
    {"b1,h4,hkv2,s200,d40,fp16", "wgmma"},
    {"b2,h34,hkv17,sq260,skv300,d40,bf16,causal", "wgmma"},
    {"b1,h4,s257,d88,bf16", "wgmma"},
    {"b2,h34,hkv17,s260,d88,fp16,causal,layout=bshd", "wgmma"},
    {"b1,h4,sq100,skv333,d136,fp16", "wgmma"},
    {"b2,h34,s260,d136,bf16,causal", "wgmma"},
    {"b2,h34,hkv2,sq260,skv97,d200,bf16", "wgmma"},
    {"b1,h4,s200,d200,fp16,causal", "wgmma"},
    {"b2,h34,s260,d248,fp16,layout=bshd", "wgmma"},
    {"b1,h4,hkv1,sq300,skv200,d248,bf16,causal", "wgmma"},
    {"b2,h34,s260,d192,dv128,bf16", "wgmma"},
    {"b1,h4,s300,d192,dv128,fp16,causal", "wgmma"},
    {"b1,h4,hkv2,s200,d64,dv128,fp16", "wgmma"},
    {"b2,h34,s260,d64,dv128,bf16,causal", "wgmma"},
    {"b2,h34,s260,d72,dv40,fp16", "wgmma"},
    {"b1,h4,hkv2,s300,d72,dv40,bf16,causal", "wgmma"},
};
enum { ASKED = sizeof asked / sizeof *asked };

static bool is_here(const attune_context *context)
{
    return at_context_device(context)->target.arch == 90;
}

/* The configs that plans by these texts will have. */
static void compile_all(at_device *device)
{
    static at_recipe recipe[ASKED];
    const attune_kernel *kernel = at_catalogue_find("wgmma");
    assert_non_null(kernel);
    for (int i = 0; i < ASKED; ++i) {
        attune_problem problem;
        attune_config config;
        attune_reason reason;
        const char *params = strchr(asked[i].kernel, ':');
        assert_ok(attune_problem_parse(asked[i].problem, &problem));
        assert_true(at_first_fitting(kernel, &problem, &device->target, &config, &reason));
        assert_ok(at_config_parse(kernel, params == NULL ? "" : params + 1, &config));
        assert_true(at_kernel_fits(kernel, &problem, &device->target, &config, &reason));
        at_recipe_ask(kernel, &problem, &device->target, &config, &recipe[i]);
    }
    compile_ahead(device, recipe, ASKED);
}

static int open_with_code(void **state)
{
    int code = open_device(state);
    if (code == 0 && is_here(*state)) {
        compile_all(at_context_device(*state));
    }
    return code;
}

static void every_exact_case_is_right(void **state)
{
    if (!is_here(*state)) {
        print_message("skipped: no device of sm_90\n");
        skip();
    }
    for (int i = 0; i < ASKED; ++i) {
        at_test_problem problem;
        int found = 0;
        assert_ok(at_test_problem_parse(asked[i].problem, &problem));
        for (int64_t index = 0; index < CASES; ++index) {
            at_gate_case one;
            at_case_make(&problem, CASE_SEED, index, &one);
            if (one.stratum == AT_STRATUM_EXACT) {
                check_case(state, asked[i].kernel, asked[i].problem, index);
                ++found;
            }
        }
        assert_true(found > 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_exact_case_is_right),
    };
    return cmocka_run_group_tests(tests, open_with_code, close_device);
}
