/* What the wgmma kernel is made of, checked on the device element by element, by the kernel's own functions: rings that
 * the copy engine fills, one tile of each product for every head dim, a tile's softmax, a job's by a static_max
 * reference, which keys are seen, a tile's way out. The entries are those of hopper.cu. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/cm.h"
#include "base/half.h"
#include "base/random.h"
#include "cuda/cuda.h"
#include "cuda/device.h"
#include "gpu/compile_ahead.h"
#include "gpu/hopper.h"

enum { ROWS_MAX = 192, BLOCK_N_MAX = 224, RESULTS = 4 * ELEMENTS };

typedef struct bench_top {
    at_device *device;
    void *buffer[ATTUNE_LSE + 1];
    attune_problem problem;
    attune_config config;
    const hopper_case *of;
    int scene;               /* of STATIC_MAX */
    int rows, keys, block_n; /* of a tile of queries; in all; of a tile of keys */
    uint16_t bits[3][ELEMENTS];
    float value[3][ELEMENTS];
    float result[RESULTS];
    uint16_t out[ELEMENTS];
} bench_top;

/* Whether there is something to test: another architecture has no such instructions. */
static bool here(const bench_top *top)
{
    attune_reason reason;
    attune_problem problem;
    assert_ok(attune_problem_parse("b1,h1,s64,d64,fp16", &problem));
    return at_kernel_supports(whole, &problem, &top->device->target, &reason);
}

static void compile_all(at_device *device)
{
    static at_recipe recipe[HOPPER_CASES];
    for (int i = 0; i < HOPPER_CASES; ++i) {
        attune_problem problem;
        attune_config config;
        hopper_choose(&hopper_cases[i], &device->target, &problem, &config);
        hopper_recipe(&problem, &device->target, &config, &recipe[i]);
    }
    compile_ahead(device, recipe, HOPPER_CASES);
}

static int setup(void **state)
{
    bench_top *top = calloc(1, sizeof *top);
    assert_non_null(top);
    assert_ok(at_cuda_open(0, NULL, NULL, &top->device));
    for (int i = 0; i <= ATTUNE_LSE; ++i) {
        assert_ok(top->device->ops->allocate(top->device, RESULTS * sizeof(float), &top->buffer[i]));
    }
    hopper_open();
    if (here(top)) {
        compile_all(top->device);
    }
    *state = top;
    return 0;
}

static int teardown(void **state)
{
    bench_top *top = *state;
    for (int i = 0; i <= ATTUNE_LSE; ++i) {
        top->device->ops->release(top->device, top->buffer[i]);
    }
    top->device->ops->close(top->device);
    free(top);
    return 0;
}

static int32_t value_of(const bench_top *top, const char *name)
{
    return hopper_value(&top->config, name);
}

static void choose(bench_top *top, const hopper_case *of)
{
    hopper_choose(of, &top->device->target, &top->problem, &top->config);
    top->of = of;
    top->scene = of->scene;
    top->rows = (int)top->problem.seqlen_q;
    top->keys = (int)top->problem.seqlen_kv;
    top->block_n = value_of(top, "BLOCK_N");
}

/* Checks a unit in all its cases. */
static void check_all(bench_top *top, int unit, void (*check)(bench_top *top))
{
    for (int i = 0; here(top) && i < HOPPER_CASES; ++i) {
        if (hopper_cases[i].unit == unit) {
            choose(top, &hopper_cases[i]);
            check(top);
        }
    }
}

static attune_args args_of(bench_top *top)
{
    const attune_problem *p = &top->problem;
    attune_args args = {.size = sizeof args,
                        .abi = ATTUNE_ABI,
                        .dtype = p->dtype,
                        .batch = 1,
                        .heads_q = 1,
                        .heads_kv = 1,
                        .seqlen_q = p->seqlen_q,
                        .seqlen_kv = p->seqlen_kv,
                        .total_q = p->seqlen_q,
                        .total_kv = p->seqlen_kv,
                        .head_dim_qk = p->head_dim_qk,
                        .head_dim_v = p->head_dim_v,
                        .scale = 0.5F,
                        .window_left = p->window_left,
                        .window_right = p->window_right,
                        .offset = p->offset};
    for (int i = 0; i <= ATTUNE_LSE; ++i) {
        int64_t dim = i == ATTUNE_Q || i == ATTUNE_K ? p->head_dim_qk : i == ATTUNE_LSE ? 1 : p->head_dim_v;
        args.tensor[i] = (attune_tensor){.data = top->buffer[i],
                                         .stride = {dim * KEYS_MAX, dim * KEYS_MAX, dim},
                                         .dtype = i == ATTUNE_LSE ? ATTUNE_FP32 : p->dtype};
    }
    return args;
}

/* Compiles the unit chosen, runs one block, brings LSE's memory back, where what the unit did not write is NaN. */
static void run_unit(bench_top *top)
{
    at_loaded *loaded = NULL;
    at_recipe recipe;
    memset(top->result, 0xff, sizeof top->result);
    assert_ok(top->device->ops->upload(top->device, top->buffer[ATTUNE_LSE], top->result, sizeof top->result));
    hopper_recipe(&top->problem, &top->device->target, &top->config, &recipe);
    assert_ok(top->device->ops->load(top->device, &recipe, &loaded));
    attune_args args = args_of(top);
    assert_ok(at_launch_args(loaded, &args, NULL));
    assert_ok(top->device->ops->synchronise(top->device, NULL));
    assert_ok(top->device->ops->download(top->device, top->result, top->buffer[ATTUNE_LSE], sizeof top->result));
    top->device->ops->unload(loaded);
}

static uint16_t bits_of(const bench_top *top, float x)
{
    return top->problem.dtype == ATTUNE_BF16 ? at_bf16_from_float(x) : at_fp16_from_float(x);
}

static float rounded(const bench_top *top, float x)
{
    uint16_t bits = bits_of(top, x);
    return top->problem.dtype == ATTUNE_BF16 ? at_bf16_to_float(bits) : at_fp16_to_float(bits);
}

static void put(bench_top *top, int role, int at, float x)
{
    top->value[role][at] = x;
    top->bits[role][at] = bits_of(top, x);
}

static void send(bench_top *top, int role)
{
    assert_ok(top->device->ops->upload(top->device, top->buffer[role], top->bits[role], sizeof top->bits[role]));
}

/* Elements that are small integers, so that sums are exact. */
static void draw(bench_top *top)
{
    for (int role = 0; role < 3; ++role) {
        at_random random = at_random_seed(11, (uint64_t)role);
        for (int i = 0; i < ELEMENTS; ++i) {
            put(top, role, i, (float)((int)at_random_below(&random, 7) - 3));
        }
        send(top, role);
    }
}

/* ---- Products ---- */

static void expect(const bench_top *top, const char *what, int row, int column, float found, float expected)
{
    if (!(found == expected)) {
        fail_msg("%s, %s %s: row %d, column %d of the %s is %g instead of %g", hopper_entries[top->of->unit],
                 top->of->dims, top->of->params, row, column, what, (double)found, (double)expected);
    }
}

/* Row r's scores with the last tile of keys, which the unit found as well. */
static void check_scores(const bench_top *top, const float *found, int r, float *s)
{
    int dim = top->problem.head_dim_qk, n = top->block_n, first = top->keys - n;
    for (int c = 0; c < n; ++c) {
        s[c] = 0;
        for (int k = 0; k < dim; ++k) {
            s[c] += top->value[0][r * dim + k] * top->value[1][(first + c) * dim + k];
        }
        expect(top, "scores", r, c, found[r * n + c], s[c]);
    }
}

/* What the unit found. */
static void check_found(const bench_top *top, const float *found)
{
    int dim_v = top->problem.head_dim_v, n = top->block_n, first = top->keys - n;
    const float *o = found + (ptrdiff_t)top->rows * n;
    static float s[BLOCK_N_MAX];
    for (int r = 0; r < top->rows; ++r) {
        check_scores(top, found, r, s);
        for (int c = 0; c < dim_v; ++c) {
            float sum = 0;
            for (int k = 0; k < n; ++k) {
                sum += rounded(top, s[k]) * top->value[2][(first + k) * dim_v + c];
            }
            expect(top, "output", r, c, o[r * dim_v + c], sum);
        }
    }
}

static void check_products(bench_top *top)
{
    draw(top);
    run_unit(top);
    check_found(top, top->result);
}

static void test_products(void **state)
{
    check_all(*state, PRODUCTS, check_products);
}

static void check_rescore(bench_top *top)
{
    static float s[BLOCK_N_MAX];
    draw(top);
    run_unit(top);
    for (int r = 0; r < top->rows; ++r) {
        check_scores(top, top->result, r, s);
    }
}

/* A warp finds alone, and from memory, the scores that the group's product gave. */
static void test_rescore(void **state)
{
    check_all(*state, RESCORE, check_rescore);
}

/* ---- Rings ---- */

static void check_ring(bench_top *top)
{
    draw(top);
    run_unit(top);
    int keys = top->keys * top->problem.head_dim_qk, values = top->keys * top->problem.head_dim_v;
    assert_memory_equal(top->result, top->value[1], (size_t)keys * sizeof(float));
    assert_memory_equal(top->result + keys, top->value[2], (size_t)values * sizeof(float));
}

/* Tiles of keys and of values pass through a ring, each stage three times and more. */
static void test_ring(void **state)
{
    check_all(*state, RING, check_ring);
}

/* ---- Softmax ---- */

typedef float two_tiles[2][ROWS_MAX * 192]; /* of scores */

static void draw_tiles(uint64_t seed, two_tiles tile)
{
    at_random random = at_random_seed(seed, 0);
    for (int i = 0; i < 2 * ROWS_MAX * 192; ++i) {
        tile[i / (ROWS_MAX * 192)][i % (ROWS_MAX * 192)] = (float)at_random_normal(&random) * 6;
    }
}

static void run_softmax(bench_top *top, two_tiles tile)
{
    assert_ok(top->device->ops->upload(top->device, top->buffer[ATTUNE_K], tile[0], sizeof(two_tiles) / 2));
    assert_ok(top->device->ops->upload(top->device, top->buffer[ATTUNE_V], tile[1], sizeof(two_tiles) / 2));
    run_unit(top);
}

/* Exact integers at times a scale of 1/2: the reference in double, against the maximum that the kernel kept. */
static void check_maxima(bench_top *top)
{
    static two_tiles tile;
    int n = top->block_n;
    draw_tiles(12, tile);
    for (int i = 0; i < n; ++i) {
        tile[0][i] = tile[1][i] = -INFINITY; /* row 0 sees nothing; row 1 nothing in the first tile */
        tile[0][n + i] = -INFINITY;
        tile[1][2 * n + i] += 100; /* row 2 must move its maximum */
    }
    run_softmax(top, tile);
    const float *ends = top->result + (ptrdiff_t)top->rows * n;
    const double scale = 0.5 * 1.4426950408889634;
    for (int r = 0; r < top->rows; ++r) {
        double largest = -INFINITY, sum = 0, kept = ends[2 * r];
        for (int i = 0; i < 2 * n; ++i) {
            largest = fmax(largest, tile[i / n][r * n + i % n]);
        }
        assert_true(kept == largest);
        for (int i = 0; i < 2 * n; ++i) {
            double x = tile[i / n][r * n + i % n], p = isinf(x) ? 0 : exp2((x - kept) * scale);
            sum += p;
            assert_true(i < n || fabs(top->result[r * n + i - n] - p) <= 1e-5 * p + 1e-37);
        }
        assert_true(fabs(ends[2 * r + 1] - sum) <= 2e-5 * sum);
    }
}

/* By a static maximum: the first tile's maximum, or what it was raised to, and never above what was seen; in a row
 * that had seen nothing then, nothing has a weight. `grown`: what row 2's scores are larger by in the second tile. */
static void check_static_max(bench_top *top, float grown)
{
    static two_tiles tile;
    int n = top->block_n;
    draw_tiles(13, tile);
    for (int i = 0; i < n; ++i) {
        tile[0][n + i] = -INFINITY;
        tile[1][2 * n + i] += grown;
    }
    run_softmax(top, tile);
    const float *ends = top->result + (ptrdiff_t)top->rows * n;
    const double scale = 0.5 * 1.4426950408889634;
    for (int r = 0; r < top->rows; ++r) {
        double largest[2] = {-INFINITY, -INFINITY}, sum = 0, reference = ends[2 * r];
        for (int i = 0; i < 2 * n; ++i) {
            largest[i / n] = fmax(largest[i / n], tile[i / n][r * n + i % n] * scale);
        }
        assert_true(r == 1 ? isinf(reference) : reference > largest[0] - 1e-3);
        assert_true(r == 1 || reference < fmax(largest[0], largest[1]) + 1e-3);
        assert_true(r == 1 || largest[1] - reference <= 15); /* 2^15: what fp16 has room for */
        for (int i = 0; i < 2 * n; ++i) {
            double p = exp2(tile[i / n][r * n + i % n] * scale - reference);
            sum += p;
            assert_true(i < n || fabs(top->result[r * n + i - n] - p) <= 3e-5 * p + 1e-37);
        }
        assert_true(fabs(ends[2 * r + 1] - sum) <= 5e-5 * sum);
    }
}

static void check_softmax(bench_top *top)
{
    if (value_of(top, "RESCALE") == 15) {
        check_static_max(top, 0);
        check_static_max(top, 30); /* by 2^22, 2^72 */
        check_static_max(top, 100);
    } else {
        check_maxima(top);
    }
}

static void test_softmax(void **state)
{
    check_all(*state, SOFTMAX, check_softmax);
}

/* ---- A static maximum ---- */

/* How the scores of a warp's sixteen rows go, tile by tile from the right: what the first `rows` of them have more at
 * one key of each (1 is 0.72 in units of log2; noise differs by 8 at most), and the last tile that takes its maximum,
 * as it is after each, where warps decide for themselves. */
enum { NOISY = 4, PATTERNS_MAX = 8, USED = NOISY + PATTERNS_MAX };
typedef struct pattern {
    int rows;
    float rise[TILES];
    int unsure[TILES];
} pattern;

/* One for each warp; from the last on the same. Of Q's and K's columns NOISY are noise, if there is any, then one for
 * each pattern: 1 in its warp's rows, its rise in one key of each tile. */
typedef struct scene {
    int beyond; /* keys before its last tile that row 0 is from seeing the tile's first */
    int noise;
    int count;
    pattern pattern[PATTERNS_MAX];
} scene;

static const scene scenes[] = {
    {.noise = 1,
     .count = 8,
     .pattern = {{16, {0, 0, 0, 0}, {0, 0, 0, 0}},
                 {1, {0, 40, 0, 0}, {0, -1, -1, -1}},  /* one rise: the reference is static again */
                 {3, {0, 40, 80, 120}, {0, -1, 4, 4}}, /* a second one: maxima */
                 {1, {0, 40, 0, 80}, {0, -1, -1, 4}},
                 {2, {0, 150, 0, 0}, {0, 4, 4, 4}}, /* lost beyond 2^100, and beyond all numbers */
                 {16, {0, 256, 512, 0}, {0, 4, 4, 4}},
                 {9, {64, 128, 0, 256}, {4, 4, 4, 4}}, /* sharp in most rows, and in half of them */
                 {8, {64, 0, 0, 0}, {0, 0, 0, 0}}}},
    /* Rows 0 to 4 see nothing of the first tile; 16 to 31 see 12 keys and more, where one weighs 2 to 5 times as much
     * as all others; the next ones see enough. */
    {.beyond = 5,
     .count = 3,
     .pattern = {{16, {8, 40, 0, 80}, {4, 4, 4, 4}},
                 {16, {8, 40, 0, 80}, {1, 1, 1, -1}},
                 {16, {8, 40, 0, 80}, {0, -1, -1, 4}}}},
    /* The same with equal keys in the first tile: that they are few says nothing. */
    {.beyond = 5, .count = 2, .pattern = {{16, {0, 40, 0, 80}, {4, 4, 4, 4}}, {16, {0, 40, 0, 80}, {0, -1, -1, 4}}}},
    /* The first without a sharp warp, which would take its group along. */
    {.noise = 1,
     .count = 8,
     .pattern = {{16, {0, 0, 0, 0}, {0, 0, 0, 0}},
                 {1, {0, 40, 0, 0}, {0, -1, -1, -1}},
                 {3, {0, 40, 80, 120}, {0, -1, 4, 4}},
                 {1, {0, 40, 0, 80}, {0, -1, -1, 4}},
                 {2, {0, 150, 0, 0}, {0, 4, 4, 4}},
                 {16, {0, 256, 512, 0}, {0, 4, 4, 4}},
                 {1, {0, 40, 0, 0}, {0, -1, -1, -1}},
                 {8, {64, 0, 0, 0}, {0, 0, 0, 0}}}},
};

static int pattern_of(const scene *of, int row)
{
    return row / 16 < of->count ? row / 16 : of->count - 1;
}

/* The key of a column in one of the tiles, which come from the right. */
static int key_of(const bench_top *top, int tile, int column)
{
    return top->keys - (tile + 1) * top->block_n + column;
}

static void lay(bench_top *top, const scene *of)
{
    int dim = top->problem.head_dim_qk;
    memset(top->bits, 0, sizeof top->bits);
    memset(top->value, 0, sizeof top->value);
    for (int role = ATTUNE_Q; role <= ATTUNE_K; ++role) {
        at_random random = at_random_seed(14, (uint64_t)role);
        for (int i = 0; i < top->keys * NOISY; ++i) {
            float x = (float)((int)at_random_below(&random, 3) - 1);
            put(top, role, i / NOISY * dim + i % NOISY, of->noise ? x : 0);
        }
    }
    for (int r = 0; r < top->rows; ++r) {
        int which = pattern_of(of, r);
        put(top, ATTUNE_Q, r * dim + NOISY + which, r % 16 < of->pattern[which].rows);
    }
    for (int i = 0; i < of->count * TILES; ++i) {
        int which = i / TILES, tile = i % TILES, key = key_of(top, tile, tile * 37 % top->block_n);
        put(top, ATTUNE_K, key * dim + NOISY + which, of->pattern[which].rise[tile]);
    }
    send(top, ATTUNE_Q);
    send(top, ATTUNE_K);
}

/* In units of log2. */
static double score(const bench_top *top, int r, int key)
{
    double sum = 0;
    int dim = top->problem.head_dim_qk;
    for (int k = 0; k < USED; ++k) {
        sum += (double)top->value[ATTUNE_Q][r * dim + k] * top->value[ATTUNE_K][key * dim + k];
    }
    return attune_is_causal(&top->problem) && key > r + top->problem.offset ? -INFINITY
                                                                            : sum * (double)(1.44269504F * 0.5F);
}

/* Whether the row's group has agreed after the first tile that all take their maxima: up to head dim 128 one warp's
 * word is enough. */
static bool is_sharp(const bench_top *top, const scene *of, int r)
{
    bool sharp = false;
    for (int warp = r / 64 * 4; warp < r / 64 * 4 + 4; ++warp) {
        sharp = sharp || of->pattern[pattern_of(of, warp * 16)].unsure[0] == TILES;
    }
    return sharp && top->problem.head_dim_v <= 128;
}

/* Row r after a tile: its weights, by its reference, and all sums. */
static void check_row(const bench_top *top, int r, int tile, int unsure, bool follows)
{
    int n = top->block_n;
    const float *weight = top->result + (ptrdiff_t)tile * top->rows * (n + 4) + (ptrdiff_t)r * n;
    const float *row = top->result + (ptrdiff_t)tile * top->rows * (n + 4) + (ptrdiff_t)top->rows * n + 4 * r;
    double largest = -INFINITY, sum[2] = {0, 0}, reference = row[0];
    for (int i = 0; i < (tile + 1) * n; ++i) {
        double s = score(top, r, key_of(top, i / n, i % n)), p = exp2(s - reference);
        largest = fmax(largest, s);
        sum[i / n == tile] += p;
        assert_true(i / n < tile || fabs(weight[i % n] - p) <= 0x1p-8 * p + 0x1p-24);
    }
    assert_true(isinf(largest) ? reference == (follows ? -FLT_MAX : INFINITY) : reference <= largest + 1e-3);
    assert_true(isinf(largest) || largest - reference <= (follows ? 0 : tile <= unsure ? 8 : 15) + 1e-3);
    assert_true(fabs(row[1] - sum[0] - sum[1]) <= 1e-4 * (sum[0] + sum[1]) + 1e-37);
    assert_true(fabs(row[2] - sum[0]) <= 1e-4 * sum[0] + 1e-37);
    assert_true(row[3] == (float)unsure);
}

static void check_scene(bench_top *top)
{
    const scene *of = &scenes[top->scene];
    top->problem.offset = of->beyond > 0 ? top->keys - top->block_n - of->beyond : 0;
    lay(top, of);
    run_unit(top);
    for (int i = 0; i < top->rows * TILES; ++i) {
        int r = i / TILES, tile = i % TILES;
        bool sharp = is_sharp(top, of, r);
        check_row(top, r, tile, sharp ? TILES : of->pattern[pattern_of(of, r)].unsure[tile],
                  sharp && tile >= value_of(top, "Q_STAGES"));
    }
}

static void test_static_max(void **state)
{
    check_all(*state, STATIC_MAX, check_scene);
}

/* ---- What rows see ---- */

static void check_sight(bench_top *top)
{
    enum { LENGTH = 2048 };
    top->problem.seqlen_q = top->problem.seqlen_kv = LENGTH;
    run_unit(top);
    int64_t left = top->problem.window_left, right = top->problem.window_right, first = LENGTH - top->rows;
    for (int64_t i = 0; i < (int64_t)top->rows * LENGTH; ++i) {
        int64_t row = first + i / LENGTH, key = i % LENGTH;
        bool seen = (left < 0 || key >= row - left) && (right < 0 || key <= row + right);
        assert_true(top->result[i] == (float)seen);
    }
}

static void test_sight(void **state)
{
    check_all(*state, SIGHT, check_sight);
}

/* ---- The way out ---- */

static void check_store(bench_top *top)
{
    memset(top->out, 0xff, sizeof top->out);
    assert_ok(top->device->ops->upload(top->device, top->buffer[ATTUNE_O], top->out, sizeof top->out));
    run_unit(top);
    assert_ok(top->device->ops->download(top->device, top->out, top->buffer[ATTUNE_O], sizeof top->out));
    int dim = top->problem.head_dim_v, is_bf16 = top->problem.dtype == ATTUNE_BF16;
    for (int r = 0; r < top->rows; ++r) {
        for (int c = 0; c < dim; ++c) {
            uint16_t bits = top->out[r * dim + c];
            float expected = rounded(top, (float)(r % 4 * 256 + c) * 0.5F);
            assert_true((is_bf16 ? at_bf16_to_float(bits) : at_fp16_to_float(bits)) == expected);
        }
        assert_true(fabs(top->result[r] - (0.5 * r + log(2.0))) <= 1e-5 * fmax(1, 0.5 * r));
    }
    for (int i = top->rows * dim; i < ELEMENTS; ++i) {
        assert_true(top->out[i] == 0xffff);
    }
}

static void test_store(void **state)
{
    check_all(*state, STORE, check_store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products), cmocka_unit_test(test_ring),       cmocka_unit_test(test_rescore),
        cmocka_unit_test(test_softmax),  cmocka_unit_test(test_static_max), cmocka_unit_test(test_sight),
        cmocka_unit_test(test_store),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
