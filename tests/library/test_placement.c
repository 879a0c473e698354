/* Other inputs at the same addresses: those that lie alike, and no others; workspace that cannot be had. */
#include "base/cm.h"

#include <stdlib.h>
#include <string.h>

#include "library/placement.h"

static void draw(const char *text, uint64_t seed, at_inputs *inputs)
{
    const at_draw how = {.seed = seed};
    attune_problem problem;
    assert_ok(attune_problem_parse(text, &problem));
    assert_ok(at_inputs_draw(&problem, &how, inputs));
}

static void test_another_draw_takes_the_place(void **state)
{
    (void)state;
    at_inputs here, there;
    at_placement place;
    draw("b1,h2,s20,d32,fp32,mask", 1, &here);
    draw("b1,h2,s20,d32,fp32,mask", 2, &there);
    assert_ok(at_placement_create(NULL, &here, &place));
    const void *query = here.call.tensor[ATTUNE_Q].data;
    const uint64_t before = place.digest;
    assert_ok(at_placement_replace(&place, &there));
    assert_ptr_equal(here.call.tensor[ATTUNE_Q].data, query);
    assert_memory_equal(query, there.call.tensor[ATTUNE_Q].data, there.buffer[ATTUNE_Q].bytes);
    assert_true(place.digest != before && place.digest == at_inputs_digest(&there));
    at_placement_free(&place);
    at_inputs_free(&there);
    at_inputs_free(&here);
}

static void expect_refused(const char *a, const char *b)
{
    at_inputs here, there;
    at_placement place;
    draw(a, 1, &here);
    draw(b, 2, &there);
    assert_ok(at_placement_create(NULL, &here, &place));
    assert_int_equal(at_placement_replace(&place, &there), ATTUNE_INTERNAL);
    assert_true(at_inputs_digest(&here) == place.digest); /* nothing is half replaced */
    at_placement_free(&place);
    at_inputs_free(&there);
    at_inputs_free(&here);
}

static void test_what_lies_differently_is_refused(void **state)
{
    (void)state;
    expect_refused("b1,h2,s20,d32,fp32", "b1,h2,s19,d32,fp32");      /* fewer bytes */
    expect_refused("b1,h2,s20,d32,fp32", "b1,h1,s40,d32,fp32");      /* as many bytes, other strides */
    expect_refused("b1,h2,s20,d32,fp16", "b1,h2,s20,d32,bf16");      /* another type */
    expect_refused("b1,h2,s20,d32,fp32,mask", "b1,h2,s20,d32,fp32"); /* a tensor less */
}

/* A device of little memory: host pages, and no more than so many bytes at once. */
enum { MOST_BYTES = 1 << 16 };

static attune_status allocate(at_device *device, size_t bytes, void **data)
{
    (void)device;
    *data = bytes > MOST_BYTES ? NULL : malloc(bytes);
    return *data != NULL ? ATTUNE_OK : ATTUNE_OUT_OF_MEMORY;
}

static void release(at_device *device, void *data)
{
    (void)device;
    free(data);
}

static attune_status copy(at_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    memcpy(to, from, bytes);
    return ATTUNE_OK;
}

static void test_no_workspace_is_left_where_more_could_not_be_had(void **state)
{
    static const at_device_ops ops = {.allocate = allocate, .release = release, .upload = copy, .download = copy};
    at_device device = {.ops = &ops, .target = {.kind = ATTUNE_TARGET_CPU}};
    at_inputs inputs;
    at_placement place;
    (void)state;
    draw("b1,h1,s4,d8,fp32", 1, &inputs);
    assert_ok(at_placement_create(&device, &inputs, &place));
    assert_ok(at_placement_reserve(&place, 1024));
    assert_true(place.call.workspace != NULL && place.call.workspace_bytes == 1024);
    assert_int_equal(at_placement_reserve(&place, MOST_BYTES), ATTUNE_OUT_OF_MEMORY);
    assert_true(place.call.workspace == NULL && place.call.workspace_bytes == 0 && place.workspace_bytes == 0);
    assert_ok(at_placement_reserve(&place, 1024));
    assert_ok(at_placement_untouched(&place));
    at_placement_free(&place);
    at_inputs_free(&inputs);
}

/* Tensors that come from elsewhere: what is moved runs elsewhere and comes back, the rest runs where it lies. */
static void test_tensors_from_elsewhere(void **state)
{
    static const at_device_ops ops = {.allocate = allocate, .release = release, .upload = copy, .download = copy};
    at_device device = {.ops = &ops, .target = {.kind = ATTUNE_TARGET_CPU}};
    float q[4] = {1, 2, 3, 4}, o[4] = {0};
    attune_call call = {.size = sizeof call};
    at_placement place;
    (void)state;
    call.tensor[ATTUNE_Q].data = q;
    call.tensor[ATTUNE_O].data = o;
    at_placement_open(&device, &call, &place);
    assert_ok(at_placement_own(&place, ATTUNE_Q, q, sizeof q));
    assert_ptr_not_equal(place.call.tensor[ATTUNE_Q].data, q);
    assert_memory_equal(place.call.tensor[ATTUNE_Q].data, q, sizeof q);
    assert_ptr_equal(place.call.tensor[ATTUNE_O].data, o);
    ((float *)place.call.tensor[ATTUNE_Q].data)[2] = 9;
    assert_ok(at_placement_bring(&place, ATTUNE_Q, q, sizeof q));
    assert_true(q[2] == 9);
    assert_ok(at_placement_bring(&place, ATTUNE_O, o, sizeof o));
    assert_true(o[0] == 0);
    assert_ok(at_placement_reserve(&place, 64));
    assert_int_equal(place.call.workspace_bytes, 64);
    assert_int_equal(at_placement_own(&place, ATTUNE_K, q, MOST_BYTES + 1), ATTUNE_OUT_OF_MEMORY);
    at_placement_free(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_draw_takes_the_place),
        cmocka_unit_test(test_what_lies_differently_is_refused),
        cmocka_unit_test(test_no_workspace_is_left_where_more_could_not_be_had),
        cmocka_unit_test(test_tensors_from_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
