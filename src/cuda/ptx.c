#include "cuda/ptx.h"

#include <stdio.h>
#include <string.h>

static bool in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
           c == '%';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Behind blanks and comments. */
static const char *skip_blanks(const char *at)
{
    const char *before = NULL;
    while (at != before) {
        before = at;
        at += is_blank(*at);
        if (strncmp(at, "/*", 2) == 0) {
            const char *end = strstr(at + 2, "*/");
            at = end != NULL ? end + 2 : at + strlen(at);
        } else if (strncmp(at, "//", 2) == 0) {
            at += strcspn(at, "\n");
        }
    }
    return at;
}

/* Behind a directive and what separates it from the next word; NULL where another stands there. */
static const char *skip_directive(const char *at, const char *directive)
{
    const size_t length = strlen(directive);
    if (strncmp(at, directive, length) != 0) {
        return NULL;
    }
    const char *next = skip_blanks(at + length);
    return next > at + length ? next : NULL;
}

/* The name that a statement declares as a global: the last word before its size, its value or its end; NULL for other
 * statements. */
static const char *declared(const char *statement, size_t *name_length)
{
    static const char *const linkage[] = {".visible", ".extern", ".weak", ".common", ".managed"};
    const char *at = skip_blanks(statement);
    for (size_t i = 0; i < sizeof linkage / sizeof linkage[0]; ++i) {
        const char *next = skip_directive(at, linkage[i]);
        at = next != NULL ? next : at;
    }
    at = skip_directive(at, ".global");
    if (at == NULL) {
        return NULL;
    }
    const char *stop = at + strcspn(at, "[=;");
    while (stop > at && !in_name(stop[-1])) {
        --stop;
    }
    const char *start = stop;
    while (start > at && in_name(start[-1])) {
        --start;
    }
    *name_length = (size_t)(stop - start);
    return *name_length > 0 ? start : NULL;
}

/* How often a word is in the text, up to two. */
static int mentions(const char *text, const char *word, size_t length)
{
    int count = 0;
    const char *end = text + strlen(text);
    const char *at = text;
    while (count < 2 && (at = memmem(at, (size_t)(end - at), word, length)) != NULL) {
        count += (at == text || !in_name(at[-1])) && !in_name(at[length]);
        at += length;
    }
    return count;
}

/* NOTE: statements, not lines: `asm` in a source may declare a global anywhere in a function. */
bool at_ptx_uses_global(const char *ptx, char *name, size_t bytes)
{
    const char *statement = ptx;
    while (*statement != '\0') {
        size_t name_length = 0;
        const char *found = declared(statement, &name_length);
        if (found != NULL && mentions(ptx, found, name_length) > 1) {
            (void)snprintf(name, bytes, "%.*s", (int)name_length, found);
            return true;
        }
        statement += strcspn(statement, ";{}:\n");
        statement += *statement != '\0';
    }
    return false;
}
