#include "library/context.h"

#include <stdlib.h>
#include <string.h>

#include "base/embedded.h"
#include "base/file.h"
#include "base/status.h"
#include "core/target.h"
#include "library/backend.h"
#include "library/catalogue.h"
#include "library/offline.h"
#include "library/state.h"

/* A device that is the parent process's is left to it. */
static void parts_free(const at_parts *parts)
{
    if (parts->device != NULL && !at_device_is_lost(parts->device)) {
        parts->device->ops->close(parts->device);
    }
    at_pool_destroy(parts->pool);
}

static size_t count_kernels(const at_parts *parts)
{
    size_t count = 0;
    while (parts->kernels[count] != NULL) {
        ++count;
    }
    return count;
}

static attune_status build(attune_context *context)
{
    char text[AT_TARGET_TEXT_MAX];
    at_target_print(&context->parts.device->target, text);
    context->target_text = strdup(text);
    context->failure = calloc(count_kernels(&context->parts) + 1, sizeof *context->failure);
    AT_FAIL_IF(context->target_text == NULL || context->failure == NULL, ATTUNE_OUT_OF_MEMORY,
               "no memory for a context");
    AT_FORWARD(at_wisdom_create(&context->shipped));
    AT_FORWARD(at_wisdom_create(&context->wisdom));
    AT_FORWARD(at_lookup_create(sizeof(at_key), &context->choices));
    AT_FORWARD(at_lookup_create(sizeof(at_variants_key), &context->variants));
    return at_lookup_create(sizeof(at_load_key), &context->loaded);
}

/* ---- Forking ---------------------------------------------------------------------------------------------------- */

/* A child gets the tables as they are between two changes, which are short; a plan that was being made by another
 * thread is not there. */
static void hold_tables(void *self)
{
    (void)pthread_rwlock_wrlock(&((attune_context *)self)->lock);
}

static void give_tables(void *self)
{
    (void)pthread_rwlock_unlock(&((attune_context *)self)->lock);
}

static void become_child(void *self)
{
    attune_context *context = self;
    (void)pthread_rwlock_init(&context->lock, NULL);
    (void)pthread_mutex_init(&context->planning, NULL);
}

attune_status at_context_assemble(const at_parts *parts, attune_context **context)
{
    *context = NULL;
    attune_context *made = calloc(1, sizeof *made);
    if (made == NULL) {
        parts_free(parts);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a context");
    }
    made->parts = *parts;
    if (parts->device != NULL) {
        parts->device->forks = at_fork_count();
    }
    /* With default attributes these cannot fail on Linux. */
    (void)pthread_mutex_init(&made->planning, NULL);
    (void)pthread_rwlock_init(&made->lock, NULL);
    made->watch = (at_fork_watch){hold_tables, give_tables, become_child, made, NULL, NULL};
    at_fork_add(&made->watch);
    attune_status status = build(made);
    if (status != ATTUNE_OK) {
        attune_context_destroy(made);
        return status;
    }
    *context = made;
    return ATTUNE_OK;
}

/* A table and what malloc gave for its values. */
static void free_values(at_lookup *table)
{
    for (size_t i = 0; table != NULL && i < at_lookup_count(table); ++i) {
        free(at_lookup_at(table, i));
    }
    at_lookup_destroy(table);
}

void attune_context_destroy(attune_context *context)
{
    if (context == NULL) {
        return;
    }
    at_fork_remove(&context->watch);
    at_residents_free(context->loaded);
    free_values(context->choices);
    free_values(context->variants);
    for (size_t i = 0; context->failure != NULL && i < count_kernels(&context->parts); ++i) {
        free(context->failure[i]);
    }
    free(context->failure);
    at_wisdom_destroy(context->shipped);
    at_wisdom_destroy(context->wisdom);
    free(context->named.params);
    free(context->target_text);
    pthread_rwlock_destroy(&context->lock);
    pthread_mutex_destroy(&context->planning);
    parts_free(&context->parts);
    free(context);
}

/* What is built in is ours, yet a damaged binary should cost speed only: corrupt rows are counted like any other. */
static attune_status read_shipped(attune_context *context)
{
    for (const at_embedded *file = at_embedded_wisdom; file->name != NULL; ++file) {
        size_t skipped = 0;
        attune_status status = at_wisdom_parse(context->shipped, (const char *)file->data, file->size, &skipped);
        if (status != ATTUNE_OK) {
            return at_fail_in(status, "shipped wisdom %s", file->name);
        }
        context->skipped += skipped;
    }
    return ATTUNE_OK;
}

static attune_status open_parts(const at_settings *settings, const attune_target *elsewhere, at_parts *parts)
{
    *parts = (at_parts){.kernels = at_catalogue, .clock = at_clock_monotonic()};
    AT_FORWARD(at_pool_create_with(&settings->pool, &parts->pool));
    attune_status status = elsewhere != NULL ? at_offline_open(elsewhere, &parts->device)
                                             : at_backend_open(settings, parts->pool, &parts->device);
    if (status != ATTUNE_OK) {
        at_pool_destroy(parts->pool);
    }
    return status;
}

static attune_status prepare(attune_context *context, const at_settings *settings)
{
    AT_FORWARD(read_shipped(context));
    if (settings->kernel != NULL) {
        AT_FORWARD(at_context_name(context, settings->kernel_from, settings->kernel));
    }
    if (settings->wisdom != NULL) {
        size_t skipped = 0;
        attune_status status = attune_wisdom_read(context, settings->wisdom, &skipped);
        if (status != ATTUNE_OK) {
            return at_fail_in(status, "%s", settings->wisdom_from);
        }
        context->skipped += skipped;
    }
    return ATTUNE_OK;
}

/* Where nobody named a target, a kernel that was named brings its own: names are unique across targets. */
static void take_target_of_kernel(at_settings *settings)
{
    char name[AT_KERNEL_TEXT_MAX];
    const char *params;
    if (settings->target_given || settings->kernel == NULL ||
        at_kernel_text_split(settings->kernel, name, sizeof name, &params) != ATTUNE_OK) {
        return;
    }
    const attune_kernel *kernel = at_catalogue_find(name);
    if (kernel != NULL) {
        settings->target_given = true;
        settings->target = kernel->target;
    }
}

static attune_status create(const at_settings *settings, const attune_target *elsewhere, attune_context **context)
{
    at_parts parts;
    attune_context *made = NULL;
    AT_FORWARD(open_parts(settings, elsewhere, &parts));
    AT_FORWARD(at_context_assemble(&parts, &made));
    attune_status status = prepare(made, settings);
    if (status != ATTUNE_OK) {
        attune_context_destroy(made);
        return status;
    }
    *context = made;
    return ATTUNE_OK;
}

attune_status at_context_elsewhere(const attune_options *options, const attune_target *elsewhere,
                                   attune_context **context)
{
    at_settings settings;
    AT_FAIL_IF(context == NULL, ATTUNE_INVALID_ARGUMENT, "context is NULL");
    *context = NULL;
    AT_FORWARD(at_settings_resolve(options, &settings));
    take_target_of_kernel(&settings);
    attune_status status = create(&settings, elsewhere, context);
    at_settings_free(&settings);
    return status;
}

attune_status attune_context_create(const attune_options *options, attune_context **context)
{
    return at_context_elsewhere(options, NULL, context);
}

const char *attune_context_target(const attune_context *context)
{
    return context == NULL ? "" : context->target_text;
}

at_device *at_context_device(const attune_context *context)
{
    return context->parts.device;
}

at_pool *at_context_pool(const attune_context *context)
{
    return context->parts.pool;
}

size_t attune_wisdom_skipped(const attune_context *context)
{
    return context == NULL ? 0 : context->skipped;
}
