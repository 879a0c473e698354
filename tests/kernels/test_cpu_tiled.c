/* cpu_tiled against attention written out in fp64 below: every feature and their combinations, edges of lengths, dims
 * and strides, what must not be read, configs of every kind, on every tier this machine runs (and $ATTUNE_ISA allows).
 */
#include "base/cm.h"

#include <sys/mman.h>

#include "attune/kernel.h"

extern const attune_kernel at_kernel_cpu_tiled;

static const attune_kernel *const kernel = &at_kernel_cpu_tiled;

#include "kernels/cpu_world.h"

/* ---- Tests --------------------------------------------------------------------------------------------------------
 */

static void random_problem(at_random *random, attune_problem *p)
{
    attune_problem_init(p);
    p->dtype = (attune_dtype)PICK(random, ATTUNE_FP32, ATTUNE_FP32, ATTUNE_FP16, ATTUNE_BF16);
    p->batch = PICK(random, 1, 1, 2, 3);
    p->heads_kv = PICK(random, 1, 2);
    p->heads_q = p->heads_kv * PICK(random, 1, 1, 2, 3);
    p->seqlen_q = PICK(random, 0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 70, 129);
    p->seqlen_kv = PICK(random, 0, 1, 2, 5, 12, 15, 16, 17, 47, 48, 49, 64, 97, 130, 193, 257, 530);
    p->head_dim_qk = (int32_t)PICK(random, 1, 2, 3, 8, 16, 31, 33, 64, 72, 96, 128, 256);
    p->head_dim_v = chance(random, 2) ? p->head_dim_qk : (int32_t)PICK(random, 1, 5, 13, 17, 32, 64, 80, 160, 256);
    p->align = 1;
    random_features(random, p);
    random_cache(random, p, true);
    random_dtypes(random, p);
}

static void random_cases(void **state)
{
    try_random_scenes(*state, 600, 0, random_problem);
}

/* Whether all of the kernel's values were seen, one bit each. */
typedef struct seen {
    uint32_t values[ATTUNE_PARAMS_MAX];
} seen;

static void note(seen *all, const attune_config *config)
{
    for (int p = 0; p < kernel->param_count; ++p) {
        for (int v = 0; v < kernel->params[p].count; ++v) {
            all->values[p] |= (uint32_t)(config->value[p] == kernel->params[p].values[v]) << v;
        }
    }
}

/* Tries configs from all over the space, in steps that share no factor with its size; returns how many ran. */
static int try_configs(const world *w, scene *s, int tier, int64_t first, seen *all)
{
    const int64_t step = 1237;
    int64_t count = at_config_count(kernel);
    int ran = 0;
    for (int64_t c = 0; c < 6000 && ran < 100 / SAMPLE; ++c) {
        attune_config config;
        if (some_config(s, &w->device[tier]->target, (uint64_t)((first + c * step) % count), &config)) {
            run_scene(w->device[tier], s, &config, true);
            compare(s, true);
            note(all, &config);
            ++ran;
        }
    }
    return ran;
}

static void configs_of_every_kind(void **state)
{
    const world *w = *state;
    static const char *const problems[] = {"b1,h2,s150,d64,fp32,causal", "b1,h1,sq37,skv201,d128,dv24,fp16",
                                           "b1,h1,sq40,skv90,d256,bf16,window=30:10", "b1,h2,sq21,skv4200,d20,fp32",
                                           "b2,h1,sq33,skv700,d32,dv40,bf16,causal,sink"};
    for (int tier = 0; tier < w->tiers; ++tier) {
        seen all = {{0}};
        for (size_t i = 0; i < sizeof problems / sizeof *problems; ++i) {
            scene s = {.spread = 1, .gap = 2};
            assert_ok(attune_problem_parse(problems[i], &s.problem));
            s.problem.align = 1;
            draw(&s, i);
            assert_true(try_configs(w, &s, tier, (int64_t)i * 311, &all) > 3);
            clear(&s);
        }
        for (int p = 0; p < kernel->param_count; ++p) {
            assert_int_equal(all.values[p], (1u << kernel->params[p].count) - 1);
        }
    }
}

static bool same_config(const attune_config *a, const attune_config *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* The heuristic names only what fits, each config once, and enough of them; at every pair of head dims there is one. */
static void heuristic_names_what_fits(void **state)
{
    const world *w = *state;
    enum { MOST = 400 };
    for (int tier = 0; tier < w->tiers; ++tier) {
        const attune_target *target = &w->device[tier]->target;
        for (int32_t d = 1; d <= 256; d += d < 8 ? 1 : 31) {
            attune_problem p;
            attune_config config[MOST];
            attune_problem_init(&p);
            p.dtype = d % 2 == 0 ? ATTUNE_FP32 : ATTUNE_BF16;
            p.seqlen_q = 30;
            p.seqlen_kv = d * 40;
            p.head_dim_qk = d;
            p.head_dim_v = 257 - d;
            int32_t named = 0;
            for (; kernel->heuristic(&p, target, named, &config[named]); ++named) {
                assert_true(named < MOST - 1);
                assert_true(at_kernel_fits(kernel, &p, target, &config[named], NULL));
                for (int32_t before = 0; before < named; ++before) {
                    assert_false(same_config(&config[before], &config[named]));
                }
            }
            assert_true(named > 10);
        }
    }
}

/* A search has what to search: hundreds of configs, no two of which are the same work. */
static void expect_space(const attune_target *target)
{
    static const char *const problems[] = {"b1,h8,s1024,d64,fp32", "b1,h8,s1024,d128,fp32,causal",
                                           "b1,h8,s1024,d64,bf16"};
    for (size_t i = 0; i < sizeof problems / sizeof *problems; ++i) {
        attune_problem p;
        attune_config config;
        int64_t fitting = 0;
        assert_ok(attune_problem_parse(problems[i], &p));
        for (int64_t c = 0; c < at_config_count(kernel); ++c) {
            at_config_at(kernel, c, &config);
            fitting += at_kernel_fits(kernel, &p, target, &config, NULL);
        }
        assert_true(fitting >= 300);
    }
}

static void space_is_worth_searching(void **state)
{
    const world *w = *state;
    for (int tier = 0; tier < w->tiers; ++tier) {
        expect_space(&w->device[tier]->target);
    }
}

/* Scratch beyond what resources() declares stays untouched, whatever the config. */
static void scratch_is_what_was_declared(void **state)
{
    const world *w = *state;
    const size_t workspace = (size_t)1 << 20;
    unsigned char *parts = aligned_alloc(256, workspace);
    memset(parts, 0, workspace);
    static const int32_t dims[][2] = {{1, 1}, {1, 256}, {64, 64}, {200, 16}, {256, 256}};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; ++i) {
        scene s = {.spread = 1};
        attune_problem_init(&s.problem);
        s.problem.dtype = ATTUNE_FP16;
        s.problem.seqlen_q = 140;
        s.problem.seqlen_kv = 290;
        s.problem.head_dim_qk = dims[i][0];
        s.problem.head_dim_v = dims[i][1];
        s.problem.align = 1;
        s.problem.bias = ATTUNE_BIAS_1X1;
        draw(&s, i);
        for (int64_t c = 0; c < 1200; ++c) {
            attune_config config;
            int tier = (int)(c % w->tiers);
            const attune_target *target = &w->device[tier]->target;
            if (!some_config(&s, target, (uint64_t)(c / w->tiers * 1237), &config)) {
                continue;
            }
            expect_scratch_as_declared(w, tier, &s, &config, parts);
        }
        clear(&s);
    }
    free(parts);
}

static void unaligned_buffers(void **state)
{
    static const char *const problems[] = {"b1,h2,s40,d24,fp32,bias=1x1", "b1,h2,s40,d24,fp16,bias=1xh,mask",
                                           "b2,h1,s40,d33,bf16,causal", NULL};
    for (int skew = 1; skew < 4; ++skew) {
        try_problems(*state, problems, 1, skew);
    }
}

/* Logits far beyond the range of exp, before the maximum is subtracted. */
static void large_logits(void **state)
{
    static const char *const problems[] = {"b1,h1,s70,d64,fp32,scale=1", "b1,h1,s70,d64,fp32,scale=-2,causal",
                                           "b1,h1,s70,d64,bf16,scale=3,softcap=30", "b1,h1,s70,d64,fp16,scale=1,sink",
                                           NULL};
    try_problems(*state, problems, 4, 0);
}

/* Bits must not depend on how many threads run, on the run, or on the neighbours in the batch. */
static void same_bits(void **state)
{
    const world *w = *state;
    at_pool *alone;
    assert_ok(at_pool_create(1, ATTUNE_SCRATCH_MAX, &alone));
    for (int tier = 0; tier < w->tiers; ++tier) {
        at_device *single;
        attune_config config;
        scene s = {.spread = 1};
        assert_ok(at_cpu_open((attune_isa)tier, alone, &single));
        assert_ok(attune_problem_parse("b3,h2,s100,d48,fp32,causal,varlen=1,layout=bshd", &s.problem));
        draw(&s, 5);
        assert_true(kernel->heuristic(&s.problem, &single->target, 0, &config));
        run_scene(single, &s, &config, true);
        unsigned char *first = malloc(s.bytes[ATTUNE_O]);
        memcpy(first, s.memory[ATTUNE_O], s.bytes[ATTUNE_O]);
        run_scene(w->device[tier], &s, &config, true);
        assert_memory_equal(first, s.memory[ATTUNE_O], s.bytes[ATTUNE_O]);
        /* The second sequence alone. */
        scene one = s;
        int32_t cu[2][2];
        one.call.batch = 1;
        for (int i = 0; i < 2; ++i) {
            const int32_t *all = s.call.tensor[ATTUNE_CU_Q + i].data;
            memcpy(cu[i], all + 1, sizeof cu[i]);
            one.call.tensor[ATTUNE_CU_Q + i].data = cu[i];
        }
        run_scene(w->device[tier], &one, &config, true);
        const attune_tensor *o = &s.call.tensor[ATTUNE_O];
        size_t row_bytes = (size_t)o->stride[2] * sizeof(float);
        assert_memory_equal(first + (size_t)cu[0][0] * row_bytes, s.memory[ATTUNE_O] + (size_t)cu[0][0] * row_bytes,
                            (size_t)(cu[0][1] - cu[0][0]) * row_bytes);
        free(first);
        clear(&s);
        single->ops->close(single);
    }
    at_pool_destroy(alone);
}

/* Element offsets beyond 2^31, in memory that is mostly not there. */
static void far_offsets(void **state)
{
    const world *w = *state;
    const size_t bytes = (size_t)20 << 30;
    const int64_t stride = INT64_C(2200000000);
    unsigned char *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        skip(); /* an address space limit */
    }
    for (int which = 0; which < 3; ++which) {
        scene s = {.spread = 1};
        assert_ok(attune_problem_parse("b2,h2,s20,d16,fp16", &s.problem));
        draw(&s, 9);
        /* Batch, head and row in turn are 2.2e9 elements apart: K's near ones are copied out to there. */
        attune_tensor near_k = s.call.tensor[ATTUNE_K];
        attune_tensor *k = &s.call.tensor[ATTUNE_K];
        k->stride[which] = which == 2 ? stride / 10 : stride;
        for (int64_t b = 0; b < 2; ++b) {
            for (int64_t h = 0; h < 2; ++h) {
                for (int64_t r = 0; r < 20; ++r) {
                    int64_t from = b * near_k.stride[0] + h * near_k.stride[1] + r * near_k.stride[2];
                    int64_t to = b * k->stride[0] + h * k->stride[1] + r * k->stride[2];
                    memcpy(memory + to * 2, (const char *)near_k.data + from * 2, 32);
                }
            }
        }
        k->data = memory;
        attune_config config;
        for (int tier = 0; tier < w->tiers; ++tier) {
            assert_true(kernel->heuristic(&s.problem, &w->device[tier]->target, 0, &config));
            run_scene(w->device[tier], &s, &config, true);
            compare(&s, true);
        }
        clear(&s);
        assert_int_equal(madvise(memory, bytes, MADV_DONTNEED), 0);
    }
    munmap(memory, bytes);
}

/* A NaN value that only later rows see must leave the earlier rows of its own tile clean, at every place in the tile.
 */
static void hidden_values_leave_no_trace(void **state)
{
    for (int64_t key = 0; key < 64; key += 7) {
        for (int what = 0; what < 4; ++what) {
            scene s = {.spread = 1};
            assert_ok(attune_problem_parse("b1,h1,s64,d20,fp32,causal", &s.problem));
            draw(&s, (uint64_t)key);
            int role = what & 1 ? ATTUNE_K : ATTUNE_V;
            put(s.call.tensor[role].data, ATTUNE_FP32, index_of(&s, role, 0, 0, key) + key % 20,
                what & 2 && role == ATTUNE_V ? INFINITY : NAN);
            try_scene(*state, &s, 1 + (uint64_t)key * 4);
            clear(&s);
        }
    }
}

static void descriptor_keeps_the_contract(void **state)
{
    (void)state;
    assert_ok(at_kernel_check(kernel));
    assert_true((kernel->traits & ATTUNE_TRAIT_GENERAL) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptor_keeps_the_contract),
        cmocka_unit_test(heuristic_names_what_fits),
        cmocka_unit_test(space_is_worth_searching),
        cmocka_unit_test(random_cases),
        cmocka_unit_test(configs_of_every_kind),
        cmocka_unit_test(scratch_is_what_was_declared),
        cmocka_unit_test(unaligned_buffers),
        cmocka_unit_test(large_logits),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(far_offsets),
        cmocka_unit_test(hidden_values_leave_no_trace),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
