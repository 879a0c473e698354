/* Timing on a CUDA device. Each arm is a graph of calls, every call with an output and a workspace of its own at
 * irregular distances. Around each replay, outside the time: shared memory filled, outputs and workspaces poisoned,
 * inputs brought into the cache (warm), the device kept busy until the host has enqueued everything; and after it every
 * output is looked at on the device. docs/measuring.md has the reasons. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "base/status.h"
#include "core/problem.h"
#include "cuda/graph.h"
#include "cuda/nvml.h"
#include "library/placement.h"
#include "measure/clock.h"
#include "measure/statistics.h"
#include "worker/filling.h"
#include "worker/timing.h"
#include "worker/watch.h"

extern const attune_kernel at_kernel_harness;

/* The harness's stages. */
enum { REFILL, POISON, TOUCH, COMPARE, WAIT, STAGES };

enum {
    WARM_CALLS_MAX = 64,
    COLD_CALLS_MAX = 1024,
    SAMPLE_US = 300,       /* of a warm sample at most, but for one call: a grain of 0.5 us is a sixth of a percent */
    WAIT_NS_FIRST = 40000, /* doubles where the host needs longer to enqueue a replay, */
    WAIT_SHRINKS = 64,     /* and shrinks by such a share after each that was in time */
    WAIT_NS_MAX = 20000000
};

typedef struct cuda_arm {
    const attune_arm *of;
    int calls;
    double share;            /* by how much outputs may be off; 0: not by a bit */
    void *slab;              /* outputs and workspaces */
    attune_tensor validated; /* the arm's own result on the base, laid out as its outputs are */
    attune_tensor *output;   /* of each call */
    uint64_t *range;         /* address and bytes of all that is poisoned */
    int ranges;
    void *output_table, *range_table, *flags; /* on the device */
    void *captured;                           /* a graph of the arm's own making */
    at_cuda_graph *graph;
} cuda_arm;

typedef struct cuda_timing {
    at_timing base;
    at_device *device;
    void *stream, *begin, *end;
    at_nvml *nvml; /* NULL: no clocks */
    bool others;   /* compute on the device, by the last look */
    at_random random;
    int sets;
    void *input_slab, *input_table;
    attune_call *set;   /* of each input set; no O */
    uint64_t transform; /* that the input sets apply */
    int64_t wait_ns;
    at_loaded *harness[STAGES];
    at_fillers fillers;
    cuda_arm arm[AT_SESSION_ARMS_MAX];
} cuda_timing;

static cuda_timing *of(at_timing *timing)
{
    return (cuda_timing *)timing;
}

/* ---- The harness ------------------------------------------------------------------------------------------------- */

/* The harness moves elements of one type. */
static attune_status check_types(const attune_problem *problem)
{
    for (int role = ATTUNE_K; role <= ATTUNE_O; ++role) {
        const int its = at_problem_dtype(problem, role);
        AT_FAIL_IF(its != problem->dtype, ATTUNE_UNSUPPORTED,
                   "%s in %s beside %s: on CUDA only calls whose tensors have one type are timed by the gate",
                   at_role_name(role), at_dtype_name(its), at_dtype_name(problem->dtype));
    }
    return ATTUNE_OK;
}

static attune_status load_harness(cuda_timing *on)
{
    attune_problem problem;
    AT_FORWARD(check_types(&on->base.wanted.problem));
    AT_FORWARD(attune_problem_parse("b1,h1,s32,d64,fp32", &problem));
    problem.dtype = on->base.wanted.problem.dtype;
    for (int stage = 0; stage < STAGES; ++stage) {
        const attune_config config = {{stage}};
        at_recipe recipe;
        AT_FORWARD(at_recipe_ask(&at_kernel_harness, &problem, &on->device->target, &config, &recipe));
        AT_FORWARD(on->device->ops->load(on->device, &recipe, &on->harness[stage]));
    }
    return ATTUNE_OK;
}

/* The args that every stage of the harness understands. */
static attune_args harness_args(const cuda_timing *on, const void *table, int64_t entries)
{
    const at_transform_map *transformed = &on->base.transformed;
    attune_args args = {.size = sizeof args,
                        .abi = ATTUNE_ABI,
                        .dtype = (attune_i32)on->base.wanted.problem.dtype,
                        .batch = transformed->batch,
                        .heads_q = transformed->role[ATTUNE_Q].heads,
                        .heads_kv = transformed->heads_kv,
                        .seqlen_q = transformed->role[ATTUNE_Q].rows,
                        .seqlen_kv = transformed->role[ATTUNE_K].rows,
                        .total_q = entries,
                        .total_kv = transformed->role[ATTUNE_K].batch * transformed->role[ATTUNE_K].rows,
                        .head_dim_qk = (attune_i32)transformed->role[ATTUNE_Q].columns,
                        .head_dim_v = (attune_i32)transformed->role[ATTUNE_O].columns,
                        .window_left = on->sets,
                        .window_right = transformed->moves};
    for (int role = 0; role <= ATTUNE_O; ++role) {
        args.tensor[role] = transformed->role[role].tensor;
    }
    args.tensor[ATTUNE_BIAS].data = (void *)(uintptr_t)table;
    return args;
}

static attune_status launch(const cuda_timing *on, int stage, attune_args *args)
{
    return at_launch_args(on->harness[stage], args, on->stream);
}

static attune_status refill(cuda_timing *on, uint64_t transform)
{
    attune_args args = harness_args(on, on->input_table, on->sets);
    args.offset = (attune_i64)transform;
    on->transform = transform;
    return launch(on, REFILL, &args);
}

/* Any byte: no kernel is to know a timed call by what its outputs held. */
static attune_status poison(cuda_timing *on, const cuda_arm *arm)
{
    attune_args args = harness_args(on, arm->range_table, arm->ranges);
    args.offset = (attune_i64)at_random_below(&on->random, 256);
    return launch(on, POISON, &args);
}

/* Before a graph's first call shared memory, registers and, of who has one, the stack are no kernel's that is timed. */
static attune_status fill(cuda_timing *on, const cuda_arm *arm)
{
    const attune_plan *plan = at_arm_plan(arm->of);
    return at_fillers_run(&on->fillers, on->device, plan != NULL ? plan->loaded : NULL, at_filling_draw(&on->random),
                          on->stream);
}

static attune_status touch(const cuda_timing *on)
{
    attune_args args = harness_args(on, on->input_table, on->sets);
    args.workspace = on->input_slab;
    return launch(on, TOUCH, &args);
}

/* Compares all outputs with `wanted` under the transform that the inputs apply; flags stay up until they are read. */
static attune_status look(const cuda_timing *on, const cuda_arm *arm, const attune_tensor *wanted, double share)
{
    attune_args args = harness_args(on, arm->output_table, arm->calls);
    args.tensor[ATTUNE_O] = *wanted;
    args.tensor[ATTUNE_LSE] = arm->output[0];
    args.offset = (attune_i64)on->transform;
    args.scale = (float)share;
    args.workspace = arm->flags;
    return launch(on, COMPARE, &args);
}

static attune_status keep_busy(const cuda_timing *on)
{
    attune_args args = harness_args(on, NULL, 1);
    args.offset = on->wait_ns;
    return launch(on, WAIT, &args);
}

static attune_status wait_for_all(const cuda_timing *on)
{
    return on->device->ops->synchronise(on->device, on->stream);
}

/* Reads and clears an arm's flags. */
static attune_status count_wrong(const cuda_timing *on, const cuda_arm *arm, int *wrong)
{
    uint32_t flags[COLD_CALLS_MAX];
    size_t bytes = (size_t)arm->calls * sizeof flags[0];
    *wrong = 0;
    AT_FORWARD(wait_for_all(on));
    AT_FORWARD(on->device->ops->download(on->device, flags, arm->flags, bytes));
    for (int i = 0; i < arm->calls; ++i) {
        *wrong += flags[i] != 0;
    }
    if (*wrong > 0) {
        memset(flags, 0, bytes);
        AT_FORWARD(on->device->ops->upload(on->device, arm->flags, flags, bytes));
    }
    return ATTUNE_OK;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* Lays out pieces at irregular distances, so that no piece's address follows from another's. */
typedef struct layout {
    at_random *random;
    size_t used;
} layout;

static size_t place(layout *in, size_t bytes)
{
    size_t at = in->used;
    in->used += at_placement_spaced(in->random, bytes);
    return at;
}

static attune_status put_table(const cuda_timing *on, const uint64_t *entries, size_t count, void **table)
{
    AT_FORWARD(on->device->ops->allocate(on->device, count * sizeof *entries, table));
    return on->device->ops->upload(on->device, *table, entries, count * sizeof *entries);
}

/* ---- Inputs ------------------------------------------------------------------------------------------------------ */

/* Cold: three times the L2. One call that is as large by itself finds nothing that serves it. */
static int choose_sets(const cuda_timing *on)
{
    size_t bytes = at_timing_call_bytes(&on->base);
    size_t wanted = 3 * (size_t)on->device->target.memory_l2_bytes;
    size_t sets = bytes > 0 ? (wanted + bytes - 1) / bytes : 1;
    return on->base.wanted.mode != AT_MODE_COLD ? 1 : sets > COLD_CALLS_MAX ? COLD_CALLS_MAX : (int)sets;
}

static attune_status make_inputs(cuda_timing *on)
{
    layout in = {&on->random, 0};
    on->sets = choose_sets(on);
    size_t count = 3 * (size_t)on->sets;
    uint64_t *entry = calloc(count, sizeof *entry);
    on->set = calloc((size_t)on->sets, sizeof *on->set);
    attune_status status = entry == NULL || on->set == NULL
                               ? at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for %d input sets", on->sets)
                               : ATTUNE_OK;
    for (size_t i = 0; i < count && status == ATTUNE_OK; ++i) {
        entry[i] = place(&in, on->base.transformed.role[i / (size_t)on->sets].bytes);
    }
    status = status == ATTUNE_OK ? on->device->ops->allocate(on->device, in.used, &on->input_slab) : status;
    for (size_t i = 0; i < count && status == ATTUNE_OK; ++i) {
        size_t role = i / (size_t)on->sets;
        attune_call *call = &on->set[i % (size_t)on->sets];
        entry[i] += (uintptr_t)on->input_slab;
        if (role == 0) {
            *call = on->base.wanted.call;
            call->stream = on->stream;
            call->tensor[ATTUNE_LSE].data = NULL;
        }
        call->tensor[role].data = (void *)(uintptr_t)entry[i];
    }
    status = status == ATTUNE_OK ? put_table(on, entry, count, &on->input_table) : status;
    free(entry);
    return status;
}

/* ---- Arms -------------------------------------------------------------------------------------------------------- */

static attune_status workspace_of(const cuda_timing *on, const cuda_arm *arm, size_t *bytes)
{
    attune_call call = on->set[0];
    call.tensor[ATTUNE_O] = on->base.wanted.call.tensor[ATTUNE_O];
    return at_arm_workspace(arm->of, &call, bytes);
}

/* Warm outputs and workspaces take at most half of the L2; cold, each input set is used once. */
static int choose_calls(const cuda_timing *on, size_t workspace, int most)
{
    size_t bytes = on->base.transformed.role[ATTUNE_O].bytes + workspace;
    size_t fits = (size_t)on->device->target.memory_l2_bytes / 2 / (bytes > 0 ? bytes : 1);
    if (on->base.wanted.mode == AT_MODE_COLD) {
        return on->sets;
    }
    return fits < 1 ? 1 : fits > (size_t)most ? most : (int)fits;
}

static void add_range(cuda_arm *arm, const void *data, size_t bytes)
{
    if (bytes > 0) {
        arm->range[2 * arm->ranges] = (uintptr_t)data;
        arm->range[2 * arm->ranges + 1] = bytes;
        ++arm->ranges;
    }
}

/* Calls with outputs and workspaces in a slab of the arm's own. */
static attune_status make_calls(cuda_timing *on, cuda_arm *arm, size_t workspace, attune_call *call)
{
    layout in = {&on->random, 0};
    size_t output = on->base.transformed.role[ATTUNE_O].bytes;
    for (int i = 0; i < arm->calls; ++i) {
        call[i] = on->set[i % on->sets];
        call[i].tensor[ATTUNE_O].data = (void *)(uintptr_t)place(&in, output);
        call[i].workspace = workspace > 0 ? (void *)(uintptr_t)place(&in, workspace) : NULL;
        call[i].workspace_bytes = workspace;
    }
    AT_FORWARD(on->device->ops->allocate(on->device, in.used, &arm->slab));
    for (int i = 0; i < arm->calls; ++i) {
        char *base = arm->slab;
        call[i].tensor[ATTUNE_O].data = base + (uintptr_t)call[i].tensor[ATTUNE_O].data;
        call[i].workspace = workspace > 0 ? base + (uintptr_t)call[i].workspace : NULL;
        arm->output[i] = call[i].tensor[ATTUNE_O];
        add_range(arm, call[i].tensor[ATTUNE_O].data, output);
        add_range(arm, call[i].workspace, workspace);
    }
    return ATTUNE_OK;
}

/* The arm's own graph, its outputs where it puts them. */
static attune_status take_graph(cuda_timing *on, cuda_arm *arm, const attune_call *call)
{
    const at_transform_role *result = &on->base.transformed.role[ATTUNE_O];
    AT_FORWARD(arm->of->capture(arm->of->self, call, arm->calls, &arm->captured, arm->output));
    for (int i = 0; i < arm->calls; ++i) {
        const attune_tensor *output = &arm->output[i];
        AT_FAIL_IF(output->data == NULL || output->dtype != result->tensor.dtype ||
                       memcmp(output->stride, arm->output[0].stride, sizeof output->stride) != 0,
                   ATTUNE_INVALID_ARGUMENT, "output %d of %d lies otherwise than the first, or nowhere", i, arm->calls);
    }
    return at_cuda_graph_take(on->device, arm->captured, on->stream, &arm->graph);
}

static attune_status make_graph(cuda_timing *on, cuda_arm *arm, size_t workspace)
{
    attune_call *call = calloc((size_t)arm->calls, sizeof *call);
    AT_FAIL_IF(call == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d calls", arm->calls);
    attune_status status = ATTUNE_OK;
    if (arm->of->capture != NULL) {
        for (int i = 0; i < arm->calls; ++i) {
            call[i] = on->set[i % on->sets];
        }
        status = take_graph(on, arm, call);
        for (int i = 0; i < arm->calls && status == ATTUNE_OK; ++i) {
            add_range(arm, arm->output[i].data, at_transform_result_bytes(&on->base.transformed, &arm->output[i]));
        }
    } else {
        status = make_calls(on, arm, workspace, call);
        status = status != ATTUNE_OK ? status
                                     : at_arm_capture(on->device, arm->of, call, arm->calls, on->stream, &arm->graph);
    }
    free(call);
    return status;
}

static attune_status make_tables(cuda_timing *on, cuda_arm *arm)
{
    uint64_t entry[COLD_CALLS_MAX] = {0};
    size_t flags = (size_t)arm->calls * sizeof(uint32_t);
    AT_FORWARD(on->device->ops->allocate(on->device, flags, &arm->flags));
    AT_FORWARD(on->device->ops->upload(on->device, arm->flags, entry, flags));
    for (int i = 0; i < arm->calls; ++i) {
        entry[i] = (uintptr_t)arm->output[i].data;
    }
    AT_FORWARD(put_table(on, entry, (size_t)arm->calls, &arm->output_table));
    return put_table(on, arm->range, 2 * (size_t)arm->ranges, &arm->range_table);
}

static void free_arm(cuda_timing *on, cuda_arm *arm)
{
    void *buffers[] = {arm->slab, arm->validated.data, arm->output_table, arm->range_table, arm->flags};
    at_cuda_graph_destroy(arm->graph);
    if (arm->captured != NULL) {
        arm->of->release(arm->of->self, arm->captured);
    }
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; ++i) {
        on->device->ops->release(on->device, buffers[i]);
    }
    free(arm->output);
    free(arm->range);
    *arm = (cuda_arm){.of = arm->of};
}

static attune_status build_arm(cuda_timing *on, cuda_arm *arm, int most)
{
    size_t workspace = 0;
    AT_FORWARD(workspace_of(on, arm, &workspace));
    arm->calls = choose_calls(on, workspace, most);
    arm->output = calloc((size_t)arm->calls, sizeof *arm->output);
    arm->range = calloc(4 * (size_t)arm->calls, sizeof *arm->range);
    AT_FAIL_IF(arm->output == NULL || arm->range == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d calls", arm->calls);
    AT_FORWARD(make_graph(on, arm, workspace));
    return make_tables(on, arm);
}

/* ---- One replay -------------------------------------------------------------------------------------------------- */

/* Enqueues everything; *late: the device had nothing to do before the host had enqueued the first replay. NOTE: a graph
 * may have to end before it can be launched again, so that more replays wait for one another by themselves. */
static attune_status enqueue_timed(cuda_timing *on, const cuda_arm *arm, int replays, bool *late)
{
    AT_FORWARD(at_cuda_reset_cache(on->device));
    AT_FORWARD(fill(on, arm));
    AT_FORWARD(poison(on, arm));
    AT_FORWARD(on->base.wanted.mode == AT_MODE_COLD ? ATTUNE_OK : touch(on));
    AT_FORWARD(keep_busy(on));
    AT_FORWARD(at_cuda_event_record(on->device, on->begin, on->stream));
    AT_FORWARD(at_cuda_graph_launch(arm->graph, on->stream));
    AT_FORWARD(at_cuda_event_done(on->device, on->begin, late));
    for (int i = 1; i < replays; ++i) {
        AT_FORWARD(at_cuda_graph_launch(arm->graph, on->stream));
    }
    return at_cuda_event_record(on->device, on->end, on->stream);
}

/* Microseconds of a call. */
static attune_status time_replays(cuda_timing *on, const cuda_arm *arm, int replays, double *us)
{
    bool late = true;
    while (late) {
        AT_FORWARD(enqueue_timed(on, arm, replays, &late));
        AT_FORWARD(at_cuda_event_elapsed(on->device, on->begin, on->end, us));
        if (late) {
            AT_FAIL_IF(on->wait_ns >= WAIT_NS_MAX, ATTUNE_DEVICE_ERROR,
                       "%s: the host needs more than %d ms to enqueue %d calls", arm->of->name, WAIT_NS_MAX / 1000000,
                       arm->calls);
            on->wait_ns *= 2;
        }
    }
    on->wait_ns -= on->wait_ns > WAIT_NS_FIRST ? on->wait_ns / WAIT_SHRINKS : 0;
    *us /= (double)replays * arm->calls;
    return ATTUNE_OK;
}

/* ---- Making sure ------------------------------------------------------------------------------------------------- */

/* How far an arm's results may lie from the first arm's, and from its own on other days. */
static double generous_share(const cuda_timing *on, const cuda_arm *arm)
{
    return at_timing_share(&on->base, arm->of);
}

static double own_share(const cuda_timing *on, const cuda_arm *arm)
{
    return at_transform_share(&on->base.wanted.problem, arm->of->traits, false);
}

static attune_status replay_and_look(cuda_timing *on, cuda_arm *arm, const attune_tensor *wanted, double share,
                                     int *wrong)
{
    AT_FORWARD(fill(on, arm));
    AT_FORWARD(poison(on, arm));
    AT_FORWARD(at_cuda_graph_launch(arm->graph, on->stream));
    AT_FORWARD(look(on, arm, wanted, share));
    return count_wrong(on, arm, wrong);
}

/* Keeps the arm's own result on the base, to which later ones are compared bit by bit. The cold sets all apply their
 * own transforms, but set 0 of transform 0 is the base. */
static attune_status keep_result(cuda_timing *on, cuda_arm *arm)
{
    size_t bytes = at_transform_result_bytes(&on->base.transformed, &arm->output[0]);
    arm->validated = arm->output[0];
    arm->validated.data = NULL;
    AT_FORWARD(on->device->ops->allocate(on->device, bytes, &arm->validated.data));
    AT_FORWARD(at_cuda_copy(on->device, arm->validated.data, arm->output[0].data, bytes, on->stream));
    return wait_for_all(on);
}

/* A look must see poison for what it is, or it sees nothing. */
static attune_status check_look(cuda_timing *on, cuda_arm *arm)
{
    int wrong = 0;
    AT_FORWARD(poison(on, arm));
    AT_FORWARD(look(on, arm, &arm->validated, own_share(on, arm)));
    AT_FORWARD(count_wrong(on, arm, &wrong));
    AT_FAIL_IF(wrong != arm->calls, ATTUNE_INTERNAL, "%s: %d of %d poisoned outputs were seen", arm->of->name, wrong,
               arm->calls);
    return ATTUNE_OK;
}

/* The first arm's result was judged, in a call like any other: timed ones give the same bits, unless it says that they
 * need not. */
static double judged_share(const cuda_timing *on, const cuda_arm *arm)
{
    bool varies = (arm->of->traits & (ATTUNE_TRAIT_NONDETERMINISTIC | ATTUNE_TRAIT_BATCH_VARIANT)) != 0;
    return arm == &on->arm[0] && !varies ? 0 : generous_share(on, arm);
}

/* The arm's results are right on the base and under a transform; whether to the bit decides how they are compared. */
static attune_status check_arm(cuda_timing *on, cuda_arm *arm)
{
    double share = judged_share(on, arm);
    int wrong = 0;
    AT_FORWARD(refill(on, 0));
    AT_FORWARD(replay_and_look(on, arm, &on->base.transformed.role[ATTUNE_O].tensor, share, &wrong));
    AT_FAIL_IF(wrong > 0, ATTUNE_WRONG_RESULT,
               "timed outputs: %d of %d calls of %s differ from the validated result by more than %.2g of a row's "
               "largest (0: by a bit), before anything was timed",
               wrong, arm->calls, arm->of->name, share);
    AT_FORWARD(keep_result(on, arm));
    share = own_share(on, arm);
    AT_FORWARD(refill(on, 1 + at_random_below(&on->random, INT32_MAX)));
    AT_FORWARD(replay_and_look(on, arm, &arm->validated, 0, &wrong));
    arm->share = wrong > 0 || (arm->of->traits & ATTUNE_TRAIT_NONDETERMINISTIC) != 0 ? share : 0;
    if (wrong > 0) { /* its bits depend on where a head or row is */
        AT_FORWARD(replay_and_look(on, arm, &arm->validated, share, &wrong));
        AT_FAIL_IF(wrong > 0, ATTUNE_WRONG_RESULT,
                   "timed outputs: %d of %d calls of %s are wrong on other inputs than those validated", wrong,
                   arm->calls, arm->of->name);
    }
    return check_look(on, arm);
}

/* Samples of all arms last about as long, so that what a replay costs by itself is the same share of each. */
static attune_status limit_calls(cuda_timing *on, cuda_arm *arm)
{
    double us = 0;
    AT_FORWARD(time_replays(on, arm, 1, &us));
    if (on->base.wanted.mode == AT_MODE_COLD || arm->calls == 1 || us * arm->calls <= SAMPLE_US) {
        return ATTUNE_OK;
    }
    int most = (int)(SAMPLE_US / us);
    free_arm(on, arm);
    AT_FORWARD(build_arm(on, arm, most > 1 ? most : 1));
    return check_arm(on, arm);
}

static attune_status make_arm(cuda_timing *on, int index)
{
    cuda_arm *arm = &on->arm[index];
    const attune_arm *of = &on->base.wanted.arm[index]->arm;
    *arm = (cuda_arm){.of = of};
    attune_status status = build_arm(on, arm, WARM_CALLS_MAX);
    status = status == ATTUNE_OK ? check_arm(on, arm) : status;
    status = status == ATTUNE_OK ? limit_calls(on, arm) : status;
    on->base.calls[index] = arm->calls;
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "%s", of->name);
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------ */

static attune_status run_samples(cuda_timing *on, const at_block_order *order, at_block *block)
{
    int seen[AT_SESSION_ARMS_MAX] = {0};
    AT_FORWARD(refill(on, order->set));
    for (int i = 0; i < order->count; ++i) {
        cuda_arm *arm = &on->arm[order->arm[i]];
        AT_FORWARD(time_replays(on, arm, 1, &block->us[order->arm[i]][seen[order->arm[i]]++]));
        AT_FORWARD(look(on, arm, &arm->validated, arm->share));
        if (order->pause_us > 0) {
            AT_FORWARD(wait_for_all(on));
            (void)usleep((useconds_t)order->pause_us);
        }
    }
    for (int i = 0; i < on->base.wanted.arm_count; ++i) {
        AT_FORWARD(count_wrong(on, &on->arm[i], &block->wrong[i]));
    }
    return ATTUNE_OK;
}

static attune_status run_block(at_timing *timing, const at_block_order *order, at_block *block)
{
    cuda_timing *on = of(timing);
    at_watch clocks;
    on->others = on->others && at_nvml_processes(on->nvml) > 1; /* who was there, such as one that was ended, may go */
    at_watch_begin(on->nvml, &clocks);
    attune_status status = run_samples(on, order, block);
    at_watch_end(&clocks, block);
    block->throttle |= on->nvml != NULL && on->others ? AT_THROTTLE_OTHER : 0;
    return status;
}

/* ---- Two clocks -------------------------------------------------------------------------------------------------- */

/* Wall-clock microseconds of so many replays, one after the other. */
static attune_status wall_us(const cuda_timing *on, const cuda_arm *arm, int replays, double *us)
{
    at_clock clock = at_clock_monotonic();
    AT_FORWARD(wait_for_all(on));
    int64_t start = clock.now_ns(clock.self);
    for (int i = 0; i < replays; ++i) {
        AT_FORWARD(at_cuda_graph_launch(arm->graph, on->stream));
    }
    AT_FORWARD(wait_for_all(on));
    *us = 1e-3 * (double)(clock.now_ns(clock.self) - start);
    return ATTUNE_OK;
}

/* The wall clock's slope between `replays` and twice as many has no start and no end in it. */
static attune_status two_clocks(at_timing *timing, int index, double stretch_us, at_two_clocks *clocks)
{
    enum { TIMES = 3, MOST = 1000 };
    cuda_timing *on = of(timing);
    const cuda_arm *arm = &on->arm[index];
    double us[TIMES], slope[TIMES], once = 0, single = 0, twice = 0;
    int64_t wait_ns = on->wait_ns;
    AT_FORWARD(time_replays(on, arm, 1, &once));
    double wanted = stretch_us / (once * arm->calls);
    int replays = wanted < 1 ? 1 : wanted > MOST ? MOST : (int)(wanted + 0.5);
    for (int i = 0; i < TIMES; ++i) {
        AT_FORWARD(time_replays(on, arm, replays, &us[i]));
        AT_FORWARD(wall_us(on, arm, replays, &single));
        AT_FORWARD(wall_us(on, arm, 2 * replays, &twice));
        slope[i] = (twice - single) / ((double)replays * arm->calls);
    }
    on->wait_ns = wait_ns; /* many replays take the host longer to enqueue than one does */
    AT_FORWARD(at_median(us, TIMES, &clocks->us));
    return at_median(slope, TIMES, &clocks->slope_us);
}

/* ---- Opening and closing ----------------------------------------------------------------------------------------- */

static void close_timing(at_timing *timing)
{
    cuda_timing *on = of(timing);
    if (on->stream != NULL) {
        (void)wait_for_all(on);
    }
    for (int i = 0; i < timing->wanted.arm_count; ++i) {
        free_arm(on, &on->arm[i]);
    }
    for (int i = 0; i < STAGES; ++i) {
        if (on->harness[i] != NULL) {
            on->device->ops->unload(on->harness[i]);
        }
    }
    at_fillers_close(&on->fillers, on->device);
    on->device->ops->release(on->device, on->input_slab);
    on->device->ops->release(on->device, on->input_table);
    at_cuda_event_destroy(on->device, on->begin);
    at_cuda_event_destroy(on->device, on->end);
    at_cuda_stream_destroy(on->device, on->stream);
    at_nvml_close(on->nvml);
    free(on->set);
    free(on);
}

/* Rows of Q that belong to a sequence: those behind the last are nobody's. */
static attune_status rows_of(const cuda_timing *on, int64_t *rows)
{
    const attune_call *call = &on->base.wanted.call;
    int32_t last = 0;
    *rows = call->seqlen_q;
    if (on->base.wanted.problem.varlen != 0) {
        const int32_t *cu = call->tensor[ATTUNE_CU_Q].data;
        AT_FORWARD(on->device->ops->download(on->device, &last, cu + call->batch, sizeof last));
        *rows = last;
    }
    return ATTUNE_OK;
}

static attune_status open_device(cuda_timing *on)
{
    int64_t rows = 0;
    AT_FORWARD(rows_of(on, &rows));
    at_transform_describe(&on->base.wanted.problem, &on->base.wanted.call, rows, &on->base.transformed);
    AT_FORWARD(at_cuda_stream_create(on->device, &on->stream));
    AT_FORWARD(at_cuda_event_create(on->device, &on->begin));
    AT_FORWARD(at_cuda_event_create(on->device, &on->end));
    if (at_nvml_open(on->device, &on->nvml) == ATTUNE_OK) {
        on->others = at_nvml_processes(on->nvml) > 1;
    }
    return load_harness(on);
}

static attune_status open_all(cuda_timing *on)
{
    int count = on->base.wanted.arm_count;
    AT_FORWARD(open_device(on));
    AT_FORWARD(make_inputs(on));
    for (int i = 0; i < count; ++i) {
        int arm = on->base.wanted.reverse ? count - 1 - i : i;
        AT_FORWARD(at_timing_made(&on->base, arm, make_arm(on, arm)));
    }
    return ATTUNE_OK;
}

static const at_timing_ops operations = {run_block, two_clocks, close_timing};

attune_status at_timing_cuda_open(at_worker *worker, const at_timing_request *request, at_timing **timing)
{
    cuda_timing *made = calloc(1, sizeof *made);
    *timing = NULL;
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to time with");
    made->base = (at_timing){.ops = &operations, .worker = worker, .wanted = *request};
    made->device = worker->device;
    made->random = at_random_seed((uint64_t)at_clock_monotonic().now_ns(NULL), 0x737061636573);
    made->wait_ns = WAIT_NS_FIRST;
    attune_status status = open_all(made);
    if (status != ATTUNE_OK) {
        close_timing(&made->base);
        return status;
    }
    *timing = &made->base;
    return ATTUNE_OK;
}
