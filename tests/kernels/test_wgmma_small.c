/* Which problems wgmma_small takes on an H200: those at which it was faster than wgmma (docs/hopper_small.md). */
#include <string.h>

#include "base/cm.h"
#include "core/config.h"
#include "cuda/cuda.h"

extern const attune_kernel at_kernel_wgmma_small;

static void takes_what_it_is_faster_at(void **state)
{
    static const struct {
        const char *problem;
        const char *refusal; /* NULL: none */
    } asked[] = {
        {"b1,h8,s512,d64,fp16", NULL},
        {"b4,h16,s512,d64,fp16,causal", NULL},
        {"b4,h16,s528,d64,fp16", "seqlen_q, heads_q, batch: "},
        {"b4,h16,sq512,skv528,d64,fp16", "seqlen_kv 528: at most 512 with 256 tiles"},
        {"b2,h8,s1024,d64,fp16", NULL},
        {"b1,h8,s1024,d128,fp16", NULL}, /* two blocks for each tile of queries */
        {"b1,h4,s2048,d128,fp16,causal", NULL},
        {"b2,h8,s1024,d128,fp16", "seqlen_kv 1024: at most 384 with 128 tiles of queries and wide heads"},
        {"b2,h8,s1024,d128,fp16,causal", "seqlen_kv 1024: at most 576 with 128 tiles of queries and wide heads"},
        {"b4,h8,s512,d128,fp16", "seqlen_kv 512: at most 384"},
        {"b4,h8,s512,d128,fp16,causal", NULL},
        {"b4,h8,s384,d128,fp16", NULL},
        {"b1,h8,s512,d64,fp16,causal,bias=bxh:fp32,mask", NULL},
        {"b1,h8,s512,d64,fp16,bias=1xh:bf16,scale=-0.5", NULL},
        {"b1,h8,s512,d64,fp16,bias=1xh,scale=1e-7", "scale 1e-07 with a bias: 1e-6 to 1e6, or below 0"},
        {"b1,h8,sq16,skv512,d64,fp16,mask", "seqlen_q 16: more than 16 with a bias or a mask"},
        {"b1,h8,s512,d64,fp16,mask,alibi", "alibi: "},
        {"b2,h8,s528,d64,fp16,mask", "seqlen_q, heads_q, batch: 80 tiles of 128 queries, at most 66 for 132 SMs"},
    };
    attune_target target;
    (void)state;
    assert_ok(at_cuda_typical(90, &target));
    target.sm_count = 132;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        attune_problem problem;
        attune_reason reason = {""};
        assert_ok(attune_problem_parse(asked[i].problem, &problem));
        bool takes = at_kernel_supports(&at_kernel_wgmma_small, &problem, &target, &reason);
        if (takes != (asked[i].refusal == NULL) || (!takes && strstr(reason.text, asked[i].refusal) != reason.text)) {
            fail_msg("%s: %s", asked[i].problem, takes ? "taken" : reason.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_it_is_faster_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
