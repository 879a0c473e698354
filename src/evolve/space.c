#include "evolve/space.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "core/descriptor.h"
#include "evolve/space_parts.h"

/* ---- The descriptor's answers ------------------------------------------------------------------------------------ */

static attune_status take_params(const attune_kernel *kernel, at_space *space)
{
    AT_FAIL_IF(strlen(kernel->name) >= sizeof space->kernel, ATTUNE_UNSUPPORTED,
               "kernel %.40s...: its name has %zu characters, at most %d are allowed", kernel->name,
               strlen(kernel->name), AT_SPACE_NAME_MAX - 1);
    memcpy(space->kernel, kernel->name, strlen(kernel->name));
    space->total = at_config_count(kernel);
    AT_FAIL_IF(space->total > AT_SPACE_TOTAL_MAX, ATTUNE_UNSUPPORTED,
               "kernel %s: its parameters' values make %lld combinations, a search takes at most %d", kernel->name,
               (long long)space->total, AT_SPACE_TOTAL_MAX);
    space->param_count = kernel->param_count;
    for (int p = 0; p < kernel->param_count; ++p) {
        const attune_param *from = &kernel->params[p];
        at_space_param *param = &space->param[p];
        AT_FAIL_IF(from->count > AT_SPACE_VALUES_MAX || strlen(from->name) >= sizeof param->name, ATTUNE_UNSUPPORTED,
                   "kernel %s: %.40s has %d values, a search takes at most %d, and names of %d characters",
                   kernel->name, from->name, from->count, AT_SPACE_VALUES_MAX, AT_SPACE_NAME_MAX - 1);
        memcpy(param->name, from->name, strlen(from->name));
        memcpy(param->value, from->values, (size_t)from->count * sizeof *from->values);
        param->count = from->count;
    }
    return ATTUNE_OK;
}

/* Whether two reasons are the same but for their numbers. */
static bool same_but_numbers(const char *a, const char *b)
{
    static const char digits[] = "0123456789,.";
    while (*a != '\0' && *b != '\0') {
        size_t skip_a = strspn(a, digits);
        size_t skip_b = strspn(b, digits);
        if ((skip_a > 0) != (skip_b > 0) || (skip_a == 0 && *a != *b)) {
            return false;
        }
        a += skip_a > 0 ? skip_a : 1;
        b += skip_b > 0 ? skip_b : 1;
    }
    return *a == *b;
}

static void count_refusal(at_space *space, const attune_reason *reason)
{
    int at = 0;
    while (at < space->refusal_count && !same_but_numbers(space->refusal[at].first.text, reason->text)) {
        ++at;
    }
    at = at < AT_SPACE_REFUSALS_MAX ? at : AT_SPACE_REFUSALS_MAX - 1;
    if (at == space->refusal_count) {
        space->refusal[space->refusal_count++].first = *reason;
    }
    ++space->refusal[at].count;
}

static int by_count(const void *a, const void *b)
{
    return ((const at_space_refusal *)b)->count - ((const at_space_refusal *)a)->count;
}

static const char NOT_SEARCHED[] = "not searched";

static bool has_values(const attune_kernel *kernel, const char *fixed, const attune_config *config,
                       attune_reason *reason)
{
    attune_config with = *config;
    bool has = fixed[0] == '\0' ||
               (at_config_parse(kernel, fixed, &with) == ATTUNE_OK && memcmp(&with, config, sizeof with) == 0);
    return has || attune_refuse(reason, "%s: %.200s stays as it is", NOT_SEARCHED, fixed);
}

/* Asks about every combination; fills in code, as many as fit. */
static void sift(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                 const char *fixed, at_space *space)
{
    for (int64_t code = 0; code < space->total; ++code) {
        attune_config config;
        attune_reason reason = {""};
        at_config_at(kernel, code, &config);
        if (has_values(kernel, fixed, &config, &reason) && at_kernel_fits(kernel, problem, target, &config, &reason)) {
            space->code[space->count++] = code;
        } else {
            count_refusal(space, &reason);
        }
    }
    /* The last place may hold several reasons and stays last. */
    int sorted = space->refusal_count < AT_SPACE_REFUSALS_MAX ? space->refusal_count : AT_SPACE_REFUSALS_MAX - 1;
    qsort(space->refusal, (size_t)sorted, sizeof space->refusal[0], by_count);
}

static void take_order(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                       const char *fixed, at_space *space)
{
    attune_config config;
    for (int32_t i = 0; i < AT_SPACE_TOTAL_MAX && at_kernel_heuristic(kernel, problem, target, i, &config); ++i) {
        int candidate = at_config_parse(kernel, fixed, &config) == ATTUNE_OK ? at_space_find(space, &config) : -1;
        if (candidate >= 0) {
            at_space_rank(space, candidate);
        }
    }
}

/* Why nothing fits, by a config that was asked for: values that stay as they are rule out most others. */
static const char *why_none(const at_space *space)
{
    for (int i = 0; i < space->refusal_count; ++i) {
        if (strncmp(space->refusal[i].first.text, NOT_SEARCHED, sizeof NOT_SEARCHED - 1) != 0) {
            return space->refusal[i].first.text;
        }
    }
    return space->refusal[0].first.text;
}

static attune_status fill(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                          const char *fixed, at_space *space)
{
    attune_reason reason = {""};
    attune_config any = {{0}};
    AT_FORWARD(at_config_parse(kernel, fixed, &any));
    AT_FAIL_IF(kernel->target == target->kind && !at_kernel_supports(kernel, problem, target, &reason),
               ATTUNE_UNSUPPORTED, "kernel %s does not support the problem: %s", kernel->name, reason.text);
    AT_FORWARD(take_params(kernel, space));
    AT_FORWARD(at_space_make_room(space, (int)space->total));
    sift(kernel, problem, target, fixed, space);
    AT_FAIL_IF(space->count == 0, ATTUNE_UNSUPPORTED, "kernel %s: none of its %lld configs fits: %s", kernel->name,
               (long long)space->total, why_none(space));
    AT_FORWARD(at_space_complete(space));
    take_order(kernel, problem, target, fixed, space);
    return ATTUNE_OK;
}

attune_status at_space_open(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                            const char *fixed, at_space **space)
{
    *space = calloc(1, sizeof **space);
    AT_FAIL_IF(*space == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a space");
    attune_status status = fill(kernel, problem, target, fixed, *space);
    if (status != ATTUNE_OK) {
        at_space_close(*space);
        *space = NULL;
    }
    return status;
}

void at_space_close(at_space *space)
{
    if (space != NULL) {
        free(space->code);
        free(space->position);
        free(space->order);
        free(space->rank);
        free(space);
    }
}

/* ---- Making one -------------------------------------------------------------------------------------------------- */

attune_status at_space_make_room(at_space *space, int candidates)
{
    space->code = calloc((size_t)candidates, sizeof *space->code);
    AT_FAIL_IF(space->code == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a space of %d configs", candidates);
    return ATTUNE_OK;
}

static void find_positions(at_space *space)
{
    for (int c = 0; c < space->count; ++c) {
        int64_t code = space->code[c];
        for (int p = space->param_count - 1; p >= 0; --p) {
            uint8_t position = (uint8_t)(code % space->param[p].count);
            space->position[(size_t)c * (size_t)space->param_count + (size_t)p] = position;
            space->param[p].live = space->param[p].live || position != space->position[p];
            code /= space->param[p].count;
        }
    }
}

attune_status at_space_complete(at_space *space)
{
    size_t count = (size_t)space->count;
    /* A kernel without parameters has one candidate without positions. */
    space->position = calloc(count, (size_t)(space->param_count > 0 ? space->param_count : 1));
    space->order = calloc(count, sizeof *space->order);
    space->rank = malloc(count * sizeof *space->rank);
    AT_FAIL_IF(space->position == NULL || space->order == NULL || space->rank == NULL, ATTUNE_OUT_OF_MEMORY,
               "no memory for a space of %d configs", space->count);
    find_positions(space);
    for (size_t c = 0; c < count; ++c) {
        space->rank[c] = INT_MAX;
    }
    return ATTUNE_OK;
}

void at_space_rank(at_space *space, int candidate)
{
    if (space->rank[candidate] == INT_MAX) {
        space->rank[candidate] = space->order_count;
        space->order[space->order_count++] = candidate;
    }
}

/* ---- Config, number, text ---------------------------------------------------------------------------------------- */

static const uint8_t *positions_of(const at_space *space, int candidate)
{
    return space->position + (size_t)candidate * (size_t)space->param_count;
}

void at_space_config(const at_space *space, int candidate, attune_config *config)
{
    const uint8_t *position = positions_of(space, candidate);
    memset(config, 0, sizeof *config);
    for (int p = 0; p < space->param_count; ++p) {
        config->value[p] = space->param[p].value[position[p]];
    }
}

int at_space_find_code(const at_space *space, int64_t code)
{
    int low = 0;
    int high = space->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (space->code[middle] < code) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < space->count && space->code[low] == code ? low : -1;
}

int at_space_at(const at_space *space, const uint8_t *position)
{
    int64_t code = 0;
    for (int p = 0; p < space->param_count; ++p) {
        code = code * space->param[p].count + position[p];
    }
    return at_space_find_code(space, code);
}

static int position_of_value(const at_space_param *param, int32_t value)
{
    for (int i = 0; i < param->count; ++i) {
        if (param->value[i] == value) {
            return i;
        }
    }
    return -1;
}

int at_space_find(const at_space *space, const attune_config *config)
{
    uint8_t position[ATTUNE_PARAMS_MAX];
    for (int p = 0; p < space->param_count; ++p) {
        int at = position_of_value(&space->param[p], config->value[p]);
        if (at < 0) {
            return -1;
        }
        position[p] = (uint8_t)at;
    }
    return at_space_at(space, position);
}

void at_space_print(const at_space *space, int candidate, char text[AT_KERNEL_TEXT_MAX])
{
    const uint8_t *position = positions_of(space, candidate);
    at_text out;
    at_text_init_fixed(&out, text, AT_KERNEL_TEXT_MAX);
    at_text_add(&out, "%s", space->kernel);
    for (int p = 0; p < space->param_count; ++p) {
        at_text_add(&out, "%c%s=%d", p == 0 ? ':' : ',', space->param[p].name, space->param[p].value[position[p]]);
    }
}

/* Reads "NAME=VALUE" of this parameter; returns what follows, NULL where it is not that. */
static const char *read_setting(const at_space_param *param, const char *text, int32_t *value)
{
    size_t length = strlen(param->name);
    char *end;
    if (strncmp(text, param->name, length) != 0 || text[length] != '=') {
        return NULL;
    }
    long number = strtol(text + length + 1, &end, 10);
    *value = (int32_t)number;
    return end == text + length + 1 || number != *value ? NULL : end;
}

int at_space_find_text(const at_space *space, const char *text)
{
    attune_config config = {{0}};
    size_t length = strlen(space->kernel);
    if (strncmp(text, space->kernel, length) != 0) {
        return -1;
    }
    text += length;
    for (int p = 0; p < space->param_count; ++p) {
        text = *text == (p == 0 ? ':' : ',') ? read_setting(&space->param[p], text + 1, &config.value[p]) : NULL;
        if (text == NULL) {
            return -1;
        }
    }
    return *text == '\0' ? at_space_find(space, &config) : -1;
}

/* ---- Geometry ---------------------------------------------------------------------------------------------------- */

double at_space_feature(const at_space *space, int candidate, int param)
{
    int last = space->param[param].count - 1;
    return last > 0 ? (double)positions_of(space, candidate)[param] / last : 0;
}

double at_space_distance(const at_space *space, int a, int b)
{
    double sum = 0;
    for (int p = 0; p < space->param_count; ++p) {
        double apart = at_space_feature(space, a, p) - at_space_feature(space, b, p);
        sum += apart * apart;
    }
    return sqrt(sum);
}

int at_space_live(const at_space *space)
{
    int live = 0;
    for (int p = 0; p < space->param_count; ++p) {
        live += space->param[p].live;
    }
    return live;
}
