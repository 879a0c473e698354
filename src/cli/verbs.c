#include <string.h>

#include "cli/cli.h"

/* One a row, in the order of the help. */
const at_verb *const at_verbs[] = {
    &at_verb_info,    /* what there is */
    &at_verb_run,     /* attention from files to files */
    &at_verb_check,   /* right or wrong */
    &at_verb_bench,   /* times */
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

static const at_option target_options[] = {
    {"--target", "TARGET", "cpu cuda", "cpu, cuda or cuda:N; without it $ATTUNE_TARGET, else cuda where usable"},
    {"--kernel", "KERNEL", NULL, "NAME or NAME:PARAM=VALUE,...: use this kernel alone; without it $ATTUNE_KERNEL"},
    {"--isa", "TIER", "baseline avx2 avx512 avx512_bf16 amx",
     "highest CPU tier to use; without it $ATTUNE_ISA, else the CPU's best"},
    {"--threads", "N", NULL, "CPU threads; without it $ATTUNE_THREADS, else all this process may use"},
    {"--wisdom", "FILE", NULL, "read what was learned from this file; without it $ATTUNE_WISDOM"},
    {NULL, NULL, NULL, NULL},
};

static const at_option format_options[] = {
    {"--format", "FORMAT", "text tsv json", "text (for people, the default), tsv or json"},
    {NULL, NULL, NULL, NULL},
};

static const at_option help_options[] = {
    {"--help", NULL, NULL, "show this help"},
    {NULL, NULL, NULL, NULL},
};

const at_option *at_verb_option(const at_verb *verb, int index)
{
    const at_option *lists[] = {
        verb->options,
        verb->common & AT_COMMON_TARGET ? target_options : NULL,
        verb->common & AT_COMMON_FORMAT ? format_options : NULL,
        help_options,
    };
    for (size_t list = 0; list < sizeof lists / sizeof lists[0]; ++list) {
        for (const at_option *option = lists[list]; option != NULL && option->name != NULL; ++option) {
            if (index-- == 0) {
                return option;
            }
        }
    }
    return NULL;
}

const at_verb *at_verb_find(const char *name)
{
    for (const at_verb *const *verb = at_verbs; *verb != NULL; ++verb) {
        if (strcmp((*verb)->name, name) == 0) {
            return *verb;
        }
    }
    return NULL;
}
