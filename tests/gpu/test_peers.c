/* cuDNN on a real device: right by attune's own rules, in either order of choosing, run and captured. */
#include "base/cm.h"

#include "cuda/graph.h"
#include "library/workload.h"
#include "worker/contenders.h"

static attune_context *context;
static bool has_cudnn;

static int open_device(void **state)
{
    const attune_options options = {.size = sizeof options, .target = "cuda"};
    attune_problem problem;
    at_contender contender;
    (void)state;
    if (attune_context_create(&options, &context) != ATTUNE_OK) {
        print_error("%s\n", attune_last_detail());
        return -1;
    }
    assert_ok(attune_problem_parse("b1,h1,s64,d64,fp16", &problem));
    attune_status status = at_contenders_open(context, "cudnn", &problem, NULL, &contender);
    has_cudnn = status != ATTUNE_NOT_FOUND;
    print_message("%s\n", status == ATTUNE_OK ? contender.account : attune_last_detail());
    at_contender_close(&contender);
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    attune_context_destroy(context);
    return 0;
}

/* A contender on a workload, as the judge takes it. */
typedef struct runner {
    const at_workload *work;
    const at_contender *contender;
    void *stream;
    bool captured;
} runner;

static attune_status run_once(const runner *with)
{
    attune_call call = with->work->place.call;
    call.stream = with->stream;
    return with->contender->run(with->contender->self, &call);
}

static attune_status run_captured(const runner *with)
{
    at_device *device = with->work->place.device;
    at_cuda_graph *graph = NULL;
    assert_ok(at_cuda_capture_begin(device, with->stream));
    attune_status status = run_once(with);
    assert_ok(at_cuda_capture_end(device, with->stream, &graph));
    assert_ok(at_cuda_graph_launch(graph, with->stream));
    assert_ok(device->ops->synchronise(device, with->stream));
    at_cuda_graph_destroy(graph);
    return status;
}

static attune_status run(void *self)
{
    const runner *with = self;
    if (with->captured) {
        return run_captured(with);
    }
    attune_status status = run_once(with);
    return status != ATTUNE_OK ? status
                               : with->work->place.device->ops->synchronise(with->work->place.device, with->stream);
}

static void is_right(const char *name, const char *text)
{
    attune_problem problem;
    at_contender contender;
    at_workload work;
    size_t bytes = 0;
    int64_t ns;
    assert_ok(attune_problem_parse(text, &problem));
    attune_status status = at_contenders_open(context, name, &problem, NULL, &contender);
    if (!has_cudnn) {
        assert_int_equal(status, ATTUNE_NOT_FOUND);
        return;
    }
    assert_ok(status);
    assert_ok(at_workload_open(context, &problem, &work));
    assert_ok(contender.workspace(contender.self, &work.place.call, &bytes));
    assert_ok(at_workload_reserve(&work, bytes));
    runner with = {.work = &work, .contender = &contender};
    assert_ok(at_cuda_stream_create(work.place.device, &with.stream));
    at_arm arm = {.name = text, .self = &with, .run = run};
    assert_ok(at_workload_judge_arm(&work, &arm, contender.traits, &ns));
    with.captured = true;
    assert_ok(at_workload_judge_arm(&work, &arm, contender.traits, &ns));
    at_cuda_stream_destroy(work.place.device, with.stream);
    at_workload_close(&work);
    at_contender_close(&contender);
}

static void cudnn_is_right(void **state)
{
    static const char *const problems[] = {
        "b2,h3,s65,d64,fp16",
        "b2,h3,sq33,skv129,d128,bf16,causal",
        "b2,h3,sq100,skv77,d64,fp16,causal,offset=tl",
        "b1,h8,hkv2,s100,d40,dv56,fp16,causal",
        "b2,h2,s300,d256,fp16,causal",
        "b2,h4,s257,d96,bf16,causal,layout=bshd",
        "b3,h8,hkv2,sq1,skv1000,d128,bf16,causal",
        "b1,h2,s1,d8,fp16",
        "b1,h4,s700,d128,fp16,scale=0.3",
    };
    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; ++i) {
        is_right("cudnn", problems[i]);
        is_right("cudnn:fastest", problems[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cudnn_is_right)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
