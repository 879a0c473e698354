#include "cpu/guard.h"

#include <string.h>

#include "attune/kernel.h"
#include "base/status.h"

/* ---- Control registers ------------------------------------------------------------------------------------------- */

typedef enum register_kind { NO_REGISTER, MXCSR, X87_CONTROL, FPCR } register_kind;

enum { REGISTERS = 2 };

typedef struct control {
    uint32_t value[REGISTERS];
} control;

#if defined(__x86_64__)
static const register_kind kinds[REGISTERS] = {MXCSR, X87_CONTROL};
enum { MXCSR_FLAGS = 0x3f }; /* which exceptions there were: no control */

static control read_control(void)
{
    control now = {{0, 0}};
    uint16_t word;
    __asm__ volatile("stmxcsr %0" : "=m"(now.value[0]));
    __asm__ volatile("fnstcw %0" : "=m"(word));
    now.value[0] &= ~(uint32_t)MXCSR_FLAGS;
    now.value[1] = word;
    return now;
}

static void write_control(const control *as)
{
    const uint16_t word = (uint16_t)as->value[1];
    __asm__ volatile("ldmxcsr %0" : : "m"(as->value[0]));
    __asm__ volatile("fninit\n\tfldcw %0" : : "m"(word));
}
#elif defined(__aarch64__)
static const register_kind kinds[REGISTERS] = {FPCR, NO_REGISTER};

static control read_control(void)
{
    uint64_t word;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    return (control){{(uint32_t)word, 0}};
}

static void write_control(const control *as)
{
    const uint64_t word = as->value[0];
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, xzr" : : "r"(word));
}
#else
static const register_kind kinds[REGISTERS] = {NO_REGISTER, NO_REGISTER};

static control read_control(void)
{
    return (control){{0, 0}};
}

static void write_control(const control *as)
{
    (void)as;
}
#endif

static const char *name_of(unsigned kind)
{
    return kind == MXCSR ? "MXCSR" : kind == X87_CONTROL ? "the x87 control word" : "FPCR";
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
    size_t past; /* the scratch, of the first byte that was written there; 0: none was */
} search;

static void look_behind(void *context, unsigned char *scratch)
{
    search *on = context;
    const size_t from = on->guard->scratch_bytes, bytes = SCRATCH_BYTES - from;
    size_t intact = at_poison_intact(on->guard->poison, from, scratch + from, bytes);
    on->past = intact < bytes ? intact + 1 : on->past;
}

attune_status at_cpu_guard_end(at_cpu_guard *guard, at_pool *pool)
{
    search on = {guard, 0};
    const unsigned left = atomic_load(&guard->left);
    at_pool_each_scratch(pool, look_behind, &on);
    AT_FAIL_IF(on.past > 0, ATTUNE_WRONG_RESULT, "guards: a scratch of %zu bytes was written %zu bytes past its end",
               guard->scratch_bytes, on.past);
    AT_FAIL_IF(left != 0, ATTUNE_WRONG_RESULT, "registers: items left %s as %#x, which was %#x when they began",
               name_of(left >> 24), left & 0xffff, atomic_load(&guard->lent) & 0xffff);
    return ATTUNE_OK;
}
