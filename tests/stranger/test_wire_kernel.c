/* Kernels and recipes as messages: ours go there and back unchanged; what a stranger's process might answer instead is
 * refused with words. */
#include "base/cm.h"

#include <stdlib.h>

#include "core/config.h"
#include "cuda/build.h"
#include "cuda/cuda.h"
#include "library/catalogue.h"
#include "stranger/wire_kernel.h"

static attune_target target_of(const attune_kernel *kernel)
{
    attune_target target = {.size = sizeof target, .kind = ATTUNE_TARGET_CPU, .model = "any", .threads = 2};
    if (kernel->target == ATTUNE_TARGET_CUDA) {
        assert_ok(at_cuda_typical(90, &target));
    }
    return target;
}

static bool recipe_of(const attune_kernel *kernel, const char *text, at_recipe *recipe)
{
    attune_problem problem;
    attune_config config = {{0}};
    attune_target target = target_of(kernel);
    assert_ok(attune_problem_parse(text, &problem));
    if (!at_kernel_supports(kernel, &problem, &target, NULL)) {
        return false;
    }
    assert_true(kernel->heuristic(&problem, &target, 0, &config));
    at_recipe_ask(kernel, &problem, &target, &config, recipe);
    return true;
}

/* ---- There and back --------------------------------------------------------------------------------------------- */

static json_t *message_of(const at_recipe *recipe)
{
    json_t *message = at_wire_from_recipe(recipe);
    assert_non_null(message);
    return message;
}

static void same_kernel(const attune_kernel *a, const attune_kernel *b)
{
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->summary, b->summary);
    assert_int_equal(a->target, b->target);
    assert_int_equal(a->traits, b->traits);
    assert_int_equal(a->param_count, b->param_count);
    for (int i = 0; i < a->param_count; ++i) {
        assert_string_equal(a->params[i].name, b->params[i].name);
        assert_int_equal(a->params[i].count, b->params[i].count);
        assert_memory_equal(a->params[i].values, b->params[i].values, (size_t)a->params[i].count * sizeof(int32_t));
    }
}

static void there_and_back(const at_recipe *recipe)
{
    at_recipe_data *data = NULL;
    attune_target target = target_of(recipe->kernel);
    json_t *message = message_of(recipe);
    char *text = json_dumps(message, JSON_COMPACT | JSON_SORT_KEYS);
    assert_ok(at_wire_recipe(message, &target, &data));
    json_decref(message);
    same_kernel(recipe->kernel, &data->kernel->kernel);
    assert_memory_equal(&recipe->config, &data->recipe.config, sizeof recipe->config);
    message = message_of(&data->recipe);
    char *again = json_dumps(message, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, again);
    free(text);
    free(again);
    json_decref(message);
    at_recipe_data_free(data);
}

/* Kernels without a source travel by name only. */
static void every_kernel_goes_there_and_back(void **state)
{
    static const char *const problems[] = {"b1,h8,s512,d64,fp16", "b2,h8,hkv2,s300,d128,bf16,causal",
                                           "b1,h4,s100,d32,fp32,window=20:0"};
    int seen = 0;
    (void)state;
    for (const attune_kernel *const *kernel = at_catalogue; *kernel != NULL; ++kernel) {
        for (size_t i = 0; i < sizeof problems / sizeof problems[0] && (*kernel)->source != NULL; ++i) {
            at_recipe recipe;
            if (recipe_of(*kernel, problems[i], &recipe)) {
                there_and_back(&recipe);
                ++seen;
            }
        }
    }
    assert_true(seen > 10);
}

static void a_recipe_brings_its_own_files_first(void **state)
{
    static const at_embedded files[] = {{"tiled.cu", (const unsigned char *)"own", 3},
                                        {"../own.cuh", (const unsigned char *)"more", 4},
                                        {NULL, NULL, 0}};
    at_recipe recipe;
    at_recipe_data *data = NULL;
    (void)state;
    const attune_kernel *kernel = at_catalogue_find("tiled");
    attune_target target = target_of(kernel);
    assert_true(recipe_of(kernel, "b1,h8,s512,d64,fp16", &recipe));
    recipe.sources = files;
    json_t *message = message_of(&recipe);
    assert_ok(at_wire_recipe(message, &target, &data));
    assert_string_equal(data->recipe.sources[0].name, "tiled.cu");
    assert_string_equal((const char *)data->recipe.sources[0].data, "own");
    assert_string_equal(data->recipe.sources[1].name, "../own.cuh");
    assert_string_equal(data->recipe.sources[2].name, at_cuda_sources[0].name);
    at_recipe_data_free(data);
    json_decref(message);
}

static void an_object_travels_byte_by_byte(void **state)
{
    unsigned char bytes[300];
    const at_embedded object[] = {{"mine", bytes, sizeof bytes}, {NULL, NULL, 0}};
    at_recipe recipe;
    at_recipe_data *data = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof bytes; ++i) {
        bytes[i] = (unsigned char)(i * 37);
    }
    const attune_kernel *kernel = at_catalogue_find("cpu_tiled");
    attune_target target = target_of(kernel);
    assert_true(recipe_of(kernel, "b1,h8,s512,d64,fp16", &recipe));
    recipe.sources = object;
    json_t *message = message_of(&recipe);
    assert_ok(at_wire_recipe(message, &target, &data));
    assert_int_equal(data->recipe.sources[0].size, sizeof bytes);
    assert_memory_equal(data->recipe.sources[0].data, bytes, sizeof bytes);
    at_recipe_data_free(data);
    json_decref(message);
}

/* ---- What must not pass ----------------------------------------------------------------------------------------- */

/* A place in a message, "kernel.params.0.name"; sets what is there. */
static void set_at(json_t *message, const char *path, json_t *value)
{
    char step[64];
    while (true) {
        size_t length = strcspn(path, ".");
        (void)snprintf(step, sizeof step, "%.*s", (int)length, path);
        bool last = path[length] == '\0';
        if (last) {
            assert_int_equal(json_is_array(message) ? json_array_set_new(message, strtoul(step, NULL, 10), value)
                                                    : json_object_set_new(message, step, value),
                             0);
            return;
        }
        message =
            json_is_array(message) ? json_array_get(message, strtoul(step, NULL, 10)) : json_object_get(message, step);
        assert_non_null(message);
        path += length + 1;
    }
}

static void wild_answers_are_refused(void **state)
{
    static const struct {
        const char *path, *value, *words;
    } rows[] = {
        {"kernel", "[]", "an array"},
        {"kernel.name", "\"../../x\"", "lower-case letters"},
        {"kernel.name", "null", "null"},
        {"kernel.name", "7", "a whole number"},
        {"kernel.abi", "99", "abi is 99"},
        {"kernel.traits", "4294967295", "traits are 0xffffffff"},
        {"kernel.target", "5", "target"},
        {"kernel.source", "\"\"", "name of a file"},
        {"kernel.params.0.name", "\"lower\"", "upper-case"},
        {"kernel.params.0.values", "[]", "at least 1"},
        {"kernel.params.0.values", "[3,2]", "must ascend"},
        {"kernel.params.0.values", "[1e99]", "a decimal number"},
        {"kernel.params.0.values", "[99999999999]", "32-bit"},
        {"kernel.shipped", "[{\"problem\":\"what\",\"config\":\"\"}]", "what"},
        {"config", "[1]", "4 parameters"},
        {"config", "[7,7,7,7]", "BLOCK_M 7"},
        {"problem", "\"b0\"", "b"},
        {"plan.resources.threads", "4096", "threads 4096"},
        {"plan.resources.smem_bytes", "-4", "-4 B of shared memory"},
        {"plan.resources.smem_bytes", "99999999", "the device gives 232448"},
        {"plan.resources.workspace", "[[1,-9]]", "must not decrease"},
        {"plan.resources.workspace", "[[3,0]]", "combines two values"},
        {"plan.resources.workspace", "[]", "a term"},
        {"plan.steps", "[]", "0 steps"},
        {"plan.steps", "[{},{},{},{},{},{},{},{},{}]", "9 steps"},
        {"plan.steps.0.kind", "\"host\"", "no kind \"host\""},
        {"plan.steps.0.entry", "\"\"", "name of a symbol"},
        {"plan.steps.0.block", "[2048,1,1]", "block[0] is 2048"},
        {"plan.steps.0.block", "[512,2,2]", "2048 threads"},
        {"plan.steps.0.block", "[1,1]", "3 are needed"},
        {"plan.steps.0.cluster", "[0,1,1]", "cluster[0] is 0"},
        {"plan.steps.0.grid.1", "[[2,99]]", "size 99"},
        {"plan.steps.0.programmatic", "9", "programmatic is 9"},
        {"plan.steps.0.maps", "[{},{},{},{},{},{},{},{},{},{},{},{},{}]", "13 tensor maps"},
        {"plan.steps.0.maps", "[{\"role\":9,\"swizzle\":0,\"l2_bytes\":0,\"box\":[1,1,1,1],\"name\":\"\"}]", "role 9"},
        {"plan.steps.0.maps", "[{\"role\":0,\"swizzle\":0,\"l2_bytes\":0,\"box\":[1,1],\"name\":\"\"}]",
         "4 are needed"},
        {"plan.steps.0.maps", "[{\"role\":0,\"swizzle\":0,\"name\":\"MORE_THAN_FIFTEEN\"}]", "17 characters"},
        {"kernel.can", "[]", "From ABI 2 to 3"},
        {"kernel.can.0.align", "-1", "align"},
        {"kernel.can.0.features", "1048576", "features are 0x100000"},
        {"plan.steps.0", "{\"kind\":\"fill\",\"offset_bytes\":[[1,0]],\"bytes\":[[1,0]],\"pattern\":0}",
         "no steps of kind 1"},
        {"sources", "[{\"name\":\"x\"}]", "text"},
    };
    at_recipe recipe;
    at_recipe_data *data = NULL;
    (void)state;
    const attune_kernel *kernel = at_catalogue_find("tiled");
    attune_target target = target_of(kernel);
    assert_true(recipe_of(kernel, "b1,h8,s512,d64,fp16", &recipe));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        json_t *message = message_of(&recipe);
        set_at(message, rows[i].path, json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
        attune_status status = at_wire_recipe(message, &target, &data);
        const char *said = status == ATTUNE_OK ? "no error" : attune_last_detail();
        if (strstr(said, rows[i].words) == NULL) {
            fail_msg("%s = %s: \"%s\" lacks \"%s\"", rows[i].path, rows[i].value, said, rows[i].words);
        }
        json_decref(message);
    }
}

/* A kernel for one kind of target is none for another. */
static void a_recipe_is_for_its_target(void **state)
{
    at_recipe recipe;
    at_recipe_data *data = NULL;
    (void)state;
    assert_true(recipe_of(at_catalogue_find("tiled"), "b1,h8,s512,d64,fp16", &recipe));
    attune_target cpu = target_of(at_catalogue_find("cpu_tiled"));
    json_t *message = message_of(&recipe);
    assert_fails(at_wire_recipe(message, &cpu, &data), ATTUNE_INVALID_ARGUMENT, "another kind of target");
    json_decref(message);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_goes_there_and_back), cmocka_unit_test(a_recipe_brings_its_own_files_first),
        cmocka_unit_test(an_object_travels_byte_by_byte),   cmocka_unit_test(wild_answers_are_refused),
        cmocka_unit_test(a_recipe_is_for_its_target),
    };
    return cmocka_run_group_tests_name("wire_kernel", tests, NULL, NULL);
}
