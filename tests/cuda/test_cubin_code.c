/* The digest of what runs: what compiles to the same code keeps it, whatever else a cubin holds; nothing else does. */
#include <elf.h>

#include "cuda/compile.h"
#include "cuda/compiler.h"
#include "cuda/cubin.h"

typedef struct digests {
    char code[AT_DIGEST_TEXT_MAX], cubin[AT_DIGEST_TEXT_MAX], without_log[AT_DIGEST_TEXT_MAX];
} digests;

static at_artifact compiled(const char *source, int arch, const char *option)
{
    at_build build;
    at_artifact artifact;
    at_recipe recipe;
    attune_problem problem = fixture_problem();
    attune_target target = fixture_target(arch);
    if (nvrtc == NULL) {
        skip();
    }
    fixture_recipe(&problem, &target, source, &recipe);
    assert_ok(at_build_gather(&recipe, &target, &build));
    if (option != NULL) {
        (void)snprintf(build.option[build.option_count++], AT_BUILD_OPTION_BYTES, "%s", option);
    }
    assert_ok(at_compile(nvrtc, &build, &artifact));
    return artifact;
}

static digests digested(const char *source, int arch, const char *option)
{
    digests of;
    at_artifact artifact = compiled(source, arch, option);
    assert_ok(at_cubin_code(artifact.cubin, artifact.cubin_bytes, artifact.log, of.code));
    assert_ok(at_cubin_code(artifact.cubin, artifact.cubin_bytes, NULL, of.without_log));
    at_digest_of(artifact.cubin, artifact.cubin_bytes, of.cubin);
    at_artifact_free(&artifact);
    return of;
}

static const int archs[] = {80, 90, 120};

static void expect_same(const char *one, const char *other)
{
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; ++i) {
        assert_string_equal(digested(one, archs[i], NULL).code, digested(other, archs[i], NULL).code);
    }
}

static void expect_different(const char *one, const char *other)
{
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; ++i) {
        assert_string_not_equal(digested(one, archs[i], NULL).code, digested(other, archs[i], NULL).code);
    }
}

#define STORE "static_cast<float *>(args.workspace)[threadIdx.x] = "
#define HELPED(name, factor, offset)                                                                                   \
    "__device__ __noinline__ float " name "(float x) { return __sinf(x) * " factor "; }\n"                             \
    "constexpr int OFFSET = " offset ";\n" FIXTURE_ENTRY(STORE name "(args.scale) + OFFSET;")

static const char helped[] = HELPED("helper", "3.25f", "7");

static void comments_and_lines_do_not_matter(void **state)
{
    (void)state;
    expect_same(helped, "/* said\n * twice */\n\n\n" HELPED("helper", "/* a factor */ 3.25f", "7"));
    assert_string_equal(digested(helped, 90, "--generate-line-info").code, digested(helped, 90, NULL).code);
    assert_string_not_equal(digested(helped, 90, "--generate-line-info").cubin, digested(helped, 90, NULL).cubin);
}

static void names_of_functions_do_not_matter(void **state)
{
    static const char renamed[] = HELPED("another_name_for_it", "3.25f", "7");
    (void)state;
    expect_same(helped, renamed);
    assert_string_not_equal(digested(helped, 90, NULL).cubin, digested(renamed, 90, NULL).cubin);
}

/* They have a place among the globals, which nothing that runs reaches: cuda/ptx.h. */
static void folded_constants_do_not_matter(void **state)
{
    static const char more[] =
        "constexpr int UNUSED = 99; constexpr float HALF = 0.5f;\n" HELPED("helper", "3.25f", "7");
    static const char enumerated[] =
        "enum { OFFSET = 7, OTHER = 12 };\n"
        "__device__ __noinline__ float helper(float x) { return __sinf(x) * 3.25f; }\n" FIXTURE_ENTRY(
            STORE "helper(args.scale) + OFFSET;");
    (void)state;
    expect_same(helped, more);
    expect_same(helped, enumerated);
    /* Without the compilation's log nobody knows that they are unused. */
    assert_string_not_equal(digested(helped, 90, NULL).without_log, digested(more, 90, NULL).without_log);
}

static void an_instruction_matters(void **state)
{
    (void)state;
    expect_different(helped, HELPED("helper", "3.5f", "7"));
    expect_different(helped, HELPED("helper", "3.25f", "8"));
    expect_different(helped, HELPED("helper", "3.25f * __cosf(x)", "7"));
}

static void tables_matter(void **state)
{
    static const char table[] =
        "__constant__ float table[2] = {1, 2};\n" FIXTURE_ENTRY(STORE "table[threadIdx.x & 1];");
    (void)state;
    expect_different(table, "__constant__ float table[2] = {1, 3};\n" FIXTURE_ENTRY(STORE "table[threadIdx.x & 1];"));
    expect_different(table, "__constant__ float table[3] = {1, 2};\n" FIXTURE_ENTRY(STORE "table[threadIdx.x & 1];"));
}

#define BOUNDED(name, bounds, parameters)                                                                              \
    "#include \"attune/args.h\"\nextern \"C\" __global__ void " bounds " " name                                        \
    "(const __grid_constant__ attune_args args" parameters ") { " STORE "args.scale; }\n"

static void bounds_parameters_and_entries_matter(void **state)
{
    static const char plain[] = BOUNDED("entry", "__launch_bounds__(128)", "");
    (void)state;
    expect_same(plain, BOUNDED("entry", "__launch_bounds__(128)", "") "/* */");
    expect_different(plain, BOUNDED("entry", "__launch_bounds__(256)", ""));
    expect_different(plain, BOUNDED("entry", "__launch_bounds__(128)", ", int more"));
    expect_different(plain, BOUNDED("other", "__launch_bounds__(128)", ""));
    expect_different(plain,
                     BOUNDED("entry", "__launch_bounds__(128)", "") BOUNDED("next", "__launch_bounds__(128)", ""));
}

#define SHARING(bytes)                                                                                                 \
    FIXTURE_ENTRY("__shared__ float x[" bytes "]; x[threadIdx.x] = args.scale; __syncthreads();\n" STORE               \
                  "x[127 - threadIdx.x];")

static void shared_memory_matters(void **state)
{
    (void)state;
    expect_different(SHARING("128"), SHARING("256"));
}

static void the_architecture_matters(void **state)
{
    (void)state;
    assert_string_not_equal(digested(helped, 80, NULL).code, digested(helped, 86, NULL).code);
}

/* Every byte of what runs is covered: a change of any of its bits is seen. */
static void every_byte_of_the_code_matters(void **state)
{
    char before[AT_DIGEST_TEXT_MAX], after[AT_DIGEST_TEXT_MAX];
    (void)state;
    at_artifact artifact = compiled(helped, 90, NULL);
    unsigned char *bytes = artifact.cubin;
    assert_ok(at_cubin_code(bytes, artifact.cubin_bytes, artifact.log, before));
    Elf64_Ehdr head;
    memcpy(&head, bytes, sizeof head);
    size_t seen = 0;
    for (int i = 1; i < head.e_shnum; ++i) {
        Elf64_Shdr section;
        memcpy(&section, bytes + head.e_shoff + (size_t)i * sizeof section, sizeof section);
        bool code = (section.sh_flags & SHF_EXECINSTR) != 0;
        for (uint64_t at = 0; code && at < section.sh_size; ++at, ++seen) {
            bytes[section.sh_offset + at] ^= (unsigned char)(1U << at % 8);
            assert_ok(at_cubin_code(bytes, artifact.cubin_bytes, artifact.log, after));
            assert_string_not_equal(before, after);
            bytes[section.sh_offset + at] ^= (unsigned char)(1U << at % 8);
        }
    }
    assert_true(seen > 256);
    at_artifact_free(&artifact);
}

static void damage_is_survived(void **state)
{
    char digest[AT_DIGEST_TEXT_MAX];
    (void)state;
    at_artifact artifact = compiled(helped, 90, NULL);
    for (size_t bytes = 0; bytes < artifact.cubin_bytes; bytes += 7) {
        unsigned char *part = malloc(bytes + 1);
        assert_non_null(part);
        memcpy(part, artifact.cubin, bytes);
        attune_status status = at_cubin_code(part, bytes, artifact.log, digest);
        assert_true(status == ATTUNE_CORRUPT || status == ATTUNE_OK);
        free(part);
    }
    for (size_t at = 0; at < artifact.cubin_bytes; ++at) {
        unsigned char kept = artifact.cubin[at];
        artifact.cubin[at] ^= (unsigned char)(1U << at % 8) | 0x80U;
        (void)at_cubin_code(artifact.cubin, artifact.cubin_bytes, artifact.log, digest);
        artifact.cubin[at] = kept;
    }
    assert_fails(at_cubin_code("", 0, NULL, digest), ATTUNE_CORRUPT, "0 bytes");
    at_artifact_free(&artifact);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comments_and_lines_do_not_matter),
        cmocka_unit_test(names_of_functions_do_not_matter),
        cmocka_unit_test(folded_constants_do_not_matter),
        cmocka_unit_test(an_instruction_matters),
        cmocka_unit_test(tables_matter),
        cmocka_unit_test(bounds_parameters_and_entries_matter),
        cmocka_unit_test(shared_memory_matters),
        cmocka_unit_test(the_architecture_matters),
        cmocka_unit_test(every_byte_of_the_code_matters),
        cmocka_unit_test(damage_is_survived),
    };
    return cmocka_run_group_tests_name("cubin code", tests, open_compiler, close_compiler);
}
