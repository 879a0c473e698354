/* Calls that are like one that passed: whatever is accepted by that passes the check, and changes args into its own. */
#include "calls.h"

/* Each with its buffers a gigabyte apart. */
static const char *const problems[] = {everything, packed, "b2,h4,s9,d16,fp16",
                                       "b3,h4,hkv2,sq5,skv9,d8,bf16,layout=bshd"};
enum { PROBLEMS = sizeof problems / sizeof *problems };

static at_spans spans_of(const attune_problem *problem, const attune_call *call)
{
    at_spans spans;
    if (at_call_check_spans(problem, call, &spans) != ATTUNE_OK) {
        fail_msg("%s", attune_last_detail());
    }
    return spans;
}

/* Accepts or not; what is accepted is compared with a call that was checked and described in full. */
static bool is_accepted(const attune_problem *problem, const attune_call *from, const attune_call *to,
                        at_change *change)
{
    attune_args made, expected;
    at_spans spans = spans_of(problem, from);
    if (!at_call_change(problem, at_call_roles(problem), from, to, &spans, change)) {
        return false;
    }
    const at_spans full = spans_of(problem, to);
    assert_int_equal(spans.present, full.present);
    for (int i = 0; i <= AT_WORKSPACE; ++i) {
        assert_int_equal((full.present >> i & 1) != 0 ? spans.bytes[i] : 0, full.bytes[i]);
    }
    at_call_args(problem, from, &made);
    at_call_args_change(problem, to, change, &made);
    at_call_args(problem, to, &expected);
    assert_memory_equal(&made, &expected, sizeof made);
    return true;
}

static attune_call sample(const attune_problem *problem)
{
    attune_call call = whole(problem);
    call.workspace = place(40);
    call.workspace_bytes = 512;
    return call;
}

/* ---- Any edits -------------------------------------------------------------------------------------------------- */

/* Next to another one, more often than not; seldom by less than what keeps every alignment. */
static void edit_place(attune_call *call, at_random *random)
{
    const int buffer = (int)at_random_below(random, AT_WORKSPACE + 1);
    const ptrdiff_t by = ((ptrdiff_t)at_random_below(random, 65) - 32) * (at_random_below(random, 8) ? 256 : 16);
    char *at = (char *)place((int)at_random_below(random, ATTUNE_ROLE_COUNT)) + by;
    if (buffer == AT_WORKSPACE) {
        call->workspace = at;
    } else if (call->tensor[buffer].data != NULL) {
        call->tensor[buffer].data = at;
    }
}

/* Up to one more than is allowed. */
static void edit_size(const attune_problem *problem, attune_call *call, at_random *random)
{
    switch (at_random_below(random, 6)) {
    case 0:
        call->batch = (int64_t)at_random_below(random, (uint64_t)problem->batch + 1) + 1;
        break;
    case 1:
        call->seqlen_q = (int64_t)at_random_below(random, (uint64_t)problem->seqlen_q + 2);
        break;
    case 2:
        call->heads_q = (int64_t)at_random_below(random, (uint64_t)problem->heads_q + 2);
        break;
    case 3:
        call->total_kv = (int64_t)at_random_below(random, (uint64_t)(problem->batch * problem->seqlen_kv) + 2);
        break;
    case 4:
        call->workspace_bytes = at_random_below(random, 3) * 256;
        break;
    default:
        call->seqlen_kv = (int64_t)at_random_below(random, (uint64_t)problem->seqlen_kv + 2);
    }
}

static void edit_stride(attune_call *call, at_random *random)
{
    attune_tensor *tensor = &call->tensor[at_random_below(random, ATTUNE_ROLE_COUNT)];
    tensor->stride[at_random_below(random, 3)] += ((int64_t)at_random_below(random, 5) - 2) * 8;
}

static void what_is_accepted_passes(void **state)
{
    (void)state;
    int accepted_of[PROBLEMS][3] = {{0}};
    for (uint64_t seed = 0; seed < 60000; ++seed) {
        at_random random = at_random_seed(seed, 5);
        const attune_problem problem = parse(problems[seed % PROBLEMS]);
        const attune_call from = sample(&problem);
        const int kind = (int)at_random_below(&random, 3);
        attune_call to = from;
        at_change change;
        for (uint64_t edits = at_random_below(&random, 4) + 1; edits > 0; --edits) {
            if (kind == 0) {
                edit_place(&to, &random);
            } else if (kind == 1) {
                edit_size(&problem, &to, &random);
            } else {
                edit_stride(&to, &random);
            }
        }
        accepted_of[seed % PROBLEMS][kind] += is_accepted(&problem, &from, &to, &change);
    }
    for (int i = 0; i < PROBLEMS; ++i) {
        for (int kind = 0; kind < 3; ++kind) {
            assert_true(accepted_of[i][kind] > 1000);
        }
    }
}

/* One that follows another that was accepted. */
static void one_after_another(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 2000; ++seed) {
        at_random random = at_random_seed(seed, 6);
        const attune_problem problem = parse(problems[seed % PROBLEMS]);
        attune_call from = sample(&problem);
        for (int i = 0; i < 8; ++i) {
            attune_call to = from;
            at_change change;
            edit_place(&to, &random);
            edit_size(&problem, &to, &random);
            from = is_accepted(&problem, &from, &to, &change) ? to : from;
        }
    }
}

/* Any word that differs. */
static void what_any_word_says_is_seen(void **state)
{
    (void)state;
    const attune_problem problem = parse(everything);
    const attune_call from = sample(&problem);
    int accepted_words = 0;
    for (size_t at = 0; at < sizeof from; at += sizeof(uint32_t)) {
        attune_call to = from;
        at_change change;
        uint32_t word;
        memcpy(&word, (char *)&to + at, sizeof word);
        word ^= 1;
        memcpy((char *)&to + at, &word, sizeof word);
        accepted_words += is_accepted(&problem, &from, &to, &change);
        assert_false(at_call_is_same(&from, &to, at_call_roles(&problem)) &&
                     at < offsetof(attune_call, tensor) + sizeof(attune_tensor));
    }
    assert_true(accepted_words > 10); /* upper halves of pointers, the stream */
}

/* ---- Single differences ----------------------------------------------------------------------------------------- */

static uint64_t bit(int buffer)
{
    return UINT64_C(1) << buffer;
}

/* What is to be made anew, and no more. */
static void a_change_names_what_differs(void **state)
{
    (void)state;
    const attune_problem problem = parse("b2,h4,sq9,skv20,d16,fp16");
    const attune_call from = sample(&problem);
    at_change change;
    attune_call to = from;
    assert_true(is_accepted(&problem, &from, &to, &change));
    assert_true(!change.sizes && change.shaped == 0 && change.moved == 0);
    to.seqlen_kv = 11;
    assert_true(is_accepted(&problem, &from, &to, &change));
    assert_true(change.sizes == (bit(ATTUNE_SIZE_SEQLEN_KV) | bit(ATTUNE_SIZE_TOTAL_KV)));
    assert_true(change.shaped == (bit(ATTUNE_K) | bit(ATTUNE_V)) && change.moved == 0);
    to = from;
    to.tensor[ATTUNE_O].data = place(50);
    to.workspace = place(51);
    assert_true(is_accepted(&problem, &from, &to, &change));
    assert_true(!change.sizes && change.shaped == 0 && change.moved == (bit(ATTUNE_O) | bit(AT_WORKSPACE)));
    to = from;
    to.tensor[ATTUNE_Q].stride[ATTUNE_STRIDE_BATCH] += 64;
    assert_true(is_accepted(&problem, &from, &to, &change));
    assert_true(!change.sizes && change.shaped == bit(ATTUNE_Q) && change.moved == 0);
    to = from;
    to.tensor[ATTUNE_Q].data = (char *)to.tensor[ATTUNE_Q].data + 16;
    assert_true(is_accepted(&problem, &from, &to, &change));
    assert_true(!change.sizes && change.shaped == bit(ATTUNE_Q) && change.moved == bit(ATTUNE_Q));
    to.tensor[ATTUNE_Q].data = (char *)to.tensor[ATTUNE_Q].data + 8;
    assert_false(is_accepted(&problem, &from, &to, &change));
}

/* Which buffers there are is part of what was checked. */
static void none_comes_or_goes(void **state)
{
    (void)state;
    const attune_problem problem = parse("b2,h4,s9,d16,fp16");
    const attune_call with = sample(&problem);
    attune_call without = with, more = with;
    at_change change;
    without.tensor[ATTUNE_LSE].data = NULL;
    more.tensor[ATTUNE_SINK].data = place(60);
    assert_true(is_accepted(&problem, &with, &with, &change));
    assert_false(is_accepted(&problem, &with, &without, &change));
    assert_true(is_accepted(&problem, &without, &without, &change));
    assert_false(is_accepted(&problem, &without, &with, &change));
    assert_false(is_accepted(&problem, &with, &more, &change));
    assert_true(at_call_is_same(&with, &with, at_call_roles(&problem)));
    assert_false(at_call_is_same(&with, &without, at_call_roles(&problem)));
    assert_false(at_call_is_same(&with, &more, at_call_roles(&problem)));
}

static void the_end_of_memory_is_seen(void **state)
{
    (void)state;
    const attune_problem problem = parse("b2,h4,s9,d16,fp16");
    const attune_call call = sample(&problem);
    at_change change;
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        attune_call to = call;
        to.tensor[role].data = (void *)(UINTPTR_MAX - 255); /* NOLINT(performance-no-int-to-ptr): made up */
        assert_int_equal(at_call_check(&problem, &to), ATTUNE_INVALID_ARGUMENT);
        assert_false(is_accepted(&problem, &call, &to, &change));
    }
}

static void a_copy_is_the_same_call(void **state)
{
    (void)state;
    for (int i = 0; i < PROBLEMS; ++i) {
        const attune_problem problem = parse(problems[i]);
        const attune_call call = sample(&problem);
        attune_call copy;
        memset(&copy, 0xff, sizeof copy);
        at_call_copy(&copy, &call, at_call_roles(&problem));
        assert_true(at_call_is_same(&copy, &call, at_call_roles(&problem)));
        at_change change;
        at_spans spans = spans_of(&problem, &call);
        assert_true(at_call_change(&problem, at_call_roles(&problem), &copy, &call, &spans, &change));
        assert_true(!change.sizes && change.shaped == 0 && change.moved == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_accepted_passes),    cmocka_unit_test(one_after_another),
        cmocka_unit_test(what_any_word_says_is_seen), cmocka_unit_test(a_change_names_what_differs),
        cmocka_unit_test(none_comes_or_goes),         cmocka_unit_test(the_end_of_memory_is_seen),
        cmocka_unit_test(a_copy_is_the_same_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
