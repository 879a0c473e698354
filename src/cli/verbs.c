#include <string.h>

#include "cli/cli.h"

/* One a row, in the order of the help. */
const at_verb *const at_verbs[] = {
    &at_verb_info,    /* what there is */
    &at_verb_run,     /* attention from files to files */
    &at_verb_check,   /* right or wrong */
    &at_verb_bench,   /* times */
    &at_verb_new,     /* a kernel of one's own */
    &at_verb_gate,    /* right, and really faster? */
    &at_verb_evolve,  /* a faster config, found and proven */
    &at_verb_export,  /* kernels for machines without a compiler */
    &at_verb_verify,  /* evidence, judged again */
    &at_verb_report,  /* evidence in tables */
    &at_verb_ratchet, /* evidence that got worse */
    &at_verb_worker,  /* a process of the gate's */
    &at_verb_sandbox, /* another, for what strangers bring */
    &at_verb_help,    /* from the tables */
    &at_verb_version, /* of command and library */
    NULL,
};

const at_help_section at_help_sections[] = {
    {"PROBLEMS", "A problem says what is asked, in comma-separated terms in any order:",
     "  b1,h8,s512,d64,fp16                          batch 1, 8 heads, 512 tokens, head dim 64\n"
     "  b2,h32,hkv8,s4096,d128,bf16,causal           grouped-query attention with a causal mask\n"
     "  b1,h32,hkv8,sq1,skv8192,d128,bf16            one new token against 8192 cached ones\n"
     "  b1,h8,s1000,d64,fp32,window=256:0,softcap=30 a sliding window, capped logits\n"
     "Also: dv k= v= o= offset= scale= bias= mask alibi sink seqused strict tf32 align= page= vtable draft\n"
     "varlen= layout=; append: and merge: (docs/problems.md)\n"},
    {"ENVIRONMENT", "Environment, where no option says otherwise",
     "  ATTUNE_TARGET ATTUNE_KERNEL ATTUNE_ISA ATTUNE_THREADS ATTUNE_WISDOM ATTUNE_CACHE ATTUNE_PACK\n"
     "  ATTUNE_CPUS ATTUNE_WAIT ATTUNE_IMAGES\n"},
    {"EXIT STATUS", "Exit codes",
     "  0    done, and right\n"
     "  1    a result was wrong, or a check failed\n"
     "  3    it could not run: input or output, device, memory\n"
     "  64   the command line, a problem or an input is bad\n"
     "  130  interrupted; nothing half-written was kept\n"},
    {NULL, NULL, NULL},
};

const at_verb *at_verb_find(const char *name)
{
    for (const at_verb *const *verb = at_verbs; *verb != NULL; ++verb) {
        if (strcmp((*verb)->name, name) == 0) {
            return *verb;
        }
    }
    return NULL;
}
