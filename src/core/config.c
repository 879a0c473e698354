/* Configs, and whether one fits a problem and a target. The check of whole descriptors is in kernel_check.c. */
#include "core/config.h"

#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "core/descriptor.h"
#include "core/target.h"
#include "core/term.h"

attune_status at_kernel_text_split(const char *text, char *name, size_t name_bytes, const char **params)
{
    AT_FAIL_IF(text == NULL, ATTUNE_INVALID_ARGUMENT, "kernel is NULL");
    size_t length = strcspn(text, ":");
    AT_FAIL_IF(length == 0, ATTUNE_INVALID_ARGUMENT,
               "kernel '%.40s' has no name: NAME or NAME:PARAM=VALUE,... is needed", text);
    AT_FAIL_IF(length >= name_bytes, ATTUNE_INVALID_ARGUMENT,
               "kernel '%.40s...' has a name of %zu characters: at most %zu are allowed", text, length, name_bytes - 1);
    memcpy(name, text, length);
    name[length] = '\0';
    *params = text + length + (text[length] == ':');
    return ATTUNE_OK;
}

/* ---- Text form -------------------------------------------------------------------------------------------------- */

enum { LIST_MAX = 160 };

/* "16, 32, 64", for messages; cut where long. */
static void list_values(const attune_param *param, char list[LIST_MAX])
{
    at_text out;
    at_text_init_fixed(&out, list, LIST_MAX);
    for (int i = 0; i < param->count; ++i) {
        at_text_add(&out, "%s%d", i > 0 ? ", " : "", param->values[i]);
    }
}

static void list_params(const attune_kernel *kernel, char list[LIST_MAX])
{
    at_text out;
    at_text_init_fixed(&out, list, LIST_MAX);
    at_text_add(&out, "%s", kernel->param_count == 0 ? "none" : "");
    for (int i = 0; i < kernel->param_count; ++i) {
        at_text_add(&out, "%s%s", i > 0 ? ", " : "", kernel->params[i].name);
    }
}

static bool is_allowed(const attune_param *param, int64_t value)
{
    for (int i = 0; i < param->count; ++i) {
        if (param->values[i] == value) {
            return true;
        }
    }
    return false;
}

static int find_param(const attune_kernel *kernel, const char *name)
{
    for (int i = 0; i < kernel->param_count; ++i) {
        if (strcmp(kernel->params[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* Whether text names a parameter that the kernel had once, with the one value that is left of it. */
static bool is_retired(const attune_kernel *kernel, const char *name, const char *text)
{
    int64_t value = 0;
    for (const attune_retired *at = kernel->retired; at != NULL && at->name != NULL; ++at) {
        if (strcmp(at->name, name) == 0) {
            return at_parse_int64(name, text, INT32_MIN, INT32_MAX, &value) == ATTUNE_OK && value == at->value;
        }
    }
    return false;
}

/* Sets one parameter; `seen` has a bit for each parameter met before. */
static attune_status set_param(const attune_kernel *kernel, const char *name, const char *text, uint32_t *seen,
                               attune_config *config)
{
    char list[LIST_MAX];
    int64_t value = 0;
    int index = find_param(kernel, name);
    if (index < 0 && is_retired(kernel, name, text)) {
        return ATTUNE_OK;
    }
    if (index < 0) {
        list_params(kernel, list);
        return at_fail(ATTUNE_INVALID_ARGUMENT, "kernel %s: it has no parameter '%s'; its parameters: %s", kernel->name,
                       name, list);
    }
    AT_FAIL_IF((*seen & 1u << index) != 0, ATTUNE_INVALID_ARGUMENT, "kernel %s: %s is given a second time, as %s",
               kernel->name, name, text);
    if (at_parse_int64(name, text, INT32_MIN, INT32_MAX, &value) != ATTUNE_OK ||
        !is_allowed(&kernel->params[index], value)) {
        list_values(&kernel->params[index], list);
        return at_fail(ATTUNE_INVALID_ARGUMENT, "kernel %s: %s cannot be '%s'; its values: %s", kernel->name, name,
                       text, list);
    }
    *seen |= 1u << index;
    config->value[index] = (int32_t)value;
    return ATTUNE_OK;
}

/* One "PARAM=VALUE". */
static attune_status parse_setting(const attune_kernel *kernel, const char *text, size_t length, uint32_t *seen,
                                   attune_config *config)
{
    char setting[64] = "";
    AT_FAIL_IF(length >= sizeof setting, ATTUNE_INVALID_ARGUMENT,
               "kernel %s: setting '%.40s...' has %zu characters: at most %zu are read", kernel->name, text, length,
               sizeof setting - 1);
    memcpy(setting, text, length);
    char *equals = strchr(setting, '=');
    AT_FAIL_IF(equals == NULL, ATTUNE_INVALID_ARGUMENT, "kernel %s: '%s' is not PARAM=VALUE", kernel->name, setting);
    *equals = '\0';
    return set_param(kernel, setting, equals + 1, seen, config);
}

attune_status at_config_parse(const attune_kernel *kernel, const char *params, attune_config *config)
{
    attune_config read = *config;
    uint32_t seen = 0;
    while (*params != '\0') {
        size_t length = strcspn(params, ",");
        AT_FORWARD(parse_setting(kernel, params, length, &seen, &read));
        params += length;
        AT_FAIL_IF(params[0] == ',' && params[1] == '\0', ATTUNE_INVALID_ARGUMENT,
                   "kernel %s: a parameter is missing after the last comma", kernel->name);
        params += *params == ',';
    }
    *config = read;
    return ATTUNE_OK;
}

/* What is named has one value whatever was there before. */
attune_status at_config_settle(const attune_kernel *kernel, const char *params, char text[AT_KERNEL_TEXT_MAX])
{
    at_text out;
    attune_config over_this, over_that;
    for (int i = 0; i < ATTUNE_PARAMS_MAX; ++i) {
        over_this.value[i] = 0;
        over_that.value[i] = 1;
    }
    AT_FORWARD(at_config_parse(kernel, params, &over_this));
    AT_FORWARD(at_config_parse(kernel, params, &over_that));
    at_text_init_fixed(&out, text, AT_KERNEL_TEXT_MAX);
    for (int i = 0; i < kernel->param_count; ++i) {
        if (over_this.value[i] == over_that.value[i]) {
            at_text_add(&out, "%s%s=%d", out.length > 0 ? "," : "", kernel->params[i].name, over_this.value[i]);
        }
    }
    return at_text_status(&out, "parameters");
}

void at_config_print(const attune_kernel *kernel, const attune_config *config, char text[AT_KERNEL_TEXT_MAX])
{
    at_text out;
    at_text_init_fixed(&out, text, AT_KERNEL_TEXT_MAX);
    at_text_add(&out, "%s", kernel->name);
    for (int i = 0; i < kernel->param_count; ++i) {
        at_text_add(&out, "%c%s=%d", i == 0 ? ':' : ',', kernel->params[i].name, config->value[i]);
    }
}

/* ---- The space of configs --------------------------------------------------------------------------------------- */

int64_t at_config_count(const attune_kernel *kernel)
{
    int64_t count = 1;
    for (int i = 0; i < kernel->param_count; ++i) {
        if (__builtin_mul_overflow(count, (int64_t)kernel->params[i].count, &count)) {
            return INT64_MAX;
        }
    }
    return count;
}

void at_config_at(const attune_kernel *kernel, int64_t index, attune_config *config)
{
    memset(config, 0, sizeof *config);
    for (int i = kernel->param_count - 1; i >= 0; --i) {
        const attune_param *param = &kernel->params[i];
        config->value[i] = param->values[index % param->count];
        index /= param->count;
    }
}

/* ---- Fit -------------------------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {"cpu", "cuda"};

static bool has_allowed_values(const attune_kernel *kernel, const attune_config *config, attune_reason *reason)
{
    char list[LIST_MAX];
    for (int i = 0; i < kernel->param_count; ++i) {
        const attune_param *param = &kernel->params[i];
        if (!is_allowed(param, config->value[i])) {
            list_values(param, list);
            return attune_refuse(reason, "%s %d: it can be %s", param->name, config->value[i], list);
        }
    }
    return true;
}

static bool has_tier(const attune_kernel *kernel, const attune_target *target, attune_reason *reason)
{
    for (int isa = 0; isa <= (int)target->isa && isa < ATTUNE_ISA_COUNT; ++isa) {
        if (kernel->attend[isa] != NULL) {
            return true;
        }
    }
    return attune_refuse(reason, "isa %s: %s has no code for it or a lower tier", at_isa_name(target->isa),
                         kernel->name);
}

static bool fits_cpu(const attune_resources *resources, attune_reason *reason)
{
    if (resources->scratch_bytes < 0 || resources->scratch_bytes > ATTUNE_SCRATCH_MAX) {
        return attune_refuse(reason, "scratch %lld B a thread: at most %d B are given",
                             (long long)resources->scratch_bytes, ATTUNE_SCRATCH_MAX);
    }
    return true;
}

static bool fits_cuda(const attune_target *target, const attune_resources *resources, attune_reason *reason)
{
    if (resources->threads < 1 || resources->threads > 1024) {
        return attune_refuse(reason, "threads %d a block: the device takes 1 ... 1024", resources->threads);
    }
    if (resources->smem_bytes < 0 || resources->smem_bytes > target->smem_optin_bytes) {
        return attune_refuse(reason, "needs %d B of shared memory a block, the device gives %d", resources->smem_bytes,
                             target->smem_optin_bytes);
    }
    return true;
}

bool at_resources_fit(const attune_kernel *kernel, const attune_target *target, const attune_config *config,
                      const attune_resources *resources, attune_reason *reason)
{
    if (!has_allowed_values(kernel, config, reason)) {
        return false;
    }
    if (at_term_check(&resources->workspace) != ATTUNE_OK) {
        return attune_refuse(reason, "workspace of %s: %.180s", kernel->name, attune_last_detail());
    }
    return kernel->target == ATTUNE_TARGET_CPU ? fits_cpu(resources, reason) : fits_cuda(target, resources, reason);
}

uint32_t at_kernel_traits(const attune_kernel *kernel, const attune_problem *problem)
{
    return kernel->traits & ~(problem->strict ? (uint32_t)ATTUNE_TRAIT_TAINTS : 0u);
}

bool at_kernel_fits(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                    const attune_config *config, attune_reason *reason)
{
    attune_resources resources;
    memset(&resources, 0, sizeof resources);
    if (kernel->target != target->kind) {
        return attune_refuse(reason, "target %s: %s runs on %s", kind_names[target->kind == ATTUNE_TARGET_CUDA],
                             kernel->name, kind_names[kernel->target == ATTUNE_TARGET_CUDA]);
    }
    if (!at_kernel_supports(kernel, problem, target, reason) || !has_allowed_values(kernel, config, reason)) {
        return false;
    }
    const at_described *elsewhere = at_kernel_described(kernel);
    if (elsewhere != NULL) {
        return elsewhere->ops->fits(elsewhere->self, problem, target, config, reason);
    }
    if (!kernel->valid(problem, target, config, reason)) {
        return false;
    }
    kernel->resources(problem, target, config, &resources);
    return at_resources_fit(kernel, target, config, &resources, reason) &&
           (kernel->target == ATTUNE_TARGET_CUDA || has_tier(kernel, target, reason));
}

/* ---- Neighbours ------------------------------------------------------------------------------------------------- */

typedef struct search {
    const attune_kernel *kernel;
    const attune_problem *problem;
    const attune_target *target;
    int kept; /* the parameter that stays */
} search;

/* Changes so many of the parameters from `first` on to what fits; false, and nothing changed, where nothing does. */
static bool change(const search *on, int first, int changes, attune_config *config)
{
    if (changes == 0) {
        return at_kernel_fits(on->kernel, on->problem, on->target, config, NULL);
    }
    for (int i = first; i < on->kernel->param_count; ++i) {
        const attune_param *param = &on->kernel->params[i];
        const int32_t was = config->value[i];
        for (int v = 0; i != on->kept && v < param->count; ++v) {
            config->value[i] = param->values[v];
            if (config->value[i] != was && change(on, i + 1, changes - 1, config)) {
                return true;
            }
        }
        config->value[i] = was;
    }
    return false;
}

bool at_config_nearest(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                       const attune_config *likeliest, int param, int index, attune_config *config)
{
    const search on = {kernel, problem, target, param};
    bool found = false;
    *config = *likeliest;
    config->value[param] = kernel->params[param].values[index];
    for (int changes = 0; !found && changes < kernel->param_count; ++changes) {
        found = change(&on, 0, changes, config);
    }
    return found;
}
