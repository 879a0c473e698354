/* Clusters on the device: what blocks write into one another's shared memory arrives, and is waited for. The entries
 * are those of cluster.cu. */
#include "base/cm.h"
#include "cuda/cuda.h"
#include "gpu/cluster.h"

enum { RESULTS = BLOCKS * BLOCKS * CLUSTER_THREADS * 4 };

static at_device *device;
static void *output;
static float result[RESULTS];

static int open_device(void **state)
{
    (void)state;
    assert_ok(at_cuda_open(0, NULL, NULL, &device));
    assert_ok(device->ops->allocate(device, sizeof result, &output));
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    device->ops->release(device, output);
    device->ops->close(device);
    return 0;
}

static void run(int which)
{
    at_loaded *loaded = NULL;
    at_recipe recipe;
    cluster_recipe(&cluster_cases[which], &recipe);
    attune_args args = {.size = sizeof args,
                        .abi = ATTUNE_ABI,
                        .batch = 1,
                        .heads_q = 1,
                        .heads_kv = 1,
                        .seqlen_q = 32,
                        .seqlen_kv = 32,
                        .head_dim_qk = 64,
                        .head_dim_v = 64};
    args.tensor[ATTUNE_O].data = output;
    assert_ok(device->ops->load(device, &recipe, &loaded));
    assert_ok(at_launch_args(loaded, &args, NULL));
    assert_ok(device->ops->synchronise(device, NULL));
    assert_ok(device->ops->download(device, result, output, sizeof result));
    device->ops->unload(loaded);
}

static void blocks_give_one_another(void **state)
{
    (void)state;
    if (device->target.arch < 90) {
        skip();
    }
    run(EXCHANGE);
    for (int to = 0; to < BLOCKS; ++to) {
        for (int from = 0; from < BLOCKS; ++from) {
            for (int thread = 0; thread < CLUSTER_THREADS; ++thread) {
                const float *got = result + ((to * BLOCKS + from) * CLUSTER_THREADS + thread) * 4;
                bool own = from == to;
                assert_true(got[0] == (float)(own ? 0 : from));
                assert_true(got[1] == (float)(own ? 0 : thread));
                assert_true(got[2] == (float)(own ? 0 : to));
                assert_true(got[3] == (float)!own);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_give_one_another),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
