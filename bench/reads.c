/* What memory gives to loops that only read it: the ceiling of decoding on a CPU.
 *
 *     reads [MB [THREADS]]      without: 64, and as many as the process may use
 *
 * As much is read by all threads, in one piece or in pieces that lie anywhere, as large as pages of 256, 64, 16 rows
 * and one row of a head of 128 16-bit numbers are; by nothing but loads, or with the lines so many KB further asked
 * for, as cpu_decode's AHEAD says. All are timed in turns. A row of TSV for each: GB/s in the median and at best. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/status.h"
#include "base/threads.h"
#include "cpu/cpu.h"
#include "cpu/peak.h"
#include "measure/clock.h"
#include "measure/statistics.h"

enum { TURNS = 41, CHUNK = 256, PARTS = 4 /* of a thread's: one that comes late leaves the rest to others */ };

static const int64_t pieces[] = {0, 64 << 10, 16 << 10, 4 << 10, 256}; /* bytes; 0: one piece */
static const int64_t aheads[] = {0, 2, 4, 8, 16, 32, 64};              /* KB */

enum { PIECES = sizeof pieces / sizeof *pieces, AHEADS = sizeof aheads / sizeof *aheads };

typedef struct reading {
    at_read_loop read;
    const unsigned char *memory;
    int64_t part; /* bytes of an item */
    int64_t piece, ahead;
    int32_t *place[PIECES]; /* where each piece is, counted in pieces */
} reading;

/* Where the byte is that comes `at` bytes after the first. */
static const unsigned char *find(const reading *on, const int32_t *place, int64_t at)
{
    return place == NULL ? on->memory + at : on->memory + place[at / on->piece] * on->piece + at % on->piece;
}

static void read_item(void *context, int64_t item, void *scratch)
{
    const reading *on = context;
    const int32_t *place = NULL;
    for (int i = 0; i < PIECES; ++i) {
        place = on->piece == pieces[i] ? on->place[i] : place;
    }
    const int64_t end = (item + 1) * on->part;
    uint64_t seen = 0;
    for (int64_t at = item * on->part; at < end; at += CHUNK) {
        if (on->ahead > 0 && at + on->ahead < end) {
            const unsigned char *next = find(on, place, at + on->ahead);
            for (int line = 0; line < CHUNK; line += 64) {
                __builtin_prefetch(next + line, 0, 0);
            }
        }
        seen ^= on->read(find(on, place, at), CHUNK);
    }
    memcpy(scratch, &seen, sizeof seen);
}

/* Pieces in an order that is drawn. */
static int32_t *draw_places(int64_t count)
{
    at_random random = at_random_seed(1, 0);
    int32_t *place = malloc((size_t)count * sizeof *place);
    for (int64_t i = 0; place != NULL && i < count; ++i) {
        const int64_t other = (int64_t)at_random_below(&random, (uint64_t)i + 1);
        place[i] = place[other];
        place[other] = (int32_t)i;
    }
    return place;
}

static attune_status prepare(reading *on, int64_t bytes)
{
    const attune_isa isa = at_cpu_best_isa();
#if defined(__x86_64__)
    on->read = isa >= ATTUNE_ISA_AVX512 ? at_cpu_read_avx512
               : isa == ATTUNE_ISA_AVX2 ? at_cpu_read_avx2
                                        : at_cpu_read_baseline;
#else
    on->read = isa == ATTUNE_ISA_BASELINE ? at_cpu_read_baseline : NULL;
#endif
    unsigned char *memory = aligned_alloc(4096, (size_t)bytes);
    AT_FAIL_IF(memory == NULL, ATTUNE_OUT_OF_MEMORY, "%lld bytes: out of memory", (long long)bytes);
    memset(memory, 1, (size_t)bytes);
    on->memory = memory;
    for (int i = 0; i < PIECES; ++i) {
        on->place[i] = pieces[i] == 0 ? NULL : draw_places(bytes / pieces[i]);
        AT_FAIL_IF(pieces[i] != 0 && on->place[i] == NULL, ATTUNE_OUT_OF_MEMORY, "a table: out of memory");
    }
    return ATTUNE_OK;
}

static double time_once(reading *on, at_pool *pool, int64_t items)
{
    const at_clock clock = at_clock_monotonic();
    const int64_t begin = clock.now_ns(clock.self);
    at_pool_run(pool, items, read_item, on);
    return (double)(clock.now_ns(clock.self) - begin);
}

static void run(reading *on, at_pool *pool, int64_t items)
{
    static double ns[PIECES][AHEADS][TURNS];
    for (int turn = 0; turn < TURNS; ++turn) {
        for (int i = 0; i < PIECES * AHEADS; ++i) {
            on->piece = pieces[i / AHEADS];
            on->ahead = aheads[i % AHEADS] * 1024;
            ns[i / AHEADS][i % AHEADS][turn] = time_once(on, pool, items);
        }
    }
    (void)printf("threads\tpiece_bytes\tahead_kb\tgb_s\tbest_gb_s\n");
    for (int i = 0; i < PIECES * AHEADS; ++i) {
        double *of = ns[i / AHEADS][i % AHEADS];
        const double bytes = (double)(items * on->part);
        at_sort(of, TURNS);
        (void)printf("%d\t%lld\t%lld\t%.1f\t%.1f\n", at_pool_threads(pool), (long long)pieces[i / AHEADS],
                     (long long)aheads[i % AHEADS], bytes / at_quantile(of, TURNS, 0.5), bytes / of[0]);
    }
}

int main(int argc, char **argv)
{
    const long mb = argc > 1 ? strtol(argv[1], NULL, 10) : 64;
    const long threads = argc > 2 ? strtol(argv[2], NULL, 10) : at_cpu_count();
    if (mb < 1 || mb > 65536 || threads < 1 || threads > 4096) {
        (void)fprintf(stderr, "usage: reads [MB [THREADS]]: 1 to 65536 MB, 1 to 4096 threads\n");
        return 2;
    }
    reading on = {NULL};
    at_pool *pool = NULL;
    const int64_t items = threads * PARTS, largest = pieces[1];
    on.part = (((int64_t)mb << 20) / items + largest - 1) / largest * largest;
    attune_status status = at_pool_create((int)threads, 64, &pool);
    status = status ? status : prepare(&on, on.part * items);
    if (status) {
        (void)fprintf(stderr, "%s\n", attune_last_detail());
    } else {
        run(&on, pool, items);
    }
    for (int i = 0; i < PIECES; ++i) {
        free(on.place[i]);
    }
    free((void *)on.memory);
    at_pool_destroy(pool);
    return status != ATTUNE_OK;
}
