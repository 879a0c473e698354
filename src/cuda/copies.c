#include "cuda/copies.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cuda/ptx.h"

/* A thread's copies: a ring of entries of four words, where to, sizes and group, and where from; behind it how many
 * were done, how many put down, and how many groups were closed. */
#define RING "128"
#define STATE "2048"
#define BYTES "2064"

static const char *const copying[] = {"cp.async.ca.", "cp.async.cg.", NULL};
static const char *const closing[] = {"cp.async.commit_group", NULL};
static const char *const waiting_some[] = {"cp.async.wait_group", NULL};
static const char *const waiting_all[] = {"cp.async.wait_all", NULL};
static const char *const arriving[] = {"cp.async.mbarrier.arrive", NULL};
static const char *const others[] = {"cp.async.bulk", NULL};
static const char *const any[] = {"cp.async", NULL};
static const char address_size[] = ".address_size";

/* A part of a statement. */
typedef struct word {
    const char *at;
    int bytes;
} word;

typedef struct pass {
    const char *ptx;
    at_text *to;
    at_copies made;
    int place;        /* a number for labels */
    int depth;        /* of braces */
    int entries;      /* whose bodies were found */
    bool is_lost;     /* a brace closed what none had opened */
    bool in_function; /* not an entry */
    bool shares;      /* functions copy too */
} pass;

static bool is_of_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static word trimmed(const char *at, const char *end)
{
    while (at < end && isspace((unsigned char)*at)) {
        ++at;
    }
    while (end > at && isspace((unsigned char)end[-1])) {
        --end;
    }
    return (word){at, (int)(end - at)};
}

/* ---- What a register is ------------------------------------------------------------------------------------------ */

/* Whether a statement that declares registers declares this one, by its name or as one of so many, `%p<4>`. */
static bool declares(const char *names, const char *end, const word *name)
{
    int letters = name->bytes;
    while (letters > 0 && isdigit((unsigned char)name->at[letters - 1])) {
        --letters;
    }
    for (const char *at = names; at < end; ++at) {
        const bool begins = (!is_of_name(at[-1]) || *at == '%') && is_of_name(*at);
        const bool is_whole = begins && strncmp(at, name->at, (size_t)name->bytes) == 0 && !is_of_name(at[name->bytes]);
        const bool is_range = begins && letters < name->bytes && strncmp(at, name->at, (size_t)letters) == 0 &&
                              *at_ptx_skip(at + letters) == '<';
        if (is_whole || is_range) {
            return true;
        }
    }
    return false;
}

/* Whether a block that is open here still is at `site`. */
static bool is_open(const char *at, const char *site)
{
    int depth = 0;
    for (; at < site && depth >= 0; ++at) {
        depth += *at == '{' ? 1 : *at == '}' ? -1 : 0;
    }
    return depth >= 0;
}

/* The type, ".pred", with which a name was declared last before `site`, in a block that holds it; empty where it is no
 * register. */
static word type_of(const char *ptx, const char *site, const word *name)
{
    word type = {site, 0};
    for (const char *at = ptx; (at = strstr(at, ".reg")) != NULL && at < site;) {
        const char *begin = at_ptx_skip(at + 4);
        const char *end = begin + strcspn(begin, ";{}");
        const int bytes = 1 + (int)strspn(begin + (*begin == '.'), "abcdefghijklmnopqrstuvwxyz0123456789");
        if (*begin == '.' && declares(begin + bytes, end, name) && is_open(end, site)) {
            type = (word){begin, bytes};
        }
        at = end;
    }
    return type;
}

static bool is_register(const pass *on, const char *site, const word *name)
{
    return name->bytes > 0 && !isdigit((unsigned char)name->at[0]) &&
           (name->at[0] == '%' || type_of(on->ptx, site, name).bytes > 0);
}

static bool is_predicate(const pass *on, const char *site, const word *name)
{
    const word type = type_of(on->ptx, site, name);
    return type.bytes == 5 && strncmp(type.at, ".pred", 5) == 0;
}

/* ---- Statements -------------------------------------------------------------------------------------------------- */

enum { OPERANDS_MAX = 6 };

/* The operands, without brackets, of a statement that ends at `end`. */
static int operands_of(const char *opcode, const char *end, word operand[OPERANDS_MAX])
{
    const char *at = opcode + strcspn(opcode, " \t\r\n\f[;");
    const char *last = end - 1; /* the semicolon */
    int count = 0;
    while (at < last && count < OPERANDS_MAX) {
        const char *comma = memchr(at, ',', (size_t)(last - at));
        const char *stop = comma != NULL ? comma : last;
        word one = trimmed(at, stop);
        if (one.bytes > 1 && one.at[0] == '[' && one.at[one.bytes - 1] == ']') {
            one = trimmed(one.at + 1, one.at + one.bytes - 1);
        }
        operand[count++] = one;
        at = stop + 1;
    }
    return count;
}

/* A block's begin: its registers, where the thread's copies are, and, under a predicate, a way around it. */
static void begin(pass *on, const char *statement, const char *opcode)
{
    const word guard = trimmed(at_ptx_skip(statement), opcode);
    at_text_add(on->to, "\n{\n"
                        ".reg .pred %%attune_is;\n"
                        ".reg .b32 %%attune_to, %%attune_sizes, %%attune_size, %%attune_done, %%attune_put, "
                        "%%attune_group, %%attune_at, %%attune_ring, %%attune_low, %%attune_high, "
                        "%%attune_next, %%attune_kept;\n"
                        ".reg .b64 %%attune_from;\n");
    if (guard.bytes > 0 && guard.at[0] == '@') {
        at_text_add(on->to, "%.*s bra $attune_begin_%d;\nbra $attune_end_%d;\n$attune_begin_%d:\n", guard.bytes,
                    guard.at, on->place, on->place, on->place);
    }
    at_text_add(on->to, "%s\n",
                on->in_function ? "ld.shared.u32 %attune_ring, [attune_copies_at];"
                                : "mov.u32 %attune_ring, attune_copies;");
    at_text_add(on->to, "ld.local.v4.u32 {%%attune_done, %%attune_put, %%attune_group, %%attune_at}, "
                        "[%%attune_ring+" STATE "];\n");
    on->made.shares |= on->in_function;
}

/* NOTE: a statement behind the label, which may not end a block. */
static void end(pass *on)
{
    at_text_add(on->to, "$attune_end_%d:\nmov.u32 %%attune_at, 0;\n}\n", on->place++);
}

/* The address of a name, with or without an offset, in either width. */
static void add_address(pass *on, const char *site, const word *from, const char *to, bool is_wide)
{
    const char *plus = memchr(from->at, '+', (size_t)from->bytes);
    const word name = trimmed(from->at, plus != NULL ? plus : from->at + from->bytes);
    if (!is_register(on, site, &name)) {
        at_text_add(on->to, "mov.%s %s, %.*s;\n", is_wide ? "u64" : "u32", to, from->bytes, from->at);
        return;
    }
    at_text_add(on->to, "%s %s, %.*s;\n", is_wide ? "mov.b64" : "cvt.u32.u32", to, name.bytes, name.at);
    if (plus != NULL) {
        at_text_add(on->to, "add.%s %s, %s, %.*s;\n", is_wide ? "s64" : "s32", to, to,
                    (int)(from->at + from->bytes - plus - 1), plus + 1);
    }
}

/* %attune_size: how many bytes are read; the fourth operand says how many, or whether none are, or is a cache's policy.
 */
static void add_size(pass *on, const char *opcode, const word *operand, int count)
{
    const bool has_policy = memmem(opcode, strcspn(opcode, " \t\r\n\f["), ".L2::cache_hint", 15) != NULL;
    const bool has_fourth = count - has_policy > 3;
    const bool is_not = has_fourth && operand[3].bytes > 0 && operand[3].at[0] == '!';
    const word fourth =
        !has_fourth ? (word){opcode, 0} : trimmed(operand[3].at + is_not, operand[3].at + operand[3].bytes);
    at_text_add(on->to, "mov.u32 %%attune_size, %.*s;\n", operand[2].bytes, operand[2].at);
    if (has_fourth && (is_not || is_predicate(on, opcode, &fourth))) {
        at_text_add(on->to, "selp.u32 %%attune_size, %s, %.*s;\n", is_not ? "%attune_size, 0" : "0, %attune_size",
                    fourth.bytes, fourth.at);
    } else if (has_fourth) {
        at_text_add(on->to, "mov.b32 %%attune_size, %.*s;\n", fourth.bytes, fourth.at);
    }
}

/* The entry's place among the ring's. */
static void add_place(pass *on, const char *number)
{
    at_text_add(on->to,
                "and.b32 %%attune_at, %s, " RING " - 1;\n"
                "shl.b32 %%attune_at, %%attune_at, 4;\n"
                "add.u32 %%attune_at, %%attune_at, %%attune_ring;\n",
                number);
}

/* Does the copy of `to`, `sizes` and `from`. */
static void do_copy(pass *on, const char *to, const char *sizes, const char *size, const char *from)
{
    at_text_add(on->to, "and.b32 %s, %s, 0xff;\nbfe.u32 %s, %s, 8, 8;\n", size, sizes, sizes, sizes);
    for (int bytes = 4; bytes <= 16; bytes *= 2) {
        at_text_add(on->to,
                    "setp.eq.u32 %%attune_is, %s, %d;\n"
                    "@%%attune_is cp.async.ca.shared.global [%s], [%s], %d, %s;\n",
                    sizes, bytes, to, from, bytes, size);
    }
}

/* %attune_at: the ring's next place, or, where it is full, that of any other copy, which is done at once: nobody can
 * tell which. */
static void take_place(pass *on)
{
    at_text_add(on->to,
                "sub.u32 %%attune_at, %%attune_put, %%attune_done;\n"
                "setp.ge.u32 %%attune_is, %%attune_at, " RING ";\n"
                "@%%attune_is bra $attune_full_%d;\n",
                on->place);
    add_place(on, "%attune_put");
    at_text_add(on->to,
                "add.u32 %%attune_put, %%attune_put, 1;\n"
                "st.local.u32 [%%attune_ring+" STATE "+4], %%attune_put;\n"
                "bra $attune_placed_%d;\n"
                "$attune_full_%d:\n"
                "mov.u32 %%attune_put, %%clock;\n"
                "mul.lo.u32 %%attune_put, %%attune_put, 0x9e3779b1;\n"
                "shr.u32 %%attune_put, %%attune_put, 20;\n",
                on->place, on->place);
    add_place(on, "%attune_put");
    at_text_add(on->to, "ld.local.v4.u32 {%%attune_group, %%attune_done, %%attune_put, %%attune_size}, [%%attune_at];\n"
                        "mov.b64 %%attune_from, {%%attune_put, %%attune_size};\n");
    do_copy(on, "%attune_group", "%attune_done", "%attune_size", "%attune_from");
    at_text_add(on->to, "$attune_placed_%d:\n", on->place);
}

static bool put_down(pass *on, const char *statement, const char *opcode, const char *stop)
{
    word operand[OPERANDS_MAX];
    const int count = operands_of(opcode, stop, operand);
    if (count < 3) {
        return false;
    }
    begin(on, statement, opcode);
    add_address(on, opcode, &operand[0], "%attune_to", false);
    add_address(on, opcode, &operand[1], "%attune_from", true);
    add_size(on, opcode, operand, count);
    at_text_add(on->to,
                "shl.b32 %%attune_sizes, %%attune_group, 16;\n"
                "add.u32 %%attune_sizes, %%attune_sizes, (%.*s) * 256;\n"
                "add.u32 %%attune_sizes, %%attune_sizes, %%attune_size;\n"
                "mov.b64 {%%attune_low, %%attune_high}, %%attune_from;\n",
                operand[2].bytes, operand[2].at);
    take_place(on);
    at_text_add(on->to, "st.local.v4.u32 [%%attune_at], "
                        "{%%attune_to, %%attune_sizes, %%attune_low, %%attune_high};\n");
    end(on);
    ++on->made.copies;
    return true;
}

static void close_group(pass *on, const char *statement, const char *opcode)
{
    begin(on, statement, opcode);
    at_text_add(on->to, "add.u32 %%attune_group, %%attune_group, 1;\n"
                        "st.local.u32 [%%attune_ring+" STATE "+8], %%attune_group;\n");
    end(on);
}

/* Does what was put down, but for the `pending` latest groups, or all of it where that is NULL. */
static void do_waiting(pass *on, const char *statement, const char *opcode, const word *pending)
{
    begin(on, statement, opcode);
    at_text_add(on->to,
                "mov.u32 %%attune_next, %%attune_done;\n"
                "mov.u32 %%attune_kept, 0;\n"
                "$attune_next_%d:\n"
                "setp.eq.u32 %%attune_is, %%attune_next, %%attune_put;\n"
                "@%%attune_is bra $attune_all_%d;\n",
                on->place, on->place);
    add_place(on, "%attune_next");
    at_text_add(on->to, "add.u32 %%attune_next, %%attune_next, 1;\n"
                        "ld.local.v4.u32 {%%attune_to, %%attune_sizes, %%attune_low, %%attune_high}, [%%attune_at];\n");
    if (pending != NULL) {
        at_text_add(on->to,
                    "shr.u32 %%attune_size, %%attune_sizes, 16;\n"
                    "sub.u32 %%attune_size, %%attune_group, %%attune_size;\n"
                    "and.b32 %%attune_size, %%attune_size, 0xffff;\n"
                    "setp.gt.u32 %%attune_is, %%attune_size, %.*s;\n"
                    "setp.eq.or.u32 %%attune_is, %%attune_sizes, 0, %%attune_is;\n"
                    "@%%attune_is bra $attune_due_%d;\n"
                    "mov.u32 %%attune_kept, 1;\n"
                    "bra $attune_next_%d;\n"
                    "$attune_due_%d:\n",
                    pending->bytes, pending->at, on->place, on->place, on->place);
    }
    at_text_add(on->to, "mov.u32 %%attune_size, 0;\n"
                        "st.local.u32 [%%attune_at+4], %%attune_size;\n"
                        "setp.eq.u32 %%attune_is, %%attune_kept, 0;\n"
                        "@%%attune_is mov.u32 %%attune_done, %%attune_next;\n"
                        "mov.b64 %%attune_from, {%%attune_low, %%attune_high};\n");
    do_copy(on, "%attune_to", "%attune_sizes", "%attune_size", "%attune_from");
    at_text_add(on->to,
                "bra $attune_next_%d;\n"
                "$attune_all_%d:\n"
                "st.local.u32 [%%attune_ring+" STATE "], %%attune_done;\n",
                on->place, on->place);
    end(on);
    at_text_add(on->to, "cp.async.wait_all;\n");
}

/* Whether the statement was replaced; if not, it is to stand behind what was said so far. */
static bool replace(pass *on, const char *statement, const char *opcode, const char *stop)
{
    word operand[OPERANDS_MAX];
    if (at_ptx_begins(opcode, copying)) {
        return put_down(on, statement, opcode, stop);
    }
    if (at_ptx_begins(opcode, closing)) {
        close_group(on, statement, opcode);
        return true;
    }
    if (at_ptx_begins(opcode, waiting_some) && operands_of(opcode, stop, operand) == 1) {
        do_waiting(on, statement, opcode, operand);
        return true;
    }
    if (at_ptx_begins(opcode, waiting_all)) {
        do_waiting(on, statement, opcode, NULL);
        return true;
    }
    return false;
}

static void take(pass *on, const char *statement, const char *stop)
{
    const char *opcode = at_ptx_opcode(statement);
    const bool is_copy = at_ptx_begins(opcode, any) && !at_ptx_begins(opcode, others);
    if (is_copy && stop[-1] == ';') {
        /* Comments in front keep their places. */
        const char *first = at_ptx_skip(statement);
        at_text_add(on->to, "%.*s", (int)(first - statement), statement);
        if (at_ptx_begins(opcode, arriving)) {
            do_waiting(on, first, opcode, NULL);
        } else if (replace(on, first, opcode, stop)) {
            return;
        } else {
            on->made.unknown = true;
        }
        statement = first;
    }
    at_text_add(on->to, "%.*s", (int)(stop - statement), statement);
}

/* An entry's own: its copies, and, where functions copy too, where those find them. */
static void begin_entry(at_text *to, bool has_functions)
{
    at_text_add(to, "\n.local .align 16 .b8 attune_copies[" BYTES "];\n"
                    "{\n"
                    ".reg .b32 %%attune_none;\n"
                    "mov.u32 %%attune_none, 0;\n"
                    "st.local.v4.u32 [attune_copies+" STATE "], "
                    "{%%attune_none, %%attune_none, %%attune_none, %%attune_none};\n");
    at_text_add(to, "%s",
                has_functions ? "mov.u32 %attune_none, attune_copies;\n"
                                "st.shared.u32 [attune_copies_at], %attune_none;\n"
                              : "");
    at_text_add(to, "}\n");
}

/* A statement as it is, or late; the variable by which functions find the copies stands behind the PTX's own head. */
static void take_head(pass *on, const char *statement, const char *stop)
{
    const char *size = memmem(statement, (size_t)(stop - statement), address_size, strlen(address_size));
    if (size == NULL || !on->shares) {
        take(on, statement, stop);
        return;
    }
    const char *line = size + strcspn(size, "\n");
    at_text_add(on->to, "%.*s\n.shared .align 4 .b32 attune_copies_at;", (int)(line - statement), statement);
    at_text_add(on->to, "%.*s", (int)(stop - line), line);
}

/* Walks the PTX once; `begins`: entries get what the copies need. */
static at_copies walk(const char *ptx, at_text *to, bool begins, bool shares)
{
    pass on = {.ptx = ptx, .to = to, .shares = shares};
    for (const char *statement = ptx; *statement != '\0';) {
        const char *stop = at_ptx_end(statement);
        const bool is_head = on.depth == 0 && stop[-1] == '{';
        const bool is_entry = is_head && memmem(statement, (size_t)(stop - statement), ".entry", 6) != NULL;
        on.in_function = is_head ? !is_entry : on.in_function;
        on.entries += is_entry;
        on.depth += stop[-1] == '{' ? 1 : stop[-1] == '}' ? -1 : 0;
        on.is_lost |= on.depth < 0;
        take_head(&on, statement, stop);
        if (is_entry && begins) {
            begin_entry(to, shares);
        }
        statement = stop;
    }
    on.made.unknown |= on.made.copies > 0 && (on.entries == 0 || on.depth != 0 || on.is_lost);
    return on.made;
}

at_copies at_ptx_copy_late(const char *ptx, at_text *to)
{
    at_text first;
    at_text_init(&first);
    at_copies made = walk(ptx, &first, false, false);
    at_text_free(&first);
    made.unknown |= made.shares && strstr(ptx, address_size) == NULL;
    if (made.copies == 0 || made.unknown) {
        at_text_add(to, "%s", ptx);
        return made;
    }
    return walk(ptx, to, true, made.shares);
}
