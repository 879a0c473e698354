/* Our own declarations of what is used of the driver, NVRTC and cuBLAS, so that attune builds without the toolkit.
 * tests/cuda/test_types.c compares them with the toolkit's headers where those exist. Values and layouts are NVIDIA's
 * binary interface; handles keep NVIDIA's tags so that the compiler can tell them apart. */
#ifndef CUDA_TYPES_H
#define CUDA_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "attune/args.h"

/* ---- Driver -------------------------------------------------------------------------------------------------------
 */

typedef unsigned int at_cu_result; /* CUresult */
typedef int at_cu_device;
typedef unsigned long long at_cu_pointer;
typedef struct CUctx_st *at_cu_context;
typedef struct CUmod_st *at_cu_module;
typedef struct CUlinkState_st *at_cu_link;
typedef struct CUfunc_st *at_cu_function;
typedef struct CUstream_st *at_cu_stream;
typedef struct CUevent_st *at_cu_event;
typedef struct CUgraph_st *at_cu_graph;
typedef struct CUgraphExec_st *at_cu_graph_exec;
typedef struct CUgraphNode_st *at_cu_graph_node;

enum {
    AT_CU_SUCCESS = 0,
    AT_CU_INVALID_VALUE = 1,
    AT_CU_OUT_OF_MEMORY = 2,
    AT_CU_STUB_LIBRARY = 34,
    AT_CU_NO_DEVICE = 100,
    AT_CU_INVALID_IMAGE = 200,
    AT_CU_INVALID_CONTEXT = 201,
    AT_CU_NO_BINARY_FOR_GPU = 209,
    AT_CU_ECC_UNCORRECTABLE = 214,
    AT_CU_NVLINK_UNCORRECTABLE = 220,
    AT_CU_CONTAINED = 226,
    AT_CU_INVALID_HANDLE = 400,
    AT_CU_NOT_FOUND = 500,
    AT_CU_NOT_READY = 600,
    AT_CU_ILLEGAL_ADDRESS = 700,
    AT_CU_LAUNCH_OUT_OF_RESOURCES = 701,
    AT_CU_LAUNCH_TIMEOUT = 702,
    AT_CU_ASSERT = 710,
    AT_CU_HARDWARE_STACK_ERROR = 714,
    AT_CU_LAUNCH_FAILED = 719,
    AT_CU_NOT_SUPPORTED = 801
};

enum {
    AT_CU_ATTRIBUTE_SMEM_BLOCK = 8,
    AT_CU_ATTRIBUTE_SM_COUNT = 16,
    AT_CU_ATTRIBUTE_L2_BYTES = 38,
    AT_CU_ATTRIBUTE_THREADS_SM = 39,
    AT_CU_ATTRIBUTE_MAJOR = 75,
    AT_CU_ATTRIBUTE_MINOR = 76,
    AT_CU_ATTRIBUTE_SMEM_SM = 81,
    AT_CU_ATTRIBUTE_REGS_SM = 82,
    AT_CU_ATTRIBUTE_SMEM_OPTIN = 97
};

enum {
    AT_CU_FUNC_MAX_THREADS = 0,
    AT_CU_FUNC_SMEM_DYNAMIC_MAX = 8,
    AT_CU_FUNC_CLUSTER_NON_PORTABLE = 14,
};

enum { AT_CU_POINTER_MEMORY_TYPE = 2, AT_CU_POINTER_IS_MANAGED = 8, AT_CU_POINTER_DEVICE = 9 };
enum { AT_CU_MEMORY_HOST = 1, AT_CU_MEMORY_DEVICE = 2 };
enum { AT_CU_STREAM_NON_BLOCKING = 1, AT_CU_CAPTURE_THREAD_LOCAL = 1 };
enum { AT_CU_JIT_PTX = 1, AT_CU_JIT_ERROR_BUFFER = 5, AT_CU_JIT_ERROR_BYTES = 6 };
enum { AT_CU_STREAM_LEGACY = 1, AT_CU_STREAM_PER_THREAD = 2 }; /* names of streams, in place of handles */
enum { AT_CU_PROC_LEGACY_STREAM = 1 }; /* a NULL stream is the legacy default stream, as in the documentation */

/* Tensor maps. */
enum { AT_CU_MAP_UINT8 = 0, AT_CU_MAP_INT32 = 3, AT_CU_MAP_FLOAT16 = 6, AT_CU_MAP_FLOAT32 = 7, AT_CU_MAP_BFLOAT16 = 9 };
enum { AT_CU_MAP_INTERLEAVE_NONE = 0, AT_CU_MAP_FILL_ZEROS = 0 };

/* Launches. */
enum { AT_CU_LAUNCH_CLUSTER = 4, AT_CU_LAUNCH_PROGRAMMATIC = 6 };

typedef struct at_cu_launch_attribute {
    int id;
    char pad[4];
    union {
        char pad[64];
        struct {
            unsigned int x, y, z;
        } cluster;
        int programmatic;
    } value;
} at_cu_launch_attribute;

typedef struct at_cu_launch_config {
    unsigned int grid[3];
    unsigned int block[3];
    unsigned int smem_bytes;
    at_cu_stream stream;
    at_cu_launch_attribute *attributes;
    unsigned int attribute_count;
} at_cu_launch_config;

/* Memory that is mapped to addresses. */
enum { AT_CU_MEM_PINNED = 1, AT_CU_MEM_LOCATION_DEVICE = 1, AT_CU_MEM_GRANULARITY_LEAST = 0 };
enum { AT_CU_MEM_READ = 1, AT_CU_MEM_READ_WRITE = 3 };

typedef struct at_cu_mem_location {
    int type, id;
} at_cu_mem_location;

typedef struct at_cu_mem_kind {
    int type, handles;
    at_cu_mem_location location;
    void *reserved;
    unsigned char flags[8];
} at_cu_mem_kind;

typedef struct at_cu_mem_access {
    at_cu_mem_location location;
    int flags;
} at_cu_mem_access;

/* What is used of the driver: name, the version whose interface this is, parameters. All return a at_cu_result. */
#define AT_DRIVER_ITEMS(ITEM)                                                                                          \
    ITEM(cuGetErrorName, 6000, (at_cu_result, const char **))                                                          \
    ITEM(cuGetErrorString, 6000, (at_cu_result, const char **))                                                        \
    ITEM(cuDeviceGet, 2000, (at_cu_device *, int))                                                                     \
    ITEM(cuDeviceGetCount, 2000, (int *))                                                                              \
    ITEM(cuDeviceGetName, 2000, (char *, int, at_cu_device))                                                           \
    ITEM(cuDeviceGetAttribute, 2000, (int *, unsigned int, at_cu_device))                                              \
    ITEM(cuCtxGetCurrent, 4000, (at_cu_context *))                                                                     \
    ITEM(cuCtxGetDevice, 2000, (at_cu_device *))                                                                       \
    ITEM(cuCtxPushCurrent, 4000, (at_cu_context))                                                                      \
    ITEM(cuCtxPopCurrent, 4000, (at_cu_context *))                                                                     \
    ITEM(cuDevicePrimaryCtxRetain, 7000, (at_cu_context *, at_cu_device))                                              \
    ITEM(cuDevicePrimaryCtxRelease, 11000, (at_cu_device))                                                             \
    ITEM(cuModuleLoadData, 2000, (at_cu_module *, const void *))                                                       \
    ITEM(cuLinkCreate, 6050, (unsigned int, unsigned int *, void **, at_cu_link *))                                    \
    ITEM(cuLinkAddData, 6050,                                                                                          \
         (at_cu_link, unsigned int, void *, size_t, const char *, unsigned int, unsigned int *, void **))              \
    ITEM(cuLinkComplete, 5050, (at_cu_link, void **, size_t *))                                                        \
    ITEM(cuLinkDestroy, 5050, (at_cu_link))                                                                            \
    ITEM(cuModuleUnload, 2000, (at_cu_module))                                                                         \
    ITEM(cuModuleGetFunction, 2000, (at_cu_function *, at_cu_module, const char *))                                    \
    ITEM(cuFuncSetAttribute, 9000, (at_cu_function, unsigned int, int))                                                \
    ITEM(cuFuncGetAttribute, 2020, (int *, unsigned int, at_cu_function))                                              \
    ITEM(cuLaunchKernelEx, 11060, (const at_cu_launch_config *, at_cu_function, void **, void **))                     \
    ITEM(cuTensorMapEncodeTiled, 12000,                                                                                \
         (attune_tensor_map *, unsigned int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *,   \
          const uint32_t *, unsigned int, unsigned int, unsigned int, unsigned int))                                   \
    ITEM(cuTensorMapReplaceAddress, 12000, (attune_tensor_map *, void *))                                              \
    ITEM(cuMemsetD32Async, 3020, (at_cu_pointer, unsigned int, size_t, at_cu_stream))                                  \
    ITEM(cuMemAlloc, 3020, (at_cu_pointer *, size_t))                                                                  \
    ITEM(cuMemFree, 3020, (at_cu_pointer))                                                                             \
    ITEM(cuMemGetInfo, 3020, (size_t *, size_t *))                                                                     \
    ITEM(cuMemGetAllocationGranularity, 10020, (size_t *, const at_cu_mem_kind *, unsigned int))                       \
    ITEM(cuMemAddressReserve, 10020, (at_cu_pointer *, size_t, size_t, at_cu_pointer, unsigned long long))             \
    ITEM(cuMemAddressFree, 10020, (at_cu_pointer, size_t))                                                             \
    ITEM(cuMemCreate, 10020, (unsigned long long *, size_t, const at_cu_mem_kind *, unsigned long long))               \
    ITEM(cuMemRelease, 10020, (unsigned long long))                                                                    \
    ITEM(cuMemMap, 10020, (at_cu_pointer, size_t, size_t, unsigned long long, unsigned long long))                     \
    ITEM(cuMemUnmap, 10020, (at_cu_pointer, size_t))                                                                   \
    ITEM(cuMemSetAccess, 10020, (at_cu_pointer, size_t, const at_cu_mem_access *, size_t))                             \
    ITEM(cuMemcpyHtoDAsync, 3020, (at_cu_pointer, const void *, size_t, at_cu_stream))                                 \
    ITEM(cuMemcpyDtoHAsync, 3020, (void *, at_cu_pointer, size_t, at_cu_stream))                                       \
    ITEM(cuMemcpyDtoDAsync, 3020, (at_cu_pointer, at_cu_pointer, size_t, at_cu_stream))                                \
    ITEM(cuPointerGetAttribute, 4000, (void *, unsigned int, at_cu_pointer))                                           \
    ITEM(cuStreamCreate, 2000, (at_cu_stream *, unsigned int))                                                         \
    ITEM(cuStreamDestroy, 4000, (at_cu_stream))                                                                        \
    ITEM(cuStreamGetCtx, 9020, (at_cu_stream, at_cu_context *))                                                        \
    ITEM(cuStreamSynchronize, 2000, (at_cu_stream))                                                                    \
    ITEM(cuStreamBeginCapture, 10010, (at_cu_stream, unsigned int))                                                    \
    ITEM(cuStreamEndCapture, 10000, (at_cu_stream, at_cu_graph *))                                                     \
    ITEM(cuGraphInstantiateWithFlags, 11040, (at_cu_graph_exec *, at_cu_graph, unsigned long long))                    \
    ITEM(cuGraphGetNodes, 10000, (at_cu_graph, at_cu_graph_node *, size_t *))                                          \
    ITEM(cuGraphUpload, 11010, (at_cu_graph_exec, at_cu_stream))                                                       \
    ITEM(cuGraphLaunch, 10000, (at_cu_graph_exec, at_cu_stream))                                                       \
    ITEM(cuGraphDestroy, 10000, (at_cu_graph))                                                                         \
    ITEM(cuGraphExecDestroy, 10000, (at_cu_graph_exec))                                                                \
    ITEM(cuEventCreate, 2000, (at_cu_event *, unsigned int))                                                           \
    ITEM(cuEventDestroy, 4000, (at_cu_event))                                                                          \
    ITEM(cuEventRecord, 2000, (at_cu_event, at_cu_stream))                                                             \
    ITEM(cuEventSynchronize, 2000, (at_cu_event))                                                                      \
    ITEM(cuEventQuery, 2000, (at_cu_event))                                                                            \
    ITEM(cuCtxResetPersistingL2Cache, 11000, (void))                                                                   \
    ITEM(cuDeviceGetPCIBusId, 4010, (char *, int, at_cu_device))                                                       \
    ITEM(cuEventElapsedTime, 2000, (float *, at_cu_event, at_cu_event))

/* ---- NVRTC ----------------------------------------------------------------------------------------------------------
 */

typedef struct _nvrtcProgram *at_nvrtc_program;

enum { AT_NVRTC_SUCCESS = 0, AT_NVRTC_OUT_OF_MEMORY = 1, AT_NVRTC_INVALID_OPTION = 5, AT_NVRTC_COMPILATION = 6 };

#define AT_NVRTC_ITEMS(ITEM)                                                                                           \
    ITEM(nvrtcVersion, unsigned int, (int *, int *))                                                                   \
    ITEM(nvrtcGetErrorString, const char *, (unsigned int))                                                            \
    ITEM(nvrtcCreateProgram, unsigned int,                                                                             \
         (at_nvrtc_program *, const char *, const char *, int, const char *const *, const char *const *))              \
    ITEM(nvrtcDestroyProgram, unsigned int, (at_nvrtc_program *))                                                      \
    ITEM(nvrtcCompileProgram, unsigned int, (at_nvrtc_program, int, const char *const *))                              \
    ITEM(nvrtcGetCUBINSize, unsigned int, (at_nvrtc_program, size_t *))                                                \
    ITEM(nvrtcGetCUBIN, unsigned int, (at_nvrtc_program, char *))                                                      \
    ITEM(nvrtcGetPTXSize, unsigned int, (at_nvrtc_program, size_t *))                                                  \
    ITEM(nvrtcGetPTX, unsigned int, (at_nvrtc_program, char *))                                                        \
    ITEM(nvrtcGetProgramLogSize, unsigned int, (at_nvrtc_program, size_t *))                                           \
    ITEM(nvrtcGetProgramLog, unsigned int, (at_nvrtc_program, char *))

/* ---- cuBLAS ---------------------------------------------------------------------------------------------------------
 */

typedef struct cublasContext *at_cublas_handle;

enum { AT_CUBLAS_SUCCESS = 0, AT_CUBLAS_ALLOC_FAILED = 3, AT_CUBLAS_INVALID_VALUE = 7 };
enum { AT_CUBLAS_OP_N = 0, AT_CUBLAS_OP_T = 1 };
enum { AT_CUBLAS_FP32 = 0, AT_CUBLAS_FP16 = 2, AT_CUBLAS_BF16 = 14 }; /* cudaDataType */
enum { AT_CUBLAS_COMPUTE_32F = 68, AT_CUBLAS_COMPUTE_32F_PEDANTIC = 69, AT_CUBLAS_DEFAULT = -1 };

#define AT_CUBLAS_ITEMS(ITEM)                                                                                          \
    ITEM(cublasCreate_v2, unsigned int, (at_cublas_handle *))                                                          \
    ITEM(cublasDestroy_v2, unsigned int, (at_cublas_handle))                                                           \
    ITEM(cublasSetStream_v2, unsigned int, (at_cublas_handle, at_cu_stream))                                           \
    ITEM(cublasSetWorkspace_v2, unsigned int, (at_cublas_handle, void *, size_t))                                      \
    ITEM(cublasGetStatusString, const char *, (unsigned int))                                                          \
    ITEM(cublasGemmStridedBatchedEx_64, unsigned int,                                                                  \
         (at_cublas_handle, unsigned int, unsigned int, int64_t, int64_t, int64_t, const void *, const void *,         \
          unsigned int, int64_t, long long, const void *, unsigned int, int64_t, long long, const void *, void *,      \
          unsigned int, int64_t, long long, int64_t, unsigned int, int))

#endif
