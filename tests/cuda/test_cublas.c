/* Handles of cuBLAS: one for each stream, made at load and never at execute, used by one thread at a time. */
#include <dlfcn.h>
#include <stdlib.h>

#include "base/cm.h"
#include "cuda/cublas.h"
#include "cuda/fake_cublas.h"

enum { SCRATCH = 4096 };

static fake_cublas_record *fake;
static fake_cublas_last_call *last_call;

static int find_fake(void **state)
{
    void *library = dlopen(ATTUNE_FAKE_CUBLAS, RTLD_NOW);
    (void)state;
    if (library == NULL || setenv("ATTUNE_CUBLAS", ATTUNE_FAKE_CUBLAS, 1) != 0) {
        return -1;
    }
    fake = dlsym(library, "fake_cublas");
    void *symbol = dlsym(library, "fake_cublas_last");
    memcpy(&last_call, &symbol, sizeof symbol);
    return fake == NULL || symbol == NULL ? -1 : 0;
}

static int forget(void **state)
{
    (void)state;
    fake->room = 1000;
    fake->meet = NULL;
    fake->made = fake->destroyed = fake->shared = 0;
    return 0;
}

/* A product of [1,k] and [k,1] whose rows lie k apart, all of it in the workspace. */
static attune_status multiply_depth(at_cublas *cublas, at_cu_stream stream, void *scratch, int64_t k)
{
    float number[1] = {0};
    attune_args args = {
        .batch = 1, .heads_q = 1, .heads_kv = 1, .workspace = number, .workspace_bytes = sizeof number, .scale = 1};
    attune_term one = attune_term_const(1);
    attune_term depth = attune_term_const(k);
    attune_operand operand = {.role = -1,
                              .dtype = ATTUNE_FP32,
                              .offset_bytes = attune_term_const(0),
                              .row_stride = depth,
                              .head_stride = one,
                              .batch_stride = one};
    attune_step_gemm step = {operand, operand, operand, one, one, depth, .transpose_b = 1};
    at_sizes sizes = {{0}};
    at_gemm_made made;
    attune_status status = at_gemm_make(&step, &args, &sizes, &made);
    return status != ATTUNE_OK ? status : at_gemm_run(cublas, &step, &args, &made, stream, scratch, SCRATCH);
}

static attune_status multiply(at_cublas *cublas, at_cu_stream stream, void *scratch)
{
    return multiply_depth(cublas, stream, scratch, 1);
}

static at_cublas *prepared(void)
{
    at_cublas *cublas = NULL;
    assert_ok(at_cublas_open(&cublas));
    assert_int_equal(fake->made, 0);
    assert_ok(at_cublas_prepare(cublas));
    assert_int_equal(fake->made, AT_CUBLAS_SPARES);
    return cublas;
}

static at_cu_stream stream_of(uintptr_t number)
{
    return (at_cu_stream)(number * 64); /* never dereferenced */
}

/* The handle that a call on the stream uses; it must know the stream and the call's own scratch memory. */
static at_cublas_handle handle_for(at_cublas *cublas, at_cu_stream stream)
{
    char scratch[1];
    assert_ok(multiply(cublas, stream, scratch));
    fake_cublas_call call = last_call();
    assert_ptr_equal(call.stream, stream);
    assert_ptr_equal(call.workspace, scratch);
    return call.handle;
}

static void each_stream_keeps_its_own(void **state)
{
    at_cublas *cublas = prepared();
    at_cublas_handle handle[AT_CUBLAS_SPARES];
    (void)state;
    for (int i = 0; i < AT_CUBLAS_SPARES; ++i) {
        handle[i] = handle_for(cublas, stream_of((uintptr_t)i));
        for (int before = 0; before < i; ++before) {
            assert_ptr_not_equal(handle[before], handle[i]);
        }
    }
    for (int i = AT_CUBLAS_SPARES - 1; i >= 0; --i) {
        assert_ptr_equal(handle_for(cublas, stream_of((uintptr_t)i)), handle[i]);
    }
    assert_int_equal(fake->made, AT_CUBLAS_SPARES); /* none at execute */
    at_cublas_close(cublas);
    assert_int_equal(fake->destroyed, AT_CUBLAS_SPARES);
}

/* More streams than handles: they share, and the next load makes spares again, up to a limit. */
static void streams_beyond_the_spares(void **state)
{
    at_cublas *cublas = prepared();
    (void)state;
    for (uintptr_t i = 0; i < 100; ++i) {
        at_cublas_handle handle = handle_for(cublas, stream_of(i));
        assert_ptr_equal(handle_for(cublas, stream_of(i)), handle);
    }
    assert_int_equal(fake->made, AT_CUBLAS_SPARES);
    assert_ok(at_cublas_prepare(cublas));
    assert_int_equal(fake->made, 2 * AT_CUBLAS_SPARES);
    at_cublas_handle before = handle_for(cublas, stream_of(3));
    assert_ptr_not_equal(handle_for(cublas, stream_of(1000)), before);
    assert_ok(at_cublas_prepare(cublas));
    assert_int_equal(fake->made, 2 * AT_CUBLAS_SPARES + 1);
    for (uintptr_t i = 0; i < 10; ++i) {
        for (uintptr_t stream = 0; stream < 100; ++stream) {
            (void)handle_for(cublas, stream_of(stream));
        }
        assert_ok(at_cublas_prepare(cublas));
    }
    assert_int_equal(fake->made, AT_CUBLAS_HANDLES_MAX);
    assert_ptr_equal(handle_for(cublas, stream_of(3)), before);
    at_cublas_close(cublas);
    assert_int_equal(fake->destroyed, AT_CUBLAS_HANDLES_MAX);
}

typedef struct worker {
    at_cublas *cublas;
    at_cu_stream stream;
    int calls;
    at_cublas_handle handle; /* out; NULL if it changed or failed */
} worker;

static void *work(void *context)
{
    worker *w = context;
    char scratch[1];
    for (int i = 0; i < w->calls; ++i) {
        bool right = multiply(w->cublas, w->stream, scratch) == ATTUNE_OK && last_call().stream == w->stream &&
                     last_call().workspace == scratch && (i == 0 || last_call().handle == w->handle);
        w->handle = right ? last_call().handle : NULL;
    }
    return NULL;
}

static void run_workers(worker *workers, int count)
{
    pthread_t thread[16];
    for (int i = 0; i < count; ++i) {
        assert_int_equal(pthread_create(&thread[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < count; ++i) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_non_null(workers[i].handle);
    }
}

/* Each multiplication waits until all streams' have begun: with one lock for all none would ever end. */
static void streams_do_not_wait_for_each_other(void **state)
{
    pthread_barrier_t meet;
    worker workers[AT_CUBLAS_SPARES];
    at_cublas *cublas = prepared();
    (void)state;
    assert_int_equal(pthread_barrier_init(&meet, NULL, AT_CUBLAS_SPARES), 0);
    fake->meet = &meet;
    for (int i = 0; i < AT_CUBLAS_SPARES; ++i) {
        workers[i] = (worker){cublas, stream_of((uintptr_t)i + 1), 50, NULL};
    }
    run_workers(workers, AT_CUBLAS_SPARES);
    assert_int_equal(fake->shared, 0);
    (void)pthread_barrier_destroy(&meet);
    at_cublas_close(cublas);
}

/* Threads on one stream, and on streams that share a handle, take turns. */
static void one_thread_at_a_time(void **state)
{
    worker workers[16];
    at_cublas *cublas = prepared();
    (void)state;
    for (int i = 0; i < 16; ++i) {
        workers[i] = (worker){cublas, stream_of((uintptr_t)i / 2 * 7), 500, NULL};
    }
    run_workers(workers, 16);
    for (int i = 0; i < 16; i += 2) {
        assert_ptr_equal(workers[i].handle, workers[i + 1].handle);
    }
    for (int i = 0; i < 16; ++i) {
        workers[i].stream = stream_of((uintptr_t)i * 1001 + 500);
    }
    run_workers(workers, 16);
    assert_int_equal(fake->shared, 0);
    at_cublas_close(cublas);
}

/* The driver's two names: the legacy default stream is stream 0; each thread has a default stream of its own. */
static void default_streams(void **state)
{
    at_cublas *cublas = prepared();
    worker other = {cublas, (at_cu_stream)(uintptr_t)AT_CU_STREAM_PER_THREAD, 2, NULL};
    (void)state;
    assert_ptr_equal(handle_for(cublas, NULL), handle_for(cublas, (at_cu_stream)(uintptr_t)AT_CU_STREAM_LEGACY));
    at_cublas_handle mine = handle_for(cublas, other.stream);
    assert_ptr_not_equal(mine, handle_for(cublas, NULL));
    run_workers(&other, 1);
    assert_ptr_not_equal(mine, other.handle);
    assert_ptr_equal(mine, handle_for(cublas, other.stream));
    at_cublas_close(cublas);
}

static void no_room_for_handles(void **state)
{
    at_cublas *cublas = NULL;
    (void)state;
    assert_ok(at_cublas_open(&cublas));
    fake->room = 0;
    assert_fails(at_cublas_prepare(cublas), ATTUNE_OUT_OF_MEMORY, "no room for a handle");
    fake->room = 1;
    assert_ok(at_cublas_prepare(cublas)); /* one is enough: streams share it */
    assert_ptr_equal(handle_for(cublas, stream_of(5)), handle_for(cublas, stream_of(6)));
    at_cublas_close(cublas);
    assert_int_equal(fake->made, 1);
    assert_int_equal(fake->destroyed, 1);
}

/* A sequence without keys: the product is all zeros, and cuBLAS's to write. */
static void products_of_no_keys(void **state)
{
    char scratch[1];
    at_cublas *cublas = prepared();
    (void)state;
    assert_ok(multiply_depth(cublas, stream_of(1), scratch, 0));
    assert_ptr_equal(last_call().workspace, scratch);
    at_cublas_close(cublas);
}

static void no_library(void **state)
{
    at_cublas *cublas = NULL;
    (void)state;
    assert_int_equal(setenv("ATTUNE_CUBLAS", "/no/such/libcublas.so", 1), 0);
    assert_fails(at_cublas_open(&cublas), ATTUNE_UNSUPPORTED, "/no/such/libcublas.so");
    assert_null(cublas);
    assert_int_equal(setenv("ATTUNE_CUBLAS", "libm.so.6", 1), 0);
    assert_fails(at_cublas_open(&cublas), ATTUNE_UNSUPPORTED, "cublasCreate_v2");
    assert_null(cublas);
    at_cublas_close(NULL);
    assert_int_equal(setenv("ATTUNE_CUBLAS", ATTUNE_FAKE_CUBLAS, 1), 0);
}

#define TEST(name) cmocka_unit_test_setup(name, forget)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_stream_keeps_its_own),
        TEST(streams_beyond_the_spares),
        TEST(streams_do_not_wait_for_each_other),
        TEST(one_thread_at_a_time),
        TEST(default_streams),
        TEST(no_room_for_handles),
        TEST(products_of_no_keys),
        TEST(no_library),
    };
    return cmocka_run_group_tests(tests, find_fake, NULL);
}
