/* A worker's arms: load, workspace, run, drop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cpu/source.h"
#include "cuda/cuda.h"
#include "library/catalogue.h"
#include "worker/arms.h"
#include "worker/worker_ops.h"

static void arm_free(at_worker *worker, at_worker_arm *arm)
{
    if (arm == NULL) {
        return;
    }
    at_worker_undelay(worker, arm);
    at_arm_close(&arm->arm);
    at_candidate_free(&arm->candidate);
    free(arm->name);
    free(arm);
}

void at_worker_close_arms(at_worker *worker)
{
    for (size_t i = 0; i < worker->arm_count; ++i) {
        arm_free(worker, worker->arm[i]);
    }
    free(worker->arm);
    worker->arm = NULL;
    worker->arm_count = worker->arm_room = 0;
}

static attune_status add_arm(at_worker *worker, at_worker_arm *arm)
{
    if (worker->arm_count == worker->arm_room) {
        size_t room = 2 * worker->arm_room + 16;
        at_worker_arm **more = realloc(worker->arm, room * sizeof(at_worker_arm *));
        AT_FAIL_IF(more == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu arms", room);
        worker->arm = more;
        worker->arm_room = room;
    }
    worker->arm[worker->arm_count++] = arm;
    return ATTUNE_OK;
}

/* ---- Loading ---------------------------------------------------------------------------------------------------- */

/* A stranger's kernel comes with its recipe, all else by its name. */
static attune_status open_by(at_worker *worker, const json_t *request, at_worker_arm *arm)
{
    json_t *recipe;
    attune_plan *plan = NULL;
    if (json_object_get(request, "recipe") == NULL) {
        return at_arms_open(worker->context, arm->name, &arm->problem, worker->hooks, &arm->arm);
    }
    AT_FORWARD(at_json_field(request, "request", "recipe", JSON_OBJECT, &recipe));
    AT_FORWARD(at_candidate_load(&worker->candidate_code, worker->device, recipe, &arm->candidate, &plan));
    at_arm_of_plan(plan, &arm->arm);
    return ATTUNE_OK;
}

static attune_status open_arm(at_worker *worker, const json_t *request, at_worker_arm *arm)
{
    const char *name;
    AT_FORWARD(at_json_string(request, "request", "arm", &name));
    AT_FORWARD(at_wire_problem(request, "problem", &arm->problem));
    arm->name = strdup(name);
    AT_FAIL_IF(arm->name == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for an arm");
    return open_by(worker, request, arm);
}

/* Of a call of the problem's sizes, where no term gives it for every call. */
static attune_status constant_workspace(const at_worker_arm *arm, attune_term *term)
{
    attune_call call;
    size_t bytes = 0;
    AT_FORWARD(attune_call_init(&call, &arm->problem));
    AT_FORWARD(at_arm_workspace(&arm->arm, &call, &bytes));
    *term = attune_term_const((int64_t)bytes);
    return ATTUNE_OK;
}

/* What a plan in another process needs to know. What is no kernel of ours is asked for whole problems only. */
static attune_status describe(const at_worker_arm *arm, json_t *answer)
{
    const attune_arm *does = &arm->arm;
    const attune_plan *plan = at_arm_plan(does);
    attune_term term = {{0}, {0}};
    uint32_t traits = does->traits | (plan == NULL ? (uint32_t)ATTUNE_TRAIT_BATCH_VARIANT : 0U);
    AT_FORWARD(plan == NULL ? constant_workspace(arm, &term) : ATTUNE_OK);
    AT_FORWARD(at_answer_put(answer, "kernel", json_string(does->name)));
    AT_FORWARD(at_answer_put(answer, "account", json_string(does->account)));
    AT_FORWARD(at_answer_put(answer, "traits", json_integer(traits)));
    const attune_term *workspace = plan == NULL ? &term : &plan->loaded->resources.workspace;
    return at_answer_put(answer, "workspace", at_wire_from_term(workspace));
}

static attune_status load(at_worker *worker, const json_t *request, json_t *answer)
{
    at_worker_arm *arm = calloc(1, sizeof *arm);
    AT_FAIL_IF(arm == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for an arm");
    attune_status status = open_arm(worker, request, arm);
    if (status == ATTUNE_OK) {
        status = add_arm(worker, arm);
    }
    if (status != ATTUNE_OK) {
        arm_free(worker, arm);
        return status;
    }
    AT_FORWARD(at_answer_put(answer, "arm", json_integer((json_int_t)worker->arm_count - 1)));
    return describe(arm, answer);
}

static attune_status drop(at_worker *worker, const json_t *request, json_t *answer)
{
    at_worker_arm *arm;
    (void)answer;
    AT_FORWARD(at_worker_arm_of(worker, request, "arm", &arm));
    for (size_t i = 0; i < worker->arm_count; ++i) {
        worker->arm[i] = worker->arm[i] == arm ? NULL : worker->arm[i];
    }
    arm_free(worker, arm);
    return ATTUNE_OK;
}

/* ---- How an arm was made ---------------------------------------------------------------------------------------- */

static attune_status put_usage(const at_cuda_usage *usage, json_t *answer)
{
    char compiler[48];
    if (usage->compiler > 0) {
        (void)snprintf(compiler, sizeof compiler, "nvrtc %d.%d", usage->compiler / 1000, usage->compiler % 1000 / 10);
    } else {
        (void)snprintf(compiler, sizeof compiler, "nvcc, ahead of time");
    }
    json_t *numbers =
        json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:s,s:s,s:s,s:s}", "threads", usage->threads, "registers",
                  usage->registers, "smem_bytes", usage->smem_bytes, "local_bytes", usage->local_bytes, "spill_bytes",
                  usage->spill_bytes, "warnings", usage->warnings, "blocks_sm", usage->blocks_sm, "source",
                  usage->build, "cubin", usage->cubin, "code", usage->runs, "compiler", compiler);
    AT_FAIL_IF(numbers == NULL || json_object_update(answer, numbers) != 0, ATTUNE_OUT_OF_MEMORY,
               "no memory for an answer");
    json_decref(numbers);
    return ATTUNE_OK;
}

/* The address of what is launched, or a hash of it, tells functions apart, and nothing else. */
static attune_status put_function(json_t *answer, uintptr_t function)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)function);
    return at_answer_put(answer, "function", json_string(text));
}

/* One function serves all configs, each of which is an argument: what is called is both, as they were loaded. */
static uintptr_t cpu_function(const at_loaded *loaded, attune_isa isa)
{
    int tier = (int)isa;
    while (tier > 0 && loaded->kernel->attend[tier] == NULL) {
        --tier;
    }
    uintptr_t address = (uintptr_t)loaded->kernel->attend[tier];
    return (uintptr_t)at_hash64(loaded->config.value, (size_t)loaded->kernel->param_count * sizeof(int32_t), address);
}

static attune_status put_cpu_build(const attune_plan *plan, attune_isa isa, json_t *answer)
{
    at_cuda_usage usage = {.compiler = 0};
    if (at_cpu_source_digest(plan->loaded->kernel->name, usage.build) != ATTUNE_OK) {
        usage.build[0] = '\0';
    }
    if (at_cpu_code_digest(plan->loaded->kernel->name, isa, usage.runs) != ATTUNE_OK) {
        usage.runs[0] = '\0';
    }
    AT_FORWARD(put_usage(&usage, answer));
    AT_FORWARD(put_function(answer, cpu_function(plan->loaded, isa)));
    return at_answer_put(answer, "compiler", json_string(at_cpu_compiler()));
}

/* What is said of the code must be said of the code that is loaded. */
static attune_status put_cuda_build(const at_recipe *recipe, const attune_plan *plan, const attune_target *target,
                                    json_t *answer)
{
    at_cuda_usage usage;
    at_cuda_proof proof;
    AT_FORWARD(at_cuda_inspect_recipe(recipe, target, getenv("ATTUNE_CACHE"), &usage));
    at_cuda_prove(plan->loaded, &proof);
    AT_FAIL_IF(proof.code != usage.code || strcmp(proof.build, usage.build) != 0, ATTUNE_INTERNAL,
               "%s: the code that is loaded is not what was built", plan->kernel_text);
    AT_FORWARD(put_usage(&usage, answer));
    return put_function(answer, proof.function);
}

static attune_status build(at_worker *worker, const json_t *request, json_t *answer)
{
    at_worker_arm *arm;
    AT_FORWARD(at_worker_arm_of(worker, request, "arm", &arm));
    const attune_plan *plan = at_arm_plan(&arm->arm);
    AT_FAIL_IF(plan == NULL, ATTUNE_UNSUPPORTED, "%s is no kernel of attune's", arm->name);
    const attune_target *target = &worker->device->target;
    if (target->kind == ATTUNE_TARGET_CPU) {
        return put_cpu_build(plan, target->isa, answer);
    }
    at_recipe asked;
    const at_recipe *recipe = arm->candidate.data != NULL ? &arm->candidate.data->recipe : &asked;
    if (recipe == &asked) {
        AT_FORWARD(at_recipe_ask(plan->loaded->kernel, &arm->problem, target, &plan->loaded->config, &asked));
    }
    return put_cuda_build(recipe, plan, target, answer);
}

/* Into the cache, for a target that need not be here. */
static attune_status compile(at_worker *worker, const json_t *request, json_t *answer)
{
    const char *text, *params;
    char name[AT_KERNEL_TEXT_MAX];
    attune_problem problem;
    attune_target target;
    attune_reason reason;
    attune_config config = {{0}};
    at_cuda_usage usage;
    json_t *facts;
    (void)worker;
    AT_FORWARD(at_json_string(request, "request", "kernel", &text));
    AT_FORWARD(at_wire_problem(request, "problem", &problem));
    AT_FORWARD(at_json_field(request, "request", "target", JSON_OBJECT, &facts));
    AT_FORWARD(at_wire_target(facts, &target));
    AT_FORWARD(at_kernel_text_split(text, name, sizeof name, &params));
    const attune_kernel *kernel = at_catalogue_find(name);
    AT_FAIL_IF(kernel == NULL || kernel->target != ATTUNE_TARGET_CUDA, ATTUNE_NOT_FOUND,
               "there is no CUDA kernel \"%s\"", name);
    at_config_at(kernel, 0, &config);
    AT_FORWARD(at_config_parse(kernel, params, &config));
    AT_FAIL_IF(!at_kernel_fits(kernel, &problem, &target, &config, &reason), ATTUNE_UNSUPPORTED, "%s", reason.text);
    AT_FORWARD(at_cuda_inspect(kernel, &problem, &target, &config, getenv("ATTUNE_CACHE"), &usage));
    return put_usage(&usage, answer);
}

/* ---- Running ---------------------------------------------------------------------------------------------------- */

static attune_status read_call(const json_t *request, attune_call *call)
{
    json_t *object;
    AT_FORWARD(at_json_field(request, "request", "call", JSON_OBJECT, &object));
    return at_wire_call(object, call);
}

static attune_status workspace(at_worker *worker, const json_t *request, json_t *answer)
{
    at_worker_arm *arm;
    attune_call call;
    size_t bytes = 0;
    AT_FORWARD(at_worker_arm_of(worker, request, "arm", &arm));
    AT_FORWARD(read_call(request, &call));
    AT_FORWARD(at_arm_workspace(&arm->arm, &call, &bytes));
    return at_answer_put(answer, "bytes", json_integer((json_int_t)bytes));
}

typedef struct one_call {
    const at_worker_arm *arm;
    attune_call call;
} one_call;

static attune_status execute(void *context)
{
    const one_call *one = context;
    const at_worker_arm *arm = one->arm;
    return arm->late != NULL ? attune_plan_execute(arm->late, &one->call) : arm->arm.run(arm->arm.self, &one->call);
}

typedef struct fenced_call {
    at_worker *worker;
    one_call *one;
} fenced_call;

static attune_status execute_fenced(void *context, const attune_call *call)
{
    const fenced_call *on = context;
    on->one->call = *call;
    return at_runner_do(on->worker->candidate_code.runner, execute, on->one);
}

static attune_status execute_in(at_worker *worker, one_call *one)
{
    const attune_call call = one->call;
    fenced_call fenced = {worker, one};
    const bool fences = worker->fences;
    worker->fences = false;
    return fences ? at_fence_run(worker->device, &one->arm->problem, &call, execute_fenced, &fenced)
                  : at_runner_do(worker->candidate_code.runner, execute, one);
}

/* Runs one call to its end. */
static attune_status run(at_worker *worker, const json_t *request, json_t *answer)
{
    at_worker_arm *arm;
    one_call one;
    (void)answer;
    AT_FORWARD(at_worker_arm_of(worker, request, "arm", &arm));
    AT_FORWARD(read_call(request, &one.call));
    one.arm = arm;
    AT_FAIL_IF(arm->arm.run == NULL, ATTUNE_UNSUPPORTED, "%s computes into outputs of its own only", arm->name);
    const attune_plan *plan = at_arm_plan(&arm->arm);
    AT_FORWARD(plan != NULL ? at_worker_fill(worker, plan->loaded, one.call.stream) : ATTUNE_OK);
    AT_FORWARD(execute_in(worker, &one));
    return worker->device->ops->synchronise(worker->device, one.call.stream);
}

const at_worker_op at_worker_arm_ops[] = {
    {"load", true, load}, {"drop", true, drop},        {"build", true, build}, {"workspace", true, workspace},
    {"run", true, run},   {"compile", false, compile}, {NULL, false, NULL},
};
