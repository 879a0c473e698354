/* attune.h: fused scaled dot-product attention, planned and run. This header is the manual.
 *
 * State a problem, make a plan for it (a kernel and its config on a target), execute the plan on your buffers as often
 * as you like:
 *
 *     attune_problem problem;
 *     attune_context *context;
 *     attune_plan *plan;
 *     attune_call call;
 *     attune_problem_parse("b1,h8,s512,d64,fp32,causal", &problem);
 *     attune_context_create(NULL, &context);
 *     attune_plan_create(context, &problem, NULL, &plan);
 *     attune_call_init(&call, &problem);
 *     call.tensor[ATTUNE_Q].data = q; ... K, V, O
 *     attune_plan_execute(plan, &call);
 *
 * Conventions
 * - Every function that can fail returns an attune_status; what happened, with the field, the value and the limit, is
 *   in attune_last_detail() of the same thread. On failure outputs are left as they were, and handles set to NULL. A
 *   NULL where none is allowed is ATTUNE_INVALID_ARGUMENT; any function may return ATTUNE_OUT_OF_MEMORY.
 * - The library never prints, aborts, exits or throws.
 * - Handles are opaque and freed by their destroy function, which accepts NULL. Tensors belong to the caller, and so do
 *   strings that are passed in, which are copied where they are kept.
 * - Public structs begin with their size: fill them with their init function, or zero them and set `size` to what
 *   sizeof says. Within a MINOR version they only grow at their end, and 0 in an appended field means what was before
 *   it: a program runs with a newer library unchanged, and with an older one while it leaves what that lacks at 0.
 * - Functions that fill in a struct are given its size as this header has it, by the inline functions here. Bindings of
 *   other languages call what ends in _sized, with the size of their own declaration.
 * - Sizes and strides are element counts unless a name ends in _bytes.
 * - Contexts and plans may be used from several threads at once; a call or problem struct may not be changed while it
 *   is in use.
 */
#ifndef ATTUNE_H
#define ATTUNE_H

#include <stddef.h>
#include <stdint.h>

#include "attune/args.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ATTUNE_API __attribute__((visibility("default")))
#else
#define ATTUNE_API
#endif

/* ---- Version ---------------------------------------------------------------------------------------------------- */

#define ATTUNE_VERSION_MAJOR 0
#define ATTUNE_VERSION_MINOR 2
#define ATTUNE_VERSION_PATCH 0
#define ATTUNE_VERSION (ATTUNE_VERSION_MAJOR * 10000 + ATTUNE_VERSION_MINOR * 100 + ATTUNE_VERSION_PATCH)

/* The version of the library that is linked, as ATTUNE_VERSION is of the header. Before 1.0 only versions of one MINOR
 * work together, which the name that a program is linked to, libattune.so.MAJOR.MINOR, sees to. */
ATTUNE_API int attune_version(void);
/* The same as "0.2.0". Static storage. */
ATTUNE_API const char *attune_version_string(void);

/* ---- Errors ----------------------------------------------------------------------------------------------------- */

typedef enum attune_status {
    ATTUNE_OK = 0,
    ATTUNE_INVALID_ARGUMENT = 1, /* a pointer, size, stride or option is wrong */
    ATTUNE_INVALID_PROBLEM = 2,  /* the problem contradicts itself, or its text does not parse */
    ATTUNE_UNSUPPORTED = 3,      /* valid, but the kernel asked for, or this build, cannot do it */
    ATTUNE_NOT_FOUND = 4,        /* no such kernel, file or wisdom row */
    ATTUNE_OUT_OF_MEMORY = 5,
    ATTUNE_WORKSPACE_TOO_SMALL = 6,
    ATTUNE_IO_ERROR = 7,       /* the operating system refused to read or write */
    ATTUNE_CORRUPT = 8,        /* a file is not what it says it is */
    ATTUNE_NO_DEVICE = 9,      /* no usable driver or device for this target, or none of its number */
    ATTUNE_DEVICE_ERROR = 10,  /* the device, or its driver, failed */
    ATTUNE_COMPILE_ERROR = 11, /* the run-time compiler refused a kernel, or is missing */
    ATTUNE_INTERRUPTED = 12,   /* stopped on request; nothing half-done was kept */
    ATTUNE_WRONG_RESULT = 13,  /* a kernel's output broke the rules for numbers */
    ATTUNE_INTERNAL = 14,      /* a bug in attune: please report it */
    ATTUNE_STATUS_COUNT = 15
} attune_status;

/* A few words on a status, never NULL. Static storage. */
ATTUNE_API const char *attune_status_string(attune_status status);
/* What the last failing call of this thread had to say: one sentence with names, values and limits; "" before any
 * failure. Valid until the next failing call of the same thread. */
ATTUNE_API const char *attune_last_detail(void);

/* ---- Problems: what is asked ------------------------------------------------------------------------------------ */

typedef enum attune_op {
    ATTUNE_FORWARD = 0,
    /* 1 is left for the backward pass */
    ATTUNE_APPEND = 2, /* copies NEW_K and NEW_V into K and V, a cache */
    ATTUNE_MERGE = 3   /* makes one O and LSE of several */
} attune_op;

/* Memory order of tensors whose strides attune_call_init fills in. */
typedef enum attune_layout {
    ATTUNE_BHSD = 0, /* [batch, heads, seqlen, head_dim] */
    ATTUNE_BSHD = 1  /* [batch, seqlen, heads, head_dim]; the only one for varlen: [total, heads, head_dim] */
    /* Pools of pages are [page, heads, token, head_dim] and [page, token, heads, head_dim] */
} attune_layout;

#define ATTUNE_ROLES_MAX 64 /* entries of role_dtype; at least ATTUNE_ROLE_COUNT */

/* Shape of the additive bias: which of batch and heads_q it has. */
typedef enum attune_bias {
    ATTUNE_BIAS_NONE = 0,
    ATTUNE_BIAS_1X1 = 1,
    ATTUNE_BIAS_BX1 = 2,
    ATTUNE_BIAS_1XH = 3,
    ATTUNE_BIAS_BXH = 4
} attune_bias;

/* What is asked. For query row i and key j, one after the other, each where the problem has it: S = scale Q K^T;
 * S = softcap tanh(S / softcap); S += bias; S -= slope |i + offset - j|; masks; P = softmax(S), the sink joining its
 * denominator; O = P V; LSE = ln sum exp S. Query head h reads key/value head h / (heads_q / heads_kv). A row that sees
 * no key gives O = 0 and LSE = -inf (with a sink: LSE = the sink). args.h has the shape of each role's tensor.
 *
 * Pages. Row j of a sequence lies in page PAGE_TABLE_K[sequence][j / page_size] of K's pool, at j % page_size, and in
 * the same page of V's. Only entries of rows that exist, and that a window leaves, are read; one that is not 0 ...
 * page_count - 1 counts as the nearest that is, and a length beyond seqlen_kv as seqlen_kv. What lies in a page behind
 * a length leaves no trace.
 *
 * Drafts. Of a sequence's keys the last ones, as many as it has queries, are the queries' own: query i sees such a key
 * j where bit j of its word is set, and every key before them.
 *
 * Append. With slots, row i of NEW_K and NEW_V goes to slot SLOTS[i]: page * page_size + place, or without pages
 * sequence * seqlen_kv + position; with seqused, row i of a sequence of n new ones to position USED_KV - n + i of it,
 * USED_KV being its length after the append. Rows for which there is no such slot or position, or no such page, are
 * left out, -1 being the slot to say so by. Nothing else of K and V is written. Two rows of one place: either.
 *
 * Merge. Of states of the same queries over different keys: m = max LSE, w = exp(LSE - m), O = sum w O / sum w,
 * LSE = m + ln sum w; a sink joins the sum, and should be in no state's LSE. A state whose LSE is -inf is empty, and
 * its O is not looked at; without any other, O = 0 and LSE = -inf, or the sink. NaN, and an LSE of +inf, give NaN.
 *
 * Sizes are maxima, each below 2^31, with fewer than 2^62 elements in any tensor: a plan serves every call whose sizes
 * do not exceed them. Head dims are exact. */
typedef struct attune_problem {
    size_t size;          /* sizeof(attune_problem) */
    int32_t op;           /* attune_op */
    int32_t dtype;        /* attune_dtype of Q, K, V, O and BIAS, where role_dtype has no other: fp32, fp16 or bf16 */
    int64_t batch;        /* >= 1 */
    int64_t heads_q;      /* >= 1, a multiple of heads_kv */
    int64_t heads_kv;     /* >= 1 */
    int64_t seqlen_q;     /* >= 0 */
    int64_t seqlen_kv;    /* >= 0 */
    int32_t head_dim_qk;  /* 1 ... 256 */
    int32_t head_dim_v;   /* 1 ... 256 */
    float scale;          /* finite; 0 means 1 / sqrt(head_dim_qk) */
    float softcap;        /* finite, > 0; 0 means none */
    int64_t window_left;  /* keeps keys j >= i + offset - window_left; -1 unbounded */
    int64_t window_right; /* keeps keys j <= i + offset + window_right; -1 unbounded; 0 is a causal mask */
    int64_t offset;       /* with ATTUNE_OFFSET_NUMBER: the number, of magnitude below 2^31 */
    int32_t offset_kind;  /* attune_offset */
    int32_t layout;       /* attune_layout */
    int32_t bias;         /* attune_bias */
    int32_t align;      /* bytes, a power of two 1 ... 256: what pointers and strides of Q, K, V and O are multiples of.
                           0: 16, or less where contiguous rows of these head dims give less */
    int32_t mask;       /* 1: calls have a MASK. This and the next five are 0 or 1 */
    int32_t alibi;      /* calls have SLOPES */
    int32_t sink;       /* calls have a SINK */
    int32_t seqused_kv; /* calls have USED_KV */
    int32_t strict;     /* non-finite keys and values that a row does not see must leave no trace in it */
    int32_t varlen;     /* sequences are packed one after the other: calls have CU_Q and CU_KV; layout is ATTUNE_BSHD */
    /* By attune_role: the attune_dtype of its tensor + 1, or 0 for `dtype`. K, V, O and BIAS may have fp32, fp16 or
     * bf16 of their own; all others are 0. */
    uint8_t role_dtype[ATTUNE_ROLES_MAX];
    int32_t page_size;    /* 1 ... 1024: rows of a page, K and V being pools and calls having PAGE_TABLE_K; 0: none.
                             With varlen Q and O alone are packed: there is no CU_KV, and seqused_kv is needed */
    int32_t page_table_v; /* 1: calls have PAGE_TABLE_V as well. This and the next two are 0 or 1 */
    int32_t draft_mask; /* calls have a DRAFT_MASK: seqlen_q is at most 32, offset_kind ATTUNE_OFFSET_BOTTOM_RIGHT, and
                           there is no window */
    int32_t slots;      /* append: calls have SLOTS; else seqused_kv is needed */
    int32_t states;     /* merge: 1 ... 65536, the most that a call may have; else 0 */
    int32_t tf32;       /* fp32 only, 0 or 1: products may be of operands rounded to TF32's 11 significant bits */
} attune_problem;

/* What other operations have of a problem, all else being 0 or its default:
 * append: batch sequences of up to seqlen_kv rows and heads_kv = heads_q heads, up to seqlen_q new ones in each; dtype,
 * head dims, layout, align, page_size, page_table_v (not with slots), and seqused_kv, with or without varlen, or slots.
 * merge: batch, heads_q = heads_kv, seqlen_q, head_dim_v = head_dim_qk, dtype, O's own, layout, align, states, sink. */

/* Enough for any problem's text form, its terminating zero included. */
#define ATTUNE_PROBLEM_TEXT_MAX 384

/* Fills in the defaults: forward, batch 1, one head, both seqlens 0, head dims 64, fp32, no mask, no feature. */
static inline void attune_problem_init(attune_problem *problem);
ATTUNE_API void attune_problem_init_sized(attune_problem *problem, size_t size);
/* Reads the text form, for example "b2,h32,hkv8,s4096,d128,bf16,causal" (docs/problems.md has the grammar). Returns
 * ATTUNE_INVALID_PROBLEM, naming the term, for unknown, repeated, malformed or contradictory terms. The number of
 * `varlen=7`, which tests and benches draw their lengths by, is read and not kept. */
static inline attune_status attune_problem_parse(const char *text, attune_problem *problem);
ATTUNE_API attune_status attune_problem_parse_sized(const char *text, attune_problem *problem, size_t size);
/* Writes the canonical text form, defaults omitted. Returns ATTUNE_INVALID_ARGUMENT where `bytes` is too small (never
 * with ATTUNE_PROBLEM_TEXT_MAX) and what attune_problem_check returns for an invalid problem. */
ATTUNE_API attune_status attune_problem_print(const attune_problem *problem, char *text, size_t bytes);
/* ATTUNE_OK for a valid problem; ATTUNE_INVALID_PROBLEM, naming the field, the value and the limit, for others;
 * ATTUNE_UNSUPPORTED for a struct in which a field is set that this library does not know. */
ATTUNE_API attune_status attune_problem_check(const attune_problem *problem);
/* Equal problems have equal hashes, on every machine. NULL hashes to 0. */
ATTUNE_API uint64_t attune_problem_hash(const attune_problem *problem);
/* Floating-point operations of both products at the problem's sizes, a multiply-add being two: 2 * batch * heads_q *
 * (head_dim_qk + head_dim_v) for each pair of a query and a key that the causal mask and the window leave, which is
 * seqlen_q * seqlen_kv pairs without them. merge: 2 * batch * heads_q * seqlen_q * head_dim_v for each state. 0 for
 * append and for an invalid problem. */
ATTUNE_API double attune_problem_flops(const attune_problem *problem);

/* ---- Pages ------------------------------------------------------------------------------------------------------ */

/* Makes a page table and lengths, in host memory, of the tables that some engines keep: the pages of sequence b are
 * indices[indptr[b]] ... indices[indptr[b + 1] - 1], in order, and the last of them holds last_page_len[b] rows,
 * 1 ... page_size; a sequence without pages is empty, whatever its last_page_len. `indptr` has batch + 1 entries,
 * `table` batch rows of page_table_width entries, row_stride >= page_table_width apart, those behind a sequence's pages
 * being 0 then; `used_kv`, [batch], may be NULL. ATTUNE_INVALID_ARGUMENT: an entry is out of its range, or a sequence
 * has more pages than the table is wide; nothing is written then. */
ATTUNE_API attune_status attune_pages_from_csr(const int32_t *indptr, const int32_t *indices,
                                               const int32_t *last_page_len, int64_t batch, int32_t page_size,
                                               int64_t page_table_width, int64_t row_stride, int32_t *table,
                                               int32_t *used_kv);

/* ---- Context: where ------------------------------------------------------------------------------------------- */

typedef struct attune_context attune_context;

typedef enum attune_target_kind { ATTUNE_TARGET_CPU = 0, ATTUNE_TARGET_CUDA = 1 } attune_target_kind;

/* What the threads of a context do while there is nothing to do. */
typedef enum attune_wait {
    ATTUNE_WAIT_BRIEFLY = 0, /* look out for the next call for 50 to 200 us, then sleep */
    ATTUNE_WAIT_ASLEEP = 1   /* sleep: for programs whose other threads want the processors then */
} attune_wait;

/* A piece of a parallel loop: the items first ... first + count - 1. */
typedef void (*attune_work)(void *context, int64_t first, int64_t count);
/* A parallel loop of the caller's: calls work(context, ...) with pieces of 0 ... items - 1, each item in one of them,
 * in any order and on any threads, and returns when all are done. Calls that run at the same time call it at the same
 * time; it may run them one after the other, or with one piece that is all. */
typedef void (*attune_parallel_for)(void *user, int64_t items, attune_work work, void *context);
/* Memory of the caller's: `bytes` at a multiple of `align`, a power of two of at most 4096, or NULL; and back. */
typedef void *(*attune_allocate)(void *user, size_t bytes, size_t align);
typedef void (*attune_release)(void *user, void *memory);

typedef struct attune_options {
    size_t size;        /* sizeof(attune_options) */
    const char *target; /* "cpu", "cuda", "cuda:N"; NULL: $ATTUNE_TARGET, else cuda where usable, else cpu */
    /* "NAME" or "NAME:PARAM=VALUE,...": plans use this kernel alone, the parameters not given being its heuristic's.
     * NULL: $ATTUNE_KERNEL, else any */
    const char *kernel;
    /* "baseline", "avx2", "avx512", "avx512_bf16", "amx": the highest CPU tier used. NULL: $ATTUNE_ISA, else the best
     */
    const char *isa;
    int32_t threads;    /* CPU threads, 1 ... 1024; 0: $ATTUNE_THREADS, else the CPUs this process may use */
    int32_t reserved;   /* 0 */
    const char *wisdom; /* a wisdom file to read; NULL: $ATTUNE_WISDOM, else only what is shipped */
    const char *cache;  /* directory for compiled kernels; NULL: $ATTUNE_CACHE, else $XDG_CACHE_HOME/attune */
    const char *pack;   /* CUDA: kernels compiled ahead by `attune export`; NULL: $ATTUNE_PACK, else none */
    const char *cpus;   /* "0-3,8": where the context's own threads run, one on each and from the beginning again; where
                           threads is 0, so many. NULL: $ATTUNE_CPUS, else wherever the process may */
    int32_t wait;       /* attune_wait */
    int32_t callers; /* 0 ... 64: threads that execute at the same time; their scratch is then there from the beginning,
                        else it is allocated when so many meet for the first time. 0: 1 */
    attune_parallel_for parallel_for; /* the context has no threads of its own, and does with this what it would do with
                                         them. `threads` says how many it has. NULL: threads of its own */
    void *parallel_user;              /* its first argument */
    attune_allocate allocate; /* of scratch, and of the buffers on which configs are raced; what a context keeps in
                                 books comes from malloc. With `release`, or both NULL: malloc */
    attune_release release;
    void *memory_user; /* the first argument of both */
} attune_options;

/* No option given. */
static inline void attune_options_init(attune_options *options);
ATTUNE_API void attune_options_init_sized(attune_options *options, size_t size);
/* Opens the target: starts the CPU threads, or attaches to the CUDA device's current (else primary) context. NULL
 * options are the defaults. ATTUNE_NO_DEVICE: the target is not there, or its driver not usable. ATTUNE_NOT_FOUND: no
 * kernel or file of that name. ATTUNE_IO_ERROR: a wisdom file cannot be read; its corrupt lines are skipped and counted
 * (attune_wisdom_skipped). ATTUNE_CORRUPT: the pack is not one. Destroy the context after every plan made from it.
 *
 * After fork(): contexts and plans of a CPU work in the child as in the parent, whatever the parent's other threads
 * were doing. The child has no threads but its own until it executes something that has use for them. What a CUDA
 * device has is the parent's alone: in the child everything but destroying is refused with ATTUNE_NO_DEVICE. fork() may
 * not be called from within a parallel_for's work. */
ATTUNE_API attune_status attune_context_create(const attune_options *options, attune_context **context);
ATTUNE_API void attune_context_destroy(attune_context *context);
/* The target's text, for example "cpu/AMD_EPYC_7B13/avx2,threads=2". Belongs to the context. NULL gives "". */
ATTUNE_API const char *attune_context_target(const attune_context *context);

/* ---- Plans: how ------------------------------------------------------------------------------------------------- */

typedef struct attune_plan attune_plan;

/* How much work the planner may do to choose; wisdom that knows the problem's class answers at any level. */
typedef enum attune_effort {
    ATTUNE_ESTIMATE = 0,   /* wisdom, else the kernels' own heuristics: runs nothing */
    ATTUNE_MEASURE = 1,    /* wisdom, else a race of the likeliest configs, each checked first: up to seconds */
    ATTUNE_PATIENT = 2,    /* the same with more configs of every kernel, and longer: up to minutes */
    ATTUNE_WISDOM_ONLY = 3 /* wisdom, else ATTUNE_NOT_FOUND */
} attune_effort;

/* What is asked of a plan. */
typedef struct attune_plan_options {
    size_t size;             /* sizeof(attune_plan_options) */
    int32_t effort;          /* attune_effort */
    int32_t deterministic;   /* 1: kernels that may give other bits for equal inputs are passed over */
    int32_t batch_invariant; /* 1: so are those whose bits for a sequence may depend on the others of its batch */
    int32_t reserved;        /* 0 */
    const char *kernel;      /* as in attune_options, for this plan; NULL: the context's, else any */
} attune_plan_options;

/* ATTUNE_ESTIMATE, nothing demanded, any kernel. */
static inline void attune_plan_options_init(attune_plan_options *options);
ATTUNE_API void attune_plan_options_init_sized(attune_plan_options *options, size_t size);

/* What a kernel's results may be like: bits of attune_kernel_traits and attune_plan_traits. */
enum {
    ATTUNE_TRAIT_GENERAL = 1 << 0, /* computes every forward problem without a role_dtype, pages or drafts: its target's
                                      fallback */
    ATTUNE_TRAIT_NONDETERMINISTIC = 1 << 1, /* equal inputs may give different bits */
    ATTUNE_TRAIT_BATCH_VARIANT = 1 << 2,    /* a sequence's bits may depend on the others of its batch */
    ATTUNE_TRAIT_TAINTS = 1 << 3,           /* a non-finite key or value may reach rows of its tile that do not see it;
                                               never with a strict problem */
    ATTUNE_TRAIT_ACC16 = 1 << 4,            /* sums in fp16: less exact than other kernels, and chosen only by name */
    ATTUNE_TRAIT_NAMED_ONLY = 1 << 5,       /* chosen only by name */
    ATTUNE_TRAIT_CLOCKS = 1 << 6 /* reads when or where on the device it runs: never found right, chosen only by name */
};

/* The kernels of this library, whatever their target: how many, and of the index-th, from 0, its name, one line for
 * people, its attune_target_kind and its ATTUNE_TRAIT_ bits. NULL, NULL, -1 and 0 where there are not so many. Static
 * storage. */
ATTUNE_API int32_t attune_kernel_count(void);
ATTUNE_API const char *attune_kernel_name(int32_t index);
ATTUNE_API const char *attune_kernel_summary(int32_t index);
ATTUNE_API int32_t attune_kernel_target(int32_t index);
ATTUNE_API uint32_t attune_kernel_traits(int32_t index);
/* Writes into `text`, of `bytes` bytes, why the planner would not choose this kernel by itself for the problem on the
 * context's target: one sentence with the field, its value and the limit, cut where it is longer (512 are enough); that
 * it failed, where it did in this context; "" where it is a candidate. ATTUNE_NOT_FOUND: there is no kernel of that
 * name. ATTUNE_INVALID_ARGUMENT: a pointer is NULL, or bytes 0. Else what attune_problem_check returns. */
ATTUNE_API attune_status attune_why_not(const attune_context *context, const attune_problem *problem,
                                        const char *kernel, char *text, size_t bytes);
/* Whether a kernel could run the problem on the context's target. `kernel` is a name, or NULL for the one that the
 * context was made with, else any: what ATTUNE_TRAIT_GENERAL says is always supported by one. ATTUNE_UNSUPPORTED:
 * the detail names the field and the limit. ATTUNE_NOT_FOUND: there is no kernel of that name. */
ATTUNE_API attune_status attune_supports(const attune_context *context, const attune_problem *problem,
                                         const char *kernel);
/* Chooses kernel and config, compiles what must be compiled, and returns an immutable plan that any number of threads
 * may execute; destroy it before the context. NULL options are the defaults. Problems of a class that was planned in
 * this context with equal options are answered from memory. ATTUNE_UNSUPPORTED: no kernel, or not the one named, meets
 * the options and the problem. ATTUNE_NOT_FOUND: there is no kernel of that name, or with ATTUNE_WISDOM_ONLY no row.
 * ATTUNE_COMPILE_ERROR and ATTUNE_DEVICE_ERROR: the kernel named could not be made ready.
 *
 * On a CPU a plan whose kernel is not named holds, beside what it chose for the problem's sizes, a few choices for
 * shorter calls, by wisdom or the kernels' heuristics. Which one runs depends on the call's seqlen_q and seqlen_kv
 * alone, never on its batch; with seqused_kv on seqlen_q alone, and with varlen on nothing. attune_plan_kernel_for says
 * which.
 *
 * Memory: attune_plan_memory of the host, allocated here and nowhere later, and on a device nothing: kernels' code and
 * constants are the context's, once for all plans that run the same kernel and config. The workspace is the caller's.
 */
ATTUNE_API attune_status attune_plan_create(attune_context *context, const attune_problem *problem,
                                            const attune_plan_options *options, attune_plan **plan);
ATTUNE_API void attune_plan_destroy(attune_plan *plan);
/* "NAME:PARAM=VALUE,..." of what would run, accepted by options.kernel. Belongs to the plan. NULL gives "". */
ATTUNE_API const char *attune_plan_kernel(const attune_plan *plan);
/* Where the choice came from: "proven", "measured", "heuristic" or "named". Static storage. */
ATTUNE_API const char *attune_plan_origin(const attune_plan *plan);

/* ATTUNE_TRAIT_ bits of its kernel. NULL gives 0. */
ATTUNE_API uint32_t attune_plan_traits(const attune_plan *plan);
/* Bytes of the host's memory that the plan holds until it is destroyed: itself and, on CUDA, its latest calls ready to
 * be launched again. NULL gives 0. */
ATTUNE_API size_t attune_plan_memory(const attune_plan *plan);

/* One execution: actual sizes, and buffers by role. */
typedef struct attune_call {
    size_t size;     /* sizeof(attune_call) */
    int64_t batch;   /* 1 ... the problem's; this and the next four at most the problem's */
    int64_t heads_q; /* a multiple of heads_kv */
    int64_t heads_kv;
    int64_t seqlen_q; /* varlen: the longest sequence's, at most the problem's */
    int64_t seqlen_kv;
    int64_t total_q;  /* varlen: rows of Q, O (at least CU_Q[batch]); else ignored */
    int64_t total_kv; /* varlen: rows of K, V; else ignored, and with pages */
    int64_t offset;   /* replaces the problem's number with ATTUNE_OFFSET_NUMBER; else ignored */
    /* 0 where the problem has none: */
    int64_t page_count;       /* pages of K's pool, and of V's: 1 ... 2^31 - 1, or 0 where seqlen_kv is 0 */
    int64_t page_table_width; /* columns of the page tables, at least ceil(seqlen_kv / page_size) */
    int64_t total_new;        /* append: rows of NEW_K and NEW_V, batch * seqlen_q or, with slots or varlen, fewer */
    int64_t states;           /* merge: 1 ... the problem's */
    int64_t state_stride_o;   /* elements of STATE_O from one state to the next */
    int64_t state_stride_lse;
    void *workspace; /* the target's memory, attune_plan_workspace bytes, 256-byte aligned; NULL where that is 0 */
    size_t workspace_bytes; /* of it */
    void *stream;           /* CUDA: the CUstream to enqueue on, NULL for the default stream; CPU: NULL */
    /* By attune_role, in the target's memory (args.h has shapes and dtypes); data NULL for every role that the problem
     * does not have, and for LSE where it is not wanted.
     * settled, of tensors that are read: 1 promises that nothing writes its memory that may still be running when the
     * call begins, so that kernels may read it before the launch before theirs has ended, on a stream of CUDA whose
     * launches begin programmatically (docs/calling.md). Of K and V the last seqlen_q rows of each sequence, which a
     * step appends, are not part of it. A kernel that cannot make use of it takes it for 0, as does the CPU. */
    attune_tensor tensor[ATTUNE_ROLE_COUNT];
} attune_call;

/* Fills in the problem's sizes, its offset, all dtypes, and for the roles that it has contiguous strides of its layout
 * (rows of head_dim padded where the problem's align asks for more than they have); tables as wide as the lengths need,
 * pools of as many pages, states one behind the other; data pointers are NULL. Set the
 * data of Q, K, V, O, of every other role that the problem has, and of LSE if wanted. After changing sizes, set the
 * strides that they imply, or call this with a problem of the actual sizes. Returns what attune_problem_check does. */
static inline attune_status attune_call_init(attune_call *call, const attune_problem *problem);
ATTUNE_API attune_status attune_call_init_sized(attune_call *call, const attune_problem *problem, size_t size);
/* "NAME:PARAM=VALUE,..." of what would run for a call of these sizes (its buffers may still be missing), into `text`,
 * of which 512 bytes are enough. */
ATTUNE_API attune_status attune_plan_kernel_for(const attune_plan *plan, const attune_call *call, char *text,
                                                size_t bytes);
/* *bytes: what a call of these sizes takes (its buffers may still be missing); with `call` NULL, the upper bound over
 * every allowed call. ATTUNE_INVALID_ARGUMENT: a size of the call is beyond the plan's. */
ATTUNE_API attune_status attune_plan_workspace(const attune_plan *plan, const attune_call *call, size_t *bytes);
/* Runs the plan. Checks the call first (sizes within the plan's, pointers, dtypes, alignment, overlap of outputs with
 * anything, workspace; on the CPU also that CU_Q and CU_KV do not decrease): ATTUNE_INVALID_ARGUMENT, or
 * ATTUNE_WORKSPACE_TOO_SMALL, without having written anything. CPU: returns when O is complete. CUDA: enqueues on the
 * stream and returns; nothing is allocated, compiled or synchronised, so it can be captured into a graph.
 * ATTUNE_DEVICE_ERROR: the driver refused a launch. */
ATTUNE_API attune_status attune_plan_execute(const attune_plan *plan, const attune_call *call);

/* ---- Executing on the caller's own threads ---------------------------------------------------------------------- */

/* On a CPU a call is done in steps, one after the other, and a step in items, which any threads may do in any order and
 * at the same time. For engines that bring their threads and barriers:
 *
 *     attune_plan_steps(plan, &call, &steps);
 *     for (step = 0; step < steps; ++step) {
 *         attune_plan_items(plan, &call, step, &items);
 *         each thread: attune_execute_items(plan, &call, step, its first item, how many, its scratch, bytes)
 *         all threads meet
 *     }
 *
 * Nothing is allocated, locked or woken. All of them check the call as attune_plan_execute does; ATTUNE_UNSUPPORTED for
 * plans of a CUDA device. */

/* How many steps a call of these sizes has (its buffers may still be missing). */
ATTUNE_API attune_status attune_plan_steps(const attune_plan *plan, const attune_call *call, int32_t *steps);
/* How many items one of them has; 0 where there is nothing to do. */
ATTUNE_API attune_status attune_plan_items(const attune_plan *plan, const attune_call *call, int32_t step,
                                           int64_t *items);
/* Bytes of scratch that a thread needs, for any call of this plan; at most 131,072. */
ATTUNE_API attune_status attune_plan_scratch(const attune_plan *plan, size_t *bytes);
/* Does the items first ... first + count - 1 of a step, on this thread. `scratch` is this thread's alone, 64-byte
 * aligned, contents arbitrary. O is complete when every item of every step is done, once each, and no item of a step
 * was begun before those of the step before were done. */
ATTUNE_API attune_status attune_execute_items(const attune_plan *plan, const attune_call *call, int32_t step,
                                              int64_t first, int64_t count, void *scratch, size_t scratch_bytes);

/* ---- Wisdom: what has been learned ------------------------------------------------------------------------------ */

/* Adds the rows of a file to the context's: plans made from here on know them. Corrupt lines are skipped and counted in
 * *skipped (may be NULL). ATTUNE_NOT_FOUND or ATTUNE_IO_ERROR: the file cannot be read; nothing is added. */
ATTUNE_API attune_status attune_wisdom_read(attune_context *context, const char *path, size_t *skipped);
/* Writes the context's rows, measured ones included, merged with what the file already has: proven rows come before
 * measured ones, newer before older. The file is replaced whole or, with ATTUNE_IO_ERROR, not at all. */
ATTUNE_API attune_status attune_wisdom_write(const attune_context *context, const char *path);
/* Lines that were skipped as corrupt when the context was created. NULL gives 0. */
ATTUNE_API size_t attune_wisdom_skipped(const attune_context *context);

/* ---- The size of a struct is the caller's ------------------------------------------------------------------------ */

static inline void attune_problem_init(attune_problem *problem)
{
    attune_problem_init_sized(problem, sizeof(attune_problem));
}

static inline attune_status attune_problem_parse(const char *text, attune_problem *problem)
{
    return attune_problem_parse_sized(text, problem, sizeof(attune_problem));
}

static inline void attune_options_init(attune_options *options)
{
    attune_options_init_sized(options, sizeof(attune_options));
}

static inline void attune_plan_options_init(attune_plan_options *options)
{
    attune_plan_options_init_sized(options, sizeof(attune_plan_options));
}

static inline attune_status attune_call_init(attune_call *call, const attune_problem *problem)
{
    return attune_call_init_sized(call, problem, sizeof(attune_call));
}

#ifdef __cplusplus
}
#endif

#endif
