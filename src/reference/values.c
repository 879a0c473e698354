#include "reference/values.h"

#include "base/half.h"
#include "reference/pages.h"

enum { STREAMS = ATTUNE_ROLES_FORWARD }; /* of one row: what is drawn does not change with roles to come */

at_random at_fill_stream(const at_inputs *inputs, attune_role role, int64_t batch, int64_t head, int64_t row)
{
    const at_extent extent = at_pages_extent(inputs, role);
    int64_t index = (batch * extent.count[1] + head) * (extent.count[2] + 1) + row + 1;
    return at_random_seed(inputs->draw.seed, (uint64_t)index * STREAMS + (uint64_t)role);
}

void at_fill_store(const at_inputs *inputs, attune_role role, size_t at, const float *values, int64_t count)
{
    unsigned char *to = (unsigned char *)inputs->call.tensor[role].data + at;
    int32_t dtype = inputs->call.tensor[role].dtype;
    for (int64_t i = 0; i < count; ++i) {
        if (dtype == ATTUNE_FP32) {
            ((float *)to)[i] = values[i];
        } else {
            ((uint16_t *)to)[i] = dtype == ATTUNE_FP16 ? at_fp16_from_float(values[i]) : at_bf16_from_float(values[i]);
        }
    }
}
