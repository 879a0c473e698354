/* The device against a driver that only remembers: contexts, loading, launching, and everything that can be wrong. */
#include <pthread.h>

#include "base/status.h"
#include "cuda/driven.h"

static at_device *opened(int ordinal)
{
    at_device *device = NULL;
    assert_ok(at_cuda_open(ordinal, "", NULL, &device));
    return device;
}

/* ---- Drivers that will not do -------------------------------------------------------------------------------------
 */

static void a_machine_without_a_driver(void **state)
{
    int count = -1;
    at_device *device = NULL;
    (void)state;
    assert_int_equal(setenv("ATTUNE_LIBCUDA", "/no/such/libcuda.so.1", 1), 0);
    assert_fails(at_cuda_count(&count), ATTUNE_NO_DEVICE, "/no/such/libcuda.so.1");
    assert_int_equal(count, 0);
    assert_fails(at_cuda_open(0, NULL, NULL, &device), ATTUNE_NO_DEVICE, "CUDA driver");
    assert_null(device);
    assert_int_equal(setenv("ATTUNE_LIBCUDA", "libm.so.6", 1), 0);
    assert_fails(at_cuda_count(&count), ATTUNE_NO_DEVICE, "has no cuInit");
    assert_int_equal(setenv("ATTUNE_LIBCUDA", ATTUNE_FAKE_DRIVER, 1), 0);
}

static void drivers_that_are_too_old_or_broken(void **state)
{
    int count = -1;
    (void)state;
    fake->version = 11080;
    assert_fails(at_cuda_count(&count), ATTUNE_NO_DEVICE, "supports CUDA 11.8, but 12.0 or later is needed");
    fake->version = 13000;
    fake->lacks = "cuTensorMapEncodeTiled";
    assert_fails(at_cuda_count(&count), ATTUNE_NO_DEVICE, "no cuTensorMapEncodeTiled of version 12.0");
    fake->lacks = NULL;
    fake->init = AT_CU_NO_DEVICE;
    assert_fails(at_cuda_count(&count), ATTUNE_NO_DEVICE, "shows no device");
    fake->init = AT_CU_STUB_LIBRARY;
    assert_fails(at_cuda_count(&count), ATTUNE_NO_DEVICE, "stub");
    fake->init = 999;
    assert_fails(at_cuda_count(&count), ATTUNE_NO_DEVICE, "error 999");
    fake->init = AT_CU_SUCCESS;
    assert_ok(at_cuda_count(&count));
    assert_int_equal(count, FAKE_DEVICES);
}

/* ---- Devices and contexts -------------------------------------------------------------------------------------------
 */

static void devices_are_described(void **state)
{
    attune_target target;
    (void)state;
    assert_ok(at_cuda_describe(0, &target));
    assert_int_equal(target.kind, ATTUNE_TARGET_CUDA);
    assert_string_equal(target.model, "NVIDIA_Fake_9000");
    assert_int_equal(target.arch, 90);
    assert_int_equal(target.arch_features, 1);
    assert_int_equal(target.smem_optin_bytes, 232448);
    assert_int_equal(target.sm_count, 132);
    assert_int_equal(target.driver, 13000);
    assert_int_equal(target.compiler != 0, has_compiler);
    assert_ok(at_cuda_describe(1, &target));
    assert_int_equal(target.arch, 89);
    assert_int_equal(target.arch_features, 0);
    assert_fails(at_cuda_describe(2, &target), ATTUNE_NO_DEVICE, "the driver shows 2");
    assert_fails(at_cuda_describe(-1, &target), ATTUNE_NO_DEVICE, "-1");
}

static void the_primary_context_is_retained_and_released(void **state)
{
    (void)state;
    at_device *device = opened(1);
    assert_ptr_equal(((at_cuda_device *)device)->context, fake->context[1]);
    assert_int_equal(fake->retained[1], 1);
    assert_null(fake->current()); /* the caller's thread is left as it was */
    device->ops->close(device);
    assert_int_equal(fake->retained[1], 0);
}

static void the_callers_context_is_used(void **state)
{
    (void)state;
    fake->set_current(fake->context[2]);
    at_device *device = opened(0);
    assert_ptr_equal(((at_cuda_device *)device)->context, fake->context[2]);
    assert_int_equal(fake->retained[0], 0);
    device->ops->close(device);
    /* One of another device does not count. */
    fake->set_current(fake->context[3]);
    device = opened(0);
    assert_ptr_equal(((at_cuda_device *)device)->context, fake->context[0]);
    assert_ptr_equal(fake->current(), fake->context[3]);
    device->ops->close(device);
    assert_int_equal(fake->retained[0], 0);
}

static void memory_comes_and_goes(void **state)
{
    char text[16] = "";
    void *data = NULL;
    (void)state;
    at_device *device = opened(0);
    assert_ok(device->ops->allocate(device, 1000, &data));
    assert_int_equal((uintptr_t)data % 256, 0);
    assert_ok(device->ops->upload(device, data, "over there", 11));
    assert_ok(device->ops->download(device, text, data, 11));
    assert_string_equal(text, "over there");
    assert_ok(device->ops->synchronise(device, NULL));
    device->ops->release(device, data);
    device->ops->release(device, NULL);
    assert_int_equal(fake->allocations, 0);
    fake->memory = 100;
    assert_fails(device->ops->allocate(device, 5000, &data), ATTUNE_OUT_OF_MEMORY,
                 "5000 bytes of device memory: 100 of 200 are free");
    assert_null(data);
    assert_ok(device->ops->allocate(device, 0, &data));
    device->ops->release(device, data);
    assert_null(fake->current());
    device->ops->close(device);
}

/* ---- Launching ------------------------------------------------------------------------------------------------------
 */

typedef struct launcher {
    at_device *device;
    at_loaded *loaded;
    void *buffer;
    attune_args args;
} launcher;

static launcher loaded_on(int ordinal)
{
    launcher made = {.device = opened(ordinal)};
    attune_problem problem = fixture_problem();
    if (!has_compiler) {
        made.device->ops->close(made.device);
        skip();
    }
    assert_ok(fixture_load(made.device, &problem, driven_source, &made.loaded));
    assert_ok(made.device->ops->allocate(made.device, 1 << 16, &made.buffer));
    made.args = (attune_args){.size = sizeof(attune_args),
                              .abi = ATTUNE_ABI,
                              .dtype = ATTUNE_FP16,
                              .batch = 2,
                              .heads_q = 4,
                              .heads_kv = 4,
                              .seqlen_q = 64,
                              .seqlen_kv = 64,
                              .scale = 0.5F,
                              .workspace = made.buffer,
                              .workspace_bytes = 1 << 16};
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        made.args.tensor[role] = (attune_tensor){made.buffer, {4 * 64 * 64, 64 * 64, 64}, ATTUNE_FP16, 0};
    }
    return made;
}

static void done(launcher *with)
{
    with->device->ops->release(with->device, with->buffer);
    with->device->ops->unload(with->loaded);
    with->device->ops->close(with->device);
    assert_int_equal(fake->modules, 0);
    assert_int_equal(fake->allocations, 0);
    assert_int_equal(fake->retained[0], 0);
    assert_null(fake->current());
}

static attune_status launch(launcher *with, void *stream)
{
    attune_args args = with->args;
    AT_FORWARD(with->device->ops->inspect(with->loaded, &args, UINT64_MAX));
    return at_launch_args(with->loaded, &args, stream);
}

static void a_launch_says_what_the_step_says(void **state)
{
    (void)state;
    fixture.fill = 1;
    launcher with = loaded_on(0);
    assert_string_equal(fake->entry, "entry");
    assert_ok(launch(&with, fake->stream[0]));
    assert_int_equal(fake->launches, 1);
    assert_int_equal(fake->config.grid[0], 8);
    assert_int_equal(fake->config.grid[1], 1);
    assert_int_equal(fake->config.block[0], 128);
    assert_int_equal(fake->config.smem_bytes, 0);
    assert_int_equal(fake->config.attribute_count, 0);
    assert_ptr_equal(fake->config.stream, fake->stream[0]);
    assert_ptr_equal(fake->launched_in, fake->context[0]);
    assert_int_equal(fake->args.param[0], 7);
    assert_true(fake->args.scale == 0.5F);
    assert_int_equal(fake->fills, 1);
    assert_int_equal(fake->fill_at, (uintptr_t)with.buffer + 256);
    assert_int_equal(fake->fill_words, 128);
    assert_int_equal(fake->fill_pattern, 0xa5a5a5a5U);
    with.args.batch = 0; /* an empty grid */
    assert_ok(launch(&with, NULL));
    assert_int_equal(fake->launches, 1);
    done(&with);
}

static void clusters_and_programmatic_launches(void **state)
{
    (void)state;
    fixture.cluster = 4;
    fixture.programmatic = 1;
    launcher with = loaded_on(0);
    assert_ok(launch(&with, NULL));
    assert_int_equal(fake->config.attribute_count, 2);
    assert_int_equal(fake->attribute[0].id, AT_CU_LAUNCH_CLUSTER);
    assert_int_equal(fake->attribute[0].value.cluster.x, 4);
    assert_int_equal(fake->attribute[1].id, AT_CU_LAUNCH_PROGRAMMATIC);
    assert_int_equal(fake->attribute[1].value.programmatic, 1);
    assert_int_equal(fake->non_portable, 0);
    with.args.batch = 1;
    with.args.heads_q = 6;
    assert_fails(launch(&with, NULL), ATTUNE_INTERNAL, "grid[0] is 6 blocks, not a multiple of the cluster's 4");
    done(&with);
    fixture.cluster = 16;
    with = loaded_on(0);
    assert_int_equal(fake->non_portable, 1);
    done(&with);
}

static void dynamic_shared_memory_is_asked_for(void **state)
{
    (void)state;
    fixture.smem_bytes = fixture.dynamic_bytes = 131072;
    launcher with = loaded_on(0);
    assert_int_equal(fake->smem_limit, 131072);
    assert_ok(launch(&with, NULL));
    assert_int_equal(fake->config.smem_bytes, 131072);
    done(&with);
    attune_problem problem = fixture_problem();
    at_loaded *loaded = NULL;
    at_device *device = opened(1); /* sm_89 */
    assert_fails(fixture_load(device, &problem, driven_source, &loaded), ATTUNE_UNSUPPORTED,
                 "131072 B of shared memory a block, the device gives 101376");
    assert_null(loaded);
    fixture.smem_bytes = fixture.dynamic_bytes = 57376;
    assert_ok(fixture_load(device, &problem, driven_source, &loaded));
    assert_int_equal(fake->smem_limit, 57376);
    device->ops->unload(loaded);
    device->ops->close(device);
}

static void huge_grids_are_refused_with_numbers(void **state)
{
    (void)state;
    launcher with = loaded_on(0);
    with.args.batch = INT64_C(1) << 40;
    assert_fails(launch(&with, NULL), ATTUNE_INVALID_ARGUMENT, "grid[0] is 4398046511104 blocks, at most 2147483647");
    with.args.batch = INT64_MAX;
    assert_int_equal(launch(&with, NULL), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(fake->launches, 0);
    done(&with);
}

static void host_pointers_are_reported(void **state)
{
    static _Alignas(256) char host[64];
    (void)state;
    launcher with = loaded_on(0);
    assert_ok(launch(&with, NULL));
    int questions = fake->pointer_questions;
    assert_true(questions > 0);
    for (int i = 0; i < 5; ++i) {
        assert_ok(launch(&with, NULL));
    }
    assert_int_equal(fake->pointer_questions, questions); /* asked once an address */
    with.args.tensor[ATTUNE_K].data = host;
    assert_fails(launch(&with, NULL), ATTUNE_INVALID_ARGUMENT, "K: ");
    assert_fails(launch(&with, NULL), ATTUNE_INVALID_ARGUMENT, "not CUDA memory");
    with.args.tensor[ATTUNE_K].data = with.buffer;
    with.args.workspace = host;
    assert_fails(launch(&with, NULL), ATTUNE_INVALID_ARGUMENT, "workspace: ");
    assert_int_equal(fake->launches, 6);
    done(&with);
}

static void memory_of_another_device_is_reported(void **state)
{
    void *data = NULL;
    (void)state;
    launcher with = loaded_on(0);
    at_device *other = opened(1);
    assert_ok(other->ops->allocate(other, 64, &data));
    with.args.tensor[ATTUNE_V].data = data;
    assert_fails(launch(&with, NULL), ATTUNE_INVALID_ARGUMENT, "is memory of device 1, the plan is for 0");
    other->ops->release(other, data);
    other->ops->close(other);
    done(&with);
}

static void streams_of_other_contexts_are_reported(void **state)
{
    (void)state;
    launcher with = loaded_on(0);
    assert_fails(launch(&with, fake->stream[1]), ATTUNE_INVALID_ARGUMENT, "another device or context");
    assert_fails(launch(&with, fake->stream[2]), ATTUNE_INVALID_ARGUMENT, "another device or context");
    assert_int_equal(fake->launches, 0);
    assert_ok(launch(&with, fake->stream[0]));
    int questions = fake->stream_questions;
    assert_ok(launch(&with, fake->stream[0]));
    assert_int_equal(fake->stream_questions, questions);
    done(&with);
}

static void sticky_errors_are_not_ours(void **state)
{
    (void)state;
    launcher with = loaded_on(0);
    fake->launch = AT_CU_ILLEGAL_ADDRESS;
    assert_fails(launch(&with, NULL), ATTUNE_DEVICE_ERROR, "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_non_null(strstr(attune_last_detail(), "before this call"));
    fake->launch = AT_CU_LAUNCH_OUT_OF_RESOURCES;
    assert_fails(launch(&with, NULL), ATTUNE_DEVICE_ERROR, "launching entry");
    assert_null(strstr(attune_last_detail(), "before this call"));
    fake->launch = AT_CU_SUCCESS;
    done(&with);
}

static void a_module_that_the_driver_refuses(void **state)
{
    at_loaded *loaded = NULL;
    attune_problem problem = fixture_problem();
    (void)state;
    if (!has_compiler) {
        skip();
    }
    at_device *device = opened(0);
    fake->load = AT_CU_NO_BINARY_FOR_GPU;
    assert_fails(fixture_load(device, &problem, driven_source, &loaded), ATTUNE_DEVICE_ERROR,
                 "for a driver of CUDA 13.0");
    fake->load = AT_CU_OUT_OF_MEMORY;
    assert_fails(fixture_load(device, &problem, driven_source, &loaded), ATTUNE_OUT_OF_MEMORY, "loading fixture");
    assert_null(loaded);
    device->ops->close(device);
    assert_int_equal(fake->modules, 0);
}

static void the_driver_makes_code_of_ptx(void **state)
{
    static const char ptx[] = ".version 7.0\n.target sm_80\n";
    at_artifact artifact = {.cubin = NULL};
    (void)state;
    at_device *device = opened(0);
    const at_assembler *assembler = &at_cuda_of(device)->provider.assembler;
    assert_int_equal(assembler->version, 13000);
    assert_fails(assembler->assemble(assembler->context, ptx, sizeof ptx - 1, &artifact), ATTUNE_COMPILE_ERROR,
                 "no code of an image's PTX");
    fake->linked = "code";
    fake->linked_bytes = 4;
    assert_fails(assembler->assemble(assembler->context, "nonsense", 8, &artifact), ATTUNE_COMPILE_ERROR, "error 200");
    assert_ok(assembler->assemble(assembler->context, ptx, sizeof ptx - 1, &artifact));
    assert_int_equal(artifact.cubin_bytes, 4);
    assert_memory_equal(artifact.cubin, "code", 4);
    assert_int_equal(fake->links, 0);
    assert_null(fake->current());
    at_artifact_free(&artifact);
    device->ops->close(device);
}

static void *launch_from_elsewhere(void *context)
{
    launcher *with = context;
    for (int i = 0; i < 500; ++i) {
        if (launch(with, i % 2 == 0 ? fake->stream[0] : NULL) != ATTUNE_OK || fake->current() != NULL) {
            return context;
        }
    }
    return NULL;
}

static void any_thread_may_launch(void **state)
{
    pthread_t thread[8];
    (void)state;
    launcher with = loaded_on(0);
    for (int i = 0; i < 8; ++i) {
        assert_int_equal(pthread_create(&thread[i], NULL, launch_from_elsewhere, &with), 0);
    }
    for (int i = 0; i < 8; ++i) {
        void *bad = NULL;
        assert_int_equal(pthread_join(thread[i], &bad), 0);
        assert_null(bad);
    }
    assert_int_equal(fake->launches, 8 * 500);
    done(&with);
}

#define TEST(name) cmocka_unit_test_setup(name, driven_forget)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_machine_without_a_driver),
        TEST(drivers_that_are_too_old_or_broken),
        TEST(devices_are_described),
        TEST(the_primary_context_is_retained_and_released),
        TEST(the_callers_context_is_used),
        TEST(memory_comes_and_goes),
        TEST(a_launch_says_what_the_step_says),
        TEST(clusters_and_programmatic_launches),
        TEST(dynamic_shared_memory_is_asked_for),
        TEST(huge_grids_are_refused_with_numbers),
        TEST(host_pointers_are_reported),
        TEST(memory_of_another_device_is_reported),
        TEST(streams_of_other_contexts_are_reported),
        TEST(sticky_errors_are_not_ours),
        TEST(a_module_that_the_driver_refuses),
        TEST(the_driver_makes_code_of_ptx),
        TEST(any_thread_may_launch),
    };
    return cmocka_run_group_tests(tests, driven_find, NULL);
}
