/* cutlass: attention from the templates of NVIDIA's CUTLASS 2, in plain __global__ kernels: Q K^T into the workspace, a
 * softmax in place, P V. Built ahead by nvcc, because CUTLASS needs the toolkit's headers; the descriptor names an
 * entry by what is to be computed, in which class of arithmetic, in which type.
 *
 * Only the parts below the host are used: tile iterators, a block's main loop, an epilogue. The grid, the pointers and
 * the shared memory are attune's, so nothing here can end as CUTLASS's "Error Internal" (docs/cutlass.md).
 *
 * What it taught: a template library gives a good GEMM in thirty lines, and no way to look inside: what fusing would
 * save, the way of S through memory, stays.
 *
 * Declared: a non-finite value may reach rows of its tile that do not see it (0 x NaN). */
#include "cutlass/bfloat16.h"
#include "cutlass/epilogue/thread/linear_combination.h"
#include "cutlass/epilogue/threadblock/default_epilogue_simt.h"
#include "cutlass/epilogue/threadblock/default_epilogue_tensor_op.h"
#include "cutlass/gemm/threadblock/default_mma.h"

/* The image serves every problem, so what is a macro elsewhere is read from args here. */
#define ATTUNE_DTYPE 0
#define ATTUNE_DTYPE_K 0
#define ATTUNE_DTYPE_V 0
#define ATTUNE_DTYPE_O 0
#define ATTUNE_DTYPE_BIAS 0
#define ATTUNE_ALIGN 16
#define ATTUNE_OFFSET_KIND 0
#define ATTUNE_WINDOW_LEFT 0
#define ATTUNE_WINDOW_RIGHT 2 /* of a causal mask; keys_until knows whether there is one */
#define ATTUNE_HAS_SOFTCAP 0
#define ATTUNE_HAS_ALIBI 0
#define ATTUNE_HAS_BIAS 0
#define ATTUNE_HAS_MASK 0
#define ATTUNE_HAS_SINK 0
#define ATTUNE_HAS_SEQUSED 0
#define ATTUNE_HAS_VARLEN 0
#define ATTUNE_HAS_PAGED 0
#define ATTUNE_HAS_DRAFT 0
#include "cutlass.h"
#include "device/score.cuh"
#include "device/softmax.cuh"

namespace
{

using cutlass::gemm::GemmShape;
using RowMajor = cutlass::layout::RowMajor;
using ColumnMajor = cutlass::layout::ColumnMajor;
using Simt = cutlass::arch::OpClassSimt;
using TensorOp = cutlass::arch::OpClassTensorOp;

/* ---- The two classes of arithmetic --------------------------------------------------------------------------------
 */

/* 16-bit operands on tensor cores, 16 bytes a copy, through a ring of stages in shared memory. */
template <class Element, class OpClass> struct Arithmetic {
    static constexpr int tile_k = AT_CUTLASS_TENSOR_K, align = 8, stages = AT_CUTLASS_STAGES;
    using Arch = cutlass::arch::Sm80;
    using Tile = GemmShape<AT_CUTLASS_TILE, AT_CUTLASS_TILE, tile_k>;
    using Warp = GemmShape<AT_CUTLASS_TILE / 2, AT_CUTLASS_TILE / 2, tile_k>;
    using Instruction = GemmShape<16, 8, 16>;
};

/* FMAs in fp32, an element a load, double buffering through registers. */
template <class Element> struct Arithmetic<Element, Simt> {
    static constexpr int tile_k = AT_CUTLASS_SIMT_K, align = 1, stages = 2;
    using Arch = cutlass::arch::Sm50;
    using Tile = GemmShape<AT_CUTLASS_TILE, AT_CUTLASS_TILE, tile_k>;
    using Warp = GemmShape<AT_CUTLASS_TILE / 2, AT_CUTLASS_TILE / 2, tile_k>;
    using Instruction = GemmShape<1, 1, 1>;
};

/* A block's product of Element matrices, B in LayoutB, into Out. */
template <class Element, class OpClass, class LayoutB, class Out> struct Product {
    using A = Arithmetic<Element, OpClass>;
    using Mma =
        typename cutlass::gemm::threadblock::DefaultMma<Element, RowMajor, A::align, Element, LayoutB, A::align, float,
                                                        RowMajor, OpClass, typename A::Arch, typename A::Tile,
                                                        typename A::Warp, typename A::Instruction, A::stages,
                                                        cutlass::arch::OpMultiplyAdd>::ThreadblockMma;
    static constexpr int access = A::align == 1 ? 1 : 16 / (int)sizeof(Out);
    using Convert = cutlass::epilogue::thread::LinearCombination<Out, access, float, float,
                                                                 cutlass::epilogue::thread::ScaleType::Nothing>;
    template <class Class, class Unused> struct Choose {
        using Epilogue =
            typename cutlass::epilogue::threadblock::DefaultEpilogueTensorOp<typename A::Tile, typename Mma::Operator,
                                                                             1, Convert, access>::Epilogue;
    };
    template <class Unused> struct Choose<Simt, Unused> {
        using Epilogue =
            typename cutlass::epilogue::threadblock::DefaultEpilogueSimt<typename A::Tile, typename Mma::Operator,
                                                                         Convert, access>::Epilogue;
    };
    using Epilogue = typename Choose<OpClass, void>::Epilogue;

    union Shared {
        typename Mma::SharedStorage main_loop;
        typename Epilogue::SharedStorage epilogue;
    };
    static_assert(Mma::WarpCount::kCount * 32 == AT_CUTLASS_THREADS, "the descriptor predicts other threads");
};

/* ---- A tile of a product ------------------------------------------------------------------------------------------
 */

struct place {
    int tile_m, tile_n, head;
    attune_i64 batch;
};

/* The block's tile of an m x n product, of which there is one for each head of each sequence. */
ATTUNE_INLINE place place_of(const attune_args &args, attune_i64 m, attune_i64 n)
{
    unsigned tiles_m = (unsigned)((m + AT_CUTLASS_TILE - 1) / AT_CUTLASS_TILE);
    unsigned tiles_n = (unsigned)((n + AT_CUTLASS_TILE - 1) / AT_CUTLASS_TILE);
    unsigned rest = blockIdx.x / tiles_n;
    place at;
    at.tile_n = (int)(blockIdx.x % tiles_n);
    at.tile_m = (int)(rest % tiles_m);
    rest /= tiles_m;
    at.head = (int)(rest % (unsigned)args.heads_q);
    at.batch = rest / (unsigned)args.heads_q;
    return at;
}

/* An operand: its first element, the elements from one row to the next, and how far it may be read. */
template <class T> struct matrix {
    T *data;
    attune_i64 stride;
    int rows, columns;
};

/* The block's tile of D = A B, `steps` tiles of k. Rows of D beyond d.rows are not written, columns by whole accesses.
 */
template <class P, class Element, class Out>
ATTUNE_INLINE void multiply(typename P::Shared &shared, const place &at, matrix<Element> a, matrix<Element> b,
                            matrix<Out> d, int steps)
{
    int row = at.tile_m * AT_CUTLASS_TILE, column = at.tile_n * AT_CUTLASS_TILE;
    int warp = __shfl_sync(0xffffffff, (int)threadIdx.x / 32, 0), lane = (int)threadIdx.x % 32;
    using FromA = typename P::Mma::IteratorA;
    using FromB = typename P::Mma::IteratorB;
    using To = typename P::Epilogue::OutputTileIterator;
    FromA from_a(typename FromA::Params(typename FromA::Layout(a.stride)), a.data, {a.rows, a.columns},
                 (int)threadIdx.x, {row, 0});
    FromB from_b(typename FromB::Params(typename FromB::Layout(b.stride)), b.data, {b.rows, b.columns},
                 (int)threadIdx.x, {0, column});
    typename P::Mma::FragmentC sums;
    sums.clear();
    if (steps > 0) {
        typename P::Mma mma(shared.main_loop, (int)threadIdx.x, warp, lane);
        mma(steps, sums, from_a, from_b, sums);
    }
    __syncthreads(); /* the epilogue uses the same memory */
    To to(typename To::Params(RowMajor(d.stride)), d.data, {d.rows, d.columns}, (int)threadIdx.x, {row, column});
    typename P::Epilogue epilogue(shared.epilogue, (int)threadIdx.x, warp, lane);
    typename P::Convert convert(typename P::Convert::Params{});
    epilogue(convert, to, sums, to);
}

/* ---- Where S and P are --------------------------------------------------------------------------------------------
 */

/* Elements of a row of S, in floats. */
ATTUNE_INLINE attune_i64 pitch_of(const attune_args &args)
{
    return (args.seqlen_kv + AT_CUTLASS_ROUND - 1) / AT_CUTLASS_ROUND * AT_CUTLASS_ROUND;
}

ATTUNE_INLINE float *scores_of(const attune_args &args, attune_i64 batch, attune_i64 head)
{
    return static_cast<float *>(args.workspace) + (batch * args.heads_q + head) * args.seqlen_q * pitch_of(args);
}

/* NOTE: CUTLASS's iterators take the odd tile of k first and then step by its width, so with an odd number of keys all
 * later copies of 16 bytes would be misaligned. P has a gap of zeros behind the keys of the odd tile up to a multiple
 * of 8 elements; V needs none, its rows beyond the odd tile's are read as zeros. */
struct key_layout {
    int odd; /* keys of the first tile */
    int gap; /* zeros behind them */
};

template <class Element, class OpClass> ATTUNE_INLINE key_layout key_layout_of(int keys)
{
    constexpr int tile_k = Arithmetic<Element, OpClass>::tile_k, align = Arithmetic<Element, OpClass>::align;
    int odd = keys % tile_k == 0 ? min(keys, tile_k) : keys % tile_k;
    return {odd, (odd + align - 1) / align * align - odd};
}

/* How many keys the rows up to `row` see. For keys_seen a mask is a macro, here an argument: the end of its window is
 * what the house's hooks are asked for, where there is one. */
ATTUNE_INLINE int keys_until(const attune_args &args, int row)
{
    attune_i64 end = args.seqlen_kv;
    if (args.features & ATTUNE_FEATURE_CAUSAL) {
        end = min(end, window_end(args, row + args.seqlen_kv - args.seqlen_q));
    }
    return (int)max(end, (attune_i64)0);
}

ATTUNE_INLINE int last_row(const attune_args &args, const place &at)
{
    return (int)min(args.seqlen_q, (attune_i64)(at.tile_m + 1) * AT_CUTLASS_TILE) - 1;
}

/* ---- The steps ----------------------------------------------------------------------------------------------------
 */

/* S = Q K^T, unscaled. Tiles that no row sees are left as they are: nobody reads them. */
template <class Element, class OpClass> ATTUNE_INLINE void scores(const attune_args &args)
{
    using P = Product<Element, OpClass, ColumnMajor, float>;
    __shared__ typename P::Shared shared;
    static_assert(sizeof shared == AT_CUTLASS_SMEM(P::A::align != 1, sizeof(Element)), "the descriptor predicts less");
    place at = place_of(args, args.seqlen_q, args.seqlen_kv);
    if (at.tile_n * AT_CUTLASS_TILE >= keys_until(args, last_row(args, at))) {
        return;
    }
    int rows = (int)args.seqlen_q, keys = (int)args.seqlen_kv, dim = args.head_dim_qk;
    attune_i64 head_kv = at.head / (args.heads_q / args.heads_kv);
    const attune_tensor &q = args.tensor[ATTUNE_Q], &k = args.tensor[ATTUNE_K];
    multiply<P, Element, float>(shared, at,
                                {row_of<Element>(q, at.batch, at.head, 0), q.stride[ATTUNE_STRIDE_SEQ], rows, dim},
                                {row_of<Element>(k, at.batch, head_kv, 0), k.stride[ATTUNE_STRIDE_SEQ], dim, keys},
                                {scores_of(args, at.batch, at.head), pitch_of(args), rows, (int)pitch_of(args)},
                                (dim + P::A::tile_k - 1) / P::A::tile_k);
}

/* O = P V. */
template <class Element, class OpClass> ATTUNE_INLINE void values(const attune_args &args)
{
    using P = Product<Element, OpClass, RowMajor, Element>;
    __shared__ typename P::Shared shared;
    static_assert(sizeof shared <= AT_CUTLASS_SMEM(P::A::align != 1, sizeof(Element)), "the descriptor predicts less");
    place at = place_of(args, args.seqlen_q, args.head_dim_v);
    key_layout keys = key_layout_of<Element, OpClass>((int)args.seqlen_kv);
    int seen = keys_until(args, last_row(args, at));
    int steps = seen == 0 ? 0 : 1 + (max(seen - keys.odd, 0) + P::A::tile_k - 1) / P::A::tile_k;
    int end = keys.odd + max(steps - 1, 0) * P::A::tile_k, rows = (int)args.seqlen_q, dim = args.head_dim_v;
    attune_i64 head_kv = at.head / (args.heads_q / args.heads_kv);
    const attune_tensor &v = args.tensor[ATTUNE_V], &o = args.tensor[ATTUNE_O];
    multiply<P, Element, Element>(
        shared, at,
        {reinterpret_cast<Element *>(scores_of(args, at.batch, at.head)),
         pitch_of(args) * (attune_i64)(sizeof(float) / sizeof(Element)), rows, end + keys.gap},
        {row_of<Element>(v, at.batch, head_kv, 0), v.stride[ATTUNE_STRIDE_SEQ], end, dim},
        {row_of<Element>(o, at.batch, at.head, 0), o.stride[ATTUNE_STRIDE_SEQ], rows, dim}, steps);
}

ATTUNE_INLINE float logit_of(float dot, float scale, bool seen)
{
    return seen ? dot * scale : negative_infinity();
}

/* P from S in place, a warp a row: one pass for maximum and sum, one for P, which is written over what has been read.
 */
template <class Element, class OpClass> ATTUNE_INLINE void softmax(const attune_args &args)
{
    constexpr int warps = AT_CUTLASS_THREADS / 32;
    attune_i64 index = (attune_i64)blockIdx.x * warps + threadIdx.x / 32;
    if (index >= args.batch * args.heads_q * args.seqlen_q) {
        return;
    }
    int lane = (int)threadIdx.x % 32, query = (int)(index % args.seqlen_q), pitch = (int)pitch_of(args);
    attune_i64 head = index / args.seqlen_q % args.heads_q, batch = index / args.seqlen_q / args.heads_q;
    float *s = scores_of(args, batch, head) + (attune_i64)query * pitch, scale = score_factor(args);
    Element *p = reinterpret_cast<Element *>(s);
    key_layout keys = key_layout_of<Element, OpClass>((int)args.seqlen_kv);
    int seen = keys_until(args, query);
    online state = {negative_infinity(), 0};
    for (int key = lane * 4; key < seen; key += 32 * 4) {
        float4 four = *reinterpret_cast<const float4 *>(s + key);
        float x = logit_of(four.x, scale, key < seen), y = logit_of(four.y, scale, key + 1 < seen);
        float z = logit_of(four.z, scale, key + 2 < seen), w = logit_of(four.w, scale, key + 3 < seen);
        online_raise(&state, fmaxf(fmaxf(x, y), fmaxf(z, w)));
        float top = subtrahend(state.maximum);
        state.sum += ptx_ex2_approx_ftz_f32(x - top) + ptx_ex2_approx_ftz_f32(y - top) +
                     ptx_ex2_approx_ftz_f32(z - top) + ptx_ex2_approx_ftz_f32(w - top);
    }
    online_raise(&state, group_max<32>(state.maximum));
    float sum = group_sum<32>(state.sum), factor = online_normaliser(sum), top = subtrahend(state.maximum);
    for (int first = 0; first < pitch; first += 32) {
        int at = first + lane, key = at < keys.odd ? at : at - keys.gap;
        bool there = key < seen && (at < keys.odd || key >= keys.odd);
        float weight = there ? ptx_ex2_approx_ftz_f32(s[key] * scale - top) * factor : 0.0f;
        __syncwarp(); /* the neighbours have read what is written next */
        if (at < pitch) {
            p[at] = Element(weight);
        }
        __syncwarp();
    }
    if (lane == 0 && args.tensor[ATTUNE_LSE].data != nullptr) {
        *row_of<float>(args.tensor[ATTUNE_LSE], batch, head, query) = online_lse(state.maximum, sum);
    }
}

} // namespace

/* Everything takes the one argument, and keeps its registers within what the block can have. */
#define ENTRY(step, name, Element, OpClass)                                                                            \
    extern "C" __global__ void __launch_bounds__(AT_CUTLASS_THREADS)                                                   \
        cutlass_##step##_##name(const __grid_constant__ attune_args args)                                              \
    {                                                                                                                  \
        step<Element, OpClass>(args);                                                                                  \
    }
#define ENTRIES(name, Element, OpClass)                                                                                \
    ENTRY(scores, name, Element, OpClass)                                                                              \
    ENTRY(softmax, name, Element, OpClass)                                                                             \
    ENTRY(values, name, Element, OpClass)

ENTRIES(simt_fp32, float, Simt)
ENTRIES(simt_fp16, cutlass::half_t, Simt)
ENTRIES(tensor_fp16, cutlass::half_t, TensorOp)
ENTRIES(tensor_bf16, cutlass::bfloat16_t, TensorOp)
