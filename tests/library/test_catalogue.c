#include "base/cm.h"

#include "core/config.h"
#include "library/catalogue.h"

static void every_row_keeps_the_contract(void **state)
{
    (void)state;
    assert_non_null(at_catalogue[0]);
    for (const attune_kernel *const *at = at_catalogue; *at != NULL; ++at) {
        assert_ok(at_kernel_check(*at));
    }
}

static void names_are_unique(void **state)
{
    (void)state;
    for (const attune_kernel *const *a = at_catalogue; *a != NULL; ++a) {
        for (const attune_kernel *const *b = at_catalogue; b != a; ++b) {
            assert_string_not_equal((*a)->name, (*b)->name);
        }
        assert_ptr_equal(at_catalogue_find((*a)->name), *a);
    }
    assert_null(at_catalogue_find("no_such_kernel"));
    assert_null(at_catalogue_find(""));
}

/* Each target has one kernel that supports everything. */
static void each_target_has_one_general_kernel(void **state)
{
    (void)state;
    for (int kind = ATTUNE_TARGET_CPU; kind <= ATTUNE_TARGET_CUDA; ++kind) {
        int general = 0;
        for (const attune_kernel *const *at = at_catalogue; *at != NULL; ++at) {
            general += (int)(*at)->target == kind && ((*at)->traits & ATTUNE_TRAIT_GENERAL) != 0;
        }
        assert_int_equal(general, 1);
    }
}

static void suggests_what_is_near(void **state)
{
    (void)state;
    assert_string_equal(at_catalogue_nearest("cpu_tild"), "cpu_tiled");
    assert_string_equal(at_catalogue_nearest("cpu-tiled"), "cpu_tiled");
    assert_null(at_catalogue_nearest("zzzzzzzzzzzzzzzz"));
}

/* Whoever asks for an optional kernel is told what it needs, where it is not there; of others nothing is known. */
static void what_is_left_out_is_known(void **state)
{
    (void)state;
    static const char *const optional[] = {"cutlass", "cpu_bf16"};
    for (size_t i = 0; i < sizeof optional / sizeof optional[0]; ++i) {
        assert_true((at_catalogue_find(optional[i]) == NULL) == (at_catalogue_left_out(optional[i]) != NULL));
    }
    assert_null(at_catalogue_left_out("cpu_tiled"));
    assert_null(at_catalogue_left_out("no_such_kernel"));
}

/* A text of before a kernel had its last parameters. */
static void older_texts_name_the_same_config(void **state)
{
    static const char whole[] = "cpu_tiled:BLOCK_M=64,BLOCK_N=48,PANEL=4,EXP=5,PREFETCH=1,PACK=0,ORDER=0,SPLIT=0";
    static const char older[] = "cpu_tiled:BLOCK_M=64,BLOCK_N=48,PANEL=4,EXP=5,PREFETCH=1";
    (void)state;
    assert_true(at_catalogue_same(whole, whole));
    assert_true(at_catalogue_same(whole, older) && at_catalogue_same(older, whole));
    assert_false(at_catalogue_same("cpu_tiled:BLOCK_M=64,BLOCK_N=48,PANEL=4,EXP=5,PREFETCH=1,SPLIT=1", older));
    assert_false(at_catalogue_same("cpu_tiled:BLOCK_M=64,BLOCK_N=48,PANEL=4,EXP=5,PREFETCH=0", older));
    assert_false(at_catalogue_same("cpu_tiled:BLOCK_M=64,NO_SUCH=1", "cpu_tiled:BLOCK_M=64"));
    assert_false(at_catalogue_same("no_such_kernel:A=1,B=0", "no_such_kernel:A=1"));
    assert_true(at_catalogue_same("no_such_kernel:A=1", "no_such_kernel:A=1"));
    assert_false(at_catalogue_same("", older));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_keeps_the_contract),       cmocka_unit_test(names_are_unique),
        cmocka_unit_test(each_target_has_one_general_kernel), cmocka_unit_test(suggests_what_is_near),
        cmocka_unit_test(what_is_left_out_is_known),          cmocka_unit_test(older_texts_name_the_same_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
