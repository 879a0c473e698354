#include "base/cm.h"

#include "base/random.h"
#include "core/config.h"
#include "core/problem.h"
#include "core/recipe.h"
#include "cuda/cuda.h"
#include "library/catalogue.h"

static void every_row_keeps_the_contract(void **state)
{
    (void)state;
    assert_non_null(at_catalogue[0]);
    for (const attune_kernel *const *at = at_catalogue; *at != NULL; ++at) {
        assert_ok(at_kernel_check(*at));
    }
}

static void names_are_unique(void **state)
{
    (void)state;
    for (const attune_kernel *const *a = at_catalogue; *a != NULL; ++a) {
        for (const attune_kernel *const *b = at_catalogue; b != a; ++b) {
            assert_string_not_equal((*a)->name, (*b)->name);
        }
        assert_ptr_equal(at_catalogue_find((*a)->name), *a);
    }
    assert_null(at_catalogue_find("no_such_kernel"));
    assert_null(at_catalogue_find(""));
}

/* Each target has one kernel that supports everything. */
static void each_target_has_one_general_kernel(void **state)
{
    (void)state;
    for (int kind = ATTUNE_TARGET_CPU; kind <= ATTUNE_TARGET_CUDA; ++kind) {
        int general = 0;
        for (const attune_kernel *const *at = at_catalogue; *at != NULL; ++at) {
            general += (int)(*at)->target == kind && ((*at)->traits & ATTUNE_TRAIT_GENERAL) != 0;
        }
        assert_int_equal(general, 1);
    }
}

/* With tf32, a permission, whoever takes the problem without it does so, and has the same arguments. */
static void a_permission_changes_no_support(void **state)
{
    static const char *const texts[] = {"b1,h8,s512,d64,fp32", "b2,h4,s100,d80,fp32,causal,sink,strict"};
    (void)state;
    for (const attune_kernel *const *at = at_catalogue; *at != NULL; ++at) {
        attune_target target = {
            .size = sizeof target, .kind = ATTUNE_TARGET_CPU, .model = "any", .isa = ATTUNE_ISA_AMX, .threads = 2};
        assert_true((*at)->target == ATTUNE_TARGET_CPU || at_cuda_typical(90, &target) == ATTUNE_OK);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
            attune_problem without, with;
            assert_ok(attune_problem_parse(texts[i], &without));
            with = without;
            with.tf32 = 1;
            assert_int_equal(at_kernel_supports(*at, &with, &target, NULL),
                             at_kernel_supports(*at, &without, &target, NULL));
            assert_int_equal(at_args_roles(*at, &with), at_args_roles(*at, &without));
        }
    }
}

/* ---- What kernels can ------------------------------------------------------------------------------------------- */

static attune_target target_for(const attune_kernel *kernel)
{
    attune_target target = {
        .size = sizeof target, .kind = ATTUNE_TARGET_CPU, .model = "any", .isa = ATTUNE_ISA_AMX, .threads = 2};
    if (kernel->target == ATTUNE_TARGET_CUDA) {
        assert_ok(at_cuda_typical(90, &target));
    }
    return target;
}

/* A problem that the kernel computes. */
static attune_problem problem_for(const attune_kernel *kernel, const attune_target *target)
{
    static const char *const texts[] = {"b1,h1,sq1,skv128,d64,fp16",
                                        "b1,h1,sq1,skv128,d64,bf16",
                                        "b1,h1,sq1,skv1024,d64,fp16",
                                        "b1,h1,sq16,skv128,d64,fp32",
                                        "append:b1,h1,sq1,skv128,d64,fp16,slots",
                                        "merge:b1,h1,sq1,d64,fp16,states=2"};
    attune_problem problem;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
        assert_ok(attune_problem_parse(texts[i], &problem));
        if (at_kernel_supports(kernel, &problem, target, NULL)) {
            return problem;
        }
    }
    fail_msg("%s computes none of the problems here", kernel->name);
    return problem;
}

/* What a later attune adds, no kernel of today is asked for. */
static void what_is_new_is_refused(void **state)
{
    (void)state;
    for (const attune_kernel *const *at = at_catalogue; *at != NULL; ++at) {
        const attune_target target = target_for(*at);
        const attune_problem known = problem_for(*at, &target);
        attune_problem problem = known;
        attune_reason reason = {""};
        problem.op = ATTUNE_FORWARD + 1;
        assert_false(at_kernel_supports(*at, &problem, &target, &reason));
        assert_non_null(strstr(reason.text, "op 1 (?): kernel "));
        problem = known;
        problem.dtype = ATTUNE_DTYPE_COUNT;
        assert_false(at_kernel_supports(*at, &problem, &target, &reason));
        assert_non_null(strstr(reason.text, "dtype ?: "));
        problem = known;
        problem.layout = ATTUNE_BSHD + 1;
        assert_false(at_kernel_supports(*at, &problem, &target, &reason));
        problem = known;
        problem.window_right = 0;
        problem.offset_kind = ATTUNE_OFFSET_NUMBER + 1;
        assert_false(at_kernel_supports(*at, &problem, &target, &reason));
        assert_non_null(strstr(reason.text, known.op == ATTUNE_FORWARD ? "offset ?: " : "causal: "));
        problem = known;
        problem.bias = ATTUNE_BIAS_BXH + 1;
        assert_false(at_kernel_supports(*at, &problem, &target, &reason));
        assert_non_null(strstr(reason.text, known.op == ATTUNE_FORWARD ? "bias ?: " : "bias "));
        for (int role = ATTUNE_K; role <= ATTUNE_O; ++role) {
            problem = known;
            problem.role_dtype[role] = ATTUNE_DTYPE_COUNT + 1;
            assert_false(at_kernel_supports(*at, &problem, &target, &reason));
            assert_non_null(strstr(reason.text, " in ?: kernel "));
        }
        for (int bit = __builtin_popcount(ATTUNE_FEATURES_FORWARD | ATTUNE_FEATURES_CACHE); bit < 32; ++bit) {
            assert_false(at_capabilities_cover(*at, &known, ATTUNE_BIT(bit), &target, &reason));
            assert_non_null(strstr(reason.text, "feature "));
        }
    }
}

static int64_t pick(at_random *random, int64_t least, int64_t most)
{
    return least + (int64_t)at_random_below(random, (uint64_t)(most - least + 1));
}

static attune_problem draw(at_random *random)
{
    attune_problem p;
    attune_problem_init(&p);
    p.dtype = (int32_t)pick(random, ATTUNE_FP32, ATTUNE_BF16);
    p.batch = pick(random, 1, 9);
    p.heads_kv = pick(random, 1, 9);
    p.heads_q = p.heads_kv * pick(random, 1, 9);
    p.seqlen_q = pick(random, 0, 3000);
    p.seqlen_kv = pick(random, 0, 3000);
    p.head_dim_qk = (int32_t)pick(random, 1, 256);
    p.head_dim_v = (int32_t)pick(random, 1, 256);
    p.window_left = pick(random, -1, 3) * 100;
    p.window_left = p.window_left < 0 ? -1 : p.window_left;
    p.window_right = pick(random, -1, 2);
    p.offset_kind = (int32_t)pick(random, 0, 2);
    p.offset = p.offset_kind == ATTUNE_OFFSET_NUMBER ? pick(random, -99, 99) : 0;
    p.softcap = pick(random, 0, 1) != 0 ? 30 : 0;
    p.scale = (float)pick(random, -2, 2);
    p.bias = (int32_t)pick(random, 0, ATTUNE_BIAS_BXH);
    p.mask = (int32_t)pick(random, 0, 1);
    p.alibi = (int32_t)pick(random, 0, 1);
    p.sink = (int32_t)pick(random, 0, 1);
    p.seqused_kv = (int32_t)pick(random, 0, 1);
    p.strict = (int32_t)pick(random, 0, 1);
    p.varlen = (int32_t)pick(random, 0, 1);
    p.layout = p.varlen ? ATTUNE_BSHD : (int32_t)pick(random, 0, 1);
    p.align = pick(random, 0, 1) != 0 ? 1 << pick(random, 0, 8) : 0;
    return p;
}

/* Kernels that multiply by every key take a causal mask where the last query sees all of them, and ALiBi anywhere. */
static void masks_where_keys_may_be_hidden_from_all(void **state)
{
    static const struct {
        const char *kernel, *problem, *why; /* NULL: it can */
    } asked[] = {
        {"cublas", "b1,h1,s64,d64,fp16,alibi,offset=tl", NULL},
        {"cublas", "b1,h1,s64,d64,fp32,causal,alibi", NULL},
        {"cublas", "b1,h1,s64,d64,fp16,causal,offset=tl", "offset tl: br is needed"},
        {"cublas", "b1,h1,s64,d64,fp16,causal,sink,bias=1x1", "bias 1x1: kernel cublas does not compute it"},
        {"cublas_qk", "b1,h1,s64,d64,bf16,alibi,softcap=3,offset=-2", NULL},
        {"cublas_qk", "b1,h1,s64,d64,bf16,causal,alibi,offset=-2", "offset -2: br is needed"},
        {"cutlass", "b1,h1,s64,d64,bf16,offset=tl", NULL},
        {"cutlass", "b1,h1,s64,d64,bf16,causal,offset=tl", "offset tl: br is needed"},
        {"wgmma_small", "b1,h1,s64,d64,bf16,causal,offset=tl", "offset tl: br is needed"},
        {"wgmma", "b1,h1,s64,d64,bf16,causal,offset=tl", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        attune_problem problem;
        attune_reason reason = {""};
        const attune_kernel *kernel = at_catalogue_find(asked[i].kernel);
        if (kernel == NULL) { /* CUTLASS may not have been there to build */
            continue;
        }
        const attune_target target = target_for(kernel);
        assert_ok(attune_problem_parse(asked[i].problem, &problem));
        const bool can = at_kernel_supports(kernel, &problem, &target, &reason);
        assert_string_equal(can ? "" : reason.text, asked[i].why == NULL ? "" : asked[i].why);
    }
}

/* Every valid problem of one dtype runs on each kind of target. */
static void the_general_kernels_compute_everything(void **state)
{
    (void)state;
    at_random random = at_random_seed(7, 7);
    const attune_kernel *const general[] = {at_catalogue_general(ATTUNE_TARGET_CPU),
                                            at_catalogue_general(ATTUNE_TARGET_CUDA)};
    for (int i = 0; i < 5000; ++i) {
        const attune_problem problem = draw(&random);
        assert_ok(attune_problem_check(&problem));
        for (int k = 0; k < 2; ++k) {
            attune_target target = target_for(general[k]);
            attune_reason reason = {""};
            target.isa = ATTUNE_ISA_BASELINE;
            if (!at_kernel_supports(general[k], &problem, &target, &reason)) {
                fail_msg("%s: %s", general[k]->name, reason.text);
            }
        }
    }
}

static void suggests_what_is_near(void **state)
{
    (void)state;
    assert_string_equal(at_catalogue_nearest("cpu_tild"), "cpu_tiled");
    assert_string_equal(at_catalogue_nearest("cpu-tiled"), "cpu_tiled");
    assert_null(at_catalogue_nearest("zzzzzzzzzzzzzzzz"));
}

/* An optional kernel that is not there is refused with what it needs; of others nothing is known. */
static void what_is_left_out_is_known(void **state)
{
    (void)state;
    static const char *const optional[] = {"cutlass", "cpu_bf16"};
    for (size_t i = 0; i < sizeof optional / sizeof optional[0]; ++i) {
        assert_true((at_catalogue_find(optional[i]) == NULL) == (at_catalogue_left_out(optional[i]) != NULL));
    }
    assert_null(at_catalogue_left_out("cpu_tiled"));
    assert_null(at_catalogue_left_out("no_such_kernel"));
}

/* A text of before a kernel had its last parameters. */
static void older_texts_name_the_same_config(void **state)
{
    static const char whole[] = "cpu_tiled:BLOCK_M=64,BLOCK_N=48,PANEL=4,EXP=5,PREFETCH=1,PACK=0,ORDER=0,SPLIT=0";
    static const char older[] = "cpu_tiled:BLOCK_M=64,BLOCK_N=48,PANEL=4,EXP=5,PREFETCH=1";
    (void)state;
    assert_true(at_catalogue_same(whole, whole));
    assert_true(at_catalogue_same(whole, older) && at_catalogue_same(older, whole));
    assert_false(at_catalogue_same("cpu_tiled:BLOCK_M=64,BLOCK_N=48,PANEL=4,EXP=5,PREFETCH=1,SPLIT=1", older));
    assert_false(at_catalogue_same("cpu_tiled:BLOCK_M=64,BLOCK_N=48,PANEL=4,EXP=5,PREFETCH=0", older));
    assert_false(at_catalogue_same("cpu_tiled:BLOCK_M=64,NO_SUCH=1", "cpu_tiled:BLOCK_M=64"));
    assert_false(at_catalogue_same("no_such_kernel:A=1,B=0", "no_such_kernel:A=1"));
    assert_true(at_catalogue_same("no_such_kernel:A=1", "no_such_kernel:A=1"));
    assert_false(at_catalogue_same("", older));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_keeps_the_contract),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(each_target_has_one_general_kernel),
        cmocka_unit_test(a_permission_changes_no_support),
        cmocka_unit_test(what_is_new_is_refused),
        cmocka_unit_test(masks_where_keys_may_be_hidden_from_all),
        cmocka_unit_test(the_general_kernels_compute_everything),
        cmocka_unit_test(suggests_what_is_near),
        cmocka_unit_test(what_is_left_out_is_known),
        cmocka_unit_test(older_texts_name_the_same_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
