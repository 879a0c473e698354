#include "cuda/lanes.h"

#include <stdbool.h>
#include <string.h>

#include "cuda/ptx.h"

/* What any lane may do at any time between two that wait. */
static const char *const alone[] = {
    "mov.",  "add.",      "addc.",  "sub.",   "subc.",  "mul.", "mul24.", "mad.",  "mad24.", "fma.",  "div.",
    "rem.",  "abs.",      "neg.",   "min.",   "max.",   "and.", "or.",    "xor.",  "not.",   "shl.",  "shr.",
    "shf.",  "prmt.",     "bfe.",   "bfi.",   "bfind.", "cvt.", "cvta.",  "setp.", "set.",   "selp.", "slct.",
    "ex2.",  "lg2.",      "rcp.",   "sqrt.",  "sin.",   "cos.", "tanh.",  "lop3.", "popc.",  "clz.",  "brev.",
    "dp4a.", "copysign.", "testp.", "rsqrt.", "ld.",    "st.",  "cnot.",  "sad.",  "fns.",   "bmsk.", NULL};
static const char *const together[] = {"st.async", "st.bulk", NULL};
static const char *const loads[] = {"ld.", NULL};
static const char *const stores[] = {"st.", NULL};

/* Statements that follow one another. */
typedef struct run {
    const char *begin;
    bool loads, stores; /* shared memory, or what may be */
} run;

/* A state space that is written out is another one than shared memory. */
static bool may_be_shared(const char *opcode)
{
    static const char *const others[] = {".global", ".param", ".const", ".local"};
    const size_t bytes = strcspn(opcode, " \t\r\n[");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; ++i) {
        if (memmem(opcode, bytes, others[i], strlen(others[i])) != NULL) {
            return false;
        }
    }
    return true;
}

/* The run, once for the lanes that come first and once for the others; which ones differs from place to place.
 * NOTE: who sleeps cannot be made one with his twin by an assembler. */
static void part(const char *begin, const char *end, int place, at_text *to)
{
    const unsigned lanes = 0x6b2d94c3u + (unsigned)place * 0x9e3779b1u;
    const int bytes = (int)(end - begin);
    at_text_add(to,
                "\n{\n"
                ".reg .pred %%attune_later;\n"
                ".reg .b32 %%attune_lane, %%attune_lanes;\n"
                "mov.u32 %%attune_lane, %%laneid;\n"
                "mov.u32 %%attune_lanes, 0x%08x;\n"
                "shr.u32 %%attune_lanes, %%attune_lanes, %%attune_lane;\n"
                "and.b32 %%attune_lanes, %%attune_lanes, 1;\n"
                "setp.ne.u32 %%attune_later, %%attune_lanes, 0;\n"
                "@%%attune_later bra $attune_later_%d;",
                lanes, place);
    at_text_add(to, "%.*s\nbra $attune_together_%d;\n$attune_later_%d:\nnanosleep.u32 100;", bytes, begin, place,
                place);
    at_text_add(to, "%.*s\n$attune_together_%d:\nmov.u32 %%attune_lane, 0;\n}\n", bytes, begin, place);
}

int at_ptx_part_lanes(const char *ptx, at_text *to)
{
    run now = {.begin = ptx};
    int places = 0;
    for (const char *statement = ptx; *statement != '\0';) {
        const char *opcode = at_ptx_opcode(statement), *end = at_ptx_end(statement);
        const bool goes_on = end[-1] == ';' && at_ptx_begins(opcode, alone) && !at_ptx_begins(opcode, together);
        if (goes_on) {
            now.loads |= at_ptx_begins(opcode, loads) && may_be_shared(opcode);
            now.stores |= at_ptx_begins(opcode, stores) && may_be_shared(opcode);
        } else {
            if (now.loads && now.stores) {
                part(now.begin, statement, places++, to);
                now.begin = statement;
            }
            at_text_add(to, "%.*s", (int)(end - now.begin), now.begin);
            now = (run){.begin = end};
        }
        statement = end;
    }
    at_text_add(to, "%s", now.begin);
    return places;
}
