/* What wgmma_fp32's descriptor chooses first: the fastest in run 4 of bench/results/hopper_fp32.tsv, with tf32 in
 * run 7, or one within 1 %. */
#include "base/cm.h"
#include "core/config.h"
#include "cuda/cuda.h"

extern const attune_kernel at_kernel_wgmma_fp32;

static void chooses_what_was_fastest(void **state)
{
    static const struct {
        const char *problem, *params;
    } asked[] = {
        {"b4,h16,s4096,d128,fp32", "GROUPS=2,BLOCK_N=64,AHEAD=1"},
        {"b4,h16,s4096,d128,fp32,causal", "GROUPS=2,BLOCK_N=64,AHEAD=1"},
        {"b4,h16,s4096,d64,fp32", "GROUPS=2,BLOCK_N=64,AHEAD=1"},
        {"b4,h16,s4096,d64,fp32,causal", "GROUPS=2,BLOCK_N=64,AHEAD=1"},
        {"b1,h8,s512,d64,fp32", "GROUPS=1,BLOCK_N=64,AHEAD=0"},
        {"b2,h8,s1024,d128,fp32,causal", "GROUPS=1,BLOCK_N=64,AHEAD=1"},
        {"b8,h16,s1024,d64,fp32,causal", "GROUPS=2,BLOCK_N=64,AHEAD=0"},
        {"b2,h32,hkv8,s2048,d128,fp32,causal", "GROUPS=2,BLOCK_N=64,AHEAD=1"},
        {"b1,h16,s1024,d96,fp32", "GROUPS=2,BLOCK_N=64,AHEAD=1"},
        {"b1,h4,sq128,skv16384,d128,fp32", "GROUPS=1,BLOCK_N=64,AHEAD=1"},
        {"b1,h8,s256,d64,fp32", "GROUPS=1,BLOCK_N=64,AHEAD=0"},
        {"b16,h8,s512,d64,fp32", "GROUPS=2,BLOCK_N=64,AHEAD=0"},
        {"b4,h16,s4096,d128,fp32,tf32", "GROUPS=2,BLOCK_N=128,AHEAD=1"},
        {"b4,h16,s4096,d64,fp32,causal,tf32", "GROUPS=2,BLOCK_N=128,AHEAD=1"},
        {"b1,h8,s512,d64,fp32,tf32", "GROUPS=1,BLOCK_N=128,AHEAD=1"},
        {"b2,h8,s1024,d128,fp32,causal,tf32", "GROUPS=1,BLOCK_N=128,AHEAD=1"},
        {"b8,h16,s1024,d64,fp32,causal,tf32", "GROUPS=2,BLOCK_N=128,AHEAD=1"},
        {"b2,h32,hkv8,s2048,d128,fp32,causal,tf32", "GROUPS=2,BLOCK_N=128,AHEAD=1"},
        {"b1,h16,s1024,d96,fp32,tf32", "GROUPS=2,BLOCK_N=128,AHEAD=1"},
        {"b1,h4,sq128,skv16384,d128,fp32,tf32", "GROUPS=1,BLOCK_N=128,AHEAD=1"},
        {"b1,h8,s256,d64,fp32,tf32", "GROUPS=1,BLOCK_N=64,AHEAD=0"},
        {"b16,h8,s512,d64,fp32,tf32", "GROUPS=2,BLOCK_N=128,AHEAD=1"},
        {"b16,h16,s256,d64,fp32,tf32", "GROUPS=2,BLOCK_N=64,AHEAD=0"},
        {"b4,h8,s768,d128,fp32,tf32", "GROUPS=2,BLOCK_N=128,AHEAD=1"},
        {"b16,h16,s256,d128,fp32,causal,tf32", "GROUPS=2,BLOCK_N=64,AHEAD=0"},
    };
    attune_target target;
    (void)state;
    assert_ok(at_cuda_typical(90, &target));
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        attune_problem problem;
        attune_config first, expected;
        assert_ok(attune_problem_parse(asked[i].problem, &problem));
        assert_ok(at_config_parse(&at_kernel_wgmma_fp32, asked[i].params, &expected));
        assert_true(at_kernel_wgmma_fp32.heuristic(&problem, &target, 0, &first));
        for (int32_t j = 0; j < at_kernel_wgmma_fp32.param_count; ++j) {
            if (first.value[j] != expected.value[j]) {
                fail_msg("%s: %s is %d, not %d", asked[i].problem, at_kernel_wgmma_fp32.params[j].name, first.value[j],
                         expected.value[j]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(chooses_what_was_fastest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
