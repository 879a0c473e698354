#include "cuda/ptx.h"

#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/status.h"

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

/* Behind a number as ptxas reads one, whatever is glued to it. */
static const char *skip_number(const char *at)
{
    const bool is_hex = at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
    const bool is_binary = at[0] == '0' && (at[1] == 'b' || at[1] == 'B');
    const char *digits = is_hex || is_binary ? at + 2 : at;
    const char *end = digits + strspn(digits, is_hex ? "0123456789abcdefABCDEF" : is_binary ? "01" : "0123456789");
    return end > digits && *end == 'U' ? end + 1 : end;
}

/* Behind a place, a file's number, a line and a column. */
static const char *skip_numbers(const char *at)
{
    for (int i = 0; i < 3; ++i) {
        at = skip_number(at_ptx_skip(at));
    }
    return at;
}

/* Behind a word and the blanks in front of it; NULL where another is there. */
static const char *skip_word(const char *at, const char *word)
{
    at = at_ptx_skip(at);
    const size_t length = strlen(word);
    return strncmp(at, word, length) == 0 && !in_name(at[length]) ? at + length : NULL;
}

/* Behind what says of which call a place is: `, function_name $name+4, inlined_at 1 20 3`; `at` where nothing does. */
static const char *skip_call(const char *at)
{
    const char *comma = at_ptx_skip(at);
    const char *name = *comma == ',' ? skip_word(comma + 1, "function_name") : NULL;
    if (name == NULL) {
        return at;
    }
    const char *more = strchr(name, ',');
    more = more != NULL ? skip_word(more + 1, "inlined_at") : NULL;
    return more != NULL ? skip_numbers(more) : at;
}

/* Behind a place in a source that begins here, `.loc 1 20 3`, which no semicolon ends. */
static const char *skip_place(const char *at)
{
    return strncmp(at, ".loc", 4) == 0 && !in_name(at[4]) ? skip_call(skip_numbers(at + 4)) : at;
}

/* Behind what begins here and is left out; `at` where nothing is. */
static const char *skip_left_out(const char *at, bool in_word)
{
    return *at == '/' ? at_ptx_skip(at) : in_word ? at : skip_place(at);
}

/* NOTE: the digest of the whole text cannot stand in the text. */
void at_ptx_plain(const char *ptx, at_text *to)
{
    static const char *const ours[] = {"$attune_", "attune_copies", NULL};
    static const char *const registers[] = {"%attune_", NULL}; /* wherever it stands: `.f32%attune_a` */
    char digest[AT_DIGEST_TEXT_MAX];
    const char *copied = ptx;
    bool in_word = false;
    at_digest_of(ptx, strlen(ptx), digest);
    for (const char *at = ptx; *at != '\0';) {
        const char *quote = *at == '"' ? strchr(at + 1, '"') : NULL;
        const char *behind = skip_left_out(at, in_word);
        const bool is_ours = (!in_word && at_ptx_begins(at, ours)) || at_ptx_begins(at, registers);
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

/* Whether a character of a statement, whose first word is there, ends it; a brace may be a statement by itself. */
static bool ends(const char *at, const char *first)
{
    const bool is_label = *at == ':' && at > first && at[1] != ':' && at[-1] != ':';
    return is_label || *at == ';' || (*at == '{' && at == first) || (*at == '}' && at == first);
}

/* Whether a brace behind these words opens the body of an entry or a function. Others hold values or operands. */
static bool opens_body(const char *first, const char *brace)
{
    static const char *const heads[] = {".entry", ".func"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; ++i) {
        const size_t length = strlen(heads[i]);
        const char *at = memmem(first, (size_t)(brace - first), heads[i], length);
        if (*first == '.' && at != NULL && !in_name(at[length])) {
            return true;
        }
    }
    return false;
}

/* The brace that closes this one; the text's end where none does. */
static const char *closing(const char *brace)
{
    int depth = 0;
    for (const char *at = brace; *at != '\0'; ++at) {
        depth += *at == '{' ? 1 : *at == '}' ? -1 : 0;
        if (depth == 0) {
            return at;
        }
    }
    return brace + strlen(brace);
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
        } else if (ends(at, first) || (*at == '{' && opens_body(first, at))) {
            return at + 1;
        } else if (*at == '{') {
            at = closing(at);
            at -= *at == '\0';
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

/* ---- Globals ----------------------------------------------------------------------------------------------------- */

/* Behind the next `.global` that declares something; NULL where none does. An opcode's begins with a letter, and a
 * parameter's says what it points to. NOTE: nothing else is exempt: whatever stands in front of it, it declares. */
static const char *next_declaration(const char *text, const char *at)
{
    static const char directive[] = ".global";
    for (; (at = strstr(at, directive)) != NULL; at += strlen(directive)) {
        const char *word = at;
        while (word > text && (in_name(word[-1]) || word[-1] == '.')) {
            --word;
        }
        const char *before = at;
        while (before > text && is_blank(before[-1])) {
            --before;
        }
        const bool is_opcode = *word >= 'a' && *word <= 'z';
        const bool is_pointed_to = before - text >= 4 && strncmp(before - 4, ".ptr", 4) == 0;
        if (!is_opcode && !is_pointed_to && !in_name(at[strlen(directive)])) {
            return at + strlen(directive);
        }
    }
    return NULL;
}

/* To the character of `stops` that comes next, outside of brackets of all kinds; or to the text's end. */
static const char *find_outside(const char *at, const char *stops)
{
    for (int depth = 0; *at != '\0' && (depth > 0 || strchr(stops, *at) == NULL); ++at) {
        depth += strchr("([{", *at) != NULL ? 1 : strchr(")]}", *at) != NULL ? -1 : 0;
    }
    return at;
}

/* A name that a declaration declares: the last word in front of its size, its value or its end. */
typedef struct global {
    const char *at;
    size_t length;
    bool is_many; /* `name<4>` */
} global;

static global name_in(const char *at)
{
    const char *stop = find_outside(at, "[<=,;");
    global found = {.is_many = *stop == '<'};
    while (stop > at && !in_name(stop[-1])) {
        --stop;
    }
    found.at = stop;
    while (found.at > at && in_name(found.at[-1]) && (found.at == stop || *found.at != '%')) {
        --found.at;
    }
    found.length = (size_t)(stop - found.at);
    return found;
}

/* How often a word is in the text, up to two. */
static int mentions(const char *text, const char *word, size_t length)
{
    int count = 0;
    const char *end = text + strlen(text);
    const char *at = text;
    while (count < 2 && (at = memmem(at, (size_t)(end - at), word, length)) != NULL) {
        count += (at == text || !in_name(at[-1]) || *word == '%') && !in_name(at[length]);
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

/* The first global in use, with no name where there is none; `unused` counts those before it. */
static global first_used(const char *text, int *unused)
{
    *unused = 0;
    for (const char *at = text; (at = next_declaration(text, at)) != NULL;) {
        for (bool more = *at != '\0'; more;) {
            const global one = name_in(at);
            if (one.length > 0 && (one.is_many || mentions(text, one.at, one.length) > 1)) {
                return one;
            }
            *unused += one.length > 0;
            at = find_outside(at, ",;");
            more = *at == ',';
            at += more;
        }
    }
    return (global){0};
}

int at_ptx_unused_globals(const char *ptx)
{
    at_text plain;
    int unused = 0;
    at_text_init(&plain);
    at_ptx_plain(ptx, &plain);
    if (at_text_status(&plain, "plain PTX") == ATTUNE_OK) {
        (void)first_used(plain.data, &unused);
    }
    at_text_free(&plain);
    return unused;
}

/* NOTE: `asm` in a source may declare a global anywhere in a function. */
bool at_ptx_uses_global(const char *ptx, char *name, size_t bytes)
{
    at_text plain;
    int unused = 0;
    at_text_init(&plain);
    at_ptx_plain(ptx, &plain);
    const bool is_read = at_text_status(&plain, "plain PTX") == ATTUNE_OK;
    const global found = is_read ? first_used(plain.data, &unused) : (global){0};
    const bool points = is_read && points_to_constants(plain.data);
    if (found.length > 0) {
        (void)snprintf(name, bytes, "%.*s", (int)found.length, found.at);
    } else if (points || !is_read) {
        (void)snprintf(name, bytes, "%s", points ? "a __constant__ table, by a pointer" : "(no memory to look)");
    }
    at_text_free(&plain);
    return found.length > 0 || points || !is_read;
}

const char *at_ptx_hides(const char *ptx)
{
    int targets = 0;
    for (const char *at = ptx; *at != '\0';) {
        const char *quote = *at == '"' ? strchr(at + 1, '"') : NULL;
        const char *behind = *at == '/' ? at_ptx_skip(at) : at;
        targets += strncmp(at, ".target", 7) == 0 && !in_name(at[7]);
        if (*at == '#' || targets > 1) {
            return *at == '#' ? "a line that begins with #" : ".target";
        }
        at = quote != NULL ? quote + 1 : behind > at ? behind : at + 1;
    }
    return NULL;
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
