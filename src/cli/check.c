/* attune check: the suite and the rules for numbers, over problems given or a built-in set that covers every feature.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "cli/check_list.h"
#include "cli/check_sanitize.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "core/plan.h"
#include "judge/suite.h"
#include "library/catalogue.h"
#include "library/context.h"
#include "stranger/stranger.h"
#include "worker/remote.h"

enum { CASES_GIVEN = 100, CASES_MANY = 20 };

/* One run of the verb. */
typedef struct session {
    const at_cli *cli;
    attune_context *context;
    at_check_list list;
    at_suite_result *result;
    int done; /* of the list: those whose results are known */
    at_suite suite;
    at_found_kernel named; /* its kernel is NULL where nobody named one */
    at_device *worker;     /* that a stranger's runs in */
    at_pool *pool;
    char command[1024];
    at_progress progress;
} session;

/* ---- Plans ------------------------------------------------------------------------------------------------------ */

/* The parameters that are asked about now: a config of the list, else those that were named. */
static const char *params_of(const session *on)
{
    const char *params = on->list.entry[on->done].params;
    return params[0] != '\0' ? params : on->named.params;
}

static attune_status plan_chosen(void *self, const attune_problem *problem, attune_plan **plan)
{
    const session *on = self;
    return on->named.kernel != NULL ? at_plan_kernel(on->context, problem, on->named.kernel, params_of(on), plan)
                                    : attune_plan_create(on->context, problem, NULL, plan);
}

static attune_status plan_general(void *self, const attune_problem *problem, attune_plan **plan)
{
    const session *on = self;
    attune_target_kind kind = at_context_device(on->context)->target.kind;
    const attune_plan_options general = {.size = sizeof general, .kernel = at_catalogue_general(kind)->name};
    return attune_plan_create(on->context, problem, &general, plan);
}

/* A stranger's kernel, in a worker; and a kernel of ours beside it, where that can be. */
static attune_status plan_stranger(void *self, const attune_problem *problem, attune_plan **plan)
{
    const session *on = self;
    return at_stranger_plan(on->named.stranger, on->worker, problem, params_of(on), plan);
}

static attune_status plan_general_there(void *self, const attune_problem *problem, attune_plan **plan)
{
    const session *on = self;
    return at_remote_plan(on->worker, problem, at_catalogue_general(on->worker->target.kind)->name, plan);
}

/* ---- Setting up ------------------------------------------------------------------------------------------------- */

/* A kernel's text with the parameters that are asked about now. */
static const char *config_text(const session *on, const char *kernel, char text[AT_KERNEL_TEXT_MAX])
{
    const char *params = params_of(on);
    size_t length = strlen(kernel) - strlen(on->named.params);
    length -= on->named.params[0] != '\0';
    at_text with;
    at_text_init_fixed(&with, text, AT_KERNEL_TEXT_MAX);
    at_text_add(&with, "%.*s%s%s", (int)length, kernel, params[0] != '\0' ? ":" : "", params);
    return text;
}

/* Options that change what is run are repeated in the command that reproduces a failure. */
static void write_command(session *on)
{
    static const char *const repeated[] = {"--target", "--kernel", "--isa", "--threads", "--wisdom"};
    char kernel[AT_KERNEL_TEXT_MAX];
    at_text text;
    at_text_init_fixed(&text, on->command, sizeof on->command);
    at_text_add(&text, "attune check");
    for (size_t i = 0; i < sizeof repeated / sizeof *repeated; ++i) {
        const char *value = at_cli_text(on->cli, repeated[i]);
        if (value != NULL) {
            at_text_add(&text, " %s ", repeated[i]);
            at_text_add_word(&text, strcmp(repeated[i], "--kernel") == 0 ? config_text(on, value, kernel) : value);
        }
    }
}

/* What there is to run, once it is known on what. */
static attune_status make_list(session *on)
{
    const attune_kernel *kernel = on->named.kernel;
    const attune_target *target = &on->suite.device->target;
    int left_out = 0;
    if (on->list.count == 0) {
        AT_FORWARD(at_check_list_built_in(kernel, target, &on->list, &left_out));
    }
    if (left_out > 0) {
        at_cli_say(on->cli, "%s does not support %d of the built-in problems, which are left out", kernel->name,
                   left_out);
    }
    if (at_cli_given(on->cli, "--all-configs")) {
        AT_FORWARD(at_check_list_configs(kernel, on->named.params, target, &on->list));
    }
    on->result = calloc((size_t)on->list.count, sizeof *on->result);
    AT_FAIL_IF(on->result == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d results", on->list.count);
    return ATTUNE_OK;
}

static void show_progress(void *watcher, double done)
{
    session *on = watcher;
    at_progress_update(&on->progress, (on->done + done) / on->list.count);
}

static bool is_stopped(void *watcher)
{
    (void)watcher;
    return at_cli_interrupted();
}

static attune_status use_context(session *on)
{
    AT_FORWARD(at_cli_context(on->cli, &on->context));
    on->suite.device = at_context_device(on->context);
    on->suite.pool = at_context_pool(on->context);
    on->suite.plan = plan_chosen;
    on->suite.general = plan_general;
    return ATTUNE_OK;
}

/* Nothing of a stranger's runs here: its descriptor has a process of its own, its kernel a worker. */
static attune_status use_stranger(session *on)
{
    static const char *const command[] = {"/proc/self/exe", "worker", NULL};
    attune_options options;
    AT_FORWARD(at_cli_options(on->cli, &options));
    bool cpu = on->named.kernel->target == ATTUNE_TARGET_CPU;
    const at_remote_options remote = {.command = command,
                                      .target = options.target != NULL ? options.target
                                                : cpu                  ? "cpu"
                                                                       : "cuda",
                                      .isa = options.isa,
                                      .threads = options.threads,
                                      .confined = cpu};
    AT_FORWARD(at_remote_open(&remote, &on->worker));
    AT_FORWARD(at_pool_create(options.threads > 0 ? options.threads : at_cpu_count(), 0, &on->pool));
    on->suite.device = on->worker;
    on->suite.pool = on->pool;
    on->suite.plan = plan_stranger;
    on->suite.general = cpu ? NULL : plan_general_there;
    return ATTUNE_OK;
}

static attune_status set_up(session *on)
{
    int64_t seed;
    const at_cli *cli = on->cli;
    bool many = cli->operand_count == 0 || at_cli_given(cli, "--all-configs");
    AT_FORWARD(at_cli_integer(cli, "--cases", 1, 1000000, many ? CASES_MANY : CASES_GIVEN, &on->suite.cases));
    AT_FORWARD(at_cli_integer(cli, "--case", 0, INT64_MAX, -1, &on->suite.only));
    AT_FORWARD(at_cli_integer(cli, "--seed", 0, INT64_MAX, 1, &seed));
    AT_FAIL_IF(on->suite.only >= 0 && cli->operand_count != 1, ATTUNE_INVALID_ARGUMENT,
               "--case belongs to one PROBLEM, %d are given", cli->operand_count);
    AT_FAIL_IF(on->suite.only >= 0 && at_cli_given(cli, "--cases"), ATTUNE_INVALID_ARGUMENT,
               "--case runs one case, --cases many: give one of them");
    AT_FORWARD(at_check_list_given(cli->operand, cli->operand_count, &on->list));
    const char *kernel = at_cli_text(cli, "--kernel");
    AT_FAIL_IF(kernel == NULL && at_cli_given(cli, "--all-configs"), ATTUNE_INVALID_ARGUMENT,
               "--all-configs: of a kernel, which --kernel names");
    attune_status status = kernel == NULL ? ATTUNE_OK : at_kernel_find(kernel, NULL, &on->named);
    if (status != ATTUNE_OK) {
        return at_fail_in(status, "--kernel");
    }
    AT_FORWARD(on->named.stranger != NULL ? use_stranger(on) : use_context(on));
    AT_FORWARD(make_list(on));
    on->suite.self = on->suite.watcher = on;
    on->suite.seed = (uint64_t)seed;
    on->suite.command = on->command;
    on->suite.acc16 = on->named.kernel != NULL && (on->named.kernel->traits & ATTUNE_TRAIT_ACC16) != 0;
    on->suite.progress = show_progress;
    on->suite.stop = is_stopped;
    return ATTUNE_OK;
}

/* ---- Running and reporting -------------------------------------------------------------------------------------- */

/* A descriptor that is at fault, or a source that does not compile, is no case that is wrong: it is said once. */
static attune_status look_at_stranger(session *on, const attune_problem *problem)
{
    attune_plan *plan;
    if (on->named.stranger == NULL) {
        return ATTUNE_OK;
    }
    attune_status status = plan_stranger(on, problem, &plan);
    attune_plan_destroy(plan);
    return status == ATTUNE_COMPILE_ERROR || status == ATTUNE_CORRUPT || status == ATTUNE_INVALID_ARGUMENT ? status
                                                                                                           : ATTUNE_OK;
}

static attune_status run_one(session *on)
{
    const at_test_problem *test = &on->list.entry[on->done].test;
    write_command(on);
    AT_FORWARD(look_at_stranger(on, &test->problem));
    return at_suite_run(&on->suite, test, &on->result[on->done]);
}

static attune_status run_all(session *on)
{
    char text[ATTUNE_PROBLEM_TEXT_MAX];
    attune_status status = ATTUNE_OK;
    at_progress_start(&on->progress, on->cli->err, "");
    while (on->done < on->list.count && status == ATTUNE_OK && !at_cli_interrupted()) {
        (void)at_test_problem_print(&on->list.entry[on->done].test, text, sizeof text);
        at_progress_label(&on->progress, text);
        status = run_one(on);
        on->done += status == ATTUNE_OK;
    }
    at_progress_end(&on->progress);
    return status;
}

static const char *verdict(const at_suite_result *result)
{
    if (result->executed == 0) {
        return result->interrupted ? "interrupted" : "refused";
    }
    return at_suite_right(result) ? result->interrupted ? "interrupted" : "right" : "WRONG";
}

static const at_column columns[] = {
    {"problem", AT_COLUMN_TEXT, NULL, 0},    {"kernel", AT_COLUMN_TEXT, NULL, 0},
    {"cases", AT_COLUMN_INTEGER, NULL, 0},   {"exact", AT_COLUMN_INTEGER, NULL, 0},
    {"refused", AT_COLUMN_INTEGER, NULL, 0}, {"failed", AT_COLUMN_INTEGER, NULL, 0},
    {"error", AT_COLUMN_NUMBER, NULL, 2},    {"l2", AT_COLUMN_NUMBER, NULL, 2},
    {"cosine", AT_COLUMN_NUMBER, NULL, 2},   {"lse", AT_COLUMN_NUMBER, NULL, 2},
    {"verdict", AT_COLUMN_TEXT, NULL, 0},
};

static void add_row(at_table *table, const at_test_problem *problem, const at_suite_result *result)
{
    char text[ATTUNE_PROBLEM_TEXT_MAX];
    const at_margins *margins = &result->margins;
    (void)at_test_problem_print(problem, text, sizeof text);
    at_table_text(table, text);
    at_table_text(table, result->kernel);
    at_table_integer(table, result->executed);
    at_table_integer(table, result->exact);
    at_table_integer(table, result->refused);
    at_table_integer(table, result->failed);
    at_table_number(table, margins->error);
    at_table_number(table, margins->l2);
    at_table_number(table, margins->cosine);
    at_table_number(table, margins->lse);
    at_table_text(table, verdict(result));
}

static attune_status print_table(const session *on)
{
    at_table *table;
    AT_FORWARD(at_table_create(columns, (int)(sizeof columns / sizeof *columns), &table));
    for (int i = 0; i < on->done; ++i) {
        add_row(table, &on->list.entry[i].test, &on->result[i]);
    }
    attune_status status = at_table_print(table, at_cli_format(on->cli), on->cli->out);
    at_table_destroy(table);
    return status;
}

/* Which of the drawn variations the kernel refused, each reason once. */
static void print_refusals(const at_suite_result *result, const char *problem, FILE *to)
{
    if (result->refused == 0) {
        return;
    }
    (void)fprintf(to, "\nrefused, %" PRId64 " drawn cases of %s\n", result->refused, problem);
    for (int i = 0; i < result->refusals; ++i) {
        int earlier = 0;
        while (strcmp(result->refusal[earlier].why, result->refusal[i].why) != 0) {
            ++earlier;
        }
        if (earlier == i) {
            (void)fprintf(to, "  %s: %s\n", result->refusal[i].problem, result->refusal[i].why);
        }
    }
}

/* Failures and refusals, where they do not spoil a table that a program reads. */
static void print_notes(const session *on, const at_suite_result *result, const at_test_problem *problem)
{
    FILE *to = at_cli_format(on->cli) == AT_FORMAT_TEXT ? on->cli->out : on->cli->err;
    char text[ATTUNE_PROBLEM_TEXT_MAX];
    (void)at_test_problem_print(problem, text, sizeof text);
    for (int i = 0; i < result->failures; ++i) {
        const at_failure *failure = &result->failure[i];
        (void)fprintf(to, "\nWRONG: %s\n  case %" PRId64 " (%s): %s\n  %s\n", failure->what, failure->index,
                      failure->how, failure->problem, failure->command);
    }
    if (result->failed > result->failures) {
        (void)fprintf(to, "\nand %" PRId64 " more wrong cases of %s\n", result->failed - result->failures, text);
    }
    if (result->bias_status != ATTUNE_OK) {
        (void)fprintf(to, "\nWRONG: %s\n  %s --cases %" PRId64 " --seed %" PRIu64 " %s\n", result->bias_what,
                      on->command, on->suite.cases, on->suite.seed, text);
    }
    print_refusals(result, text, to);
}

static int report(const session *on)
{
    bool wrong = false;
    int64_t executed = 0;
    attune_status status = print_table(on);
    if (status != ATTUNE_OK) {
        return at_cli_fail(on->cli, status);
    }
    for (int i = 0; i < on->done; ++i) {
        print_notes(on, &on->result[i], &on->list.entry[i].test);
        executed += on->result[i].executed;
        wrong |= on->result[i].executed > 0 && !at_suite_right(&on->result[i]);
    }
    if (at_cli_interrupted()) {
        int whole = on->done - (on->done > 0 && on->result[on->done - 1].interrupted);
        at_cli_say(on->cli, "interrupted: %d of %d problems were checked to the end", whole, on->list.count);
        return AT_EXIT_INTERRUPTED;
    }
    if (executed == 0) {
        at_cli_say(on->cli, "nothing was checked: every problem was refused");
        return AT_EXIT_USAGE;
    }
    return wrong ? AT_EXIT_WRONG : AT_EXIT_OK;
}

/* What a sanitizer sees besides, of kernels whose numbers are right. */
static int sanitize(const session *on, int code)
{
    bool wrong = false;
    if (code != AT_EXIT_OK || !at_cli_given(on->cli, "--sanitize")) {
        return code;
    }
    attune_status status = on->suite.device->target.kind == ATTUNE_TARGET_CUDA
                               ? at_check_sanitize(on->cli, &on->list, &wrong)
                               : at_fail(ATTUNE_UNSUPPORTED, "--sanitize: compute-sanitizer looks at GPUs only");
    return status != ATTUNE_OK ? at_cli_fail(on->cli, status) : wrong ? AT_EXIT_WRONG : AT_EXIT_OK;
}

static int run(const at_cli *cli)
{
    session on = {.cli = cli, .named = {.params = ""}};
    attune_status status = set_up(&on);
    int code = AT_EXIT_OK;
    if (status == ATTUNE_OK) {
        status = run_all(&on);
        /* What was found before the machine gave up is worth reading, too. */
        code = status == ATTUNE_OK || on.done > 0 ? report(&on) : AT_EXIT_OK;
    }
    code = status != ATTUNE_OK ? at_cli_fail(cli, status) : sanitize(&on, code);
    if (on.worker != NULL) {
        on.worker->ops->close(on.worker);
    }
    at_pool_destroy(on.pool);
    attune_context_destroy(on.context);
    at_found_kernel_close(&on.named);
    at_check_list_free(&on.list);
    free(on.result);
    return code;
}

static const at_option options[] = {
    {"--cases", "N", NULL,
     "cases to execute a problem; without it 100, or 20 of the built-in ones and with --all-configs"},
    {"--case", "I", NULL, "run case I of one PROBLEM alone, as a failure's command does"},
    {"--seed", "S", NULL, "which cases: case I of a problem depends on the problem, S and I alone; without it 1"},
    {"--sanitize", NULL, NULL, "of a CUDA kernel: three small cases of each problem below compute-sanitizer, too"},
    {"--all-configs", NULL, NULL, "of --kernel KERNEL[:PARAM=VALUE,...] every config that fits, each on each problem"},
    {NULL, NULL, NULL, NULL},
};

const at_verb at_verb_check = {
    .name = "check",
    .arguments = "[PROBLEM...]",
    .summary = "prove kernels right: the suite and the rules for numbers",
    .help =
        "Runs the kernel that would be used (or --kernel) on drawn inputs and compares every output with a\n"
        "reference in fp64, by the rules of docs/numbers.md: relative error, L2 and bias, every row, LSE,\n"
        "determinism and batch invariance, all outputs written, nothing else touched.\n"
        "\n"
        "At least 40 of 100 cases are the PROBLEM itself with every family of inputs; the others vary lengths,\n"
        "strides, heads, layouts, masks and features within what the kernel supports. Without a PROBLEM, a\n"
        "built-in set that covers every feature is checked; of a kernel that is named, those that it supports.\n"
        "\n"
        "--sanitize runs three small cases more of each problem below compute-sanitizer ($ATTUNE_SANITIZER, else\n"
        "in PATH or /usr/local/cuda/bin). What a tool reports is wrong, but for races of a folder's kernel, and of\n"
        "the library's what is listed with its reason; these are shown.\n"
        "\n"
        "--kernel takes a folder with a source and a descriptor, too (docs/kernels.md), which then runs in a\n"
        "worker of its own.\n"
        "\n"
        "One line a problem: the columns error, l2, cosine and lse are the worst case's share of what the rule\n"
        "allows; 1 is the edge. What is wrong is printed with the one command that reproduces it.\n"
        "Exit code: 0 right, 1 wrong, 3 could not run, 64 bad usage or all refused.\n",
    .examples = "  attune check\n"
                "  attune check --cases 1000 b1,h8,s512,d64,fp16\n"
                "  attune check --kernel cpu_tiled --isa baseline b2,h4,s257,d64,bf16,causal\n"
                "  attune check --kernel ./mine --all-configs\n",
    .options = options,
    .common = AT_COMMON_TARGET | AT_COMMON_FORMAT,
    .run = run,
};
