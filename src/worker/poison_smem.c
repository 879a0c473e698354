/* A worker's op that leaves a pattern in all of the device's shared memory, as whatever ran there before might have:
 * who reads what it did not write then gives other bits. */
#include "base/status.h"
#include "core/config.h"
#include "core/problem.h"
#include "worker/worker_ops.h"

extern const attune_kernel at_kernel_witness;

enum { POISON_SMEM = 5 }; /* the witness's stage */

static attune_status load_filler(at_worker *worker)
{
    const attune_config config = {{POISON_SMEM}};
    attune_problem problem;
    at_recipe recipe;
    if (worker->filler != NULL) {
        return ATTUNE_OK;
    }
    AT_FORWARD(attune_problem_parse("b1,h1,s32,d64,fp16", &problem));
    AT_FORWARD(at_recipe_ask(&at_kernel_witness, &problem, &worker->device->target, &config, &recipe));
    return worker->device->ops->load(worker->device, &recipe, &worker->filler);
}

/* Nothing to do on a CPU, whose kernels have no memory but what they are given. */
static attune_status poison_smem(at_worker *worker, const json_t *request, json_t *answer)
{
    int64_t pattern;
    (void)answer;
    AT_FORWARD(at_json_int(request, "request", "pattern", 0, 255, &pattern));
    if (worker->device->target.kind != ATTUNE_TARGET_CUDA) {
        return ATTUNE_OK;
    }
    AT_FORWARD(load_filler(worker));
    attune_args args = {.size = sizeof args,
                        .abi = ATTUNE_ABI,
                        .dtype = (attune_i32)ATTUNE_FP16,
                        .batch = 1,
                        .heads_q = 1,
                        .heads_kv = 1,
                        .offset = pattern};
    AT_FORWARD(at_launch_args(worker->filler, &args, NULL));
    return worker->device->ops->synchronise(worker->device, NULL);
}

void at_worker_close_poison_smem(at_worker *worker)
{
    if (worker->filler != NULL) {
        worker->device->ops->unload(worker->filler);
        worker->filler = NULL;
    }
}

const at_worker_op at_worker_poison_smem_ops[] = {{"poison_smem", true, poison_smem}, {NULL, false, NULL}};
