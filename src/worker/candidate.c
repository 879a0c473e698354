#include "worker/candidate.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"
#include "stranger/object.h"
#include "stranger/sandbox.h"

/* Of address space: Q, K, V and O with offsets over 2^31 take 9 GB each, of which nearly nothing is there. */
enum { MEMORY_MAX_GIB = 64 };

attune_status at_candidate_begin(at_candidate_code *code)
{
    const at_sandbox_limits limits = {.memory = (size_t)MEMORY_MAX_GIB << 30, .no_clock = true};
    AT_FORWARD(at_sandbox_here());
    AT_FORWARD(at_sandbox_begin(&limits));
    code->begun = true;
    return ATTUNE_OK;
}

/* ---- Code of CPU kernels ---------------------------------------------------------------------------------------- */

/* An anonymous file that cannot be changed any more, so that what is loaded is what was looked at. */
static attune_status make_file(const at_embedded *object, int *fd)
{
    *fd = memfd_create("candidate", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    AT_FAIL_IF(*fd < 0, ATTUNE_IO_ERROR, "a file for %s's code: %s", object->name, strerror(errno));
    ssize_t written = write(*fd, object->data, object->size);
    AT_FAIL_IF(written < 0 || (size_t)written != object->size ||
                   fcntl(*fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0,
               ATTUNE_IO_ERROR, "a file for %s's code: %s", object->name, strerror(errno));
    return ATTUNE_OK;
}

static attune_status load_object(int fd, const char *name, attune_attend *attend)
{
    char path[64];
    char symbol[80];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    (void)snprintf(symbol, sizeof symbol, "attend_%s", name);
    AT_FORWARD(at_sandbox_lock(AT_LOCK_LOADING));
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    AT_FAIL_IF(object == NULL, ATTUNE_COMPILE_ERROR, "%s's code cannot be loaded: %s", name, dlerror());
    void *function = dlsym(object, symbol);
    AT_FAIL_IF(function == NULL, ATTUNE_COMPILE_ERROR, "%s's code has no function ATTUNE_TIER(%s)", name, symbol);
    memcpy(attend, &function, sizeof *attend);
    return at_sandbox_lock(AT_LOCK_RUNNING);
}

static attune_status load_code(at_candidate_code *code, const at_embedded *object)
{
    int fd = -1;
    AT_FORWARD(at_object_check(object->name, object->data, object->size, AT_OBJECT_KERNEL));
    attune_status status = make_file(object, &fd);
    if (status == ATTUNE_OK) {
        status = load_object(fd, object->name, &code->attend);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

static attune_status add_code(at_candidate_code *code, at_recipe_data *data)
{
    const at_embedded *object = &data->sources[0];
    unsigned char digest[AT_DIGEST_BYTES];
    at_sha256 sha;
    AT_FAIL_IF(!code->begun, ATTUNE_UNSUPPORTED,
               "%s: a stranger's code for a CPU runs in a worker that was opened for it", data->kernel->kernel.name);
    at_sha256_init(&sha);
    at_sha256_add(&sha, object->data, object->size);
    at_sha256_end(&sha, digest);
    if (code->attend == NULL) {
        AT_FORWARD(load_code(code, object));
        memcpy(code->digest, digest, sizeof digest);
    }
    AT_FAIL_IF(memcmp(code->digest, digest, sizeof digest) != 0, ATTUNE_UNSUPPORTED,
               "%s: this worker has other code loaded, and can load no more", object->name);
    data->kernel->kernel.attend[ATTUNE_ISA_BASELINE] = code->attend;
    return ATTUNE_OK;
}

/* ---- Loading ---------------------------------------------------------------------------------------------------- */

static attune_status load(at_candidate_code *code, json_t *recipe, at_candidate *candidate, attune_plan **plan)
{
    AT_FORWARD(at_wire_recipe(recipe, &candidate->device->target, &candidate->data));
    if (candidate->data->kernel->kernel.target == ATTUNE_TARGET_CPU) {
        AT_FORWARD(add_code(code, candidate->data));
    }
    AT_FORWARD(candidate->device->ops->load(candidate->device, &candidate->data->recipe, &candidate->loaded));
    return at_plan_bind(&candidate->data->recipe.problem, candidate->loaded, AT_ORIGIN_NAMED, plan);
}

attune_status at_candidate_load(at_candidate_code *code, at_device *device, json_t *recipe, at_candidate *candidate,
                                attune_plan **plan)
{
    *candidate = (at_candidate){.device = device};
    *plan = NULL;
    attune_status status = load(code, recipe, candidate, plan);
    if (status != ATTUNE_OK) {
        at_candidate_free(candidate);
    }
    return status;
}

void at_candidate_free(at_candidate *candidate)
{
    if (candidate->loaded != NULL) {
        candidate->device->ops->unload(candidate->loaded);
    }
    at_recipe_data_free(candidate->data);
    *candidate = (at_candidate){0};
}
