/* attune bench: arms against each other on the same inputs, each judged before it is timed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/bench_arms.h"
#include "cli/bench_workers.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cpu/cpu.h"
#include "cuda/rates.h"
#include "measure/flush.h"
#include "measure/interleave.h"
#include "measure/statistics.h"
#include "reference/least.h"

/* Where nobody says what to time: the arms that a target has, on problems that it is bought for. */
typedef struct defaults {
    const char *arms;
    int problem_count;
    const char *const *problem;
} defaults;

static const defaults *defaults_of(attune_target_kind kind)
{
    static const char *const cpu[] = {"b1,h8,s512,d64,fp32", "b1,h8,s1024,d128,fp32,causal", "b1,h8,s512,d64,fp16",
                                      "b1,h32,hkv8,sq1,skv4096,d128,bf16"};
    static const char *const cuda[] = {"b1,h8,s512,d64,fp16", "b1,h32,hkv8,s4096,d128,bf16,causal",
                                       "b4,h16,s2048,d128,fp16", "b1,h32,hkv8,sq1,skv8192,d128,bf16"};
    static const defaults of_cpu = {"auto,openblas", sizeof cpu / sizeof *cpu, cpu};
    static const defaults of_cuda = {"auto,cudnn", sizeof cuda / sizeof *cuda, cuda};
    return kind == ATTUNE_TARGET_CUDA ? &of_cuda : &of_cpu;
}

static const at_column columns[] = {
    {"problem", AT_COLUMN_TEXT, NULL, 0},     {"arm", AT_COLUMN_TEXT, NULL, 0},
    {"median_us", AT_COLUMN_NUMBER, NULL, 4}, {"lo_us", AT_COLUMN_NUMBER, NULL, 4},
    {"hi_us", AT_COLUMN_NUMBER, NULL, 4},     {"gflops", AT_COLUMN_NUMBER, NULL, 4},
    {"ratio", AT_COLUMN_NUMBER, NULL, 4},     {"peak_share", AT_COLUMN_NUMBER, NULL, 3},
};

/* The whole of a bench. */
typedef struct bench {
    const at_cli *cli;
    attune_context *context;
    at_arm_names names;
    uint64_t seed;
    double seconds; /* a problem */
    int problem_count;
    const char *const *problems;
    double peak_flops, peak_bytes; /* a second; 0 where they are not known */
    at_cuda_rates rates;           /* of a device */
    at_gauge *read;                /* on a CPU; NULL elsewhere */
    at_flush flush;                /* its buffer is NULL unless cold */
    at_progress progress;
    int problem; /* the one at work */
    at_table *table;
    bool in_workers; /* every arm in one of its own: an arm is Python's, or a folder with code for a CPU */
    bool wrong;      /* an arm's result was */
    bool unrunnable; /* no arm ran some problem */
} bench;

/* ---- One problem ----------------------------------------------------------------------------------------------------
 */

static bool stop(void *self)
{
    (void)self;
    return at_file_interrupted();
}

static void show_progress(void *self, double done)
{
    bench *all = self;
    at_progress_update(&all->progress, (all->problem + done) / all->problem_count);
}

/* Says something about the problem at work, under the bar. */
static void say(bench *all, const char *arm, const char *what)
{
    at_progress_end(&all->progress);
    at_cli_say(all->cli, "%s: %s: %s", all->problems[all->problem], arm, what);
}

/* A ceiling that is timed in turns with the arms, so that the machine's moods fall on it too. */
typedef struct ceiling {
    at_gauge *gauge; /* NULL where there is none */
    double *rate;    /* where its rate goes, a second */
} ceiling;

static attune_status run_gauge(void *self, const attune_call *call)
{
    (void)call;
    return at_gauge_run(self);
}

/* The gauge's rate in the middle of its samples. */
static attune_status read_ceiling(const ceiling *top, const at_samples *of)
{
    double us;
    AT_FORWARD(at_median(of->us, of->count, &us));
    *top->rate = at_gauge_work(top->gauge) / (us * 1e-6);
    return ATTUNE_OK;
}

static void how_to_time(bench *all, at_interleave *how)
{
    at_interleave_init(how);
    how->seed = all->seed;
    how->budget_s = all->seconds;
    how->stop = stop;
    how->progress = show_progress;
    how->progress_self = all;
    if (all->flush.buffer != NULL) {
        how->before = at_flush_run;
        how->before_self = &all->flush;
    }
}

static attune_status time_arms(bench *all, const at_bench_setup *setup, const ceiling *top, at_samples *samples)
{
    at_interleave how;
    how_to_time(all, &how);
    at_bound arms[AT_ARMS_MAX];
    int count = at_bench_setup_ready(setup, arms);
    if (count == 0) {
        return ATTUNE_OK;
    }
    const attune_arm peak = {.name = "peak", .self = top->gauge, .run = run_gauge};
    arms[count] = (at_bound){.arm = &peak, .calls = 1};
    AT_FORWARD(at_interleave_run(&how, arms, count + (top->gauge != NULL), samples));
    return top->gauge != NULL ? read_ceiling(top, &samples[count]) : ATTUNE_OK;
}

/* Of the lengths that were drawn; NAN where there is no memory to count them. */
static double flops_of(const at_bench_setup *setup)
{
    const at_inputs *inputs = &setup->work.inputs;
    at_least least;
    return at_least_count(&inputs->problem, &inputs->draw, &least) == ATTUNE_OK ? least.flops : (double)NAN;
}

/* The shortest time the machine's ceilings allow, in microseconds. */
static double floor_us(const bench *all, const at_bench_setup *setup)
{
    double flops = flops_of(setup);
    double by_flops = all->peak_flops > 0 ? flops / all->peak_flops : 0;
    double by_bytes = all->peak_bytes > 0 ? (double)at_bench_setup_bytes(setup) / all->peak_bytes : 0;
    return 1e6 * (by_flops > by_bytes ? by_flops : by_bytes);
}

static void add_row(bench *all, const at_bench_setup *setup, const char *arm, const at_interval *us, double first_us)
{
    at_table_text(all->table, setup->problem_text);
    at_table_text(all->table, arm);
    at_table_number(all->table, us->middle);
    at_table_number(all->table, us->low);
    at_table_number(all->table, us->high);
    at_table_number(all->table, flops_of(setup) / us->middle * 1e-3);
    at_table_number(all->table, first_us / us->middle);
    at_table_number(all->table, floor_us(all, setup) / us->middle);
}

/* A row for each arm that was timed, in the order of their names; why the others were not has been said. */
static attune_status add_rows(bench *all, const at_bench_setup *setup, const at_samples *samples)
{
    double first_us = 0;
    int timed = 0;
    for (int i = 0; i < setup->count; ++i) {
        if (setup->entry[i].state != AT_ENTRY_READY) {
            continue;
        }
        at_interval us;
        const at_samples *of = &samples[timed++];
        AT_FORWARD(at_bootstrap_median(of->us, of->count, 0.95, AT_RESAMPLES, all->seed, &us));
        if (!of->settled) {
            say(all, all->names.name[i], "its times had not settled when the warm-up ended: is the machine busy?");
        }
        first_us = timed == 1 ? us.middle : first_us;
        add_row(all, setup, all->names.name[i], &us, first_us);
    }
    return ATTUNE_OK;
}

static void report_failures(bench *all, const at_bench_setup *setup)
{
    int refused = 0;
    for (int i = 0; i < setup->count; ++i) {
        const at_entry *entry = &setup->entry[i];
        if (entry->state != AT_ENTRY_READY) {
            say(all, all->names.name[i], entry->reason);
        }
        all->wrong = all->wrong || entry->state == AT_ENTRY_WRONG;
        refused += entry->state == AT_ENTRY_REFUSED;
    }
    all->unrunnable = all->unrunnable || refused == setup->count;
}

/* The published rate of a device's memory; that of its arithmetic depends on the dtype. */
static attune_status read_device(bench *all)
{
    AT_FORWARD(at_cuda_rates_read(at_context_device(all->context), &all->rates));
    all->peak_bytes = at_cuda_peak_bytes(&all->rates);
    return ATTUNE_OK;
}

/* What this machine could do at most: a CPU's is measured, a device's is published. */
static attune_status open_read(bench *all)
{
    const attune_target *target = &at_context_device(all->context)->target;
    if (target->kind != ATTUNE_TARGET_CPU) {
        return read_device(all);
    }
    AT_FORWARD(at_gauge_read(target->isa, at_context_pool(all->context), &all->read));
    all->peak_bytes = at_gauge_best(all->read);
    return ATTUNE_OK;
}

/* The ceiling that bounds the problem. Reading memory would empty the caches of tensors that fit into them: such a
 * problem is held against the rate that was measured before. */
static ceiling choose_ceiling(bench *all, const at_bench_setup *setup, at_gauge *flops)
{
    const attune_target *target = &at_context_device(all->context)->target;
    if (flops == NULL) {
        return (ceiling){NULL, NULL};
    }
    double by_flops = flops_of(setup) / all->peak_flops;
    double bytes = (double)at_bench_setup_bytes(setup);
    double caches = (double)(target->l3_bytes + target->threads * target->l2_bytes);
    if (bytes / all->peak_bytes > by_flops && bytes > caches) {
        return (ceiling){all->read, &all->peak_bytes};
    }
    return (ceiling){flops, &all->peak_flops};
}

/* A rate of arithmetic, by itself: a CPU's is measured, a device's is published. */
static attune_status measure_flops(bench *all, const attune_problem *problem)
{
    at_gauge *flops = NULL;
    const attune_target *target = &at_context_device(all->context)->target;
    if (target->kind != ATTUNE_TARGET_CPU) {
        all->peak_flops = at_cuda_peak_flops(target, all->rates.sm_hz, problem->dtype);
        return ATTUNE_OK;
    }
    AT_FORWARD(at_gauge_flops(target->isa, problem->dtype, at_context_pool(all->context), &flops));
    all->peak_flops = at_gauge_best(flops);
    at_gauge_close(flops);
    return ATTUNE_OK;
}

static attune_status time_under_ceiling(bench *all, const at_bench_setup *setup, at_samples *samples)
{
    const attune_target *target = &at_context_device(all->context)->target;
    at_gauge *flops = NULL;
    if (target->kind == ATTUNE_TARGET_CPU) {
        AT_FORWARD(
            at_gauge_flops(target->isa, setup->work.inputs.problem.dtype, at_context_pool(all->context), &flops));
        all->peak_flops = at_gauge_best(flops);
    } else {
        all->peak_flops = at_cuda_peak_flops(target, all->rates.sm_hz, setup->work.inputs.problem.dtype);
    }
    ceiling top = choose_ceiling(all, setup, flops);
    attune_status status = time_arms(all, setup, &top, samples);
    at_gauge_close(flops);
    return status;
}

/* Every arm in a worker of its own. */
static attune_status bench_in_workers(bench *all, const at_test_problem *test)
{
    at_bench_setup setup;
    at_samples samples[AT_ARMS_MAX] = {{0}};
    attune_options options;
    at_interleave how;
    how_to_time(all, &how);
    AT_FORWARD(at_cli_options(all->cli, &options));
    const bool on_cpu = at_context_device(all->context)->target.kind == ATTUNE_TARGET_CPU;
    const at_bench_workers_options workers = {.target = on_cpu ? "cpu" : options.target,
                                              .isa = options.isa,
                                              .threads = options.threads,
                                              .pool = at_context_pool(all->context),
                                              .how = &how};
    AT_FORWARD(measure_flops(all, &test->problem));
    attune_status status = at_bench_workers_run(&workers, test, &all->names, &setup, samples);
    if (status == ATTUNE_OK) {
        report_failures(all, &setup);
        status = add_rows(all, &setup, samples);
    }
    for (int i = 0; i < AT_ARMS_MAX; ++i) {
        at_samples_free(&samples[i]);
    }
    return status;
}

static attune_status bench_setup(bench *all, const at_bench_setup *setup)
{
    at_samples samples[AT_ARMS_MAX] = {{0}};
    report_failures(all, setup);
    attune_status status = time_under_ceiling(all, setup, samples);
    status = status == ATTUNE_OK ? add_rows(all, setup, samples) : status;
    for (int i = 0; i < AT_ARMS_MAX; ++i) {
        at_samples_free(&samples[i]);
    }
    return status;
}

static attune_status bench_problem(bench *all, const at_test_problem *test)
{
    at_bench_setup setup;
    char label[64];
    (void)snprintf(label, sizeof label, "%.60s", all->problems[all->problem]);
    at_progress_label(&all->progress, label);
    at_progress_show(&all->progress, (double)all->problem / all->problem_count);
    if (all->in_workers) {
        return bench_in_workers(all, test);
    }
    AT_FORWARD(at_bench_setup_open(all->context, test, &all->names, &setup));
    attune_status status = bench_setup(all, &setup);
    at_bench_setup_close(&setup);
    return status;
}

static attune_status bench_problems(bench *all)
{
    at_test_problem test;
    for (int i = 0; i < all->problem_count; ++i) { /* nothing is timed before everything is known to be sound */
        AT_FORWARD(at_test_problem_parse(all->problems[i], &test));
    }
    for (all->problem = 0; all->problem < all->problem_count; ++all->problem) {
        AT_FAIL_IF(at_file_interrupted(), ATTUNE_INTERRUPTED, "interrupted");
        AT_FORWARD(at_test_problem_parse(all->problems[all->problem], &test));
        attune_status status = bench_problem(all, &test);
        if (status != ATTUNE_OK) {
            return at_fail_in(status, "%s", all->problems[all->problem]);
        }
    }
    return ATTUNE_OK;
}

/* ---- The whole ------------------------------------------------------------------------------------------------------
 */

static attune_status read_options(bench *all)
{
    const char *seed = at_cli_text(all->cli, "--seed");
    const char *arms = at_cli_text(all->cli, "--arms");
    all->seed = 1;
    if (seed != NULL) {
        AT_FORWARD(at_parse_uint64("--seed", seed, &all->seed));
    }
    AT_FORWARD(at_cli_number(all->cli, "--seconds", 0, 86400, 2, &all->seconds));
    all->problem_count = all->cli->operand_count;
    all->problems = all->cli->operand;
    return arms != NULL ? at_arm_names_read(arms, &all->names) : ATTUNE_OK;
}

static attune_status fill_in(bench *all)
{
    const attune_target_kind kind = at_context_device(all->context)->target.kind;
    const defaults *of = defaults_of(kind);
    if (all->problem_count == 0) {
        all->problem_count = of->problem_count;
        all->problems = of->problem;
    }
    AT_FORWARD(all->names.count == 0 ? at_arm_names_read(of->arms, &all->names) : ATTUNE_OK);
    all->in_workers = at_bench_wants_workers(&all->names, kind);
    AT_FAIL_IF(all->in_workers && at_cli_given(all->cli, "--cold"), ATTUNE_UNSUPPORTED,
               "--cold: not of a folder's code or Python's, in whose processes no cache is flushed");
    return ATTUNE_OK;
}

static attune_status prepare_cold(bench *all)
{
    const attune_target *target = &at_context_device(all->context)->target;
    if (!at_cli_given(all->cli, "--cold")) {
        return ATTUNE_OK;
    }
    AT_FAIL_IF(target->kind != ATTUNE_TARGET_CPU, ATTUNE_UNSUPPORTED, "--cold: only a CPU's caches are flushed so far");
    int64_t caches = target->l3_bytes + target->threads * target->l2_bytes;
    return at_flush_create(at_context_pool(all->context), (size_t)caches, &all->flush);
}

static attune_status run_bench(bench *all)
{
    AT_FORWARD(read_options(all));
    AT_FORWARD(at_table_create(columns, (int)(sizeof columns / sizeof columns[0]), &all->table));
    AT_FORWARD(at_cli_context(all->cli, &all->context));
    AT_FORWARD(fill_in(all));
    AT_FORWARD(prepare_cold(all));
    AT_FORWARD(open_read(all));
    return bench_problems(all);
}

static int run(const at_cli *cli)
{
    bench all = {.cli = cli};
    at_progress_start(&all.progress, cli->err, "");
    attune_status status = run_bench(&all);
    at_progress_end(&all.progress);
    int code = status != ATTUNE_OK ? at_cli_fail(cli, status)
               : all.wrong         ? AT_EXIT_WRONG
               : all.unrunnable    ? AT_EXIT_USAGE
                                   : AT_EXIT_OK;
    /* What was measured before a failure is printed all the same. */
    if (all.table != NULL && (status == ATTUNE_OK || all.problem > 0)) {
        status = at_table_print(all.table, at_cli_format(cli), cli->out);
        code = status == ATTUNE_OK ? code : at_cli_fail(cli, status);
    }
    at_table_destroy(all.table);
    at_flush_free(&all.flush);
    at_gauge_close(all.read);
    at_arm_names_free(&all.names);
    attune_context_destroy(all.context);
    return code;
}

static const at_option options[] = {
    {"--arms", "LIST", NULL,
     "what to time: auto, openblas, cudnn, NAME, NAME:PARAM=VALUE,... (auto,openblas; on CUDA auto,cudnn)"},
    {"--seconds", "S", NULL, "time for the samples of each problem, all arms together (2)"},
    {"--seed", "N", NULL, "decides the order of the arms (1)"},
    {"--cold", NULL, NULL, "flush the caches before every call"},
    {NULL, NULL, NULL, NULL},
};

const at_verb at_verb_bench = {
    .name = "bench",
    .arguments = "[PROBLEM...]",
    .summary = "time kernels and peers against each other",
    .help =
        "Times arms on the same inputs, in turns, so that a machine's moods fall on all of them alike. An arm is\n"
        "  auto               what attune would choose by itself\n"
        "  NAME               a kernel with the config it would choose for the problem\n"
        "  NAME:PARAM=VALUE   a kernel with this config\n"
        "  ./FOLDER           a kernel from its folder (docs/kernels.md); where one is for a CPU, every arm runs in a\n"
        "                     process of its own\n"
        "  torch:NAME         PyTorch's attention: cpu; on CUDA flash, cudnn, efficient, math or default\n"
        "  py:FILE:FUNCTION   any function on PyTorch's tensors (docs/peers.md says what it is given); where an arm "
        "is\n"
        "                     Python's, every arm runs in a process of its own\n"
        "  openblas           on a CPU: GEMM, softmax, GEMM with OpenBLAS ($ATTUNE_OPENBLAS, else libopenblas.so.0)\n"
        "  cudnn              on CUDA: cuDNN's fused attention ($ATTUNE_CUDNN, else the loader's path, else PyTorch's\n"
        "                     packages), as its heuristics choose; cudnn:fastest: the fastest of its choices\n"
        "Every arm's output is compared with the fp64 reference before it is timed: a wrong arm is reported as\n"
        "wrong (exit code 1) and not as fast. An arm that cannot run a problem is named with the reason and has no\n"
        "row. Without PROBLEM a few are timed that are typical of the target.\n"
        "\n"
        "Columns: median_us is the median of a call, lo_us and hi_us its 95 % bootstrap interval; gflops counts\n"
        "the multiply-adds that causal masks and windows leave; ratio is the first row's median / this one's, so\n"
        "that more than 1 is faster than the first; peak_share is the share of what this machine could do at most:\n"
        "a CPU by its measured FMA rate (bf16: that of dot products, where the tier has them) or its measured read\n"
        "bandwidth, a GPU by the published rate of its tensor cores at the highest clock (fp32: that of TF32) or of\n"
        "its memory, whichever bounds the problem (tensors that fit into a cache can beat the memory's bandwidth).\n",
    .examples = "  attune bench b1,h8,s1024,d64,fp32\n"
                "  attune bench --target cpu --arms auto,openblas b1,h8,s512,d64,fp32 b1,h8,s4096,d128,fp32,causal\n"
                "  attune bench --arms auto,auto --seconds 10 b1,h8,s512,d64,fp16     (a control: the ratio is 1)\n"
                "  attune bench --target cpu --cold --format tsv b1,h32,hkv8,sq1,skv8192,d128,bf16 > decode.tsv\n",
    .options = options,
    .common = AT_COMMON_TARGET | AT_COMMON_FORMAT,
    .run = run,
};
