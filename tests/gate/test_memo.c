/* Truths that are kept: the same as computed ones, for the same inputs only, and no more of them than there is room. */
#include "base/cm.h"

#include <stdlib.h>

#include "gate/memo.h"

static at_pool *pool;

static void draw(const char *text, uint64_t seed, at_inputs *inputs)
{
    const at_draw how = {.seed = seed, .poison = 0xff, .pool = pool};
    attune_problem problem;
    assert_ok(attune_problem_parse(text, &problem));
    assert_ok(at_inputs_draw(&problem, &how, inputs));
}

static void expect_same(const at_truth *a, const at_truth *b)
{
    size_t outputs = (size_t)(a->rows.count * a->args.head_dim_v) * sizeof(double);
    size_t rows = (size_t)a->rows.count * sizeof(double);
    assert_int_equal(a->rows.count, b->rows.count);
    assert_memory_equal(a->one.o_reference, b->one.o_reference, outputs);
    assert_memory_equal(a->one.o_naive, b->one.o_naive, outputs);
    assert_memory_equal(a->one.lse_reference, b->one.lse_reference, rows);
    assert_memory_equal(a->one.lse_naive, b->one.lse_naive, rows);
    assert_true(a->one.naive_error == b->one.naive_error && a->one.naive_l2 == b->one.naive_l2 &&
                a->one.naive_lse == b->one.naive_lse);
}

/* A second draw of the same inputs, in other buffers, gets the first one's truth over its own buffers. */
static void kept_truths_serve(void **state)
{
    (void)state;
    static const char text[] = "b2,h2,s40,d16,fp16,causal";
    const at_truth_want want = {.wanted = 0};
    at_inputs first, second;
    at_truth computed, from_first, from_second;
    at_memo *memo;
    draw(text, 5, &first);
    draw(text, 5, &second);
    assert_ok(at_memo_create(0, &memo));
    assert_ok(at_truth_compute(pool, &first, &want, &computed));
    assert_ok(at_memo_truth(memo, pool, &first, &want, &from_first));
    assert_int_equal(at_memo_found(memo), 0);
    assert_ok(at_memo_truth(memo, pool, &second, &want, &from_second));
    assert_int_equal(at_memo_found(memo), 1);
    expect_same(&computed, &from_first);
    expect_same(&computed, &from_second);
    assert_ptr_equal(from_second.one.args->tensor[ATTUNE_O].data, second.call.tensor[ATTUNE_O].data);
    at_truth_free(&from_first);
    at_truth_free(&from_second);
    at_truth_free(&computed);
    at_memo_destroy(memo);
    at_inputs_free(&first);
    at_inputs_free(&second);
}

static void other_inputs_have_their_own(void **state)
{
    (void)state;
    static const char *const texts[] = {"b1,h2,s20,d16,fp16", "b1,h2,s20,d16,fp16", "b1,h2,s20,d16,bf16",
                                        "b1,h2,s20,d16,fp16"};
    static const uint64_t seeds[] = {1, 2, 1, 1};
    static const bool acc16[] = {false, false, false, true};
    at_memo *memo;
    assert_ok(at_memo_create(0, &memo));
    for (int i = 0; i < 4; ++i) {
        const at_truth_want want = {.acc16 = acc16[i]};
        at_inputs inputs;
        at_truth kept, computed;
        draw(texts[i], seeds[i], &inputs);
        assert_ok(at_memo_truth(memo, pool, &inputs, &want, &kept));
        assert_ok(at_truth_compute(pool, &inputs, &want, &computed));
        expect_same(&computed, &kept);
        at_truth_free(&kept);
        at_truth_free(&computed);
        at_inputs_free(&inputs);
    }
    assert_int_equal(at_memo_found(memo), 0);
    at_memo_destroy(memo);
}

static void room_is_limited(void **state)
{
    (void)state;
    const at_truth_want want = {.wanted = 0};
    at_memo *memo;
    assert_ok(at_memo_create(1, &memo)); /* the first fits, being the first */
    for (int i = 0; i < 4; ++i) {
        at_inputs inputs;
        at_truth truth;
        draw("b1,h1,s20,d16,fp32", (uint64_t)(i % 2), &inputs);
        assert_ok(at_memo_truth(memo, pool, &inputs, &want, &truth));
        at_truth_free(&truth);
        at_inputs_free(&inputs);
    }
    assert_int_equal(at_memo_found(memo), 1);
    at_memo_destroy(memo);
    at_memo_destroy(NULL);
}

static void without_a_memo(void **state)
{
    (void)state;
    const at_truth_want want = {.wanted = 0};
    at_inputs inputs;
    at_truth truth;
    draw("b1,h1,s20,d16,fp32", 3, &inputs);
    assert_ok(at_memo_truth(NULL, pool, &inputs, &want, &truth));
    assert_non_null(truth.block);
    at_truth_free(&truth);
    at_inputs_free(&inputs);
}

static int set_up(void **state)
{
    (void)state;
    return at_pool_create(2, 0, &pool) == ATTUNE_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    at_pool_destroy(pool);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_truths_serve),
        cmocka_unit_test(other_inputs_have_their_own),
        cmocka_unit_test(room_is_limited),
        cmocka_unit_test(without_a_memo),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
