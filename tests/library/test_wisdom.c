#include "base/cm.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "library/wisdom.h"

#define CLASS "fwd,bh8,g1,sq512,skv512,d64,dv64,fp16"
#define HERE "cuda/H200/90a,driver=2"
#define SIBLING "cuda/H200/90a,driver=64"
#define ELSEWHERE "cuda/B200/90a,driver=2"
#define DIGEST "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static at_wisdom *made;

static int setup(void **state)
{
    (void)state;
    return at_wisdom_create(&made);
}

static int teardown(void **state)
{
    (void)state;
    at_wisdom_destroy(made);
    return 0;
}

static attune_status add_to(at_wisdom *wisdom, at_row_kind kind, const char *class_text, const char *target,
                            const char *kernel)
{
    at_wisdom_row row = {kind, (char *)class_text, (char *)target, (char *)kernel,
                         kind == AT_PROVEN ? (char *)DIGEST : NULL};
    return at_wisdom_add(wisdom, &row);
}

static const char *found(const at_wisdom *wisdom, const char *class_text, const char *target)
{
    const at_wisdom_row *row = at_wisdom_find(wisdom, class_text, target, NULL);
    return row == NULL ? "" : row->kernel_text;
}

static void finds_the_best_row(void **state)
{
    (void)state;
    assert_string_equal(found(made, CLASS, HERE), "");
    assert_ok(add_to(made, AT_PROVEN, CLASS, ELSEWHERE, "foreign"));
    assert_string_equal(found(made, CLASS, HERE), "");
    assert_ok(add_to(made, AT_MEASURED, CLASS, SIBLING, "sibling_measured"));
    assert_string_equal(found(made, CLASS, HERE), "sibling_measured");
    assert_ok(add_to(made, AT_PROVEN, CLASS, SIBLING, "sibling_proven"));
    assert_string_equal(found(made, CLASS, HERE), "sibling_proven");
    assert_ok(add_to(made, AT_MEASURED, CLASS, HERE, "measured"));
    assert_string_equal(found(made, CLASS, HERE), "measured");
    assert_ok(add_to(made, AT_PROVEN, CLASS, HERE, "proven"));
    assert_string_equal(found(made, CLASS, HERE), "proven");
    assert_string_equal(found(made, CLASS ",causal", HERE), "");
    assert_int_equal(at_wisdom_count(made), 5);
}

static void goes_from_the_best_row_to_the_last(void **state)
{
    static const char *const order[] = {"proven", "measured", "newer_sibling_proven", "sibling_proven",
                                        "sibling_measured"};
    (void)state;
    assert_ok(add_to(made, AT_MEASURED, CLASS, HERE, "measured"));
    assert_ok(add_to(made, AT_PROVEN, CLASS, SIBLING, "sibling_proven"));
    assert_ok(add_to(made, AT_PROVEN, CLASS, ELSEWHERE, "foreign"));
    assert_ok(add_to(made, AT_PROVEN, CLASS, HERE, "proven"));
    assert_ok(add_to(made, AT_PROVEN, CLASS, "cuda/H200/90a,driver=8", "newer_sibling_proven"));
    assert_ok(add_to(made, AT_MEASURED, CLASS, SIBLING, "sibling_measured"));
    const at_wisdom_row *row = NULL;
    for (size_t i = 0; i < sizeof order / sizeof order[0]; ++i) {
        row = at_wisdom_find(made, CLASS, HERE, row);
        assert_non_null(row);
        assert_string_equal(row->kernel_text, order[i]);
    }
    assert_null(at_wisdom_find(made, CLASS, HERE, row));
}

static void newer_models_win(void **state)
{
    (void)state;
    assert_ok(add_to(made, AT_PROVEN, CLASS, "cuda/H200/90a,driver=8", "older"));
    assert_ok(add_to(made, AT_PROVEN, CLASS, SIBLING, "newer"));
    assert_string_equal(found(made, CLASS, HERE), "newer");
    assert_ok(add_to(made, AT_PROVEN, CLASS, "cuda/H200/90a,driver=8", "newest"));
    assert_string_equal(found(made, CLASS, HERE), "newest");
    assert_int_equal(at_wisdom_count(made), 2);
}

/* Tiles for two threads may leave most of 64 idle. */
static void cpus_are_alike_with_as_many_threads(void **state)
{
    (void)state;
    assert_ok(add_to(made, AT_PROVEN, CLASS, "cpu/EPYC/avx2,threads=2", "two"));
    assert_string_equal(found(made, CLASS, "cpu/EPYC/avx2,threads=2"), "two");
    assert_string_equal(found(made, CLASS, "cpu/EPYC/avx2,threads=64"), "");
    assert_string_equal(found(made, CLASS, "cpu/EPYC/avx512,threads=2"), "");
}

static void replaces_the_same(void **state)
{
    (void)state;
    assert_ok(add_to(made, AT_MEASURED, CLASS, HERE, "first"));
    assert_ok(add_to(made, AT_MEASURED, CLASS, HERE, "second"));
    assert_int_equal(at_wisdom_count(made), 1);
    assert_string_equal(at_wisdom_at(made, 0)->kernel_text, "second");
    assert_null(at_wisdom_at(made, 1));
}

static void refuses_bad_fields(void **state)
{
    (void)state;
    char longest[600];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_fails(add_to(made, AT_MEASURED, "", HERE, "k"), ATTUNE_INVALID_ARGUMENT, "class is missing");
    assert_fails(add_to(made, AT_MEASURED, CLASS, NULL, "k"), ATTUNE_INVALID_ARGUMENT, "target is missing");
    assert_fails(add_to(made, AT_MEASURED, CLASS, HERE, "k\nproven"), ATTUNE_INVALID_ARGUMENT, "code 10 at place 1");
    assert_fails(add_to(made, AT_MEASURED, CLASS, "cpu/A B/avx2", "k"), ATTUNE_INVALID_ARGUMENT, "code 32");
    assert_fails(add_to(made, AT_MEASURED, CLASS, HERE, "k\x80"), ATTUNE_INVALID_ARGUMENT, "code 128");
    assert_fails(add_to(made, AT_MEASURED, CLASS, HERE, longest), ATTUNE_INVALID_ARGUMENT, "longer than 511");
    at_wisdom_row row = {AT_PROVEN, CLASS, HERE, "k", "cafe"};
    assert_fails(at_wisdom_add(made, &row), ATTUNE_INVALID_ARGUMENT, "64 lower-case hex digits");
    row.verdict = NULL;
    assert_fails(at_wisdom_add(made, &row), ATTUNE_INVALID_ARGUMENT, "verdict is missing");
    row = (at_wisdom_row){AT_MEASURED, CLASS, HERE, "k", DIGEST};
    assert_fails(at_wisdom_add(made, &row), ATTUNE_INVALID_ARGUMENT, "no verdict");
    assert_int_equal(at_wisdom_count(made), 0);
}

static void reads_what_it_prints(void **state)
{
    (void)state;
    char class_text[64], *text, *again;
    size_t bytes, bytes_again, skipped = 99;
    at_wisdom *copy;
    for (int i = 0; i < 500; ++i) {
        (void)snprintf(class_text, sizeof class_text, CLASS "%d", i % 300);
        assert_ok(add_to(made, i % 2, class_text, i % 3 ? HERE : SIBLING, i < 300 ? "old:A=1" : "new:A=2"));
    }
    assert_ok(at_wisdom_print(made, &text, &bytes));
    assert_ok(at_wisdom_create(&copy));
    assert_ok(at_wisdom_parse(copy, text, bytes, &skipped));
    assert_int_equal(skipped, 0);
    assert_int_equal(at_wisdom_count(copy), at_wisdom_count(made));
    assert_ok(at_wisdom_print(copy, &again, &bytes_again));
    assert_int_equal(bytes, bytes_again);
    assert_memory_equal(text, again, bytes);
    assert_string_equal(found(copy, CLASS "7", HERE), found(made, CLASS "7", HERE));
    free(text);
    free(again);
    at_wisdom_destroy(copy);
}

static void orders_rows_in_files(void **state)
{
    (void)state;
    char *text;
    size_t bytes;
    assert_ok(add_to(made, AT_PROVEN, "a", HERE, "proven_old"));
    assert_ok(add_to(made, AT_MEASURED, "a", HERE, "measured_old"));
    assert_ok(add_to(made, AT_PROVEN, "b", HERE, "proven_new"));
    assert_ok(add_to(made, AT_MEASURED, "b", HERE, "measured_new"));
    assert_ok(at_wisdom_print(made, &text, &bytes));
    assert_int_equal(strlen(text), bytes);
    assert_memory_equal(text, "attune-wisdom 1\n", 16);
    const char *order[] = {"proven_new", "proven_old", "measured_new", "measured_old"};
    for (int i = 0; i + 1 < 4; ++i) {
        assert_true(strstr(text, order[i]) < strstr(text, order[i + 1]));
    }
    free(text);
}

static void merging_makes_rows_newer(void **state)
{
    (void)state;
    at_wisdom *other;
    assert_ok(at_wisdom_create(&other));
    assert_ok(add_to(made, AT_PROVEN, CLASS, HERE, "mine"));
    assert_ok(add_to(other, AT_PROVEN, CLASS, HERE, "theirs"));
    assert_ok(add_to(other, AT_MEASURED, "x", HERE, "extra"));
    assert_ok(at_wisdom_merge(made, other));
    assert_int_equal(at_wisdom_count(made), 2);
    assert_string_equal(found(made, CLASS, HERE), "theirs");
    at_wisdom_destroy(other);
}

static void a_changed_byte_costs_its_line_only(void **state)
{
    (void)state;
    char *text;
    size_t bytes;
    assert_ok(add_to(made, AT_PROVEN, "a", HERE, "one"));
    assert_ok(add_to(made, AT_MEASURED, "b", HERE, "two"));
    assert_ok(at_wisdom_print(made, &text, &bytes));
    for (size_t at = 16; at < bytes; ++at) {
        for (int bit = 0; bit < 8; ++bit) {
            size_t skipped = 0;
            at_wisdom *damaged;
            assert_ok(at_wisdom_create(&damaged));
            text[at] = (char)(text[at] ^ 1 << bit);
            assert_ok(at_wisdom_parse(damaged, text, bytes, &skipped));
            text[at] = (char)(text[at] ^ 1 << bit);
            /* A lost newline joins two lines into one bad one; a line that becomes a comment is not counted. */
            assert_true(at_wisdom_count(damaged) < 2);
            assert_true(at_wisdom_count(damaged) == 1 || text[at] == '\n');
            at_wisdom_destroy(damaged);
        }
    }
    free(text);
}

static void needs_its_first_line(void **state)
{
    (void)state;
    const char *bad[] = {
        "", "attune-wisdom", "attune-wisdom 2\n", "attune-wisdom 10\n", "\nattune-wisdom 1\n", "attune-wisdom 1\r\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        assert_fails(at_wisdom_parse(made, bad[i], strlen(bad[i]), NULL), ATTUNE_CORRUPT, "attune-wisdom 1");
    }
    assert_ok(at_wisdom_parse(made, "attune-wisdom 1", 15, NULL));
    assert_ok(at_wisdom_parse(made, "attune-wisdom 1\n\n# a remark\n", 28, NULL));
    assert_int_equal(at_wisdom_count(made), 0);
}

static void limits_its_size(void **state)
{
    (void)state;
    char *text = calloc(1, AT_WISDOM_BYTES_MAX + 1);
    size_t skipped = 0;
    assert_non_null(text);
    memset(text, 'x', AT_WISDOM_BYTES_MAX + 1);
    memcpy(text, "attune-wisdom 1\n", 16);
    assert_fails(at_wisdom_parse(made, text, AT_WISDOM_BYTES_MAX + 1, NULL), ATTUNE_CORRUPT, "at most 16777216");
    assert_ok(at_wisdom_parse(made, text, AT_WISDOM_BYTES_MAX, &skipped));
    assert_int_equal(skipped, 1);
    free(text);
}

/* Files named SKIPPED-ROWS-what.wisdom, or refused-what.wisdom. */
static void golden_corrupt_files(void **state)
{
    (void)state;
    const char *folder = ATTUNE_SOURCE_DIR "/tests/library/corrupt_wisdom";
    DIR *directory = opendir(folder);
    int files = 0;
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char path[1024];
        void *data;
        size_t bytes, skipped = 0, want_skipped = 0, want_rows = 0;
        at_wisdom *wisdom;
        if (strstr(entry->d_name, ".wisdom") == NULL) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        assert_ok(at_file_read(path, AT_WISDOM_BYTES_MAX, &data, &bytes));
        assert_ok(at_wisdom_create(&wisdom));
        attune_status status = at_wisdom_parse(wisdom, data, bytes, &skipped);
        if (strncmp(entry->d_name, "refused", 7) == 0) {
            assert_int_equal(status, ATTUNE_CORRUPT);
        } else {
            assert_int_equal(sscanf(entry->d_name, "%zu-%zu-", &want_skipped, &want_rows), 2);
            assert_int_equal(status, ATTUNE_OK);
            assert_int_equal(skipped, want_skipped);
            assert_int_equal(at_wisdom_count(wisdom), want_rows);
        }
        at_wisdom_destroy(wisdom);
        free(data);
        ++files;
    }
    (void)closedir(directory);
    assert_true(files >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(finds_the_best_row, setup, teardown),
        cmocka_unit_test_setup_teardown(goes_from_the_best_row_to_the_last, setup, teardown),
        cmocka_unit_test_setup_teardown(newer_models_win, setup, teardown),
        cmocka_unit_test_setup_teardown(cpus_are_alike_with_as_many_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(replaces_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_bad_fields, setup, teardown),
        cmocka_unit_test_setup_teardown(reads_what_it_prints, setup, teardown),
        cmocka_unit_test_setup_teardown(orders_rows_in_files, setup, teardown),
        cmocka_unit_test_setup_teardown(merging_makes_rows_newer, setup, teardown),
        cmocka_unit_test_setup_teardown(a_changed_byte_costs_its_line_only, setup, teardown),
        cmocka_unit_test_setup_teardown(needs_its_first_line, setup, teardown),
        cmocka_unit_test_setup_teardown(limits_its_size, setup, teardown),
        cmocka_unit_test(golden_corrupt_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
