/* The protocol: what is sent arrives as it was, and what is no message is refused with its reason. */
#include "base/cm.h"

#include <float.h>
#include <stdlib.h>

#include "base/status.h"
#include "wire/protocol.h"

/* ---- Lines ------------------------------------------------------------------------------------------------------ */

static attune_status read_request(const char *line)
{
    at_request request;
    attune_status status = at_request_parse(line, strlen(line), &request);
    at_request_free(&request);
    return status;
}

static attune_status read_answer(const char *line)
{
    json_t *ok;
    attune_status status = at_answer_parse(line, strlen(line), 7, &ok);
    assert_true((status == ATTUNE_OK) == (ok != NULL));
    json_decref(ok);
    return status;
}

static void requests_arrive(void **state)
{
    (void)state;
    char *line;
    size_t bytes;
    at_request request;
    int64_t arm;
    assert_ok(at_request_print(41, "run", json_pack("{s:i,s:s}", "arm", 3, "text", "a \"b\"\nc"), &line, &bytes));
    assert_int_equal(strlen(line), bytes);
    assert_ptr_equal(strchr(line, '\n'), line + bytes - 1); /* and nowhere else */
    assert_ok(at_request_parse(line, bytes - 1, &request));
    assert_int_equal(request.id, 41);
    assert_string_equal(request.op, "run");
    assert_ok(at_json_int(request.root, "request", "arm", 0, 9, &arm));
    assert_int_equal(arm, 3);
    assert_string_equal(json_string_value(json_object_get(request.root, "text")), "a \"b\"\nc");
    at_request_free(&request);
    free(line);
}

static void requests_without_fields(void **state)
{
    (void)state;
    char *line;
    size_t bytes;
    assert_ok(at_request_print(1, "quit", NULL, &line, &bytes));
    assert_string_equal(line, "{\"id\":1,\"op\":\"quit\"}\n");
    free(line);
}

static void no_requests(void **state)
{
    (void)state;
    assert_fails(read_request(""), ATTUNE_CORRUPT, "request");
    assert_fails(read_request("hello"), ATTUNE_CORRUPT, "request");
    assert_fails(read_request("[1]"), ATTUNE_CORRUPT, "an array");
    assert_fails(read_request("{\"op\":\"run\"}"), ATTUNE_CORRUPT, "\"id\"");
    assert_fails(read_request("{\"id\":-1,\"op\":\"run\"}"), ATTUNE_CORRUPT, "\"id\"");
    assert_fails(read_request("{\"id\":1}"), ATTUNE_CORRUPT, "\"op\"");
    assert_fails(read_request("{\"id\":1,\"op\":5}"), ATTUNE_CORRUPT, "\"op\"");
    assert_fails(read_request("{\"id\":1,\"op\":\"a\",\"op\":\"b\"}"), ATTUNE_CORRUPT, "duplicate");
}

static void too_long(void **state)
{
    (void)state;
    char *text = calloc(AT_LINE_MAX + 1, 1);
    char *line;
    size_t bytes;
    at_request request;
    memset(text, 'x', AT_LINE_MAX);
    assert_fails(at_request_print(1, "a", json_pack("{s:s}", "text", text), &line, &bytes), ATTUNE_INTERNAL, "1048576");
    assert_null(line);
    assert_fails(at_request_parse(text, AT_LINE_MAX + 1, &request), ATTUNE_CORRUPT, "1048577 bytes");
    free(text);
}

static void answers_arrive(void **state)
{
    (void)state;
    char *line;
    size_t bytes;
    json_t *ok;
    assert_ok(at_answer_print(7, ATTUNE_OK, json_pack("{s:i}", "arm", 12), &line, &bytes));
    assert_ok(at_answer_parse(line, bytes - 1, 7, &ok));
    assert_int_equal(json_integer_value(json_object_get(ok, "arm")), 12);
    json_decref(ok);
    assert_fails(at_answer_parse(line, bytes - 1, 8, &ok), ATTUNE_CORRUPT, "it is to request 7, 8 was asked");
    assert_null(ok);
    free(line);
}

static void every_failure_arrives(void **state)
{
    (void)state;
    for (int status = 1; status < ATTUNE_STATUS_COUNT; ++status) {
        char *line;
        size_t bytes;
        json_t *ok;
        (void)at_fail((attune_status)status, "number %d of \"15\"", status);
        assert_ok(at_answer_print(7, (attune_status)status, json_object(), &line, &bytes));
        (void)at_fail(ATTUNE_INTERNAL, "something else");
        assert_int_equal(at_answer_parse(line, bytes - 1, 7, &ok), status);
        assert_null(ok);
        assert_memory_equal(attune_last_detail(), "number ", 7);
        free(line);
    }
}

static void details_that_are_no_text(void **state)
{
    (void)state;
    char *line;
    size_t bytes;
    json_t *ok;
    (void)at_fail(ATTUNE_DEVICE_ERROR, "bytes \xff\xfe of a library");
    assert_ok(at_answer_print(7, ATTUNE_DEVICE_ERROR, NULL, &line, &bytes));
    assert_int_equal(at_answer_parse(line, bytes - 1, 7, &ok), ATTUNE_DEVICE_ERROR);
    free(line);
}

static void no_answers(void **state)
{
    (void)state;
    assert_fails(read_answer("x"), ATTUNE_CORRUPT, "answer");
    assert_fails(read_answer("{\"ok\":{}}"), ATTUNE_CORRUPT, "\"id\"");
    assert_fails(read_answer("{\"id\":7}"), ATTUNE_CORRUPT, "\"ok\"");
    assert_fails(read_answer("{\"id\":7,\"ok\":[]}"), ATTUNE_CORRUPT, "\"ok\"");
    assert_fails(read_answer("{\"id\":7,\"error\":\"no\"}"), ATTUNE_CORRUPT, "\"error\"");
    assert_fails(read_answer("{\"id\":7,\"error\":{\"status\":\"odd\",\"detail\":\"\"}}"), ATTUNE_CORRUPT, "odd");
    assert_fails(read_answer("{\"id\":7,\"error\":{\"status\":\"ok\"}}"), ATTUNE_CORRUPT, "detail");
}

static void an_error_that_is_none(void **state)
{
    (void)state;
    char line[200];
    (void)snprintf(line, sizeof line, "{\"id\":7,\"error\":{\"status\":\"%s\",\"detail\":\"\"}}",
                   attune_status_string(ATTUNE_OK));
    assert_fails(read_answer(line), ATTUNE_CORRUPT, "an error without one");
}

/* ---- What travels ----------------------------------------------------------------------------------------------- */

static void targets_travel(void **state)
{
    (void)state;
    const attune_target cuda = {.size = sizeof cuda,
                                .kind = ATTUNE_TARGET_CUDA,
                                .model = "NVIDIA_H200",
                                .device = 1,
                                .arch = 90,
                                .arch_features = 1,
                                .sm_count = 132,
                                .smem_block_bytes = 49152,
                                .smem_optin_bytes = 232448,
                                .smem_sm_bytes = 233472,
                                .regs_sm = 65536,
                                .threads_sm = 2048,
                                .memory_l2_bytes = INT64_C(62914560),
                                .driver = 13000,
                                .compiler = 13010};
    const attune_target cpu = {.size = sizeof cpu,
                               .model = "A_CPU",
                               .isa = ATTUNE_ISA_AVX2,
                               .threads = 16,
                               .l1d_bytes = 49152,
                               .l3_bytes = INT64_C(3) << 40};
    const attune_target *const all[] = {&cuda, &cpu};
    for (int i = 0; i < 2; ++i) {
        attune_target back;
        json_t *object = at_wire_from_target(all[i]);
        assert_ok(at_wire_target(object, &back));
        assert_memory_equal(&back, all[i], sizeof back);
        assert_int_equal(json_object_set_new(object, "threads", json_integer(-1)), 0);
        assert_fails(at_wire_target(object, &back), ATTUNE_CORRUPT, "threads");
        assert_int_equal(json_object_del(object, "threads"), 0);
        assert_fails(at_wire_target(object, &back), ATTUNE_CORRUPT, "threads");
        json_decref(object);
    }
}

static void long_models_are_refused(void **state)
{
    (void)state;
    char model[80];
    attune_target target = {.size = sizeof target, .model = "A_CPU"}, back;
    json_t *object = at_wire_from_target(&target);
    memset(model, 'm', sizeof model);
    model[64] = '\0';
    assert_int_equal(json_object_set_new(object, "model", json_string(model)), 0);
    assert_fails(at_wire_target(object, &back), ATTUNE_CORRUPT, "64 characters, 63 fit");
    json_decref(object);
}

static void terms_travel(void **state)
{
    (void)state;
    attune_term back;
    const attune_term term =
        attune_term_mul(attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_SEQLEN_Q), attune_term_const(64)),
                        attune_term_const(INT64_C(1) << 40));
    json_t *array = at_wire_from_term(&term);
    assert_ok(at_wire_term(array, &back));
    assert_memory_equal(&back, &term, sizeof term);
    json_decref(array);
    array = json_pack("[[i,i],[i,i]]", ATTUNE_TERM_CONST, 1, ATTUNE_TERM_ADD, 0);
    assert_int_equal(at_wire_term(array, &back), ATTUNE_INVALID_ARGUMENT); /* nothing to add to */
    json_decref(array);
    array = json_pack("[[i,i]]", 99, 0);
    assert_fails(at_wire_term(array, &back), ATTUNE_CORRUPT, "no term op 99");
    json_decref(array);
    array = json_array();
    assert_fails(at_wire_term(array, &back), ATTUNE_CORRUPT, "1 to 16 pairs");
    json_decref(array);
    assert_fails(at_wire_term(NULL, &back), ATTUNE_CORRUPT, "pairs");
}

static void calls_travel(void **state)
{
    (void)state;
    attune_problem problem;
    attune_call call, back;
    assert_ok(attune_problem_parse("b3,h6,hkv2,sq33,skv90,d64,bf16,causal,alibi,seqused", &problem));
    assert_ok(attune_call_init(&call, &problem));
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        call.tensor[role].data = role % 3 == 2 ? NULL : (void *)(uintptr_t)(0x7f0000001000 + role * 256);
    }
    call.workspace = (void *)(uintptr_t)0x7fffffffff00;
    call.workspace_bytes = (size_t)5 << 30;
    call.offset = -17;
    json_t *object = at_wire_from_call(&call);
    assert_ok(at_wire_call(object, &back));
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        if (call.tensor[role].data == NULL) { /* what is not there has no strides */
            call.tensor[role] = (attune_tensor){.data = NULL};
        }
    }
    assert_memory_equal(&back, &call, sizeof call);
    json_decref(object);
}

static void bad_calls(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"{}", "sizes"},
        {"{\"sizes\":[1,2,3]}", "8 integers"},
        {"{\"sizes\":[1,1,1,1,1,1,1,0.5],\"tensors\":{}}", "sizes[7] is a decimal number"},
        {"{\"sizes\":[1,1,1,1,1,1,1,0],\"workspace\":-1}", "workspace"},
        {"{\"sizes\":[1,1,1,1,1,1,1,0],\"workspace\":0,\"workspace_bytes\":0,\"stream\":0}", "tensors"},
        {"{\"sizes\":[1,1,1,1,1,1,1,0],\"workspace\":0,\"workspace_bytes\":0,\"stream\":0,\"tensors\":{\"K\":[1]}}",
         "K must be 5 integers"},
        {"{\"sizes\":[1,1,1,1,1,1,1,0],\"workspace\":0,\"workspace_bytes\":0,\"stream\":0,\"tensors\":{\"O\":[-4,0,0,"
         "0,1]}}",
         "O has address -4"},
        {"{\"sizes\":[1,1,1,1,1,1,1,0],\"workspace\":0,\"workspace_bytes\":0,\"stream\":0,\"tensors\":{\"O\":[4,0,0,0,"
         "9]}}",
         "dtype 9"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        attune_call call;
        json_t *object = json_loads(bad[i].text, 0, NULL);
        assert_non_null(object);
        assert_fails(at_wire_call(object, &call), ATTUNE_CORRUPT, bad[i].words);
        json_decref(object);
    }
}

static void problems_travel(void **state)
{
    (void)state;
    attune_problem problem, back;
    assert_ok(attune_problem_parse("b2,h4,s128,d64,fp16,causal,scale=0.125,varlen=9", &problem));
    json_t *object = json_pack("{s:o}", "problem", at_wire_from_problem(&problem));
    assert_ok(at_wire_problem(object, "problem", &back));
    assert_int_equal(attune_problem_hash(&problem), attune_problem_hash(&back));
    assert_fails(at_wire_problem(object, "other", &back), ATTUNE_CORRUPT, "other");
    json_decref(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_arrive),
        cmocka_unit_test(requests_without_fields),
        cmocka_unit_test(no_requests),
        cmocka_unit_test(too_long),
        cmocka_unit_test(answers_arrive),
        cmocka_unit_test(every_failure_arrives),
        cmocka_unit_test(details_that_are_no_text),
        cmocka_unit_test(no_answers),
        cmocka_unit_test(an_error_that_is_none),
        cmocka_unit_test(targets_travel),
        cmocka_unit_test(long_models_are_refused),
        cmocka_unit_test(terms_travel),
        cmocka_unit_test(calls_travel),
        cmocka_unit_test(bad_calls),
        cmocka_unit_test(problems_travel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
