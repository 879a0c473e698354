/* The worker in Python: what it says where PyTorch is not installed, and what its arms compute where it is. The Python
 * is python3, or what ATTUNE_PYTHON names. */
#include "base/cm.h"

#include <stdio.h>
#include <stdlib.h>

#include "judge/sanity.h"
#include "worker/remote.h"

static at_device *device;
static at_pool *pool;
static bool has_torch;

static const char *python(void)
{
    const char *named = getenv("ATTUNE_PYTHON");
    return named != NULL && named[0] != '\0' ? named : "python3";
}

static int open_all(void **state)
{
    char command[512];
    const char *const words[] = {python(), "-m", "attune.worker", NULL};
    const at_remote_options options = {.command = words, .target = "cpu", .threads = 2};
    (void)state;
    (void)setenv("PYTHONPATH", ATTUNE_SOURCE_DIR "/python", 1);
    (void)setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    (void)setenv("ATTUNE_LIBRARY", ATTUNE_SHARED_LIBRARY, 1);
    (void)snprintf(command, sizeof command, "%s -c 'import torch' 2>/dev/null", python());
    has_torch = system(command) == 0;
    print_message("PyTorch is %s\n", has_torch ? "here" : "not here");
    return at_remote_open(&options, &device) == ATTUNE_OK && at_pool_create(2, 0, &pool) == ATTUNE_OK ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    if (device != NULL) {
        device->ops->close(device);
    }
    at_pool_destroy(pool);
    return 0;
}

static attune_status plan_arm(void *self, const attune_problem *problem, attune_plan **plan)
{
    return at_remote_plan(device, problem, self, plan);
}

/* Opens the arm and judges its O. */
static attune_status judge(const char *arm, const char *text)
{
    at_test_problem problem;
    at_finding finding;
    char name[512];
    (void)snprintf(name, sizeof name, "%s", arm);
    const at_suite suite = {.device = device, .pool = pool, .plan = plan_arm, .self = name, .seed = 5, .command = ""};
    assert_ok(at_test_problem_parse(text, &problem));
    return at_sanity_judge(&suite, &problem, &finding);
}

/* What comes of it with PyTorch; without, the arm cannot run, and says why. */
#define comes(arm, text, status, words)                                                                                \
    assert_fails(judge((arm), (text)), has_torch ? (status) : ATTUNE_UNSUPPORTED,                                      \
                 has_torch ? (words) : "there is no PyTorch here")

static void is_right(const char *arm, const char *text)
{
    if (has_torch) {
        assert_ok(judge(arm, text));
    } else {
        assert_fails(judge(arm, text), ATTUNE_UNSUPPORTED, "there is no PyTorch here");
    }
}

#define FILE_ARM(function) "py:" ATTUNE_SOURCE_DIR "/tests/worker/python_arms.py:" function

static void kernels_run_there_too(void **state)
{
    (void)state;
    assert_ok(judge("cpu_tiled", "b1,h2,s40,d32,fp32,causal"));
    assert_fails(judge("cpu_tild", "b1,h2,s40,d32,fp32"), ATTUNE_NOT_FOUND, "did you mean cpu_tiled?");
}

static void pytorch_on_a_cpu(void **state)
{
    (void)state;
    is_right("torch:cpu", "b2,h4,s70,d64,fp32");
    is_right("torch:cpu", "b2,h4,hkv2,s70,d64,bf16,causal");
    is_right("torch:cpu", "b1,h2,sq30,skv70,d32,fp32,causal");
    is_right("torch:cpu", "b1,h2,sq30,skv70,d32,fp32,causal,offset=tl");
    is_right("torch:cpu", "b1,h2,sq1,skv70,d32,fp32,causal,scale=0.3");
    is_right("torch:cpu", "b1,h2,s33,d24,dv40,fp32,layout=bshd");
}

static void refusals_name_the_field(void **state)
{
    (void)state;
    comes("torch:flash", "b1,h2,s40,d32,fp32", ATTUNE_UNSUPPORTED, "torch:flash runs on CUDA devices only");
    comes("torch:fast", "b1,h2,s40,d32,fp32", ATTUNE_UNSUPPORTED, "there is no back end fast");
    comes("torch:cpu", "b1,h2,s40,d32,fp32,softcap=3", ATTUNE_UNSUPPORTED, "softcap");
    comes("torch:cpu", "b1,h2,s40,d32,fp32,window=3:0", ATTUNE_UNSUPPORTED, "window 3:0");
    comes("torch:cpu", "b1,h2,sq9,skv4,d32,fp32,causal", ATTUNE_UNSUPPORTED, "seqlen_q 9");
    comes("torch:cpu", "b1,h2,s9,d32,fp32,causal,offset=2", ATTUNE_UNSUPPORTED, "offset 2");
}

static void any_callable(void **state)
{
    (void)state;
    is_right(FILE_ARM("plain"), "b2,h4,hkv2,sq30,skv70,d32,fp16,causal");
    comes(FILE_ARM("sharper"), "b1,h2,s128,d32,fp32", ATTUNE_WRONG_RESULT, "rule");
    comes(FILE_ARM("narrow"), "b1,h2,s40,d32,fp32", ATTUNE_UNSUPPORTED, "with contiguous rows is needed");
    comes(FILE_ARM("broken"), "b1,h2,s40,d32,fp32", ATTUNE_UNSUPPORTED, "ValueError: out of sorts");
    comes(FILE_ARM("leaves"), "b1,h2,s40,d32,fp32", ATTUNE_UNSUPPORTED, "SystemExit");
    comes(FILE_ARM("missing"), "b1,h2,s40,d32,fp32", ATTUNE_UNSUPPORTED, "missing");
    comes(FILE_ARM("plain"), "b1,h2,sq30,skv70,d32,fp32,causal,offset=tl", ATTUNE_UNSUPPORTED, "no parameter `offset`");
    comes("py:/nowhere.py:plain", "b1,h2,s40,d32,fp32", ATTUNE_UNSUPPORTED, "/nowhere.py");
    comes("py:plain", "b1,h2,s40,d32,fp32", ATTUNE_UNSUPPORTED, "py:FILE:FUNCTION");
}

/* What a problem has comes by its name. */
static void callables_for_serving(void **state)
{
    (void)state;
    is_right(FILE_ARM("serving"), "b3,h4,hkv2,sq2,skv50,d32,fp32,causal,seqused,page=16");
    is_right(FILE_ARM("serving"), "b2,h4,hkv1,sq1,skv40,d32,dv24,fp16,seqused,page=8,vtable,softcap=5,window=9:0");
    is_right(FILE_ARM("packed"), "b3,h2,sq9,skv17,d16,fp32,causal,varlen,alibi");
    is_right(FILE_ARM("planned"), "b2,h2,sq1,skv40,d16,bf16,seqused,page=4");
    comes(FILE_ARM("serving"), "b1,h2,sq2,skv40,d16,fp32,seqused,page=4,draft", ATTUNE_UNSUPPORTED,
          "draft: serving has no parameter `draft`");
    comes(FILE_ARM("plain"), "b1,h2,sq2,skv40,d16,fp32,page=4", ATTUNE_UNSUPPORTED,
          "page_table: plain has no parameter `page_table`");
    comes(FILE_ARM("plain"), "b1,h2,s40,d16,fp32,softcap=3", ATTUNE_UNSUPPORTED, "softcap: plain has no parameter");
    comes("torch:cpu", "b1,h2,sq2,skv40,d16,fp32,page=4", ATTUNE_UNSUPPORTED, "page_size: this arm has no place");
    comes(FILE_ARM("plain"), "append:b1,h2,sq2,skv40,d16,fp32,slots", ATTUNE_UNSUPPORTED,
          "an operation other than fwd");
}

/* Versions, and that two back ends agree with fp64 and each other; a file's digest. */
static void accounts(void **state)
{
    attune_problem problem;
    attune_plan *plan;
    (void)state;
    assert_ok(attune_problem_parse("b1,h2,s40,d32,fp32", &problem));
    if (!has_torch) {
        assert_fails(at_remote_plan(device, &problem, "torch:cpu", &plan), ATTUNE_UNSUPPORTED, "no PyTorch");
        return;
    }
    assert_ok(at_remote_plan(device, &problem, "torch:cpu", &plan));
    assert_non_null(strstr(at_remote_account(plan), "torch "));
    assert_non_null(strstr(at_remote_account(plan), "math"));
    assert_non_null(strstr(at_remote_account(plan), "apart"));
    attune_plan_destroy(plan);
    assert_ok(at_remote_plan(device, &problem, FILE_ARM("plain"), &plan));
    assert_non_null(strstr(at_remote_account(plan), "python_arms.py sha256:"));
    attune_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_run_there_too),   cmocka_unit_test(pytorch_on_a_cpu),
        cmocka_unit_test(refusals_name_the_field), cmocka_unit_test(any_callable),
        cmocka_unit_test(callables_for_serving),   cmocka_unit_test(accounts),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
