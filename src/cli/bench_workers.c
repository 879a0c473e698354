#include "cli/bench_workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/random.h"
#include "base/status.h"
#include "cli/python.h"
#include "judge/executor.h"
#include "judge/timed_case.h"
#include "stranger/stranger.h"
#include "worker/remote.h"

/* One arm in its worker. */
typedef struct lane {
    const struct bench_job *of;
    int entry; /* its number among the names */
    const char *name;
    at_found_kernel found; /* a folder's; else its stranger is NULL */
    at_device *worker;
    at_timed timed;
    at_executor executor;
    at_random sets;
    attune_arm arm; /* its name: what runs it is the worker */
} lane;

typedef struct bench_job {
    const at_bench_workers_options *options;
    const attune_problem *problem;
    at_timed_case ground;
    int count;
    lane *lane; /* those that are ready */
} bench_job;

static bool is_folder(const char *name)
{
    return !at_arms_python(name) && at_stranger_is_meant(name);
}

bool at_bench_wants_workers(const at_arm_names *names, attune_target_kind target)
{
    bool wants = false;
    for (int i = 0; i < names->count && !wants; ++i) {
        at_found_kernel found = {.params = ""};
        wants = at_arms_python(names->name[i]);
        wants = wants || (target == ATTUNE_TARGET_CPU && is_folder(names->name[i]) &&
                          at_kernel_find(names->name[i], NULL, &found) == ATTUNE_OK &&
                          found.kernel->target == ATTUNE_TARGET_CPU);
        at_found_kernel_close(&found);
    }
    return wants;
}

/* A stranger's code for a CPU runs in its worker; a device's does not. */
static bool is_confined(const lane *on)
{
    return on->found.stranger != NULL && on->found.kernel->target == ATTUNE_TARGET_CPU;
}

/* ---- What an executor asks of its lane --------------------------------------------------------------------------- */

static attune_status get_worker(void *self, int process, at_device **device)
{
    static const char *const command[] = {"/proc/self/exe", "worker", NULL};
    lane *on = self;
    const at_bench_workers_options *options = on->of->options;
    const char *python[4];
    at_cli_python_worker(python);
    const at_remote_options remote = {.command = at_arms_python(on->name) ? python : command,
                                      .target = options->target,
                                      .isa = options->isa,
                                      .threads = options->threads,
                                      .confined = is_confined(on)};
    (void)process;
    AT_FORWARD(on->worker != NULL ? ATTUNE_OK : at_remote_open(&remote, &on->worker));
    *device = on->worker;
    return ATTUNE_OK;
}

static attune_status make_plan(void *self, int arm, at_device *device, attune_plan **plan)
{
    const lane *on = self;
    (void)arm; /* the only one */
    return on->found.stranger != NULL
               ? at_stranger_plan(on->found.stranger, device, on->of->problem, on->found.params, plan)
               : at_remote_plan(device, on->of->problem, on->name, plan);
}

/* Functions in Python make an O alone. */
static attune_status judge_without_lse(const at_timed_case *ground)
{
    at_finding finding;
    attune_args args = *ground->truth.one.args;
    at_case one = ground->truth.one;
    args.tensor[ATTUNE_LSE].data = NULL;
    one.args = &args;
    return at_judge_case(&one, &finding, NULL);
}

static attune_status judge(void *self, at_inputs *inputs)
{
    const lane *on = self;
    (void)inputs; /* they are the ground's own */
    return at_arms_python(on->name) ? judge_without_lse(&on->of->ground) : at_timed_case_judge(&on->of->ground);
}

/* ---- Lanes ------------------------------------------------------------------------------------------------------- */

static void close_lane(lane *on)
{
    at_timed_close(&on->timed);
    if (on->worker != NULL) {
        on->worker->ops->close(on->worker);
    }
    at_found_kernel_close(&on->found);
}

static attune_status open_lane(lane *on)
{
    at_staged staged = {.calls = {0}};
    AT_FORWARD(is_folder(on->name) ? at_kernel_find(on->name, NULL, &on->found) : ATTUNE_OK);
    on->timed = (at_timed){.problem = *on->of->problem,
                           .inputs = (at_inputs *)(uintptr_t)&on->of->ground.inputs,
                           .arm = &on->name,
                           .arm_count = 1,
                           .worker = get_worker,
                           .plan = make_plan,
                           .judge = judge,
                           .self = on,
                           .confined = is_confined(on)};
    on->executor = at_timed_executor(&on->timed);
    AT_FORWARD(on->executor.start(on->executor.self, 0));
    return on->executor.stage(on->executor.self, AT_MODE_WARM, &staged);
}

/* A kernel that ends its worker is at fault by itself, and no machine. */
static attune_status try_lane(lane *on)
{
    char why[512];
    attune_status status = open_lane(on);
    (void)snprintf(why, sizeof why, "%s", attune_last_detail());
    bool died = status == ATTUNE_DEVICE_ERROR;
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail(died ? ATTUNE_UNSUPPORTED : status, "%s", why);
}

static attune_status open_lanes(bench_job *on, const at_arm_names *names, at_bench_setup *setup)
{
    on->lane = calloc((size_t)names->count, sizeof *on->lane);
    AT_FAIL_IF(on->lane == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d arms", names->count);
    for (int i = 0; i < names->count; ++i) {
        lane *made = &on->lane[on->count];
        *made = (lane){.of = on, .entry = i, .name = names->name[i], .found = {.params = ""}};
        AT_FORWARD(at_bench_blame(&setup->entry[setup->count++], try_lane(made)));
        if (setup->entry[i].state == AT_ENTRY_READY) {
            ++on->count;
        } else {
            close_lane(made);
            *made = (lane){0};
        }
        AT_FAIL_IF(at_file_interrupted(), ATTUNE_INTERRUPTED, "interrupted");
    }
    return ATTUNE_OK;
}

/* ---- Timing ------------------------------------------------------------------------------------------------------ */

/* One sample of a lane, which is long enough: the time of a call. */
static attune_status take(void *self, int64_t runs, double *ns)
{
    static const int first[] = {0};
    lane *on = self;
    *ns = 0;
    for (int64_t i = 0; i < runs; ++i) {
        const at_block_order order = {first, 1, at_random_next(&on->sets), 0};
        at_block block = {.mode = AT_MODE_WARM};
        AT_FORWARD(on->executor.block(on->executor.self, &order, &block));
        AT_FAIL_IF(block.wrong[0] > 0, ATTUNE_WRONG_RESULT,
                   "a timed call gave another result than before it was timed");
        *ns += 1e3 * block.us[0][0];
    }
    return ATTUNE_OK;
}

static attune_status time_lanes(bench_job *on, at_samples *samples)
{
    at_bound bound[AT_LIST_ARMS_MAX];
    for (int i = 0; i < on->count; ++i) {
        lane *one = &on->lane[i];
        one->sets = at_random_seed(on->options->how->seed, (uint64_t)i);
        one->arm = (attune_arm){.name = one->name};
        bound[i] = (at_bound){.arm = &one->arm, .calls = 1, .time = take, .time_self = one};
    }
    return on->count == 0 ? ATTUNE_OK : at_interleave_run(on->options->how, bound, on->count, samples);
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

attune_status at_bench_workers_run(const at_bench_workers_options *options, const at_test_problem *test,
                                   const at_arm_names *names, at_bench_setup *setup, at_samples *samples)
{
    bench_job on = {.options = options, .problem = &test->problem};
    memset(setup, 0, sizeof *setup);
    AT_FORWARD(at_test_problem_print(test, setup->problem_text, sizeof setup->problem_text));
    attune_status status = at_timed_case_draw(test, options->how->seed, false, options->pool, NULL, &on.ground);
    status = status == ATTUNE_OK ? open_lanes(&on, names, setup) : status;
    status = status == ATTUNE_OK ? time_lanes(&on, samples) : status;
    for (int i = 0; on.lane != NULL && i < names->count; ++i) {
        close_lane(&on.lane[i]);
    }
    free(on.lane);
    /* Whoever prints rows asks for the problem, and how many bytes its tensors have. */
    setup->work.inputs.problem = test->problem;
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        setup->work.inputs.buffer[role].bytes = on.ground.inputs.buffer[role].bytes;
    }
    at_timed_case_free(&on.ground);
    return status;
}
