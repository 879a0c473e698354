/* pipelined: scalar fp32 arithmetic at its best effort. Tiles of BLOCK_M x 64 keys, copied as stored by 16-byte
 * asynchronous copies into two buffers, so that the next tile of K and V travels while this one is computed; a thread
 * holds ROWS x 4 logits and ROWS x dim_v/16 outputs. Keys and values are converted as they are read, queries, which
 * every tile reads again, once.
 *
 * SPLITS groups of threads share the block's rows and go through every SPLITS-th tile of keys each, with buffers of
 * their own; the first of them takes in the others' sums at the end. A large register tile leaves few threads for few
 * rows: splits make up for it.
 *
 * What it taught: with loads out of the way a scalar kernel is bound by issue slots, of which conversions of 16-bit
 * elements take a share that only a larger register tile can thin out; the rest of the way is tensor cores.
 *
 * Declared: a non-finite value may reach rows of its tile that do not see it (0 x NaN). Where a window or an offset can
 * hide a key from all rows of the block, its value is overwritten by zeros. */
#include "device/key_loop.cuh"
#include "device/score.cuh"
#include "device/softmax.cuh"
#include "device/stage.cuh"
#include "device/tile.cuh"

constexpr int dim_qk = ATTUNE_HEAD_DIM_QK, dim_v = ATTUNE_HEAD_DIM_V;
constexpr int BLOCK_N = 64;
constexpr int lanes = 16;                  /* that share a row */
constexpr int keys = BLOCK_N / lanes;      /* logits of one row in one lane */
constexpr int part = 16 / sizeof(element); /* elements of 16 bytes */
constexpr int pitch_q = dim_qk + 4;        /* floats */
constexpr int pitch_qk = dim_qk + part;    /* 16 rows read side by side fall into different banks */
constexpr int pitch_v = dim_v + part;
constexpr int pitch_p = BLOCK_N + 4;
constexpr int part_v = dim_v <= 64 ? 4 : part; /* neighbouring columns of O in one lane: no lane idle at d = 64 */
constexpr int parts_v = (dim_v + lanes * part_v - 1) / (lanes * part_v);
constexpr int columns = parts_v * part_v; /* of O in one lane */

constexpr int row_step = BLOCK_M / ROWS; /* between the rows of a lane: those of a warp are neighbours */
constexpr int split_threads = row_step * lanes;

/* A split's own. */
struct Split {
    element k[2][BLOCK_N][pitch_qk];
    element v[2][BLOCK_N][pitch_v];
    float p[BLOCK_M][pitch_p];
};
struct Shared {
    float q[BLOCK_M][pitch_q];
    Split split[SPLITS];
};
static_assert(sizeof(Shared) == ATTUNE_SMEM_BYTES, "the descriptor predicts another amount of shared memory");
static_assert(SPLITS * split_threads == ATTUNE_THREADS, "the descriptor predicts another number of threads");

struct lane_state {
    online soft[ROWS];
    float o[ROWS][columns];
};

/* A thread's place in the block. */
struct lane_place {
    int split, thread; /* of the split */
    int row, lane;     /* first of its rows, row_step apart; share of their keys and columns */
};

/* Neighbouring elements as floats, read at once. */
template <int count> ATTUNE_INLINE void load_part(const element *from, float (&x)[count])
{
    struct alignas(count * sizeof(element)) packed {
        element e[count];
    } p = *reinterpret_cast<const packed *>(from);
#pragma unroll
    for (int i = 0; i < count; ++i) {
        x[i] = to_float(p.e[i]);
    }
}

/* A thread's 16-byte parts of the block's queries, on their way. */
constexpr int parts_q = dim_qk / part, parts_thread = (BLOCK_M * parts_q + ATTUNE_THREADS - 1) / ATTUNE_THREADS;
struct alignas(16) query_part {
    element e[part];
};

/* Reads them; rows from `end` on are zero. NOTE: before any copy is started: a read waits behind those. */
ATTUNE_INLINE void fetch_queries(query_part (&x)[parts_thread], const element *origin, attune_i64 stride, int first,
                                 int end)
{
#pragma unroll
    for (int i = 0; i < parts_thread; ++i) {
        int at = (int)threadIdx.x + i * ATTUNE_THREADS, row = first + at / parts_q;
        x[i] = query_part{};
        if (with_loading && at < BLOCK_M * parts_q && row < end) {
            x[i] = *reinterpret_cast<const query_part *>(origin + row * stride + at % parts_q * part);
        }
    }
}

/* Leaves them in shared memory as floats. */
ATTUNE_INLINE void keep_queries(float (&tile)[BLOCK_M][pitch_q], const query_part (&x)[parts_thread])
{
#pragma unroll
    for (int i = 0; i < parts_thread; ++i) {
        int at = (int)threadIdx.x + i * ATTUNE_THREADS;
        if (with_loading && at < BLOCK_M * parts_q) {
#pragma unroll
            for (int c = 0; c < part; c += 4) {
                *reinterpret_cast<float4 *>(&tile[at / parts_q][at % parts_q * part + c]) = make_float4(
                    to_float(x[i].e[c]), to_float(x[i].e[c + 1]), to_float(x[i].e[c + 2]), to_float(x[i].e[c + 3]));
            }
        }
    }
}

ATTUNE_INLINE void dot_products(const Shared &shared, const Split &mine, int buffer, const lane_place &at,
                                float (&s)[ROWS][keys])
{
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int j = 0; j < keys; ++j) {
            s[r][j] = 0;
        }
    }
#pragma unroll 2
    for (int d = 0; d < dim_qk; d += part) {
        float k[keys][part];
#pragma unroll
        for (int j = 0; j < keys; ++j) {
            load_part(&mine.k[buffer][at.lane + j * lanes][d], k[j]);
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
            for (int i = 0; i < part; i += 4) {
                float4 q = *reinterpret_cast<const float4 *>(&shared.q[at.row + r * row_step][d + i]);
#pragma unroll
                for (int j = 0; j < keys; ++j) {
                    s[r][j] = fmaf(q.x, k[j][i], s[r][j]);
                    s[r][j] = fmaf(q.y, k[j][i + 1], s[r][j]);
                    s[r][j] = fmaf(q.z, k[j][i + 2], s[r][j]);
                    s[r][j] = fmaf(q.w, k[j][i + 3], s[r][j]);
                }
            }
        }
    }
}

/* Logits, in units of log2; -inf where hidden. */
ATTUNE_INLINE void mask_tile(const attune_args &args, const sequence &at, const work &w, const lane_place &place,
                             int first_key, bool masked, float (&s)[ROWS][keys])
{
    if (!masked) {
        float scale = score_factor(args);
#pragma unroll
        for (int i = 0; i < ROWS * keys; ++i) {
            s[i / keys][i % keys] *= scale;
        }
        return;
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        query_row query = query_row_of(args, at, w.batch, w.head, w.tile * BLOCK_M + place.row + r * row_step);
#pragma unroll
        for (int i = 0; i < keys; ++i) {
            s[r][i] = visible_score(args, at, query, first_key + place.lane + i * lanes, s[r][i]);
        }
    }
}

/* The online softmax of the lane's logits; P into shared memory; rescales the lane's part of O. */
ATTUNE_INLINE void softmax_tile(Split &mine, const lane_place &place, const float (&s)[ROWS][keys], lane_state &state)
{
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        float largest = negative_infinity();
#pragma unroll
        for (int i = 0; i < keys; ++i) {
            largest = fmaxf(largest, s[r][i]);
        }
        float factor = online_raise(&state.soft[r], group_max<lanes>(largest));
        float subtract = subtrahend(state.soft[r].maximum);
#pragma unroll
        for (int i = 0; i < keys; ++i) {
            float p = ptx_ex2_approx_ftz_f32(s[r][i] - subtract);
            state.soft[r].sum += p;
            mine.p[place.row + r * row_step][place.lane + i * lanes] = p;
        }
#pragma unroll
        for (int c = 0; c < columns; ++c) {
            state.o[r][c] *= factor;
        }
    }
}

/* In its place where the softmax is left out. */
ATTUNE_INLINE void skip_softmax(Split &mine, const lane_place &place, const float (&s)[ROWS][keys], lane_state &state)
{
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int i = 0; i < keys; ++i) {
            mine.p[place.row + r * row_step][place.lane + i * lanes] = s[r][i];
        }
        state.soft[r].sum += s[r][0];
    }
}

/* O += P V over the tile; a lane's columns are neighbours in parts of part_v. */
ATTUNE_INLINE void weigh_values(const Split &mine, int buffer, int row, int lane, lane_state &state)
{
#pragma unroll 2
    for (int n = 0; n < BLOCK_N; n += 4) {
        float p[ROWS][4];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            float4 x = *reinterpret_cast<const float4 *>(&mine.p[row + r * row_step][n]);
            p[r][0] = x.x, p[r][1] = x.y, p[r][2] = x.z, p[r][3] = x.w;
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int c = 0; c < parts_v; ++c) {
                float v[part_v];
                int column = (c * lanes + lane) * part_v;
                /* Lanes beyond a narrow head re-read column 0: harmless, and no branch around the arithmetic. */
                load_part(&mine.v[buffer][n + i][column < dim_v ? column : 0], v);
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
#pragma unroll
                    for (int e = 0; e < part_v; ++e) {
                        state.o[r][c * part_v + e] = fmaf(p[r][i], v[e], state.o[r][c * part_v + e]);
                    }
                }
            }
        }
    }
}

/* O and LSE of one row of the block. */
ATTUNE_INLINE void store_row(const attune_args &args, const sequence &at, const work &w, int row, int lane,
                             const online &soft, const float (&o)[columns])
{
    int query = w.tile * BLOCK_M + row;
    float sum = group_sum<lanes>(soft.sum);
    if (query >= at.length_q) {
        return;
    }
    float normaliser = online_normaliser(sum);
    element *out = row_of<element>(args.tensor[ATTUNE_O], at.batch, w.head, at.first_q + query);
#pragma unroll
    for (int c = 0; c < columns; c += 4) {
        int column = (c / part_v * lanes + lane) * part_v + c % part_v;
        store_four<dim_v>(
            out, column,
            make_float4(o[c] * normaliser, o[c + 1] * normaliser, o[c + 2] * normaliser, o[c + 3] * normaliser));
    }
    if (wants_lse(args) && lane == 0) {
        store_lse(args, at.batch, w.head, at.first_q + query, soft.maximum, sum);
    }
}

/* ---- Joining the splits ---- */

/* What a thread hands over: its rows' maxima and sums, and its part of O, as the same thread of every split has them.
 * Threads are neighbours, so that nobody waits for a bank. */
struct Partials {
    online soft[ROWS][split_threads];
    float4 o[ROWS][columns / 4][split_threads];
};
static_assert(sizeof(Split) >= sizeof(Partials), "what a split hands over fits into its own memory");

ATTUNE_INLINE Partials &partials_of(Shared &shared, int split)
{
    return *reinterpret_cast<Partials *>(&shared.split[split]);
}

ATTUNE_INLINE void store_partials(Partials &to, int thread, const lane_state &state)
{
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        to.soft[r][thread] = state.soft[r];
#pragma unroll
        for (int c = 0; c < columns; c += 4) {
            const float *o = &state.o[r][c];
            to.o[r][c / 4][thread] = make_float4(o[0], o[1], o[2], o[3]);
        }
    }
}

/* The r-th row of all splits' threads of this number as one. */
ATTUNE_INLINE online join_row(Shared &shared, int r, int thread, float (&o)[columns])
{
    online whole = {negative_infinity(), 0};
#pragma unroll
    for (int split = 0; split < SPLITS; ++split) {
        whole.maximum = fmaxf(whole.maximum, partials_of(shared, split).soft[r][thread].maximum);
    }
#pragma unroll
    for (int c = 0; c < columns; ++c) {
        o[c] = 0;
    }
#pragma unroll
    for (int split = 0; split < SPLITS; ++split) {
        const Partials &part = partials_of(shared, split);
        float factor = ptx_ex2_approx_ftz_f32(part.soft[r][thread].maximum - subtrahend(whole.maximum));
        whole.sum = fmaf(part.soft[r][thread].sum, factor, whole.sum);
#pragma unroll
        for (int c = 0; c < columns; c += 4) {
            float4 x = part.o[r][c / 4][thread];
            o[c] = fmaf(x.x, factor, o[c]), o[c + 1] = fmaf(x.y, factor, o[c + 1]);
            o[c + 2] = fmaf(x.z, factor, o[c + 2]), o[c + 3] = fmaf(x.w, factor, o[c + 3]);
        }
    }
    return whole;
}

/* The rows of the block; of splits each writes its share of them. */
ATTUNE_INLINE void store_rows(const attune_args &args, const sequence &at, const work &w, Shared &shared,
                              const lane_place &place, const lane_state &state)
{
    if constexpr (SPLITS == 1) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            store_row(args, at, w, place.row + r * row_step, place.lane, state.soft[r], state.o[r]);
        }
    } else {
        constexpr int share = (ROWS + SPLITS - 1) / SPLITS;
        split_barrier<SPLITS, split_threads>(place.split); /* the split's memory is done with */
        store_partials(partials_of(shared, place.split), place.thread, state);
        join_splits();
        for (int r = place.split * share; r < min(ROWS, (place.split + 1) * share); ++r) {
            float o[columns];
            online whole = join_row(shared, r, place.thread, o);
            store_row(args, at, w, place.row + r * row_step, place.lane, whole, o);
        }
    }
}

/* Starts copying the split's K, or V, from this key on, if there is one. */
ATTUNE_INLINE void copy_keys(Split &mine, int buffer, int thread, const key_loop &j, int key)
{
    if (key < j.end) {
        tile_copy<BLOCK_N, dim_qk, split_threads>(mine.k[buffer], j.k, j.stride_k, key, j.kv_end, thread);
    }
    ptx_cp_async_commit_group();
}

ATTUNE_INLINE void copy_values(Split &mine, int buffer, int thread, const key_loop &j, int key)
{
    if (key < j.end) {
        tile_copy<BLOCK_N, dim_v, split_threads>(mine.v[buffer], j.v, j.stride_v, key, j.kv_end, thread);
    }
    ptx_cp_async_commit_group();
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, MIN_BLOCKS)
    fwd_pipelined(const __grid_constant__ attune_args args)
{
    follow_launch();
    extern __shared__ __align__(16) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    work w = static_work<BLOCK_M>(args);
    sequence at = sequence_of(args, w.batch);
    int first_row = w.tile * BLOCK_M;
    if (first_row >= at.length_q) {
        return;
    }
    lane_place place;
    place.split = SPLITS == 1 ? 0 : (int)threadIdx.x / split_threads;
    place.thread = (int)threadIdx.x % split_threads;
    place.lane = place.thread % lanes;
    place.row = place.thread / lanes;
    int end_row = (int)min(at.length_q, (attune_i64)first_row + BLOCK_M);
    query_part q[parts_thread];
    fetch_queries(q, row_of<element>(args.tensor[ATTUNE_Q], at.batch, w.head, at.first_q),
                  args.tensor[ATTUNE_Q].stride[ATTUNE_STRIDE_SEQ], first_row, end_row);
    key_loop j = key_loop_of<BLOCK_N>(args, at, w, first_row, end_row);
    Split &mine = shared.split[place.split];
    int first_key = j.begin + place.split * BLOCK_N;
    copy_keys(mine, 0, place.thread, j, first_key);
    copy_values(mine, 0, place.thread, j, first_key);
    keep_queries(shared.q, q);

    lane_state state = {};
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        state.soft[r] = online_start(args, w.head, place.lane == 0 && place.split == 0); /* the sink counts once */
    }
    float s[ROWS][keys];
    if constexpr (!with_qk) {
        stand_in(s);
    }
    if constexpr (!with_pv) {
        stand_in(state.o);
    }
    __syncthreads(); /* the queries are there */
    /* NOTE: a thread waits until the memory system has taken its requests, so the second tile is asked for when
     * the first product is done, not before. */
    for (int buffer = 0; first_key < j.end; first_key += SPLITS * BLOCK_N, buffer ^= 1) {
        int next = first_key + SPLITS * BLOCK_N;
        ptx_cp_async_wait_group<1>();
        split_barrier<SPLITS, split_threads>(place.split); /* K is there, and the other buffer is done with */
        if constexpr (with_qk) {
            dot_products(shared, mine, buffer, place, s);
        }
        copy_keys(mine, buffer ^ 1, place.thread, j, next);
        if constexpr (with_softmax) {
            bool masked = needs_mask(j.all_see.first, j.all_see.end, first_key, BLOCK_N);
            mask_tile(args, at, w, place, first_key, masked, s);
            softmax_tile(mine, place, s, state);
        } else {
            skip_softmax(mine, place, s, state);
        }
        copy_values(mine, buffer ^ 1, place.thread, j, next);
        ptx_cp_async_wait_group<2>();
        split_barrier<SPLITS, split_threads>(place.split); /* V is there, and the lanes' P */
        if constexpr (HIDES_ENDS) {
            clean_ends<SPLITS, split_threads>(mine.v[buffer], j, place.split, place.thread, first_key);
        }
        if constexpr (with_pv) {
            weigh_values(mine, buffer, place.row, place.lane, state);
        }
    }
    store_rows(args, at, w, shared, place, state);
}
