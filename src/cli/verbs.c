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

const at_verb *at_verb_find(const char *name)
{
    for (const at_verb *const *verb = at_verbs; *verb != NULL; ++verb) {
        if (strcmp((*verb)->name, name) == 0) {
            return *verb;
        }
    }
    return NULL;
}
