/* The tile micro-benchmark: its file, its slices, and which candidates it finds. */
#include <stdlib.h>

#include "base/cm.h"
#include "base/file.h"
#include "base/folder.h"
#include "evolve/fake_machine.h"
#include "evolve/micro.h"

static const at_micro_key key = {"cpu_tiled", "class", "cpu/model/avx2,threads=2", "00ff"};
static const at_micro_key other = {"cpu_tiled", "class", "cpu/model/avx2,threads=4", "00ff"};

static attune_problem problem_of(const char *text)
{
    attune_problem problem;
    assert_ok(attune_problem_parse(text, &problem));
    return problem;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    folder in;
    at_micro_best one = {2, {"cpu_tiled:A=1", "cpu_tiled:A=2"}}, two = {1, {"cpu_tiled:A=3"}}, got;
    assert_int_equal(folder_make(&in), 0);
    const char *path = folder_file(&in, "below/micro.txt");
    assert_ok(at_micro_read(path, &key, &got));
    assert_int_equal(got.count, 0);
    assert_ok(at_micro_write(path, &key, &one));
    assert_ok(at_micro_write(path, &other, &two));
    assert_ok(at_micro_read(path, &key, &got));
    assert_int_equal(got.count, 2);
    assert_string_equal(got.config[1], "cpu_tiled:A=2");
    assert_ok(at_micro_write(path, &key, &two)); /* in place of the first */
    assert_ok(at_micro_read(path, &key, &got));
    assert_int_equal(got.count, 1);
    assert_string_equal(got.config[0], "cpu_tiled:A=3");
    assert_ok(at_micro_read(path, &other, &got));
    assert_int_equal(got.count, 1);
    folder_remove(&in);
}

/* What is read is limited: a file that is written again and again must stay below it. */
static void the_oldest_go_before_the_file_is_too_large(void **state)
{
    (void)state;
    enum { MOST = 1 << 20, LINE = 1024 };
    folder in;
    at_micro_best got;
    at_micro_best one = {1, {"cpu_tiled:A=1"}};
    char *full = malloc(MOST);
    assert_int_equal(folder_make(&in), 0);
    assert_non_null(full);
    const char *path = folder_file(&in, "micro.txt");
    memset(full, 'x', MOST);
    for (int i = LINE - 1; i < MOST; i += LINE) {
        full[i] = '\n';
    }
    memcpy(full, "attune-micro 1\n", 15);
    assert_ok(at_file_write(path, full, MOST));
    free(full);
    assert_ok(at_micro_write(path, &key, &one));
    assert_ok(at_micro_read(path, &key, &got));
    assert_int_equal(got.count, 1);
    folder_remove(&in);
}

static void a_file_of_something_else_is_left_alone(void **state)
{
    (void)state;
    folder in;
    at_micro_best best = {1, {"cpu_tiled:A=3"}};
    assert_int_equal(folder_make(&in), 0);
    const char *path = folder_file(&in, "notes.txt");
    assert_ok(at_file_write(path, "my notes\n", 9));
    assert_fails(at_micro_read(path, &key, &best), ATTUNE_CORRUPT, "attune-micro 1");
    assert_fails(at_micro_write(path, &key, &best), ATTUNE_CORRUPT, "attune-micro 1");
    folder_remove(&in);
}

static void lines_that_are_none_are_passed_over(void **state)
{
    (void)state;
    at_micro_best best;
    at_micro_find("attune-micro 1\nrubbish\ncpu_tiled class cpu/model/avx2,threads=2 00fe cpu_tiled:A=9\n\n"
                  "cpu_tiled class cpu/model/avx2,threads=2 00ff  cpu_tiled:A=1  cpu_tiled:A=2",
                  &key, &best);
    assert_int_equal(best.count, 2);
    assert_string_equal(best.config[0], "cpu_tiled:A=1");
    assert_string_equal(best.config[1], "cpu_tiled:A=2");
    at_micro_find("", &key, &best);
    assert_int_equal(best.count, 0);
}

static void a_slice_is_small_and_of_the_same_kind(void **state)
{
    (void)state;
    attune_problem whole = problem_of("b8,h32,hkv8,s4096,d128,bf16,causal");
    attune_problem slice = at_micro_slice(&whole, ATTUNE_TARGET_CPU);
    assert_ok(attune_problem_check(&slice));
    assert_true(attune_problem_flops(&slice) < attune_problem_flops(&whole) / 100);
    assert_int_equal(slice.heads_q / slice.heads_kv, 4);
    assert_true(attune_is_causal(&slice) && slice.dtype == whole.dtype && slice.head_dim_qk == 128);
    attune_problem small = problem_of("b1,h1,s40,d64,fp32");
    slice = at_micro_slice(&small, ATTUNE_TARGET_CPU);
    assert_int_equal(slice.seqlen_q, 40);
}

/* Eight of the best, as the machine has them, none refused. */
static void the_best_are_found(void **state)
{
    (void)state;
    at_micro_best best;
    fake_machine on = fake_open(1, 0);
    on.us = 10000; /* far more than a first launch costs beside */
    const at_machine at = fake_of(&on);
    assert_ok(at_micro_run(on.space, &at, 4096, &best));
    assert_int_equal(best.count, AT_MICRO_BEST);
    int first = at_space_find_text(on.space, best.config[0]);
    for (int i = 0; i < on.space->count; ++i) {
        assert_true(landscape_refused(on.space, i) ||
                    landscape_log_us(on.space, first) <= landscape_log_us(on.space, i) + 1e-9);
    }
    for (int i = 0; i < best.count; ++i) {
        assert_false(landscape_refused(on.space, at_space_find_text(on.space, best.config[i])));
    }
    fake_close(&on);
}

/* Of few, the kernel's own order are the first. */
static void where_making_costs_it_looks_at_some(void **state)
{
    (void)state;
    at_micro_best best;
    fake_machine on = fake_open(1, 0);
    const at_machine at = fake_of(&on);
    assert_ok(at_micro_run(on.space, &at, 12, &best));
    assert_int_equal(on.built, 12);
    assert_int_equal(on.prefetch, 12);
    fake_close(&on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(the_oldest_go_before_the_file_is_too_large),
        cmocka_unit_test(a_file_of_something_else_is_left_alone),
        cmocka_unit_test(lines_that_are_none_are_passed_over),
        cmocka_unit_test(a_slice_is_small_and_of_the_same_kind),
        cmocka_unit_test(the_best_are_found),
        cmocka_unit_test(where_making_costs_it_looks_at_some),
    };
    return cmocka_run_group_tests_name("evolve.micro", tests, NULL, NULL);
}
