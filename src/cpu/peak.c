#include "cpu/peak.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/status.h"
#include "core/target.h"
#include "cpu/cpu.h"

enum {
    REPEATS = 12,     /* the best of these counts: others were disturbed */
    WANTED_US = 6000, /* of one repeat: long against the start of a run, short against a time slice */
    PIECES = 4,       /* of a copy, for each thread: one that comes late leaves the rest to others */
    COPY_REPEATS = 6,
    COPY_MIN = 64 << 20 /* bytes of a buffer, at least */
};

#define COPY_MAX ((size_t)512 << 20)

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static at_peak_loop loop_of(attune_isa isa, attune_dtype dtype)
{
#if defined(__x86_64__)
    static const at_peak_loop loops[ATTUNE_ISA_COUNT] = {at_cpu_fma_baseline, at_cpu_fma_avx2, at_cpu_fma_avx512,
                                                         at_cpu_dots_avx512_bf16, at_cpu_dots_amx};
    return loops[dtype == ATTUNE_BF16 || isa < ATTUNE_ISA_AVX512 ? isa : ATTUNE_ISA_AVX512];
#else
    (void)isa;
    (void)dtype;
    return at_cpu_fma_baseline;
#endif
}

typedef struct chains {
    at_peak_loop loop;
    int64_t rounds;
} chains;

static void run_chains(void *context, int64_t item, void *scratch)
{
    const chains *c = context;
    float sink = 0;
    (void)item;
    c->loop(c->rounds, &sink);
    memcpy(scratch, &sink, sizeof sink);
}

attune_status at_cpu_peak_flops(attune_isa isa, attune_dtype dtype, at_pool *pool, double *flops)
{
    AT_FAIL_IF((int)isa < 0 || isa > at_cpu_best_isa(), ATTUNE_UNSUPPORTED, "isa %s: this CPU has %s at most",
               at_isa_name(isa), at_isa_name(at_cpu_best_isa()));
    int threads = at_pool_threads(pool);
    float sink = 0;
    chains c = {.loop = loop_of(isa, dtype), .rounds = 1000};
    double per_round = (double)c.loop(1, &sink);
    double best = 0;
    for (int repeat = 0; repeat < REPEATS;) {
        double start = seconds();
        at_pool_run(pool, threads, run_chains, &c);
        double took = seconds() - start;
        if (took < WANTED_US * 0.5e-6) {
            c.rounds *= 2; /* still looking for a length; the CPU's clock rises meanwhile */
            continue;
        }
        double rate = per_round * (double)c.rounds * threads / took;
        best = rate > best ? rate : best;
        ++repeat;
    }
    *flops = best;
    return ATTUNE_OK;
}

typedef struct copy {
    unsigned char *to;
    const unsigned char *from;
    size_t bytes; /* of one item */
} copy;

static void copy_item(void *context, int64_t item, void *scratch)
{
    const copy *c = context;
    (void)scratch;
    memcpy(c->to + (size_t)item * c->bytes, c->from + (size_t)item * c->bytes, c->bytes);
}

/* Bytes of a buffer that no cache holds. */
static size_t copy_bytes(void)
{
    attune_target target;
    size_t bytes = COPY_MIN;
    if (at_cpu_probe(ATTUNE_ISA_BASELINE, 1, &target) == ATTUNE_OK && (size_t)target.l3_bytes * 2 > bytes) {
        bytes = (size_t)target.l3_bytes * 2;
    }
    return bytes < COPY_MAX ? bytes : COPY_MAX;
}

attune_status at_cpu_peak_copy(at_pool *pool, double *bytes_per_second)
{
    int64_t items = (int64_t)at_pool_threads(pool) * PIECES;
    copy c = {.bytes = copy_bytes() / (size_t)items / 64 * 64};
    size_t total = c.bytes * (size_t)items;
    unsigned char *memory = malloc(total * 2);
    AT_FAIL_IF(memory == NULL, ATTUNE_OUT_OF_MEMORY, "two buffers of %zu bytes to copy between: out of memory", total);
    memset(memory, 1, total * 2);
    c.to = memory;
    c.from = memory + total;
    double best = 0;
    for (int repeat = 0; repeat < COPY_REPEATS; ++repeat) {
        double start = seconds();
        at_pool_run(pool, items, copy_item, &c);
        double rate = 2 * (double)total / (seconds() - start);
        best = rate > best ? rate : best;
    }
    free(memory);
    *bytes_per_second = best;
    return ATTUNE_OK;
}
