/* attune/args.h: the one argument every kernel takes, declared once for C, C++ and device code.
 *
 * A kernel of any target receives a pointer to (CPU) or a copy of (CUDA, as a __grid_constant__ parameter) an
 * attune_args. The struct is plain old data, begins with its size and ends with the tensors indexed by role, so that
 * later versions append roles without moving anything. This header includes nothing under a run-time compiler.
 */
#ifndef ATTUNE_ARGS_H
#define ATTUNE_ARGS_H

#if defined(__CUDACC_RTC__)
typedef long long attune_i64;
typedef unsigned long long attune_u64;
typedef int attune_i32;
typedef unsigned int attune_u32;
#else
#include <stdint.h>
typedef int64_t attune_i64;
typedef uint64_t attune_u64;
typedef int32_t attune_i32;
typedef uint32_t attune_u32;
#endif

/* Raised whenever the layout of attune_args or of a descriptor, or the meaning of one of their fields, changes. */
#define ATTUNE_ABI 2u

#define ATTUNE_PARAMS_MAX 16 /* parameters of one kernel */
#define ATTUNE_MAPS_MAX 4    /* tensor maps of one launch */

/* Storage types. Sums are carried in fp32 whatever the storage type. */
typedef enum attune_dtype {
    ATTUNE_FP32 = 0,
    ATTUNE_FP16 = 1, /* IEEE 754 binary16 */
    ATTUNE_BF16 = 2, /* the upper half of an fp32 */
    ATTUNE_INT32 = 3,
    ATTUNE_BOOL = 4, /* one byte, zero or not */
    ATTUNE_DTYPE_COUNT = 5
} attune_dtype;

/* What a tensor is to the computation. The same names stand in files, evidence and Python. Sizes are those of the
 * problem; "broadcast" means that a stride of zero is allowed. */
typedef enum attune_role {
    ATTUNE_Q = 0,      /* [batch, heads_q, seqlen_q, head_dim_qk]; varlen: [total_q, heads_q, head_dim_qk] */
    ATTUNE_K = 1,      /* [batch, heads_kv, seqlen_kv, head_dim_qk]; varlen: [total_kv, heads_kv, head_dim_qk] */
    ATTUNE_V = 2,      /* [batch, heads_kv, seqlen_kv, head_dim_v]; varlen: [total_kv, heads_kv, head_dim_v] */
    ATTUNE_O = 3,      /* [batch, heads_q, seqlen_q, head_dim_v]; varlen: [total_q, heads_q, head_dim_v] */
    ATTUNE_LSE = 4,    /* fp32 [batch, heads_q, seqlen_q]; varlen: [heads_q, total_q]; optional output */
    ATTUNE_BIAS = 5,   /* problem's dtype, [1|batch, 1|heads_q, seqlen_q, seqlen_kv], broadcast, last dim contiguous */
    ATTUNE_MASK = 6,   /* bool [batch, heads_q, seqlen_q, seqlen_kv], broadcast in all but the last; nonzero = seen */
    ATTUNE_SINK = 7,   /* fp32 [heads_q] */
    ATTUNE_SLOPES = 8, /* fp32 [heads_q], ALiBi */
    ATTUNE_CU_Q = 9,   /* int32 [batch + 1], first row of each packed sequence; contiguous */
    ATTUNE_CU_KV = 10, /* int32 [batch + 1] */
    ATTUNE_USED_KV = 11, /* int32 [batch], valid key/value rows of each sequence */
    ATTUNE_ROLE_COUNT = 12,
    /* Reserved for later versions, which append them to attune_args.tensor: */
    ATTUNE_DO = 12,
    ATTUNE_DQ = 13,
    ATTUNE_DK = 14,
    ATTUNE_DV = 15,
    ATTUNE_SCALE_Q = 16,
    ATTUNE_SCALE_K = 17,
    ATTUNE_SCALE_V = 18,
    ATTUNE_SCALE_O = 19,
    ATTUNE_PAGE_TABLE = 20
} attune_role;

/* What a dimension's stride is called in attune_tensor.stride. */
enum { ATTUNE_STRIDE_BATCH = 0, ATTUNE_STRIDE_HEAD = 1, ATTUNE_STRIDE_SEQ = 2 };

/* A view of memory that someone else owns. Strides count elements; the last dimension (head_dim; seqlen_kv for BIAS
 * and MASK) is contiguous. LSE, SINK and SLOPES use the strides of the dimensions they have. */
typedef struct attune_tensor {
    void *data;
    attune_i64 stride[3]; /* batch (unused in varlen for Q, K, V, O, LSE), head, sequence (LSE: its row) */
    attune_i32 dtype;     /* attune_dtype */
    attune_i32 reserved;  /* 0 */
} attune_tensor;

/* Room for a CUtensorMap: opaque, written by the CUDA target. */
#if defined(__cplusplus) || defined(__CUDACC_RTC__)
typedef struct alignas(64) attune_tensor_map {
    attune_u64 opaque[16];
} attune_tensor_map;
#else
typedef struct attune_tensor_map {
    _Alignas(64) attune_u64 opaque[16];
} attune_tensor_map;
#endif

/* Bits of attune_args.features. They repeat the problem's static part for kernels built once for every problem. */
enum {
    ATTUNE_FEATURE_CAUSAL = 1 << 0,
    ATTUNE_FEATURE_WINDOW = 1 << 1,
    ATTUNE_FEATURE_SOFTCAP = 1 << 2,
    ATTUNE_FEATURE_BIAS = 1 << 3,
    ATTUNE_FEATURE_MASK = 1 << 4,
    ATTUNE_FEATURE_ALIBI = 1 << 5,
    ATTUNE_FEATURE_SINK = 1 << 6,
    ATTUNE_FEATURE_SEQUSED = 1 << 7,
    ATTUNE_FEATURE_VARLEN = 1 << 8,
    ATTUNE_FEATURE_STRICT = 1 << 9
};

/* Where query row i stands among the keys: position i + offset. */
typedef enum attune_offset {
    ATTUNE_OFFSET_BOTTOM_RIGHT = 0, /* (seqused_kv[b], else the sequence's seqlen_kv) - its seqlen_q */
    ATTUNE_OFFSET_TOP_LEFT = 1,     /* 0 */
    ATTUNE_OFFSET_NUMBER = 2        /* the offset field */
} attune_offset;

typedef struct attune_args {
    attune_u32 size; /* sizeof(attune_args) of the caller's version */
    attune_u32 abi;  /* ATTUNE_ABI */
    attune_u32 features;
    attune_i32 dtype;   /* attune_dtype of Q, K, V and O */
    attune_i64 batch;   /* the actual sizes of this call */
    attune_i64 heads_q; /* a multiple of heads_kv */
    attune_i64 heads_kv;
    attune_i64 seqlen_q;  /* varlen: the longest allowed, which kernels clamp each sequence to */
    attune_i64 seqlen_kv; /* likewise */
    attune_i64 total_q;   /* rows of Q; batch * seqlen_q unless varlen */
    attune_i64 total_kv;  /* rows of K and V */
    attune_i32 head_dim_qk;
    attune_i32 head_dim_v;
    float scale;            /* multiplies Q K^T; never the "default" zero */
    float softcap;          /* > 0, or 0 for none */
    attune_i64 window_left; /* keys further left than this are hidden; -1 unbounded */
    attune_i64 window_right;
    attune_i64 offset;      /* used with ATTUNE_OFFSET_NUMBER */
    attune_i32 offset_kind; /* attune_offset */
    attune_i32 reserved;    /* 0 */
    void *workspace;        /* at least what the plan asked for, 256-byte aligned; contents arbitrary */
    attune_u64 workspace_bytes;
    attune_i32 param[ATTUNE_PARAMS_MAX]; /* the config, in the descriptor's order, for kernels built once for all */
    attune_tensor_map map[ATTUNE_MAPS_MAX];
    attune_tensor tensor[ATTUNE_ROLE_COUNT]; /* absent roles have data NULL; last, so that roles can be appended */
} attune_args;

#endif
