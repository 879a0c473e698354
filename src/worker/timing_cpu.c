/* Timing on a CPU. The parent's clock times: the worker makes a sample ready, waits for its turn, runs the calls, and
 * gives the turn back (at_handoff). Every call has an output and a workspace of its own, poisoned before and looked at
 * afterwards: all of them here, and one, which it chooses when its clock has stopped, by the parent, from memory that
 * both map. Cold, a sample is one call with the caches flushed before it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "base/status.h"
#include "core/problem.h"
#include "library/placement.h"
#include "measure/flush.h"
#include "worker/timing.h"

enum {
    CALLS_MAX = 256,
    SAMPLE_NS = 1000 * AT_TIMING_CPU_SAMPLE_US, /* waking the other side takes up to 30 us: half a percent of this */
    MEMORY_MAX = 256 << 20,
    PATTERN = 0xff
};

typedef struct cpu_arm {
    const attune_arm *of;
    int calls;
    double share; /* by how much outputs may be off; 0: not by a bit */
    void *slab;   /* workspaces, and outputs where they do not fit into the arena */
    size_t slab_bytes;
    bool shown;                  /* outputs are in the arena, which arms use in turns */
    size_t output_at[CALLS_MAX]; /* there */
    attune_call *call;
    attune_tensor output;    /* where the last call's O lies, of an arm that chooses the place */
    attune_tensor validated; /* the arm's own result on the base */
} cpu_arm;

typedef struct cpu_timing {
    at_timing base;
    at_handoff *turn;
    at_random random;
    at_flush flush; /* cold; else its buffer is NULL */
    void *input[ATTUNE_O];
    attune_call set; /* the timed inputs */
    uint64_t transform;
    cpu_arm arm[AT_SESSION_ARMS_MAX];
} cpu_timing;

static cpu_timing *of(at_timing *timing)
{
    return (cpu_timing *)timing;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

static void refill(cpu_timing *on, uint64_t transform)
{
    on->transform = transform;
    for (int role = 0; role < ATTUNE_O; ++role) {
        at_transform_apply(&on->base.transformed, (attune_role)role, transform, on->input[role]);
    }
}

static attune_status run_calls(cpu_arm *arm)
{
    const attune_arm *of = arm->of;
    for (int i = 0; i < arm->calls; ++i) {
        AT_FORWARD(of->run != NULL ? of->run(of->self, &arm->call[i])
                                   : of->run_own(of->self, &arm->call[i], &arm->output));
    }
    return ATTUNE_OK;
}

/* Of an arm that computes into a place of its own only the last call's result is still there. */
static int count_wrong(const cpu_timing *on, const cpu_arm *arm, const at_transform_map *wanted, double share)
{
    int wrong = 0;
    if (arm->of->run == NULL) {
        return arm->output.data == NULL || !at_transform_matches(wanted, on->transform, &arm->output, share);
    }
    for (int i = 0; i < arm->calls; ++i) {
        wrong += !at_transform_matches(wanted, on->transform, &arm->call[i].tensor[ATTUNE_O], share);
    }
    return wrong;
}

/* The base's transforms with the arm's own result for O. */
static at_transform_map own_of(const cpu_timing *on, const cpu_arm *arm)
{
    at_transform_map own = on->base.transformed;
    own.role[ATTUNE_O].tensor = arm->validated;
    return own;
}

static void poison(const cpu_timing *on, cpu_arm *arm)
{
    unsigned char *arena = on->base.worker->arena;
    if (arm->slab != NULL) {
        memset(arm->slab, PATTERN, arm->slab_bytes);
    }
    for (int i = 0; arm->shown && arena != NULL && i < arm->calls; ++i) {
        memset(arena + arm->output_at[i], PATTERN, on->base.transformed.role[ATTUNE_O].bytes);
    }
}

/* ---- Arms -------------------------------------------------------------------------------------------------------- */

static void free_calls(cpu_arm *arm)
{
    free(arm->slab);
    free(arm->call);
    arm->slab = NULL;
    arm->call = NULL;
}

/* Places for so many pieces, at irregular distances; returns where the last ends. */
static size_t lay_out(cpu_timing *on, size_t from, size_t bytes, int count, size_t *at)
{
    for (int i = 0; i < count; ++i) {
        at[i] = from;
        from += at_placement_spaced(&on->random, bytes);
    }
    return from;
}

/* As many calls as the arena has room for outputs, at least one; where it has none for even one, as memory allows. */
static int choose_calls(const cpu_timing *on, cpu_arm *arm, int calls, size_t workspace)
{
    size_t output = on->base.transformed.role[ATTUNE_O].bytes + AT_SPACED_MAX;
    size_t room = on->base.worker->arena_bytes;
    bool there = on->base.worker->arena != NULL && room >= AT_OUTPUTS_AT + output;
    arm->shown = there && arm->of->run != NULL;
    size_t outputs = (arm->shown ? room - AT_OUTPUTS_AT : MEMORY_MAX) / output;
    size_t workspaces = MEMORY_MAX / (workspace + AT_SPACED_MAX);
    size_t fits = outputs < workspaces ? outputs : workspaces;
    return fits < 1 || calls < 1 ? 1 : (size_t)calls > fits ? (int)fits : calls;
}

static attune_status make_calls(cpu_timing *on, cpu_arm *arm, int calls)
{
    size_t output = on->base.transformed.role[ATTUNE_O].bytes;
    size_t workspace = 0, at[CALLS_MAX] = {0};
    AT_FORWARD(at_arm_workspace(arm->of, &on->set, &workspace));
    arm->calls = choose_calls(on, arm, calls, workspace);
    arm->slab_bytes = lay_out(on, 0, workspace, arm->calls, at);
    size_t end = lay_out(on, arm->shown ? AT_OUTPUTS_AT : arm->slab_bytes, output, arm->calls, arm->output_at);
    arm->slab_bytes = arm->shown ? arm->slab_bytes : end;
    arm->slab = aligned_alloc(256, arm->slab_bytes);
    arm->call = calloc((size_t)arm->calls, sizeof *arm->call);
    AT_FAIL_IF(arm->slab == NULL || arm->call == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d calls", arm->calls);
    for (int i = 0; i < arm->calls; ++i) {
        unsigned char *outputs = arm->shown ? on->base.worker->arena : arm->slab;
        arm->call[i] = on->set;
        arm->call[i].tensor[ATTUNE_O].data = outputs + arm->output_at[i];
        arm->call[i].workspace = workspace > 0 ? (char *)arm->slab + at[i] : NULL;
        arm->call[i].workspace_bytes = workspace;
    }
    poison(on, arm);
    return ATTUNE_OK;
}

static attune_status keep_result(const cpu_timing *on, cpu_arm *arm)
{
    const attune_tensor *from = arm->of->run != NULL ? &arm->call[0].tensor[ATTUNE_O] : &arm->output;
    size_t bytes = at_transform_result_bytes(&on->base.transformed, from);
    arm->validated = *from;
    arm->validated.data = malloc(bytes);
    AT_FAIL_IF(arm->validated.data == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a result of %zu bytes", bytes);
    memcpy(arm->validated.data, from->data, bytes);
    return ATTUNE_OK;
}

static attune_status check_arm(cpu_timing *on, cpu_arm *arm)
{
    double share = at_timing_share(&on->base, arm->of);
    refill(on, 0);
    AT_FORWARD(run_calls(arm));
    AT_FAIL_IF(count_wrong(on, arm, &on->base.transformed, share) != 0, ATTUNE_WRONG_RESULT,
               "timed outputs: calls of %s differ from the validated result by more than %.2g of a row's largest, "
               "before anything was timed",
               arm->of->name, share);
    AT_FORWARD(keep_result(on, arm));
    const at_transform_map own = own_of(on, arm);
    poison(on, arm);
    refill(on, 1 + at_random_below(&on->random, INT32_MAX));
    AT_FAIL_IF(arm->of->run != NULL && count_wrong(on, arm, &own, share) != arm->calls, ATTUNE_INTERNAL,
               "%s: poisoned outputs were not seen", arm->of->name);
    AT_FORWARD(run_calls(arm));
    bool varies = (arm->of->traits & ATTUNE_TRAIT_NONDETERMINISTIC) != 0;
    arm->share = varies || count_wrong(on, arm, &own, 0) != 0 ? share : 0;
    AT_FAIL_IF(count_wrong(on, arm, &own, arm->share) != 0, ATTUNE_WRONG_RESULT,
               "timed outputs: calls of %s are wrong on other inputs than those validated", arm->of->name);
    return ATTUNE_OK;
}

/* The time is only for choosing how many calls make a sample. */
static attune_status time_call(cpu_arm *arm, int64_t *best)
{
    at_clock clock = at_clock_monotonic();
    *best = INT64_MAX;
    for (int i = 0; i < 3; ++i) {
        int64_t start = clock.now_ns(clock.self);
        AT_FORWARD(run_calls(arm));
        int64_t spent = clock.now_ns(clock.self) - start;
        *best = spent < *best ? spent : *best;
    }
    return ATTUNE_OK;
}

/* Calls in a sample: by what one takes, cold one. */
static attune_status size_samples(const cpu_timing *on, cpu_arm *arm, int *calls)
{
    int64_t one = (int64_t)(1e3 * on->base.wanted.call_us);
    AT_FORWARD(one > 0 ? ATTUNE_OK : time_call(arm, &one));
    int64_t wanted = SAMPLE_NS / (one > 0 ? one : 1) + 1;
    *calls = on->base.wanted.mode == AT_MODE_COLD ? 1 : wanted > CALLS_MAX ? CALLS_MAX : (int)wanted;
    return ATTUNE_OK;
}

static attune_status make_arm(cpu_timing *on, int index)
{
    cpu_arm *arm = &on->arm[index];
    int calls = 1;
    *arm = (cpu_arm){.of = &on->base.wanted.arm[index]->arm};
    AT_FORWARD(make_calls(on, arm, calls));
    AT_FORWARD(check_arm(on, arm));
    AT_FORWARD(size_samples(on, arm, &calls));
    if (calls > arm->calls) {
        free_calls(arm);
        AT_FORWARD(make_calls(on, arm, calls));
    }
    on->base.calls[index] = arm->calls;
    on->base.output_at[index] = arm->shown ? arm->output_at : NULL;
    return ATTUNE_OK;
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------ */

static attune_status wait_for_parent(const cpu_timing *on, uint32_t from)
{
    enum { SLICE_NS = 100000000, SLICES = 300 }; /* 30 s */
    AT_FAIL_IF(!at_handoff_await(on->turn, from, SLICE_NS, SLICES), ATTUNE_INTERNAL,
               "the parent did not take its turn");
    return ATTUNE_OK;
}

static attune_status run_sample(cpu_timing *on, cpu_arm *arm, uint32_t number)
{
    poison(on, arm);
    if (on->flush.buffer != NULL) {
        AT_FORWARD(at_flush_run(&on->flush));
    }
    at_handoff_set(on->turn, 4 * number + 1);
    AT_FORWARD(wait_for_parent(on, 4 * number + 1));
    AT_FORWARD(run_calls(arm));
    at_handoff_set(on->turn, 4 * number + 3);
    return wait_for_parent(on, 4 * number + 3);
}

static attune_status run_block(at_timing *timing, const at_block_order *order, at_block *block)
{
    cpu_timing *on = of(timing);
    refill(on, order->set);
    for (int i = 0; i < order->count; ++i) {
        cpu_arm *arm = &on->arm[order->arm[i]];
        const at_transform_map own = own_of(on, arm);
        AT_FORWARD(run_sample(on, arm, (uint32_t)i));
        block->wrong[order->arm[i]] += count_wrong(on, arm, &own, arm->share);
        if (order->pause_us > 0) {
            (void)usleep((useconds_t)order->pause_us);
        }
    }
    return ATTUNE_OK;
}

static attune_status no_clocks(at_timing *timing, int arm, double stretch_us, at_two_clocks *clocks)
{
    (void)timing, (void)arm, (void)stretch_us, (void)clocks;
    return at_fail(ATTUNE_UNSUPPORTED, "a CPU's clocks are read by the parent");
}

/* ---- Opening and closing ----------------------------------------------------------------------------------------- */

static void close_timing(at_timing *timing)
{
    cpu_timing *on = of(timing);
    for (int i = 0; i < timing->wanted.arm_count; ++i) {
        free_calls(&on->arm[i]);
        free(on->arm[i].validated.data);
    }
    for (int role = 0; role < ATTUNE_O; ++role) {
        free(on->input[role]);
    }
    at_flush_free(&on->flush);
    free(on);
}

static attune_status make_inputs(cpu_timing *on)
{
    const attune_call *call = &on->base.wanted.call;
    bool packed = on->base.wanted.problem.varlen != 0;
    int64_t rows = packed ? ((const int32_t *)call->tensor[ATTUNE_CU_Q].data)[call->batch] : call->seqlen_q;
    at_transform_describe(&on->base.wanted.problem, call, rows, &on->base.transformed);
    on->set = *call;
    on->set.tensor[ATTUNE_LSE].data = NULL;
    for (int role = 0; role < ATTUNE_O; ++role) {
        size_t bytes = on->base.transformed.role[role].bytes;
        on->input[role] = aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
        AT_FAIL_IF(on->input[role] == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for inputs of %zu bytes", bytes);
        on->set.tensor[role].data = on->input[role];
    }
    return ATTUNE_OK;
}

static attune_status open_all(cpu_timing *on)
{
    const attune_target *target = &on->base.worker->device->target;
    int count = on->base.wanted.arm_count;
    if (on->base.wanted.mode == AT_MODE_COLD) {
        int64_t caches = target->l3_bytes + target->threads * target->l2_bytes;
        AT_FORWARD(at_flush_create(at_context_pool(on->base.worker->context), (size_t)caches, &on->flush));
    }
    AT_FORWARD(make_inputs(on));
    for (int i = 0; i < count; ++i) {
        int arm = on->base.wanted.reverse ? count - 1 - i : i;
        attune_status status = make_arm(on, arm);
        if (status != ATTUNE_OK) {
            return at_fail_in(status, "%s", on->base.wanted.arm[arm]->name);
        }
    }
    return ATTUNE_OK;
}

static const at_timing_ops operations = {run_block, no_clocks, close_timing};

attune_status at_timing_cpu_open(at_worker *worker, const at_timing_request *request, at_timing **timing)
{
    cpu_timing *made = calloc(1, sizeof *made);
    *timing = NULL;
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to time with");
    made->base = (at_timing){.ops = &operations, .worker = worker, .wanted = *request};
    made->turn = (at_handoff *)(void *)worker->arena;
    made->random = at_random_seed(request->seed, 0x737061636573);
    attune_status status = worker->arena_bytes < sizeof(at_handoff)
                               ? at_fail(ATTUNE_INVALID_ARGUMENT, "timing on a CPU needs an arena")
                               : open_all(made);
    if (status != ATTUNE_OK) {
        close_timing(&made->base);
        return status;
    }
    *timing = &made->base;
    return ATTUNE_OK;
}
