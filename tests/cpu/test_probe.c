/* What this machine is said to be, against what the operating system says. */
#include "base/cm.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cpu/cpu.h"

/* Whether /proc/cpuinfo's flags have the word; -1 where there is no such list. */
static int has_flag(const char *word)
{
    char line[8192];
    int found = -1;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && found < 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "flags", 5) == 0) {
            char padded[64];
            line[strcspn(line, "\n")] = ' ';
            (void)snprintf(padded, sizeof padded, " %s ", word);
            found = strstr(line, padded) != NULL;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return found;
}

static void best_tier_is_what_the_system_lists(void **state)
{
    (void)state;
    if (has_flag("sse2") != 1) {
        assert_int_equal(at_cpu_best_isa(), ATTUNE_ISA_BASELINE);
        return;
    }
    int avx2 = has_flag("avx2") && has_flag("fma") && has_flag("f16c");
    int avx512 = avx2 && has_flag("avx512f") && has_flag("avx512bw") && has_flag("avx512dq") && has_flag("avx512vl");
    int dots = avx512 && has_flag("avx512_bf16");
    int tiles = dots && has_flag("amx_tile") && has_flag("amx_bf16");
    attune_isa listed = (attune_isa)(avx2 + avx512 + dots + tiles);
    /* Whether a process may use tiles is the system's to say, too. */
    assert_true(at_cpu_best_isa() == listed || (tiles && at_cpu_best_isa() == ATTUNE_ISA_AVX512_BF16));
}

static void probe_describes_the_machine(void **state)
{
    (void)state;
    attune_target target;
    memset(&target, 0xff, sizeof target);
    assert_ok(at_cpu_probe(ATTUNE_ISA_BASELINE, 7, &target));
    assert_int_equal(target.size, sizeof target);
    assert_int_equal(target.kind, ATTUNE_TARGET_CPU);
    assert_int_equal(target.isa, ATTUNE_ISA_BASELINE);
    assert_int_equal(target.threads, 7);
    assert_int_equal(target.sm_count, 0);
    assert_true(target.model[0] != '\0');
    for (const char *letter = target.model; *letter != '\0'; ++letter) {
        assert_true(isgraph((unsigned char)*letter) && *letter != '/' && *letter != ',');
    }
}

static void caches_agree_with_the_c_library(void **state)
{
    (void)state;
    attune_target target;
    assert_ok(at_cpu_probe(ATTUNE_ISA_BASELINE, 1, &target));
    long l1d = sysconf(_SC_LEVEL1_DCACHE_SIZE);
    long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    assert_true(target.l1d_bytes >= 0 && target.l2_bytes >= 0 && target.l3_bytes >= 0);
    if (l1d > 0 && target.l1d_bytes > 0) {
        assert_int_equal(target.l1d_bytes, l1d);
    }
    if (l2 > 0 && target.l2_bytes > 0) {
        assert_int_equal(target.l2_bytes, l2);
    }
}

static void tiers_are_forced_or_refused(void **state)
{
    (void)state;
    attune_target target;
    attune_isa best = at_cpu_best_isa();
    for (int isa = 0; isa < ATTUNE_ISA_COUNT; ++isa) {
        if (isa <= (int)best) {
            assert_ok(at_cpu_probe((attune_isa)isa, 1, &target));
            assert_int_equal(target.isa, isa);
        } else {
            assert_fails(at_cpu_probe((attune_isa)isa, 1, &target), ATTUNE_UNSUPPORTED, "at most");
        }
    }
    assert_fails(at_cpu_probe((attune_isa)ATTUNE_ISA_COUNT, 1, &target), ATTUNE_INVALID_ARGUMENT, "isa 5");
    assert_fails(at_cpu_probe((attune_isa)-1, 1, &target), ATTUNE_INVALID_ARGUMENT, "isa -1");
    assert_fails(at_cpu_probe(ATTUNE_ISA_BASELINE, 0, &target), ATTUNE_INVALID_ARGUMENT, "threads 0");
}

/* Not how fast, which depends on who else is here, but that the ceilings are numbers a machine can have. */
static void peaks_are_plausible(void **state)
{
    (void)state;
    at_pool *pool;
    at_gauge *gauge;
    assert_ok(at_pool_create(2, ATTUNE_SCRATCH_MAX, &pool));
    for (int isa = 0; isa <= (int)at_cpu_best_isa(); ++isa) {
        for (int dtype = ATTUNE_FP32; dtype <= ATTUNE_BF16; ++dtype) {
            assert_ok(at_gauge_flops((attune_isa)isa, (attune_dtype)dtype, pool, &gauge));
            double flops = at_gauge_best(gauge);
            assert_true(flops > 1e7 && flops < (dtype == ATTUNE_BF16 ? 1e14 : 1e12));
            at_gauge_close(gauge);
        }
        assert_ok(at_gauge_read((attune_isa)isa, pool, &gauge));
        double bytes = at_gauge_best(gauge);
        assert_true(bytes > 1e6 && bytes < 1e13);
        assert_true(at_gauge_work(gauge) >= 128 << 20);
        at_gauge_close(gauge);
    }
    if (at_cpu_best_isa() < ATTUNE_ISA_AVX512) {
        assert_fails(at_gauge_flops(ATTUNE_ISA_AVX512, ATTUNE_FP32, pool, &gauge), ATTUNE_UNSUPPORTED, "avx512");
        assert_fails(at_gauge_read(ATTUNE_ISA_AVX512, pool, &gauge), ATTUNE_UNSUPPORTED, "avx512");
    }
    at_gauge_close(NULL);
    at_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_tier_is_what_the_system_lists),
        cmocka_unit_test(probe_describes_the_machine),
        cmocka_unit_test(caches_agree_with_the_c_library),
        cmocka_unit_test(tiers_are_forced_or_refused),
        cmocka_unit_test(peaks_are_plausible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
