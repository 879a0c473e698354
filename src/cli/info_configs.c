/* Configs of one kernel: what fits, what it needs, and what a compiler makes of it. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "base/threads.h"
#include "cli/info_parts.h"
#include "cli/progress.h"
#include "core/call.h"
#include "core/config.h"
#include "core/descriptor.h"
#include "core/term.h"
#include "cuda/cuda.h"

enum {
    CONFIGS_MAX = 4096,
    LIKELY = 4 /* configs that are compiled where nobody asks for all */
};

/* "16 32 64", the values allowed. */
static void add_parameter(at_facts *facts, const attune_kernel *kernel, const attune_param *param)
{
    char list[256];
    at_text text;
    at_text_init_fixed(&text, list, sizeof list);
    for (int32_t i = 0; i < param->count; ++i) {
        at_text_add(&text, "%s%d", i > 0 ? " " : "", param->values[i]);
    }
    at_facts_add(facts, "parameter", param->name, "of", "%s", kernel->name);
    at_facts_add(facts, "parameter", param->name, "values", "%s", list);
}

static void add_workspace(const at_info *all, const char *name, const attune_resources *resources)
{
    attune_call call;
    attune_args args;
    at_sizes sizes;
    int64_t bytes;
    if (attune_call_init(&call, &all->problem) != ATTUNE_OK) {
        return;
    }
    at_call_args(&all->problem, &call, &args);
    at_sizes_fill(&sizes, &args, all->target);
    if (at_term_evaluate(&resources->workspace, &sizes, &bytes) == ATTUNE_OK) {
        at_facts_add(all->facts, all->subject, name, "workspace bytes", "%" PRId64, bytes);
    }
}

/* A config and, where it is one of a CUDA kernel and fits, what its compiled code uses. */
typedef struct config_row {
    attune_config config;
    bool fits;
    attune_reason reason;
    attune_status status; /* of compiling */
    char *detail;         /* why not, for the list's owner to free */
    at_cuda_usage usage;
} config_row;

typedef struct config_list {
    const at_info *all;
    config_row *row;
    int64_t count;
    pthread_mutex_t lock; /* of what follows */
    int64_t compiled;
    at_progress progress;
} config_list;

static void add_usage(const at_info *all, const char *name, const config_row *row)
{
    if (row->status != ATTUNE_OK) {
        at_facts_add(all->facts, all->subject, name, "compiled", "no: %s", row->detail != NULL ? row->detail : "");
        return;
    }
    at_facts_add(all->facts, all->subject, name, "registers", "%d", row->usage.registers);
    at_facts_add(all->facts, all->subject, name, "spill bytes", "%d", row->usage.spill_bytes);
    at_facts_add(all->facts, all->subject, name, "blocks/sm", "%d", row->usage.blocks_sm);
    at_facts_add(all->facts, all->subject, name, "occupancy", "%.2f", row->usage.occupancy);
    at_facts_add(all->facts, all->subject, name, "limit", "%s", row->usage.limit != NULL ? row->usage.limit : "");
    at_facts_add(all->facts, all->subject, name, "warnings", "%d", row->usage.warnings);
}

static void add_config(const at_info *all, const config_row *row)
{
    char name[AT_KERNEL_TEXT_MAX];
    at_recipe recipe;
    at_config_print(all->found.kernel, &row->config, name);
    at_facts_add(all->facts, all->subject, name, "fits", "%s", row->fits ? "yes" : "no");
    if (!row->fits) {
        at_facts_add(all->facts, all->subject, name, "why not", "%s", row->reason.text);
        return;
    }
    if (at_recipe_ask(all->found.kernel, &all->problem, all->target, &row->config, &recipe) != ATTUNE_OK) {
        at_facts_add(all->facts, all->subject, name, "compiled", "no: %s", attune_last_detail());
        return;
    }
    const attune_resources *resources = &recipe.resources;
    if (all->found.kernel->target == ATTUNE_TARGET_CPU) {
        at_facts_add(all->facts, all->subject, name, "scratch bytes a thread", "%" PRId64, resources->scratch_bytes);
    } else {
        at_facts_add(all->facts, all->subject, name, "threads", "%d", resources->threads);
        at_facts_add(all->facts, all->subject, name, "shared memory bytes", "%d", resources->smem_bytes);
    }
    add_workspace(all, name, resources);
    if (all->found.kernel->target == ATTUNE_TARGET_CUDA) {
        add_usage(all, name, row);
    }
}

static void list_config(config_list *list, const attune_config *config)
{
    config_row *row = &list->row[list->count++];
    row->config = *config;
    row->fits = at_kernel_fits(list->all->found.kernel, &list->all->problem, list->all->target, config, &row->reason);
}

/* What would be planned, and the next likeliest. */
static void list_likely(config_list *list)
{
    const at_info *all = list->all;
    attune_config config = {{0}};
    for (int32_t i = 0; i < LIKELY && at_kernel_heuristic(all->found.kernel, &all->problem, all->target, i, &config);
         ++i) {
        list_config(list, &config);
    }
}

/* The heuristic's choice first, then all others. */
static void list_all(config_list *list, const attune_config *likeliest, int64_t count)
{
    list_config(list, likeliest);
    for (int64_t i = 0; i < count; ++i) {
        attune_config config = {{0}};
        at_config_at(list->all->found.kernel, i, &config);
        if (memcmp(&config, likeliest, sizeof config) != 0) {
            list_config(list, &config);
        }
    }
}

static bool is_listed(const config_list *list, int param, int32_t value)
{
    bool listed = false;
    for (int64_t i = 0; i < list->count; ++i) {
        listed = listed || (list->row[i].fits && list->row[i].config.value[param] == value);
    }
    return listed;
}

/* Of more configs than anybody would read or wait for: the heuristic's choice, and one for each value of each
 * parameter that none before it has. */
static void list_values(config_list *list, const attune_config *likeliest)
{
    const at_info *all = list->all;
    const attune_kernel *kernel = all->found.kernel;
    attune_config config;
    list_config(list, likeliest);
    for (int i = 0; i < kernel->param_count; ++i) {
        for (int v = 0; v < kernel->params[i].count; ++v) {
            if (!is_listed(list, i, kernel->params[i].values[v])) {
                (void)at_config_nearest(kernel, &all->problem, all->target, likeliest, i, v, &config);
                list_config(list, &config);
            }
        }
    }
}

static void compile_config(void *context, int64_t item, void *scratch)
{
    config_list *list = context;
    const at_info *all = list->all;
    config_row *row = &list->row[item];
    (void)scratch;
    if (row->fits && !at_cli_interrupted()) {
        row->status = at_cuda_inspect(all->found.kernel, &all->problem, all->target, &row->config, NULL, &row->usage);
        row->detail = row->status == ATTUNE_OK ? NULL : strdup(attune_last_detail());
    }
    (void)pthread_mutex_lock(&list->lock);
    at_progress_update(&list->progress, (double)++list->compiled / (double)list->count);
    (void)pthread_mutex_unlock(&list->lock);
}

/* Each config is compiled, or found in the cache, by as many threads as there are processors: a large space still takes
 * a while the first time. */
static attune_status compile_configs(config_list *list)
{
    at_pool *pool = NULL;
    if (list->all->found.kernel->target != ATTUNE_TARGET_CUDA) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_pool_create(at_cpu_count(), 64, &pool));
    at_progress_start(&list->progress, list->all->cli->err, list->all->found.kernel->name);
    at_pool_run(pool, list->count, compile_config, list);
    at_progress_end(&list->progress);
    at_pool_destroy(pool);
    return ATTUNE_OK;
}

/* A source that does not compile is at fault, and not its configs: that is said once. */
static attune_status find_fault(const config_list *list)
{
    const config_row *first = NULL;
    for (int64_t i = 0; i < list->count; ++i) {
        const config_row *row = &list->row[i];
        if (row->fits && row->status != ATTUNE_COMPILE_ERROR) {
            return ATTUNE_OK;
        }
        first = first == NULL && row->fits ? row : first;
    }
    return first == NULL ? ATTUNE_OK : at_fail(first->status, "%s", first->detail != NULL ? first->detail : "");
}

static int64_t count_values(const attune_kernel *kernel)
{
    int64_t count = 0;
    for (int i = 0; i < kernel->param_count; ++i) {
        count += kernel->params[i].count;
    }
    return count;
}

static attune_status add_listed(const at_info *all, const attune_config *likeliest)
{
    const int64_t count = at_config_count(all->found.kernel);
    const int64_t room = LIKELY + (count <= CONFIGS_MAX ? count : count_values(all->found.kernel));
    config_list list = {.all = all, .row = calloc((size_t)room, sizeof *list.row)};
    AT_FAIL_IF(list.row == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %" PRId64 " configs", room);
    (void)pthread_mutex_init(&list.lock, NULL); /* cannot fail with default attributes on Linux */
    if (all->found.kernel->target == ATTUNE_TARGET_CUDA && !at_cli_given(all->cli, "--all-configs")) {
        list_likely(&list);
    } else if (count <= CONFIGS_MAX) {
        list_all(&list, likeliest, count);
    } else {
        list_values(&list, likeliest);
    }
    at_facts_add(all->facts, "kernel", all->found.kernel->name, "configs",
                 "%" PRId64 ", of which %" PRId64 " are listed", count, list.count);
    attune_status status = compile_configs(&list);
    status = status == ATTUNE_OK ? find_fault(&list) : status;
    for (int64_t i = 0; i < list.count; ++i) {
        if (status == ATTUNE_OK && !at_cli_interrupted()) {
            add_config(all, &list.row[i]);
        }
        free(list.row[i].detail);
    }
    (void)pthread_mutex_destroy(&list.lock);
    free(list.row);
    return status;
}

attune_status at_info_configs(const at_info *all)
{
    const attune_kernel *kernel = all->found.kernel;
    attune_reason reason = {""};
    attune_config likeliest = {{0}};
    if (kernel->target != all->target->kind) {
        return ATTUNE_OK;
    }
    if (!at_kernel_supports(kernel, &all->problem, all->target, &reason) ||
        !at_kernel_heuristic(kernel, &all->problem, all->target, 0, &likeliest)) {
        at_facts_add(all->facts, all->subject, kernel->name, "cannot", "%s", reason.text);
        return ATTUNE_OK;
    }
    return add_listed(all, &likeliest);
}

void at_info_parameters(const at_info *all)
{
    for (int32_t i = 0; i < all->found.kernel->param_count; ++i) {
        add_parameter(all->facts, all->found.kernel, &all->found.kernel->params[i]);
    }
}
