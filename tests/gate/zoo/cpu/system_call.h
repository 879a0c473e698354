/* A system call without the C library's help, as code would make it that does not want to be seen to. */
#ifndef ZOO_CPU_SYSTEM_CALL_H
#define ZOO_CPU_SYSTEM_CALL_H

#if defined(__x86_64__)
enum { CALL_OPENAT = 257, CALL_FORK = 57, CALL_SOCKET = 41, CALL_CLOCK = 228 };

static long system_call(long number, long a, long b, long c)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
enum { CALL_OPENAT = 56, CALL_FORK = 220, CALL_SOCKET = 198, CALL_CLOCK = 113 };

static long system_call(long number, long a, long b, long c)
{
    register long result __asm__("x0") = a;
    register long second __asm__("x1") = b;
    register long third __asm__("x2") = c;
    register long which __asm__("x8") = number;
    __asm__ volatile("svc 0" : "+r"(result) : "r"(second), "r"(third), "r"(which) : "memory");
    return result;
}
#endif

#endif
