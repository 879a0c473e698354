/* Runs a block of a CUDA kernel on a CPU: its threads are contexts that take turns wherever they wait for one another.
 * MODEL_SOURCE is the kernel's source, MODEL_ENTRY its entry; the rest is defined as for the device.
 *
 * What threads do to each other's memory between two barriers is found where it shows: a warp goes on until it waits
 * for others, so that it is far ahead of them where a barrier is missing; and the target of a copy that nobody has
 * waited for holds NaN. What barriers, indices and addresses do wrong is found. */
#include "model.h"

#include MODEL_SOURCE

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <ucontext.h>

three threadIdx, blockIdx, gridDim;
alignas(1024) unsigned char memory[1 << 18];

namespace
{
enum { ALL_THREADS = ATTUNE_THREADS, ALL_WARPS = ALL_THREADS / 32, STACK_BYTES = 1 << 16, WORDS_MOST = 6, BARRIER_COUNT = 16, COPIES_MOST = 1 << 12 };
static_assert(ALL_THREADS % 32 == 0, "whole warps");
#ifdef ATTUNE_SMEM_BYTES
enum { MEMORY_BYTES = ATTUNE_SMEM_BYTES };
#else
enum { MEMORY_BYTES = 0 };
#endif

struct meeting {
    int arrived, turns;
    bool any[2];                    /* of a turn and the next */
    unsigned brought[2][WORDS_MOST][32]; /* likewise */
};

struct copy {
    unsigned to, bytes;
    const void *from;
};

/* A thread's copies that have not arrived, in order, and where its groups end. */
struct copies {
    copy at[COPIES_MOST];
    int count, group[COPIES_MOST], groups;
};

ucontext_t home, start;
jmp_buf context[ALL_THREADS];
bool begun[ALL_THREADS], ended[ALL_THREADS];
alignas(16) unsigned char stack[ALL_THREADS][STACK_BYTES];
copies under_way[ALL_THREADS];
int alive;
meeting of_block, of_warp[ALL_WARPS], named[BARRIER_COUNT];
const attune_args *the_args;

void fail(const char *what)
{
    (void)std::fprintf(stderr, "block %u, thread %u: %s\n", blockIdx.x, threadIdx.x, what);
    std::abort();
}

/* ---- Turns ---- */

void run_thread()
{
    const int own = (int)threadIdx.x;
    MODEL_ENTRY(*the_args);
    if (under_way[own].count > 0) {
        fail("ends with copies under way");
    }
    ended[own] = true;
    if (--alive == 0) {
        (void)setcontext(&home);
    }
    if (of_block.arrived == alive) {
        fail("ends while all others wait for it");
    }
}

[[noreturn]] void go_to(int thread);

void begin_thread()
{
    run_thread();
    int next = (int)threadIdx.x;
    do {
        next = (next + 1) % ALL_THREADS;
    } while (ended[next]);
    go_to(next);
}

/* NOTE: contexts begin threads, jumps resume them: those ask the system for nothing. */
[[noreturn]] void go_to(int thread)
{
    threadIdx.x = (unsigned)thread;
    if (begun[thread]) {
        _longjmp(context[thread], 1);
    }
    begun[thread] = true;
    (void)getcontext(&start);
    start.uc_stack.ss_sp = stack[thread];
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
        next = same_warp ? own / 32 * 32 + (next + 1) % 32 : (next + 1) % ALL_THREADS;
    } while (ended[next]);
    return next;
}

void let_others(bool same_warp)
{
    const int own = (int)threadIdx.x, next = next_thread(same_warp);
    if (next == own) {
        fail("waits for threads that have ended");
    }
    if (_setjmp(context[own]) == 0) {
        go_to(next);
    }
}

/* Waits until `count` threads have come. */
void meet(meeting &at, int count, bool same_warp)
{
    const int turn = at.turns;
    if (++at.arrived == count) {
        at.arrived = 0;
        at.any[(turn + 1) % 2] = false;
        ++at.turns;
    }
    while (at.turns == turn) {
        let_others(same_warp);
    }
}
} // namespace

bool model_block(bool yes)
{
    const int turn = of_block.turns % 2;
    of_block.any[turn] = of_block.any[turn] || yes;
    meet(of_block, alive, false);
    return of_block.any[turn];
}

void model_barrier(int id, int threads)
{
    if (id <= 0 || id >= BARRIER_COUNT || threads % 32 != 0 || threads > ALL_THREADS) {
        fail("no such barrier");
    }
    meet(named[id], threads, false);
}

void model_warp_words(const unsigned *brought, int words, unsigned (*all)[32])
{
    meeting &warp = of_warp[threadIdx.x / 32];
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
    if (at % bytes != 0 || at > (unsigned)MEMORY_BYTES - bytes) {
        fail("an address beside shared memory");
    }
    return memory + at;
}

void model_copy(unsigned shared, const void *global, unsigned bytes)
{
    copies &own = under_way[threadIdx.x];
    if (own.count == COPIES_MOST || bytes > 16 || (bytes > 0 && (unsigned long)global % 16 != 0)) {
        fail("not a copy");
    }
    std::memset(model_shared(shared, 16), 0xff, 16);
    own.at[own.count++] = {shared, bytes, global};
}

void model_commit()
{
    copies &own = under_way[threadIdx.x];
    own.group[own.groups++] = own.count;
}

void model_wait(int pending)
{
    copies &own = under_way[threadIdx.x];
    const int groups = own.groups - pending, done = groups > 0 ? own.group[groups - 1] : 0;
    for (int i = 0; i < done; ++i) {
        std::memset(memory + own.at[i].to, 0, 16);
        std::memcpy(memory + own.at[i].to, own.at[i].from, own.at[i].bytes);
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

/* ---- A block ---- */

extern "C" void model_run(const attune_args *args, unsigned x, unsigned y);

/* Shared memory holds anything at first. */
extern "C" void model_run(const attune_args *args, unsigned x, unsigned y)
{
    volatile bool entered = false;
    the_args = args;
    blockIdx = {x, y, 0};
    alive = ALL_THREADS;
    of_block = {};
    std::memset(memory, 0xff, sizeof memory);
    for (int i = 0; i < BARRIER_COUNT; ++i) {
        named[i] = {};
    }
    for (int i = 0; i < ALL_THREADS; ++i) {
        of_warp[i / 32] = {};
        begun[i] = ended[i] = false;
        under_way[i].count = under_way[i].groups = 0;
    }
    (void)getcontext(&home);
    if (!entered) {
        entered = true;
        go_to(0);
    }
}
