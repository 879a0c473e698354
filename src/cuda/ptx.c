#include "cuda/ptx.h"

#include <stdio.h>
#include <string.h>

#include "base/digest.h"

static bool in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
           c == '%';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f';
}

const char *at_ptx_skip(const char *at)
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

const char *at_ptx_opcode(const char *statement)
{
    const char *at = at_ptx_skip(statement);
    if (*at != '@') {
        return at;
    }
    at = at_ptx_skip(at + 1);
    at = *at == '!' ? at_ptx_skip(at + 1) : at;
    while (in_name(*at)) {
        ++at;
    }
    return at_ptx_skip(at);
}

/* ---- Plain ------------------------------------------------------------------------------------------------------- */

/* Behind a place in a source that begins here, `.loc 1 20 3`, which no semicolon ends. */
static const char *skip_place(const char *at)
{
    if (strncmp(at, ".loc", 4) != 0 || in_name(at[4])) {
        return at;
    }
    at += 4;
    for (int i = 0; i < 3; ++i) {
        at = at_ptx_skip(at);
        at += strspn(at, "0123456789");
    }
    return at;
}

/* Behind what begins here and is left out; `at` where nothing is. */
static const char *skip_left_out(const char *at, bool in_word)
{
    return *at == '/' ? at_ptx_skip(at) : in_word ? at : skip_place(at);
}

/* NOTE: the digest of the whole text cannot stand in the text. */
void at_ptx_plain(const char *ptx, at_text *to)
{
    static const char *const ours[] = {"%attune_", "$attune_", "attune_copies", NULL};
    char digest[AT_DIGEST_TEXT_MAX];
    const char *copied = ptx;
    bool in_word = false;
    at_digest_of(ptx, strlen(ptx), digest);
    for (const char *at = ptx; *at != '\0';) {
        const char *quote = *at == '"' ? strchr(at + 1, '"') : NULL;
        const char *behind = skip_left_out(at, in_word);
        const bool is_ours = !in_word && at_ptx_begins(at, ours);
        if (behind > at) {
            at_text_add_bytes(to, copied, (size_t)(at - copied));
            at_text_add_bytes(to, " ", 1);
            copied = behind;
            in_word = false;
        } else if (is_ours) {
            behind = at + strcspn(at, "_");
            at_text_add_bytes(to, copied, (size_t)(behind - copied));
            at_text_add(to, "_%.16s", digest);
            copied = behind;
            in_word = true;
        } else {
            behind = quote != NULL ? quote + 1 : at + 1;
            in_word = quote == NULL && in_name(*at);
        }
        at = behind;
    }
    at_text_add(to, "%s", copied);
}

/* Whether a statement, whose first word is there, ends with this character; a brace may be a statement by itself. */
static bool ends(const char *at, const char *first)
{
    const bool is_label = *at == ':' && at > first && at[1] != ':' && at[-1] != ':';
    return is_label || *at == ';' || *at == '{' || (*at == '}' && at == first);
}

const char *at_ptx_end(const char *statement)
{
    const char *first = at_ptx_skip(statement);
    for (const char *at = first; *at != '\0'; ++at) {
        if (*at == '/') {
            const char *behind = at_ptx_skip(at);
            at = behind > at ? behind - 1 : at;
        } else if (*at == '"') {
            const char *quote = strchr(at + 1, '"');
            at = quote != NULL ? quote : at;
        } else if (*at == '{' && at > first && *first != '.') {
            at += strcspn(at, "}") - 1; /* operands */
        } else if (ends(at, first)) {
            return at + 1;
        }
    }
    return statement + strlen(statement);
}

bool at_ptx_begins(const char *opcode, const char *const *list)
{
    while (*list != NULL && strncmp(opcode, *list, strlen(*list)) != 0) {
        ++list;
    }
    return *list != NULL;
}

/* Behind a directive and what separates it from the next word; NULL where another is there. */
static const char *skip_directive(const char *at, const char *directive)
{
    const size_t length = strlen(directive);
    if (strncmp(at, directive, length) != 0) {
        return NULL;
    }
    const char *next = at_ptx_skip(at + length);
    return next > at + length ? next : NULL;
}

/* The name that a statement declares as a global: the last word before its size, its value or its end; NULL for other
 * statements. */
static const char *declared(const char *statement, size_t *name_length)
{
    static const char *const linkage[] = {".visible", ".extern", ".weak", ".common", ".managed"};
    const char *at = at_ptx_skip(statement);
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

/* Whether `word` is in the text with `next` behind it, whatever blanks and comments are between them. */
static bool has_words(const char *text, const char *word, const char *next)
{
    const size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += length) {
        const bool begins = at == text || (!in_name(at[-1]) && at[-1] != '.');
        if (begins && strncmp(at_ptx_skip(at + length), next, strlen(next)) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether constant memory has an address like any other: what is written there stays until the module goes. */
static bool points_to_constants(const char *ptx)
{
    return has_words(ptx, "cvta", ".const") || (strstr(ptx, ".const") != NULL && has_words(ptx, "generic", "("));
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
    if (points_to_constants(ptx)) {
        (void)snprintf(name, bytes, "%s", "a __constant__ table, by a pointer");
        return true;
    }
    return false;
}

/* ---- Special registers --------------------------------------------------------------------------------------------
 */

static bool is_one_of(const char *const *list, const char *word, size_t length)
{
    while (*list != NULL && (strlen(*list) != length || strncmp(*list, word, length) != 0)) {
        ++list;
    }
    return *list != NULL;
}

/* What every kernel may know: who it is in its launch. The last two are the compiler's, for its stack. */
static bool may_be_read(const char *name, size_t length)
{
    static const char *const list[] = {"%tid",
                                       "%ntid",
                                       "%ctaid",
                                       "%nctaid",
                                       "%laneid",
                                       "%lanemask_eq",
                                       "%lanemask_le",
                                       "%lanemask_lt",
                                       "%lanemask_ge",
                                       "%lanemask_gt",
                                       "%clusterid",
                                       "%nclusterid",
                                       "%cluster_ctaid",
                                       "%cluster_nctaid",
                                       "%cluster_ctarank",
                                       "%cluster_nctarank",
                                       "%is_explicit_cluster",
                                       "%dynamic_smem_size",
                                       "%SP",
                                       "%SPL",
                                       NULL};
    return is_one_of(list, name, length);
}

/* Whether the name is that of a special register, whatever a scope may declare it to be. */
static bool is_special(const char *name, size_t length)
{
    static const char *const begins[] = {"%clock",    "%globaltimer", "%smid",   "%nsmid", "%warpid",    "%nwarpid",
                                         "%gridid",   "%envreg",      "%total_", "%aggr_", "%reserved_", "%current_",
                                         "%devtool_", "%atexit_",     "%pm0",    "%pm1",   "%pm2",       "%pm3",
                                         "%pm4",      "%pm5",         "%pm6",    "%pm7"};
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; ++i) {
        const size_t most = strlen(begins[i]);
        if (length >= most && strncmp(begins[i], name, most) == 0) {
            return true;
        }
    }
    return false;
}

/* A register by the names that the compiler gives: a letter or two for its type, and a number. */
static bool is_compilers(const char *name, size_t length)
{
    static const char *const types[] = {"%r", "%rd", "%rs", "%rl", "%rq", "%f", "%fd", "%h", "%hh", "%p", "%b", NULL};
    size_t letters = length;
    while (letters > 1 && name[letters - 1] >= '0' && name[letters - 1] <= '9') {
        --letters;
    }
    return letters < length && is_one_of(types, name, letters);
}

/* Whether a statement declares the register: by its name, or as one of so many, `%x<4>`. */
static bool is_declared(const char *ptx, const char *name, size_t length)
{
    size_t letters = length;
    while (letters > 1 && name[letters - 1] >= '0' && name[letters - 1] <= '9') {
        --letters;
    }
    while ((ptx = strstr(ptx, ".reg")) != NULL) {
        const size_t bytes = strcspn(ptx, ";{}");
        for (const char *at = ptx; (at = memchr(at, '%', (size_t)(ptx + bytes - at))) != NULL; ++at) {
            if ((strncmp(at, name, length) == 0 && !in_name(at[length])) ||
                (strncmp(at, name, letters) == 0 && at[letters] == '<')) {
                return true;
            }
        }
        ptx += bytes;
    }
    return false;
}

/* The bytes of a comment to the line's end. NOTE: one that might not be one, for a quote or another kind of comment
 * around it, is read as code: who hides a register there is found, and who writes such comments loses nothing. */
static size_t comment_bytes(const char *line, const char *at)
{
    const size_t bytes = strcspn(at, "\n\r\v\f");
    bool sure = memchr(line, '"', (size_t)(at - line)) == NULL && memchr(at, '"', bytes) == NULL &&
                memmem(at, bytes, "*/", 2) == NULL;
    return sure ? bytes : 1;
}

bool at_ptx_reads_special(const char *ptx, char *name, size_t bytes)
{
    const char *line = ptx;
    for (const char *at = ptx; *at != '\0';) {
        if (at[0] == '/' && at[1] == '/') {
            at += comment_bytes(line, at);
            continue;
        }
        size_t length = *at == '%' ? 1 : 0;
        while (length > 0 && in_name(at[length]) && at[length] != '%') {
            ++length;
        }
        bool known = length < 2 || is_compilers(at, length) || may_be_read(at, length);
        if (!known && (is_special(at, length) || !is_declared(ptx, at, length))) {
            (void)snprintf(name, bytes, "%.*s", (int)length, at);
            return true;
        }
        line = *at == '\n' ? at + 1 : line;
        at += length > 0 ? length : 1;
    }
    return false;
}
