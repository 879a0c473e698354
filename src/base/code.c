#include "base/code.h"

#include <stdbool.h>
#include <string.h>

/* What is between the last character and the next. */
typedef enum between { NOTHING, BLANK, NEWLINE } between;

typedef struct writer {
    at_sha256 *sha;
    between before;
    bool begun;
} writer;

static void add(writer *to, const char *text, size_t bytes)
{
    if (to->begun && to->before != NOTHING) {
        at_sha256_add(to->sha, to->before == NEWLINE ? "\n" : " ", 1);
    }
    at_sha256_add(to->sha, text, bytes);
    to->before = NOTHING;
    to->begun = true;
}

static void leave(writer *to, between what)
{
    to->before = what > to->before ? what : to->before;
}

/* Behind a comment that begins here; a block comment that spans lines still is one blank. */
static const char *skip_comment(const char *at)
{
    if (at[1] == '/') {
        return at + strcspn(at, "\n");
    }
    const char *end = strstr(at + 2, "*/");
    return end != NULL ? end + 2 : at + strlen(at);
}

/* Behind a string or character constant, or at the end of its line. */
static const char *skip_quoted(const char *at)
{
    char quote = *at++;
    while (*at != '\0' && *at != '\n' && *at != quote) {
        at += at[0] == '\\' && at[1] != '\0' ? 2 : 1;
    }
    return *at == quote ? at + 1 : at;
}

void at_code_add(at_sha256 *sha, const char *text)
{
    writer to = {.sha = sha};
    while (*text != '\0') {
        if (text[0] == '/' && (text[1] == '/' || text[1] == '*')) {
            text = skip_comment(text);
            leave(&to, BLANK);
        } else if (strchr(" \t\r\v\f\n", *text) != NULL) {
            leave(&to, *text++ == '\n' ? NEWLINE : BLANK);
        } else {
            const char *end = *text == '"' || *text == '\'' ? skip_quoted(text) : text + 1;
            add(&to, text, (size_t)(end - text));
            text = end;
        }
    }
    /* The end of a file, so that two files are not the same as their concatenation. */
    at_sha256_add(sha, "", 1);
}
