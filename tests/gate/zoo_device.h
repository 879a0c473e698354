/* A device for testing the gate: runs zoo kernels on the calling thread. As a CPU it uses host buffers in place; posing
 * as a GPU its buffers are twins, and a pointer to host memory does not work by accident. */
#ifndef TESTS_GATE_ZOO_DEVICE_H
#define TESTS_GATE_ZOO_DEVICE_H

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/plan.h"
#include "core/term.h"
#include "zoo.h"

enum { ZOO_SCRATCH = 65536, ZOO_HELD = 64 };

typedef struct zoo_device {
    at_device device;
    zoo_flaw flaw;
    bool broken_launch; /* every launch fails */
    attune_kernel kernel;
    at_loaded loaded;
    struct {
        unsigned char *data;
        size_t bytes;
    } held[ZOO_HELD]; /* what was allocated and not released */
} zoo_device;

static bool zoo_holds(const zoo_device *on, const void *data)
{
    for (int i = 0; i < ZOO_HELD; ++i) {
        const unsigned char *at = data;
        if (on->held[i].data != NULL && at >= on->held[i].data && at <= on->held[i].data + on->held[i].bytes) {
            return true;
        }
    }
    return false;
}

static attune_status zoo_allocate(at_device *device, size_t bytes, void **data)
{
    zoo_device *on = (zoo_device *)device;
    for (int i = 0; i < ZOO_HELD; ++i) {
        if (on->held[i].data == NULL) {
            on->held[i].data = aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
            on->held[i].bytes = bytes;
            *data = on->held[i].data;
            return ATTUNE_OK;
        }
    }
    return at_fail(ATTUNE_OUT_OF_MEMORY, "the zoo is full");
}

static void zoo_release(at_device *device, void *data)
{
    zoo_device *on = (zoo_device *)device;
    for (int i = 0; i < ZOO_HELD; ++i) {
        if (on->held[i].data == data) {
            free(data);
            on->held[i].data = NULL;
            return;
        }
    }
    abort(); /* released twice, or never allocated */
}

static attune_status zoo_copy(at_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    memcpy(to, from, bytes);
    return ATTUNE_OK;
}

static attune_status zoo_synchronise(at_device *device, void *stream)
{
    (void)device;
    (void)stream;
    return ATTUNE_OK;
}

static attune_status zoo_launch(const at_loaded *loaded, at_made *made, void *stream)
{
    const attune_args *args = &made->args;
    const zoo_device *on = (const zoo_device *)loaded->device;
    (void)stream;
    if (on->broken_launch) {
        return at_fail(ATTUNE_DEVICE_ERROR, "the zoo is closed");
    }
    for (int role = 0; on->device.target.kind == ATTUNE_TARGET_CUDA && role < ATTUNE_ROLE_COUNT; ++role) {
        if (args->tensor[role].data != NULL && !zoo_holds(on, args->tensor[role].data)) {
            return at_fail(ATTUNE_DEVICE_ERROR, "role %d is not in this device's memory", role);
        }
    }
    float *scratch = malloc(ZOO_SCRATCH);
    for (int64_t i = 0; i < args->batch * args->heads_q * args->seqlen_q; ++i) {
        zoo_attend(args, i, scratch, on->flaw);
    }
    free(scratch);
    return ATTUNE_OK;
}

static const at_device_ops zoo_ops = {
    .launch = zoo_launch,
    .synchronise = zoo_synchronise,
    .allocate = zoo_allocate,
    .release = zoo_release,
    .upload = zoo_copy,
    .download = zoo_copy,
};

/* Opens the zoo with one animal in it. `traits` are what its descriptor declares. */
static void zoo_open(zoo_device *on, zoo_flaw flaw, attune_target_kind kind, uint32_t traits)
{
    memset(on, 0, sizeof *on);
    on->device.ops = &zoo_ops;
    on->device.target = (attune_target){.size = sizeof(attune_target), .kind = kind, .threads = 1};
    on->flaw = flaw;
    on->kernel = (attune_kernel){.size = sizeof on->kernel, .abi = ATTUNE_ABI, .target = kind, .name = "zoo"};
    on->kernel.traits = traits;
    on->loaded.device = &on->device;
    on->loaded.kernel = &on->kernel;
    on->loaded.resources.workspace = attune_term_const(0);
}

/* The plan-maker: `self` is the zoo. Refuses what its scratch cannot hold, and head dims over 128. */
static attune_status zoo_plan(void *self, const attune_problem *problem, attune_plan **plan)
{
    zoo_device *on = self;
    if (problem->head_dim_qk > 128) {
        return at_fail(ATTUNE_UNSUPPORTED, "head_dim_qk %d: at most 128", problem->head_dim_qk);
    }
    if (problem->seqlen_kv > ZOO_SCRATCH / 4) {
        return at_fail(ATTUNE_UNSUPPORTED, "seqlen_kv %lld is too long", (long long)problem->seqlen_kv);
    }
    return at_plan_bind(problem, &on->loaded, AT_ORIGIN_NAMED, plan);
}

#endif
