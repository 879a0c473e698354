/* ncu's tables, as an H200 with ncu 2025.3 gave them, and what is made of them. */
#include <math.h>
#include <stdlib.h>

#include "base/cm.h"
#include "base/file.h"
#include "judge/counters.h"

static void read_table(const char *name, at_counters *counters)
{
    char path[512];
    void *text;
    size_t bytes;
    (void)snprintf(path, sizeof path, "%s/tests/judge/ncu/%s.csv", ATTUNE_SOURCE_DIR, name);
    assert_ok(at_file_read(path, 1 << 20, &text, &bytes));
    *counters = (at_counters){.asked = true};
    assert_ok(at_counters_parse(name, text, bytes, counters));
    free(text);
}

static void has(const at_counters *counters, const char *name, double wanted)
{
    double value = at_counters_value(counters, name);
    if (!(fabs(value - wanted) <= 5.1e-4)) {
        fail_msg("%s is %.17g, expected %.17g", name, value, wanted);
    }
}

static void one_launch_is_read(void **state)
{
    (void)state;
    at_counters counters;
    read_table("wmma", &counters);
    has(&counters, "launches", 1);
    has(&counters, "duration_us", 9.76);
    has(&counters, "tensor_pipe_percent", 11.45);
    has(&counters, "sm_throughput_percent", 18.97);
    has(&counters, "active_warps_percent", 12.40);
    has(&counters, "issue_percent", 26.05);
    has(&counters, "dram_read_bytes", 1603072);
    has(&counters, "dram_read_sectors", 50096);
    has(&counters, "dram_write_bytes", 0);
    has(&counters, "l2_hit_percent", 91.25);
    assert_int_equal(counters.stalls, AT_VERDICT_STALLS);
    assert_string_equal(counters.stall[0].name, "wait");
    assert_string_equal(counters.stall[1].name, "short_scoreboard");
    assert_string_equal(counters.stall[2].name, "mio_throttle");
    /* All reasons but "selected" together are 6.61 warps an instruction. */
    assert_true(fabs(counters.stall[0].value - 100 * 1.45 / 6.61) < 0.01);
}

static void several_launches_are_added_up(void **state)
{
    (void)state;
    at_counters counters;
    read_table("cublas", &counters);
    has(&counters, "launches", 3);
    has(&counters, "duration_us", 5.824 + 6.304 + 5.280);
    has(&counters, "dram_read_bytes", 1073664.0 + 8401920 + 4752128);
    has(&counters, "tensor_pipe_percent", (7.16 * 5.824 + 0.61 * 6.304 + 12.63 * 5.280) / (5.824 + 6.304 + 5.280));
    assert_string_equal(counters.stall[0].name, "long_scoreboard");
}

/* What is counted in bytes and sectors adds up over launches; a rate is weighted by how long each took. */
static void counts_add_up_and_rates_do_not(void **state)
{
    (void)state;
    static const char text[] =
        "\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\",\"dram__bytes_read.sum\",\"dram__bytes_write.sum\","
        "\"dram__sectors_read.sum\",\"dram__sectors_write.sum\",\"lts__t_sector_hit_rate.pct\","
        "\"sm__throughput.avg.pct_of_peak_sustained_elapsed\",\"dram__throughput.avg.pct_of_peak_sustained_elapsed\"\n"
        "\"\",\"\",\"ns\",\"byte\",\"byte\",\"sector\",\"sector\",\"%\",\"%\",\"%\"\n"
        "0,a,1000,320,640,10,20,50,8,4\n"
        "1,b,3000,3200,6400,100,200,90,40,20\n";
    at_counters counters = {.count = 0};
    assert_ok(at_counters_parse("ncu", text, sizeof text - 1, &counters));
    has(&counters, "launches", 2);
    has(&counters, "duration_us", 4);
    has(&counters, "dram_read_bytes", 3520);
    has(&counters, "dram_write_bytes", 7040);
    has(&counters, "dram_read_sectors", 110);
    has(&counters, "dram_write_sectors", 220);
    has(&counters, "l2_hit_percent", 80);
    has(&counters, "sm_throughput_percent", 32);
    has(&counters, "dram_percent", 16);
}

static void a_diagnosis_is_one_sentence(void **state)
{
    (void)state;
    at_counters counters;
    read_table("wmma", &counters);
    at_counters_diagnose(&counters);
    assert_string_equal(counters.diagnosis,
                        "bound by latency, with few warps to hide it; tensor pipes 11 %, 12 % of the warps active; "
                        "stalls: 22 % waiting out the fixed latency of dependent instructions, 19 % waiting for "
                        "shared memory or special functions");
    counters = (at_counters){.count = 2, .counter = {{"tensor_pipe_percent", 75}, {"dram_percent", 80}}};
    at_counters_diagnose(&counters);
    assert_string_equal(counters.diagnosis, "bound by the tensor pipes; tensor pipes 75 %, DRAM 80 %");
    counters.counter[0].value = 20;
    at_counters_diagnose(&counters);
    assert_string_equal(counters.diagnosis, "bound by DRAM; tensor pipes 20 %, DRAM 80 %");
    counters.count = 0;
    at_counters_diagnose(&counters);
    assert_string_equal(counters.diagnosis, "the counters do not show what bounds it");
}

static void what_is_no_table_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "there is no table"},
        {"==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - no permission\nmore\n",
         "says: ==ERROR== ERR_NVGPUCTRPERM - no"},
        {"==WARNING== No kernels were profiled.\n", "No kernels were profiled"},
        {"\"ID\",\"Kernel Name\"\n", "ncu saw no launch"},
        {"\"ID\",\"Kernel Name\"\n\"\",\"\"\n", "ncu saw no launch"},
        {"\"ID\",\"Kernel Name", "ncu saw no launch"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        at_counters counters = {.count = 0};
        assert_fails(at_counters_parse("ncu", cases[i].text, strlen(cases[i].text), &counters), ATTUNE_CORRUPT,
                     cases[i].words);
    }
}

static void quotes_commas_and_gaps_are_understood(void **state)
{
    (void)state;
    static const char text[] = "\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\",\"dram__bytes_read.sum\"\n"
                               "\"\",\"\",\"ns\",\"byte\"\n"
                               "\"0\",\"k<\"\"a\"\", 2>\",\"1,234,500\",\"\"\n"
                               "1,plain,500\n";
    at_counters counters = {.count = 0};
    assert_ok(at_counters_parse("ncu", text, sizeof text - 1, &counters));
    has(&counters, "launches", 2);
    has(&counters, "duration_us", 1235);
    assert_true(isnan(at_counters_value(&counters, "dram_read_bytes")));
    assert_int_equal(counters.stalls, 0);
}

static void metrics_are_those_that_exist(void **state)
{
    (void)state;
    char *metrics;
    assert_ok(at_counters_choose("Device NVIDIA X\n\nsm__pipe_tensor_op_hmma_cycles_active  Counter\n"
                                 "sm__inst_executed_pipe_tensor Counter\ngpu__time_duration_measured_user Counter\n"
                                 "dram__bytes_read Counter",
                                 &metrics));
    assert_string_equal(metrics, "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active,"
                                 "dram__bytes_read.sum");
    free(metrics);
    assert_fails(at_counters_choose("", &metrics), ATTUNE_UNSUPPORTED, "none of the metrics");
}

static void ncu_is_looked_for(void **state)
{
    (void)state;
    char *ncu;
    assert_int_equal(setenv("ATTUNE_NCU", "/bin/sh", 1), 0);
    assert_ok(at_counters_find(&ncu));
    assert_string_equal(ncu, "/bin/sh");
    free(ncu);
    assert_int_equal(setenv("ATTUNE_NCU", "/nowhere/ncu", 1), 0);
    assert_fails(at_counters_find(&ncu), ATTUNE_NOT_FOUND, "ATTUNE_NCU names /nowhere/ncu");
    assert_int_equal(unsetenv("ATTUNE_NCU"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_launch_is_read),
        cmocka_unit_test(several_launches_are_added_up),
        cmocka_unit_test(counts_add_up_and_rates_do_not),
        cmocka_unit_test(a_diagnosis_is_one_sentence),
        cmocka_unit_test(what_is_no_table_is_refused),
        cmocka_unit_test(quotes_commas_and_gaps_are_understood),
        cmocka_unit_test(metrics_are_those_that_exist),
        cmocka_unit_test(ncu_is_looked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
