/* Truths that are kept: the same as computed ones, for the same inputs only, and no more of them than there is room. */
#include "base/cm.h"

#include <stdlib.h>

#define POOL_THREADS 2
#include "base/pool.h"
#include "judge/case_cache.h"

static void draw(const char *text, uint64_t seed, at_inputs *inputs)
{
    const at_draw how = {.seed = seed, .pool = pool};
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
    at_case_cache *cache;
    draw(text, 5, &first);
    draw(text, 5, &second);
    assert_ok(at_case_cache_create(0, &cache));
    assert_ok(at_truth_compute(pool, &first, &want, &computed));
    assert_ok(at_case_cache_truth(cache, pool, &first, &want, &from_first));
    assert_int_equal(at_case_cache_found(cache), 0);
    assert_ok(at_case_cache_truth(cache, pool, &second, &want, &from_second));
    assert_int_equal(at_case_cache_found(cache), 1);
    expect_same(&computed, &from_first);
    expect_same(&computed, &from_second);
    assert_ptr_equal(from_second.one.args->tensor[ATTUNE_O].data, second.call.tensor[ATTUNE_O].data);
    at_truth_free(&from_first);
    at_truth_free(&from_second);
    at_truth_free(&computed);
    at_case_cache_destroy(cache);
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
    at_case_cache *cache;
    assert_ok(at_case_cache_create(0, &cache));
    for (int i = 0; i < 4; ++i) {
        const at_truth_want want = {.acc16 = acc16[i]};
        at_inputs inputs;
        at_truth kept, computed;
        draw(texts[i], seeds[i], &inputs);
        assert_ok(at_case_cache_truth(cache, pool, &inputs, &want, &kept));
        assert_ok(at_truth_compute(pool, &inputs, &want, &computed));
        expect_same(&computed, &kept);
        at_truth_free(&kept);
        at_truth_free(&computed);
        at_inputs_free(&inputs);
    }
    assert_int_equal(at_case_cache_found(cache), 0);
    at_case_cache_destroy(cache);
}

static void room_is_limited(void **state)
{
    (void)state;
    const at_truth_want want = {.wanted = 0};
    at_case_cache *cache;
    assert_ok(at_case_cache_create(1, &cache)); /* the first fits, being the first */
    for (int i = 0; i < 4; ++i) {
        at_inputs inputs;
        at_truth truth;
        draw("b1,h1,s20,d16,fp32", (uint64_t)(i % 2), &inputs);
        assert_ok(at_case_cache_truth(cache, pool, &inputs, &want, &truth));
        at_truth_free(&truth);
        at_inputs_free(&inputs);
    }
    assert_int_equal(at_case_cache_found(cache), 1);
    at_case_cache_destroy(cache);
    at_case_cache_destroy(NULL);
}

static void draw_into(at_case_cache *cache, uint64_t seed, at_poison poison, at_inputs *inputs)
{
    const at_draw how = {.seed = seed, .poison = poison, .pool = pool};
    attune_problem problem;
    assert_ok(attune_problem_parse("b1,h2,s20,d16,fp16", &problem));
    assert_ok(at_case_cache_inputs(cache, &problem, &how, inputs));
}

static const unsigned char *base_of(const at_inputs *inputs, attune_role role)
{
    return inputs->buffer[role].base;
}

/* What was lent comes back and is lent again, its outputs as if they were new; meanwhile others draw their own. */
static void inputs_are_lent(void **state)
{
    (void)state;
    at_inputs first, other, again, own;
    at_case_cache *cache;
    draw("b1,h2,s20,d16,fp16", 9, &own);
    assert_ok(at_case_cache_create(0, &cache));
    draw_into(cache, 9, (at_poison){0}, &first);
    draw_into(cache, 9, (at_poison){0}, &other);
    assert_ptr_not_equal(base_of(&first, ATTUNE_Q), base_of(&other, ATTUNE_Q));
    const unsigned char *lent = base_of(&first, ATTUNE_Q);
    memset(first.call.tensor[ATTUNE_O].data, 0, 64);
    at_case_cache_return(cache, &first, false);
    assert_null(base_of(&first, ATTUNE_Q));
    draw_into(cache, 9, (at_poison){0}, &again);
    assert_ptr_equal(base_of(&again, ATTUNE_Q), lent);
    for (int role = ATTUNE_Q; role <= ATTUNE_LSE; ++role) {
        assert_int_equal(own.buffer[role].total, again.buffer[role].total);
        assert_memory_equal(base_of(&own, (attune_role)role), base_of(&again, (attune_role)role),
                            own.buffer[role].total);
    }
    at_case_cache_return(cache, &again, false);
    at_case_cache_return(cache, &other, false);
    at_case_cache_destroy(cache);
    at_inputs_free(&own);
}

static void spoilt_inputs_are_drawn_anew(void **state)
{
    (void)state;
    at_inputs inputs;
    at_case_cache *cache;
    assert_ok(at_case_cache_create(0, &cache));
    draw_into(cache, 9, (at_poison){0}, &inputs);
    uint64_t digest = at_inputs_digest(&inputs);
    memset(inputs.call.tensor[ATTUNE_K].data, 0, 64);
    at_case_cache_return(cache, &inputs, true);
    draw_into(cache, 9, (at_poison){0}, &inputs);
    assert_true(at_inputs_digest(&inputs) == digest);
    assert_int_equal(at_case_cache_found(cache), 0);
    at_case_cache_return(cache, &inputs, false);
    at_case_cache_destroy(cache);
}

enum { AHEAD = 6, FIRST_SEED = 40 };

static void look_ahead(at_case_cache *cache, int scope)
{
    for (uint64_t i = 0; i < AHEAD; ++i) {
        at_prefetch wanted = {.draw = {.seed = FIRST_SEED + i, .far = i == 3}, .judged = i != 1};
        assert_ok(attune_problem_parse("b2,h2,s24,d16,fp16", &wanted.problem));
        assert_ok(at_case_cache_ahead(cache, scope, 2, &wanted));
    }
}

/* Whoever asks finds what was made ahead, or waits for it, or makes it: the same in any case. */
static void what_is_made_ahead_is_found(void **state)
{
    (void)state;
    const at_truth_want want = {.wanted = 0};
    at_case_cache *cache;
    assert_ok(at_case_cache_create(0, &cache));
    look_ahead(cache, 1);
    for (uint64_t i = 0; i < AHEAD; ++i) {
        const at_draw how = {.seed = FIRST_SEED + i, .far = i == 3, .pool = pool};
        attune_problem problem;
        at_inputs inputs, own;
        at_truth truth, computed;
        assert_ok(attune_problem_parse("b2,h2,s24,d16,fp16", &problem));
        assert_ok(at_case_cache_inputs(cache, &problem, &how, &inputs));
        assert_ok(at_inputs_draw(&problem, &how, &own));
        assert_true(at_inputs_digest(&inputs) == at_inputs_digest(&own));
        assert_ok(at_case_cache_truth(cache, pool, &inputs, &want, &truth));
        assert_ok(at_truth_compute(pool, &own, &want, &computed));
        expect_same(&computed, &truth);
        at_truth_free(&truth);
        at_truth_free(&computed);
        at_case_cache_return(cache, &inputs, false);
        at_inputs_free(&own);
    }
    at_case_cache_drop(cache, 1);
    at_case_cache_destroy(cache);
}

/* A dropped scope is forgotten, made or not, and others are not. */
static void sections_are_dropped(void **state)
{
    (void)state;
    at_inputs inputs;
    at_case_cache *cache;
    assert_ok(at_case_cache_create(0, &cache));
    look_ahead(cache, 5);
    at_case_cache_drop(cache, 5);
    at_case_cache_enter(cache, 7);
    for (int i = 0; i < 3; ++i) { /* drawn; found; drawn after it was dropped */
        draw_into(cache, 3, (at_poison){0}, &inputs);
        at_case_cache_return(cache, &inputs, false);
        assert_int_equal(at_case_cache_found(cache), i > 0);
        at_case_cache_drop(cache, i == 0 ? 5 : 7);
    }
    look_ahead(cache, 8); /* and some of it is still to be made when all ends */
    at_case_cache_destroy(cache);
}

static void without_a_cache(void **state)
{
    (void)state;
    const at_truth_want want = {.wanted = 0};
    at_inputs inputs;
    at_truth truth;
    draw("b1,h1,s20,d16,fp32", 3, &inputs);
    assert_ok(at_case_cache_truth(NULL, pool, &inputs, &want, &truth));
    assert_non_null(truth.block);
    at_truth_free(&truth);
    at_inputs_free(&inputs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_truths_serve),
        cmocka_unit_test(other_inputs_have_their_own),
        cmocka_unit_test(room_is_limited),
        cmocka_unit_test(inputs_are_lent),
        cmocka_unit_test(spoilt_inputs_are_drawn_anew),
        cmocka_unit_test(what_is_made_ahead_is_found),
        cmocka_unit_test(sections_are_dropped),
        cmocka_unit_test(without_a_cache),
    };
    return cmocka_run_group_tests(tests, pool_open, pool_close);
}
