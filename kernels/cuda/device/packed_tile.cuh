/* Packed rows against a tile of keys in shared memory, by one warp: what its rows see, their queries, scores, weights
 * and weighted values.
 *
 * Both products are turned: S^T = K Q^T and O^T = V^T P^T, so that keys and columns fill the sixteen rows of an
 * operand, and eight packed rows its eight columns. Sums of a product: lane l has rows l / 4 and 8 below of sixteen
 * keys or columns, and packed rows 2 (l % 4) and the next of eight: sum i belongs to key or column l / 4 + i / 2 * 8
 * and row i % 2 of the lane's two. Weights become an operand by turning 8 x 8 of them among lanes.
 *
 * A tile of K or V lies in chunks of 64 columns, TILE lines of 128 bytes each with the copy engine's swizzle. */
#ifndef DEVICE_PACKED_TILE_CUH
#define DEVICE_PACKED_TILE_CUH

#include "device/mma.cuh"
#include "device/nonfinite.cuh"
#include "device/score.cuh"
#include "device/spans.cuh"
#include "device/swizzle.cuh"
#include "device/tma.cuh"

constexpr int dim_qk = ATTUNE_HEAD_DIM_QK, dim_v = ATTUNE_HEAD_DIM_V;
constexpr int chunks_qk = (dim_qk + 63) / 64, chunks_v = (dim_v + 63) / 64;
constexpr int steps_qk = (dim_qk + 15) / 16, steps_k = TILE / 16, stripes = (dim_v + 15) / 16;
constexpr int OCTETS = (ROWS / HALVES + 7) / 8, rows_own = 2 * OCTETS; /* of a warp; rows of which a lane has scores */
constexpr int LAZY = 8;
constexpr unsigned LINE = 128, chunk_bytes = TILE * LINE; /* of a tile */
static_assert(dim_qk % 8 == 0 && dim_v % 8 == 0 && TILE % 16 == 0 && TILE <= 64, "whole parts and operands");

/* Queries are operands in registers where there is room; else they lie in shared memory, in swizzled rows. */
constexpr bool Q_REGISTERS = dim_qk <= 128;
constexpr int rows_q = OCTETS < 2 ? 16 : HALVES * OCTETS * 8, pitch_q = chunks_qk * 64;
static_assert(OCTETS <= 2, "operands of two octets");

ATTUNE_INLINE int lane_of()
{
    return (int)threadIdx.x % 32;
}

ATTUNE_INLINE int warp_of()
{
    return (int)threadIdx.x / 32;
}

/* The warps that share tiles: of the block's teams. Which of the rows the warp has. */
ATTUNE_INLINE int team_of()
{
    return warp_of() / HALVES;
}

ATTUNE_INLINE int first_row_of()
{
    return warp_of() % HALVES * OCTETS * 8;
}

/* All of the team have come here. */
ATTUNE_INLINE void team_sync()
{
    if constexpr (HALVES > 1) {
        ptx_barrier_sync_aligned(1 + team_of(), HALVES * 32);
    } else {
        __syncwarp();
    }
}

ATTUNE_INLINE bool is_seen(const key_range &keys, int key, int count)
{
    return key < keys.end && key + count > keys.first;
}

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

/* Whether rows of a job may see different keys. */
constexpr bool ROWS_DIFFER = BEGINS_MOVE || ENDS_MOVE || ATTUNE_HAS_DRAFT;

/* A job as its rows see it; of the lane's rows which keys they see, and what else they bring to a score. */
struct view {
    job j;
    key_range all_see;
    key_range keys[ROWS_DIFFER ? rows_own : 1];
    draft_row draft[ATTUNE_HAS_DRAFT && ROWS_DIFFER ? rows_own : 1];
    float slope[ATTUNE_HAS_ALIBI ? rows_own : 1], position[ATTUNE_HAS_ALIBI ? rows_own : 1];
};

/* The lane's i-th row. */
ATTUNE_INLINE int own_row(int i)
{
    return first_row_of() + i / 2 * 8 + lane_of() % 4 * 2 + i % 2;
}

ATTUNE_INLINE view view_of(const attune_args &args, const job &j)
{
    const sequence at = sequence_of(args, j.batch);
    view v;
    v.j = j;
    v.all_see = j.keys;
    if constexpr (ROWS_DIFFER) {
        const int first = packed_row_of(args, j, at, 0).query;
        const int last = min(packed_row_of(args, j, at, ROWS - 1).query, (int)at.length_q - 1);
        v.all_see = keys_seen_by_all(args, at, first, last);
    }
    if constexpr (ATTUNE_HAS_DRAFT) {
        v.all_see.end = (int)max(at.length_kv - at.length_q, (attune_i64)0);
    }
#pragma unroll
    for (int i = 0; i < rows_own; ++i) {
        const packed_row r = packed_row_of(args, j, at, own_row(i));
        if constexpr (ROWS_DIFFER) {
            v.keys[i] = r.exists ? keys_seen(args, at, r.query) : j.keys;
        }
        if constexpr (ATTUNE_HAS_DRAFT && ROWS_DIFFER) {
            v.draft[i] = draft_row_of(args, at, r.exists ? r.query : 0);
        }
        if constexpr (ATTUNE_HAS_ALIBI) {
            v.slope[i] = r.exists ? LOG2_E * *row_of<float>(args.tensor[ATTUNE_SLOPES], 0, r.head, 0) : 0;
            v.position[i] = (float)(r.query + at.offset);
        }
    }
    return v;
}

/* What the lane's i-th row sees. */
struct row_view {
    key_range keys;
    draft_row draft;
};

ATTUNE_INLINE row_view row_view_of(const view &v, int i)
{
    row_view row = {};
    row.keys = v.j.keys;
    if constexpr (ROWS_DIFFER) {
        row.keys = v.keys[i];
        if constexpr (ATTUNE_HAS_DRAFT) {
            row.draft = v.draft[i];
        }
    }
    return row;
}

ATTUNE_INLINE bool row_sees(const row_view &row, int key)
{
    bool seen = key >= row.keys.first & key < row.keys.end;
    if constexpr (ATTUNE_HAS_DRAFT) {
        seen = seen && draft_sees(row.draft, key);
    }
    return seen;
}

/* ---- Queries ---------------------------------------------------------------------------------------------------- */

struct queries {
    unsigned b[Q_REGISTERS ? steps_qk : 1][OCTETS][2];
};

ATTUNE_INLINE const element *query_of(const attune_args &args, const job &j, const sequence &at, int row)
{
    const packed_row r = packed_row_of(args, j, at, row);
    return r.exists ? row_of<element>(args.tensor[ATTUNE_Q], at.batch, r.head, at.first_q + r.query) : nullptr;
}

/* Two neighbouring elements of a row, zeros where there are none. */
ATTUNE_INLINE unsigned two_of(const element *row, int column)
{
    return row != nullptr && column < dim_qk ? *reinterpret_cast<const unsigned *>(row + column) : 0;
}

/* The rows that a lane has operands of, from its first columns on. */
struct query_rows {
    const element *row[Q_REGISTERS ? OCTETS : 1];
};

ATTUNE_INLINE query_rows find_queries(const attune_args &args, const job &j)
{
    query_rows rows = {};
    if constexpr (Q_REGISTERS) {
        const sequence at = sequence_of(args, j.batch);
#pragma unroll
        for (int octet = 0; octet < OCTETS; ++octet) {
            const element *row = query_of(args, j, at, first_row_of() + octet * 8 + lane_of() / 4);
            rows.row[octet] = row != nullptr ? row + lane_of() % 4 * 2 : nullptr;
        }
    }
    return rows;
}

/* The job's queries: as operands, or by all `threads` into shared memory, where nobody needs those of the job before;
 * before they are used there comes a barrier. */
template <int threads>
ATTUNE_INLINE void load_queries(const attune_args &args, const job &j, const query_rows &rows, element *shared,
                                queries &q)
{
    if constexpr (Q_REGISTERS) {
#pragma unroll
        for (int octet = 0; octet < OCTETS; ++octet) {
            const element *row = rows.row[octet];
#pragma unroll
            for (int step = 0; step < steps_qk; ++step) {
                q.b[step][octet][0] = two_of(row, step * 16);
                q.b[step][octet][1] = two_of(row, step * 16 + 8);
            }
        }
    } else {
        const sequence at = sequence_of(args, j.batch);
        constexpr int parts = chunks_qk * 8;
        for (int i = (int)threadIdx.x; i < rows_q * parts; i += threads) {
            const int row = i / parts, part = i % parts;
            const element *from = query_of(args, j, at, row);
            const bool exists = from != nullptr && part * 8 < dim_qk;
            *reinterpret_cast<uint4 *>(shared + swizzled_index<pitch_q>(row, part)) =
                exists ? *reinterpret_cast<const uint4 *>(from + part * 8) : uint4{};
        }
    }
}

/* ---- A tile of keys ---------------------------------------------------------------------------------------------- */

typedef float tile_scores[steps_k][OCTETS][4];
typedef unsigned tile_weights[steps_k][OCTETS][2];

/* What a warp has of a job's rows. */
struct warp_state {
    float o[stripes][OCTETS][4];
    float maximum[rows_own], sum[rows_own]; /* in units of log2; the sum is the lane's share */
};

/* Where sixteen columns of sixteen rows of a tile in chunks are. */
ATTUNE_INLINE unsigned tile_operand(unsigned lane, int down, int step)
{
    return (lane ^ (unsigned)(2 * step % 8 * 16)) + (unsigned)(2 * step / 8) * chunk_bytes + (unsigned)down * 16 * LINE;
}

/* For the operand whose rows are the tile's, and for the one whose rows are its columns; of two octets of queries. */
ATTUNE_INLINE unsigned lane_of_rows(unsigned tile)
{
    return tile + (unsigned)(lane_of() % 16) * LINE + (unsigned)((lane_of() & 7) ^ (lane_of() / 16)) * 16;
}

ATTUNE_INLINE unsigned lane_of_columns(unsigned tile)
{
    return tile + (unsigned)(lane_of() % 8 + lane_of() / 16 * 8) * LINE +
           (unsigned)((lane_of() & 7) ^ (lane_of() / 8 % 2)) * 16;
}

ATTUNE_INLINE void multiply_keys(const element *shared, unsigned tile, const queries &q, tile_scores &s)
{
    const unsigned k = lane_of_rows(tile);
    unsigned rows = 0;
    if constexpr (!Q_REGISTERS) {
        rows = lane_columns<pitch_q>(shared, first_row_of(), lane_of());
    }
    constexpr int chains = steps_k * OCTETS < 2 ? 2 : 1; /* of dependent products */
    tile_scores part[chains] = {};
#pragma unroll
    for (int step = 0; step < steps_qk; ++step) {
        unsigned b[4];
        if constexpr (Q_REGISTERS) {
#pragma unroll
            for (int i = 0; i < OCTETS * 2; ++i) {
                b[i] = q.b[step][i / 2][i % 2];
            }
        } else {
            load_operand<pitch_q>(b, rows, 0, step);
        }
#pragma unroll
        for (int n = 0; n < steps_k; ++n) {
            unsigned a[4];
            ptx_ldmatrix_x4(a, tile_operand(k, n, step));
#pragma unroll
            for (int octet = 0; octet < OCTETS; ++octet) {
                const unsigned own[2] = {b[octet * 2], b[octet * 2 + 1]};
                mma_16x8(part[step % chains][n][octet], a, own);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < steps_k * OCTETS * 4; ++i) {
        const int n = i / (OCTETS * 4), octet = i / 4 % OCTETS;
        const float x = part[0][n][octet][i % 4];
        s[n][octet][i % 4] = chains == 2 ? x + part[chains - 1][n][octet][i % 4] : x;
    }
}

/* Products become scores, in units of log2; -inf where rows do not see keys, if any is to be masked. */
ATTUNE_INLINE void finish_scores(const attune_args &args, const view &v, int key, float factor, float inner,
                                 bool masked, tile_scores &s)
{
    const int own = key + lane_of() / 4;
#pragma unroll
    for (int n = 0; n < steps_k; ++n) {
#pragma unroll
        for (int octet = 0; octet < OCTETS; ++octet) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float &x = s[n][octet][i];
                const int row = octet * 2 + i % 2, at = own + n * 16 + i / 2 * 8;
                x = shape_score_fast(x, inner) * factor;
                if constexpr (ATTUNE_HAS_ALIBI) {
                    x = fmaf(-v.slope[row], fabsf(v.position[row] - (float)at), x);
                }
                if (masked) {
                    x = row_sees(row_view_of(v, row), at) ? x : negative_infinity();
                }
            }
        }
    }
}

/* Over the lanes that have the same rows. */
ATTUNE_INLINE float rows_max(float x)
{
#pragma unroll
    for (int step = 4; step < 32; step *= 2) {
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, step));
    }
    return x;
}

ATTUNE_INLINE float rows_sum(float x)
{
#pragma unroll
    for (int step = 4; step < 32; step *= 2) {
        x += __shfl_xor_sync(0xffffffff, x, step);
    }
    return x;
}

/* Moves the maxima of rows that have passed theirs by LAZY; what was summed before shrinks. */
ATTUNE_INLINE void move_maxima(const float (&largest)[rows_own], warp_state &state)
{
    float factor[rows_own];
#pragma unroll
    for (int i = 0; i < rows_own; ++i) {
        const float most = rows_max(largest[i]), maximum = most > state.maximum[i] + LAZY ? most : state.maximum[i];
        factor[i] = ptx_ex2_approx_ftz_f32(state.maximum[i] - subtrahend(maximum));
        state.maximum[i] = maximum;
        state.sum[i] *= factor[i];
    }
#pragma unroll
    for (int i = 0; i < stripes * OCTETS * 4; ++i) {
        state.o[i / (OCTETS * 4)][i / 4 % OCTETS][i % 4] *= factor[i / 4 % OCTETS * 2 + i % 2];
    }
}

/* Scores become weights, as an operand. */
ATTUNE_INLINE void weigh(const tile_scores &s, warp_state &state, tile_weights &w)
{
    float largest[rows_own];
    bool moves = false;
#pragma unroll
    for (int i = 0; i < rows_own; ++i) {
        largest[i] = fmaxf(s[0][i / 2][i % 2], s[0][i / 2][i % 2 + 2]);
#pragma unroll
        for (int n = 1; n < steps_k; ++n) {
            largest[i] = fmaxf(largest[i], fmaxf(s[n][i / 2][i % 2], s[n][i / 2][i % 2 + 2]));
        }
        moves |= largest[i] > state.maximum[i] + LAZY;
    }
    if (__any_sync(0xffffffff, moves)) {
        move_maxima(largest, state);
    }
#pragma unroll
    for (int n = 0; n < steps_k; ++n) {
#pragma unroll
        for (int octet = 0; octet < OCTETS; ++octet) {
            float p[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int row = octet * 2 + i % 2;
                p[i] = ptx_ex2_approx_ftz_f32(s[n][octet][i] - subtrahend(state.maximum[row]));
                state.sum[row] += p[i];
            }
            w[n][octet][0] = ptx_movmatrix_trans(pack_two(p[0], p[1]));
            w[n][octet][1] = ptx_movmatrix_trans(pack_two(p[2], p[3]));
        }
    }
}

/* Zeros in place of values that no row of the job sees. */
ATTUNE_INLINE void clean_values(const view &v, int key, unsigned char *tile)
{
    if (key >= v.j.keys.first && key + TILE <= v.j.keys.end) {
        return;
    }
    for (int i = (int)threadIdx.x % (HALVES * 32); i < TILE * chunks_v * 8; i += HALVES * 32) {
        const int row = i / 8 % TILE;
        if (key + row < v.j.keys.first || key + row >= v.j.keys.end) {
            *reinterpret_cast<uint4 *>(tile + i * 16) = uint4{};
        }
    }
    ptx_fence_proxy_async_shared(); /* the copy that follows comes after these */
    team_sync();
}

ATTUNE_INLINE void add_values(unsigned tile, const tile_weights &w, warp_state &state)
{
    const unsigned v = lane_of_columns(tile);
#pragma unroll
    for (int n = 0; n < steps_k; ++n) {
#pragma unroll
        for (int stripe = 0; stripe < stripes; ++stripe) {
            unsigned a[4];
            ptx_ldmatrix_x4_trans(a, tile_operand(v, n, stripe));
#pragma unroll
            for (int octet = 0; octet < OCTETS; ++octet) {
                mma_16x8(state.o[stripe][octet], a, w[n][octet]);
            }
        }
    }
}

ATTUNE_INLINE bool holds_nonfinite(const unsigned char *tile)
{
    unsigned found = 0;
#pragma unroll 1
    for (int i = lane_of(); i < TILE * chunks_v * 8; i += 32) {
        const uint4 x = *reinterpret_cast<const uint4 *>(tile + i * 16);
        found |= nonfinite(x.x) | nonfinite(x.y) | nonfinite(x.z) | nonfinite(x.w);
    }
    return __any_sync(0xffffffff, found != 0);
}

/* 1 for each pair of a key and a row that sees it, as an operand. */
ATTUNE_INLINE void find_seen(const view &v, int key, tile_weights &seen)
{
    const int own = key + lane_of() / 4;
#pragma unroll
    for (int octet = 0; octet < OCTETS; ++octet) {
        const row_view left = row_view_of(v, octet * 2), right = row_view_of(v, octet * 2 + 1);
#pragma unroll
        for (int i = 0; i < steps_k * 2; ++i) {
            const int at = own + i * 8;
            const unsigned both = (row_sees(left, at) ? 0xffffu : 0) | (row_sees(right, at) ? 0xffff0000u : 0);
            seen[i / 2][octet][i % 2] = ptx_movmatrix_trans(both & ones);
        }
    }
}

/* The same as add_values where V holds what is not finite: it reaches the rows that see it, and no other. To each
 * output goes what is finite, and each kind of which its row sees one. */
ATTUNE_INLINE void add_values_seen(const view &view, int key, unsigned tile, const tile_weights &w, warp_state &state)
{
    const unsigned v = lane_of_columns(tile);
    tile_weights seen;
    find_seen(view, key, seen);
#pragma unroll
    for (int stripe = 0; stripe < stripes; ++stripe) {
#pragma unroll
        for (int n = 0; n < steps_k; ++n) {
            unsigned a[4], finite[4];
            ptx_ldmatrix_x4_trans(a, tile_operand(v, n, stripe));
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                finite[i] = a[i] & ~nonfinite(a[i]);
            }
#pragma unroll
            for (int octet = 0; octet < OCTETS; ++octet) {
                mma_16x8(state.o[stripe][octet], finite, w[n][octet]);
            }
#pragma unroll 1
            for (int kind = 0; kind < 3; ++kind) {
                const float value = __int_as_float(kind == 2 ? 0x7fc00000 : kind == 1 ? 0xff800000 : 0x7f800000);
                const unsigned of_kind[4] = {nonfinite_of_kind(a[0], kind), nonfinite_of_kind(a[1], kind),
                                             nonfinite_of_kind(a[2], kind), nonfinite_of_kind(a[3], kind)};
#pragma unroll
                for (int octet = 0; octet < OCTETS; ++octet) {
                    float count[4] = {};
                    mma_16x8(count, of_kind, seen[n][octet]);
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        float &o = state.o[stripe][octet][i];
                        o = count[i] > 0 ? o + value : o;
                    }
                }
            }
        }
    }
}

#endif
