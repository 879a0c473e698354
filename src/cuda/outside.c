#include "cuda/outside.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* The run-time compiler has no option against any of these, and lets none be defined otherwise. */
static const char *const refused[] = {"__DATE__",      "__TIME__",           "__TIMESTAMP__",
                                      "__has_include", "__has_include_next", "__has_embed"};
enum { REFUSED = sizeof refused / sizeof refused[0], LONGEST = 18 };

typedef struct scan {
    const at_build *build;
    const char *file;
    bool skips;  /* comments, texts and characters */
    bool unsure; /* where they begin and end */
    bool pastes; /* a macro joins words */
    /* piece[n][i] has bit k where the letters from i to k of name n are a word somewhere. */
    uint32_t piece[REFUSED][LONGEST];
} scan;

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* ---- What does not count ---------------------------------------------------------------------------------------- */

/* A copy in which lines that go on are one, for the caller to free. NOTE: whether blanks may be behind the backslash
 * is up to the compiler; so are trigraphs, and where a raw string ends takes more than this. */
static char *joined(const char *text, bool *unsure)
{
    char *copy = calloc(1, strlen(text) + 1);
    char *to = copy;
    *unsure = strstr(text, "R\"") != NULL || strstr(text, "?\?/") != NULL;
    while (copy != NULL && *text != '\0') {
        const char *end = text + 1 + strspn(text + 1, " \t\r\v\f");
        if (*text == '\\' && *end == '\n') {
            *unsure = *unsure || (end > text + 1 && !(end == text + 2 && text[1] == '\r'));
            text = end + 1;
        } else {
            *to++ = *text++;
        }
    }
    if (copy != NULL) {
        *to = '\0';
    }
    return copy;
}

/* Behind a text or a character; behind its first mark where its line has no second. */
static const char *skip_quoted(scan *on, const char *at)
{
    const char *end = at + 1;
    while (*end != *at && *end != '\n' && *end != '\0') {
        end += *end == '\\' && end[1] != '\0' && end[1] != '\n' ? 2 : 1;
    }
    on->unsure = on->unsure || *end != *at;
    return *end == *at ? end + 1 : at + 1;
}

static const char *skip_comment(const char *at)
{
    if (at[1] == '/') {
        return at + strcspn(at, "\n");
    }
    const char *end = strstr(at + 2, "*/");
    return end != NULL ? end + 2 : at + strlen(at);
}

/* Behind a number, whose digits may be parted by apostrophes. */
static const char *skip_number(const char *at)
{
    while (is_word(*at) || *at == '.' || (*at == '\'' && is_word(at[1]))) {
        ++at;
    }
    return at;
}

/* ---- What does -------------------------------------------------------------------------------------------------- */

static attune_status add_word(scan *on, const char *word, size_t length)
{
    for (int n = 0; n < REFUSED; ++n) {
        const size_t whole = strlen(refused[n]);
        AT_FAIL_IF(length == whole && strncmp(refused[n], word, length) == 0, ATTUNE_COMPILE_ERROR,
                   "%s: %s uses %s, by which equal sources would become other code on another day or machine",
                   on->build->source.name, on->file, refused[n]);
        for (size_t i = 0; i + length <= whole; ++i) {
            if (strncmp(refused[n] + i, word, length) == 0) {
                on->piece[n][i] |= 1U << (i + length);
            }
        }
    }
    return ATTUNE_OK;
}

static const char *skip_blanks(const char *at)
{
    while (is_blank(*at) || (at[0] == '/' && at[1] == '*')) {
        at = is_blank(*at) ? at + 1 : skip_comment(at);
    }
    return at;
}

/* Whether the build brings a header of that name. */
static bool is_given(const at_build *build, const char *name, size_t bytes)
{
    for (int i = 0; i < build->header_count; ++i) {
        if (strlen(build->header_name[i]) == bytes && strncmp(build->header_name[i], name, bytes) == 0) {
            return true;
        }
    }
    return false;
}

/* A directive, from its mark on: what it includes is said in so many letters, and lies in the folder, or nowhere. */
static attune_status check_directive(const scan *on, const char *at)
{
    static const char *const draws[] = {"include", "include_next", "import", "embed"};
    const char *name = skip_blanks(at);
    size_t length = 0;
    bool is_draw = false;
    while (is_word(name[length])) {
        ++length;
    }
    for (size_t i = 0; i < sizeof draws / sizeof draws[0]; ++i) {
        is_draw |= strlen(draws[i]) == length && strncmp(draws[i], name, length) == 0;
    }
    if (!is_draw) {
        return ATTUNE_OK;
    }
    const char *what = skip_blanks(name + length);
    const int line = (int)strcspn(what, "\n");
    const size_t bytes = *what == '"' || *what == '<' ? strcspn(what + 1, *what == '"' ? "\"\n" : ">\n") : 0;
    const char *path = what + 1;
    bool inside = bytes > 0 && path[0] != '/' && memmem(path, bytes, "..", 2) == NULL;
    AT_FAIL_IF(!inside && !is_given(on->build, path, bytes), ATTUNE_COMPILE_ERROR,
               "%s: %s includes %.*s: a header's name is needed, of the kernel's folder or of attune's",
               on->build->source.name, on->file, line < 100 ? line : 100, what);
    return ATTUNE_OK;
}

static attune_status read_words(scan *on, const char *at)
{
    bool begins = true; /* a line */
    while (*at != '\0') {
        const size_t mark = at[0] == '#' ? 1 : at[0] == '%' && at[1] == ':' ? 2 : 0;
        if (on->skips && at[0] == '/' && (at[1] == '/' || at[1] == '*')) {
            at = skip_comment(at);
            continue;
        }
        if (mark > 0 && strncmp(at, at + mark, mark) == 0) {
            on->pastes = true;
            at += mark;
        } else if (mark > 0 && (begins || !on->skips)) {
            AT_FORWARD(check_directive(on, at + mark));
        }
        begins = *at == '\n' || (begins && is_blank(*at));
        if (on->skips && (*at == '"' || *at == '\'')) {
            at = skip_quoted(on, at);
        } else if (isdigit((unsigned char)*at) && on->skips) {
            at = skip_number(at);
        } else if (is_word(*at)) {
            const char *word = at;
            while (is_word(*at)) {
                ++at;
            }
            AT_FORWARD(add_word(on, word, (size_t)(at - word)));
        } else {
            at += mark > 0 ? mark : 1;
        }
    }
    return ATTUNE_OK;
}

/* ---- The whole -------------------------------------------------------------------------------------------------- */

static attune_status read_file(scan *on, const char *file, const char *text)
{
    char *copy = joined(text, &on->unsure);
    AT_FAIL_IF(copy == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a copy of %s", file);
    on->file = file;
    on->skips = !on->unsure;
    attune_status status = read_words(on, copy);
    if (status == ATTUNE_OK && on->unsure && on->skips) {
        on->skips = false; /* again, and everything counts */
        status = read_words(on, copy);
    }
    free(copy);
    return status;
}

/* Whether words of the text, joined, make up the name. */
static bool is_made_up(const scan *on, int n)
{
    const size_t whole = strlen(refused[n]);
    uint32_t reached = 1;
    for (size_t i = 0; i < whole; ++i) {
        reached |= (reached >> i & 1) != 0 ? on->piece[n][i] : 0;
    }
    return (reached >> whole & 1) != 0;
}

attune_status at_build_outside(const at_build *build)
{
    scan on = {.build = build};
    AT_FORWARD(read_file(&on, build->source.name, (const char *)build->source.data));
    for (int i = 0; i < build->header_count; ++i) {
        AT_FORWARD(read_file(&on, build->header_name[i], build->header_text[i]));
    }
    for (int n = 0; on.pastes && n < REFUSED; ++n) {
        AT_FAIL_IF(is_made_up(&on, n), ATTUNE_COMPILE_ERROR,
                   "%s: words of it can be pasted to %s, by which equal sources would become other code on another "
                   "day or machine",
                   build->source.name, refused[n]);
    }
    return ATTUNE_OK;
}
