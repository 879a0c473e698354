/* What others do on our processors, from the system's own account. */
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "measure/others.h"

static bool is_even(void *self, int cpu)
{
    ++*(int *)self;
    return cpu % 2 == 0;
}

static void the_work_of_our_processors_is_added(void **state)
{
    (void)state;
    double hertz = (double)sysconf(_SC_CLK_TCK);
    int asked = 0;
    static const char text[] = "cpu  1000 2000 3000 4000 5000 6000 7000 8000 9000 10000\n"
                               "cpu0 1 2 4 1000 2000 8 16 32 64 128\n"
                               "cpu1 100 200 300 400 500 600 700 800 900 1000\n"
                               "cpu2 64 0 0 7 7 0 0\n"
                               "intr 5 6 7\n"
                               "cpus 2 of them\n";
    assert_true(fabs(at_busy_in(text, is_even, &asked) * hertz - (63 + 64)) < 1e-6);
    assert_int_equal(asked, 3);
}

static void what_is_not_reported_is_not_known(void **state)
{
    (void)state;
    int asked = 0;
    assert_true(at_busy_in("", is_even, &asked) < 0);
    assert_true(at_busy_in("cpu  1 2 3 4\ncpu1 1 2 3 4\n", is_even, &asked) < 0);
    assert_true(at_busy_in("cpu0", is_even, &asked) == 0);
}

static void a_little_company_is_borne(void **state)
{
    (void)state;
    assert_false(at_others_disturb(0.2, 1));
    assert_true(at_others_disturb(0.5, 2));
    assert_false(at_others_disturb(0.5, 64));
    assert_false(at_others_disturb(-0.1, 4)); /* ticks are coarse */
}

static void the_system_tells(void **state)
{
    (void)state;
    double before = at_busy_s();
    assert_true(before < 0 || at_busy_s() >= before);
}

/* Seconds that the processor was busy, as a process sees it that may use no other. */
static double busy_on(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    return at_busy_s();
}

static void others_processors_do_not_count(void **state)
{
    (void)state;
    enum { KEPT = 64 };
    cpu_set_t all;
    double sum = 0;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2 || at_busy_s() < 0) {
        skip();
    }
    for (int cpu = 0, kept = 0; cpu < CPU_SETSIZE && kept < KEPT; ++cpu) {
        sum += CPU_ISSET(cpu, &all) ? busy_on(cpu) : 0;
        kept += CPU_ISSET(cpu, &all);
    }
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_true(sum > 0 && at_busy_s() >= sum - 0.1); /* time goes on in between, and ticks are coarse */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_work_of_our_processors_is_added), cmocka_unit_test(what_is_not_reported_is_not_known),
        cmocka_unit_test(a_little_company_is_borne),           cmocka_unit_test(the_system_tells),
        cmocka_unit_test(others_processors_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
