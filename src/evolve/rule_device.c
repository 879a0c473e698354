/* Rules for device code alone. */
#include <string.h>

#include "evolve/rule.h"

/* ---- Reductions ------------------------------------------------------------------------------------------------- */

/* A reduction over neighbouring lanes through shared memory, as it is commonly written:
 *
 *     AT[...][lane] = value;  barrier;
 *     for (int step = N / 2; step > 0; step /= 2) { if (lane < step) AT = op(AT, AT + step); barrier; }
 *     ... AT[...][0] ...
 *
 * All are places of tokens. */
typedef struct reduction {
    int32_t store, store_end; /* AT[...][lane] = value; */
    int32_t index, index_end; /* [...] and what is before it, without the last bracket */
    int32_t lane;
    int32_t value, value_end;
    int32_t end;    /* of the loop */
    int32_t step;   /* the loop's name */
    bool adds;      /* else the maximum */
    int32_t result; /* AT[...][0] behind the loop; it ends like the store's left side */
} reduction;

static bool is_barrier(const at_code *code, int32_t index)
{
    return (at_token_is(code, index, "__syncthreads") || at_token_is(code, index, "__syncwarp")) &&
           at_token_is(code, index + 1, "(") && at_token_is(code, index + 2, ")") && at_token_is(code, index + 3, ";");
}

/* for (int step = ...; step > 0; step /= 2 or >>= 1) */
static bool read_halving(const at_code *code, int32_t place, reduction *of)
{
    const int32_t open = place + 1;
    if (!at_token_is(code, open, "(") || !at_token_is(code, open + 1, "int")) {
        return false;
    }
    const int32_t close = code->token[open].match, second = at_statement_end(code, open + 1, close);
    of->step = open + 2;
    of->end = at_statement_end(code, close + 1, code->count);
    return second > 0 && of->end > 0 && at_token_same(code, second, of->step) && at_token_is(code, second + 1, ">") &&
           at_token_is(code, second + 2, "0") && at_token_is(code, second + 3, ";") &&
           (at_token_is(code, second + 5, "/=") || at_token_is(code, second + 5, ">>="));
}

/* The store and the barrier before a loop that begins at `first`. */
static bool read_store(const at_code *code, int32_t first, reduction *of)
{
    if (first < 8 || !is_barrier(code, first - 4) || !at_token_is(code, first - 5, ";")) {
        return false;
    }
    int32_t at = first - 6;
    while (at > 0 && !at_token_is(code, at, ";") && !at_token_is(code, at, "{") && !at_token_is(code, at, "}")) {
        --at;
    }
    const int32_t equals = at_token_find(code, at, first - 5, "=");
    of->store = at + 1;
    of->store_end = first - 4;
    if (equals < 0 || !at_token_is(code, equals - 1, "]") || !at_token_is_word(code, equals - 2) ||
        !at_token_is(code, equals - 3, "[")) {
        return false;
    }
    of->index = of->store;
    of->index_end = equals - 3;
    of->lane = equals - 2;
    of->value = equals + 1;
    of->value_end = first - 5;
    return at_token_is_word(code, of->index);
}

static bool is_place(const at_code *code, const reduction *of, int32_t at)
{
    for (int32_t i = of->index; i < of->index_end; ++i, ++at) {
        if (at >= code->count || !at_token_same(code, i, at)) {
            return false;
        }
    }
    return at_token_is(code, at, "[");
}

/* The loop's body: one `if (lane < step)` that combines by fmaxf or +, and a barrier. */
static bool read_combine(const at_code *code, int32_t place, reduction *of)
{
    const int32_t body = code->token[place + 1].match + 1;
    const int32_t test = at_token_find(code, body, of->end, "if");
    if (test < 0 || !at_token_same(code, test + 2, of->lane) || !at_token_is(code, test + 3, "<") ||
        !at_token_same(code, test + 4, of->step)) {
        return false;
    }
    const bool largest = at_token_find(code, test, of->end, "fmaxf") > 0;
    of->adds = !largest;
    int places = 0;
    for (int32_t i = test; i < of->end; ++i) {
        places += is_place(code, of, i);
    }
    const bool barrier = is_barrier(code, of->end - 5);
    return barrier && (places == 3 || (places == 2 && at_token_find(code, test, of->end, "+=") > 0));
}

/* Where the result is read, once, behind the loop. */
static bool read_result(const at_code *code, reduction *of)
{
    for (int32_t i = of->end; i < code->count && i < of->end + 60; ++i) {
        const int32_t last = i + of->index_end - of->index;
        if (is_place(code, of, i) && at_token_is(code, last + 1, "0") && at_token_is(code, last + 2, "]")) {
            of->result = i;
            return true;
        }
    }
    return false;
}

/* A reduction through shared memory becomes one of shuffles. */
bool at_rule_shuffle(at_change *change, int32_t place)
{
    const at_code *code = change->code;
    reduction of = {0};
    if (!code->device || !read_halving(code, place, &of) || !read_store(code, place, &of) ||
        !read_combine(code, place, &of) || !read_result(code, &of)) {
        return false;
    }
    const int length = (int)code->token[of.step].length, number = at_largest_copy(code, of.lane) + 1;
    const char *step = code->text + code->token[of.step].at;
    const int32_t width = of.index_end - of.index + 3;
    at_text *text = at_change_tokens(change, of.store, of.end);
    at_text_add(text, "float all_%d = ", number);
    at_text_add_tokens(text, code, of.value, of.value_end);
    at_text_add(text, ";\n#pragma unroll\n");
    at_text_add_tokens(text, code, place, code->token[place + 1].match + 1);
    const char *shuffled = "__shfl_xor_sync(0xffffffffu, all";
    at_text_add(text, " {\n    all_%d = %sall_%d%s %s_%d, %.*s)%s;\n}", number, of.adds ? "" : "fmaxf(", number,
                of.adds ? " +" : ",", shuffled, number, length, step, of.adds ? "" : ")");
    at_text_add(at_change_tokens(change, of.result, of.result + width), "all_%d", number);
    at_change_idea(change, "line %d: a %s by shuffles instead of shared memory", at_line_of(code, place),
                   of.adds ? "sum" : "maximum");
    return true;
}

/* ---- Loads ------------------------------------------------------------------------------------------------------ */

/* A loop of a block's threads over the elements of a tile:
 *
 *     for (int i = (int)threadIdx.x; i < N; i += THREADS) { int r = i / P, c = i % P; ... to_float(FROM[c]) ... } */
typedef struct element_loop {
    at_loop loop;
    int32_t row, column; /* r and c */
    int32_t pitch, pitch_end;
    int32_t behind;         /* their declaration */
    int32_t load;           /* to_float */
    int32_t statement;      /* that loads */
    int32_t test, test_end; /* what must hold to load: "test ? to_float(...) : 0" */
} element_loop;

/* int r = i / P, c = i % P; */
static bool read_places(const at_code *code, int32_t first, element_loop *of)
{
    const int32_t i = of->loop.name, end = at_statement_end(code, first, of->loop.end);
    const int32_t comma = end < 0 ? -1 : at_token_find(code, first, end, ",");
    of->row = first + 1;
    of->column = comma + 1;
    of->pitch = comma + 5;
    of->pitch_end = end - 1;
    of->behind = end;
    return comma == first + 6 && at_token_is(code, first, "int") && at_token_is(code, first + 2, "=") &&
           at_token_same(code, first + 3, i) && at_token_is(code, first + 4, "/") &&
           at_token_is(code, comma + 2, "=") && at_token_same(code, comma + 3, i) &&
           at_token_is(code, comma + 4, "%") && of->pitch_end == of->pitch + 1 &&
           at_token_same(code, first + 5, of->pitch);
}

/* The one load of the body, and its test. */
static bool read_load(const at_code *code, element_loop *of)
{
    of->load = at_token_find(code, of->behind, of->loop.end, "to_float");
    if (of->load < 0 || at_token_find(code, of->load + 1, of->loop.end, "to_float") >= 0 ||
        !at_token_is(code, of->load + 1, "(") || !at_token_is_word(code, of->load + 2) ||
        !at_token_is(code, of->load + 3, "[") || !at_token_same(code, of->load + 4, of->column) ||
        !at_token_is(code, of->load + 5, "]") || !at_token_is(code, of->load + 6, ")")) {
        return false;
    }
    of->test_end = of->load - 1;
    of->test = of->load;
    while (of->test > of->behind && !at_token_is(code, of->test - 1, "=") && !at_token_is(code, of->test - 1, ";")) {
        --of->test;
    }
    for (int32_t at = of->behind; at >= 0 && at < of->load; at = at_statement_end(code, at, of->loop.end)) {
        of->statement = at;
    }
    return at_token_is(code, of->test_end, "?") && at_token_is(code, of->load + 7, ":") &&
           at_token_is(code, of->test - 1, "=");
}

/* The test, of the last of four columns. */
static void add_test(at_text *text, const at_code *code, const element_loop *of)
{
    for (int32_t i = of->test; i < of->test_end; ++i) {
        const bool column = at_token_same(code, i, of->column) && at_token_is_name(code, i);
        at_text_add_tokens(text, code, i, i + 1);
        at_text_add(text, column ? "_4 + 3 " : " ");
    }
}

/* The loads of a thread: four elements where they are there and lie as the contract has it, else one by one. */
static void add_quad(at_change *change, const element_loop *of)
{
    const at_code *code = change->code;
    const int length = (int)code->token[of->column].length, from_length = (int)code->token[of->load + 2].length;
    const char *column = code->text + code->token[of->column].at, *from = code->text + code->token[of->load + 2].at;
    at_text *text = at_change_tokens(change, of->statement, of->statement);
    at_text_add(text, "const bool whole_4 = ATTUNE_ALIGN %% (4 * sizeof(element)) == 0 && (");
    add_test(text, code, of);
    at_text_add(text, ");\nelement4 four_4 = {};\nif (whole_4) {\n");
    at_text_add(text, "    four_4 = *reinterpret_cast<const element4 *>(%.*s + %.*s_4);\n}\n", from_length, from,
                length, column);
    at_text_add(text, "#pragma unroll\nfor (int e_4 = 0; e_4 < 4; ++e_4) {\nconst int %.*s = %.*s_4 + e_4;\n", length,
                column, length, column);
    at_text_add(at_change_tokens(change, of->load + 2, of->load + 6), "whole_4 ? four_4.e[e_4] : %.*s[%.*s]",
                from_length, from, length, column);
    at_text_add(at_change_tokens(change, of->loop.end - 1, of->loop.end - 1), "}\n");
}

/* Elements are loaded four at a time. */
bool at_rule_widen(at_change *change, int32_t place)
{
    const at_code *code = change->code;
    element_loop of = {0};
    if (!code->device || !at_loop_read(code, place, &of.loop) || of.loop.by == 0 ||
        !at_token_is(code, of.loop.body, "{") || at_token_find(code, of.loop.from, of.loop.from_end, "threadIdx") < 0 ||
        !read_places(code, of.loop.body + 1, &of) || !read_load(code, &of) ||
        at_token_find(code, 0, code->count, "four_4") >= 0) {
        return false;
    }
    at_text *count = at_change_tokens(change, of.loop.below, of.loop.below_end);
    at_text_add(count, "(");
    at_text_add_tokens(count, code, of.loop.below, of.loop.below_end);
    at_text_add(count, ") / 4");
    const int32_t first = of.loop.body + 1;
    at_text *places = at_change_tokens(change, first, of.behind);
    const int row = (int)code->token[of.row].length, column = (int)code->token[of.column].length;
    const int name = (int)code->token[of.loop.name].length, pitch = (int)code->token[of.pitch].length;
    const char *i = code->text + code->token[of.loop.name].at, *p = code->text + code->token[of.pitch].at;
    at_text_add(places, "static_assert(%.*s %% 4 == 0, \"four elements lie in one row\");\n", pitch, p);
    at_text_add(places, "int %.*s = %.*s / (%.*s / 4), %.*s_4 = %.*s %% (%.*s / 4) * 4;", row,
                code->text + code->token[of.row].at, name, i, pitch, p, column, code->text + code->token[of.column].at,
                name, i, pitch, p);
    add_quad(change, &of);
    at_change_idea(change, "line %d: elements are loaded four at a time", at_line_of(code, place));
    return true;
}
