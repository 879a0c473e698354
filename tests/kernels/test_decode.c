/* Which problems decode takes on an H200, and that nothing of a batch decides how (docs/decode.md). */
#include <stdio.h>
#include <string.h>

#include "base/cm.h"
#include "core/config.h"
#include "cuda/cuda.h"

extern const attune_kernel at_kernel_decode;

static void typical(attune_target *target)
{
    assert_ok(at_cuda_typical(90, target));
    target->sm_count = 132;
}

static void takes_few_rows_of_many_keys(void **state)
{
    static const struct {
        const char *problem;
        const char *refusal; /* NULL: none */
    } asked[] = {
        {"b1,h32,hkv8,sq1,skv8192,d128,bf16", NULL},
        {"b64,h32,hkv8,sq8,skv4096,d128,fp16,causal,window=1024:0,softcap=30,alibi,sink,strict", NULL},
        {"b1,h32,hkv8,sq1,skv512,d128,bf16", "seqlen_kv 512: at least 1024 in one piece"},
        {"b1,h32,hkv8,sq1,skv512,d128,bf16,seqused,page=16", NULL},
        {"b1,h32,hkv8,sq16,skv8192,d128,bf16", NULL},
        {"b8,h32,hkv8,sq16,skv8192,d128,bf16", NULL},
        {"b8,h32,hkv8,sq32,skv8192,d128,bf16",
         "seqlen_q 32: 128 rows share a head of K and V, at most 64 with keys in one piece and 256 heads"},
        {"b8,h64,hkv8,sq16,skv8192,d128,bf16", NULL},
        {"b8,h64,hkv8,sq17,skv8192,d128,bf16",
         "seqlen_q 17: 136 rows share a head of K and V, at most 128 with keys in one piece and 512 heads"},
        {"b8,h16,sq33,skv8192,d128,bf16",
         "seqlen_q 33: 33 rows share a head of K and V, at most 32 with keys in one piece and 128 heads"},
        {"b8,h32,hkv8,sq32,skv8192,d128,bf16,seqused,page=64", NULL},
        {"b8,h32,hkv8,sq32,skv8192,d128,bf16,draft", NULL},
        {"b8,h64,hkv8,sq33,skv8192,d128,bf16,seqused,page=64",
         "seqlen_q 33: 264 rows share a head of K and V, at most 256"},
        {"b5000,h32,hkv8,sq1,skv8192,d128,bf16,seqused", "batch 5000: at most 4096, where lengths differ"},
        {"b1,h32,hkv8,sq1,skv8192,d128,bf16,mask", "mask"},
        {"b1,h32,hkv8,sq1,skv8192,d128,fp32", "dtype fp32"},
        {"b1,h32,hkv8,sq1,skv8192,d24,bf16", "head_dim_qk 24"},
    };
    attune_target target;
    (void)state;
    typical(&target);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        attune_problem problem;
        attune_reason reason = {""};
        assert_ok(attune_problem_parse(asked[i].problem, &problem));
        bool takes = at_kernel_supports(&at_kernel_decode, &problem, &target, &reason);
        if (takes != (asked[i].refusal == NULL) || (!takes && strstr(reason.text, asked[i].refusal) != reason.text)) {
            fail_msg("%s: %s", asked[i].problem, takes ? "taken" : reason.text);
        }
    }
}

static attune_config first_of(const char *text)
{
    attune_target target;
    attune_problem problem;
    attune_config config;
    typical(&target);
    assert_ok(attune_problem_parse(text, &problem));
    assert_true(at_kernel_decode.heuristic(&problem, &target, 0, &config));
    return config;
}

/* Bits depend on the first four parameters alone: what a job and a tile are, and what a span is. */
static void takes_no_advice_of_the_batch(void **state)
{
    static const char *const of_bits[] = {"ROWS", "WARPS", "TILE", "TILES"};
    static const char *const alike[] = {
        "b64,h32,hkv8,sq1,skv8192,d128,bf16",      "b1,h32,hkv8,sq1,skv1024,d128,bf16",
        "b1,h32,hkv8,sq1,skv131072,d128,bf16",     "b7,h32,hkv8,sq1,skv8192,d128,bf16,seqused",
        "b7,h32,hkv8,sq1,skv100,d128,bf16,page=1", "b300,h32,hkv8,sq1,skv4096,d128,bf16,seqused,page=64",
    };
    const attune_config one = first_of("b1,h32,hkv8,sq1,skv8192,d128,bf16");
    (void)state;
    for (size_t i = 0; i < sizeof alike / sizeof alike[0]; ++i) {
        const attune_config other = first_of(alike[i]);
        for (size_t k = 0; k < sizeof of_bits / sizeof of_bits[0]; ++k) {
            assert_string_equal(at_kernel_decode.params[k].name, of_bits[k]);
            assert_int_equal(one.value[k], other.value[k]);
        }
    }
}

/* Each head dim has a config for any number of rows: where a tile of all rows has no room, smaller tiles. */
static void takes_rows_of_any_width(void **state)
{
    static const int dims[] = {32, 64, 96, 128, 192, 256}, queries[] = {1, 2, 3, 4, 8, 16, 32};
    attune_target target;
    (void)state;
    typical(&target);
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; ++i) {
        for (size_t j = 0; j < sizeof queries / sizeof queries[0]; ++j) {
            char text[128];
            attune_problem problem;
            attune_reason reason = {""};
            (void)snprintf(text, sizeof text, "b2,h16,hkv2,sq%d,skv3000,d%d,bf16,causal,seqused,page=16", queries[j],
                           dims[i]);
            assert_ok(attune_problem_parse(text, &problem));
            const attune_config config = first_of(text);
            if (!at_kernel_fits(&at_kernel_decode, &problem, &target, &config, &reason)) {
                fail_msg("%s: %s", text, reason.text);
            }
        }
    }
    assert_int_equal(first_of("b2,h16,hkv2,sq4,skv3000,d128,bf16,page=16").value[0], 32);
    assert_int_equal(first_of("b2,h16,hkv2,sq8,skv3000,d128,bf16,page=16").value[0], 64);
    assert_int_equal(first_of("b2,h16,hkv2,sq4,skv3000,d256,bf16,page=16").value[0], 16);
}

static int32_t value_of(const attune_config *config, const char *name)
{
    for (int i = 0; i < at_kernel_decode.param_count; ++i) {
        if (strcmp(at_kernel_decode.params[i].name, name) == 0) {
            return config->value[i];
        }
    }
    fail_msg("no parameter %s", name);
    return 0;
}

/* Who has which jobs, on an H200: clusters, blocks that have pieces or whole jobs, or equal shares of all. */
static void cuts_jobs_that_are_alike(void **state)
{
    static const struct {
        const char *problem;
        int32_t cluster, pieces, blocks;
    } asked[] = {
        {"b1,h32,hkv8,sq1,skv1024,d128,bf16", 8, 0, 1},
        {"b8,h32,hkv8,sq1,skv8192,d128,bf16", 2, 0, 1},
        {"b1,h32,hkv8,sq1,skv8192,d128,bf16", 0, 0, 1}, /* two groups of spans */
        {"b1,h32,hkv8,sq1,skv65536,d128,bf16", 0, 16, 1},
        {"b16,h32,hkv8,sq1,skv32768,d128,bf16", 0, 1, 1},
        {"b2,h32,hkv8,sq1,skv32768,d128,bf16", 0, 8, 1},
        {"b64,h32,hkv8,sq1,skv4096,d128,bf16", 0, 1, 2},
        {"b40,h32,hkv8,sq1,skv4096,d128,bf16", 0, 0, 1},         /* 56 places of 264 would be left in a second round */
        {"b64,h32,hkv8,sq4,skv4096,d128,bf16,causal", 0, 1, 1},  /* no registers for two blocks */
        {"b64,h32,hkv8,sq1,skv4096,d128,bf16,seqused", 0, 0, 1}, /* lengths differ */
        {"b16,h32,hkv8,sq1,skv32768,d128,bf16,window=999:0", 0, 0, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        const attune_config config = first_of(asked[i].problem);
        if (value_of(&config, "CLUSTER") != asked[i].cluster || value_of(&config, "PIECES") != asked[i].pieces ||
            value_of(&config, "BLOCKS") != asked[i].blocks) {
            fail_msg("%s: CLUSTER %d, PIECES %d, BLOCKS %d", asked[i].problem, value_of(&config, "CLUSTER"),
                     value_of(&config, "PIECES"), value_of(&config, "BLOCKS"));
        }
    }
}

/* Clusters have jobs where all lengths are known, or turn out to be alike; then there is a second launch for those that
 * do not, unless there is one sequence. */
static void takes_clusters_of_lengths_on_the_device(void **state)
{
    enum { CLUSTER = 5 };
    static const struct {
        const char *problem;
        int cluster, steps;
    } asked[] = {
        {"b8,h32,hkv8,sq1,skv8192,d128,bf16", 2, 1},
        {"b8,h32,hkv8,sq1,skv8192,d128,bf16,seqused,page=64", 2, 2},
        {"b8,h32,hkv8,sq1,skv8192,d128,bf16,varlen,seqused,page=64", 0, 2},
        {"b1,h32,hkv8,sq1,skv4096,d128,bf16,seqused", 8, 1},
        {"b1,h32,hkv8,sq1,skv8192,d128,bf16,seqused,page=64", 0, 2},
    };
    attune_target target;
    (void)state;
    typical(&target);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        attune_problem problem;
        attune_steps steps;
        const attune_config config = first_of(asked[i].problem);
        assert_string_equal(at_kernel_decode.params[CLUSTER].name, "CLUSTER");
        assert_ok(attune_problem_parse(asked[i].problem, &problem));
        at_kernel_decode.steps(&problem, &target, &config, &steps);
        if (config.value[CLUSTER] != asked[i].cluster || steps.count != asked[i].steps) {
            fail_msg("%s: CLUSTER %d, %d steps", asked[i].problem, config.value[CLUSTER], (int)steps.count);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_few_rows_of_many_keys),
        cmocka_unit_test(takes_no_advice_of_the_batch),
        cmocka_unit_test(takes_rows_of_any_width),
        cmocka_unit_test(cuts_jobs_that_are_alike),
        cmocka_unit_test(takes_clusters_of_lengths_on_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
