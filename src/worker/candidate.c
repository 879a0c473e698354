#include "worker/candidate.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
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
    AT_FORWARD(at_runner_create(&code->runner));
    code->begun = true;
    return ATTUNE_OK;
}

void at_candidate_end(at_candidate_code *code)
{
    at_runner_destroy(code->runner);
    *code = (at_candidate_code){.begun = false};
}

/* ---- Locking ----------------------------------------------------------------------------------------------------- */

typedef struct locking {
    const at_sandbox_filter *filter;
    at_pool *pool;
    atomic_int come, failed;
} locking;

/* Nobody goes on before all have come: so each thread of the pool has one item. */
static void lock_this_thread(void *context, int64_t item, void *scratch)
{
    locking *on = context;
    (void)item;
    (void)scratch;
    atomic_fetch_add(&on->failed, at_sandbox_lock_thread(on->filter) != ATTUNE_OK);
    atomic_fetch_add(&on->come, 1);
    while (atomic_load(&on->come) < at_pool_threads(on->pool)) {
        (void)sched_yield();
    }
}

static attune_status lock_pool(void *context)
{
    locking *on = context;
    at_pool_run(on->pool, at_pool_threads(on->pool), lock_this_thread, on);
    AT_FAIL_IF(atomic_load(&on->failed) != 0, ATTUNE_UNSUPPORTED, "sandbox: %d of %d threads cannot be locked",
               atomic_load(&on->failed), at_pool_threads(on->pool));
    return ATTUNE_OK;
}

/* The threads that will run the code may do less than this one, which reads requests and allocates. */
static attune_status lock_threads(const at_candidate_code *code)
{
    at_sandbox_filter items, running;
    AT_FORWARD(at_sandbox_filter_make(AT_LOCK_ITEMS, &items));
    attune_status status = at_sandbox_filter_make(AT_LOCK_RUNNING, &running);
    if (status == ATTUNE_OK) {
        locking on = {.filter = &items, .pool = code->pool};
        status = at_runner_do(code->runner, lock_pool, &on);
        status = status == ATTUNE_OK ? at_sandbox_lock_thread(&running) : status;
        at_sandbox_filter_free(&running);
    }
    at_sandbox_filter_free(&items);
    return status;
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

static attune_status load_object(at_candidate_code *code, int fd, const char *name)
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
    AT_FORWARD(lock_threads(code));
    memcpy(&code->attend, &function, sizeof code->attend);
    return ATTUNE_OK;
}

static attune_status load_code(at_candidate_code *code, const at_embedded *object)
{
    int fd = -1;
    AT_FORWARD(at_object_check(object->name, object->data, object->size, AT_OBJECT_KERNEL));
    attune_status status = make_file(object, &fd);
    if (status == ATTUNE_OK) {
        status = load_object(code, fd, object->name);
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
