/* What device kernels are made of, checked on the device element by element: reductions, tiles, fragments, barriers,
 * the online softmax. The entries are those of units.cu. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cm.h"
#include "base/half.h"
#include "base/random.h"
#include "cuda/cuda.h"
#include "cuda/device.h"
#include "gpu/units.h"

enum { INPUT = 4096, OUTPUT = 8192 };

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

/* Compiles the case, runs one block, brings the results back. */
static void run_unit(bench_top *top, const unit_case *of)
{
    at_loaded *loaded = NULL;
    at_recipe recipe;
    unit_recipe(of, &recipe);
    assert_ok(top->device->ops->load(top->device, &recipe, &loaded));
    attune_args args = {.size = sizeof args, .abi = ATTUNE_ABI, .batch = 1, .heads_q = 1, .heads_kv = 1};
    for (int i = 0; i < 3; ++i) {
        args.tensor[ATTUNE_Q + i].data = top->in[i];
    }
    args.tensor[ATTUNE_O].data = top->out;
    assert_ok(at_launch_args(loaded, &args, NULL));
    assert_ok(top->device->ops->synchronise(top->device, NULL));
    assert_ok(top->device->ops->download(top->device, top->result, top->out, sizeof top->result));
    top->device->ops->unload(loaded);
}

/* Checks an entry in all its cases. */
static void check_all(bench_top *top, const char *entry, void (*check)(bench_top *top, const unit_case *of))
{
    for (int i = 0; i < UNIT_CASES; ++i) {
        if (strcmp(unit_cases[i].entry, entry) == 0) {
            check(top, &unit_cases[i]);
        }
    }
}

static int is_bf16(const unit_case *of)
{
    return strcmp(of->dtype, "bf16") == 0;
}

/* Elements that are small integers, so that sums are exact; distinct enough for any exchange of two to show. */
static void draw(uint16_t *bits, float *values, int count, int bf16, uint64_t seed)
{
    at_random random = at_random_seed(seed, 0);
    for (int i = 0; i < count; ++i) {
        values[i] = (float)((int)at_random_below(&random, 17) - 8);
        bits[i] = bf16 ? at_bf16_from_float(values[i]) : at_fp16_from_float(values[i]);
    }
}

static void check_reduction(bench_top *top, const unit_case *of)
{
    float x[32];
    at_random random = at_random_seed(1, 0);
    for (int i = 0; i < 32; ++i) {
        x[i] = (float)((int)at_random_below(&random, 1000) - 500);
    }
    upload(top, 0, x, sizeof x);
    run_unit(top, of);
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

static void check_tile(bench_top *top, const unit_case *of)
{
    uint16_t bits[20 * DIM];
    float x[20 * DIM];
    draw(bits, x, 20 * DIM, is_bf16(of), 2);
    upload(top, 0, bits, sizeof bits);
    run_unit(top, of);
    for (int way = 0; way < 3; ++way) {
        for (int i = 0; i < 16 * DIM; ++i) {
            float expected = i / DIM + 3 < 17 ? x[(i / DIM + 3) * DIM + i % DIM] : 0;
            assert_true(top->result[way * 16 * DIM + i] == expected);
        }
    }
    assert_true(top->result[3 * 16 * DIM] == 1);
    bits[10 * DIM + 5] = 0x7f80; /* infinite in bf16, NaN in fp16 */
    upload(top, 0, bits, sizeof bits);
    run_unit(top, of);
    assert_true(top->result[3 * 16 * DIM] == 0);
}

/* Sum i of lane l is at (row, column) of a 16x16 product. */
static int row_of_sum(int lane, int i)
{
    return lane / 4 + i / 2 % 2 * 8;
}

static int column_of_sum(int lane, int i)
{
    return i / 4 * 8 + lane % 4 * 2 + i % 2;
}

static void check_fragment16(bench_top *top, const unit_case *of)
{
    static uint16_t bits[3][16 * DIM];
    static float a[16 * DIM], b[16 * DIM], v[16 * DIM];
    draw(bits[0], a, 16 * DIM, is_bf16(of), 3);
    draw(bits[1], b, 16 * DIM, is_bf16(of), 4);
    draw(bits[2], v, 16 * DIM, is_bf16(of), 5);
    for (int i = 0; i < 3; ++i) {
        upload(top, i, bits[i], sizeof bits[i]);
    }
    run_unit(top, of);
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
                float rounded = is_bf16(of) ? at_bf16_to_float(at_bf16_from_float(s[row][k]))
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

static void check_fragment(bench_top *top, const unit_case *of)
{
    static uint16_t bits[3][512];
    static float a[512], b[512], v[512];
    int m = of->fragment_m, n = 256 / m;
    draw(bits[0], a, 512, is_bf16(of), 6);
    draw(bits[1], b, 512, is_bf16(of), 7);
    draw(bits[2], v, 512, is_bf16(of), 8);
    for (int i = 0; i < 3; ++i) {
        upload(top, i, bits[i], sizeof bits[i]);
    }
    run_unit(top, of);
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

static void check_barrier(bench_top *top, const unit_case *of)
{
    static uint16_t bits[2560];
    static float x[2560];
    draw(bits, x, 2560, 0, 9);
    upload(top, 0, bits, sizeof bits);
    run_unit(top, of);
    for (int i = 0; i < 2560; ++i) {
        assert_true(top->result[i] == x[i] + (float)(i / 256));
    }
}

static void check_logits(bench_top *top, const unit_case *of, const float *logits)
{
    double largest = -INFINITY, sum = 0;
    upload(top, 0, logits, 128 * sizeof(float));
    run_unit(top, of);
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

static void check_softmax(bench_top *top, const unit_case *of)
{
    float x[128];
    at_random random = at_random_seed(10, 0);
    for (int i = 0; i < 128; ++i) {
        x[i] = (float)at_random_normal(&random) * 20;
    }
    check_logits(top, of, x);
    for (int i = 0; i < 64; ++i) {
        x[i] = -INFINITY; /* the first two tiles see nothing */
    }
    check_logits(top, of, x);
    for (int i = 0; i < 128; ++i) {
        x[i] = -INFINITY;
    }
    check_logits(top, of, x);
}

static void test_reduction(void **state)
{
    check_all(*state, "unit_reduction", check_reduction);
}

static void test_tile(void **state)
{
    check_all(*state, "unit_tile", check_tile);
}

static void test_fragment16(void **state)
{
    check_all(*state, "unit_fragment16", check_fragment16);
}

static void test_fragment(void **state)
{
    check_all(*state, "unit_fragment", check_fragment);
}

static void test_barrier(void **state)
{
    check_all(*state, "unit_barrier", check_barrier);
}

static void test_softmax(void **state)
{
    check_all(*state, "unit_softmax", check_softmax);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduction), cmocka_unit_test(test_tile),    cmocka_unit_test(test_fragment16),
        cmocka_unit_test(test_fragment),  cmocka_unit_test(test_barrier), cmocka_unit_test(test_softmax),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
