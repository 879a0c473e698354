#include "cuda/build.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "core/problem.h"
#include "cuda/outside.h"

/* ---- Options ------------------------------------------------------------------------------------------------------
 */

static attune_status add_option(at_build *build, const char *format, ...) __attribute__((format(printf, 2, 3)));

static attune_status add_option(at_build *build, const char *format, ...)
{
    AT_FAIL_IF(build->option_count == AT_BUILD_OPTIONS_MAX, ATTUNE_INTERNAL, "more than %d compiler options",
               AT_BUILD_OPTIONS_MAX);
    va_list list;
    va_start(list, format);
    int length = vsnprintf(build->option[build->option_count], AT_BUILD_OPTION_BYTES, format, list);
    va_end(list);
    AT_FAIL_IF(length >= AT_BUILD_OPTION_BYTES, ATTUNE_INVALID_ARGUMENT, "a compiler option of %d bytes, at most %d",
               length, AT_BUILD_OPTION_BYTES - 1);
    ++build->option_count;
    return ATTUNE_OK;
}

static attune_status add_features(at_build *build, uint32_t features)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } feature[] = {
        {ATTUNE_FEATURE_SOFTCAP, "SOFTCAP"}, {ATTUNE_FEATURE_BIAS, "BIAS"},     {ATTUNE_FEATURE_MASK, "MASK"},
        {ATTUNE_FEATURE_ALIBI, "ALIBI"},     {ATTUNE_FEATURE_SINK, "SINK"},     {ATTUNE_FEATURE_SEQUSED, "SEQUSED"},
        {ATTUNE_FEATURE_VARLEN, "VARLEN"},   {ATTUNE_FEATURE_STRICT, "STRICT"}, {ATTUNE_FEATURE_PAGED, "PAGED"},
        {ATTUNE_FEATURE_PAGED_V, "PAGED_V"}, {ATTUNE_FEATURE_DRAFT, "DRAFT"},   {ATTUNE_FEATURE_SLOTS, "SLOTS"},
        {ATTUNE_FEATURE_TF32, "TF32"}};
    for (unsigned i = 0; i < sizeof feature / sizeof feature[0]; ++i) {
        AT_FORWARD(add_option(build, "-DATTUNE_HAS_%s=%d", feature[i].name, (features & feature[i].bit) != 0));
    }
    return ATTUNE_OK;
}

/* How far a row sees on either side: 0 unbounded, 1 bounded, 2 zero, which on the right is a causal mask
 * (device/visibility.cuh). */
static attune_status add_window(at_build *build, const attune_problem *problem)
{
    int right = problem->window_right < 0 ? 0 : problem->window_right > 0 ? 1 : 2;
    AT_FORWARD(add_option(build, "-DATTUNE_WINDOW_LEFT=%d", problem->window_left >= 0));
    return add_option(build, "-DATTUNE_WINDOW_RIGHT=%d", right);
}

static attune_status add_dtypes(at_build *build, const attune_problem *problem)
{
    static const struct {
        int role;
        const char *name;
    } own[] = {{ATTUNE_K, "K"}, {ATTUNE_V, "V"}, {ATTUNE_O, "O"}, {ATTUNE_BIAS, "BIAS"}};
    AT_FORWARD(add_option(build, "-DATTUNE_DTYPE=%d", (int)problem->dtype));
    for (unsigned i = 0; i < sizeof own / sizeof own[0]; ++i) {
        AT_FORWARD(add_option(build, "-DATTUNE_DTYPE_%s=%d", own[i].name, at_problem_dtype(problem, own[i].role)));
    }
    return ATTUNE_OK;
}

static attune_status add_problem(at_build *build, const attune_problem *problem)
{
    AT_FORWARD(add_dtypes(build, problem));
    AT_FORWARD(add_option(build, "-DATTUNE_HEAD_DIM_QK=%d", (int)problem->head_dim_qk));
    AT_FORWARD(add_option(build, "-DATTUNE_HEAD_DIM_V=%d", (int)problem->head_dim_v));
    AT_FORWARD(add_option(build, "-DATTUNE_PAGE_SIZE=%d", (int)problem->page_size));
    AT_FORWARD(add_option(build, "-DATTUNE_OFFSET_KIND=%d", (int)problem->offset_kind));
    AT_FORWARD(add_option(build, "-DATTUNE_ALIGN=%d", at_problem_align(problem)));
    AT_FORWARD(add_window(build, problem));
    return add_features(build, at_problem_features(problem));
}

/* A name that several steps have is at the same place in all. */
static attune_status add_maps(at_build *build, const attune_steps *steps)
{
    for (int place = 0; place < ATTUNE_MAPS_MAX; ++place) {
        const char *before = NULL;
        for (int i = 0; i < steps->count; ++i) {
            const attune_step_kernel *step = &steps->step[i].as.kernel;
            if (steps->step[i].kind != ATTUNE_STEP_KERNEL || place >= step->map_count ||
                (before != NULL && strcmp(before, at_map_name(&step->map[place])) == 0)) {
                continue;
            }
            before = at_map_name(&step->map[place]);
            AT_FORWARD(add_option(build, "-DATTUNE_MAP_%s=%d", before, place));
        }
    }
    return ATTUNE_OK;
}

static attune_status add_options(at_build *build, const at_recipe *recipe, const attune_target *target)
{
    const attune_kernel *kernel = recipe->kernel;
    AT_FORWARD(add_option(build, "--gpu-architecture=sm_%d%s", (int)target->arch, target->arch_features ? "a" : ""));
    AT_FORWARD(add_option(build, "--std=c++17"));
    AT_FORWARD(add_option(build, "--ptxas-options=-v"));
    AT_FORWARD(add_option(build, "-DATTUNE_ARCH=%d", (int)target->arch));
    AT_FORWARD(add_option(build, "-DATTUNE_ARCH_FEATURES=%d", target->arch_features != 0));
    AT_FORWARD(add_option(build, "-DATTUNE_THREADS=%d", (int)recipe->resources.threads));
    AT_FORWARD(add_option(build, "-DATTUNE_SMEM_BYTES=%d", (int)recipe->resources.smem_bytes));
    AT_FORWARD(add_problem(build, &recipe->problem));
    for (int i = 0; i < kernel->param_count; ++i) {
        AT_FORWARD(add_option(build, "-D%s=%d", kernel->params[i].name, (int)recipe->config.value[i]));
    }
    AT_FORWARD(add_option(build, "-DATTUNE_ARGS_MAPS=%d", at_args_maps(&recipe->steps)));
    AT_FORWARD(add_option(build, "-DATTUNE_ARGS_ROLES=%d", at_args_roles(kernel, &recipe->problem)));
    return add_maps(build, &recipe->steps);
}

/* ---- Files --------------------------------------------------------------------------------------------------------
 */

static const at_embedded *find_named(const at_embedded *sources, const char *name)
{
    for (; sources->name != NULL; ++sources) {
        if (strcmp(sources->name, name) == 0) {
            return sources;
        }
    }
    return NULL;
}

/* Device headers call one another by their bare names, kernels call them "device/NAME". */
static const at_embedded *find_header(const at_embedded *sources, const char *name)
{
    char inside[80];
    const at_embedded *found = find_named(sources, name);
    if (found == NULL) {
        (void)snprintf(inside, sizeof inside, "device/%s", name);
        found = find_named(sources, inside);
    }
    return found;
}

static bool known(const at_build *build, const char *name)
{
    for (int i = 0; i < build->header_count; ++i) {
        if (strcmp(build->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

const char *at_build_next_include(const char *text, char *name, size_t bytes)
{
    while ((text = strstr(text, "#include")) != NULL) {
        text += strlen("#include");
        const char *open = text + strspn(text, " \t");
        const char *close = *open == '"' ? strchr(open + 1, '"') : NULL;
        if (close != NULL && (size_t)(close - open - 1) < bytes) {
            memcpy(name, open + 1, (size_t)(close - open - 1));
            name[close - open - 1] = '\0';
            return close;
        }
    }
    return NULL;
}

/* A header that is not there is left to the compiler, whose message has file and line. */
static attune_status add_headers(at_build *build, const at_embedded *sources, const char *text)
{
    char name[sizeof build->names[0]];
    while ((text = at_build_next_include(text, name, sizeof name)) != NULL) {
        const at_embedded *header = find_header(sources, name);
        if (header == NULL || known(build, name)) {
            continue;
        }
        AT_FAIL_IF(build->header_count == AT_BUILD_HEADERS_MAX, ATTUNE_COMPILE_ERROR,
                   "kernel source %s reaches more than %d headers", build->source.name, AT_BUILD_HEADERS_MAX);
        int at = build->header_count++;
        memcpy(build->names[at], name, sizeof name);
        build->header_name[at] = build->names[at];
        build->header_text[at] = (const char *)header->data;
    }
    return ATTUNE_OK;
}

static attune_status add_files(at_build *build, const at_embedded *sources, const char *name)
{
    const at_embedded *source = find_named(sources, name);
    AT_FAIL_IF(source == NULL, ATTUNE_NOT_FOUND, "kernel source %s is not in the library", name);
    build->source = *source;
    AT_FORWARD(add_headers(build, sources, (const char *)source->data));
    for (int i = 0; i < build->header_count; ++i) {
        AT_FORWARD(add_headers(build, sources, build->header_text[i]));
    }
    return ATTUNE_OK;
}

/* ---- Digest -------------------------------------------------------------------------------------------------------
 */

/* Lengths go in too, so that no two different builds are the same sequence of bytes. */
static void digest_text(at_sha256 *sha, const char *text)
{
    uint64_t length = strlen(text);
    at_sha256_add(sha, &length, sizeof length);
    at_sha256_add(sha, text, length);
}

static void digest_build(at_build *build)
{
    const uint32_t head[] = {ATTUNE_ABI, (uint32_t)build->header_count, (uint32_t)build->option_count};
    unsigned char digest[AT_DIGEST_BYTES];
    at_sha256 sha;
    at_sha256_init(&sha);
    at_sha256_add(&sha, head, sizeof head);
    digest_text(&sha, build->source.name);
    digest_text(&sha, (const char *)build->source.data);
    for (int i = 0; i < build->header_count; ++i) {
        digest_text(&sha, build->header_name[i]);
        digest_text(&sha, build->header_text[i]);
    }
    for (int i = 0; i < build->option_count; ++i) {
        digest_text(&sha, build->option[i]);
    }
    at_sha256_end(&sha, digest);
    at_digest_text(digest, build->digest);
}

attune_status at_build_gather(const at_recipe *recipe, const attune_target *target, at_build *build)
{
    const attune_kernel *kernel = recipe->kernel;
    const at_embedded *sources = recipe->sources != NULL ? recipe->sources : at_cuda_sources;
    memset(build, 0, sizeof *build);
    AT_FAIL_IF(kernel->source == NULL, ATTUNE_INVALID_ARGUMENT, "kernel %s has no source to compile", kernel->name);
    AT_FORWARD(add_files(build, sources, kernel->source));
    AT_FORWARD(recipe->sources != NULL ? at_build_outside(build) : ATTUNE_OK);
    AT_FORWARD(add_options(build, recipe, target));
    digest_build(build);
    return ATTUNE_OK;
}
