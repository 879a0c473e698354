/* What earlier calls left nearby: whoever makes use of it is seen, whoever does not is not. */
#include "base/cm.h"

#include "core/plan.h"
#include "gate/zoo_device.h"
#include "judge/neighbours.h"

/* The zoo's device, but calls without LSE may look around. */
typedef struct fake_device {
    zoo_device zoo;
    at_device_ops ops;
    unsigned char *now, *before; /* outputs of this call, and of the last one that had another */
    bool takes_all;              /* copies all of it; else its first row is computed, and the others copied */
    int64_t launches;
    float gain; /* of results; of every second call where it is not 1 */
} fake_device;

static size_t bytes_of(const attune_args *args)
{
    return (size_t)(args->batch * args->heads_q * args->seqlen_q * args->head_dim_v) * 2;
}

static attune_status look_around(const at_loaded *loaded, at_made *made, void *stream)
{
    const attune_args *args = &made->args;
    fake_device *on = (fake_device *)loaded->device;
    unsigned char *output = args->tensor[ATTUNE_O].data;
    attune_status status = zoo_launch(loaded, made, stream);
    on->before = on->now != output ? on->now : on->before;
    on->now = output;
    if (on->takes_all && on->before != NULL && args->tensor[ATTUNE_LSE].data == NULL) {
        memcpy(output + 128, on->before + 128, bytes_of(args) - 128);
    }
    if (on->gain != 1 && ++on->launches % 2 == 0) {
        for (size_t i = 0; i < bytes_of(args) / 2; ++i) {
            zoo_store(&args->tensor[ATTUNE_O], (int64_t)i, on->gain * zoo_load(&args->tensor[ATTUNE_O], (int64_t)i));
        }
    }
    return status;
}

static attune_status walked(bool takes_all, float gain, double share)
{
    fake_device on = {.takes_all = takes_all, .gain = gain};
    const at_draw draw = {.seed = 3, .family = AT_FAMILY_NORMAL};
    attune_problem problem;
    at_inputs inputs;
    at_placement place;
    attune_plan *plan = NULL;
    assert_ok(attune_problem_parse("b1,h2,s20,d64,fp16", &problem));
    zoo_open(&on.zoo, ZOO_HONEST, ATTUNE_TARGET_CUDA, 0);
    on.ops = zoo_ops;
    on.ops.launch = look_around;
    on.zoo.device.ops = &on.ops;
    assert_ok(zoo_plan(&on.zoo, &problem, &plan));
    assert_ok(at_inputs_draw(&problem, &draw, &inputs));
    assert_ok(at_placement_create(&on.zoo.device, &inputs, &place));
    attune_status status = at_neighbours_run(&place, plan, 1, share);
    at_placement_free(&place);
    at_inputs_free(&inputs);
    attune_plan_destroy(plan);
    for (int i = 0; i < ZOO_HELD; ++i) {
        assert_null(on.zoo.held[i].data);
    }
    return status;
}

static void who_computes_is_right(void **state)
{
    (void)state;
    assert_ok(walked(false, 1.0F, 0));
}

static void who_copies_is_seen(void **state)
{
    (void)state;
    assert_fails(walked(true, 1.0F, 0), ATTUNE_WRONG_RESULT, "neighbours: a call's result changed");
    assert_fails(walked(true, 1.0F, 0x1p-7), ATTUNE_WRONG_RESULT, "neighbours: a call's result changed");
}

/* A kernel that declares it may differ by roundings; another may not. */
static void what_may_differ_may_do_so_here_too(void **state)
{
    (void)state;
    assert_ok(walked(false, 1.0005F, 0x1p-7));
    assert_fails(walked(false, 1.0005F, 0), ATTUNE_WRONG_RESULT, "another result than alone");
    assert_fails(walked(false, 1.05F, 0x1p-7), ATTUNE_WRONG_RESULT, "another result than alone");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_computes_is_right),
        cmocka_unit_test(who_copies_is_seen),
        cmocka_unit_test(what_may_differ_may_do_so_here_too),
    };
    return cmocka_run_group_tests_name("neighbours", tests, NULL, NULL);
}
