/* Runs a block of a CUDA kernel (kernel.cc) on a CPU: its threads are contexts that take turns wherever they wait for
 * one another.
 *
 * A cluster's blocks have the memory by turns, in which they go on until all of a block's threads wait for the others.
 * What threads do to each other's memory between two barriers is found where it shows: a warp goes on until it waits
 * for others, so that it is far ahead of them where a barrier is missing; and the target of a copy that nobody has
 * waited for holds NaN. What barriers, indices and addresses do wrong is found. */
#include "model.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <vector>

#include "run.h"

enum { THREADS_MOST = 512, WARPS_MOST = THREADS_MOST / 32, CLUSTER_MOST = 8 };

three threadIdx, blockIdx, gridDim, blockDim;
alignas(1024) unsigned char memory[1 << 18];
static unsigned char memory_of[CLUSTER_MOST][sizeof memory]; /* of a cluster's blocks that do not run */

namespace
{
enum { STACK_BYTES = 1 << 16, WORDS_MOST = 6, BARRIER_COUNT = 16, COPIES_MOST = 1 << 12 };

struct meeting {
    int arrived, turns;
    int said[2];                         /* yes, of a turn and the next */
    unsigned brought[2][WORDS_MOST][32]; /* likewise */
};

struct copy {
    unsigned to, bytes;
    const void *from;
    unsigned room; /* bytes that are written: zeros behind those that are read */
};

/* A thread's copies that have not arrived, in order, and where its groups end. */
struct copies {
    copy at[COPIES_MOST];
    int count, group[COPIES_MOST], groups;
};

/* What arrives at an mbarrier when it is waited for: a copy, a box or nothing; then bytes or an arrival count. */
struct arrival {
    unsigned barrier;
    copy one;
    int map, column, row, head, batch; /* map < 0: no box */
    bool arrives;
};

/* In its eight bytes. */
struct mbarrier {
    unsigned short arrivals, pending;
    int bytes : 31;
    unsigned parity : 1;
};
static_assert(sizeof(mbarrier) == 8, "as many bytes as the device's");

/* A block: its threads, and what they wait for. */
struct block {
    std::vector<arrival> arriving;
    jmp_buf context[THREADS_MOST];
    bool begun[THREADS_MOST], ended[THREADS_MOST];
    copies under_way[THREADS_MOST];
    int alive, resumed, waiting; /* threads; the one that goes on; those that wait for the cluster */
    int turns[THREADS_MOST];     /* that it has waited for */
    meeting of_block, of_warp[WARPS_MOST], of_group[WARPS_MOST / 4], named[BARRIER_COUNT];
};

ucontext_t home, start;
alignas(16) unsigned char stack[CLUSTER_MOST][THREADS_MOST][STACK_BYTES];
block blocks[CLUSTER_MOST];
int rank; /* of the block that runs */
int cluster_arrived, cluster_turns;
attune_args the_args;
model_step the_step;

block &own_block()
{
    return blocks[rank];
}

void fail(const char *what)
{
    (void)std::fprintf(stderr, "block %u, thread %u: %s\n", blockIdx.x, threadIdx.x, what);
    std::abort();
}

/* ---- Turns ---- */

[[noreturn]] void go_to(int thread);

/* The next block of the cluster that has not ended has the memory; after the last it is over. */
[[noreturn]] void leave_block()
{
    own_block().resumed = (int)threadIdx.x;
    for (int i = 1; i <= the_step.cluster; ++i) {
        const int next = (rank + i) % the_step.cluster;
        if (blocks[next].alive > 0) {
            std::memcpy(memory_of[rank], memory, sizeof memory);
            blockIdx.x += (unsigned)(next - rank);
            rank = next;
            std::memcpy(memory, memory_of[rank], sizeof memory);
            go_to(blocks[rank].resumed);
        }
    }
    (void)setcontext(&home);
    std::abort();
}

void run_thread()
{
    const int own = (int)threadIdx.x;
    the_step.enter(the_step.index, &the_args);
    block &b = own_block();
    if (b.under_way[own].count > 0) {
        fail("ends with copies under way");
    }
    b.ended[own] = true;
    if (--b.alive == 0) {
        leave_block();
    }
    if (b.of_block.arrived == b.alive) {
        fail("ends while all others wait for it");
    }
}

void begin_thread()
{
    run_thread();
    int next = (int)threadIdx.x;
    do {
        next = next + 1 == the_step.threads ? 0 : next + 1;
    } while (own_block().ended[next]);
    go_to(next);
}

/* NOTE: contexts begin threads, jumps resume them: those ask the system for nothing. */
[[noreturn]] void go_to(int thread)
{
    threadIdx.x = (unsigned)thread;
    block &b = own_block();
    if (b.begun[thread]) {
        _longjmp(b.context[thread], 1);
    }
    b.begun[thread] = true;
    (void)getcontext(&start);
    start.uc_stack.ss_sp = stack[rank][thread];
    start.uc_stack.ss_size = STACK_BYTES;
    start.uc_link = nullptr;
    makecontext(&start, begin_thread, 0);
    (void)setcontext(&start);
    std::abort();
}

/* The next thread that has not ended: of the same warp, or of the block. */
int next_thread(bool same_warp)
{
    const int own = (int)threadIdx.x;
    int next = own;
    do {
        next = same_warp ? own / 32 * 32 + (next + 1) % 32 : next + 1 == the_step.threads ? 0 : next + 1;
    } while (own_block().ended[next]);
    return next;
}

void let_others(bool same_warp)
{
    const int own = (int)threadIdx.x, next = next_thread(same_warp);
    if (next == own) {
        fail("waits for threads that have ended");
    }
    if (_setjmp(own_block().context[own]) == 0) {
        go_to(next);
    }
}

void arrive(meeting &at, int count)
{
    if (++at.arrived == count) {
        at.arrived = 0;
        at.said[(at.turns + 1) % 2] = 0;
        ++at.turns;
    }
}

/* Waits until `count` threads have come. A warp's may wait for one that waits for other warps. */
void meet(meeting &at, int count, bool same_warp)
{
    enum { POLLS_OF_WARP = 64 };
    const int turn = at.turns;
    arrive(at, count);
    for (int polls = 0; at.turns == turn; ++polls) {
        let_others(same_warp && polls < POLLS_OF_WARP);
    }
}
} // namespace

bool model_block(bool yes)
{
    block &b = own_block();
    const int turn = b.of_block.turns % 2;
    b.of_block.said[turn] += yes;
    meet(b.of_block, b.alive, false);
    return b.of_block.said[turn] != 0;
}

static meeting &barrier_of(int id, int threads)
{
    if (id <= 0 || id >= BARRIER_COUNT || threads % 32 != 0 || threads > the_step.threads) {
        fail("no such barrier");
    }
    return own_block().named[id];
}

void model_barrier(int id, int threads)
{
    meet(barrier_of(id, threads), threads, false);
}

int model_barrier_count(int id, int threads, bool yes)
{
    meeting &at = barrier_of(id, threads);
    const int turn = at.turns % 2;
    at.said[turn] += yes;
    meet(at, threads, false);
    return at.said[turn];
}

void model_barrier_pass(int id, int threads)
{
    arrive(barrier_of(id, threads), threads);
}

void model_group()
{
    meet(own_block().of_group[threadIdx.x / 128], 128, false);
}

void model_warp_words(const unsigned *brought, int words, unsigned (*all)[32])
{
    meeting &warp = own_block().of_warp[threadIdx.x / 32];
    const int turn = warp.turns % 2;
    for (int i = 0; i < words; ++i) {
        warp.brought[turn][i][threadIdx.x % 32] = brought[i];
    }
    meet(warp, 32, true);
    std::memcpy(all, warp.brought[turn], sizeof *all * words);
}

/* ---- Copies ---- */

void *model_shared(unsigned at, unsigned bytes)
{
    if (at % bytes != 0 || at > (unsigned)the_step.smem_bytes - bytes) {
        fail("an address beside shared memory");
    }
    return memory + at;
}

void model_copy(unsigned shared, const void *global, unsigned bytes, unsigned room)
{
    copies &own = own_block().under_way[threadIdx.x];
    if (own.count == COPIES_MOST || bytes > room || (bytes > 0 && (unsigned long)global % room != 0)) {
        fail("not a copy");
    }
    std::memset(model_shared(shared, room), 0xff, room);
    own.at[own.count++] = {shared, bytes, global, room};
}

static void bring_copy(const copy &one)
{
    std::memset(memory + one.to, 0, one.room);
    std::memcpy(memory + one.to, one.from, one.bytes);
}

void model_commit()
{
    copies &own = own_block().under_way[threadIdx.x];
    own.group[own.groups++] = own.count;
}

void model_wait(int pending)
{
    copies &own = own_block().under_way[threadIdx.x];
    const int groups = own.groups - pending, done = groups > 0 ? own.group[groups - 1] : 0;
    for (int i = 0; i < done; ++i) {
        bring_copy(own.at[i]);
    }
    for (int i = done; i < own.count; ++i) {
        own.at[i - done] = own.at[i];
    }
    own.count -= done;
    for (int i = groups > 0 ? groups : 0; i < own.groups; ++i) {
        own.group[i - groups] = own.group[i] - done;
    }
    own.groups -= groups > 0 ? groups : 0;
}

/* ---- mbarriers and boxes ---- */

static mbarrier &barrier_at(unsigned barrier)
{
    return *static_cast<mbarrier *>(model_shared(barrier, 8));
}

static void end_phase(mbarrier &at)
{
    if (at.pending == 0 && at.bytes == 0) {
        at.parity ^= 1;
        at.pending = at.arrivals;
    }
}

void model_barrier_init(unsigned barrier, unsigned arrivals)
{
    barrier_at(barrier) = {(unsigned short)arrivals, (unsigned short)arrivals, 0, 0};
}

void model_barrier_expect(unsigned barrier, int bytes)
{
    barrier_at(barrier).bytes += bytes;
}

void model_barrier_arrive(unsigned barrier)
{
    mbarrier &at = barrier_at(barrier);
    if (at.pending == 0) {
        fail("arrives where nobody is expected");
    }
    --at.pending;
    end_phase(at);
}

void model_barrier_arrive_behind_copies(unsigned barrier)
{
    copies &own = own_block().under_way[threadIdx.x];
    for (int i = 0; i < own.count; ++i) {
        own_block().arriving.push_back({barrier, own.at[i], -1, 0, 0, 0, 0, false});
    }
    own.count = own.groups = 0;
    own_block().arriving.push_back({barrier, {0, 0, nullptr, 0}, -1, 0, 0, 0, 0, true});
}

int model_map_index(const void *map)
{
    return the_step.maps == 0 ? -1 : (int)static_cast<const attune_tensor_map *>(map)->opaque[0];
}

enum { LINE_BYTES = 128 };

/* The element's place, or none beyond the tensor. */
static unsigned short *element_of(const arrival &box, int row, int column)
{
    const int role = the_step.map[box.map].role;
    const bool of_q = role == ATTUNE_Q || role == ATTUNE_O;
    const bool paged = (the_args.features & ATTUNE_FEATURE_PAGED) != 0 && !of_q;
    const bool packed = (the_args.features & ATTUNE_FEATURE_VARLEN) != 0 && !paged;
    const attune_tensor &from = the_args.tensor[role];
    const long long longest = of_q ? the_args.seqlen_q : the_args.seqlen_kv;
    const long long rows = paged    ? the_args.page_size
                           : packed ? (of_q ? the_args.total_q : the_args.total_kv)
                                    : longest;
    const long long batches = paged ? the_args.page_count : packed ? 1 : the_args.batch;
    const long long heads = of_q ? the_args.heads_q : the_args.heads_kv;
    const int columns = role == ATTUNE_Q || role == ATTUNE_K ? the_args.head_dim_qk : the_args.head_dim_v;
    if (row < 0 || row >= rows || column >= columns || box.head >= heads || box.batch < 0 ||
        (!packed && box.batch >= batches)) {
        return nullptr;
    }
    return static_cast<unsigned short *>(from.data) + (packed ? 0 : box.batch * from.stride[0]) +
           box.head * from.stride[1] + row * from.stride[2] + column;
}

/* Where the element lies in shared memory. */
static unsigned char *swizzled(const arrival &box, int row, int column)
{
    const unsigned line = box.one.to + (unsigned)row * LINE_BYTES;
    return memory + line + ((unsigned)column / 8 ^ (line / LINE_BYTES & 7)) * 16 + column % 8 * 2;
}

static void bring_box(const arrival &box)
{
    for (int row = 0; row < the_step.map[box.map].rows; ++row) {
        for (int column = 0; column < 64; ++column) {
            const unsigned short *from = element_of(box, box.row + row, box.column + column);
            const unsigned short element = from == nullptr ? 0 : *from;
            std::memcpy(swizzled(box, row, column), &element, sizeof element);
        }
    }
    mbarrier &at = barrier_at(box.barrier);
    at.bytes -= the_step.map[box.map].rows * LINE_BYTES;
    end_phase(at);
}

static void check_box(unsigned shared, int map)
{
    if (map < 0 || map >= the_step.maps) {
        fail("a box without a map");
    }
    if (shared % LINE_BYTES != 0) {
        fail("a box beside its lines");
    }
    (void)model_shared(shared + (the_step.map[map].rows - 1) * LINE_BYTES, LINE_BYTES);
}

void model_box(unsigned shared, int map, unsigned barrier, int column, int row, int head, int batch)
{
    check_box(shared, map);
    std::memset(memory + shared, 0xff, the_step.map[map].rows * LINE_BYTES);
    own_block().arriving.push_back({barrier, {shared, 0, nullptr, 0}, map, column, row, head, batch, false});
}

void model_store_box(unsigned shared, int map, int column, int row, int head, int batch)
{
    const arrival box = {0, {shared, 0, nullptr, 0}, map, column, row, head, batch, false};
    check_box(shared, map);
    for (int i = 0; i < the_step.map[map].rows * 64; ++i) {
        unsigned short *to = element_of(box, row + i / 64, column + i % 64);
        if (to != nullptr) {
            std::memcpy(to, swizzled(box, i / 64, i % 64), sizeof *to);
        }
    }
}

/* All that is to arrive at a barrier does. */
static void bring(unsigned barrier)
{
    std::vector<arrival> others, now;
    for (const arrival &one : own_block().arriving) {
        (one.barrier == barrier ? now : others).push_back(one);
    }
    own_block().arriving.swap(others);
    for (const arrival &one : now) {
        if (one.map >= 0) {
            bring_box(one);
        } else if (one.arrives) {
            model_barrier_arrive(barrier);
        } else {
            bring_copy(one.one);
        }
    }
}

void model_barrier_wait(unsigned barrier, unsigned parity)
{
    enum { POLLS_MOST = 1 << 10 };
    bring(barrier);
    for (int polls = 0; barrier_at(barrier).parity == parity; ++polls) {
        if (polls == POLLS_MOST) {
            fail("waits for ever");
        }
        let_others(false);
        bring(barrier);
    }
}

void model_bulk(unsigned shared, const void *global, unsigned bytes, unsigned barrier)
{
    if (shared % 16 != 0 || bytes % 16 != 0 || (unsigned long)global % 16 != 0) {
        fail("not a run of whole parts");
    }
    (void)model_shared(shared + bytes - 16, 16);
    std::memcpy(memory + shared, global, bytes);
    mbarrier &at = barrier_at(barrier);
    at.bytes -= (int)bytes;
    end_phase(at);
}

/* ---- Clusters ---- */

void model_cluster_arrive()
{
    if (++cluster_arrived == the_step.cluster * the_step.threads) {
        cluster_arrived = 0;
        ++cluster_turns;
    }
}

/* Until it `is_done`, others of the block go on, or, where all of them wait likewise, another block. */
template <class T> static void wait_for_cluster(T is_done)
{
    block &b = own_block();
    const int own = (int)threadIdx.x;
    ++b.waiting;
    for (int polls = 0; !is_done(); ++polls) {
        if (polls == 1 << 14) {
            fail("waits for the cluster for ever");
        }
        if (b.waiting < b.alive) {
            let_others(false);
        } else if (_setjmp(b.context[own]) == 0) {
            leave_block();
        }
    }
    --b.waiting;
}

void model_cluster_wait()
{
    const int turn = own_block().turns[threadIdx.x]++;
    wait_for_cluster([&] { return cluster_turns != turn; });
}

void model_cluster_barrier_wait(unsigned barrier, unsigned parity)
{
    wait_for_cluster([&] { return barrier_at(barrier).parity != parity; });
}

void model_cluster_send(unsigned remote, const float *from, unsigned bytes, unsigned remote_barrier)
{
    mbarrier &at = *static_cast<mbarrier *>(model_cluster_shared(remote_barrier, 8));
    if (remote >> 24 != remote_barrier >> 24) {
        fail("tells another block than has it");
    }
    std::memcpy(model_cluster_shared(remote, bytes), from, bytes);
    at.bytes -= (int)bytes;
    end_phase(at);
}

unsigned model_cluster_address(unsigned shared, unsigned of)
{
    if (of >= (unsigned)the_step.cluster) {
        fail("no such block in the cluster");
    }
    return of << 24 | shared;
}

void *model_cluster_shared(unsigned remote, unsigned bytes)
{
    const int of = (int)(remote >> 24);
    unsigned char *own = static_cast<unsigned char *>(model_shared(remote & 0xffffff, bytes));
    return of == rank ? own : memory_of[of] + (own - memory);
}

/* ---- A block ---- */

extern "C" model_runner model_run;

static void make_ready(block &b)
{
    b.arriving.clear();
    b.alive = the_step.threads;
    b.resumed = b.waiting = 0;
    b.of_block = {};
    for (meeting &at : b.named) {
        at = {};
    }
    for (int i = 0; i < the_step.threads; ++i) {
        b.of_warp[i / 32] = b.of_group[i / 128] = {};
        b.begun[i] = b.ended[i] = false;
        b.under_way[i].count = b.under_way[i].groups = b.turns[i] = 0;
    }
}

/* All blocks of a cluster, by its first. Shared memory holds anything at first. */
extern "C" void model_run(const model_step *step, const attune_args *args, unsigned x, unsigned y, unsigned across,
                          unsigned down)
{
    volatile bool entered = false;
    the_step = *step;
    if (the_step.threads % 32 != 0 || the_step.threads > THREADS_MOST || the_step.cluster > CLUSTER_MOST ||
        the_step.smem_bytes > (int)sizeof memory) {
        fail("more than the model has");
    }
    if (x % (unsigned)the_step.cluster != 0) {
        return;
    }
    the_args = *args;
    for (int i = 0; i < ATTUNE_ARGS_MAPS; ++i) {
        the_args.map[i].opaque[0] = (attune_u64)i;
    }
    blockIdx = {x, y, 0};
    gridDim = {across, down, 1};
    blockDim = {(unsigned)the_step.threads, 1, 1};
    rank = cluster_arrived = cluster_turns = 0;
    std::memset(memory, 0xff, sizeof memory);
    for (int i = 0; i < the_step.cluster; ++i) {
        if (the_step.cluster > 1) {
            std::memset(memory_of[i], 0xff, sizeof memory);
        }
        make_ready(blocks[i]);
    }
    (void)getcontext(&home);
    if (!entered) {
        entered = true;
        go_to(0);
    }
}
