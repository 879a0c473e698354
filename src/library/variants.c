/* Choices for calls that are shorter than the problem's maxima: which kernel and config is best, how many queries and
 * keys a call has says most. They never depend on the batch, so that a sequence gives the same bits whatever else is in
 * its call: where the lengths of other sequences show in the call's own, there are fewer choices, or none. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "library/state.h"

enum { FIRST_KEYS = 16, KEYS_FACTOR = 2, FINE_QUERIES = 512, COARSE_FACTOR = 4 };

/* ---- The lengths ------------------------------------------------------------------------------------------------ */

static int32_t list_queries(int64_t most, int64_t *lengths)
{
    int32_t count = 0;
    for (int64_t length = 1; length < most && count < AT_VARIANT_LENGTHS - 1;) {
        lengths[count++] = length;
        length *= length < FINE_QUERIES ? 2 : COARSE_FACTOR;
    }
    lengths[count++] = most;
    return count;
}

static int32_t list_keys(int64_t most, int64_t *lengths)
{
    int32_t count = 0;
    for (int64_t length = FIRST_KEYS; length < most && count < AT_VARIANT_LENGTHS - 1; length *= KEYS_FACTOR) {
        lengths[count++] = length;
    }
    lengths[count++] = most;
    return count;
}

/* On a CPU, where another config is no more than its steps; on a GPU each is compiled. */
static bool has_variants(const attune_context *context, const attune_problem *problem)
{
    return context->parts.device->ops->run_items != NULL && !problem->varlen && problem->seqlen_q > 0 &&
           problem->seqlen_kv > 0;
}

/* ---- The choices ------------------------------------------------------------------------------------------------ */

/* The place of a loaded kernel among the variants, which it joins if there is room; else the first one's, which serves
 * every call. */
static uint8_t place_of(at_plan_choices *all, const attune_problem *problem, const at_loaded *loaded)
{
    for (int32_t i = 0; i < all->count; ++i) {
        if (all->variant[i].loaded == loaded) {
            return (uint8_t)i;
        }
    }
    size_t bytes = 0;
    if (all->count == AT_VARIANTS || at_plan_workspace_most(problem, loaded, &bytes) != ATTUNE_OK) {
        return 0;
    }
    all->variant[all->count] = (at_plan_choice){loaded, bytes};
    return (uint8_t)all->count++;
}

/* Without a choice of its own, a size is served by what serves all. */
static uint8_t choose_one(attune_context *context, const attune_problem *problem, int64_t queries, int64_t keys,
                          const at_wanted *want, at_plan_choices *all)
{
    attune_problem shorter = *problem;
    at_choice choice;
    const at_loaded *loaded = NULL;
    shorter.seqlen_q = queries;
    shorter.seqlen_kv = keys;
    if (attune_problem_check(&shorter) != ATTUNE_OK ||
        at_choose_unraced(context, &shorter, want, &choice) != ATTUNE_OK ||
        at_residents_get(context, &shorter, choice.kernel, &choice.config, true, &loaded) != ATTUNE_OK) {
        return 0;
    }
    return place_of(all, problem, loaded);
}

static void choose_all(attune_context *context, const attune_problem *problem, const at_wanted *want,
                       at_plan_choices *all)
{
    for (int32_t row = 0; row < all->rows; ++row) {
        for (int32_t column = 0; column < all->columns; ++column) {
            const bool whole = row == all->rows - 1 && column == all->columns - 1;
            all->which[row][column] =
                whole ? 0 : choose_one(context, problem, all->queries[row], all->keys[column], want, all);
        }
    }
}

static attune_status make(attune_context *context, const attune_problem *problem, const at_wanted *want,
                          const at_loaded *loaded, at_plan_choices **variants)
{
    size_t bytes = 0;
    *variants = NULL;
    AT_FORWARD(at_plan_workspace_most(problem, loaded, &bytes));
    at_plan_choices *all = calloc(1, sizeof *all);
    AT_FAIL_IF(all == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a plan's choices");
    all->count = 1;
    all->variant[0] = (at_plan_choice){loaded, bytes};
    all->rows = list_queries(problem->seqlen_q, all->queries);
    /* How long the longest of the others is shows in seqlen_kv. */
    all->columns = problem->seqused_kv ? 1 : list_keys(problem->seqlen_kv, all->keys);
    all->keys[all->columns - 1] = problem->seqlen_kv;
    choose_all(context, problem, want, all);
    *variants = all;
    return ATTUNE_OK;
}

/* ---- Keeping them ----------------------------------------------------------------------------------------------- */

static void fill_key(at_variants_key *key, attune_context *context, const attune_problem *problem,
                     const at_wanted *want, const at_loaded *loaded)
{
    memset(key, 0, sizeof *key);
    at_key_fill(&key->key, problem);
    key->key.shape[0] |= (int64_t)want->avoided << 32;
    key->size[0] = problem->batch;
    key->size[1] = problem->heads_q;
    key->size[2] = problem->seqlen_q;
    key->size[3] = problem->seqlen_kv;
    key->size[4] = want->effort == ATTUNE_WISDOM_ONLY;
    key->size[5] = (int64_t)(uintptr_t)loaded;
    key->size[6] = atomic_load(&context->changes);
}

static const at_plan_choices *find(attune_context *context, const at_variants_key *key)
{
    pthread_rwlock_rdlock(&context->lock);
    const at_plan_choices *found = at_lookup_find(context->variants, key);
    pthread_rwlock_unlock(&context->lock);
    return found;
}

static attune_status keep(attune_context *context, const at_variants_key *key, at_plan_choices *all)
{
    pthread_rwlock_wrlock(&context->lock);
    attune_status status = at_lookup_set(context->variants, key, all);
    pthread_rwlock_unlock(&context->lock);
    return status;
}

static attune_status find_or_make(attune_context *context, const attune_problem *problem, const at_wanted *want,
                                  const at_loaded *loaded, const at_variants_key *key, const at_plan_choices **variants)
{
    at_plan_choices *made = NULL;
    *variants = find(context, key); /* another thread may have been faster */
    if (*variants != NULL) {
        return ATTUNE_OK;
    }
    AT_FORWARD(make(context, problem, want, loaded, &made));
    attune_status status = keep(context, key, made);
    if (status != ATTUNE_OK) {
        free(made);
        return status;
    }
    *variants = made;
    return ATTUNE_OK;
}

attune_status at_variants_get(attune_context *context, const attune_problem *problem, const at_wanted *want,
                              const at_loaded *loaded, const at_plan_choices **variants)
{
    at_variants_key key;
    *variants = NULL;
    if (!has_variants(context, problem)) {
        return ATTUNE_OK;
    }
    fill_key(&key, context, problem, want, loaded);
    *variants = find(context, &key);
    if (*variants == NULL) {
        pthread_mutex_lock(&context->planning);
        attune_status status = find_or_make(context, problem, want, loaded, &key, variants);
        pthread_mutex_unlock(&context->planning);
        AT_FORWARD(status);
    }
    if ((*variants)->count == 1) {
        *variants = NULL;
    }
    return ATTUNE_OK;
}

size_t at_variants_workspace(const at_plan_choices *variants)
{
    size_t most = 0;
    for (int32_t i = 0; i < variants->count; ++i) {
        most = variants->variant[i].workspace_max > most ? variants->variant[i].workspace_max : most;
    }
    return most;
}
