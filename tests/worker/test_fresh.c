/* Fresh inputs: every call's are others, and which queries meet which keys stays as it is in the base. */
#include "reference/draw_text.h"

#include <math.h>
#include <stdlib.h>

#include "worker/fresh.h"

enum { COLUMNS = 8, TRANSFORMS = 24 };

/* A problem whose every number's magnitude says of which batch and which head of keys it is. */
typedef struct marked {
    at_inputs inputs;
    at_transform_map map;
    float *to[ATTUNE_V + 1];
} marked;

static float mark_of(int64_t batch, int64_t head_kv)
{
    return (float)(1 + 16 * batch + head_kv);
}

static float *row_of(const marked *on, int role, float *data, int64_t batch, int64_t head)
{
    return data + at_inputs_row(&on->inputs, (attune_role)role, batch, head, 0) / sizeof(float);
}

static void open_marked(marked *on, const char *text)
{
    const at_draw draw = {.seed = 3, .family = AT_FAMILY_NORMAL};
    draw_text(text, &draw, &on->inputs);
    const attune_call *call = &on->inputs.call;
    at_transform_describe(&on->inputs.problem, call, call->seqlen_q, &on->map);
    for (int role = ATTUNE_Q; role <= ATTUNE_V; ++role) {
        const at_transform_role *of = &on->map.role[role];
        on->to[role] = malloc(of->bytes);
        assert_non_null(on->to[role]);
        for (int64_t i = 0; i < of->batch * of->heads; ++i) {
            const int64_t batch = i / of->heads, head = i % of->heads, group = of->heads / on->map.heads_kv;
            float *row = row_of(on, role, call->tensor[role].data, batch, head);
            for (int c = 0; c < COLUMNS; ++c) {
                row[c] = mark_of(batch, head / group);
            }
        }
    }
}

static void close_marked(marked *on)
{
    for (int role = ATTUNE_Q; role <= ATTUNE_V; ++role) {
        free(on->to[role]);
    }
    at_inputs_free(&on->inputs);
}

static void write_fresh(const marked *on, int role, uint64_t transform, int sample, int call)
{
    at_fresh_write(&on->map, (attune_role)role, at_fresh_key_of(transform, (attune_role)role, sample, call),
                   on->to[role]);
}

/* Of the first row of each head, whether Q, K and V are the same batch's and head's; counts heads that have moved. */
static int check_heads(const marked *on, int64_t batches)
{
    const int64_t heads_q = on->map.role[ATTUNE_Q].heads, group = heads_q / on->map.heads_kv;
    int moved = 0;
    for (int64_t i = 0; i < batches * heads_q; ++i) {
        const int64_t batch = i / heads_q, head = i % heads_q;
        const float query = fabsf(row_of(on, ATTUNE_Q, on->to[ATTUNE_Q], batch, head)[0]);
        assert_true(query == fabsf(row_of(on, ATTUNE_K, on->to[ATTUNE_K], batch, head / group)[0]));
        assert_true(query == fabsf(row_of(on, ATTUNE_V, on->to[ATTUNE_V], batch, head / group)[0]));
        moved += query != mark_of(batch, head / group);
    }
    return moved;
}

/* Heads of large logits are so by their queries and keys together: if these moved apart, one sample's work would be
 * another's several times over wherever time hangs on the numbers. */
static void queries_meet_the_keys_that_they_met(void **state)
{
    (void)state;
    static const char *const problems[] = {"b2,h6,hkv3,s1,d8,fp32", "b1,h4,s1,d8,fp32", "b3,h2,hkv1,s1,d8,fp32"};
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; ++i) {
        marked on;
        int moved = 0;
        open_marked(&on, problems[i]);
        for (uint64_t transform = 0; transform < TRANSFORMS; ++transform) {
            for (int role = ATTUNE_Q; role <= ATTUNE_V; ++role) {
                write_fresh(&on, role, transform, (int)transform % 3, 1);
            }
            const int now = check_heads(&on, on.map.batch);
            assert_true(transform != 0 || now == 0);
            moved += now;
        }
        assert_true(moved > 0);
        close_marked(&on);
    }
}

static bool same_bytes(const marked *on, int role, const float *as)
{
    return memcmp(on->to[role], as, on->map.role[role].bytes) == 0;
}

static void no_call_has_the_queries_of_another(void **state)
{
    (void)state;
    marked on;
    float *before[2];
    open_marked(&on, "b1,h4,s1,d8,fp32");
    for (int i = 0; i < 2; ++i) {
        before[i] = malloc(on.map.role[i].bytes);
        assert_non_null(before[i]);
    }
    int same = 0;
    for (uint64_t transform = 1; transform < TRANSFORMS; ++transform) {
        write_fresh(&on, ATTUNE_Q, transform, 0, 0);
        write_fresh(&on, ATTUNE_K, transform, 0, 0);
        memcpy(before[0], on.to[ATTUNE_Q], on.map.role[ATTUNE_Q].bytes);
        memcpy(before[1], on.to[ATTUNE_K], on.map.role[ATTUNE_K].bytes);
        write_fresh(&on, ATTUNE_Q, transform, 0, 1);
        same += same_bytes(&on, ATTUNE_Q, before[0]);
        write_fresh(&on, ATTUNE_Q, transform, 1, 0);
        same += same_bytes(&on, ATTUNE_Q, before[0]);
        write_fresh(&on, ATTUNE_K, transform, 1, 1);
        assert_true(same_bytes(&on, ATTUNE_K, before[1]));
        write_fresh(&on, ATTUNE_K, transform + TRANSFORMS, 0, 0);
        same += same_bytes(&on, ATTUNE_K, before[1]);
    }
    assert_true(same <= TRANSFORMS / 4); /* eight columns of one magnitude can be alike by chance */
    free(before[0]);
    free(before[1]);
    close_marked(&on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_meet_the_keys_that_they_met),
        cmocka_unit_test(no_call_has_the_queries_of_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
