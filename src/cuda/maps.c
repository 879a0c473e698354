#include "cuda/maps.h"

#include "base/status.h"
#include "core/problem.h"

static uint64_t at_least_one(int64_t value)
{
    return value < 1 ? 1 : (uint64_t)value;
}

/* The extents of the tensor of a role that may have a map, innermost first, and how many there are. */
static uint32_t extents_of(int role, const attune_args *args, bool varlen, int64_t extent[4])
{
    const bool of_query = role == ATTUNE_Q || role == ATTUNE_O || role == ATTUNE_DQ || role == ATTUNE_DO;
    const bool of_qk = role == ATTUNE_Q || role == ATTUNE_K || role == ATTUNE_DQ || role == ATTUNE_DK;
    const bool pool = args->page_size > 0 && (role == ATTUNE_K || role == ATTUNE_V);
    const int64_t rows_q = varlen ? args->total_q : args->seqlen_q;
    const int64_t rows_kv = varlen ? args->total_kv : args->seqlen_kv;
    extent[3] = args->batch;
    if (role == ATTUNE_LSE || role == ATTUNE_DLSE) {
        extent[0] = rows_q;
        extent[1] = args->heads_q;
        extent[2] = args->batch;
        return varlen ? 2 : 3;
    }
    if (role == ATTUNE_BIAS || role == ATTUNE_DBIAS || role == ATTUNE_MASK) {
        /* NOTE: broadcast dimensions, whose stride is 0, count one: kernels give them the coordinate 0. */
        const int64_t *stride = args->tensor[role].stride;
        extent[0] = args->seqlen_kv;
        extent[1] = args->seqlen_q;
        extent[2] = stride[ATTUNE_STRIDE_HEAD] != 0 ? args->heads_q : 1;
        extent[3] = stride[ATTUNE_STRIDE_BATCH] != 0 ? args->batch : 1;
        return 4;
    }
    extent[0] = of_qk ? args->head_dim_qk : args->head_dim_v;
    extent[1] = of_query ? rows_q : rows_kv;
    extent[2] = of_query ? args->heads_q : args->heads_kv;
    if (pool) {
        extent[1] = args->page_size;
        extent[3] = args->page_count;
    }
    return varlen && !pool ? 3 : 4;
}

at_map_shape at_map_shape_of(const attune_map *map, const attune_args *args, bool varlen)
{
    const attune_tensor *tensor = &args->tensor[map->role];
    const bool rows_inside = map->role == ATTUNE_LSE || map->role == ATTUNE_DLSE; /* the innermost dimension */
    const uint64_t bytes = at_dtype_bytes(tensor->dtype);
    int64_t extent[4];
    at_map_shape shape = {.rank = extents_of(map->role, args, varlen, extent)};
    for (uint32_t i = 0; i < shape.rank; ++i) {
        shape.size[i] = at_least_one(extent[i]);
        shape.box[i] = map->box[i] < 1 ? 1 : (uint32_t)map->box[i];
    }
    for (uint32_t i = 1; i < shape.rank; ++i) {
        /* A dimension of one has any stride, and callers need not set it. */
        const uint64_t least = i > 1 ? shape.stride[i - 2] : (shape.size[0] * bytes + 15) / 16 * 16;
        const int64_t stride = tensor->stride[(rows_inside ? ATTUNE_STRIDE_HEAD : ATTUNE_STRIDE_SEQ) + 1 - i];
        shape.stride[i - 1] = shape.size[i] == 1 ? least : (uint64_t)stride * bytes;
    }
    return shape;
}

static unsigned int map_type(int32_t dtype)
{
    static const unsigned int types[ATTUNE_DTYPE_COUNT] = {[ATTUNE_FP32] = AT_CU_MAP_FLOAT32,
                                                           [ATTUNE_FP16] = AT_CU_MAP_FLOAT16,
                                                           [ATTUNE_BF16] = AT_CU_MAP_BFLOAT16,
                                                           [ATTUNE_INT32] = AT_CU_MAP_INT32,
                                                           [ATTUNE_BOOL] = AT_CU_MAP_UINT8};
    return types[dtype];
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
