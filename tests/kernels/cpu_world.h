/* CPU kernels run on scenes, on every tier this machine runs (and $ATTUNE_ISA allows), and compared with what is true.
 * Who includes this has defined `kernel` before, the descriptor under test, and may define WEIGHT_ERROR, the relative
 * error of a weight that the kernel rounds. */
#ifndef TESTS_KERNELS_CPU_WORLD_H
#define TESTS_KERNELS_CPU_WORLD_H

#include "base/cm.h"

#include <math.h>
#include <stdlib.h>

#include "core/call.h"
#include "core/config.h"
#include "core/target.h"
#include "core/term.h"
#include "cpu/cpu.h"
#include "kernels/scene.h"

#if !defined(WEIGHT_ERROR)
#define WEIGHT_ERROR 0
#endif

/* Draws and configs are tried one in so many. */
#ifdef ATTUNE_SANITIZED
enum { SAMPLE = 4 };
#else
enum { SAMPLE = 1 };
#endif

/* ---- The world: a pool, and a device for each tier --------------------------------------------------------------- */

typedef struct world {
    at_pool *pool;
    int tiers;
    at_device *device[ATTUNE_ISA_COUNT];
} world;

static int open_world(void **state)
{
    world *w = calloc(1, sizeof *w);
    attune_isa best = at_cpu_best_isa();
    const char *wanted = getenv("ATTUNE_ISA");
    attune_isa named;
    if (wanted != NULL && at_isa_parse(wanted, &named) == ATTUNE_OK && named < best) {
        best = named;
    }
    assert_ok(at_pool_create(3, ATTUNE_SCRATCH_MAX, &w->pool));
    int lowest = 0; /* tier that the kernel has code for */
    while (kernel->attend[lowest] == NULL) {
        ++lowest;
    }
    for (; lowest + w->tiers <= (int)best; ++w->tiers) {
        assert_ok(at_cpu_open((attune_isa)(lowest + w->tiers), w->pool, &w->device[w->tiers]));
    }
    *state = w;
    return 0;
}

/* What a device of the world runs: the code of its tier, or of the next lower one that the kernel has. */
static inline attune_attend code_for(const world *w, int tier)
{
    int isa = (int)w->device[tier]->target.isa;
    while (kernel->attend[isa] == NULL) {
        --isa;
    }
    return kernel->attend[isa];
}

static int close_world(void **state)
{
    world *w = *state;
    for (int i = 0; i < w->tiers; ++i) {
        w->device[i]->ops->close(w->device[i]);
    }
    at_pool_destroy(w->pool);
    free(w);
    return 0;
}

/* ---- Running and comparing ----------------------------------------------------------------------------------------
 */

/* Runs a scene by a recipe for `planned`, whose sizes are at least the scene's; the workspace holds what it likes. */
static void run_planned(at_device *device, const attune_problem *planned, scene *s, const attune_config *config,
                        bool with_lse)
{
    attune_args args;
    at_loaded *loaded;
    attune_reason reason;
    at_sizes sizes;
    int64_t bytes;
    if (!at_kernel_fits(kernel, planned, &device->target, config, &reason)) {
        fail_msg("refused: %s", reason.text);
    }
    for (int role = ATTUNE_O; role <= ATTUNE_LSE; ++role) {
        memset(s->memory[role], 0xff, s->bytes[role]);
    }
    attune_call call = s->call;
    if (!with_lse) {
        call.tensor[ATTUNE_LSE].data = NULL;
    }
    if (s->skew == 0) {
        assert_ok(at_call_check(&s->problem, &call));
    }
    at_call_args(&s->problem, &call, &args);
    at_recipe recipe;
    at_recipe_ask(kernel, planned, &device->target, config, &recipe);
    at_sizes_fill(&sizes, &args, &device->target);
    assert_ok(at_term_evaluate(&recipe.resources.workspace, &sizes, &bytes));
    size_t room = ((size_t)bytes + 255) / 256 * 256 + 256;
    args.workspace = aligned_alloc(256, room);
    assert_non_null(args.workspace);
    args.workspace_bytes = (attune_u64)bytes;
    memset(args.workspace, 0xff, room);
    assert_ok(device->ops->load(device, &recipe, &loaded));
    assert_ok(device->ops->inspect(loaded, &args, UINT64_MAX));
    assert_ok(at_launch_args(loaded, &args, NULL));
    assert_ok(device->ops->synchronise(device, NULL));
    device->ops->unload(loaded);
    for (size_t i = (size_t)bytes; i < room; ++i) {
        assert_int_equal(((unsigned char *)args.workspace)[i], 0xff);
    }
    free(args.workspace);
}

static void run_scene(at_device *device, scene *s, const attune_config *config, bool with_lse)
{
    run_planned(device, &s->problem, s, config, with_lse);
}

static bool near(double got, double want, double limit)
{
    if (isnan(want) || isinf(want)) {
        return isnan(want) ? isnan(got) : got == want;
    }
    return fabs(got - want) <= limit;
}

static _Noreturn void show_failure(const scene *s, const char *what, const int64_t at[4], double got, double want)
{
    char text[ATTUNE_PROBLEM_TEXT_MAX] = "?";
    (void)attune_problem_print(&s->problem, text, sizeof text);
    fail_msg("%s of %s at batch %lld, head %lld, row %lld, column %lld: %.9g, expected %.9g", what, text,
             (long long)at[0], (long long)at[1], (long long)at[2], (long long)at[3], got, want);
    abort();
}

/* Compares every output, and sees that nothing else was written. Consumes the outputs. */
static void compare(scene *s, bool with_lse)
{
    const int dtype = tensor_of(s, ATTUNE_O)->dtype;
    const double unit = dtype == ATTUNE_FP32 ? 0x1p-23 : dtype == ATTUNE_FP16 ? 0x1p-10 : 0x1p-7;
    row r;
    for (int64_t b = 0; b < s->call.batch; ++b) {
        int64_t start;
        int64_t rows = span(s, ATTUNE_CU_Q, b, &start);
        for (int64_t h = 0; h < s->call.heads_q; ++h) {
            for (int64_t i = 0; i < rows; ++i) {
                truth(s, b, h, i, &r);
                /* Logits carry an error of a few units of fp32, which weights turn into a relative one. */
                double slack = (6e-6 * (1 + r.largest) + 6 * WEIGHT_ERROR) * s->spread; /* values up to 6 */
                int64_t o = index_of(s, ATTUNE_O, b, h, start + i);
                int64_t l = index_of(s, ATTUNE_LSE, b, h, start + i);
                for (int64_t c = 0; c < s->problem.head_dim_v; ++c) {
                    double got = get(tensor_of(s, ATTUNE_O)->data, dtype, o + c);
                    double size = fabs(r.out[c]) > 1e4 ? fabs(r.out[c]) : 1; /* in a column of huge values */
                    if (!near(got, r.out[c], size * slack + unit * fabs(r.out[c]) + 0x1p-25 * (dtype == ATTUNE_FP16))) {
                        show_failure(s, "O", (int64_t[]){b, h, i, c}, got, r.out[c]);
                    }
                }
                double lse = get(tensor_of(s, ATTUNE_LSE)->data, ATTUNE_FP32, l);
                if (with_lse && !near(lse, r.lse, 4e-6 * (1 + r.largest + fabs(r.lse)) * s->spread)) {
                    show_failure(s, "LSE", (int64_t[]){b, h, i, 0}, lse, r.lse);
                }
                memset((char *)tensor_of(s, ATTUNE_O)->data + o * (int64_t)at_dtype_bytes(dtype), 0xff,
                       (size_t)s->problem.head_dim_v * at_dtype_bytes(dtype));
                memset((char *)tensor_of(s, ATTUNE_LSE)->data + l * 4, 0xff, 4);
            }
        }
    }
    for (int role = ATTUNE_O; role <= ATTUNE_LSE; ++role) {
        for (size_t i = 0; i < s->bytes[role]; ++i) {
            if (s->memory[role][i] != 0xff) {
                fail_msg("%s: byte %zu was written, which no row owns", at_role_name(role), i);
            }
        }
    }
}

static bool some_config(const scene *s, const attune_target *target, uint64_t choice, attune_config *config)
{
    int64_t count = at_config_count(kernel);
    at_config_at(kernel, (int64_t)(choice % (uint64_t)count), config);
    return at_kernel_fits(kernel, &s->problem, target, config, NULL);
}

static void try_scene(const world *w, scene *s, uint64_t choice)
{
    for (int tier = 0; tier < w->tiers; ++tier) {
        attune_config config;
        bool with_lse = choice % 3 != 0;
        if (choice % 4 == 0 || !some_config(s, &w->device[tier]->target, choice / 4, &config)) {
            assert_true(kernel->heuristic(&s->problem, &w->device[tier]->target, 0, &config));
        }
        run_scene(w->device[tier], s, &config, with_lse);
        compare(s, with_lse);
    }
}

/* ---- Drawing ------------------------------------------------------------------------------------------------------
 */

static int64_t pick(at_random *random, const int64_t *values, size_t count)
{
    return values[at_random_below(random, count)];
}
#define PICK(random, ...)                                                                                              \
    pick((random), (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static bool chance(at_random *random, int of)
{
    return at_random_below(random, (uint64_t)of) == 0;
}

static void random_features(at_random *random, attune_problem *p)
{
    const bool causal = chance(random, 3);
    if (chance(random, 3)) {
        p->window_left = PICK(random, -1, 0, 1, 5, 40);
        p->window_right = PICK(random, -1, 0, 3, 20);
    }
    p->window_right = causal ? 0 : p->window_right;
    p->offset_kind = (attune_offset)PICK(random, 0, 0, 1, 2);
    p->offset = p->offset_kind == ATTUNE_OFFSET_NUMBER ? PICK(random, -70, -3, 4, 55, 2000000000) : 0;
    p->softcap = chance(random, 4) ? 3.5f : 0;
    p->scale = chance(random, 4) ? (float)PICK(random, -1, 1) * 0.3f : 0;
    p->bias = chance(random, 3) ? (attune_bias)PICK(random, 1, 2, 3, 4) : ATTUNE_BIAS_NONE;
    p->mask = chance(random, 4);
    p->alibi = chance(random, 4);
    p->sink = chance(random, 4);
    p->seqused_kv = chance(random, 4);
    p->varlen = chance(random, 4);
    p->layout = p->varlen || chance(random, 2) ? ATTUNE_BSHD : ATTUNE_BHSD;
}

/* Pages, drafts and tensors of their own dtypes, of a problem whose features are drawn. */
static inline void random_cache(at_random *random, attune_problem *p, bool drafts)
{
    if (chance(random, 3)) {
        p->page_size = (int32_t)PICK(random, 1, 3, 8, 16, 16, 64, 100, 1024);
        p->page_table_v = chance(random, 3);
        p->seqused_kv = p->seqused_kv || p->varlen;
    }
    if (drafts && chance(random, 4)) {
        p->draft_mask = 1;
        p->seqlen_q = p->seqlen_q < 32 ? p->seqlen_q : 32;
        p->window_left = p->window_right = -1;
        p->offset_kind = ATTUNE_OFFSET_BOTTOM_RIGHT;
        p->offset = 0;
    }
}

static inline void random_dtypes(at_random *random, attune_problem *p)
{
    for (int role = ATTUNE_K; role <= ATTUNE_O && chance(random, 4); ++role) {
        p->role_dtype[role] = (uint8_t)PICK(random, 0, 1 + ATTUNE_FP32, 1 + ATTUNE_FP16, 1 + ATTUNE_BF16);
        p->role_dtype[role] = p->role_dtype[role] == 1 + p->dtype ? 0 : p->role_dtype[role];
    }
}

/* ---- Tests that kernels share --------------------------------------------------------------------------------------
 */

/* Problems drawn at random, with gaps, keys that are not finite, or inputs far from 1. `stream` tells tests' draws
 * apart. */
static inline void try_random_scenes(const world *w, uint64_t count, uint64_t stream,
                                     void (*draw_problem)(at_random *, attune_problem *))
{
    for (uint64_t seed = 0; seed < count; seed += SAMPLE) {
        at_random random = at_random_seed(seed, stream);
        scene s = {.spread = 1};
        draw_problem(&random, &s.problem);
        s.gap = PICK(&random, 0, 0, 1, 3, 8, 300);
        s.bad_keys = chance(&random, 4) ? 1 + (int)at_random_below(&random, 3) : 0;
        s.huge = chance(&random, 8);
        s.spread = chance(&random, 5) ? 6 : 1;
        draw(&s, seed);
        try_scene(w, &s, at_random_next(&random));
        clear(&s);
    }
}

/* Problems by their text, ended by NULL: inputs of this spread, in buffers shifted by `skew` bytes. */
static inline void try_problems(const world *w, const char *const *problems, double spread, int skew)
{
    for (uint64_t i = 0; problems[i] != NULL; ++i) {
        scene s = {.spread = spread, .skew = skew};
        assert_ok(attune_problem_parse(problems[i], &s.problem));
        draw(&s, i);
        try_scene(w, &s, 1);
        clear(&s);
    }
}

/* Runs a scene's first item: scratch beyond what resources() declares stays untouched. */
static inline void expect_scratch_as_declared(const world *w, int tier, const scene *s, const attune_config *config,
                                              void *workspace)
{
    attune_args args;
    attune_resources resources;
    unsigned char *scratch = aligned_alloc(64, ATTUNE_SCRATCH_MAX + 64);
    assert_non_null(scratch);
    kernel->resources(&s->problem, &w->device[tier]->target, config, &resources);
    at_call_args(&s->problem, &s->call, &args);
    memcpy(args.param, config->value, sizeof args.param);
    args.workspace = workspace;
    memset(scratch, 0xa5, ATTUNE_SCRATCH_MAX + 64);
    code_for(w, tier)(&args, 0, scratch);
    for (int64_t at = resources.scratch_bytes; at < ATTUNE_SCRATCH_MAX + 64; ++at) {
        assert_int_equal(scratch[at], 0xa5);
    }
    free(scratch);
}

/* Bits of a batch of three or more that is not packed must not depend on how many threads run, on the run, or on the
 * neighbours in the batch. Without a config: with the heuristic's first. */
static inline void expect_same_bits(const world *w, const char *problem, const attune_config *named)
{
    at_pool *alone;
    assert_ok(at_pool_create(1, ATTUNE_SCRATCH_MAX, &alone));
    for (int tier = 0; tier < w->tiers; ++tier) {
        at_device *single;
        attune_config config;
        scene s = {.spread = 1};
        assert_ok(at_cpu_open(w->device[tier]->target.isa, alone, &single));
        assert_ok(attune_problem_parse(problem, &s.problem));
        draw(&s, 5);
        assert_true(kernel->heuristic(&s.problem, &single->target, 0, &config));
        config = named != NULL ? *named : config;
        run_scene(single, &s, &config, true);
        unsigned char *first = malloc(s.bytes[ATTUNE_O]);
        memcpy(first, s.memory[ATTUNE_O], s.bytes[ATTUNE_O]);
        run_scene(w->device[tier], &s, &config, true);
        assert_memory_equal(first, s.memory[ATTUNE_O], s.bytes[ATTUNE_O]);
        /* The second sequence alone. */
        scene one = s;
        one.call.batch = 1;
        for (int role = ATTUNE_Q; role <= ATTUNE_LSE; ++role) {
            attune_tensor *t = &one.call.tensor[role];
            t->data = (char *)t->data + (size_t)t->stride[0] * at_dtype_bytes(t->dtype);
        }
        run_scene(w->device[tier], &one, &config, true);
        const attune_tensor *o = tensor_of(&s, ATTUNE_O);
        size_t batch_bytes = (size_t)o->stride[0] * at_dtype_bytes(o->dtype);
        assert_memory_equal(first + batch_bytes, s.memory[ATTUNE_O] + batch_bytes, batch_bytes);
        free(first);
        clear(&s);
        single->ops->close(single);
    }
    at_pool_destroy(alone);
}

#endif
