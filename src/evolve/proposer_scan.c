/* Comments, and words that no kernel may have. */
#include <ctype.h>
#include <string.h>

#include "base/status.h"
#include "evolve/proposer_files.h"

/* ---- Comments ---------------------------------------------------------------------------------------------------- */

/* The end of a string or character that begins here, its quotes included; of one that is not closed, the line's. */
static const char *skip_quoted(const char *at, const char *end)
{
    const char quote = *at++;
    while (at < end && *at != quote && *at != '\n') {
        at += *at == '\\' && at + 1 < end ? 2 : 1;
    }
    return at < end && *at == quote ? at + 1 : at;
}

/* The end of a comment that begins here; NULL where none does. A line that ends in a backslash goes on. */
static const char *skip_comment(const char *at, const char *end)
{
    if (end - at >= 2 && at[0] == '/' && at[1] == '*') {
        const char *close = memmem(at + 2, (size_t)(end - at) - 2, "*/", 2);
        return close != NULL ? close + 2 : end;
    }
    if (end - at < 2 || at[0] != '/' || at[1] != '/') {
        return NULL;
    }
    while (at < end && (*at != '\n' || at[-1] == '\\')) {
        ++at;
    }
    return at;
}

attune_status at_source_strip(const char *data, size_t bytes, at_text *stripped)
{
    const char *const end = data + bytes;
    for (const char *at = data; at < end;) {
        const char *after = skip_comment(at, end);
        if (after != NULL) {
            at_text_add_bytes(stripped, " ", 1);
            for (; at < after; ++at) {
                at_text_add_bytes(stripped, "\n", *at == '\n');
            }
            continue;
        }
        after = *at == '"' || *at == '\'' ? skip_quoted(at, end) : at + 1;
        at_text_add_bytes(stripped, at, (size_t)(after - at));
        at = after;
    }
    return at_text_status(stripped, "a source without comments");
}

/* ---- Words ------------------------------------------------------------------------------------------------------- */

/* What stands anywhere in a word; in a string too, for assembler is text. */
static const struct {
    const char *word, *why;
} denied[] = {
    {"globaltimer", "a clock"},
    {"clock64", "a clock"},
    {"clock_gettime", "a clock"},
    {"gettimeofday", "a clock"},
    {"rdtsc", "a clock"},
    {"rdpmc", "a counter"},
    {"%smid", "where a block runs"},
    {"%warpid", "where a block runs"},
    {"%gridid", "a launch's number"},
    {"nanosleep", "a wait"},
    {"rdrand", "random numbers"},
    {"rdseed", "random numbers"},
    {"cpuid", "which processor it is"},
    {"syscall", "system calls"},
    {"printf", "output"},
    {"__trap", "an exit"},
    {"brkpt", "an exit"},
    {"incbin", "files"},
    {"__DATE__", "the date"},
    {"__TIME__", "the time"},
    {"__TIMESTAMP__", "the time"},
};

static bool is_listed(const char *allow, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = allow; at != NULL && (at = strstr(at, word)) != NULL; at += length) {
        if ((at == allow || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

static int line_of(const char *text, const char *at)
{
    int line = 1;
    for (; text < at; ++text) {
        line += *text == '\n';
    }
    return line;
}

/* `clock` as a whole word is the device's clock(); as a part of a word it is anybody's. */
static bool is_whole(const char *text, const char *at, size_t length)
{
    bool begins = at == text || (!isalnum((unsigned char)at[-1]) && at[-1] != '_');
    return begins && !isalnum((unsigned char)at[length]) && at[length] != '_';
}

static attune_status scan_whole(const char *name, const char *text, const char *word, const char *allow)
{
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word)) {
        AT_FAIL_IF(is_whole(text, at, strlen(word)) && !is_listed(allow, word), ATTUNE_COMPILE_ERROR,
                   "%s, line %d: '%s' is refused (--allow %s lets it through)", name, line_of(text, at), word, word);
    }
    return ATTUNE_OK;
}

/* A source includes what is beside it or the library's: what leads elsewhere is not what was answered. */
static attune_status scan_includes(const char *name, const char *text)
{
    for (const char *at = text; (at = strchr(at, '#')) != NULL;) {
        const char *const line = at++;
        at += strspn(at, " \t");
        if (strncmp(at, "include", strlen("include")) != 0) {
            continue;
        }
        size_t length = strcspn(at, "\n");
        const char *path = memchr(at, '"', length);
        path = path != NULL ? path : memchr(at, '<', length);
        size_t left = path != NULL ? length - (size_t)(path - at) : 0;
        AT_FAIL_IF(path == NULL, ATTUNE_COMPILE_ERROR, "%s, line %d: an include by a macro is refused", name,
                   line_of(text, line));
        AT_FAIL_IF(path[1] == '/' || memmem(path, left, "..", 2) != NULL, ATTUNE_COMPILE_ERROR,
                   "%s, line %d: an include that leads out of the folder is refused", name, line_of(text, line));
    }
    return ATTUNE_OK;
}

/* On a CPU: of assembler, only a barrier for the compiler, whose text is empty. */
static attune_status scan_assembler(const char *name, const char *text, const char *allow)
{
    for (const char *at = text; (at = strstr(at, "asm")) != NULL; at += strlen("asm")) {
        bool begins = at == text || (!isalnum((unsigned char)at[-1]) && at[-1] != '_') ||
                      (at - text >= 2 && strncmp(at - 2, "__", 2) == 0);
        const char *after = at + strlen("asm") + (strncmp(at + strlen("asm"), "__", 2) == 0 ? 2 : 0);
        begins = begins && !isalnum((unsigned char)*after) && *after != '_';
        const char *open = at + strcspn(at, "(;\n");
        const char *first = *open == '(' ? open + 1 + strspn(open + 1, " \t\n") : "";
        bool empty = strncmp(first, "\"\"", 2) == 0 && strspn(first + 2, " \t\n:") > 0;
        AT_FAIL_IF(begins && !empty && !is_listed(allow, "asm"), ATTUNE_COMPILE_ERROR,
                   "%s, line %d: assembler is refused; --allow asm lets it through", name, line_of(text, at));
    }
    return ATTUNE_OK;
}

static attune_status scan_text(const char *name, const char *text, const char *allow)
{
    bool cuda = strstr(name, ".cu") != NULL;
    for (size_t i = 0; i < sizeof denied / sizeof denied[0]; ++i) {
        const char *at = strstr(text, denied[i].word);
        AT_FAIL_IF(at != NULL && !is_listed(allow, denied[i].word), ATTUNE_COMPILE_ERROR,
                   "%s, line %d: '%s' (%s) is refused; --allow %s lets it through", name, line_of(text, at),
                   denied[i].word, denied[i].why, denied[i].word);
    }
    AT_FORWARD(scan_whole(name, text, "clock", allow));
    AT_FORWARD(scan_whole(name, text, "trap", allow));
    AT_FORWARD(scan_whole(name, text, "exit", allow));
    AT_FORWARD(cuda ? ATTUNE_OK : scan_assembler(name, text, allow));
    return scan_includes(name, text);
}

attune_status at_sources_scan(const at_sources *sources, const char *allow)
{
    for (int i = 0; i < sources->count; ++i) {
        const at_source_file *file = &sources->file[i];
        at_text text;
        AT_FAIL_IF(memchr(file->data, '\0', file->bytes) != NULL, ATTUNE_COMPILE_ERROR, "%s holds a zero byte",
                   file->name);
        at_text_init(&text);
        attune_status status = at_source_strip(file->data, file->bytes, &text);
        status = status == ATTUNE_OK ? scan_text(file->name, text.data, allow) : status;
        at_text_free(&text);
        AT_FORWARD(status);
    }
    return ATTUNE_OK;
}
