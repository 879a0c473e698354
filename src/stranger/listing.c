/* NOTE: what is looked at is the assembler's own input, so that a name is what is assembled: directives are those that
 * compilers write for functions and constants, and none that makes text of text. Constants of the code can still hold
 * bytes that are such an instruction where somebody jumps into their midst; that is not looked for. */
#include "stranger/listing.h"

#include <stdbool.h>
#include <string.h>

#include "base/status.h"

enum { WORD_MAX = 48 };

/* Dice, numbers and counters of a processor, what transactions tell of interruptions, and registers that nobody saves.
 * The time stamp counter and system calls are refused where they run (sandbox.c). */
static const char *const refused[] = {
#if defined(__x86_64__)
    "rdrand",   "rdseed", "rdpid",   "rdpmc",   "rdpru",    "cpuid",   "xgetbv",   "xsetbv",   "lsl",
    "lar",      "verr",   "verw",    "str",     "sldt",     "sgdt",    "sidt",     "smsw",     "rdpkru",
    "wrpkru",   "swapgs", "monitor", "mwait",   "monitorx", "mwaitx",  "umonitor", "umwait",   "tpause",
    "xbegin",   "xend",   "xabort",  "xtest",   "fxsave",   "fxrstor", "rdfsbase", "rdgsbase", "wrfsbase",
    "wrgsbase", "rdsspd", "rdsspq",  "incsspd", "incsspq",  "rdmsr",   "wrmsr",    "lds",      "les",
    "lfs",      "lgs",    "lss",     "ds",      "es",       "fs",      "gs",       "ss",
#elif defined(__aarch64__)
    "mrs", "msr", "sys", "sysl", "wfe", "wfi", "wfet", "wfit", "tstart", "tcommit", "ttest",
#endif
    NULL};
/* As the first letters of a word. */
static const char *const refused_begin[] = {"xsave", "xrstor", NULL};
/* Of words that stand before an instruction, the first letters. */
static const char *const before_one[] = {"rep",      "lock", "data", "addr", "rex",  "notrack", "bnd",   "xacquire",
                                         "xrelease", "cs",   "evex", "vex",  "disp", "load",    "store", NULL};
static const char *const segments[] = {"%cs", "%ds", "%es", "%fs", "%gs", "%ss", NULL};

static const char *const directives[] = {
    ".text",    ".data",        ".bss",       ".section", ".file",           ".loc",         ".ident",
    ".globl",   ".global",      ".type",      ".size",    ".local",          ".comm",        ".weak",
    ".hidden",  ".internal",    ".protected", ".align",   ".balign",         ".p2align",     ".set",
    ".addrsig", ".addrsig_sym", ".arch",      ".cpu",     ".arch_extension", ".variant_pcs", NULL};
/* Where no code is. */
static const char *const constants[] = {".byte",   ".2byte",   ".4byte",   ".8byte", ".short", ".value",  ".word",
                                        ".hword",  ".xword",   ".long",    ".int",   ".quad",  ".octa",   ".float",
                                        ".double", ".single",  ".zero",    ".skip",  ".space", ".string", ".ascii",
                                        ".asciz",  ".uleb128", ".sleb128", NULL};

typedef struct listing {
    const char *what;
    bool code; /* the section that is under way may be executed */
} listing;

static bool is_among(const char *word, const char *const *names)
{
    while (*names != NULL && strcmp(word, *names) != 0) {
        ++names;
    }
    return *names != NULL;
}

static bool begins_among(const char *word, const char *const *names)
{
    while (*names != NULL && strncmp(word, *names, strlen(*names)) != 0) {
        ++names;
    }
    return *names != NULL;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '$' || c == '%' || c == '@';
}

/* The next word, in lower case, of as much as has room; NULL where there is none before `end`. */
static const char *next_word(const char *at, const char *end, char word[WORD_MAX])
{
    size_t length = 0;
    while (at < end && !is_letter(*at)) {
        ++at;
    }
    if (at == end) {
        return NULL;
    }
    for (; at < end && is_letter(*at); ++at) {
        const char lower = *at >= 'A' && *at <= 'Z' ? (char)(*at - 'A' + 'a') : *at;
        if (length < WORD_MAX - 1) {
            word[length++] = lower;
        }
    }
    word[length] = '\0';
    return at;
}

/* Whether a word is one of the instructions, or it with the letter of a size. */
static bool is_refused(const char *word)
{
    char bare[WORD_MAX];
    const size_t length = strlen(word);
    if (is_among(word, refused) || begins_among(word, refused_begin)) {
        return true;
    }
    memcpy(bare, word, length + 1);
    if (length > 1 && strchr("wlq", bare[length - 1]) != NULL) {
        bare[length - 1] = '\0';
    }
    return is_among(bare, refused);
}

static bool has(const char *begin, const char *end, const char *text)
{
    return memmem(begin, (size_t)(end - begin), text, strlen(text)) != NULL;
}

/* Of a stack protector's guard, which compilers read at the beginning of functions; of what a flag or a mode is. */
static bool is_excused(const char *word, const char *begin, const char *end)
{
#if defined(__aarch64__)
    return (strcmp(word, "mrs") == 0 || strcmp(word, "msr") == 0) &&
           (has(begin, end, "fpcr") || has(begin, end, "fpsr") || has(begin, end, "nzcv"));
#else
    return strcmp(word, "%fs") == 0 && has(begin, end, "%fs:40");
#endif
}

/* The instruction behind its prefixes, and segments wherever they are; other words are of its operands. */
static attune_status check_words(const listing *on, const char *begin, const char *end)
{
    char word[WORD_MAX];
    bool prefixes = true;
    for (const char *at = next_word(begin, end, word); at != NULL; at = next_word(at, end, word)) {
        const bool is_one = (prefixes && is_refused(word)) || is_among(word, segments);
        AT_FAIL_IF(is_one && !is_excused(word, begin, end), ATTUNE_COMPILE_ERROR,
                   "%s: it uses '%s', which tells a call from another one or outlives it; a kernel computes with its "
                   "arguments",
                   on->what, word);
        prefixes = prefixes && begins_among(word, before_one);
    }
    return ATTUNE_OK;
}

/* Constants lie in sections that say so by their name, or by flags of which none is to be executed; what a linker puts
 * beside functions is code, whatever it says. */
static bool is_code(const char *begin, const char *end)
{
    static const char *const data[] = {".rodata",     ".data",          ".bss",     ".tdata",    ".tbss",
                                       ".debug",      ".note",          ".comment", ".eh_frame", ".init_array",
                                       ".fini_array", ".preinit_array", NULL};
    static const char *const code[] = {".text", ".init", ".fini", ".plt", ".stub", ".gnu.linkonce.t", NULL};
    char word[WORD_MAX];
    const char *rest = next_word(begin, end, word);
    const char *flags = rest == NULL ? NULL : memchr(rest, '"', (size_t)(end - rest));
    const char *last = flags == NULL ? NULL : memchr(flags + 1, '"', (size_t)(end - flags - 1));
    if (rest == NULL || (last != NULL && memchr(flags, 'x', (size_t)(last - flags)) != NULL)) {
        return true;
    }
    return !begins_among(word, data) && (last == NULL || begins_among(word, code));
}

static attune_status follow_directive(listing *on, const char *word, const char *rest, const char *end)
{
    const bool known = is_among(word, directives) || strncmp(word, ".cfi_", 5) == 0;
    AT_FAIL_IF(!known && (on->code || !is_among(word, constants)), ATTUNE_COMPILE_ERROR,
               "%s: it uses the assembler's '%s'%s, where code can hide", on->what, word,
               is_among(word, constants) ? " among code" : "");
    if (strcmp(word, ".section") == 0) {
        on->code = is_code(rest, end);
    } else if (strcmp(word, ".text") == 0) {
        on->code = true;
    } else if (strcmp(word, ".data") == 0 || strcmp(word, ".bss") == 0) {
        on->code = false;
    }
    return ATTUNE_OK;
}

/* Behind its labels. */
static const char *skip_labels(const char *at, const char *end)
{
    for (;;) {
        const char *to;
        while (at < end && (*at == ' ' || *at == '\t')) {
            ++at;
        }
        for (to = at; to < end && is_letter(*to);) {
            ++to;
        }
        if (to == at || to == end || *to != ':') {
            return at;
        }
        at = to + 1;
    }
}

static attune_status check_statement(listing *on, const char *at, const char *end)
{
    char word[WORD_MAX];
    at = skip_labels(at, end);
    const char *rest = next_word(at, end, word);
    if (rest == NULL) {
        return ATTUNE_OK;
    }
    if (*at == '.') {
        return follow_directive(on, word, rest, end);
    }
    AT_FAIL_IF(has(at, end, "="), ATTUNE_COMPILE_ERROR, "%s: it gives the assembler's '%s' a meaning of its own",
               on->what, word);
    return check_words(on, at, end);
}

/* Where a comment begins: at once at any of these. */
static bool is_comment(const char *at)
{
#if defined(__x86_64__)
    return *at == '#';
#else
    return at[0] == '/' && at[1] == '/';
#endif
}

/* One line, statement by statement; nothing but what is quoted can hold a sign that ends one. */
static attune_status check_line(listing *on, const char *at, const char *end)
{
    const char *begin = at;
    bool quoted = false;
    for (; at < end && (quoted || !is_comment(at)); ++at) {
        if (*at == '"') {
            quoted = !quoted;
        } else if (quoted && *at == '\\') {
            ++at;
        } else if (!quoted && *at == ';') {
            AT_FORWARD(check_statement(on, begin, at));
            begin = at + 1;
        }
        AT_FAIL_IF(!quoted && (*at == '\'' || (at[0] == '/' && at[1] == '*')), ATTUNE_COMPILE_ERROR,
                   "%s: its assembler has a quote or a comment of the kind in which code can hide", on->what);
    }
    return check_statement(on, begin, at < end ? at : end);
}

attune_status at_listing_check(const char *what, const char *text)
{
    listing on = {what, true};
    while (*text != '\0') {
        const char *end = strchr(text, '\n');
        end = end == NULL ? text + strlen(text) : end;
        AT_FORWARD(check_line(&on, text, end));
        text = *end == '\0' ? end : end + 1;
    }
    return ATTUNE_OK;
}
