/* attune info: the machine, the kernels, and which of them would run a problem. */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/info_facts.h"
#include "cli/info_parts.h"
#include "core/config.h"
#include "core/problem.h"
#include "core/target.h"
#include "cpu/cpu.h"
#include "cuda/cuda.h"
#include "library/catalogue.h"
#include "library/context.h"

enum { WHY_MAX = 512 };

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

static attune_status add_machine(const at_info *all)
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

static void add_devices(const at_info *all)
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

static void add_traits(at_facts *facts, const char *kernel, uint32_t traits)
{
    static const struct {
        uint32_t trait;
        const char *name;
    } names[] = {
        {ATTUNE_TRAIT_GENERAL, "general"},
        {ATTUNE_TRAIT_NONDETERMINISTIC, "nondeterministic"},
        {ATTUNE_TRAIT_BATCH_VARIANT, "batch-variant"},
        {ATTUNE_TRAIT_TAINTS, "taints"},
        {ATTUNE_TRAIT_ACC16, "acc16"},
        {ATTUNE_TRAIT_NAMED_ONLY, "named-only"},
        {ATTUNE_TRAIT_CLOCKS, "clocks"},
    };
    char list[128];
    at_text text;
    at_text_init_fixed(&text, list, sizeof list);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        if ((traits & names[i].trait) != 0) {
            at_text_add(&text, "%s%s", text.length > 0 ? " " : "", names[i].name);
        }
    }
    at_facts_add(facts, "kernel", kernel, "traits", "%s", list);
}

/* What would become of the kernel if the problem were planned; `chosen` is the plan's. */
static attune_status add_verdict(const at_info *all, const char *kernel, const char *chosen)
{
    char why[WHY_MAX];
    if (strcmp(kernel, chosen) == 0) {
        at_facts_add(all->facts, "kernel", kernel, "for the problem", "runs it");
        return ATTUNE_OK;
    }
    AT_FORWARD(attune_why_not(all->context, &all->problem, kernel, why, sizeof why));
    if (why[0] == '\0') {
        at_facts_add(all->facts, "kernel", kernel, "for the problem", "could; %s is preferred", chosen);
        return ATTUNE_OK;
    }
    const bool could = attune_supports(all->context, &all->problem, kernel) == ATTUNE_OK;
    at_facts_add(all->facts, "kernel", kernel, "for the problem", "%s %s", could ? "could, but" : "cannot:", why);
    return ATTUNE_OK;
}

/* One of the library's. */
static attune_status add_listed(const at_info *all, int32_t index, const char *chosen)
{
    const char *name = attune_kernel_name(index);
    at_facts_add(all->facts, "kernel", name, "target", "%s",
                 target_name((attune_target_kind)attune_kernel_target(index)));
    add_traits(all->facts, name, attune_kernel_traits(index));
    if (chosen[0] != '\0') {
        AT_FORWARD(add_verdict(all, name, chosen));
    }
    at_facts_add(all->facts, "kernel", name, "what it is", "%s", attune_kernel_summary(index));
    return ATTUNE_OK;
}

/* All, or the one that was named; `chosen` is the one that would run the problem, "" where none is known. */
static attune_status add_kernels(const at_info *all, const char *chosen)
{
    const attune_kernel *named = all->found.kernel;
    for (int32_t i = 0; i < attune_kernel_count(); ++i) {
        const char *name = attune_kernel_name(i);
        if (named == NULL || strcmp(name, named->name) == 0 || strcmp(name, chosen) == 0) {
            AT_FORWARD(add_listed(all, i, chosen));
        }
    }
    return ATTUNE_OK;
}

/* ---- The problem ----------------------------------------------------------------------------------------------------
 */

static attune_status make_plan(const at_info *all, attune_context *context, attune_plan **plan)
{
    const at_found_kernel *named = &all->found;
    const attune_plan_options options = {.size = sizeof options, .kernel = all->kernel_text};
    return named->stranger != NULL ? at_plan_kernel(context, &all->problem, named->kernel, named->params, plan)
                                   : attune_plan_create(context, &all->problem, &options, plan);
}

/* What is to be said of a plan; `chosen` is its kernel's name. */
static attune_status describe_plan(const at_info *all, const attune_plan *plan, char chosen[AT_KERNEL_TEXT_MAX])
{
    size_t workspace = 0;
    const char *kernel = attune_plan_kernel(plan);
    AT_FORWARD(attune_plan_workspace(plan, NULL, &workspace));
    at_facts_add(all->facts, "problem", "", "plan", "%s", kernel);
    at_facts_add(all->facts, "problem", "", "chosen", "%s", attune_plan_origin(plan));
    at_facts_add(all->facts, "problem", "", "workspace bytes", "%zu", workspace);
    at_facts_add(all->facts, "problem", "", "plan bytes", "%zu", attune_plan_memory(plan));
    (void)snprintf(chosen, AT_KERNEL_TEXT_MAX, "%.*s", (int)strcspn(kernel, ":"), kernel);
    return ATTUNE_OK;
}

/* What a plan of the problem would be. Where there is none, `chosen` stays "" and the reason becomes a fact. */
static attune_status add_plan(const at_info *all, attune_context *context, char chosen[AT_KERNEL_TEXT_MAX])
{
    attune_plan *plan = NULL;
    attune_status status = make_plan(all, context, &plan);
    if (status == ATTUNE_UNSUPPORTED || status == ATTUNE_COMPILE_ERROR) {
        at_facts_add(all->facts, "problem", "", "plan", "none: %s", attune_last_detail());
        return ATTUNE_OK;
    }
    AT_FORWARD(status);
    status = describe_plan(all, plan, chosen);
    attune_plan_destroy(plan);
    return status;
}

/* Nothing of a stranger's is loaded here: it is planned for the target, as if that were elsewhere. */
static attune_status add_problem(const at_info *all, char chosen[AT_KERNEL_TEXT_MAX])
{
    char text[ATTUNE_PROBLEM_TEXT_MAX], class_text[AT_CLASS_TEXT_MAX];
    attune_options options;
    attune_context *elsewhere = NULL;
    AT_FORWARD(attune_problem_print(&all->problem, text, sizeof text));
    at_problem_class(&all->problem, class_text);
    at_facts_add(all->facts, "problem", "", "text", "%s", text);
    at_facts_add(all->facts, "problem", "", "class", "%s", class_text);
    at_facts_add(all->facts, "problem", "", "gflop", "%.6g", attune_problem_flops(&all->problem) * 1e-9);
    if (all->found.stranger == NULL) {
        return add_plan(all, all->context, chosen);
    }
    attune_options_init(&options);
    AT_FORWARD(at_context_elsewhere(&options, all->target, &elsewhere));
    attune_status status = add_plan(all, elsewhere, chosen);
    attune_context_destroy(elsewhere);
    return status;
}

/* ---- A kernel that was named ----------------------------------------------------------------------------------------
 */

static void add_kernel(const at_info *all, const attune_kernel *kernel)
{
    at_facts_add(all->facts, "kernel", kernel->name, "target", "%s", target_name(kernel->target));
    add_traits(all->facts, kernel->name, kernel->traits);
    at_facts_add(all->facts, "kernel", kernel->name, "what it is", "%s", kernel->summary);
}

/* The first of these that the kernel supports, for its configs where no problem is given. */
static const char *typical_problem(const attune_kernel *kernel, const attune_target *target)
{
    static const char *const typical[] = {
        "b1,h8,s512,d64,fp16",  "b1,h8,s512,d64,fp32",        "b1,h8,s512,d64,bf16",       "b1,h8,s512,d128,bf16",
        "b1,h8,s512,d128,fp32", "b1,h8,s512,d64,fp16,causal", "b1,h8,s512,d64,fp32,causal"};
    for (size_t i = 0; i < sizeof typical / sizeof typical[0]; ++i) {
        attune_problem problem;
        if (attune_problem_parse(typical[i], &problem) == ATTUNE_OK &&
            at_kernel_supports(kernel, &problem, target, NULL)) {
            return typical[i];
        }
    }
    return typical[0];
}

static attune_status choose_problem(at_info *all, const attune_target *target)
{
    if (all->problem_text != NULL || all->found.kernel == NULL) {
        return ATTUNE_OK;
    }
    all->problem_text = typical_problem(all->found.kernel, target);
    return attune_problem_parse(all->problem_text, &all->problem);
}

/* Configs for architectures that were named: nothing of a device is asked for. */
static attune_status add_archs(at_info *all)
{
    const at_archs *archs = &all->archs;
    const attune_kernel *kernel = all->found.kernel;
    AT_FAIL_IF(kernel == NULL || kernel->target != ATTUNE_TARGET_CUDA, ATTUNE_INVALID_ARGUMENT,
               "--arch: a CUDA kernel is needed, by its name or as a folder");
    AT_FORWARD(choose_problem(all, &archs->target[0]));
    at_facts_add(all->facts, "problem", "", "text", "%s", all->problem_text);
    add_kernel(all, kernel);
    at_info_parameters(all);
    for (int i = 0; i < archs->count; ++i) {
        all->target = &archs->target[i];
        all->subject = archs->name[i];
        AT_FORWARD(at_info_configs(all));
    }
    return ATTUNE_OK;
}

/* ---- The verb -------------------------------------------------------------------------------------------------------
 */

/* Operands are a problem, a kernel, or both: what is a kernel's name or a folder is no problem. */
static attune_status read_operand(at_info *all, const char *text)
{
    char name[AT_KERNEL_TEXT_MAX];
    const char *params;
    const bool named = at_kernel_text_split(text, name, sizeof name, &params) == ATTUNE_OK;
    const bool of_problem = named && islower((unsigned char)*params); /* append:b1,... and not append:TOKENS=4 */
    const bool kernel = named && (at_stranger_is_meant(text) || (at_catalogue_find(name) != NULL && !of_problem));
    if (kernel) {
        AT_FAIL_IF(all->kernel_text != NULL, ATTUNE_INVALID_ARGUMENT, "%s and %s: one kernel at a time",
                   all->kernel_text, text);
        all->kernel_text = text;
        return ATTUNE_OK;
    }
    AT_FAIL_IF(all->problem_text != NULL, ATTUNE_INVALID_ARGUMENT, "%s: one problem at a time", text);
    all->problem_text = text;
    return ATTUNE_OK;
}

static attune_status read_operands(at_info *all)
{
    all->kernel_text = at_cli_text(all->cli, "--kernel");
    for (int i = 0; i < all->cli->operand_count; ++i) {
        AT_FORWARD(read_operand(all, all->cli->operand[i]));
    }
    AT_FORWARD(all->problem_text == NULL ? ATTUNE_OK : attune_problem_parse(all->problem_text, &all->problem));
    if (all->kernel_text == NULL) {
        return ATTUNE_OK;
    }
    attune_status status = at_kernel_find(all->kernel_text, NULL, &all->found);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "%s", all->kernel_text);
}

static attune_status open_context(at_info *all)
{
    attune_options options;
    AT_FORWARD(at_cli_options(all->cli, &options));
    options.kernel = NULL; /* a kernel that cannot run here shall be explained, not refused */
    bool brings_target = all->found.kernel != NULL && options.target == NULL;
    if (brings_target) {
        options.target = target_name(all->found.kernel->target);
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

static attune_status add_here(at_info *all)
{
    char chosen[AT_KERNEL_TEXT_MAX] = "";
    const at_found_kernel *named = &all->found;
    AT_FORWARD(choose_problem(all, all->target));
    add_devices(all);
    if (all->problem_text != NULL) {
        AT_FORWARD(add_problem(all, chosen));
    }
    if (named->stranger != NULL) {
        add_kernel(all, named->kernel);
    } else {
        AT_FORWARD(add_kernels(all, chosen));
    }
    if (named->kernel == NULL) {
        return ATTUNE_OK;
    }
    if (named->kernel->target != all->target->kind) {
        at_facts_add(all->facts, "kernel", named->kernel->name, "configs",
                     "unknown here: --arch 80,90a compiles them without a device");
    }
    at_info_parameters(all);
    return at_info_configs(all);
}

static attune_status gather(at_info *all)
{
    const char *list = at_cli_text(all->cli, "--arch");
    AT_FORWARD(list == NULL ? ATTUNE_OK : at_cli_archs(list, &all->archs));
    AT_FORWARD(read_operands(all));
    AT_FORWARD(at_facts_create(&all->facts));
    AT_FORWARD(open_context(all));
    AT_FORWARD(add_machine(all));
    AT_FORWARD(list == NULL ? add_here(all) : add_archs(all));
    return at_facts_print(all->facts, at_cli_format(all->cli), all->cli->out);
}

static int run(const at_cli *cli)
{
    at_info all = {.cli = cli, .subject = "config"};
    attune_status status = gather(&all);
    int code = status == ATTUNE_OK ? AT_EXIT_OK : at_cli_fail(cli, status);
    at_facts_destroy(all.facts);
    attune_context_destroy(all.context);
    at_found_kernel_close(&all.found);
    return status == ATTUNE_OK && at_cli_interrupted() ? AT_EXIT_INTERRUPTED : code;
}

static const at_option options[] = {
    {"--arch", "LIST", NULL, "a CUDA kernel's configs compiled for these, such as 80,90a, without a device"},
    {"--all-configs", NULL, NULL, "of a CUDA kernel all configs, and not only the four likeliest"},
    {NULL, NULL, NULL, NULL},
};

const at_verb at_verb_info = {
    .name = "info",
    .arguments = "[KERNEL] [PROBLEM]",
    .summary = "show the machine, the kernels, and what would run a problem",
    .help =
        "Shows the machine as attune sees it and the kernels it has. With PROBLEM: which kernel would run it, with\n"
        "which config, where that choice came from (proven or measured wisdom, a heuristic, or named), how many\n"
        "bytes of workspace it takes, and why the other kernels would not run it.\n"
        "\n"
        "With KERNEL (or --kernel), which is a kernel's name or a folder with a source and a descriptor\n"
        "(docs/kernels.md): its parameters with the values allowed, and for each config whether it fits this target\n"
        "and what it needs. A CUDA kernel's are compiled for that (registers, spills, shared memory, occupancy,\n"
        "warnings): the four likeliest, of which the first is what would be planned, or with --all-configs all (of\n"
        "more than 4,096 the likeliest, and for each value of each parameter one that has it), which takes two\n"
        "processors a minute for hundreds, the first time. With --arch they are compiled for architectures that are\n"
        "named, and no device is needed. Nothing of a folder runs in this process.\n",
    .examples = "  attune info\n"
                "  attune info b2,h32,hkv8,s4096,d128,bf16,causal\n"
                "  attune info --kernel cpu_tiled b1,h8,s512,d64,fp32\n"
                "  attune info ./mine --arch sm_80,sm_90a\n"
                "  attune info --format json\n",
    .options = options,
    .common = AT_COMMON_TARGET | AT_COMMON_FORMAT,
    .run = run,
};
