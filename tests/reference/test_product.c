/* Products give the bits of the plain loop in every tier that this machine has, whatever the shape. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "reference/product.h"

enum { ROWS = 11, DEPTH = 37, COLUMNS = 80, PITCH = 96 };

typedef struct matrices {
    float left[ROWS * PITCH], right[DEPTH * PITCH], out[ROWS * PITCH], wanted[ROWS * PITCH];
    double left64[ROWS * PITCH], right64[DEPTH * PITCH], out64[ROWS * PITCH], wanted64[ROWS * PITCH];
} matrices;

static double draw(at_random *random)
{
    return at_random_uniform(random) - 0.5;
}

static void fill(matrices *on)
{
    at_random random = at_random_seed(5, 0);
    for (int i = 0; i < ROWS * PITCH; ++i) {
        on->left[i] = (float)(on->left64[i] = draw(&random));
        on->out[i] = on->wanted[i] = (float)(on->out64[i] = on->wanted64[i] = draw(&random));
    }
    for (int i = 0; i < DEPTH * PITCH; ++i) {
        on->right[i] = (float)(on->right64[i] = draw(&random));
    }
}

/* One product after another; what is stored in between keeps a compiler from fusing any. */
static void multiply_plainly(const at_product *shape, matrices *on)
{
    for (int64_t r = 0; r < shape->rows; ++r) {
        for (int64_t c = 0; c < shape->columns; ++c) {
            for (int64_t k = 0; k < shape->depth; ++k) {
                volatile float term = on->left[r * PITCH + k] * on->right[k * PITCH + c];
                volatile double term64 = on->left64[r * PITCH + k] * on->right64[k * PITCH + c];
                on->wanted[r * PITCH + c] += term;
                on->wanted64[r * PITCH + c] += term64;
            }
        }
    }
}

static void try_shape(const at_product_ops *ops, int64_t rows, int64_t columns, int64_t depth)
{
    static matrices on;
    const at_product shape = {rows, columns, depth, PITCH, PITCH, PITCH};
    fill(&on);
    multiply_plainly(&shape, &on);
    ops->of_float(&shape, on.left, on.right, on.out);
    ops->of_double(&shape, on.left64, on.right64, on.out64);
    assert_memory_equal(on.out, on.wanted, sizeof on.out);
    assert_memory_equal(on.out64, on.wanted64, sizeof on.out64);
}

static void every_tier_gives_the_bits_of_the_plain_loop(void **state)
{
    (void)state;
    for (int tier = 0; tier < AT_PRODUCT_TIERS; ++tier) {
        const at_product_ops *ops = at_product_tier(tier);
        for (int64_t rows = 0; ops != NULL && rows <= ROWS; ++rows) {
            for (int64_t columns = AT_PRODUCT_COLUMNS; columns <= COLUMNS; columns += AT_PRODUCT_COLUMNS) {
                try_shape(ops, rows, columns, rows % 3 == 0 ? 1 : DEPTH);
            }
        }
    }
}

static void tier_0_runs_everywhere_and_some_tier_is_best(void **state)
{
    (void)state;
    assert_non_null(at_product_tier(0));
    assert_non_null(at_product_best());
    assert_null(at_product_tier(AT_PRODUCT_TIERS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tier_gives_the_bits_of_the_plain_loop),
        cmocka_unit_test(tier_0_runs_everywhere_and_some_tier_is_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
