/* Kernels' sources as folders hold them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/config.h"
#include "cpu/source.h"
#include "cuda/build.h"
#include "evolve/code_machine.h"
#include "library/catalogue.h"
#include "stranger/stranger.h"

/* kernels/ARCH/NAME.c and their headers, as "cpu/split.h"; written by the build. */
extern const at_embedded at_descriptor_sources[];

/* In a folder there is one tier, under the name that folders' kernels have. */
static const char folder_tiers[] = "/* A folder's kernel is compiled for one tier, and found by its name. */\n"
                                   "#ifndef KERNELS_CPU_TIERS_H\n"
                                   "#define KERNELS_CPU_TIERS_H\n\n"
                                   "#include \"attune/kernel.h\"\n\n"
                                   "#define TIER_ENTRY(symbol) void symbol(const attune_args *args, int64_t item, void "
                                   "*scratch)\n"
                                   "#define DECLARE_EVERY_TIER(symbol) TIER_ENTRY(symbol)\n"
                                   "#define EVERY_TIER(symbol) {0}\n\n"
                                   "#endif\n";

static attune_status put_replaced(at_sources *sources, const char *name, const char *text, const char *from,
                                  const char *to)
{
    at_text changed;
    at_text_init(&changed);
    for (const char *at; (at = strstr(text, from)) != NULL; text = at + strlen(from)) {
        at_text_add(&changed, "%.*s%s", (int)(at - text), text, to);
    }
    at_text_add(&changed, "%s", text);
    attune_status status = at_text_status(&changed, name);
    status = status == ATTUNE_OK ? at_sources_put(sources, name, changed.data, changed.length) : status;
    at_text_free(&changed);
    return status;
}

static const at_embedded *find(const at_embedded *list, const char *name)
{
    while (list->name != NULL && strcmp(list->name, name) != 0) {
        ++list;
    }
    return list->name != NULL ? list : NULL;
}

/* A source and, where they are among those of its kind, the headers that it includes. */
static attune_status add_with_headers(at_sources *sources, const at_embedded *list, const char *prefix,
                                      const char *name)
{
    char path[160], included[AT_SOURCE_NAME_MAX];
    (void)snprintf(path, sizeof path, "%s%s", prefix, name);
    const at_embedded *file = find(list, path);
    if (file == NULL || at_sources_find(sources, name) != NULL) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_sources_put(sources, name, (const char *)file->data, file->size));
    for (const char *text = (const char *)file->data;
         (text = at_build_next_include(text, included, sizeof included)) != NULL;) {
        const char *slash = strrchr(name, '/');
        char beside[2 * AT_SOURCE_NAME_MAX];
        (void)snprintf(beside, sizeof beside, "%.*s%s", slash != NULL ? (int)(slash + 1 - name) : 0, name, included);
        AT_FORWARD(add_with_headers(sources, list, prefix, beside));
    }
    return ATTUNE_OK;
}

static attune_status own_cpu(const char *name, at_sources *sources)
{
    char file[128], from[128], to[128];
    (void)snprintf(file, sizeof file, "%s.c", name);
    AT_FORWARD(add_with_headers(sources, at_descriptor_sources, "cpu/", file));
    AT_FORWARD(at_sources_put(sources, "tiers.h", folder_tiers, strlen(folder_tiers)));
    (void)snprintf(file, sizeof file, "%s.kernel.c", name);
    AT_FORWARD(add_with_headers(sources, at_cpu_sources, "", file));
    const at_source_file *kernel = at_sources_find(sources, file);
    AT_FAIL_IF(kernel == NULL, ATTUNE_UNSUPPORTED, "kernel %s has no source of its own", name);
    (void)snprintf(from, sizeof from, "attune_%s", name);
    (void)snprintf(to, sizeof to, "attend_%s", name);
    char *text = strdup(kernel->data);
    AT_FAIL_IF(text == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %s", file);
    attune_status status = put_replaced(sources, file, text, from, to);
    free(text);
    return status;
}

static attune_status own_cuda(const attune_kernel *kernel, at_sources *sources)
{
    char file[128];
    AT_FAIL_IF(kernel->source == NULL, ATTUNE_UNSUPPORTED, "kernel %s has no source that can be compiled here",
               kernel->name);
    (void)snprintf(file, sizeof file, "%s.c", kernel->name);
    AT_FORWARD(add_with_headers(sources, at_descriptor_sources, "cuda/", file));
    const at_embedded *source = find(at_cuda_sources, kernel->source); /* its headers are the library's */
    AT_FAIL_IF(source == NULL, ATTUNE_UNSUPPORTED, "kernel %s has no source of its own", kernel->name);
    return at_sources_put(sources, kernel->source, (const char *)source->data, source->size);
}

attune_status at_code_sources_of(const char *text, at_sources *sources)
{
    const attune_kernel *kernel;
    *sources = (at_sources){.count = 0};
    if (at_stranger_is_meant(text)) {
        return at_sources_read(text, sources);
    }
    AT_FORWARD(at_catalogue_check(text, &kernel));
    attune_status status =
        kernel->target == ATTUNE_TARGET_CPU ? own_cpu(kernel->name, sources) : own_cuda(kernel, sources);
    if (status != ATTUNE_OK) {
        at_sources_free(sources);
    }
    return status;
}
