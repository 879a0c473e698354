/* Runs a block of a CUDA kernel on a CPU: its threads are contexts that take turns wherever they wait for one another.
 * MODEL_SOURCE is the kernel's source, MODEL_ENTRY its entry; the rest is defined as for the device. What threads do to
 * each other's memory between two barriers is not found; what barriers, indices and addresses do wrong is. */
#include "model.h"

#include MODEL_SOURCE

#include <cstdio>
#include <cstdlib>
#include <ucontext.h>

three threadIdx, blockIdx;
alignas(128) unsigned char memory[1 << 18]; /* shared, dynamic */

namespace
{
enum { THREADS = ATTUNE_THREADS, WARPS = THREADS / 32, STACK = 1 << 16 };
static_assert(THREADS % 32 == 0, "whole warps");

struct meeting {
    int arrived, turns;
    bool any[2];             /* of a turn and the next */
    unsigned brought[2][32]; /* likewise */
};

ucontext_t home, context[THREADS];
unsigned char stack[THREADS][STACK];
bool ended[THREADS];
int alive;
meeting of_block, of_warp[WARPS];
const attune_args *the_args;

void fail(const char *what)
{
    (void)std::fprintf(stderr, "block %u, thread %u: %s\n", blockIdx.x, threadIdx.x, what);
    std::abort();
}

/* The next thread that has not ended. */
int next_thread()
{
    int next = (int)threadIdx.x;
    do {
        next = (next + 1) % THREADS;
    } while (ended[next]);
    return next;
}

void let_others()
{
    const int own = (int)threadIdx.x, next = next_thread();
    if (next == own) {
        fail("waits for threads that have ended");
    }
    threadIdx.x = (unsigned)next;
    (void)swapcontext(&context[own], &context[next]);
}

/* Waits until `count` threads have come. */
void meet(meeting &at, int count)
{
    const int turn = at.turns;
    if (++at.arrived == count) {
        at.arrived = 0;
        at.any[(turn + 1) % 2] = false;
        ++at.turns;
    }
    while (at.turns == turn) {
        let_others();
    }
}

void run_thread()
{
    MODEL_ENTRY(*the_args);
    ended[threadIdx.x] = true;
    if (--alive == 0) {
        (void)setcontext(&home);
    }
    if (of_block.arrived == alive) {
        fail("ends while all others wait for it");
    }
    const int next = next_thread();
    threadIdx.x = (unsigned)next;
    (void)setcontext(&context[next]);
}
} // namespace

bool model_block(bool yes)
{
    const int turn = of_block.turns % 2;
    of_block.any[turn] = of_block.any[turn] || yes;
    meet(of_block, alive);
    return of_block.any[turn];
}

void model_warp(unsigned brought, unsigned (&all)[32])
{
    meeting &warp = of_warp[threadIdx.x / 32];
    const int turn = warp.turns % 2;
    warp.brought[turn][threadIdx.x % 32] = brought;
    meet(warp, 32);
    std::memcpy(all, warp.brought[turn], sizeof all);
}

extern "C" void model_run(const attune_args *args, unsigned x, unsigned y);

/* Shared memory holds anything at first. */
extern "C" void model_run(const attune_args *args, unsigned x, unsigned y)
{
    the_args = args;
    blockIdx = {x, y, 0};
    threadIdx = {0, 0, 0};
    alive = THREADS;
    of_block = {};
    std::memset(memory, 0xff, sizeof memory);
    for (int i = 0; i < THREADS; ++i) {
        of_warp[i / 32] = {};
        ended[i] = false;
        (void)getcontext(&context[i]);
        context[i].uc_stack.ss_sp = stack[i];
        context[i].uc_stack.ss_size = STACK;
        context[i].uc_link = nullptr;
        makecontext(&context[i], run_thread, 0);
    }
    (void)swapcontext(&home, &context[0]);
}
