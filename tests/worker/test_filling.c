/* Before a judged call all is filled that a kernel could read without having written it: with what was asked for, else
 * with something drawn. On a driver that only remembers. */
#include "cuda/driven.h"

#include "cuda/loaded.h"
#include "worker/worker_ops.h"

static at_worker worker;

static int open_device(void **state)
{
    return driven_find(state) == 0 && driven_forget(state) == 0 &&
                   at_cuda_open(0, "", NULL, &worker.device) == ATTUNE_OK
               ? 0
               : -1;
}

static int close_device(void **state)
{
    (void)state;
    at_worker_close_filling(&worker);
    worker.device->ops->close(worker.device);
    return fake->modules;
}

static void ask_for(int pattern)
{
    json_t *request = json_pack("{s:i}", "pattern", pattern);
    assert_ok(at_worker_filling_ops[0].run(&worker, request, NULL));
    json_decref(request);
}

/* A kernel with such a stack: the rest of it nobody looks at. */
static const at_loaded *with_stack(int32_t bytes)
{
    static const attune_kernel kernel = {.name = "mine"};
    static at_cuda_loaded loaded;
    loaded = (at_cuda_loaded){.base.kernel = &kernel, .stack_bytes = bytes};
    return &loaded.base;
}

/* What all fillers were given. */
static int64_t filled(void)
{
    const int before = fake->launches;
    assert_ok(at_worker_fill(&worker, with_stack(AT_STACK_FILLED_MOST), NULL));
    assert_int_equal(fake->launches, before + AT_FILLERS);
    const int64_t pattern = fake->args_of[before % FAKE_LAUNCHES].offset;
    for (int i = 1; i < AT_FILLERS; ++i) {
        assert_int_equal(fake->args_of[(before + i) % FAKE_LAUNCHES].offset, pattern);
    }
    return pattern;
}

static void what_was_asked_for_is_filled_once(void **state)
{
    (void)state;
    if (!has_compiler) {
        skip();
    }
    int64_t first = filled();
    int others = 0;
    ask_for(0xff);
    assert_int_equal(filled(), 0xff);
    ask_for(12345678);
    assert_int_equal(filled(), 12345678);
    for (int i = 0; i < 20; ++i) {
        others += filled() != first;
    }
    assert_true(others >= 10);
}

/* As deep as the kernel's own stack, and no deeper; what nothing reaches is refused. */
static void stacks_are_filled_as_deep_as_they_are(void **state)
{
    static const struct {
        int32_t bytes;
        int launches;
    } cases[] = {{0, 1}, {8, 2}, {AT_STACK_FILLED, 2}, {AT_STACK_FILLED + 8, 3}, {AT_STACK_FILLED_MOST, 3}};
    (void)state;
    if (!has_compiler) {
        skip();
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        const int before = fake->launches;
        assert_ok(at_worker_fill(&worker, with_stack(cases[i].bytes), NULL));
        assert_int_equal(fake->launches, before + cases[i].launches);
    }
    const int before = fake->launches;
    assert_ok(at_worker_fill(&worker, NULL, NULL));
    assert_int_equal(fake->launches, before + 1);
    assert_fails(at_worker_fill(&worker, with_stack(AT_STACK_FILLED_MOST + 8), NULL), ATTUNE_UNSUPPORTED,
                 "mine: its stack is 16392 bytes a thread, at most 16384 are filled before judged calls");
    assert_fails(at_worker_fill(&worker, with_stack(INT32_MAX), NULL), ATTUNE_UNSUPPORTED,
                 "mine: its stack has no bound");
    assert_int_equal(fake->launches, before + 1);
}

static void a_processor_has_nothing_to_fill(void **state)
{
    at_device cpu = {.target = {.kind = ATTUNE_TARGET_CPU}};
    at_worker on_cpu = {.device = &cpu};
    (void)state;
    assert_ok(at_worker_fill(&on_cpu, NULL, NULL));
    at_worker_close_filling(&on_cpu);
}

/* A NaN, bytes, and numbers that a kernel might take for its own. */
static void every_kind_is_drawn(void **state)
{
    at_random random = at_random_seed(1, 2);
    int nan = 0, byte = 0, seed = 0;
    (void)state;
    for (int i = 0; i < 200; ++i) {
        const int64_t pattern = at_filling_draw(&random);
        assert_true(pattern >= 0 && pattern < INT32_MAX);
        nan += pattern == 0xff;
        byte += pattern < 0xff;
        seed += pattern > 0xff;
    }
    assert_true(nan > 20 && byte > 20 && seed > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_asked_for_is_filled_once),
        cmocka_unit_test(stacks_are_filled_as_deep_as_they_are),
        cmocka_unit_test(a_processor_has_nothing_to_fill),
        cmocka_unit_test(every_kind_is_drawn),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
