#include "evolve/mutate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "evolve/rule.h"

static const at_rule rules[] = {
    {"jam", "for", at_rule_jam, 6},          {"unroll", "for", at_rule_unroll, 2},
    {"chains", "for", at_rule_chains, 2},    {"split", "for", at_rule_split, 1},
    {"exp", NULL, at_rule_exp, 3},           {"hoist", NULL, at_rule_hoist, 1},
    {"restrict", "*", at_rule_restrict, 1},  {"swap", ";", at_rule_swap, 1},
    {"prefetch", NULL, at_rule_prefetch, 1}, {"shuffle", "for", at_rule_shuffle, 3},
    {"widen", "for", at_rule_widen, 3},      {"interchange", "for", at_rule_interchange, 1},
    {"constant", NULL, at_rule_constant, 1},
};
enum { RULES = sizeof rules / sizeof *rules, NEST_MAX = 6 };

/* Of those above, what gave precision away: more of it. */
static const at_rule refine = {"refine", NULL, at_rule_refine, 0};

const char *at_mutate_rule(int index)
{
    return index >= 0 && index < RULES ? rules[index].name : NULL;
}

/* ---- Changes ---------------------------------------------------------------------------------------------------- */

static void clear_change(at_change *change)
{
    for (int i = 0; i < change->edits; ++i) {
        at_text_free(&change->edit[i].text);
    }
    change->edits = 0;
    change->overfull = false;
}

static int by_place(const void *a, const void *b)
{
    const at_edit *x = a, *y = b;
    return x->at != y->at ? (x->at < y->at ? -1 : 1) : (x->end > y->end) - (x->end < y->end);
}

/* The source with its edits, which must not overlap. */
static attune_status write_change(at_change *change, char **changed)
{
    at_text text;
    int32_t at = 0;
    qsort(change->edit, (size_t)change->edits, sizeof *change->edit, by_place);
    at_text_init(&text);
    for (int i = 0; i < change->edits; ++i) {
        const at_edit *edit = &change->edit[i];
        if (edit->at < at || change->overfull) {
            at_text_free(&text);
            return at_fail(ATTUNE_NOT_FOUND, "the change's edits overlap, or are too many");
        }
        at_text_add_bytes(&text, change->code->text + at, (size_t)(edit->at - at));
        at_text_add_bytes(&text, edit->text.data, edit->text.length);
        at = edit->end;
    }
    at_text_add(&text, "%s", change->code->text + at);
    return at_text_take(&text, "a changed source", changed, NULL);
}

/* ---- Drawing ---------------------------------------------------------------------------------------------------- */

static bool may_begin(const at_code *code, const at_rule *rule, int32_t place)
{
    return rule->begins == NULL ? at_token_is_word(code, place) : at_token_is(code, place, rule->begins);
}

static void nest_deeper(uint8_t *nest, int32_t first, int32_t end, int by)
{
    for (int32_t i = first; i < end; ++i) {
        nest[i] = (uint8_t)(nest[i] + by < NEST_MAX ? nest[i] + by : NEST_MAX);
    }
}

/* Where a `for` ends that begins here; -1: none does. */
static int32_t loop_end(const at_code *code, int32_t place)
{
    return at_token_is(code, place, "for") ? at_statement_end(code, place, code->count) : -1;
}

/* The name of the function whose body begins here, outside of loops; -1: none does. */
static int32_t function_of(const at_code *code, const uint8_t *nest, int32_t body)
{
    static const char *const others[] = {"if", "while", "switch", "for"};
    const int32_t name = at_token_is(code, body, "{") && at_token_is(code, body - 1, ")") && nest[body] == 0
                             ? code->token[body - 1].match - 1
                             : -1;
    bool is = name >= 0 && at_token_is_word(code, name);
    for (size_t i = 0; i < sizeof others / sizeof *others; ++i) {
        is = is && !at_token_is(code, name, others[i]);
    }
    return is ? name : -1;
}

/* A function that is called in loops is as deep in them. Who calls stands behind who is called: the last come first. */
static void nest_calls(const at_code *code, uint8_t *nest)
{
    for (int32_t body = code->count - 1; body > 1; --body) {
        const int32_t name = function_of(code, nest, body);
        int deepest = 0;
        for (int32_t i = name < 0 ? code->count : code->token[body].match; i < code->count; ++i) {
            deepest = nest[i] > deepest && at_token_same(code, name, i) ? nest[i] : deepest;
        }
        if (name >= 0) {
            nest_deeper(nest, body, code->token[body].match, deepest);
        }
    }
}

/* How likely a place is drawn: four times more for each loop around it, for what is run most often is there; a loop
 * counts those inside it too. *weights has one for each token. */
static attune_status weigh_places(const at_code *code, uint8_t **weights)
{
    uint8_t *nest = calloc((size_t)code->count + 1, 1);
    AT_FAIL_IF(nest == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for the loops of a source");
    for (int32_t i = 0; i < code->count; ++i) {
        nest_deeper(nest, i, loop_end(code, i), 1);
    }
    nest_calls(code, nest);
    for (int32_t i = 0; i < code->count; ++i) {
        const int32_t end = loop_end(code, i);
        for (int32_t j = i; j < end; ++j) {
            nest[i] = nest[j] > nest[i] ? nest[j] : nest[i];
        }
    }
    *weights = nest;
    return ATTUNE_OK;
}

/* 0 where the rule has nothing to change. */
static int weight_of(at_change *change, const at_rule *rule, int32_t place)
{
    const at_random before = *change->random;
    if (!may_begin(change->code, rule, place)) {
        return 0;
    }
    const bool applies = rule->apply(change, place) && !change->overfull;
    clear_change(change);
    *change->random = before;
    return applies ? 1 << 2 * change->nest[place] : 0;
}

/* The rule at a place, drawn by weight, of those where it has something to change. */
static bool apply_somewhere(at_change *change, const at_rule *rule)
{
    int whole = 0;
    for (int32_t i = 0; i < change->code->count; ++i) {
        whole += weight_of(change, rule, i);
    }
    if (whole == 0) {
        return false;
    }
    int at = at_change_draw(change, whole);
    int32_t place = -1;
    while (at >= 0) {
        at -= weight_of(change, rule, ++place);
    }
    const bool applied = rule->apply(change, place) && !change->overfull;
    if (!applied) { /* what is drawn can decide whether there is room for all edits */
        clear_change(change);
    }
    return applied;
}

/* One of `whole`, such that neighbouring turns are far apart, and come to all places in time: the golden ratio's. */
static int place_of_turn(uint32_t turn, int whole)
{
    return (int)((uint64_t)(turn * 2654435769U) * (uint64_t)whole >> 32);
}

/* A rule that is not in `tried`: whose turn it is, else drawn by weight; -1 where all are. */
static int draw_rule(at_change *change, uint32_t turn, unsigned tried)
{
    int whole = 0;
    for (int i = 0; i < RULES; ++i) {
        whole += (tried >> i & 1) != 0 ? 0 : rules[i].weight;
    }
    int at = whole == 0 ? -1 : tried == 0 ? place_of_turn(turn, whole) : at_change_draw(change, whole);
    for (int i = 0; i < RULES && at >= 0; ++i) {
        at -= (tried >> i & 1) != 0 ? 0 : rules[i].weight;
        if (at < 0) {
            return i;
        }
    }
    return -1;
}

/* `only`, or where that is NULL whose turn it is. */
static attune_status apply_drawn(at_change *change, const at_rule *only, uint32_t turn, char **changed)
{
    if (only != NULL && apply_somewhere(change, only)) {
        return write_change(change, changed);
    }
    unsigned tried = 0;
    for (int rule; only == NULL && (rule = draw_rule(change, turn, tried)) >= 0; tried |= 1U << rule) {
        if (apply_somewhere(change, &rules[rule])) {
            return write_change(change, changed);
        }
    }
    return at_fail(ATTUNE_NOT_FOUND, "no rule has anything to change");
}

static attune_status mutate(const at_rule *only, uint32_t turn, const char *source, uint64_t draw, char **changed,
                            char *idea, size_t bytes)
{
    at_code code;
    *changed = NULL;
    if (bytes > 0) {
        idea[0] = '\0';
    }
    attune_status status = at_code_scan(source, &code);
    if (status != ATTUNE_OK) {
        return status == ATTUNE_OUT_OF_MEMORY ? status : at_fail_in(ATTUNE_NOT_FOUND, "no source that rules can read");
    }
    at_random random = at_random_seed(draw, 0);
    at_change change = {.code = &code, .random = &random};
    status = weigh_places(&code, &change.nest);
    status = status == ATTUNE_OK ? apply_drawn(&change, only, turn, changed) : status;
    (void)snprintf(idea, bytes, "%s", change.idea);
    clear_change(&change);
    free(change.nest);
    at_code_free(&code);
    return status;
}

attune_status at_mutate(const char *source, uint32_t turn, uint64_t draw, char **changed, char *idea, size_t bytes)
{
    return mutate(NULL, turn, source, draw, changed, idea, bytes);
}

attune_status at_mutate_by(const char *rule, const char *source, uint64_t draw, char **changed, char *idea,
                           size_t bytes)
{
    for (int i = 0; i < RULES; ++i) {
        if (strcmp(rules[i].name, rule) == 0) {
            return mutate(&rules[i], 0, source, draw, changed, idea, bytes);
        }
    }
    *changed = NULL;
    return at_fail(ATTUNE_INVALID_ARGUMENT, "%s: no such rule", rule);
}

attune_status at_mutate_refine(const char *source, char **changed, char *idea, size_t bytes)
{
    return mutate(&refine, 0, source, 0, changed, idea, bytes);
}
