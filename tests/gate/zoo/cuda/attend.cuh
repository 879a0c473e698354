/* What the CUDA zoo's kernels share: attention in tiles with an online softmax, as an honest author would first write
 * it. A block of 128 threads computes 32 query rows of one head, four threads a row; keys and values pass through
 * shared memory, 32 at a time. A kernel of the zoo plants its fault by one of the macros below, and includes this. */
#include "device/visibility.cuh"

#ifndef SCALE_BY
#define SCALE_BY 1.0f /* the scale is multiplied by this */
#endif
#ifndef FORGETS_TAIL
#define FORGETS_TAIL 0 /* 1: the last tile is left out where it is not full */
#endif
#ifndef ROUNDED
#define ROUNDED(weight) (weight) /* an element of P */
#endif
#ifndef CONVERTED
#define CONVERTED(value) from_float<element>(value) /* an element of O */
#endif
#ifndef RAISED
#define RAISED(top, score) fmaxf(top, score) /* the maximum so far */
#endif
#ifndef TOP_FIRST
#define TOP_FIRST negative_infinity() /* the maximum before any key */
#endif
#ifndef LOGIT
#define LOGIT(score) (score)
#endif
#ifndef CAUSAL_SHIFT
#define CAUSAL_SHIFT 0 /* keys too many that a causal row sees */
#endif
#ifndef WINDOW_SHIFT
#define WINDOW_SHIFT 0 /* keys too many that a window shows on its left */
#endif
#ifndef MULTIPLIES_HIDDEN
#define MULTIPLIES_HIDDEN 0 /* 1: hidden keys of a tile are multiplied by zero instead of left out */
#endif
#ifndef HEAD_TO
#define HEAD_TO(head) (head) /* where a head's result goes */
#endif
#ifndef LOADED
#define LOADED() __syncthreads()
#endif
#ifndef USED
#define USED() __syncthreads()
#endif
#ifndef LOAD_TILE
#define LOAD_TILE load_tile
#endif
#ifndef PLACED
#define PLACED(args) (args) /* by which a thread finds its row */
#endif
#ifndef SUMMED
#define SUMMED(value) (value) /* an element of O under way */
#endif
#ifndef LSE_UNIT
#define LSE_UNIT 1.0f
#endif
#ifndef BEFORE
#define BEFORE(args, where, shared) /* before anything is read; may return */
#endif
#ifndef BEGUN
#define BEGUN(state, where, shared) /* a row's sums are cleared */
#endif
#ifndef KEYS_END
#define KEYS_END (int)args.seqlen_kv /* keys from here on are left out */
#endif
#ifndef ENDED
#define ENDED(args, where, state) /* a row's sums are complete */
#endif

constexpr int ROWS = 32, LANES = 4, KEYS = 32;
constexpr int PART_QK = (ATTUNE_HEAD_DIM_QK + LANES - 1) / LANES; /* columns of a thread: lane, lane + 4, ... */
constexpr int PART_V = (ATTUNE_HEAD_DIM_V + LANES - 1) / LANES;

struct shared_tile {
    float key[KEYS][ATTUNE_HEAD_DIM_QK];
    float value[KEYS][ATTUNE_HEAD_DIM_V];
};

/* A thread's row. */
struct place {
    attune_i64 batch, head, head_kv, first_row, row;
    int lane;
    bool inside;
};

struct running {
    float query[PART_QK];
    float out[PART_V];
    float top, sum; /* top in units of log2 */
    bool bare;      /* for faults that heed the LSE's absence */
};

ATTUNE_INLINE place place_of(const attune_args &args, attune_i64 block)
{
    const attune_i64 tiles = (args.seqlen_q + ROWS - 1) / ROWS;
    place at;
    at.first_row = block % tiles * ROWS;
    at.row = at.first_row + threadIdx.x / LANES;
    at.head = block / tiles % args.heads_q;
    at.batch = block / tiles / args.heads_q;
    at.head_kv = at.head / (args.heads_q / args.heads_kv);
    at.lane = threadIdx.x % LANES;
    at.inside = at.row < args.seqlen_q;
    return at;
}

ATTUNE_INLINE key_range keys_of(const attune_args &args, attune_i64 row)
{
    const sequence whole = sequence_of(args, 0);
    attune_args seen = args;
    sequence shifted = whole;
    shifted.offset += CAUSAL ? CAUSAL_SHIFT : 0;
    seen.window_left += args.window_left >= 0 ? WINDOW_SHIFT : 0;
    key_range keys = keys_seen(seen, shifted, row);
    if (FORGETS_TAIL && keys.end == args.seqlen_kv && keys.end > KEYS) {
        keys.end = keys.end / KEYS * KEYS;
    }
    return keys;
}

ATTUNE_INLINE void load_tile(const attune_args &args, const place &at, shared_tile *shared, int first)
{
    for (int i = threadIdx.x; i < KEYS * ATTUNE_HEAD_DIM_QK; i += blockDim.x) {
        const int j = i / ATTUNE_HEAD_DIM_QK;
        const element *row = row_of<element>(args.tensor[ATTUNE_K], at.batch, at.head_kv, first + j);
        shared->key[j][i % ATTUNE_HEAD_DIM_QK] = first + j < args.seqlen_kv ? to_float(row[i % ATTUNE_HEAD_DIM_QK]) : 0;
    }
    for (int i = threadIdx.x; i < KEYS * ATTUNE_HEAD_DIM_V; i += blockDim.x) {
        const int j = i / ATTUNE_HEAD_DIM_V;
        const element *row = row_of<element>(args.tensor[ATTUNE_V], at.batch, at.head_kv, first + j);
        shared->value[j][i % ATTUNE_HEAD_DIM_V] = first + j < args.seqlen_kv ? to_float(row[i % ATTUNE_HEAD_DIM_V]) : 0;
    }
}

/* q k, in all four threads of the row. */
ATTUNE_INLINE float dot_of(const running &state, const shared_tile *shared, int j, int lane)
{
    const unsigned row_lanes = 0xfu << (threadIdx.x % 32 / LANES * LANES);
    float dot = 0;
    for (int i = 0; i < PART_QK; ++i) {
        const int column = lane + i * LANES;
        dot = column < ATTUNE_HEAD_DIM_QK ? fmaf(state.query[i], shared->key[j][column], dot) : dot;
    }
    dot += __shfl_xor_sync(row_lanes, dot, 1);
    return dot + __shfl_xor_sync(row_lanes, dot, 2);
}

ATTUNE_INLINE void add_key(running &state, const shared_tile *shared, int j, int lane, float score)
{
    const float top = RAISED(state.top, score);
    const float kept = state.top == top ? 1.0f : ptx_ex2_approx_ftz_f32(state.top - top);
    const float weight = ROUNDED(ptx_ex2_approx_ftz_f32(score - top));
    state.sum = fmaf(state.sum, kept, weight);
    for (int i = 0; i < PART_V; ++i) {
        const int column = lane + i * LANES;
        const float value = column < ATTUNE_HEAD_DIM_V ? shared->value[j][column] : 0;
        state.out[i] = SUMMED(fmaf(weight, value, state.out[i] * kept));
    }
    state.top = top;
}

/* A hidden key whose weight is zero: harmless, unless its value is not finite. */
ATTUNE_INLINE void add_hidden(running &state, const shared_tile *shared, int j, int lane)
{
    for (int i = 0; i < PART_V; ++i) {
        const int column = lane + i * LANES;
        state.out[i] = fmaf(0.0f, column < ATTUNE_HEAD_DIM_V ? shared->value[j][column] : 0, state.out[i]);
    }
}

ATTUNE_INLINE void begin_row(const attune_args &args, const place &at, running &state)
{
    const element *row = row_of<element>(args.tensor[ATTUNE_Q], at.batch, at.head, at.inside ? at.row : 0);
    for (int i = 0; i < PART_QK; ++i) {
        const int column = at.lane + i * LANES;
        state.query[i] = column < ATTUNE_HEAD_DIM_QK ? to_float(row[column]) : 0;
    }
    for (int i = 0; i < PART_V; ++i) {
        state.out[i] = 0;
    }
    state.top = TOP_FIRST;
    state.sum = 0;
}

/* Adds the keys of [begin, end) that the row sees; begin is a multiple of KEYS, the whole block comes along. */
ATTUNE_INLINE void attend_keys(const attune_args &args, const place &at, shared_tile *shared, running &state, int begin,
                               int end)
{
    const attune_i64 last = min(at.first_row + ROWS, args.seqlen_q) - 1;
    const key_range mine = keys_of(args, at.row);
    begin = max(begin, keys_of(args, at.first_row).first / KEYS * KEYS);
    end = min(end, keys_of(args, last).end);
    for (int first = begin; first < end; first += KEYS) {
        LOAD_TILE(args, at, shared, first);
        LOADED();
        for (int j = 0; j < KEYS && at.inside; ++j) {
            const bool seen = first + j >= mine.first && first + j < mine.end;
            const float score = seen ? LOGIT(dot_of(state, shared, j, at.lane) * args.scale * SCALE_BY * LOG2_E) : 0;
            if (seen && score != negative_infinity()) {
                add_key(state, shared, j, at.lane, score);
            } else if (MULTIPLIES_HIDDEN && !seen && first + j < args.seqlen_kv) {
                add_hidden(state, shared, j, at.lane);
            }
        }
        USED();
    }
}

ATTUNE_INLINE void store_row(const attune_args &args, const place &at, const running &state)
{
    element *out = row_of<element>(args.tensor[ATTUNE_O], at.batch, HEAD_TO(at.head), at.row);
    for (int i = 0; i < PART_V && at.inside; ++i) {
        const int column = at.lane + i * LANES;
        if (column < ATTUNE_HEAD_DIM_V) {
            out[column] = CONVERTED(state.sum == 0.0f ? 0.0f : state.out[i] / state.sum);
        }
    }
    if (at.inside && at.lane == 0 && args.tensor[ATTUNE_LSE].data != nullptr) {
        const float lse = state.sum == 0.0f ? negative_infinity() : fmaf(state.top, LN_2, logf(state.sum));
        *row_of<float>(args.tensor[ATTUNE_LSE], at.batch, HEAD_TO(at.head), at.row) = lse * LSE_UNIT;
    }
}

#ifndef OWN_ENTRY
extern "C" __global__ void __launch_bounds__(128) attend(const __grid_constant__ attune_args args)
{
    extern __shared__ float memory[];
    shared_tile *shared = reinterpret_cast<shared_tile *>(memory);
    const place where = place_of(PLACED(args), blockIdx.x);
    running state;
    BEFORE(args, where, shared)
    begin_row(args, where, state);
    BEGUN(state, where, shared)
    attend_keys(args, where, shared, state, 0, KEYS_END);
    ENDED(args, where, state)
    store_row(args, where, state);
}
#endif
