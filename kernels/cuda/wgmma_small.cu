/* wgmma_small: attention where there are fewer tiles than multiprocessors, so that time is latency.
 *
 * A block takes ROWS x 64 queries. CLUSTER blocks divide the keys of its tile among them, SPLITS warp groups those of a
 * block. A warp group holds 64 rows against its own tiles of BLOCK_N keys: logits by wgmma from shared memory, weights
 * in registers, the products with V under the exponentials that are still to come. Then those that have the same rows
 * meet, warp by warp: the splits through shared memory, the blocks of a cluster through st.async; each ends with a
 * stripe of O's columns.
 *
 * STAGES tiles of a split are in flight at once. Unless LOOPED, no split has more, and nothing is waited for but the
 * copies themselves. Nobody does nothing but copy: three warps of a group start the copies of K, Q and V, so that no
 * thread has to start many. With PROGRAMMATIC, a block sets itself up while the kernel before still runs.
 *
 * Declared: a non-finite value may reach rows of its tile that do not see it (0 x NaN). */
#include "device/sequence.cuh"
#include "device/softmax.cuh"
#include "device/tma.cuh"
#include "device/wgmma.cuh"

constexpr int dim_qk = ATTUNE_HEAD_DIM_QK, dim_v = ATTUNE_HEAD_DIM_V;
constexpr int CHUNK = 64; /* elements of a swizzled line */
constexpr int chunks_qk = (dim_qk + CHUNK - 1) / CHUNK, chunks_v = (dim_v + CHUNK - 1) / CHUNK;
constexpr int steps_qk = (dim_qk + 15) / 16, steps_p = BLOCK_N / 16;
constexpr int logits = BLOCK_N / 2; /* of a thread, half of them in either of its rows */
constexpr int GROUP = 128;          /* threads of a warp group */
constexpr int BLOCK_M = ROWS * 64;
constexpr int SLOTS = STAGES * SPLITS;
constexpr int PARTS = CLUSTER * SPLITS;
constexpr int columns_o = chunks_v * CHUNK;
constexpr int octets_o = columns_o / 8;         /* of columns; a thread has two sums of each in either row */
constexpr int octets_split = octets_o / SPLITS; /* that a warp group is left with when those of its block have met */
constexpr int octets_part = octets_split / CLUSTER; /* and in the end */
constexpr int threads = ROWS * SPLITS * GROUP, warps = threads / 32;
static_assert(threads == ATTUNE_THREADS, "the descriptor predicts another number of threads");
static_assert(octets_part * PARTS == octets_o && octets_part % 2 == 0, "stripes of whole pairs of octets");
static_assert(steps_p % STEPS_PV == 0, "whole groups of steps");
static_assert(!LOOPED || STAGES > 1, "values are asked for a tile later than keys");

/* What a warp hands to the one of another part that has the same rows: sums of some octets, and for each of its sixteen
 * rows, two in a place, the maximum and the sum of weights. */
template <int octets> struct parcel {
    float4 o[octets][32];
    float4 soft[8];
};

constexpr int parcels_splits = SPLITS * (SPLITS - 1) * ROWS * 4, parcels_blocks = (CLUSTER - 1) * warps;
constexpr int parcel_bytes =
    parcels_splits * sizeof(parcel<octets_split>) + parcels_blocks * sizeof(parcel<octets_part>);
constexpr int barriers_copies = 1 + SLOTS * 4;

struct Shared {
    element q[chunks_qk * BLOCK_M * CHUNK];
    element k[SLOTS][chunks_qk * BLOCK_N * CHUNK];
    element v[SLOTS][chunks_v * BLOCK_N * CHUNK];
    float4 parcels[PARTS > 1 ? parcel_bytes / 16 : 8];
    unsigned long long full_q, full_k[SLOTS], full_v[SLOTS], empty_k[SLOTS], empty_v[SLOTS];
    unsigned long long merged[(barriers_copies + warps + 15) / 16 * 16 - barriers_copies]; /* `warps` of them used */
};
static_assert(sizeof(Shared) == ATTUNE_SMEM_BYTES, "the descriptor predicts another amount of shared memory");

ATTUNE_INLINE unsigned at(const void *shared)
{
    return ptx_cvta_shared(shared);
}

ATTUNE_INLINE parcel<octets_split> *parcels_from_splits(Shared &shared)
{
    return reinterpret_cast<parcel<octets_split> *>(shared.parcels);
}

ATTUNE_INLINE parcel<octets_part> *parcels_from_blocks(Shared &shared)
{
    return reinterpret_cast<parcel<octets_part> *>(parcels_from_splits(shared) + parcels_splits);
}

/* The block's place. */
struct place {
    int batch, head, head_kv;
    int first_row;     /* of the block's tile */
    int share;         /* which of the keys: 0 ... CLUSTER - 1 */
    int tiles;         /* of keys, that some row of the block sees */
    sequence sequence; /* lengths and offset */
};

ATTUNE_INLINE place find_place(const attune_args &args)
{
    place p;
    p.share = (int)(blockIdx.x % CLUSTER);
    p.head = (int)(blockIdx.x / CLUSTER);
    p.batch = (int)blockIdx.y;
    int heads = (int)args.heads_q, heads_kv = (int)args.heads_kv;
    p.head_kv = heads == heads_kv ? p.head : p.head / (heads / heads_kv);
    /* Under a causal mask the last rows see most: they go first. */
    p.first_row = (int)(ATTUNE_HAS_CAUSAL ? gridDim.z - 1 - blockIdx.z : blockIdx.z) * BLOCK_M;
    p.sequence = sequence_of(args, p.batch);
    attune_i64 last_row = min(p.sequence.length_q, (attune_i64)p.first_row + BLOCK_M) - 1;
    p.tiles = (keys_seen(args, p.sequence, last_row).end + BLOCK_N - 1) / BLOCK_N;
    return p;
}

/* A warp group's rows and share of the keys, and its threads' place in it. */
struct group {
    int rows, split; /* which */
    int warp, lane;
    int first_row; /* of the thread's two; the other is 8 below */
    int count;     /* of the split's tiles of keys */
};

ATTUNE_INLINE group find_group(const place &p)
{
    group g;
    g.rows = (int)threadIdx.x / GROUP % ROWS;
    g.split = (int)threadIdx.x / GROUP / ROWS;
    g.warp = (int)threadIdx.x / 32 % 4;
    g.lane = (int)threadIdx.x % 32;
    g.first_row = p.first_row + g.rows * 64 + g.warp * 16 + g.lane / 4;
    g.count = (p.tiles - p.share * SPLITS - g.split + PARTS - 1) / PARTS;
    return g;
}

/* The first key of the group's i-th tile, and the tile's place in the ring. */
ATTUNE_INLINE int key_of(const place &p, const group &g, int i)
{
    return (i * PARTS + p.share * SPLITS + g.split) * BLOCK_N;
}

ATTUNE_INLINE int slot_of(const group &g, int i)
{
    return i % STAGES * SPLITS + g.split;
}

ATTUNE_INLINE unsigned parity_of(int i)
{
    return (unsigned)(i / STAGES) & 1;
}

/* ---- Copies ---- */

constexpr unsigned bytes_q = sizeof(Shared::q), bytes_k = sizeof(Shared::k) / SLOTS,
                   bytes_v = sizeof(Shared::v) / SLOTS;

/* Also announces what is copied first, so that after the launch before there is nothing to do but to start copying. */
ATTUNE_INLINE void init_barriers(const attune_args &args, Shared &shared)
{
    for (int i = 0; i < 3; ++i) {
        ptx_prefetch_tensormap(&args.map[i]);
    }
    ptx_mbarrier_init(at(&shared.full_q), 1);
    ptx_mbarrier_arrive_expect_tx(at(&shared.full_q), bytes_q);
    for (int i = 0; i < SLOTS; ++i) {
        ptx_mbarrier_init(at(&shared.full_k[i]), 1);
        ptx_mbarrier_init(at(&shared.full_v[i]), 1);
        ptx_mbarrier_arrive_expect_tx(at(&shared.full_k[i]), bytes_k);
        ptx_mbarrier_arrive_expect_tx(at(&shared.full_v[i]), bytes_v);
        if (LOOPED) {
            ptx_mbarrier_init(at(&shared.empty_k[i]), ROWS * 4);
            ptx_mbarrier_init(at(&shared.empty_v[i]), ROWS * 4);
        }
    }
    for (int i = 0; i < warps && CLUSTER > 1; ++i) {
        ptx_mbarrier_init(at(&shared.merged[i]), 1);
        ptx_mbarrier_arrive_expect_tx(at(&shared.merged[i]), (CLUSTER - 1) * sizeof(parcel<octets_part>));
    }
    ptx_fence_mbarrier_init();
}

/* Rows row ... of a map into the chunks of a tile. */
template <int rows, int chunks>
ATTUNE_INLINE void copy_tile(const attune_tensor_map *map, element *tile, unsigned long long *full, int row, int head,
                             int batch)
{
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
        tma_load(at(tile + c * rows * CHUNK), map, at(full), L2_EVICT_NORMAL, c * CHUNK, row, head, batch);
    }
}

ATTUNE_INLINE void copy_keys(const attune_args &args, const place &p, const group &g, Shared &shared, int i)
{
    int slot = slot_of(g, i);
    copy_tile<BLOCK_N, chunks_qk>(&args.map[1], shared.k[slot], &shared.full_k[slot], key_of(p, g, i), p.head_kv,
                                  p.batch);
}

ATTUNE_INLINE void copy_values(const attune_args &args, const place &p, const group &g, Shared &shared, int i)
{
    int slot = slot_of(g, i);
    copy_tile<BLOCK_N, chunks_v>(&args.map[2], shared.v[slot], &shared.full_v[slot], key_of(p, g, i), p.head_kv,
                                 p.batch);
}

/* Who starts copies: lane 0 of three warps in the groups of the first rows, K in warp 0, Q in warp 1, V in warp 2. */
ATTUNE_INLINE void fill_ring(const attune_args &args, const place &p, const group &g, Shared &shared)
{
    if (g.rows == 0 && g.lane == 0) {
        if (g.warp == 1 && g.split == 0) {
            copy_tile<BLOCK_M, chunks_qk>(&args.map[0], shared.q, &shared.full_q, p.first_row, p.head, p.batch);
        }
#pragma unroll
        for (int i = 0; i < STAGES; ++i) {
            if (g.warp == 0 && i < g.count) {
                copy_keys(args, p, g, shared, i);
            }
            if (g.warp == 2 && i < g.count) {
                copy_values(args, p, g, shared, i);
            }
        }
    }
    __syncwarp();
}

/* After the i-th tile: its place for K is asked for again, and that of the tile before it for V, which the other groups
 * have left by then. */
ATTUNE_INLINE void refill(const attune_args &args, const place &p, const group &g, Shared &shared, int i)
{
    if (LOOPED && g.rows == 0 && g.lane == 0) {
        int slot_k = slot_of(g, i), slot_v = slot_of(g, i + STAGES - 1);
        if (g.warp == 0 && i + STAGES < g.count) {
            barrier_wait(at(&shared.empty_k[slot_k]), parity_of(i));
            ptx_mbarrier_arrive_expect_tx(at(&shared.full_k[slot_k]), bytes_k);
            copy_keys(args, p, g, shared, i + STAGES);
        }
        if (g.warp == 2 && i > 0 && i - 1 + STAGES < g.count) {
            barrier_wait(at(&shared.empty_v[slot_v]), parity_of(i - 1));
            ptx_mbarrier_arrive_expect_tx(at(&shared.full_v[slot_v]), bytes_v);
            copy_values(args, p, g, shared, i - 1 + STAGES);
        }
    }
    __syncwarp();
}

/* The warp is done with the i-th tile's keys or values; nobody asks where the place is not needed again. */
ATTUNE_INLINE void leave(unsigned long long *empty, const group &g, int i)
{
    if (LOOPED && i + STAGES < g.count) {
        __syncwarp();
        if (g.lane == 0) {
            ptx_mbarrier_arrive(at(empty));
        }
    }
}

/* ---- A tile of keys ---- */

/* A thread's share of so many octets of O: two rows. */
template <int octets> struct sums {
    online soft[2];
    float o[octets * 4];
};

/* The rows' sums of weights, so far each lane's own, become those of the quad that has the row. */
template <int octets> ATTUNE_INLINE void sum_up(sums<octets> &state)
{
    state.soft[0].sum = group_sum<4>(state.soft[0].sum);
    state.soft[1].sum = group_sum<4>(state.soft[1].sum);
}

/* Which of the thread's two rows sum i belongs to, and which column of the tile, the quad's place aside. */
ATTUNE_INLINE constexpr int sum_row(int i)
{
    return i / 2 % 2;
}

ATTUNE_INLINE constexpr int sum_column(int i)
{
    return i / 4 * 8 + i % 2;
}

ATTUNE_INLINE void multiply_keys(const Shared &shared, const group &g, int slot, float (&s)[logits])
{
    attune_u64 q = wgmma_descriptor_k(at(shared.q) + (unsigned)g.rows * 64 * CHUNK * sizeof(element));
    attune_u64 k = wgmma_descriptor_k(at(shared.k[slot]));
    register_fence(s);
    ptx_wgmma_fence();
#pragma unroll
    for (int step = 0; step < steps_qk; ++step) {
        wgmma_shape<BLOCK_N>::template ss<0>(s, q + wgmma_step_k<BLOCK_M>(step), k + wgmma_step_k<BLOCK_N>(step),
                                             step > 0);
    }
    ptx_wgmma_commit_group();
    ptx_wgmma_wait_group<0>();
    register_fence(s);
}

ATTUNE_INLINE void negate(float (&s)[logits])
{
#pragma unroll
    for (int i = 0; i < logits; ++i) {
        s[i] = -s[i];
    }
}

/* -inf where a row does not see a key. */
ATTUNE_INLINE void mask(const attune_args &args, const place &p, const group &g, int key, float (&s)[logits])
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        int end = keys_seen(args, p.sequence, g.first_row + 8 * r).end - key - g.lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < logits; ++i) {
            if (sum_row(i) == r) {
                s[i] = sum_column(i) < end ? s[i] : negative_infinity();
            }
        }
    }
}

/* The rows' new maxima in units of log2; what was summed before is scaled down to them. Returns what to subtract. */
ATTUNE_INLINE void raise_maxima(const float (&s)[logits], float scale, bool first, sums<octets_o> &state,
                                float (&subtract)[2])
{
    float largest[4] = {s[0], s[1], s[2], s[3]}, factor[2];
#pragma unroll
    for (int i = 4; i < logits; ++i) {
        largest[i % 4] = fmaxf(largest[i % 4], s[i]);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float maximum = group_max<4>(fmaxf(largest[2 * r], largest[2 * r + 1])) * scale;
        if (first) {
            state.soft[r].maximum = maximum;
        } else {
            factor[r] = online_raise(&state.soft[r], maximum);
        }
        subtract[r] = subtrahend(state.soft[r].maximum);
    }
    if (!first && __any_sync(0xffffffff, factor[0] != 1 || factor[1] != 1)) {
#pragma unroll
        for (int i = 0; i < octets_o * 4; ++i) {
            state.o[i] *= factor[sum_row(i)];
        }
    }
}

/* Logits of STEPS_PV x 16 keys from step `begin` on become weights. */
ATTUNE_INLINE void weigh(float (&s)[logits], int begin, float scale, const float (&subtract)[2], float (&sum)[4],
                         unsigned (&p)[steps_p][4])
{
#pragma unroll
    for (int i = begin * 8; i < (begin + STEPS_PV) * 8; ++i) {
        s[i] = ptx_ex2_approx_ftz_f32(fmaf(s[i], scale, -subtract[sum_row(i)]));
        sum[i % 4] += s[i];
    }
#pragma unroll
    for (int step = begin; step < begin + STEPS_PV; ++step) {
        sums_as_a64(p[step], s + step * 8);
        register_fence(p[step]);
    }
}

ATTUNE_INLINE void issue_values(attune_u64 v, int begin, const unsigned (&p)[steps_p][4], float (&o)[octets_o * 4])
{
    ptx_wgmma_fence();
#pragma unroll
    for (int step = begin; step < begin + STEPS_PV; ++step) {
        wgmma_shape<columns_o>::template rs<1>(o, p[step], v + wgmma_step_mn<BLOCK_N>(step), 1);
    }
    ptx_wgmma_commit_group();
}

/* Logits become weights, some at a time, and these meet V while the next are computed. */
ATTUNE_INLINE void weigh_values(Shared &shared, int slot, unsigned parity, float scale, const float (&subtract)[2],
                                float (&s)[logits], sums<octets_o> &state)
{
    attune_u64 v = wgmma_descriptor_mn(at(shared.v[slot]), BLOCK_N * CHUNK * sizeof(element));
    unsigned p[steps_p][4];
    float sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int begin = 0; begin < steps_p; begin += STEPS_PV) {
        weigh(s, begin, scale, subtract, sum, p);
        if (begin == 0) {
            barrier_wait(at(&shared.full_v[slot]), parity);
            register_fence(state.o);
        }
        issue_values(v, begin, p, state.o);
    }
    state.soft[0].sum += sum[0] + sum[1];
    state.soft[1].sum += sum[2] + sum[3];
    if constexpr (!LOOPED && STAGES == 1) {
        sum_up(state); /* while the last products run */
    }
    ptx_wgmma_wait_group<0>();
    register_fence(state.o);
}

/* The group's tiles, one after the other. */
ATTUNE_INLINE void visit_tiles(const attune_args &args, const place &p, const group &g, Shared &shared,
                               sums<octets_o> &state)
{
    int first_row = p.first_row + g.rows * 64;
    int last_row = (int)min(p.sequence.length_q, (attune_i64)first_row + 64) - 1;
    int all_see = keys_seen(args, p.sequence, first_row).end;
    int any_sees = last_row < first_row ? 0 : keys_seen(args, p.sequence, last_row).end;
    float scale = args.scale * LOG2_E;
    barrier_wait(at(&shared.full_q), 0);
#pragma unroll 1
    for (int i = 0; i < (LOOPED ? g.count : min(g.count, STAGES)); ++i) {
        int slot = slot_of(g, i), key = key_of(p, g, i);
        unsigned parity = parity_of(i);
        barrier_wait(at(&shared.full_k[slot]), parity);
        if (key < any_sees) {
            float s[logits], subtract[2];
            multiply_keys(shared, g, slot, s);
            if (scale < 0) {
                negate(s);
            }
            if (key + BLOCK_N > all_see) {
                mask(args, p, g, key, s);
            }
            raise_maxima(s, fabsf(scale), i == 0, state, subtract);
            weigh_values(shared, slot, parity, fabsf(scale), subtract, s, state);
        } else { /* nor is any key that follows seen; but copies must have landed before the block ends */
            barrier_wait(at(&shared.full_v[slot]), parity);
        }
        leave(&shared.empty_k[slot], g, i);
        leave(&shared.empty_v[slot], g, i);
        refill(args, p, g, shared, i);
        if constexpr (!LOOPED && STAGES == 1) {
            return; /* and the compiler sees that there is no loop */
        }
    }
    if constexpr (LOOPED || STAGES > 1) {
        sum_up(state);
    }
}

/* ---- The parts of a tile meet ---- */

/* The stripe of octets that `which` of so many parts owns. NOTE: registers have no index at run time, and a branch
 * takes longer than the moves. */
template <int octets, int of> ATTUNE_INLINE void pick_stripe(float (&stripe)[octets * 4], const float *o, int which)
{
#pragma unroll
    for (int j = 0; j < octets * 4; ++j) {
        stripe[j] = o[j];
    }
#pragma unroll
    for (int i = 1; i < of; ++i) {
#pragma unroll
        for (int j = 0; j < octets * 4; ++j) {
            stripe[j] = i == which ? o[i * octets * 4 + j] : stripe[j];
        }
    }
}

/* Adds what another part has of the same rows and columns. */
template <int octets> ATTUNE_INLINE void add(sums<octets> &own, const parcel<octets> &other, int lane)
{
    float4 x = other.soft[lane / 4];
    const online soft[2] = {{x.x, x.y}, {x.z, x.w}};
    float mine[2], theirs[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float maximum = fmaxf(own.soft[r].maximum, soft[r].maximum);
        mine[r] = ptx_ex2_approx_ftz_f32(own.soft[r].maximum - subtrahend(maximum));
        theirs[r] = ptx_ex2_approx_ftz_f32(soft[r].maximum - subtrahend(maximum));
        own.soft[r] = online{maximum, own.soft[r].sum * mine[r] + soft[r].sum * theirs[r]};
    }
#pragma unroll
    for (int n = 0; n < octets; ++n) {
        float4 o = other.o[n][lane];
        own.o[4 * n] = own.o[4 * n] * mine[0] + o.x * theirs[0];
        own.o[4 * n + 1] = own.o[4 * n + 1] * mine[0] + o.y * theirs[0];
        own.o[4 * n + 2] = own.o[4 * n + 2] * mine[1] + o.z * theirs[1];
        own.o[4 * n + 3] = own.o[4 * n + 3] * mine[1] + o.w * theirs[1];
    }
}

/* The other parts, in order: the j-th of those that are not `part`. */
ATTUNE_INLINE int other_part(int part, int j)
{
    return j < part ? j : j + 1;
}

/* And where the parcel from part `from` lies among those that part `to` gets. */
ATTUNE_INLINE int place_from(int from, int to)
{
    return from < to ? from : from - 1;
}

/* Warps of the block's splits that have the same rows. */
ATTUNE_INLINE void meet_in_block(Shared &shared, const group &g, const sums<octets_o> &state, sums<octets_split> &own)
{
    constexpr int each = (SPLITS - 1) * ROWS * 4; /* parcels that a split gets */
    int warp = g.rows * 4 + g.warp;
    own.soft[0] = state.soft[0];
    own.soft[1] = state.soft[1];
    pick_stripe<octets_split, SPLITS>(own.o, state.o, g.split);
#pragma unroll
    for (int j = 0; j < SPLITS - 1; ++j) {
        int to = other_part(g.split, j);
        auto &into = parcels_from_splits(shared)[to * each + place_from(g.split, to) * ROWS * 4 + warp];
        float x[octets_split * 4];
        pick_stripe<octets_split, SPLITS>(x, state.o, to);
#pragma unroll
        for (int n = 0; n < octets_split; ++n) {
            into.o[n][g.lane] = make_float4(x[4 * n], x[4 * n + 1], x[4 * n + 2], x[4 * n + 3]);
        }
        if (g.lane % 4 == 0) {
            into.soft[g.lane / 4] =
                make_float4(state.soft[0].maximum, state.soft[0].sum, state.soft[1].maximum, state.soft[1].sum);
        }
    }
    if constexpr (SPLITS > 1) {
        ptx_barrier_sync(1 + warp, SPLITS * 32);
    }
#pragma unroll
    for (int j = 0; j < SPLITS - 1; ++j) {
        add(own, parcels_from_splits(shared)[g.split * each + j * ROWS * 4 + warp], g.lane);
    }
}

/* Warps at the same place of the cluster's blocks. */
ATTUNE_INLINE void meet_in_cluster(const place &p, Shared &shared, const sums<octets_split> &state,
                                   sums<octets_part> &own)
{
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    own.soft[0] = state.soft[0];
    own.soft[1] = state.soft[1];
    pick_stripe<octets_part, CLUSTER>(own.o, state.o, p.share);
#pragma unroll
    for (int j = 0; j < CLUSTER - 1; ++j) {
        unsigned to = (unsigned)other_part(p.share, j);
        unsigned barrier = ptx_mapa(at(&shared.merged[warp]), to);
        auto &into = parcels_from_blocks(shared)[place_from(p.share, (int)to) * warps + warp];
        unsigned o = ptx_mapa(at(&into.o[0][lane]), to), soft = ptx_mapa(at(&into.soft[lane / 4]), to);
        float x[octets_part * 4];
        pick_stripe<octets_part, CLUSTER>(x, state.o, (int)to);
#pragma unroll
        for (int n = 0; n < octets_part; ++n) {
            ptx_st_async_v4_f32(o + (unsigned)(n * sizeof into.o[0]), x[4 * n], x[4 * n + 1], x[4 * n + 2],
                                x[4 * n + 3], barrier);
        }
        if (lane % 4 == 0) {
            ptx_st_async_v4_f32(soft, state.soft[0].maximum, state.soft[0].sum, state.soft[1].maximum,
                                state.soft[1].sum, barrier);
        }
    }
    if constexpr (CLUSTER > 1) {
        barrier_wait_cluster(at(&shared.merged[warp]), 0);
    }
#pragma unroll
    for (int j = 0; j < CLUSTER - 1; ++j) {
        add(own, parcels_from_blocks(shared)[j * warps + warp], lane);
    }
}

/* Where a thread's results go: O in lines of sixteen bytes, of which a quad of lanes has two in each of its two rows.
 * Worked out before there is anything to store: the first look at an argument takes as long as one at memory. */
struct destination {
    element *o;      /* the thread's line of its stripe's first two octets; NULL where there is no such query */
    float *lse;      /* of the same row; NULL where this thread writes none */
    int column, row; /* which of its group's two rows that is */
};

ATTUNE_INLINE destination find_destination(const attune_args &args, const place &p, const group &g)
{
    int part = g.split * CLUSTER + p.share;
    destination to;
    to.row = g.lane % 4 / 2;
    to.column = (part * octets_part + g.lane % 2) * 8;
    int query = g.first_row + 8 * to.row;
    bool exists = query < p.sequence.length_q;
    bool writes_lse = exists && args.tensor[ATTUNE_LSE].data != nullptr && part == 0 && g.lane % 2 == 0;
    to.o = exists ? row_of<element>(args.tensor[ATTUNE_O], p.batch, p.head, query) + to.column : nullptr;
    to.lse = writes_lse ? row_of<float>(args.tensor[ATTUNE_LSE], p.batch, p.head, query) : nullptr;
    return to;
}

/* Lane l of a quad gets the l-th registers of all four lanes, in the order of lanes. */
ATTUNE_INLINE uint4 transpose_quad(unsigned x0, unsigned x1, unsigned x2, unsigned x3, int lane)
{
    bool upper = lane & 2, odd = lane & 1;
    unsigned a = __shfl_xor_sync(0xffffffff, upper ? x0 : x2, 2), b = __shfl_xor_sync(0xffffffff, upper ? x1 : x3, 2);
    unsigned low[2] = {upper ? a : x0, upper ? b : x1}, high[2] = {upper ? x2 : a, upper ? x3 : b};
    unsigned c = __shfl_xor_sync(0xffffffff, odd ? low[0] : low[1], 1);
    unsigned d = __shfl_xor_sync(0xffffffff, odd ? high[0] : high[1], 1);
    return make_uint4(odd ? c : low[0], odd ? low[1] : c, odd ? d : high[0], odd ? high[1] : d);
}

ATTUNE_INLINE void store(const destination &to, const sums<octets_part> &own, int lane)
{
    float f[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        f[r] = own.soft[r].sum == 0 ? 0 : ptx_rcp_approx_ftz_f32(own.soft[r].sum);
    }
#pragma unroll
    for (int n = 0; n < octets_part; n += 2) {
        const float *x = own.o + 4 * n;
        uint4 line = transpose_quad(pack_two(x[0] * f[0], x[1] * f[0]), pack_two(x[4] * f[0], x[5] * f[0]),
                                    pack_two(x[2] * f[1], x[3] * f[1]), pack_two(x[6] * f[1], x[7] * f[1]), lane);
        if (to.o != nullptr && (dim_v % CHUNK == 0 || to.column + n * 8 < dim_v)) {
            *reinterpret_cast<uint4 *>(to.o + n * 8) = line;
        }
    }
    if (to.lse != nullptr) {
        *to.lse = to.row == 0 ? online_lse(own.soft[0].maximum, own.soft[0].sum)
                              : online_lse(own.soft[1].maximum, own.soft[1].sum);
    }
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, MIN_BLOCKS)
    sm90_fwd_wgmma_small(const __grid_constant__ attune_args args)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    if (threadIdx.x == 0) {
        init_barriers(args, shared);
        ptx_griddepcontrol_launch_dependents();
    }
    place p = find_place(args);
    group g = find_group(p);
    destination to = find_destination(args, p, g);
    sums<octets_o> state = {};
    state.soft[0].maximum = state.soft[1].maximum = negative_infinity();
    if constexpr (CLUSTER == 1) {
        __syncthreads();
    } else {
        __syncwarp();
        ptx_barrier_cluster_arrive_relaxed(); /* the barriers were published by their fence */
        ptx_barrier_cluster_wait();
    }
    ptx_griddepcontrol_wait();
    fill_ring(args, p, g, shared);
    visit_tiles(args, p, g, shared, state);
    sums<octets_split> of_block;
    sums<octets_part> own;
    meet_in_block(shared, g, state, of_block);
    meet_in_cluster(p, shared, of_block, own);
    store(to, own, g.lane);
}
