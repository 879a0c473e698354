/* What the device tests compile on their own (tests/gpu/NAME.cu), compiled where there is no device: what a change of a
 * kernel breaks there is found here. Units may spill. */
#include <ctype.h>

#include "base/threads.h"
#include "core/problem.h"
#include "cuda/fixture.h"
#include "cuda/provide.h"
#include "gpu/cluster.h"
#include "gpu/hopper.h"
#include "gpu/units.h"

enum { ROWS_MAX = 256, FILES_MAX = 96 };

typedef struct row {
    at_recipe recipe;
    attune_target target;
    char name[160];
    char fault[900], remark[300]; /* "" for none */
} row;

static row rows[ROWS_MAX];
static int row_count;
static at_provider provider;

static int open_provider(void **state)
{
    (void)state;
    fixture_provider_open(&provider, ATTUNE_KERNEL_CACHE);
    hopper_open();
    return 0;
}

static int close_provider(void **state)
{
    (void)state;
    fixture_provider_close(&provider);
    return 0;
}

/* ---- What is compiled ----------------------------------------------------------------------------------------------
 */

static row *new_row(int arch)
{
    assert_true(row_count < ROWS_MAX);
    row *at = &rows[row_count++];
    *at = (row){.target = fixture_target(arch)};
    return at;
}

static void add_hopper(const hopper_case *of)
{
    row *at = new_row(90);
    attune_problem problem;
    attune_config config;
    hopper_choose(of, &at->target, &problem, &config);
    hopper_recipe(&problem, &at->target, &config, &at->recipe);
    (void)snprintf(at->name, sizeof at->name, "%s of hopper.cu, %s %s", hopper_entries[of->unit], of->dims, of->params);
}

/* Whether some device test compiles the unit for that head dim, written "d64,". */
static bool has_dim(int unit, const char *dim)
{
    for (int i = 0; i < HOPPER_CASES; ++i) {
        if (hopper_cases[i].unit == unit && strncmp(hopper_cases[i].dims, dim, strlen(dim)) == 0) {
            return true;
        }
    }
    return false;
}

/* The unit of a case for the head dims that matter most, where no device test has it: with the case's parameters. */
static void add_hopper_dims(const hopper_case *of)
{
    static const char *const dims[] = {"d64,fp16", "d128,fp16", "d256,fp16"};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; ++i) {
        char dim[8];
        (void)snprintf(dim, sizeof dim, "%.*s", (int)strcspn(dims[i], "f"), dims[i]);
        if (!has_dim(of->unit, dim)) {
            add_hopper(&(hopper_case){of->unit, dims[i], of->params, 0});
        }
    }
}

static void add_all_hopper(void)
{
    for (int i = 0; i < HOPPER_CASES; ++i) {
        add_hopper(&hopper_cases[i]);
        if (i == 0 || hopper_cases[i].unit != hopper_cases[i - 1].unit) {
            add_hopper_dims(&hopper_cases[i]);
        }
    }
}

static void add_unit(const unit_case *of, int arch)
{
    row *at = new_row(arch);
    unit_recipe(of, &at->recipe);
    (void)snprintf(at->name, sizeof at->name, "%s of units.cu, %s, FRAGMENT_M=%d,TENSOR_CORES=%d, sm_%d", of->entry,
                   of->dtype, of->fragment_m, of->tensor_cores, arch);
}

static void add_cluster(const cluster_case *of)
{
    row *at = new_row(90);
    cluster_recipe(of, &at->recipe);
    (void)snprintf(at->name, sizeof at->name, "%s of cluster.cu", of->entry);
}

static void add_all(void)
{
    row_count = 0;
    add_all_hopper();
    for (int i = 0; i < UNIT_CASES; ++i) {
        add_unit(&unit_cases[i], 80);
        add_unit(&unit_cases[i], 90);
    }
    for (int i = 0; i < CLUSTER_CASES; ++i) {
        add_cluster(&cluster_cases[i]);
    }
}

/* ---- Compiling it --------------------------------------------------------------------------------------------------
 */

static void compile_row(void *context, int64_t item, void *scratch)
{
    row *at = &((row *)context)[item];
    at_artifact artifact;
    at_cubin cubin;
    (void)scratch;
    if (at_provide(&provider, &at->recipe, &at->target, &artifact, &cubin) != ATTUNE_OK) {
        (void)snprintf(at->fault, sizeof at->fault, "%.*s", (int)sizeof at->fault - 1, attune_last_detail());
        return;
    }
    if (cubin.warnings > 0) {
        (void)snprintf(at->remark, sizeof at->remark, "%.*s", (int)sizeof at->remark - 1, cubin.warning);
    }
    at_artifact_free(&artifact);
}

static void compile_rows(void)
{
    at_pool *pool = NULL;
    assert_ok(at_pool_create(at_cpu_count(), 64, &pool));
    at_pool_run(pool, row_count, compile_row, rows);
    at_pool_destroy(pool);
}

/* How many do not compile. What the compiler remarks of others is printed, no more: a unit may be slow. */
static int print_rows(void)
{
    int faults = 0;
    for (int i = 0; i < row_count; ++i) {
        if (rows[i].fault[0] != '\0') {
            print_error("%s: %s\n", rows[i].name, rows[i].fault);
            ++faults;
        } else if (rows[i].remark[0] != '\0') {
            print_message("%s: %s\n", rows[i].name, rows[i].remark);
        }
    }
    return faults;
}

/* ---- Tests ---------------------------------------------------------------------------------------------------------
 */

static void units_compile(void **state)
{
    (void)state;
    if (provider.nvrtc == NULL) {
        skip();
    }
    add_all();
    print_message("%d units\n", row_count);
    compile_rows();
    assert_int_equal(print_rows(), 0);
}

static bool has_entry(const char *source, const char *name, size_t length)
{
    for (int i = 0; i < row_count; ++i) {
        const at_recipe *recipe = &rows[i].recipe;
        const char *entry = recipe->steps.step[recipe->steps.count - 1].as.kernel.entry;
        if (strcmp(recipe->kernel->source, source) == 0 && strlen(entry) == length &&
            strncmp(entry, name, length) == 0) {
            return true;
        }
    }
    return false;
}

/* How many entries a source has; each is among the rows. */
static int find_entries(const at_embedded *file)
{
    int found = 0;
    for (const char *end = (const char *)file->data; (end = strstr(end, "(const __grid_constant__")) != NULL; ++end) {
        const char *name = end;
        while (isalnum((unsigned char)name[-1]) || name[-1] == '_') {
            --name;
        }
        if (!has_entry(file->name, name, (size_t)(end - name))) {
            fail_msg("%.*s of %s is not compiled", (int)(end - name), name, file->name);
        }
        ++found;
    }
    return found;
}

static void every_entry_is_among_them(void **state)
{
    int found = 0;
    (void)state;
    add_all();
    for (const at_embedded *file = at_gpu_units; file->name != NULL; ++file) {
        const char *end = strrchr(file->name, '.');
        if (strcmp(end, ".cu") == 0 && strcmp(file->name, whole->source) != 0) {
            found += find_entries(file);
        }
    }
    assert_true(found >= HOPPER_UNITS + CLUSTER_CASES);
}

enum { DIMS = 1 + 512, TYPES = 2 };

/* What the device tests multiply: by type the head dims of keys and of values, and how many keys a tile has. */
typedef struct products {
    bool keys[TYPES][DIMS], values[TYPES][DIMS], tile[DIMS];
} products;

static const attune_dtype types[TYPES] = {ATTUNE_FP16, ATTUNE_BF16};

static void note_product(const hopper_case *of, const attune_target *target, products *seen)
{
    attune_problem problem;
    attune_config config;
    hopper_choose(of, target, &problem, &config);
    int type = problem.dtype == (int32_t)types[0] ? 0 : 1;
    seen->keys[type][problem.head_dim_qk] = true;
    seen->values[type][problem.head_dim_v] = true;
    seen->tile[hopper_value(&config, "BLOCK_N")] = true;
}

static void every_head_dim_is_multiplied(const attune_target *target, const products *seen)
{
    attune_problem problem;
    attune_reason reason;
    int found = 0;
    assert_ok(attune_problem_parse("b1,h1,s64,d64,fp16", &problem));
    for (int i = 0; i < TYPES * DIMS; ++i) {
        int type = i / DIMS, dim = i % DIMS;
        problem.dtype = types[type];
        problem.head_dim_qk = problem.head_dim_v = dim;
        if (at_kernel_supports(whole, &problem, target, &reason)) {
            if (!seen->keys[type][dim] || !seen->values[type][dim]) {
                fail_msg("no device test multiplies %s of head dim %d in %s", seen->keys[type][dim] ? "values" : "keys",
                         dim, at_dtype_name(types[type]));
            }
            ++found;
        }
    }
    assert_true(found > TYPES);
}

static void every_tile_is_multiplied(const products *seen)
{
    for (int i = 0; i < whole->param_count; ++i) {
        const attune_param *param = &whole->params[i];
        for (int k = 0; strcmp(param->name, "BLOCK_N") == 0 && k < param->count; ++k) {
            if (!seen->tile[param->values[k]]) {
                fail_msg("no device test multiplies by tiles of %d keys", (int)param->values[k]);
            }
        }
    }
}

/* What the kernel says it supports, the device tests multiply. */
static void every_product_is_among_them(void **state)
{
    static products seen;
    const attune_target target = fixture_target(90);
    (void)state;
    for (int i = 0; i < HOPPER_CASES; ++i) {
        if (hopper_cases[i].unit == PRODUCTS) {
            note_product(&hopper_cases[i], &target, &seen);
        }
    }
    every_head_dim_is_multiplied(&target, &seen);
    every_tile_is_multiplied(&seen);
}

/* The units' sources, but for one of them. */
static const at_embedded *sources_with(const char *name, const char *text)
{
    static at_embedded files[FILES_MAX];
    int count = 0;
    for (const at_embedded *file = at_gpu_units; file->name != NULL; ++file) {
        assert_true(count < FILES_MAX - 1);
        files[count] = *file;
        if (strcmp(file->name, name) == 0) {
            files[count].data = (const unsigned char *)text;
            files[count].size = strlen(text);
        }
        ++count;
    }
    files[count] = (at_embedded){NULL, NULL, 0};
    return files;
}

/* The test of all can fail: of a kernel that lacks what its units call, of a unit that is not there. */
static void planted_faults_are_found(void **state)
{
    (void)state;
    if (provider.nvrtc == NULL) {
        skip();
    }
    row_count = 0;
    add_hopper(&hopper_cases[0]);
    add_hopper(&hopper_cases[0]);
    rows[0].recipe.sources = sources_with("wgmma.cu", "#include \"attune/args.h\"\n");
    rows[1].recipe.config.value[whole->param_count] = HOPPER_UNITS;
    compile_rows();
    assert_non_null(strstr(rows[0].fault, "hopper.cu does not compile"));
    assert_non_null(strstr(rows[1].fault, "no entry 'unit_products'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_entry_is_among_them),
        cmocka_unit_test(every_product_is_among_them),
        cmocka_unit_test(planted_faults_are_found),
        cmocka_unit_test(units_compile),
    };
    return cmocka_run_group_tests(tests, open_provider, close_provider);
}
