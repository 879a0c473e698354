/* attune run: attention on tensors from files. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "cli/npy.h"
#include "cli/run.h"
#include "core/call.h"
#include "core/problem.h"
#include "library/placement.h"
#include "measure/clock.h"

/* ---- Running ---------------------------------------------------------------------------------------------------- */

/* NOTE: a CPU reads the file's own bytes where they are aligned as the problem wants; large inputs are then in memory
 * once. */
static attune_status place_tensor(const at_run_job *job, attune_role role, const at_array *array, at_placement *place)
{
    const attune_tensor *tensor = &place->call.tensor[role];
    size_t align = role <= ATTUNE_O ? (size_t)at_problem_align(&job->problem) : at_array_element(array->dtype);
    bool here = place->device->target.kind == ATTUNE_TARGET_CPU;
    bool stays = tensor->data == NULL || (here && (uintptr_t)tensor->data % align == 0);
    return stays ? ATTUNE_OK : at_placement_own(place, role, array->data, array->bytes);
}

static attune_status place_all(const at_run_job *job, const attune_plan *plan, at_placement *place)
{
    for (attune_role role = 0; role < ATTUNE_ROLE_COUNT; role++) {
        const at_array *array = role == ATTUNE_O ? &job->o : role == ATTUNE_LSE ? &job->lse : &job->input[role].array;
        AT_FORWARD(place_tensor(job, role, array, place));
    }
    return at_placement_fit(place, plan, &place->call);
}

/* One call, from its arguments to a complete O. */
static attune_status run_placed(const at_run_job *job, const attune_plan *plan, at_placement *place, double *time_us)
{
    at_clock clock = at_clock_monotonic();
    AT_FORWARD(place_all(job, plan, place));
    int64_t begin = clock.now_ns(clock.self);
    AT_FORWARD(attune_plan_execute(plan, &place->call));
    AT_FORWARD(place->device->ops->synchronise(place->device, NULL));
    *time_us = (double)(clock.now_ns(clock.self) - begin) / 1e3;
    AT_FORWARD(at_placement_bring(place, ATTUNE_O, (void *)(uintptr_t)job->o.data, job->o.bytes));
    return at_placement_bring(place, ATTUNE_LSE, (void *)(uintptr_t)job->lse.data, job->lse.bytes);
}

static attune_status execute(const at_run_job *job, const attune_plan *plan, at_device *device, double *time_us)
{
    at_placement place;
    at_placement_open(device, &job->call, &place);
    attune_status status = run_placed(job, plan, &place, time_us);
    at_placement_free(&place);
    return status;
}

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

static attune_status check_output(const char *option, const char *path)
{
    bool known = path == NULL || at_run_has_extension(path, ".npy") || at_run_has_extension(path, ".safetensors");
    AT_FAIL_IF(!known, ATTUNE_INVALID_ARGUMENT, "%s is %s: its name ends in neither .npy nor .safetensors", option,
               path);
    return path == NULL ? ATTUNE_OK : at_writer_check(path);
}

/* An output that replaces what it was computed from is a mistake, and the input would be lost. */
static attune_status check_inputs_kept(const at_cli *cli, const char *option, const char *path)
{
    const at_option *input;
    for (int i = 0; path != NULL && (input = at_verb_option(cli->verb, i)) != NULL; i++) {
        const char *given = at_cli_text(cli, input->name);
        bool reads = input->argument != NULL && strcmp(input->argument, "FILE") == 0 &&
                     strcmp(input->name, "--out") != 0 && strcmp(input->name, "--lse") != 0;
        AT_FAIL_IF(reads && given != NULL && at_run_reads(given, path), ATTUNE_INVALID_ARGUMENT,
                   "%s is %s, which %s reads: it would be replaced", option, path, input->name);
    }
    return ATTUNE_OK;
}

/* Before anything is computed: names that could not be written, or would overwrite one another. */
static attune_status check_outputs(const at_cli *cli)
{
    const char *out = at_cli_text(cli, "--out"), *lse = at_cli_text(cli, "--lse");
    AT_FORWARD(check_output("--out", out));
    AT_FORWARD(check_output("--lse", lse));
    AT_FAIL_IF(out != NULL && lse != NULL && at_file_same(out, lse), ATTUNE_INVALID_ARGUMENT,
               "--out and --lse are both %s: one would replace the other (a .safetensors of --out holds both)", out);
    AT_FORWARD(check_inputs_kept(cli, "--out", out));
    return check_inputs_kept(cli, "--lse", lse);
}

/* O and LSE of .safetensors are in one file, with what made them. */
static attune_status write_safetensors(const char *path, const at_named_array *tensors, size_t count,
                                       const at_run_job *job, const attune_plan *plan)
{
    char problem[ATTUNE_PROBLEM_TEXT_MAX];
    AT_FORWARD(attune_problem_print(&job->problem, problem, sizeof problem));
    const at_pair metadata[] = {
        {"made_by", "attune run"},
        {"version", attune_version_string()},
        {"problem", problem},
        {"kernel", attune_plan_kernel(plan)},
    };
    return at_safetensors_write(path, tensors, count, metadata, sizeof metadata / sizeof metadata[0]);
}

static attune_status write_outputs(const at_cli *cli, const at_run_job *job, const attune_plan *plan)
{
    const char *out = at_cli_text(cli, "--out"), *lse = at_cli_text(cli, "--lse");
    const at_named_array tensors[] = {{"O", NULL, job->o}, {"LSE", NULL, job->lse}};
    if (out != NULL) {
        AT_FORWARD(at_run_has_extension(out, ".npy") ? at_npy_write(out, &job->o)
                                                     : write_safetensors(out, tensors, 2, job, plan));
    }
    if (lse != NULL) {
        AT_FORWARD(at_run_has_extension(lse, ".npy") ? at_npy_write(lse, &job->lse)
                                                     : write_safetensors(lse, tensors + 1, 1, job, plan));
    }
    return ATTUNE_OK;
}

/* ---- The summary ------------------------------------------------------------------------------------------------ */

typedef struct summary {
    const at_run_job *job;
    const attune_plan *plan;
    const char *target;
    double time_us;
    bool checked; /* `report` is filled */
    const char *given;
    at_run_report report;
} summary;

/* Work by the time; packed sequences and tensors that say what is hidden leave the work unknown. */
static double gflops(const summary *a)
{
    const attune_problem *p = &a->job->problem;
    bool known = !p->varlen && !p->seqused_kv && !p->mask;
    return known && a->time_us > 0 ? attune_problem_flops(p) / a->time_us / 1e3 : (double)NAN;
}

static void print_output(const at_cli *cli, const char *role, const at_array *array, const char *where)
{
    char shape[AT_ARRAY_TEXT_MAX];
    at_array_shape_text(array, shape);
    (void)fprintf(cli->out, "%-9s%s %s, %s%s\n", role, shape, at_dtype_name(array->dtype),
                  where != NULL ? "in " : "not kept: give ",
                  where != NULL    ? where
                  : role[0] == 'O' ? "--out"
                                   : "--lse");
}

static void print_error(const at_cli *cli, const char *what, const at_run_error *error)
{
    (void)fprintf(cli->out, "  %-18s max |difference| %.2e   relative L2 %.2e\n", what, error->max, error->l2);
}

static void print_report(const at_cli *cli, const summary *a)
{
    const at_run_report *r = &a->report;
    char rows[96];
    if (r->rows == r->all_rows) {
        (void)snprintf(rows, sizeof rows, "all %lld rows", (long long)r->rows);
    } else {
        (void)snprintf(rows, sizeof rows, "%lld of %lld rows", (long long)r->rows, (long long)r->all_rows);
    }
    (void)fprintf(cli->out, "Against attention in fp64, %s\n", rows);
    print_error(cli, "this O", &r->output);
    if (r->compared) {
        print_error(cli, "given O", &r->given);
        (void)fprintf(cli->out, "Against the given O, %s\n", a->given);
        print_error(cli, "this O", &r->apart);
    }
    if (r->judged && r->verdict == ATTUNE_OK) {
        (void)fprintf(cli->out, "Right: allowed are max |difference| %.2e and relative L2 %.2e\n", r->max_limit,
                      r->l2_limit);
    } else if (r->judged) {
        (void)fprintf(cli->out, "Wrong: %s\n", r->reason);
    }
}

static void print_summary(const at_cli *cli, const summary *a, const char *problem)
{
    const char *out = at_cli_text(cli, "--out"), *lse = at_cli_text(cli, "--lse");
    char rate[80] = "", time[48];
    if (!isnan(gflops(a))) {
        at_number_print(gflops(a), 3, time);
        (void)snprintf(rate, sizeof rate, ", %s GFLOP/s", time);
    }
    at_number_print(a->time_us, 3, time);
    (void)fprintf(cli->out, "Problem  %s\nTarget   %s\nKernel   %s (%s)\nTime     %s us, one call%s\n", problem,
                  a->target, attune_plan_kernel(a->plan), attune_plan_origin(a->plan), time, rate);
    print_output(cli, "O", &a->job->o, out);
    bool together = lse == NULL && out != NULL && at_run_has_extension(out, ".safetensors");
    print_output(cli, "LSE", &a->job->lse, together ? out : lse);
    if (a->checked) {
        print_report(cli, a);
    }
}

/* The same as one row, for programs. What was not asked for is empty. */
static attune_status print_row(const at_cli *cli, const summary *a, const char *problem)
{
    static const at_column columns[] = {
        {"problem", AT_COLUMN_TEXT, NULL, 0},
        {"target", AT_COLUMN_TEXT, NULL, 0},
        {"kernel", AT_COLUMN_TEXT, NULL, 0},
        {"origin", AT_COLUMN_TEXT, NULL, 0},
        {"time_us", AT_COLUMN_NUMBER, NULL, 4},
        {"gflops", AT_COLUMN_NUMBER, NULL, 4},
        {"max_error", AT_COLUMN_NUMBER, NULL, 4},
        {"l2_error", AT_COLUMN_NUMBER, NULL, 4},
        {"given_max_error", AT_COLUMN_NUMBER, NULL, 4},
        {"given_l2_error", AT_COLUMN_NUMBER, NULL, 4},
        {"max_apart", AT_COLUMN_NUMBER, NULL, 4},
        {"l2_apart", AT_COLUMN_NUMBER, NULL, 4},
        {"verdict", AT_COLUMN_TEXT, NULL, 0},
    };
    const at_run_report *r = &a->report;
    const at_run_error none = {(double)NAN, (double)NAN};
    const at_run_error errors[] = {a->checked ? r->output : none, r->compared ? r->given : none,
                                   r->compared ? r->apart : none};
    at_table *table;
    AT_FORWARD(at_table_create(columns, sizeof columns / sizeof columns[0], &table));
    at_table_text(table, problem);
    at_table_text(table, a->target);
    at_table_text(table, attune_plan_kernel(a->plan));
    at_table_text(table, attune_plan_origin(a->plan));
    at_table_number(table, a->time_us);
    at_table_number(table, gflops(a));
    for (int i = 0; i < 3; i++) {
        at_table_number(table, errors[i].max);
        at_table_number(table, errors[i].l2);
    }
    at_table_text(table, !r->judged ? NULL : r->verdict == ATTUNE_OK ? "right" : "wrong");
    attune_status status = at_table_print(table, at_cli_format(cli), cli->out);
    at_table_destroy(table);
    return status;
}

/* ---- The verb --------------------------------------------------------------------------------------------------- */

static attune_status check_result(const at_cli *cli, const attune_context *context, const attune_plan *plan,
                                  const at_run_tensor *given, summary *a)
{
    bool judge = at_cli_given(cli, "--check");
    if (!judge && !given->given) {
        return ATTUNE_OK;
    }
    const uint32_t traits = attune_plan_traits(plan);
    a->checked = true;
    a->given = given->source;
    return at_run_compare(cli, at_context_pool(context), a->job, given->given ? given : NULL, judge,
                          (traits & ATTUNE_TRAIT_TAINTS) != 0, (traits & ATTUNE_TRAIT_ACC16) != 0, &a->report);
}

static attune_status run_planned(const at_cli *cli, attune_context *context, const at_run_job *job,
                                 const at_run_tensor *given, attune_plan **plan, summary *a)
{
    AT_FORWARD(attune_plan_create(context, &job->problem, NULL, plan));
    a->plan = *plan;
    a->target = attune_context_target(context);
    AT_FAIL_IF(at_cli_interrupted(), ATTUNE_INTERRUPTED, "interrupted before the call");
    AT_FORWARD(execute(job, *plan, at_context_device(context), &a->time_us));
    AT_FORWARD(write_outputs(cli, job, *plan));
    AT_FORWARD(check_result(cli, context, *plan, given, a));
    char problem[ATTUNE_PROBLEM_TEXT_MAX];
    AT_FORWARD(attune_problem_print(&job->problem, problem, sizeof problem));
    if (at_cli_format(cli) != AT_FORMAT_TEXT) {
        return print_row(cli, a, problem);
    }
    print_summary(cli, a, problem);
    return ATTUNE_OK;
}

static attune_status run_all(const at_cli *cli, at_run_job *job, at_run_tensor *given, summary *a)
{
    const char *compare = at_cli_text(cli, "--compare");
    AT_FAIL_IF(cli->operand_count > 0, ATTUNE_INVALID_ARGUMENT, "\"%s\" is no option: files are given as --q FILE",
               cli->operand[0]);
    AT_FORWARD(check_outputs(cli));
    AT_FORWARD(at_run_gather(cli, job));
    if (compare != NULL) {
        AT_FORWARD(at_run_load(compare, "O", at_cli_given(cli, "--bf16"), given));
    }
    AT_FORWARD(at_run_state(cli, job));
    attune_context *context;
    attune_plan *plan = NULL;
    AT_FORWARD(at_cli_context(cli, &context));
    attune_status status = run_planned(cli, context, job, given, &plan, a);
    attune_plan_destroy(plan);
    attune_context_destroy(context);
    return status;
}

static int run(const at_cli *cli)
{
    at_run_job job = {.in = NULL};
    at_run_tensor given = {.given = false};
    summary a = {.job = &job};
    attune_status status = run_all(cli, &job, &given, &a);
    int code = status != ATTUNE_OK ? at_cli_fail(cli, status) : (int)at_cli_exit(a.report.verdict);
    if (status == ATTUNE_OK && a.report.verdict != ATTUNE_OK) {
        at_cli_say(cli, "the result is wrong: %s", a.report.reason);
    }
    at_run_unload(&given);
    at_run_free(&job);
    return code;
}

static const at_option options[] = {
    {"--q", "FILE", NULL, "queries: [batch, heads, seq, dim], [heads, seq, dim] or [seq, dim]"},
    {"--k", "FILE", NULL, "keys, likewise; as many heads as Q or a divisor of them"},
    {"--v", "FILE", NULL, "values, likewise; their dim may differ"},
    {"--in", "FILE", NULL, "a .safetensors file with these and the following as tensors Q, K, V, ..."},
    {"--out", "FILE", NULL, "write O here; a .safetensors file gets O and LSE"},
    {"--lse", "FILE", NULL, "write LSE, the logarithm of each row's sum, here"},
    {"--layout", "LAYOUT", "bhsd bshd", "order of the dimensions: bhsd (the default), or bshd: seq before heads"},
    {"--causal", NULL, NULL, "a query sees no key after its own position"},
    {"--window", "L:R", NULL, "nor any further left than L or right than R; -1: unbounded"},
    {"--offset", "WHERE", NULL, "the first query's position: br (the default), tl, or a number"},
    {"--scale", "X", NULL, "multiplies Q K^T; without it 1 / sqrt(dim)"},
    {"--softcap", "X", NULL, "logits become X tanh(logit / X)"},
    {"--bias", "FILE", NULL, "added to logits: [1 or batch, 1 or heads, seq of Q, seq of K] (BIAS)"},
    {"--mask", "FILE", NULL, "boolean, true where seen; broadcast in all but the last dimension (MASK)"},
    {"--alibi", "FILE", NULL, "one slope a head, fp32 (SLOPES)"},
    {"--sink", "FILE", NULL, "one extra logit a head, fp32 (SINK)"},
    {"--seqused", "FILE", NULL, "how many keys of each sequence are real, int32 (USED_KV)"},
    {"--cu-q", "FILE", NULL, "first row of each packed sequence of Q, and the end, int32 (CU_Q)"},
    {"--cu-kv", "FILE", NULL, "the same of K and V (CU_KV)"},
    {"--strict", NULL, NULL, "hidden NaN and inf must leave no trace, whatever that costs"},
    {"--tf32", NULL, NULL, "of fp32: products need be no more exact than TF32's"},
    {"--bf16", NULL, NULL, "two-byte numbers of unknown type in .npy files are bf16"},
    {"--compare", "FILE", NULL, "an O that somebody else computed, .npy or .safetensors[:NAME]: how far apart?"},
    {"--check", NULL, NULL, "judge the result by the rules of numbers, against attention in fp64"},
    {NULL, NULL, NULL, NULL},
};

const at_verb at_verb_run = {
    .name = "run",
    .arguments = "",
    .summary = "attention on tensors from .npy and .safetensors files",
    .help = "Computes attention on real tensors. Sizes and dtype (fp32, fp16, bf16) come from the files,\n"
            "which are .npy, or .safetensors: FILE.safetensors:NAME picks a tensor, and FILE.safetensors\n"
            "alone the one that is called like its role. With packed sequences (--cu-q and --cu-kv) Q, K\n"
            "and V are [total, heads, dim].\n"
            "\n"
            "Outputs replace files whole or not at all. The time is that of one call, the first: `attune\n"
            "bench` measures. With --check a wrong result ends with exit code 1.\n",
    .examples = "  attune run --q q.npy --k k.npy --v v.npy --out o.npy --causal\n"
                "  attune run --in layer.safetensors --out result.safetensors --check\n"
                "  attune run --in layer.safetensors --compare layer.safetensors:O\n",
    .options = options,
    .common = AT_COMMON_TARGET | AT_COMMON_FORMAT,
    .run = run,
};
