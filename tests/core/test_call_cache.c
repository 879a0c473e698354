/* Calls with pages, drafts, rows to append and states to merge. */
#include "calls.h"

static const char paged[] = "b3,h4,hkv2,sq5,skv10,d8,dv16,fp16,seqused,page=4,vtable,draft";
static const char mixed[] = "b3,h4,hkv2,sq5,skv10,d8,fp16,seqused,page=4,varlen";
static const char append[] = "append:b3,h2,sq5,skv10,d8,dv16,fp16,v=fp32,seqused,page=4";
static const char plain_append[] = "append:b3,h2,sq5,skv10,d8,fp16,slots";
static const char merge[] = "merge:b3,h4,sq5,d8,fp32,o=fp16,sink,states=6";

static void refused(const attune_problem *problem, const attune_call *call, const char *words)
{
    assert_int_equal(at_call_check(problem, call), ATTUNE_INVALID_ARGUMENT);
    if (strstr(attune_last_detail(), words) == NULL) {
        fail_msg("the message lacks '%s': %s", words, attune_last_detail());
    }
}

#define REFUSED(text, member, bad, words)                                                                              \
    do {                                                                                                               \
        const attune_problem problem_ = parse(text);                                                                   \
        attune_call call_ = whole(&problem_);                                                                          \
        accepted(&problem_, &call_);                                                                                   \
        call_.member = bad;                                                                                            \
        refused(&problem_, &call_, words);                                                                             \
    } while (0)

static void strides_are(const attune_call *call, int role, int64_t outer, int64_t head, int64_t row)
{
    const int64_t *stride = call->tensor[role].stride;
    if (stride[0] != outer || stride[1] != head || stride[2] != row) {
        fail_msg("%s: %lld %lld %lld", at_role_name(role), (long long)stride[0], (long long)stride[1],
                 (long long)stride[2]);
    }
}

static void begins_contiguous(void **state)
{
    (void)state;
    attune_problem problem = parse(paged);
    attune_call call = whole(&problem);
    assert_int_equal(call.page_count, 9);
    assert_int_equal(call.page_table_width, 3);
    strides_are(&call, ATTUNE_K, 2 * 4 * 8, 4 * 8, 8);
    strides_are(&call, ATTUNE_V, 2 * 4 * 16, 4 * 16, 16);
    assert_int_equal(call.tensor[ATTUNE_PAGE_TABLE_K].stride[0], 3);
    assert_int_equal(call.tensor[ATTUNE_DRAFT_MASK].dtype, ATTUNE_INT32);
    strides_are(&call, ATTUNE_DRAFT_MASK, 5, 5, 1);
    problem = parse(mixed); /* bshd: a pool is never packed */
    call = whole(&problem);
    strides_are(&call, ATTUNE_K, 4 * 2 * 8, 8, 2 * 8);
    strides_are(&call, ATTUNE_Q, 0, 8, 4 * 8);
    assert_null(call.tensor[ATTUNE_CU_KV].data);
    problem = parse(append);
    call = whole(&problem);
    assert_int_equal(call.total_new, 15);
    strides_are(&call, ATTUNE_NEW_K, 0, 8, 16);
    assert_int_equal(call.tensor[ATTUNE_NEW_V].dtype, ATTUNE_FP32);
    assert_null(call.tensor[ATTUNE_LSE].data);
    problem = parse(merge);
    call = whole(&problem);
    assert_int_equal(call.state_stride_o, 3 * 4 * 5 * 8);
    assert_int_equal(call.state_stride_lse, 3 * 4 * 5);
    assert_int_equal(call.tensor[ATTUNE_O].dtype, ATTUNE_FP16);
    assert_int_equal(call.tensor[ATTUNE_STATE_O].dtype, ATTUNE_FP32);
}

static void sizes(void **state)
{
    (void)state;
    REFUSED(paged, page_table_width, 2, "page_table_width is 2: 3 ... ");
    REFUSED(paged, page_count, 0, "page_count is 0: this plan takes 1 ... ");
    REFUSED(paged, page_count, INT64_C(1) << 31, "page_count is 2147483648");
    REFUSED(paged, total_new, 1, "total_new is 1: 0 is needed");
    REFUSED(plain_append, page_count, 1, "page_count is 1: 0 is needed");
    REFUSED(plain_append, total_new, 16, "total_new is 16: this plan takes 0 ... 15");
    REFUSED(append, total_new, 14, "total_new is 14: this plan takes 15 ... 15");
    REFUSED(merge, states, 0, "states is 0: this plan takes 1 ... 6");
    REFUSED(merge, states, 7, "states is 7: this plan takes 1 ... 6");
    REFUSED(append, state_stride_o, 8, "state_stride_o is 8");
    const attune_problem problem = parse(paged);
    attune_call call = whole(&problem);
    call.seqlen_kv = 0; /* nobody has a page */
    call.page_count = call.page_table_width = 0;
    accepted(&problem, &call);
}

static void tensors(void **state)
{
    (void)state;
    REFUSED(paged, tensor[ATTUNE_PAGE_TABLE_K].data, NULL, "PAGE_TABLE_K: its data is NULL");
    REFUSED(paged, tensor[ATTUNE_PAGE_TABLE_V].dtype, ATTUNE_FP32, "PAGE_TABLE_V: its dtype is fp32");
    REFUSED(paged, tensor[ATTUNE_PAGE_TABLE_K].stride[0], 2,
            "PAGE_TABLE_K: the batch stride is 2 elements: at least 3");
    REFUSED(paged, tensor[ATTUNE_USED_KV].data, NULL, "USED_KV: its data is NULL");
    REFUSED(paged, tensor[ATTUNE_DRAFT_MASK].data, NULL, "DRAFT_MASK: its data is NULL");
    REFUSED(paged, tensor[ATTUNE_K].stride[0], 56, "K: its elements overlap one another: the page stride");
    REFUSED(paged, tensor[ATTUNE_V].stride[0], 0, "V: its elements overlap one another: the page stride");
    REFUSED(mixed, tensor[ATTUNE_CU_KV].data, place(50), "CU_KV is given");
    REFUSED(mixed, tensor[ATTUNE_PAGE_TABLE_V].data, place(50), "PAGE_TABLE_V is given");
    REFUSED(append, tensor[ATTUNE_LSE].data, place(50), "LSE is given");
    REFUSED(append, tensor[ATTUNE_NEW_V].dtype, ATTUNE_FP16, "NEW_V: its dtype is fp16 (1): fp32 is needed");
    REFUSED(append, tensor[ATTUNE_SLOTS].data, place(50), "SLOTS is given");
    REFUSED(plain_append, tensor[ATTUNE_SLOTS].data, NULL, "SLOTS: its data is NULL");
    REFUSED(merge, tensor[ATTUNE_STATE_LSE].data, NULL, "STATE_LSE: its data is NULL");
    REFUSED(merge, state_stride_o, 7, "STATE_O: the state stride is 7 elements: at least 8");
    REFUSED(merge, state_stride_o, 10, "STATE_O: the state stride is 10 elements: a multiple of");
    REFUSED(merge, state_stride_lse, -1, "STATE_LSE: the state stride is -1");
}

/* A cache is written by append, and by nothing else. */
static void what_is_written_lies_apart(void **state)
{
    (void)state;
    REFUSED(append, tensor[ATTUNE_NEW_K].data, place(ATTUNE_K), "K overlaps NEW_K");
    REFUSED(append, tensor[ATTUNE_V].data, place(ATTUNE_K), "K overlaps V");
    REFUSED(append, tensor[ATTUNE_K].stride[0], 56, "K: its elements overlap one another: the page stride");
    REFUSED(merge, tensor[ATTUNE_O].data, (char *)place(ATTUNE_STATE_O) + 5 * 3 * 4 * 5 * 8 * 4, "O overlaps STATE_O");
    attune_problem problem = parse(merge);
    attune_call call = whole(&problem);
    call.tensor[ATTUNE_O].data = (char *)place(ATTUNE_STATE_O) + 6 * 3 * 4 * 5 * 8 * 4;
    accepted(&problem, &call);
    problem = parse(paged);
    call = whole(&problem);
    call.tensor[ATTUNE_V].data = call.tensor[ATTUNE_K].data;
    accepted(&problem, &call);
    /* K and V of a page side by side */
    problem = parse("append:b3,h2,sq5,skv10,d8,fp16,seqused,page=4");
    call = whole(&problem);
    call.tensor[ATTUNE_K].stride[0] = call.tensor[ATTUNE_V].stride[0] = 2 * 2 * 4 * 8;
    call.tensor[ATTUNE_V].data = (char *)call.tensor[ATTUNE_K].data + 2 * 2 * 4 * 8;
    accepted(&problem, &call);
}

static void args_have_it(void **state)
{
    (void)state;
    attune_args args;
    attune_problem problem = parse(paged);
    attune_call call = whole(&problem);
    call.page_count = 77;
    at_call_args(&problem, &call, &args);
    assert_int_equal(args.page_size, 4);
    assert_int_equal(args.page_table_width, 3);
    assert_int_equal(args.page_count, 77);
    assert_int_equal(args.features,
                     ATTUNE_FEATURE_SEQUSED | ATTUNE_FEATURE_PAGED | ATTUNE_FEATURE_PAGED_V | ATTUNE_FEATURE_DRAFT);
    assert_int_equal(args.tensor[ATTUNE_K].stride[0], 64);
    assert_int_equal(args.tensor[ATTUNE_PAGE_TABLE_V].stride[0], 3);
    problem = parse(plain_append);
    call = whole(&problem);
    call.total_new = 7;
    at_call_args(&problem, &call, &args);
    assert_int_equal(args.total_new, 7);
    assert_int_equal(args.total_q, 7); /* which terms know */
    assert_int_equal(args.features, ATTUNE_FEATURE_SLOTS);
    problem = parse(merge);
    call = whole(&problem);
    at_call_args(&problem, &call, &args);
    assert_int_equal(args.states, 6);
    assert_int_equal(args.state_stride_lse, 60);
}

/* Another pool, table or number of states is checked in full. */
static void changes_are_seen(void **state)
{
    (void)state;
    const attune_problem problem = parse(merge);
    const uint64_t roles = at_call_roles(&problem);
    const attune_call from = whole(&problem);
    attune_call to = from;
    at_spans spans;
    at_change change;
    assert_int_equal(at_call_check_spans(&problem, &from, &spans), ATTUNE_OK);
    to.tensor[ATTUNE_O].data = place(40);
    assert_true(at_call_change(&problem, roles, &from, &to, &spans, &change));
    to.state_stride_o = 2;
    assert_false(at_call_change(&problem, roles, &from, &to, &spans, &change));
    assert_false(at_call_is_same(&from, &to, roles));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begins_contiguous), cmocka_unit_test(sizes),
        cmocka_unit_test(tensors),           cmocka_unit_test(what_is_written_lies_apart),
        cmocka_unit_test(args_have_it),      cmocka_unit_test(changes_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
