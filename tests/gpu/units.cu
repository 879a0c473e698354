/* Device units, one entry each: what kernels are made of, small enough to be checked element by element. Inputs lie at
 * Q, K and V (16-bit elements, or floats where said), results are floats at O. One block. */
#include "device/fragment.cuh"
#include "device/score.cuh"
#include "device/softmax.cuh"
#include "device/swizzle.cuh"
#include "device/tile.cuh"

constexpr int dim = ATTUNE_HEAD_DIM_QK;

template <class T> ATTUNE_INLINE T *raw(const attune_args &args, int role)
{
    return static_cast<T *>(args.tensor[role].data);
}

/* Reductions: 32 floats at Q; for each lane the largest and the sum over groups of 2, 4, 8, 16, 32. */
template <int lanes> ATTUNE_INLINE void reduce(float x, float *out, int lane)
{
    out[lane] = group_max<lanes>(x);
    out[32 + lane] = group_sum<lanes>(x);
}

extern "C" __global__ void unit_reduction(const __grid_constant__ attune_args args)
{
    int lane = (int)threadIdx.x;
    float x = raw<float>(args, ATTUNE_Q)[lane % 32];
    float *out = raw<float>(args, ATTUNE_O);
    if (lane < 32) {
        reduce<2>(x, out, lane);
        reduce<4>(x, out + 64, lane);
        reduce<8>(x, out + 128, lane);
        reduce<16>(x, out + 192, lane);
        reduce<32>(x, out + 256, lane);
    }
}

/* Tiles: 20 rows of `dim` elements at Q, rows 3 ... 18 wanted, rows from 17 on absent. Each way of copying in turn. */
extern "C" __global__ void unit_tile(const __grid_constant__ attune_args args)
{
    constexpr int rows = 16, pitch = dim + 8;
    __shared__ __align__(128) float loaded[rows][pitch];
    __shared__ __align__(128) element copied[rows][pitch];
    __shared__ __align__(128) element swizzled[rows * swizzled_pitch<dim>];
    const element *origin = raw<element>(args, ATTUNE_Q);
    float *out = raw<float>(args, ATTUNE_O);
    bool finite = tile_load<rows, dim, dim>(loaded, origin, dim, 3, 17);
    tile_copy<rows, dim>(copied, origin, dim, 3, 17);
    swizzled_copy<rows, dim, ATTUNE_THREADS>(swizzled, origin, dim, 3, 17, (int)threadIdx.x);
    ptx_cp_async_commit_group();
    ptx_cp_async_wait_group<0>();
    bool all_finite = __syncthreads_and(finite);
    for (int i = (int)threadIdx.x; i < rows * dim; i += ATTUNE_THREADS) {
        int r = i / dim, c = i % dim;
        out[i] = loaded[r][c];
        out[rows * dim + i] = to_float(copied[r][c]);
        out[2 * rows * dim + i] = to_float(swizzled[swizzled_index<swizzled_pitch<dim>>(r, c / 8) + c % 8]);
    }
    if (threadIdx.x == 0) {
        out[3 * rows * dim] = all_finite;
    }
}

/* One 16x16x16 product of ldmatrix operands: A is rows of Q, B rows of K (transposed) and then rows of V. All sums of
 * every lane, in register order, for k-step and column block 1, so that offsets count. */
extern "C" __global__ void unit_fragment16(const __grid_constant__ attune_args args)
{
    constexpr int pitch = swizzled_pitch<dim>;
    __shared__ __align__(128) element a[16 * pitch], b[16 * pitch], v[16 * pitch];
    int lane = (int)threadIdx.x;
    float *out = raw<float>(args, ATTUNE_O);
    swizzled_copy<16, dim, ATTUNE_THREADS>(a, raw<element>(args, ATTUNE_Q), dim, 0, 16, lane);
    swizzled_copy<16, dim, ATTUNE_THREADS>(b, raw<element>(args, ATTUNE_K), dim, 0, 16, lane);
    swizzled_copy<16, dim, ATTUNE_THREADS>(v, raw<element>(args, ATTUNE_V), dim, 0, 16, lane);
    ptx_cp_async_commit_group();
    ptx_cp_async_wait_group<0>();
    __syncthreads();
    if (lane >= 32) {
        return;
    }
    unsigned x[4], y[4], z[4];
    float transposed[8] = {}, plain[8] = {}, chained[8] = {};
    load_operand<pitch>(x, lane_rows<pitch>(a, 0, lane), 0, 1);
    load_operand<pitch>(y, lane_columns<pitch>(b, 0, lane), 0, 1);
    wmma_mma16(transposed, x, y);
    load_operand_trans<pitch>(z, lane_rows<pitch>(v, 0, lane), 0, 1);
    wmma_mma16(plain, x, z);
    sums_as_a16(x, transposed);
    wmma_mma16(chained, x, z);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        out[lane * 8 + i] = transposed[i];
        out[256 + lane * 8 + i] = plain[i];
        out[512 + lane * 8 + i] = chained[i];
    }
}

/* One fragment of fragment.cuh: FRAGMENT_M rows of Q times FRAGMENT_N rows of K (transposed), then times columns of V;
 * rows then scaled by 1, 2, 3, ... */
extern "C" __global__ void unit_fragment(const __grid_constant__ attune_args args)
{
    __shared__ __align__(128) element a[32 * 16], b[32 * 16], v[16 * 32];
    __shared__ __align__(128) float sums[FRAGMENT_M * FRAGMENT_N], factors[FRAGMENT_M];
    int lane = (int)threadIdx.x;
    float *out = raw<float>(args, ATTUNE_O);
    for (int i = lane; i < 32 * 16; i += ATTUNE_THREADS) {
        a[i] = raw<element>(args, ATTUNE_Q)[i];
        b[i] = raw<element>(args, ATTUNE_K)[i];
        v[i] = raw<element>(args, ATTUNE_V)[i];
    }
    for (int i = lane; i < FRAGMENT_M; i += ATTUNE_THREADS) {
        factors[i] = (float)(i + 1);
    }
    __syncthreads();
    if (lane >= 32) {
        return;
    }
    accumulator c[1];
    row_factors rows;
    fragment_clear(c[0]);
    fragment_multiply<1, true>(c, place{a, 16}, place{b, 16}, 0);
    fragment_store(c[0], sums, FRAGMENT_N);
    __syncwarp();
    for (int i = lane; i < FRAGMENT_M * FRAGMENT_N; i += 32) {
        out[i] = sums[i];
    }
    __syncwarp();
    fragment_clear(c[0]);
    fragment_multiply<1, false>(c, place{a, 16}, place{v, 32}, 0);
    fragment_load_factors(rows, factors);
    fragment_scale(c[0], rows);
    fragment_store(c[0], sums, FRAGMENT_N);
    __syncwarp();
    for (int i = lane; i < FRAGMENT_M * FRAGMENT_N; i += 32) {
        out[FRAGMENT_M * FRAGMENT_N + i] = sums[i];
    }
}

/* A ring of two stages over ten phases: warp 0 copies 32 elements a phase, warp 1 adds its phase number and writes. */
extern "C" __global__ void unit_barrier(const __grid_constant__ attune_args args)
{
    __shared__ __align__(128) element ring[2][32 * 8];
    __shared__ unsigned long long full[2], empty[2];
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
            ptx_mbarrier_init(ptx_cvta_shared(&full[i]), 32);
            ptx_mbarrier_init(ptx_cvta_shared(&empty[i]), 1);
        }
    }
    __syncthreads();
    for (int phase = 0; phase < 10 && warp < 2; ++phase) {
        int stage = phase % 2;
        unsigned parity = (unsigned)phase / 2 % 2;
        if (warp == 0) {
            while (!ptx_mbarrier_test_wait_parity(ptx_cvta_shared(&empty[stage]), parity ^ 1)) {
            }
            ptx_cp_async_cg_shared_global_16(ptx_cvta_shared(&ring[stage][lane * 8]),
                                             raw<element>(args, ATTUNE_Q) + phase * 256 + lane * 8, 16);
            ptx_cp_async_mbarrier_arrive_noinc(ptx_cvta_shared(&full[stage]));
        } else {
            while (!ptx_mbarrier_test_wait_parity(ptx_cvta_shared(&full[stage]), parity)) {
            }
            for (int i = lane; i < 256; i += 32) {
                raw<float>(args, ATTUNE_O)[phase * 256 + i] = to_float(ring[stage][i]) + (float)phase;
            }
            __syncwarp();
            if (lane == 0) {
                ptx_mbarrier_arrive(ptx_cvta_shared(&empty[stage]));
            }
        }
    }
    ptx_cp_async_commit_group();
    ptx_cp_async_wait_group<0>();
}

/* The online softmax: lane l takes floats l, l + 32, ... of 128 at Q as logits in units of log2, in four tiles; out: P
 * of each as it ended, then denominator and LSE. */
extern "C" __global__ void unit_softmax(const __grid_constant__ attune_args args)
{
    int lane = (int)threadIdx.x;
    if (lane >= 32) {
        return;
    }
    float *out = raw<float>(args, ATTUNE_O);
    const float *logits = raw<float>(args, ATTUNE_Q);
    online state = {negative_infinity(), 0};
    for (int tile = 0; tile < 4; ++tile) {
        float s = logits[tile * 32 + lane];
        online_raise(&state, group_max<32>(s));
        state.sum += ptx_ex2_approx_ftz_f32(s - subtrahend(state.maximum));
    }
    float sum = group_sum<32>(state.sum), normaliser = online_normaliser(sum);
    for (int tile = 0; tile < 4; ++tile) {
        out[tile * 32 + lane] =
            ptx_ex2_approx_ftz_f32(logits[tile * 32 + lane] - subtrahend(state.maximum)) * normaliser;
    }
    if (lane == 0) {
        out[128] = sum;
        out[129] = online_lse(state.maximum, sum);
    }
}
