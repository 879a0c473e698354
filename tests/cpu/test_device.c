/* The CPU as a device: loading, inspecting, launching, with kernels made for the purpose. */
#include "base/cm.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "cpu/cpu.h"

/* ---- A kernel that notes what it was given ------------------------------------------------------------------------
 */

/* Its results go into the workspace: a count for each item, and the tier that ran. */
static void note(const attune_args *args, int64_t item, int tier)
{
    _Atomic uint32_t *counts = args->workspace;
    atomic_fetch_add(&counts[item], 1u);
    atomic_store(&counts[100], (uint32_t)tier);
    atomic_store(&counts[101], (uint32_t)args->param[0]);
}

static void attend_baseline(const attune_args *args, int64_t item, void *scratch)
{
    memset(scratch, 1, ATTUNE_SCRATCH_MAX);
    note(args, item, ATTUNE_ISA_BASELINE);
}

static void attend_avx2(const attune_args *args, int64_t item, void *scratch)
{
    (void)scratch;
    note(args, item, ATTUNE_ISA_AVX2);
}

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)problem;
    (void)target;
    (void)reason;
    return true;
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)config;
    return supports(problem, target, reason);
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *needed)
{
    (void)problem;
    (void)target;
    (void)config;
    needed->scratch_bytes = ATTUNE_SCRATCH_MAX;
    needed->workspace = attune_term_const(1024);
}

static void resources_greedy(const attune_problem *problem, const attune_target *target, const attune_config *config,
                             attune_resources *needed)
{
    resources(problem, target, config, needed);
    needed->scratch_bytes = ATTUNE_SCRATCH_MAX + 1;
}

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    (void)problem;
    (void)target;
    memset(config, 0, sizeof *config);
    return index == 0;
}

/* A fill of the counts, then one item for each query row of each head. */
static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    (void)problem;
    (void)target;
    (void)config;
    memset(list, 0, sizeof *list);
    list->count = 2;
    list->step[0].kind = ATTUNE_STEP_FILL;
    list->step[0].as.fill = (attune_step_fill){attune_term_const(8), attune_term_const(1008), 7};
    list->step[1].kind = ATTUNE_STEP_KERNEL;
    list->step[1].as.kernel = (attune_step_kernel){
        .entry = "note",
        .grid = {attune_term_size(ATTUNE_SIZE_SEQLEN_Q), attune_term_size(ATTUNE_SIZE_HEADS_Q), attune_term_const(1)},
        .block = {1, 1, 1},
        .cluster = {1, 1, 1},
        .smem = attune_term_const(0)};
}

static void steps_none(const attune_problem *problem, const attune_target *target, const attune_config *config,
                       attune_steps *list)
{
    steps(problem, target, config, list);
    list->count = 0;
}

static void steps_gemm(const attune_problem *problem, const attune_target *target, const attune_config *config,
                       attune_steps *list)
{
    steps(problem, target, config, list);
    list->step[0].kind = ATTUNE_STEP_GEMM;
}

static void steps_unknown(const attune_problem *problem, const attune_target *target, const attune_config *config,
                          attune_steps *list)
{
    steps(problem, target, config, list);
    list->step[1].kind = (attune_step_kind)9;
}

static void steps_bad_term(const attune_problem *problem, const attune_target *target, const attune_config *config,
                           attune_steps *list)
{
    steps(problem, target, config, list);
    list->step[1].as.kernel.grid[1].op[0] = ATTUNE_TERM_MUL;
}

static void steps_bad_fill(const attune_problem *problem, const attune_target *target, const attune_config *config,
                           attune_steps *list)
{
    steps(problem, target, config, list);
    list->step[0].as.fill.offset_bytes.op[0] = 77;
}

static void steps_fill_beyond(const attune_problem *problem, const attune_target *target, const attune_config *config,
                              attune_steps *list)
{
    steps(problem, target, config, list);
    list->step[0].as.fill.bytes = attune_term_const(1020);
}

static void steps_negative(const attune_problem *problem, const attune_target *target, const attune_config *config,
                           attune_steps *list)
{
    steps(problem, target, config, list);
    list->step[1].as.kernel.grid[2] = attune_term_const(-1);
}

static const attune_capability can[] = {
    ATTUNE_CAN_FORWARD(0, ATTUNE_BIT(ATTUNE_STEP_KERNEL) | ATTUNE_BIT(ATTUNE_STEP_FILL))};

static attune_kernel kernel_of(void (*own_steps)(const attune_problem *, const attune_target *, const attune_config *,
                                                 attune_steps *))
{
    attune_kernel kernel = {
        .size = sizeof kernel,
        .abi = ATTUNE_ABI,
        .target = ATTUNE_TARGET_CPU,
        .name = "note",
        .summary = "notes",
        .can = can,
        .can_count = 1,
        .valid = valid,
        .resources = resources,
        .heuristic = heuristic,
        .steps = own_steps,
        .attend = {attend_baseline, attend_avx2, NULL},
    };
    return kernel;
}

/* ---- Fixture ------------------------------------------------------------------------------------------------------
 */

static at_pool *pool;
static at_device *device;
static attune_problem problem;

static int open_device(void **state)
{
    (void)state;
    attune_problem_init(&problem);
    assert_ok(at_pool_create(3, ATTUNE_SCRATCH_MAX, &pool));
    assert_ok(at_cpu_open(at_cpu_best_isa(), pool, &device));
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    device->ops->close(device);
    at_pool_destroy(pool);
    return 0;
}

static attune_status load(at_device *on, const attune_kernel *kernel, at_loaded **loaded)
{
    attune_config config = {.value = {41}};
    at_recipe recipe;
    at_recipe_ask(kernel, &problem, &on->target, &config, &recipe);
    return on->ops->load(on, &recipe, loaded);
}

static attune_args args_of(int64_t seqlen_q, int64_t heads_q, uint32_t *workspace)
{
    attune_args args = {.size = sizeof args, .abi = ATTUNE_ABI};
    args.batch = 1;
    args.seqlen_q = seqlen_q;
    args.heads_q = heads_q;
    args.workspace = workspace;
    args.workspace_bytes = 1024;
    return args;
}

/* ---- Tests --------------------------------------------------------------------------------------------------------
 */

static void open_refuses_what_is_not_there(void **state)
{
    (void)state;
    at_device *none = device;
    assert_fails(at_cpu_open(ATTUNE_ISA_BASELINE, NULL, &none), ATTUNE_INVALID_ARGUMENT, "pool");
    assert_null(none);
    if (at_cpu_best_isa() < ATTUNE_ISA_AVX512) {
        assert_fails(at_cpu_open(ATTUNE_ISA_AVX512, pool, &none), ATTUNE_UNSUPPORTED, "avx512");
        assert_null(none);
    }
}

static void launch_fills_and_runs_each_item(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{0, 3}, {1, 1}, {5, 7}, {33, 3}};
    attune_kernel kernel = kernel_of(steps);
    at_loaded *loaded;
    assert_ok(load(device, &kernel, &loaded));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        uint32_t workspace[256] = {1, 2, 3};
        attune_args args = args_of(sizes[i][0], sizes[i][1], workspace);
        int64_t items = sizes[i][0] * sizes[i][1];
        assert_ok(at_launch_args(loaded, &args, NULL));
        assert_ok(device->ops->synchronise(device, NULL));
        for (uint32_t at = 0; at < 254; ++at) {
            uint32_t filled = at < 2 ? at + 1 : 7;
            if (at != 100 && at != 101) {
                assert_int_equal(workspace[at], filled + (at < items));
            }
        }
        assert_int_equal(workspace[254], 0);
        assert_int_equal(workspace[101], items > 0 ? 41 : 7); /* the config reaches the kernel */
    }
    device->ops->unload(loaded);
}

/* The highest tier that was built, but none above the device's. */
static void the_tier_is_the_devices(void **state)
{
    (void)state;
    for (int isa = 0; isa <= (int)at_cpu_best_isa(); ++isa) {
        at_device *lower;
        at_loaded *loaded;
        uint32_t workspace[256] = {0};
        attune_kernel kernel = kernel_of(steps);
        attune_args args = args_of(1, 1, workspace);
        assert_ok(at_cpu_open((attune_isa)isa, pool, &lower));
        assert_int_equal(lower->target.isa, isa);
        assert_int_equal(lower->target.threads, 3);
        assert_ok(load(lower, &kernel, &loaded));
        assert_ok(at_launch_args(loaded, &args, NULL));
        assert_int_equal(workspace[100], isa >= ATTUNE_ISA_AVX2 ? ATTUNE_ISA_AVX2 : ATTUNE_ISA_BASELINE);
        lower->ops->unload(loaded);
        kernel.attend[ATTUNE_ISA_BASELINE] = kernel.attend[ATTUNE_ISA_AVX2] = NULL;
        assert_fails(load(lower, &kernel, &loaded), ATTUNE_UNSUPPORTED, "tiers");
        assert_null(loaded);
        lower->ops->close(lower);
    }
}

static void load_refuses_broken_descriptors(void **state)
{
    (void)state;
    at_loaded *loaded;
    attune_kernel kernel = kernel_of(steps_none);
    assert_fails(load(device, &kernel, &loaded), ATTUNE_INVALID_ARGUMENT, "0 steps");
    assert_null(loaded);
    kernel = kernel_of(steps_gemm);
    assert_fails(load(device, &kernel, &loaded), ATTUNE_UNSUPPORTED, "note, step 0: a gemm");
    kernel = kernel_of(steps_unknown);
    assert_fails(load(device, &kernel, &loaded), ATTUNE_INVALID_ARGUMENT, "note, step 1: kind 9");
    kernel = kernel_of(steps_bad_term);
    assert_fails(load(device, &kernel, &loaded), ATTUNE_INVALID_ARGUMENT, "note, step 1: grid[1]");
    kernel = kernel_of(steps_bad_fill);
    assert_fails(load(device, &kernel, &loaded), ATTUNE_INVALID_ARGUMENT, "note, step 0: offset_bytes");
    kernel = kernel_of(steps);
    kernel.resources = resources_greedy;
    assert_fails(load(device, &kernel, &loaded), ATTUNE_UNSUPPORTED, "131073 bytes of scratch");
    kernel = kernel_of(steps);
    kernel.target = ATTUNE_TARGET_CUDA;
    assert_fails(load(device, &kernel, &loaded), ATTUNE_UNSUPPORTED, "not a CPU kernel");
}

static void launch_refuses_what_it_cannot_do(void **state)
{
    (void)state;
    at_loaded *loaded;
    uint32_t workspace[256] = {0};
    attune_args args = args_of(2, 2, workspace);
    attune_kernel kernel = kernel_of(steps_fill_beyond);
    assert_ok(load(device, &kernel, &loaded));
    assert_fails(at_launch_args(loaded, &args, NULL), ATTUNE_WORKSPACE_TOO_SMALL, "1020 bytes from byte 8");
    device->ops->unload(loaded);
    kernel = kernel_of(steps_negative);
    assert_ok(load(device, &kernel, &loaded));
    assert_fails(at_launch_args(loaded, &args, NULL), ATTUNE_INVALID_ARGUMENT, "grid[2] is -1");
    device->ops->unload(loaded);
    kernel = kernel_of(steps);
    assert_ok(load(device, &kernel, &loaded));
    assert_fails(at_launch_args(loaded, &args, workspace), ATTUNE_INVALID_ARGUMENT, "stream");
    args.seqlen_q = INT64_MAX;
    assert_fails(at_launch_args(loaded, &args, NULL), ATTUNE_INVALID_ARGUMENT, "too many items");
    device->ops->unload(loaded);
}

static attune_status inspect(uint32_t features, int32_t *cu_q, int32_t *cu_kv, int32_t *used)
{
    at_loaded *loaded;
    attune_kernel kernel = kernel_of(steps);
    assert_ok(load(device, &kernel, &loaded));
    attune_args args = {.features = features, .batch = 2, .seqlen_q = 5, .seqlen_kv = 9, .total_q = 8, .total_kv = 12};
    args.tensor[ATTUNE_CU_Q].data = cu_q;
    args.tensor[ATTUNE_CU_KV].data = cu_kv;
    args.tensor[ATTUNE_USED_KV].data = used;
    attune_status status = device->ops->inspect(loaded, &args, UINT64_MAX);
    device->ops->unload(loaded);
    return status;
}

static void inspect_looks_at_host_arrays(void **state)
{
    (void)state;
    const uint32_t packed = ATTUNE_FEATURE_VARLEN;
    const uint32_t both = ATTUNE_FEATURE_VARLEN | ATTUNE_FEATURE_SEQUSED;
    int32_t q[] = {1, 1, 6};
    int32_t kv[] = {3, 12, 12};
    int32_t used[] = {9, 3};
    assert_ok(inspect(0, NULL, NULL, NULL));
    assert_ok(inspect(both, q, kv, used));
    assert_ok(inspect(ATTUNE_FEATURE_SEQUSED, NULL, NULL, (int32_t[]){0, 9}));
    const int32_t refused[][3] = {{-1, 0, 2}, {3, 2, 4}, {0, 6, 6}, {0, 4, 9}, {INT32_MAX, INT32_MIN, 0}};
    static const char *const words[] = {"CU_Q[0] is -1", "CU_Q[1] is 2, less than the 3",
                                        "CU_Q[1] is 6, 6 rows after the 0 before it: seqlen_q allows 5",
                                        "CU_Q[2] is 9: total_q is 8", "CU_Q[1] is -2147483648"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) {
        int32_t bad[3];
        memcpy(bad, refused[i], sizeof bad);
        assert_fails(inspect(packed, bad, kv, NULL), ATTUNE_INVALID_ARGUMENT, words[i]);
    }
    assert_fails(inspect(packed, q, (int32_t[]){0, 10, 10}, NULL), ATTUNE_INVALID_ARGUMENT, "seqlen_kv allows 9");
    assert_fails(inspect(packed, q, (int32_t[]){5, 9, 13}, NULL), ATTUNE_INVALID_ARGUMENT, "total_kv is 12");
    assert_fails(inspect(both, q, kv, (int32_t[]){3, -1}), ATTUNE_INVALID_ARGUMENT, "USED_KV[1] is -1");
    assert_fails(inspect(both, q, kv, (int32_t[]){10, 0}), ATTUNE_INVALID_ARGUMENT, "USED_KV[0] is 10");
}

static void buffers_are_aligned_and_copied(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 255, 256, 257, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        void *data;
        unsigned char *host = malloc(sizes[i] + 1);
        memset(host, 0x5a, sizes[i] + 1);
        assert_ok(device->ops->allocate(device, sizes[i], &data));
        assert_int_equal((uintptr_t)data % 256, 0);
        assert_ok(device->ops->upload(device, data, host, sizes[i]));
        memset(host, 0, sizes[i]);
        assert_ok(device->ops->download(device, host, data, sizes[i]));
        for (size_t at = 0; at < sizes[i]; ++at) {
            assert_int_equal(host[at], 0x5a);
        }
        device->ops->release(device, data);
        free(host);
    }
    void *none = &none;
    assert_fails(device->ops->allocate(device, SIZE_MAX - 3, &none), ATTUNE_OUT_OF_MEMORY, "bytes");
    assert_null(none);
    device->ops->release(device, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_refuses_what_is_not_there),   cmocka_unit_test(launch_fills_and_runs_each_item),
        cmocka_unit_test(the_tier_is_the_devices),          cmocka_unit_test(load_refuses_broken_descriptors),
        cmocka_unit_test(launch_refuses_what_it_cannot_do), cmocka_unit_test(inspect_looks_at_host_arrays),
        cmocka_unit_test(buffers_are_aligned_and_copied),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
