/* merge: partial results over different keys into one, by their LSE.
 *
 * LANES neighbouring threads share a row: every one of them goes over the row's LSEs, which they find in L1, and each
 * adds up its own columns of the states. Weights are divided by their sum before they multiply, so that outputs stay
 * means. A state whose LSE is -inf is empty: whatever it holds is left out. */
#include "device/element.cuh"
#include "device/schedule.cuh"
#include "device/sequence.cuh"

constexpr int dim = ATTUNE_HEAD_DIM_V;
constexpr int lanes = dim > 64 ? 32 : dim > 32 ? 16 : 8; /* of four columns */
constexpr int rows = ATTUNE_THREADS / lanes;
constexpr int groups = (dim + lanes * 4 - 1) / (lanes * 4); /* of four columns in one lane */
static_assert(rows == ROWS && rows * lanes == ATTUNE_THREADS, "the descriptor predicts another number of threads");

constexpr int few = 4; /* states, which are all read at once */

struct merged {
    float top, sum; /* of e^(LSE - top), the sink's included */
    float sink;     /* -inf for none */
    bool empty;     /* all states are */
};

/* The states of a row, `stride` elements from one to the next. */
struct lses {
    const float *first;
    attune_i64 stride;
    int count;
};

ATTUNE_INLINE float sink_of(const attune_args &args, attune_i64 head)
{
    return ATTUNE_HAS_SINK ? *row_of<float>(args.tensor[ATTUNE_SINK], 0, head, 0) : negative_infinity();
}

/* First the largest of all, then the sum. */
ATTUNE_INLINE merged merged_of(float sink)
{
    return merged{sink, 0, sink, true};
}

ATTUNE_INLINE void raise(merged &m, float lse)
{
    m.empty = m.empty && lse == negative_infinity();
    m.top = fmaxf(m.top, lse); /* NaN becomes the sum's */
}

ATTUNE_INLINE float share_of(const merged &m, float lse)
{
    return lse == negative_infinity() ? 0.0f : expf(lse - m.top);
}

ATTUNE_INLINE merged sum_states(const lses &of, float sink)
{
    merged m = merged_of(sink);
#pragma unroll 4
    for (int s = 0; s < of.count; ++s) {
        raise(m, of.first[s * of.stride]);
    }
    m.sum = m.empty ? 0.0f : share_of(m, sink);
#pragma unroll 4
    for (int s = 0; s < of.count && !m.empty; ++s) {
        m.sum += share_of(m, of.first[s * of.stride]);
    }
    return m;
}

/* An infinite value has a weight, however small. */
ATTUNE_INLINE float weigh(float weight, float x)
{
    return (isinf(x) ? fmaxf(weight, 1.17549435e-38f) : weight) * x;
}

ATTUNE_INLINE void add_weighed(float4 &out, float weight, float4 x)
{
    out.x += weigh(weight, x.x);
    out.y += weigh(weight, x.y);
    out.z += weigh(weight, x.z);
    out.w += weigh(weight, x.w);
}

/* Adds the lane's columns of all states. */
ATTUNE_INLINE void add_states(const attune_args &args, const lses &of, const merged &m, const element *first, int lane,
                              float4 (&out)[groups])
{
#pragma unroll 2
    for (int s = 0; s < of.count; ++s) {
        const float lse = of.first[s * of.stride];
        if (lse == negative_infinity()) {
            continue;
        }
        const float weight = expf(lse - m.top) / m.sum;
        const element *row = first + s * args.state_stride_o;
#pragma unroll
        for (int g = 0; g < groups; ++g) {
            add_weighed(out[g], weight, load_four<dim>(row, (g * lanes + lane) * 4));
        }
    }
}

/* The same of few states, which nobody waits for one by one; what empty ones hold is read, and left out. */
ATTUNE_INLINE merged merge_few(const attune_args &args, const lses &of, float sink, const element *first, int lane,
                               float4 (&out)[groups])
{
    float lse[few];
    float4 x[few][groups];
#pragma unroll
    for (int s = 0; s < few; ++s) {
        lse[s] = s < of.count ? of.first[s * of.stride] : negative_infinity();
#pragma unroll
        for (int g = 0; g < groups; ++g) {
            x[s][g] = s < of.count ? load_four<dim>(first + s * args.state_stride_o, (g * lanes + lane) * 4)
                                   : make_float4(0, 0, 0, 0);
        }
    }
    merged m = merged_of(sink);
#pragma unroll
    for (int s = 0; s < few; ++s) {
        raise(m, lse[s]);
    }
    m.sum = m.empty ? 0.0f : share_of(m, sink);
#pragma unroll
    for (int s = 0; s < few; ++s) {
        m.sum += m.empty ? 0.0f : share_of(m, lse[s]);
    }
#pragma unroll
    for (int s = 0; s < few; ++s) {
        const float weight = expf(lse[s] - m.top) / m.sum;
#pragma unroll
        for (int g = 0; g < groups && lse[s] != negative_infinity(); ++g) {
            add_weighed(out[g], weight, x[s][g]);
        }
    }
    return m;
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS) merge(const __grid_constant__ attune_args args)
{
    const int lane = (int)threadIdx.x % lanes;
    const attune_u64 index = (attune_u64)blockIdx.x * rows + threadIdx.x / lanes;
    const attune_u64 heads = args.seqlen_q == 1 ? index : index / (attune_u64)args.seqlen_q;
    const attune_i64 query = (attune_i64)(index - heads * (attune_u64)args.seqlen_q);
    const attune_i64 batch = (attune_i64)(heads / (attune_u64)args.heads_q);
    const attune_i64 head = (attune_i64)(heads - (attune_u64)batch * (attune_u64)args.heads_q);
    follow_launch();
    if (batch >= args.batch) {
        return;
    }
    const lses of = {row_of<float>(args.tensor[ATTUNE_STATE_LSE], batch, head, query), args.state_stride_lse,
                     args.states};
    const element *first = row_of<const element>(args.tensor[ATTUNE_STATE_O], batch, head, query);
    float4 out[groups] = {};
    merged m;
    if (of.count <= few) {
        m = merge_few(args, of, sink_of(args, head), first, lane, out);
    } else {
        m = sum_states(of, sink_of(args, head));
        if (!m.empty) {
            add_states(args, of, m, first, lane, out);
        }
    }
    element_o *to = row_of<element_o>(args.tensor[ATTUNE_O], batch, head, query);
#pragma unroll
    for (int g = 0; g < groups; ++g) {
        store_four<dim>(to, (g * lanes + lane) * 4, out[g]);
    }
    if (args.tensor[ATTUNE_LSE].data != nullptr && lane == 0) {
        *row_of<float>(args.tensor[ATTUNE_LSE], batch, head, query) = m.empty ? m.sink : m.top + logf(m.sum);
    }
}
