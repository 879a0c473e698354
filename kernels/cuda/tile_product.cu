/* tile_product: TILE_M x TILE_N numbers of Q K^T by one block, in fp32 at the start of the workspace: both operands
 * into shared memory, a fragment a warp, out again. With TENSOR_CORES 0 the same in scalar arithmetic.
 *
 * What it taught: a product of this size is all latency; a launch costs more than the arithmetic, so what counts is how
 * many of them one launch does. */
#include "device/fragment.cuh"
#include "device/sequence.cuh"
#include "device/tile.cuh"

constexpr int dim = ATTUNE_HEAD_DIM_QK, pitch = dim + 8;

struct Shared {
    element q[TILE_M][pitch];
    element k[TILE_N][pitch];
    float s[TILE_M][TILE_N + 4];
};
static_assert(sizeof(Shared) == ATTUNE_SMEM_BYTES, "the descriptor predicts another amount of shared memory");
static_assert(TILE_M / FRAGMENT_M * (TILE_N / FRAGMENT_N) * 32 == ATTUNE_THREADS, "a warp a fragment");

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS) tile_product(const __grid_constant__ attune_args args)
{
    __shared__ __align__(128) Shared shared;
    const attune_tensor &q = args.tensor[ATTUNE_Q], &k = args.tensor[ATTUNE_K];
    tile_copy<TILE_M, dim>(shared.q, row_of<element>(q, 0, 0, 0), q.stride[ATTUNE_STRIDE_SEQ], 0, TILE_M);
    tile_copy<TILE_N, dim>(shared.k, row_of<element>(k, 0, 0, 0), k.stride[ATTUNE_STRIDE_SEQ], 0, TILE_N);
    ptx_cp_async_commit_group();
    ptx_cp_async_wait_group<0>();
    __syncthreads();

    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int row = warp / (TILE_N / FRAGMENT_N) * FRAGMENT_M, column = warp % (TILE_N / FRAGMENT_N) * FRAGMENT_N;
    accumulator sum[1];
    fragment_clear(sum[0]);
#pragma unroll
    for (int d = 0; d < dim; d += FRAGMENT_K) {
        fragment_multiply<1, true>(sum, place{&shared.q[row][d], pitch}, place{&shared.k[column][d], pitch}, 0);
    }
    fragment_store(sum[0], &shared.s[row][column], TILE_N + 4);
    __syncwarp();
    float *out = static_cast<float *>(args.workspace);
    for (int i = lane; i < FRAGMENT_M * FRAGMENT_N / 4; i += 32) {
        int r = row + i / (FRAGMENT_N / 4), c = column + i % (FRAGMENT_N / 4) * 4;
        *reinterpret_cast<float4 *>(out + r * TILE_N + c) = *reinterpret_cast<const float4 *>(&shared.s[r][c]);
    }
}
