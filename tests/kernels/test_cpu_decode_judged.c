/* cpu_decode judged by the rules for numbers against the library's reference, on every family of inputs and every tier
 * this machine runs (and $ATTUNE_ISA allows). */
#include "attune/kernel.h"

extern const attune_kernel at_kernel_cpu_decode;

static const attune_kernel *const kernel = &at_kernel_cpu_decode;

static const char *const dtypes[] = {"fp32", "fp16", "bf16", NULL};

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

static const char *const far_problems[] = {"b2,h2,sq2,skv20,d16,fp16", "b2,h4,hkv2,sq1,skv20,d16,fp32,causal", NULL};

#include "kernels/cpu_judged.h"
