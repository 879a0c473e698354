/* Rules that change expressions, declarations and single statements. */
#include <string.h>

#include "evolve/rule.h"

static bool is_one_of(const at_code *code, int32_t index, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        if (at_token_is(code, index, words[i])) {
            return true;
        }
    }
    return false;
}
#define IS_ONE_OF(code, index, words) is_one_of((code), (index), (words), sizeof(words) / sizeof *(words))

/* ---- Exponentials ----------------------------------------------------------------------------------------------- */

/* Coefficients of 2^f - 1 without its f^0, highest first, for f in [-1/2, 1/2]. */
static const char *const power[] = {
    [3] = "0x1.c2a268p-5f * f + 0x1.f00c80p-3f) * f + 0x1.62f5fcp-1f",
    [4] = "0x1.3a02ccp-7f * f + 0x1.c9fc46p-5f) * f + 0x1.ec0378p-3f) * f + 0x1.62e12cp-1f",
    [5] = "0x1.5bba14p-10f * f + 0x1.3cea88p-7f) * f + 0x1.c6b752p-5f) * f + 0x1.ebf9bcp-3f) * f + 0x1.62e42ap-1f",
    [6] =
        ("0x1.41d330p-13f * f + 0x1.5f4598p-10f) * f + 0x1.3b2dbcp-7f) * f + 0x1.c6aed4p-5f) * f + 0x1.ebfbdap-3f) * f"
         " + 0x1.62e430p-1f"),
};

/* NOTE: adding 1.5 * 2^23 rounds to an integer, which is then in the low bits. */
static void add_host_exponential(at_text *text, int degree)
{
    at_text_add(
        text,
        "\n\n/* e^x as 2^n times a polynomial of degree %d of what is left of x. */\n"
        "static inline __attribute__((always_inline)) float exp_by_%d(float x)\n"
        "{\n"
        "    union {\n        float value;\n        unsigned bits;\n    } n = {x * 0x1.715476p0f + 0x1.8p23f}, s;\n"
        "    const float f = x * 0x1.715476p0f - (n.value - 0x1.8p23f);\n"
        "    s.bits = (n.bits + 127u) << 23;\n"
        "    const float p = (%.*s%s) * f + 1.0f;\n"
        "    const float y = x > 88.7f ? __builtin_inff() : p * s.value;\n"
        "    return x < -87.3f ? 0.0f : y;\n"
        "}",
        degree, degree, degree - 2, "((((", power[degree]);
}

static void add_device_exponential(at_text *text, int degree)
{
    at_text_add(text,
                "\n\n/* 2^x by the units for FMAs: 2^n times a polynomial of degree %d of what is left of x. */\n"
                "static __device__ __forceinline__ float exp2_by_%d(float x)\n"
                "{\n"
                "    const float n = x + 0x1.8p23f, f = x - (n - 0x1.8p23f);\n"
                "    const float s = __uint_as_float((__float_as_uint(n) + 127u) << 23);\n"
                "    const float p = (%.*s%s) * f + 1.0f;\n"
                "    return x < -126.0f ? 0.0f : x > 127.9f ? __int_as_float(0x7f800000) : p * s;\n"
                "}",
                degree, degree, degree - 2, "((((", power[degree]);
}

/* Replaces the call at `place`, or all calls of the same name. */
static void replace_calls(at_change *change, int32_t place, const char *name, bool all)
{
    for (int32_t i = all ? 0 : place; i < (all ? change->code->count : place + 1); ++i) {
        if (at_token_same(change->code, i, place) && at_token_is(change->code, i + 1, "(") &&
            !at_token_is(change->code, i - 1, "float")) {
            at_text_add(at_change_tokens(change, i, i + 1), "%s", name);
        }
    }
}

static const char *name_polynomial(bool host, int degree, char name[16])
{
    at_text word;
    at_text_init_fixed(&word, name, 16);
    at_text_add(&word, host ? "exp_by_%d" : "exp2_by_%d", degree);
    return name;
}

/* The function, where there is none yet. */
static void add_polynomial(at_change *change, bool host, int degree)
{
    char name[16];
    if (at_token_find(change->code, 0, change->code->count, name_polynomial(host, degree, name)) < 0) {
        at_text *prelude = at_change_prelude(change);
        if (host) {
            add_host_exponential(prelude, degree);
        } else {
            add_device_exponential(prelude, degree);
        }
    }
}

static bool replace_by_polynomial(at_change *change, int32_t place, bool host)
{
    const int degree = host ? 4 + at_change_draw(change, 3) : 3 + at_change_draw(change, 3);
    const bool all = at_change_draw(change, 2) == 0;
    char name[16];
    add_polynomial(change, host, degree);
    replace_calls(change, place, name_polynomial(host, degree, name), all);
    at_change_idea(change, "line %d: %sexponential%s by a polynomial of degree %d", at_line_of(change->code, place),
                   all ? "and all the same: " : "", all ? "s" : "", degree);
    return true;
}

/* libm's exponential becomes a polynomial; on a device, that of the special function unit, or the other way round. */
bool at_rule_exp(at_change *change, int32_t place)
{
    static const char *const powers[] = {"exp2f", "ptx_ex2_approx_ftz_f32"};
    const at_code *code = change->code;
    if (!at_token_is(code, place + 1, "(") || at_token_is(code, place - 1, "float")) {
        return false;
    }
    if (!code->device) {
        return at_token_is(code, place, "expf") && replace_by_polynomial(change, place, true);
    }
    if (IS_ONE_OF(code, place, powers)) {
        return replace_by_polynomial(change, place, false);
    }
    if (!at_token_is(code, place, "expf") && !at_token_is(code, place, "__expf")) {
        return false;
    }
    const char *other = at_token_is(code, place, "expf") ? "__expf" : "expf";
    replace_calls(change, place, other, true);
    at_change_idea(change, "exponentials by %s", other);
    return true;
}

/* All calls of such a polynomial get the next one. */
bool at_rule_refine(at_change *change, int32_t place)
{
    enum { LEAST = 3, HOST_MOST = 6, DEVICE_MOST = 5 };
    const bool host = !change->code->device;
    const int most = host ? HOST_MOST : DEVICE_MOST;
    char name[16];
    int degree = LEAST;
    while (degree < most && !at_token_is(change->code, place, name_polynomial(host, degree, name))) {
        ++degree;
    }
    if (degree == most || !at_token_is(change->code, place + 1, "(") || at_token_is(change->code, place - 1, "float")) {
        return false;
    }
    add_polynomial(change, host, degree + 1);
    replace_calls(change, place, name_polynomial(host, degree + 1, name), true);
    at_change_idea(change, "line %d: a polynomial of degree %d instead of %d", at_line_of(change->code, place),
                   degree + 1, degree);
    return true;
}

/* ---- What a loop need not read again ---------------------------------------------------------------------------- */

/* One past a chain of members, "a->b.c", that begins at `place`; `place` where there is none. */
static int32_t chain_end(const at_code *code, int32_t place)
{
    int32_t end = place + 1;
    if (!at_token_is_name(code, place)) {
        return place;
    }
    while ((at_token_is(code, end, "->") || at_token_is(code, end, ".")) && at_token_is_word(code, end + 1)) {
        end += 2;
    }
    return end == place + 1 ? place : end;
}

/* Whether the value of a chain is only read here. */
static bool is_read(const at_code *code, int32_t place, int32_t end)
{
    static const char *const others[] = {"(", "[", "{", "::"};
    return !IS_ONE_OF(code, end, others) && !at_token_assigns(code, end) && !at_token_is(code, place - 1, "&") &&
           !at_token_is(code, place - 1, "++") && !at_token_is(code, place - 1, "--");
}

static bool same_tokens(const at_code *code, int32_t a, int32_t b, int32_t count)
{
    for (int32_t i = 0; i < count; ++i) {
        if (b + i >= code->count || !at_token_same(code, a + i, b + i)) {
            return false;
        }
    }
    return true;
}

/* The innermost loop that reads `place` again and again. */
static bool loop_that_repeats(const at_code *code, int32_t place, at_loop *loop)
{
    for (int32_t i = place - 1; i >= 0; --i) {
        if (at_token_is(code, i, "for") && at_loop_read(code, i, loop) && loop->below <= place && place < loop->end) {
            return true;
        }
    }
    return false;
}

/* Whether the loop gives something new to the chain's first name, or to a member of its last one's name. */
static bool chain_changes(const at_code *code, int32_t place, int32_t end, const at_loop *loop)
{
    for (int32_t i = loop->keyword; i < loop->end; ++i) {
        const bool first = at_token_same(code, i, place) && at_token_is_name(code, i);
        const bool declared = first && (at_token_is_word(code, i - 1) || at_token_is(code, i - 1, "*")) &&
                              !at_token_is(code, i - 1, "return") && at_token_is(code, i + 1, "=");
        if (declared || (at_token_same(code, i, end - 1) && at_token_assigns(code, i + 1))) {
            return true;
        }
    }
    return at_name_changes(code, place, loop->keyword, loop->end) || at_token_same(code, place, loop->name);
}

static bool stands_in_block(const at_code *code, int32_t first)
{
    static const char *const before[] = {"{", "}", ";"};
    return IS_ONE_OF(code, first - 1, before);
}

/* Reads a member that a loop reads again and again once, before it. */
bool at_rule_hoist(at_change *change, int32_t place)
{
    const at_code *code = change->code;
    const int32_t end = chain_end(code, place);
    at_loop loop;
    if (end == place || !is_read(code, place, end) || !loop_that_repeats(code, place, &loop) ||
        !stands_in_block(code, loop.first) || chain_changes(code, place, end, &loop)) {
        return false;
    }
    const int length = (int)code->token[end - 1].length, number = at_largest_copy(code, end - 1) + 1;
    const char *word = code->text + code->token[end - 1].at;
    at_text *before = at_change_tokens(change, loop.first, loop.first);
    at_text_add(before, code->device ? "const auto " : "const __typeof__(");
    if (!code->device) {
        at_text_add_tokens(before, code, place, end);
        at_text_add(before, ") ");
    }
    at_text_add(before, "%.*s_%d = ", length, word, number);
    at_text_add_tokens(before, code, place, end);
    at_text_add(before, ";\n");
    for (int32_t i = loop.below; i < loop.end; ++i) {
        if (at_token_is_name(code, i) && chain_end(code, i) == i + end - place &&
            same_tokens(code, place, i, end - place) && is_read(code, i, i + end - place)) {
            at_text_add(at_change_tokens(change, i, i + end - place), "%.*s_%d", length, word, number);
        }
    }
    at_change_idea(change, "line %d: %.*s read once before the loop", at_line_of(code, place), length, word);
    return true;
}

/* ---- Pointers --------------------------------------------------------------------------------------------------- */

/* The bracket that `index` stands in; -1 at the file's level. */
static int32_t opens_around(const at_code *code, int32_t index)
{
    for (int32_t i = index - 1; i >= 0; --i) {
        if (code->token[i].match > index) {
            return i;
        }
        i = code->token[i].match >= 0 && code->token[i].match < i ? code->token[i].match : i;
    }
    return -1;
}

static bool is_parameter(const at_code *code, int32_t name)
{
    const int32_t open = opens_around(code, name);
    const bool last = at_token_is(code, name + 1, ",") || at_token_is(code, name + 1, ")");
    return open > 0 && last && at_token_is(code, open, "(") && at_token_is_word(code, open - 1) &&
           at_token_is(code, code->token[open].match + 1, "{");
}

static bool is_local_pointer(const at_code *code, int32_t name)
{
    const int32_t open = opens_around(code, name);
    int32_t first = name - 1;
    while (first > 0 && (at_token_is_word(code, first) || at_token_is(code, first, "*"))) {
        --first;
    }
    return open > 0 && at_token_is(code, open, "{") && at_token_is(code, open - 1, ")") &&
           at_token_is(code, name + 1, "=") && stands_in_block(code, first + 1) &&
           at_declared_name(code, first + 1, name + 2) == name;
}

/* Promises that nothing else points to where a pointer does. */
bool at_rule_restrict(at_change *change, int32_t place)
{
    const at_code *code = change->code;
    const int32_t name = place + 1;
    if (!at_token_is_word(code, place - 1) || !at_token_is_word(code, name) ||
        !(is_parameter(code, name) || is_local_pointer(code, name))) {
        return false;
    }
    at_text_add(at_change_tokens(change, name, name), code->device ? "__restrict__ " : "restrict ");
    at_change_idea(change, "line %d: %.*s is restricted", at_line_of(code, place), (int)code->token[name].length,
                   code->text + code->token[name].at);
    return true;
}

/* ---- Prefetches ------------------------------------------------------------------------------------------------- */

/* The hint of a prefetch that is there: how long the line is to be kept. */
static bool change_hint(at_change *change, int32_t place)
{
    const at_code *code = change->code;
    const int32_t open = place + 1, close = at_token_is(code, open, "(") ? code->token[open].match : -1;
    int32_t comma[2], commas = 0;
    for (int32_t i = open + 1; i < close; ++i) {
        i = code->token[i].match > i ? code->token[i].match : i;
        if (at_token_is(code, i, ",") && commas < 2) {
            comma[commas++] = i;
        }
    }
    if (close < 0 || commas == 0) {
        return false;
    }
    const int kept = at_change_draw(change, 4);
    at_text_add(at_change_tokens(change, commas == 2 ? comma[1] : close, close), ", %d", kept);
    at_change_idea(change, "line %d: prefetched lines are kept at %d of 3", at_line_of(code, place), kept);
    return true;
}

/* Asks in advance for what a pointer that goes with a loop will reach. */
static bool add_prefetch(at_change *change, int32_t name)
{
    static const int ahead[] = {256, 1024, 4096};
    const at_code *code = change->code;
    at_loop loop;
    if (!at_token_is(code, name - 1, "*") || !at_token_is(code, name + 1, "=")) {
        return false;
    }
    const int32_t end = at_statement_end(code, name, code->count);
    if (end < 0 || !at_enclosing_loop(code, name, &loop) || !at_name_occurs(code, loop.name, name + 2, end)) {
        return false;
    }
    const int bytes = ahead[at_change_draw(change, 3)], length = (int)code->token[name].length;
    at_text_add(at_change_tokens(change, end, end), "__builtin_prefetch((const void *)((uintptr_t)%.*s + %d), 0);\n",
                length, code->text + code->token[name].at, bytes);
    at_change_idea(change, "line %d: what is %d bytes on is asked for", at_line_of(code, name), bytes);
    return true;
}

bool at_rule_prefetch(at_change *change, int32_t place)
{
    if (change->code->device) {
        return false;
    }
    return at_token_is(change->code, place, "__builtin_prefetch") ? change_hint(change, place)
                                                                  : add_prefetch(change, place);
}

/* ---- Order ------------------------------------------------------------------------------------------------------ */

/* What a statement does, as far as its order matters. */
typedef struct effects {
    bool reads, writes, odd; /* of memory; `odd`: not to be moved */
} effects;

static effects effects_of(const at_code *code, int32_t first, int32_t end)
{
    static const char *const pure[] = {"expf", "fmaxf", "fminf", "fmaf", "sizeof", "min", "max", "float4", "splat"};
    static const char *const odd[] = {"return", "break",  "continue", "goto", "case",   "default", "using",
                                      "static", "extern", "typedef",  "asm",  "struct", "enum",    "static_assert"};
    effects of = {0};
    for (int32_t i = first; i < end; ++i) {
        const bool call = at_token_is_word(code, i) && at_token_is(code, i + 1, "(") && !IS_ONE_OF(code, i, pure);
        const bool member = at_token_is(code, i - 1, "]") || at_token_is(code, i - 1, ")") ||
                            at_token_is(code, i - 2, "->") || at_token_is(code, i - 2, ".");
        of.odd =
            of.odd || IS_ONE_OF(code, i, odd) || at_token_is(code, i, "{") || code->token[i].kind == AT_TOKEN_DIRECTIVE;
        of.writes = of.writes || call || (at_token_assigns(code, i) && member) || at_token_is(code, first, "*");
        of.reads =
            of.reads || call || at_token_is(code, i, "[") || at_token_is(code, i, "->") || at_token_is(code, i, "*");
    }
    return of;
}

/* Whether names that the first statement sets or declares are in the second. */
static bool feeds(const at_code *code, int32_t first, int32_t end, int32_t other, int32_t other_end)
{
    for (int32_t i = first; i < end; ++i) {
        const bool set = at_token_is_word(code, i) && (at_name_changes(code, i, i, i + 1) ||
                                                       at_token_is(code, i + 1, "[") || at_token_is(code, i + 1, ","));
        for (int32_t j = other; set && j < other_end; ++j) {
            if (at_token_same(code, i, j)) {
                return true;
            }
        }
    }
    return at_declared_name(code, first, end) >= 0 &&
           at_name_occurs(code, at_declared_name(code, first, end), other, other_end);
}

static int32_t statement_before(const at_code *code, int32_t semicolon)
{
    for (int32_t i = semicolon - 1; i > 0; --i) {
        if (at_token_is(code, i, ";") || at_token_is(code, i, "{")) {
            return i + 1;
        }
        if (at_token_is(code, i, "}")) {
            return at_token_is(code, code->token[i].match - 1, "=") ? -1 : i + 1;
        }
        if (code->token[i].match > i) {
            return -1;
        }
        i = code->token[i].match >= 0 ? code->token[i].match : i;
    }
    return -1;
}

static bool is_simple(const at_code *code, int32_t first, int32_t end)
{
    static const char *const heads[] = {"for", "while", "if", "do", "switch", "else"};
    return end > first + 1 && !IS_ONE_OF(code, first, heads) && at_token_is(code, end - 1, ";");
}

/* Exchanges two statements that have nothing to do with each other. */
bool at_rule_swap(at_change *change, int32_t place)
{
    const at_code *code = change->code;
    const int32_t around = opens_around(code, place);
    const int32_t first = statement_before(code, place), second = place + 1;
    if (first < 0 || around < 1 || !at_token_is(code, around, "{") || !at_token_is(code, around - 1, ")")) {
        return false;
    }
    const int32_t end = at_statement_end(code, second, code->token[around].match);
    if (end < 0 || !is_simple(code, first, second) || !is_simple(code, second, end)) {
        return false;
    }
    const effects one = effects_of(code, first, second), other = effects_of(code, second, end);
    if (one.odd || other.odd || (one.writes && (other.writes || other.reads)) || (other.writes && one.reads) ||
        feeds(code, first, second, second, end) || feeds(code, second, end, first, second)) {
        return false;
    }
    at_text *text = at_change_tokens(change, first, end);
    at_text_add_tokens(text, code, second, end);
    at_text_add(text, "\n");
    at_text_add_tokens(text, code, first, second);
    at_change_idea(change, "line %d: statement exchanged with the next", at_line_of(code, first));
    return true;
}

/* ---- Numbers with a name ---------------------------------------------------------------------------------------- */

/* "constexpr int NAME = 2;" and "enum { NAME = 2 }": whether NAME is at `place`. */
static bool names_constant(const at_code *code, int32_t place)
{
    static const char *const ends[] = {",", ";", "}"};
    const bool numbered = at_token_is_name(code, place) && at_token_is(code, place + 1, "=") &&
                          place + 2 < code->count && code->token[place + 2].kind == AT_TOKEN_NUMBER &&
                          IS_ONE_OF(code, place + 3, ends);
    const int32_t around = numbered ? opens_around(code, place) : -1;
    const bool enumerates = around > 0 && at_token_is(code, around, "{") &&
                            (at_token_is(code, around - 1, "enum") || at_token_is(code, around - 2, "enum"));
    int32_t first = place;
    while (numbered && first > 0 && at_token_is_word(code, first - 1)) {
        --first;
    }
    return enumerates || (numbered && (at_token_find(code, first, place, "constexpr") >= 0 ||
                                       at_token_find(code, first, place, "const") >= 0));
}

/* A whole number below 1,000 in decimal; -1 where it is none. */
static int small_number(const at_code *code, int32_t index)
{
    const at_token *t = &code->token[index];
    int number = 0;
    for (int32_t i = 0; i < t->length; ++i) {
        const char digit = code->text[t->at + i];
        if (digit < '0' || digit > '9' || number > 99) {
            return -1;
        }
        number = 10 * number + digit - '0';
    }
    return number;
}

/* Another number of stages, pad or way to swizzle, where a source has it as a constant: twice, half, one more or less.
 */
bool at_rule_constant(at_change *change, int32_t place)
{
    const at_code *code = change->code;
    const int number = names_constant(code, place) ? small_number(code, place + 2) : -1;
    const int others[] = {number + 1, number - 1, 2 * number, number / 2};
    int may[4], count = 0;
    for (int i = 0; number >= 0 && i < 4; ++i) {
        const bool exact = i < 3 || number % 2 == 0;
        if (exact && others[i] >= 0 && others[i] != number && (i < 2 || number > 2)) {
            may[count++] = others[i];
        }
    }
    if (count == 0) {
        return false;
    }
    const int chosen = may[at_change_draw(change, count)];
    at_text_add(at_change_tokens(change, place + 2, place + 3), "%d", chosen);
    at_change_idea(change, "line %d: %.*s is %d, which was %d", at_line_of(code, place), (int)code->token[place].length,
                   code->text + code->token[place].at, chosen, number);
    return true;
}
