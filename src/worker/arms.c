#include "worker/arms.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "core/config.h"
#include "library/catalogue.h"
#include "library/context.h"
#include "peers/caller.h"
#include "peers/cudnn.h"
#include "peers/openblas.h"
#include "stranger/stranger.h"

static const char auto_name[] = "auto";

/* ---- Kernels --------------------------------------------------------------------------------------------------------
 */

static attune_status open_kernel(attune_context *context, const char *name, const attune_problem *problem,
                                 attune_arm *arm)
{
    const bool any = strcmp(name, auto_name) == 0;
    const attune_plan_options options = {.size = sizeof options, .kernel = any ? NULL : name};
    attune_plan *plan = NULL;
    AT_FORWARD(attune_plan_create(context, problem, &options, &plan));
    at_arm_of_plan(plan, arm);
    return ATTUNE_OK;
}

/* ---- Folders --------------------------------------------------------------------------------------------------------
 */

typedef struct folder {
    at_found_kernel found;
    at_device *device;
    attune_plan *plan;
    char name[AT_KERNEL_TEXT_MAX];
} folder;

static attune_status folder_workspace(void *self, const attune_call *call, size_t *bytes)
{
    return attune_plan_workspace(((const folder *)self)->plan, call, bytes);
}

static attune_status folder_run(void *self, const attune_call *call)
{
    return attune_plan_execute(((const folder *)self)->plan, call);
}

static void folder_close(void *self)
{
    folder *on = self;
    if (on->plan != NULL) {
        at_loaded *loaded = (at_loaded *)(uintptr_t)on->plan->loaded;
        attune_plan_destroy(on->plan);
        on->device->ops->unload(loaded);
    }
    at_found_kernel_close(&on->found);
    free(on);
}

static attune_status load_folder(folder *on, const char *name, const attune_problem *problem)
{
    AT_FORWARD(at_kernel_find(name, NULL, &on->found));
    AT_FAIL_IF(on->found.kernel->target == ATTUNE_TARGET_CPU, ATTUNE_UNSUPPORTED,
               "%s: a folder's code for a CPU runs only in a process that is locked for it", name);
    AT_FORWARD(at_stranger_plan(on->found.stranger, on->device, problem, on->found.params, &on->plan));
    (void)snprintf(on->name, sizeof on->name, "%s", name);
    return ATTUNE_OK;
}

/* Device code has no way to the host: it may be launched from here. A folder's host code never runs here. */
static attune_status open_folder(attune_context *context, const char *name, const attune_problem *problem,
                                 attune_arm *arm)
{
    folder *on = calloc(1, sizeof *on);
    AT_FAIL_IF(on == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %s", name);
    on->device = at_context_device(context);
    attune_status status = load_folder(on, name, problem);
    if (status != ATTUNE_OK) {
        folder_close(on);
        return status;
    }
    *arm = (attune_arm){.size = sizeof *arm,
                        .name = on->name,
                        .account = at_stranger_digest(on->found.stranger),
                        .traits = on->found.kernel->traits,
                        .self = on,
                        .workspace = folder_workspace,
                        .run = folder_run,
                        .close = folder_close};
    return ATTUNE_OK;
}

/* ---- Peers ----------------------------------------------------------------------------------------------------------
 */

static attune_status open_openblas(attune_context *context, const attune_problem *problem, attune_arm *arm)
{
    return at_openblas_arm(at_context_pool(context), &at_context_device(context)->target, problem, arm);
}

static attune_status open_cudnn(attune_context *context, const attune_problem *problem, attune_arm *arm)
{
    return at_cudnn_arm(at_context_device(context), problem, false, arm);
}

static attune_status open_cudnn_fastest(attune_context *context, const attune_problem *problem, attune_arm *arm)
{
    return at_cudnn_arm(at_context_device(context), problem, true, arm);
}

typedef struct known_peer {
    const char *name;
    attune_status (*open)(attune_context *context, const attune_problem *problem, attune_arm *arm);
} known_peer;

static const known_peer peers[] = {
    {"openblas", open_openblas},
    {"cudnn", open_cudnn},
    {"cudnn:fastest", open_cudnn_fastest},
};
enum { PEERS = sizeof peers / sizeof peers[0] };

static const known_peer *find_peer(const char *name)
{
    for (int i = 0; i < PEERS; ++i) {
        if (strcmp(peers[i].name, name) == 0) {
            return &peers[i];
        }
    }
    return NULL;
}

/* ---- Names ----------------------------------------------------------------------------------------------------------
 */

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

bool at_arms_python(const char *name)
{
    return begins(name, "torch:") || begins(name, "py:");
}

/* The end of the file's path in py:FILE:FUNCTION; NULL where it is none. */
static const char *end_of_path(const char *name)
{
    return begins(name, "py:") ? strrchr(name + strlen("py:"), ':') : NULL;
}

void at_arm_label(const char *name, char label[AT_KERNEL_TEXT_MAX])
{
    const char *end = end_of_path(name);
    const char *file = end;
    while (file != NULL && file > name + strlen("py:") && file[-1] != '/') {
        --file;
    }
    (void)snprintf(label, AT_KERNEL_TEXT_MAX, "%s%s", file == NULL ? "" : "py:", file == NULL ? name : file);
}

bool at_arm_is_file_of(const char *name, const char *account)
{
    enum { FILE_BYTES_MAX = 1 << 26 };
    const char *end = end_of_path(name), *path = name + strlen("py:");
    char file[AT_KERNEL_TEXT_MAX], digest[AT_DIGEST_TEXT_MAX];
    void *data = NULL;
    size_t bytes = 0;
    if (end == NULL) {
        return true;
    }
    (void)snprintf(file, sizeof file, "%.*s", (int)(end - path), path);
    if (at_file_read(file, FILE_BYTES_MAX, &data, &bytes) != ATTUNE_OK) {
        return false;
    }
    at_digest_of(data, bytes, digest);
    free(data);
    return strstr(account, digest) != NULL;
}

const char *const *at_arms_best(attune_target_kind kind)
{
    static const char *const cpu[] = {"torch:cpu", NULL};
    static const char *const cuda[] = {"torch:flash", "torch:cudnn", "torch:efficient", "torch:math", NULL};
    return kind == ATTUNE_TARGET_CUDA ? cuda : cpu;
}

size_t at_arm_name_length(const char *list)
{
    size_t length = strcspn(list, ",");
    bool params = memchr(list, ':', length) != NULL;
    while (params && list[length] == ',') {
        const char *next = list + length + 1;
        size_t more = strcspn(next, ",");
        if (memchr(next, '=', more) == NULL || memchr(next, ':', more) != NULL) {
            break;
        }
        length += more + 1;
    }
    return length;
}

static attune_status unknown(const char *name)
{
    const char *candidates[PEERS + 2] = {auto_name, at_catalogue_nearest(name)};
    for (int i = 0; i < PEERS; ++i) {
        candidates[2 + i] = peers[i].name;
    }
    const char *nearest = at_text_nearest(name, candidates, sizeof candidates / sizeof candidates[0]);
    if (nearest != NULL) {
        return at_fail(ATTUNE_NOT_FOUND, "there is no kernel %s: did you mean %s?", name, nearest);
    }
    return at_fail(ATTUNE_NOT_FOUND, "there is no kernel %s: `attune info` lists them", name);
}

attune_status at_arms_check(const char *name)
{
    char kernel_name[AT_KERNEL_TEXT_MAX];
    const char *params;
    if (strcmp(name, auto_name) == 0 || find_peer(name) != NULL) {
        return ATTUNE_OK;
    }
    AT_FAIL_IF(at_arms_python(name), ATTUNE_NOT_FOUND, "%s: only a worker in Python has it", name);
    if (at_stranger_is_meant(name)) {
        return ATTUNE_OK; /* what is in the folder is looked at when it is opened */
    }
    AT_FORWARD(at_kernel_text_split(name, kernel_name, sizeof kernel_name, &params));
    if (at_catalogue_find(kernel_name) == NULL) {
        return unknown(kernel_name);
    }
    attune_status status = at_catalogue_check(name, NULL);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "%s", name);
}

static attune_status check_torch(const char *name)
{
    static const char *const known[] = {"torch:flash", "torch:cudnn",   "torch:efficient",
                                        "torch:math",  "torch:default", "torch:cpu"};
    enum { KNOWN = sizeof known / sizeof known[0] };
    for (int i = 0; i < KNOWN; ++i) {
        if (strcmp(known[i], name) == 0) {
            return ATTUNE_OK;
        }
    }
    return at_fail(ATTUNE_NOT_FOUND,
                   "%s: PyTorch's back ends are torch:flash, cudnn, efficient, math, default, and on a CPU cpu", name);
}

static attune_status check_python(const char *name)
{
    const char *file = name + strlen("py:");
    const char *function = strrchr(file, ':');
    AT_FAIL_IF(function == NULL || function == file || function[1] == '\0', ATTUNE_INVALID_ARGUMENT,
               "%s: py:FILE:FUNCTION is needed", name);
    char *path = strndup(file, (size_t)(function - file));
    AT_FAIL_IF(path == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for the name of a file");
    int error = access(path, R_OK) == 0 ? 0 : errno;
    free(path);
    AT_FAIL_IF(error != 0, error == ENOENT ? ATTUNE_NOT_FOUND : ATTUNE_IO_ERROR, "%s: its file cannot be read: %s",
               name, strerror(error));
    return ATTUNE_OK;
}

attune_status at_arms_check_hooked(const char *name, bool own)
{
    if (at_arms_python(name)) {
        return begins(name, "py:") ? check_python(name) : check_torch(name);
    }
    return own ? ATTUNE_OK : at_arms_check(name);
}

/* ---- Opening --------------------------------------------------------------------------------------------------------
 */

/* Whether the hooks have the name; they are asked before the catalogue, so that a program may call its arms what it
 * likes but for the names above. */
static attune_status open_hooked(const attune_context *context, const char *name, const attune_problem *problem,
                                 const attune_arm_hooks *hooks, attune_arm *arm)
{
    return hooks == NULL ? ATTUNE_NOT_FOUND
                         : at_caller_arm(hooks, name, problem, &at_context_device(context)->target, arm);
}

attune_status at_arms_open(attune_context *context, const char *name, const attune_problem *problem,
                           const attune_arm_hooks *hooks, attune_arm *arm)
{
    const known_peer *peer = find_peer(name);
    *arm = (attune_arm){0};
    if (peer != NULL) {
        return peer->open(context, problem, arm);
    }
    if (strcmp(name, auto_name) != 0) {
        attune_status status = open_hooked(context, name, problem, hooks, arm);
        if (status != ATTUNE_NOT_FOUND) {
            return status;
        }
        AT_FORWARD(at_arms_check(name));
        if (at_stranger_is_meant(name)) {
            return open_folder(context, name, problem, arm);
        }
    }
    return open_kernel(context, name, problem, arm);
}
