/* Stages that can be left out: each variant of each kernel that bench/stages times compiles, and is other code than
 * the whole, so that a kernel which does not honour WITHOUT cannot pass as one whose stage is free. */
#include "cuda/fixture.h"
#include "cuda/provide.h"
#include "library/catalogue.h"

enum { STAGES = 4, SOURCES = 256 };

static at_provider provider;

/* The kernel's sources with `#define WITHOUT stage` before its own. */
static const at_embedded *sources_without(const char *source, int stage, char *text, size_t room)
{
    static at_embedded files[SOURCES];
    int count = 0;
    for (const at_embedded *file = at_cuda_sources; file->name != NULL; ++file) {
        assert_true(count < SOURCES - 1);
        files[count] = *file;
        if (strcmp(file->name, source) == 0) {
            int bytes = snprintf(text, room, "#define WITHOUT %d\n%s", stage, (const char *)file->data);
            assert_true(bytes > 0 && (size_t)bytes < room);
            files[count].data = (const unsigned char *)text;
            files[count].size = (size_t)bytes;
        }
        ++count;
    }
    files[count] = (at_embedded){NULL, NULL, 0};
    return files;
}

static void compile_without(const char *name, int stage, at_artifact *artifact)
{
    static char text[1 << 16];
    const attune_kernel *kernel = at_catalogue_find(name);
    attune_problem problem;
    attune_target target = fixture_target(90);
    attune_config config;
    assert_non_null(kernel);
    assert_ok(attune_problem_parse("b1,h8,s512,d64,fp16", &problem));
    assert_true(kernel->heuristic(&problem, &target, 0, &config));
    at_recipe recipe;
    at_recipe_ask(kernel, &problem, &target, &config, &recipe);
    recipe.sources = sources_without(kernel->source, stage, text, sizeof text);
    assert_ok(at_provide(&provider, &recipe, &target, artifact, NULL));
}

static void every_stage_can_be_left_out(void **state)
{
    static const struct {
        const char *kernel;
        int first; /* of its stages: the others are steps of their own */
    } rungs[] = {{"minimal", 1}, {"tiled", 1},      {"pipelined", 1}, {"guarded", 1},
                 {"wmma", 1},    {"wmma_acc16", 1}, {"wmma_ws", 1},   {"cublas_qk", 2}};
    (void)state;
    if (provider.nvrtc == NULL) {
        skip();
    }
    for (size_t i = 0; i < sizeof rungs / sizeof *rungs; ++i) {
        at_artifact whole;
        compile_without(rungs[i].kernel, 0, &whole);
        for (int stage = rungs[i].first; stage <= STAGES; ++stage) {
            at_artifact less;
            compile_without(rungs[i].kernel, stage, &less);
            if (less.cubin_bytes == whole.cubin_bytes && memcmp(less.cubin, whole.cubin, whole.cubin_bytes) == 0) {
                fail_msg("%s without stage %d is the whole kernel", rungs[i].kernel, stage);
            }
            at_artifact_free(&less);
        }
        at_artifact_free(&whole);
    }
}

static int open_provider(void **state)
{
    (void)state;
    fixture_provider_open(&provider, ATTUNE_KERNEL_CACHE);
    return 0;
}

static int close_provider(void **state)
{
    (void)state;
    fixture_provider_close(&provider);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_stage_can_be_left_out)};
    return cmocka_run_group_tests(tests, open_provider, close_provider);
}
