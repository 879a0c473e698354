/* What a kernel's assembler text may have, and what not, however it is written. */
#include "base/cm.h"

#include <stdio.h>

#include "stranger/listing.h"

static attune_status look(const char *text)
{
    return at_listing_check("k.c", text);
}

static void compilers_write_this(void **state)
{
    (void)state;
    assert_ok(look(""));
    assert_ok(look("\t.file\t\"it's; rdrand.c\"\n\t.text\n\t.p2align 4\n\t.globl\tattend\n\t.type\tattend, @function\n"
                   "attend:\n.LFB1:\n\t.cfi_startproc\n\tpushq\t%rbp\n.L3: movaps .LC0(%rip), %xmm0 # rdrand\n"
                   "\tcall\texpf@PLT\n\tret\n\t.cfi_endproc\n\t.size\tattend, .-attend\n"
                   "\t.section\t.rodata.cst4,\"aM\",@progbits,4\n\t.align 4\n.LC0:\n\t.long\t-8388608\n"
                   "\t.string \"rdrand; \\\" .text\"\n\t.text\n\tnop\n"
                   "\t.section\t.note.GNU-stack,\"\",@progbits\n"));
}

#if defined(__x86_64__)
static void names_are_refused(void **state)
{
    static const char *const texts[][2] = {
        {"rdrand %eax", "'rdrand'"},    {"\tRDRANDL %eax\n", "'rdrandl'"},     {"1: 2:rdseed %rax", "'rdseed'"},
        {"nop; rdpid %rax", "'rdpid'"}, {"rex.w rdgsbase %rax", "'rdgsbase'"}, {"lock; xbegin 1f", "'xbegin'"},
        {"lslq %rax, %rbx", "'lslq'"},  {"xsavec (%rax)", "'xsavec'"},         {"movw %ax, %es", "'%es'"},
        {"movq %gs:8, %rax", "'%gs'"},  {"movq %fs:0, %rax", "'%fs'"},         {"gs movq (%rax), %rbx", "'gs'"},
        {"cpuid", "'cpuid'"},           {"foo = 7", "a meaning of its own"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
        assert_fails(look(texts[i][0]), ATTUNE_COMPILE_ERROR, texts[i][1]);
    }
    assert_ok(look("subq %fs:40, %rdx"));                                                  /* a stack protector's */
    assert_ok(look("leaq str(%rip), %rax\n\tcall cpuid\n\trep stosq\n\tstmxcsr 4(%rsp)")); /* names of the author's */
}
#endif

static void code_cannot_hide(void **state)
{
    static const char *const texts[] = {
        ".byte 15, 199, 240",
        ".text\n .long 7",
        ".section .text.cold,\"ax\",@progbits\n.quad 7",
        ".section .rodata.x,\"ax\",@progbits\n.quad 7",
        ".section mine\n.quad 7",
        ".section .text.x,\"a\",@progbits\n.quad 7",
        ".macro m\n.endm",
        ".rept 2\n.endr",
        ".irp x, y\n.endr",
        ".if 0\n.data\n.endif",
        ".pushsection .rodata\n.byte 1\n.popsection",
        ".include \"x\"",
        ".incbin \"x\"",
        ".intel_syntax noprefix",
        "/*\n.data\n*/ .byte 1",
        "movl $'\", %eax; .byte 1",
        ".data; .text; .byte 1",
        ".data\n.string \"a\"; .text; .byte 1",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
        attune_status status = look(texts[i]);
        if (status != ATTUNE_COMPILE_ERROR) {
            fail_msg("taken: %s", texts[i]);
        }
    }
    assert_ok(look(".section mine,\"a\",@progbits\n.quad 7"));
    assert_ok(look(".section .init_array,\"aw\"\n.quad begin")); /* which is another check's */
    assert_ok(look(".section .rodata\n.byte 15, 199, 240\n.data\n.quad 7\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compilers_write_this),
#if defined(__x86_64__)
        cmocka_unit_test(names_are_refused),
#endif
        cmocka_unit_test(code_cannot_hide),
    };
    return cmocka_run_group_tests_name("stranger.listing", tests, NULL, NULL);
}
