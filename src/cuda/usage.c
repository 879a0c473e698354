/* What compiled kernels use, and writing packs: everything that needs a compiler and no device. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cuda/cache.h"
#include "cuda/cuda.h"
#include "cuda/occupancy.h"
#include "cuda/provide.h"

/* Without a compiler a provider still has its cache; what is not there is reported then. */
static void open_provider(const char *cache, at_provider *provider)
{
    *provider = (at_provider){.cache = at_cache_place(cache)};
    if (at_nvrtc_open(&provider->nvrtc) != ATTUNE_OK) {
        provider->nvrtc = NULL;
    }
}

static void close_provider(at_provider *provider)
{
    at_nvrtc_close(provider->nvrtc);
    free(provider->cache);
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static void sum_up(const at_cubin *cubin, const attune_target *target, const attune_resources *needs,
                   at_cuda_usage *usage)
{
    *usage = (at_cuda_usage){.threads = needs->threads, .smem_bytes = needs->smem_bytes, .warnings = cubin->warnings};
    for (int i = 0; i < cubin->entry_count; ++i) {
        const at_cubin_entry *entry = &cubin->entry[i];
        usage->registers = larger(usage->registers, entry->registers);
        usage->local_bytes = larger(usage->local_bytes, entry->local_bytes);
        usage->spill_bytes = i == 0 ? entry->spill_bytes : larger(usage->spill_bytes, entry->spill_bytes);
    }
    at_occupancy occupancy = at_occupancy_of(target, usage->threads, usage->registers, usage->smem_bytes);
    usage->blocks_sm = occupancy.blocks;
    usage->occupancy = occupancy.share;
    usage->limit = occupancy.limit;
}

attune_status at_cuda_inspect_recipe(const at_recipe *recipe, const attune_target *target, const char *cache,
                                     at_cuda_usage *usage)
{
    at_provider provider;
    at_artifact artifact;
    at_cubin cubin;
    open_provider(cache, &provider);
    attune_status status = at_provide(&provider, recipe, target, &artifact, &cubin);
    close_provider(&provider);
    AT_FORWARD(status);
    sum_up(&cubin, target, &recipe->resources, usage);
    usage->compiler = artifact.compiler;
    memcpy(usage->build, artifact.build, sizeof usage->build);
    at_digest_of(artifact.cubin, artifact.cubin_bytes, usage->cubin);
    usage->code = at_hash64(artifact.cubin, artifact.cubin_bytes, 0);
    status = at_cubin_code(artifact.cubin, artifact.cubin_bytes, artifact.log, usage->runs);
    at_artifact_free(&artifact);
    return status;
}

attune_status at_cuda_inspect(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                              const attune_config *config, const char *cache, at_cuda_usage *usage)
{
    at_recipe recipe;
    AT_FORWARD(at_recipe_ask(kernel, problem, target, config, &recipe));
    return at_cuda_inspect_recipe(&recipe, target, cache, usage);
}

static attune_status provide_all(const at_provider *provider, const at_cuda_export_item *items, size_t count,
                                 const at_cuda_export_watch *watch, at_artifact *artifacts)
{
    for (size_t i = 0; i < count; ++i) {
        at_recipe recipe;
        AT_FORWARD(at_recipe_ask(items[i].kernel, items[i].problem, items[i].target, items[i].config, &recipe));
        AT_FORWARD(at_provide(provider, &recipe, items[i].target, &artifacts[i], NULL));
        if (watch != NULL) {
            watch->compiled(watch->self, i + 1);
        }
    }
    return ATTUNE_OK;
}

attune_status at_cuda_export(const at_cuda_export_item *items, size_t count, const char *cache, const char *path,
                             const at_cuda_export_watch *watch)
{
    at_provider provider;
    at_artifact *artifacts = calloc(count + 1, sizeof *artifacts);
    AT_FAIL_IF(artifacts == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to export %zu kernels", count);
    open_provider(cache, &provider);
    attune_status status = provide_all(&provider, items, count, watch, artifacts);
    if (status == ATTUNE_OK) {
        status = at_pack_write(path, artifacts, count);
    }
    close_provider(&provider);
    for (size_t i = 0; i < count; ++i) {
        at_artifact_free(&artifacts[i]);
    }
    free(artifacts);
    return status;
}
