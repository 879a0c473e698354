/* Keys that a mask, a bias of -inf, a window or an offset hides from every row, on the device: what is there, NaN
 * and infinities, must leave no trace, in kernels that declare to taint their tiles, too. Every result against the
 * reference. */
#include "base/cm.h"
#include "library/state.h"
#include "on_device.h"
#include "one_case.h"

/* The first case that is exactly the problem, of the family "hidden". */
static int64_t hidden_case(const at_test_problem *problem)
{
    at_gate_case one;
    for (int64_t index = 0; index < 100; ++index) {
        at_case_make(problem, CASE_SEED, index, &one);
        if (one.draw.family == AT_FAMILY_HIDDEN && one.stratum == AT_STRATUM_EXACT) {
            return index;
        }
    }
    fail_msg("no case of the first 100 hides keys");
    return -1;
}

/* Each kernel on each problem. */
static void check_all(void **state, const char *const *kernels, size_t kernel_count, const char *const *problems,
                      size_t problem_count)
{
    for (size_t i = 0; i < kernel_count * problem_count; ++i) {
        const char *text = problems[i % problem_count];
        at_test_problem problem;
        assert_ok(at_test_problem_parse(text, &problem));
        check_case(state, kernels[i / problem_count], text, hidden_case(&problem));
    }
}

/* One row: every key that it does not see, nobody does. Many: columns of the mask are hidden from all. Several splits,
 * tiles and warps, of which some see nothing. */
static void masked_keys_leave_no_trace(void **state)
{
    static const char *const kernels[] = {
        "tiled",
        "wmma",
        "wmma:WARPS=1,BLOCK_N=32,FRAGMENT_M=16,TENSOR_CORES=1,SPLITS=2,STAGES=3,LAZY=8",
        "wmma:WARPS=2,BLOCK_N=64,FRAGMENT_M=32,TENSOR_CORES=1,SPLITS=2,STAGES=2,LAZY=0",
        "wmma:WARPS=2,BLOCK_N=128,FRAGMENT_M=16,TENSOR_CORES=1,SPLITS=1,STAGES=1,LAZY=0",
        "wmma:WARPS=4,BLOCK_N=64,FRAGMENT_M=16,TENSOR_CORES=0,SPLITS=1,STAGES=1,LAZY=0",
        "wmma_acc16",
        "mma",
        "wmma_ws",
        "wmma_ws:CONSUMERS=2,SPLITS=1,PRODUCERS=1,STRIPS=2,BLOCK_N=32,Q_REGISTERS=0,MIN_BLOCKS=1",
    };
    static const char *const problems[] = {
        "b1,h2,s300,d64,fp16,mask",
        "b2,h2,sq1,skv300,d64,fp16,bias=bxh",
        "b1,h2,hkv1,s40,d64,fp16,causal,mask,bias=1xh",
    };
    check_all(state, kernels, sizeof kernels / sizeof *kernels, problems, sizeof problems / sizeof *problems);
}

/* Kernels of Hopper, to which products are added that begin with what hides. */
static void hopper_leaves_no_trace(void **state)
{
    static const char *const kernels[] = {"wgmma", "wgmma_small"};
    static const char *const problems[] = {
        "b1,h2,s300,d64,fp16,mask",
        "b1,h2,hkv1,s40,d64,fp16,causal,mask,bias=1xh",
        "b2,h2,sq70,skv200,d128,bf16,bias=bxh:fp32",
    };
    if (at_context_device(*state)->target.arch != 90) {
        skip();
    }
    check_all(state, kernels, sizeof kernels / sizeof *kernels, problems, sizeof problems / sizeof *problems);
}

/* Before the first key that a row sees, and behind the last. */
static void keys_beside_leave_no_trace(void **state)
{
    static const char *const kernels[] = {"tiled", "pipelined", "wmma", "wmma_ws", "mma"};
    static const char *const problems[] = {
        "b1,h2,sq40,skv300,d64,fp16,window=20:5",
        "b1,h2,sq40,skv300,d64,fp16,causal,offset=tl",
        "b2,h2,hkv1,sq70,skv150,d64,fp16,causal,window=33:-1,offset=40",
    };
    check_all(state, kernels, sizeof kernels / sizeof *kernels, problems, sizeof problems / sizeof *problems);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masked_keys_leave_no_trace),
        cmocka_unit_test(hopper_leaves_no_trace),
        cmocka_unit_test(keys_beside_leave_no_trace),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
