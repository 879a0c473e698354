/* honest_maps: keys and values come through tensor maps, which the target makes for each call. */
#include "device/tma.cuh"

struct place;
struct shared_tile;
__device__ void load_by_maps(const attune_args &args, const place &at, shared_tile *shared, int first);
#define LOAD_TILE load_by_maps
#define BEFORE(args, where, shared)                                                                                    \
    if (threadIdx.x == 0) {                                                                                            \
        ptx_mbarrier_init(ptx_cvta_shared(boxes_of(shared)->barrier), 1);                                              \
        ptx_fence_mbarrier_init();                                                                                     \
    }                                                                                                                  \
    __syncthreads();
struct boxes;
__device__ boxes *boxes_of(shared_tile *shared);
#define OWN_ENTRY
#include "../attend.cuh"
#undef OWN_ENTRY

/* As the copy engine writes them, behind the tile. */
struct alignas(128) boxes {
    element key[KEYS][ATTUNE_HEAD_DIM_QK];
    element value[KEYS][ATTUNE_HEAD_DIM_V];
    attune_u64 barrier[16];
};

__device__ boxes *boxes_of(shared_tile *shared)
{
    return reinterpret_cast<boxes *>(shared + 1);
}

__device__ void load_by_maps(const attune_args &args, const place &at, shared_tile *shared, int first)
{
    boxes *box = boxes_of(shared);
    const unsigned barrier = ptx_cvta_shared(box->barrier);
    const int begin = keys_of(args, at.first_row).first / KEYS * KEYS;
    if (threadIdx.x == 0) {
        ptx_fence_proxy_async_shared();
        ptx_mbarrier_arrive_expect_tx(barrier, sizeof box->key + sizeof box->value);
        tma_load(ptx_cvta_shared(box->key), &args.map[0], barrier, L2_EVICT_NORMAL, 0, first, (int)at.head_kv,
                 (int)at.batch);
        tma_load(ptx_cvta_shared(box->value), &args.map[1], barrier, L2_EVICT_NORMAL, 0, first, (int)at.head_kv,
                 (int)at.batch);
    }
    barrier_wait(barrier, (first - begin) / KEYS & 1);
    for (int i = threadIdx.x; i < KEYS * ATTUNE_HEAD_DIM_QK; i += blockDim.x) {
        shared->key[0][i] = to_float(box->key[0][i]);
    }
    for (int i = threadIdx.x; i < KEYS * ATTUNE_HEAD_DIM_V; i += blockDim.x) {
        shared->value[0][i] = to_float(box->value[0][i]);
    }
}

extern "C" __global__ void __launch_bounds__(128) attend(const __grid_constant__ attune_args args)
{
    extern __shared__ __align__(128) unsigned char memory[];
    shared_tile *shared = reinterpret_cast<shared_tile *>(memory);
    const place where = place_of(args, blockIdx.x);
    running state;
    BEFORE(args, where, shared)
    begin_row(args, where, state);
    attend_keys(args, where, shared, state, 0, (int)args.seqlen_kv);
    store_row(args, where, state);
}
