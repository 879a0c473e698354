/* Any bytes as a safetensors file: what is accepted lies within the bytes, in order and without gaps. */
#include <stdlib.h>
#include <string.h>

#include "cli/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    at_safetensors *tensors;
    if (at_safetensors_parse("input", data, bytes, &tensors) != ATTUNE_OK) {
        if (tensors != NULL || attune_last_detail()[0] == '\0') {
            abort();
        }
        return 0;
    }
    const uint8_t *next = NULL;
    for (size_t i = 0; i < at_safetensors_count(tensors); i++) {
        const at_named_array *tensor = at_safetensors_at(tensors, i);
        const uint8_t *from = tensor->array.data;
        if (from < data || (next != NULL && from != next) || tensor->array.bytes > bytes ||
            at_safetensors_find(tensors, tensor->name) != tensor) {
            abort();
        }
        next = from + tensor->array.bytes;
    }
    if (next != NULL && next != data + bytes) {
        abort();
    }
    (void)at_safetensors_metadata(tensors, "format");
    at_safetensors_destroy(tensors);
    return 0;
}
