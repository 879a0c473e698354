#include "evolve/engine_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "cpu/source.h"
#include "cuda/build.h"
#include "evolve/micro.h"
#include "judge/executor.h"

double at_engine_seconds(const at_engine *on)
{
    return at_timed_seconds() - on->began_s;
}

void at_engine_note(const at_engine *on, const char *format, ...)
{
    char text[AT_SENTENCE_MAX];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (on->options->watch.gate.note != NULL) {
        on->options->watch.gate.note(on->options->watch.gate.self, text);
    }
}

void at_engine_named(const at_engine *on, char text[AT_KERNEL_TEXT_MAX])
{
    char config[AT_KERNEL_TEXT_MAX];
    size_t length = strlen(on->kernel->name);
    if (on->found.stranger == NULL || strncmp(text, on->kernel->name, length) != 0 ||
        (text[length] != ':' && text[length] != '\0')) {
        return;
    }
    memcpy(config, text, sizeof config);
    (void)snprintf(text, AT_KERNEL_TEXT_MAX, "%s%s", on->text, config + length);
}

void at_engine_source(const at_engine *on, char digest[AT_DIGEST_TEXT_MAX])
{
    const attune_kernel *kernel = on->kernel;
    if (on->found.stranger != NULL) {
        memcpy(digest, at_stranger_digest(on->found.stranger), AT_DIGEST_TEXT_MAX);
        return;
    }
    const char *name = kernel->source != NULL ? kernel->source : kernel->name;
    if (kernel->target == ATTUNE_TARGET_CPU && at_cpu_source_digest(kernel->name, digest) == ATTUNE_OK) {
        return;
    }
    at_digest_of(name, strlen(name), digest);
    for (const at_embedded *file = at_cuda_sources; file->name != NULL; ++file) {
        if (kernel->source != NULL && strcmp(file->name, kernel->source) == 0) {
            at_digest_of(file->data, file->size, digest);
        }
    }
}

void at_engine_micro_key(const at_engine *on, const at_cell *cell, at_micro_key *key)
{
    *key = (at_micro_key){.kernel = ""};
    (void)snprintf(key->kernel, sizeof key->kernel, "%s", on->kernel->name);
    (void)snprintf(key->target, sizeof key->target, "%s", on->target_text);
    at_problem_class(&cell->test->problem, key->class_text);
    at_engine_source(on, key->source);
    if (on->fixed[0] != '\0') { /* the best among few is not the best among all */
        char of_both[AT_DIGEST_TEXT_MAX + AT_KERNEL_TEXT_MAX];
        int length = snprintf(of_both, sizeof of_both, "%s %s", key->source, on->fixed);
        at_digest_of(of_both, (size_t)length < sizeof of_both ? (size_t)length : sizeof of_both - 1, key->source);
    }
}

int at_engine_batch(const at_engine *on)
{
    enum { SEARCHED = 8 };
    return on->options->exhaustive ? AT_SEARCH_BATCH_MAX : SEARCHED;
}
