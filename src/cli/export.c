/* attune export: kernels compiled ahead, for machines without a compiler. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "cli/archs.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "core/config.h"
#include "core/descriptor.h"
#include "cuda/cuda.h"
#include "library/catalogue.h"
#include "library/context.h"
#include "stranger/stranger.h"

enum { CONFIGS_MAX = 64, CONFIGS = 4 };

/* What is to be exported: items point into problems, targets and configs, which do not move. */
typedef struct job {
    const at_cli *cli;
    at_archs archs;
    at_found_kernel named; /* its kernel is NULL where the planner chooses */
    attune_problem *problem;
    attune_config *config;
    at_cuda_export_item *item;
    size_t count;
    at_progress progress;
    int64_t configs; /* of one kernel for one problem and target, at most */
} job;

/* ---- For which targets ----------------------------------------------------------------------------------------------
 */

static attune_status read_targets(job *work)
{
    const char *list = at_cli_text(work->cli, "--arch");
    if (list == NULL) {
        attune_status status = at_cuda_describe(0, &work->archs.target[0]);
        work->archs.count = 1;
        return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "without --arch, code is for the device here");
    }
    return at_cli_archs(list, &work->archs);
}

static attune_status read_kernel(job *work)
{
    const char *text = at_cli_text(work->cli, "--kernel");
    attune_status status = text == NULL ? ATTUNE_OK : at_kernel_find(text, NULL, &work->named);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "--kernel");
}

/* ---- Which kernels and configs
 * ---------------------------------------------------------------------------------------- */

static void add_item(job *work, const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                     const attune_config *config)
{
    work->config[work->count] = *config;
    work->item[work->count] = (at_cuda_export_item){kernel, problem, target, &work->config[work->count]};
    ++work->count;
}

/* What a plan would run, by its text. */
static attune_status read_choice(const job *work, const attune_plan *plan, const attune_kernel **kernel,
                                 attune_config *config)
{
    char name[AT_KERNEL_TEXT_MAX];
    const char *params;
    AT_FORWARD(at_kernel_text_split(attune_plan_kernel(plan), name, sizeof name, &params));
    *kernel = work->named.kernel != NULL ? work->named.kernel : at_catalogue_find(name);
    return at_config_parse(*kernel, params, config);
}

/* What the planner chooses, then the likeliest other configs of that kernel: heuristics look at how many
 * multiprocessors there are, and devices of one architecture differ in that. A config that was named is the only one.
 */
static attune_status add_choice(job *work, attune_context *context, const attune_problem *problem,
                                const attune_target *target)
{
    attune_plan *plan = NULL;
    const attune_kernel *kernel = NULL;
    attune_config chosen = {{0}}, config;
    AT_FORWARD(work->named.kernel != NULL
                   ? at_plan_kernel(context, problem, work->named.kernel, work->named.params, &plan)
                   : attune_plan_create(context, problem, NULL, &plan));
    attune_status status = read_choice(work, plan, &kernel, &chosen);
    attune_plan_destroy(plan);
    AT_FORWARD(status);
    const bool is_named = work->named.kernel != NULL && work->named.params[0] != '\0';
    int64_t added = 1;
    add_item(work, kernel, problem, target, &chosen);
    for (int32_t i = 0; !is_named && added < work->configs && at_kernel_heuristic(kernel, problem, target, i, &config);
         ++i) {
        if (at_kernel_fits(kernel, problem, target, &config, NULL) && memcmp(&config, &chosen, sizeof config) != 0) {
            add_item(work, kernel, problem, target, &config);
            ++added;
        }
    }
    return ATTUNE_OK;
}

static attune_status choose_on(job *work, const attune_target *target)
{
    attune_options options;
    attune_context *context = NULL;
    AT_FORWARD(at_cli_options(work->cli, &options));
    options.kernel = NULL;
    AT_FORWARD(at_context_elsewhere(&options, target, &context));
    attune_status status = ATTUNE_OK;
    for (int i = 0; i < work->cli->operand_count && status == ATTUNE_OK; ++i) {
        status = add_choice(work, context, &work->problem[i], target);
        status = status == ATTUNE_OK ? status : at_fail_in(status, "%s for sm_%d", work->cli->operand[i], target->arch);
    }
    attune_context_destroy(context);
    return status;
}

static attune_status choose(job *work)
{
    size_t problems = (size_t)work->cli->operand_count;
    size_t most = problems * (size_t)work->archs.count * (size_t)work->configs;
    work->problem = calloc(problems, sizeof *work->problem);
    work->config = calloc(most, sizeof *work->config);
    work->item = calloc(most, sizeof *work->item);
    AT_FAIL_IF(work->problem == NULL || work->config == NULL || work->item == NULL, ATTUNE_OUT_OF_MEMORY,
               "no memory to export %zu kernels", most);
    for (size_t i = 0; i < problems; ++i) {
        AT_FORWARD(attune_problem_parse(work->cli->operand[i], &work->problem[i]));
    }
    for (int i = 0; i < work->archs.count; ++i) {
        AT_FORWARD(choose_on(work, &work->archs.target[i]));
    }
    return ATTUNE_OK;
}

/* ---- The verb
 * --------------------------------------------------------------------------------------------------------- */

static attune_status print(const job *work)
{
    static const at_column columns[] = {{"problem", AT_COLUMN_TEXT, NULL, 0},
                                        {"arch", AT_COLUMN_INTEGER, NULL, 0},
                                        {"kernel", AT_COLUMN_TEXT, NULL, 0}};
    char problem[ATTUNE_PROBLEM_TEXT_MAX];
    char kernel[AT_KERNEL_TEXT_MAX];
    at_table *table = NULL;
    AT_FORWARD(at_table_create(columns, 3, &table));
    for (size_t i = 0; i < work->count && work->item[i].target != NULL; ++i) {
        const at_cuda_export_item *item = &work->item[i];
        (void)attune_problem_print(item->problem, problem, sizeof problem);
        at_config_print(item->kernel, item->config, kernel);
        at_table_text(table, problem);
        at_table_integer(table, item->target->arch);
        at_table_text(table, kernel);
    }
    attune_status status = at_table_print(table, at_cli_format(work->cli), work->cli->out);
    at_table_destroy(table);
    return status;
}

static void show_progress(void *self, size_t done)
{
    job *work = self;
    at_progress_update(&work->progress, (double)done / (double)work->count);
}

static attune_status export(job *work)
{
    bool elsewhere = at_cli_given(work->cli, "--arch");
    AT_FORWARD(at_cli_integer(work->cli, "--configs", 1, CONFIGS_MAX, elsewhere ? CONFIGS : 1, &work->configs));
    AT_FORWARD(read_targets(work));
    AT_FORWARD(read_kernel(work));
    AT_FORWARD(at_writer_check(at_cli_text(work->cli, "-o"))); /* compiling takes minutes */
    AT_FORWARD(choose(work));
    const at_cuda_export_watch watch = {show_progress, work};
    at_progress_start(&work->progress, work->cli->err, "compiling");
    attune_status status =
        at_cuda_export(work->item, work->count, getenv("ATTUNE_CACHE"), at_cli_text(work->cli, "-o"), &watch);
    at_progress_end(&work->progress);
    return status == ATTUNE_OK ? print(work) : status;
}

static int run(const at_cli *cli)
{
    job work = {.cli = cli};
    if (cli->operand_count == 0) {
        return at_cli_usage(cli, "no PROBLEM to export kernels for");
    }
    if (!at_cli_given(cli, "-o")) {
        return at_cli_usage(cli, "-o FILE is needed: where to write the pack");
    }
    attune_status status = export(&work);
    int code = status == ATTUNE_OK ? AT_EXIT_OK : at_cli_fail(cli, status);
    at_found_kernel_close(&work.named);
    free(work.problem);
    free(work.config);
    free(work.item);
    return code;
}

static const at_option options[] = {
    {"-o", "FILE", NULL, "the pack to write; replaced whole or not at all"},
    {"--arch", "LIST", NULL, "architectures to compile for, such as 80,90a; without it that of the device here"},
    {"--configs", "N", NULL, "most configs of a problem's kernel: 4 with --arch, else 1, the one that would run here"},
    {NULL, NULL, NULL, NULL},
};

const at_verb at_verb_export = {
    .name = "export",
    .arguments = "PROBLEM... -o FILE",
    .summary = "compile CUDA kernels ahead, for machines without a compiler",
    .help =
        "Chooses kernels for the PROBLEMs as planning does (wisdom, else heuristics), compiles them, and writes the\n"
        "code as one pack. A program that is given the pack by ATTUNE_PACK, or by options.pack, plans these\n"
        "problems without NVRTC: all problems, that is, that differ in sizes alone.\n"
        "\n"
        "--kernel names one kernel instead, by its name or as a folder with a source and a descriptor.\n"
        "\n"
        "With --arch, no device is needed. Devices of one architecture differ in multiprocessors, and with them the\n"
        "config that suits best; the pack then carries the likeliest few.\n",
    .examples = "  attune export b8,h32,hkv8,s4096,d128,bf16,causal -o prefill.pack\n"
                "  attune export --arch 80,90a b1,h8,s512,d64,fp16 -o both.pack\n"
                "  ATTUNE_PACK=both.pack attune info b1,h8,s512,d64,fp16\n",
    .options = options,
    .common = AT_COMMON_TARGET | AT_COMMON_FORMAT,
    .run = run,
};
