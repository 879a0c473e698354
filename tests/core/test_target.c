#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/target.h"

static void prints(void **state)
{
    (void)state;
    char text[AT_TARGET_TEXT_MAX];
    attune_target cpu = {.kind = ATTUNE_TARGET_CPU, .model = "AMD_EPYC_7B13", .isa = ATTUNE_ISA_AVX2, .threads = 2};
    at_target_print(&cpu, text);
    assert_string_equal(text, "cpu/AMD_EPYC_7B13/avx2,threads=2");
    attune_target cuda = {.kind = ATTUNE_TARGET_CUDA,
                          .model = "NVIDIA_H200",
                          .arch = 90,
                          .arch_features = 1,
                          .sm_count = 132,
                          .driver = 13000,
                          .compiler = 13000};
    at_target_print(&cuda, text);
    assert_string_equal(text, "cuda/NVIDIA_H200/90a,sm=132,driver=13000,compiler=13000");
    cuda.arch_features = 0;
    cuda.compiler = 0;
    at_target_print(&cuda, text);
    assert_string_equal(text, "cuda/NVIDIA_H200/90,sm=132,driver=13000,compiler=0");
}

/* Whatever a machine calls itself, the text stays one word of three parts. */
static void strange_models_stay_in_one_piece(void **state)
{
    (void)state;
    char text[AT_TARGET_TEXT_MAX];
    attune_target cpu = {
        .kind = ATTUNE_TARGET_CPU, .model = "A/B C,\tD\x80\x7f", .isa = ATTUNE_ISA_BASELINE, .threads = 1};
    at_target_print(&cpu, text);
    assert_string_equal(text, "cpu/A_B_C__D__/baseline,threads=1");
    cpu.model[0] = '\0';
    at_target_print(&cpu, text);
    assert_string_equal(text, "cpu/unknown/baseline,threads=1");
    memset(cpu.model, 'm', sizeof cpu.model); /* not terminated */
    cpu.threads = -2147483647;
    at_target_print(&cpu, text);
    assert_int_equal(strlen(text), 4 + 63 + 1 + strlen("baseline,threads=-2147483647"));
    attune_target cuda = {.kind = ATTUNE_TARGET_CUDA,
                          .arch = -2147483647,
                          .arch_features = 1,
                          .sm_count = -2147483647,
                          .driver = -2147483647,
                          .compiler = -2147483647};
    memset(cuda.model, 'm', sizeof cuda.model);
    at_target_print(&cuda, text);
    assert_non_null(strstr(text, "compiler=-2147483647"));
}

static void alike(void **state)
{
    (void)state;
    assert_true(at_target_alike("cuda/X/90a,sm=132,driver=13000", "cuda/X/90a,sm=132,driver=12040"));
    assert_false(at_target_alike("cuda/X/90a", "cuda/XY/90a"));
    assert_false(at_target_alike("cpu/X/avx2", "cuda/X/avx2"));
    assert_true(at_target_alike("cpu/X/avx2,threads=2", "cpu/X/avx2,threads=2"));
    assert_false(at_target_alike("cpu/X/avx2,threads=2", "cpu/X/avx2,threads=64"));
    assert_false(at_target_alike("cpu/X/avx2,threads=2", "cpu/X/avx512,threads=2"));
    assert_false(at_target_alike("cuda/X", "cuda/X"));
    assert_false(at_target_alike("", ""));
    assert_false(at_target_alike("cuda/X/a", "cuda/X"));
    assert_int_equal(at_target_distance("cuda/X/90a,sm=132,driver=1", "cuda/Y/90a,sm=132,driver=2"), 0);
    assert_int_equal(at_target_distance("cuda/X/90a,sm=132,driver=1", "cuda/Y/90a,sm=144,driver=2"), 12);
    assert_int_equal(at_target_distance("cuda/X/90a,sm=132,driver=1", "cuda/Y/90a,sm=78,driver=2"), -1);
    assert_int_equal(at_target_distance("cuda/X/90a,sm=132,driver=1", "cuda/Y/90,sm=132,driver=2"), -1);
    assert_int_equal(at_target_distance("cuda/X/90a,sm=132", "cpu/Y/avx2,threads=2"), -1);
    assert_int_equal(at_target_distance("cuda/X/90a", "cuda/Y/90a"), -1);
    assert_int_equal(at_target_distance("cuda/X", ""), -1);
}

static void isas(void **state)
{
    (void)state;
    attune_isa isa = ATTUNE_ISA_BASELINE;
    for (int i = 0; i < ATTUNE_ISA_COUNT; ++i) {
        assert_int_equal(at_isa_parse(at_isa_name((attune_isa)i), &isa), ATTUNE_OK);
        assert_int_equal(isa, i);
    }
    assert_int_equal(at_isa_parse("sse9", &isa), ATTUNE_INVALID_ARGUMENT);
    assert_non_null(strstr(attune_last_detail(), "'sse9'"));
    assert_non_null(strstr(attune_last_detail(), "baseline, avx2, avx512, avx512_bf16 or amx"));
    assert_int_equal(at_isa_parse("", &isa), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(at_isa_parse(NULL, &isa), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(isa, ATTUNE_ISA_AMX);
    assert_string_equal(at_isa_name((attune_isa)9), "?");
}

static void parses(void **state)
{
    (void)state;
    attune_target_kind kind = ATTUNE_TARGET_CUDA;
    int device = 55;
    assert_int_equal(at_target_parse("cpu", &kind, &device), ATTUNE_OK);
    assert_true(kind == ATTUNE_TARGET_CPU && device == -1);
    assert_int_equal(at_target_parse("cuda", &kind, &device), ATTUNE_OK);
    assert_true(kind == ATTUNE_TARGET_CUDA && device == 0);
    assert_int_equal(at_target_parse("cuda:1023", &kind, &device), ATTUNE_OK);
    assert_true(kind == ATTUNE_TARGET_CUDA && device == 1023);
    static const char *const bad[] = {"",       "CPU",     "cpu:0",   "cuda:",     "cuda:-1",
                                      "cuda:x", "cuda:1x", "cuda 1",  "cuda:1024", "cuda:99999999999999999999",
                                      "gpu",    "cudax",   "cuda:1:2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        if (at_target_parse(bad[i], &kind, &device) != ATTUNE_INVALID_ARGUMENT) {
            fail_msg("'%s' was not refused", bad[i]);
        }
        assert_true(kind == ATTUNE_TARGET_CUDA && device == 1023);
        assert_non_null(strstr(attune_last_detail(), "target"));
    }
    assert_int_equal(at_target_parse(NULL, &kind, &device), ATTUNE_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prints), cmocka_unit_test(strange_models_stay_in_one_piece),
        cmocka_unit_test(alike),  cmocka_unit_test(isas),
        cmocka_unit_test(parses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
