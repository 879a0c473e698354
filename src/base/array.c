#include "base/array.h"

#include "base/status.h"
#include "base/text.h"

size_t at_array_element(int32_t dtype)
{
    static const size_t bytes[ATTUNE_DTYPE_COUNT] = {
        [ATTUNE_FP32] = 4, [ATTUNE_FP16] = 2, [ATTUNE_BF16] = 2, [ATTUNE_INT32] = 4, [ATTUNE_BOOL] = 1,
    };
    return dtype < 0 || dtype >= ATTUNE_DTYPE_COUNT ? 0 : bytes[dtype];
}

attune_status at_array_size(const char *what, const int64_t *shape, int32_t rank, size_t element, size_t *bytes)
{
    bool empty = false, over = false;
    *bytes = element;
    for (int32_t i = 0; i < rank; i++) {
        AT_FAIL_IF(shape[i] < 0, ATTUNE_CORRUPT, "%s: dimension %d of its shape is %lld, at least 0 is expected", what,
                   i, (long long)shape[i]);
        empty |= shape[i] == 0;
        over |= __builtin_mul_overflow(*bytes, (size_t)shape[i], bytes);
    }
    if (empty) {
        *bytes = 0;
        return ATTUNE_OK;
    }
    AT_FAIL_IF(over || *bytes > PTRDIFF_MAX, ATTUNE_CORRUPT,
               "%s: its shape means more than the %lld bytes that memory can have", what, (long long)PTRDIFF_MAX);
    return ATTUNE_OK;
}

void at_array_shape_text(const at_array *array, char text[AT_ARRAY_TEXT_MAX])
{
    at_text out;
    at_text_init_fixed(&out, text, AT_ARRAY_TEXT_MAX);
    for (int32_t i = 0; i < array->rank; i++) {
        at_text_add(&out, "%s%lld", i == 0 ? "[" : ", ", (long long)array->shape[i]);
    }
    at_text_add(&out, "%s", array->rank == 0 ? "[]" : "]");
}
