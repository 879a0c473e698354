#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "attune/attune.h"

enum { BATCH = 3, WIDTH = 3, STRIDE = 4, PAGE = 16 };
static const int32_t indptr[BATCH + 1] = {1, 4, 4, 5};
static const int32_t indices[] = {-7, 9, 2, 5, 9}; /* the first belongs to nobody */
static const int32_t last[BATCH] = {1, -3, PAGE};

static attune_status convert(const int32_t *ptr, const int32_t *pages, const int32_t *lens, int64_t width,
                             int32_t *table, int32_t *used)
{
    return attune_pages_from_csr(ptr, pages, lens, BATCH, PAGE, width, STRIDE, table, used);
}

static void tables_are_made(void **state)
{
    static const int32_t expected[BATCH * STRIDE] = {9, 2, 5, -1, 0, 0, 0, -1, 9, 0, 0, -1};
    int32_t table[BATCH * STRIDE];
    int32_t used[BATCH];
    (void)state;
    memset(table, 0xff, sizeof table);
    assert_int_equal(convert(indptr, indices, last, WIDTH, table, used), ATTUNE_OK);
    assert_memory_equal(table, expected, sizeof expected);
    assert_int_equal(used[0], 2 * PAGE + 1);
    assert_int_equal(used[1], 0);
    assert_int_equal(used[2], PAGE);
    assert_int_equal(convert(indptr, indices, last, WIDTH, table, NULL), ATTUNE_OK);
}

static void refused(const int32_t *ptr, const int32_t *pages, const int32_t *lens, int64_t width, const char *words)
{
    int32_t table[BATCH * STRIDE];
    int32_t used[BATCH];
    memset(table, 0x5a, sizeof table);
    memset(used, 0x5a, sizeof used);
    assert_int_equal(convert(ptr, pages, lens, width, table, used), ATTUNE_INVALID_ARGUMENT);
    if (strstr(attune_last_detail(), words) == NULL) {
        fail_msg("'%s' has no '%s'", attune_last_detail(), words);
    }
    for (int i = 0; i < BATCH * STRIDE; ++i) {
        assert_int_equal(table[i], 0x5a5a5a5a);
    }
    assert_int_equal(used[0], 0x5a5a5a5a);
}

static void bad_ones_are_refused(void **state)
{
    static const int32_t falling[BATCH + 1] = {1, 4, 3, 5};
    static const int32_t negative[BATCH + 1] = {-1, 2, 2, 3};
    static const int32_t short_last[BATCH] = {0, 1, 1};
    static const int32_t long_last[BATCH] = {1, 1, PAGE + 1};
    static const int32_t no_page[] = {0, 9, 2, 5, -1};
    (void)state;
    refused(falling, indices, last, WIDTH, "indptr[1] is 4, and the next 3");
    refused(negative, indices, last, WIDTH, "indptr[0] is -1");
    refused(indptr, indices, short_last, WIDTH, "last_page_len[0] is 0: 1 ... 16");
    refused(indptr, indices, long_last, WIDTH, "last_page_len[2] is 17: 1 ... 16");
    refused(indptr, no_page, last, WIDTH, "indices[4] is -1");
    refused(indptr, indices, last, WIDTH - 1, "page_table_width is 2: sequence 0 has 3 pages");
    refused(indptr, indices, last, STRIDE + 1, "row_stride 4");
    refused(NULL, indices, last, WIDTH, "is NULL");
}

static void sizes_are_checked(void **state)
{
    int32_t table[BATCH * STRIDE];
    (void)state;
    assert_int_equal(attune_pages_from_csr(indptr, indices, last, 0, PAGE, WIDTH, STRIDE, table, NULL),
                     ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_pages_from_csr(indptr, indices, last, BATCH, 1025, WIDTH, STRIDE, table, NULL),
                     ATTUNE_INVALID_ARGUMENT);
    assert_non_null(strstr(attune_last_detail(), "page_size is 1025: 1 ... 1024"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_made),
        cmocka_unit_test(bad_ones_are_refused),
        cmocka_unit_test(sizes_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
