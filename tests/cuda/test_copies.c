/* Asynchronous copies wait for their waits, in PTX that is otherwise what it was, and that an assembler takes. */
#include "cuda/assembler.h"
#include "cuda/copies.h"
#include "cuda/fixture.h"
#include "cuda/ptx.h"
#include "library/catalogue.h"

static int count_of(const char *text, const char *words)
{
    int count = 0;
    while ((text = strstr(text, words)) != NULL) {
        text += strlen(words);
        ++count;
    }
    return count;
}

static at_copies made_late(const char *ptx, at_text *text)
{
    at_text_init(text);
    const at_copies made = at_ptx_copy_late(ptx, text);
    assert_ok(at_text_status(text, "PTX"));
    if (made.copies == 0) {
        assert_string_equal(text->data, ptx);
    }
    return made;
}

#define ENTRY(body)                                                                                                    \
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .pred %p<3>;\n"          \
    ".reg .b32 %r<9>, n;\n.reg .b64 %rd<9>;\n.shared .align 16 .b8 sh[2048];\nld.param.u64 %rd1, [p];\n"               \
    "cvta.to.global.u64 %rd2, %rd1;\nmov.u32 %r1, sh;\ncvt.u64.u32 %rd3, %r1;\nsetp.eq.u32 %p1, %r1, 3;\n" body        \
    "\nret;\n}\n"

static void copies_are_put_down(void **state)
{
    static const struct {
        const char *ptx, *has;
        int copies;
        bool unknown;
    } cases[] = {
        {"", "", 0, false},
        {ENTRY("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"), "", 0, false},
        {ENTRY("cp.async.wait_all;"), "", 0, false},
        {ENTRY("// cp.async.ca.shared.global [%r1], [%rd2], 16;"), "", 0, false},
        {ENTRY("cp.async.cg.shared.global [%r1], [%rd2], 16;"), "mov.u32 %attune_size, 16;", 1, false},
        {ENTRY("cp.async.ca.shared.global [%r1+64], [%rd2+-8], 8;"), "add.s64 %attune_from, %attune_from, -8;", 1,
         false},
        {ENTRY("cp.async.ca.shared.global [sh+64], [%rd2], 4;"), "mov.u32 %attune_to, sh+64;", 1, false},
        {ENTRY("cp.async.ca.shared.global [ %rd3 ], [%rd2] , 4 ;"), "cvt.u32.u32 %attune_to, %rd3;", 1, false},
        {ENTRY("cp.async.cg.shared.global [%r1], [%rd2], 16, %r2;"), "mov.b32 %attune_size, %r2;", 1, false},
        {ENTRY("cp.async.cg.shared.global [%r1], [%rd2], 16, 0;"), "mov.b32 %attune_size, 0;", 1, false},
        {ENTRY("cp.async.cg.shared.global [%r1], [%rd2], 16, n;"), "mov.b32 %attune_size, n;", 1, false},
        {ENTRY("cp.async.cg.shared.global [%r1], [%rd2], 16, %p1;"), "selp.u32 %attune_size, 0, %attune_size, %p1;", 1,
         false},
        {ENTRY("{.reg .pred n; setp.eq.u32 n, %r1, 0; cp.async.cg.shared.global [%r1], [%rd2], 16, n;}"),
         "selp.u32 %attune_size, 0, %attune_size, n;", 1, false},
        {ENTRY("cp.async.cg.shared.global [%r1], [%rd2], 16, ! %p1;"), "selp.u32 %attune_size, %attune_size, 0, %p1;",
         1, false},
        {ENTRY("{.reg.pred n; setp.eq.u32 n, %r1, 0; cp.async.cg.shared.global[%r1], [%rd2], 16, n;}"),
         "selp.u32 %attune_size, 0, %attune_size, n;", 1, false},
        {ENTRY("{.reg .pred n; } cp.async.cg.shared.global [%r1], [%rd2], 16, n;"), "mov.b32 %attune_size, n;", 1,
         false},
        {ENTRY("{.reg .pred%q; setp.eq.u32 %q, %r1, 0; cp.async.cg.shared.global[%r1], [%rd2], 16, %q;}"),
         "selp.u32 %attune_size, 0, %attune_size, %q;", 1, false},
        {ENTRY("cp.async.cg.shared.global.L2::cache_hint[%r1],[%rd2],16,%rd4;"), "mov.u32 %attune_size, 16;\nshl", 1,
         false},
        {ENTRY("cp.async.cg.shared.global.L2::cache_hint [%r1], [%rd2], 16, %rd4;"), "mov.u32 %attune_size, 16;\nshl",
         1, false},
        {ENTRY("@!%p1 cp.async.cg.shared.global.L2::128B [%r1], [%rd2], 16;"), "@!%p1 bra $attune_begin_0;", 1, false},
        {ENTRY("@ ! /* not */ %p1\tcp.async.cg.shared.global [%r1], [%rd2], 16;"), "%p1 bra $attune_begin_0;", 1,
         false},
        {ENTRY("// begin inline asm\n\tcp.async.cg.shared.global [%r1], [%rd2], 16;\n\t// end inline asm"),
         "// begin inline asm\n\t\n{", 1, false},
        {ENTRY("cp.async.cg.shared.global[%r1+32/2],[%rd2],8+8;"), "add.s32 %attune_to, %attune_to, 32/2;", 1, false},
        {ENTRY("cp.async.cg.shared.global[%r1],[%rd2],8+8;"), "%attune_sizes, (8+8) * 256;", 1, false},
        {ENTRY("cp.async.cg.shared.global [%r1], [%rd2], 16;\ncp.async.later.shared.global [%r1], [%rd2], 16;"), "", 1,
         true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        at_text text;
        const at_copies made = made_late(cases[i].ptx, &text);
        assert_int_equal(made.copies, cases[i].copies);
        assert_int_equal(made.unknown, cases[i].unknown);
        if (strstr(text.data, cases[i].has) == NULL) {
            fail_msg("%s: no '%s' in %s", cases[i].ptx, cases[i].has, text.data);
        }
        at_text_free(&text);
    }
}

static const char pipeline[] =
    ENTRY("cp.async.cg.shared.global [%r1], [%rd2], 16;\ncp.async.commit_group;\n"
          "@%p1 cp.async.ca.shared.global [%r1+16], [%rd2+16], 8, %r2;\n@%p1 cp.async.commit_group;\n"
          "cp.async.wait_group 1;\ncp.async.mbarrier.arrive.noinc.shared.b64 [%r1+32];\n@!%p1 cp.async.wait_all;");

static void waits_do_what_was_put_down(void **state)
{
    at_text text;
    (void)state;
    assert_int_equal(made_late(pipeline, &text).copies, 2);
    assert_int_equal(count_of(text.data, "cp.async.commit_group"), 0);
    assert_int_equal(count_of(text.data, "cp.async.wait_group"), 0);
    assert_int_equal(count_of(text.data, "\ncp.async.wait_all;"), 3);
    assert_int_equal(count_of(text.data, "setp.gt.u32 %attune_is, %attune_size, 1;"), 1);
    assert_int_equal(count_of(text.data, "cp.async.mbarrier.arrive.noinc.shared.b64 [%r1+32];"), 1);
    assert_int_equal(count_of(text.data, ".local .align 16 .b8 attune_copies[2064];"), 1);
    at_text_free(&text);
}

/* What would keep a pass from its work is gone, and nothing else. */
static void plain_text_hides_nothing(void **state)
{
    static const struct {
        const char *ptx, *plain;
    } cases[] = {
        {"", ""},
        {"bar.sync 0; // bar.sync 1;\nret;", "bar.sync 0;  ret;"},
        {"cp.async.wait_group /* two */2;/**/ret;", "cp.async.wait_group  2; ret;"},
        {".loc 1 20 3\nbar.sync 0;\n.loc\t2 /* */ 4\n5 ret;", " \nbar.sync 0;\n  ret;"},
        {".loc 0x1 2U 0b11 bar.sync 0;.loc 1 2 3bar.sync 1;", "  bar.sync 0; bar.sync 1;"},
        {".loc 1 2 3, function_name $s+4, inlined_at 1 2 0xf ret;", "  ret;"},
        {".loc 1 2 3, 4;", " , 4;"},
        {".location 1 2 3; x.loc 1 2 3;", ".location 1 2 3; x.loc 1 2 3;"},
        {".pragma \"// no /* comment\"; a\fb", ".pragma \"// no /* comment\"; a\fb"},
    };
    at_text text;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        at_text_init(&text);
        at_ptx_plain(cases[i].ptx, &text);
        assert_ok(at_text_status(&text, "PTX"));
        assert_string_equal(text.data, cases[i].plain);
        at_text_free(&text);
    }
    at_text_init(&text);
    at_ptx_plain("$attune_end_0: mov.u32 %attune_late, attune_copies; .param .b8 _Z11attune_args[8]; "
                 ".reg .f32%attune_at;",
                 &text);
    assert_ok(at_text_status(&text, "PTX"));
    assert_null(strstr(text.data, "attune_end_0"));
    assert_null(strstr(text.data, "attune_late"));
    assert_null(strstr(text.data, "attune_at"));
    assert_null(strstr(text.data, "attune_copies,"));
    assert_non_null(strstr(text.data, "_Z11attune_args[8]"));
    assert_int_equal(count_of(text.data, "_copies;"), 1);
    at_text_free(&text);
}

/* A variable's values are no body of a function's, and where no entry can be told nothing is late. */
#define VALUES                                                                                                         \
    ".version 8.0\n.target sm_80\n.address_size 64\n.const .align 4 .b8 tab[4] = {1, 2, 3, 4};\n"                      \
    ".global .align 4 .u32 order[2][2] = {{1, 2}, {3, 4}};\n"
#define COPYING(head)                                                                                                  \
    head ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<3>;\n.reg .b64 %rd<3>;\n"                                  \
         ".shared .align 16 .b8 sh[64];\nld.param.u64 %rd1, [p];\nmov.u32 %r1, sh;\n"                                  \
         "cp.async.cg.shared.global [%r1], [%rd1], 16;\ncp.async.wait_all;\nret;\n}\n"
static const char behind_values[] = COPYING(VALUES);

static void values_open_no_body(void **state)
{
    at_text text;
    (void)state;
    at_copies made = made_late(behind_values, &text);
    assert_int_equal(made.copies, 1);
    assert_false(made.shares);
    assert_false(made.unknown);
    assert_int_equal(count_of(text.data, "attune_copies[2064]"), 1);
    assert_null(strstr(text.data, "attune_copies_at"));
    at_text_free(&text);
    at_text_init(&text);
    made = at_ptx_copy_late(".func f()\n{\ncp.async.cg.shared.global [%r1], [%rd1], 16;\nret;\n}\n", &text);
    assert_true(made.unknown);
    assert_null(strstr(text.data, "attune"));
    at_text_free(&text);
    at_text_init(&text);
    made = at_ptx_copy_late(COPYING(VALUES "{\n"), &text);
    assert_true(made.unknown);
    assert_null(strstr(text.data, "attune"));
    at_text_free(&text);
}

/* ---- An assembler takes it --------------------------------------------------------------------------------------- */

/* A function that is not inlined finds its caller's copies. */
static const char in_function[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.func f(.param .b64 a)\n{\n.reg .b32 %r<3>;\n.reg .b64 %rd<3>;\n"
    "ld.param.u64 %rd1, [a];\nmov.u32 %r1, 64;\ncp.async.cg.shared.global [%r1], [%rd1], 16;\nret;\n}\n"
    ".visible .entry k(.param .u64 p)\n{\n.reg .b64 %rd<3>;\n.shared .align 16 .b8 sh[2048];\nld.param.u64 %rd1, [p];\n"
    "{\n.param .b64 a;\nst.param.b64 [a], %rd1;\ncall f, (a);\n}\ncp.async.wait_all;\nret;\n}\n";

static void an_assembler_takes_it(void **state)
{
    static const char *const texts[] = {
        pipeline,
        in_function,
        behind_values,
        ENTRY("cp.async.ca.shared.global [%r1], [%rd2], 8, !%p1;"),
        ENTRY("{.reg .pred n; } cp.async.ca.shared.global [%r1], [%rd2], 8, n;"),
        ENTRY("{.reg.pred q; setp.eq.u32 q, %r1, 0; cp.async.ca.shared.global[%r1], [%rd2], 8, q;}"),
        ENTRY("{.reg .pred%q; setp.eq.u32 %q, %r1, 0; cp.async.ca.shared.global[%r1], [%rd2], 8, %q;}"),
        ENTRY("cp.async.ca.shared.global [%r1], [%rd2+-8], 8, %p1; cp.async.wait_group 63;"),
        ENTRY("cp.async.cg.shared.global [%rd3], [%rd2], 16, 0; @%p1 cp.async.wait_all;"),
        ENTRY("cp.async.cg.shared.global[%r1+32/2],[%rd2+-8*2],8+8;cp.async.wait_group 1 + 1;"),
        ENTRY("cp.async.ca.shared.global.L2::128B [sh], [%rd2], 4, n; cp.async.wait_group 0;")};
    (void)state;
    if (!has_assembler()) {
        skip();
    }
    assembler on;
    open_assembler(&on);
    (void)snprintf(on.arch, sizeof on.arch, "-arch=sm_80");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
        at_artifact artifact = {0};
        at_text text;
        const at_copies made = made_late(texts[i], &text);
        assert_false(made.unknown);
        assert_int_equal(made.shares, texts[i] == in_function);
        assert_ok(assemble(&on, text.data, text.length, &artifact));
        at_artifact_free(&artifact);
        at_text_free(&text);
    }
    assert_int_equal(on.late, sizeof texts / sizeof texts[0]);
    close_assembler(&on);
}

/* ---- Of the library's kernels ------------------------------------------------------------------------------------ */

/* The code with delays and late copies of what a kernel ships, which at_provide inspects as it does any. */
static bool provide_late(at_provider *provider, assembler *on, const attune_kernel *kernel, const char *text, int arch)
{
    attune_target target = fixture_target(arch);
    attune_config config;
    attune_problem problem;
    attune_reason reason;
    at_artifact artifact;
    at_recipe recipe;
    assert_ok(attune_problem_parse(text, &problem));
    int32_t index = 0;
    bool fits = false;
    while (!fits && kernel->heuristic(&problem, &target, index++, &config)) {
        fits = at_kernel_fits(kernel, &problem, &target, &config, &reason);
    }
    if (!fits) {
        return false;
    }
    const int late = on->late;
    (void)snprintf(on->arch, sizeof on->arch, "-arch=sm_%d%s", arch, arch >= 90 ? "a" : "");
    provider->assembler = (at_assembler){assemble, on, 13000};
    assert_ok(at_recipe_ask(kernel, &problem, &target, &config, &recipe));
    recipe.delays = true;
    const attune_status status = at_provide(provider, &recipe, &target, &artifact, NULL);
    if (status == ATTUNE_OK) {
        at_artifact_free(&artifact);
    } else {
        fail_msg("%s, %s, sm_%d: %s", kernel->name, text, arch, attune_last_detail());
    }
    return on->late > late;
}

/* Rows of a kernel, unless $ATTUNE_ALL_LATE is set. The time is the compilers', which no sanitizer sees. */
#ifdef ATTUNE_SANITIZED
enum { TRIED = 1 };
#else
enum { TRIED = 2 };
#endif

static void shipped_kernels_can_be_late(void **state)
{
    at_provider provider = {.nvrtc = fixture_compiler()};
    assembler on;
    int kernels = 0;
    (void)state;
    if (provider.nvrtc == NULL || !has_assembler()) {
        at_nvrtc_close(provider.nvrtc);
        skip();
    }
    const bool all = getenv("ATTUNE_ALL_LATE") != NULL;
    open_assembler(&on);
    for (const attune_kernel *const *kernel = at_catalogue; *kernel != NULL; ++kernel) {
        const bool has_source = (*kernel)->target == ATTUNE_TARGET_CUDA && (*kernel)->image == NULL;
        const int before = on.late;
        const attune_shipped *row = has_source ? (*kernel)->shipped : NULL;
        for (int tried = 0; row != NULL && row->problem != NULL && (all || tried < TRIED); ++row, ++tried) {
            if (provide_late(&provider, &on, *kernel, row->problem, 90)) {
                print_message("%s, %s: late copies\n", (*kernel)->name, row->problem);
            }
        }
        kernels += on.late > before;
    }
    print_message("%d with late copies, of %d kernels\n", on.late, kernels);
    assert_true(kernels >= 6);
    close_assembler(&on);
    at_nvrtc_close(provider.nvrtc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_put_down),      cmocka_unit_test(waits_do_what_was_put_down),
        cmocka_unit_test(plain_text_hides_nothing), cmocka_unit_test(values_open_no_body),
        cmocka_unit_test(an_assembler_takes_it),    cmocka_unit_test(shipped_kernels_can_be_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
