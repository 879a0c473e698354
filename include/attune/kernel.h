/* attune/kernel.h: what a kernel's author includes. docs/kernels.md is the guide; this header is the contract.
 *
 * A kernel is a source (device code, or C for the CPU) and a descriptor: one const struct of data and pure functions of
 * (problem, target, config). A descriptor does nothing: it says what the kernel supports, what it needs and, as data,
 * which steps to take. attune owns every buffer, thread, stream and launch.
 */
#ifndef ATTUNE_KERNEL_H
#define ATTUNE_KERNEL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "attune/attune.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Target: where -------------------------------------------------------------------------------------------- */

/* Instruction sets a CPU source is built for, each including the ones before it. */
typedef enum attune_isa {
    ATTUNE_ISA_BASELINE = 0,    /* what every CPU of the architecture has */
    ATTUNE_ISA_AVX2 = 1,        /* AVX2, FMA, F16C */
    ATTUNE_ISA_AVX512 = 2,      /* AVX-512 F, BW, DQ, VL */
    ATTUNE_ISA_AVX512_BF16 = 3, /* dot products of bf16 pairs, accumulated in fp32 */
    ATTUNE_ISA_AMX = 4,         /* AMX TILE and BF16: the same in tiles of 16 x 16 */
    ATTUNE_ISA_COUNT = 5
} attune_isa;

typedef struct attune_target {
    size_t size;    /* sizeof(attune_target) */
    int32_t kind;   /* attune_target_kind */
    char model[64]; /* of the CPU or device, blanks as underscores: "AMD_EPYC_7B13", "NVIDIA_H200" */
    /* CPU */
    int32_t isa;                           /* attune_isa: the highest tier in use */
    int32_t threads;                       /* of the pool */
    int64_t l1d_bytes, l2_bytes, l3_bytes; /* of one core, one core, all; 0 where unknown */
    /* CUDA */
    int32_t device;        /* ordinal */
    int32_t arch;          /* 10 * major + minor: 80, 86, 89, 90, 100, 120 */
    int32_t arch_features; /* 1: the architecture-specific instructions ("90a") may be used */
    int32_t sm_count;
    int32_t smem_block_bytes; /* shared memory a block gets without asking: 49,152 */
    int32_t smem_optin_bytes; /* and at most: 232,448 on sm_90, 101,376 on sm_89 */
    int32_t smem_sm_bytes;    /* of one multiprocessor */
    int32_t regs_sm;          /* 32-bit registers of one multiprocessor */
    int32_t threads_sm;       /* resident threads of one multiprocessor */
    int64_t memory_l2_bytes;
    int32_t driver;   /* 1000 * major + 10 * minor */
    int32_t compiler; /* of the run-time compiler, likewise; 0 where there is none */
} attune_target;

/* ---- Problems ------------------------------------------------------------------------------------------------- */

/* Whether keys to the right of a query's position are hidden from it. */
static inline bool attune_is_causal(const attune_problem *problem)
{
    return problem->window_right == 0;
}

/* The attune_dtype of a role's tensor. */
static inline int32_t attune_dtype_of(const attune_problem *problem, attune_role role)
{
    return problem->role_dtype[role] > 0 ? problem->role_dtype[role] - 1 : problem->dtype;
}

/* Whether there is a window beyond that: keys far to the left are hidden, or some to the right are not. */
static inline bool attune_is_windowed(const attune_problem *problem)
{
    return problem->window_left >= 0 || problem->window_right > 0;
}

/* ---- Parameters and configs ----------------------------------------------------------------------------------- */

/* One tunable. Reaches device sources as a macro of its name, CPU sources as attune_args.param[its index]. */
typedef struct attune_param {
    const char *name;      /* upper case: "BLOCK_M" */
    const int32_t *values; /* allowed values, ascending */
    int32_t count;
    int32_t reserved;
} attune_param;

/* A parameter that a kernel had once, and the one value of it that evidence and wisdom name: a config's text may still
 * name it with that value. */
typedef struct attune_retired {
    const char *name;
    int32_t value;
} attune_retired;

/* A value for each parameter, in the descriptor's order. Unused places are 0. */
typedef struct attune_config {
    int32_t value[ATTUNE_PARAMS_MAX];
} attune_config;

/* Why not. A reason names the field, its value and the limit: "head_dim_qk 72: a multiple of 16 is needed". */
typedef struct attune_reason {
    char text[240];
} attune_reason;

/* Writes a reason (NULL is fine) and returns false, so that a check reads `return attune_refuse(reason, ...)`. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static inline bool
attune_refuse(attune_reason *reason, const char *format, ...)
{
    va_list list;
    if (reason != NULL) {
        va_start(list, format);
        (void)vsnprintf(reason->text, sizeof reason->text, format, list);
        va_end(list);
    }
    return false;
}

/* ---- Steps: what to do, as data --------------------------------------------------------------------------------- */

/* Quantities a term may refer to. They are the actual sizes of a call, known only at execute. */
typedef enum attune_size {
    ATTUNE_SIZE_BATCH = 0,
    ATTUNE_SIZE_HEADS_Q = 1,
    ATTUNE_SIZE_HEADS_KV = 2,
    ATTUNE_SIZE_SEQLEN_Q = 3,
    ATTUNE_SIZE_SEQLEN_KV = 4,
    ATTUNE_SIZE_TOTAL_Q = 5, /* append: total_new */
    ATTUNE_SIZE_TOTAL_KV = 6,
    ATTUNE_SIZE_SM_COUNT = 7, /* of the target; the threads of a CPU's pool */
    ATTUNE_SIZE_COUNT = 8
} attune_size;

typedef enum attune_term_op {
    ATTUNE_TERM_END = 0,
    ATTUNE_TERM_CONST = 1, /* push value */
    ATTUNE_TERM_SIZE = 2,  /* push the size named by value */
    ATTUNE_TERM_ADD = 3,   /* these pop two and push one */
    ATTUNE_TERM_SUB = 4,
    ATTUNE_TERM_MUL = 5,
    ATTUNE_TERM_CEIL_DIV = 6,
    ATTUNE_TERM_MIN = 7,
    ATTUNE_TERM_MAX = 8
} attune_term_op;

#define ATTUNE_TERM_NODES 16

/* An integer expression in postfix order, ended by ATTUNE_TERM_END or its full length. Build with the functions below;
 * one that would not fit becomes invalid (first op is not a push) and is refused when the descriptor is checked. */
typedef struct attune_term {
    uint8_t op[ATTUNE_TERM_NODES];
    int64_t value[ATTUNE_TERM_NODES];
} attune_term;

static inline attune_term attune_term_const(int64_t value)
{
    attune_term term = {{ATTUNE_TERM_CONST}, {value}};
    return term;
}

static inline attune_term attune_term_size(attune_size size)
{
    attune_term term = {{ATTUNE_TERM_SIZE}, {(int64_t)size}};
    return term;
}

static inline int attune_term_length(const attune_term *term)
{
    int length = 0;
    while (length < ATTUNE_TERM_NODES && term->op[length] != ATTUNE_TERM_END) {
        ++length;
    }
    return length;
}

/* The term (a op b). */
static inline attune_term attune_term_join(attune_term a, attune_term_op op, attune_term b)
{
    int at = attune_term_length(&a);
    int more = attune_term_length(&b);
    attune_term overflow = {{(uint8_t)ATTUNE_TERM_ADD}, {0}};
    if (at + more + 1 > ATTUNE_TERM_NODES) {
        return overflow;
    }
    for (int i = 0; i < more; ++i) {
        a.op[at + i] = b.op[i];
        a.value[at + i] = b.value[i];
    }
    a.op[at + more] = (uint8_t)op;
    return a;
}

static inline attune_term attune_term_mul(attune_term a, attune_term b)
{
    return attune_term_join(a, ATTUNE_TERM_MUL, b);
}

static inline attune_term attune_term_ceil_div(attune_term a, attune_term b)
{
    return attune_term_join(a, ATTUNE_TERM_CEIL_DIV, b);
}

static inline attune_term attune_term_min(attune_term a, attune_term b)
{
    return attune_term_join(a, ATTUNE_TERM_MIN, b);
}

typedef enum attune_swizzle {
    ATTUNE_SWIZZLE_NONE = 0,
    ATTUNE_SWIZZLE_32B = 1,
    ATTUNE_SWIZZLE_64B = 2,
    ATTUNE_SWIZZLE_128B = 3
} attune_swizzle;

#define ATTUNE_MAP_NAME_MAX 16

/* A tensor map over the tensor of a role, dimensions innermost first: head_dim, sequence, head, batch (varlen:
 * head_dim, total rows, head; pools: head_dim, row of a page, head, page; BIAS and MASK: key, query, head, batch; LSE:
 * row, head, batch). Built at execute from the call's pointers, sizes and strides; lands in args.map at the index that
 * the source knows as ATTUNE_MAP_ and the map's name: `&args.map[ATTUNE_MAP_K]`. */
typedef struct attune_map {
    int32_t role;                   /* attune_role */
    int32_t swizzle;                /* attune_swizzle */
    int32_t box[4];                 /* elements; 0 where the dimension does not exist */
    int32_t l2_bytes;               /* promotion: 0, 64, 128, 256 */
    char name[ATTUNE_MAP_NAME_MAX]; /* upper case; "": the role's. All steps have equal names at equal places */
} attune_map;

/* One launch of the kernel's entry. CPU: grid[0] * grid[1] * grid[2] work items, the rest unused. */
typedef struct attune_step_kernel {
    const char *entry;    /* symbol in the source or image */
    attune_term grid[3];  /* blocks, or work items; a grid with a zero in it launches nothing */
    int32_t block[3];     /* threads */
    int32_t cluster[3];   /* blocks; 1,1,1 for none */
    attune_term smem;     /* dynamic shared memory, bytes */
    int32_t programmatic; /* 1: programmatic dependent launch after the step before (docs/cuda.md says what waits) */
    int32_t map_count;
    attune_map map[ATTUNE_MAPS_MAX];
} attune_step_kernel;

/* Sets a range of the workspace to a 32-bit pattern; timed like every other step. */
typedef struct attune_step_fill {
    attune_term offset_bytes; /* multiples of 4 */
    attune_term bytes;
    uint32_t pattern;
} attune_step_fill;

/* An operand of a gemm: a role's tensor, or a range of the workspace. */
typedef struct attune_operand {
    int32_t role;             /* attune_role, or -1: the workspace */
    int32_t dtype;            /* attune_dtype; of the workspace range */
    attune_term offset_bytes; /* into the workspace */
    attune_term row_stride;   /* workspace only, elements; roles bring their own strides */
    attune_term head_stride;  /* workspace only */
    attune_term batch_stride; /* workspace only */
} attune_operand;

/* C[m,n] = alpha * A[m,k] op(B) for every (batch, query head), rows being sequence positions; done by cuBLAS. */
typedef struct attune_step_gemm {
    attune_operand a, b, c;
    attune_term m, n, k;
    int32_t transpose_b; /* 1: B is [n,k], as K is for Q K^T */
    int32_t scaled;      /* 1: alpha is the call's scale; 0: 1 */
} attune_step_gemm;

typedef enum attune_step_kind { ATTUNE_STEP_KERNEL = 0, ATTUNE_STEP_FILL = 1, ATTUNE_STEP_GEMM = 2 } attune_step_kind;

typedef struct attune_step {
    int32_t kind; /* attune_step_kind */
    union {
        attune_step_kernel kernel;
        attune_step_fill fill;
        attune_step_gemm gemm;
    } as;
} attune_step;

#define ATTUNE_STEPS_MAX 8

typedef struct attune_steps {
    int32_t count;
    attune_step step[ATTUNE_STEPS_MAX];
} attune_steps;

/* What a config needs, predicted before anything is compiled. */
typedef struct attune_resources {
    int32_t threads;       /* CUDA: of a block */
    int32_t smem_bytes;    /* CUDA: of a block, static and dynamic */
    int64_t scratch_bytes; /* CPU: of a thread; arrives 64-byte aligned, contents arbitrary */
    attune_term workspace; /* bytes, of a call's actual sizes; must not decrease when a size grows */
} attune_resources;

#define ATTUNE_SCRATCH_MAX 131072 /* scratch_bytes, at most */

/* ---- The descriptor --------------------------------------------------------------------------------------------- */

/* A CPU kernel's work: item is in 0 ... grid-1. Items run in any order on any thread, each exactly once, and must not
 * depend on one another. */
typedef void (*attune_attend)(const attune_args *args, int64_t item, void *scratch);

#define ATTUNE_BIT(index) (1u << (index))
#define ATTUNE_ANY INT32_MAX /* no upper limit */
#define ATTUNE_CAN_MAX 8     /* capabilities of one kernel */

/* For tables: what the forward pass of ABI 3 has, and what came with caches. These do not grow: what is new is stated
 * by those who can. */
#define ATTUNE_DTYPES_FORWARD (ATTUNE_BIT(ATTUNE_FP32) | ATTUNE_BIT(ATTUNE_FP16) | ATTUNE_BIT(ATTUNE_BF16))
#define ATTUNE_DTYPES_HALF (ATTUNE_BIT(ATTUNE_FP16) | ATTUNE_BIT(ATTUNE_BF16))
#define ATTUNE_LAYOUTS_FORWARD (ATTUNE_BIT(ATTUNE_BHSD) | ATTUNE_BIT(ATTUNE_BSHD))
#define ATTUNE_FEATURES_FORWARD                                                                                        \
    (ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_BIAS |                    \
     ATTUNE_FEATURE_MASK | ATTUNE_FEATURE_ALIBI | ATTUNE_FEATURE_SINK | ATTUNE_FEATURE_SEQUSED |                       \
     ATTUNE_FEATURE_VARLEN | ATTUNE_FEATURE_STRICT)
#define ATTUNE_FEATURES_CACHE                                                                                          \
    (ATTUNE_FEATURE_PAGED | ATTUNE_FEATURE_PAGED_V | ATTUNE_FEATURE_DRAFT | ATTUNE_FEATURE_SLOTS)
#define ATTUNE_OFFSETS_FORWARD                                                                                         \
    (ATTUNE_BIT(ATTUNE_OFFSET_BOTTOM_RIGHT) | ATTUNE_BIT(ATTUNE_OFFSET_TOP_LEFT) | ATTUNE_BIT(ATTUNE_OFFSET_NUMBER))
#define ATTUNE_BIASES_FORWARD                                                                                          \
    (ATTUNE_BIT(ATTUNE_BIAS_1X1) | ATTUNE_BIT(ATTUNE_BIAS_BX1) | ATTUNE_BIT(ATTUNE_BIAS_1XH) |                         \
     ATTUNE_BIT(ATTUNE_BIAS_BXH))

/* Multiples of `step` from `least` to `most`. */
typedef struct attune_dims {
    int32_t least, most, step;
} attune_dims;

/* What a kernel computes, as data. A problem is asked of it only where one row of its table says all of it; whatever no
 * row says is refused, and so is what a later version of attune adds. 0 is none, never "any". */
typedef struct attune_capability {
    uint32_t ops;      /* ATTUNE_BIT of attune_op */
    uint32_t dtypes;   /* ATTUNE_BIT of attune_dtype: the problem's, which is that of all roles */
    uint32_t dtypes_k; /* likewise: those that K, V, O and BIAS may have where the problem gives them another */
    uint32_t dtypes_v, dtypes_o, dtypes_bias;
    uint32_t features; /* ATTUNE_FEATURE_ bits that a problem may have */
    uint32_t offsets;  /* ATTUNE_BIT of attune_offset, where CAUSAL, WINDOW or ALIBI of a problem make it matter */
    uint32_t biases;   /* ATTUNE_BIT of attune_bias, with BIAS */
    uint32_t layouts;  /* ATTUNE_BIT of attune_layout */
    attune_dims head_dim_qk, head_dim_v;
    int32_t dims_equal;    /* 1: both are the same */
    int32_t align;         /* bytes, at least 1: the least that pointers and strides must be multiples of */
    int32_t arch_least;    /* CUDA: attune_target.arch; CPU: attune_isa */
    int32_t arch_most;     /* the last of them, or ATTUNE_ANY */
    int32_t arch_features; /* CUDA, 1: attune_target.arch_features are needed */
    uint32_t steps;        /* ATTUNE_BIT of the attune_step_kind that its steps may have */
} attune_capability;

/* A row that is all of the forward pass, from an architecture or tier on: for general kernels. */
#define ATTUNE_CAN_FORWARD(arch, step_kinds)                                                                           \
    {                                                                                                                  \
        .ops = ATTUNE_BIT(ATTUNE_FORWARD), .dtypes = ATTUNE_DTYPES_FORWARD, .features = ATTUNE_FEATURES_FORWARD,       \
        .offsets = ATTUNE_OFFSETS_FORWARD, .biases = ATTUNE_BIASES_FORWARD, .layouts = ATTUNE_LAYOUTS_FORWARD,         \
        .head_dim_qk = {1, 256, 1}, .head_dim_v = {1, 256, 1}, .align = 1, .arch_least = (arch),                       \
        .arch_most = ATTUNE_ANY, .steps = (step_kinds)                                                                 \
    }

/* A problem and config that are compiled and inspected ahead of time for every architecture that supports them. */
typedef struct attune_shipped {
    const char *problem; /* text form */
    const char *config;  /* "PARAM=VALUE,...", "" for the heuristic's first */
} attune_shipped;

typedef struct attune_kernel {
    size_t size;         /* sizeof(attune_kernel) */
    uint32_t abi;        /* ATTUNE_ABI */
    int32_t target;      /* attune_target_kind */
    const char *name;    /* unique across targets: lower case, digits, underscores */
    const char *summary; /* one line for people */
    uint32_t traits;     /* ATTUNE_TRAIT_ bits */
    int32_t param_count;
    const attune_param *params;
    const attune_shipped *shipped; /* ends with a NULL problem; may be NULL */
    const attune_capability *can;  /* a problem must be covered by one of these */
    int32_t can_count;             /* 1 ... ATTUNE_CAN_MAX */
    int32_t reserved;              /* 0 */

    /* Whether the kernel computes this problem, which its table covers, on this target with some config; if not, the
     * reason. For what a table cannot say; NULL: it does. */
    bool (*supports)(const attune_problem *problem, const attune_target *target, attune_reason *reason);
    /* Whether a config of allowed values is legal together, for a supported problem. Not about resources. */
    bool (*valid)(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason);
    void (*resources)(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *resources);
    /* The index-th most promising config, from 0; false when there are no more. Index 0 always exists. */
    bool (*heuristic)(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config);
    void (*steps)(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *steps);

    /* CPU: the source as compiled for each tier; NULL where a tier has none. */
    attune_attend attend[ATTUNE_ISA_COUNT];
    /* CUDA: name of the embedded source ("tiled.cu"), or NULL; and of the fatbin built ahead, or NULL. One of them. */
    const char *source;
    const char *image;

    const attune_retired *retired; /* ends with a NULL name; may be NULL; not read of a stranger's descriptor */
} attune_kernel;

#ifdef __cplusplus
}
#endif

#endif
