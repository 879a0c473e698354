/* Clusters on the device: what blocks write into one another's shared memory arrives, and is waited for. The entries
 * are those of cluster.cu. */
#include "base/cm.h"
#include "base/embedded.h"
#include "base/half.h"
#include "core/recipe.h"
#include "cuda/cuda.h"

extern const at_embedded at_gpu_units[];

enum { BLOCKS = 4, THREADS = 128, DIM = 64, LINES = 8, ROWS = BLOCKS * LINES, RESULTS = BLOCKS * ROWS * DIM };

static at_device *device;
static void *input, *output;
static float result[RESULTS];

static int open_device(void **state)
{
    (void)state;
    assert_ok(at_cuda_open(0, NULL, NULL, &device));
    assert_ok(device->ops->allocate(device, 4096 * sizeof(float), &input));
    assert_ok(device->ops->allocate(device, sizeof result, &output));
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    device->ops->release(device, input);
    device->ops->release(device, output);
    device->ops->close(device);
    return 0;
}

/* One cluster of so many blocks runs the entry on `bytes` of input. */
static void run(const char *entry, int blocks, int32_t smem, const void *data, size_t bytes)
{
    static const attune_kernel kernel = {.size = sizeof kernel,
                                         .abi = ATTUNE_ABI,
                                         .target = ATTUNE_TARGET_CUDA,
                                         .name = "cluster",
                                         .source = "cluster.cu"};
    at_loaded *loaded = NULL;
    at_recipe recipe = {.kernel = &kernel, .sources = at_gpu_units};
    assert_ok(attune_problem_parse("b1,h1,s32,d64,fp16", &recipe.problem));
    recipe.resources = (attune_resources){.threads = THREADS, .smem_bytes = smem, .workspace = attune_term_const(0)};
    recipe.steps.count = 1;
    recipe.steps.step[0].as.kernel =
        (attune_step_kernel){.entry = entry,
                             .grid = {attune_term_const(blocks), attune_term_const(1), attune_term_const(1)},
                             .block = {THREADS, 1, 1},
                             .cluster = {blocks, 1, 1},
                             .smem = attune_term_const(0),
                             .map_count = 1,
                             .map = {{ATTUNE_Q, ATTUNE_SWIZZLE_128B, {DIM, LINES, 1, 1}, 0}}};
    attune_args args = {.size = sizeof args,
                        .abi = ATTUNE_ABI,
                        .batch = 1,
                        .heads_q = 1,
                        .heads_kv = 1,
                        .seqlen_q = ROWS,
                        .seqlen_kv = ROWS,
                        .head_dim_qk = DIM,
                        .head_dim_v = DIM};
    args.tensor[ATTUNE_Q] = (attune_tensor){.data = input, .stride = {0, 0, DIM}, .dtype = ATTUNE_FP16};
    args.tensor[ATTUNE_O].data = output;
    assert_ok(device->ops->upload(device, input, data, bytes));
    assert_ok(device->ops->load(device, &recipe, &loaded));
    assert_ok(device->ops->launch(loaded, &args, NULL));
    assert_ok(device->ops->synchronise(device, NULL));
    assert_ok(device->ops->download(device, result, output, sizeof result));
    device->ops->unload(loaded);
}

static void blocks_give_one_another(void **state)
{
    static const float nothing[1];
    (void)state;
    if (device->target.arch < 90) {
        skip();
    }
    run("cluster_exchange", BLOCKS, BLOCKS * THREADS * 16 + 8, nothing, sizeof nothing);
    for (int to = 0; to < BLOCKS; ++to) {
        for (int from = 0; from < BLOCKS; ++from) {
            for (int thread = 0; thread < THREADS; ++thread) {
                const float *got = result + ((to * BLOCKS + from) * THREADS + thread) * 4;
                bool own = from == to;
                assert_true(got[0] == (float)(own ? 0 : from));
                assert_true(got[1] == (float)(own ? 0 : thread));
                assert_true(got[2] == (float)(own ? 0 : to));
                assert_true(got[3] == (float)!own);
            }
        }
    }
}

static void slices_reach_all_blocks(void **state)
{
    uint16_t rows[ROWS * DIM];
    (void)state;
    if (device->target.arch < 90) {
        skip();
    }
    for (int i = 0; i < ROWS * DIM; ++i) {
        rows[i] = at_fp16_from_float((float)i); /* exact up to 2,048 */
    }
    run("cluster_multicast", BLOCKS, (int32_t)sizeof rows + 8, rows, sizeof rows);
    for (int i = 0; i < RESULTS; ++i) {
        assert_true(result[i] == (float)(i % (ROWS * DIM)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_give_one_another),
        cmocka_unit_test(slices_reach_all_blocks),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
