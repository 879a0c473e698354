/* What items leave behind is seen: beyond their scratch, and in the control registers. */
#include "base/cm.h"

#include <stdio.h>
#include <string.h>

#include "attune/kernel.h"
#include "cpu/guard.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { THREADS = 3, ITEMS = 40, SCRATCH = 1000 };

static at_pool *pool;
static at_cpu_guard guard;

static int make_pool(void **state)
{
    (void)state;
    return at_pool_create(THREADS, ATTUNE_SCRATCH_MAX + AT_SCRATCH_GUARD, &pool) != ATTUNE_OK;
}

static int free_pool(void **state)
{
    (void)state;
    at_pool_destroy(pool);
    return 0;
}

typedef struct job {
    at_work work;
    int64_t chosen; /* the item that does wrong */
    ptrdiff_t at;   /* from the beginning of its scratch on */
} job;

static void run_guarded(void *context, int64_t item, void *scratch)
{
    const job *on = context;
    at_cpu_guard_item(&guard, on->work, context, item, scratch);
}

static attune_status judged(at_work work, ptrdiff_t at, uint64_t seed)
{
    job on = {work, (int64_t)(seed % ITEMS), at};
    at_cpu_guard_begin(&guard, pool, SCRATCH, seed, seed % 2 != 0);
    at_pool_run(pool, ITEMS, run_guarded, &on);
    return at_cpu_guard_end(&guard, pool);
}

static void use_scratch(void *context, int64_t item, void *scratch)
{
    (void)context;
    memset(scratch, (int)item, SCRATCH);
}

static void write_at(void *context, int64_t item, void *scratch)
{
    const job *on = context;
    if (item == on->chosen) {
        *((unsigned char *)scratch + on->at) ^= 0x40;
    }
}

static void scratch_may_be_used_and_no_more(void **state)
{
    const size_t places[] = {SCRATCH, SCRATCH + 1, ATTUNE_SCRATCH_MAX, ATTUNE_SCRATCH_MAX + AT_SCRATCH_GUARD - 1};
    char words[80];
    (void)state;
    for (uint64_t seed = 0; seed < 8; ++seed) {
        uint64_t by = seed;
        assert_ok(judged(use_scratch, 0, by));
        for (size_t i = 0; i < sizeof places / sizeof places[0]; ++i) {
            (void)snprintf(words, sizeof words, "a scratch of 1000 bytes was written %zu bytes past its end",
                           places[i] - SCRATCH + 1);
            assert_fails(judged(write_at, (ptrdiff_t)places[i], by), ATTUNE_WRONG_RESULT, words);
        }
        assert_ok(judged(write_at, SCRATCH - 1, by));
        assert_fails(judged(write_at, -64, by), ATTUNE_WRONG_RESULT,
                     "a scratch was written 64 bytes in front of its beginning");
        assert_fails(judged(write_at, -AT_SCRATCH_FRONT, by), ATTUNE_WRONG_RESULT, "256 bytes in front");
    }
}

static void count_kept(void *context, unsigned char *scratch)
{
    *(int *)context += scratch[0] == 7 && scratch[SCRATCH - 1] == 7;
}

static void mark(void *context, unsigned char *scratch)
{
    (void)context;
    memset(scratch, 7, SCRATCH);
}

/* What the call before left is there, or not. */
static void scratch_is_filled_or_kept(void **state)
{
    (void)state;
    for (int keeps = 0; keeps < 2; ++keeps) {
        int kept = 0;
        at_pool_each_scratch(pool, mark, NULL);
        at_cpu_guard_begin(&guard, pool, SCRATCH, 5, keeps != 0);
        at_pool_each_scratch(pool, count_kept, &kept);
        assert_int_equal(kept, keeps * THREADS);
        assert_ok(at_cpu_guard_end(&guard, pool));
    }
}

#if defined(__x86_64__)
/* Whether a stretch of what lies below the item's frame is one byte again and again. */
__attribute__((noinline)) static void look_below(void *context, int64_t item, void *scratch)
{
    job *on = (job *)context;
    const volatile unsigned char *below = (const unsigned char *)__builtin_frame_address(0) - 4000;
    size_t same = 1;
    (void)scratch;
    for (int i = 1; i < 64; ++i) {
        same &= below[i] == below[0];
    }
    on->at += item == on->chosen && same != 0;
}

/* What is filled is not known by what it is filled with. */
static void stacks_hold_anything(void **state)
{
    size_t same = 0;
    (void)state;
#if defined(ATTUNE_SANITIZED)
    skip();
#endif
    for (uint64_t seed = 0; seed < 128; seed += 2) {
        job on = {look_below, (int64_t)(seed % ITEMS), 0};
        at_cpu_guard_begin(&guard, pool, SCRATCH, seed, false);
        at_pool_run(pool, ITEMS, run_guarded, &on);
        assert_ok(at_cpu_guard_end(&guard, pool));
        same += (size_t)on.at;
    }
    assert_in_range(same, 4, 40);
}

static void round_down(void *context, int64_t item, void *scratch)
{
    (void)scratch;
    if (item == ((const job *)context)->chosen) {
        _mm_setcsr((_mm_getcsr() & ~0x6000U) | 0x2000U);
    }
}

static void shorten(void *context, int64_t item, void *scratch)
{
    const unsigned short word = 0x007f;
    (void)scratch;
    if (item == ((const job *)context)->chosen) {
        __asm__ volatile("fldcw %0" : : "m"(word));
    }
}

static void take_mmx(void *context, int64_t item, void *scratch)
{
    (void)scratch;
    if (item == ((const job *)context)->chosen) {
        __asm__ volatile("movq %0, %%mm3" : : "r"(7L));
    }
}

#ifdef ATTUNE_SANITIZED
__attribute__((unused))
#endif
static void
check_alignment(void *context, int64_t item, void *scratch)
{
    (void)scratch;
    if (item == ((const job *)context)->chosen) {
        __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | 1U << 18);
    }
}

static void give_mmx_back(void *context, int64_t item, void *scratch)
{
    (void)context;
    (void)scratch;
    __asm__ volatile("movq %0, %%mm3\n\temms" : : "r"(item));
}

static void divide(void *context, int64_t item, void *scratch)
{
    volatile float zero = 0, *to = scratch;
    (void)context;
    *to = (float)(item + 1) / zero; /* raises a flag, which is no control */
}

static void registers_come_back(void **state)
{
    const unsigned before = _mm_getcsr();
    (void)state;
    for (uint64_t seed = 0; seed < 20; ++seed) {
        assert_ok(judged(divide, 0, seed));
        assert_fails(judged(round_down, 0, seed), ATTUNE_WRONG_RESULT, "items left MXCSR as 0x3");
        assert_fails(judged(shorten, 0, seed), ATTUNE_WRONG_RESULT, "the x87 control word as 0x7f, which was 0x37f");
        assert_fails(judged(take_mmx, 0, seed), ATTUNE_WRONG_RESULT, "the x87 tag word");
#ifndef ATTUNE_SANITIZED /* whose own loads are not aligned */
        assert_fails(judged(check_alignment, 0, seed), ATTUNE_WRONG_RESULT, "left the flags");
#endif
        assert_ok(judged(give_mmx_back, 0, seed));
    }
    assert_int_equal(_mm_getcsr() & ~0x3fU, before & ~0x3fU);
    assert_ok(judged(use_scratch, 0, 1)); /* nobody computes otherwise from now on */
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scratch_may_be_used_and_no_more),
        cmocka_unit_test(stacks_hold_anything),
        cmocka_unit_test(scratch_is_filled_or_kept),
#if defined(__x86_64__)
        cmocka_unit_test(registers_come_back),
#endif
    };
    return cmocka_run_group_tests(tests, make_pool, free_pool);
}
