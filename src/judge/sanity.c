#include "judge/sanity.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "core/plan.h"
#include "judge/neighbours.h"
#include "judge/trial.h"
#include "worker/transform.h"

/* Of shared memory: as fp16, bf16 and fp32 the first is NaN, the second an ordinary number. */
enum { SMEM_POISON = 0xff, OTHER_SMEM_POISON = 0x5a };

/* Calls without anything between them: so many for each that has something else around it, and of small problems as
 * many as so many operations are. */
enum { IN_A_ROW = 4, IN_A_ROW_MOST = 100 };
#define IN_A_ROW_FLOPS 2e9

/* One set of inputs in the device's memory. */
typedef struct set {
    at_case_cache *cache;
    at_inputs inputs;
    at_placement place;
    bool clean; /* what was drawn is still what it holds, guards included */
} set;

static attune_status set_open(const at_suite *suite, const at_test_problem *test, uint64_t seed, set *made)
{
    const at_draw draw = {.seed = seed,
                          .length_seed = test->length_seed,
                          .family = AT_FAMILY_NORMAL,
                          .poison = {.seed = seed},
                          .pool = suite->pool};
    memset(made, 0, sizeof *made);
    made->cache = suite->cache;
    AT_FORWARD(at_case_cache_inputs(made->cache, &test->problem, &draw, &made->inputs));
    return at_placement_create(suite->device, &made->inputs, &made->place);
}

static void set_close(set *made)
{
    bool changed = !made->clean || !at_placement_apart(&made->place);
    if (made->place.device != NULL) {
        at_placement_free(&made->place);
    }
    at_case_cache_return(made->cache, &made->inputs, changed);
}

static attune_status execute(set *on, const attune_plan *plan)
{
    return at_placement_run(&on->place, plan, &on->place.call);
}

/* As execute, after something else has used the device's memory that no call is given. */
static attune_status execute_amid(set *on, const attune_plan *plan, int pattern)
{
    const at_device_ops *ops = on->place.device->ops;
    AT_FORWARD(ops->poison_scratch == NULL ? ATTUNE_OK : ops->poison_scratch(on->place.device, pattern));
    return execute(on, plan);
}

/* ---- Launch ----------------------------------------------------------------------------------------------------- */

static attune_status launch_once(const at_suite *suite, const at_test_problem *test, const attune_plan *plan)
{
    set one;
    attune_status status = set_open(suite, test, suite->seed, &one);
    if (status == ATTUNE_OK) {
        status = execute(&one, plan);
    }
    one.clean = status == ATTUNE_OK && at_inputs_guards(&one.inputs) == ATTUNE_OK;
    set_close(&one);
    return status;
}

attune_status at_sanity_launch(const at_suite *suite, const at_test_problem *test)
{
    attune_plan *plan;
    AT_FORWARD(suite->plan(suite->self, &test->problem, &plan));
    attune_status status = launch_once(suite, test, plan);
    attune_plan_destroy(plan);
    return status;
}

/* ---- A peer's O ------------------------------------------------------------------------------------------------- */

static attune_status judge_output(const at_suite *suite, const attune_plan *plan, set *on, at_finding *finding)
{
    at_truth truth = {.pool = suite->pool};
    at_truth_want want = at_trial_rows(suite, &on->inputs.problem);
    on->place.call.tensor[ATTUNE_LSE].data = NULL;
    on->inputs.call.tensor[ATTUNE_LSE].data = NULL;
    AT_FORWARD(execute(on, plan));
    AT_FORWARD(at_inputs_guards(&on->inputs));
    attune_status status = at_case_cache_truth(suite->cache, suite->pool, &on->inputs, &want, &truth);
    if (status == ATTUNE_OK) {
        status = at_judge_case(&truth.one, finding, NULL);
    }
    at_truth_free(&truth);
    return status;
}

attune_status at_sanity_judge(const at_suite *suite, const at_test_problem *test, at_finding *finding)
{
    attune_plan *plan;
    set one;
    AT_FORWARD(suite->plan(suite->self, &test->problem, &plan));
    attune_status status = set_open(suite, test, suite->seed, &one);
    if (status == ATTUNE_OK) {
        status = judge_output(suite, plan, &one, finding);
    }
    one.clean = status == ATTUNE_OK;
    set_close(&one);
    attune_plan_destroy(plan);
    return status;
}

/* ---- The same again --------------------------------------------------------------------------------------------- */

typedef struct bench {
    const at_suite *suite;
    const at_test_problem *test;
    attune_plan *plan;
    set here, there; /* `there` holds other inputs, at other addresses */
    at_outputs kept, kept_there, kept_late;
    bool nondeterministic;
    bool delayed;       /* it ran with delays */
    bool never_delayed; /* there is no code with delays, and there might be */
} bench;

/* Whether the numbers are right, by the rules, of what the inputs `here` gave. */
static attune_status judge_numbers(bench *on, const char *rule)
{
    at_finding finding;
    at_truth truth = {.pool = on->suite->pool};
    at_truth_want want = at_trial_rows(on->suite, &on->test->problem);
    want.acc16 = (on->plan->loaded->kernel->traits & ATTUNE_TRAIT_ACC16) != 0;
    attune_status status = at_case_cache_truth(on->suite->cache, on->suite->pool, &on->here.inputs, &want, &truth);
    if (status == ATTUNE_OK) {
        status = at_judge_case(&truth.one, &finding, NULL);
    }
    at_truth_free(&truth);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "%s", rule);
}

/* Whether the outputs have the bits that were kept. Where the kernel says that others may come, those must be right. */
static attune_status same(bench *on, const at_outputs *kept, const char *rule)
{
    const at_part all = at_outputs_whole(&on->here.inputs);
    bool differs = false;
    for (int k = 0; k < 2; ++k) {
        attune_status status = at_outputs_same(kept, &on->here.inputs, k, &all, rule);
        if (status != ATTUNE_OK && (!on->nondeterministic || strncmp(attune_last_detail(), "outputs", 7) == 0)) {
            return status;
        }
        differs |= status != ATTUNE_OK;
    }
    return differs && kept != &on->kept_there ? judge_numbers(on, rule) : ATTUNE_OK;
}

static attune_status run_on_poison(bench *on)
{
    AT_FORWARD(execute_amid(&on->here, on->plan, SMEM_POISON));
    AT_FORWARD(at_placement_untouched(&on->here.place));
    AT_FORWARD(at_outputs_keep(&on->here.inputs, &on->kept));
    AT_FORWARD(at_placement_poison(&on->here.place, at_poison_other(on->here.inputs.draw.poison, AT_POISON_NUMBERS)));
    AT_FORWARD(execute_amid(&on->here, on->plan, OTHER_SMEM_POISON));
    AT_FORWARD(at_placement_untouched(&on->here.place));
    return same(on, &on->kept, "two poisons");
}

/* A missing barrier shows now and then only. */
static attune_status run_repeatedly(bench *on, int repeats)
{
    char rule[40];
    for (int i = 0; i < repeats; ++i) {
        (void)snprintf(rule, sizeof rule, "repeated runs, run %d", i + 3);
        AT_FORWARD(at_placement_poison(&on->here.place, at_poison_other(on->here.inputs.draw.poison, 1)));
        AT_FORWARD(execute(&on->here, on->plan));
        AT_FORWARD(same(on, &on->kept, rule));
    }
    return ATTUNE_OK;
}

/* Calls in a row with nothing filled between them, as in use: whoever counts his calls, wherever he keeps the number,
 * comes to where he does something else. */
static attune_status run_in_a_row(bench *on, int repeats)
{
    const double fit = IN_A_ROW_FLOPS / (attune_problem_flops(&on->test->problem) + 1);
    const int cheap = fit < IN_A_ROW_MOST ? (int)fit : IN_A_ROW_MOST;
    const int calls = cheap > IN_A_ROW * repeats ? cheap : IN_A_ROW * repeats;
    for (int i = 1; i < calls; ++i) {
        AT_FORWARD(execute_amid(&on->here, on->plan, AT_FILL_NOTHING));
    }
    AT_FORWARD(at_placement_poison(&on->here.place, at_poison_other(on->here.inputs.draw.poison, 1)));
    AT_FORWARD(execute_amid(&on->here, on->plan, AT_FILL_NOTHING));
    return same(on, &on->kept, "as many calls as in use");
}

/* ---- Other orders of warps --------------------------------------------------------------------------------------- */

/* NOTE: the code with delays is made by another compiler than the kernel's own, which may round otherwise where a
 * source leaves it the choice: the first run is judged by its numbers, and the others are compared with it. */
static attune_status run_late(bench *on, int repeats)
{
    char rule[64];
    for (int i = 0; i < repeats; ++i) {
        AT_FORWARD(at_placement_poison(&on->here.place, at_poison_other(on->here.inputs.draw.poison, 1)));
        AT_FORWARD(execute(&on->here, on->plan));
        (void)snprintf(rule, sizeof rule, "with delays behind barriers and late copies, run %d", i + 1);
        AT_FORWARD(i > 0 ? same(on, &on->kept_late, rule) : judge_numbers(on, rule));
        AT_FORWARD(i > 0 ? ATTUNE_OK : at_outputs_keep(&on->here.inputs, &on->kept_late));
    }
    return ATTUNE_OK;
}

/* A missing barrier shows when warps are late, a missing wait when copies are. A kernel that is wrong without delays is
 * the next stage's. */
static attune_status run_with_delays(bench *on, int repeats)
{
    enum { DELAYED_MOST = 6 };
    at_device *device = on->here.place.device;
    const bool may = device->ops->delay != NULL && device->target.kind == ATTUNE_TARGET_CUDA;
    attune_status status = may ? judge_numbers(on, "without delays") : ATTUNE_WRONG_RESULT;
    if (status == ATTUNE_WRONG_RESULT) {
        return ATTUNE_OK;
    }
    AT_FORWARD(status);
    status = device->ops->delay(device, on->plan->loaded, true);
    on->never_delayed = status == ATTUNE_UNSUPPORTED || status == ATTUNE_COMPILE_ERROR;
    if (on->never_delayed) {
        return ATTUNE_OK;
    }
    AT_FORWARD(status);
    on->delayed = true;
    status = run_late(on, repeats < DELAYED_MOST ? repeats : DELAYED_MOST);
    char detail[512];
    (void)snprintf(detail, sizeof detail, "%s", attune_last_detail());
    attune_status ended = device->ops->delay(device, on->plan->loaded, false);
    return status != ATTUNE_OK ? at_fail(status, "%s", detail) : ended;
}

/* ---- Between pages ----------------------------------------------------------------------------------------------- */

/* Who reads behind its inputs finds nothing there, and who writes to them cannot. */
static attune_status run_fenced(bench *on)
{
    static const char rule[] = "inputs that cannot be written, and nothing before or behind a buffer";
    at_device *device = on->here.place.device;
    if (device->ops->fence == NULL) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_placement_poison(&on->here.place, at_poison_other(on->here.inputs.draw.poison, 1)));
    AT_FORWARD(device->ops->fence(device));
    attune_status status = execute(&on->here, on->plan);
    return status == ATTUNE_OK ? same(on, &on->kept, rule) : at_fail_in(status, "%s", rule);
}

/* ---- Other inputs at the same addresses ------------------------------------------------------------------------- */

/* O, LSE and workspace are left as the last run left them: whoever returns early because O is written, gives what the
 * workspace remembers, or knows inputs by their address, gives something else than on fresh buffers. These come after:
 * a call elsewhere would replace what is remembered of the latest alone. */
static attune_status run_on_other_inputs(bench *on)
{
    AT_FORWARD(set_open(on->suite, on->test, on->suite->seed + 1, &on->there));
    AT_FORWARD(at_placement_replace(&on->here.place, &on->there.inputs));
    AT_FORWARD(execute_amid(&on->here, on->plan, AT_FILL_BACKWARDS));
    AT_FORWARD(at_placement_untouched(&on->here.place));
    AT_FORWARD(execute(&on->there, on->plan));
    AT_FORWARD(at_outputs_keep(&on->there.inputs, &on->kept_there));
    return same(on, &on->kept_there, "other inputs at the same addresses");
}

/* ---- What earlier calls left ------------------------------------------------------------------------------------- */

static attune_status run_beside_others(bench *on)
{
    double share =
        on->nondeterministic ? at_transform_share(&on->test->problem, on->plan->loaded->kernel->traits, false) : 0.0;
    AT_FORWARD(at_neighbours_run(&on->here.place, on->plan, on->suite->seed, share));
    return at_placement_untouched(&on->here.place);
}

/* ---- NaN and infinities ----------------------------------------------------------------------------------------- */

/* Whether a failure is about finite numbers, which the next stage judges with more inputs than these. */
static bool is_about_numbers(const char *what)
{
    static const char *const rules[] = {"rule 1,", "rule 2,", "rule 3, every row", "rule 6,"};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; ++i) {
        if (strncmp(what, rules[i], strlen(rules[i])) == 0) {
            return true;
        }
    }
    return strncmp(what, "rule 4", 6) == 0 && strstr(what, "they differ by") != NULL;
}

/* Non-finite values that no row sees, and ones that some rows see, by the rules for numbers. */
static attune_status run_family(const bench *on, at_family family, uint64_t seed)
{
    at_finding finding;
    at_bias bias = {0};
    char kernel[512] = "";
    const at_gate_case one = {
        .problem = on->test->problem,
        .planned = on->test->problem,
        .draw = {.seed = seed, .length_seed = on->test->length_seed, .family = family, .poison = at_poison_draw(seed)},
        .stratum = AT_STRATUM_EXACT};
    if (!at_family_applies(family, &on->test->problem)) {
        return ATTUNE_OK;
    }
    attune_status status = at_trial_run(on->suite, &one, &finding, &bias, kernel);
    if (status == ATTUNE_OK || (status == ATTUNE_WRONG_RESULT && is_about_numbers(attune_last_detail()))) {
        return ATTUNE_OK;
    }
    return at_fail_in(status, "%s non-finite values", at_family_name(family));
}

/* As many draws as it takes until every kind has been there: a leak shows by some of them only. */
static attune_status run_visible(const bench *on)
{
    const attune_problem *problem = &on->test->problem;
    for (int i = 0; i < at_visible_draws(problem); ++i) {
        AT_FORWARD(run_family(on, AT_FAMILY_VISIBLE, at_visible_seed(problem, on->suite->seed, i)));
    }
    return ATTUNE_OK;
}

/* ---- Ahead ------------------------------------------------------------------------------------------------------ */

/* One draw of all that sanity makes. */
typedef struct expected_case {
    at_family family;
    uint64_t seed;
    bool judged, of_peers;
} expected_case;

static attune_status prefetch(const at_suite *suite, const at_test_problem *test, const at_ahead *ahead,
                              const expected_case *one)
{
    const attune_problem *problem = &test->problem;
    at_prefetch wanted = {.problem = *problem, .judged = one->judged, .want = at_trial_rows(suite, problem)};
    wanted.draw = (at_draw){.seed = one->seed, .length_seed = test->length_seed, .family = one->family};
    wanted.want.acc16 = ahead->acc16 && !one->of_peers;
    return at_family_applies(one->family, problem)
               ? at_case_cache_ahead(suite->cache, ahead->scope, ahead->threads, &wanted)
               : ATTUNE_OK;
}

attune_status at_sanity_ahead(const at_suite *suite, const at_test_problem *test, const at_ahead *ahead)
{
    const attune_problem *problem = &test->problem;
    const expected_case first[] = {{AT_FAMILY_NORMAL, suite->seed, true, true},
                                   {AT_FAMILY_NORMAL, suite->seed + 1, false, false},
                                   {AT_FAMILY_HIDDEN, suite->seed, true, false}};
    for (size_t i = 0; i < sizeof first / sizeof first[0]; ++i) {
        AT_FORWARD(prefetch(suite, test, ahead, &first[i]));
    }
    for (int i = 0; i < at_visible_draws(problem); ++i) {
        const expected_case one = {AT_FAMILY_VISIBLE, at_visible_seed(problem, suite->seed, i), true, false};
        AT_FORWARD(prefetch(suite, test, ahead, &one));
    }
    return ATTUNE_OK;
}

/* ---- All of it -------------------------------------------------------------------------------------------------- */

static attune_status run_all(bench *on, int repeats)
{
    AT_FORWARD(set_open(on->suite, on->test, on->suite->seed, &on->here));
    AT_FORWARD(run_on_poison(on));
    AT_FORWARD(run_repeatedly(on, repeats));
    AT_FORWARD(run_fenced(on));
    AT_FORWARD(run_in_a_row(on, repeats));
    AT_FORWARD(run_with_delays(on, repeats));
    AT_FORWARD(run_on_other_inputs(on));
    AT_FORWARD(run_beside_others(on));
    AT_FORWARD(run_family(on, AT_FAMILY_HIDDEN, on->suite->seed));
    return run_visible(on);
}

attune_status at_sanity_run(const at_suite *suite, const at_test_problem *test, int repeats, const char **done)
{
    bench on = {.suite = suite, .test = test};
#define BEFORE "two poisons, guard bands, inputs unchanged, the same bits again, "
#define BEHIND "other inputs at the same addresses, neighbours, non-finite values"
    static const char looked[] = BEFORE BEHIND;
    static const char looked_late[] = BEFORE "and with delays behind barriers and late copies, " BEHIND;
    static const char not_looked_late[] = BEFORE BEHIND "; not checked: delays behind barriers and late copies";
#undef BEFORE
#undef BEHIND
    AT_FORWARD(suite->plan(suite->self, &test->problem, &on.plan));
    on.nondeterministic = (on.plan->loaded->kernel->traits & ATTUNE_TRAIT_NONDETERMINISTIC) != 0;
    attune_status status = run_all(&on, repeats);
    char detail[1024]; /* what a worker that is gone says of freeing would take its place */
    (void)snprintf(detail, sizeof detail, "%s", attune_last_detail());
    *done = on.delayed ? looked_late : on.never_delayed ? not_looked_late : looked;
    on.there.clean = status == ATTUNE_OK; /* `here` holds other inputs by now */
    attune_plan_destroy(on.plan);
    at_outputs_free(&on.kept);
    at_outputs_free(&on.kept_there);
    at_outputs_free(&on.kept_late);
    set_close(&on.here);
    set_close(&on.there);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail(status, "%s", detail);
}
