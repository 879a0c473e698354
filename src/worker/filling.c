/* What a kernel could read without having written it: shared memory, registers, stacks. Before each call that is judged
 * a worker fills all of a GPU's with something else, as whatever ran there before might have: who begins with what he
 * finds gives other bits. On a CPU that is scratch and stacks (cpu/guard.h). In between calls of a timed graph nothing
 * is filled: there shared memory is what the call before left. */
#include "base/status.h"
#include "core/config.h"
#include "core/problem.h"
#include "cpu/cpu.h"
#include "worker/worker_ops.h"

extern const attune_kernel at_kernel_harness;

enum { FIRST_STAGE = 5 }; /* the harness's, of shared memory and registers; then of stacks */

attune_status at_filler_load(at_device *device, int stage, at_loaded **filler)
{
    const attune_config config = {{FIRST_STAGE + stage}};
    attune_problem problem;
    at_recipe recipe;
    AT_FORWARD(attune_problem_parse("b1,h1,s32,d64,fp16", &problem));
    AT_FORWARD(at_recipe_ask(&at_kernel_harness, &problem, &device->target, &config, &recipe));
    return device->ops->load(device, &recipe, filler);
}

attune_status at_filler_run(const at_loaded *filler, int64_t pattern, void *stream)
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

int64_t at_filler_draw(at_random *random)
{
    enum { NAN_BYTE = 0xff };
    const uint64_t kind = at_random_below(random, 4);
    return kind == 0   ? NAN_BYTE
           : kind == 1 ? (int64_t)at_random_below(random, 256)
                       : 256 + (int64_t)at_random_below(random, INT32_MAX - 256);
}

attune_status at_worker_fill(at_worker *worker, void *stream)
{
    at_filling *filling = &worker->filling;
    const bool keeps = filling->is_wanted && filling->wanted == AT_FILL_NOTHING;
    if (worker->device->target.kind != ATTUNE_TARGET_CUDA) {
        bool any = !filling->is_wanted && at_random_below(&filling->random, 2) == 0;
        filling->is_wanted = false;
        at_cpu_guard_next(worker->device, at_random_next(&filling->random), keeps || any);
        return ATTUNE_OK;
    }
    if (keeps) {
        filling->is_wanted = false;
        return ATTUNE_OK;
    }
    for (int stage = 0; stage < AT_FILLERS; ++stage) {
        if (filling->filler[stage] == NULL) {
            AT_FORWARD(at_filler_load(worker->device, stage, &filling->filler[stage]));
        }
    }
    const int64_t pattern = filling->is_wanted ? filling->wanted : at_filler_draw(&filling->random);
    filling->is_wanted = false;
    for (int stage = 0; stage < AT_FILLERS; ++stage) {
        AT_FORWARD(at_filler_run(filling->filler[stage], pattern, stream));
    }
    return ATTUNE_OK;
}

/* Nothing comes of it on a CPU, where what is filled is drawn. */
static attune_status poison_scratch(at_worker *worker, const json_t *request, json_t *answer)
{
    int64_t pattern;
    (void)answer;
    AT_FORWARD(at_json_int(request, "request", "pattern", AT_FILL_NOTHING, INT32_MAX, &pattern));
    worker->filling.wanted = pattern;
    worker->filling.is_wanted = true;
    return ATTUNE_OK;
}

void at_worker_close_filling(at_worker *worker)
{
    for (int stage = 0; stage < AT_FILLERS; ++stage) {
        if (worker->filling.filler[stage] != NULL) {
            worker->device->ops->unload(worker->filling.filler[stage]);
            worker->filling.filler[stage] = NULL;
        }
    }
}

const at_worker_op at_worker_filling_ops[] = {{"poison_scratch", true, poison_scratch}, {NULL, false, NULL}};
