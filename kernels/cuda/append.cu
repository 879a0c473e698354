/* append: new keys and values into a cache, in one piece or in pages.
 *
 * A block copies HEADS heads of TOKENS new rows, K and V. Each thread has its parts of them, 16 bytes where rows allow,
 * on their way before it is known where they go: places are found meanwhile, one thread a row of K or of V, and handed
 * round in shared memory. Nothing is computed, so a small step takes as long as its longest chain: length, table entry,
 * store. That begins first, but where sequences are packed and looked for; and addresses are worked out before the
 * launch before has ended. */
#include "device/pages.cuh"
#include "device/schedule.cuh"

constexpr int warps = ATTUNE_THREADS / 32;

/* The largest power of two up to 16 that divides rows and what they are aligned to. */
ATTUNE_INLINE constexpr int part_bytes(int row_bytes)
{
    int all = row_bytes | ATTUNE_ALIGN | 16;
    return all & -all;
}

/* K and V: elements, and the parts of a row. */
template <class T, int dims> struct copied {
    static constexpr int element_bytes = sizeof(T), bytes = part_bytes(dims * (int)sizeof(T)),
                         parts = dims * (int)sizeof(T) / bytes;
};
using keys = copied<element_k, ATTUNE_HEAD_DIM_QK>;
using values = copied<element_v, ATTUNE_HEAD_DIM_V>;

constexpr int head_parts = keys::parts + values::parts, block_parts = TOKENS * HEADS * head_parts,
              thread_parts = (block_parts + ATTUNE_THREADS - 1) / ATTUNE_THREADS;
static_assert(2 * TOKENS <= ATTUNE_THREADS, "a thread for each row's place");

/* ---- Places --------------------------------------------------------------------------------------------------------
 */

/* Whether sequences are packed, and a row's has to be looked for. */
enum { BY_OWNER = ATTUNE_HAS_VARLEN && !ATTUNE_HAS_SLOTS };

/* The last sequence that begins at or before the row; the whole warp looks for it. NOTE: one step of a search of 32
 * sections takes as long as one of a search of two, and most batches are found in two steps. */
ATTUNE_INLINE int find_owner(const attune_args &args, attune_i64 token)
{
    const attune_i32 *begins = static_cast<const attune_i32 *>(args.tensor[ATTUNE_CU_Q].data);
    const int lane = (int)threadIdx.x % 32;
    int first = 0, count = (int)args.batch;
    while (count > 1) {
        const int step = (count - 1) / 32 + 1;
        const bool before = (attune_i64)lane * step < count && begins[first + lane * step] <= token;
        const int last = 31 - __clz((int)(__ballot_sync(0xffffffff, before) | 1));
        first += last * step;
        count = min(step, count - last * step);
    }
    return first;
}

/* What a new row's place follows from. */
struct asked {
    attune_i64 owner;  /* its sequence */
    int behind;        /* its distance from the end of that, at least 1; below: it is nobody's */
    attune_i32 answer; /* its slot, or the length of its sequence with the new rows */
};

ATTUNE_INLINE attune_i64 owner_of(const attune_args &args, attune_i64 token)
{
    /* NOTE: a division takes as long as reading from L2, and most steps have one row a sequence. */
    return args.seqlen_q == 1 ? token : (attune_i64)((attune_u64)token / (attune_u64)args.seqlen_q);
}

/* Begins to read; nobody waits for the answer yet. */
ATTUNE_INLINE asked ask_place(const attune_args &args, attune_i64 token, attune_i64 owner)
{
    asked of = {};
    if constexpr (ATTUNE_HAS_SLOTS) {
        of.answer = static_cast<const attune_i32 *>(args.tensor[ATTUNE_SLOTS].data)[token];
    } else {
        of.owner = owner;
        of.answer = static_cast<const attune_i32 *>(args.tensor[ATTUNE_USED_KV].data)[owner];
        attune_i64 first = owner * args.seqlen_q, count = args.seqlen_q;
        if constexpr (BY_OWNER) {
            packed_rows(args.tensor[ATTUNE_CU_Q], owner, args.seqlen_q, args.total_q, first, count);
        }
        of.behind = token < first ? 0 : (int)max(first + count - token, (attune_i64)0);
    }
    return of;
}

/* Bytes from the beginning of a cache to the row of its first head where a new row goes; below 0: it goes nowhere. */
using place = attune_i64;

ATTUNE_INLINE place place_in(const attune_tensor &cache, bool is_key, attune_i64 outer, unsigned row)
{
    return (outer * cache.stride[ATTUNE_STRIDE_BATCH] + row * cache.stride[ATTUNE_STRIDE_SEQ]) *
           (is_key ? keys::element_bytes : values::element_bytes);
}

ATTUNE_INLINE place place_of_slot(const attune_args &args, const attune_tensor &cache, bool is_key, attune_i32 slot)
{
    const unsigned rows = PAGED ? PAGE_ROWS : (unsigned)args.seqlen_kv;
    const attune_i64 outers = PAGED ? args.page_count : args.batch;
    if (slot < 0 || rows == 0 || (unsigned)slot / rows >= outers) {
        return -1;
    }
    return place_in(cache, is_key, (unsigned)slot / rows, (unsigned)slot % rows);
}

/* At the end of its sequence. NOTE: a length below 0 has no place for a row, as one of 0; then all fits an int. */
ATTUNE_INLINE place place_by_length(const attune_args &args, const attune_tensor &cache, bool is_key, const asked &of)
{
    const int position = max(of.answer, 0) - of.behind;
    if (of.behind <= 0 || position < 0 || position >= (int)args.seqlen_kv) {
        return -1;
    }
    if constexpr (PAGED) { /* an entry that is no page is not taken for another: that one is somebody else's */
        const attune_i32 *table =
            is_key ? page_table_of<ATTUNE_K>(args, of.owner) : page_table_of<ATTUNE_V>(args, of.owner);
        const attune_i32 page = table[(unsigned)position / PAGE_ROWS];
        const bool in_pool = page >= 0 && page < (int)args.page_count;
        return in_pool ? place_in(cache, is_key, page, (unsigned)position % PAGE_ROWS) : -1;
    }
    return place_in(cache, is_key, of.owner, (unsigned)position);
}

ATTUNE_INLINE place place_of(const attune_args &args, bool is_key, const asked &of)
{
    const attune_tensor &cache = args.tensor[is_key ? ATTUNE_K : ATTUNE_V];
    return ATTUNE_HAS_SLOTS ? place_of_slot(args, cache, is_key, of.answer) : place_by_length(args, cache, is_key, of);
}

/* ---- Copies --------------------------------------------------------------------------------------------------------
 */

/* A part in registers; its first bytes, where it has less than 16. */
template <int bytes> ATTUNE_INLINE void load_part(const char *from, uint4 &x)
{
    if constexpr (bytes == 16) {
        x = *reinterpret_cast<const uint4 *>(from);
    } else if constexpr (bytes == 8) {
        const uint2 half = *reinterpret_cast<const uint2 *>(from);
        x.x = half.x, x.y = half.y;
    } else if constexpr (bytes == 4) {
        x.x = *reinterpret_cast<const unsigned *>(from);
    } else {
        x.x = *reinterpret_cast<const unsigned short *>(from);
    }
}

template <int bytes> ATTUNE_INLINE void store_part(char *to, const uint4 &x)
{
    if constexpr (bytes == 16) {
        *reinterpret_cast<uint4 *>(to) = x;
    } else if constexpr (bytes == 8) {
        *reinterpret_cast<uint2 *>(to) = make_uint2(x.x, x.y);
    } else if constexpr (bytes == 4) {
        *reinterpret_cast<unsigned *>(to) = x.x;
    } else {
        *reinterpret_cast<unsigned short *>(to) = (unsigned short)x.x;
    }
}

/* A part of the block's: neighbours are neighbours in a row. */
struct part {
    bool is_key, exists;
    int token, head; /* of the block's */
    unsigned at;     /* bytes from the beginning of its row */
};

ATTUNE_INLINE part part_of(unsigned index, int tokens, int heads)
{
    const unsigned row = index / head_parts, at = index % head_parts;
    part p = {at < keys::parts, false, (int)(row / HEADS), (int)(row % HEADS), 0};
    p.exists = p.token < tokens && p.head < heads;
    p.at = p.is_key ? at * keys::bytes : (at - keys::parts) * values::bytes;
    return p;
}

/* Where a part is in a tensor whose row is so many elements from its beginning, but for the head. */
ATTUNE_INLINE char *address(const attune_tensor &tensor, const part &p, attune_i64 row, attune_i64 head)
{
    return static_cast<char *>(tensor.data) +
           (row + head * tensor.stride[ATTUNE_STRIDE_HEAD]) * (p.is_key ? keys::element_bytes : values::element_bytes) +
           p.at;
}

struct Shared {
    place at[2][TOKENS]; /* of V, of K */
    int owner[BY_OWNER ? TOKENS : 1];
};
static_assert(sizeof(Shared) == ATTUNE_SMEM_BYTES, "the descriptor predicts another amount of shared memory");

/* The sequences of the block's rows; all threads take part. */
ATTUNE_INLINE void find_owners(const attune_args &args, attune_i64 first, int tokens, Shared &shared)
{
    for (int t = (int)threadIdx.x / 32; t < tokens; t += warps) {
        shared.owner[t] = find_owner(args, first + t);
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS) append(const __grid_constant__ attune_args args)
{
    extern __shared__ __align__(16) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    const attune_i64 first = (attune_i64)blockIdx.x * TOKENS;
    const int first_head = (int)blockIdx.y * HEADS;
    const int tokens = (int)min((attune_i64)TOKENS, args.total_new - first);
    const int heads = (int)min((attune_i64)HEADS, args.heads_kv - first_head);
    const int thread = (int)threadIdx.x, token = thread % TOKENS;
    const bool asks = thread < 2 * TOKENS && token < tokens, asks_key = thread < TOKENS;
    const char *source[thread_parts];
    uint4 x[thread_parts] = {};
#if ATTUNE_ARCH >= 90
    ptx_griddepcontrol_launch_dependents();
#endif
#pragma unroll
    for (int i = 0; i < thread_parts; ++i) {
        const part p = part_of(threadIdx.x + i * ATTUNE_THREADS, tokens, heads);
        const attune_tensor &from = args.tensor[p.is_key ? ATTUNE_NEW_K : ATTUNE_NEW_V];
        source[i] = address(from, p, (first + p.token) * from.stride[ATTUNE_STRIDE_SEQ], first_head + p.head);
    }
    const attune_i64 owner = BY_OWNER || ATTUNE_HAS_SLOTS ? 0 : owner_of(args, first + token);
#if ATTUNE_ARCH >= 90
    ptx_griddepcontrol_wait(); /* what is above reads no tensor */
#endif
    asked of = {};
    if (!BY_OWNER && asks) {
        of = ask_place(args, first + token, owner);
    }
#pragma unroll
    for (int i = 0; i < thread_parts; ++i) {
        const part p = part_of(threadIdx.x + i * ATTUNE_THREADS, tokens, heads);
        if (p.exists && (keys::bytes == values::bytes || p.is_key)) {
            load_part<keys::bytes>(source[i], x[i]);
        } else if (p.exists) {
            load_part<values::bytes>(source[i], x[i]);
        }
    }
    if constexpr (BY_OWNER) {
        find_owners(args, first, tokens, shared);
        of = ask_place(args, first + token, shared.owner[asks ? token : 0]);
    }
    if (asks) {
        shared.at[asks_key][token] = place_of(args, asks_key, of);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < thread_parts; ++i) {
        const part p = part_of(threadIdx.x + i * ATTUNE_THREADS, tokens, heads);
        char *to = address(args.tensor[p.is_key ? ATTUNE_K : ATTUNE_V], p, 0, first_head + p.head);
        const place at = p.exists ? shared.at[p.is_key][p.token] : -1;
        if (at >= 0 && (keys::bytes == values::bytes || p.is_key)) {
            store_part<keys::bytes>(to + at, x[i]);
        } else if (at >= 0) {
            store_part<values::bytes>(to + at, x[i]);
        }
    }
}
