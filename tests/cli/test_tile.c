/* attune bench --tile, as far as it goes without a device: what is refused, how products are judged, and that the code
 * of its kernel compiles as predicted. */
#include <math.h>

#include "base/half.h"
#include "base/random.h"
#include "cli/command.h"
#include "cli/tile.h"
#include "core/config.h"
#include "cuda/fixture.h"

extern const attune_kernel at_kernel_tile_product;

enum { M = 4, N = 3, D = 64 };

static void products_are_judged(void **state)
{
    uint16_t q[M * D];
    uint16_t k[N * D];
    float product[M * N] = {0};
    at_random random = at_random_seed(1, 0);
    (void)state;
    for (int i = 0; i < M * D; ++i) {
        q[i] = at_fp16_from_float((float)at_random_normal(&random));
        k[i % (N * D)] = at_fp16_from_float((float)at_random_normal(&random));
    }
    for (int i = 0; i < M * N * D; ++i) {
        int row = i / D / N;
        int column = i / D % N;
        product[i / D] += at_fp16_to_float(q[row * D + i % D]) * at_fp16_to_float(k[column * D + i % D]);
    }
    assert_true(at_tile_right(q, k, product, M, N, D));
    for (int i = 0; i < M * N; ++i) {
        float kept = product[i];
        product[i] = kept * 1.001F + 0.001F;
        assert_false(at_tile_right(q, k, product, M, N, D));
        product[i] = (float)NAN;
        assert_false(at_tile_right(q, k, product, M, N, D));
        product[i] = kept;
    }
}

static void a_cpu_is_refused(void **state)
{
    (void)state;
    outcome of = COMMAND("bench", "--tile", "--target", "cpu");
    assert_int_equal(of.code, AT_EXIT_FAILED);
    assert_non_null(strstr(of.err, "--tile needs a CUDA device"));
    assert_string_equal(of.out, "");
    outcome_free(&of);
}

static void other_options_are_refused(void **state)
{
    (void)state;
    outcome of = COMMAND("bench", "--tile", "b1,h1,s16,d16,fp32");
    assert_int_equal(of.code, AT_EXIT_USAGE);
    outcome_free(&of);
    of = COMMAND("bench", "--tile", "--arms", "auto");
    assert_int_equal(of.code, AT_EXIT_USAGE);
    outcome_free(&of);
}

static void the_kernel_refuses_other_problems(void **state)
{
    static const char *const problems[] = {"b1,h1,sq16,skv32,d64,fp16", "b1,h1,sq32,skv48,d64,fp16",
                                           "b1,h1,sq32,skv32,d64,bf16", "b1,h1,sq32,skv32,d72,fp16"};
    attune_target target = fixture_target(90);
    attune_problem problem;
    attune_reason reason;
    (void)state;
    assert_ok(at_kernel_check(&at_kernel_tile_product));
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; ++i) {
        assert_ok(attune_problem_parse(problems[i], &problem));
        assert_false(at_kernel_tile_product.supports(&problem, &target, &reason));
    }
}

static void the_kernel_compiles_as_predicted(void **state)
{
    (void)state;
    if (!fixture_ships(&at_kernel_tile_product)) {
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_judged),
        cmocka_unit_test(a_cpu_is_refused),
        cmocka_unit_test(other_options_are_refused),
        cmocka_unit_test(the_kernel_refuses_other_problems),
        cmocka_unit_test(the_kernel_compiles_as_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
