#include "library/settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/sized.h"
#include "base/status.h"
#include "base/text.h"
#include "base/threads.h"
#include "core/target.h"
#include "cpu/cpu.h"
#include "cpu/guard.h"

enum { THREADS_MAX = 1024 };

/* A value and who gave it, for error messages. */
typedef struct setting {
    const char *from;
    const char *value; /* NULL: not given */
} setting;

/* Empty variables count as not set, as is the custom; an empty option is a value, and usually a wrong one. */
static setting choose(const char *option_name, const char *option, const char *variable)
{
    if (option != NULL) {
        return (setting){option_name, option};
    }
    const char *value = getenv(variable);
    return (setting){variable, value == NULL || *value == '\0' ? NULL : value};
}

static attune_status copy_text(const setting *from, char **to)
{
    if (from->value == NULL) {
        return ATTUNE_OK;
    }
    AT_FAIL_IF(*from->value == '\0', ATTUNE_INVALID_ARGUMENT, "%s is empty", from->from);
    *to = strdup(from->value);
    AT_FAIL_IF(*to == NULL, ATTUNE_OUT_OF_MEMORY, "%s: no memory for a copy", from->from);
    return ATTUNE_OK;
}

static attune_status resolve_target(const attune_options *options, at_settings *settings)
{
    setting target = choose("options.target", options->target, "ATTUNE_TARGET");
    if (target.value == NULL) {
        return ATTUNE_OK;
    }
    settings->target_given = true;
    attune_status status = at_target_parse(target.value, &settings->target, &settings->device);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "%s", target.from);
}

static attune_status resolve_isa(const attune_options *options, at_settings *settings)
{
    setting isa = choose("options.isa", options->isa, "ATTUNE_ISA");
    settings->isa = at_cpu_best_isa();
    if (isa.value == NULL) {
        return ATTUNE_OK;
    }
    attune_isa best = settings->isa;
    attune_status status = at_isa_parse(isa.value, &settings->isa);
    if (status != ATTUNE_OK) {
        return at_fail_in(status, "%s", isa.from);
    }
    AT_FAIL_IF(settings->isa > best, ATTUNE_UNSUPPORTED, "%s: this CPU cannot run \"%s\"; its highest tier is \"%s\"",
               isa.from, isa.value, at_isa_name(best));
    return ATTUNE_OK;
}

static attune_status resolve_threads(const attune_options *options, at_settings *settings)
{
    int64_t threads = options->threads;
    AT_FAIL_IF(threads < 0 || threads > THREADS_MAX, ATTUNE_INVALID_ARGUMENT,
               "options.threads is %lld; allowed are 1 ... %d, and 0 for the default", (long long)threads, THREADS_MAX);
    setting variable = choose("options.threads", NULL, "ATTUNE_THREADS");
    if (threads == 0 && variable.value != NULL) {
        AT_FORWARD(at_parse_int64(variable.from, variable.value, 1, THREADS_MAX, &threads));
    }
    if (threads == 0) {
        int cpus = settings->pool.cpu_count > 0 ? settings->pool.cpu_count : at_cpu_count();
        threads = cpus < THREADS_MAX ? cpus : THREADS_MAX;
    }
    settings->pool.threads = (int)threads;
    return ATTUNE_OK;
}

/* ---- Threads and memory of the caller's ------------------------------------------------------------------------- */

enum { CPUS_MAX = 1024, CPU_MOST = 65535 };

/* "3" or "3-7" at *text, which moves behind it. */
static bool read_range(const char **text, long *first, long *last)
{
    char *end;
    if (**text < '0' || **text > '9') {
        return false;
    }
    *first = *last = strtol(*text, &end, 10);
    if (*end == '-' && end[1] >= '0' && end[1] <= '9') {
        *last = strtol(end + 1, &end, 10);
    }
    *text = end;
    return *first <= *last && *last <= CPU_MOST;
}

static attune_status read_cpus(const setting *from, at_settings *settings)
{
    const char *at = from->value;
    long first, last;
    settings->cpus = calloc(CPUS_MAX, sizeof *settings->cpus);
    AT_FAIL_IF(settings->cpus == NULL, ATTUNE_OUT_OF_MEMORY, "%s: no memory for a list", from->from);
    for (bool more = true; more; at += more) {
        AT_FAIL_IF(!read_range(&at, &first, &last) || (*at != ',' && *at != '\0'), ATTUNE_INVALID_ARGUMENT,
                   "%s is \"%s\": CPUs 0 ... %d are needed, as in \"0-3,8\"", from->from, from->value, CPU_MOST);
        AT_FAIL_IF(last - first >= CPUS_MAX - settings->pool.cpu_count, ATTUNE_INVALID_ARGUMENT,
                   "%s is \"%s\": at most %d CPUs are possible", from->from, from->value, CPUS_MAX);
        for (long cpu = first; cpu <= last; ++cpu) {
            settings->cpus[settings->pool.cpu_count++] = (int)cpu;
        }
        more = *at == ',';
    }
    settings->pool.cpus = settings->cpus;
    return ATTUNE_OK;
}

static attune_status resolve_cpus(const attune_options *options, at_settings *settings)
{
    setting cpus = choose("options.cpus", options->cpus, "ATTUNE_CPUS");
    AT_FAIL_IF(options->cpus != NULL && options->parallel_for != NULL, ATTUNE_INVALID_ARGUMENT,
               "options.cpus is given, and options.parallel_for too: then the context has no threads to bind");
    return cpus.value == NULL || options->parallel_for != NULL ? ATTUNE_OK : read_cpus(&cpus, settings);
}

static attune_status resolve_wait(const attune_options *options, at_settings *settings)
{
    AT_FAIL_IF(options->wait < ATTUNE_WAIT_BRIEFLY || options->wait > ATTUNE_WAIT_ASLEEP, ATTUNE_INVALID_ARGUMENT,
               "options.wait is %d; allowed are %d (briefly) and %d (asleep)", (int)options->wait, ATTUNE_WAIT_BRIEFLY,
               ATTUNE_WAIT_ASLEEP);
    setting wait = choose("options.wait", options->wait == ATTUNE_WAIT_ASLEEP ? "asleep" : NULL, "ATTUNE_WAIT");
    settings->pool.sleeps = wait.value != NULL && strcmp(wait.value, "asleep") == 0;
    AT_FAIL_IF(wait.value != NULL && !settings->pool.sleeps && strcmp(wait.value, "briefly") != 0,
               ATTUNE_INVALID_ARGUMENT, "%s is \"%s\"; allowed are \"briefly\" and \"asleep\"", wait.from, wait.value);
    return ATTUNE_OK;
}

static attune_status resolve_pool(const attune_options *options, at_settings *settings)
{
    AT_FAIL_IF((options->allocate == NULL) != (options->release == NULL), ATTUNE_INVALID_ARGUMENT,
               "options.allocate and options.release: both are needed, or neither");
    AT_FAIL_IF(options->callers < 0 || options->callers > AT_CALLERS_MAX, ATTUNE_INVALID_ARGUMENT,
               "options.callers is %d; allowed are 0 ... %d", (int)options->callers, AT_CALLERS_MAX);
    settings->pool.scratch_bytes = ATTUNE_SCRATCH_MAX + AT_SCRATCH_GUARD;
    settings->pool.callers = options->callers;
    settings->pool.memory = (at_memory){options->allocate, options->release, options->memory_user};
    settings->pool.parallel_for = options->parallel_for;
    settings->pool.parallel_user = options->parallel_user;
    AT_FORWARD(resolve_cpus(options, settings));
    AT_FORWARD(resolve_wait(options, settings));
    return resolve_threads(options, settings);
}

/* ---- Files ------------------------------------------------------------------------------------------------------ */

static attune_status resolve_cache(const attune_options *options, at_settings *settings)
{
    setting cache = choose("options.cache", options->cache, "ATTUNE_CACHE");
    if (cache.value != NULL) {
        return copy_text(&cache, &settings->cache);
    }
    /* A machine without a home has no cache; kernels are then compiled anew in each process. */
    attune_status status = at_path_user(AT_PLACE_CACHE, NULL, &settings->cache);
    return status == ATTUNE_NOT_FOUND ? ATTUNE_OK : status;
}

static attune_status resolve(const attune_options *options, at_settings *settings)
{
    setting kernel = choose("options.kernel", options->kernel, "ATTUNE_KERNEL");
    setting wisdom = choose("options.wisdom", options->wisdom, "ATTUNE_WISDOM");
    setting pack = choose("options.pack", options->pack, "ATTUNE_PACK");
    settings->kernel_from = kernel.from;
    settings->wisdom_from = wisdom.from;
    AT_FORWARD(resolve_target(options, settings));
    AT_FORWARD(resolve_isa(options, settings));
    AT_FORWARD(resolve_pool(options, settings));
    AT_FORWARD(copy_text(&kernel, &settings->kernel));
    AT_FORWARD(copy_text(&wisdom, &settings->wisdom));
    AT_FORWARD(copy_text(&pack, &settings->pack));
    return resolve_cache(options, settings);
}

static const at_sized sized = {.name = "options",
                               .init = "attune_options_init",
                               .least = offsetof(attune_options, pack),
                               .bytes = sizeof(attune_options),
                               .status = ATTUNE_INVALID_ARGUMENT};

void attune_options_init_sized(attune_options *options, size_t size)
{
    const attune_options defaults = {.size = sizeof defaults};
    if (options != NULL) {
        (void)at_sized_write(&sized, &defaults, options, size);
    }
}

attune_status at_settings_resolve(const attune_options *options, at_settings *settings)
{
    attune_options whole;
    *settings = (at_settings){0};
    attune_options_init(&whole);
    if (options != NULL) {
        AT_FORWARD(at_sized_read(&sized, options, &whole));
    }
    AT_FAIL_IF(whole.reserved != 0, ATTUNE_INVALID_ARGUMENT, "options.reserved is %d, must be 0", (int)whole.reserved);
    attune_status status = resolve(&whole, settings);
    if (status != ATTUNE_OK) {
        at_settings_free(settings);
    }
    return status;
}

void at_settings_free(at_settings *settings)
{
    free(settings->kernel);
    free(settings->wisdom);
    free(settings->pack);
    free(settings->cache);
    free(settings->cpus);
    *settings = (at_settings){0};
}
