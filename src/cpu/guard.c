#include "cpu/guard.h"

#include <string.h>

#include "attune/kernel.h"
#include "base/status.h"

/* ---- Control registers ------------------------------------------------------------------------------------------- */

typedef enum register_kind { NO_REGISTER, MXCSR, X87_CONTROL, X87_TAGS, FLAGS, FPCR } register_kind;

enum { REGISTERS = 4 };

typedef struct control {
    uint32_t value[REGISTERS];
} control;

#if defined(__x86_64__)
static const register_kind kinds[REGISTERS] = {MXCSR, X87_CONTROL, X87_TAGS, FLAGS};
enum { MXCSR_FLAGS = 0x3f }; /* which exceptions there were: no control */
/* Of the flags: strings go backwards; alignment is checked; a bit that does nothing but to stay as it is. */
enum { BACKWARDS = 1 << 10, ALIGNMENT = 1 << 18, KEPT = 1 << 21 };

/* NOTE: to store the x87 environment masks its exceptions, so that the control word is written again. */
static control read_control(void)
{
    control now = {{0, 0, 0, 0}};
    struct {
        uint32_t control, status, tags, rest[4];
    } x87;
    __asm__ volatile("stmxcsr %0" : "=m"(now.value[0]));
    __asm__ volatile("fnstenv %0" : "=m"(x87));
    const uint16_t word = (uint16_t)x87.control;
    __asm__ volatile("fldcw %0" : : "m"(word));
    const uint64_t flags = __builtin_ia32_readeflags_u64();
    now.value[0] &= ~(uint32_t)MXCSR_FLAGS;
    now.value[1] = word;
    now.value[2] = x87.tags & 0xffff;
    now.value[3] = (flags & BACKWARDS ? 1 : 0) | (flags & ALIGNMENT ? 2 : 0) | (flags & KEPT ? 4 : 0);
    return now;
}

static void write_control(const control *as)
{
    const uint16_t word = (uint16_t)as->value[1];
    const uint64_t flags = __builtin_ia32_readeflags_u64() & ~(uint64_t)(BACKWARDS | ALIGNMENT | KEPT);
    __builtin_ia32_writeeflags_u64(flags | (as->value[3] & 1 ? BACKWARDS : 0) | (as->value[3] & 2 ? ALIGNMENT : 0) |
                                   (as->value[3] & 4 ? KEPT : 0));
    __asm__ volatile("ldmxcsr %0" : : "m"(as->value[0]));
    __asm__ volatile("fninit\n\tfldcw %0" : : "m"(word));
}
#elif defined(__aarch64__)
static const register_kind kinds[REGISTERS] = {FPCR, NO_REGISTER, NO_REGISTER, NO_REGISTER};

static control read_control(void)
{
    uint64_t word;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    return (control){{(uint32_t)word, 0, 0, 0}};
}

static void write_control(const control *as)
{
    const uint64_t word = as->value[0];
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, xzr" : : "r"(word));
}
#else
static const register_kind kinds[REGISTERS] = {NO_REGISTER};

static control read_control(void)
{
    return (control){{0, 0, 0, 0}};
}

static void write_control(const control *as)
{
    (void)as;
}
#endif

static const char *name_of(unsigned kind)
{
    static const char *const names[] = {"",
                                        "MXCSR",
                                        "the x87 control word",
                                        "the x87 tag word (numbers on its stack, or no emms)",
                                        "the flags (1: strings go backwards, 2: alignment is checked, 4: ID)",
                                        "FPCR"};
    return names[kind];
}

/* The values are below 2^16 but for FPCR's, whose lower half says nothing on its own: both are kept as they fit. */
static unsigned packed(register_kind kind, uint32_t value)
{
    return (unsigned)kind << 24 | ((value >> (kind == FPCR ? 16 : 0)) & 0xffff);
}

/* What is as it was is not written: flags of earlier arithmetic would be gone, and a kernel could see that. */
static void compare(at_cpu_guard *guard, const control *before, const control *after)
{
    if (memcmp(before, after, sizeof *before) != 0) {
        write_control(before);
    }
    for (int i = 0; i < REGISTERS; ++i) {
        unsigned none = 0;
        if (before->value[i] != after->value[i] &&
            atomic_compare_exchange_strong(&guard->left, &none, packed(kinds[i], after->value[i]))) {
            atomic_store(&guard->lent, packed(kinds[i], before->value[i]));
        }
    }
}

/* ---- Scratch and stacks ------------------------------------------------------------------------------------------ */

enum { SCRATCH_BYTES = ATTUNE_SCRATCH_MAX + AT_SCRATCH_GUARD, STACK_BYTES = 8192 };

static void fill_scratch(void *context, unsigned char *scratch)
{
    const at_cpu_guard *guard = context;
    const size_t from = guard->keeps ? guard->scratch_bytes : 0;
    at_poison_write(guard->poison, SCRATCH_BYTES, scratch - AT_SCRATCH_FRONT, AT_SCRATCH_FRONT);
    at_poison_write(guard->poison, from, scratch + from, SCRATCH_BYTES - from);
}

void at_cpu_guard_begin(at_cpu_guard *guard, at_pool *pool, size_t scratch_bytes, uint64_t seed, bool keeps)
{
    guard->poison = at_poison_draw(seed);
    guard->scratch_bytes = scratch_bytes;
    guard->keeps = keeps;
    atomic_init(&guard->left, 0);
    atomic_init(&guard->lent, 0);
    at_pool_each_scratch(pool, fill_scratch, guard);
}

/* What the next call finds below its frame. */
__attribute__((noinline)) static void fill_stack(at_poison poison, int64_t item)
{
    unsigned char room[STACK_BYTES];
    at_poison_write(poison, (uint64_t)item * STACK_BYTES, room, sizeof room);
    __asm__ volatile("" : : "r"(room) : "memory");
}

void at_cpu_guard_item(at_cpu_guard *guard, at_work work, void *context, int64_t item, void *scratch)
{
    const control before = read_control();
    if (!guard->keeps) {
        fill_stack(guard->poison, item);
    }
    work(context, item, scratch);
    const control after = read_control();
    compare(guard, &before, &after);
}

typedef struct search {
    const at_cpu_guard *guard;
    size_t past;  /* the scratch, of the first byte that was written there; 0: none was */
    size_t front; /* how far in front of it the first byte lies that was written there; 0: none was */
} search;

static void look_behind(void *context, unsigned char *scratch)
{
    search *on = context;
    const size_t from = on->guard->scratch_bytes, bytes = SCRATCH_BYTES - from;
    size_t intact = at_poison_intact(on->guard->poison, from, scratch + from, bytes);
    on->past = intact < bytes ? intact + 1 : on->past;
    intact = at_poison_intact(on->guard->poison, SCRATCH_BYTES, scratch - AT_SCRATCH_FRONT, AT_SCRATCH_FRONT);
    on->front = intact < AT_SCRATCH_FRONT ? AT_SCRATCH_FRONT - intact : on->front;
}

attune_status at_cpu_guard_end(at_cpu_guard *guard, at_pool *pool)
{
    search on = {guard, 0, 0};
    const unsigned left = atomic_load(&guard->left);
    at_pool_each_scratch(pool, look_behind, &on);
    AT_FAIL_IF(on.past > 0, ATTUNE_WRONG_RESULT, "guards: a scratch of %zu bytes was written %zu bytes past its end",
               guard->scratch_bytes, on.past);
    AT_FAIL_IF(on.front > 0, ATTUNE_WRONG_RESULT, "guards: a scratch was written %zu bytes in front of its beginning",
               on.front);
    AT_FAIL_IF(left != 0, ATTUNE_WRONG_RESULT, "registers: items left %s as %#x, which was %#x when they began",
               name_of(left >> 24), left & 0xffff, atomic_load(&guard->lent) & 0xffff);
    return ATTUNE_OK;
}
