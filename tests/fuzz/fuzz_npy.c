/* Any bytes as a .npy file: what is accepted lies within the bytes, and is as large as it says. */
#include <stdlib.h>
#include <string.h>

#include "cli/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const at_npy_options options = {.v2_is_bf16 = bytes % 2 == 1};
    at_array array;
    if (at_npy_parse("input", data, bytes, &options, &array) != ATTUNE_OK) {
        if (array.data != NULL || attune_last_detail()[0] == '\0') {
            abort();
        }
        return 0;
    }
    size_t wanted;
    const uint8_t *from = array.data;
    if (from < data || (size_t)(from - data) + array.bytes != bytes || array.rank > AT_RANK_MAX ||
        at_array_size("input", array.shape, array.rank, at_array_element(array.dtype), &wanted) != ATTUNE_OK ||
        wanted != array.bytes) {
        abort();
    }
    char text[AT_ARRAY_TEXT_MAX];
    at_array_shape_text(&array, text);
    return 0;
}
