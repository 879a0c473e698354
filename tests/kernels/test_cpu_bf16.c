/* cpu_bf16 against attention written out in fp64: every feature it supports and their combinations, edges of lengths,
 * dims and strides, what must not be read, heads packed together, every config; on every tier that has code for it,
 * this machine runs and $ATTUNE_ISA allows, and once more with tiles that are modelled in C. */
#include "base/cm.h"

#include <sys/mman.h>

#include "attune/kernel.h"
#include "kernels/tiles_modelled.h"

extern const attune_kernel at_kernel_cpu_bf16;

static const attune_kernel *kernel = &at_kernel_cpu_bf16;

#define WEIGHT_ERROR 0x1p-9
#include "kernels/cpu_world.h"

enum { BLOCK_M, BLOCK_N, HEADS, PACK };

/* The tiers, of which some are slower than others by orders of magnitude. */
static bool are_modelled(void)
{
    return kernel != &at_kernel_cpu_bf16;
}

static void random_problem(at_random *random, attune_problem *p)
{
    attune_problem_init(p);
    p->dtype = ATTUNE_BF16;
    p->batch = PICK(random, 1, 1, 2, 3);
    p->heads_kv = PICK(random, 1, 2);
    p->heads_q = p->heads_kv * PICK(random, 1, 1, 2, 3, 5, 8);
    p->seqlen_q = PICK(random, 0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 70, 129);
    p->seqlen_kv = PICK(random, 0, 1, 2, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97, 130, 193, 259);
    p->head_dim_qk = (int32_t)PICK(random, 1, 2, 3, 8, 16, 31, 33, 64, 72, 96, 128, 256);
    p->head_dim_v = chance(random, 2) ? p->head_dim_qk : (int32_t)PICK(random, 1, 5, 13, 17, 32, 48, 80, 160, 256);
    p->align = 1;
    random_features(random, p);
    p->bias = ATTUNE_BIAS_NONE;
    p->mask = 0;
    random_cache(random, p, false);
}

static void random_cases(void **state)
{
    try_random_scenes(*state, are_modelled() ? 60 : 600, 2, random_problem);
}

static void every_config(void **state)
{
    const world *w = *state;
    static const char *const problems[] = {"b1,h4,hkv2,s150,d64,bf16,causal", "b1,h16,hkv1,sq9,skv301,d40,dv24,bf16",
                                           "b1,h1,sq40,skv190,d256,bf16,window=30:10"};
    for (size_t i = 0; i < sizeof problems / sizeof *problems; ++i) {
        scene s = {.spread = 1, .gap = 2};
        int ran = 0;
        assert_ok(attune_problem_parse(problems[i], &s.problem));
        s.problem.align = 1;
        draw(&s, i);
        for (int tier = 0; tier < w->tiers; ++tier) {
            for (int64_t c = 0; c < at_config_count(kernel); c += are_modelled() ? 7 : 1) {
                attune_config config;
                if (some_config(&s, &w->device[tier]->target, (uint64_t)c, &config)) {
                    run_scene(w->device[tier], &s, &config, true);
                    compare(&s, true);
                    ++ran;
                }
            }
        }
        assert_true(are_modelled() || ran >= w->tiers);
        clear(&s);
    }
}

/* The heuristic names every config that fits, each once, and nothing else; at every pair of head dims there is one. */
static void expect_all_named(const attune_target *target)
{
    for (int32_t d = 1; d <= 256; d += d < 8 ? 1 : 31) {
        attune_problem p;
        attune_config config;
        attune_problem_init(&p);
        p.dtype = ATTUNE_BF16;
        p.heads_q = 6;
        p.heads_kv = 1 + d % 2;
        p.seqlen_q = p.seqlen_kv = 300;
        p.head_dim_qk = d;
        p.head_dim_v = 257 - d;
        int64_t fitting = 0;
        for (int64_t c = 0; c < at_config_count(kernel); ++c) {
            at_config_at(kernel, c, &config);
            fitting += at_kernel_fits(kernel, &p, target, &config, NULL);
        }
        int32_t named = 0;
        for (; kernel->heuristic(&p, target, named, &config); ++named) {
            assert_true(at_kernel_fits(kernel, &p, target, &config, NULL));
        }
        assert_true(named > 0);
        assert_int_equal(named, fitting);
    }
}

static void heuristic_names_all_that_fit(void **state)
{
    const world *w = *state;
    for (int tier = 0; tier < w->tiers; ++tier) {
        expect_all_named(&w->device[tier]->target);
    }
}

/* Few query rows are packed by KV head, as many as there are. */
static void heuristic_packs_few_rows(void **state)
{
    static const struct {
        const char *problem;
        int32_t heads;
    } expected[] = {{"b1,h32,hkv4,sq4,skv4096,d128,bf16", 8},
                    {"b1,h32,hkv8,sq8,skv4096,d128,bf16", 4},
                    {"b1,h32,hkv8,s2048,d128,bf16", 1},
                    {"b1,h32,sq8,skv4096,d128,bf16", 1}};
    (void)state;
    const attune_target target = {
        .size = sizeof target, .kind = ATTUNE_TARGET_CPU, .isa = ATTUNE_ISA_AMX, .threads = 2};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; ++i) {
        attune_problem p;
        attune_config config;
        assert_ok(attune_problem_parse(expected[i].problem, &p));
        assert_true(kernel->heuristic(&p, &target, 0, &config));
        assert_int_equal(config.value[HEADS], expected[i].heads);
    }
}

/* Scratch beyond what resources() declares stays untouched, whatever the config. */
static void scratch_is_what_was_declared(void **state)
{
    const world *w = *state;
    static const int32_t dims[][2] = {{1, 1}, {1, 256}, {64, 64}, {200, 16}, {256, 256}};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; ++i) {
        scene s = {.spread = 1};
        assert_ok(attune_problem_parse("b1,h16,hkv1,s140,bf16,d1", &s.problem));
        s.problem.head_dim_qk = dims[i][0];
        s.problem.head_dim_v = dims[i][1];
        draw(&s, i);
        for (int64_t c = 0; c < at_config_count(kernel) * w->tiers; c += are_modelled() ? 11 : 3) {
            attune_config config;
            attune_resources resources;
            attune_args args;
            at_sizes sizes;
            int64_t bytes;
            int tier = (int)(c % w->tiers);
            const attune_target *target = &w->device[tier]->target;
            if (!some_config(&s, target, (uint64_t)(c / w->tiers), &config)) {
                continue;
            }
            kernel->resources(&s.problem, target, &config, &resources);
            at_call_args(&s.problem, &s.call, &args);
            at_sizes_fill(&sizes, &args, target);
            assert_ok(at_term_evaluate(&resources.workspace, &sizes, &bytes));
            uint32_t *workspace = aligned_alloc(256, (size_t)bytes / 256 * 256 + 256);
            memset(workspace, 0, (size_t)bytes + 4);
            *workspace = 1; /* the second step */
            expect_scratch_as_declared(w, tier, &s, &config, workspace);
            free(workspace);
        }
        clear(&s);
    }
}

static void unaligned_buffers(void **state)
{
    static const char *const problems[] = {"b1,h2,s40,d24,bf16,causal", "b1,h6,hkv2,s40,d64,bf16",
                                           "b2,h1,s40,d33,bf16,window=7:2", NULL};
    for (int skew = 1; skew < 4; ++skew) {
        try_problems(*state, problems, 1, skew);
    }
}

/* Logits far beyond the range of exp, before the maximum is subtracted, and maxima that grow from tile to tile, by less
 * and by more than what O is multiplied for. */
static void large_logits(void **state)
{
    static const char *const problems[] = {
        "b1,h1,s170,d64,bf16,scale=1",           "b1,h1,s70,d64,bf16,scale=-2,causal",
        "b1,h1,s70,d64,bf16,scale=3,softcap=30", "b1,h1,s70,d64,bf16,scale=1,sink",
        "b1,h1,s400,d64,bf16,scale=0.02",        NULL};
    try_problems(*state, problems, 4, 0);
}

/* Bits must not depend on how many threads run, on the run, or on the neighbours in the batch. */
static void same_bits(void **state)
{
    expect_same_bits(*state, "b3,h4,hkv2,sq9,skv300,d48,bf16,causal", NULL);
}

/* A NaN value that only later rows see must leave the earlier rows of its own tile clean, at every place in the tile;
 * an infinite one stays infinite where its weight becomes 0; and values that products would count as 0 are not. */
static void flagged_values(void **state)
{
    static const double bad[] = {NAN, INFINITY, 0x1p-128};
    for (int64_t key = 0; key < 64; key += are_modelled() ? 31 : 7) {
        for (int what = 0; what < 4; ++what) {
            scene s = {.spread = 1};
            assert_ok(attune_problem_parse("b1,h1,s64,d20,bf16,causal", &s.problem));
            draw(&s, (uint64_t)key);
            int role = what < 3 ? ATTUNE_V : ATTUNE_K;
            put(s.call.tensor[role].data, ATTUNE_BF16, index_of(&s, role, 0, 0, key) + key % 20, bad[what % 3]);
            try_scene(*state, &s, 1 + (uint64_t)key * 4);
            clear(&s);
        }
    }
}

static void refusals_say_why(void **state)
{
    static const char *const refused[][2] = {
        {"b1,h1,s64,d64,fp16", "dtype fp16: bf16 is needed"},
        {"b1,h1,s64,d64,bf16,bias=1x1", "bias 1x1: kernel cpu_bf16 does not compute it"},
        {"b1,h1,s64,d64,bf16,mask", "mask: kernel cpu_bf16 does not compute it"}};
    const attune_target target = {
        .size = sizeof target, .kind = ATTUNE_TARGET_CPU, .isa = ATTUNE_ISA_AMX, .threads = 2};
    attune_problem p;
    attune_reason reason;
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) {
        assert_ok(attune_problem_parse(refused[i][0], &p));
        assert_false(at_kernel_supports(kernel, &p, &target, &reason));
        assert_string_equal(reason.text, refused[i][1]);
    }
    assert_ok(attune_problem_parse("b1,h6,hkv2,s64,d64,bf16", &p));
    const attune_target lower = {
        .size = sizeof lower, .kind = ATTUNE_TARGET_CPU, .isa = ATTUNE_ISA_AVX512, .threads = 2};
    assert_false(at_kernel_supports(kernel, &p, &lower, &reason));
    assert_string_equal(reason.text, "isa avx512: avx512_bf16 or higher is needed");
    attune_config config = {.value = {[BLOCK_M] = 32, [BLOCK_N] = 64, [HEADS] = 4}};
    assert_false(kernel->valid(&p, &target, &config, &reason));
    assert_string_equal(reason.text, "HEADS 4: a KV head has 3 query heads");
}

static void descriptor_keeps_the_contract(void **state)
{
    (void)state;
    assert_ok(at_kernel_check(&at_kernel_cpu_bf16));
    assert_int_equal(at_kernel_cpu_bf16.traits, 0);
}

int main(void)
{
    const struct CMUnitTest described[] = {
        cmocka_unit_test(descriptor_keeps_the_contract),
        cmocka_unit_test(refusals_say_why),
        cmocka_unit_test(heuristic_packs_few_rows),
    };
    const struct CMUnitTest run[] = {
        cmocka_unit_test(heuristic_names_all_that_fit),
        cmocka_unit_test(random_cases),
        cmocka_unit_test(every_config),
        cmocka_unit_test(scratch_is_what_was_declared),
        cmocka_unit_test(unaligned_buffers),
        cmocka_unit_test(large_logits),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(flagged_values),
    };
    int failed = cmocka_run_group_tests_name("the descriptor", described, NULL, NULL);
    failed += cmocka_run_group_tests_name("the tiers of this machine", run, open_world, close_world);
    attune_kernel modelled = at_kernel_cpu_bf16;
    modelled.attend[ATTUNE_ISA_AVX512_BF16] = attune_cpu_bf16_modelled;
    modelled.attend[ATTUNE_ISA_AMX] = NULL;
    kernel = &modelled;
    return failed + cmocka_run_group_tests_name("tiles, modelled", run, open_world, close_world);
}
