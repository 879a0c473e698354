#include "stranger/stranger.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/status.h"
#include "core/config.h"
#include "core/descriptor.h"
#include "cuda/build.h"
#include "library/catalogue.h"
#include "stranger/sandbox.h"
#include "stranger/wire_kernel.h"
#include "wire/channel.h"

enum { OBJECT_MAX = 400 << 10, CONFIGS_MAX = 64, ANSWER_S = 10 };

struct at_stranger {
    at_described face;    /* the kernel, as others ask it */
    pthread_mutex_t lock; /* of the line to its descriptor, and of what is kept of its answers */
    at_stranger_files files;
    at_stranger_tools tools;
    at_channel *channel;
    at_kernel_data *data;
    json_t *answers;                         /* by question; steps hold texts of the answer they came in */
    at_embedded *sources;                    /* CUDA: the stranger's, then the library's own; ends with a NULL name */
    at_embedded object[ATTUNE_ISA_COUNT][2]; /* CPU: for each tier, once it is compiled */
};

/* ---- Asking ----------------------------------------------------------------------------------------------------- */

/* A process that hangs, crashes or does what the sandbox forbids is the descriptor's fault, and no device's. */
static attune_status ask_now(at_stranger *on, const char *op, json_t *fields, json_t **ok)
{
    double seconds = on->tools.patience_s > 0 ? on->tools.patience_s : ANSWER_S;
    attune_status status = at_channel_ask(on->channel, op, fields, seconds, ok);
    if (at_channel_death(on->channel) != NULL && status == ATTUNE_DEVICE_ERROR) {
        return at_fail(ATTUNE_INVALID_ARGUMENT, "descriptor of %s, asked for \"%s\": %s", on->files.folder, op,
                       at_channel_death(on->channel));
    }
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "descriptor of %s", on->files.folder);
}

static char *question_of(const char *op, const json_t *fields)
{
    char *asked = json_dumps(fields, JSON_COMPACT | JSON_SORT_KEYS);
    char *question = NULL;
    if (asked == NULL || asprintf(&question, "%s %s", op, asked) < 0) {
        question = NULL;
    }
    free(asked);
    return question;
}

/* Each question is put once, and has that answer ever after: what is judged is what is timed. Takes the fields; the
 * answer is the caller's to release, and as a part of what is kept lives as long as the stranger. */
static attune_status ask(at_stranger *on, const char *op, json_t *fields, json_t **ok)
{
    char *question = fields != NULL ? question_of(op, fields) : NULL;
    if (question == NULL) {
        json_decref(fields);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "no memory to ask for \"%s\"", op);
    }
    *ok = json_incref(json_object_get(on->answers, question));
    attune_status status = ATTUNE_OK;
    if (*ok != NULL) {
        json_decref(fields);
    } else {
        status = ask_now(on, op, fields, ok);
    }
    if (status == ATTUNE_OK && json_object_set(on->answers, question, *ok) != 0) {
        json_decref(*ok);
        status = at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for the answer to \"%s\"", op);
    }
    free(question);
    return status;
}

/* Which device of its kind it is, a descriptor need not know; a typical one is none. */
static json_t *place_of(const attune_problem *problem, const attune_target *target)
{
    attune_target of_its_kind = *target;
    of_its_kind.device = 0;
    return json_pack("{s:o,s:o}", "problem", at_wire_from_problem(problem), "target",
                     at_wire_from_target(&of_its_kind));
}

static attune_status read_opinion(const json_t *ok, const char *folder)
{
    const char *why;
    bool can;
    AT_FORWARD(at_json_bool(ok, "answer", "can", &can));
    if (can) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_json_string(ok, "answer", "why", &why));
    AT_FAIL_IF(*why == '\0', ATTUNE_CORRUPT, "descriptor of %s: it refuses without a reason", folder);
    return at_fail(ATTUNE_UNSUPPORTED, "%s", why);
}

/* supports, and valid where there is a config. */
static attune_status ask_opinion(at_stranger *on, const attune_problem *problem, const attune_target *target,
                                 const attune_config *config)
{
    json_t *fields = place_of(problem, target);
    json_t *ok;
    if (config != NULL && fields != NULL) {
        (void)json_object_set_new(fields, "config", at_wire_from_config(&on->data->kernel, config));
    }
    AT_FORWARD(ask(on, config == NULL ? "supports" : "valid", fields, &ok));
    attune_status status = read_opinion(ok, on->files.folder);
    json_decref(ok);
    return status;
}

/* ATTUNE_NOT_FOUND where there are no more. */
static attune_status ask_heuristic(at_stranger *on, const attune_problem *problem, const attune_target *target,
                                   int index, attune_config *config)
{
    json_t *fields = place_of(problem, target);
    json_t *ok;
    if (fields != NULL) {
        (void)json_object_set_new(fields, "index", json_integer(index));
    }
    AT_FORWARD(ask(on, "heuristic", fields, &ok));
    const json_t *found = json_object_get(ok, "config");
    attune_status status = found == NULL ? at_fail(ATTUNE_NOT_FOUND, "its heuristic has no config of index %d", index)
                                         : at_wire_config(found, &on->data->kernel, config);
    json_decref(ok);
    return status;
}

static attune_status ask_plan(at_stranger *on, const attune_target *target, at_recipe *recipe)
{
    json_t *fields = place_of(&recipe->problem, target);
    json_t *ok, *plan;
    if (fields != NULL) {
        (void)json_object_set_new(fields, "config", at_wire_from_config(recipe->kernel, &recipe->config));
    }
    AT_FORWARD(ask(on, "plan", fields, &ok));
    attune_status status = at_json_field(ok, "answer", "plan", JSON_OBJECT, &plan);
    status = status == ATTUNE_OK ? at_wire_plan(plan, &recipe->resources, &recipe->steps) : status;
    json_decref(ok);
    return status;
}

/* ---- One config ----------------------------------------------------------------------------------------------------
 */

static attune_status get_object(at_stranger *on, attune_isa isa, const at_embedded **object)
{
    char *path;
    void *data;
    size_t bytes;
    *object = on->object[isa];
    if (on->object[isa][0].name != NULL) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_stranger_compile_kernel(&on->files, &on->tools, isa, &path));
    attune_status status = at_file_read(path, OBJECT_MAX, &data, &bytes);
    free(path);
    AT_FORWARD(status);
    on->object[isa][0] = (at_embedded){on->data->kernel.name, data, bytes};
    return ATTUNE_OK;
}

static attune_status add_code(at_stranger *on, const attune_target *target, at_recipe *recipe)
{
    if (recipe->kernel->target == ATTUNE_TARGET_CPU) {
        return get_object(on, target->isa, &recipe->sources);
    }
    recipe->sources = on->sources;
    return ATTUNE_OK;
}

/* Resources and steps of one config; ATTUNE_UNSUPPORTED where the target has not enough of something. */
static attune_status try_config(at_stranger *on, const attune_target *target, at_recipe *recipe)
{
    AT_FORWARD(ask_opinion(on, &recipe->problem, target, &recipe->config));
    AT_FORWARD(ask_plan(on, target, recipe));
    return at_recipe_check(recipe, target);
}

/* ---- As others ask it ------------------------------------------------------------------------------------------- */

static bool can(attune_status status, attune_reason *reason)
{
    return status == ATTUNE_OK || attune_refuse(reason, "%.230s", attune_last_detail());
}

static bool answer_supports(void *self, const attune_problem *problem, const attune_target *target,
                            attune_reason *reason)
{
    at_stranger *on = self;
    (void)pthread_mutex_lock(&on->lock);
    attune_status status = ask_opinion(on, problem, target, NULL);
    (void)pthread_mutex_unlock(&on->lock);
    return can(status, reason);
}

static bool answer_fits(void *self, const attune_problem *problem, const attune_target *target,
                        const attune_config *config, attune_reason *reason)
{
    at_stranger *on = self;
    at_recipe recipe = {.kernel = &on->face.kernel, .problem = *problem, .config = *config};
    (void)pthread_mutex_lock(&on->lock);
    attune_status status = try_config(on, target, &recipe);
    (void)pthread_mutex_unlock(&on->lock);
    return can(status, reason);
}

static bool answer_heuristic(void *self, const attune_problem *problem, const attune_target *target, int32_t index,
                             attune_config *config)
{
    at_stranger *on = self;
    (void)pthread_mutex_lock(&on->lock);
    attune_status status = ask_heuristic(on, problem, target, index, config);
    (void)pthread_mutex_unlock(&on->lock);
    return status == ATTUNE_OK;
}

static attune_status answer_recipe(void *self, const attune_target *target, at_recipe *recipe)
{
    at_stranger *on = self;
    (void)pthread_mutex_lock(&on->lock);
    attune_status status = ask_plan(on, target, recipe);
    status = status == ATTUNE_OK ? add_code(on, target, recipe) : status;
    (void)pthread_mutex_unlock(&on->lock);
    return status;
}

static const at_descriptor_ops answers_of = {
    .supports = answer_supports, .fits = answer_fits, .heuristic = answer_heuristic, .recipe = answer_recipe};

/* ---- Opening ---------------------------------------------------------------------------------------------------- */

static attune_status ask_about(at_stranger *on)
{
    json_t *ok;
    json_t *kernel;
    AT_FORWARD(ask(on, "about", json_object(), &ok));
    attune_status status = at_json_field(ok, "answer", "kernel", JSON_OBJECT, &kernel);
    if (status == ATTUNE_OK) {
        status = at_wire_kernel(kernel, &on->data);
    }
    json_decref(ok);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "descriptor of %s", on->files.folder);
}

/* The stranger's files come first: where one has the name of the library's, it is meant. */
static attune_status join_sources(at_stranger *on)
{
    size_t own = 0;
    while (at_cuda_sources[own].name != NULL) {
        ++own;
    }
    on->sources = calloc(own + (size_t)on->files.count + 1, sizeof *on->sources);
    AT_FAIL_IF(on->sources == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu sources", own);
    memcpy(on->sources, on->files.file, (size_t)on->files.count * sizeof *on->sources);
    memcpy(on->sources + on->files.count, at_cuda_sources, own * sizeof *on->sources);
    return ATTUNE_OK;
}

static attune_status check_files(const at_stranger *on)
{
    const attune_kernel *kernel = &on->data->kernel;
    if (kernel->target == ATTUNE_TARGET_CPU) {
        AT_FAIL_IF(on->files.kernel == NULL, ATTUNE_INVALID_ARGUMENT,
                   "%s: a kernel for a CPU, but there is no NAME.kernel.c", on->files.folder);
        return ATTUNE_OK;
    }
    for (int i = 0; i < on->files.count; ++i) {
        if (strcmp(on->files.name[i], kernel->source) == 0) {
            return ATTUNE_OK;
        }
    }
    return at_fail(ATTUNE_INVALID_ARGUMENT, "%s: the descriptor's source is '%.80s', which is not there",
                   on->files.folder, kernel->source);
}

static attune_status start_questions(at_stranger *on)
{
    char *object;
    AT_FORWARD(at_stranger_compile_descriptor(&on->files, &on->tools, &object));
    const char *const command[] = {"/proc/self/exe", "sandbox", "question", object, NULL};
    const at_channel_options options = {.command = command};
    attune_status status = at_channel_open(&options, &on->channel);
    if (status == ATTUNE_OK) {
        status = ask_about(on);
    }
    free(object);
    return status;
}

static attune_status open_stranger(const char *folder, at_stranger *on)
{
    AT_FORWARD(at_sandbox_here());
    AT_FORWARD(at_stranger_files_read(folder, &on->files));
    AT_FORWARD(start_questions(on));
    AT_FORWARD(check_files(on));
    on->face = (at_described){on->data->kernel, &answers_of, on};
    return join_sources(on);
}

attune_status at_stranger_open(const char *folder, const at_stranger_tools *tools, at_stranger **stranger)
{
    *stranger = NULL;
    at_stranger *on = calloc(1, sizeof *on);
    AT_FAIL_IF(on == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a stranger");
    on->tools = tools != NULL ? *tools : (at_stranger_tools){0};
    on->answers = json_object();
    (void)pthread_mutex_init(&on->lock, NULL); /* cannot fail with default attributes on Linux */
    attune_status status = on->answers == NULL ? at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a stranger's answers")
                                               : open_stranger(folder, on);
    if (status != ATTUNE_OK) {
        at_stranger_close(on);
        return status;
    }
    *stranger = on;
    return ATTUNE_OK;
}

static bool is_directory(const char *path)
{
    struct stat is;
    return stat(path, &is) == 0 && S_ISDIR(is.st_mode);
}

/* "FOLDER:PARAM=VALUE,...": how long the folder is, and what follows it. */
static size_t folder_length(const char *text, const char **params)
{
    const char *colon = strrchr(text, ':');
    bool with_params = colon != NULL && strchr(colon, '=') != NULL;
    *params = with_params ? colon + 1 : "";
    return with_params ? (size_t)(colon - text) : strlen(text);
}

bool at_stranger_is_meant(const char *text)
{
    char folder[AT_KERNEL_TEXT_MAX];
    const char *params;
    size_t length = folder_length(text, &params);
    (void)snprintf(folder, sizeof folder, "%.*s", (int)length, text);
    return memchr(text, '/', length) != NULL || (at_catalogue_find(folder) == NULL && is_directory(folder));
}

attune_status at_stranger_find(const char *text, const at_stranger_tools *tools, at_stranger **stranger,
                               const char **params)
{
    attune_config scratch = {{0}};
    *stranger = NULL;
    char *folder = strndup(text, folder_length(text, params));
    AT_FAIL_IF(folder == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for the name of a folder");
    attune_status status = is_directory(folder) ? at_stranger_open(folder, tools, stranger)
                                                : at_fail(ATTUNE_NOT_FOUND, "there is no folder \"%s\"", folder);
    free(folder);
    AT_FORWARD(status);
    status = at_config_parse(&(*stranger)->face.kernel, *params, &scratch);
    if (status != ATTUNE_OK) {
        at_stranger_close(*stranger);
        *stranger = NULL;
    }
    return status;
}

attune_status at_kernel_find(const char *text, const at_stranger_tools *tools, at_found_kernel *found)
{
    *found = (at_found_kernel){.params = ""};
    if (at_stranger_is_meant(text)) {
        AT_FORWARD(at_stranger_find(text, tools, &found->stranger, &found->params));
        found->kernel = at_stranger_kernel(found->stranger);
        return ATTUNE_OK;
    }
    AT_FORWARD(at_catalogue_check(text, &found->kernel));
    const char *colon = strchr(text, ':');
    found->params = colon != NULL ? colon + 1 : "";
    return ATTUNE_OK;
}

void at_found_kernel_close(at_found_kernel *found)
{
    at_stranger_close(found->stranger);
    *found = (at_found_kernel){.params = ""};
}

void at_stranger_close(at_stranger *on)
{
    if (on == NULL) {
        return;
    }
    at_channel_close(on->channel);
    json_decref(on->answers);
    at_kernel_data_free(on->data);
    for (int isa = 0; isa < ATTUNE_ISA_COUNT; ++isa) {
        free((void *)(uintptr_t)on->object[isa][0].data);
    }
    free(on->sources);
    at_stranger_files_free(&on->files);
    (void)pthread_mutex_destroy(&on->lock);
    free(on);
}

const attune_kernel *at_stranger_kernel(const at_stranger *stranger)
{
    return &stranger->face.kernel;
}

const char *at_stranger_digest(const at_stranger *stranger)
{
    return stranger->files.digest;
}

/* ---- Plans ------------------------------------------------------------------------------------------------------ */

/* The descriptor's first config, or the first that fits the target. */
static attune_status first_config(at_stranger *on, const attune_target *target, at_recipe *recipe)
{
    attune_status first = ATTUNE_OK;
    char why[512] = "";
    for (int index = 0; index < CONFIGS_MAX; ++index) {
        attune_status status = ask_heuristic(on, &recipe->problem, target, index, &recipe->config);
        if (status == ATTUNE_NOT_FOUND && index > 0) {
            return at_fail(first, "%s", why);
        }
        AT_FORWARD(status == ATTUNE_NOT_FOUND ? at_fail_in(ATTUNE_CORRUPT, "descriptor of %s", on->files.folder)
                                              : status);
        status = try_config(on, target, recipe);
        if (status != ATTUNE_UNSUPPORTED) {
            return status;
        }
        if (index == 0) {
            first = status;
            (void)snprintf(why, sizeof why, "%s", attune_last_detail());
        }
    }
    return at_fail(first, "%s", why);
}

attune_status at_stranger_recipe(at_stranger *on, const attune_problem *problem, const attune_target *target,
                                 const char *params, at_recipe *recipe)
{
    memset(recipe, 0, sizeof *recipe);
    recipe->kernel = &on->face.kernel;
    recipe->problem = *problem;
    AT_FAIL_IF(recipe->kernel->target != target->kind, ATTUNE_UNSUPPORTED, "kernel %s is for %s, the target is %s",
               recipe->kernel->name, recipe->kernel->target == ATTUNE_TARGET_CUDA ? "cuda" : "cpu",
               target->kind == ATTUNE_TARGET_CUDA ? "cuda" : "cpu");
    AT_FORWARD(ask_opinion(on, problem, target, NULL));
    if (params[0] == '\0') {
        AT_FORWARD(first_config(on, target, recipe));
    } else {
        AT_FORWARD(ask_heuristic(on, problem, target, 0, &recipe->config));
        AT_FORWARD(at_config_parse(recipe->kernel, params, &recipe->config));
        AT_FORWARD(try_config(on, target, recipe));
    }
    return add_code(on, target, recipe);
}

attune_status at_stranger_plan(at_stranger *on, at_device *device, const attune_problem *problem, const char *params,
                               attune_plan **plan)
{
    at_recipe recipe;
    at_loaded *loaded;
    *plan = NULL;
    AT_FORWARD(at_stranger_recipe(on, problem, &device->target, params, &recipe));
    AT_FORWARD(device->ops->load(device, &recipe, &loaded));
    return at_plan_bind(problem, loaded, AT_ORIGIN_NAMED, plan);
}
