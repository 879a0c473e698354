/* Keys and values come by asynchronous copies, a tile ahead of their use: between the two a tile is computed with, so
 * that nobody who forgets to wait is ever early. A kernel of the zoo plants its fault by one of the macros. */
#include "device/visibility.cuh"

#ifndef COPIER
#define COPIER ATTUNE_INLINE
#endif
#ifndef COPIED_KEYS
#define COPIED_KEYS(barrier) /* a tile's keys are under way */
#endif
#ifndef COPIED
#define COPIED(barrier) COMMIT() /* and its values */
#endif
#ifndef AWAIT
#define AWAIT(barrier, phase) asm volatile("cp.async.wait_group 1;" : : : "memory") /* all but the next tile */
#endif
#ifndef AWAIT_FIRST
#define AWAIT_FIRST() asm volatile("cp.async.wait_all;" : : : "memory") /* of a tile that nothing hides */
#endif
#define COMMIT() asm volatile("cp.async.commit_group;" : : : "memory")

struct place;
struct shared_tile;
__device__ void load_ahead(const attune_args &args, const place &at, shared_tile *shared, int first);
__device__ void make_barriers(shared_tile *shared);
#define LOAD_TILE load_ahead
#define BEFORE(args, where, shared) make_barriers(shared);
#include "../attend.cuh"

/* Behind the tile: two more as they come, a barrier for each, and 16 bytes for each thread. */
struct ahead {
    element key[2][KEYS][ATTUNE_HEAD_DIM_QK];
    element value[2][KEYS][ATTUNE_HEAD_DIM_V];
    attune_u64 barrier[2];
    unsigned own[128][4];
};

ATTUNE_INLINE ahead *ahead_of(shared_tile *shared)
{
    return reinterpret_cast<ahead *>(shared + 1);
}

ATTUNE_INLINE unsigned place_in_shared(const void *at)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

__device__ void make_barriers(shared_tile *shared)
{
    if (threadIdx.x < 2) {
        const unsigned barrier = place_in_shared(&ahead_of(shared)->barrier[threadIdx.x]);
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(barrier), "r"(blockDim.x) : "memory");
    }
    __syncthreads();
}

/* Until the phase of this parity is over. */
ATTUNE_INLINE void await_phase(unsigned barrier, unsigned parity)
{
    unsigned is_over = 0;
    while (is_over == 0) {
        asm volatile("{\n.reg .pred is;\nmbarrier.test_wait.parity.shared.b64 is, [%1], %2;\nselp.u32 %0, 1, 0, is;\n}"
                     : "=r"(is_over)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    }
}

/* Eight elements to a copy; rows that are not there are zeros, which nothing is read for. */
template <int COLUMNS>
COPIER void copy_rows(const attune_args &args, int role, const place &at, element (*to)[COLUMNS], int first)
{
    for (int i = threadIdx.x; i < KEYS * (COLUMNS / 8); i += blockDim.x) {
        const int j = i / (COLUMNS / 8), c = i % (COLUMNS / 8) * 8;
        const bool is_there = first + j < args.seqlen_kv;
        const element *row = row_of<element>(args.tensor[role], at.batch, at.head_kv, is_there ? first + j : 0);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :
                     : "r"(place_in_shared(&to[j][c])), "l"(row + c), "r"(is_there ? 16 : 0)
                     : "memory");
    }
}

ATTUNE_INLINE void copy_tile(const attune_args &args, const place &at, ahead *tiles, int first)
{
    const int buffer = first / KEYS % 2;
    copy_rows<ATTUNE_HEAD_DIM_QK>(args, ATTUNE_K, at, tiles->key[buffer], first);
    COPIED_KEYS(place_in_shared(&tiles->barrier[buffer]));
    copy_rows<ATTUNE_HEAD_DIM_V>(args, ATTUNE_V, at, tiles->value[buffer], first);
    COPIED(place_in_shared(&tiles->barrier[buffer]));
}

__device__ void load_ahead(const attune_args &args, const place &at, shared_tile *shared, int first)
{
    ahead *tiles = ahead_of(shared);
    const int begin = keys_of(args, at.first_row).first / KEYS * KEYS, buffer = first / KEYS % 2;
    if (first == begin) {
        copy_tile(args, at, tiles, first);
        AWAIT_FIRST();
    }
    copy_tile(args, at, tiles, first + KEYS);
    AWAIT(place_in_shared(&tiles->barrier[buffer]), (first - begin) / KEYS / 2 & 1);
    __syncthreads();
    for (int i = threadIdx.x; i < KEYS * ATTUNE_HEAD_DIM_QK; i += blockDim.x) {
        shared->key[0][i] = to_float(tiles->key[buffer][0][i]);
    }
    for (int i = threadIdx.x; i < KEYS * ATTUNE_HEAD_DIM_V; i += blockDim.x) {
        shared->value[0][i] = to_float(tiles->value[buffer][0][i]);
    }
}
