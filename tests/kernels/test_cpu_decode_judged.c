/* cpu_decode judged by the rules for numbers against the library's reference, on every family of inputs and every tier
 * this machine runs (and $ATTUNE_ISA allows). */
#include "attune/kernel.h"

extern const attune_kernel at_kernel_cpu_decode;

static const attune_kernel *const kernel = &at_kernel_cpu_decode;

static const char *const problems[] = {
    "b1,h8,hkv2,sq1,skv1300,d128,%s",
    "b1,h2,sq1,skv700,d64,%s,softcap=5",
    "b2,h4,hkv2,sq3,skv600,d40,dv24,%s,window=300:1",
    "b3,h4,hkv1,sq4,skv520,d48,%s,causal,seqused",
    "b3,h2,sq6,skv400,d24,%s,alibi,varlen=7,layout=bshd",
    "b2,h3,sq16,skv77,d33,dv72,%s,causal,sink",
    "b2,h16,hkv1,sq1,skv300,d256,%s,sink",
    NULL,
};

#include "kernels/cpu_judged.h"

static void far_offsets_are_right(void **state)
{
    at_bias bias[ATTUNE_ISA_COUNT] = {{0}};
    at_draw draw = {.seed = 3, .family = AT_FAMILY_NORMAL, .far = true, .poison = 0xff};
    (void)state;
    judge("b2,h2,sq2,skv20,d16,fp16", &draw, bias);
    judge("b2,h4,hkv2,sq1,skv20,d16,fp32,causal", &draw, bias);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp32_is_right),
        cmocka_unit_test(fp16_is_right),
        cmocka_unit_test(bf16_is_right),
        cmocka_unit_test(far_offsets_are_right),
    };
    return cmocka_run_group_tests(tests, open_tiers, close_tiers);
}
