#include "evolve/scan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* ---- Tokens ----------------------------------------------------------------------------------------------------- */

static bool is_letter(char c)
{
    return isalpha((unsigned char)c) || c == '_';
}

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Behind blanks and comments; NULL where a comment does not end. *begins: whether a line has begun since. */
static const char *skip_blank(const char *at, bool *begins)
{
    for (;; ++at) {
        if (at[0] == '/' && at[1] == '/') {
            at += strcspn(at, "\n");
        } else if (at[0] == '/' && at[1] == '*') {
            at = strstr(at + 2, "*/");
            if (at == NULL) {
                return NULL;
            }
            ++at;
            continue;
        }
        *begins = *begins || *at == '\n';
        if (*at == '\0' || !isspace((unsigned char)*at)) {
            return at;
        }
    }
}

/* Bytes of a quoted text; 0 where it does not end in its line. */
static size_t quoted_length(const char *at)
{
    for (const char *end = at + 1; *end != '\0' && *end != '\n'; ++end) {
        if (*end == *at) {
            return (size_t)(end + 1 - at);
        }
        if (*end == '\\' && end[1] != '\0') {
            ++end;
        }
    }
    return 0;
}

static size_t number_length(const char *at)
{
    const char *end = at + 1;
    while (in_word(*end) || *end == '.' || ((*end == '+' || *end == '-') && strchr("eEpP", end[-1]) != NULL) ||
           (*end == '\'' && in_word(end[1]))) {
        ++end;
    }
    return (size_t)(end - at);
}

static size_t word_length(const char *at)
{
    const char *end = at;
    while (in_word(*end)) {
        ++end;
    }
    return (size_t)(end - at);
}

static size_t directive_length(const char *at)
{
    const char *end = at;
    while (*end != '\0' && (*end != '\n' || end[-1] == '\\')) {
        ++end;
    }
    return (size_t)(end - at);
}

static size_t sign_length(const char *at)
{
    static const char *const longer[] = {"<<=", ">>=", "...", "->", "++", "--", "+=", "-=", "*=", "/=", "%=", "|=",
                                         "&=",  "^=",  "==",  "!=", "<=", ">=", "&&", "||", "<<", ">>", "::"};
    for (size_t i = 0; i < sizeof longer / sizeof *longer; ++i) {
        if (strncmp(at, longer[i], strlen(longer[i])) == 0) {
            return strlen(longer[i]);
        }
    }
    return 1;
}

static size_t next_token(const char *at, bool begins, at_token_kind *kind)
{
    if (*at == '#' && begins) {
        *kind = AT_TOKEN_DIRECTIVE;
        return directive_length(at);
    }
    if (is_letter(*at)) {
        *kind = AT_TOKEN_WORD;
        return word_length(at);
    }
    if (isdigit((unsigned char)*at) || (*at == '.' && isdigit((unsigned char)at[1]))) {
        *kind = AT_TOKEN_NUMBER;
        return number_length(at);
    }
    if (*at == '"' || *at == '\'') {
        *kind = AT_TOKEN_QUOTED;
        return quoted_length(at);
    }
    *kind = AT_TOKEN_SIGN;
    return sign_length(at);
}

static attune_status add_token(at_code *code, int32_t *room, at_token token)
{
    if (code->count == *room) {
        *room = *room == 0 ? 1024 : *room * 2;
        at_token *grown = realloc(code->token, (size_t)*room * sizeof *grown);
        AT_FAIL_IF(grown == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d tokens", (int)*room);
        code->token = grown;
    }
    code->token[code->count++] = token;
    return ATTUNE_OK;
}

static attune_status find_tokens(at_code *code)
{
    int32_t room = 0;
    bool begins = true;
    const char *at = code->text;
    while ((at = skip_blank(at, &begins)) != NULL && *at != '\0') {
        at_token token = {.at = (int32_t)(at - code->text), .match = -1};
        token.length = (int32_t)next_token(at, begins, &token.kind);
        AT_FAIL_IF(token.length == 0, ATTUNE_INVALID_ARGUMENT, "a quoted text does not end: byte %d", (int)token.at);
        AT_FORWARD(add_token(code, &room, token));
        at += token.length;
        begins = false;
    }
    AT_FAIL_IF(at == NULL, ATTUNE_INVALID_ARGUMENT, "a comment does not end");
    return ATTUNE_OK;
}

/* ---- Brackets --------------------------------------------------------------------------------------------------- */

static char bracket_of(const at_code *code, int32_t index, const char *kinds)
{
    const at_token *t = &code->token[index];
    const char c = code->text[t->at];
    return t->kind == AT_TOKEN_SIGN && t->length == 1 && strchr(kinds, c) != NULL ? c : '\0';
}

/* `open` is a stack that goes through the brackets' own `match`. */
static attune_status match_brackets(at_code *code)
{
    int32_t open = -1;
    for (int32_t i = 0; i < code->count; ++i) {
        at_token *t = &code->token[i];
        if (bracket_of(code, i, "([{") != '\0') {
            t->match = open;
            open = i;
        }
        const char closes = bracket_of(code, i, ")]}");
        if (closes == '\0') {
            continue;
        }
        const char opened = open < 0 ? '\0' : code->text[code->token[open].at];
        AT_FAIL_IF(opened != (closes == ')'   ? '('
                              : closes == ']' ? '['
                                              : '{'),
                   ATTUNE_INVALID_ARGUMENT, "byte %d: '%c' closes nothing", (int)t->at, closes);
        t->match = open;
        open = code->token[open].match;
        code->token[t->match].match = i;
    }
    AT_FAIL_IF(open >= 0, ATTUNE_INVALID_ARGUMENT, "byte %d: a bracket is not closed", (int)code->token[open].at);
    return ATTUNE_OK;
}

static bool is_device(const at_code *code)
{
    static const char *const words[] = {"__global__", "__device__", "ATTUNE_INLINE", "threadIdx", "__shared__"};
    for (size_t i = 0; i < sizeof words / sizeof *words; ++i) {
        if (at_token_find(code, 0, code->count, words[i]) >= 0) {
            return true;
        }
    }
    return false;
}

attune_status at_code_scan(const char *text, at_code *code)
{
    *code = (at_code){.text = text};
    AT_FAIL_IF(strlen(text) > AT_CODE_MAX, ATTUNE_INVALID_ARGUMENT, "a source of %zu bytes: at most %d", strlen(text),
               AT_CODE_MAX);
    attune_status status = find_tokens(code);
    status = status == ATTUNE_OK ? match_brackets(code) : status;
    if (status != ATTUNE_OK) {
        at_code_free(code);
        return status;
    }
    code->device = is_device(code);
    return ATTUNE_OK;
}

void at_code_free(at_code *code)
{
    free(code->token);
    *code = (at_code){0};
}

/* ---- Words ------------------------------------------------------------------------------------------------------ */

bool at_token_is(const at_code *code, int32_t index, const char *text)
{
    if (index < 0 || index >= code->count) {
        return false;
    }
    const at_token *t = &code->token[index];
    return strlen(text) == (size_t)t->length && memcmp(code->text + t->at, text, (size_t)t->length) == 0;
}

bool at_token_same(const at_code *code, int32_t a, int32_t b)
{
    const at_token *x = &code->token[a], *y = &code->token[b];
    return x->length == y->length && memcmp(code->text + x->at, code->text + y->at, (size_t)x->length) == 0;
}

bool at_token_is_word(const at_code *code, int32_t index)
{
    return index >= 0 && index < code->count && code->token[index].kind == AT_TOKEN_WORD;
}

bool at_token_is_name(const at_code *code, int32_t index)
{
    return at_token_is_word(code, index) && !at_token_is(code, index - 1, ".") && !at_token_is(code, index - 1, "->") &&
           !at_token_is(code, index - 1, "::") && !at_token_is(code, index + 1, "(") &&
           !at_token_is(code, index + 1, "::");
}

bool at_token_assigns(const at_code *code, int32_t index)
{
    static const char *const signs[] = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++", "--", "<<=", ">>="};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; ++i) {
        if (at_token_is(code, index, signs[i])) {
            return true;
        }
    }
    return false;
}

int32_t at_token_find(const at_code *code, int32_t first, int32_t end, const char *text)
{
    for (int32_t i = first; i < end; ++i) {
        if (at_token_is(code, i, text)) {
            return i;
        }
    }
    return -1;
}

bool at_name_occurs(const at_code *code, int32_t index, int32_t first, int32_t end)
{
    for (int32_t i = first; i < end; ++i) {
        if (at_token_same(code, i, index) && at_token_is_name(code, i)) {
            return true;
        }
    }
    return false;
}

/* Whether & at `index` takes an address: nothing is before it that it could join. */
static bool takes_address(const at_code *code, int32_t index)
{
    if (!at_token_is(code, index, "&") || index == 0) {
        return false;
    }
    const at_token *before = &code->token[index - 1];
    return before->kind == AT_TOKEN_SIGN && !at_token_is(code, index - 1, ")") && !at_token_is(code, index - 1, "]");
}

bool at_name_changes(const at_code *code, int32_t index, int32_t first, int32_t end)
{
    for (int32_t i = first; i < end; ++i) {
        if (!at_token_same(code, i, index) || !at_token_is_name(code, i)) {
            continue;
        }
        if (at_token_assigns(code, i + 1) || at_token_is(code, i - 1, "++") || at_token_is(code, i - 1, "--") ||
            takes_address(code, i - 1)) {
            return true;
        }
    }
    return false;
}

/* ---- Statements ------------------------------------------------------------------------------------------------- */

static int32_t simple_end(const at_code *code, int32_t first, int32_t end)
{
    for (int32_t i = first; i < end; ++i) {
        if (at_token_is(code, i, ";")) {
            return i + 1;
        }
        if (code->token[i].match > i) {
            i = code->token[i].match;
        } else if (code->token[i].match >= 0 || code->token[i].kind == AT_TOKEN_DIRECTIVE) {
            return -1;
        }
    }
    return -1;
}

static bool is_any(const at_code *code, int32_t index, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        if (at_token_is(code, index, words[i])) {
            return true;
        }
    }
    return false;
}

static bool is_pragma(const at_code *code, int32_t index)
{
    if (index < 0 || index >= code->count || code->token[index].kind != AT_TOKEN_DIRECTIVE) {
        return false;
    }
    const char *word = code->text + code->token[index].at + 1;
    word += strspn(word, " \t");
    return strncmp(word, "pragma", 6) == 0;
}

/* Behind what stands before a statement and belongs to it. */
static int32_t skip_prefix(const at_code *code, int32_t first, int32_t end)
{
    while (first < end &&
           (is_pragma(code, first) || (at_token_is_word(code, first) && at_token_is(code, first + 1, "for")))) {
        if (at_token_is(code, first, "else") || at_token_is(code, first, "do")) {
            break;
        }
        ++first;
    }
    return first;
}

/* One past an `if` and its `else`, without going down one call a branch: chains may be long. */
static int32_t if_end(const at_code *code, int32_t first, int32_t end, int depth);

enum { DEPTH_MAX = 200 }; /* of statements in one another without braces */

static int32_t statement_end(const at_code *code, int32_t first, int32_t end, int depth)
{
    static const char *const heads[] = {"for", "while", "switch"};
    first = skip_prefix(code, first, end);
    if (first >= end || depth > DEPTH_MAX) {
        return -1;
    }
    if (at_token_is(code, first, "{")) {
        return code->token[first].match + 1;
    }
    if (at_token_is(code, first, "if")) {
        return if_end(code, first, end, depth);
    }
    if (is_any(code, first, heads, sizeof heads / sizeof *heads) && at_token_is(code, first + 1, "(")) {
        return statement_end(code, code->token[first + 1].match + 1, end, depth + 1);
    }
    if (at_token_is(code, first, "do")) {
        const int32_t body = statement_end(code, first + 1, end, depth + 1);
        return body < 0 ? -1 : simple_end(code, body, end);
    }
    if (at_token_is(code, first, "case") || at_token_is(code, first, "default")) {
        const int32_t colon = at_token_find(code, first, end, ":");
        return colon < 0 ? -1 : colon + 1;
    }
    return simple_end(code, first, end);
}

static int32_t if_end(const at_code *code, int32_t first, int32_t end, int depth)
{
    const int32_t open = first + 1 + (at_token_is(code, first + 1, "constexpr") ? 1 : 0);
    if (!at_token_is(code, open, "(")) {
        return -1;
    }
    const int32_t then = statement_end(code, code->token[open].match + 1, end, depth + 1);
    return then > 0 && at_token_is(code, then, "else") && then < end ? statement_end(code, then + 1, end, depth + 1)
                                                                     : then;
}

int32_t at_statement_end(const at_code *code, int32_t first, int32_t end)
{
    const int32_t found = statement_end(code, first, end, 0);
    return found > end ? -1 : found;
}

/* Behind "<...>" at `index`, if that is what is there and it ends soon. */
static int32_t skip_template(const at_code *code, int32_t index, int32_t end)
{
    int depth = 0;
    for (int32_t i = index; i < end && i < index + 32 && at_token_is(code, index, "<"); ++i) {
        depth += at_token_is(code, i, "<") ? 1 : at_token_is(code, i, ">") ? -1 : 0;
        if (at_token_is(code, i, ";") || at_token_is(code, i, "{")) {
            return index;
        }
        if (depth == 0) {
            return i + 1;
        }
    }
    return index;
}

int32_t at_declared_name(const at_code *code, int32_t first, int32_t end)
{
    static const char *const others[] = {"return", "else", "case", "default", "goto",   "break", "continue",
                                         "do",     "if",   "for",  "while",   "switch", "using", "typedef"};
    int words = 0;
    for (int32_t i = first; i < end; ++i) {
        if (is_any(code, i, others, sizeof others / sizeof *others)) {
            return -1;
        }
        const bool word = at_token_is_word(code, i);
        const bool ends = at_token_is(code, i + 1, "=") || at_token_is(code, i + 1, ";") ||
                          at_token_is(code, i + 1, "[") || at_token_is(code, i + 1, ",") ||
                          at_token_is(code, i + 1, "{");
        if (word && ends) {
            return words > 0 ? i : -1;
        }
        if (word) {
            ++words;
            i = skip_template(code, i + 1, end) - 1;
        } else if (words == 0 ||
                   !(at_token_is(code, i, "*") || at_token_is(code, i, "&") || at_token_is(code, i, "::"))) {
            return -1;
        }
    }
    return -1;
}

/* ---- Loops ------------------------------------------------------------------------------------------------------ */

/* The step of a head: ++name, name++ or name += by. */
static bool read_step(const at_code *code, int32_t first, at_loop *loop)
{
    const bool before = at_token_is(code, first, "++");
    const int32_t name = before ? first + 1 : first;
    if (name >= loop->close || !at_token_same(code, name, loop->name)) {
        return false;
    }
    if (before || at_token_is(code, name + 1, "++")) {
        return loop->close == first + 2;
    }
    loop->by = name + 2;
    loop->by_end = loop->close;
    return at_token_is(code, name + 1, "+=") && loop->by < loop->by_end &&
           at_token_find(code, loop->by, loop->by_end, ",") < 0;
}

static bool read_head(const at_code *code, int32_t open, at_loop *loop)
{
    loop->close = code->token[open].match;
    loop->type = open + 1;
    const int32_t first_end = simple_end(code, open + 1, loop->close);
    const int32_t second_end = first_end < 0 ? -1 : simple_end(code, first_end, loop->close);
    loop->name = first_end < 0 ? -1 : at_declared_name(code, open + 1, first_end);
    if (second_end < 0 || loop->name < 0 || !at_token_is(code, loop->name + 1, "=") ||
        !at_token_same(code, first_end, loop->name) || !at_token_is(code, first_end + 1, "<")) {
        return false;
    }
    loop->from = loop->name + 2;
    loop->from_end = first_end - 1;
    loop->below = first_end + 2;
    loop->below_end = second_end - 1;
    return loop->from < loop->from_end && loop->below < loop->below_end &&
           at_token_find(code, loop->from, loop->from_end, ",") < 0 && read_step(code, second_end, loop);
}

bool at_loop_read(const at_code *code, int32_t keyword, at_loop *loop)
{
    *loop = (at_loop){.keyword = keyword, .first = keyword};
    if (!at_token_is(code, keyword, "for") || !at_token_is(code, keyword + 1, "(") ||
        !read_head(code, keyword + 1, loop)) {
        return false;
    }
    while (loop->first > 0 && skip_prefix(code, loop->first - 1, keyword) == keyword) {
        --loop->first;
    }
    loop->body = loop->close + 1;
    loop->end = at_statement_end(code, loop->body, code->count);
    return loop->end > 0;
}

void at_loop_inside(const at_code *code, const at_loop *loop, int32_t *first, int32_t *end)
{
    const bool block = at_token_is(code, loop->body, "{");
    *first = loop->body + block;
    *end = loop->end - block;
}
