/* Our declarations against the toolkit's headers, where those exist. */
#if __has_include(<cuda.h>) && __has_include(<nvrtc.h>) && __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#include <cuda.h>
#include <nvrtc.h>
#define TOOLKIT 1
#endif

#include "attune/kernel.h"
#include "base/cm.h"
#include "cuda/types.h"

#ifdef TOOLKIT

#define SAME(ours, theirs) assert_int_equal((long long)(ours), (long long)(theirs))
#define SAME_PLACE(our_type, our_field, their_type, their_field)                                                       \
    do {                                                                                                               \
        SAME(offsetof(our_type, our_field), offsetof(their_type, their_field));                                        \
        SAME(sizeof((our_type *)0)->our_field, sizeof((their_type *)0)->their_field);                                  \
    } while (0)

static void driver_values(void **state)
{
    (void)state;
    SAME(AT_CU_SUCCESS, CUDA_SUCCESS);
    SAME(AT_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
    SAME(AT_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
    SAME(AT_CU_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
    SAME(AT_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
    SAME(AT_CU_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE);
    SAME(AT_CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
    SAME(AT_CU_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU);
    SAME(AT_CU_ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE);
    SAME(AT_CU_NVLINK_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE);
    SAME(AT_CU_CONTAINED, 226); /* CUDA_ERROR_CONTAINED, since 12.9 */
    SAME(AT_CU_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE);
    SAME(AT_CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
    SAME(AT_CU_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
    SAME(AT_CU_LAUNCH_OUT_OF_RESOURCES, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    SAME(AT_CU_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT);
    SAME(AT_CU_ASSERT, CUDA_ERROR_ASSERT);
    SAME(AT_CU_HARDWARE_STACK_ERROR, CUDA_ERROR_HARDWARE_STACK_ERROR);
    SAME(AT_CU_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
    SAME(AT_CU_PROC_LEGACY_STREAM, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
    SAME(AT_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
    SAME(AT_CU_JIT_PTX, CU_JIT_INPUT_PTX);
    SAME(AT_CU_JIT_ERROR_BUFFER, CU_JIT_ERROR_LOG_BUFFER);
    SAME(AT_CU_JIT_ERROR_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
    SAME(AT_CU_STREAM_LEGACY, (uintptr_t)CU_STREAM_LEGACY);
    SAME(AT_CU_STREAM_PER_THREAD, (uintptr_t)CU_STREAM_PER_THREAD);
    SAME(AT_CU_CAPTURE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

static void driver_attributes(void **state)
{
    (void)state;
    SAME(AT_CU_ATTRIBUTE_SMEM_BLOCK, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    SAME(AT_CU_ATTRIBUTE_SM_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    SAME(AT_CU_ATTRIBUTE_L2_BYTES, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    SAME(AT_CU_ATTRIBUTE_THREADS_SM, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    SAME(AT_CU_ATTRIBUTE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    SAME(AT_CU_ATTRIBUTE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    SAME(AT_CU_ATTRIBUTE_SMEM_SM, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    SAME(AT_CU_ATTRIBUTE_REGS_SM, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    SAME(AT_CU_ATTRIBUTE_SMEM_OPTIN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    SAME(AT_CU_FUNC_MAX_THREADS, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    SAME(AT_CU_FUNC_SMEM_DYNAMIC_MAX, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    SAME(AT_CU_FUNC_CLUSTER_NON_PORTABLE, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
    SAME(AT_CU_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
    SAME(AT_CU_POINTER_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED);
    SAME(AT_CU_POINTER_DEVICE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
    SAME(AT_CU_MEMORY_HOST, CU_MEMORYTYPE_HOST);
    SAME(AT_CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
}

static void tensor_maps(void **state)
{
    (void)state;
    SAME(sizeof(attune_tensor_map), sizeof(CUtensorMap));
    /* NOTE: the driver asks for 64; the toolkit's own type has 128 since 13.0. */
    SAME(_Alignof(attune_tensor_map), 64);
    SAME(AT_CU_MAP_UINT8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
    SAME(AT_CU_MAP_INT32, CU_TENSOR_MAP_DATA_TYPE_INT32);
    SAME(AT_CU_MAP_FLOAT16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
    SAME(AT_CU_MAP_FLOAT32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
    SAME(AT_CU_MAP_BFLOAT16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
    SAME(AT_CU_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_INTERLEAVE_NONE);
    SAME(AT_CU_MAP_FILL_ZEROS, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    SAME(ATTUNE_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE);
    SAME(ATTUNE_SWIZZLE_32B, CU_TENSOR_MAP_SWIZZLE_32B);
    SAME(ATTUNE_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_64B);
    SAME(ATTUNE_SWIZZLE_128B, CU_TENSOR_MAP_SWIZZLE_128B);
    SAME(1, CU_TENSOR_MAP_L2_PROMOTION_L2_64B);
    SAME(2, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
    SAME(3, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
}

static void launches(void **state)
{
    (void)state;
    SAME(sizeof(at_cu_launch_config), sizeof(CUlaunchConfig));
    SAME(offsetof(at_cu_launch_config, grid), offsetof(CUlaunchConfig, gridDimX));
    SAME(offsetof(at_cu_launch_config, grid[2]), offsetof(CUlaunchConfig, gridDimZ));
    SAME(offsetof(at_cu_launch_config, block), offsetof(CUlaunchConfig, blockDimX));
    SAME_PLACE(at_cu_launch_config, smem_bytes, CUlaunchConfig, sharedMemBytes);
    SAME_PLACE(at_cu_launch_config, stream, CUlaunchConfig, hStream);
    SAME_PLACE(at_cu_launch_config, attributes, CUlaunchConfig, attrs);
    SAME_PLACE(at_cu_launch_config, attribute_count, CUlaunchConfig, numAttrs);
    SAME(sizeof(at_cu_launch_attribute), sizeof(CUlaunchAttribute));
    SAME_PLACE(at_cu_launch_attribute, id, CUlaunchAttribute, id);
    SAME_PLACE(at_cu_launch_attribute, value, CUlaunchAttribute, value);
    SAME_PLACE(at_cu_launch_attribute, value.cluster, CUlaunchAttribute, value.clusterDim);
    SAME_PLACE(at_cu_launch_attribute, value.programmatic, CUlaunchAttribute,
               value.programmaticStreamSerializationAllowed);
    SAME(AT_CU_LAUNCH_CLUSTER, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    SAME(AT_CU_LAUNCH_PROGRAMMATIC, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
}

static void mapped_memory(void **state)
{
    (void)state;
    SAME(AT_CU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
    SAME(AT_CU_MEM_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
    SAME(AT_CU_MEM_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
    SAME(AT_CU_MEM_GRANULARITY_LEAST, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    SAME(AT_CU_MEM_READ, CU_MEM_ACCESS_FLAGS_PROT_READ);
    SAME(AT_CU_MEM_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    SAME(sizeof(at_cu_mem_kind), sizeof(CUmemAllocationProp));
    SAME_PLACE(at_cu_mem_kind, type, CUmemAllocationProp, type);
    SAME_PLACE(at_cu_mem_kind, handles, CUmemAllocationProp, requestedHandleTypes);
    SAME_PLACE(at_cu_mem_kind, location, CUmemAllocationProp, location);
    SAME_PLACE(at_cu_mem_kind, flags, CUmemAllocationProp, allocFlags);
    SAME_PLACE(at_cu_mem_kind, location.id, CUmemAllocationProp, location.id);
    SAME(sizeof(at_cu_mem_access), sizeof(CUmemAccessDesc));
    SAME_PLACE(at_cu_mem_access, location, CUmemAccessDesc, location);
    SAME_PLACE(at_cu_mem_access, flags, CUmemAccessDesc, flags);
}

/* Differ on purpose, in the name of a struct or in const. */
static bool is_apart(const char *name)
{
    static const char *const apart[] = {"cuLaunchKernelEx",
                                        "cuTensorMapEncodeTiled",
                                        "cuCtxGetDevice",
                                        "cuTensorMapReplaceAddress",
                                        "cublasGemmStridedBatchedEx_64",
                                        "cuMemGetAllocationGranularity",
                                        "cuMemCreate",
                                        "cuMemSetAccess"};
    bool found = false;
    for (size_t i = 0; i < sizeof apart / sizeof apart[0]; ++i) {
        found |= strcmp(name, apart[i]) == 0;
    }
    return found;
}

/* Prototypes are compared as types. */
static void prototypes(void **state)
{
    int differing = 0;
    (void)state;
#define ITEM(name, since, parameters)                                                                                  \
    if (!__builtin_types_compatible_p(at_cu_result(*) parameters, __typeof__(&name))) {                                \
        print_message("differs: %s\n", #name);                                                                         \
        differing += !is_apart(#name);                                                                                 \
    }
    AT_DRIVER_ITEMS(ITEM)
#undef ITEM
#define ITEM(name, result, parameters)                                                                                 \
    if (!__builtin_types_compatible_p(result(*) parameters, __typeof__(&name))) {                                      \
        print_message("differs: %s\n", #name);                                                                         \
        differing += !is_apart(#name);                                                                                 \
    }
    AT_NVRTC_ITEMS(ITEM)
    AT_CUBLAS_ITEMS(ITEM)
#undef ITEM
    assert_int_equal(differing, 0);
}

static void compilers_and_cublas(void **state)
{
    (void)state;
    SAME(AT_NVRTC_SUCCESS, NVRTC_SUCCESS);
    SAME(AT_NVRTC_OUT_OF_MEMORY, NVRTC_ERROR_OUT_OF_MEMORY);
    SAME(AT_NVRTC_INVALID_OPTION, NVRTC_ERROR_INVALID_OPTION);
    SAME(AT_NVRTC_COMPILATION, NVRTC_ERROR_COMPILATION);
    SAME(AT_CUBLAS_SUCCESS, CUBLAS_STATUS_SUCCESS);
    SAME(AT_CUBLAS_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
    SAME(AT_CUBLAS_OP_N, CUBLAS_OP_N);
    SAME(AT_CUBLAS_OP_T, CUBLAS_OP_T);
    SAME(AT_CUBLAS_FP32, CUDA_R_32F);
    SAME(AT_CUBLAS_FP16, CUDA_R_16F);
    SAME(AT_CUBLAS_BF16, CUDA_R_16BF);
    SAME(AT_CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F);
    SAME(AT_CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_COMPUTE_32F_PEDANTIC);
    SAME(AT_CUBLAS_DEFAULT, CUBLAS_GEMM_DEFAULT);
    SAME(sizeof(cublasComputeType_t), sizeof(unsigned int));
    SAME(sizeof(cudaDataType), sizeof(unsigned int));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(driver_values),        cmocka_unit_test(driver_attributes), cmocka_unit_test(tensor_maps),
        cmocka_unit_test(mapped_memory),        cmocka_unit_test(launches),          cmocka_unit_test(prototypes),
        cmocka_unit_test(compilers_and_cublas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

/* The sizes that NVIDIA documents hold without its headers, too. */
static void sizes(void **state)
{
    (void)state;
    assert_int_equal(sizeof(at_cu_launch_attribute), 72);
    assert_int_equal(sizeof(at_cu_launch_config), 56);
    assert_int_equal(sizeof(attune_tensor_map), 128);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
