/* Sources that would be other code on another day or machine are refused, however they say it; what only looks so is
 * not; and the library's own are none. */
#include "cuda/fixture.h"
#include "cuda/outside.h"

static attune_status look(const char *source, const char *header)
{
    at_build build = {.source = {.name = "mine.cu", .data = (const unsigned char *)source}};
    build.header_count = header != NULL;
    build.header_name[0] = "mine.cuh";
    build.header_text[0] = header;
    return at_build_outside(&build);
}

static void dates_are_refused(void **state)
{
    static const char *const bad[][2] = {
        {"char day = __DATE__[5];", "__DATE__"},
        {"const char *now = __TIME__;", "__TIME__"},
        {"const char *now = __TIMESTAMP__;", "__TIMESTAMP__"},
        {"char day = __D\\\nATE__[5];", "__DATE__"},
        {"#define JOIN(a, b) a##b\nJOIN(__DA, TE__)", "pasted to __DATE__"},
        {"#define JOIN(a, b, c, d) a %:%: b ## c\nJOIN(_, _TI, M) E__", "pasted to __TIME__"},
        {"#if __has_include(\"/tmp/judged\")\n#endif", "__has_include"},
        /* Where comments and texts only seem to be. */
        {"const char *raw = R\"(\" )\"; char day = __DATE__[5]; // \"", "__DATE__"},
        {"#if 0\n don't /*\n#endif\nchar day = __DATE__[5]; /* */", "__DATE__"},
        {"int big = 1'000; char day = __DATE__[5]; int more = 1'0;", "__DATE__"},
        {"// goes on? \\ \nchar day = __DATE__[5];", "__DATE__"},
        {"// goes on? ?\?/\nchar day = __DATE__[5];", "__DATE__"},
        {"'\"'; __DATE__; '\"'", "__DATE__"},
        {"\"\\\"\"; __DATE__; \"\"", "__DATE__"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        if (look(bad[i][0], NULL) == ATTUNE_OK) {
            fail_msg("this passes: %s", bad[i][0]);
        }
        assert_fails(look(bad[i][0], NULL), ATTUNE_COMPILE_ERROR, bad[i][1]);
    }
    assert_fails(look("#include \"mine.cuh\"\n", "char t = __TIME__[7];"), ATTUNE_COMPILE_ERROR,
                 "mine.cuh uses __TIME__");
    assert_ok(look("#include \"mine.cuh\"\n", "#define MINE 1\n"));
    assert_fails(look("#define JOIN(a, b) a##b\n", "JOIN(__TI, ME__)"), ATTUNE_COMPILE_ERROR, "pasted to __TIME__");
}

static void other_files_are_refused(void **state)
{
    static const char *const bad[] = {"double up =\n#include \"/proc/uptime\"\n;",
                                      "#include </proc/uptime>",
                                      "  # /* */ include \"/proc/uptime\"",
                                      "%:include \"/proc/uptime\"",
                                      "#include \"../x.h\"",
                                      "#define HERE \"/x\"\n#include HERE",
                                      "#inc\\\nlude \"/proc/uptime\"",
                                      "#include_next </x>",
                                      "#import \"a/../../x\"",
                                      "R\"()\"\n/* */ #include \"/proc/uptime\"",
                                      "#include \"",
                                      "#include",
                                      "#define HERE(x) <x>\n#include HERE(../own.h)"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        if (look(bad[i], NULL) == ATTUNE_OK) {
            fail_msg("this passes: %s", bad[i]);
        }
        assert_fails(look(bad[i], NULL), ATTUNE_COMPILE_ERROR, "mine.cu includes");
    }
}

static void what_only_looks_so_passes(void **state)
{
    static const char *const fine[] = {
        "",
        "// built on __DATE__, it doesn't matter\n/* __TIME__, #include \"/x\" */ int a;",
        "const char *text = \"__DATE__ \\\" #include </x>\"; char c = '\\'', d = '\"';",
        "int my__DATE__, __DATE, __TIME, DATE__; float f = 1'000.5e-3f;",
        "#define JOIN(a, b) a##b\nint JOIN(some, thing); template <typename T, int M, int E, int I> struct __TIM;",
        "#ifndef __CUDACC_RTC__\n#include <cuda_fp16.h>\n#endif\n#include \"device/ptx.cuh\"\n",
        "#define TEXT(x) #x\n#define INCLUDE(x) TEXT(x)\n",
        "#error it doesn't work\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; ++i) {
        if (look(fine[i], NULL) != ATTUNE_OK) {
            fail_msg("%s: %s", fine[i], attune_last_detail());
        }
    }
}

static void our_own_have_no_dates(void **state)
{
    (void)state;
    for (const at_embedded *file = at_cuda_sources; file->name != NULL; ++file) {
        assert_ok(look((const char *)file->data, NULL));
    }
}

/* By way of a recipe; and what a compiler is asked to leave alone is not found. */
static void a_stranger_is_reported(void **state)
{
    at_recipe recipe;
    at_build build;
    attune_problem problem = fixture_problem();
    attune_target target = fixture_target(90);
    (void)state;
    fixture_recipe(&problem, &target, FIXTURE_ENTRY("*static_cast<char *>(args.workspace) = __DATE__[5];"), &recipe);
    assert_fails(at_build_gather(&recipe, &target, &build), ATTUNE_COMPILE_ERROR, "fixture.cu uses __DATE__");
}

/* A file of the working directory is none of the folder's. */
static void the_working_directory_is_not_looked_at(void **state)
{
    static const char file[] = "left_here_by_test_outside.h";
    at_recipe recipe;
    at_build build;
    at_artifact artifact;
    at_nvrtc *nvrtc = NULL;
    attune_problem problem = fixture_problem();
    attune_target target = fixture_target(90);
    (void)state;
    if (at_nvrtc_open(&nvrtc) != ATTUNE_OK || nvrtc->version < 13000) {
        at_nvrtc_close(nvrtc);
        skip();
    }
    FILE *left = fopen(file, "w");
    assert_non_null(left);
    assert_true(fputs("#define OUTSIDE 1\n", left) > 0);
    assert_int_equal(fclose(left), 0);
    fixture_recipe(
        &problem, &target,
        "#include \"left_here_by_test_outside.h\"\n" FIXTURE_ENTRY("*static_cast<char *>(args.workspace) = OUTSIDE;"),
        &recipe);
    assert_ok(at_build_gather(&recipe, &target, &build));
    assert_fails(at_compile(nvrtc, &build, &artifact), ATTUNE_COMPILE_ERROR, "could not open source file");
    assert_int_equal(remove(file), 0);
    at_nvrtc_close(nvrtc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_are_refused),         cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(what_only_looks_so_passes), cmocka_unit_test(our_own_have_no_dates),
        cmocka_unit_test(a_stranger_is_reported),    cmocka_unit_test(the_working_directory_is_not_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
