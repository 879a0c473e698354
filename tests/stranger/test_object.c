/* What a stranger's shared object may have: real ones, made by the system's compiler, and damaged ones. */
#include "base/cm.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/folder.h"
#include "stranger/object.h"
#include "wire/process.h"

static folder here;

/* Compiles C text as attune compiles a stranger's, with one more option where it is not NULL. */
static void compiled(const char *text, const char *option, void **data, size_t *bytes)
{
    char source[PATH_MAX];
    char object[PATH_MAX];
    char *said = malloc(AT_SAID_MAX);
    int end;
    assert_non_null(said);
    (void)folder_path(&here, "object.c", source);
    (void)folder_path(&here, "object.so", object);
    assert_ok(at_file_write(source, text, strlen(text)));
    const char *const command[] = {"cc",
                                   "-O1",
                                   "-shared",
                                   "-fPIC",
                                   "-nostartfiles",
                                   "-nodefaultlibs",
                                   "-Wl,--hash-style=sysv,-z,relro,-z,now,-z,noexecstack,--build-id=none",
                                   source,
                                   "-o",
                                   object,
                                   option,
                                   NULL};
    assert_ok(at_process_run(command, 3600, said, &end));
    if (end != 0) {
        fail_msg("cc: %s", said);
    }
    assert_ok(at_file_read(object, 1 << 24, data, bytes));
    free(said);
}

static attune_status checked(const char *text, const char *option, at_object_kind kind)
{
    void *data;
    size_t bytes;
    compiled(text, option, &data, &bytes);
    attune_status status = at_object_check("it", data, bytes, kind);
    free(data);
    return status;
}

static const char plain[] =
    "#include <math.h>\n#include <string.h>\n"
    "static const float table[2] = {1, 2};\nstatic const float *const places[2] = {table, table + 1};\n"
    "void attend(const float *from, float *to, int n)\n"
    "{ memcpy(to, from, 4 * (unsigned)n); to[0] = expf(to[0]) + *places[n & 1]; }\n";

static void what_computes_is_fine(void **state)
{
    (void)state;
    assert_ok(checked(plain, NULL, AT_OBJECT_KERNEL));
    assert_ok(checked(plain, NULL, AT_OBJECT_DESCRIPTOR));
    assert_ok(checked("#include <stdio.h>\nint count; int f(void) { return printf(\"%d\", ++count); }", "-lc",
                      AT_OBJECT_DESCRIPTOR));
}

/* Functions of libm that leave nothing behind, whoever thinks of them. */
static void all_of_libm_computes(void **state)
{
    static const char *const fine[] = {"float fdimf(float, float)",
                                       "float nextafterf(float, float)",
                                       "float tgammaf(float)",
                                       "float log1pf(float)",
                                       "double sinh(double)",
                                       "float modff(float, float *)",
                                       "float remquof(float, float, int *)",
                                       "float lgammaf_r(float, int *)"};
    static const char *const stateful[] = {"float lgammaf(float)",   "double gamma(double)", "int fesetround(int)",
                                           "int feclearexcept(int)", "float malloc(float)",  "float notmath(float)"};
    char text[256];
    (void)state;
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; ++i) {
        (void)snprintf(text, sizeof text, "%s; void *f(void) { return (void *)%.*s; }", fine[i],
                       (int)strcspn(strchr(fine[i], ' ') + 1, "("), strchr(fine[i], ' ') + 1);
        assert_ok(checked(text, "-fno-builtin", AT_OBJECT_KERNEL));
    }
    for (size_t i = 0; i < sizeof stateful / sizeof stateful[0]; ++i) {
        (void)snprintf(text, sizeof text, "%s; void *f(void) { return (void *)%.*s; }", stateful[i],
                       (int)strcspn(strchr(stateful[i], ' ') + 1, "("), strchr(stateful[i], ' ') + 1);
        assert_fails(checked(text, "-fno-builtin", AT_OBJECT_KERNEL), ATTUNE_COMPILE_ERROR, "it uses '");
    }
}

static void what_a_kernel_must_not_have(void **state)
{
    static const struct {
        const char *text, *option, *words;
    } rows[] = {
        {"int calls; int f(void) { return ++calls; }", NULL, "global data that can change"},
        {"static int calls[100]; int *f(void) { return calls; }", NULL, "global data that can change"},
        {"static _Thread_local int calls; int f(void) { return ++calls; }", NULL, "thread-local data"},
        {"int puts(const char *); int f(void) { return puts(\"\"); }", NULL, "it uses 'puts'"},
        {"extern int errno_of_theirs; int *f(void) { return &errno_of_theirs; }", NULL, "it uses 'errno_of_theirs'"},
        {plain, "-lc", "it needs another object"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        assert_fails(checked(rows[i].text, rows[i].option, AT_OBJECT_KERNEL), ATTUNE_COMPILE_ERROR, rows[i].words);
    }
}

static void what_no_object_may_have(void **state)
{
    static const struct {
        const char *text, *option, *words;
    } rows[] = {
        {"void g(void); static __attribute__((constructor)) void f(void) { g(); }", NULL, "a constructor"},
        {"void g(void); static __attribute__((destructor)) void f(void) { g(); }", NULL, "a destructor"},
        {"void _init(void) {} ", NULL, "a constructor"},
        {"static int g(void) { return 1; } static int (*f(void))(void) { return g; }\n"
         "int h(void) __attribute__((ifunc(\"f\"))); int i(void) { return h(); }",
         NULL, "indirect function"},
        {"static int g(void) { return 1; } static int (*f(void))(void) { return g; }\n"
         "static int h(void) __attribute__((ifunc(\"f\"))); int i(void) { return h(); }",
         NULL, "a relocation of type"},
        {"int f(void) { return 1; }", "-Wl,-rpath,/tmp", "a search path"},
        {"int f(void) { return 1; }", "-Wl,-z,execstack", "executable stack"},
        {"int f(void) { return 1; }", "-Wl,-N", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        attune_status status = checked(rows[i].text, rows[i].option, AT_OBJECT_DESCRIPTOR);
        if (status == ATTUNE_OK || strstr(attune_last_detail(), rows[i].words) == NULL) {
            fail_msg("%s: %s: \"%s\" lacks \"%s\"", rows[i].text, attune_status_string(status), attune_last_detail(),
                     rows[i].words);
        }
    }
}

/* Each byte of the headers and tables in turn, and every length: refused or fine, and never more than that. */
static void damage_is_seen_or_harmless(void **state)
{
    void *data;
    size_t bytes;
    int refused = 0;
    (void)state;
    compiled(plain, NULL, &data, &bytes);
    unsigned char *at = data;
    for (size_t i = 0; i < bytes && i < 0x400; ++i) {
        const unsigned char was = at[i];
        static const unsigned char other[] = {0x01, 0x80, 0xff};
        for (size_t k = 0; k < sizeof other; ++k) {
            at[i] = was ^ other[k];
            refused += at_object_check("it", data, bytes, AT_OBJECT_KERNEL) != ATTUNE_OK;
        }
        at[i] = was;
    }
    assert_true(refused > 100);
    for (size_t length = 0; length < 0x400; ++length) {
        assert_int_not_equal(at_object_check("it", data, length, AT_OBJECT_KERNEL), ATTUNE_OK);
    }
    at[EI_CLASS] = ELFCLASS32;
    assert_fails(at_object_check("it", data, bytes, AT_OBJECT_KERNEL), ATTUNE_CORRUPT, "of another kind");
    free(data);
}

static int make_folder(void **state)
{
    (void)state;
    return folder_make(&here);
}

static int drop_folder(void **state)
{
    (void)state;
    folder_remove(&here);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_computes_is_fine),       cmocka_unit_test(all_of_libm_computes),
        cmocka_unit_test(what_a_kernel_must_not_have), cmocka_unit_test(what_no_object_may_have),
        cmocka_unit_test(damage_is_seen_or_harmless),
    };
    return cmocka_run_group_tests_name("object", tests, make_folder, drop_folder);
}
