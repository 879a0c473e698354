/* wgmma_small: attention where there are few tiles for each multiprocessor, so that time is latency.
 *
 * A block takes ROWS x 64 queries. CLUSTER blocks divide the keys of its tile among them, SPLITS warp groups those of a
 * block. A warp group holds 64 rows against its own tiles of BLOCK_N keys: logits by wgmma, weights in registers. Then
 * those that have the same rows reduce, warp by warp: the splits through shared memory, the blocks of a cluster through
 * st.async; each ends with a stripe of O's columns.
 *
 * STAGES tiles of a split are in flight at once. Unless LOOPED, no split has more, and nothing is waited for but the
 * copies themselves. Without OVERLAP tiles are taken one after the other, the products with V under the exponentials
 * that are still to come; with it, logits of the next tile and products of the one before are asked for together, and
 * Q may lie in registers (Q_REGISTERS) and maxima stay while they are near enough (LAZY).
 *
 * Nobody does nothing but copy: three warps of a group start the copies of K, Q and V, so that no thread has to start
 * many. With PROGRAMMATIC, a block sets itself up while the kernel before still runs.
 *
 * Declared: a non-finite value may reach rows of its tile that do not see it (0 x NaN). */
#include "device/rows.cuh"
#include "device/small_pairs.cuh"
#include "device/softmax.cuh"
#include "device/wgmma.cuh"

#ifndef ATTUNE_MAP_O /* no map: nothing is stored by one */
#define ATTUNE_MAP_O 3
#endif

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

/* A warp's queries, where they are multiplied from registers: shared memory then has only keys and values to give. */
struct queries {
    unsigned a[Q_REGISTERS ? steps_qk : 1][4];
};

ATTUNE_INLINE void load_queries(const Shared &shared, const group &g, queries &q)
{
    barrier_wait(at(&shared.full_q[g.rows]), 0);
    if constexpr (Q_REGISTERS) {
        int row = g.rows * 64 + g.warp * 16 + g.lane % 16;
#pragma unroll
        for (int step = 0; step < steps_qk; ++step) {
            int place = (step % 4 * 2 + g.lane / 16) ^ (row & 7);
            ptx_ldmatrix_x4(q.a[step], at(shared.q) + (unsigned)((step / 4 * BLOCK_M + row) * 128 + place * 16));
        }
    }
}

/* A descriptor of keys or values, whose high words are all the same. NOTE: sums of 64 bits would be two instructions.
 */
ATTUNE_INLINE attune_u64 descriptor(unsigned low)
{
    return wgmma_descriptor_bits(0, 1024) & ~0xffffffffull | low;
}

/* Asks for the logits of a place's keys. */
ATTUNE_INLINE void issue_keys(const Shared &shared, const group &g, const queries &q, int slot, float (&s)[logits])
{
    attune_u64 rows = wgmma_descriptor_k(at(shared.q) + (unsigned)g.rows * 64 * CHUNK * sizeof(element));
    unsigned keys = (unsigned)wgmma_descriptor_k(at(shared.k)) + (unsigned)slot * (bytes_k >> 4);
    register_fence(s);
    ptx_wgmma_fence();
#pragma unroll
    for (int step = 0; step < steps_qk; ++step) {
        attune_u64 k = descriptor(keys + wgmma_step_k<BLOCK_N>(step));
        if constexpr (Q_REGISTERS) {
            wgmma_shape<BLOCK_N>::template rs<0>(s, q.a[step], k, PAIRED || step > 0);
        } else {
            wgmma_shape<BLOCK_N>::template ss<0>(s, rows + wgmma_step_k<BLOCK_M>(step), k, PAIRED || step > 0);
        }
    }
    ptx_wgmma_commit_group();
}

/* Until logits are here, with `pending` groups of products still under way. NOTE: the compiler forgets that a product
 * in flight reads its queries unless told. */
template <int pending> ATTUNE_INLINE void await_logits(queries &q, float (&s)[logits])
{
    ptx_wgmma_wait_group<pending>();
    register_fence(s);
#pragma unroll
    for (auto &step : q.a) {
        register_fence(step);
    }
}

ATTUNE_INLINE void negate(float (&s)[logits])
{
#pragma unroll
    for (int i = 0; i < logits; ++i) {
        s[i] = -s[i];
    }
}

/* How rows see keys: any of the group's those before any_sees, the first of the thread's own those before end, from
 * which the quad's place is taken off. */
struct view {
    int any_sees, end;
    float scale; /* of logits, in units of log2 */
};

ATTUNE_INLINE view find_view(const attune_args &args, const place &p, const group &g)
{
    int first_row = p.first_row + g.rows * 64;
    int last_row = (int)min(p.sequence.length_q, (attune_i64)first_row + 64) - 1;
    view seen;
    seen.any_sees = last_row < first_row ? 0 : keys_seen(args, p.sequence, last_row).end;
    seen.end = (int)(CAUSAL ? window_end(args, g.first_row + p.sequence.offset) : p.sequence.length_kv);
    seen.end -= g.lane % 4 * 2;
    seen.scale = score_factor(args);
    return seen;
}

/* Products as they came become logits of the keys from `key` on: -inf where a row does not see one. NOTE: under a
 * causal mask a row sees one key more than the row above, down to the last, which sees all there are. */
ATTUNE_INLINE void prepare(const view &seen, int key, float (&s)[logits])
{
    if (seen.scale < 0) {
        negate(s);
    }
    if (sum_column(logits - 1) >= seen.end - key) {
#pragma unroll
        for (int i = 0; i < logits; ++i) {
            int below = CAUSAL ? 8 * sum_row(i) : 0;
            s[i] = sum_column(i) - below < seen.end - key ? s[i] : negative_infinity();
        }
    }
}

/* A lane's largest logits of either row. */
ATTUNE_INLINE void find_largest(const float (&s)[logits], float scale, float (&largest)[2])
{
    float some[4] = {s[0], s[1], s[2], s[3]};
#pragma unroll
    for (int i = 4; i < logits; ++i) {
        some[i % 4] = fmaxf(some[i % 4], s[i]);
    }
    largest[0] = fmaxf(some[0], some[1]) * scale;
    largest[1] = fmaxf(some[2], some[3]) * scale;
}

/* The rows' new maxima in units of log2, what to subtract, and the factor for what was summed before. */
ATTUNE_INLINE void raise_maxima(const float (&s)[logits], float scale, bool first, sums<octets_o> &state,
                                float (&subtract)[2], float (&factor)[2])
{
    float largest[2];
    find_largest(s, scale, largest);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float maximum = group_max<4>(largest[r]);
        if (first) {
            state.soft[r].maximum = maximum;
        } else {
            factor[r] = online_raise(&state.soft[r], maximum);
        }
        subtract[r] = subtrahend(state.soft[r].maximum);
    }
}

/* What was summed before, scaled down to new maxima. */
ATTUNE_INLINE void rescale(const float (&factor)[2], float (&o)[octets_o * 4])
{
#pragma unroll
    for (int i = 0; i < octets_o * 4; ++i) {
        o[i] *= factor[sum_row(i)];
    }
}

/* Logits of `steps` x 16 keys from step `begin` on become weights. */
template <int steps>
ATTUNE_INLINE void weigh(float (&s)[logits], int begin, float scale, const float (&subtract)[2], float (&sum)[4])
{
#pragma unroll
    for (int i = begin * 8; i < (begin + steps) * 8; ++i) {
        s[i] = ptx_ex2_approx_ftz_f32(fmaf(s[i], scale, -subtract[sum_row(i)]));
        sum[i % 4] += s[i];
    }
}

/* And operands. */
template <int steps> ATTUNE_INLINE void pack(const float (&s)[logits], int begin, unsigned (&p)[steps_p][4])
{
#pragma unroll
    for (int step = begin; step < begin + steps; ++step) {
        sums_as_a64(p[step], s + step * 8);
        register_fence(p[step]);
    }
}

/* Asks for the products of `steps` steps of weights from `begin` on with a place's values. */
template <int steps>
ATTUNE_INLINE void issue_values(const Shared &shared, int slot, int begin, const unsigned (&p)[steps_p][4],
                                float (&o)[octets_o * 4])
{
    unsigned values = (unsigned)wgmma_descriptor_mn(at(shared.v), BLOCK_N * CHUNK * sizeof(element)) +
                      (unsigned)slot * (bytes_v >> 4);
    ptx_wgmma_fence();
#pragma unroll
    for (int step = begin; step < begin + steps; ++step) {
        wgmma_shape<columns_o>::template rs<1>(o, p[step], descriptor(values + wgmma_step_mn<BLOCK_N>(step)), 1);
    }
    ptx_wgmma_commit_group();
}

/* Logits become weights, some at a time, and are multiplied by V while the next are computed. */
ATTUNE_INLINE void weigh_values(Shared &shared, int slot, unsigned parity, float scale, const float (&subtract)[2],
                                float (&s)[logits], sums<octets_o> &state)
{
    unsigned p[steps_p][4];
    float sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int begin = 0; begin < steps_p; begin += STEPS_PV) {
        weigh<STEPS_PV>(s, begin, scale, subtract, sum);
        pack<STEPS_PV>(s, begin, p);
        if (begin == 0) {
            barrier_wait(at(&shared.full[SLOTS + slot]), parity);
            register_fence(state.o);
        }
        issue_values<STEPS_PV>(shared, slot, begin, p, state.o);
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
    view seen = find_view(args, p, g);
    float scale = fabsf(seen.scale);
    queries q;
    load_queries(shared, g, q);
#pragma unroll 1
    for (int i = 0; i < (LOOPED ? g.count : min(g.count, STAGES)); ++i) {
        int slot = slot_of(g, i), key = key_of(p, g, i);
        unsigned parity = parity_of(i);
        float s[logits];
        if (PAIRED && key < seen.any_sees) {
            begin_with_pairs(args, p, g, key, s);
        }
        barrier_wait(at(&shared.full[slot]), parity);
        if (key < seen.any_sees) {
            float subtract[2], factor[2];
            issue_keys(shared, g, q, slot, s);
            await_logits<0>(q, s);
            prepare(seen, key, s);
            raise_maxima(s, scale, i == 0, state, subtract, factor);
            if (i > 0 && __any_sync(0xffffffff, factor[0] != 1 || factor[1] != 1)) {
                rescale(factor, state.o);
            }
            weigh_values(shared, slot, parity, scale, subtract, s, state);
        } else { /* nor is any key that follows seen; but copies must have landed before the block ends */
            barrier_wait(at(&shared.full[SLOTS + slot]), parity);
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

/* ---- All tiles copied at once (OVERLAP) ----
 *
 * Logits of a tile are asked for together with the products of the one before, whose time its softmax has. NOTE: with
 * a few warps for each scheduler it is instructions and registers that are short: what can be told from the number of
 * the tile is uniform, and not kept; maxima move seldom, and what that takes is in a branch. */

/* The softmax of the thread's two rows so far. A maximum stays while logits exceed it by no more than LAZY: weights are
 * then at most 2^LAZY. */
struct progress {
    float limit[2]; /* of logits until the maximum has to move; -inf before any was seen */
    float subtract[2], sum[4];
};

/* Tiles of the group's share that some of its rows sees. NOTE: without a causal mask the same for all groups of a
 * split, whether their rows exist or not. */
ATTUNE_INLINE int tiles_seen(const place &p, const group &g, const view &seen)
{
    int tiles = CAUSAL ? (seen.any_sees + BLOCK_N - 1) / BLOCK_N : p.tiles;
    return max(tiles - p.share * SPLITS - g.split + PARTS - 1, 0) / PARTS;
}

/* Keys of the i-th tile, and values of the one before. */
ATTUNE_INLINE void await_tile(const Shared &shared, const group &g, int i)
{
    barrier_wait(at(shared.full) + (unsigned)(i * SPLITS + g.split) * 8, 0);
}

/* Moves the maxima of rows that have passed their limits, given each lane's own largest logits; `factor` is for what
 * was summed before. */
ATTUNE_INLINE void move_maxima(const float (&own)[2], progress &now, float (&factor)[2])
{
    float largest[2] = {group_max<4>(own[0]), group_max<4>(own[1])};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        bool moves = largest[r] > now.limit[r], first = now.limit[r] == negative_infinity();
        factor[r] = !moves ? 1.0f : first ? 0.0f : ptx_ex2_approx_ftz_f32(now.subtract[r] - largest[r]);
        now.subtract[r] = moves ? largest[r] : now.subtract[r];
        now.limit[r] = moves ? largest[r] + LAZY : now.limit[r];
        now.sum[2 * r] *= factor[r];
        now.sum[2 * r + 1] *= factor[r];
    }
}

/* Logits become weights; whether maxima have moved. */
ATTUNE_INLINE bool softmax_tile(float scale, progress &now, float (&s)[logits], float (&factor)[2])
{
    float own[2];
    find_largest(s, scale, own);
    bool moved = __any_sync(0xffffffff, own[0] > now.limit[0] || own[1] > now.limit[1]);
    if (moved) {
        move_maxima(own, now, factor);
    }
    weigh<steps_p>(s, 0, scale, now.subtract, now.sum);
    return moved;
}

/* Nothing that follows is begun before the sums are there: the wait for products would else be moved in front of the
 * softmax, whose time they have. NOTE: a branch holds the compiler back. Sums of weights are not negative. */
ATTUNE_INLINE void hold_back(const progress &now)
{
    int bits = 0;
#pragma unroll
    for (float sum : now.sum) {
        bits |= __float_as_int(sum);
    }
    if (bits == -1) {
        ptx_nanosleep(0);
    }
}

ATTUNE_INLINE void await_products(unsigned (&w)[steps_p][4], float (&o)[octets_o * 4])
{
    ptx_wgmma_wait_group<0>();
    register_fence(o);
#pragma unroll
    for (auto &step : w) {
        register_fence(step);
    }
}

ATTUNE_INLINE void finish(const progress &now, sums<octets_o> &state)
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float maximum = now.limit[r] == negative_infinity() ? negative_infinity() : now.subtract[r];
        state.soft[r] = online{maximum, now.sum[2 * r] + now.sum[2 * r + 1]};
    }
    sum_up(state);
}

ATTUNE_INLINE void visit_overlapped(const attune_args &args, const place &p, const group &g, Shared &shared,
                                    sums<octets_o> &state)
{
    progress now = {{negative_infinity(), negative_infinity()}, {0, 0}, {0, 0, 0, 0}};
    view seen = find_view(args, p, g);
    queries q;
    float s[logits], factor[2], scale = fabsf(seen.scale);
    unsigned w[steps_p][4];
    int count = tiles_seen(p, g, seen);
    load_queries(shared, g, q);
    if (count > 0) {
        begin_with_pairs(args, p, g, key_of(p, g, 0), s);
        await_tile(shared, g, 0);
        issue_keys(shared, g, q, g.split, s);
        await_logits<0>(q, s);
        prepare(seen, key_of(p, g, 0), s);
        softmax_tile(scale, now, s, factor);
        pack<steps_p>(s, 0, w);
#pragma unroll 1
        for (int i = 1; i < count; ++i) {
            begin_with_pairs(args, p, g, key_of(p, g, i), s);
            await_tile(shared, g, i);
            issue_keys(shared, g, q, i * SPLITS + g.split, s);
            register_fence(state.o);
            issue_values<steps_p>(shared, (i - 1) * SPLITS + g.split, 0, w, state.o);
            await_logits<1>(q, s);
            prepare(seen, key_of(p, g, i), s);
            bool moved = softmax_tile(scale, now, s, factor);
            hold_back(now);
            await_products(w, state.o);
            if (moved) {
                rescale(factor, state.o);
            }
            pack<steps_p>(s, 0, w);
        }
        await_tile(shared, g, count);
        register_fence(state.o);
        issue_values<steps_p>(shared, (count - 1) * SPLITS + g.split, 0, w, state.o);
        finish(now, state);
        await_products(w, state.o);
    }
    for (int i = count > 0 ? count + 1 : 0; i <= g.count; ++i) { /* copies must have landed before the block ends */
        await_tile(shared, g, i);
    }
}

/* ---- Reduction over the parts of a tile ---- */

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
template <int octets> ATTUNE_INLINE void add(sums<octets> &own, const partial<octets> &other, int lane)
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

/* And where the partial from part `from` lies among those that part `to` gets. */
ATTUNE_INLINE int place_from(int from, int to)
{
    return from < to ? from : from - 1;
}

/* Warps of the block's splits that have the same rows. */
ATTUNE_INLINE void reduce_in_block(Shared &shared, const group &g, const sums<octets_o> &state, sums<octets_split> &own)
{
    constexpr int each = (SPLITS - 1) * ROWS * 4; /* partials that a split gets */
    int warp = g.rows * 4 + g.warp;
    own.soft[0] = state.soft[0];
    own.soft[1] = state.soft[1];
    pick_stripe<octets_split, SPLITS>(own.o, state.o, g.split);
#pragma unroll
    for (int j = 0; j < SPLITS - 1; ++j) {
        int to = other_part(g.split, j);
        auto &into = partials_of_splits(shared)[to * each + place_from(g.split, to) * ROWS * 4 + warp];
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
        add(own, partials_of_splits(shared)[g.split * each + j * ROWS * 4 + warp], g.lane);
    }
}

/* Warps at the same place of the cluster's blocks. */
ATTUNE_INLINE void reduce_in_cluster(const place &p, Shared &shared, const sums<octets_split> &state,
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
        auto &into = partials_of_blocks(shared)[place_from(p.share, (int)to) * warps + warp];
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
        add(own, partials_of_blocks(shared)[j * warps + warp], lane);
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

ATTUNE_INLINE float normaliser_of(const online &soft)
{
    return soft.sum == 0 ? 0 : ptx_rcp_approx_ftz_f32(soft.sum);
}

ATTUNE_INLINE void store_lse(const destination &to, const sums<octets_part> &own)
{
    if (to.lse != nullptr) {
        *to.lse = to.row == 0 ? online_lse(own.soft[0].maximum, own.soft[0].sum)
                              : online_lse(own.soft[1].maximum, own.soft[1].sum);
    }
}

ATTUNE_INLINE void store(const destination &to, const sums<octets_part> &own, int lane)
{
    const float f[2] = {normaliser_of(own.soft[0]), normaliser_of(own.soft[1])};
#pragma unroll
    for (int n = 0; n < octets_part; n += 2) {
        const float *x = own.o + 4 * n;
        uint4 line = transpose_quad(pack_two(x[0] * f[0], x[1] * f[0]), pack_two(x[4] * f[0], x[5] * f[0]),
                                    pack_two(x[2] * f[1], x[3] * f[1]), pack_two(x[6] * f[1], x[7] * f[1]), lane);
        if (to.o != nullptr && (dim_v % CHUNK == 0 || to.column + n * 8 < dim_v)) {
            *reinterpret_cast<uint4 *>(to.o + n * 8) = line;
        }
    }
    store_lse(to, own);
}

/* O through the place of the warp's queries, which it alone has read: the copy engine takes it from there, and leaves
 * out rows and columns that do not exist. */
ATTUNE_INLINE void store_box(const attune_args &args, const place &p, const group &g, Shared &shared,
                             const sums<octets_part> &own)
{
    int first = g.rows * 64 + g.warp * 16;
    unsigned rows = at(shared.q) + (unsigned)first * CHUNK * sizeof(element);
    const float f[2] = {normaliser_of(own.soft[0]), normaliser_of(own.soft[1])};
    __syncwarp();
    rows_stage<BLOCK_M * CHUNK * sizeof(element)>(rows, own.o, f, g.lane);
    ptx_fence_proxy_async_shared();
    __syncwarp();
    if (g.lane == 0) {
#pragma unroll
        for (int c = 0; c < chunks_v; ++c) {
            ptx_cp_async_bulk_tensor_4d_store(&args.map[ATTUNE_MAP_O],
                                              rows + (unsigned)(c * BLOCK_M * CHUNK * sizeof(element)), c * CHUNK,
                                              p.first_row + first, p.head, p.batch);
        }
        ptx_cp_async_bulk_commit_group();
        ptx_cp_async_bulk_wait_group_read<0>();
    }
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, MIN_BLOCKS)
    sm90_fwd_wgmma_small(const __grid_constant__ attune_args args)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    if (threadIdx.x == 0) {
        if constexpr (!OVERLAP) {
            init_barriers(args, shared);
        }
        ptx_griddepcontrol_launch_dependents();
    }
    place p = find_place(args);
    group g = find_group(p);
    destination to;
    if constexpr (OVERLAP) {
        init_all_barriers(args, p, shared);
    } else {
        to = find_destination(args, p, g);
    }
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
    if constexpr (OVERLAP) {
        visit_overlapped(args, p, g, shared, state);
        to = find_destination(args, p, g); /* its registers were needed */
    } else {
        visit_tiles(args, p, g, shared, state);
    }
    sums<octets_split> of_block;
    sums<octets_part> own;
    reduce_in_block(shared, g, state, of_block);
    reduce_in_cluster(p, shared, of_block, own);
    if constexpr (boxed) {
        store_box(args, p, g, shared, own);
        store_lse(to, own);
    } else {
        store(to, own, g.lane);
    }
    mend_rows(args, p, g, own.o, own.soft[0].sum, own.soft[1].sum);
}
