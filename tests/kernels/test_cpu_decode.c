/* cpu_decode against attention written out in fp64: few rows and many keys in every way the kernel supports, parts of
 * the keys and how they merge, what must not be read, every config, on every tier this machine runs (and $ATTUNE_ISA
 * allows); and bf16 once more with tiles that are modelled in C. */
#include "attune/kernel.h"
#include "kernels/tiles_modelled.h"

extern const attune_kernel at_kernel_cpu_decode;

static const attune_kernel *kernel = &at_kernel_cpu_decode;

/* Of bf16 that is multiplied in tiles. */
#define WEIGHT_ERROR (tensor_of(s, ATTUNE_V)->dtype == ATTUNE_BF16 ? 0x1p-9 : 0)
#include "kernels/cpu_world.h"

/* The tiers, of which tiles that are modelled are slower than others by orders of magnitude. */
static bool are_modelled(void)
{
    return kernel != &at_kernel_cpu_decode;
}

static void random_problem(at_random *random, attune_problem *p)
{
    attune_problem_init(p);
    p->dtype = (attune_dtype)PICK(random, ATTUNE_FP32, ATTUNE_FP32, ATTUNE_FP16, ATTUNE_BF16);
    p->batch = PICK(random, 1, 1, 2, 3);
    p->heads_kv = PICK(random, 1, 2);
    p->heads_q = p->heads_kv * PICK(random, 1, 1, 2, 3, 4, 7, 16);
    p->seqlen_q = PICK(random, 0, 1, 1, 1, 2, 3, 5, 16);
    while (p->seqlen_q * (p->heads_q / p->heads_kv) > 16) {
        p->seqlen_q /= 2;
    }
    p->seqlen_kv = PICK(random, 0, 1, 2, 5, 15, 16, 17, 49, 64, 193, 255, 256, 257, 300, 513, 700, 1100);
    p->head_dim_qk = (int32_t)PICK(random, 1, 2, 3, 8, 16, 31, 33, 64, 72, 96, 128, 256);
    p->head_dim_v = chance(random, 2) ? p->head_dim_qk : (int32_t)PICK(random, 1, 5, 13, 17, 32, 64, 80, 160, 256);
    p->align = 1;
    random_features(random, p);
    p->bias = ATTUNE_BIAS_NONE;
    p->mask = 0;
    random_cache(random, p, true);
    if (are_modelled() && chance(random, 2)) {
        p->dtype = ATTUNE_BF16;
    } else {
        random_dtypes(random, p);
    }
}

static void random_cases(void **state)
{
    try_random_scenes(*state, are_modelled() ? 200 : 600, 1, random_problem);
}

/* Steps through the space that share no factor with its size: every value of every parameter is met. */
enum { STRIDE = SAMPLE == 1 ? 3 : 13 };

static void configs_of_every_kind(void **state)
{
    const world *w = *state;
    static const char *const problems[] = {
        "b1,h8,hkv2,sq1,skv1500,d64,fp32", "b2,h3,hkv1,sq5,skv777,d128,dv24,fp16,causal",
        "b1,h2,sq7,skv600,d256,bf16,window=300:10", "b1,h12,hkv2,sq1,skv777,d72,dv40,bf16"};
    for (size_t i = 0; i < sizeof problems / sizeof *problems; ++i) {
        scene s = {.spread = 1, .gap = 2};
        assert_ok(attune_problem_parse(problems[i], &s.problem));
        s.problem.align = 1;
        draw(&s, i);
        for (int tier = 0; tier < w->tiers; ++tier) {
            int ran = 0;
            for (int64_t c = 0; c < at_config_count(kernel); c += are_modelled() ? 23 : STRIDE) {
                attune_config config;
                if (some_config(&s, &w->device[tier]->target, (uint64_t)c, &config)) {
                    run_scene(w->device[tier], &s, &config, true);
                    compare(&s, true);
                    ++ran;
                }
            }
            assert_true(ran > (are_modelled() ? 5 : 30 / SAMPLE));
        }
        clear(&s);
    }
}

/* A call may have fewer KV heads than the plan, and so more rows a head than are packed at once. */
static void run_more_rows(const world *w, const char *text)
{
    scene s = {.spread = 1};
    assert_ok(attune_problem_parse(text, &s.problem));
    draw(&s, 3);
    attune_problem planned = s.problem;
    planned.heads_kv = 36;
    for (int tier = 0; tier < w->tiers; ++tier) {
        for (int64_t c = 0; c < at_config_count(kernel); c += STRIDE) {
            attune_config config;
            at_config_at(kernel, c, &config);
            if (at_kernel_fits(kernel, &planned, &w->device[tier]->target, &config, NULL)) {
                run_planned(w->device[tier], &planned, &s, &config, true);
                compare(&s, true);
            }
        }
    }
    clear(&s);
}

static void more_rows_than_packed(void **state)
{
    run_more_rows(*state, "b2,h36,hkv1,sq1,skv700,d40,fp32,causal,sink");
    run_more_rows(*state, "b1,h36,hkv1,sq1,skv300,d40,bf16,causal,sink");
}

/* The heuristic names every config once, all fit, and the first splits keys only where threads would be idle,
 * into parts that are not too long. */
static void expect_all_named(attune_target target)
{
    attune_problem p;
    attune_config config;
    bool seen[512] = {false};
    assert_ok(attune_problem_parse("b1,h32,hkv8,sq1,skv20000,d256,fp32", &p));
    for (int32_t i = 0; i < at_config_count(kernel); ++i) {
        assert_true(kernel->heuristic(&p, &target, i, &config));
        assert_true(at_kernel_fits(kernel, &p, &target, &config, NULL));
        for (int32_t c = 0; c < at_config_count(kernel); ++c) {
            attune_config other;
            at_config_at(kernel, c, &other);
            if (memcmp(&other, &config, sizeof config) == 0) {
                assert_false(seen[c]);
                seen[c] = true;
            }
        }
        assert_true(i < 512);
    }
    assert_false(kernel->heuristic(&p, &target, (int32_t)at_config_count(kernel), &config));
    static const struct {
        int32_t threads;
        int64_t batch;
        int64_t split;
    } expected[] = {{1, 1, 0}, {2, 1, 0}, {16, 1, 2048}, {16, 4, 4096}, {16, 8, 0}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; ++i) {
        target.threads = expected[i].threads;
        p.batch = expected[i].batch;
        assert_true(kernel->heuristic(&p, &target, 0, &config));
        assert_int_equal(config.value[0], expected[i].split);
    }
}

static void heuristic_names_all(void **state)
{
    const world *w = *state;
    for (int tier = 0; tier < w->tiers; ++tier) {
        expect_all_named(w->device[tier]->target);
    }
}

/* Scratch and workspace beyond what resources() declares stay untouched, whatever the config. */
static void scratch_is_what_was_declared(void **state)
{
    const world *w = *state;
    static const int32_t dims[][2] = {{1, 1}, {1, 256}, {64, 64}, {200, 16}, {256, 256}};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; ++i) {
        scene s = {.spread = 1};
        attune_problem_init(&s.problem);
        s.problem.dtype = i % 2 == 0 || are_modelled() ? ATTUNE_BF16 : ATTUNE_FP16;
        s.problem.heads_q = 16;
        s.problem.seqlen_q = 1;
        s.problem.seqlen_kv = 300;
        s.problem.head_dim_qk = dims[i][0];
        s.problem.head_dim_v = dims[i][1];
        s.problem.align = 1;
        draw(&s, i);
        for (int64_t c = 0; c < at_config_count(kernel) * w->tiers; ++c) {
            attune_config config;
            uint32_t workspace[64 / 4 + 2 * 16 * (256 + 16)] = {0};
            int tier = (int)(c % w->tiers);
            const attune_target *target = &w->device[tier]->target;
            if (!some_config(&s, target, (uint64_t)(c / w->tiers), &config)) {
                continue;
            }
            expect_scratch_as_declared(w, tier, &s, &config, workspace);
        }
        clear(&s);
    }
}

static void unaligned_buffers(void **state)
{
    static const char *const problems[] = {"b1,h2,sq1,skv300,d24,fp32", "b1,h6,hkv2,sq2,skv40,d24,fp16,causal",
                                           "b2,h1,sq3,skv400,d33,bf16", NULL};
    for (int skew = 1; skew < 4; ++skew) {
        try_problems(*state, problems, 1, skew);
    }
}

/* Logits far beyond the range of exp, before the maximum is subtracted. */
static void large_logits(void **state)
{
    static const char *const problems[] = {
        "b1,h4,hkv1,sq1,skv900,d64,fp32,scale=1", "b1,h1,sq4,skv600,d64,fp32,scale=-2,causal",
        "b1,h1,sq1,skv700,d64,bf16,scale=3,softcap=30", "b1,h4,sq1,skv700,d64,fp16,scale=1,sink"};
    for (size_t i = 0; i < sizeof problems / sizeof *problems; ++i) {
        for (uint64_t choice = 1; choice < 4 * (uint64_t)at_config_count(kernel); choice += 4 * STRIDE) {
            scene s = {.spread = 4};
            assert_ok(attune_problem_parse(problems[i], &s.problem));
            draw(&s, i);
            try_scene(*state, &s, choice);
            clear(&s);
        }
    }
}

/* An infinite value under a weight that rounds to zero, in its own block, block after block and part after part, stays
 * infinite, as it does in the mathematics; what a row does not see leaves no trace. */
static void not_finite_values(void *state, const char *text, int64_t step)
{
    static const double bad[] = {NAN, INFINITY, NAN};
    for (int64_t key = 0; key < 600; key += step) {
        for (int what = 0; what < 3; ++what) {
            scene s = {.spread = 1};
            assert_ok(attune_problem_parse(text, &s.problem));
            draw(&s, (uint64_t)key);
            const int role = what < 2 ? ATTUNE_V : ATTUNE_K;
            const attune_dtype dtype = s.problem.dtype;
            put(s.call.tensor[role].data, dtype, index_of(&s, role, 0, 0, 594 + key % 6) + key % 20, bad[what]);
            if (what < 2) {
                put(s.call.tensor[role].data, dtype, index_of(&s, role, 0, 0, key) + 3, -INFINITY);
            }
            try_scene(state, &s, 1 + (uint64_t)key * 4);
            clear(&s);
        }
    }
}

static void values_that_are_not_finite(void **state)
{
    if (!are_modelled()) {
        not_finite_values(*state, "b1,h2,hkv1,sq6,skv600,d20,fp32,causal", 37);
    }
    not_finite_values(*state, "b1,h2,hkv1,sq6,skv600,d20,bf16,causal", are_modelled() ? 185 : 74);
}

/* O of one head and row, of eight heads that share keys; the scene has been changed as `change` says. */
static void expect_first(void *state, const char *text, void (*change)(scene *, int64_t), int64_t key, double least,
                         double most)
{
    const world *w = state;
    scene s = {.spread = 1};
    attune_config config;
    assert_ok(attune_problem_parse(text, &s.problem));
    draw(&s, 1);
    change(&s, key);
    for (int tier = 0; tier < w->tiers; ++tier) {
        assert_true(some_config(&s, &w->device[tier]->target, 0, &config));
        run_scene(w->device[tier], &s, &config, true);
        for (int64_t h = 0; h < 8; ++h) {
            double got = get(s.call.tensor[ATTUNE_O].data, ATTUNE_BF16, index_of(&s, ATTUNE_O, 0, h, 0));
            if (!(got >= least && got <= most)) {
                fail_msg("%s, key %lld, head %lld: %g", text, (long long)key, (long long)h, got);
            }
        }
    }
    clear(&s);
}

static void fill(scene *s, attune_role role, double with)
{
    for (int64_t h = 0; h < (role == ATTUNE_Q ? 8 : 1); ++h) {
        for (int64_t i = 0; i < (role == ATTUNE_Q ? 1 : s->call.seqlen_kv); ++i) {
            for (int64_t c = 0; c < s->problem.head_dim_v; ++c) {
                put(s->call.tensor[role].data, ATTUNE_BF16, index_of(s, role, 0, h, i) + c, with);
            }
        }
    }
}

static void one_small_value(scene *s, int64_t key)
{
    fill(s, ATTUNE_V, 0);
    fill(s, ATTUNE_K, 0);
    put(s->call.tensor[ATTUNE_V].data, ATTUNE_BF16, index_of(s, ATTUNE_V, 0, 0, key), 0x1p-127);
}

/* A value that dots of bf16 would take as 0, wherever it is. */
static void small_values(void **state)
{
    for (int64_t key = 0; key < 7; ++key) {
        expect_first(*state, "b1,h8,hkv1,sq1,skv7,d32,bf16", one_small_value, key, 0x1p-131, 0x1p-129);
        expect_first(*state, "b1,h8,hkv1,sq1,skv7,d40,bf16", one_small_value, key, 0x1p-131, 0x1p-129);
    }
}

static void products_beyond_fp32(scene *s, int64_t key)
{
    (void)key;
    fill(s, ATTUNE_Q, 0);
    fill(s, ATTUNE_K, 0);
    fill(s, ATTUNE_V, 1);
    for (int64_t h = 0; h < 8; ++h) {
        put(s->call.tensor[ATTUNE_Q].data, ATTUNE_BF16, index_of(s, ATTUNE_Q, 0, h, 0), 4);
    }
    for (int64_t i = 0; i < s->call.seqlen_kv; ++i) {
        put(s->call.tensor[ATTUNE_K].data, ATTUNE_BF16, index_of(s, ATTUNE_K, 0, 0, i), -0x1.8p127);
    }
}

/* Scores are finite, and what they are made of is not until it is scaled. */
static void large_products(void **state)
{
    expect_first(*state, "b1,h8,hkv1,sq1,skv40,d64,bf16", products_beyond_fp32, 0, 1, 1);
    expect_first(*state, "b1,h8,hkv1,sq1,skv40,d64,bf16,scale=-0.125", products_beyond_fp32, 0, 1, 1);
}

/* Bits must not depend on how many threads run, on the run, or on the neighbours in the batch. */
static void same_bits(void **state)
{
    const attune_config config = {.value = {256, 64, 8, 1}};
    if (!are_modelled()) {
        expect_same_bits(*state, "b3,h4,hkv2,sq2,skv900,d48,fp32,causal", &config);
    }
    expect_same_bits(*state, "b3,h12,hkv2,sq2,skv900,d64,bf16,causal", &config);
}

static void refusals_say_why(void **state)
{
    const world *w = *state;
    static const char *const refused[][2] = {
        {"b1,h8,hkv2,sq5,skv90,d64,fp32",
         "seqlen_q 5, with 4 query heads a KV head: at most 16 query rows a KV head are packed"},
        {"b1,h1,sq1,skv90,d64,fp32,bias=bx1", "bias bx1: kernel cpu_decode does not compute it"},
        {"b1,h1,sq1,skv90,d64,fp32,mask", "mask: kernel cpu_decode does not compute it"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) {
        attune_problem p;
        attune_reason reason;
        assert_ok(attune_problem_parse(refused[i][0], &p));
        assert_false(at_kernel_supports(kernel, &p, &w->device[0]->target, &reason));
        assert_string_equal(reason.text, refused[i][1]);
    }
}

static void descriptor_keeps_the_contract(void **state)
{
    (void)state;
    assert_ok(at_kernel_check(kernel));
    assert_int_equal(kernel->traits, 0);
}

/* What the tier of tiles needs, on one that has none. */
static void modelled_resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                               attune_resources *needed)
{
    attune_target tiles = *target;
    tiles.isa = ATTUNE_ISA_AMX;
    at_kernel_cpu_decode.resources(problem, &tiles, config, needed);
}

int main(void)
{
    const struct CMUnitTest described[] = {
        cmocka_unit_test(descriptor_keeps_the_contract),
        cmocka_unit_test(refusals_say_why),
        cmocka_unit_test(heuristic_names_all),
        cmocka_unit_test(more_rows_than_packed),
        cmocka_unit_test(unaligned_buffers),
        cmocka_unit_test(large_logits),
    };
    const struct CMUnitTest run[] = {
        cmocka_unit_test(random_cases),
        cmocka_unit_test(configs_of_every_kind),
        cmocka_unit_test(scratch_is_what_was_declared),
        cmocka_unit_test(values_that_are_not_finite),
        cmocka_unit_test(small_values),
        cmocka_unit_test(large_products),
        cmocka_unit_test(same_bits),
    };
    int failed = cmocka_run_group_tests(described, open_world, close_world);
    failed += cmocka_run_group_tests(run, open_world, close_world);
#if defined(__x86_64__)
    attune_kernel modelled = at_kernel_cpu_decode;
    memset(modelled.attend, 0, sizeof modelled.attend);
    modelled.attend[ATTUNE_ISA_AVX512_BF16] = attune_cpu_decode_modelled;
    modelled.resources = modelled_resources;
    kernel = &modelled;
    failed += cmocka_run_group_tests_name("tiles, modelled", run, open_world, close_world);
#endif
    return failed;
}
