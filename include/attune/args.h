/* attune/args.h: the one argument every kernel takes, declared once for C, C++ and device code.
 *
 * A kernel of any target receives a pointer to (CPU) or a copy of (CUDA, as a __grid_constant__ parameter) an
 * attune_args. The struct is plain old data and begins with its size. Its header is fixed; behind it are the tensor
 * maps and then the tensors, indexed by role, as many of both as the kernel is compiled for: a CUDA source gets
 * ATTUNE_ARGS_MAPS and ATTUNE_ARGS_ROLES by its steps and its capabilities, so that a role appended here changes
 * nothing of kernels that do not use it. This header includes nothing under a run-time compiler.
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
#define ATTUNE_ABI 3u

#define ATTUNE_PARAMS_MAX 16 /* parameters of one kernel */
#define ATTUNE_MAPS_MAX 12   /* tensor maps of one launch */

/* Storage types. Sums are carried in fp32 whatever the storage type. */
typedef enum attune_dtype {
    ATTUNE_FP32 = 0,
    ATTUNE_FP16 = 1, /* IEEE 754 binary16 */
    ATTUNE_BF16 = 2, /* the upper half of an fp32 */
    ATTUNE_INT32 = 3,
    ATTUNE_BOOL = 4, /* one byte, zero or not */
    ATTUNE_DTYPE_COUNT = 5
} attune_dtype;

/* What a tensor is to the computation. The same names are in files, evidence and Python. Sizes are those of the
 * problem; "broadcast" means that a stride of zero is allowed. */
typedef enum attune_role {
    ATTUNE_Q = 0, /* [batch, heads_q, seqlen_q, head_dim_qk]; varlen: [total_q, heads_q, head_dim_qk] */
    ATTUNE_K = 1, /* [batch, heads_kv, seqlen_kv, head_dim_qk]; varlen: [total_kv, heads_kv, head_dim_qk]; with pages,
                     varlen or not: a pool [page_count, heads_kv, page_size, head_dim_qk] */
    ATTUNE_V = 2, /* [batch, heads_kv, seqlen_kv, head_dim_v]; varlen: [total_kv, heads_kv, head_dim_v]; a pool alike */
    ATTUNE_O = 3, /* [batch, heads_q, seqlen_q, head_dim_v]; varlen: [total_q, heads_q, head_dim_v] */
    ATTUNE_LSE = 4, /* fp32 [batch, heads_q, seqlen_q]; varlen: [heads_q, total_q]; optional output */
    ATTUNE_BIAS =
        5, /* the problem's dtype for it, [1|batch, 1|heads_q, seqlen_q, seqlen_kv], broadcast, last dim contiguous */
    ATTUNE_MASK = 6,     /* bool [batch, heads_q, seqlen_q, seqlen_kv], broadcast in all but the last; nonzero = seen */
    ATTUNE_SINK = 7,     /* fp32 [heads_q] */
    ATTUNE_SLOPES = 8,   /* fp32 [heads_q], ALiBi */
    ATTUNE_CU_Q = 9,     /* int32 [batch + 1], first row of each packed sequence; contiguous */
    ATTUNE_CU_KV = 10,   /* int32 [batch + 1] */
    ATTUNE_USED_KV = 11, /* int32 [batch], valid key/value rows of each sequence */
    /* Gradients, of an operation to come; no problem of this version has one: */
    ATTUNE_DO = 12, /* as O */
    ATTUNE_DQ = 13, /* as Q */
    ATTUNE_DK = 14, /* as K */
    ATTUNE_DV = 15, /* as V */
    ATTUNE_DBIAS = 16,
    ATTUNE_DSINK = 17, /* fp32 [heads_q] */
    ATTUNE_DLSE = 18,  /* as LSE */
    /* Caches: */
    ATTUNE_PAGE_TABLE_K = 19, /* int32 [batch, page_table_width], pages of K's pool; rows a batch stride apart */
    ATTUNE_PAGE_TABLE_V = 20, /* V's, where they have a table of their own */
    ATTUNE_NEW_K = 21,        /* [total_new, heads_kv, head_dim_qk], rows to append, in K's dtype */
    ATTUNE_NEW_V = 22,        /* [total_new, heads_kv, head_dim_v], in V's */
    ATTUNE_SLOTS = 23,        /* int32 [total_new], where they go; contiguous */
    ATTUNE_DRAFT_MASK = 24,   /* int32 [batch, seqlen_q]; varlen: [total_q]: a word a row, whose bit j says that the row
                                 sees row j of its sequence */
    /* Scales of 8-bit tensors, fp32; of features to come: */
    ATTUNE_SCALE_Q = 25,
    ATTUNE_SCALE_K = 26,
    ATTUNE_SCALE_V = 27,
    ATTUNE_SCALE_O = 28,
    /* Partial results to be merged by their LSE, any number of them, state_stride_* elements apart: */
    ATTUNE_STATE_O = 29,   /* as O, in the problem's dtype */
    ATTUNE_STATE_LSE = 30, /* as LSE */
    ATTUNE_ROLE_COUNT = 31
} attune_role;

#define ATTUNE_ROLES_FORWARD 12 /* the first so many are those of the forward pass */

/* What attune_args has behind its header. The host's defaults hold every role, and as many maps as kernels of old. */
#ifndef ATTUNE_ARGS_MAPS
#define ATTUNE_ARGS_MAPS 4
#endif
#ifndef ATTUNE_ARGS_ROLES
#define ATTUNE_ARGS_ROLES ATTUNE_ROLE_COUNT
#endif

/* What a dimension's stride is called in attune_tensor.stride. */
enum { ATTUNE_STRIDE_BATCH = 0, ATTUNE_STRIDE_HEAD = 1, ATTUNE_STRIDE_SEQ = 2 };

/* A view of memory that someone else owns. Strides count elements; the last dimension (head_dim; seqlen_kv for BIAS
 * and MASK) is contiguous. LSE, SINK and SLOPES use the strides of the dimensions they have. */
typedef struct attune_tensor {
    void *data;
    attune_i64 stride[3]; /* batch (unused in varlen for Q, K, V, O, LSE), head, sequence (LSE: its row) */
    attune_i32 dtype;     /* attune_dtype */
    attune_i32 settled;   /* 0; 1: nothing that may still be running writes it (attune_call says what that promises) */
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
    ATTUNE_FEATURE_STRICT = 1 << 9,
    ATTUNE_FEATURE_PAGED = 1 << 10,   /* K and V are pools */
    ATTUNE_FEATURE_PAGED_V = 1 << 11, /* V has PAGE_TABLE_V; else PAGE_TABLE_K is for both */
    ATTUNE_FEATURE_DRAFT = 1 << 12,
    ATTUNE_FEATURE_SLOTS = 1 << 13, /* append: places are SLOTS; else they follow from USED_KV */
    ATTUNE_FEATURE_TF32 = 1 << 14   /* a permission, which every kernel may leave unused: none declares it */
};

/* Where query row i is among the keys: position i + offset. */
typedef enum attune_offset {
    ATTUNE_OFFSET_BOTTOM_RIGHT = 0, /* (seqused_kv[b], else the sequence's seqlen_kv) - its seqlen_q */
    ATTUNE_OFFSET_TOP_LEFT = 1,     /* 0 */
    ATTUNE_OFFSET_NUMBER = 2        /* the offset field */
} attune_offset;

typedef struct attune_args {
    attune_u32 size; /* sizeof(attune_args) of the caller's version */
    attune_u32 abi;  /* ATTUNE_ABI */
    attune_u32 features;
    attune_i32 dtype;   /* attune_dtype of Q; tensor[] has every role's */
    attune_i64 batch;   /* the actual sizes of this call */
    attune_i64 heads_q; /* a multiple of heads_kv */
    attune_i64 heads_kv;
    attune_i64 seqlen_q;  /* varlen: the longest allowed, which kernels clamp each sequence to */
    attune_i64 seqlen_kv; /* likewise */
    attune_i64 total_q;   /* rows of Q; batch * seqlen_q unless varlen; append: total_new */
    attune_i64 total_kv;  /* rows of K and V */
    attune_i32 head_dim_qk;
    attune_i32 head_dim_v;
    float scale;            /* multiplies Q K^T; never the "default" zero */
    float softcap;          /* > 0, or 0 for none */
    attune_i64 window_left; /* keys further left than this are hidden; -1 unbounded */
    attune_i64 window_right;
    attune_i64 offset;      /* used with ATTUNE_OFFSET_NUMBER */
    attune_i32 offset_kind; /* attune_offset */
    attune_i32 step;        /* index of this step among the kernel's */
    void *workspace;        /* at least what the plan asked for, 256-byte aligned; contents arbitrary */
    attune_u64 workspace_bytes;
    attune_i32 param[ATTUNE_PARAMS_MAX]; /* the config, in the descriptor's order, for kernels built once for all */
    /* 0 where the problem has none: */
    attune_i32 page_size;        /* rows of a page */
    attune_i32 page_table_width; /* columns of the page tables; at least ceil(seqlen_kv / page_size) */
    attune_i32 states;           /* states to merge */
    attune_i32 reserved32;
    attune_i64 page_count;     /* pages of a pool */
    attune_i64 total_new;      /* rows of NEW_K and NEW_V */
    attune_i64 state_stride_o; /* elements from one state to the next */
    attune_i64 state_stride_lse;
    attune_i64 reserved64;
    attune_tensor_map map[ATTUNE_ARGS_MAPS];
    attune_tensor tensor[ATTUNE_ARGS_ROLES]; /* absent roles have data NULL */
} attune_args;

#endif
