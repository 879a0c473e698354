/* What travels in the lines of the protocol: addresses, problems, targets, terms, calls. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/problem.h"
#include "core/term.h"
#include "wire/protocol.h"

attune_status at_wire_status(const char *words, attune_status *status)
{
    for (int i = 0; i < ATTUNE_STATUS_COUNT; ++i) {
        if (strcmp(words, attune_status_string((attune_status)i)) == 0) {
            *status = (attune_status)i;
            return ATTUNE_OK;
        }
    }
    return at_fail(ATTUNE_CORRUPT, "answer: there is no status \"%.60s\"", words);
}

/* ---- Numbers ---------------------------------------------------------------------------------------------------- */

attune_status at_wire_address(const json_t *object, const char *key, void **address)
{
    int64_t value;
    AT_FORWARD(at_json_int(object, "message", key, 0, INT64_MAX, &value));
    *address = (void *)(uintptr_t)value;
    return ATTUNE_OK;
}

attune_status at_wire_bytes(const json_t *object, const char *key, size_t most, size_t *bytes)
{
    int64_t value;
    int64_t limit = most > INT64_MAX ? INT64_MAX : (int64_t)most;
    AT_FORWARD(at_json_int(object, "message", key, 0, limit, &value));
    *bytes = (size_t)value;
    return ATTUNE_OK;
}

json_t *at_wire_from_address(const void *address)
{
    return json_integer((json_int_t)(uintptr_t)address);
}

/* Reads an array of exactly `count` integers. */
static attune_status read_integers(const json_t *array, const char *what, size_t count, int64_t *value)
{
    AT_FAIL_IF(!json_is_array(array) || json_array_size(array) != count, ATTUNE_CORRUPT,
               "message: %s must be %zu integers", what, count);
    for (size_t i = 0; i < count; ++i) {
        const json_t *one = json_array_get(array, i);
        AT_FAIL_IF(!json_is_integer(one), ATTUNE_CORRUPT, "message: %s[%zu] is %s, an integer is needed", what, i,
                   at_json_kind(one));
        value[i] = json_integer_value(one);
    }
    return ATTUNE_OK;
}

/* ---- Problems --------------------------------------------------------------------------------------------------- */

attune_status at_wire_problem(const json_t *object, const char *key, attune_problem *problem)
{
    const char *text;
    AT_FORWARD(at_json_string(object, "message", key, &text));
    return attune_problem_parse(text, problem);
}

json_t *at_wire_from_problem(const attune_problem *problem)
{
    char text[ATTUNE_PROBLEM_TEXT_MAX];
    return attune_problem_print(problem, text, sizeof text) == ATTUNE_OK ? json_string(text) : NULL;
}

/* ---- Targets ---------------------------------------------------------------------------------------------------- */

typedef struct target_field {
    const char *name;
    size_t offset, bytes;
    int64_t most;
} target_field;

#define FIELD(name, most)                                                                                              \
    {                                                                                                                  \
#name, offsetof(attune_target, name), sizeof(((attune_target *)0)->name), most                                 \
    }

static const target_field target_fields[] = {
    FIELD(threads, 1 << 20),
    FIELD(l1d_bytes, INT64_MAX),
    FIELD(l2_bytes, INT64_MAX),
    FIELD(l3_bytes, INT64_MAX),
    FIELD(device, 1 << 16),
    FIELD(arch, 1 << 16),
    FIELD(arch_features, 1),
    FIELD(sm_count, 1 << 20),
    FIELD(smem_block_bytes, INT32_MAX),
    FIELD(smem_optin_bytes, INT32_MAX),
    FIELD(smem_sm_bytes, INT32_MAX),
    FIELD(regs_sm, INT32_MAX),
    FIELD(threads_sm, INT32_MAX),
    FIELD(memory_l2_bytes, INT64_MAX),
    FIELD(driver, INT32_MAX),
    FIELD(compiler, INT32_MAX),
};
enum { TARGET_FIELDS = sizeof target_fields / sizeof target_fields[0] };

attune_status at_wire_target(const json_t *object, attune_target *target)
{
    const char *model;
    int64_t kind, isa, value;
    memset(target, 0, sizeof *target);
    target->size = sizeof *target;
    AT_FORWARD(at_json_int(object, "target", "kind", ATTUNE_TARGET_CPU, ATTUNE_TARGET_CUDA, &kind));
    AT_FORWARD(at_json_int(object, "target", "isa", 0, ATTUNE_ISA_COUNT - 1, &isa));
    AT_FORWARD(at_json_string(object, "target", "model", &model));
    AT_FAIL_IF(strlen(model) >= sizeof target->model, ATTUNE_CORRUPT, "target: a model of %zu characters, %zu fit",
               strlen(model), sizeof target->model - 1);
    target->kind = (attune_target_kind)kind;
    target->isa = (attune_isa)isa;
    memcpy(target->model, model, strlen(model));
    for (size_t i = 0; i < TARGET_FIELDS; ++i) {
        const target_field *field = &target_fields[i];
        AT_FORWARD(at_json_int(object, "target", field->name, 0, field->most, &value));
        const int32_t narrow = (int32_t)value;
        memcpy((char *)target + field->offset, field->bytes == sizeof narrow ? (const void *)&narrow : &value,
               field->bytes);
    }
    return ATTUNE_OK;
}

json_t *at_wire_from_target(const attune_target *target)
{
    json_t *object =
        json_pack("{s:i,s:i,s:s}", "kind", (int)target->kind, "isa", (int)target->isa, "model", target->model);
    for (size_t i = 0; i < TARGET_FIELDS && object != NULL; ++i) {
        const target_field *field = &target_fields[i];
        int32_t narrow = 0;
        int64_t value = 0;
        memcpy(field->bytes == sizeof narrow ? (void *)&narrow : &value, (const char *)target + field->offset,
               field->bytes);
        value = field->bytes == sizeof narrow ? narrow : value;
        if (json_object_set_new(object, field->name, json_integer(value)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* ---- Terms ------------------------------------------------------------------------------------------------------ */

/* A term is an array of [op, value] in postfix order. */
attune_status at_wire_term(const json_t *array, attune_term *term)
{
    memset(term, 0, sizeof *term);
    size_t length = json_array_size(array);
    AT_FAIL_IF(!json_is_array(array) || length < 1 || length > ATTUNE_TERM_NODES, ATTUNE_CORRUPT,
               "message: a term must be 1 to %d pairs", ATTUNE_TERM_NODES);
    for (size_t i = 0; i < length; ++i) {
        int64_t pair[2] = {0, 0};
        AT_FORWARD(read_integers(json_array_get(array, i), "a term's pair", 2, pair));
        AT_FAIL_IF(pair[0] < ATTUNE_TERM_CONST || pair[0] > ATTUNE_TERM_MAX, ATTUNE_CORRUPT,
                   "message: there is no term op %lld", (long long)pair[0]);
        term->op[i] = (uint8_t)pair[0];
        term->value[i] = pair[1];
    }
    return at_term_check(term);
}

json_t *at_wire_from_term(const attune_term *term)
{
    json_t *array = json_array();
    for (int i = 0; array != NULL && i < attune_term_length(term); ++i) {
        json_t *pair = json_pack("[i,I]", (int)term->op[i], (json_int_t)term->value[i]);
        if (json_array_append_new(array, pair) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------ */

enum { CALL_SIZES = 8, CACHE_SIZES = 6, TENSOR_NUMBERS = 5 };

/* The tensors of a call are objects by role: [address, stride of batch, of head, of sequence, dtype]. */
static attune_status read_tensors(const json_t *tensors, attune_call *call)
{
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        int64_t value[TENSOR_NUMBERS];
        const json_t *given = json_object_get(tensors, at_role_name(role));
        if (given == NULL) {
            continue;
        }
        AT_FORWARD(read_integers(given, at_role_name(role), TENSOR_NUMBERS, value));
        AT_FAIL_IF(value[0] < 0 || value[4] < 0 || value[4] >= ATTUNE_DTYPE_COUNT, ATTUNE_CORRUPT,
                   "message: %s has address %lld and dtype %lld", at_role_name(role), (long long)value[0],
                   (long long)value[4]);
        call->tensor[role] = (attune_tensor){.data = (void *)(uintptr_t)value[0],
                                             .stride = {value[1], value[2], value[3]},
                                             .dtype = (attune_i32)value[4]};
    }
    return ATTUNE_OK;
}

/* What only some problems have: left out where all of it is 0. */
static attune_status read_cache(const json_t *object, attune_call *call)
{
    int64_t value[CACHE_SIZES];
    json_t *cache;
    if (json_object_get(object, "cache") == NULL) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_json_field(object, "call", "cache", JSON_ARRAY, &cache));
    AT_FORWARD(read_integers(cache, "cache", CACHE_SIZES, value));
    call->page_count = value[0];
    call->page_table_width = value[1];
    call->total_new = value[2];
    call->states = value[3];
    call->state_stride_o = value[4];
    call->state_stride_lse = value[5];
    return ATTUNE_OK;
}

attune_status at_wire_call(const json_t *object, attune_call *call)
{
    json_t *sizes;
    json_t *tensors;
    int64_t value[CALL_SIZES];
    memset(call, 0, sizeof *call);
    call->size = sizeof *call;
    AT_FORWARD(at_json_field(object, "call", "sizes", JSON_ARRAY, &sizes));
    AT_FORWARD(read_integers(sizes, "sizes", CALL_SIZES, value));
    call->batch = value[0];
    call->heads_q = value[1];
    call->heads_kv = value[2];
    call->seqlen_q = value[3];
    call->seqlen_kv = value[4];
    call->total_q = value[5];
    call->total_kv = value[6];
    call->offset = value[7];
    AT_FORWARD(read_cache(object, call));
    AT_FORWARD(at_wire_address(object, "workspace", &call->workspace));
    AT_FORWARD(at_wire_bytes(object, "workspace_bytes", SIZE_MAX, &call->workspace_bytes));
    AT_FORWARD(at_wire_address(object, "stream", &call->stream));
    AT_FORWARD(at_json_field(object, "call", "tensors", JSON_OBJECT, &tensors));
    return read_tensors(tensors, call);
}

static int set_tensor(json_t *tensors, const attune_tensor *tensor, int role)
{
    json_t *numbers = json_pack("[I,I,I,I,i]", (json_int_t)(uintptr_t)tensor->data, (json_int_t)tensor->stride[0],
                                (json_int_t)tensor->stride[1], (json_int_t)tensor->stride[2], (int)tensor->dtype);
    return json_object_set_new(tensors, at_role_name(role), numbers);
}

json_t *at_wire_from_call(const attune_call *call)
{
    json_t *tensors = json_object();
    for (int role = 0; tensors != NULL && role < ATTUNE_ROLE_COUNT; ++role) {
        if (call->tensor[role].data != NULL && set_tensor(tensors, &call->tensor[role], role) != 0) {
            json_decref(tensors);
            return NULL;
        }
    }
    const bool has_cache = (call->page_count | call->page_table_width | call->total_new | call->states) != 0;
    json_t *cache = !has_cache
                        ? NULL
                        : json_pack("[I,I,I,I,I,I]", (json_int_t)call->page_count, (json_int_t)call->page_table_width,
                                    (json_int_t)call->total_new, (json_int_t)call->states,
                                    (json_int_t)call->state_stride_o, (json_int_t)call->state_stride_lse);
    return json_pack("{s:[I,I,I,I,I,I,I,I],s:I,s:I,s:I,s:o,s:o*}", "sizes", (json_int_t)call->batch,
                     (json_int_t)call->heads_q, (json_int_t)call->heads_kv, (json_int_t)call->seqlen_q,
                     (json_int_t)call->seqlen_kv, (json_int_t)call->total_q, (json_int_t)call->total_kv,
                     (json_int_t)call->offset, "workspace", (json_int_t)(uintptr_t)call->workspace, "workspace_bytes",
                     (json_int_t)call->workspace_bytes, "stream", (json_int_t)(uintptr_t)call->stream, "tensors",
                     tensors, "cache", cache);
}
