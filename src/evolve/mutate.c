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

/* The function of each token, its head too. */
static void name_functions(const at_code *code, const uint8_t *nest, int32_t *function)
{
    for (int32_t i = 0; i < code->count; ++i) {
        function[i] = -1;
    }
    for (int32_t body = 2; body < code->count; ++body) {
        const int32_t name = function_of(code, nest, body);
        for (int32_t i = name < 0 ? code->count : name; i < code->count && i <= code->token[body].match; ++i) {
            function[i] = function[i] < 0 ? name : function[i];
        }
    }
}

/* How deep each token is in loops, a loop as deep as what it has in it, and which function it is in. */
static attune_status find_places(const at_code *code, at_change *change)
{
    uint8_t *nest = change->nest = calloc((size_t)code->count + 1, sizeof *change->nest);
    change->function = calloc((size_t)code->count + 1, sizeof *change->function);
    AT_FAIL_IF(nest == NULL || change->function == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for the loops of a source");
    for (int32_t i = 0; i < code->count; ++i) {
        nest_deeper(nest, i, loop_end(code, i), 1);
    }
    name_functions(code, nest, change->function);
    nest_calls(code, nest);
    for (int32_t i = 0; i < code->count; ++i) {
        const int32_t end = loop_end(code, i);
        for (int32_t j = i; j < end; ++j) {
            nest[i] = nest[j] > nest[i] ? nest[j] : nest[i];
        }
    }
    return ATTUNE_OK;
}

/* What can be drawn: rules, and for each that was looked at the places where it has something to change. */
typedef struct drawing {
    at_change *change;
    const at_trials *trials;
    double *weight[RULES];             /* of each token; NULL: not looked at yet */
    double whole[RULES], plain[RULES]; /* the sum of weights, and what it would be if nothing were known */
} drawing;

static void free_drawing(drawing *of)
{
    for (int rule = 0; rule < RULES; ++rule) {
        free(of->weight[rule]);
    }
}

static void name_place(const at_change *change, int32_t place, char name[AT_PLACE_NAME_MAX])
{
    const int32_t function = change->function[place];
    if (function < 0) {
        (void)snprintf(name, AT_PLACE_NAME_MAX, "-");
    } else {
        (void)snprintf(name, AT_PLACE_NAME_MAX, "%.*s", (int)change->code->token[function].length,
                       change->code->text + change->code->token[function].at);
    }
}

/* How likely a place is drawn: four times more for each loop around it, for what is run most often is there. 0 where
 * the rule has nothing to change. */
static double weight_of(at_change *change, const at_rule *rule, int32_t place)
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

static attune_status look_for_places(drawing *of, int rule)
{
    const int32_t count = of->change->code->count;
    if (of->weight[rule] != NULL) {
        return ATTUNE_OK;
    }
    double *weight = of->weight[rule] = calloc((size_t)count + 1, sizeof *weight);
    AT_FAIL_IF(weight == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for the places of a rule");
    for (int32_t i = 0; i < count; ++i) {
        char place[AT_PLACE_NAME_MAX];
        weight[i] = weight_of(of->change, &rules[rule], i);
        of->plain[rule] += weight[i];
        if (weight[i] > 0 && of->trials != NULL) {
            name_place(of->change, i, place);
            weight[i] *= at_trials_of_place(of->trials, place) * at_trials_of_both(of->trials, rules[rule].name, place);
        }
        of->whole[rule] += weight[i];
    }
    return ATTUNE_OK;
}

/* Who of `count` has the share of all weights in which `at` lies; none whose weight is 0; -1: all are. */
static int32_t find_weighted(const double *weight, int32_t count, double at)
{
    double sum = 0;
    int32_t last = -1;
    for (int32_t i = 0; i < count; ++i) {
        sum += weight[i];
        last = weight[i] > 0 ? i : last;
        if (sum > at) {
            return i;
        }
    }
    return last;
}

/* The rule at a place, drawn by weight, of those where it has something to change. */
static attune_status apply_somewhere(drawing *of, int rule, at_mutation *made, bool *applied)
{
    at_change *change = of->change;
    AT_FORWARD(look_for_places(of, rule));
    *applied = false;
    if (of->whole[rule] <= 0) {
        return ATTUNE_OK;
    }
    const double at = at_random_uniform(change->random) * of->whole[rule];
    const int32_t place = find_weighted(of->weight[rule], change->code->count, at);
    *applied = rules[rule].apply(change, place) && !change->overfull;
    if (!*applied) { /* what is drawn can decide whether there is room for all edits */
        clear_change(change);
    }
    (void)snprintf(made->idea, sizeof made->idea, "%s", change->idea);
    (void)snprintf(made->rule, sizeof made->rule, "%s", rules[rule].name);
    name_place(change, place, made->place);
    return ATTUNE_OK;
}

/* From 0 to 1, such that neighbouring turns are far apart, and come to all places in time: the golden ratio's. */
static double place_of_turn(uint32_t turn)
{
    return turn * 2654435769U / 4294967296.0;
}

/* Who knows what was tried looks at all places first: a rule that is for those where nothing is to be had comes less
 * often. */
static attune_status weigh_rules(drawing *of, double weight[RULES])
{
    for (int i = 0; i < RULES; ++i) {
        weight[i] = rules[i].weight;
        if (of->trials != NULL) {
            AT_FORWARD(look_for_places(of, i));
            weight[i] *=
                of->plain[i] > 0 ? at_trials_of_rule(of->trials, rules[i].name) * of->whole[i] / of->plain[i] : 0;
        }
    }
    return ATTUNE_OK;
}

/* A rule whose weight is not 0: whose turn it is, else drawn by weight; -1 where there is none. */
static int draw_rule(at_change *change, const uint32_t *turn, const double weight[RULES])
{
    double whole = 0;
    for (int i = 0; i < RULES; ++i) {
        whole += weight[i];
    }
    return find_weighted(weight, RULES,
                         (turn != NULL ? place_of_turn(*turn) : at_random_uniform(change->random)) * whole);
}

/* One change by the rule whose turn it is; where that has nothing to change, by another one. */
static attune_status apply_once(drawing *of, const uint32_t *turn, char **changed, at_mutation *made)
{
    double weight[RULES];
    AT_FORWARD(weigh_rules(of, weight));
    for (int rule; (rule = draw_rule(of->change, turn, weight)) >= 0; turn = NULL) {
        bool applied;
        AT_FORWARD(apply_somewhere(of, rule, made, &applied));
        if (applied) {
            return write_change(of->change, changed);
        }
        weight[rule] = 0;
    }
    return at_fail(ATTUNE_NOT_FOUND, "no rule has anything to change");
}

/* What there was already is drawn anew, a few times. */
static attune_status apply_drawn(drawing *of, const at_mutate_memory *memory, uint32_t turn, char **changed,
                                 at_mutation *made)
{
    enum { DRAWS = 32 };
    AT_FORWARD(apply_once(of, &turn, changed, made));
    for (int i = 1; i < DRAWS && memory != NULL && memory->is_new != NULL && !memory->is_new(memory->self, *changed);
         ++i) {
        free(*changed);
        *changed = NULL;
        clear_change(of->change);
        AT_FORWARD(apply_once(of, NULL, changed, made));
    }
    return ATTUNE_OK;
}

static attune_status apply_only(drawing *of, int rule, char **changed, at_mutation *made)
{
    bool applied;
    AT_FORWARD(apply_somewhere(of, rule, made, &applied));
    return applied ? write_change(of->change, changed) : at_fail(ATTUNE_NOT_FOUND, "the rule has nothing to change");
}

/* What a change is made from; the rest is the caller's. */
static attune_status begin_change(const char *source, at_code *code, at_change *change)
{
    attune_status status = at_code_scan(source, code);
    if (status != ATTUNE_OK) {
        return status == ATTUNE_OUT_OF_MEMORY ? status : at_fail_in(ATTUNE_NOT_FOUND, "no source that rules can read");
    }
    change->code = code;
    return find_places(code, change);
}

static void end_change(at_code *code, at_change *change)
{
    clear_change(change);
    free(change->nest);
    free(change->function);
    at_code_free(code);
}

/* `only`: a rule; below 0: any. */
static attune_status mutate(int only, const at_mutate_memory *memory, uint32_t turn, const char *source, uint64_t draw,
                            char **changed, at_mutation *made)
{
    at_code code = {.token = NULL};
    at_random random = at_random_seed(draw, 0);
    at_change change = {.random = &random};
    drawing of = {.change = &change, .trials = memory != NULL ? &memory->trials : NULL};
    *changed = NULL;
    *made = (at_mutation){.idea = ""};
    attune_status status = begin_change(source, &code, &change);
    if (status == ATTUNE_OK) {
        status = only >= 0 ? apply_only(&of, only, changed, made) : apply_drawn(&of, memory, turn, changed, made);
    }
    free_drawing(&of);
    end_change(&code, &change);
    return status;
}

attune_status at_mutate_knowing(const char *source, const at_mutate_memory *memory, uint32_t turn, uint64_t draw,
                                char **changed, at_mutation *made)
{
    return mutate(-1, memory, turn, source, draw, changed, made);
}

attune_status at_mutate(const char *source, uint32_t turn, uint64_t draw, char **changed, char *idea, size_t bytes)
{
    at_mutation made;
    attune_status status = mutate(-1, NULL, turn, source, draw, changed, &made);
    (void)snprintf(idea, bytes, "%s", made.idea);
    return status;
}

attune_status at_mutate_by(const char *rule, const char *source, uint64_t draw, char **changed, char *idea,
                           size_t bytes)
{
    for (int i = 0; i < RULES; ++i) {
        if (strcmp(rules[i].name, rule) == 0) {
            at_mutation made;
            attune_status status = mutate(i, NULL, 0, source, draw, changed, &made);
            (void)snprintf(idea, bytes, "%s", made.idea);
            return status;
        }
    }
    *changed = NULL;
    return at_fail(ATTUNE_INVALID_ARGUMENT, "%s: no such rule", rule);
}

/* Where it is run most often, of all such places the first. */
static int32_t place_to_refine(at_change *change)
{
    int32_t best = -1;
    for (int32_t i = 0; i < change->code->count; ++i) {
        const bool deeper = best < 0 || change->nest[i] > change->nest[best];
        best = deeper && at_token_is_word(change->code, i) && at_rule_refine(change, i) ? i : best;
        clear_change(change);
    }
    return best;
}

attune_status at_mutate_refine(const char *source, char **changed, char *idea, size_t bytes)
{
    at_code code = {.token = NULL};
    at_random random = at_random_seed(0, 0);
    at_change change = {.random = &random};
    *changed = NULL;
    attune_status status = begin_change(source, &code, &change);
    const int32_t place = status == ATTUNE_OK ? place_to_refine(&change) : -1;
    if (status == ATTUNE_OK) {
        status = place >= 0 && at_rule_refine(&change, place)
                     ? write_change(&change, changed)
                     : at_fail(ATTUNE_NOT_FOUND, "nothing has given precision away");
    }
    (void)snprintf(idea, bytes, "%s", place >= 0 ? change.idea : "");
    end_change(&code, &change);
    return status;
}
