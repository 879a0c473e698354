/* Reading cubins: what NVRTC makes of small kernels with one property each, and damaged files. */
#include "cuda/compile.h"
#include "cuda/compiler.h"
#include "cuda/cubin.h"
#include "cuda/ptx.h"

/* Compiles `source` for an architecture, with one more option where it is not NULL. */
static at_artifact compiled(const char *source, int arch, const char *option)
{
    at_build build;
    at_artifact artifact;
    attune_problem problem = fixture_problem();
    attune_target target = fixture_target(arch);
    if (nvrtc == NULL) {
        skip();
    }
    at_recipe recipe;
    fixture_recipe(&problem, &target, source, &recipe);
    assert_ok(at_build_gather(&recipe, &target, &build));
    if (option != NULL) {
        (void)snprintf(build.option[build.option_count++], AT_BUILD_OPTION_BYTES, "%s", option);
    }
    assert_ok(at_compile(nvrtc, &build, &artifact));
    return artifact;
}

static at_cubin inspected(const char *source, int arch, const char *option)
{
    at_cubin cubin;
    at_artifact artifact = compiled(source, arch, option);
    assert_ok(at_cubin_inspect(artifact.cubin, artifact.cubin_bytes, artifact.log, &cubin));
    at_artifact_free(&artifact);
    return cubin;
}

static const char plain[] =
    FIXTURE_ENTRY("static_cast<float *>(args.tensor[ATTUNE_O].data)[threadIdx.x] = args.scale;");
static const char shared[] =
    FIXTURE_ENTRY("__shared__ float x[300]; extern __shared__ float y[];\n"
                  "float *o = static_cast<float *>(args.tensor[ATTUNE_O].data);\n"
                  "x[threadIdx.x] = o[threadIdx.x]; y[threadIdx.x] = args.scale;\n"
                  "__syncthreads(); o[threadIdx.x] = x[127 - threadIdx.x] + y[threadIdx.x ^ 1];");
static const char spilling[] =
    "#include \"attune/args.h\"\n"
    "extern \"C\" __global__ void __maxnreg__(24) entry(const __grid_constant__ attune_args args)\n{\n"
    "float *p = static_cast<float *>(args.workspace); float a[64];\n"
    "for (int i = 0; i < 64; i++) a[i] = p[i * 32 + threadIdx.x]; __syncthreads();\n"
    "for (int j = 0; j < 64; j++) for (int i = 0; i < 64; i++) a[i] = a[i] * a[(i + 7) & 63] + p[j];\n"
    "for (int i = 0; i < 64; i++) p[i * 32 + threadIdx.x] = a[i];\n}\n";

static void an_entry_is_read(void **state)
{
    static const int archs[] = {80, 86, 89, 90, 100, 120};
    (void)state;
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; ++i) {
        at_cubin cubin = inspected(shared, archs[i], NULL);
        assert_int_equal(cubin.arch, archs[i]);
        assert_true(cubin.linked);
        assert_int_equal(cubin.entry_count, 1);
        const at_cubin_entry *entry = at_cubin_find(&cubin, "entry");
        assert_non_null(entry);
        assert_int_equal(entry->smem_static, 300 * sizeof(float));
        assert_int_equal(entry->param_count, 1);
        assert_int_equal(entry->param_bytes, at_args_bytes(ATTUNE_ARGS_MAPS, ATTUNE_ROLES_FORWARD));
        assert_int_equal(entry->max_threads, 128);
        assert_int_equal(entry->spill_bytes, 0);
        assert_int_equal(entry->local_bytes, 0);
        assert_in_range(entry->registers, 4, 40);
        assert_int_equal(cubin.warnings, 0);
        assert_string_equal(cubin.globals, "");
        assert_string_equal(cubin.undefined_name, "");
        assert_null(at_cubin_find(&cubin, "other"));
    }
}

static void spills_are_seen(void **state)
{
    (void)state;
    at_cubin cubin = inspected(spilling, 90, NULL);
    assert_int_equal(cubin.entry[0].registers, 24);
    assert_true(cubin.entry[0].spill_bytes > 100);
    assert_true(cubin.entry[0].local_bytes > 100);
}

/* Of an entry that calls another with so many words of its own, by itself or as often as it likes. */
#define CALLER(again)                                                                                                  \
    "#include \"attune/args.h\"\n"                                                                                     \
    "__device__ __noinline__ float callee(const float *p, int n)\n{\n"                                                 \
    "volatile float a[1000]; for (int i = 0; i < 1000; i++) a[i] = p[i];\n"                                            \
    "return a[n] " again ";\n}\n"                                                                                      \
    "extern \"C\" __global__ void entry(const __grid_constant__ attune_args args)\n{\n"                                \
    "float *p = static_cast<float *>(args.workspace); p[threadIdx.x] = callee(p, threadIdx.x % 1000);\n}\n"

static void stacks_are_those_of_who_is_called_too(void **state)
{
    static const int archs[] = {80, 90, 100, 120};
    (void)state;
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; ++i) {
        at_cubin cubin = inspected(CALLER(""), archs[i], NULL);
        assert_in_range(cubin.entry[0].stack_bytes, 4000, 4200);
        cubin = inspected(CALLER("* (n > 3 ? callee(p, n - 1) * callee(p + 1, n - 2) : 1)"), archs[i], NULL);
        assert_int_equal(cubin.entry[0].stack_bytes, INT32_MAX);
        cubin = inspected(plain, archs[i], NULL);
        assert_int_equal(cubin.entry[0].stack_bytes, 0);
    }
}

static void without_a_log_spills_are_unknown(void **state)
{
    at_cubin cubin;
    (void)state;
    at_artifact artifact = compiled(spilling, 90, NULL);
    assert_ok(at_cubin_inspect(artifact.cubin, artifact.cubin_bytes, NULL, &cubin));
    assert_int_equal(cubin.entry[0].spill_bytes, -1);
    at_artifact_free(&artifact);
    /* But what has no stack frame has spilled nothing. */
    artifact = compiled(plain, 90, NULL);
    assert_ok(at_cubin_inspect(artifact.cubin, artifact.cubin_bytes, NULL, &cubin));
    assert_int_equal(cubin.entry[0].local_bytes, 0);
    assert_int_equal(cubin.entry[0].spill_bytes, 0);
    at_artifact_free(&artifact);
}

static attune_status judge_on(const at_cubin *cubin, int arch)
{
    at_recipe recipe;
    attune_problem problem = fixture_problem();
    attune_target target = fixture_target(arch);
    fixture_recipe(&problem, &target, "", &recipe);
    return at_cubin_check(cubin, &recipe, &target);
}

static attune_status judge(const char *source, int arch, const char *option)
{
    at_cubin cubin = inspected(source, arch, option);
    return judge_on(&cubin, arch);
}

static void mutable_globals_are_refused(void **state)
{
    (void)state;
    assert_ok(judge(plain, 90, NULL));
    assert_fails(judge("__device__ int counter;\n" FIXTURE_ENTRY("atomicAdd(&counter, 1);") "/* */", 90, NULL),
                 ATTUNE_COMPILE_ERROR, "counter");
    assert_fails(judge("__device__ int start = 3;\n" FIXTURE_ENTRY("atomicAdd(&start, 1);"), 80, NULL),
                 ATTUNE_COMPILE_ERROR, "start");
    assert_fails(judge(FIXTURE_ENTRY("static int seen; atomicAdd(&seen, 1);"), 120, NULL), ATTUNE_COMPILE_ERROR,
                 "seen");
    assert_ok(judge("__constant__ float table[2] = {1, 2};\n" FIXTURE_ENTRY(
                        "static_cast<float *>(args.workspace)[0] = table[threadIdx.x & 1];"),
                    90, NULL));
}

/* NVRTC keeps these among the globals although nobody reaches them there. */
static void folded_constants_are_no_globals(void **state)
{
    (void)state;
    assert_ok(judge("constexpr int TWO = 2; constexpr float HALF = 0.5f;\n" FIXTURE_ENTRY(
                        "static_cast<float *>(args.workspace)[TWO] = args.scale * HALF;"),
                    90, NULL));
    assert_fails(judge("constexpr float TABLE[2] = {1, 2};\n" FIXTURE_ENTRY(
                           "static_cast<float *>(args.workspace)[0] = TABLE[threadIdx.x & 1];"),
                       90, NULL),
                 ATTUNE_COMPILE_ERROR, "TABLE");
    /* A source cannot talk it away. */
    assert_fails(judge("#pragma message(\"\\nattune: globals in use:\\n\")\n__device__ int counter;\n" FIXTURE_ENTRY(
                           "atomicAdd(&counter, 1);"),
                       90, NULL),
                 ATTUNE_COMPILE_ERROR, "counter");
}

static void ptx_shows_what_is_used(void **state)
{
    char name[16] = "";
    (void)state;
    assert_false(at_ptx_uses_global("", name, sizeof name));
    assert_false(
        at_ptx_uses_global(".global .align 4 .u32 WARP = 32;\nld.global.f32 %f1, [%rd1];\n", name, sizeof name));
    assert_false(at_ptx_uses_global(".global .align 4 .u32 a;\n.global .align 4 .u32 ab;\nmov %a, _a, a_;\n", name,
                                    sizeof name));
    assert_true(at_ptx_uses_global(".visible .global .align 4 .u32 seen;\nmov.u64 %rd1, seen;", name, sizeof name));
    assert_string_equal(name, "seen");
    assert_true(at_ptx_uses_global(".extern .global .align 1 .b8 $str[7];\nmov.u64 %rd1, $str;\n", name, sizeof name));
    assert_string_equal(name, "$str");
    /* Inside of functions, as asm in a source may have them. */
    assert_true(at_ptx_uses_global("{\n\t.global .align 4 .u32 hidden;\n\tatom.global.add.u32 %r1,[hidden],1;\n\t}",
                                   name, sizeof name));
    assert_string_equal(name, "hidden");
    assert_true(at_ptx_uses_global("ret; /* ; */ .visible // x\n.global\n.u32 late; st.global.u32 [late], %r1;", name,
                                   sizeof name));
    assert_true(at_ptx_uses_global("L1: .global .u32 labelled; ld.global.u32 %r1, [labelled];", name, sizeof name));
    assert_false(
        at_ptx_uses_global(".param .u64 .ptr .global .align 8 p, p;\nld.global.u32 p, [p];", name, sizeof name));
    assert_false(at_ptx_uses_global(".global", name, sizeof name));
    assert_false(at_ptx_uses_global("/* .global .u32 open; open", name, sizeof name));
    assert_true(at_ptx_uses_global(".global .u64 p = a_name_that_is_long;\n.global .u32 a_name_that_is_long;", name,
                                   sizeof name));
    assert_string_equal(name, "a_name_that_is_");
}

/* Whatever stands in front of a declaration, beside it or in it: ptxas takes all of these. */
static void declarations_are_found_anywhere(void **state)
{
    static const char *const hidden[] = {".global.u32 hidden;",
                                         ".loc 1 2 3 .global .align 4 .u32 hidden;",
                                         ".loc 0x1 2U 3.global .u32 hidden;",
                                         ".global .u32 hidden /* x */;",
                                         ".global .u32 /* = */ hidden;",
                                         "/* h = */ .global .u32 hidden; // [",
                                         ".align 4 .global .u32 hidden;",
                                         ".weak.global .u32 hidden;",
                                         ".global .u32 hidden, h;",
                                         ".global .u32 h, hidden;",
                                         ".global .u32 h[4], hidden;",
                                         ".global .u32 h[2] = {1, 2}, hidden = 3;",
                                         ".global .attribute(.managed, .unified(1, 2)) .u32 hidden;",
                                         ".global .u32%hidden;",
                                         ".global .u32 hidden<2>;",
                                         ".pragma \"x\".global .u32 hidden;"};
    static const char used[] = "\nld.global.u32 %r1, [hidden];\nld.global.u32 %r1, [%hidden];";
    char name[16], text[256];
    (void)state;
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; ++i) {
        (void)snprintf(text, sizeof text, "{%s%s\n}", hidden[i], used);
        if (!at_ptx_uses_global(text, name, sizeof name)) {
            fail_msg("not seen: %s", text);
        }
        assert_string_equal(name + (name[0] == '%'), "hidden");
    }
    assert_int_equal(at_ptx_unused_globals(".global .u32 a, b[2] = {1, 2};\n.extern .global .u32 c;"), 3);
    assert_int_equal(at_ptx_unused_globals(".param .u64 .ptr .global .align 8 p; ld.global.u32 %r1, [%rd1];"), 0);
    assert_fails(judge(FIXTURE_ENTRY("asm volatile(\"{.align 4 .global .u32 hidden; st.global.u32 [hidden], 1;}\" ::: "
                                     "\"memory\");"),
                       90, NULL),
                 ATTUNE_COMPILE_ERROR, "hidden");
}

/* A cubin has as many globals as its PTX showed, or there are others. */
static void nobody_hides_a_global(void **state)
{
    static const char two[] = "constexpr int TWO = 2; constexpr float HALF = 0.5f;\n" FIXTURE_ENTRY(
        "static_cast<float *>(args.workspace)[TWO] = args.scale * HALF;");
    static const struct {
        const char *log;
        bool fine;
    } cases[] = {{AT_PTX_GLOBALS "\n" AT_PTX_UNUSED " 2\n", true},
                 {AT_PTX_GLOBALS "\n" AT_PTX_UNUSED " 1\n", false},
                 {AT_PTX_GLOBALS "\n" AT_PTX_UNUSED " 3\n", false},
                 {AT_PTX_GLOBALS "\n", true}};
    (void)state;
    at_artifact artifact = compiled(two, 90, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        at_cubin cubin;
        assert_ok(at_cubin_inspect(artifact.cubin, artifact.cubin_bytes, cases[i].log, &cubin));
        assert_int_equal(cubin.global_count, 2);
        assert_int_equal(cubin.globals[0] == '\0', cases[i].fine);
    }
    at_artifact_free(&artifact);
}

/* ptxas takes a line that begins with # for one of a preprocessor's, wherever it begins. */
static void lines_do_not_hide_statements(void **state)
{
    static const char *const bad[] = {"#line 3 \"x\"\nbar.sync 0;", "mov.u32 %r1, /* */ # 3 \"x\"\n0;",
                                      ".target sm_90\n{\n.target sm_90 bar.sync 0;"};
    static const char *const fine[] = {"", "// # 3\n/* # */ .pragma \"#\"; .target sm_90a\n.targets"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        assert_non_null(at_ptx_hides(bad[i]));
    }
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; ++i) {
        assert_null(at_ptx_hides(fine[i]));
    }
}

static void constants_are_read_by_name(void **state)
{
    static const char *const bad[] = {"cvta.const.u64 %rd1, kept;", "@%p1 cvta /* x */ .const.u64 %rd1, %rd2;",
                                      ".const .align 8 .u64 where = generic(kept);",
                                      ".const .u64 where[2] = {0, generic (kept)};"};
    static const char *const fine[] = {
        "cvta.to.const.u64 %rd1, %rd2; ld.const.f32 %f1, [%rd1];", "cvta.param.u64 %rd1, p;",
        ".const .u32 generic_table[2] = {1, 2}; ld.const.u32 %r1, [generic_table];", "call generic(%rd1);"};
    char name[64];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        assert_true(at_ptx_uses_global(bad[i], name, sizeof name));
        assert_string_equal(name, "a __constant__ table, by a pointer");
    }
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; ++i) {
        assert_false(at_ptx_uses_global(fine[i], name, sizeof name));
    }
    assert_fails(
        judge("__constant__ int kept[2] = {1, 2};\n" FIXTURE_ENTRY(
                  "int *to = args.scale > 1 ? const_cast<int *>(kept) : static_cast<int *>(args.workspace); *to = 5;"),
              90, NULL),
        ATTUNE_COMPILE_ERROR, "read by name");
    assert_ok(judge("__constant__ float one[2] = {1, 2}, other[2] = {3, 4};\n" FIXTURE_ENTRY(
                        "const float *from = args.scale > 1 ? one : other;"
                        "static_cast<float *>(args.workspace)[0] = from[threadIdx.x & 1];"),
                    90, NULL));
}

static void ptx_shows_what_is_read(void **state)
{
    static const char *const fine[] = {
        "",
        "%",
        "mov.u32 %r1, %tid.x; mad.lo.s32 %r2, %ctaid.z, %ntid.x, %laneid;",
        "mov.u64 %SP, %SPL; @%p12 st.shared.b16 [%rd3], %rs4; mov.b128 %rq1, {%fd1, %fd2};",
        "mov.u32 %r1, %cluster_ctarank; and.b32 %r1, %r1, %lanemask_lt; mov.u32 %r2, %dynamic_smem_size;",
        "$L__BB0_1: // %for.body, in Loop: Header=BB0_1\nret;",
        "rem.u32 %r1, %r2, %r3; // %smid\n",
        "{.reg .pred %mine, %own<4>; setp.eq.u32 %mine, %r1, 0; @%own3 ret;}",
    };
    static const char *const bad[][2] = {
        {"mov.u64 %rd1, %globaltimer;", "%globaltimer"},
        {"mov.u32 %r1,%clock;", "%clock"},
        {"mov.u64 %rd1, %clock64;", "%clock64"},
        {"mov.u32 %r1, %smid;", "%smid"},
        {"mov.u32 %r1, %nsmid;", "%nsmid"},
        {"mov.u32 %r1, %warpid;", "%warpid"},
        {"mov.u64 %rd1, %gridid;", "%gridid"},
        {"mov.u32 %r1, %pm3;", "%pm3"},
        {"mov.b32 %r1, %envreg7;", "%envreg7"},
        {"mov.u64 %rd1, %current_graph_exec;", "%current_graph_exec"},
        {"mov.u32 %r1, %total_smem_size;", "%total_smem_size"},
        {"mov.u32 %r1, %of_a_later_compiler;", "%of_a_later_compiler"},
        /* Wherever it is, and whatever is around it. */
        {"// begin inline asm\n{.reg .u32 %clock;} mov.u32 %r1, %clock;", "%clock"},
        {"/* // */ mov.u32 %r1, %smid;", "%smid"},
        {".pragma \"//\"; mov.u32 %r1, %smid;", "%smid"},
        {"/*\n // */ mov.u32 %r1, %smid;", "%smid"},
        {"// x\r mov.u32 %r1, %smid;", "%smid"},
        {"mov.u32 %r1, %r2%smid;", "%smid"},
    };
    char name[64] = "";
    (void)state;
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; ++i) {
        if (at_ptx_reads_special(fine[i], name, sizeof name)) {
            fail_msg("%s is refused in: %s", name, fine[i]);
        }
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        assert_true(at_ptx_reads_special(bad[i][0], name, sizeof name));
        assert_string_equal(name, bad[i][1]);
    }
    assert_true(at_ptx_reads_special("%globaltimer", name, 5)); /* cut, not written beyond */
    assert_string_equal(name, "%glo");
}

static void clocks_are_refused(void **state)
{
    static const char reads[] = FIXTURE_ENTRY(
        "asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(*static_cast<attune_u64 *>(args.workspace)));");
    (void)state;
    assert_fails(judge(reads, 90, NULL), ATTUNE_COMPILE_ERROR, "it reads %globaltimer");
    assert_fails(judge(FIXTURE_ENTRY("static_cast<long long *>(args.workspace)[0] = clock64();"), 80, NULL),
                 ATTUNE_COMPILE_ERROR, "it reads %clock64");
    assert_fails(judge("#pragma message(\"\\nattune: special registers:\\n\")\n" FIXTURE_ENTRY(
                           "static_cast<int *>(args.workspace)[0] = (int)clock();"),
                       120, NULL),
                 ATTUNE_COMPILE_ERROR, "it reads %clock");
    assert_ok(judge(FIXTURE_ENTRY("asm(\"{.reg .u32 %%mine; mov.u32 %%mine, %%laneid; mov.u32 %0, %%mine;}\" : "
                                  "\"=r\"(static_cast<unsigned *>(args.workspace)[threadIdx.x]));"),
                    100, NULL));
    /* One that says so may. */
    at_recipe recipe;
    attune_problem problem = fixture_problem();
    attune_target target = fixture_target(90);
    attune_kernel honest = fixture_kernel;
    at_cubin cubin = inspected(reads, 90, NULL);
    honest.traits = ATTUNE_TRAIT_CLOCKS;
    fixture_recipe(&problem, &target, "", &recipe);
    recipe.kernel = &honest;
    assert_ok(at_cubin_check(&cubin, &recipe, &target));
}

static void undefined_symbols_are_refused(void **state)
{
    (void)state;
    assert_fails(
        judge("extern \"C\" __device__ int printf(const char *, ...);\n" FIXTURE_ENTRY("printf(\"x\");"), 90, NULL),
        ATTUNE_COMPILE_ERROR, "$str");
    assert_fails(judge("extern \"C\" __device__ float other(float);\n" FIXTURE_ENTRY(
                           "static_cast<float *>(args.workspace)[0] = other(1);"),
                       90, "--relocatable-device-code=true"),
                 ATTUNE_COMPILE_ERROR, "relocatable");
    at_cubin cubin = inspected(
        "extern \"C\" __device__ int vprintf(const char *, void *);\n" FIXTURE_ENTRY("vprintf(nullptr, nullptr);"), 90,
        NULL);
    assert_string_equal(cubin.undefined_name, "vprintf");
}

static void other_parameters_are_refused(void **state)
{
    (void)state;
    assert_fails(judge("extern \"C\" __global__ void __launch_bounds__(128) entry(float *x) { *x = 1; }", 90, NULL),
                 ATTUNE_COMPILE_ERROR, "1280");
    assert_fails(judge("#include \"attune/args.h\"\nextern \"C\" __global__ void __launch_bounds__(128) entry(const "
                       "__grid_constant__ attune_args a, int b) { *(int *)a.workspace = b; }",
                       90, NULL),
                 ATTUNE_COMPILE_ERROR, "2 parameters");
    assert_fails(judge("#include \"attune/args.h\"\nextern \"C\" __global__ void main_entry(const __grid_constant__ "
                       "attune_args a) { *(float *)a.workspace = a.scale; }",
                       90, NULL),
                 ATTUNE_COMPILE_ERROR, "no entry 'entry'");
}

static void resources_are_compared(void **state)
{
    (void)state;
    fixture_says before = fixture;
    assert_fails(judge(shared, 90, NULL), ATTUNE_COMPILE_ERROR,
                 "predicts 0 B of shared memory a block, the code has 1200");
    fixture.smem_bytes = 1200 + 512;
    fixture.dynamic_bytes = 512;
    assert_ok(judge(shared, 90, NULL));
    fixture.dynamic_bytes = 131072;
    fixture.smem_bytes = 131072 + 1200;
    assert_ok(judge(shared, 90, NULL));
    assert_fails(judge(shared, 89, NULL), ATTUNE_UNSUPPORTED,
                 "132272 B of shared memory a block, the device gives 101376");
    fixture = before;
    fixture.threads = 256;
    assert_fails(judge(plain, 90, NULL), ATTUNE_UNSUPPORTED, "at most 128 threads a block, the step has 256");
    fixture = before;
}

static void another_architecture_is_refused(void **state)
{
    (void)state;
    at_cubin cubin = inspected(plain, 86, NULL);
    assert_ok(judge_on(&cubin, 89));
    assert_fails(judge_on(&cubin, 80), ATTUNE_COMPILE_ERROR, "code for sm_86, the device is sm_80");
    assert_fails(judge_on(&cubin, 90), ATTUNE_COMPILE_ERROR, "code for sm_86");
}

static void warnings_are_counted(void **state)
{
    static const char log[] = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
                              "serialized due to a call in the function 'entry'\nptxas info    : (C7519) and more\n"
                              "ptxas info    : (C6000) not this one\n";
    at_cubin cubin;
    (void)state;
    at_artifact artifact = compiled(plain, 90, NULL);
    assert_ok(at_cubin_inspect(artifact.cubin, artifact.cubin_bytes, log, &cubin));
    assert_int_equal(cubin.warnings, 2);
    assert_non_null(strstr(cubin.warning, "C7510"));
    at_artifact_free(&artifact);
}

/* Every truncation and a flip of every byte: whatever comes out, nothing breaks, and truncations are reported. */
static void damage_is_survived(void **state)
{
    at_cubin cubin;
    (void)state;
    at_artifact artifact = compiled(shared, 90, NULL);
    unsigned char *copy = malloc(artifact.cubin_bytes);
    assert_non_null(copy);
    for (size_t bytes = 0; bytes < artifact.cubin_bytes; ++bytes) {
        /* An exact allocation lets the sanitizer see a read one byte too far. */
        unsigned char *part = malloc(bytes + 1);
        assert_non_null(part);
        memcpy(part, artifact.cubin, bytes);
        attune_status status = at_cubin_inspect(part, bytes, artifact.log, &cubin);
        assert_true(status == ATTUNE_CORRUPT || status == ATTUNE_OK);
        assert_true(status == ATTUNE_CORRUPT || bytes > artifact.cubin_bytes / 2);
        free(part);
    }
    memcpy(copy, artifact.cubin, artifact.cubin_bytes);
    for (size_t at = 0; at < artifact.cubin_bytes; ++at) {
        copy[at] ^= (unsigned char)(1U << at % 8) | 0x80U;
        (void)at_cubin_inspect(copy, artifact.cubin_bytes, artifact.log, &cubin);
        copy[at] = artifact.cubin[at];
    }
    free(copy);
    at_artifact_free(&artifact);
}

static void rubbish_is_refused(void **state)
{
    at_cubin cubin;
    unsigned char zeros[256] = {0};
    (void)state;
    assert_fails(at_cubin_inspect("", 0, NULL, &cubin), ATTUNE_CORRUPT, "0 bytes");
    assert_fails(at_cubin_inspect(zeros, sizeof zeros, NULL, &cubin), ATTUNE_CORRUPT, "not a cubin");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_is_read),
        cmocka_unit_test(spills_are_seen),
        cmocka_unit_test(stacks_are_those_of_who_is_called_too),
        cmocka_unit_test(without_a_log_spills_are_unknown),
        cmocka_unit_test(mutable_globals_are_refused),
        cmocka_unit_test(folded_constants_are_no_globals),
        cmocka_unit_test(ptx_shows_what_is_used),
        cmocka_unit_test(declarations_are_found_anywhere),
        cmocka_unit_test(nobody_hides_a_global),
        cmocka_unit_test(lines_do_not_hide_statements),
        cmocka_unit_test(constants_are_read_by_name),
        cmocka_unit_test(ptx_shows_what_is_read),
        cmocka_unit_test(clocks_are_refused),
        cmocka_unit_test(undefined_symbols_are_refused),
        cmocka_unit_test(other_parameters_are_refused),
        cmocka_unit_test(resources_are_compared),
        cmocka_unit_test(another_architecture_is_refused),
        cmocka_unit_test(warnings_are_counted),
        cmocka_unit_test(damage_is_survived),
        cmocka_unit_test(rubbish_is_refused),
    };
    return cmocka_run_group_tests(tests, open_compiler, close_compiler);
}
