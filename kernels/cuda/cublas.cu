/* cublas: the middle of three steps. cuBLAS writes S = Q K^T into the workspace in fp32, this kernel turns it into P in
 * place, cuBLAS multiplies P by V. A warp takes a row: one pass for maximum and sum, one for P, which is written over
 * what has been read (a 16-bit row takes the first half of its fp32 row).
 *
 * What it taught: tensor cores without effort, and what the way through memory costs: S is written once and read twice,
 * so time and workspace grow with the square of the sequence whatever the arithmetic does. */
#include "device/score.cuh"
#include "device/softmax.cuh"

constexpr int WARP = 32;
static_assert(ATTUNE_THREADS == WARP * ROWS, "a warp for each of the block's rows");
static_assert(ATTUNE_SMEM_BYTES == 0, "no shared memory is used");

/* Where the row's scores begin, and P after them. */
struct score_row {
    float *s;
    element *p;
};

ATTUNE_INLINE score_row score_row_of(const attune_args &args, attune_i64 index)
{
    attune_i64 pitch = (args.seqlen_kv + 7) / 8 * 8;
    float *row = static_cast<float *>(args.workspace) + index * pitch;
    return {row, reinterpret_cast<element *>(row)};
}

/* The four scores from `key` on, -inf where there is no key or it is hidden. */
ATTUNE_INLINE float4 read_scores(const attune_args &args, const sequence &at, const query_row &query,
                                 const score_row &row, int key)
{
    float4 dot = *reinterpret_cast<const float4 *>(row.s + key);
    float d[4] = {dot.x, dot.y, dot.z, dot.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        d[i] = visible_score(args, at, query, key + i, d[i]);
    }
    return make_float4(d[0], d[1], d[2], d[3]);
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS) softmax_cublas(const __grid_constant__ attune_args args)
{
    attune_i64 index = (attune_i64)blockIdx.x * ROWS + threadIdx.x / WARP;
    if (index >= args.batch * args.heads_q * args.seqlen_q) {
        return;
    }
    int lane = (int)threadIdx.x % WARP;
    int query = (int)(index % args.seqlen_q), head = (int)(index / args.seqlen_q % args.heads_q);
    int batch = (int)(index / args.seqlen_q / args.heads_q);
    sequence at = sequence_of(args, batch);
    query_row row = query_row_of(args, at, batch, head, query);
    score_row scores = score_row_of(args, index);
    int padded = (int)((args.seqlen_kv + 7) / 8 * 8);

    online state = online_start(args, head, lane == 0);
    for (int key = lane * 4; key < padded; key += WARP * 4) {
        float4 s = read_scores(args, at, row, scores, key);
        online_raise(&state, fmaxf(fmaxf(s.x, s.y), fmaxf(s.z, s.w)));
        float top = subtrahend(state.maximum);
        state.sum += ptx_ex2_approx_ftz_f32(s.x - top) + ptx_ex2_approx_ftz_f32(s.y - top) +
                     ptx_ex2_approx_ftz_f32(s.z - top) + ptx_ex2_approx_ftz_f32(s.w - top);
    }
    online_raise(&state, group_max<WARP>(state.maximum));
    float sum = group_sum<WARP>(state.sum), factor = online_normaliser(sum), top = subtrahend(state.maximum);
    for (int first = 0; first < padded; first += WARP * 4) {
        int key = first + lane * 4;
        float4 s = make_float4(0, 0, 0, 0);
        if (key < padded) {
            s = read_scores(args, at, row, scores, key);
        }
        __syncwarp(); /* the neighbours have read what is written next */
        if (key < padded) {
            *reinterpret_cast<element4 *>(scores.p + key) =
                element4{{from_float<element>(ptx_ex2_approx_ftz_f32(s.x - top) * factor),
                          from_float<element>(ptx_ex2_approx_ftz_f32(s.y - top) * factor),
                          from_float<element>(ptx_ex2_approx_ftz_f32(s.z - top) * factor),
                          from_float<element>(ptx_ex2_approx_ftz_f32(s.w - top) * factor)}};
        }
        __syncwarp();
    }
    if (lane == 0 && wants_lse(args)) {
        store_lse(args, at.batch, head, at.first_q + query, state.maximum, sum);
    }
}
