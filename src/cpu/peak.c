#include "cpu/peak.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/status.h"
#include "core/target.h"
#include "cpu/cpu.h"

enum {
    REPEATS = 12,        /* the best of these counts: others were disturbed */
    WANTED_US = 6000,    /* of one run of chains: long against its start, short against a time slice */
    PIECES = 4,          /* of what is read, for each thread: one that comes late leaves the rest to others */
    READ_MIN = 256 << 20 /* a host may share more cache than it reports */
};

#define READ_MAX ((size_t)1 << 30)

struct at_gauge {
    at_pool *pool;
    double work; /* of a run */
    int64_t items;
    at_work item;
    at_peak_loop chains;
    int64_t rounds;
    at_read_loop read;
    unsigned char *memory;
    size_t bytes; /* of one item */
};

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

attune_status at_gauge_run(void *self)
{
    at_gauge *gauge = self;
    at_pool_run(gauge->pool, gauge->items, gauge->item, gauge);
    return ATTUNE_OK;
}

double at_gauge_work(const at_gauge *gauge)
{
    return gauge->work;
}

double at_gauge_best(at_gauge *gauge)
{
    double best = 0;
    for (int repeat = 0; repeat < REPEATS; ++repeat) {
        double start = seconds();
        (void)at_gauge_run(gauge);
        double rate = gauge->work / (seconds() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

void at_gauge_close(at_gauge *gauge)
{
    if (gauge != NULL) {
        free(gauge->memory);
        free(gauge);
    }
}

static attune_status check_isa(attune_isa isa)
{
    AT_FAIL_IF((int)isa < 0 || isa > at_cpu_best_isa(), ATTUNE_UNSUPPORTED, "isa %s: this CPU has %s at most",
               at_isa_name(isa), at_isa_name(at_cpu_best_isa()));
    return ATTUNE_OK;
}

static attune_status make(at_pool *pool, at_gauge **gauge)
{
    *gauge = calloc(1, sizeof **gauge);
    AT_FAIL_IF(*gauge == NULL, ATTUNE_OUT_OF_MEMORY, "a gauge of the CPU: out of memory");
    (*gauge)->pool = pool;
    return ATTUNE_OK;
}

/* ---- Arithmetic ------------------------------------------------------------------------------------------------- */

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

static void run_chains(void *context, int64_t item, void *scratch)
{
    const at_gauge *gauge = context;
    float sink = 0;
    (void)item;
    gauge->chains(gauge->rounds, &sink);
    memcpy(scratch, &sink, sizeof sink);
}

attune_status at_gauge_flops(attune_isa isa, attune_dtype dtype, at_pool *pool, at_gauge **gauge)
{
    *gauge = NULL;
    AT_FORWARD(check_isa(isa));
    AT_FORWARD(make(pool, gauge));
    at_gauge *made = *gauge;
    float sink = 0;
    double took;
    made->items = at_pool_threads(pool);
    made->item = run_chains;
    made->chains = loop_of(isa, dtype);
    made->rounds = 500;
    double per_round = (double)made->chains(1, &sink);
    do { /* looking for a length; the CPU's clock rises meanwhile */
        made->rounds *= 2;
        double start = seconds();
        (void)at_gauge_run(made);
        took = seconds() - start;
    } while (took < WANTED_US * 0.5e-6);
    made->work = per_round * (double)made->rounds * (double)made->items;
    return ATTUNE_OK;
}

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

static at_read_loop reader_of(attune_isa isa)
{
#if defined(__x86_64__)
    return isa >= ATTUNE_ISA_AVX512 ? at_cpu_read_avx512
           : isa == ATTUNE_ISA_AVX2 ? at_cpu_read_avx2
                                    : at_cpu_read_baseline;
#else
    (void)isa;
    return at_cpu_read_baseline;
#endif
}

static void read_item(void *context, int64_t item, void *scratch)
{
    const at_gauge *gauge = context;
    uint64_t seen = gauge->read(gauge->memory + (size_t)item * gauge->bytes, gauge->bytes);
    memcpy(scratch, &seen, sizeof seen);
}

/* Bytes that no cache holds. */
static size_t read_bytes(void)
{
    attune_target target;
    size_t bytes = READ_MIN;
    if (at_cpu_probe(ATTUNE_ISA_BASELINE, 1, &target) == ATTUNE_OK && (size_t)target.l3_bytes * 4 > bytes) {
        bytes = (size_t)target.l3_bytes * 4;
    }
    return bytes < READ_MAX ? bytes : READ_MAX;
}

attune_status at_gauge_read(attune_isa isa, at_pool *pool, at_gauge **gauge)
{
    const size_t page = 4096;
    *gauge = NULL;
    AT_FORWARD(check_isa(isa));
    AT_FORWARD(make(pool, gauge));
    at_gauge *made = *gauge;
    made->items = (int64_t)at_pool_threads(pool) * PIECES;
    made->item = read_item;
    made->read = reader_of(isa);
    made->bytes = (read_bytes() / (size_t)made->items / page + 1) * page;
    size_t total = made->bytes * (size_t)made->items;
    made->work = (double)total;
    made->memory = aligned_alloc(page, total);
    if (made->memory == NULL) {
        at_gauge_close(made);
        *gauge = NULL;
        return at_fail(ATTUNE_OUT_OF_MEMORY, "%zu bytes to read: out of memory", total);
    }
    memset(made->memory, 1, total); /* pages of its own, not all the one of zeros */
    return ATTUNE_OK;
}
