/* The order of packed sequences' tiles (packed_jobs.cuh), on the model of CUDA's words: each tile that is there comes
 * once, of the longest sequences first. */
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
    entry job[JOBS_MOST + 1];
    bool seen[SEQUENCES][HEADS_MOST][TILES_MOST];
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

/* The sequence that has such rows. */
static int64_t sequence_of(const entry *job)
{
    for (int64_t i = 0; i < world.problem.batch; ++i) {
        if (world.cu_q[i] == job->first && length_of(world.cu_q, i) > 0) {
            return i;
        }
    }
    fail_msg("no sequence begins with row %d", job->first);
    return 0;
}

static void expect_each_once(int count)
{
    memset(world.seen, 0, sizeof world.seen);
    for (int i = 0; i < count; ++i) {
        const entry *job = &world.job[i];
        const int64_t sequence = sequence_of(job);
        assert_true(job->row >= 0 && job->row % ROWS == 0 && job->row < length_of(world.cu_q, sequence));
        assert_true(job->head >= 0 && job->head < world.problem.heads_q);
        assert_int_equal(job->keys, length_of(world.cu_kv, sequence));
        assert_false(world.seen[sequence][job->head][job->row / ROWS]);
        world.seen[sequence][job->head][job->row / ROWS] = true;
    }
    assert_int_equal(world.job[count].first, -1);
}

/* Without a causal mask keys become fewer; with one so do those of sequences whose keys and values share L2, and tiles
 * of a head come from the last to the first. */
static void expect_longest_first(int count, bool causal)
{
    const int64_t room = (32 << 20) / (4 * world.problem.head_dim_qk) / world.problem.heads_kv;
    for (int i = 1; i < count; ++i) {
        const entry *before = &world.job[i - 1], *job = &world.job[i];
        assert_true(job->keys <= before->keys || (causal && job->keys < room));
        if (causal && job->first == before->first && job->head == before->head) {
            assert_true(job->row < before->row);
        }
    }
}

static void expect_order(const char *text, uint64_t seed)
{
    int count = 0;
    assert_ok(attune_problem_parse(text, &world.problem));
    draw_lengths(world.cu_q, world.problem.seqlen_q, 2 * seed);
    draw_lengths(world.cu_kv, world.problem.seqlen_kv, 2 * seed + 1);
    for (int64_t i = 0; i < world.problem.batch; ++i) {
        count += tiles_of(i) * (int)world.problem.heads_q;
    }
    load_unit(&world.problem, "order.cu", "order");
    put_in_order();
    expect_each_once(count);
    expect_longest_first(count, attune_is_causal(&world.problem));
}

static void each_tile_comes_once(void **state)
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
        for (uint64_t seed = 1; seed <= 5; ++seed) {
            expect_order(problems[i], seed);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_tile_comes_once)};
    return cmocka_run_group_tests(tests, model_open, model_close);
}
