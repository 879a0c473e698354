/* cpu_bf16 judged by the rules for numbers against the library's reference, on every family of inputs and every tier
 * that has code for it, this machine runs and $ATTUNE_ISA allows. */
#include "attune/kernel.h"

extern const attune_kernel at_kernel_cpu_bf16;

static const attune_kernel *const kernel = &at_kernel_cpu_bf16;

static const char *const dtypes[] = {"bf16", NULL};

static const char *const problems[] = {
    "b1,h2,s130,d64,%s",
    "b1,h2,s97,d128,%s,causal",
    "b2,h4,hkv2,s65,d40,dv24,%s,window=20:5",
    "b2,h3,sq50,skv77,d33,dv72,%s,softcap=5,strict",
    "b2,h2,s70,d16,%s,causal,sink",
    "b3,h2,s60,d24,%s,alibi,varlen=7,layout=bshd",
    "b3,h4,hkv1,sq5,skv120,d48,%s,causal,seqused",
    "b2,h2,sq90,skv40,d8,%s,causal,offset=tl,sink",
    "b1,h8,hkv2,sq1,skv300,d96,%s",
    "b2,h2,s40,d256,%s,causal,varlen=3,layout=bshd,seqused,strict",
    NULL,
};

static const char *const far_problems[] = {"b2,h2,s20,d16,bf16", "b2,h4,hkv2,s20,d16,bf16,causal", NULL};

#include "kernels/cpu_judged.h"
