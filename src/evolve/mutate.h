/* Changes of a kernel's source by rules: a proposer that needs no model. Text in, text out.
 *
 * A rule knows the syntax of C and CUDA C++ as far as scan.h does, and no kernel. It changes how something is computed,
 * meaning to leave what is computed alone; it does not prove that: what it proposes may fail to compile or be wrong,
 * and is judged as anybody's source is. */
#ifndef EVOLVE_MUTATE_H
#define EVOLVE_MUTATE_H

#include <stddef.h>
#include <stdint.h>

#include "attune/attune.h"
#include "evolve/trial.h"

enum { AT_RULE_IDEA_MAX = 160 };

/* A change in words, whose rule it was, and in which function ("-": in none). */
typedef struct at_mutation {
    char idea[AT_RULE_IDEA_MAX], rule[AT_RULE_NAME_MAX], place[AT_PLACE_NAME_MAX];
} at_mutation;

/* What there was before. */
typedef struct at_mutate_memory {
    at_trials trials;                                      /* what paid is drawn more often */
    bool (*is_new)(const void *self, const char *changed); /* what there was is drawn again, a few times; NULL: no */
    const void *self;
} at_mutate_memory;

/* The source after one change, and the change in words. One turn and draw give one change, the same everywhere: turns
 * that follow each other come to all rules, more often to those that help more often, and the draw chooses the place.
 * `source` is a file of a kernel, `*changed` the caller's to free, `idea` cut to `bytes`.
 * ATTUNE_NOT_FOUND where no rule has anything to change, or the text is none that it can read; *changed is then NULL.
 */
attune_status at_mutate(const char *source, uint32_t turn, uint64_t draw, char **changed, char *idea, size_t bytes);

/* The same by who knows what was tried before. NULL: nothing. */
attune_status at_mutate_knowing(const char *source, const at_mutate_memory *memory, uint32_t turn, uint64_t draw,
                                char **changed, at_mutation *made);

/* The same by one rule alone; ATTUNE_INVALID_ARGUMENT where there is no such rule. */
attune_status at_mutate_by(const char *rule, const char *source, uint64_t draw, char **changed, char *idea,
                           size_t bytes);

/* More precision in what a rule made coarser: polynomials of one degree more. ATTUNE_NOT_FOUND where there is none. */
attune_status at_mutate_refine(const char *source, char **changed, char *idea, size_t bytes);

/* The rules' names; NULL from the last on. */
const char *at_mutate_rule(int index);

#endif
