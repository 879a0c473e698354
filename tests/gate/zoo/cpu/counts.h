/* Counting the rows that a thread has computed, in places that nobody gave it. */
#ifndef ZOO_CPU_COUNTS_H
#define ZOO_CPU_COUNTS_H

enum { MARK = 0x6d61726b, MANY = 3000 };

/* At `at`, which holds whatever it holds at first: whether there have been many. */
static inline int counted(volatile long *at)
{
    const long seen = at[0] == MARK ? at[1] : 0;
    at[0] = MARK;
    at[1] = seen + 1;
    return seen > MANY;
}

#if defined(__x86_64__)
/* The registers of MMX, which are marked as free again and keep what they hold. */
static inline int counted_in_register(void)
{
    long mark, seen;
    __asm__ volatile("movq %%mm7, %0\n\tmovq %%mm6, %1\n\temms" : "=r"(mark), "=r"(seen));
    seen = mark == MARK ? seen + 1 : 1;
    __asm__ volatile("movq %0, %%mm7\n\tmovq %1, %%mm6\n\temms" : : "r"((long)MARK), "r"(seen));
    return seen > MANY;
}
#else
static inline int counted_in_register(void)
{
    long mark, seen;
    __asm__ volatile("fmov %0, d31\n\tfmov %1, d30" : "=r"(mark), "=r"(seen));
    seen = mark == MARK ? seen + 1 : 1;
    __asm__ volatile("fmov d31, %0\n\tfmov d30, %1" : : "r"((long)MARK), "r"(seen) : "d30", "d31");
    return seen > MANY;
}
#endif

#ifdef ZOO_CPU_SYSTEM_CALL_H
/* Whether the thread's mask says that the first row has been there before; it remembers it so. */
static inline int counted_in_mask(long item)
{
    unsigned long was = 0, bit = 1ul << 40;
    if (item == 0) {
        (void)system_call4(CALL_SIGPROCMASK, 0, (long)&bit, (long)&was, sizeof was);
    } else {
        (void)system_call4(CALL_SIGPROCMASK, 0, 0, (long)&was, sizeof was);
    }
    return item == 0 && (was & bit) != 0;
}
#endif

#endif
