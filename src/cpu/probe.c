#include "cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

#include "base/status.h"
#include "core/target.h"

/* ---- Instruction sets ------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)

/* Leaf 1, ECX. */
enum { FMA = 1u << 12, OSXSAVE = 1u << 27, AVX = 1u << 28, F16C = 1u << 29 };
/* Leaf 7, EBX. */
#define AVX2 (1u << 5)
#define AVX512 (1u << 16 | 1u << 17 | 1u << 30 | 1u << 31) /* F, DQ, BW, VL */
/* Leaf 7, EDX. */
enum { AMX = 1u << 22 | 1u << 24 }; /* BF16, TILE */
/* Leaf 7, subleaf 1, EAX. */
enum { AVX512_BF16 = 1u << 5 };
/* What the operating system saves and restores (XCR0): SSE, AVX; opmask, upper halves of ZMM0-15, ZMM16-31; the tiles'
 * configuration, the tiles. */
enum { STATE_AVX = 0x06, STATE_AVX512 = 0xe0, STATE_AMX = 0x60000 };

static unsigned saved_state(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* NOTE: Linux gives a process the 8 KB a thread that tiles need only if it asks; before that, the first instruction on
 * tiles ends the process. All threads have what one asked for, and asking again changes nothing. */
static bool may_use_tiles(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

/* The highest of the tiers above AVX-512; `d` is of leaf 7. */
static attune_isa best_of_avx512(unsigned d)
{
    unsigned a, b, c, unused;
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &unused) || (a & AVX512_BF16) == 0) {
        return ATTUNE_ISA_AVX512;
    }
    bool tiles = (d & AMX) == AMX && (saved_state() & STATE_AMX) == STATE_AMX && may_use_tiles();
    return tiles ? ATTUNE_ISA_AMX : ATTUNE_ISA_AVX512_BF16;
}

attune_isa at_cpu_best_isa(void)
{
    const unsigned first = FMA | OSXSAVE | AVX | F16C;
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & first) != first || (saved_state() & STATE_AVX) != STATE_AVX) {
        return ATTUNE_ISA_BASELINE;
    }
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & AVX2) == 0) {
        return ATTUNE_ISA_BASELINE;
    }
    bool wide = (b & AVX512) == AVX512 && (saved_state() & STATE_AVX512) == STATE_AVX512;
    return wide ? best_of_avx512(d) : ATTUNE_ISA_AVX2;
}

static void read_brand(char brand[49])
{
    unsigned words[12] = {0};
    unsigned a, b, c, d;
    if (__get_cpuid(0x80000000u, &a, &b, &c, &d) && a >= 0x80000004u) {
        for (unsigned i = 0; i < 3; ++i) {
            unsigned *part = words + (size_t)i * 4;
            __get_cpuid(0x80000002u + i, part, part + 1, part + 2, part + 3);
        }
    }
    memcpy(brand, words, 48);
    brand[48] = '\0';
}

/* ---- Caches ----------------------------------------------------------------------------------------------------- */

typedef struct caches {
    int64_t l1d, l2, l3;
} caches;

/* Leaf 4 of Intel and leaf 0x8000001d of AMD describe one cache a subleaf, in the same form. */
static bool read_cache_leaf(unsigned leaf, caches *found)
{
    for (unsigned i = 0; i < 16; ++i) {
        unsigned a, b, c, d;
        if (!__get_cpuid_count(leaf, i, &a, &b, &c, &d) || (a & 31u) == 0) {
            break;
        }
        unsigned kind = a & 31u; /* 1 data, 2 instructions, 3 both */
        unsigned level = a >> 5 & 7u;
        int64_t ways = (int64_t)(b >> 22) + 1;
        int64_t partitions = (int64_t)(b >> 12 & 0x3ffu) + 1;
        int64_t line = (int64_t)(b & 0xfffu) + 1;
        int64_t bytes = ways * partitions * line * ((int64_t)c + 1);
        if (level == 1 && kind == 1) {
            found->l1d = bytes;
        } else if (level == 2 && kind != 2) {
            found->l2 = bytes;
        } else if (level == 3 && kind != 2) {
            found->l3 = bytes;
        }
    }
    return found->l1d > 0;
}

static caches read_caches(void)
{
    caches found = {0, 0, 0};
    unsigned a, b, c, d;
    if (__get_cpuid(0x80000001u, &a, &b, &c, &d) && (c & 1u << 22) != 0 && read_cache_leaf(0x8000001du, &found)) {
        return found; /* NOTE: bit 22 is AMD's promise of the leaf; on AMD leaf 4 is empty */
    }
    read_cache_leaf(4, &found);
    return found;
}

#else

typedef struct caches {
    int64_t l1d, l2, l3;
} caches;

attune_isa at_cpu_best_isa(void)
{
    return ATTUNE_ISA_BASELINE;
}

static void read_brand(char brand[49])
{
    brand[0] = '\0';
}

static int64_t cache_of(int name)
{
    long bytes = sysconf(name);
    return bytes > 0 ? bytes : 0;
}

static caches read_caches(void)
{
    return (caches){cache_of(_SC_LEVEL1_DCACHE_SIZE), cache_of(_SC_LEVEL2_CACHE_SIZE), cache_of(_SC_LEVEL3_CACHE_SIZE)};
}

#endif

/* ---- The target ------------------------------------------------------------------------------------------------- */

/* Copies the words of a brand with one underscore between them: "AMD EPYC 7B13 64-Core Processor  " becomes
 * "AMD_EPYC_7B13_64-Core_Processor". */
static void print_model(const char *brand, char *model, size_t bytes)
{
    size_t at = 0;
    bool gap = false;
    for (; *brand != '\0' && at + 2 < bytes; ++brand) {
        if (*brand <= ' ' || *brand == '/' || *brand == ',') {
            gap = at > 0;
            continue;
        }
        if (gap) {
            model[at++] = '_';
            gap = false;
        }
        model[at++] = *brand;
    }
    model[at] = '\0';
    if (at == 0) {
        (void)snprintf(model, bytes, "unknown");
    }
}

attune_status at_cpu_probe(attune_isa isa, int threads, attune_target *target)
{
    attune_isa best = at_cpu_best_isa();
    AT_FAIL_IF((int)isa < 0 || isa >= ATTUNE_ISA_COUNT, ATTUNE_INVALID_ARGUMENT, "isa %d: 0 to %d are known", (int)isa,
               ATTUNE_ISA_COUNT - 1);
    AT_FAIL_IF(isa > best, ATTUNE_UNSUPPORTED, "isa %s: this CPU and its operating system have %s at most",
               at_isa_name(isa), at_isa_name(best));
    AT_FAIL_IF(threads < 1, ATTUNE_INVALID_ARGUMENT, "threads %d: at least 1 is needed", threads);
    char brand[49];
    read_brand(brand);
    caches found = read_caches();
    memset(target, 0, sizeof *target);
    target->size = sizeof *target;
    target->kind = ATTUNE_TARGET_CPU;
    print_model(brand, target->model, sizeof target->model);
    target->isa = isa;
    target->threads = threads;
    target->l1d_bytes = found.l1d;
    target->l2_bytes = found.l2;
    target->l3_bytes = found.l3;
    return ATTUNE_OK;
}
