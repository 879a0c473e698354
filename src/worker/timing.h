/* The worker's side of timing: arms made ready on buffers of their own, timed in the order that the parent gives, every
 * timed output looked at afterwards. timing_cuda.c and timing_cpu.c are the two ways; executor.h is the parent's side.
 */
#ifndef WORKER_TIMING_H
#define WORKER_TIMING_H

#include <stdatomic.h>

#include "measure/session.h"
#include "worker/transform.h"
#include "worker/worker.h"

/* What the parent asks for. */
typedef struct at_timing_request {
    at_mode mode;
    attune_problem problem;
    attune_call call; /* the base inputs; its O holds the validated result */
    at_worker_arm *arm[AT_SESSION_ARMS_MAX];
    int arm_count;
    bool reverse;   /* make them ready in reverse order */
    uint64_t seed;  /* of distances */
    double call_us; /* CPU: about what a call takes, for workers that may not read a clock; 0: they find out */
    int *wrong;     /* with ATTUNE_WRONG_RESULT: the arm whose outputs were wrong before anything was timed */
} at_timing_request;

typedef struct at_timing at_timing;

typedef struct at_timing_ops {
    /* Times the block: fills in times, wrong outputs, clocks and throttle reasons. */
    attune_status (*block)(at_timing *timing, const at_block_order *order, at_block *block);
    attune_status (*clocks)(at_timing *timing, int arm, double stretch_us, at_two_clocks *clocks);
    void (*close)(at_timing *timing);
} at_timing_ops;

/* Implementations embed it as their first member. */
struct at_timing {
    const at_timing_ops *ops;
    at_worker *worker;
    at_timing_request wanted;
    at_transform_map transformed; /* the base inputs as transforms see them */
    int calls[AT_SESSION_ARMS_MAX];
    const size_t *output_at[AT_SESSION_ARMS_MAX]; /* of each call's output in the arena; NULL: it is not there */
};

/* Passes on how an arm was made ready, and says which it is where its outputs were wrong. */
attune_status at_timing_made(const at_timing *timing, int arm, attune_status status);

/* How far an arm's result may lie from the validated one, which is the first arm's: the coarser of the two says. */
double at_timing_share(const at_timing *timing, const attune_arm *arm);

/* Makes everything ready, and sees that it is: each arm's own outputs are right under a transform, and poison shows. */
attune_status at_timing_cuda_open(at_worker *worker, const at_timing_request *request, at_timing **timing);
attune_status at_timing_cpu_open(at_worker *worker, const at_timing_request *request, at_timing **timing);

/* Where parent and worker take turns, at the start of the arena, while a block is timed by the parent's clock (CPU).
 * Sample j: the worker, ready, sets 4 j + 1; the parent reads its clock and sets 4 j + 2; the worker runs the calls and
 * sets 4 j + 3; the parent reads its clock, takes a copy of what it will look at, and sets 4 j + 4. Both wait with a
 * futex. */
typedef struct at_handoff {
    _Atomic uint32_t turn;
} at_handoff;

/* Outputs are in the arena, from here on, so that the parent sees them as they are when its clock stops. */
enum { AT_OUTPUTS_AT = 4096 };

/* A sample's calls take at least about so long on a CPU, cold ones excepted. */
enum { AT_TIMING_CPU_SAMPLE_US = 5000 };

/* Sets the turn and wakes the other side. */
void at_handoff_set(at_handoff *turn, uint32_t to);
/* Waits until somebody wakes who waits while the turn is `from`, whatever it is then; false when so many nanoseconds
 * have gone by instead, or there is no waiting here. */
bool at_handoff_wait(at_handoff *turn, uint32_t from, int64_t most_ns);
/* Waits until the turn is no longer `from`; false when so many slices of time have gone by instead. */
bool at_handoff_await(at_handoff *turn, uint32_t from, int64_t slice_ns, int slices);

/* Inputs plus outputs of one call, as strides span them. */
size_t at_timing_call_bytes(const at_timing *timing);

extern const at_worker_op at_worker_timing_ops[]; /* stage, block, clocks, unstage */
void at_worker_close_timing(at_worker *worker);

#endif
