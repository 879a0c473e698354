/* Every row that the CUDA kernels ship, compiled for every architecture that supports it: no spills, no stack, no C75xx
 * warning, shared memory as predicted (at_provide refuses anything else), resources as in resources.tsv. Every config
 * that shipped wisdom names likewise, for the architecture where it was proven; wisdom changes too often for the table.
 *
 * ATTUNE_REGENERATE=1 writes that table anew; look at the difference before keeping it. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/file.h"
#include "base/text.h"
#include "base/threads.h"
#include "core/config.h"
#include "core/problem.h"
#include "cuda/build.h"
#include "cuda/fixture.h"
#include "cuda/provide.h"
#include "library/catalogue.h"
#include "library/wisdom.h"

#define TABLE ATTUNE_SOURCE_DIR "/tests/cuda/resources.tsv"

extern const at_embedded at_embedded_wisdom[];

enum { ROWS_MAX = 2048, WISE_MAX = 512 };

typedef struct row {
    const attune_kernel *kernel;
    const at_embedded *sources;
    const attune_shipped *shipped;
    attune_problem problem;
    attune_target target;
    attune_config config;
    char fault[600];                 /* "" for none */
    char text[400];                  /* its line of the table */
    char digest[AT_DIGEST_TEXT_MAX]; /* of all that goes into its code; of wisdom's rows */
} row;

static row rows[ROWS_MAX];
static int row_count;
static at_provider provider;

static const char fixture_source[] =
    FIXTURE_ENTRY("static_cast<float *>(args.tensor[ATTUNE_O].data)[threadIdx.x] = args.scale;");
static const attune_shipped fixture_shipped[] = {{"b1,h1,s1,d8,fp32", ""}, {NULL, NULL}};

/* ---- Which rows there are -------------------------------------------------------------------------------------------
 */

/* The config that the row names, else the heuristic's first that fits; false where the architecture has none. */
static bool choose(row *at)
{
    attune_reason reason;
    for (int32_t index = 0; at->kernel->heuristic(&at->problem, &at->target, index, &at->config); ++index) {
        if (at->shipped->config[0] != '\0') {
            assert_ok(at_config_parse(at->kernel, at->shipped->config, &at->config));
            return at_kernel_fits(at->kernel, &at->problem, &at->target, &at->config, &reason);
        }
        if (at_kernel_fits(at->kernel, &at->problem, &at->target, &at->config, &reason)) {
            return true;
        }
    }
    return false;
}

/* Adds the row where the architecture has its config. */
static bool add_row(const attune_kernel *kernel, const attune_shipped *shipped, const at_embedded *sources, int arch)
{
    assert_true(row_count < ROWS_MAX);
    row *at = &rows[row_count];
    *at = (row){.kernel = kernel, .sources = sources, .shipped = shipped, .target = fixture_target(arch)};
    assert_ok(attune_problem_parse(shipped->problem, &at->problem));
    bool has = choose(at);
    row_count += has;
    return has;
}

static void add_rows(const attune_kernel *kernel, const attune_shipped *shipped, const at_embedded *sources)
{
    static const int archs[] = {80, 86, 89, 90, 100, 120};
    for (; shipped != NULL && shipped->problem != NULL; ++shipped) {
        int before = row_count;
        for (size_t i = 0; i < sizeof archs / sizeof archs[0]; ++i) {
            (void)add_row(kernel, shipped, sources, archs[i]);
        }
        if (row_count == before) {
            fail_msg("%s ships %s, which it supports nowhere", kernel->name, shipped->problem);
        }
    }
}

/* ---- Compiling them -------------------------------------------------------------------------------------------------
 */

/* NOTE: the plainest kernel keeps eight bytes on a stack on sm_80, which nobody would notice beside what it is slow by.
 */
static bool has_stack(const row *at, const at_cubin_entry *entry)
{
    const bool is_known = at->target.arch == 80 && strcmp(at->kernel->name, "minimal") == 0;
    return entry->local_bytes > (is_known ? 8 : 0);
}

static void judge(row *at, const at_cubin *cubin)
{
    char config[AT_KERNEL_TEXT_MAX];
    at_text line;
    at_config_print(at->kernel, &at->config, config);
    at_text_init_fixed(&line, at->text, sizeof at->text);
    at_text_add(&line, "%s\t%s\tsm_%d", config, at->shipped->problem, (int)at->target.arch);
    for (int i = 0; i < cubin->entry_count; ++i) {
        const at_cubin_entry *entry = &cubin->entry[i];
        at_text_add(&line, "\t%s\t%d\t%d\t%d", entry->name, entry->registers, entry->smem_static, entry->local_bytes);
        if (entry->spill_bytes != 0) {
            (void)snprintf(at->fault, sizeof at->fault, "%s spills %d bytes", entry->name, (int)entry->spill_bytes);
        } else if (has_stack(at, entry)) {
            (void)snprintf(at->fault, sizeof at->fault, "%s has a stack of %d bytes", entry->name,
                           (int)entry->local_bytes);
        }
    }
    if (cubin->warnings > 0) {
        (void)snprintf(at->fault, sizeof at->fault, "%d warnings, the first: %s", (int)cubin->warnings, cubin->warning);
    }
}

static void compile_row(void *context, int64_t item, void *scratch)
{
    row *at = &((row *)context)[item];
    at_artifact artifact;
    at_cubin cubin;
    at_recipe recipe;
    at_recipe_ask(at->kernel, &at->problem, &at->target, &at->config, &recipe);
    recipe.sources = at->sources;
    (void)scratch;
    if (at_provide(&provider, &recipe, &at->target, &artifact, &cubin) != ATTUNE_OK) {
        (void)snprintf(at->fault, sizeof at->fault, "%.*s", (int)sizeof at->fault - 1, attune_last_detail());
        return;
    }
    judge(at, &cubin);
    at_artifact_free(&artifact);
}

static int compile_rows(row *which, int count)
{
    at_pool *pool = NULL;
    int faults = 0;
    assert_ok(at_pool_create(at_cpu_count(), 64, &pool));
    at_pool_run(pool, count, compile_row, which);
    at_pool_destroy(pool);
    for (int i = 0; i < count; ++i) {
        if (which[i].fault[0] != '\0') {
            char config[AT_KERNEL_TEXT_MAX];
            at_config_print(which[i].kernel, &which[i].config, config);
            print_error("%s, %s, sm_%d: %s\n", config, which[i].shipped->problem, (int)which[i].target.arch,
                        which[i].fault);
            ++faults;
        }
    }
    return faults;
}

/* ---- The table ------------------------------------------------------------------------------------------------------
 */

static char *table_of_rows(void)
{
    at_text text;
    char *table = NULL;
    at_text_init(&text);
    at_text_add(&text,
                "# by NVRTC %d: kernel and config, problem, architecture; then for each entry: its name, registers, "
                "static shared memory, local memory\n",
                provider.nvrtc->version);
    for (int i = 0; i < row_count; ++i) {
        at_text_add(&text, "%s\n", rows[i].text);
    }
    assert_ok(at_text_take(&text, "the table", &table, NULL));
    return table;
}

/* Lines of `ours` that `theirs` lacks. */
static int lines_missing(const char *ours, const char *theirs, const char *what)
{
    int missing = 0;
    for (const char *line = ours; *line != '\0';) {
        size_t length = strcspn(line, "\n") + 1;
        if (memmem(theirs, strlen(theirs), line, length) == NULL) {
            print_error("%s: %.*s", what, (int)length, line);
            ++missing;
        }
        line += length;
    }
    return missing;
}

static void compare_tables(void)
{
    void *kept = NULL;
    size_t bytes = 0;
    char *table = table_of_rows();
    if (getenv("ATTUNE_REGENERATE") != NULL) {
        assert_ok(at_file_write(TABLE, table, strlen(table)));
    }
    assert_ok(at_file_read(TABLE, 1 << 22, &kept, &bytes));
    size_t head = strcspn(table, ":");
    if (strncmp(table, kept, head) != 0) {
        print_message("the table was made with another compiler; figures are not compared\n");
    } else {
        int different =
            lines_missing(table, kept, "not in the table") + lines_missing(kept, table, "only in the table");
        assert_int_equal(different, 0);
    }
    free(kept);
    free(table);
}

/* ---- What wisdom names ----------------------------------------------------------------------------------------------
 */

static attune_shipped wise[WISE_MAX]; /* rows of wisdom, as if a kernel shipped them */
static char wise_problem[WISE_MAX][AT_CLASS_TEXT_MAX];

/* The problem of one batch that is as large as its class allows: what code depends on is in the class. */
static void problem_of_class(const char *class_text, char text[AT_CLASS_TEXT_MAX])
{
    attune_problem problem;
    char again[AT_CLASS_TEXT_MAX];
    long long heads = 0, group = 1;
    int length = 0;
    assert_int_equal(sscanf(class_text, "fwd,bh%lld,g%lld,%n", &heads, &group, &length), 2);
    const char *terms = class_text + length, *cap = strstr(terms, ",softcap"); /* of a cap a class does not say which */
    const size_t before = cap == NULL ? strlen(terms) : (size_t)(cap - terms) + strlen(",softcap");
    (void)snprintf(text, AT_CLASS_TEXT_MAX, "b1,h%lld,hkv%lld,%.*s%s%s", heads, heads / group, (int)before, terms,
                   cap == NULL ? "" : "=30", terms + before);
    assert_ok(attune_problem_parse(text, &problem));
    at_problem_class(&problem, again);
    assert_string_equal(again, class_text);
}

/* Whether the last row's code is another one than all before it have. */
static bool is_last_new(void)
{
    static at_build build;
    at_recipe recipe;
    row *last = &rows[row_count - 1];
    at_recipe_ask(last->kernel, &last->problem, &last->target, &last->config, &recipe);
    assert_ok(at_build_gather(&recipe, &last->target, &build));
    memcpy(last->digest, build.digest, sizeof last->digest);
    for (const row *at = rows; at < last; ++at) {
        if (strcmp(at->digest, last->digest) == 0) {
            return false;
        }
    }
    return true;
}

/* Of a wisdom that outlives the test. */
static void add_wise_row(const at_wisdom_row *of, size_t index)
{
    const attune_kernel *kernel = NULL;
    char name[AT_KERNEL_TEXT_MAX];
    int arch = 0;
    assert_true(index < WISE_MAX);
    if (sscanf(of->target_text, "cuda/%*[^/]/%d", &arch) != 1) {
        return;
    }
    assert_ok(at_kernel_text_split(of->kernel_text, name, sizeof name, &wise[index].config));
    assert_ok(at_catalogue_named(name, &kernel));
    problem_of_class(of->class_text, wise_problem[index]);
    wise[index].problem = wise_problem[index];
    if (!add_row(kernel, &wise[index], NULL, arch)) {
        fail_msg("wisdom names %s for %s, which it is not for", of->kernel_text, of->class_text);
    }
    row_count -= !is_last_new();
}

/* All that the library has built in. */
static void add_wise_rows(at_wisdom *wisdom)
{
    row_count = 0;
    for (const at_embedded *file = at_embedded_wisdom; file->name != NULL; ++file) {
        size_t skipped = 0;
        assert_ok(at_wisdom_parse(wisdom, (const char *)file->data, file->size, &skipped));
        assert_int_equal(skipped, 0);
    }
    for (size_t i = 0; i < at_wisdom_count(wisdom); ++i) {
        add_wise_row(at_wisdom_at(wisdom, i), i);
    }
}

/* ---- Tests ----------------------------------------------------------------------------------------------------------
 */

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

static void what_is_shipped_compiles(void **state)
{
    (void)state;
    if (provider.nvrtc == NULL) {
        skip();
    }
    add_rows(&fixture_kernel, fixture_shipped, fixture_sources(fixture_source));
    assert_int_equal(row_count, 6);
    for (const attune_kernel *const *kernel = at_catalogue; *kernel != NULL; ++kernel) {
        /* What is built ahead depends on another compiler, and has a test of its own. */
        if ((*kernel)->target == ATTUNE_TARGET_CUDA && (*kernel)->image == NULL) {
            assert_non_null((*kernel)->shipped);
            add_rows(*kernel, (*kernel)->shipped, NULL);
        }
    }
    print_message("%d rows\n", row_count);
    assert_int_equal(compile_rows(rows, row_count), 0);
    compare_tables();
}

static void what_wisdom_names_compiles(void **state)
{
    at_wisdom *wisdom;
    (void)state;
    if (provider.nvrtc == NULL) {
        skip();
    }
    assert_ok(at_wisdom_create(&wisdom));
    add_wise_rows(wisdom);
    print_message("%d codes for CUDA in %zu rows\n", row_count, at_wisdom_count(wisdom));
    assert_true(row_count > 0);
    assert_int_equal(compile_rows(rows, row_count), 0);
    at_wisdom_destroy(wisdom);
}

/* The tests above can fail: a kernel that spills, one with a stack, one that lies about its shared memory, one that
 * does not compile. */
static void planted_faults_are_found(void **state)
{
    static const struct {
        const char *source, *words;
    } planted[] = {
        {"#include \"attune/args.h\"\nextern \"C\" __global__ void __maxnreg__(24) entry(const __grid_constant__ "
         "attune_args args)\n{\nfloat *p = static_cast<float *>(args.workspace); float a[64];\n"
         "for (int i = 0; i < 64; i++) a[i] = p[i * 32 + threadIdx.x]; __syncthreads();\n"
         "for (int j = 0; j < 64; j++) for (int i = 0; i < 64; i++) a[i] = a[i] * a[(i + 7) & 63] + p[j];\n"
         "for (int i = 0; i < 64; i++) p[i * 32 + threadIdx.x] = a[i];\n}\n",
         "entry spills"},
        {FIXTURE_ENTRY("const int *p = static_cast<const int *>(args.workspace); int a[64] = {};\n"
                       "for (int i = 0; i < 64; i++) a[p[i] & 63] += i;\n"
                       "static_cast<int *>(args.tensor[ATTUNE_O].data)[threadIdx.x] = a[threadIdx.x & 63];"),
         "entry has a stack of 256 bytes"},
        {FIXTURE_ENTRY("__shared__ volatile float x[9]; x[threadIdx.x % 9] = args.scale;"), "the code has 36"},
        {"neither C nor C++", "does not compile"},
    };
    (void)state;
    if (provider.nvrtc == NULL) {
        skip();
    }
    for (size_t i = 0; i < sizeof planted / sizeof planted[0]; ++i) {
        row bad = {.kernel = &fixture_kernel,
                   .sources = fixture_sources(planted[i].source),
                   .shipped = fixture_shipped,
                   .problem = fixture_problem(),
                   .target = fixture_target(90),
                   .config = fixture_config};
        compile_row(&bad, 0, NULL);
        if (strstr(bad.fault, planted[i].words) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", bad.fault, planted[i].words);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_faults_are_found),
        cmocka_unit_test(what_is_shipped_compiles),
        cmocka_unit_test(what_wisdom_names_compiles),
    };
    return cmocka_run_group_tests(tests, open_provider, close_provider);
}
