/* Spaces as ledgers keep them: parameters with their values, and candidates by their numbers among all combinations. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "evolve/space_parts.h"

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static json_t *write_values(const at_space_param *param)
{
    json_t *values = json_array();
    for (int i = 0; i < param->count; ++i) {
        (void)json_array_append_new(values, json_integer(param->value[i]));
    }
    return values;
}

static json_t *write_params(const at_space *space)
{
    json_t *params = json_array();
    for (int p = 0; p < space->param_count; ++p) {
        const at_space_param *param = &space->param[p];
        (void)json_array_append_new(params, json_pack("{s:s,s:o}", "name", param->name, "values", write_values(param)));
    }
    return params;
}

/* Candidates in the given order (NULL: their own) by their codes. */
static json_t *write_codes(const at_space *space, const int *order, int count)
{
    json_t *codes = json_array();
    for (int i = 0; i < count; ++i) {
        (void)json_array_append_new(codes, json_integer(space->code[order == NULL ? i : order[i]]));
    }
    return codes;
}

static json_t *write_refusals(const at_space *space)
{
    json_t *refusals = json_array();
    for (int i = 0; i < space->refusal_count; ++i) {
        const at_space_refusal *refusal = &space->refusal[i];
        (void)json_array_append_new(refusals,
                                    json_pack("{s:i,s:s}", "count", refusal->count, "first", refusal->first.text));
    }
    return refusals;
}

json_t *at_space_write(const at_space *space)
{
    return json_pack("{s:s,s:o,s:o,s:o,s:o}", "kernel", space->kernel, "params", write_params(space), "candidates",
                     write_codes(space, NULL, space->count), "heuristic",
                     write_codes(space, space->order, space->order_count), "refused", write_refusals(space));
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static attune_status read_name(const json_t *object, const char *path, const char *key, size_t bytes, char *name)
{
    const char *text;
    AT_FORWARD(at_json_string(object, path, key, &text));
    AT_FAIL_IF(strlen(text) >= bytes, ATTUNE_CORRUPT, "%s: field \"%s\" has %zu bytes, at most %zu are allowed", path,
               key, strlen(text), bytes - 1);
    memcpy(name, text, strlen(text) + 1);
    return ATTUNE_OK;
}

static attune_status read_whole(const json_t *value, const char *path, const char *key, int64_t least, int64_t most,
                                int64_t *whole)
{
    AT_FAIL_IF(!json_is_integer(value), ATTUNE_CORRUPT, "%s: field \"%s\" holds %s, expected whole numbers", path, key,
               at_json_kind(value));
    *whole = json_integer_value(value);
    AT_FAIL_IF(*whole < least || *whole > most, ATTUNE_CORRUPT,
               "%s: field \"%s\" holds %lld, allowed are %lld ... %lld", path, key, (long long)*whole, (long long)least,
               (long long)most);
    return ATTUNE_OK;
}

static attune_status read_param(const json_t *object, const char *path, at_space_param *param)
{
    json_t *values;
    AT_FAIL_IF(!json_is_object(object), ATTUNE_CORRUPT, "%s is %s, expected an object", path, at_json_kind(object));
    AT_FORWARD(read_name(object, path, "name", sizeof param->name, param->name));
    AT_FORWARD(at_json_list(object, path, "values", 1, AT_SPACE_VALUES_MAX, &values));
    const size_t count = json_array_size(values);
    param->count = (int)count;
    for (size_t i = 0; i < count; ++i) {
        int64_t least = i > 0 ? (int64_t)param->value[i - 1] + 1 : INT32_MIN;
        int64_t value = 0;
        AT_FORWARD(read_whole(json_array_get(values, i), path, "values", least, INT32_MAX, &value));
        param->value[i] = (int32_t)value;
    }
    return ATTUNE_OK;
}

static attune_status read_params(const json_t *object, const char *path, at_space *space)
{
    json_t *params;
    AT_FORWARD(at_json_list(object, path, "params", 0, ATTUNE_PARAMS_MAX, &params));
    space->param_count = (int)json_array_size(params);
    space->total = 1;
    for (int p = 0; p < space->param_count; ++p) {
        char inner[160];
        (void)snprintf(inner, sizeof inner, "%.100s.params[%d]", path, p);
        AT_FORWARD(read_param(json_array_get(params, (size_t)p), inner, &space->param[p]));
        space->total *= space->param[p].count;
        AT_FAIL_IF(space->total > AT_SPACE_TOTAL_MAX, ATTUNE_CORRUPT,
                   "%s: the parameters' values make more than %d combinations", path, AT_SPACE_TOTAL_MAX);
    }
    return ATTUNE_OK;
}

static attune_status read_candidates(const json_t *object, const char *path, at_space *space)
{
    json_t *codes;
    AT_FORWARD(at_json_list(object, path, "candidates", 1, (size_t)space->total, &codes));
    const size_t count = json_array_size(codes);
    AT_FORWARD(at_space_make_room(space, (int)count));
    for (size_t i = 0; i < count; ++i) {
        int64_t least = i > 0 ? space->code[i - 1] + 1 : 0;
        AT_FORWARD(read_whole(json_array_get(codes, i), path, "candidates", least, space->total - 1, &space->code[i]));
        ++space->count;
    }
    return at_space_complete(space);
}

static attune_status read_order(const json_t *object, const char *path, at_space *space)
{
    json_t *codes;
    AT_FORWARD(at_json_field(object, path, "heuristic", JSON_ARRAY, &codes));
    for (size_t i = 0; i < json_array_size(codes); ++i) {
        int64_t code = 0;
        AT_FORWARD(read_whole(json_array_get(codes, i), path, "heuristic", 0, space->total - 1, &code));
        int candidate = at_space_find_code(space, code);
        AT_FAIL_IF(candidate < 0 || space->rank[candidate] != INT_MAX, ATTUNE_CORRUPT,
                   "%s: field \"heuristic\" holds %lld, which is no candidate, or for the second time", path,
                   (long long)code);
        at_space_rank(space, candidate);
    }
    return ATTUNE_OK;
}

static attune_status read_refusals(const json_t *object, const char *path, at_space *space)
{
    json_t *refusals;
    AT_FORWARD(at_json_list(object, path, "refused", 0, AT_SPACE_REFUSALS_MAX, &refusals));
    for (size_t i = 0; i < json_array_size(refusals); ++i) {
        at_space_refusal *refusal = &space->refusal[space->refusal_count];
        const json_t *item = json_array_get(refusals, i);
        int64_t count;
        AT_FORWARD(at_json_int(item, path, "count", 1, AT_SPACE_TOTAL_MAX, &count));
        AT_FORWARD(read_name(item, path, "first", sizeof refusal->first.text, refusal->first.text));
        refusal->count = (int)count;
        ++space->refusal_count;
    }
    return ATTUNE_OK;
}

static attune_status read_all(const json_t *object, const char *path, at_space *space)
{
    AT_FORWARD(read_name(object, path, "kernel", sizeof space->kernel, space->kernel));
    AT_FORWARD(read_params(object, path, space));
    AT_FORWARD(read_candidates(object, path, space));
    AT_FORWARD(read_order(object, path, space));
    return read_refusals(object, path, space);
}

attune_status at_space_read(const json_t *object, const char *path, at_space **space)
{
    *space = calloc(1, sizeof **space);
    AT_FAIL_IF(*space == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a space");
    attune_status status = read_all(object, path, *space);
    if (status != ATTUNE_OK) {
        at_space_close(*space);
        *space = NULL;
    }
    return status;
}
