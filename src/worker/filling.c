/* What a kernel could read without having written it: shared memory, registers, stacks. Before each call that is judged
 * a worker fills all of a GPU's with something else, as whatever ran there before might have: who begins with what he
 * finds gives other bits. On a CPU that is scratch and stacks (cpu/guard.h). In between calls of a timed graph nothing
 * is filled: there shared memory is what the call before left. */
#include "base/status.h"
#include "core/config.h"
#include "core/problem.h"
#include "cpu/cpu.h"
#include "cuda/cuda.h"
#include "worker/worker_ops.h"

extern const attune_kernel at_kernel_harness;

enum { FIRST_STAGE = 5 }; /* the harness's, of shared memory and registers; then of stacks, and of deep ones */

/* ---- Fillers ----------------------------------------------------------------------------------------------------- */

static attune_status load_filler(at_device *device, int stage, at_loaded **filler)
{
    const attune_config config = {{FIRST_STAGE + stage}};
    attune_problem problem;
    at_recipe recipe;
    AT_FORWARD(attune_problem_parse("b1,h1,s32,d64,fp16", &problem));
    AT_FORWARD(at_recipe_ask(&at_kernel_harness, &problem, &device->target, &config, &recipe));
    return device->ops->load(device, &recipe, filler);
}

static attune_status run_filler(const at_loaded *filler, int64_t pattern, void *stream)
{
    const attune_args args = {.size = sizeof args,
                              .abi = ATTUNE_ABI,
                              .dtype = (attune_i32)ATTUNE_FP16,
                              .batch = 1,
                              .heads_q = 1,
                              .heads_kv = 1,
                              .offset = pattern};
    return at_launch_args(filler, &args, stream);
}

/* How many leave nothing of what a kernel could read: of one without a stack the first alone. */
static attune_status count_needed(const at_loaded *loaded, int *count)
{
    at_cuda_proof proof = {.stack_bytes = 0};
    if (loaded != NULL) {
        at_cuda_prove(loaded, &proof);
    }
    AT_FAIL_IF(
        proof.stack_bytes == INT32_MAX, ATTUNE_UNSUPPORTED,
        "%s: its stack has no bound, for it calls itself: at most %d bytes a thread are filled before judged calls",
        loaded->kernel->name, AT_STACK_FILLED_MOST);
    AT_FAIL_IF(proof.stack_bytes > AT_STACK_FILLED_MOST, ATTUNE_UNSUPPORTED,
               "%s: its stack is %d bytes a thread, at most %d are filled before judged calls", loaded->kernel->name,
               proof.stack_bytes, AT_STACK_FILLED_MOST);
    *count = proof.stack_bytes > AT_STACK_FILLED ? 3 : proof.stack_bytes > 0 ? 2 : 1;
    return ATTUNE_OK;
}

attune_status at_fillers_run(at_fillers *fillers, at_device *device, const at_loaded *loaded, int64_t pattern,
                             void *stream)
{
    int count = 0;
    AT_FORWARD(count_needed(loaded, &count));
    for (int stage = 0; stage < count; ++stage) {
        AT_FORWARD(fillers->of[stage] != NULL ? ATTUNE_OK : load_filler(device, stage, &fillers->of[stage]));
    }
    for (int stage = 0; stage < count; ++stage) {
        AT_FORWARD(run_filler(fillers->of[stage], pattern, stream));
    }
    return ATTUNE_OK;
}

void at_fillers_close(at_fillers *fillers, at_device *device)
{
    for (int stage = 0; stage < AT_FILLERS; ++stage) {
        if (fillers->of[stage] != NULL) {
            device->ops->unload(fillers->of[stage]);
            fillers->of[stage] = NULL;
        }
    }
}

int64_t at_filling_draw(at_random *random)
{
    enum { NAN_BYTE = 0xff };
    const uint64_t kind = at_random_below(random, 4);
    return kind == 0   ? NAN_BYTE
           : kind == 1 ? (int64_t)at_random_below(random, 256)
                       : 256 + (int64_t)at_random_below(random, INT32_MAX - 256);
}

/* ---- Of a worker ------------------------------------------------------------------------------------------------- */

attune_status at_worker_fill(at_worker *worker, const at_loaded *loaded, void *stream)
{
    at_filling *filling = &worker->filling;
    const bool is_wanted = filling->is_wanted, keeps = is_wanted && filling->wanted < 0;
    filling->is_wanted = false;
    if (worker->device->target.kind != ATTUNE_TARGET_CUDA) {
        const bool any = at_random_below(&filling->random, 2) == 0;
        if (keeps && filling->wanted == AT_FILL_BACKWARDS) {
            at_cpu_guard_next(worker->device, at_random_next(&filling->random), true, true);
        } else if (!keeps) { /* else the call is one of those that nobody looks at, to the last instruction */
            at_cpu_guard_next(worker->device, at_random_next(&filling->random), !is_wanted && any, any);
        }
        return ATTUNE_OK;
    }
    const int64_t pattern = is_wanted ? filling->wanted : at_filling_draw(&filling->random);
    return keeps ? ATTUNE_OK : at_fillers_run(&filling->fillers, worker->device, loaded, pattern, stream);
}

/* Nothing comes of it on a CPU, where what is filled is drawn. */
static attune_status poison_scratch(at_worker *worker, const json_t *request, json_t *answer)
{
    int64_t pattern;
    (void)answer;
    AT_FORWARD(at_json_int(request, "request", "pattern", AT_FILL_BACKWARDS, INT32_MAX, &pattern));
    worker->filling.wanted = pattern;
    worker->filling.is_wanted = true;
    return ATTUNE_OK;
}

void at_worker_close_filling(at_worker *worker)
{
    at_fillers_close(&worker->filling.fillers, worker->device);
}

const at_worker_op at_worker_filling_ops[] = {{"poison_scratch", true, poison_scratch}, {NULL, false, NULL}};
