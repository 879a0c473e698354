/* wgmma_small: attention where there are fewer tiles than multiprocessors, so that time is latency.
 *
 * A cluster takes SHARE tiles of ROWS x 64 queries; CLUSTER blocks divide the keys of a tile among them, and SPLITS
 * warp groups those of a block. A warp group holds 64 rows against its own tiles of BLOCK_N keys: logits by wgmma from
 * shared memory, weights in registers, the products with V under the exponentials that are still to come. Then the
 * parts of a tile meet: each owns a stripe of O's columns and gets the others' sums of it, with their maxima and
 * denominators, written into its shared memory by st.async. What several blocks of a cluster need, each of them copies
 * a slice of to all.
 *
 * STAGES tiles of a warp group are in flight at once; where there are no more than that, nothing is waited for but the
 * copies themselves. Nobody does nothing but copy: a warp more would cost registers, of which there must be enough for
 * a block of this launch and one of the next. With PROGRAMMATIC, that one sets itself up while this one works.
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
constexpr int GROUP = 128; /* threads of a warp group, and their rows x 2 */
constexpr int BLOCK_M = ROWS * 64;
constexpr int SLOTS = STAGES * SPLITS;
constexpr int PARTS = CLUSTER * SPLITS;
constexpr int columns_o = chunks_v * CHUNK;
constexpr int octets_o = columns_o / 8;       /* of columns; a thread has four sums of each, two in each of its rows */
constexpr int octets_part = octets_o / PARTS; /* that a part owns in the end */
constexpr int threads = ROWS * SPLITS * GROUP;
constexpr bool alone = CLUSTER * SHARE == 1;
constexpr bool copies_to_others = SHARE > 1 || (SHARE_Q && CLUSTER > 1);

struct Shared {
    element q[chunks_qk * BLOCK_M * CHUNK];
    element k[SLOTS][chunks_qk * BLOCK_N * CHUNK];
    element v[SLOTS][chunks_v * BLOCK_N * CHUNK];
    float4 received[PARTS - 1 + (PARTS == 1)][PARTS == 1 ? 1 : octets_part + 1][PARTS == 1 ? 8 : threads];
    unsigned long long full_q, full_k[SLOTS], full_v[SLOTS], empty_k[SLOTS], empty_v[SLOTS], merged[SPLITS * ROWS];
    unsigned long long spare[(1 + 4 * SLOTS + SPLITS * ROWS + 15) / 16 * 16 - (1 + 4 * SLOTS + SPLITS * ROWS)];
};
static_assert(sizeof(Shared) == ATTUNE_SMEM_BYTES, "the descriptor predicts another amount of shared memory");
static_assert(threads == ATTUNE_THREADS, "the descriptor predicts another number of threads");
static_assert(octets_o % PARTS == 0, "whole stripes of O");

ATTUNE_INLINE unsigned at(const void *shared)
{
    return ptx_cvta_shared(shared);
}

/* The cluster's and the block's place. */
struct place {
    int batch, head, head_kv;
    int first_row;     /* of the block's tile */
    int share;         /* which of the keys: 0 ... CLUSTER - 1 */
    int tile;          /* which of the cluster's tiles of queries */
    int tiles;         /* of keys, that some row of the cluster sees */
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
    p.tile = (int)(blockIdx.z % SHARE);
    /* Under a causal mask the last rows see most: they go first. */
    int tile = ATTUNE_HAS_CAUSAL ? (int)(gridDim.z / SHARE - 1 - blockIdx.z / SHARE) : (int)(blockIdx.z / SHARE);
    p.first_row = (tile * SHARE + p.tile) * BLOCK_M;
    p.sequence = sequence_of(args, p.batch);
    attune_i64 last_row = min(p.sequence.length_q, (attune_i64)(tile + 1) * SHARE * BLOCK_M) - 1;
    p.tiles = (keys_seen(args, p.sequence, last_row).end + BLOCK_N - 1) / BLOCK_N;
    return p;
}

/* ---- Copies ---- */

ATTUNE_INLINE void init_barriers(const attune_args &args, Shared &shared)
{
    for (int i = 0; i < 3; ++i) {
        ptx_prefetch_tensormap(&args.map[i]);
    }
    ptx_mbarrier_init(at(&shared.full_q), 1);
    for (int i = 0; i < SLOTS; ++i) {
        ptx_mbarrier_init(at(&shared.full_k[i]), 1);
        ptx_mbarrier_init(at(&shared.full_v[i]), 1);
        ptx_mbarrier_init(at(&shared.empty_k[i]), ROWS * 4);
        ptx_mbarrier_init(at(&shared.empty_v[i]), ROWS * 4);
    }
    for (int i = 0; i < SPLITS * ROWS && PARTS > 1; ++i) {
        ptx_mbarrier_init(at(&shared.merged[i]), 1);
        ptx_mbarrier_arrive_expect_tx(at(&shared.merged[i]), (PARTS - 1) * (octets_part + 1) * GROUP * 16);
    }
    ptx_fence_mbarrier_init();
}

/* `rows` lines of every chunk of a tile; each of `blocks` that share the tile copies its slice of them to all. */
template <int rows, int slices>
ATTUNE_INLINE void copy_tile(const attune_tensor_map *map, element *tile, unsigned long long *full, int chunks,
                             int slice, unsigned short blocks, int row, int head, int batch)
{
    constexpr int lines = rows / slices;
    int line = slices == 1 ? 0 : slice * lines;
    ptx_mbarrier_arrive_expect_tx(at(full), (unsigned)(chunks * rows * CHUNK * sizeof(element)));
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
        unsigned to = at(tile + (c * rows + line) * CHUNK);
        if constexpr (slices == 1) {
            tma_load(to, map, at(full), L2_EVICT_NORMAL, c * CHUNK, row, head, batch);
        } else {
            tma_multicast(to, map, at(full), blocks, L2_EVICT_NORMAL, c * CHUNK, row + line, head, batch);
        }
    }
}

/* Whose copies of a tile of Q, and of keys, are slices of the same: bits of ranks. */
ATTUNE_INLINE unsigned short blocks_of_tile(const place &p)
{
    return (unsigned short)(((1 << CLUSTER) - 1) << p.tile * CLUSTER);
}

ATTUNE_INLINE unsigned short blocks_of_keys(const place &p)
{
    unsigned blocks = 0;
    for (int i = 0; i < SHARE; ++i) {
        blocks |= 1u << (i * CLUSTER + p.share);
    }
    return (unsigned short)blocks;
}

/* The split's i-th tile of keys; it exists while it is below p.tiles. */
ATTUNE_INLINE int tile_of(const place &p, int split, int i)
{
    return i * PARTS + p.share * SPLITS + split;
}

ATTUNE_INLINE int slot_of(int split, int i)
{
    return i % STAGES * SPLITS + split;
}

ATTUNE_INLINE void copy_keys(const attune_args &args, const place &p, Shared &shared, int split, int i)
{
    int slot = slot_of(split, i);
    copy_tile<BLOCK_N, SHARE>(&args.map[1], shared.k[slot], &shared.full_k[slot], chunks_qk, p.tile, blocks_of_keys(p),
                              tile_of(p, split, i) * BLOCK_N, p.head_kv, p.batch);
}

ATTUNE_INLINE void copy_values(const attune_args &args, const place &p, Shared &shared, int split, int i)
{
    int slot = slot_of(split, i);
    copy_tile<BLOCK_N, SHARE>(&args.map[2], shared.v[slot], &shared.full_v[slot], chunks_v, p.tile, blocks_of_keys(p),
                              tile_of(p, split, i) * BLOCK_N, p.head_kv, p.batch);
}

/* What the block begins with, in the order in which it is needed. One thread. */
ATTUNE_INLINE void fill_ring(const attune_args &args, const place &p, Shared &shared)
{
    copy_tile<BLOCK_M, SHARE_Q ? CLUSTER : 1>(&args.map[0], shared.q, &shared.full_q, chunks_qk, p.share,
                                              blocks_of_tile(p), p.first_row, p.head, p.batch);
#pragma unroll
    for (int i = 0; i < STAGES; ++i) {
        for (int split = 0; split < SPLITS && tile_of(p, split, i) < p.tiles; ++split) {
            copy_keys(args, p, shared, split, i);
        }
        for (int split = 0; split < SPLITS && tile_of(p, split, i) < p.tiles; ++split) {
            copy_values(args, p, shared, split, i);
        }
    }
}

/* Once all who need it have left the split's i-th tile, its place is the (i + STAGES)-th's. One thread. */
ATTUNE_INLINE void refill(const attune_args &args, const place &p, Shared &shared, int split, int i)
{
    unsigned parity = (unsigned)(i / STAGES) & 1;
    if (tile_of(p, split, i + STAGES) < p.tiles) {
        barrier_wait(at(&shared.empty_k[slot_of(split, i)]), parity);
        copy_keys(args, p, shared, split, i + STAGES);
        barrier_wait(at(&shared.empty_v[slot_of(split, i)]), parity);
        copy_values(args, p, shared, split, i + STAGES);
    }
}

/* ---- A warp group ---- */

/* A warp group's rows and share of the keys, and its threads' place in it. */
struct group {
    int rows, split; /* which */
    int thread, lane;
    int first_row; /* of the thread's two; the other is 8 below */
};

struct thread_state {
    online soft[2];
    float o[octets_o * 4];
};

/* Which of the thread's two rows sum i belongs to, and which column of the tile, the quad's place aside. */
ATTUNE_INLINE constexpr int sum_row(int i)
{
    return i / 2 % 2;
}

ATTUNE_INLINE constexpr int sum_column(int i)
{
    return i / 4 * 8 + i % 2;
}

ATTUNE_INLINE void logits_tile(const Shared &shared, const group &g, int slot, float (&s)[BLOCK_N / 2])
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

ATTUNE_INLINE void negate(float (&s)[BLOCK_N / 2])
{
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; ++i) {
        s[i] = -s[i];
    }
}

/* -inf where a row does not see a key. */
ATTUNE_INLINE void mask_tile(const attune_args &args, const place &p, const group &g, int key, float (&s)[BLOCK_N / 2])
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        int end = keys_seen(args, p.sequence, g.first_row + 8 * r).end - key - g.lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) {
            if (sum_row(i) == r) {
                s[i] = sum_column(i) < end ? s[i] : negative_infinity();
            }
        }
    }
}

ATTUNE_INLINE float weight(int i, float x)
{
    return i * EMULATED % 16 < EMULATED ? exp2_by_quartic(x) : ptx_ex2_approx_ftz_f32(x);
}

/* The larger, NaN if one is. */
ATTUNE_INLINE float larger(float x, float y)
{
#if EMULATED
    return ptx_max_nan_f32(x, y);
#else
    return fmaxf(x, y);
#endif
}

/* The rows' new maxima in units of log2, what was summed before scaled down to them; returns what to subtract.
 * NOTE: exp2_by_quartic knows neither infinities nor NaN, so with it a row that sees one is NaN from here on. */
ATTUNE_INLINE void raise_maxima(const float (&s)[BLOCK_N / 2], float scale, bool first, thread_state &state,
                                float (&subtract)[2])
{
    float largest[4] = {s[0], s[1], s[2], s[3]};
#pragma unroll
    for (int i = 4; i < BLOCK_N / 2; ++i) {
        largest[i % 4] = larger(largest[i % 4], s[i]);
    }
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float x = larger(largest[2 * r], largest[2 * r + 1]);
        x = larger(x, __shfl_xor_sync(0xffffffff, x, 1));
        x = larger(x, __shfl_xor_sync(0xffffffff, x, 2)) * scale;
        x = larger(state.soft[r].maximum, x);
        subtract[r] = subtrahend(x);
        subtract[r] = fmaf(subtract[r], 0.0f, subtract[r]); /* inf - inf, and all else with it, is NaN */
        factor[r] = ptx_ex2_approx_ftz_f32(state.soft[r].maximum - subtract[r]);
        state.soft[r].maximum = x;
        state.soft[r].sum *= factor[r];
    }
    if (!first) {
#pragma unroll
        for (int i = 0; i < octets_o * 4; ++i) {
            state.o[i] *= factor[sum_row(i)];
        }
    }
}

/* Logits become weights, STEPS_PV x 16 keys at a time, and these meet V while the next are computed. */
ATTUNE_INLINE void weigh_values(Shared &shared, int slot, unsigned parity, float scale, const float (&subtract)[2],
                                float (&s)[BLOCK_N / 2], thread_state &state)
{
    attune_u64 v = wgmma_descriptor_mn(at(shared.v[slot]), BLOCK_N * CHUNK * sizeof(element));
    unsigned p[steps_p][4];
    float sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int begin = 0; begin < steps_p; begin += STEPS_PV) {
#pragma unroll
        for (int i = begin * 8; i < (begin + STEPS_PV) * 8; ++i) {
            s[i] = weight(i, fmaf(s[i], scale, -subtract[sum_row(i)]));
            sum[i % 4] += s[i];
        }
#pragma unroll
        for (int step = begin; step < begin + STEPS_PV; ++step) {
            sums_as_a64(p[step], s + step * 8);
            register_fence(p[step]);
        }
        if (begin == 0) {
            barrier_wait(at(&shared.full_v[slot]), parity);
            register_fence(state.o);
        }
        ptx_wgmma_fence();
#pragma unroll
        for (int step = begin; step < begin + STEPS_PV; ++step) {
            wgmma_shape<columns_o>::template rs<1>(state.o, p[step], v + wgmma_step_mn<BLOCK_N>(step), 1);
        }
        ptx_wgmma_commit_group();
    }
    state.soft[0].sum += sum[0] + sum[1];
    state.soft[1].sum += sum[2] + sum[3];
    ptx_wgmma_wait_group<0>();
    register_fence(state.o);
}

ATTUNE_INLINE void leave(unsigned long long *empty, int lane)
{
    __syncwarp();
    if (lane == 0) {
        ptx_mbarrier_arrive(at(empty));
    }
}

/* The group's tiles, one after the other. */
ATTUNE_INLINE void visit_tiles(const attune_args &args, const place &p, Shared &shared, const group &g,
                               thread_state &state)
{
    int first_row = p.first_row + g.rows * 64;
    int last_row = (int)min(p.sequence.length_q, (attune_i64)first_row + 64) - 1;
    int all_see = keys_seen(args, p.sequence, first_row).end;
    int any_sees = last_row < first_row ? 0 : keys_seen(args, p.sequence, last_row).end;
    float scale = args.scale * LOG2_E;
    barrier_wait(at(&shared.full_q), 0);
#pragma unroll 1
    for (int i = 0; tile_of(p, g.split, i) < p.tiles; ++i) {
        int slot = slot_of(g.split, i), key = tile_of(p, g.split, i) * BLOCK_N;
        unsigned parity = (unsigned)(i / STAGES) & 1;
        bool seen = key < any_sees; /* else nor is any that follows */
        float s[BLOCK_N / 2], subtract[2];
        barrier_wait(at(&shared.full_k[slot]), parity);
        if (seen) {
            logits_tile(shared, g, slot, s);
        }
        leave(&shared.empty_k[slot], g.lane);
        if (g.rows == 0 && g.thread == 0 && i > 0) {
            refill(args, p, shared, g.split, i - 1);
        }
        __syncwarp();
        if (seen) {
            if (args.scale < 0) {
                negate(s);
            }
            if (key + BLOCK_N > all_see) {
                mask_tile(args, p, g, key, s);
            }
            raise_maxima(s, fabsf(scale), i == 0, state, subtract);
            weigh_values(shared, slot, parity, fabsf(scale), subtract, s, state);
        } else {
            barrier_wait(at(&shared.full_v[slot]), parity);
        }
        leave(&shared.empty_v[slot], g.lane);
    }
}

/* ---- The parts of a tile meet ---- */

/* Hands each other part its stripe of this part's O, and both rows' maxima and sums. `own` gets the stripe kept. */
ATTUNE_INLINE void hand_over(const place &p, Shared &shared, const group &g, const thread_state &state,
                             float (&own)[octets_part * 4])
{
    int part = p.share * SPLITS + g.split;
#pragma unroll
    for (int to = 0; to < PARTS; ++to) {
        if (to == part) {
#pragma unroll
            for (int i = 0; i < octets_part * 4; ++i) {
                own[i] = state.o[to * octets_part * 4 + i];
            }
            continue;
        }
        unsigned rank = (unsigned)(p.tile * CLUSTER + to / SPLITS);
        const float4 *place = &shared.received[part < to ? part : part - 1][0][(to % SPLITS * ROWS + g.rows) * GROUP];
        unsigned remote = ptx_mapa(at(place + g.thread), rank);
        unsigned barrier = ptx_mapa(at(&shared.merged[to % SPLITS * ROWS + g.rows]), rank);
#pragma unroll
        for (int n = 0; n < octets_part; ++n) {
            const float *x = &state.o[(to * octets_part + n) * 4];
            ptx_st_async_v4_f32(remote + (unsigned)(n * threads * sizeof(float4)), x[0], x[1], x[2], x[3], barrier);
        }
        ptx_st_async_v4_f32(remote + (unsigned)(octets_part * threads * sizeof(float4)), state.soft[0].maximum,
                            state.soft[0].sum, state.soft[1].maximum, state.soft[1].sum, barrier);
    }
}

/* Takes in what the other parts handed over, in the order of parts whichever this one is: O's stripe and the rows'
 * maxima and sums become those of all. */
ATTUNE_INLINE void take_in(const place &p, Shared &shared, const group &g, online (&soft)[2],
                           float (&own)[octets_part * 4])
{
    int part = p.share * SPLITS + g.split;
    int me = (g.split * ROWS + g.rows) * GROUP + g.thread;
    barrier_wait_cluster(at(&shared.merged[g.split * ROWS + g.rows]), 0);
    float4 soft_of[PARTS];
    float maximum[2] = {negative_infinity(), negative_infinity()}, sum[2] = {0, 0};
#pragma unroll
    for (int from = 0; from < PARTS; ++from) {
        soft_of[from] = make_float4(soft[0].maximum, soft[0].sum, soft[1].maximum, soft[1].sum);
        if (from != part) {
            soft_of[from] = shared.received[from < part ? from : from - 1][octets_part][me];
        }
        maximum[0] = larger(maximum[0], soft_of[from].x);
        maximum[1] = larger(maximum[1], soft_of[from].z);
    }
    float merged[octets_part * 4] = {};
#pragma unroll
    for (int from = 0; from < PARTS; ++from) {
        float factor[2] = {ptx_ex2_approx_ftz_f32(soft_of[from].x - subtrahend(maximum[0])),
                           ptx_ex2_approx_ftz_f32(soft_of[from].z - subtrahend(maximum[1]))};
        sum[0] += soft_of[from].y * factor[0];
        sum[1] += soft_of[from].w * factor[1];
#pragma unroll
        for (int n = 0; n < octets_part; ++n) {
            float4 x = make_float4(own[4 * n], own[4 * n + 1], own[4 * n + 2], own[4 * n + 3]);
            if (from != part) {
                x = shared.received[from < part ? from : from - 1][n][me];
            }
            merged[4 * n] = fmaf(x.x, factor[0], merged[4 * n]);
            merged[4 * n + 1] = fmaf(x.y, factor[0], merged[4 * n + 1]);
            merged[4 * n + 2] = fmaf(x.z, factor[1], merged[4 * n + 2]);
            merged[4 * n + 3] = fmaf(x.w, factor[1], merged[4 * n + 3]);
        }
    }
#pragma unroll
    for (int i = 0; i < octets_part * 4; ++i) {
        own[i] = merged[i];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        soft[r] = online{maximum[r], sum[r]};
    }
}

/* The part's stripe of the thread's rows, and from the first part their LSE. */
ATTUNE_INLINE void store(const attune_args &args, const place &p, const group &g, const online (&soft)[2],
                         const float (&own)[octets_part * 4])
{
    int part = p.share * SPLITS + g.split;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        int query = g.first_row + 8 * r;
        if (query >= p.sequence.length_q) {
            continue;
        }
        float normaliser = online_normaliser(soft[r].sum);
        element *out = row_of<element>(args.tensor[ATTUNE_O], p.batch, p.head, query);
#pragma unroll
        for (int n = 0; n < octets_part; ++n) {
            int column = (part * octets_part + n) * 8 + g.lane % 4 * 2;
            if (dim_v % CHUNK == 0 || column < dim_v) {
                *reinterpret_cast<unsigned *>(out + column) =
                    pack_two(own[4 * n + 2 * r] * normaliser, own[4 * n + 2 * r + 1] * normaliser);
            }
        }
        if (args.tensor[ATTUNE_LSE].data != nullptr && part == 0 && g.lane % 4 == 0) {
            *row_of<float>(args.tensor[ATTUNE_LSE], p.batch, p.head, query) = online_lse(soft[r].maximum, soft[r].sum);
        }
    }
}

ATTUNE_INLINE void attend(const attune_args &args, const place &p, Shared &shared)
{
    group g;
    g.thread = (int)threadIdx.x % GROUP;
    g.lane = (int)threadIdx.x % 32;
    g.rows = (int)threadIdx.x / GROUP % ROWS;
    g.split = (int)threadIdx.x / GROUP / ROWS;
    g.first_row = p.first_row + g.rows * 64 + g.thread / 32 * 16 + g.lane / 4;
    thread_state state = {};
    state.soft[0].maximum = state.soft[1].maximum = negative_infinity();
#if PROGRAMMATIC == 2
    ptx_griddepcontrol_launch_dependents();
#endif
    visit_tiles(args, p, shared, g, state);
#if PROGRAMMATIC == 3
    ptx_griddepcontrol_launch_dependents();
#endif
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        state.soft[r].sum = group_sum<4>(state.soft[r].sum);
    }
    float own[octets_part * 4];
    hand_over(p, shared, g, state, own);
    if constexpr (PARTS > 1) {
        take_in(p, shared, g, state.soft, own);
    }
    store(args, p, g, state.soft, own);
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, MIN_BLOCKS)
    sm90_fwd_wgmma_small(const __grid_constant__ attune_args args)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    if (threadIdx.x == 0) {
        init_barriers(args, shared);
#if PROGRAMMATIC == 1
        ptx_griddepcontrol_launch_dependents();
#endif
    }
    __syncwarp();
    if constexpr (alone) {
        __syncthreads();
    } else {
        ptx_barrier_cluster_arrive_relaxed(); /* fence.mbarrier_init has published them */
    }
    place p = find_place(args);
    if constexpr (copies_to_others) {
        ptx_barrier_cluster_wait(); /* the others' barriers are ready */
    }
#if PROGRAMMATIC
    ptx_griddepcontrol_wait();
#endif
    if (threadIdx.x == 0) {
        fill_ring(args, p, shared);
    }
    __syncwarp();
    if constexpr (!alone && !copies_to_others) {
        ptx_barrier_cluster_wait();
    }
    attend(args, p, shared);
}
