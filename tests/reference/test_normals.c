/* Normals made in vectors are those of Box and Muller, one pair after the other. */
#include <float.h>
#include <math.h>

#include "base/cm.h"
#include "reference/normals.h"

enum { MOST = 200001 };

static float values[MOST];

static void they_are_box_and_mullers(void **state)
{
    (void)state;
    static const int64_t counts[] = {1, 2, 3, 7, 8, 9, 64, MOST};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i) {
        at_random random = at_random_seed(5, i), other = random;
        at_normals(&random, counts[i], values);
        for (int64_t k = 0; k < counts[i]; k += 2) {
            const double radius = sqrt(-2 * log(1 - at_random_uniform(&other)));
            const double angle = 6.283185307179586 * at_random_uniform(&other);
            assert_true(fabs(values[k] - radius * cos(angle)) <= FLT_EPSILON * radius);
            assert_true(k + 1 == counts[i] || fabs(values[k + 1] - radius * sin(angle)) <= FLT_EPSILON * radius);
        }
        assert_int_equal(at_random_next(&random), at_random_next(&other));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(they_are_box_and_mullers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
