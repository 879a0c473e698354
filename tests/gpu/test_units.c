/* What device kernels are made of, checked on the device element by element: reductions, tiles, fragments, barriers,
 * the online softmax. The entries are those of units.cu. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cm.h"
#include "base/embedded.h"
#include "base/half.h"
#include "base/random.h"
#include "cuda/build.h"
#include "cuda/cuda.h"
#include "cuda/device.h"

extern const at_embedded at_gpu_units[];

enum { THREADS = 64, DIM = 64, INPUT = 4096, OUTPUT = 8192 };

static const char *unit_entry;

static bool unit_supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)problem, (void)target, (void)reason;
    return true;
}

static bool unit_valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                       attune_reason *reason)
{
    (void)problem, (void)target, (void)config, (void)reason;
    return true;
}

static void unit_resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                           attune_resources *out);

static bool unit_heuristic(const attune_problem *problem, const attune_target *target, int32_t index,
                           attune_config *config)
{
    (void)problem, (void)target;
    *config = (attune_config){{16, 1}};
    return index == 0;
}

static void unit_steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                       attune_steps *out)
{
    (void)problem, (void)target, (void)config;
    *out = (attune_steps){
        .count = 1,
        .step = {{.kind = ATTUNE_STEP_KERNEL,
                  .as.kernel = {.entry = unit_entry,
                                .grid = {attune_term_const(1), attune_term_const(1), attune_term_const(1)},
                                .block = {THREADS, 1, 1},
                                .cluster = {1, 1, 1},
                                .smem = attune_term_const(0)}}}};
}

static const int32_t fragment_m_values[] = {8, 16, 32};
static const int32_t tensor_cores_values[] = {0, 1};
static const attune_param unit_params[] = {{"FRAGMENT_M", fragment_m_values, 3, 0},
                                           {"TENSOR_CORES", tensor_cores_values, 2, 0}};

static const attune_kernel unit_kernel = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "units",
    .summary = "device units",
    .param_count = 2,
    .params = unit_params,
    .supports = unit_supports,
    .valid = unit_valid,
    .resources = unit_resources,
    .heuristic = unit_heuristic,
    .steps = unit_steps,
    .source = "units.cu",
};

/* The static shared memory that each entry's arrays take, as the compiler lays them out. */
static int32_t unit_smem;

static void unit_resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                           attune_resources *out)
{
    (void)problem, (void)target, (void)config;
    *out = (attune_resources){.threads = THREADS, .smem_bytes = unit_smem, .workspace = attune_term_const(0)};
}

typedef struct bench_top {
    at_device *device;
    void *in[3], *out;
    float result[OUTPUT];
} bench_top;

static int setup(void **state)
{
    bench_top *top = calloc(1, sizeof *top);
    assert_non_null(top);
    assert_ok(at_cuda_open(0, NULL, NULL, &top->device));
    for (int i = 0; i < 3; ++i) {
        assert_ok(top->device->ops->allocate(top->device, INPUT * sizeof(float), &top->in[i]));
    }
    assert_ok(top->device->ops->allocate(top->device, OUTPUT * sizeof(float), &top->out));
    *state = top;
    return 0;
}

static int teardown(void **state)
{
    bench_top *top = *state;
    for (int i = 0; i < 3; ++i) {
        top->device->ops->release(top->device, top->in[i]);
    }
    top->device->ops->release(top->device, top->out);
    top->device->ops->close(top->device);
    free(top);
    return 0;
}

static void upload(bench_top *top, int slot, const void *data, size_t bytes)
{
    assert_ok(top->device->ops->upload(top->device, top->in[slot], data, bytes));
}

/* Compiles the entry for the dtype and fragments, runs one block, brings the results back. */
static void run_unit(bench_top *top, const char *entry, const char *dtype, int fragment_m, int tensor_cores,
                     int32_t smem)
{
    char text[64];
    attune_problem problem;
    attune_config config = {{fragment_m, tensor_cores}};
    at_loaded *loaded = NULL;
    at_recipe recipe;
    (void)snprintf(text, sizeof text, "b1,h1,s16,d%d,%s", DIM, dtype);
    assert_ok(attune_problem_parse(text, &problem));
    unit_entry = entry;
    unit_smem = smem;
    at_recipe_ask(&unit_kernel, &problem, &top->device->target, &config, &recipe);
    recipe.sources = at_gpu_units;
    assert_ok(top->device->ops->load(top->device, &recipe, &loaded));
    attune_args args = {.size = sizeof args, .abi = ATTUNE_ABI, .batch = 1, .heads_q = 1, .heads_kv = 1};
    for (int i = 0; i < 3; ++i) {
        args.tensor[ATTUNE_Q + i].data = top->in[i];
    }
    args.tensor[ATTUNE_O].data = top->out;
    assert_ok(top->device->ops->launch(loaded, &args, NULL));
    assert_ok(top->device->ops->synchronise(top->device, NULL));
    assert_ok(top->device->ops->download(top->device, top->result, top->out, sizeof top->result));
    top->device->ops->unload(loaded);
}

/* Elements that are small integers, so that sums are exact; distinct enough for any exchange of two to show. */
static void draw(uint16_t *bits, float *values, int count, int is_bf16, uint64_t seed)
{
    at_random random = at_random_seed(seed, 0);
    for (int i = 0; i < count; ++i) {
        values[i] = (float)((int)at_random_below(&random, 17) - 8);
        bits[i] = is_bf16 ? at_bf16_from_float(values[i]) : at_fp16_from_float(values[i]);
    }
}

static void test_reduction(void **state)
{
    bench_top *top = *state;
    float x[32];
    at_random random = at_random_seed(1, 0);
    for (int i = 0; i < 32; ++i) {
        x[i] = (float)((int)at_random_below(&random, 1000) - 500);
    }
    upload(top, 0, x, sizeof x);
    run_unit(top, "unit_reduction", "fp16", 16, 1, 0);
    for (int step = 0, lanes = 2; lanes <= 32; ++step, lanes *= 2) {
        for (int lane = 0; lane < 32; ++lane) {
            float largest = -INFINITY, sum = 0;
            for (int i = lane / lanes * lanes; i < (lane / lanes + 1) * lanes; ++i) {
                largest = fmaxf(largest, x[i]);
                sum += x[i];
            }
            assert_true(top->result[step * 64 + lane] == largest);
            assert_true(top->result[step * 64 + 32 + lane] == sum);
        }
    }
}

static void check_tile(bench_top *top, const char *dtype, int is_bf16)
{
    uint16_t bits[20 * DIM];
    float x[20 * DIM];
    draw(bits, x, 20 * DIM, is_bf16, 2);
    upload(top, 0, bits, sizeof bits);
    run_unit(top, "unit_tile", dtype, 16, 1, 16 * (DIM + 8) * 6 + 16 * DIM * 2);
    for (int way = 0; way < 3; ++way) {
        for (int i = 0; i < 16 * DIM; ++i) {
            float expected = i / DIM + 3 < 17 ? x[(i / DIM + 3) * DIM + i % DIM] : 0;
            assert_true(top->result[way * 16 * DIM + i] == expected);
        }
    }
    assert_true(top->result[3 * 16 * DIM] == 1);
    bits[10 * DIM + 5] = 0x7f80; /* infinite in bf16, NaN in fp16 */
    upload(top, 0, bits, sizeof bits);
    run_unit(top, "unit_tile", dtype, 16, 1, 16 * (DIM + 8) * 6 + 16 * DIM * 2);
    assert_true(top->result[3 * 16 * DIM] == 0);
}

static void test_tile(void **state)
{
    check_tile(*state, "fp16", 0);
    check_tile(*state, "bf16", 1);
}

/* Sum i of lane l stands at (row, column) of a 16x16 product. */
static int row_of_sum(int lane, int i)
{
    return lane / 4 + i / 2 % 2 * 8;
}

static int column_of_sum(int lane, int i)
{
    return i / 4 * 8 + lane % 4 * 2 + i % 2;
}

static void check_fragment16(bench_top *top, const char *dtype, int is_bf16)
{
    static uint16_t bits[3][16 * DIM];
    static float a[16 * DIM], b[16 * DIM], v[16 * DIM];
    draw(bits[0], a, 16 * DIM, is_bf16, 3);
    draw(bits[1], b, 16 * DIM, is_bf16, 4);
    draw(bits[2], v, 16 * DIM, is_bf16, 5);
    for (int i = 0; i < 3; ++i) {
        upload(top, i, bits[i], sizeof bits[i]);
    }
    run_unit(top, "unit_fragment16", dtype, 16, 1, 3 * 16 * DIM * 2);
    float s[16][16];
    for (int r = 0; r < 16; ++r) {
        for (int c = 0; c < 16; ++c) {
            s[r][c] = 0;
            for (int k = 16; k < 32; ++k) {
                s[r][c] += a[r * DIM + k] * b[c * DIM + k];
            }
        }
    }
    for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < 8; ++i) {
            int row = row_of_sum(lane, i), column = column_of_sum(lane, i);
            float plain = 0, chained = 0;
            for (int k = 0; k < 16; ++k) {
                float rounded = is_bf16 ? at_bf16_to_float(at_bf16_from_float(s[row][k]))
                                        : at_fp16_to_float(at_fp16_from_float(s[row][k]));
                plain += a[row * DIM + 16 + k] * v[k * DIM + 16 + column];
                chained += rounded * v[k * DIM + 16 + column];
            }
            assert_true(top->result[lane * 8 + i] == s[row][column]);
            assert_true(top->result[256 + lane * 8 + i] == plain);
            assert_true(top->result[512 + lane * 8 + i] == chained);
        }
    }
}

static void test_fragment16(void **state)
{
    check_fragment16(*state, "fp16", 0);
    check_fragment16(*state, "bf16", 1);
}

static void check_fragment(bench_top *top, const char *dtype, int is_bf16, int m, int tensor_cores)
{
    static uint16_t bits[3][512];
    static float a[512], b[512], v[512];
    int n = 256 / m;
    draw(bits[0], a, 512, is_bf16, 6);
    draw(bits[1], b, 512, is_bf16, 7);
    draw(bits[2], v, 512, is_bf16, 8);
    for (int i = 0; i < 3; ++i) {
        upload(top, i, bits[i], sizeof bits[i]);
    }
    run_unit(top, "unit_fragment", dtype, m, tensor_cores, 4 * 1024 + m * 4);
    for (int r = 0; r < m; ++r) {
        for (int c = 0; c < n; ++c) {
            float transposed = 0, scaled = 0;
            for (int k = 0; k < 16; ++k) {
                transposed += a[r * 16 + k] * b[c * 16 + k];
                scaled += a[r * 16 + k] * v[k * 32 + c];
            }
            assert_true(top->result[r * n + c] == transposed);
            assert_true(top->result[m * n + r * n + c] == scaled * (float)(r + 1));
        }
    }
}

static void test_fragment(void **state)
{
    static const int shapes[] = {8, 16, 32};
    for (int i = 0; i < 3; ++i) {
        for (int tensor_cores = 0; tensor_cores < 2; ++tensor_cores) {
            check_fragment(*state, "fp16", 0, shapes[i], tensor_cores);
            check_fragment(*state, "bf16", 1, shapes[i], tensor_cores);
        }
    }
}

static void test_barrier(void **state)
{
    bench_top *top = *state;
    static uint16_t bits[2560];
    static float x[2560];
    draw(bits, x, 2560, 0, 9);
    upload(top, 0, bits, sizeof bits);
    run_unit(top, "unit_barrier", "fp16", 16, 1, 2 * 512 + 32);
    for (int i = 0; i < 2560; ++i) {
        assert_true(top->result[i] == x[i] + (float)(i / 256));
    }
}

static void check_softmax(bench_top *top, const float *logits)
{
    double largest = -INFINITY, sum = 0;
    upload(top, 0, logits, 128 * sizeof(float));
    run_unit(top, "unit_softmax", "fp16", 16, 1, 0);
    for (int i = 0; i < 128; ++i) {
        largest = fmax(largest, logits[i]);
    }
    for (int i = 0; i < 128; ++i) {
        sum += largest == -INFINITY ? 0 : exp2(logits[i] - largest);
    }
    for (int i = 0; i < 128; ++i) {
        double expected = sum == 0 ? 0 : exp2(logits[i] - largest) / sum;
        assert_true(fabs(top->result[i] - expected) <= 1e-5 * fabs(expected) + 1e-37);
    }
    assert_true(fabs(top->result[128] - sum) <= 1e-5 * sum);
    double lse = sum == 0 ? -INFINITY : log(2.0) * largest + log(sum);
    assert_true(top->result[129] == lse || fabs(top->result[129] - lse) <= 1e-5 * fmax(1, fabs(lse)));
}

static void test_softmax(void **state)
{
    float x[128];
    at_random random = at_random_seed(10, 0);
    for (int i = 0; i < 128; ++i) {
        x[i] = (float)at_random_normal(&random) * 20;
    }
    check_softmax(*state, x);
    for (int i = 0; i < 64; ++i) {
        x[i] = -INFINITY; /* the first two tiles see nothing */
    }
    check_softmax(*state, x);
    for (int i = 0; i < 128; ++i) {
        x[i] = -INFINITY;
    }
    check_softmax(*state, x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduction), cmocka_unit_test(test_tile),    cmocka_unit_test(test_fragment16),
        cmocka_unit_test(test_fragment),  cmocka_unit_test(test_barrier), cmocka_unit_test(test_softmax),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
