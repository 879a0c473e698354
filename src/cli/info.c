/* attune info: the machine, the kernels, and which of them would run a problem. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "base/text.h"
#include "base/threads.h"
#include "cli/cli.h"
#include "cli/info_facts.h"
#include "cli/progress.h"
#include "core/call.h"
#include "core/config.h"
#include "core/problem.h"
#include "core/target.h"
#include "core/term.h"
#include "cpu/cpu.h"
#include "cuda/cuda.h"
#include "library/catalogue.h"
#include "library/context.h"

static const char default_problem[] = "b1,h8,s512,d64,fp16"; /* for the configs of a kernel, where none is given */
enum { CONFIGS_MAX = 4096, WHY_MAX = 512 };

typedef struct info {
    const at_cli *cli;
    at_facts *facts;
    attune_context *context;
    const attune_target *target;
    const char *problem_text; /* NULL: no problem was asked about */
    attune_problem problem;
    const attune_kernel *kernel; /* of --kernel, or NULL */
} info;

static const char *target_name(attune_target_kind kind)
{
    return kind == ATTUNE_TARGET_CUDA ? "cuda" : "cpu";
}

/* ---- The machine ----------------------------------------------------------------------------------------------------
 */

static void add_bytes(at_facts *facts, const char *property, int64_t bytes)
{
    if (bytes <= 0) {
        at_facts_add(facts, "machine", "", property, "unknown");
    } else if (bytes < 1 << 20) {
        at_facts_add(facts, "machine", "", property, "%" PRId64 " KiB", bytes >> 10);
    } else if (bytes < INT64_C(10) << 30) {
        at_facts_add(facts, "machine", "", property, "%" PRId64 " MiB", bytes >> 20);
    } else {
        at_facts_add(facts, "machine", "", property, "%" PRId64 " GiB", bytes >> 30);
    }
}

/* "baseline avx2", the tiers this CPU has. */
static void add_tiers(at_facts *facts, attune_isa best, attune_isa used)
{
    char list[64];
    at_text text;
    at_text_init_fixed(&text, list, sizeof list);
    for (int isa = 0; isa <= (int)best; ++isa) {
        at_text_add(&text, "%s%s", isa == 0 ? "" : " ", at_isa_name((attune_isa)isa));
    }
    at_facts_add(facts, "machine", "", "isa available", "%s", list);
    at_facts_add(facts, "machine", "", "isa in use", "%s", at_isa_name(used));
}

static attune_status add_machine(const info *all)
{
    attune_target cpu;
    bool on_cpu = all->target->kind == ATTUNE_TARGET_CPU;
    int32_t best = (int32_t)at_cpu_best_isa();
    int threads = at_pool_threads(at_context_pool(all->context));
    AT_FORWARD(at_cpu_probe((attune_isa)(on_cpu ? all->target->isa : best), threads, &cpu));
    at_facts_add(all->facts, "machine", "", "attune", "%s", attune_version_string());
    at_facts_add(all->facts, "machine", "", "target", "%s", attune_context_target(all->context));
    at_facts_add(all->facts, "machine", "", "cpu", "%s", cpu.model);
    add_tiers(all->facts, best, cpu.isa);
    at_facts_add(all->facts, "machine", "", "threads", "%d of %d", threads, at_cpu_count());
    add_bytes(all->facts, "l1 data", cpu.l1d_bytes);
    add_bytes(all->facts, "l2", cpu.l2_bytes);
    add_bytes(all->facts, "l3", cpu.l3_bytes);
    add_bytes(all->facts, "memory", (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    return ATTUNE_OK;
}

/* Versions of the driver and the compiler are 1000 * major + 10 * minor. */
static void add_device(at_facts *facts, int device)
{
    char name[24];
    attune_target target;
    (void)snprintf(name, sizeof name, "cuda:%d", device);
    if (at_cuda_describe(device, &target) != ATTUNE_OK) {
        at_facts_add(facts, "device", name, "model", "not usable: %s", attune_last_detail());
        return;
    }
    at_facts_add(facts, "device", name, "model", "%s", target.model);
    at_facts_add(facts, "device", name, "arch", "sm_%d%s", target.arch, target.arch_features != 0 ? "a" : "");
    at_facts_add(facts, "device", name, "multiprocessors", "%d", target.sm_count);
    at_facts_add(facts, "device", name, "shared memory", "%d KiB", target.smem_optin_bytes >> 10);
    at_facts_add(facts, "device", name, "l2", "%" PRId64 " MiB", target.memory_l2_bytes >> 20);
    at_facts_add(facts, "device", name, "driver", "%d.%d", target.driver / 1000, target.driver % 1000 / 10);
    if (target.compiler > 0) {
        at_facts_add(facts, "device", name, "compiler", "%d.%d", target.compiler / 1000, target.compiler % 1000 / 10);
    } else {
        at_facts_add(facts, "device", name, "compiler", "none");
    }
}

static void add_devices(const info *all)
{
    int count = 0;
    if (at_cuda_count(&count) != ATTUNE_OK) {
        at_facts_add(all->facts, "machine", "", "gpus", "none: %s", attune_last_detail());
        return;
    }
    at_facts_add(all->facts, "machine", "", "gpus", "%d", count);
    for (int device = 0; device < count; ++device) {
        add_device(all->facts, device);
    }
}

/* ---- Kernels --------------------------------------------------------------------------------------------------------
 */

static void add_traits(at_facts *facts, const attune_kernel *kernel)
{
    static const struct {
        uint32_t trait;
        const char *name;
    } traits[] = {
        {ATTUNE_TRAIT_GENERAL, "general"},
        {ATTUNE_TRAIT_NONDETERMINISTIC, "nondeterministic"},
        {ATTUNE_TRAIT_BATCH_VARIANT, "batch-variant"},
        {ATTUNE_TRAIT_TAINTS, "taints"},
        {ATTUNE_TRAIT_ACC16, "acc16"},
        {ATTUNE_TRAIT_NAMED_ONLY, "named-only"},
    };
    char list[128];
    at_text text;
    at_text_init_fixed(&text, list, sizeof list);
    for (size_t i = 0; i < sizeof traits / sizeof traits[0]; ++i) {
        if ((kernel->traits & traits[i].trait) != 0) {
            at_text_add(&text, "%s%s", text.length > 0 ? " " : "", traits[i].name);
        }
    }
    at_facts_add(facts, "kernel", kernel->name, "traits", "%s", list);
}

/* Why the kernel would not run the problem; "" where it could. */
static void ask_why(const info *all, const attune_kernel *kernel, char why[WHY_MAX])
{
    const char *failure = at_context_failure(all->context, kernel);
    why[0] = '\0';
    if (failure != NULL) {
        (void)snprintf(why, WHY_MAX, "it failed: %s", failure);
    } else if (attune_supports(all->context, &all->problem, kernel->name) != ATTUNE_OK) {
        const char *detail = attune_last_detail(), *reason = strstr(detail, "cannot: ");
        (void)snprintf(why, WHY_MAX, "%s", reason != NULL ? reason + strlen("cannot: ") : detail);
    }
}

/* What would become of the kernel if the problem were planned; `chosen` is the plan's. */
static void add_verdict(const info *all, const attune_kernel *kernel, const attune_kernel *chosen)
{
    char why[WHY_MAX];
    ask_why(all, kernel, why);
    if (kernel == chosen) {
        at_facts_add(all->facts, "kernel", kernel->name, "for the problem", "runs it");
    } else if (why[0] != '\0') {
        at_facts_add(all->facts, "kernel", kernel->name, "for the problem", "cannot: %s", why);
    } else if ((kernel->traits & ATTUNE_TRAIT_NAMED_ONLY) != 0) {
        at_facts_add(all->facts, "kernel", kernel->name, "for the problem", "could, but only where it is named");
    } else {
        at_facts_add(all->facts, "kernel", kernel->name, "for the problem", "could; %s is preferred", chosen->name);
    }
}

/* "16 32 64", the values allowed. */
static void add_parameter(at_facts *facts, const attune_kernel *kernel, const attune_param *param)
{
    char list[256];
    at_text text;
    at_text_init_fixed(&text, list, sizeof list);
    for (int32_t i = 0; i < param->count; ++i) {
        at_text_add(&text, "%s%d", i > 0 ? " " : "", param->values[i]);
    }
    at_facts_add(facts, "parameter", param->name, "of", "%s", kernel->name);
    at_facts_add(facts, "parameter", param->name, "values", "%s", list);
}

static void add_kernels(const info *all, const attune_kernel *chosen)
{
    for (const attune_kernel *const *at = at_catalogue; *at != NULL; ++at) {
        if (all->kernel != NULL && *at != all->kernel && *at != chosen) {
            continue;
        }
        at_facts_add(all->facts, "kernel", (*at)->name, "target", "%s", target_name((*at)->target));
        add_traits(all->facts, *at);
        if (all->problem_text != NULL && chosen != NULL) {
            add_verdict(all, *at, chosen);
        }
        at_facts_add(all->facts, "kernel", (*at)->name, "what it is", "%s", (*at)->summary);
    }
}

/* ---- One kernel's configs -------------------------------------------------------------------------------------------
 */

static void add_workspace(const info *all, const char *name, const attune_resources *resources)
{
    attune_call call;
    attune_args args;
    at_sizes sizes;
    int64_t bytes;
    if (attune_call_init(&call, &all->problem) != ATTUNE_OK) {
        return;
    }
    at_call_args(&all->problem, &call, &args);
    at_sizes_fill(&sizes, &args, all->target);
    if (at_term_evaluate(&resources->workspace, &sizes, &bytes) == ATTUNE_OK) {
        at_facts_add(all->facts, "config", name, "workspace bytes", "%" PRId64, bytes);
    }
}

/* A config and, where it is one of a CUDA kernel and fits, what its compiled code uses. */
typedef struct config_row {
    attune_config config;
    bool fits;
    attune_reason reason;
    attune_status status; /* of compiling */
    char *detail;         /* why not, for the list's owner to free */
    at_cuda_usage usage;
} config_row;

typedef struct config_list {
    const info *all;
    config_row *row;
    int64_t count;
    pthread_mutex_t lock; /* of what follows */
    int64_t compiled;
    at_progress progress;
} config_list;

static void add_usage(const info *all, const char *name, const config_row *row)
{
    if (row->status != ATTUNE_OK) {
        at_facts_add(all->facts, "config", name, "compiled", "no: %s", row->detail != NULL ? row->detail : "");
        return;
    }
    at_facts_add(all->facts, "config", name, "registers", "%d", row->usage.registers);
    at_facts_add(all->facts, "config", name, "spill bytes", "%d", row->usage.spill_bytes);
    at_facts_add(all->facts, "config", name, "blocks/sm", "%d", row->usage.blocks_sm);
    at_facts_add(all->facts, "config", name, "occupancy", "%.2f", row->usage.occupancy);
    at_facts_add(all->facts, "config", name, "limit", "%s", row->usage.limit != NULL ? row->usage.limit : "");
}

static void add_config(const info *all, const config_row *row)
{
    char name[AT_KERNEL_TEXT_MAX];
    attune_resources resources;
    memset(&resources, 0, sizeof resources);
    at_config_print(all->kernel, &row->config, name);
    at_facts_add(all->facts, "config", name, "fits", "%s", row->fits ? "yes" : "no");
    if (!row->fits) {
        at_facts_add(all->facts, "config", name, "why not", "%s", row->reason.text);
        return;
    }
    all->kernel->resources(&all->problem, all->target, &row->config, &resources);
    if (all->kernel->target == ATTUNE_TARGET_CPU) {
        at_facts_add(all->facts, "config", name, "scratch bytes a thread", "%" PRId64, resources.scratch_bytes);
    } else {
        at_facts_add(all->facts, "config", name, "threads", "%d", resources.threads);
        at_facts_add(all->facts, "config", name, "shared memory bytes", "%d", resources.smem_bytes);
    }
    add_workspace(all, name, &resources);
    if (all->kernel->target == ATTUNE_TARGET_CUDA) {
        add_usage(all, name, row);
    }
}

static void list_config(config_list *list, const attune_config *config)
{
    config_row *row = &list->row[list->count++];
    row->config = *config;
    row->fits = at_kernel_fits(list->all->kernel, &list->all->problem, list->all->target, config, &row->reason);
}

/* The heuristic's choice first, then all others. */
static void list_all(config_list *list, const attune_config *likeliest, int64_t count)
{
    list_config(list, likeliest);
    for (int64_t i = 0; i < count; ++i) {
        attune_config config = {{0}};
        at_config_at(list->all->kernel, i, &config);
        if (memcmp(&config, likeliest, sizeof config) != 0) {
            list_config(list, &config);
        }
    }
}

static bool is_listed(const config_list *list, int param, int32_t value)
{
    bool listed = false;
    for (int64_t i = 0; i < list->count; ++i) {
        listed = listed || (list->row[i].fits && list->row[i].config.value[param] == value);
    }
    return listed;
}

/* Of more configs than anybody would read or wait for: the heuristic's choice, and one for each value of each
 * parameter that none before it has. */
static void list_values(config_list *list, const attune_config *likeliest)
{
    const info *all = list->all;
    const attune_kernel *kernel = all->kernel;
    attune_config config;
    list_config(list, likeliest);
    for (int i = 0; i < kernel->param_count; ++i) {
        for (int v = 0; v < kernel->params[i].count; ++v) {
            if (!is_listed(list, i, kernel->params[i].values[v])) {
                (void)at_config_nearest(kernel, &all->problem, all->target, likeliest, i, v, &config);
                list_config(list, &config);
            }
        }
    }
}

static void compile_config(void *context, int64_t item, void *scratch)
{
    config_list *list = context;
    const info *all = list->all;
    config_row *row = &list->row[item];
    (void)scratch;
    if (row->fits && !at_cli_interrupted()) {
        row->status = at_cuda_inspect(all->kernel, &all->problem, all->target, &row->config, NULL, &row->usage);
        row->detail = row->status == ATTUNE_OK ? NULL : strdup(attune_last_detail());
    }
    (void)pthread_mutex_lock(&list->lock);
    at_progress_update(&list->progress, (double)++list->compiled / (double)list->count);
    (void)pthread_mutex_unlock(&list->lock);
}

/* Each config is compiled, or found in the cache, by as many threads as there are processors: a large space still takes
 * a while the first time. */
static attune_status compile_configs(config_list *list)
{
    at_pool *pool = NULL;
    if (list->all->kernel->target != ATTUNE_TARGET_CUDA) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_pool_create(at_cpu_count(), 64, &pool));
    at_progress_start(&list->progress, list->all->cli->err, list->all->kernel->name);
    at_pool_run(pool, list->count, compile_config, list);
    at_progress_end(&list->progress);
    at_pool_destroy(pool);
    return ATTUNE_OK;
}

static int64_t count_values(const attune_kernel *kernel)
{
    int64_t count = 0;
    for (int i = 0; i < kernel->param_count; ++i) {
        count += kernel->params[i].count;
    }
    return count;
}

static attune_status add_listed(const info *all, const attune_config *likeliest)
{
    const int64_t count = at_config_count(all->kernel);
    const int64_t room = 1 + (count <= CONFIGS_MAX ? count : count_values(all->kernel));
    config_list list = {.all = all, .row = calloc((size_t)room, sizeof *list.row)};
    AT_FAIL_IF(list.row == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %" PRId64 " configs", room);
    (void)pthread_mutex_init(&list.lock, NULL); /* cannot fail with default attributes on Linux */
    if (count <= CONFIGS_MAX) {
        list_all(&list, likeliest, count);
    } else {
        list_values(&list, likeliest);
    }
    at_facts_add(all->facts, "kernel", all->kernel->name, "configs", "%" PRId64 ", of which %" PRId64 " are listed",
                 count, list.count);
    attune_status status = compile_configs(&list);
    for (int64_t i = 0; i < list.count; ++i) {
        if (status == ATTUNE_OK && !at_cli_interrupted()) {
            add_config(all, &list.row[i]);
        }
        free(list.row[i].detail);
    }
    (void)pthread_mutex_destroy(&list.lock);
    free(list.row);
    return status;
}

static attune_status add_configs(const info *all)
{
    attune_config likeliest = {{0}};
    bool known = all->kernel->target == all->target->kind &&
                 at_kernel_supports(all->kernel, &all->problem, all->target, NULL) &&
                 all->kernel->heuristic(&all->problem, all->target, 0, &likeliest);
    for (int32_t i = 0; i < all->kernel->param_count; ++i) {
        add_parameter(all->facts, all->kernel, &all->kernel->params[i]);
    }
    return known ? add_listed(all, &likeliest) : ATTUNE_OK;
}

/* ---- The problem ----------------------------------------------------------------------------------------------------
 */

static attune_status make_plan(const info *all, attune_plan **plan)
{
    const char *named = at_cli_text(all->cli, "--kernel");
    return named != NULL ? at_plan_named(all->context, &all->problem, named, plan)
                         : attune_plan_create(all->context, &all->problem, NULL, plan);
}

/* What a plan of the problem would be. *chosen is its kernel, or NULL where there is none, whose reason becomes a fact.
 */
static attune_status add_problem(const info *all, const attune_kernel **chosen)
{
    char text[ATTUNE_PROBLEM_TEXT_MAX], class_text[AT_CLASS_TEXT_MAX];
    attune_plan *plan = NULL;
    *chosen = NULL;
    AT_FORWARD(attune_problem_print(&all->problem, text, sizeof text));
    at_problem_class(&all->problem, class_text);
    at_facts_add(all->facts, "problem", "", "text", "%s", text);
    at_facts_add(all->facts, "problem", "", "class", "%s", class_text);
    at_facts_add(all->facts, "problem", "", "gflop", "%.6g", attune_problem_flops(&all->problem) * 1e-9);
    attune_status status = make_plan(all, &plan);
    if (status == ATTUNE_UNSUPPORTED || status == ATTUNE_COMPILE_ERROR) {
        at_facts_add(all->facts, "problem", "", "plan", "none: %s", attune_last_detail());
        return ATTUNE_OK;
    }
    AT_FORWARD(status);
    size_t workspace = 0;
    status = attune_plan_workspace(plan, NULL, &workspace);
    at_facts_add(all->facts, "problem", "", "plan", "%s", attune_plan_kernel(plan));
    at_facts_add(all->facts, "problem", "", "chosen", "%s", attune_plan_origin(plan));
    at_facts_add(all->facts, "problem", "", "workspace bytes", "%zu", workspace);
    *chosen = plan->loaded->kernel;
    attune_plan_destroy(plan);
    return status;
}

/* ---- The verb -------------------------------------------------------------------------------------------------------
 */

static attune_status read_kernel(info *all)
{
    char name[AT_KERNEL_TEXT_MAX];
    const char *params;
    const char *text = at_cli_text(all->cli, "--kernel");
    if (text == NULL) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_kernel_text_split(text, name, sizeof name, &params));
    attune_status status = at_catalogue_named(name, &all->kernel);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "--kernel");
}

static attune_status open_context(info *all)
{
    attune_options options;
    AT_FORWARD(at_cli_options(all->cli, &options));
    options.kernel = NULL; /* a kernel that cannot run here shall be explained, not refused */
    bool brings_target = all->kernel != NULL && options.target == NULL;
    if (brings_target) {
        options.target = target_name(all->kernel->target);
    }
    attune_status status = attune_context_create(&options, &all->context);
    if (status == ATTUNE_NO_DEVICE && brings_target) {
        options.target = NULL;
        status = attune_context_create(&options, &all->context);
    }
    AT_FORWARD(status);
    all->target = &at_context_device(all->context)->target;
    return ATTUNE_OK;
}

static attune_status gather(info *all)
{
    const attune_kernel *chosen = NULL;
    AT_FORWARD(read_kernel(all));
    all->problem_text = all->cli->operand_count > 0 ? all->cli->operand[0]
                        : all->kernel != NULL       ? default_problem
                                                    : NULL;
    if (all->problem_text != NULL) {
        AT_FORWARD(attune_problem_parse(all->problem_text, &all->problem));
    }
    AT_FORWARD(at_facts_create(&all->facts));
    AT_FORWARD(open_context(all));
    AT_FORWARD(add_machine(all));
    add_devices(all);
    if (all->problem_text != NULL) {
        AT_FORWARD(add_problem(all, &chosen));
    }
    add_kernels(all, chosen);
    if (all->kernel != NULL) {
        AT_FORWARD(add_configs(all));
    }
    return at_facts_print(all->facts, at_cli_format(all->cli), all->cli->out);
}

static int run(const at_cli *cli)
{
    info all = {.cli = cli};
    if (cli->operand_count > 1) {
        return at_cli_usage(cli, "%s: one problem at a time", cli->operand[1]);
    }
    attune_status status = gather(&all);
    at_facts_destroy(all.facts);
    attune_context_destroy(all.context);
    if (status == ATTUNE_OK && at_cli_interrupted()) {
        return AT_EXIT_INTERRUPTED;
    }
    return status == ATTUNE_OK ? AT_EXIT_OK : at_cli_fail(cli, status);
}

const at_verb at_verb_info = {
    .name = "info",
    .arguments = "[PROBLEM]",
    .summary = "show the machine, the kernels, and what would run a problem",
    .help =
        "Shows the machine as attune sees it and the kernels it has. With PROBLEM: which kernel would run it, with\n"
        "which config, where that choice came from (proven or measured wisdom, a heuristic, or named), how many\n"
        "bytes of workspace it takes, and why the other kernels would not run it. With --kernel: that kernel's\n"
        "parameters with the values allowed, and for each config whether it fits this target and what it needs (of\n"
        "more than 4,096 configs: the likeliest, and for each value of each parameter one that has it); a CUDA\n"
        "kernel's are compiled for that (registers, spills, occupancy), as many at a time as there are processors:\n"
        "hundreds of configs take two of them about a minute the first time.\n",
    .examples = "  attune info\n"
                "  attune info b2,h32,hkv8,s4096,d128,bf16,causal\n"
                "  attune info --kernel cpu_tiled b1,h8,s512,d64,fp32\n"
                "  attune info --format json\n",
    .common = AT_COMMON_TARGET | AT_COMMON_FORMAT,
    .run = run,
};
