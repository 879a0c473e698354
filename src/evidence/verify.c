#include "evidence/verify.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "base/threads.h"
#include "cpu/source.h"
#include "cuda/build.h"
#include "cuda/cuda.h"
#include "cuda/nvrtc.h"
#include "library/catalogue.h"

/* Mathematical libraries differ in the last digits. */
#define NUMBERS_APART 1e-6

const char *at_freshness_name(at_freshness state)
{
    static const char *const names[] = {"fresh", "stale", "unchecked", "broken"};
    return names[state];
}

void at_record_kernel(const at_verdict *verdict, char name[AT_KERNEL_TEXT_MAX])
{
    (void)snprintf(name, AT_KERNEL_TEXT_MAX, "%.*s", (int)strcspn(verdict->kernel, ":"), verdict->kernel);
}

const char *at_record_config(const at_verdict *verdict)
{
    const char *colon = strchr(verdict->kernel, ':');
    return colon != NULL ? colon + 1 : "";
}

static void set_state(at_record *record, at_freshness state, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void set_state(at_record *record, at_freshness state, const char *format, ...)
{
    va_list list;
    record->state = state;
    va_start(list, format);
    (void)vsnprintf(record->why, sizeof record->why, format, list);
    va_end(list);
}

/* ---- The findings, again ----------------------------------------------------------------------------------------- */

static bool near(double a, double b)
{
    return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= NUMBERS_APART * fmax(fabs(a), fabs(b));
}

static bool same_interval(const at_interval *a, const at_interval *b)
{
    return near(a->middle, b->middle) && near(a->low, b->low) && near(a->high, b->high);
}

static bool same_ratio(const at_ratio *a, const at_ratio *b)
{
    return same_interval(&a->r, &b->r) && same_interval(&a->difference_us, &b->difference_us) &&
           near(a->candidate_us, b->candidate_us) && near(a->peer_us, b->peer_us) && near(a->median_r, b->median_r) &&
           a->processes == b->processes && a->blocks == b->blocks && a->dropped == b->dropped;
}

/* What differs, by name; NULL if nothing does. */
static const char *differing_speed(const at_speed *a, const at_speed *b)
{
    for (int mode = 0; mode < AT_MODE_COUNT; ++mode) {
        if (a->known[mode] != b->known[mode] || (a->known[mode] && !same_ratio(&a->ratio[mode], &b->ratio[mode]))) {
            return at_mode_name((at_mode)mode);
        }
    }
    return a->outcome != b->outcome ? "outcome" : NULL;
}

/* Compares outcomes and numbers, not sentences: those may be worded better one day. */
static void compare(const at_verdict *then, const at_verdict *now, at_record *record)
{
    for (int arm = 0; arm < AT_SESSION_ARMS_MAX; ++arm) {
        const char *what = differing_speed(&then->speed[arm], &now->speed[arm]);
        if (what != NULL) {
            set_state(record, AT_BROKEN, "its samples do not give the recorded %s against %.200s", what,
                      now->arm[arm].name);
        }
    }
    for (int control = 0; control < AT_CONTROL_COUNT; ++control) {
        if (then->control[control].outcome != now->control[control].outcome) {
            set_state(record, AT_BROKEN, "the control %s is recorded as %s, and is %s",
                      at_control_name((at_control_kind)control), at_outcome_name(then->control[control].outcome),
                      at_outcome_name(now->control[control].outcome));
        }
    }
    for (int stage = 0; stage < AT_STAGE_COUNT; ++stage) {
        if (then->finding[stage].outcome != now->finding[stage].outcome) {
            set_state(record, AT_BROKEN, "the stage %s is recorded as %s, and is %s", at_stage_name((at_stage)stage),
                      at_outcome_name(then->finding[stage].outcome), at_outcome_name(now->finding[stage].outcome));
        }
    }
    if (then->right != now->right || then->fast != now->fast) {
        set_state(record, AT_BROKEN, "recorded as right: %s, faster: %s; what was seen says %s and %s",
                  at_outcome_name(then->right), at_outcome_name(then->fast), at_outcome_name(now->right),
                  at_outcome_name(now->fast));
    }
}

static attune_status judge_again(at_verdict *verdict, at_record *record)
{
    at_verdict *then = malloc(sizeof *then);
    AT_FAIL_IF(then == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to judge again");
    memcpy(then, verdict, sizeof *then);
    attune_status status = at_verdict_judge(verdict);
    if (status == ATTUNE_OK) {
        compare(then, verdict, record);
    } else if (status != ATTUNE_OUT_OF_MEMORY) {
        set_state(record, AT_BROKEN, "%s", attune_last_detail());
        status = ATTUNE_OK;
    }
    free(then);
    return status;
}

attune_status at_verify_follows(at_verdict *verdict, bool *follows)
{
    at_record record = {.state = AT_FRESH};
    attune_status status = judge_again(verdict, &record);
    *follows = status == ATTUNE_OK && record.state == AT_FRESH;
    return status;
}

/* ---- The code, again --------------------------------------------------------------------------------------------- */

/* Version 1 recorded no digest of the code. */
static bool has_code(const at_verdict *verdict)
{
    return verdict->build.code[0] != '\0';
}

static void remake_cpu(const at_verdict *verdict, const char *name, at_record *record)
{
    char code[AT_DIGEST_TEXT_MAX], source[AT_DIGEST_TEXT_MAX];
    if (at_cpu_code_digest(name, verdict->target.isa, code) != ATTUNE_OK ||
        at_cpu_source_digest(name, source) != ATTUNE_OK) {
        set_state(record, AT_STALE, "%.200s", attune_last_detail());
        return;
    }
    bool same_source = strcmp(source, verdict->build.source) == 0;
    if (has_code(verdict) && strcmp(code, verdict->build.code) == 0) {
        return;
    }
    if (strcmp(verdict->build.compiler, at_cpu_compiler()) != 0) {
        set_state(record, AT_UNCHECKED, "it was compiled by %.90s, this attune by %.90s", verdict->build.compiler,
                  at_cpu_compiler());
    } else if (has_code(verdict) && same_source) {
        set_state(record, AT_UNCHECKED, "the same source gives other code: this attune was built with other options");
    } else if (has_code(verdict)) {
        set_state(record, AT_STALE, "today's source gives the code %.16s..., recorded is %.16s...", code,
                  verdict->build.code);
    } else if (!same_source) {
        set_state(record, AT_STALE, "its source has changed");
    }
}

/* Whether the compiler that made the recorded code is here. */
static bool has_compiler(int32_t wanted, at_record *record)
{
    at_nvrtc *nvrtc = NULL;
    if (at_nvrtc_open(&nvrtc) != ATTUNE_OK) {
        set_state(record, AT_UNCHECKED, "%.400s", attune_last_detail());
        return false;
    }
    int32_t version = nvrtc->version;
    at_nvrtc_close(nvrtc);
    if (version != wanted) {
        set_state(record, AT_UNCHECKED, "nvrtc %d.%d made its code, here is %d.%d", wanted / 1000, wanted % 1000 / 10,
                  version / 1000, version % 1000 / 10);
    }
    return version == wanted;
}

/* Whether today's code is what was judged: what of it runs, and in what blocks. */
static bool same_code(const at_build_facts *then, const at_cuda_usage *now)
{
    if (then->code[0] == '\0') {
        return strcmp(then->cubin, now->cubin) == 0;
    }
    return strcmp(then->code, now->runs) == 0 && then->threads == now->threads && then->smem_bytes == now->smem_bytes;
}

/* Whether what would be given to the compiler today is what was given then. */
static bool same_source(const at_verdict *verdict, const attune_kernel *kernel, const attune_problem *problem,
                        const attune_config *config)
{
    at_recipe recipe;
    at_build *build = calloc(1, sizeof *build);
    bool same = build != NULL && at_recipe_ask(kernel, problem, &verdict->target, config, &recipe) == ATTUNE_OK &&
                at_build_gather(&recipe, &verdict->target, build) == ATTUNE_OK &&
                strcmp(build->digest, verdict->build.source) == 0;
    free(build);
    return same;
}

static void remake_cuda(const at_verdict *verdict, const attune_kernel *kernel, const attune_problem *problem,
                        const attune_config *config, const at_archive_options *how, at_record *record)
{
    at_cuda_usage usage;
    bool image = kernel->image != NULL; /* built ahead, by whatever nvcc the build had */
    if (!image && !has_compiler(verdict->target.compiler, record)) {
        return;
    }
    if (how->by_source && !image && same_source(verdict, kernel, problem, config)) {
        return;
    }
    if (at_cuda_inspect(kernel, problem, &verdict->target, config, how->cache, &usage) != ATTUNE_OK) {
        set_state(record, AT_STALE, "%.400s", attune_last_detail());
    } else if (!same_code(&verdict->build, &usage)) {
        /* The same source, headers and options: then it is the compiler that differs, in what it does not report. */
        bool same = image || strcmp(usage.build, verdict->build.source) == 0;
        const char *then = has_code(verdict) ? verdict->build.code : verdict->build.cubin;
        set_state(record, same ? AT_UNCHECKED : AT_STALE,
                  "today's %s gives the code %.16s... in blocks of %d, recorded is %.16s... of %d%s",
                  image ? "build of its image" : "source", has_code(verdict) ? usage.runs : usage.cubin, usage.threads,
                  then, verdict->build.threads,
                  same && !image ? ", and the source is the same: another build of the compiler" : "");
    }
}

static void remake(const at_verdict *verdict, const at_archive_options *how, at_record *record)
{
    char name[AT_KERNEL_TEXT_MAX];
    attune_problem problem;
    attune_config config = {{0}};
    attune_reason reason = {""};
    at_record_kernel(verdict, name);
    const attune_kernel *kernel = at_catalogue_find(name);
    if (verdict->stranger) {
        set_state(record, AT_UNCHECKED, "its source is a stranger's");
    } else if (verdict->stage[AT_STAGE_BUILD].status != ATTUNE_OK || !verdict->stage[AT_STAGE_BUILD].ran) {
        set_state(record, AT_UNCHECKED, "it was not built");
    } else if (kernel == NULL && at_catalogue_left_out(name) != NULL) {
        set_state(record, AT_UNCHECKED, "this build is without kernel %.100s: %s", name, at_catalogue_left_out(name));
    } else if (kernel == NULL || kernel->target != verdict->target.kind) {
        set_state(record, AT_STALE, "there is no kernel %.200s", name);
    } else if (at_config_parse(kernel, at_record_config(verdict), &config) != ATTUNE_OK ||
               attune_problem_parse(verdict->problem, &problem) != ATTUNE_OK) {
        set_state(record, AT_STALE, "%.400s", attune_last_detail());
    } else if (!at_kernel_fits(kernel, &problem, &verdict->target, &config, &reason)) {
        set_state(record, AT_STALE, "it no longer runs this problem: %s", reason.text);
    } else if (verdict->target.kind == ATTUNE_TARGET_CPU) {
        remake_cpu(verdict, name, record);
    } else {
        remake_cuda(verdict, kernel, &problem, &config, how, record);
    }
}

static attune_status look(at_evidence_entry *entry, const at_archive_options *how, at_record *record)
{
    record->entry = entry;
    record->state = AT_FRESH;
    record->why[0] = '\0';
    if (entry->verdict == NULL) {
        set_state(record, AT_BROKEN, "%s", entry->what);
        return ATTUNE_OK;
    }
    AT_FORWARD(judge_again(entry->verdict, record));
    if (record->state == AT_FRESH) {
        remake(entry->verdict, how, record);
    }
    return ATTUNE_OK;
}

attune_status at_verify(at_evidence_entry *entry, const char *cache, at_record *record)
{
    const at_archive_options how = {.cache = cache};
    return look(entry, &how, record);
}

/* ---- Archives ---------------------------------------------------------------------------------------------------- */

/* By device, kernel, problem and time; what has no verdict comes first. */
static int by_name(const at_record *a, const at_record *b)
{
    const at_verdict *one = a->entry != NULL ? a->entry->verdict : NULL;
    const at_verdict *other = b->entry != NULL ? b->entry->verdict : NULL;
    char names[2][AT_KERNEL_TEXT_MAX];
    if (one == NULL || other == NULL) {
        return (one != NULL) - (other != NULL);
    }
    at_record_kernel(one, names[0]);
    at_record_kernel(other, names[1]);
    int order = strcmp(one->target.model, other->target.model);
    order = order != 0 ? order : strcmp(names[0], names[1]);
    return order != 0 ? order : strcmp(one->problem, other->problem);
}

static int by_name_and_time(const void *left, const void *right)
{
    const at_record *a = left, *b = right;
    int order = by_name(a, b);
    if (order == 0 && a->entry != NULL && a->entry->verdict != NULL) {
        order = strcmp(a->entry->verdict->when, b->entry->verdict->when);
    }
    /* Verdicts of one second are in the order of their file. */
    return order != 0 ? order : (a->entry > b->entry) - (a->entry < b->entry);
}

bool at_record_same_series(const at_record *a, const at_record *b)
{
    return a->entry != NULL && b->entry != NULL && a->entry->verdict != NULL && b->entry->verdict != NULL &&
           by_name(a, b) == 0;
}

/* Of a series the last that is in earnest; where none is, the last. What has no verdict is always new. */
static void mark_newest(at_archive *archive)
{
    for (size_t begin = 0, end; begin < archive->count; begin = end) {
        size_t newest = begin;
        for (end = begin + 1;
             end < archive->count && at_record_same_series(&archive->record[begin], &archive->record[end]); ++end) {
            bool earnest = at_verdict_is_earnest(archive->record[end].entry->verdict);
            newest = earnest || !at_verdict_is_earnest(archive->record[newest].entry->verdict) ? end : newest;
        }
        archive->record[newest].newest = true;
    }
}

static attune_status add_records(at_archive *archive, size_t file, size_t more)
{
    at_record *grown = realloc(archive->record, (archive->count + more + 1) * sizeof *grown);
    AT_FAIL_IF(grown == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu verdicts", archive->count + more);
    archive->record = grown;
    memset(grown + archive->count, 0, more * sizeof *grown);
    for (size_t i = 0; i < more; ++i) {
        grown[archive->count + i].file = archive->file[file];
    }
    return ATTUNE_OK;
}

static attune_status open_file(at_archive *archive, size_t file)
{
    at_evidence *evidence = &archive->evidence[file];
    attune_status status = at_evidence_read(archive->file[file], evidence);
    if (status == ATTUNE_OUT_OF_MEMORY || status == ATTUNE_INTERRUPTED) {
        return status;
    }
    if (status != ATTUNE_OK) {
        AT_FORWARD(add_records(archive, file, 1));
        set_state(&archive->record[archive->count++], AT_BROKEN, "%s", attune_last_detail());
        return ATTUNE_OK;
    }
    AT_FORWARD(add_records(archive, file, evidence->count));
    for (size_t i = 0; i < evidence->count; ++i) {
        archive->record[archive->count++].entry = &evidence->entry[i];
    }
    return ATTUNE_OK;
}

/* Records by all processors: each is judged again, and compiled where that is asked, by itself. */
typedef struct inspection {
    at_archive *archive;
    const at_archive_options *how;
    pthread_t teller; /* who says how far it is */
    atomic_size_t done;
    atomic_int status; /* the first that is none of a record's */
} inspection;

static void inspect_one(void *context, int64_t item, void *scratch)
{
    inspection *on = context;
    at_record *record = &on->archive->record[item];
    (void)scratch;
    attune_status status =
        record->entry == NULL || at_file_interrupted() ? ATTUNE_OK : look(record->entry, on->how, record);
    int fine = ATTUNE_OK;
    (void)atomic_compare_exchange_strong(&on->status, &fine, status);
    size_t done = atomic_fetch_add(&on->done, 1) + 1;
    if (on->how->progress != NULL && pthread_equal(pthread_self(), on->teller)) {
        on->how->progress(on->how->self, (double)done / (double)on->archive->count);
    }
}

/* NOTE: a compiler that is open stays in memory: opened and closed for each verdict it would be loaded each time. */
static attune_status inspect(at_archive *archive, const at_archive_options *how)
{
    inspection on = {.archive = archive, .how = how, .teller = pthread_self()};
    at_nvrtc *nvrtc = NULL;
    at_pool *pool = NULL;
    AT_FORWARD(at_pool_create(at_cpu_count(), 0, &pool));
    bool held = at_nvrtc_open(&nvrtc) == ATTUNE_OK;
    at_pool_run(pool, (int64_t)archive->count, inspect_one, &on);
    at_nvrtc_close(held ? nvrtc : NULL);
    at_pool_destroy(pool);
    AT_FAIL_IF(at_file_interrupted(), ATTUNE_INTERRUPTED, "interrupted");
    return atomic_load(&on.status) == ATTUNE_OK
               ? ATTUNE_OK
               : at_fail((attune_status)atomic_load(&on.status), "no memory to look at %zu verdicts", archive->count);
}

static attune_status open_all(at_archive *archive)
{
    archive->evidence = calloc(archive->files + 1, sizeof *archive->evidence);
    AT_FAIL_IF(archive->evidence == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu files", archive->files);
    for (size_t i = 0; i < archive->files; ++i) {
        AT_FORWARD(open_file(archive, i));
    }
    return ATTUNE_OK;
}

attune_status at_archive_open_with(const char *path, const at_archive_options *options, at_archive *archive)
{
    *archive = (at_archive){0};
    AT_FORWARD(at_evidence_find(path, &archive->file, &archive->files));
    attune_status status = open_all(archive);
    status = status == ATTUNE_OK && archive->count > 0 ? inspect(archive, options) : status;
    if (status != ATTUNE_OK) {
        at_archive_close(archive);
        return status;
    }
    if (archive->count > 0) {
        qsort(archive->record, archive->count, sizeof *archive->record, by_name_and_time);
    }
    mark_newest(archive);
    return ATTUNE_OK;
}

attune_status at_archive_open(const char *path, const char *cache, at_archive *archive)
{
    const at_archive_options options = {.cache = cache};
    return at_archive_open_with(path, &options, archive);
}

void at_archive_close(at_archive *archive)
{
    for (size_t i = 0; i < archive->files; ++i) {
        if (archive->evidence != NULL) {
            at_evidence_close(&archive->evidence[i]);
        }
        free(archive->file[i]);
    }
    free(archive->file);
    free(archive->evidence);
    free(archive->record);
    *archive = (at_archive){0};
}
