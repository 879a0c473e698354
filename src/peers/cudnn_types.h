/* What attune uses of cuDNN's C graph API, declared here and not included: attune builds where cuDNN is not. Values are
 * those of every cuDNN 9; tests compare them with the headers where those exist. */
#ifndef PEERS_CUDNN_TYPES_H
#define PEERS_CUDNN_TYPES_H

#include <stddef.h>
#include <stdint.h>

typedef struct cudnnContext *at_cudnn_handle;
typedef void *at_cudnn_descriptor;

enum { AT_CUDNN_SUCCESS = 0 };

/* Kinds of descriptors. */
enum {
    AT_CUDNN_POINTWISE = 0,
    AT_CUDNN_ENGINE = 2,
    AT_CUDNN_ENGINECFG = 3,
    AT_CUDNN_ENGINEHEUR = 4,
    AT_CUDNN_EXECUTION_PLAN = 5,
    AT_CUDNN_OPERATION_POINTWISE = 13,
    AT_CUDNN_OPERATIONGRAPH = 15,
    AT_CUDNN_VARIANT_PACK = 16,
    AT_CUDNN_TENSOR = 17,
    AT_CUDNN_MATMUL = 18,
    AT_CUDNN_OPERATION_MATMUL = 19,
    AT_CUDNN_REDUCTION = 21,
    AT_CUDNN_OPERATION_REDUCTION = 22,
};

/* Their attributes. */
enum {
    AT_CUDNN_POINTWISE_MODE = 0,
    AT_CUDNN_POINTWISE_PRECISION = 1,
    AT_CUDNN_POINTWISE_AXIS = 9,
    AT_CUDNN_HEUR_MODE = 200,
    AT_CUDNN_HEUR_GRAPH = 201,
    AT_CUDNN_HEUR_RESULTS = 202,
    AT_CUDNN_CONFIG_ENGINE = 300,
    AT_CUDNN_PLAN_HANDLE = 400,
    AT_CUDNN_PLAN_CONFIG = 401,
    AT_CUDNN_PLAN_WORKSPACE = 402,
    AT_CUDNN_OP_POINTWISE_DESC = 750,
    AT_CUDNN_OP_POINTWISE_X = 751,
    AT_CUDNN_OP_POINTWISE_B = 752,
    AT_CUDNN_OP_POINTWISE_Y = 753,
    AT_CUDNN_OP_POINTWISE_ALPHA1 = 754,
    AT_CUDNN_OP_POINTWISE_ALPHA2 = 755,
    AT_CUDNN_OP_POINTWISE_T = 758,
    AT_CUDNN_GRAPH_HANDLE = 800,
    AT_CUDNN_GRAPH_OPS = 801,
    AT_CUDNN_TENSOR_ALIGNMENT = 900,
    AT_CUDNN_TENSOR_DTYPE = 901,
    AT_CUDNN_TENSOR_DIMS = 902,
    AT_CUDNN_TENSOR_STRIDES = 903,
    AT_CUDNN_TENSOR_ID = 906,
    AT_CUDNN_TENSOR_VIRTUAL = 907,
    AT_CUDNN_TENSOR_BY_VALUE = 908,
    AT_CUDNN_PACK_IDS = 1000,
    AT_CUDNN_PACK_POINTERS = 1001,
    AT_CUDNN_PACK_WORKSPACE = 1003,
    AT_CUDNN_ENGINE_INDEX = 1301,
    AT_CUDNN_MATMUL_TYPE = 1500,
    AT_CUDNN_OP_MATMUL_A = 1520,
    AT_CUDNN_OP_MATMUL_B = 1521,
    AT_CUDNN_OP_MATMUL_C = 1522,
    AT_CUDNN_OP_MATMUL_DESC = 1523,
    AT_CUDNN_REDUCTION_OPERATOR = 1600,
    AT_CUDNN_REDUCTION_TYPE = 1601,
    AT_CUDNN_OP_REDUCTION_X = 1610,
    AT_CUDNN_OP_REDUCTION_Y = 1611,
    AT_CUDNN_OP_REDUCTION_DESC = 1612,
};

/* Types of attributes. */
enum {
    AT_CUDNN_TYPE_HANDLE = 0,
    AT_CUDNN_TYPE_DATA_TYPE = 1,
    AT_CUDNN_TYPE_BOOLEAN = 2,
    AT_CUDNN_TYPE_INT64 = 3,
    AT_CUDNN_TYPE_FLOAT = 4,
    AT_CUDNN_TYPE_POINTER = 6,
    AT_CUDNN_TYPE_HEUR_MODE = 8,
    AT_CUDNN_TYPE_POINTWISE_MODE = 14,
    AT_CUDNN_TYPE_DESCRIPTOR = 15,
    AT_CUDNN_TYPE_REDUCTION = 18,
};

/* Data types. */
enum {
    AT_CUDNN_FLOAT = 0,
    AT_CUDNN_HALF = 2,
    AT_CUDNN_INT32 = 4,
    AT_CUDNN_BFLOAT16 = 9,
    AT_CUDNN_BOOLEAN = 11,
};

/* Pointwise and reduction operators, heuristics. */
enum {
    AT_CUDNN_ADD = 0,
    AT_CUDNN_MUL = 1,
    AT_CUDNN_DIV = 6,
    AT_CUDNN_SUB = 9,
    AT_CUDNN_EXP = 13,
    AT_CUDNN_LOG = 15,
    AT_CUDNN_CMP_GE = 303,
    AT_CUDNN_GEN_INDEX = 501,
    AT_CUDNN_SELECT = 601,
};
enum { AT_CUDNN_REDUCE_ADD = 0, AT_CUDNN_REDUCE_MAX = 3 };
enum { AT_CUDNN_HEUR_FALLBACK = 2, AT_CUDNN_HEUR_A = 3 };

/* Name, result, parameters. Enumerations and statuses are passed as unsigned int, as GCC's and Clang's enums of values
 * that are never negative are. */
#define AT_CUDNN_ITEMS(ITEM)                                                                                           \
    ITEM(cudnnGetVersion, size_t, (void))                                                                              \
    ITEM(cudnnGetErrorString, const char *, (unsigned int))                                                            \
    ITEM(cudnnGetLastErrorString, void, (char *, size_t))                                                              \
    ITEM(cudnnCreate, unsigned int, (at_cudnn_handle *))                                                               \
    ITEM(cudnnDestroy, unsigned int, (at_cudnn_handle))                                                                \
    ITEM(cudnnSetStream, unsigned int, (at_cudnn_handle, void *))                                                      \
    ITEM(cudnnBackendCreateDescriptor, unsigned int, (unsigned int, at_cudnn_descriptor *))                            \
    ITEM(cudnnBackendDestroyDescriptor, unsigned int, (at_cudnn_descriptor))                                           \
    ITEM(cudnnBackendSetAttribute, unsigned int,                                                                       \
         (at_cudnn_descriptor, unsigned int, unsigned int, int64_t, const void *))                                     \
    ITEM(cudnnBackendGetAttribute, unsigned int,                                                                       \
         (at_cudnn_descriptor, unsigned int, unsigned int, int64_t, int64_t *, void *))                                \
    ITEM(cudnnBackendFinalize, unsigned int, (at_cudnn_descriptor))                                                    \
    ITEM(cudnnBackendExecute, unsigned int, (at_cudnn_handle, at_cudnn_descriptor, at_cudnn_descriptor))

#endif
