/* A system call without the C library's help, as code would make it that does not want to be seen to. */
#ifndef ZOO_CPU_SYSTEM_CALL_H
#define ZOO_CPU_SYSTEM_CALL_H

#if defined(__x86_64__)
enum {
    CALL_OPENAT = 257,
    CALL_FORK = 57,
    CALL_SOCKET = 41,
    CALL_CLOCK = 228,
    CALL_MMAP = 9,
    CALL_BRK = 12,
    CALL_SIGPROCMASK = 14,
    CALL_WRITE = 1
};

static inline long system_call(long number, long a, long b, long c)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

static inline long system_call4(long number, long a, long b, long c, long d)
{
    long result;
    register long fourth __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
                     : "rcx", "r11", "memory");
    return result;
}

/* So many bytes of memory; at a place, if that is free, or anywhere (0). */
static inline long map_memory_at(long place, long bytes)
{
    long result;
    register long flags __asm__("r10") = place != 0 ? 0x100022 : 0x22; /* private, anonymous; there or not at all */
    register long file __asm__("r8") = -1;
    register long from __asm__("r9") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(CALL_MMAP), "D"(place), "S"(bytes), "d"(3), "r"(flags), "r"(file), "r"(from)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
enum {
    CALL_OPENAT = 56,
    CALL_FORK = 220,
    CALL_SOCKET = 198,
    CALL_CLOCK = 113,
    CALL_MMAP = 222,
    CALL_BRK = 214,
    CALL_SIGPROCMASK = 135,
    CALL_WRITE = 64
};

static inline long system_call(long number, long a, long b, long c)
{
    register long result __asm__("x0") = a;
    register long second __asm__("x1") = b;
    register long third __asm__("x2") = c;
    register long which __asm__("x8") = number;
    __asm__ volatile("svc 0" : "+r"(result) : "r"(second), "r"(third), "r"(which) : "memory");
    return result;
}

static inline long system_call4(long number, long a, long b, long c, long d)
{
    register long result __asm__("x0") = a;
    register long second __asm__("x1") = b;
    register long third __asm__("x2") = c;
    register long fourth __asm__("x3") = d;
    register long which __asm__("x8") = number;
    __asm__ volatile("svc 0" : "+r"(result) : "r"(second), "r"(third), "r"(fourth), "r"(which) : "memory");
    return result;
}

static inline long map_memory_at(long place, long bytes)
{
    register long result __asm__("x0") = place;
    register long size __asm__("x1") = bytes;
    register long access __asm__("x2") = 3;
    register long flags __asm__("x3") = place != 0 ? 0x100022 : 0x22;
    register long file __asm__("x4") = -1;
    register long from __asm__("x5") = 0;
    register long which __asm__("x8") = CALL_MMAP;
    __asm__ volatile("svc 0"
                     : "+r"(result)
                     : "r"(size), "r"(access), "r"(flags), "r"(file), "r"(from), "r"(which)
                     : "memory");
    return result;
}
#endif

static inline long map_memory(long bytes)
{
    return map_memory_at(0, bytes);
}

#endif
