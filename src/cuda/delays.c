#include "cuda/delays.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/ptx.h"

/* NOTE: the clock is read for its low bits: another delay at the same place each time. */
static const char delay[] = "\n{\n"
                            ".reg .pred %attune_late;\n"
                            ".reg .b32 %attune_a, %attune_b;\n"
                            "mov.u32 %attune_a, %clock;\n"
                            "mov.u32 %attune_b, %warpid;\n"
                            "mad.lo.u32 %attune_a, %attune_b, 0x85ebca6b, %attune_a;\n"
                            "shr.u32 %attune_b, %attune_a, 3;\n"
                            "xor.b32 %attune_a, %attune_a, %attune_b;\n"
                            "mul.lo.u32 %attune_a, %attune_a, 0x9e3779b1;\n"
                            "shr.u32 %attune_b, %attune_a, 29;\n"
                            "setp.eq.u32 %attune_late, %attune_b, 0;\n"
                            "bfe.u32 %attune_b, %attune_a, 15, 13;\n"
                            "@%attune_late nanosleep.u32 %attune_b;\n"
                            "}\n";

/* A launch after this one that may begin before it ends does so at once, and has to wait for what it
 * reads, and before it writes what this one reads. */
static const char early[] = "\ngriddepcontrol.launch_dependents;";

static const char *const waiting[] = {
    "bar.",           "barrier.",           "mbarrier.try_wait",   "mbarrier.test_wait",
    "cp.async.wait_", "cp.async.bulk.wait", "griddepcontrol.wait", NULL};
static const char *const sleeping[] = {"nanosleep.", NULL};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Behind a comment or a text that begins here; `at` where none does. */
static const char *skip_passive(const char *at)
{
    const char *end = at[0] == '"' ? strchr(at + 1, '"') : NULL;
    return end != NULL ? end + 1 : at[0] == '/' ? at_ptx_skip(at) : at;
}

/* NOTE: `.weak.entry` is one too. */
static bool is_entry(const char *at)
{
    return strncmp(at, ".entry", 6) == 0 && (is_blank(at[6]) || at[6] == '/');
}

/* Whether launches may overlap: from sm_90 on. */
static bool may_overlap(const char *ptx)
{
    static const char target[] = ".target sm_";
    const char *at = strstr(ptx, target);
    return at != NULL && strtol(at + sizeof target - 1, NULL, 10) >= 90;
}

int at_ptx_delay(const char *ptx, at_text *to)
{
    const bool overlaps = may_overlap(ptx);
    const char *copied = ptx;
    const char *statement = ptx;
    bool in_head = false; /* of an entry, whose body comes next */
    int places = 0;
    for (const char *at = ptx; *at != '\0';) {
        const char *behind = skip_passive(at);
        if (behind > at) {
            statement = statement == at ? behind : statement;
            at = behind;
            continue;
        }
        in_head = in_head || is_entry(at);
        bool begins = *at == '{' && in_head;
        bool ends = *at == ';' && at_ptx_begins(at_ptx_opcode(statement), waiting);
        bool is_sleep = *at == ';' && at_ptx_begins(at_ptx_opcode(statement), sleeping);
        bool is_label = *at == ':' && at[1] != ':' && (at == ptx || at[-1] != ':');
        ++at;
        if (begins || ends) {
            at_text_add(to, "%.*s%s%s", (int)(at - copied), copied, begins && overlaps ? early : "", delay);
            copied = at;
            in_head = false;
            ++places;
        }
        if (is_sleep) {
            at_text_add(to, "%.*s", (int)(statement - copied), copied);
            copied = at;
        }
        statement = is_label || strchr(";{}", at[-1]) != NULL ? at : statement;
    }
    at_text_add(to, "%s", copied);
    return places;
}
