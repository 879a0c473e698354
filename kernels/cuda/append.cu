/* append: new keys and values into a cache, in one piece or in pages.
 *
 * A block copies HEADS heads of TOKENS new rows, K and V. Each thread has its parts of them, 16 bytes where rows allow,
 * on their way before it is known where they go: places are found meanwhile, one thread a row of K or of V, and handed
 * round in shared memory. Nothing is computed, so the latency of a small step is that of its longest chain: length,
 * table entry, store. */
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

/* Elements from the beginning of a cache to the row of its first head where a new row goes; below 0: it goes nowhere.
 */
using place = attune_i64;

ATTUNE_INLINE place place_in(const attune_tensor &cache, attune_i64 outer, attune_i64 row)
{
    return outer * cache.stride[ATTUNE_STRIDE_BATCH] + row * cache.stride[ATTUNE_STRIDE_SEQ];
}

ATTUNE_INLINE place place_of_slot(const attune_args &args, const attune_tensor &cache, attune_i64 token)
{
    const attune_i32 slot = static_cast<const attune_i32 *>(args.tensor[ATTUNE_SLOTS].data)[token];
    const unsigned rows = PAGED ? PAGE_ROWS : (unsigned)args.seqlen_kv;
    const attune_i64 outers = PAGED ? args.page_count : args.batch;
    if (slot < 0 || rows == 0 || (unsigned)slot / rows >= outers) {
        return -1;
    }
    return place_in(cache, (unsigned)slot / rows, (unsigned)slot % rows);
}

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

/* At the end of its sequence, which is as long as USED_KV says with the new rows. */
template <int role>
ATTUNE_INLINE place place_by_length(const attune_args &args, const attune_tensor &cache, attune_i64 token,
                                    attune_i64 owner)
{
    attune_i64 first = owner * args.seqlen_q, count = args.seqlen_q;
    if constexpr (ATTUNE_HAS_VARLEN) {
        packed_rows(args.tensor[ATTUNE_CU_Q], owner, args.seqlen_q, args.total_q, first, count);
    }
    const attune_i64 row = token - first;
    const attune_i64 used = static_cast<const attune_i32 *>(args.tensor[ATTUNE_USED_KV].data)[owner];
    const attune_i64 position = used - count + row;
    if (row < 0 || row >= count || position < 0 || position >= args.seqlen_kv) {
        return -1;
    }
    if constexpr (PAGED) { /* an entry that is no page is not taken for another: that one is somebody else's */
        const attune_i32 page = page_table_of<role>(args, owner)[(unsigned)position / PAGE_ROWS];
        const bool in_pool = page >= 0 && page < args.page_count;
        return in_pool ? place_in(cache, page, (unsigned)position % PAGE_ROWS) : -1;
    }
    return place_in(cache, owner, position);
}

template <int role> ATTUNE_INLINE place place_of(const attune_args &args, attune_i64 token, attune_i64 owner)
{
    const attune_tensor &cache = args.tensor[role];
    return ATTUNE_HAS_SLOTS ? place_of_slot(args, cache, token) : place_by_length<role>(args, cache, token, owner);
}

struct Shared {
    place k[TOKENS], v[TOKENS];
    int owner[ATTUNE_HAS_VARLEN && !ATTUNE_HAS_SLOTS ? TOKENS : 1];
};
static_assert(sizeof(Shared) == ATTUNE_SMEM_BYTES, "the descriptor predicts another amount of shared memory");

/* Those of all rows of the block, of which there are `count`; when it returns, everybody may read them. */
ATTUNE_INLINE void find_places(const attune_args &args, attune_i64 first, int count, Shared &shared)
{
    const int thread = (int)threadIdx.x;
    if constexpr (ATTUNE_HAS_VARLEN && !ATTUNE_HAS_SLOTS) {
        for (int t = thread / 32; t < count; t += warps) {
            shared.owner[t] = find_owner(args, first + t);
        }
        __syncthreads();
    }
    const int t = thread % TOKENS;
    if (thread < 2 * TOKENS && t < count) {
        attune_i64 owner = 0;
        if constexpr (ATTUNE_HAS_VARLEN && !ATTUNE_HAS_SLOTS) {
            owner = shared.owner[t];
        } else if constexpr (!ATTUNE_HAS_SLOTS) {
            owner = (attune_i64)((attune_u64)(first + t) / (attune_u64)args.seqlen_q);
        }
        if (thread < TOKENS) {
            shared.k[t] = place_of<ATTUNE_K>(args, first + t, owner);
        } else {
            shared.v[t] = place_of<ATTUNE_V>(args, first + t, owner);
        }
    }
    __syncthreads();
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

/* Part `index` of the block's: neighbours are neighbours in a row. */
struct part {
    int token, head, at; /* `at` counts the parts of K's row, then those of V's */
};

ATTUNE_INLINE part part_of(int index)
{
    const int row = index / head_parts;
    return part{row / HEADS, row % HEADS, index % head_parts};
}

/* Where the part is in a tensor whose row of head 0 is so many elements from its beginning. */
template <class of> ATTUNE_INLINE char *address(const attune_tensor &tensor, attune_i64 row, attune_i64 head, int at)
{
    return static_cast<char *>(tensor.data) + (row + head * tensor.stride[ATTUNE_STRIDE_HEAD]) * of::element_bytes +
           at * of::bytes;
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS) append(const __grid_constant__ attune_args args)
{
    extern __shared__ __align__(16) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    const attune_i64 first = (attune_i64)blockIdx.x * TOKENS;
    const int first_head = (int)blockIdx.y * HEADS;
    const int tokens = (int)min((attune_i64)TOKENS, args.total_new - first);
    const int heads = (int)min((attune_i64)HEADS, args.heads_kv - first_head);
    const attune_tensor &new_k = args.tensor[ATTUNE_NEW_K], &new_v = args.tensor[ATTUNE_NEW_V];
    uint4 x[thread_parts] = {};
    follow_launch();
#pragma unroll
    for (int i = 0; i < thread_parts; ++i) {
        const part p = part_of((int)threadIdx.x + i * ATTUNE_THREADS);
        if (p.token >= tokens || p.head >= heads) {
            continue;
        }
        const attune_i64 row = first + p.token;
        if (p.at < keys::parts) {
            load_part<keys::bytes>(
                address<keys>(new_k, row * new_k.stride[ATTUNE_STRIDE_SEQ], first_head + p.head, p.at), x[i]);
        } else {
            load_part<values::bytes>(
                address<values>(new_v, row * new_v.stride[ATTUNE_STRIDE_SEQ], first_head + p.head, p.at - keys::parts),
                x[i]);
        }
    }
    find_places(args, first, tokens, shared);
#pragma unroll
    for (int i = 0; i < thread_parts; ++i) {
        const part p = part_of((int)threadIdx.x + i * ATTUNE_THREADS);
        if (p.token >= tokens || p.head >= heads) {
            continue;
        }
        const bool is_key = p.at < keys::parts;
        const place to = is_key ? shared.k[p.token] : shared.v[p.token];
        if (to < 0) {
            continue;
        }
        if (is_key) {
            store_part<keys::bytes>(address<keys>(args.tensor[ATTUNE_K], to, first_head + p.head, p.at), x[i]);
        } else {
            store_part<values::bytes>(
                address<values>(args.tensor[ATTUNE_V], to, first_head + p.head, p.at - keys::parts), x[i]);
        }
    }
}
