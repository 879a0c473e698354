#include "cuda/ptx.h"

#include <stdio.h>
#include <string.h>

static bool in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
           c == '%';
}

/* The name that a line declares as a global: the last word before its size, its value or its end; NULL for other lines.
 */
static const char *declared(const char *line, size_t length, size_t *name_length)
{
    static const char *const linkage[] = {".visible ", ".extern ", ".weak ", ".common ", ".managed "};
    const char *end = line + length;
    for (size_t i = 0; i < sizeof linkage / sizeof linkage[0]; ++i) {
        size_t bytes = strlen(linkage[i]);
        line += (size_t)(end - line) > bytes && strncmp(line, linkage[i], bytes) == 0 ? bytes : 0;
    }
    if (end - line < 8 || strncmp(line, ".global ", 8) != 0) {
        return NULL;
    }
    const char *stop = line;
    while (stop < end && *stop != '[' && *stop != '=' && *stop != ';') {
        ++stop;
    }
    while (stop > line && !in_name(stop[-1])) {
        --stop;
    }
    const char *start = stop;
    while (start > line && in_name(start[-1])) {
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

bool at_ptx_uses_global(const char *ptx, char *name, size_t bytes)
{
    for (const char *line = ptx; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        size_t name_length = 0;
        const char *found = declared(line, length, &name_length);
        if (found != NULL && mentions(ptx, found, name_length) > 1) {
            (void)snprintf(name, bytes, "%.*s", (int)name_length, found);
            return true;
        }
        line += length + (line[length] == '\n');
    }
    return false;
}
