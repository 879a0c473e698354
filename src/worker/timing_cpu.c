/* Timing on a CPU. The parent's clock times: the worker makes a sample ready, waits for its turn, runs the calls, and
 * gives the turn back (at_handoff). Every call has queries, an output and a workspace of its own: queries that no call
 * has had before (fresh.h), an output that is poisoned before and looked at afterwards. That all was written is seen
 * here; that it is right, by the parent, in rows that it chooses when its clock has stopped, from memory that both map.
 * Before each sample threads' scratch is filled. Cold, a sample is one call with the caches flushed before it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attune/kernel.h"
#include "base/poison.h"
#include "base/random.h"
#include "base/status.h"
#include "core/call.h"
#include "core/problem.h"
#include "library/placement.h"
#include "measure/flush.h"
#include "reference/spot.h"
#include "worker/fresh.h"
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
    unsigned char *slab; /* queries, then workspaces, and outputs where they do not fit into the arena */
    size_t slab_bytes;
    size_t poisoned_from;        /* of the slab */
    bool shown;                  /* outputs are in the arena, which arms use in turns */
    size_t output_at[CALLS_MAX]; /* there */
    attune_call *call;
    attune_tensor output; /* where the last call's O lies, of an arm that chooses the place */
} cpu_arm;

typedef struct cpu_timing {
    at_timing base;
    at_handoff *turn;
    at_random random;
    at_pool *alone;        /* a pool of this thread, which may allocate: those that run a stranger's items may not */
    at_flush flush;        /* cold; else its buffer is NULL */
    void *input[ATTUNE_O]; /* K and V of all calls; a call's Q is in its arm's slab */
    attune_call set;       /* the timed inputs */
    cpu_arm arm[AT_SESSION_ARMS_MAX];
} cpu_timing;

static cpu_timing *of(at_timing *timing)
{
    return (cpu_timing *)timing;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

static void refill(cpu_timing *on, uint64_t transform)
{
    for (int role = ATTUNE_K; role <= ATTUNE_V; ++role) {
        const at_fresh_key key = at_fresh_key_of(transform, (attune_role)role, 0, 0);
        at_fresh_write(&on->base.transformed, (attune_role)role, key, on->input[role]);
    }
}

/* The queries of a sample's calls. */
static void refill_queries(const cpu_timing *on, const cpu_arm *arm, uint64_t transform, int sample)
{
    for (int i = 0; i < arm->calls; ++i) {
        at_fresh_write(&on->base.transformed, ATTUNE_Q, at_fresh_key_of(transform, ATTUNE_Q, sample, i),
                       arm->call[i].tensor[ATTUNE_Q].data);
    }
}

static attune_status run_calls(void *context)
{
    cpu_arm *arm = context;
    const attune_arm *of = arm->of;
    for (int i = 0; i < arm->calls; ++i) {
        AT_FORWARD(of->run != NULL ? of->run(of->self, &arm->call[i])
                                   : of->run_own(of->self, &arm->call[i], &arm->output));
    }
    return ATTUNE_OK;
}

/* The same, where nobody's clock runs, on the thread for it. */
static attune_status try_calls(const cpu_timing *on, cpu_arm *arm)
{
    return at_runner_do(on->base.worker->candidate_code.runner, run_calls, arm);
}

/* Of an arm that computes into a place of its own only the last call's result is still there. */
static attune_tensor output_of(const cpu_arm *arm, int call)
{
    return arm->of->run != NULL ? arm->call[call].tensor[ATTUNE_O] : arm->output;
}

static int first_kept(const cpu_arm *arm)
{
    return arm->of->run != NULL ? 0 : arm->calls - 1;
}

/* How many results are not the validated one, of calls on the base. */
static int count_other(const cpu_timing *on, const cpu_arm *arm, double share)
{
    int other = 0;
    for (int i = first_kept(arm); i < arm->calls; ++i) {
        const attune_tensor output = output_of(arm, i);
        other += output.data == NULL || !at_transform_matches(&on->base.transformed, 0, &output, share);
    }
    return other;
}

/* How many results have something that nobody has written. */
static int count_unwritten(const cpu_timing *on, const cpu_arm *arm)
{
    int unwritten = 0;
    for (int i = first_kept(arm); i < arm->calls; ++i) {
        const attune_tensor output = output_of(arm, i);
        unwritten += output.data == NULL || !at_fresh_is_written(&on->base.transformed, &output, PATTERN);
    }
    return unwritten;
}

/* Looks at rows of a call's result. */
static attune_status look_at_rows(cpu_timing *on, const cpu_arm *arm)
{
    const uint32_t traits = arm->of->traits | on->base.wanted.arm[0]->arm.traits;
    const at_spot spot = {
        .pool = on->alone, .acc16 = (traits & ATTUNE_TRAIT_ACC16) != 0, .share = at_timing_share(&on->base, arm->of)};
    const int call = arm->of->run != NULL ? (int)at_random_below(&on->random, (uint64_t)arm->calls) : arm->calls - 1;
    attune_call looked_at = arm->call[call];
    attune_args args;
    looked_at.tensor[ATTUNE_O] = output_of(arm, call);
    at_call_args(&on->base.wanted.problem, &looked_at, &args);
    return at_spot_check(&spot, &args, &on->random);
}

static void poison(const cpu_timing *on, cpu_arm *arm)
{
    unsigned char *arena = on->base.worker->arena;
    if (arm->slab != NULL) {
        memset(arm->slab + arm->poisoned_from, PATTERN, arm->slab_bytes - arm->poisoned_from);
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

/* As many calls as the arena has room for outputs and memory for the rest, at least one; where the arena has none for
 * even one, as memory allows. */
static int choose_calls(const cpu_timing *on, cpu_arm *arm, int calls, size_t workspace)
{
    size_t output = on->base.transformed.role[ATTUNE_O].bytes + AT_SPACED_MAX;
    size_t room = on->base.worker->arena_bytes;
    bool there = on->base.worker->arena != NULL && room >= AT_OUTPUTS_AT + output;
    arm->shown = there && arm->of->run != NULL;
    size_t outputs = (arm->shown ? room - AT_OUTPUTS_AT : MEMORY_MAX) / output;
    size_t queries = on->base.transformed.role[ATTUNE_Q].bytes + AT_SPACED_MAX;
    size_t others = MEMORY_MAX / (queries + workspace + AT_SPACED_MAX);
    size_t fits = outputs < others ? outputs : others;
    return fits < 1 || calls < 1 ? 1 : (size_t)calls > fits ? (int)fits : calls;
}

static attune_status make_calls(cpu_timing *on, cpu_arm *arm, int calls)
{
    const at_transform_role *role = on->base.transformed.role;
    size_t workspace = 0, query_at[CALLS_MAX] = {0}, at[CALLS_MAX] = {0};
    AT_FORWARD(at_arm_workspace(arm->of, &on->set, &workspace));
    arm->calls = choose_calls(on, arm, calls, workspace);
    arm->poisoned_from = lay_out(on, 0, role[ATTUNE_Q].bytes, arm->calls, query_at);
    arm->slab_bytes = lay_out(on, arm->poisoned_from, workspace, arm->calls, at);
    size_t end =
        lay_out(on, arm->shown ? AT_OUTPUTS_AT : arm->slab_bytes, role[ATTUNE_O].bytes, arm->calls, arm->output_at);
    arm->slab_bytes = arm->shown ? arm->slab_bytes : end;
    arm->slab = aligned_alloc(256, arm->slab_bytes);
    arm->call = calloc((size_t)arm->calls, sizeof *arm->call);
    AT_FAIL_IF(arm->slab == NULL || arm->call == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d calls", arm->calls);
    for (int i = 0; i < arm->calls; ++i) {
        unsigned char *outputs = arm->shown ? on->base.worker->arena : arm->slab;
        arm->call[i] = on->set;
        arm->call[i].tensor[ATTUNE_Q].data = arm->slab + query_at[i];
        arm->call[i].tensor[ATTUNE_O].data = outputs + arm->output_at[i];
        arm->call[i].workspace = workspace > 0 ? arm->slab + at[i] : NULL;
        arm->call[i].workspace_bytes = workspace;
    }
    poison(on, arm);
    return ATTUNE_OK;
}

/* On the base an arm's result is the first one's, which the reference has judged, and is so once more under a
 * transform. */
static attune_status check_arm(cpu_timing *on, cpu_arm *arm)
{
    double share = at_timing_share(&on->base, arm->of);
    const uint64_t transform = 1 + at_random_below(&on->random, INT32_MAX);
    refill(on, 0);
    refill_queries(on, arm, 0, 0);
    AT_FORWARD(try_calls(on, arm));
    AT_FAIL_IF(count_other(on, arm, share) != 0, ATTUNE_WRONG_RESULT,
               "timed outputs: calls of %s differ from the validated result by more than %.2g of a row's largest, "
               "before anything was timed",
               arm->of->name, share);
    poison(on, arm);
    AT_FAIL_IF(arm->of->run != NULL && count_unwritten(on, arm) != arm->calls, ATTUNE_INTERNAL,
               "%s: poisoned outputs were not seen", arm->of->name);
    refill(on, transform);
    refill_queries(on, arm, transform, 0);
    AT_FORWARD(try_calls(on, arm));
    attune_status status = count_unwritten(on, arm) != 0
                               ? at_fail(ATTUNE_WRONG_RESULT, "outputs are not written as a whole")
                               : look_at_rows(on, arm);
    return status == ATTUNE_OK
               ? ATTUNE_OK
               : at_fail_in(status, "timed outputs: calls of %s on other inputs than those validated", arm->of->name);
}

/* The time is only for choosing how many calls make a sample. */
static attune_status time_call(const cpu_timing *on, cpu_arm *arm, int64_t *best)
{
    at_clock clock = at_clock_monotonic();
    *best = INT64_MAX;
    for (int i = 0; i < 3; ++i) {
        int64_t start = clock.now_ns(clock.self);
        AT_FORWARD(try_calls(on, arm));
        int64_t spent = clock.now_ns(clock.self) - start;
        *best = spent < *best ? spent : *best;
    }
    return ATTUNE_OK;
}

/* Calls in a sample: by what one takes, cold one. */
static attune_status size_samples(const cpu_timing *on, cpu_arm *arm, int *calls)
{
    int64_t one = (int64_t)(1e3 * on->base.wanted.call_us);
    AT_FORWARD(one > 0 ? ATTUNE_OK : time_call(on, arm, &one));
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

/* So that an arm finds nothing there of the sample before, whoever's it was. */
static void fill_scratch(void *context, unsigned char *scratch)
{
    at_poison_write(at_poison_draw(at_random_next(context)), 0, scratch, ATTUNE_SCRATCH_MAX);
}

typedef struct turn {
    const cpu_timing *on;
    cpu_arm *arm;
    uint32_t number;
} turn;

/* Ready; the parent's clock runs; done; it has stopped. */
static attune_status take_turn(void *context)
{
    const turn *now = context;
    at_handoff_set(now->on->turn, 4 * now->number + 1);
    AT_FORWARD(wait_for_parent(now->on, 4 * now->number + 1));
    AT_FORWARD(run_calls(now->arm));
    at_handoff_set(now->on->turn, 4 * now->number + 3);
    return wait_for_parent(now->on, 4 * now->number + 3);
}

static attune_status run_sample(cpu_timing *on, cpu_arm *arm, uint64_t transform, uint32_t number)
{
    refill_queries(on, arm, transform, (int)number);
    poison(on, arm);
    at_pool_each_scratch(at_context_pool(on->base.worker->context), fill_scratch, &on->random);
    if (on->flush.buffer != NULL) {
        AT_FORWARD(at_flush_run(&on->flush));
    }
    turn now = {on, arm, number};
    return at_runner_do(on->base.worker->candidate_code.runner, take_turn, &now);
}

static attune_status run_block(at_timing *timing, const at_block_order *order, at_block *block)
{
    cpu_timing *on = of(timing);
    refill(on, order->set);
    for (int i = 0; i < order->count; ++i) {
        cpu_arm *arm = &on->arm[order->arm[i]];
        AT_FORWARD(run_sample(on, arm, order->set, (uint32_t)i));
        const int wrong = count_unwritten(on, arm);
        block->wrong[order->arm[i]] += wrong + (wrong == 0 && !arm->shown && look_at_rows(on, arm) != ATTUNE_OK);
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
    }
    for (int role = ATTUNE_K; role <= ATTUNE_V; ++role) {
        free(on->input[role]);
    }
    at_flush_free(&on->flush);
    at_pool_destroy(on->alone);
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
    for (int role = ATTUNE_K; role <= ATTUNE_V; ++role) {
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
    AT_FORWARD(at_pool_create(1, 0, &on->alone));
    AT_FORWARD(make_inputs(on));
    for (int i = 0; i < count; ++i) {
        int arm = on->base.wanted.reverse ? count - 1 - i : i;
        attune_status status = at_timing_made(&on->base, arm, make_arm(on, arm));
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
