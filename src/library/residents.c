/* Loaded kernels, shared by every plan of the context that can use them. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "library/state.h"

static bool same_term(const attune_term *a, const attune_term *b)
{
    int length = attune_term_length(a);
    return length == attune_term_length(b) && memcmp(a->op, b->op, (size_t)length) == 0 &&
           memcmp(a->value, b->value, (size_t)length * sizeof a->value[0]) == 0;
}

static bool same_terms(const attune_term *a, const attune_term *b, int count)
{
    for (int i = 0; i < count; ++i) {
        if (!same_term(&a[i], &b[i])) {
            return false;
        }
    }
    return true;
}

static bool same_maps(const attune_step_kernel *a, const attune_step_kernel *b)
{
    /* attune_map has no padding: int32_t and a text only. */
    return a->map_count == b->map_count && memcmp(a->map, b->map, (size_t)a->map_count * sizeof a->map[0]) == 0;
}

static bool same_kernel(const attune_step_kernel *a, const attune_step_kernel *b)
{
    if ((a->entry == NULL) != (b->entry == NULL) || (a->entry != NULL && strcmp(a->entry, b->entry) != 0)) {
        return false;
    }
    return same_terms(a->grid, b->grid, 3) && memcmp(a->block, b->block, sizeof a->block) == 0 &&
           memcmp(a->cluster, b->cluster, sizeof a->cluster) == 0 && same_term(&a->smem, &b->smem) &&
           a->programmatic == b->programmatic && same_maps(a, b);
}

static bool same_operand(const attune_operand *a, const attune_operand *b)
{
    if (a->role != b->role) {
        return false;
    }
    return a->role >= 0 || (a->dtype == b->dtype && same_term(&a->offset_bytes, &b->offset_bytes) &&
                            same_term(&a->row_stride, &b->row_stride) && same_term(&a->head_stride, &b->head_stride) &&
                            same_term(&a->batch_stride, &b->batch_stride));
}

static bool same_gemm(const attune_step_gemm *a, const attune_step_gemm *b)
{
    return same_operand(&a->a, &b->a) && same_operand(&a->b, &b->b) && same_operand(&a->c, &b->c) &&
           same_term(&a->m, &b->m) && same_term(&a->n, &b->n) && same_term(&a->k, &b->k) &&
           a->transpose_b == b->transpose_b && a->scaled == b->scaled;
}

static bool same_step(const attune_step *a, const attune_step *b)
{
    if (a->kind != b->kind) {
        return false;
    }
    switch (a->kind) {
    case ATTUNE_STEP_KERNEL:
        return same_kernel(&a->as.kernel, &b->as.kernel);
    case ATTUNE_STEP_FILL:
        return same_term(&a->as.fill.offset_bytes, &b->as.fill.offset_bytes) &&
               same_term(&a->as.fill.bytes, &b->as.fill.bytes) && a->as.fill.pattern == b->as.fill.pattern;
    case ATTUNE_STEP_GEMM:
        return same_gemm(&a->as.gemm, &b->as.gemm);
    }
    return false;
}

/* What a kernel does and needs for a problem is what loaded kernels must agree on to be shared. */
static bool serves(const at_resident *at, const at_recipe *want)
{
    const at_loaded *loaded = at->loaded;
    const attune_resources *have = &loaded->resources;
    if (have->threads != want->resources.threads || have->smem_bytes != want->resources.smem_bytes ||
        have->scratch_bytes != want->resources.scratch_bytes ||
        !same_term(&at->workspace, &want->resources.workspace) || loaded->steps.count != want->steps.count) {
        return false;
    }
    for (int i = 0; i < want->steps.count; ++i) {
        if (!same_step(&loaded->steps.step[i], &want->steps.step[i])) {
            return false;
        }
    }
    return true;
}

/* Reads under the lock. Residents are only ever added, so what is found stays. */
static const at_loaded *find(attune_context *context, const at_load_key *key, const at_recipe *want)
{
    const at_loaded *found = NULL;
    pthread_rwlock_rdlock(&context->lock);
    for (const at_resident *at = at_lookup_find(context->loaded, key); at != NULL && found == NULL; at = at->next) {
        found = serves(at, want) ? at->loaded : NULL;
    }
    pthread_rwlock_unlock(&context->lock);
    return found;
}

static attune_status insert(attune_context *context, const at_load_key *key, at_loaded *loaded, const at_recipe *want)
{
    at_resident *resident = malloc(sizeof *resident);
    AT_FAIL_IF(resident == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to keep a loaded kernel");
    pthread_rwlock_wrlock(&context->lock);
    *resident = (at_resident){loaded, want->resources.workspace, at_lookup_find(context->loaded, key)};
    attune_status status = at_lookup_set(context->loaded, key, resident);
    pthread_rwlock_unlock(&context->lock);
    if (status != ATTUNE_OK) {
        free(resident);
    }
    return status;
}

attune_status at_residents_get(attune_context *context, const attune_problem *problem, const attune_kernel *kernel,
                               const attune_config *config, bool may_load, const at_loaded **loaded)
{
    at_device *device = context->parts.device;
    at_load_key key;
    at_recipe want;
    memset(&key, 0, sizeof key);
    at_key_fill(&key.key, problem);
    memset(&key.key.bucket[2], 0, 3 * sizeof key.key.bucket[2]);
    key.kernel = kernel;
    key.config = *config;
    AT_FORWARD(at_recipe_ask(kernel, problem, &device->target, config, &want));
    *loaded = find(context, &key, &want);
    if (*loaded != NULL || !may_load) {
        return ATTUNE_OK;
    }
    at_loaded *fresh = NULL;
    AT_FORWARD(device->ops->load(device, &want, &fresh));
    attune_status status = insert(context, &key, fresh, &want);
    if (status != ATTUNE_OK) {
        device->ops->unload(fresh);
        return status;
    }
    *loaded = fresh;
    return ATTUNE_OK;
}

void at_residents_free(at_lookup *table)
{
    for (size_t i = 0; table != NULL && i < at_lookup_count(table); ++i) {
        at_resident *at = at_lookup_at(table, i);
        while (at != NULL) {
            at_resident *next = at->next;
            if (!at_device_is_lost(at->loaded->device)) {
                at->loaded->device->ops->unload(at->loaded);
            }
            free(at);
            at = next;
        }
    }
    at_lookup_destroy(table);
}
