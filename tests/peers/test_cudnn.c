/* cuDNN as a peer, against a cuDNN and a driver that only remember; and the graph, against cuDNN itself where it is
 * installed: taking a graph needs no device. */
#include "base/cm.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>

#include "core/call.h"
#include "cuda/cuda.h"
#include "cuda/fake_driver.h"
#include "peers/cudnn.h"
#include "peers/cudnn_plan.h"
#include "peers/fake_cudnn.h"

static fake_cudnn *fake;
static fake_cudnn untouched;
static fake_record *driver;
static at_device *device;

static void *find_record(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return library == NULL ? NULL : dlsym(library, "fake");
}

static int open_all(void **state)
{
    (void)state;
    fake = find_record(ATTUNE_FAKE_CUDNN);
    driver = find_record(ATTUNE_FAKE_DRIVER);
    if (fake == NULL || driver == NULL || setenv("ATTUNE_LIBCUDA", ATTUNE_FAKE_DRIVER, 1) != 0) {
        return -1;
    }
    untouched = *fake;
    return at_cuda_open(0, "", NULL, &device) == ATTUNE_OK ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    device->ops->close(device);
    return 0;
}

static int forget(void **state)
{
    (void)state;
    *fake = untouched;
    driver->elapsed_ms = 1.0F;
    return setenv("ATTUNE_CUDNN", ATTUNE_FAKE_CUDNN, 1);
}

/* Every descriptor, handle, buffer and stream that was made is gone. */
static void nothing_is_left(void)
{
    assert_int_equal(fake->descriptors, 0);
    assert_int_equal(fake->handles, 0);
    assert_int_equal(driver->allocations, 0);
    assert_int_equal(driver->handles, 0);
}

static attune_status contend(const char *text, bool fastest, attune_arm *arm)
{
    attune_problem problem;
    assert_ok(attune_problem_parse(text, &problem));
    return at_cudnn_arm(device, &problem, fastest, arm);
}

/* ---- The library ------------------------------------------------------------------------------------------------ */

static void absence_has_a_reason(void **state)
{
    attune_arm arm;
    (void)state;
    assert_int_equal(setenv("ATTUNE_CUDNN", "/no/such/libcudnn.so.9", 1), 0);
    assert_fails(contend("b1,h2,s64,d64,fp16", false, &arm), ATTUNE_NOT_FOUND, "/no/such/libcudnn.so.9");
    assert_int_equal(setenv("ATTUNE_CUDNN", "libm.so.6", 1), 0);
    assert_fails(contend("b1,h2,s64,d64,fp16", false, &arm), ATTUNE_NOT_FOUND, "cuDNN has no cudnn");
    assert_int_equal(setenv("ATTUNE_CUDNN", ATTUNE_FAKE_CUDNN, 1), 0);
    fake->version = 90001;
    assert_fails(contend("b1,h2,s64,d64,fp16", false, &arm), ATTUNE_NOT_FOUND,
                 "cuDNN 9.0.1 is too old: 9.1 or later is needed");
    fake->version = 91900;
    fake->start = 1001;
    assert_fails(contend("b1,h2,s64,d64,fp16", false, &arm), ATTUNE_DEVICE_ERROR, "cuDNN 9.19.0, starting");
    nothing_is_left();
}

/* ---- What it is asked ------------------------------------------------------------------------------------------- */

static void has_form(const char *text, const char *form)
{
    attune_arm arm;
    assert_ok(contend(text, false, &arm));
    assert_string_equal(fake->form, form);
    at_arm_close(&arm);
    nothing_is_left();
}

static void graphs_have_the_form_that_engines_know(void **state)
{
    (void)state;
#define SOFTMAX "max sub exp sum log add div matmul"
    has_form("b1,h2,s64,d64,fp16", "matmul mul " SOFTMAX);
    has_form("b1,h2,s64,d64,bf16,causal,offset=tl", "matmul mul row column ge select " SOFTMAX);
    has_form("b1,h2,sq32,skv64,d64,fp16,causal", "matmul mul row column add sub ge select " SOFTMAX);
    has_form("b1,h2,s64,d64,fp16,causal", "matmul mul row column ge select " SOFTMAX); /* the same mask, in fewer */
    has_form("b1,h2,sq1,skv64,d64,fp16,causal", "matmul mul " SOFTMAX);                /* the last row sees every key */
    has_form("b1,h2,sq1,skv64,d64,fp16,causal,offset=tl", "matmul mul row column ge select " SOFTMAX);
#undef SOFTMAX
}

static void refusals_name_the_field(void **state)
{
    static const struct {
        const char *problem, *words;
    } refused[] = {
        {"b1,h2,s64,d64,fp32", "dtype fp32"},
        {"b1,h2,s64,d60,fp16", "head_dim_qk 60"},
        {"b1,h2,s64,d64,dv36,fp16", "head_dim_v 36"},
        {"b1,h2,s64,d64,fp16,align=8", "align 8"},
        {"b1,h2,s64,d64,fp16,window=8:0", "window 8:0"},
        {"b1,h2,s64,d64,fp16,causal,offset=3", "offset 3"},
        {"b1,h2,sq65,skv64,d64,fp16,causal", "seqlen_q 65"},
        {"b1,h2,sq64,skv0,d64,fp16", "seqlen_kv 0"},
        {"b1,h2,s64,d64,fp16,softcap=30", "softcap"},
        {"b1,h2,s64,d64,fp16,bias=1x1", "bias"},
        {"b1,h2,s64,d64,fp16,strict", "strict"},
        {"b1,h2,s64,d64,fp16,varlen=3,layout=bshd", "varlen"},
    };
    attune_arm arm;
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; ++i) {
        assert_fails(contend(refused[i].problem, false, &arm), ATTUNE_UNSUPPORTED, refused[i].words);
        assert_null(arm.run);
    }
    assert_int_equal(fake->questions, 0);
}

static void cudnns_words_reach_the_detail(void **state)
{
    static const struct {
        int kind;
        const char *words;
    } steps[] = {
        {AT_CUDNN_TENSOR, "cuDNN 9.19.0, tensor "},
        {AT_CUDNN_POINTWISE, "cuDNN 9.19.0, the scale"},
        {AT_CUDNN_OPERATION_MATMUL, "cuDNN 9.19.0, a matrix product"},
        {AT_CUDNN_REDUCTION, "the softmax's maximum"},
        {AT_CUDNN_OPERATIONGRAPH, "the graph of attention: CUDNN_STATUS_NOT_SUPPORTED: this graph is not for me"},
        {AT_CUDNN_ENGINEHEUR, "asking the heuristics"},
        {AT_CUDNN_EXECUTION_PLAN, "compiling an engine"},
    };
    attune_arm arm;
    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; ++i) {
        fake->refuses = steps[i].kind;
        assert_fails(contend("b1,h2,s64,d64,fp16", false, &arm), ATTUNE_UNSUPPORTED,
                     steps[i].kind == AT_CUDNN_TENSOR ? "tensor" : steps[i].words);
        nothing_is_left();
    }
}

/* ---- Choosing --------------------------------------------------------------------------------------------------- */

static void the_first_choice_that_compiles(void **state)
{
    attune_arm arm;
    (void)state;
    fake->choices[0] = 3;
    memcpy(fake->engine[0], (int64_t[]){7, 5, 6}, 3 * sizeof(int64_t));
    fake->broken = 1 << 7;
    assert_ok(contend("b1,h2,s64,d64,fp16", false, &arm));
    assert_string_equal(arm.name, "cudnn");
    assert_string_equal(arm.account, "cuDNN 9.19.0, engine 5, the first of 3 choices, 256 bytes of workspace");
    assert_int_equal(fake->questions, 1); /* no fallback */
    at_arm_close(&arm);
    fake->broken = 1 << 5 | 1 << 6 | 1 << 7;
    assert_fails(contend("b1,h2,s64,d64,fp16", false, &arm), ATTUNE_UNSUPPORTED, "the engine is broken");
    fake->choices[0] = 0;
    assert_fails(contend("b1,h2,s64,d64,fp16", false, &arm), ATTUNE_UNSUPPORTED, "offer no engine");
    nothing_is_left();
}

/* Engine 5 takes 5 ms, and so on; but 3 is faster than 1 and 2. */
static void take_time(int64_t engine)
{
    driver->elapsed_ms = engine == 3 ? 0.5F : (float)engine;
}

static void the_fastest_of_all_choices(void **state)
{
    attune_arm arm;
    (void)state;
    fake->running = take_time;
    fake->choices[0] = 2;
    memcpy(fake->engine[0], (int64_t[]){4, 1}, 2 * sizeof(int64_t));
    fake->choices[1] = 4;
    memcpy(fake->engine[1], (int64_t[]){9, 60, 3, 2}, 4 * sizeof(int64_t)); /* 60 ms is far behind: looked at once */
    fake->broken = 1 << 9;
    assert_ok(contend("b1,h2,s64,d64,fp16,causal", true, &arm));
    assert_string_equal(arm.name, "cudnn:fastest");
    assert_non_null(strstr(arm.account, "engine 3, the fastest of 12 choices")); /* of two graphs */
    at_arm_close(&arm);
    nothing_is_left();
    assert_ok(contend("b1,h2,sq32,skv64,d64,fp16,causal", true, &arm));
    assert_non_null(strstr(arm.account, "engine 3, the fastest of 6 choices"));
    at_arm_close(&arm);
    nothing_is_left();
    fake->execute = 5000; /* a run that fails may have broken the device: the race is over */
    assert_fails(contend("b1,h2,s64,d64,fp16,causal", true, &arm), ATTUNE_DEVICE_ERROR, "the run failed");
    nothing_is_left();
    fake->execute = 0;
    fake->broken = ~UINT64_C(0);
    assert_fails(contend("b1,h2,s64,d64,fp16,causal", true, &arm), ATTUNE_UNSUPPORTED, "the engine is broken");
    nothing_is_left();
}

/* ---- Running ---------------------------------------------------------------------------------------------------- */

enum { ELEMENTS = 2 * 4 * 64 * 64 };

static _Alignas(256) uint16_t memory[4][ELEMENTS];
static _Alignas(256) float lse[2 * 4 * 64];
static _Alignas(256) char scratch[256];

static void make_call(const char *text, attune_problem *problem, attune_call *call)
{
    assert_ok(attune_problem_parse(text, problem));
    assert_ok(attune_call_init(call, problem));
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        call->tensor[role].data = memory[role];
    }
    call->workspace = scratch;
    call->workspace_bytes = sizeof scratch;
}

static void runs_pass_tensors_and_scalars(void **state)
{
    attune_problem problem;
    attune_call call;
    attune_arm arm;
    (void)state;
    make_call("b2,h4,hkv2,sq32,skv64,d64,bf16,causal,scale=0.25", &problem, &call);
    call.stream = scratch;
    assert_ok(at_cudnn_arm(device, &problem, false, &arm));
    assert_ok(arm.run(arm.self, &call));
    assert_int_equal(fake->runs, 1);
    assert_int_equal(fake->ran, 2);
    assert_ptr_equal(fake->stream, scratch);
    assert_ptr_equal(fake->given_workspace, scratch);
    assert_int_equal(fake->count, 8);
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        assert_int_equal(fake->id[role], AT_CUDNN_ID_ROLES + role);
        assert_ptr_equal(fake->data[role], memory[role]);
    }
    assert_true(fake->scale == 0.25F);
    assert_true(isinf(fake->hidden) && fake->hidden < 0);
    assert_int_equal(fake->seqlen_q, 32);
    assert_int_equal(fake->seqlen_kv, 64);
    call.tensor[ATTUNE_LSE].data = lse;
    assert_ok(arm.run(arm.self, &call));
    assert_int_equal(fake->count, 9);
    assert_int_equal(fake->id[ATTUNE_LSE], AT_CUDNN_ID_ROLES + ATTUNE_LSE);
    assert_ptr_equal(fake->data[ATTUNE_LSE], lse);
    at_arm_close(&arm);
    nothing_is_left();
}

static void a_shape_is_planned_once(void **state)
{
    attune_problem problem;
    attune_call call;
    attune_arm arm;
    size_t bytes = 0;
    (void)state;
    make_call("b2,h4,s64,d64,fp16,causal", &problem, &call);
    assert_ok(at_cudnn_arm(device, &problem, false, &arm));
    assert_int_equal(fake->plans, 1);
    assert_ok(arm.workspace(arm.self, &call, &bytes));
    assert_int_equal(bytes, 256);
    assert_ok(arm.run(arm.self, &call));
    assert_ok(arm.run(arm.self, &call));
    assert_int_equal(fake->plans, 1);
    call.batch = 1;
    assert_ok(arm.run(arm.self, &call));
    assert_int_equal(fake->plans, 2);
    call.batch = 2;
    assert_ok(arm.run(arm.self, &call));
    assert_int_equal(fake->plans, 2);
    at_arm_close(&arm);
    nothing_is_left();
}

static void calls_are_checked(void **state)
{
    attune_problem problem;
    attune_call call;
    attune_arm arm;
    size_t bytes = 1;
    (void)state;
    make_call("b2,h4,s64,d64,fp16,causal", &problem, &call);
    assert_ok(at_cudnn_arm(device, &problem, false, &arm));
    call.seqlen_kv = 32;
    assert_fails(arm.run(arm.self, &call), ATTUNE_UNSUPPORTED, "seqlen_q 64");
    call.seqlen_kv = 65;
    assert_fails(arm.workspace(arm.self, &call, &bytes), ATTUNE_INVALID_ARGUMENT, "seqlen_kv");
    call.seqlen_kv = 64;
    call.workspace_bytes = 255;
    assert_fails(arm.run(arm.self, &call), ATTUNE_WORKSPACE_TOO_SMALL, "workspace_bytes 255");
    call.workspace_bytes = 256;
    call.tensor[ATTUNE_V].data = NULL;
    assert_fails(arm.run(arm.self, &call), ATTUNE_INVALID_ARGUMENT, "V");
    call.tensor[ATTUNE_V].data = memory[ATTUNE_V];
    call.seqlen_q = 0;
    assert_ok(arm.workspace(arm.self, &call, &bytes));
    assert_int_equal(bytes, 0);
    assert_ok(arm.run(arm.self, &call));
    assert_int_equal(fake->runs, 0);
    at_arm_close(&arm);
    nothing_is_left();
}

/* ---- cuDNN itself ----------------------------------------------------------------------------------------------- */

static void cudnn_takes_the_graphs(void **state)
{
    at_cudnn *cudnn = NULL;
    (void)state;
    assert_int_equal(unsetenv("ATTUNE_CUDNN"), 0);
    if (at_cudnn_open(&cudnn) != ATTUNE_OK) {
        print_message("%s\n", attune_last_detail());
        assert_null(cudnn);
        return;
    }
    print_message("cuDNN %s is here\n", cudnn->version_text);
    for (int64_t mask = AT_CUDNN_MASK_NONE; mask <= AT_CUDNN_MASK_BOTTOM_RIGHT; ++mask) {
        for (int64_t wanted = 0; wanted < 2; ++wanted) {
            at_cudnn_graph graph;
            at_cudnn_shape shape = {
                .dtype = wanted ? ATTUNE_BF16 : ATTUNE_FP16,
                .batch = 2,
                .heads_q = 8,
                .heads_kv = 2,
                .seqlen_q = 100,
                .seqlen_kv = 300,
                .head_dim_qk = 64,
                .head_dim_v = 128,
                .mask = mask,
                .lse = wanted,
                .stride =
                    {{51200, 6400, 64}, {38400, 19200, 64}, {76800, 38400, 128}, {102400, 12800, 128}, {800, 100, 1}},
            };
            assert_ok(at_cudnn_graph_build(cudnn, &shape, &graph));
            at_cudnn_graph_free(&graph);
        }
    }
    at_cudnn_close(cudnn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(absence_has_a_reason, forget),
        cmocka_unit_test_setup(graphs_have_the_form_that_engines_know, forget),
        cmocka_unit_test_setup(refusals_name_the_field, forget),
        cmocka_unit_test_setup(cudnns_words_reach_the_detail, forget),
        cmocka_unit_test_setup(the_first_choice_that_compiles, forget),
        cmocka_unit_test_setup(the_fastest_of_all_choices, forget),
        cmocka_unit_test_setup(runs_pass_tensors_and_scalars, forget),
        cmocka_unit_test_setup(a_shape_is_planned_once, forget),
        cmocka_unit_test_setup(calls_are_checked, forget),
        cmocka_unit_test_setup(cudnn_takes_the_graphs, forget),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
