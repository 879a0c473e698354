/* A call between pages that are not there, on inputs that cannot be written: of a CPU's buffers and of a GPU's, whose
 * driver maps the host's memory here. */
#include "cuda/driven.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/problem.h"
#include "worker/worker_ops.h"

enum { ROWS = 5, DIM = 8, COUNT = ROWS * DIM };

static at_device *gpu;
static at_device cpu = {.target = {.kind = ATTUNE_TARGET_CPU}};
static int pipes[2];

static int open_all(void **state)
{
    return driven_find(state) == 0 && driven_forget(state) == 0 && pipe(pipes) == 0 &&
                   fcntl(pipes[0], F_SETFL, O_NONBLOCK) == 0 && at_cuda_open(0, "", NULL, &gpu) == ATTUNE_OK
               ? 0
               : -1;
}

static int close_all(void **state)
{
    (void)state;
    gpu->ops->close(gpu);
    return close(pipes[0]) + close(pipes[1]);
}

/* Asked of the system, which says it without ending anything. */
static bool can_read(const void *at)
{
    char byte;
    return syscall(SYS_write, pipes[1], at, 1L) == 1 && read(pipes[0], &byte, 1) == 1;
}

static bool can_write(void *at)
{
    char byte = *(char *)at;
    const bool written = write(pipes[1], &byte, 1) == 1 && read(pipes[0], at, 1) == 1;
    while (read(pipes[0], &byte, 1) == 1) { /* what could not be written is still there */
    }
    return written;
}

typedef struct seen {
    int calls;
    bool apart, locked, ends, kept; /* of all buffers */
} seen;

static _Alignas(16) float q[COUNT], k[COUNT], v[COUNT], o[COUNT];

static attune_status look(void *context, const attune_call *call)
{
    const float *const was[] = {[ATTUNE_Q] = q, [ATTUNE_K] = k, [ATTUNE_V] = v, [ATTUNE_O] = o};
    seen *on = context;
    ++on->calls;
    on->apart = on->locked = on->ends = on->kept = true;
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        char *data = call->tensor[role].data;
        on->apart &= (const float *)(void *)data != was[role] && (uintptr_t)data % 16 == 0;
        on->kept &= memcmp(data, was[role], sizeof q) == 0;
        on->ends &= can_read(data) && can_read(data + sizeof q - 1) && !can_read(data + sizeof q + 15);
        on->locked &= !on->apart || can_write(data) == (role == ATTUNE_O);
    }
    if (on->apart) {
        ((float *)call->tensor[ATTUNE_O].data)[COUNT - 1] = 77.0f;
    }
    return ATTUNE_OK;
}

static attune_status refuse(void *context, const attune_call *call)
{
    (void)call;
    ++*(int *)context;
    return ATTUNE_WRONG_RESULT;
}

static void draw(attune_problem *problem, attune_call *call)
{
    float *const buffers[] = {[ATTUNE_Q] = q, [ATTUNE_K] = k, [ATTUNE_V] = v, [ATTUNE_O] = o};
    assert_ok(attune_problem_parse("b1,h1,s5,d8,fp32", problem));
    attune_call_init(call, problem);
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        for (int i = 0; i < COUNT; ++i) {
            buffers[role][i] = (float)(100 * role + i);
        }
        call->tensor[role].data = buffers[role];
    }
}

static void look_between_pages(at_device *device, bool locks)
{
    attune_problem problem;
    attune_call call;
    seen on = {0};
    int failed = 0;
    draw(&problem, &call);
    assert_ok(at_fence_run(device, &problem, &call, look, &on));
    assert_true(on.calls == 1 && on.apart && on.kept && on.ends);
    assert_int_equal(on.locked, locks);
    assert_true(o[COUNT - 1] == 77.0f && o[0] == 300.0f && q[COUNT - 1] == COUNT - 1);
    assert_int_equal(at_fence_run(device, &problem, &call, refuse, &failed), ATTUNE_WRONG_RESULT);
    assert_int_equal(failed, 1);
    assert_int_equal(fake->mappings, 0);
}

static void buffers_of_a_cpu(void **state)
{
    (void)state;
    look_between_pages(&cpu, true);
}

static void buffers_of_a_gpu(void **state)
{
    (void)state;
    look_between_pages(gpu, true);
}

/* Who locks before copies are done has the copies write where nothing can be written. */
static void copies_that_come_late(void **state)
{
    (void)state;
    fake->late = 1;
    look_between_pages(gpu, true);
}

/* What a driver cannot do is left out, and so is what there is no memory for. */
static void drivers_that_lack_something(void **state)
{
    attune_problem problem;
    attune_call call;
    seen on = {0};
    (void)state;
    fake->locking = AT_CU_NOT_SUPPORTED;
    look_between_pages(gpu, false);
    fake->mapping = AT_CU_NOT_SUPPORTED;
    draw(&problem, &call);
    assert_ok(at_fence_run(gpu, &problem, &call, look, &on));
    assert_true(on.calls == 1 && !on.apart);
    fake->mapping = AT_CU_SUCCESS;
    fake->memory = 16;
    assert_ok(at_fence_run(gpu, &problem, &call, look, &on));
    assert_true(on.calls == 2 && !on.apart);
    assert_int_equal(fake->mappings, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(buffers_of_a_cpu, driven_forget),
        cmocka_unit_test_setup(buffers_of_a_gpu, driven_forget),
        cmocka_unit_test_setup(copies_that_come_late, driven_forget),
        cmocka_unit_test_setup(drivers_that_lack_something, driven_forget),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
