/* Rules that change loops. */
#include <string.h>

#include "evolve/rule.h"

/* ---- Unrolling by the compiler ---------------------------------------------------------------------------------- */

/* Puts an unroll pragma before a loop, or another in place of one that is there. */
bool at_rule_unroll(at_change *change, int32_t place)
{
    static const int counts[] = {1, 2, 4, 8, 16};
    const at_code *code = change->code;
    at_loop loop;
    if (!at_loop_read(code, place, &loop) || at_token_is(code, loop.first, "UNROLL")) {
        return false;
    }
    const int count = counts[at_change_draw(change, sizeof counts / sizeof *counts)];
    at_text *text = at_change_tokens(change, loop.first, loop.keyword);
    at_text_add(text, "%s#pragma %sunroll %d\n", loop.first == loop.keyword ? "\n" : "", code->device ? "" : "GCC ",
                count);
    at_change_idea(change, "line %d: loop unrolled by %d", at_line_of(code, place), count);
    return true;
}

/* ---- Several iterations at once --------------------------------------------------------------------------------- */

enum { NAMES_MAX = 24, JAM_DEPTH_MAX = 8 };

/* Copies of a loop's body for name, name + 1, ...; what the body declares has a name of each copy's own. */
typedef struct jam {
    const at_code *code;
    at_text *text;
    int copies, by;          /* by: the loop's own step */
    int32_t index;           /* the loop's name */
    int32_t name[NAMES_MAX]; /* declared in the body */
    int number[NAMES_MAX];   /* the first copy's suffix is the next of this */
    int names, fused;
} jam;

static bool add_name(jam *to, int32_t name)
{
    if (to->names == NAMES_MAX) {
        return false;
    }
    to->number[to->names] = at_largest_copy(to->code, name);
    to->name[to->names++] = name;
    return true;
}

/* All names of one declaration. */
static bool add_declared(jam *to, int32_t first, int32_t end)
{
    int32_t name = at_declared_name(to->code, first, end);
    while (name >= 0) {
        if (!add_name(to, name)) {
            return false;
        }
        int32_t next = -1;
        for (int32_t i = name + 1; i < end && next < 0; ++i) {
            i = to->code->token[i].match > i ? to->code->token[i].match : i;
            next = at_token_is(to->code, i, ",") ? i + 1 : -1;
        }
        while (next >= 0 && at_token_is(to->code, next, "*")) {
            ++next;
        }
        name = next >= 0 && at_token_is_word(to->code, next) ? next : -1;
    }
    return true;
}

static int find_name(const jam *in, int32_t word)
{
    for (int i = in->names - 1; i >= 0; --i) {
        if (at_token_same(in->code, in->name[i], word)) {
            return i;
        }
    }
    return -1;
}

static bool is_variable(const at_code *code, int32_t index)
{
    return at_token_is_word(code, index) && !at_token_is(code, index - 1, ".") && !at_token_is(code, index - 1, "->") &&
           !at_token_is(code, index - 1, "::");
}

static void add_copied_word(const jam *in, int32_t index, int copy)
{
    const at_token *t = &in->code->token[index];
    const char *word = in->code->text + t->at;
    if (copy > 0 && at_token_same(in->code, index, in->index)) {
        at_text_add(in->text, "(%.*s + %d)", (int)t->length, word, copy * in->by);
        return;
    }
    const int name = copy == 0 ? -1 : find_name(in, index);
    at_text_add_bytes(in->text, word, (size_t)t->length);
    if (name >= 0) {
        at_text_add(in->text, "_%d", in->number[name] + copy);
    }
}

static void add_copy(const jam *in, int32_t first, int32_t end, int copy)
{
    const at_code *code = in->code;
    for (int32_t i = first; i < end; ++i) {
        if (is_variable(code, i)) {
            add_copied_word(in, i, copy);
        } else {
            at_text_add_tokens(in->text, code, i, i + 1);
        }
        if (i + 1 < end) {
            const int32_t behind = code->token[i].at + code->token[i].length;
            at_text_add_bytes(in->text, code->text + behind, (size_t)(code->token[i + 1].at - behind));
        }
    }
    at_text_add(in->text, "\n");
}

/* Whether a loop's head is the same for every copy. */
static bool has_common_head(const jam *in, const at_loop *loop)
{
    for (int32_t i = loop->keyword + 2; i < loop->close; ++i) {
        if (is_variable(in->code, i) && (find_name(in, i) >= 0 || at_token_same(in->code, i, in->index))) {
            return false;
        }
    }
    return true;
}

static bool add_statements(jam *in, int32_t first, int32_t end, int depth);

/* One loop over all copies' bodies. */
static bool add_fused(jam *in, const at_loop *loop, int depth)
{
    int32_t first, end;
    ++in->fused;
    at_text_add_tokens(in->text, in->code, loop->first, loop->keyword);
    at_text_add(in->text, "\n");
    at_text_add_tokens(in->text, in->code, loop->keyword, loop->close + 1);
    at_text_add(in->text, " {\n");
    at_loop_inside(in->code, loop, &first, &end);
    const bool added = add_statements(in, first, end, depth + 1);
    at_text_add(in->text, "}\n");
    return added;
}

/* The loop that a statement is, behind its pragmas. */
static bool read_loop_at(const at_code *code, int32_t first, int32_t end, at_loop *loop)
{
    const int32_t keyword = at_token_find(code, first, end, "for");
    return keyword >= 0 && at_loop_read(code, keyword, loop) && loop->first <= first && loop->end == end;
}

static bool add_statements(jam *in, int32_t first, int32_t end, int depth)
{
    const int names = in->names;
    for (int32_t at = first, next; at < end && depth < JAM_DEPTH_MAX; at = next) {
        at_loop loop;
        next = at_statement_end(in->code, at, end);
        if (next < 0 || !add_declared(in, at, next)) {
            return false;
        }
        if (read_loop_at(in->code, at, next, &loop) && has_common_head(in, &loop)) {
            if (!add_fused(in, &loop, depth)) {
                return false;
            }
            continue;
        }
        for (int copy = 0; copy < in->copies; ++copy) {
            add_copy(in, at, next, copy);
        }
    }
    in->names = names;
    return depth < JAM_DEPTH_MAX;
}

/* Whether nothing in a body leaves it, or jumps. */
static bool runs_through(const at_code *code, int32_t first, int32_t end)
{
    static const char *const leaves[] = {"break", "continue", "return", "goto", "case", "default", "static", "asm"};
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; ++i) {
        if (at_token_find(code, first, end, leaves[i]) >= 0) {
            return false;
        }
    }
    for (int32_t i = first; i < end; ++i) {
        if (code->token[i].kind == AT_TOKEN_DIRECTIVE && strstr(code->text + code->token[i].at, "pragma") == NULL) {
            return false;
        }
    }
    return true;
}

static bool is_declared_inside(const at_code *code, int32_t name, int32_t first, int32_t end)
{
    for (int32_t i = first + 1; i < end; ++i) {
        const bool declares = at_token_is_word(code, i - 1) || at_token_is(code, i - 1, "*") ||
                              at_token_is(code, i - 1, ",") || at_token_is(code, i - 1, ">");
        if (declares && at_token_same(code, i, name)) {
            return !at_token_is(code, i - 1, "return");
        }
    }
    return false;
}

/* Whether some variable of outside is set by one iteration and used again in it: copies would mix them. */
static bool carries_on(const at_code *code, int32_t first, int32_t end)
{
    for (int32_t i = first; i < end; ++i) {
        const bool set =
            at_token_is_name(code, i) &&
            (at_token_assigns(code, i + 1) || at_token_is(code, i - 1, "++") || at_token_is(code, i - 1, "--"));
        if (!set || is_declared_inside(code, i, first, end)) {
            continue;
        }
        int uses = 0;
        for (int32_t j = first; j < end; ++j) {
            uses += at_token_same(code, j, i) && at_token_is_name(code, j);
        }
        if (uses > 1 || at_token_is(code, i + 1, "=")) {
            return true;
        }
    }
    return false;
}

/* An expression that may be multiplied and added to as it is. */
static bool is_plain(const at_code *code, int32_t first, int32_t end)
{
    for (int32_t i = first; i < end; ++i) {
        const at_token *t = &code->token[i];
        const bool joins = at_token_is(code, i, "->") || at_token_is(code, i, ".");
        if (t->kind != AT_TOKEN_WORD && t->kind != AT_TOKEN_NUMBER && !joins) {
            return false;
        }
    }
    return true;
}

static void add_plain(at_text *text, const at_code *code, int32_t first, int32_t end)
{
    const char *close = is_plain(code, first, end) ? "" : ")";
    at_text_add(text, "%s", *close != '\0' ? "(" : "");
    at_text_add_tokens(text, code, first, end);
    at_text_add(text, "%s", close);
}

/* Where whole groups of `copies` end: from + (below - from) / copies * copies. */
static void add_groups_end(at_text *text, const at_code *code, const at_loop *loop, int copies)
{
    if (at_token_is(code, loop->from, "0") && loop->from_end == loop->from + 1) {
        add_plain(text, code, loop->below, loop->below_end);
        at_text_add(text, " / %d * %d", copies, copies);
        return;
    }
    add_plain(text, code, loop->from, loop->from_end);
    at_text_add(text, " + (");
    add_plain(text, code, loop->below, loop->below_end);
    at_text_add(text, " - ");
    add_plain(text, code, loop->from, loop->from_end);
    at_text_add(text, ") / %d * %d", copies, copies);
}

static void add_grouped_head(at_text *text, const at_code *code, const at_loop *loop, int copies)
{
    const int length = (int)code->token[loop->name].length;
    const char *name = code->text + code->token[loop->name].at;
    at_text_add(text, "for (");
    at_text_add_tokens(text, code, loop->type, loop->from_end);
    at_text_add(text, "; %.*s < ", length, name);
    add_groups_end(text, code, loop, copies);
    at_text_add(text, "; %.*s += %d) ", length, name, copies);
}

/* The iterations that are left over, one by one. */
static void add_rest(at_text *text, const at_code *code, const at_loop *loop, int copies)
{
    at_text_add(text, "for (");
    at_text_add_tokens(text, code, loop->type, loop->from);
    at_text_add(text, " ");
    add_groups_end(text, code, loop, copies);
    at_text_add(text, "; ");
    at_text_add_tokens(text, code, loop->below - 2, loop->close + 1);
    at_text_add(text, " ");
    at_text_add_tokens(text, code, loop->body, loop->end);
}

/* A loop's step where it is a small number; else 0. */
static int step_of(const at_code *code, const at_loop *loop)
{
    int step = 0;
    for (int32_t i = 0; loop->by != 0 && i < code->token[loop->by].length; ++i) {
        const char digit = code->text[code->token[loop->by].at + i];
        step = digit < '0' || digit > '9' || step > 100 ? 1000 : step * 10 + digit - '0';
    }
    return loop->by == 0 ? 1 : loop->by_end == loop->by + 1 && step <= 64 ? step : 0;
}

/* A loop with a number for its step whose bound is one comparison that its body does not change. What such a loop of
 * several iterations at once has left over, "from below / 4 * 4", is none. */
static bool is_countable(const at_code *code, const at_loop *loop)
{
    static const char *const others[] = {"&&", "||", "?", ",", "=", "<", ">"};
    for (size_t i = 0; i < sizeof others / sizeof *others; ++i) {
        if (at_token_find(code, loop->below, loop->below_end, others[i]) >= 0) {
            return false;
        }
    }
    for (int32_t i = loop->below; i < loop->below_end; ++i) {
        if (at_token_is_name(code, i) && at_name_changes(code, i, loop->body, loop->end)) {
            return false;
        }
    }
    return step_of(code, loop) > 0 && at_token_find(code, loop->from, loop->from_end, "/") < 0 &&
           at_token_find(code, loop->from, loop->from_end, "?") < 0 &&
           !at_name_changes(code, loop->name, loop->body, loop->end);
}

/* The most statements that an innermost loop of a loop has. */
static int statements_of(const at_code *code, const at_loop *loop)
{
    int most = 0;
    for (int32_t i = loop->keyword; i < loop->end; ++i) {
        at_loop inner;
        int32_t first, end;
        if (!at_token_is(code, i, "for") || !at_loop_read(code, i, &inner) ||
            at_token_find(code, inner.body, inner.end, "for") >= 0) {
            continue;
        }
        int count = 0;
        at_loop_inside(code, &inner, &first, &end);
        for (int32_t at = first; at >= 0 && at < end; at = at_statement_end(code, at, end)) {
            ++count;
        }
        most = count > most ? count : most;
    }
    return most;
}

/* No more at once than registers hold: neither with those that a group has already ("below / 4 * 4"), nor of what the
 * innermost loop does, one sum or value a statement; 0: none. */
static int draw_copies(at_change *change, const at_loop *loop, int by)
{
    enum { MOST = 12, HOST_REGISTERS = 32, DEVICE_REGISTERS = 128 };
    static const int host[] = {2, 3, 4, 6, 8, 12}, device[] = {2, 4};
    const int has = at_token_find(change->code, loop->below, loop->below_end, "/") >= 0 ? by : 1;
    const int registers = change->code->device ? DEVICE_REGISTERS : HOST_REGISTERS;
    const int inner = statements_of(change->code, loop);
    const int *counts = change->code->device ? device : host;
    int may = (int)(change->code->device ? sizeof device / sizeof *device : sizeof host / sizeof *host);
    while (may > 0 && (counts[may - 1] * has > MOST || counts[may - 1] * inner > registers)) {
        --may;
    }
    return may > 0 ? counts[at_change_draw(change, may)] : 0;
}

/* Several iterations of a loop around a loop at once: they share what the inner one reads, and break its chains. */
bool at_rule_jam(at_change *change, int32_t place)
{
    const at_code *code = change->code;
    at_loop loop;
    int32_t first, end;
    if (!at_loop_read(code, place, &loop) || !is_countable(code, &loop)) {
        return false;
    }
    at_loop_inside(code, &loop, &first, &end);
    if (!runs_through(code, first, end) || carries_on(code, first, end)) {
        return false;
    }
    const int by = step_of(code, &loop), copies = draw_copies(change, &loop, by);
    if (copies == 0) {
        return false;
    }
    jam in = {code, at_change_tokens(change, loop.keyword, loop.end), copies, by, loop.name, {0}, {0}, 0, 0};
    at_text_add(in.text, "%s", loop.first == loop.keyword ? "" : "\n");
    add_grouped_head(in.text, code, &loop, copies * by);
    at_text_add(in.text, "{\n");
    if (!add_statements(&in, first, end, 0) || in.fused == 0) {
        return false;
    }
    at_text_add(in.text, "}\n");
    add_rest(in.text, code, &loop, copies * by);
    at_change_idea(change, "line %d: %d iterations of the outer loop at once", at_line_of(code, place), copies);
    return true;
}

/* ---- Several sums ----------------------------------------------------------------------------------------------- */

/* The declaration "TYPE NAME = ...;" before a loop, back to the block's beginning; -1 where there is none. */
static int32_t find_declaration(const at_code *code, int32_t name, int32_t before)
{
    for (int32_t i = before - 1; i > 0; --i) {
        if (at_token_is(code, i, "}") && code->token[i].match >= 0) {
            i = code->token[i].match;
        } else if (at_token_is(code, i, "{")) {
            return -1;
        } else if (at_token_same(code, i, name) && at_token_is_word(code, i - 1) && at_token_is(code, i + 1, "=")) {
            return at_token_is(code, i - 2, ",") ? -1 : i;
        }
    }
    return -1;
}

/* Where the type before a declared name begins: words. */
static int32_t type_of(const at_code *code, int32_t declared)
{
    while (declared > 0 && at_token_is_word(code, declared - 1)) {
        --declared;
    }
    return declared;
}

/* A body of one statement NAME += expression; the place of NAME, else -1. */
static int32_t find_sum(const at_code *code, const at_loop *loop, int32_t *end)
{
    int32_t first;
    at_loop_inside(code, loop, &first, end);
    const bool one = at_statement_end(code, first, *end) == *end;
    return one && at_token_is_word(code, first) && at_token_is(code, first + 1, "+=") &&
                   !at_name_occurs(code, first, first + 1, *end)
               ? first
               : -1;
}

/* A sum in several parts, each its own chain of additions. */
bool at_rule_chains(at_change *change, int32_t place)
{
    const at_code *code = change->code;
    at_loop loop;
    int32_t end;
    if (!at_loop_read(code, place, &loop) || !is_countable(code, &loop)) {
        return false;
    }
    const int32_t sum = find_sum(code, &loop, &end);
    const int32_t declared = sum < 0 ? -1 : find_declaration(code, sum, loop.first);
    if (declared < 0) {
        return false;
    }
    const int copies = 2 << at_change_draw(change, 3), length = (int)code->token[sum].length;
    const char *name = code->text + code->token[sum].at;
    const int by = step_of(code, &loop);
    jam in = {code, at_change_tokens(change, loop.keyword, loop.end), copies, by, loop.name, {sum}, {0}, 1, 0};
    in.number[0] = at_largest_copy(code, sum);
    at_text *before = at_change_tokens(change, loop.first, loop.first);
    for (int copy = 1; copy < copies; ++copy) {
        at_text_add_tokens(before, code, type_of(code, declared), declared);
        at_text_add(before, " %.*s_%d = {0};\n", length, name, in.number[0] + copy);
    }
    add_grouped_head(in.text, code, &loop, copies * by);
    at_text_add(in.text, "{\n");
    for (int copy = 0; copy < copies; ++copy) {
        add_copy(&in, sum, end, copy);
    }
    at_text_add(in.text, "}\n");
    add_rest(in.text, code, &loop, copies * by);
    for (int copy = 1; copy < copies; ++copy) {
        at_text_add(in.text, "\n%.*s += %.*s_%d;", length, name, length, name, in.number[0] + copy);
    }
    at_change_idea(change, "line %d: a sum in %d parts", at_line_of(code, place), copies);
    return true;
}

/* ---- Two loops of one ------------------------------------------------------------------------------------------- */

/* Whether something that tokens first ... middle - 1 declare is used behind them. */
static bool declares_for(const at_code *code, int32_t first, int32_t middle, int32_t end)
{
    for (int32_t at = first, next; at < middle; at = next) {
        next = at_statement_end(code, at, middle);
        const int32_t name = next < 0 ? -1 : at_declared_name(code, at, next);
        if (next < 0 || (name >= 0 && at_name_occurs(code, name, middle, end))) {
            return true;
        }
    }
    return false;
}

/* Whether a variable without an index that one side sets is on the other side, too. */
static bool shares_scalar(const at_code *code, int32_t first, int32_t middle, int32_t end)
{
    for (int32_t i = first; i < end; ++i) {
        const bool here = i < middle;
        if (at_token_is_name(code, i) && at_name_changes(code, i, i, i + 1) &&
            at_name_occurs(code, i, here ? middle : first, here ? end : middle)) {
            return true;
        }
    }
    return false;
}

/* Whether threads wait for each other there. */
static bool synchronises(const at_code *code, int32_t first, int32_t end)
{
    for (int32_t i = first; i < end; ++i) {
        const at_token *t = &code->token[i];
        for (int32_t at = 0; at_token_is_word(code, i) && at + 4 <= t->length; ++at) {
            const char *word = code->text + t->at + at;
            if (memcmp(word, "sync", 4) == 0 || memcmp(word, "wait", 4) == 0 || memcmp(word, "barr", 4) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* The first statements of the body in a loop of their own, then the others in theirs. */
bool at_rule_split(at_change *change, int32_t place)
{
    const at_code *code = change->code;
    at_loop loop;
    int32_t first, end, cut[16], cuts = 0;
    if (!at_loop_read(code, place, &loop) || at_name_changes(code, loop.name, loop.body, loop.end)) {
        return false;
    }
    at_loop_inside(code, &loop, &first, &end);
    if (!runs_through(code, first, end) || synchronises(code, first, end)) {
        return false;
    }
    for (int32_t at = at_statement_end(code, first, end); at > 0 && at < end && cuts < 16;
         at = at_statement_end(code, at, end)) {
        if (!declares_for(code, first, at, end) && !shares_scalar(code, first, at, end)) {
            cut[cuts++] = at;
        }
    }
    if (cuts == 0) {
        return false;
    }
    const int32_t at = cut[at_change_draw(change, cuts)];
    at_text *text = at_change_tokens(change, at, at);
    at_text_add(text, "}\n");
    at_text_add_tokens(text, code, loop.first, loop.keyword);
    at_text_add(text, "\n");
    at_text_add_tokens(text, code, loop.keyword, loop.close + 1);
    at_text_add(text, " {\n");
    at_change_idea(change, "line %d: the loop in two", at_line_of(code, place));
    return true;
}

/* ---- Two loops the other way round ------------------------------------------------------------------------------ */

/* The one loop that a loop's body is. */
static bool read_only_loop(const at_code *code, const at_loop *outer, at_loop *inner)
{
    int32_t first, end;
    at_loop_inside(code, outer, &first, &end);
    return first < end && at_statement_end(code, first, end) == end && read_loop_at(code, first, end, inner);
}

/* A loop that is all of another's body goes around it. Pragmas stay where they are. */
bool at_rule_interchange(at_change *change, int32_t place)
{
    const at_code *code = change->code;
    at_loop outer, inner;
    int32_t first, end;
    if (!at_loop_read(code, place, &outer) || !is_countable(code, &outer) || !read_only_loop(code, &outer, &inner) ||
        !is_countable(code, &inner) || at_name_occurs(code, outer.name, inner.keyword, inner.close)) {
        return false;
    }
    at_loop_inside(code, &inner, &first, &end);
    if (!runs_through(code, first, end) || carries_on(code, first, end) || synchronises(code, first, end)) {
        return false;
    }
    at_text_add_tokens(at_change_tokens(change, outer.keyword, outer.close + 1), code, inner.keyword, inner.close + 1);
    at_text_add_tokens(at_change_tokens(change, inner.keyword, inner.close + 1), code, outer.keyword, outer.close + 1);
    at_change_idea(change, "line %d: the loop goes inside the next one", at_line_of(code, place));
    return true;
}
