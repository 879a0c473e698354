/* Any bytes are a request, an answer, or refused; what travels in them is read or refused, and what was read is sent
 * and read again as the same. */
#include <stdlib.h>
#include <string.h>

#include "stranger/wire_kernel.h"

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void try_target(const json_t *object)
{
    attune_target target, again;
    if (at_wire_target(object, &target) == ATTUNE_OK) {
        json_t *sent = at_wire_from_target(&target);
        require(at_wire_target(sent, &again) == ATTUNE_OK && memcmp(&target, &again, sizeof target) == 0);
        json_decref(sent);
    }
}

static void try_term(const json_t *array)
{
    attune_term term, again;
    if (at_wire_term(array, &term) == ATTUNE_OK) {
        json_t *sent = at_wire_from_term(&term);
        require(at_wire_term(sent, &again) == ATTUNE_OK && memcmp(&term, &again, sizeof term) == 0);
        json_decref(sent);
    }
}

/* Tensors without an address are not sent. */
static void try_call(const json_t *object)
{
    attune_call call, again;
    if (at_wire_call(object, &call) == ATTUNE_OK) {
        json_t *sent = at_wire_from_call(&call);
        require(at_wire_call(sent, &again) == ATTUNE_OK);
        require(memcmp(&call, &again, offsetof(attune_call, tensor)) == 0);
        json_decref(sent);
    }
}

static void try_recipe(json_t *object)
{
    static const attune_target targets[] = {
        {.size = sizeof targets[0], .model = "CPU", .isa = ATTUNE_ISA_AVX512, .threads = 2},
        {.size = sizeof targets[0],
         .kind = ATTUNE_TARGET_CUDA,
         .model = "GPU",
         .arch = 90,
         .arch_features = 1,
         .sm_count = 132,
         .smem_block_bytes = 49152,
         .smem_optin_bytes = 232448,
         .smem_sm_bytes = 233472,
         .regs_sm = 65536,
         .threads_sm = 2048}};
    for (int i = 0; i < 2; ++i) {
        at_recipe_data *data = NULL;
        if (at_wire_recipe(object, &targets[i], &data) == ATTUNE_OK) {
            at_recipe_data_free(data);
        }
    }
}

static void try_all(json_t *value)
{
    if (json_is_object(value)) {
        attune_problem problem;
        (void)at_wire_problem(value, "problem", &problem);
        try_target(value);
        try_call(value);
        try_recipe(value);
    } else if (json_is_array(value)) {
        try_term(value);
    }
}

static void try_request(const char *line, size_t bytes)
{
    at_request request;
    if (at_request_parse(line, bytes, &request) == ATTUNE_OK) {
        const char *key;
        json_t *value;
        try_all(request.root);
        json_object_foreach(request.root, key, value)
        {
            try_all(value);
        }
        at_request_free(&request);
    }
}

static void try_answer(const char *line, size_t bytes)
{
    json_t *ok;
    attune_status status = at_answer_parse(line, bytes, 7, &ok);
    require((status == ATTUNE_OK) == (ok != NULL));
    json_decref(ok);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_request((const char *)data, size);
    try_answer((const char *)data, size);
    return 0;
}
