/* harness: what is around a timed graph. It fills inputs anew at fixed addresses, poisons outputs, brings inputs
 * into the caches, keeps the device busy until the host has enqueued everything, and looks at every output afterwards;
 * and it leaves a pattern in shared memory, registers and stacks for whoever comes next. STAGE says which.
 *
 * Inputs are made from one base set under a transform, which is a number: signs of the columns of Q and K flip
 * together, so that no score changes, signs of V's columns flip and O's with them, and, where no other tensor tells
 * heads or batches apart, heads and batches change places. So every transform has other bits at the same addresses, in
 * Q, K, V and O, and its right result is known from the base's: the same numbers, moved and with other signs.
 *
 * What the args mean here:
 *   batch, heads_q, heads_kv, seqlen_q   of the tensors (packed ones: one batch of all rows)
 *   seqlen_kv, total_kv   rows of K and V: of a sequence or a page, and of all of them
 *   tensor[Q], [K], [V]   the base set        tensor[O]   the base's validated result
 *   tensor[BIAS].data     u64 table: refill and touch: addresses of Q of each set, then of K, then of V, strides as the
 *                         base's; compare: addresses of outputs; poison: address and bytes of each range
 *   tensor[LSE].stride    of the outputs in the table
 *   total_q               entries: sets, outputs or ranges
 *   offset                the transform of set 0 (set i has transform + i; 0 changes nothing); poison: the byte;
 *                         poison_smem, poison_local and poison_deep: the byte, or a seed from 256 on; wait: ns
 *   window_left           sets that the outputs' calls went through in turn
 *   window_right          1: heads and batches change places
 *   scale                 how far an element may be off, as a share of its row's largest; 0: not by a bit
 *   workspace             compare: u32 for each output, set to 1 where it is wrong; touch: a place to write to, never
 *                         written */
#include "device/element.cuh"
#include "device/sequence.cuh"

enum { REFILL, POISON, TOUCH, COMPARE, WAIT, POISON_SMEM, POISON_LOCAL, POISON_DEEP };

#define MIN_BLOCKS (STAGE == POISON_SMEM ? 1 : STAGE >= POISON_LOCAL ? 8 : 4)

#if ATTUNE_DTYPE == 0
typedef unsigned bits;
constexpr bits SIGN = 0x80000000u;
#else
typedef unsigned short bits;
constexpr bits SIGN = 0x8000u;
#endif

constexpr int WARPS = ATTUNE_THREADS / 32;

/* ---- Transforms: the same as src/worker/transform.c ---- */

/* NOTE: 0 stays 0, which is the transform that changes nothing. */

ATTUNE_INLINE attune_u64 mixed(attune_u64 value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

struct Transform {
    attune_u64 key;
    attune_i64 batch, head_kv; /* by how much they move */
};

ATTUNE_INLINE Transform transform_of(const attune_args &args, attune_i64 set)
{
    Transform transform = {mixed((attune_u64)(args.offset + set)), 0, 0};
    if (args.window_right != 0) {
        transform.batch = (attune_i64)((transform.key >> 8) % (attune_u64)args.batch);
        transform.head_kv = (attune_i64)((transform.key >> 32) % (attune_u64)args.heads_kv);
    }
    return transform;
}

/* Whether the sign of a column flips: of V and O, or of Q and K. */
ATTUNE_INLINE bool flips(const Transform &transform, int column, bool values)
{
    return transform.key != 0 && (mixed(transform.key + (attune_u64)column * 2 + (values ? 1 : 0)) & 1) != 0;
}

/* The same of a lane's columns, which are every 32nd: bit i is the i-th's. */
ATTUNE_INLINE unsigned flips_of_lane(const Transform &transform, int lane, int columns, bool values)
{
    unsigned all = 0;
    for (int column = lane; column < columns; column += 32) {
        all |= (unsigned)flips(transform, column, values) << (column / 32);
    }
    return all;
}

/* A row of a tensor, by its number; of `rows` rows and `heads` heads. */
struct Place {
    attune_i64 batch, head, row;
};

ATTUNE_INLINE Place place_of(attune_i64 index, attune_i64 heads, attune_i64 rows)
{
    if ((index | heads | rows) >> 32 != 0) {
        return {index / rows / heads, index / rows % heads, index % rows};
    }
    unsigned head = (unsigned)index / (unsigned)rows; /* a fraction of what it takes in 64 bits */
    unsigned batch = head / (unsigned)heads;
    return {batch, head - batch * (unsigned)heads, (unsigned)index - head * (unsigned)rows};
}

/* The row of the base that is at `at` under the transform; `group` heads move together. */
ATTUNE_INLINE Place source_of(const attune_args &args, const Transform &transform, Place at, attune_i64 heads)
{
    if (args.window_right == 0) { /* pages are more than batches, and stay */
        return at;
    }
    attune_i64 head = at.head + transform.head_kv * (heads / args.heads_kv); /* both moves stay below a whole turn */
    attune_i64 batch = at.batch + transform.batch;
    return {batch < args.batch ? batch : batch - args.batch, head < heads ? head : head - heads, at.row};
}

ATTUNE_INLINE attune_i64 index_of(const attune_tensor &tensor, Place at)
{
    return at.batch * tensor.stride[ATTUNE_STRIDE_BATCH] + at.head * tensor.stride[ATTUNE_STRIDE_HEAD] +
           at.row * tensor.stride[ATTUNE_STRIDE_SEQ];
}

/* ---- Pieces of 16 bytes, which is how rows are moved where they can be ---- */

constexpr int PIECE = 16 / (int)sizeof(bits); /* elements */

/* A lane's piece of a row. A warp takes 32 / lanes rows at once. */
struct Piece {
    int lanes; /* of a row; 0: rows do not come in such pieces */
    int row;   /* of those that the warp takes at once */
    int column;
};

ATTUNE_INLINE Piece piece_of(int columns, int lane)
{
    int lanes = columns / PIECE;
    bool fits = columns % PIECE == 0 && lanes <= 32 && lanes > 0 && (lanes & (lanes - 1)) == 0;
    return fits ? Piece{lanes, lane / lanes, lane % lanes * PIECE} : Piece{0, 0, 0};
}

/* Whether every row of a tensor begins at a multiple of 16 bytes. */
ATTUNE_INLINE bool is_even(const attune_tensor &tensor, const void *data)
{
    attune_i64 strides =
        tensor.stride[ATTUNE_STRIDE_BATCH] | tensor.stride[ATTUNE_STRIDE_HEAD] | tensor.stride[ATTUNE_STRIDE_SEQ];
    return strides % PIECE == 0 && reinterpret_cast<attune_u64>(data) % 16 == 0;
}

/* The signs that flip in a lane's piece. */
ATTUNE_INLINE uint4 flips_of_piece(const Transform &transform, const Piece &piece, bool values)
{
    attune_u64 half[2] = {0, 0};
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll 1
        for (int i = 0; i < PIECE / 2; ++i) {
            bool flip = flips(transform, piece.column + k * (PIECE / 2) + i, values);
            half[k] |= flip ? (attune_u64)SIGN << (int)sizeof(bits) * 8 * i : 0;
        }
    }
    return make_uint4((unsigned)half[0], (unsigned)(half[0] >> 32), (unsigned)half[1], (unsigned)(half[1] >> 32));
}

ATTUNE_INLINE uint4 flipped_piece(uint4 piece, uint4 flip)
{
    return make_uint4(piece.x ^ flip.x, piece.y ^ flip.y, piece.z ^ flip.z, piece.w ^ flip.w);
}

ATTUNE_INLINE uint4 load_piece(const bits *from)
{
    return *reinterpret_cast<const uint4 *>(from);
}

/* ---- Stages ---- */

ATTUNE_INLINE attune_u64 entry_of(const attune_args &args, attune_i64 index)
{
    return static_cast<const attune_u64 *>(args.tensor[ATTUNE_BIAS].data)[index];
}

/* Rows of one role of one set: blockIdx.y is the set, blockIdx.z the role (Q, K, V). */
struct Work {
    attune_i64 heads, rows, first, step, end;
    int columns;
};

ATTUNE_INLINE Work work_of(const attune_args &args, int role)
{
    Work work;
    bool of_query = role == ATTUNE_Q || role == ATTUNE_O;
    work.heads = of_query ? args.heads_q : args.heads_kv;
    work.rows = of_query ? args.seqlen_q : args.seqlen_kv;
    work.columns = role == ATTUNE_Q || role == ATTUNE_K ? args.head_dim_qk : args.head_dim_v;
    work.first = (attune_i64)blockIdx.x * WARPS + threadIdx.x / 32;
    work.step = (attune_i64)gridDim.x * WARPS;
    work.end = work.heads * (of_query ? args.batch * work.rows : args.total_kv);
    return work;
}

ATTUNE_INLINE void refill(const attune_args &args, int lane)
{
    int role = (int)blockIdx.z;
    const attune_tensor &base = args.tensor[role];
    bits *to = reinterpret_cast<bits *>(entry_of(args, role * args.total_q + blockIdx.y));
    const bits *from = static_cast<const bits *>(base.data);
    Transform transform = transform_of(args, blockIdx.y);
    Work work = work_of(args, role);
    Piece piece = piece_of(work.columns, lane);
    if (piece.lanes > 0 && is_even(base, from) && is_even(base, to)) {
        uint4 flip = flips_of_piece(transform, piece, role == ATTUNE_V);
        attune_i64 rows = 32 / piece.lanes;
        for (attune_i64 i = work.first * rows + piece.row; i < work.end; i += work.step * rows) {
            Place at = place_of(i, work.heads, work.rows);
            attune_i64 source = index_of(base, source_of(args, transform, at, work.heads)), target = index_of(base, at);
            uint4 moved = flipped_piece(load_piece(from + source + piece.column), flip);
            *reinterpret_cast<uint4 *>(to + target + piece.column) = moved;
        }
        return;
    }
    unsigned flipped = flips_of_lane(transform, lane, work.columns, role == ATTUNE_V);
    for (attune_i64 i = work.first; i < work.end; i += work.step) {
        Place at = place_of(i, work.heads, work.rows);
        attune_i64 source = index_of(base, source_of(args, transform, at, work.heads)), target = index_of(base, at);
        for (int column = lane; column < work.columns; column += 32) {
            bits flip = flipped >> (column / 32) & 1 ? SIGN : 0;
            to[target + column] = from[source + column] ^ flip;
        }
    }
}

ATTUNE_INLINE void touch(const attune_args &args, int lane)
{
    int role = (int)blockIdx.z;
    const attune_tensor &base = args.tensor[role];
    const bits *from = reinterpret_cast<const bits *>(entry_of(args, role * args.total_q + blockIdx.y));
    Work work = work_of(args, role);
    unsigned seen = 0;
    Piece piece = piece_of(work.columns, lane);
    bool pieces = piece.lanes > 0 && is_even(base, from);
    attune_i64 rows = pieces ? 32 / piece.lanes : 1;
    for (attune_i64 i = work.first * rows + piece.row; pieces && i < work.end; i += work.step * rows) {
        uint4 read = load_piece(from + index_of(base, place_of(i, work.heads, work.rows)) + piece.column);
        seen += read.x ^ read.y ^ read.z ^ read.w;
    }
    for (attune_i64 i = work.first; !pieces && i < work.end; i += work.step) {
        attune_i64 source = index_of(base, place_of(i, work.heads, work.rows));
        for (int column = lane; column < work.columns; column += 32) {
            seen = seen * 31 + from[source + column];
        }
    }
    if (args.offset == -1) { /* never, but the compiler cannot know */
        static_cast<unsigned *>(args.workspace)[0] = seen;
    }
}

ATTUNE_INLINE void poison(const attune_args &args)
{
    unsigned char *to = reinterpret_cast<unsigned char *>(entry_of(args, 2 * (attune_i64)blockIdx.y));
    attune_i64 bytes = (attune_i64)entry_of(args, 2 * (attune_i64)blockIdx.y + 1);
    attune_i64 first = (attune_i64)blockIdx.x * ATTUNE_THREADS + threadIdx.x;
    attune_i64 step = (attune_i64)gridDim.x * ATTUNE_THREADS;
    unsigned word = (unsigned)args.offset * 0x01010101u;
    bool whole = (reinterpret_cast<attune_u64>(to) & 15) == 0;
    for (attune_i64 i = first; whole && i < bytes / 16; i += step) {
        reinterpret_cast<uint4 *>(to)[i] = make_uint4(word, word, word, word);
    }
    for (attune_i64 i = (whole ? bytes / 16 * 16 : 0) + first; i < bytes; i += step) {
        to[i] = (unsigned char)args.offset;
    }
}

ATTUNE_INLINE float value_of(bits raw)
{
    element as;
    static_assert(sizeof as == sizeof raw, "an element is its bits");
    *reinterpret_cast<bits *>(&as) = raw;
    return to_float(as);
}

ATTUNE_INLINE bool is_zero(bits raw)
{
    return (raw & (bits)~SIGN) == 0;
}

/* The largest finite size in a row of the base. */
ATTUNE_INLINE float row_size(const bits *row, int columns, int lane)
{
    float most = 0;
    for (int column = lane; column < columns; column += 32) {
        float size = fabsf(value_of(row[column]));
        most = is_finite(size) && size > most ? size : most;
    }
    for (int step = 16; step > 0; step /= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
    }
    return most;
}

ATTUNE_INLINE bool same(bits wanted, bits got, float may)
{
    if (wanted == got || (is_zero(wanted) && is_zero(got))) {
        return true;
    }
    return may > 0 && fabsf(value_of(wanted) - value_of(got)) <= may; /* a NaN is never within anything */
}

/* One element of a piece. */
ATTUNE_INLINE bits element_of(uint4 piece, int index)
{
    constexpr int EACH = PIECE / 4;
    const unsigned word[4] = {piece.x, piece.y, piece.z, piece.w};
    return (bits)(word[index / EACH] >> (32 / EACH * (index % EACH)));
}

/* The largest finite size in a row of which each of `lanes` lanes has a piece. */
ATTUNE_INLINE float row_size_of_pieces(uint4 piece, int lanes)
{
    float most = 0;
    for (int i = 0; i < PIECE; ++i) {
        float size = fabsf(value_of(element_of(piece, i)));
        most = is_finite(size) && size > most ? size : most;
    }
    for (int step = lanes / 2; step > 0; step /= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
    }
    return most;
}

ATTUNE_INLINE bool same_piece(uint4 wanted, uint4 got, float may)
{
    bool all = true;
    for (int i = 0; i < PIECE; ++i) {
        all = all && same(element_of(wanted, i), element_of(got, i), may);
    }
    return all;
}

/* Whether any of the rows is wrong. Mostly all bits are the same, and nothing else is asked; the lanes of a warp stay
 * together. */
ATTUNE_INLINE bool compare_pieces(const attune_args &args, const bits *got, const Transform &transform,
                                  const Work &work, const Piece &piece)
{
    const attune_tensor &base = args.tensor[ATTUNE_O];
    uint4 flip = flips_of_piece(transform, piece, true);
    attune_i64 rows = 32 / piece.lanes;
    bool wrong = false;
    for (attune_i64 first = work.first * rows; first < work.end; first += work.step * rows) {
        bool there = first + piece.row < work.end;
        uint4 wanted = make_uint4(0, 0, 0, 0), found = wanted;
        if (there) {
            Place at = place_of(first + piece.row, work.heads, work.rows);
            attune_i64 source = index_of(base, source_of(args, transform, at, work.heads));
            wanted = flipped_piece(load_piece(static_cast<const bits *>(base.data) + source + piece.column), flip);
            found = load_piece(got + index_of(args.tensor[ATTUNE_LSE], at) + piece.column);
        }
        bool differs = wanted.x != found.x || wanted.y != found.y || wanted.z != found.z || wanted.w != found.w;
        if (__any_sync(0xffffffffu, differs)) {
            float may = args.scale > 0 ? args.scale * row_size_of_pieces(wanted, piece.lanes) : 0;
            wrong = wrong || !same_piece(wanted, found, may);
        }
    }
    return wrong;
}

ATTUNE_INLINE bool compare_elements(const attune_args &args, const bits *got, const Transform &transform,
                                    const Work &work, int lane)
{
    const attune_tensor &base = args.tensor[ATTUNE_O];
    unsigned flipped = flips_of_lane(transform, lane, work.columns, true);
    bool wrong = false;
    for (attune_i64 i = work.first; i < work.end; i += work.step) {
        Place at = place_of(i, work.heads, work.rows);
        const bits *wanted =
            static_cast<const bits *>(base.data) + index_of(base, source_of(args, transform, at, work.heads));
        attune_i64 target = index_of(args.tensor[ATTUNE_LSE], at);
        float may = args.scale > 0 ? args.scale * row_size(wanted, work.columns, lane) : 0;
        for (int column = lane; column < work.columns; column += 32) {
            bits flip = flipped >> (column / 32) & 1 ? SIGN : 0;
            wrong = wrong || !same(wanted[column] ^ flip, got[target + column], may);
        }
    }
    return wrong;
}

ATTUNE_INLINE void compare(const attune_args &args, int lane)
{
    const bits *got = reinterpret_cast<const bits *>(entry_of(args, blockIdx.y));
    const attune_tensor &base = args.tensor[ATTUNE_O];
    Transform transform = transform_of(args, blockIdx.y % args.window_left);
    Work work = work_of(args, ATTUNE_O);
    Piece piece = piece_of(work.columns, lane);
    bool pieces = piece.lanes > 0 && is_even(base, base.data) && is_even(args.tensor[ATTUNE_LSE], got);
    if (pieces ? compare_pieces(args, got, transform, work, piece)
               : compare_elements(args, got, transform, work, lane)) {
        static_cast<unsigned *>(args.workspace)[blockIdx.y] = 1;
    }
}

ATTUNE_INLINE attune_u64 now_ns()
{
    attune_u64 ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

ATTUNE_INLINE void wait(const attune_args &args)
{
    attune_u64 start = now_ns();
    while (now_ns() - start < (attune_u64)args.offset) {
        __nanosleep(100);
    }
}

/* A word of the pattern: a byte four times, or drawn, two numbers between 1/2 and 1 in fp16. */
ATTUNE_INLINE unsigned filling(const attune_args &args, unsigned index)
{
    if (args.offset < 256) {
        return (unsigned)args.offset * 0x01010101u;
    }
    attune_u64 drawn = mixed((attune_u64)args.offset << 32 | (blockIdx.x * 65536 + index));
    return ((unsigned)drawn & 0x83ff83ffu) | 0x38003800u;
}

/* So that the other multiprocessors get blocks too. */
ATTUNE_INLINE void stay()
{
    constexpr attune_u64 STAY_NS = 10000;
    attune_u64 start = now_ns();
    while (now_ns() - start < STAY_NS) {
        __nanosleep(100);
    }
}

/* Registers as well: each holds another word while the block stays. */
ATTUNE_INLINE void poison_smem(const attune_args &args)
{
    constexpr int KEPT = 200;
    extern __shared__ __align__(16) unsigned memory[];
    volatile unsigned *to = memory;
    unsigned kept[KEPT], seen = 0;
    for (int i = (int)threadIdx.x; i < ATTUNE_SMEM_BYTES / 4; i += ATTUNE_THREADS) {
        to[i] = filling(args, (unsigned)i);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        kept[i] = to[(threadIdx.x + i * 32) % (ATTUNE_SMEM_BYTES / 4)];
    }
    stay();
#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        seen = seen * 31 + kept[i];
    }
    if (args.offset == -1) { /* never, but the compiler cannot know */
        static_cast<unsigned *>(args.workspace)[0] = seen;
    }
}

/* Stacks: as many threads as can be there at once fill a frame each. */
template <int WORDS> ATTUNE_INLINE void poison_local(const attune_args &args)
{
    volatile unsigned frame[WORDS];
    for (int i = 0; i < WORDS; ++i) {
        frame[i] = filling(args, threadIdx.x * WORDS + (unsigned)i);
    }
    stay();
    if (args.offset == -1) {
        static_cast<unsigned *>(args.workspace)[0] = frame[args.total_q % WORDS];
    }
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, MIN_BLOCKS)
    harness(const __grid_constant__ attune_args args)
{
    int lane = (int)threadIdx.x % 32;
    if (STAGE == REFILL) {
        refill(args, lane);
    } else if (STAGE == POISON) {
        poison(args);
    } else if (STAGE == TOUCH) {
        touch(args, lane);
    } else if (STAGE == COMPARE) {
        compare(args, lane);
    } else if (STAGE == POISON_SMEM) {
        poison_smem(args);
    } else if (STAGE == POISON_LOCAL) {
        poison_local<256>(args);
    } else if (STAGE == POISON_DEEP) {
        poison_local<4096>(args);
    } else {
        wait(args);
    }
}
