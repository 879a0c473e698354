/* Delays stand where they upset the order of warps, in PTX that is otherwise what it was. */
#include "cuda/fixture.h"

#include "base/status.h"
#include "cuda/delays.h"

static const char word[] = "nanosleep";

/* The text with delays, how many there are, and what stands before the first. */
static int delayed(const char *ptx, char before[128])
{
    at_text text;
    int found = 0;
    at_text_init(&text);
    const int places = at_ptx_delay(ptx, &text);
    assert_ok(at_text_status(&text, "PTX"));
    for (const char *at = text.data; (at = strstr(at, word)) != NULL; ++at) {
        ++found;
    }
    assert_int_equal(found, places);
    const char *first = strstr(text.data, "\n{\n.reg .pred %attune_late");
    (void)snprintf(before, 128, "%.*s", first == NULL ? 0 : (int)(first - text.data), text.data);
    if (places == 0) {
        assert_string_equal(text.data, ptx);
    }
    at_text_free(&text);
    return places;
}

static void they_stand_behind_what_waits(void **state)
{
    static const struct {
        const char *ptx;
        int places;
        const char *before;
    } cases[] = {
        {"", 0, ""},
        {"add.s32 %r1, %r2, 1; ret;", 0, ""},
        {"bar.sync 0; ret;", 1, "bar.sync 0;"},
        {"@%p1 bar.sync\t1, 64;\nret;", 1, "@%p1 bar.sync\t1, 64;"},
        {"L1: barrier.sync.aligned 0; bra L1;", 1, "L1: barrier.sync.aligned 0;"},
        {"L2:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%r1], %r2;", 1,
         "L2:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%r1], %r2;"},
        {"{bar.warp.sync 1; barrier.cluster.wait.aligned;}", 2, "{bar.warp.sync 1;"},
        {"// bar.sync 0;\n/* bar.sync 0; */ .pragma \"bar.sync 0;\"; ret;", 0, ""},
        {"// a line\nbar.red.popc.u32 %r1, 0, %p1;", 1, "// a line\nbar.red.popc.u32 %r1, 0, %p1;"},
        {"ret;\n\t// begin inline asm\n\tbar.sync 1, 128;\n\t// end inline asm\n", 1,
         "ret;\n\t// begin inline asm\n\tbar.sync 1, 128;"},
        {"\t/* own */ @%p1 /* if */ barrier.sync 2; // bar.sync 0;\n", 1, "\t/* own */ @%p1 /* if */ barrier.sync 2;"},
        {"\n\t// begin inline asm\n\t{\n.reg .pred p;\nAGAIN: // until then\nmbarrier.test_wait.b64 p, [%r1], %r2;", 1,
         "\n\t// begin inline asm\n\t{\n.reg .pred p;\nAGAIN: // until then\nmbarrier.test_wait.b64 p, [%r1], %r2;"},
        {"\n// bar.sync 0;\n\tadd.s32 %r1, %r2, 1; // barrier.sync 0;\n ret;", 0, ""},
        {".visible .entry k(.param .u64 p)\n.maxntid 128, 1, 1\n{ret;}", 1,
         ".visible .entry k(.param .u64 p)\n.maxntid 128, 1, 1\n{"},
        {".target sm_90a\n.visible .entry k(){ret;}", 1,
         ".target sm_90a\n.visible .entry k(){\ngriddepcontrol.launch_dependents;"},
        {".target sm_89\n.visible .entry k(){ret;}", 1, ".target sm_89\n.visible .entry k(){"},
        {".weak.entry k(){ret;}", 1, ".weak.entry k(){"},
        {".entry/**/k(){ret;}", 1, ".entry/**/k(){"},
        {".func f(){ret;}", 0, ""},
        {"st.shared.v2.u32 [bar.sync], {%r1, %r2};", 0, ""},
    };
    char before[128];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        assert_int_equal(delayed(cases[i].ptx, before), cases[i].places);
        assert_string_equal(before, cases[i].before);
    }
}

static void nobody_sleeps_instead(void **state)
{
    at_text text;
    (void)state;
    at_text_init(&text);
    assert_int_equal(at_ptx_delay("bar.sync 0; @%p1\tnanosleep.u32 50000;\nL1: nanosleep.u32 %r7;\n\t// begin\n"
                                  "\tnanosleep.u32 60000;\n\t/* end */ st.b32 [nanosleep], 1;",
                                  &text),
                     1);
    assert_ok(at_text_status(&text, "PTX"));
    assert_null(strstr(text.data, "50000"));
    assert_null(strstr(text.data, "60000"));
    assert_null(strstr(text.data, "%r7"));
    assert_non_null(strstr(text.data, "L1:"));
    assert_non_null(strstr(text.data, "st.b32 [nanosleep], 1;"));
    at_text_free(&text);
}

/* What the assembler was given, and what it answers: the code without delays, which is as good here. */
typedef struct assembled {
    const at_artifact *answer;
    int asked;
    bool late;
    attune_status own, upset; /* what it says of PTX as it was, and of PTX with delays */
} assembled;

static attune_status assemble(void *context, const char *ptx, size_t bytes, at_artifact *artifact)
{
    assembled *on = context;
    ++on->asked;
    on->late = strlen(ptx) == bytes && strstr(ptx, word) != NULL;
    const attune_status says = on->late ? on->upset : on->own;
    AT_FAIL_IF(says != ATTUNE_OK, says, "ptxas refuses it");
    AT_FORWARD(at_artifact_reserve(artifact, on->answer->cubin_bytes, 0));
    memcpy(artifact->cubin, on->answer->cubin, on->answer->cubin_bytes);
    return ATTUNE_OK;
}

static const char plain[] =
    FIXTURE_ENTRY("__syncthreads(); static_cast<float *>(args.tensor[ATTUNE_O].data)[threadIdx.x] = args.scale;");

static void a_driver_makes_the_code(void **state)
{
    at_provider provider = {.nvrtc = fixture_compiler()};
    attune_problem problem = fixture_problem();
    attune_target target = fixture_target(90);
    at_artifact answer, artifact;
    at_recipe recipe;
    (void)state;
    if (provider.nvrtc == NULL) {
        skip();
    }
    fixture_recipe(&problem, &target, plain, &recipe);
    assert_ok(at_provide(&provider, &recipe, &target, &answer, NULL));
    assembled on = {.answer = &answer};
    recipe.delays = true;
    assert_fails(at_provide(&provider, &recipe, &target, &artifact, NULL), ATTUNE_UNSUPPORTED, "a driver");
    provider.assembler = (at_assembler){assemble, &on, 13000};
    assert_ok(at_provide(&provider, &recipe, &target, &artifact, NULL));
    assert_int_equal(on.asked, 1);
    assert_true(on.late);
    at_artifact_free(&artifact);
    at_artifact_free(&answer);
    at_nvrtc_close(provider.nvrtc);
}

/* A source whose PTX is code, and is none with delays, hides something or cannot be looked at; where the driver takes
 * neither, it is not checked. */
static void who_breaks_the_passes_is_not_right(void **state)
{
    static const struct {
        attune_status own, upset, says;
    } cases[] = {
        {ATTUNE_OK, ATTUNE_OK, ATTUNE_OK},
        {ATTUNE_OK, ATTUNE_COMPILE_ERROR, ATTUNE_INTERNAL},
        {ATTUNE_COMPILE_ERROR, ATTUNE_COMPILE_ERROR, ATTUNE_COMPILE_ERROR},
        {ATTUNE_OK, ATTUNE_OUT_OF_MEMORY, ATTUNE_OUT_OF_MEMORY},
    };
    at_provider provider = {.nvrtc = fixture_compiler()};
    attune_problem problem = fixture_problem();
    attune_target target = fixture_target(90);
    at_artifact answer, artifact;
    at_recipe recipe;
    (void)state;
    if (provider.nvrtc == NULL) {
        skip();
    }
    fixture_recipe(&problem, &target, plain, &recipe);
    assert_ok(at_provide(&provider, &recipe, &target, &answer, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        assembled on = {.answer = &answer, .own = cases[i].own, .upset = cases[i].upset};
        fixture_recipe(&problem, &target, plain, &recipe);
        recipe.delays = true;
        provider.assembler = (at_assembler){assemble, &on, 13000};
        assert_int_equal(at_provide(&provider, &recipe, &target, &artifact, NULL), cases[i].says);
        if (cases[i].says == ATTUNE_OK) {
            at_artifact_free(&artifact);
        } else {
            assert_non_null(strstr(attune_last_detail(), "ptxas refuses it"));
        }
    }
    at_artifact_free(&answer);
    at_nvrtc_close(provider.nvrtc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_stand_behind_what_waits),
        cmocka_unit_test(nobody_sleeps_instead),
        cmocka_unit_test(a_driver_makes_the_code),
        cmocka_unit_test(who_breaks_the_passes_is_not_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
