/* What rules of mutate.h are made of. */
#ifndef EVOLVE_RULE_H
#define EVOLVE_RULE_H

#include "base/random.h"
#include "base/text.h"
#include "evolve/mutate.h"
#include "evolve/scan.h"

enum { AT_EDITS_MAX = 64 };

/* Bytes at ... end - 1 of the source become `text`. */
typedef struct at_edit {
    int32_t at, end;
    at_text text;
} at_edit;

typedef struct at_change {
    const at_code *code;
    at_random *random;
    uint8_t *nest;     /* of each token: the loops around it, and those in it if it begins one */
    int32_t *function; /* of each token: the name of the function that it is in; -1: none */
    char idea[AT_RULE_IDEA_MAX];
    at_edit edit[AT_EDITS_MAX];
    int edits;
    bool overfull; /* more edits than there is room for */
} at_change;

/* A rule at one place, a token: false where it has nothing to change there, whatever edits it may have begun. */
typedef bool at_rule_apply(at_change *change, int32_t place);

typedef struct at_rule {
    const char *name;
    const char *begins; /* the token at which it may apply; NULL: any word */
    at_rule_apply *apply;
    int weight; /* how often it is drawn, beside the others */
} at_rule;

/* Text to append to, in place of the bytes of tokens first ... end - 1, or before `first` where they are the same. */
at_text *at_change_tokens(at_change *change, int32_t first, int32_t end);
/* The same for what stands behind the includes: functions that a rule calls. */
at_text *at_change_prelude(at_change *change);
void at_change_idea(at_change *change, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A number below `bound`, drawn. */
int at_change_draw(at_change *change, int bound);

/* The source's text of tokens first ... end - 1. */
void at_text_add_tokens(at_text *text, const at_code *code, int32_t first, int32_t end);
/* Where the innermost loop, of any kind, around a token begins and ends; false where there is none. */
bool at_enclosing_loop(const at_code *code, int32_t place, at_loop *loop);
/* The line, from 1, of a token. */
int at_line_of(const at_code *code, int32_t index);
/* The largest N of words NAME_N; 0 where there is none. */
int at_largest_copy(const at_code *code, int32_t name);

at_rule_apply at_rule_unroll, at_rule_jam, at_rule_chains, at_rule_split, at_rule_interchange;
at_rule_apply at_rule_exp, at_rule_hoist, at_rule_restrict, at_rule_swap, at_rule_prefetch, at_rule_constant;
at_rule_apply at_rule_shuffle, at_rule_widen, at_rule_refine;

#endif
