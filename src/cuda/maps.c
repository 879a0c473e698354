#include "cuda/maps.h"

#include "base/status.h"
#include "core/problem.h"

static uint64_t at_least_one(int64_t value)
{
    return value < 1 ? 1 : (uint64_t)value;
}

at_map_shape at_map_shape_of(const attune_map *map, const attune_args *args, bool varlen)
{
    const attune_tensor *tensor = &args->tensor[map->role];
    const bool queries = map->role == ATTUNE_Q || map->role == ATTUNE_O;
    const int64_t rows = queries ? args->seqlen_q : args->seqlen_kv;
    const int64_t total = queries ? args->total_q : args->total_kv;
    const uint64_t bytes = at_dtype_bytes(tensor->dtype);
    at_map_shape shape = {.rank = varlen ? 3 : 4};
    shape.size[0] = (uint64_t)(map->role == ATTUNE_Q || map->role == ATTUNE_K ? args->head_dim_qk : args->head_dim_v);
    shape.size[1] = at_least_one(varlen ? total : rows);
    shape.size[2] = at_least_one(queries ? args->heads_q : args->heads_kv);
    shape.size[3] = at_least_one(args->batch);
    shape.stride[0] = (uint64_t)tensor->stride[ATTUNE_STRIDE_SEQ] * bytes;
    shape.stride[1] = (uint64_t)tensor->stride[ATTUNE_STRIDE_HEAD] * bytes;
    shape.stride[2] = (uint64_t)tensor->stride[ATTUNE_STRIDE_BATCH] * bytes;
    for (uint32_t i = 0; i < shape.rank; ++i) {
        shape.box[i] = map->box[i] < 1 ? 1 : (uint32_t)map->box[i];
        /* A dimension of one has any stride, and callers leave rubbish there. */
        if (i > 0 && shape.size[i] == 1) {
            shape.stride[i - 1] = i > 1 ? shape.stride[i - 2] : (shape.size[0] * bytes + 15) / 16 * 16;
        }
    }
    return shape;
}

static unsigned int map_type(int32_t dtype)
{
    return dtype == ATTUNE_FP16 ? AT_CU_MAP_FLOAT16 : dtype == ATTUNE_BF16 ? AT_CU_MAP_BFLOAT16 : AT_CU_MAP_FLOAT32;
}

static unsigned int promotion(int32_t bytes)
{
    return bytes >= 256 ? 3 : bytes >= 128 ? 2 : bytes >= 64 ? 1 : 0;
}

attune_status at_map_encode(const at_driver *driver, const attune_map *map, const attune_args *args, bool varlen,
                            attune_tensor_map *encoded)
{
    static const uint32_t steps[4] = {1, 1, 1, 1};
    const attune_tensor *tensor = &args->tensor[map->role];
    if (tensor->data == NULL) {
        return ATTUNE_OK;
    }
    at_map_shape shape = at_map_shape_of(map, args, varlen);
    at_cu_result error = driver->cuTensorMapEncodeTiled(
        encoded, map_type(tensor->dtype), shape.rank, tensor->data, shape.size, shape.stride, shape.box, steps,
        AT_CU_MAP_INTERLEAVE_NONE, map->swizzle, promotion(map->l2_bytes), AT_CU_MAP_FILL_ZEROS);
    AT_DRIVER_CHECK(driver, error, "tensor map of %s at %p, strides %lld, %lld, %lld, box %u x %u (16-byte multiples?)",
                    at_role_name((int)map->role), tensor->data, (long long)tensor->stride[0],
                    (long long)tensor->stride[1], (long long)tensor->stride[2], shape.box[0], shape.box[1]);
    return ATTUNE_OK;
}

attune_status at_map_move(const at_driver *driver, const attune_map *map, const attune_args *args,
                          attune_tensor_map *encoded)
{
    void *data = args->tensor[map->role].data;
    if (data != NULL) {
        AT_DRIVER_CHECK(driver, driver->cuTensorMapReplaceAddress(encoded, data), "tensor map of %s moved to %p",
                        at_role_name((int)map->role), data);
    }
    return ATTUNE_OK;
}
