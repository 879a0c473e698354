/* The real layer in examples/data: attune's O is the framework's, down to fp32 rounding. */
#include "base/cm.h"

#include <math.h>
#include <stdlib.h>

#include "cli/safetensors.h"

static const char layer_path[] = ATTUNE_SOURCE_DIR "/examples/data/minilm_layer.safetensors";

typedef struct layer {
    at_safetensors *file;
    attune_problem problem;
    attune_call call;
    float *expected; /* the framework's O */
    size_t outputs;
} layer;

/* A copy of a tensor at an address as aligned as plans ask for; a file's tensors are where its header ends. */
static void *aligned_copy(const at_array *array)
{
    size_t room = (array->bytes + 255) / 256 * 256;
    void *copy = aligned_alloc(256, room);
    assert_non_null(copy);
    memcpy(copy, array->data, array->bytes);
    return copy;
}

static const at_array *role(const layer *one, const char *name, int rank)
{
    const at_named_array *found = at_safetensors_find(one->file, name);
    assert_non_null(found);
    assert_int_equal(found->array.rank, rank);
    return &found->array;
}

static int open_layer(void **state)
{
    layer *one = calloc(1, sizeof *one);
    assert_non_null(one);
    assert_ok(at_safetensors_read(layer_path, &one->file));
    const at_array *q = role(one, "Q", 4);
    attune_problem_init(&one->problem);
    one->problem.batch = q->shape[0];
    one->problem.heads_q = one->problem.heads_kv = q->shape[1];
    one->problem.seqlen_q = one->problem.seqlen_kv = q->shape[2];
    one->problem.head_dim_qk = one->problem.head_dim_v = (int32_t)q->shape[3];
    one->problem.seqused_kv = 1;
    assert_ok(attune_call_init(&one->call, &one->problem));
    one->call.tensor[ATTUNE_Q].data = aligned_copy(q);
    one->call.tensor[ATTUNE_K].data = aligned_copy(role(one, "K", 4));
    one->call.tensor[ATTUNE_V].data = aligned_copy(role(one, "V", 4));
    one->call.tensor[ATTUNE_USED_KV].data = aligned_copy(role(one, "USED_KV", 1));
    const at_array *o = role(one, "O", 4);
    one->expected = aligned_copy(o);
    one->outputs = o->bytes / sizeof(float);
    one->call.tensor[ATTUNE_O].data = aligned_copy(o);
    memset(one->call.tensor[ATTUNE_O].data, 0xff, o->bytes);
    *state = one;
    return 0;
}

static int close_layer(void **state)
{
    layer *one = *state;
    for (int i = 0; i < ATTUNE_ROLE_COUNT; ++i) {
        free(one->call.tensor[i].data);
    }
    free(one->expected);
    at_safetensors_destroy(one->file);
    free(one);
    return 0;
}

static void run_layer(layer *one, const char *kernel)
{
    attune_options options;
    attune_context *context;
    attune_plan *plan;
    size_t bytes;
    attune_options_init(&options);
    options.target = "cpu";
    options.kernel = kernel;
    assert_ok(attune_context_create(&options, &context));
    assert_ok(attune_plan_create(context, &one->problem, NULL, &plan));
    assert_ok(attune_plan_workspace(plan, NULL, &bytes));
    one->call.workspace = bytes > 0 ? aligned_alloc(256, (bytes + 255) / 256 * 256) : NULL;
    one->call.workspace_bytes = bytes;
    assert_ok(attune_plan_execute(plan, &one->call));
    free(one->call.workspace);
    attune_plan_destroy(plan);
    attune_context_destroy(context);
}

static double worst(const layer *one)
{
    const float *got = one->call.tensor[ATTUNE_O].data;
    double most = 0;
    for (size_t i = 0; i < one->outputs; ++i) {
        double off = fabs((double)got[i] - (double)one->expected[i]);
        most = isnan(off) ? INFINITY : fmax(most, off);
    }
    return most;
}

/* Two fp32 computations of sums of about 18 products of magnitude 1 differ by a few ulp of the largest value. */
static void agrees_with_the_framework(void **state)
{
    layer *one = *state;
    run_layer(one, NULL);
    double limit = 0;
    for (size_t i = 0; i < one->outputs; ++i) {
        limit = fmax(limit, 16 * ldexp(1, -23) * fabs((double)one->expected[i]));
    }
    assert_true(limit > 0 && limit < 1e-4);
    if (worst(one) > limit) {
        fail_msg("O is off by %g, at most %g is rounding", worst(one), limit);
    }
}

/* The lengths matter: with every key seen the padding would be averaged in. */
static void needs_the_lengths(void **state)
{
    layer *one = *state;
    one->problem.seqused_kv = 0;
    free(one->call.tensor[ATTUNE_USED_KV].data);
    one->call.tensor[ATTUNE_USED_KV].data = NULL;
    run_layer(one, NULL);
    assert_true(worst(one) > 1e-2);
}

static void says_what_it_is(void **state)
{
    const layer *one = *state;
    const char *const keys[] = {"model", "layer", "sentences", "framework"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; ++i) {
        assert_non_null(at_safetensors_metadata(one->file, keys[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(agrees_with_the_framework, open_layer, close_layer),
        cmocka_unit_test_setup_teardown(needs_the_lengths, open_layer, close_layer),
        cmocka_unit_test_setup_teardown(says_what_it_is, open_layer, close_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
