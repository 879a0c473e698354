/* The order of packed sequences' tiles (packed_jobs.cuh), on the model of CUDA's words. */
#include "base/cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "kernels/modelled.h"

enum { SEQUENCES = 32, HEADS_MOST = 12, ROWS = 128, TILES_MOST = 24, JOBS_MOST = SEQUENCES * HEADS_MOST * TILES_MOST };

typedef struct entry {
    int32_t first, head, row, keys;
} entry;

static struct {
    attune_problem problem;
    int32_t cu_q[SEQUENCES + 1], cu_kv[SEQUENCES + 1];
    entry job[JOBS_MOST + 1], expected[JOBS_MOST];
    int count;
} world;

static int32_t length_of(const int32_t *cumulative, int64_t sequence)
{
    return cumulative[sequence + 1] - cumulative[sequence];
}

static int tiles_of(int64_t sequence)
{
    return (length_of(world.cu_q, sequence) + ROWS - 1) / ROWS;
}

/* Lengths up to the longest, a fifth of them none. */
static void draw_lengths(int32_t *cumulative, int64_t longest, uint64_t seed)
{
    at_random random = at_random_seed(seed, 0);
    for (int64_t i = 0; i < world.problem.batch; ++i) {
        const bool empty = at_random_below(&random, 5) == 0;
        cumulative[i + 1] = cumulative[i] + (empty ? 0 : (int32_t)at_random_below(&random, (uint64_t)longest + 1));
    }
}

static void put_in_order(void)
{
    const attune_problem *p = &world.problem;
    attune_args args = {.batch = p->batch,
                        .heads_q = p->heads_q,
                        .heads_kv = p->heads_kv,
                        .seqlen_q = p->seqlen_q,
                        .seqlen_kv = p->seqlen_kv,
                        .total_q = world.cu_q[p->batch],
                        .total_kv = world.cu_kv[p->batch],
                        .window_left = p->window_left,
                        .window_right = p->window_right};
    args.tensor[ATTUNE_CU_Q].data = world.cu_q;
    args.tensor[ATTUNE_CU_KV].data = world.cu_kv;
    args.tensor[ATTUNE_O].data = world.job;
    memset(world.job, 0xff, sizeof world.job);
    model.runner(&model.run[0], &args, 0, 0, 1, 1);
}

/* ---- The order that docs/hopper.md states ---- */

static int64_t room(void)
{
    return (32 << 20) / (4 * world.problem.head_dim_qk);
}

static int64_t at_least_1(int64_t x)
{
    return x > 1 ? x : 1;
}

static bool comes_before(int64_t a, int64_t b)
{
    const int32_t of_a = length_of(world.cu_kv, a), of_b = length_of(world.cu_kv, b);
    return of_a > of_b || (of_a == of_b && a < b);
}

static void add(int64_t sequence, int64_t head, int tile)
{
    assert_true(world.count < JOBS_MOST);
    world.expected[world.count++] =
        (entry){world.cu_q[sequence], (int32_t)head, tile * ROWS, length_of(world.cu_kv, sequence)};
}

/* Of the sequences of a section, `heads` of their heads from `first` on. */
static void add_levels(const int64_t *sections, int64_t section, int64_t first, int64_t heads)
{
    const int64_t end = first + heads < world.problem.heads_q ? first + heads : world.problem.heads_q;
    for (int level = TILES_MOST - 1; level >= 0; --level) {
        for (int64_t i = 0; i < world.problem.batch; ++i) {
            const bool has = sections[i] == section && tiles_of(i) > level;
            for (int64_t head = first; has && head < end; ++head) {
                add(i, head, level);
            }
        }
    }
}

/* A section: sequences that begin in the same 32 MiB of keys and values. */
static void add_sections(const int64_t *order)
{
    const attune_problem *p = &world.problem;
    int64_t sections[SEQUENCES], keys = 0, last = -1;
    for (int64_t i = 0; i < p->batch; ++i) {
        sections[order[i]] = keys / at_least_1(room() / p->heads_kv);
        keys += length_of(world.cu_kv, order[i]);
    }
    for (int64_t i = 0; i < p->batch; ++i) {
        const int64_t section = sections[order[i]];
        const int64_t fit = at_least_1(room() / at_least_1(length_of(world.cu_kv, order[i])));
        const int64_t heads = (fit < p->heads_kv ? fit : p->heads_kv) * (p->heads_q / p->heads_kv);
        for (int64_t first = 0; section != last && first < p->heads_q; first += heads) {
            add_levels(sections, section, first, heads);
        }
        last = section;
    }
}

static void put_expected(void)
{
    int64_t order[SEQUENCES];
    for (int64_t i = 0; i < world.problem.batch; ++i) {
        int64_t before = 0;
        for (int64_t other = 0; other < world.problem.batch; ++other) {
            before += comes_before(other, i);
        }
        order[before] = i;
    }
    world.count = 0;
    if (attune_is_causal(&world.problem)) {
        add_sections(order);
    }
    for (int64_t i = 0; !attune_is_causal(&world.problem) && i < world.problem.batch; ++i) {
        for (int64_t head = 0; head < world.problem.heads_q; ++head) {
            for (int tile = 0; tile < tiles_of(order[i]); ++tile) {
                add(order[i], head, tile);
            }
        }
    }
}

static void expect_order(uint64_t seed)
{
    int count = 0;
    draw_lengths(world.cu_q, world.problem.seqlen_q, 2 * seed);
    draw_lengths(world.cu_kv, world.problem.seqlen_kv, 2 * seed + 1);
    for (int64_t i = 0; i < world.problem.batch; ++i) {
        count += tiles_of(i) * (int)world.problem.heads_q;
    }
    put_expected();
    assert_int_equal(world.count, count);
    put_in_order();
    for (int i = 0; i < count; ++i) {
        if (memcmp(&world.job[i], &world.expected[i], sizeof(entry)) != 0) {
            fail_msg("number %d: rows of %d, head %d, row %d; expected %d, %d, %d", i, world.job[i].first,
                     world.job[i].head, world.job[i].row, world.expected[i].first, world.expected[i].head,
                     world.expected[i].row);
        }
    }
    assert_int_equal(world.job[count].first, -1);
}

static void tiles_come_in_order(void **state)
{
    static const char *const problems[] = {
        "b32,h12,hkv4,sq3000,skv90000,d64,bf16,varlen=1",
        "b32,h12,hkv4,sq3000,skv90000,d64,bf16,causal,varlen=1",
        "b32,h6,hkv6,sq3000,skv20000,d128,fp16,causal,varlen=1",
        "b7,h5,hkv1,sq300,skv900,d64,fp16,causal,varlen=1",
        "b20,h3,hkv3,sq900,skv700,d256,bf16,window=64:0,varlen=1",
        "b1,h1,sq1000,skv2000,d64,bf16,varlen=1",
    };
    (void)state;
    skip_without_compiler();
    model.target.arch_features = 1;
    model.kernel = at_catalogue_find("wgmma");
    model.params = "GROUPS=2,SCHEDULER=2,RESCALE=15";
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; ++i) {
        assert_ok(attune_problem_parse(problems[i], &world.problem));
        load_unit(&world.problem, "order.cu", "order");
        for (uint64_t seed = 1; seed <= 5; ++seed) {
            expect_order(seed);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tiles_come_in_order)};
    return cmocka_run_group_tests(tests, model_open, model_close);
}
