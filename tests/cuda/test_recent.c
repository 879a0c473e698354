/* Calls that come again, against a driver that only remembers: they are launched as they were, with nothing done anew;
 * what is elsewhere is moved, and whatever else differs from them is seen. */
#include <pthread.h>

#include "base/status.h"
#include "core/plan.h"
#include "cuda/driven.h"

enum { BUFFER_BYTES = 1 << 17, THREADS = 8, ROUNDS = 400, DIM = 64, MANY_MAPS = 7 };

/* One tensor map, so that work on them can be counted. */
static void map_queries(attune_steps *steps)
{
    attune_step_kernel *kernel = &steps->step[steps->count - 1].as.kernel;
    kernel->map_count = 1;
    kernel->map[0] = (attune_map){.role = ATTUNE_Q, .swizzle = ATTUNE_SWIZZLE_128B, .box = {DIM, 8, 1, 1}};
}

static int forget(void **state)
{
    (void)driven_forget(state);
    fixture.adjust = map_queries;
    return 0;
}

typedef struct caller {
    at_device *device;
    at_loaded *loaded;
    void *buffer[ATTUNE_O + 1];
    attune_plan *plan;
    attune_call call;
} caller;

static caller planned(void)
{
    caller made = {.device = NULL};
    attune_problem problem = fixture_problem();
    if (!has_compiler) {
        skip();
    }
    assert_ok(at_cuda_open(0, "", NULL, &made.device));
    assert_ok(fixture_load(made.device, &problem, driven_source, &made.loaded));
    assert_ok(at_plan_bind(&problem, made.loaded, AT_ORIGIN_NAMED, &made.plan));
    assert_ok(attune_call_init(&made.call, &problem));
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        assert_ok(made.device->ops->allocate(made.device, BUFFER_BYTES, &made.buffer[role]));
        made.call.tensor[role].data = made.buffer[role];
    }
    return made;
}

static void done(caller *with)
{
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        with->device->ops->release(with->device, with->buffer[role]);
    }
    attune_plan_destroy(with->plan);
    with->device->ops->unload(with->loaded);
    with->device->ops->close(with->device);
    assert_int_equal(fake->modules, 0);
    assert_int_equal(fake->allocations, 0);
    assert_null(fake->current());
}

static void execute_times(const caller *with, int times)
{
    for (int i = 0; i < times; ++i) {
        assert_ok(attune_plan_execute(with->plan, &with->call));
    }
}

static void a_call_that_comes_again_is_launched_as_it_was(void **state)
{
    (void)state;
    caller with = planned();
    execute_times(&with, 1);
    attune_args first = fake->args;
    assert_int_equal(fake->map_encodes, 1);
    execute_times(&with, 1); /* kept from here on */
    memset(&fake->args, 0, sizeof fake->args);
    memset(&fake->config, 0, sizeof fake->config);
    execute_times(&with, 5);
    assert_int_equal(fake->map_encodes, 1);
    assert_int_equal(fake->map_moves, 0);
    assert_int_equal(fake->launches, 7);
    assert_memory_equal(&fake->args, &first, sizeof first);
    assert_int_equal(fake->config.grid[0], 8);
    assert_int_equal(fake->config.grid[1], 1);
    assert_int_equal(fake->config.block[0], 128);
    assert_ptr_equal(fake->launched_in, fake->context[0]);
    done(&with);
}

/* A fill before the kernel, of a counter: it is done each time, where the call's workspace is. */
static void a_fill_before_the_kernel_comes_again_too(void **state)
{
    (void)state;
    fixture.fill = 1;
    void *both = NULL;
    caller with = planned();
    assert_fails(attune_plan_execute(with.plan, &with.call), ATTUNE_WORKSPACE_TOO_SMALL, "1024 bytes are needed");
    assert_ok(with.device->ops->allocate(with.device, 2048, &both));
    for (int i = 0; i < 2; ++i) {
        char *workspace = (char *)both + (ptrdiff_t)i * 1024;
        with.call.workspace = workspace;
        with.call.workspace_bytes = 1024;
        execute_times(&with, 2);
        const int encodes = fake->map_encodes, fills = fake->fills, launches = fake->launches;
        fake->fill_at = fake->fill_words = fake->fill_pattern = 0;
        execute_times(&with, 3);
        assert_int_equal(fake->map_encodes, encodes);
        assert_int_equal(fake->fills, fills + 3);
        assert_int_equal(fake->launches, launches + 3);
        assert_int_equal(fake->fill_at, (uintptr_t)workspace + 256);
        assert_int_equal(fake->fill_words, 128);
        assert_int_equal(fake->fill_pattern, 0xa5a5a5a5U);
        assert_ptr_equal(fake->args.workspace, workspace);
    }
    with.call.workspace_bytes = 1023;
    assert_fails(attune_plan_execute(with.plan, &with.call), ATTUNE_WORKSPACE_TOO_SMALL, "1024 bytes are needed");
    with.device->ops->release(with.device, both);
    done(&with);
}

/* Everything but a word is as in the call that is kept. */
static void what_differs_is_seen(void **state)
{
    static _Alignas(256) char host[64];
    (void)state;
    caller with = planned();
    const attune_call kept = with.call;
    execute_times(&with, 3);
    with.call.batch = 1;
    execute_times(&with, 1);
    assert_int_equal(fake->config.grid[0], 4);
    assert_int_equal(fake->args.batch, 1);
    with.call = kept;
    with.call.tensor[ATTUNE_O].data = host;
    assert_fails(attune_plan_execute(with.plan, &with.call), ATTUNE_INVALID_ARGUMENT, "O: ");
    with.call.tensor[ATTUNE_O].data = NULL;
    assert_fails(attune_plan_execute(with.plan, &with.call), ATTUNE_INVALID_ARGUMENT, "O: its data is NULL");
    with.call = kept;
    with.call.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_SEQ] = 1;
    assert_fails(attune_plan_execute(with.plan, &with.call), ATTUNE_INVALID_ARGUMENT, "K: the sequence stride is 1");
    with.call = kept;
    with.call.seqlen_kv = 65;
    assert_fails(attune_plan_execute(with.plan, &with.call), ATTUNE_INVALID_ARGUMENT, "seqlen_kv is 65");
    with.call = kept;
    with.call.stream = fake->stream[1];
    assert_fails(attune_plan_execute(with.plan, &with.call), ATTUNE_INVALID_ARGUMENT, "another device or context");
    with.call.stream = fake->stream[0];
    execute_times(&with, 1);
    assert_ptr_equal(fake->config.stream, fake->stream[0]);
    done(&with);
}

static void a_failed_launch_is_reported_each_time(void **state)
{
    (void)state;
    caller with = planned();
    execute_times(&with, 3);
    fake->launch = AT_CU_ILLEGAL_ADDRESS;
    assert_fails(attune_plan_execute(with.plan, &with.call), ATTUNE_DEVICE_ERROR, "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_fails(attune_plan_execute(with.plan, &with.call), ATTUNE_DEVICE_ERROR, "CUDA_ERROR_ILLEGAL_ADDRESS");
    fake->launch = AT_CU_SUCCESS;
    execute_times(&with, 1);
    done(&with);
}

/* ---- Calls that are elsewhere ---- */

/* What a plan without a past makes of the call. */
static attune_args made_anew(const caller *with)
{
    attune_plan *plan = NULL;
    assert_ok(at_plan_bind(&with->plan->problem, with->loaded, AT_ORIGIN_NAMED, &plan));
    assert_ok(attune_plan_execute(plan, &with->call));
    attune_plan_destroy(plan);
    return fake->args;
}

/* Executes the call, and checks that it was launched as if it were the first, with so much work on maps. */
static void executes(const caller *with, int encodes, int moves)
{
    const int encoded = fake->map_encodes, moved = fake->map_moves;
    execute_times(with, 1);
    assert_int_equal(fake->map_encodes - encoded, encodes);
    assert_int_equal(fake->map_moves - moved, moves);
    attune_args args = fake->args;
    attune_args expected = made_anew(with);
    assert_memory_equal(&args, &expected, sizeof args);
}

static void shift(caller *with, int role, ptrdiff_t bytes)
{
    with->call.tensor[role].data = (char *)with->call.tensor[role].data + bytes;
}

static void what_is_elsewhere_is_moved(void **state)
{
    (void)state;
    caller with = planned();
    executes(&with, 1, 0);
    shift(&with, ATTUNE_O, 256);
    executes(&with, 0, 0); /* it has no map */
    shift(&with, ATTUNE_Q, 512);
    executes(&with, 0, 1);
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        shift(&with, role, 1024);
    }
    executes(&with, 0, 1);
    with.call.stream = fake->stream[0];
    shift(&with, ATTUNE_K, 256);
    executes(&with, 0, 0);
    assert_ptr_equal(fake->config.stream, fake->stream[0]);
    shift(&with, ATTUNE_Q, 16); /* right too, but its alignment is to be checked */
    executes(&with, 1, 0);
    with.call.batch = 1;
    shift(&with, ATTUNE_V, 256);
    executes(&with, 1, 0);
    with.call.seqlen_kv = 60;
    executes(&with, 0, 0);
    with.call.tensor[ATTUNE_Q].stride[ATTUNE_STRIDE_HEAD] += DIM;
    shift(&with, ATTUNE_V, 256);
    executes(&with, 1, 0);
    done(&with);
}

/* What was refused on its way leaves nothing that the next call could be made of. */
static void what_is_wrong_elsewhere_is_seen(void **state)
{
    static _Alignas(256) char host[64];
    (void)state;
    caller with = planned();
    const attune_call first = with.call;
    executes(&with, 1, 0);
    with.call.tensor[ATTUNE_Q].data = host;
    assert_fails(attune_plan_execute(with.plan, &with.call), ATTUNE_INVALID_ARGUMENT, "Q: ");
    with.call = first;
    executes(&with, 1, 0);
    with.call.tensor[ATTUNE_O].data = with.call.tensor[ATTUNE_V].data;
    assert_fails(attune_plan_execute(with.plan, &with.call), ATTUNE_INVALID_ARGUMENT, "O overlaps V");
    with.call = first;
    with.call.tensor[ATTUNE_V].data = NULL;
    assert_fails(attune_plan_execute(with.plan, &with.call), ATTUNE_INVALID_ARGUMENT, "V: its data is NULL");
    with.call = first;
    shift(&with, ATTUNE_Q, 2);
    assert_fails(attune_plan_execute(with.plan, &with.call), ATTUNE_INVALID_ARGUMENT, "Q: its data is 2 bytes past");
    with.call = first;
    shift(&with, ATTUNE_Q, 256);
    executes(&with, 1, 0);
    done(&with);
}

/* The fill is where the workspace is. */
static void a_workspace_may_be_elsewhere(void **state)
{
    (void)state;
    fixture.fill = 1;
    void *workspace = NULL;
    caller with = planned();
    assert_ok(with.device->ops->allocate(with.device, 4096, &workspace));
    with.call.workspace = workspace;
    with.call.workspace_bytes = 1024;
    executes(&with, 1, 0);
    for (int i = 1; i < 4; ++i) {
        with.call.workspace = (char *)workspace + (ptrdiff_t)i * 1024;
        executes(&with, 0, 0);
        assert_int_equal(fake->fill_at, (uintptr_t)with.call.workspace + 256);
        assert_ptr_equal(fake->args.workspace, with.call.workspace);
    }
    with.call.workspace = with.call.tensor[ATTUNE_K].data;
    assert_fails(attune_plan_execute(with.plan, &with.call), ATTUNE_INVALID_ARGUMENT, "workspace");
    with.device->ops->release(with.device, workspace);
    done(&with);
}

/* The driver is asked once about each of some hundred addresses, but for a few that push each other out. */
static void addresses_are_asked_about_once(void **state)
{
    enum { PLACES = 128 };
    (void)state;
    caller with = planned();
    for (int round = 0; round < 3; ++round) {
        const int asked = fake->pointer_questions;
        for (int i = 0; i < PLACES; ++i) {
            for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
                with.call.tensor[role].data = (char *)with.buffer[role] + (ptrdiff_t)i * 256;
            }
            execute_times(&with, 1);
        }
        const int questions = fake->pointer_questions - asked;
        assert_true(round == 0 ? questions >= 4 * PLACES : questions < 4 * PLACES / 10);
    }
    done(&with);
}

/* More calls than there are places: each is launched with its own tensors, kept or not. */
static void many_calls_in_turns(void **state)
{
    (void)state;
    caller with = planned();
    for (int round = 0; round < 4; ++round) {
        for (int i = 0; i < 3 * AT_RECENTS; ++i) {
            with.call.batch = 1;
            with.call.tensor[ATTUNE_V].data = (char *)with.buffer[ATTUNE_V] + (ptrdiff_t)i * 256;
            execute_times(&with, i % 3 + 1);
            assert_ptr_equal(fake->args.tensor[ATTUNE_V].data, with.call.tensor[ATTUNE_V].data);
        }
    }
    done(&with);
}

/* ---- Plans of several steps ---- */

static attune_map map_of(attune_role role, int32_t rows)
{
    return (attune_map){.role = role, .swizzle = ATTUNE_SWIZZLE_128B, .box = {DIM, rows, 1, 1}};
}

/* A fill, and three kernels: with maps of Q and K, with another of K, with that of Q alone; the last one a grid of rows
 * of keys. */
static void launch_three(attune_steps *steps)
{
    const attune_step step = steps->step[steps->count - 1];
    attune_step_kernel *kernel[3];
    for (int i = 0; i < 3; ++i) {
        steps->step[steps->count - 1 + i] = step;
        kernel[i] = &steps->step[steps->count - 1 + i].as.kernel;
    }
    steps->count += 2;
    kernel[0]->map_count = 2;
    kernel[0]->map[0] = map_of(ATTUNE_Q, 8);
    kernel[0]->map[1] = map_of(ATTUNE_K, 16);
    kernel[1]->map_count = 1;
    kernel[1]->map[0] = map_of(ATTUNE_K, 32);
    kernel[2]->map_count = 1;
    kernel[2]->map[0] = map_of(ATTUNE_Q, 8);
    kernel[2]->grid[0] = attune_term_size(ATTUNE_SIZE_SEQLEN_KV);
}

/* The three launches of one call, as the driver saw them. */
typedef struct three {
    attune_args args[3];
    unsigned int grid[3];
} three;

static three last_three(void)
{
    three seen;
    memset(&seen, 0, sizeof seen);
    for (int i = 0; i < 3 && fake->launches >= 3; ++i) {
        seen.args[i] = fake->args_of[(fake->launches - 3 + i) % FAKE_LAUNCHES];
        seen.grid[i] = fake->grid_of[(fake->launches - 3 + i) % FAKE_LAUNCHES];
    }
    return seen;
}

/* Executes the call, and checks that its steps were launched as by a plan without a past. */
static void executes_three(const caller *with, int encodes, int moves)
{
    const int encoded = fake->map_encodes, moved = fake->map_moves, launched = fake->launches, filled = fake->fills;
    execute_times(with, 1);
    assert_int_equal(fake->map_encodes - encoded, encodes);
    assert_int_equal(fake->map_moves - moved, moves);
    assert_int_equal(fake->launches - launched, 3);
    assert_int_equal(fake->fills - filled, 1);
    const three seen = last_three();
    (void)made_anew(with);
    const three expected = last_three();
    assert_memory_equal(&seen, &expected, sizeof seen);
    for (int i = 0; i < 3; ++i) {
        assert_int_equal(seen.args[i].step, i + 1);
    }
}

static caller planned_three(void **workspace)
{
    fixture.fill = 1;
    fixture.adjust = launch_three;
    caller with = planned();
    assert_ok(with.device->ops->allocate(with.device, 4096, workspace));
    with.call.workspace = *workspace;
    with.call.workspace_bytes = 1024;
    return with;
}

static void three_kernels_come_again_too(void **state)
{
    (void)state;
    void *workspace = NULL;
    caller with = planned_three(&workspace);
    assert_non_null(with.plan->recents);
    executes_three(&with, 3, 0); /* Q, K, and K for the second; the third takes those of the first */
    executes_three(&with, 0, 0);
    executes_three(&with, 0, 0);
    const three seen = last_three();
    assert_int_equal(seen.args[0].map[0].opaque[0], (uintptr_t)with.call.tensor[ATTUNE_Q].data);
    assert_int_equal(seen.args[0].map[1].opaque[0], (uintptr_t)with.call.tensor[ATTUNE_K].data);
    assert_int_equal(seen.args[1].map[0].opaque[0], (uintptr_t)with.call.tensor[ATTUNE_K].data);
    assert_int_equal(seen.args[2].map[0].opaque[0], (uintptr_t)with.call.tensor[ATTUNE_Q].data);
    assert_int_equal(seen.grid[0], 8);
    assert_int_equal(seen.grid[2], 64);
    with.device->ops->release(with.device, workspace);
    done(&with);
}

static void three_kernels_change_by_what_differs(void **state)
{
    (void)state;
    void *workspace = NULL;
    caller with = planned_three(&workspace);
    executes_three(&with, 3, 0);
    shift(&with, ATTUNE_Q, 256);
    executes_three(&with, 0, 1);
    shift(&with, ATTUNE_K, 512);
    executes_three(&with, 0, 2);
    shift(&with, ATTUNE_O, 512);
    executes_three(&with, 0, 0);
    with.call.seqlen_kv = 31;
    executes_three(&with, 2, 0);
    with.call.seqlen_kv = 30;
    shift(&with, ATTUNE_Q, 256);
    executes_three(&with, 2, 1);
    with.call.seqlen_q = 63;
    executes_three(&with, 1, 0);
    with.call.workspace = (char *)workspace + 1024;
    executes_three(&with, 0, 0);
    assert_ptr_equal(last_three().args[1].workspace, with.call.workspace);
    with.call.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_HEAD] += DIM;
    with.call.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_BATCH] += 4 * (int64_t)DIM;
    executes_three(&with, 2, 0);
    with.device->ops->release(with.device, workspace);
    done(&with);
}

/* One kernel with more maps than attune_args has room for: its block has them between header and tensors. */
static void map_all(attune_steps *steps)
{
    attune_step_kernel *kernel = &steps->step[steps->count - 1].as.kernel;
    kernel->map_count = MANY_MAPS;
    for (int i = 0; i < MANY_MAPS; ++i) {
        kernel->map[i] = map_of(i % 4, 8 + i);
        kernel->map[i].name[0] = (char)('A' + i);
    }
}

static void check_many_maps(const caller *with)
{
    attune_tensor tensor[ATTUNE_ROLES_FORWARD];
    attune_tensor_map map[MANY_MAPS];
    memcpy(map, fake->param + offsetof(attune_args, map), sizeof map);
    memcpy(tensor, fake->param + offsetof(attune_args, map) + sizeof map, sizeof tensor);
    for (int i = 0; i < MANY_MAPS; ++i) {
        assert_int_equal(map[i].opaque[0], (uintptr_t)with->call.tensor[i % 4].data);
        assert_int_equal(map[i].opaque[3] >> 32, 8 + i);
    }
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        assert_ptr_equal(tensor[role].data, with->call.tensor[role].data);
    }
    assert_null(tensor[ATTUNE_LSE].data);
    assert_int_equal(fake->args.seqlen_kv, with->call.seqlen_kv);
}

static void there_may_be_many_maps(void **state)
{
    (void)state;
    fixture.adjust = map_all;
    fake->param_bytes = at_args_bytes(MANY_MAPS, ATTUNE_ROLES_FORWARD);
    caller with = planned();
    for (int i = 0; i < 3; ++i) {
        execute_times(&with, 1);
        check_many_maps(&with);
    }
    assert_int_equal(fake->map_encodes, MANY_MAPS);
    shift(&with, ATTUNE_V, 256);
    execute_times(&with, 1);
    check_many_maps(&with);
    assert_int_equal(fake->map_moves, 2);
    with.call.seqlen_kv = 5;
    execute_times(&with, 1);
    check_many_maps(&with);
    assert_int_equal(fake->map_encodes, MANY_MAPS + 4); /* two of K, two of V */
    done(&with);
}

/* One kernel over rows of keys, of which there may be none. */
static void map_queries_by_keys(attune_steps *steps)
{
    map_queries(steps);
    steps->step[steps->count - 1].as.kernel.grid[0] = attune_term_size(ATTUNE_SIZE_SEQLEN_KV);
}

/* Where nothing is launched no map is made, and then, once something is, it is. */
static void maps_of_an_empty_grid_are_made_later(void **state)
{
    (void)state;
    fixture.adjust = map_queries_by_keys;
    caller with = planned();
    with.call.seqlen_kv = 0;
    execute_times(&with, 1);
    shift(&with, ATTUNE_Q, 256);
    execute_times(&with, 2);
    assert_int_equal(fake->launches, 0);
    assert_int_equal(fake->map_encodes + fake->map_moves, 0);
    with.call.seqlen_kv = 64;
    executes(&with, 1, 0);
    with.call.seqlen_kv = 0;
    shift(&with, ATTUNE_Q, 256);
    execute_times(&with, 1);
    with.call.seqlen_kv = 63;
    executes(&with, 1, 0);
    with.call.seqlen_kv = 62;
    executes(&with, 0, 0);
    done(&with);
}

/* Two calls in turns, which differ in batch; some threads at the same two. */
static void *execute_from_elsewhere(void *context)
{
    const caller *with = context;
    caller own = *with;
    for (int i = 0; i < ROUNDS; ++i) {
        own.call.batch = 1 + i / 3 % 2;
        own.call.tensor[ATTUNE_Q].data = (char *)with->buffer[ATTUNE_Q] + (ptrdiff_t)(i % 7) * 256;
        if (attune_plan_execute(own.plan, &own.call) != ATTUNE_OK || fake->current() != NULL) {
            return context;
        }
    }
    return NULL;
}

static void any_thread_may_execute(void **state)
{
    pthread_t thread[THREADS];
    (void)state;
    caller with = planned();
    for (int i = 0; i < THREADS; ++i) {
        assert_int_equal(pthread_create(&thread[i], NULL, execute_from_elsewhere, &with), 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        void *failed = &with;
        assert_int_equal(pthread_join(thread[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(fake->launches, THREADS * ROUNDS);
    assert_int_equal(fake->strayed, 0);
    for (int batch = 1; batch <= 2; ++batch) {
        with.call.batch = batch;
        for (int i = 0; i < 3; ++i) {
            execute_times(&with, 1);
            assert_int_equal(fake->args.batch, batch);
            assert_int_equal(fake->config.grid[0], 4 * batch);
        }
    }
    done(&with);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_call_that_comes_again_is_launched_as_it_was, forget),
        cmocka_unit_test_setup(a_fill_before_the_kernel_comes_again_too, forget),
        cmocka_unit_test_setup(what_differs_is_seen, forget),
        cmocka_unit_test_setup(a_failed_launch_is_reported_each_time, forget),
        cmocka_unit_test_setup(what_is_elsewhere_is_moved, forget),
        cmocka_unit_test_setup(what_is_wrong_elsewhere_is_seen, forget),
        cmocka_unit_test_setup(a_workspace_may_be_elsewhere, forget),
        cmocka_unit_test_setup(addresses_are_asked_about_once, forget),
        cmocka_unit_test_setup(many_calls_in_turns, forget),
        cmocka_unit_test_setup(three_kernels_come_again_too, forget),
        cmocka_unit_test_setup(three_kernels_change_by_what_differs, forget),
        cmocka_unit_test_setup(there_may_be_many_maps, forget),
        cmocka_unit_test_setup(maps_of_an_empty_grid_are_made_later, forget),
        cmocka_unit_test_setup(any_thread_may_execute, forget),
    };
    return cmocka_run_group_tests(tests, driven_find, NULL);
}
