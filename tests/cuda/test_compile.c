/* From a descriptor to a cubin: which macros the source gets, which headers travel, what the compiler's refusals say,
 * and where code comes from. */
#include "base/folder.h"
#include "core/config.h"
#include "cuda/cache.h"
#include "cuda/compiler.h"
#include "cuda/provide.h"
#include "library/catalogue.h"

static void gather(const char *problem_text, int arch, const char *source, at_build *build)
{
    attune_problem problem;
    attune_target target = fixture_target(arch);
    assert_ok(attune_problem_parse(problem_text, &problem));
    at_recipe recipe;
    fixture_recipe(&problem, &target, source, &recipe);
    assert_ok(at_build_gather(&recipe, &target, build));
}

static bool has(const at_build *build, const char *option)
{
    for (int i = 0; i < build->option_count; ++i) {
        if (strcmp(build->option[i], option) == 0) {
            return true;
        }
    }
    return false;
}

static void the_source_is_reported(void **state)
{
    at_build build;
    (void)state;
    gather("b1,h8,hkv2,s512,d64,dv80,bf16,window=3:0,sink,offset=tl,align=4", 90, "", &build);
    assert_true(has(&build, "--gpu-architecture=sm_90a"));
    assert_true(has(&build, "-DATTUNE_ARCH=90"));
    assert_true(has(&build, "-DATTUNE_ARCH_FEATURES=1"));
    assert_true(has(&build, "-DATTUNE_DTYPE=2"));
    assert_true(has(&build, "-DATTUNE_HEAD_DIM_QK=64"));
    assert_true(has(&build, "-DATTUNE_HEAD_DIM_V=80"));
    assert_true(has(&build, "-DATTUNE_WINDOW_LEFT=1"));
    assert_true(has(&build, "-DATTUNE_WINDOW_RIGHT=2"));
    assert_true(has(&build, "-DATTUNE_HAS_SINK=1"));
    assert_true(has(&build, "-DATTUNE_HAS_BIAS=0"));
    assert_true(has(&build, "-DATTUNE_HAS_STRICT=0"));
    assert_true(has(&build, "-DATTUNE_OFFSET_KIND=1"));
    assert_true(has(&build, "-DATTUNE_ALIGN=4"));
    assert_true(has(&build, "-DATTUNE_THREADS=128"));
    assert_true(has(&build, "-DATTUNE_SMEM_BYTES=0"));
    assert_true(has(&build, "-DTEST_PARAM=7"));
    gather("b1,h8,s512,d64,fp16", 80, "", &build);
    assert_true(has(&build, "--gpu-architecture=sm_80"));
    assert_true(has(&build, "-DATTUNE_ARCH_FEATURES=0"));
}

static void equal_builds_have_equal_digests(void **state)
{
    at_build one;
    at_build two;
    (void)state;
    gather("b1,h8,s512,d64,fp16", 90, "x", &one);
    gather("b9,h3,s77,d64,fp16,scale=2", 90, "x", &two); /* all of this travels in args */
    assert_string_equal(one.digest, two.digest);
    gather("b1,h8,s512,d64,fp16", 80, "x", &two);
    assert_string_not_equal(one.digest, two.digest);
    gather("b1,h8,s512,d64,fp16", 90, "y", &two);
    assert_string_not_equal(one.digest, two.digest);
    gather("b1,h8,s512,d64,fp16,causal", 90, "x", &two);
    assert_string_not_equal(one.digest, two.digest);
    gather("b1,h8,s512,d64,fp16", 90, "#include \"attune/args.h\"\n", &two);
    assert_string_not_equal(one.digest, two.digest);
    assert_int_equal(two.header_count, 1);
}

static void a_causal_mask_is_a_window(void **state)
{
    at_build one;
    at_build two;
    (void)state;
    gather("b1,h8,s512,d64,fp16,causal", 90, "x", &one);
    gather("b1,h8,s512,d64,fp16,window=-1:0", 90, "x", &two);
    assert_string_equal(one.digest, two.digest);
    gather("b1,h8,s512,d64,fp16,causal,window=8:-1", 90, "x", &one);
    gather("b1,h8,s512,d64,fp16,window=33:0", 90, "x", &two); /* how wide a window is travels in args */
    assert_string_equal(one.digest, two.digest);
    gather("b1,h8,s512,d64,fp16,window=33:1", 90, "x", &two);
    assert_string_not_equal(one.digest, two.digest);
}

static void headers_travel_with_what_they_include(void **state)
{
    at_build build;
    (void)state;
    gather("b1,h8,s512,d64,fp16", 90, "#include <nothing>\n#include \"device/sequence.cuh\"\n#include \"no/such\"\n",
           &build);
    bool args = false;
    for (int i = 0; i < build.header_count; ++i) {
        args |= strcmp(build.header_name[i], "attune/args.h") == 0;
        assert_string_not_equal(build.header_name[i], "no/such");
    }
    assert_true(args);
    assert_true(build.header_count >= 3);
}

static void compile_errors_are_quoted(void **state)
{
    at_build build;
    at_artifact artifact;
    (void)state;
    if (nvrtc == NULL) {
        skip();
    }
    gather("b1,h8,s512,d64,fp16", 90, "int main( {\n", &build);
    assert_fails(at_compile(nvrtc, &build, &artifact), ATTUNE_COMPILE_ERROR, "fixture.cu(1): error");
    assert_non_null(strstr(attune_last_detail(), "sm_90a"));
    gather("b1,h8,s512,d64,fp16", 90, "#include \"no/such\"\n", &build);
    assert_fails(at_compile(nvrtc, &build, &artifact), ATTUNE_COMPILE_ERROR, "no/such");
    gather("b1,h8,s512,d64,fp16", 90, "static_assert(TEST_PARAM == 8, \"seven is not eight\");", &build);
    assert_fails(at_compile(nvrtc, &build, &artifact), ATTUNE_COMPILE_ERROR, "seven is not eight");
    gather("b1,h8,s512,d64,fp16", 90,
           "extern \"C\" __device__ int other(int);\nextern \"C\" __global__ void entry(int *x) { *x = other(1); }",
           &build);
    assert_fails(at_compile(nvrtc, &build, &artifact), ATTUNE_COMPILE_ERROR, "Unresolved extern function 'other'");
    gather("b1,h8,s512,d64,fp16", 90, "", &build);
    (void)snprintf(build.option[0], sizeof build.option[0], "--gpu-architecture=sm_1");
    assert_fails(at_compile(nvrtc, &build, &artifact), ATTUNE_COMPILE_ERROR, "sm_1");
}

/* A copy of a text in which `from` has become `to`; for the caller to free. */
static char *edited(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    char *copy = NULL;
    assert_non_null(at);
    assert_true(asprintf(&copy, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) > 0);
    return copy;
}

static void compile_of(const char *name, const char *problem_text, at_build *build)
{
    const attune_kernel *kernel = NULL;
    attune_problem problem;
    attune_config config;
    attune_target target = fixture_target(90);
    at_recipe recipe;
    assert_ok(at_catalogue_named(name, &kernel));
    assert_ok(attune_problem_parse(problem_text, &problem));
    assert_true(kernel->heuristic(&problem, &target, 0, &config));
    at_recipe_ask(kernel, &problem, &target, &config, &recipe);
    assert_ok(at_build_gather(&recipe, &target, build));
}

/* Kernels that do not know a role keep their code to the byte when it is appended, and what a launch copies with it. */
static void a_new_role_changes_no_byte(void **state)
{
    static const struct {
        const char *kernel, *problem;
    } cases[] = {{"minimal", "b1,h1,s32,d64,fp32,sink"}, {"wgmma_small", "b1,h8,s256,d64,fp16"}};
    (void)state;
    if (nvrtc == NULL) {
        skip();
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        at_build build;
        at_artifact today, later;
        char *header = NULL;
        compile_of(cases[i].kernel, cases[i].problem, &build);
        assert_ok(at_compile(nvrtc, &build, &today));
        for (int k = 0; k < build.header_count; ++k) {
            if (strcmp(build.header_name[k], "attune/args.h") == 0) {
                header = edited(build.header_text[k], "ATTUNE_ROLE_COUNT = 31\n",
                                "ATTUNE_LATER = 31,\n    ATTUNE_ROLE_COUNT = 32\n");
                build.header_text[k] = header;
            }
        }
        assert_non_null(header);
        assert_ok(at_compile(nvrtc, &build, &later));
        assert_int_equal(today.cubin_bytes, later.cubin_bytes);
        assert_memory_equal(today.cubin, later.cubin, today.cubin_bytes);
        at_artifact_free(&today);
        at_artifact_free(&later);
        free(header);
    }
}

/* Only what a kernel has is in its attune_args; maps are known by name. */
static void args_are_as_large_as_they_need(void **state)
{
    at_build build;
    (void)state;
    compile_of("minimal", "b1,h1,s32,d64,fp32", &build);
    assert_true(has(&build, "-DATTUNE_ARGS_MAPS=4") && has(&build, "-DATTUNE_ARGS_ROLES=12"));
    compile_of("wgmma_small", "b1,h8,s256,d64,fp16", &build);
    assert_true(has(&build, "-DATTUNE_ARGS_MAPS=4") && has(&build, "-DATTUNE_ARGS_ROLES=12"));
    assert_true(has(&build, "-DATTUNE_MAP_Q=0") && has(&build, "-DATTUNE_MAP_K=1"));
    assert_true(has(&build, "-DATTUNE_MAP_V=2"));
}

/* A kernel has the roles of the row of its table that has the problem's features: problems without caches have the code
 * that they had before kernels knew any. */
static void roles_are_those_of_the_problem_s_row(void **state)
{
    at_build build;
    (void)state;
    compile_of("tiled", "b1,h1,s32,d64,fp32", &build);
    assert_true(has(&build, "-DATTUNE_ARGS_ROLES=12") && has(&build, "-DATTUNE_PAGE_SIZE=0"));
    assert_true(has(&build, "-DATTUNE_HAS_PAGED=0") && has(&build, "-DATTUNE_HAS_DRAFT=0"));
    compile_of("tiled", "b1,h1,sq4,skv32,d64,fp32,k=bf16,page=24,vtable,draft", &build);
    assert_true(has(&build, "-DATTUNE_ARGS_ROLES=25") && has(&build, "-DATTUNE_PAGE_SIZE=24"));
    assert_true(has(&build, "-DATTUNE_HAS_PAGED_V=1") && has(&build, "-DATTUNE_HAS_DRAFT=1"));
    assert_true(has(&build, "-DATTUNE_DTYPE=0") && has(&build, "-DATTUNE_DTYPE_K=2") &&
                has(&build, "-DATTUNE_DTYPE_V=0"));
    compile_of("append", "append:b1,h1,sq1,skv32,d64,fp16,slots", &build);
    assert_true(has(&build, "-DATTUNE_ARGS_ROLES=25") && has(&build, "-DATTUNE_HAS_SLOTS=1"));
    compile_of("merge", "merge:b1,h1,sq1,d64,fp16,states=2", &build);
    assert_true(has(&build, "-DATTUNE_ARGS_ROLES=31"));
}

static void a_source_that_is_not_there(void **state)
{
    at_build build;
    attune_kernel kernel = fixture_kernel;
    attune_problem problem = fixture_problem();
    attune_target target = fixture_target(90);
    at_recipe recipe;
    (void)state;
    at_recipe_ask(&kernel, &problem, &target, &fixture_config, &recipe);
    assert_fails(at_build_gather(&recipe, &target, &build), ATTUNE_NOT_FOUND, "fixture.cu");
    kernel.source = NULL;
    assert_fails(at_build_gather(&recipe, &target, &build), ATTUNE_INVALID_ARGUMENT, "no source");
}

static void a_compiler_that_is_not_there(void **state)
{
    at_nvrtc *other = NULL;
    char *before = getenv("ATTUNE_NVRTC");
    char kept[512] = "";
    (void)state;
    (void)snprintf(kept, sizeof kept, "%s", before == NULL ? "" : before);
    assert_int_equal(setenv("ATTUNE_NVRTC", "/no/such/libnvrtc.so", 1), 0);
    assert_fails(at_nvrtc_open(&other), ATTUNE_COMPILE_ERROR, "/no/such/libnvrtc.so");
    assert_null(other);
    assert_int_equal(setenv("ATTUNE_NVRTC", "libm.so.6", 1), 0);
    assert_fails(at_nvrtc_open(&other), ATTUNE_COMPILE_ERROR, "no nvrtcVersion");
    assert_int_equal(setenv("ATTUNE_NVRTC", kept, 1), 0);
}

/* ---- Where code comes from ------------------------------------------------------------------------------------------
 */

static const char plain[] =
    FIXTURE_ENTRY("static_cast<float *>(args.tensor[ATTUNE_O].data)[threadIdx.x] = args.scale;");

static void provided(at_provider *provider, attune_status expected, const char *words)
{
    at_artifact artifact;
    attune_problem problem = fixture_problem();
    attune_target target = fixture_target(90);
    at_recipe recipe;
    fixture_recipe(&problem, &target, plain, &recipe);
    if (expected == ATTUNE_OK) {
        assert_ok(at_provide(provider, &recipe, &target, &artifact, NULL));
        at_artifact_free(&artifact);
    } else {
        assert_fails(at_provide(provider, &recipe, &target, &artifact, NULL), expected, words);
    }
}

static void the_cache_is_used_and_distrusted(void **state)
{
    folder here;
    folder inner;
    at_artifact artifact;
    at_build build;
    (void)state;
    if (nvrtc == NULL) {
        skip();
    }
    assert_int_equal(folder_make(&here), 0);
    at_provider provider = {.cache = at_cache_place(here.path), .nvrtc = nvrtc};
    provided(&provider, ATTUNE_OK, NULL);
    gather("b2,h4,s64,d64,fp16", 90, plain, &build);
    assert_true(at_cache_find(provider.cache, build.digest, nvrtc->version, &artifact));
    /* A compiler that cannot compile shows that the cache answers. */
    at_nvrtc broken = *nvrtc;
    broken.nvrtcCreateProgram = NULL;
    provider.nvrtc = &broken;
    provided(&provider, ATTUNE_OK, NULL);
    /* Sound as a file, no cubin inside: compiled anew and put right. */
    memset(artifact.cubin, 0, artifact.cubin_bytes);
    assert_true(at_cache_keep(provider.cache, &artifact));
    at_artifact_free(&artifact);
    provider.nvrtc = nvrtc;
    provided(&provider, ATTUNE_OK, NULL);
    provider.nvrtc = &broken;
    provided(&provider, ATTUNE_OK, NULL);
    (void)snprintf(inner.path, sizeof inner.path, "%.50s/cuda", here.path);
    folder_remove(&inner);
    folder_remove(&here);
    free(provider.cache);
}

static void a_pack_needs_no_compiler(void **state)
{
    folder here;
    at_artifact artifact;
    at_pack *pack = NULL;
    at_build build;
    (void)state;
    if (nvrtc == NULL) {
        skip();
    }
    assert_int_equal(folder_make(&here), 0);
    gather("b2,h4,s64,d64,fp16", 90, plain, &build);
    assert_ok(at_compile(nvrtc, &build, &artifact));
    assert_ok(at_pack_write(folder_file(&here, "pack"), &artifact, 1));
    at_artifact_free(&artifact);
    assert_ok(at_pack_read(folder_file(&here, "pack"), &pack));
    at_provider provider = {.pack = pack};
    provided(&provider, ATTUNE_OK, NULL);
    at_pack_destroy(pack);
    /* One without it, and without a compiler. */
    assert_ok(at_pack_write(folder_file(&here, "pack"), NULL, 0));
    assert_ok(at_pack_read(folder_file(&here, "pack"), &pack));
    provider.pack = pack;
    provided(&provider, ATTUNE_COMPILE_ERROR, "the pack has no code");
    provider.pack = NULL;
    provided(&provider, ATTUNE_COMPILE_ERROR, "NVRTC");
    at_pack_destroy(pack);
    folder_remove(&here);
}

/* ---- What is predicted to be too much -------------------------------------------------------------------------------
 */

/* Two kernels of the project's beginnings asked for 57,376 B and 131 KB where a block gets 49,152 without asking. */
static void too_much_shared_memory_is_refused_with_numbers(void **state)
{
    attune_reason reason;
    attune_problem problem = fixture_problem();
    attune_target plain_device = fixture_target(89);
    attune_target l4 = fixture_target(89);
    attune_target h200 = fixture_target(90);
    (void)state;
    fixture_says before = fixture;
    plain_device.smem_optin_bytes = plain_device.smem_block_bytes; /* gives no more when asked */
    fixture.smem_bytes = fixture.dynamic_bytes = 57376;
    assert_false(at_kernel_fits(&fixture_kernel, &problem, &plain_device, &fixture_config, &reason));
    assert_non_null(strstr(reason.text, "57376"));
    assert_non_null(strstr(reason.text, "49152"));
    assert_true(at_kernel_fits(&fixture_kernel, &problem, &l4, &fixture_config, &reason));
    fixture.smem_bytes = fixture.dynamic_bytes = 131 * 1024;
    assert_false(at_kernel_fits(&fixture_kernel, &problem, &plain_device, &fixture_config, &reason));
    assert_non_null(strstr(reason.text, "134144"));
    assert_non_null(strstr(reason.text, "49152"));
    assert_false(at_kernel_fits(&fixture_kernel, &problem, &l4, &fixture_config, &reason));
    assert_non_null(strstr(reason.text, "101376"));
    assert_true(at_kernel_fits(&fixture_kernel, &problem, &h200, &fixture_config, &reason));
    fixture = before;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_source_is_reported),
        cmocka_unit_test(equal_builds_have_equal_digests),
        cmocka_unit_test(a_causal_mask_is_a_window),
        cmocka_unit_test(headers_travel_with_what_they_include),
        cmocka_unit_test(compile_errors_are_quoted),
        cmocka_unit_test(a_new_role_changes_no_byte),
        cmocka_unit_test(args_are_as_large_as_they_need),
        cmocka_unit_test(roles_are_those_of_the_problem_s_row),
        cmocka_unit_test(a_source_that_is_not_there),
        cmocka_unit_test(a_compiler_that_is_not_there),
        cmocka_unit_test(the_cache_is_used_and_distrusted),
        cmocka_unit_test(a_pack_needs_no_compiler),
        cmocka_unit_test(too_much_shared_memory_is_refused_with_numbers),
    };
    return cmocka_run_group_tests(tests, open_compiler, close_compiler);
}
