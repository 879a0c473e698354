#include "stranger/wire_kernel.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/config.h"
#include "cuda/build.h"

enum { VALUES_MAX = 256, SHIPPED_MAX = 256, SOURCES_MAX = 32 };

/* json_pack gives NULL for want of memory, and drops what was handed to it. */
static json_t *append(json_t *array, json_t *value)
{
    if (array == NULL || json_array_append_new(array, value) != 0) {
        json_decref(array);
        return NULL;
    }
    return array;
}

/* ---- Kernels ---------------------------------------------------------------------------------------------------- */

static json_t *from_params(const attune_kernel *kernel)
{
    json_t *params = json_array();
    for (int i = 0; params != NULL && i < kernel->param_count; ++i) {
        const attune_param *param = &kernel->params[i];
        json_t *values = json_array();
        for (int k = 0; values != NULL && k < param->count; ++k) {
            values = append(values, json_integer(param->values[k]));
        }
        params = append(params, values == NULL ? NULL : json_pack("{s:s,s:o}", "name", param->name, "values", values));
    }
    return params;
}

static json_t *from_shipped(const attune_kernel *kernel)
{
    json_t *shipped = json_array();
    for (const attune_shipped *row = kernel->shipped; row != NULL && row->problem != NULL; ++row) {
        shipped = append(shipped, json_pack("{s:s,s:s}", "problem", row->problem, "config", row->config));
    }
    return shipped;
}

/* Every field of a capability, so that it travels by value. */
#define CAN_FIELD(field)                                                                                               \
    {                                                                                                                  \
#field, offsetof(attune_capability, field)                                                                     \
    }
static const struct {
    const char *name;
    size_t offset;
} can_fields[] = {
    CAN_FIELD(ops),
    CAN_FIELD(dtypes),
    CAN_FIELD(dtypes_k),
    CAN_FIELD(dtypes_v),
    CAN_FIELD(dtypes_o),
    CAN_FIELD(dtypes_bias),
    CAN_FIELD(features),
    CAN_FIELD(offsets),
    CAN_FIELD(biases),
    CAN_FIELD(layouts),
    CAN_FIELD(head_dim_qk.least),
    CAN_FIELD(head_dim_qk.most),
    CAN_FIELD(head_dim_qk.step),
    CAN_FIELD(head_dim_v.least),
    CAN_FIELD(head_dim_v.most),
    CAN_FIELD(head_dim_v.step),
    CAN_FIELD(dims_equal),
    CAN_FIELD(align),
    CAN_FIELD(arch_least),
    CAN_FIELD(arch_most),
    CAN_FIELD(arch_features),
    CAN_FIELD(steps),
};
enum { CAN_FIELDS = sizeof can_fields / sizeof can_fields[0] };
_Static_assert(CAN_FIELDS * sizeof(int32_t) == sizeof(attune_capability), "all of them are 32 bits");

static json_t *from_capabilities(const attune_kernel *kernel)
{
    json_t *rows = json_array();
    for (int i = 0; rows != NULL && kernel->can != NULL && i < kernel->can_count && i < ATTUNE_CAN_MAX; ++i) {
        json_t *row = json_object();
        for (int k = 0; row != NULL && k < CAN_FIELDS; ++k) {
            uint32_t value;
            memcpy(&value, (const char *)&kernel->can[i] + can_fields[k].offset, sizeof value);
            (void)json_object_set_new(row, can_fields[k].name, json_integer(value));
        }
        rows = append(rows, row);
    }
    return rows;
}

static attune_status read_capabilities(const json_t *rows, at_kernel_data *data)
{
    AT_FAIL_IF(json_array_size(rows) > ATTUNE_CAN_MAX, ATTUNE_CORRUPT,
               "kernel: %zu capabilities, at most %d are allowed", json_array_size(rows), ATTUNE_CAN_MAX);
    for (size_t i = 0; i < json_array_size(rows); ++i) {
        for (int k = 0; k < CAN_FIELDS; ++k) {
            int64_t value;
            AT_FORWARD(at_json_int(json_array_get(rows, i), "kernel.can", can_fields[k].name, 0, UINT32_MAX, &value));
            const uint32_t bits = (uint32_t)value;
            memcpy((char *)&data->can[i] + can_fields[k].offset, &bits, sizeof bits);
        }
    }
    data->kernel.can = json_array_size(rows) > 0 ? data->can : NULL;
    data->kernel.can_count = (int32_t)json_array_size(rows);
    return ATTUNE_OK;
}

json_t *at_wire_from_kernel(const attune_kernel *kernel)
{
    json_t *params = from_params(kernel);
    json_t *shipped = from_shipped(kernel);
    json_t *can = from_capabilities(kernel);
    if (params == NULL || shipped == NULL || can == NULL) {
        json_decref(can);
        json_decref(params);
        json_decref(shipped);
        return NULL;
    }
    return json_pack("{s:i,s:I,s:s,s:s,s:I,s:s*,s:o,s:o,s:o}", "target", (int)kernel->target, "abi",
                     (json_int_t)kernel->abi, "name", kernel->name, "summary", kernel->summary, "traits",
                     (json_int_t)kernel->traits, "source", kernel->source, "params", params, "can", can, "shipped",
                     shipped);
}

static attune_status read_values(const json_t *values, const char *name, int32_t *to)
{
    for (size_t i = 0; i < json_array_size(values); ++i) {
        const json_t *value = json_array_get(values, i);
        AT_FAIL_IF(!json_is_integer(value) || json_integer_value(value) < INT32_MIN ||
                       json_integer_value(value) > INT32_MAX,
                   ATTUNE_CORRUPT, "kernel: a value of parameter %.40s is %s, a 32-bit integer is needed", name,
                   at_json_kind(value));
        to[i] = (int32_t)json_integer_value(value);
    }
    return ATTUNE_OK;
}

static attune_status read_params(const json_t *params, at_kernel_data *data)
{
    size_t count = json_array_size(params);
    AT_FAIL_IF(count > ATTUNE_PARAMS_MAX, ATTUNE_CORRUPT, "kernel: it has %zu parameters, at most %d are allowed",
               count, ATTUNE_PARAMS_MAX);
    data->values = calloc(count * VALUES_MAX + 1, sizeof *data->values);
    AT_FAIL_IF(data->values == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu parameters", count);
    for (size_t i = 0; i < count; ++i) {
        attune_param *param = &data->param[i];
        json_t *values;
        AT_FORWARD(at_json_string(json_array_get(params, i), "kernel.params", "name", &param->name));
        AT_FORWARD(at_json_field(json_array_get(params, i), "kernel.params", "values", JSON_ARRAY, &values));
        AT_FAIL_IF(json_array_size(values) > VALUES_MAX, ATTUNE_CORRUPT,
                   "kernel: parameter %.40s has %zu values, at most %d are allowed", param->name,
                   json_array_size(values), VALUES_MAX);
        param->values = data->values + i * VALUES_MAX;
        param->count = (int32_t)json_array_size(values);
        AT_FORWARD(read_values(values, param->name, data->values + i * VALUES_MAX));
    }
    data->kernel.params = data->param;
    data->kernel.param_count = (int32_t)count;
    return ATTUNE_OK;
}

static attune_status read_shipped(const json_t *shipped, at_kernel_data *data)
{
    size_t count = json_array_size(shipped);
    AT_FAIL_IF(count > SHIPPED_MAX, ATTUNE_CORRUPT, "kernel: %zu shipped problems, at most %d are allowed", count,
               SHIPPED_MAX);
    data->shipped = calloc(count + 1, sizeof *data->shipped);
    AT_FAIL_IF(data->shipped == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu shipped problems", count);
    for (size_t i = 0; i < count; ++i) {
        const json_t *row = json_array_get(shipped, i);
        attune_problem problem;
        attune_config config = {{0}};
        AT_FORWARD(at_json_string(row, "kernel.shipped", "problem", &data->shipped[i].problem));
        AT_FORWARD(at_json_string(row, "kernel.shipped", "config", &data->shipped[i].config));
        AT_FORWARD(attune_problem_parse(data->shipped[i].problem, &problem));
        AT_FORWARD(at_config_parse(&data->kernel, data->shipped[i].config, &config));
    }
    data->kernel.shipped = data->shipped;
    return ATTUNE_OK;
}

static attune_status read_kernel(const json_t *message, at_kernel_data *data)
{
    attune_kernel *kernel = &data->kernel;
    json_t *params;
    json_t *can;
    json_t *shipped;
    int64_t target, abi, traits;
    AT_FORWARD(at_json_int(message, "kernel", "target", ATTUNE_TARGET_CPU, ATTUNE_TARGET_CUDA, &target));
    AT_FORWARD(at_json_int(message, "kernel", "abi", 0, UINT32_MAX, &abi));
    AT_FORWARD(at_json_int(message, "kernel", "traits", 0, UINT32_MAX, &traits));
    AT_FORWARD(at_json_string(message, "kernel", "name", &kernel->name));
    AT_FORWARD(at_json_string(message, "kernel", "summary", &kernel->summary));
    AT_FORWARD(at_json_field(message, "kernel", "params", JSON_ARRAY, &params));
    AT_FORWARD(at_json_field(message, "kernel", "can", JSON_ARRAY, &can));
    AT_FORWARD(at_json_field(message, "kernel", "shipped", JSON_ARRAY, &shipped));
    kernel->size = sizeof *kernel;
    kernel->abi = (uint32_t)abi;
    kernel->target = (attune_target_kind)target;
    kernel->traits = (uint32_t)traits;
    if (json_object_get(message, "source") != NULL) {
        AT_FORWARD(at_json_string(message, "kernel", "source", &kernel->source));
    }
    AT_FORWARD(read_params(params, data));
    AT_FORWARD(read_capabilities(can, data));
    AT_FORWARD(at_kernel_check_data(kernel));
    return read_shipped(shipped, data);
}

attune_status at_wire_kernel(json_t *message, at_kernel_data **data)
{
    *data = NULL;
    at_kernel_data *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a kernel");
    made->message = json_incref(message);
    attune_status status = read_kernel(message, made);
    if (status != ATTUNE_OK) {
        at_kernel_data_free(made);
        return status;
    }
    *data = made;
    return ATTUNE_OK;
}

void at_kernel_data_free(at_kernel_data *data)
{
    if (data != NULL) {
        json_decref(data->message);
        free(data->values);
        free(data->shipped);
        free(data);
    }
}

json_t *at_wire_from_config(const attune_kernel *kernel, const attune_config *config)
{
    json_t *array = json_array();
    for (int i = 0; array != NULL && i < kernel->param_count; ++i) {
        array = append(array, json_integer(config->value[i]));
    }
    return array;
}

attune_status at_wire_config(const json_t *array, const attune_kernel *kernel, attune_config *config)
{
    memset(config, 0, sizeof *config);
    AT_FAIL_IF(!json_is_array(array) || json_array_size(array) != (size_t)kernel->param_count, ATTUNE_CORRUPT,
               "config: it is %s of %zu values, kernel %s has %d parameters", at_json_kind(array),
               json_array_size(array), kernel->name, kernel->param_count);
    return read_values(array, "config", config->value);
}

/* ---- Resources -------------------------------------------------------------------------------------------------- */

static json_t *from_resources(const attune_resources *resources)
{
    json_t *workspace = at_wire_from_term(&resources->workspace);
    return workspace == NULL ? NULL
                             : json_pack("{s:i,s:i,s:I,s:o}", "threads", (int)resources->threads, "smem_bytes",
                                         (int)resources->smem_bytes, "scratch_bytes",
                                         (json_int_t)resources->scratch_bytes, "workspace", workspace);
}

static attune_status read_int32(const json_t *object, const char *path, const char *key, int32_t *value)
{
    int64_t wide;
    AT_FORWARD(at_json_int(object, path, key, INT32_MIN, INT32_MAX, &wide));
    *value = (int32_t)wide;
    return ATTUNE_OK;
}

static attune_status read_resources(const json_t *object, attune_resources *resources)
{
    *resources = (attune_resources){0};
    AT_FORWARD(read_int32(object, "resources", "threads", &resources->threads));
    AT_FORWARD(read_int32(object, "resources", "smem_bytes", &resources->smem_bytes));
    AT_FORWARD(at_json_int(object, "resources", "scratch_bytes", INT64_MIN, INT64_MAX, &resources->scratch_bytes));
    return at_wire_term(json_object_get(object, "workspace"), &resources->workspace);
}

/* ---- Steps ------------------------------------------------------------------------------------------------------ */

static json_t *from_maps(const attune_step_kernel *step)
{
    json_t *maps = json_array();
    for (int i = 0; maps != NULL && i < step->map_count; ++i) {
        const attune_map *map = &step->map[i];
        maps = append(maps, json_pack("{s:i,s:i,s:[i,i,i,i],s:i,s:s}", "role", (int)map->role, "swizzle",
                                      (int)map->swizzle, "box", (int)map->box[0], (int)map->box[1], (int)map->box[2],
                                      (int)map->box[3], "l2_bytes", (int)map->l2_bytes, "name", map->name));
    }
    return maps;
}

/* Which a CPU kernel's step need not set. */
static json_t *from_smem(const attune_step_kernel *step)
{
    const attune_term none = attune_term_const(0);
    return at_wire_from_term(attune_term_length(&step->smem) == 0 ? &none : &step->smem);
}

static json_t *from_kernel_step(const attune_step_kernel *step)
{
    return json_pack("{s:s,s:s,s:[o,o,o],s:[i,i,i],s:[i,i,i],s:o,s:i,s:o}", "kind", "kernel", "entry", step->entry,
                     "grid", at_wire_from_term(&step->grid[0]), at_wire_from_term(&step->grid[1]),
                     at_wire_from_term(&step->grid[2]), "block", (int)step->block[0], (int)step->block[1],
                     (int)step->block[2], "cluster", (int)step->cluster[0], (int)step->cluster[1],
                     (int)step->cluster[2], "smem", from_smem(step), "programmatic", (int)step->programmatic, "maps",
                     from_maps(step));
}

static json_t *from_operand(const attune_operand *operand)
{
    return json_pack("{s:i,s:i,s:o,s:o,s:o,s:o}", "role", (int)operand->role, "dtype", (int)operand->dtype,
                     "offset_bytes", at_wire_from_term(&operand->offset_bytes), "row_stride",
                     at_wire_from_term(&operand->row_stride), "head_stride", at_wire_from_term(&operand->head_stride),
                     "batch_stride", at_wire_from_term(&operand->batch_stride));
}

static json_t *from_step(const attune_step *step)
{
    const attune_step_fill *fill = &step->as.fill;
    const attune_step_gemm *gemm = &step->as.gemm;
    switch (step->kind) {
    case ATTUNE_STEP_KERNEL:
        return from_kernel_step(&step->as.kernel);
    case ATTUNE_STEP_FILL:
        return json_pack("{s:s,s:o,s:o,s:I}", "kind", "fill", "offset_bytes", at_wire_from_term(&fill->offset_bytes),
                         "bytes", at_wire_from_term(&fill->bytes), "pattern", (json_int_t)fill->pattern);
    case ATTUNE_STEP_GEMM:
        return json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:i,s:i}", "kind", "gemm", "a", from_operand(&gemm->a), "b",
                         from_operand(&gemm->b), "c", from_operand(&gemm->c), "m", at_wire_from_term(&gemm->m), "n",
                         at_wire_from_term(&gemm->n), "k", at_wire_from_term(&gemm->k), "transpose_b",
                         (int)gemm->transpose_b, "scaled", (int)gemm->scaled);
    }
    return NULL;
}

json_t *at_wire_from_plan(const attune_resources *resources, const attune_steps *steps)
{
    json_t *array = json_array();
    for (int i = 0; array != NULL && i < steps->count; ++i) {
        array = append(array, from_step(&steps->step[i]));
    }
    return array == NULL ? NULL : json_pack("{s:o,s:o}", "resources", from_resources(resources), "steps", array);
}

static attune_status read_three(const json_t *object, const char *key, int32_t value[3])
{
    json_t *array;
    AT_FORWARD(at_json_field(object, "step", key, JSON_ARRAY, &array));
    AT_FAIL_IF(json_array_size(array) != 3, ATTUNE_CORRUPT, "step: %s has %zu values, 3 are needed", key,
               json_array_size(array));
    return read_values(array, key, value);
}

static attune_status read_map(const json_t *object, attune_map *map)
{
    json_t *box;
    const char *name;
    AT_FORWARD(read_int32(object, "map", "role", &map->role));
    AT_FORWARD(read_int32(object, "map", "swizzle", &map->swizzle));
    AT_FORWARD(at_json_string(object, "map", "name", &name));
    AT_FAIL_IF(strlen(name) >= sizeof map->name, ATTUNE_CORRUPT, "map: a name of %zu characters, at most %zu are read",
               strlen(name), sizeof map->name - 1);
    memcpy(map->name, name, strlen(name) + 1);
    AT_FORWARD(read_int32(object, "map", "l2_bytes", &map->l2_bytes));
    AT_FORWARD(at_json_field(object, "map", "box", JSON_ARRAY, &box));
    AT_FAIL_IF(json_array_size(box) != 4, ATTUNE_CORRUPT, "map: a box of %zu numbers, 4 are needed",
               json_array_size(box));
    return read_values(box, "box", map->box);
}

static attune_status read_kernel_step(const json_t *object, attune_step_kernel *step)
{
    json_t *grid;
    json_t *maps;
    AT_FORWARD(at_json_string(object, "step", "entry", &step->entry));
    AT_FORWARD(at_json_field(object, "step", "grid", JSON_ARRAY, &grid));
    for (size_t i = 0; i < 3; ++i) {
        AT_FORWARD(at_wire_term(json_array_get(grid, i), &step->grid[i]));
    }
    AT_FORWARD(read_three(object, "block", step->block));
    AT_FORWARD(read_three(object, "cluster", step->cluster));
    AT_FORWARD(at_wire_term(json_object_get(object, "smem"), &step->smem));
    AT_FORWARD(read_int32(object, "step", "programmatic", &step->programmatic));
    AT_FORWARD(at_json_field(object, "step", "maps", JSON_ARRAY, &maps));
    AT_FAIL_IF(json_array_size(maps) > ATTUNE_MAPS_MAX, ATTUNE_CORRUPT, "step: %zu tensor maps, at most %d",
               json_array_size(maps), ATTUNE_MAPS_MAX);
    step->map_count = (int32_t)json_array_size(maps);
    for (int i = 0; i < step->map_count; ++i) {
        AT_FORWARD(read_map(json_array_get(maps, (size_t)i), &step->map[i]));
    }
    return ATTUNE_OK;
}

static attune_status read_operand(const json_t *step, const char *key, attune_operand *operand)
{
    json_t *object;
    AT_FORWARD(at_json_field(step, "step", key, JSON_OBJECT, &object));
    AT_FORWARD(read_int32(object, "operand", "role", &operand->role));
    AT_FORWARD(read_int32(object, "operand", "dtype", &operand->dtype));
    if (operand->role >= 0) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_wire_term(json_object_get(object, "offset_bytes"), &operand->offset_bytes));
    AT_FORWARD(at_wire_term(json_object_get(object, "row_stride"), &operand->row_stride));
    AT_FORWARD(at_wire_term(json_object_get(object, "head_stride"), &operand->head_stride));
    return at_wire_term(json_object_get(object, "batch_stride"), &operand->batch_stride);
}

static attune_status read_gemm_step(const json_t *object, attune_step_gemm *step)
{
    AT_FORWARD(read_operand(object, "a", &step->a));
    AT_FORWARD(read_operand(object, "b", &step->b));
    AT_FORWARD(read_operand(object, "c", &step->c));
    AT_FORWARD(at_wire_term(json_object_get(object, "m"), &step->m));
    AT_FORWARD(at_wire_term(json_object_get(object, "n"), &step->n));
    AT_FORWARD(at_wire_term(json_object_get(object, "k"), &step->k));
    AT_FORWARD(read_int32(object, "step", "transpose_b", &step->transpose_b));
    return read_int32(object, "step", "scaled", &step->scaled);
}

static attune_status read_fill_step(const json_t *object, attune_step_fill *step)
{
    int64_t pattern;
    AT_FORWARD(at_wire_term(json_object_get(object, "offset_bytes"), &step->offset_bytes));
    AT_FORWARD(at_wire_term(json_object_get(object, "bytes"), &step->bytes));
    AT_FORWARD(at_json_int(object, "step", "pattern", 0, UINT32_MAX, &pattern));
    step->pattern = (uint32_t)pattern;
    return ATTUNE_OK;
}

static attune_status read_step(const json_t *object, attune_step *step)
{
    const char *kind;
    AT_FORWARD(at_json_string(object, "step", "kind", &kind));
    if (strcmp(kind, "kernel") == 0) {
        step->kind = ATTUNE_STEP_KERNEL;
        return read_kernel_step(object, &step->as.kernel);
    }
    if (strcmp(kind, "fill") == 0) {
        step->kind = ATTUNE_STEP_FILL;
        return read_fill_step(object, &step->as.fill);
    }
    AT_FAIL_IF(strcmp(kind, "gemm") != 0, ATTUNE_CORRUPT, "step: there is no kind \"%.40s\"", kind);
    step->kind = ATTUNE_STEP_GEMM;
    return read_gemm_step(object, &step->as.gemm);
}

attune_status at_wire_plan(const json_t *message, attune_resources *resources, attune_steps *steps)
{
    json_t *needs;
    json_t *array;
    memset(steps, 0, sizeof *steps);
    AT_FORWARD(at_json_field(message, "message", "resources", JSON_OBJECT, &needs));
    AT_FORWARD(at_json_field(message, "message", "steps", JSON_ARRAY, &array));
    AT_FORWARD(read_resources(needs, resources));
    AT_FAIL_IF(json_array_size(array) > ATTUNE_STEPS_MAX, ATTUNE_CORRUPT, "message: %zu steps, at most %d are allowed",
               json_array_size(array), ATTUNE_STEPS_MAX);
    steps->count = (int32_t)json_array_size(array);
    for (int i = 0; i < steps->count; ++i) {
        attune_status status = read_step(json_array_get(array, (size_t)i), &steps->step[i]);
        if (status != ATTUNE_OK) {
            return at_fail_in(status, "step %d", i);
        }
    }
    return ATTUNE_OK;
}

/* ---- Recipes ---------------------------------------------------------------------------------------------------- */

static bool is_own(const at_embedded *file)
{
    for (const at_embedded *own = at_cuda_sources; own->name != NULL; ++own) {
        if (own->data == file->data) {
            return true;
        }
    }
    return false;
}

/* Bytes travel as text of two hexadecimal digits each. */
static json_t *from_bytes(const at_embedded *file)
{
    static const char digit[] = "0123456789abcdef";
    char *text = malloc(2 * file->size + 1);
    for (size_t i = 0; text != NULL && i < file->size; ++i) {
        text[2 * i] = digit[file->data[i] >> 4];
        text[2 * i + 1] = digit[file->data[i] & 15];
    }
    json_t *string = text == NULL ? NULL : json_stringn(text, 2 * file->size);
    free(text);
    return string == NULL ? NULL : json_pack("{s:s,s:o}", "name", file->name, "bytes", string);
}

static json_t *from_sources(const at_recipe *recipe)
{
    json_t *array = json_array();
    for (const at_embedded *file = recipe->sources; array != NULL && file != NULL && file->name != NULL; ++file) {
        if (recipe->kernel->target == ATTUNE_TARGET_CPU) {
            array = append(array, from_bytes(file));
        } else if (!is_own(file)) {
            array = append(array,
                           json_pack("{s:s,s:s%}", "name", file->name, "text", (const char *)file->data, file->size));
        }
    }
    return array;
}

json_t *at_wire_from_recipe(const at_recipe *recipe)
{
    return json_pack("{s:o,s:o,s:o,s:o,s:o}", "kernel", at_wire_from_kernel(recipe->kernel), "problem",
                     at_wire_from_problem(&recipe->problem), "config",
                     at_wire_from_config(recipe->kernel, &recipe->config), "plan",
                     at_wire_from_plan(&recipe->resources, &recipe->steps), "sources", from_sources(recipe));
}

static attune_status read_text(const json_t *source, at_embedded *file)
{
    const char *text;
    AT_FORWARD(at_json_string(source, "source", "name", &file->name));
    AT_FORWARD(at_json_string(source, "source", "text", &text));
    file->data = (const unsigned char *)text;
    file->size = strlen(text);
    return ATTUNE_OK;
}

/* What travelled comes first: where a file has the name of the library's, it is meant. */
static attune_status read_sources(const json_t *array, at_recipe_data *data)
{
    size_t own = 0;
    size_t count = json_array_size(array);
    while (at_cuda_sources[own].name != NULL) {
        ++own;
    }
    AT_FAIL_IF(count > SOURCES_MAX, ATTUNE_CORRUPT, "recipe: %zu sources, at most %d are allowed", count, SOURCES_MAX);
    data->sources = calloc(own + count + 1, sizeof *data->sources);
    AT_FAIL_IF(data->sources == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu sources", count);
    for (size_t i = 0; i < count; ++i) {
        AT_FORWARD(read_text(json_array_get(array, i), &data->sources[i]));
    }
    memcpy(data->sources + count, at_cuda_sources, own * sizeof *data->sources);
    return ATTUNE_OK;
}

static int digit_of(char text)
{
    return text >= '0' && text <= '9' ? text - '0' : text >= 'a' && text <= 'f' ? text - 'a' + 10 : -1;
}

/* A CPU kernel's one object. */
static attune_status read_object(const json_t *array, at_recipe_data *data)
{
    const char *name;
    const char *text;
    AT_FAIL_IF(json_array_size(array) != 1, ATTUNE_CORRUPT, "recipe: %zu objects, one is needed",
               json_array_size(array));
    AT_FORWARD(at_json_string(json_array_get(array, 0), "object", "name", &name));
    AT_FORWARD(at_json_string(json_array_get(array, 0), "object", "bytes", &text));
    size_t bytes = strlen(text) / 2;
    data->sources = calloc(2, sizeof *data->sources);
    data->object = malloc(bytes + 1);
    AT_FAIL_IF(data->sources == NULL || data->object == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu bytes", bytes);
    for (size_t i = 0; i < bytes; ++i) {
        int high = digit_of(text[2 * i]);
        int low = digit_of(text[2 * i + 1]);
        AT_FAIL_IF(high < 0 || low < 0, ATTUNE_CORRUPT, "object: byte %zu is not two hexadecimal digits", i);
        data->object[i] = (unsigned char)(high << 4 | low);
    }
    data->sources[0] = (at_embedded){name, data->object, bytes};
    return ATTUNE_OK;
}

static attune_status read_recipe(const attune_target *target, at_recipe_data *data)
{
    at_recipe *recipe = &data->recipe;
    json_t *kernel;
    json_t *plan;
    json_t *sources;
    AT_FORWARD(at_json_field(data->message, "recipe", "kernel", JSON_OBJECT, &kernel));
    AT_FORWARD(at_json_field(data->message, "recipe", "plan", JSON_OBJECT, &plan));
    AT_FORWARD(at_json_field(data->message, "recipe", "sources", JSON_ARRAY, &sources));
    AT_FORWARD(at_wire_problem(data->message, "problem", &recipe->problem));
    AT_FORWARD(at_wire_kernel(kernel, &data->kernel));
    AT_FORWARD(at_wire_config(json_object_get(data->message, "config"), &data->kernel->kernel, &recipe->config));
    AT_FORWARD(at_wire_plan(plan, &recipe->resources, &recipe->steps));
    AT_FORWARD(data->kernel->kernel.target == ATTUNE_TARGET_CPU ? read_object(sources, data)
                                                                : read_sources(sources, data));
    recipe->kernel = &data->kernel->kernel;
    recipe->sources = data->sources;
    return at_recipe_check(recipe, target);
}

attune_status at_wire_recipe(json_t *message, const attune_target *target, at_recipe_data **data)
{
    *data = NULL;
    at_recipe_data *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a recipe");
    made->message = json_incref(message);
    attune_status status = read_recipe(target, made);
    if (status != ATTUNE_OK) {
        at_recipe_data_free(made);
        return status;
    }
    *data = made;
    return ATTUNE_OK;
}

void at_recipe_data_free(at_recipe_data *data)
{
    if (data != NULL) {
        at_kernel_data_free(data->kernel);
        free(data->sources);
        free(data->object);
        json_decref(data->message);
        free(data);
    }
}
