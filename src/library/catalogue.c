#include "library/catalogue.h"

#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "core/config.h"

extern const attune_kernel at_kernel_cpu_decode, at_kernel_cpu_bf16, at_kernel_cpu_tiled, at_kernel_cpu_append,
    at_kernel_cpu_merge;
extern const attune_kernel at_kernel_decode, at_kernel_wgmma_small, at_kernel_wgmma, at_kernel_wgmma_fp32;
extern const attune_kernel at_kernel_mma, at_kernel_mma_fp32, at_kernel_wmma_ws, at_kernel_wmma, at_kernel_pipelined,
    at_kernel_tiled, at_kernel_guarded, at_kernel_minimal, at_kernel_cublas, at_kernel_cublas_qk, at_kernel_wmma_acc16,
    at_kernel_cutlass, at_kernel_append, at_kernel_merge;

/* Kernels that a build may have to do without. */
static const struct {
    const char *name, *needs;
} optional[] = {
    {"cpu_bf16", "it is for x86-64"},
    {"cutlass", "it is built ahead, where nvcc and CUTLASS's headers are"},
};

const attune_kernel *const at_catalogue[] = {
    /* CPU */
    &at_kernel_cpu_decode, /* few query rows only */
#if defined(__x86_64__)
    &at_kernel_cpu_bf16, /* on tiers with its instructions only */
#endif
    &at_kernel_cpu_tiled,
    &at_kernel_cpu_append, /* of other operations */
    &at_kernel_cpu_merge,
    /* CUDA */
    &at_kernel_decode,      /* few query rows only */
    &at_kernel_wgmma_small, /* few tiles only */
    &at_kernel_wgmma,
    &at_kernel_wgmma_fp32, /* fp32 only */
    &at_kernel_mma_fp32,   /* the same */
    &at_kernel_mma,
    &at_kernel_wmma_ws,
    &at_kernel_wmma,
    &at_kernel_pipelined,
    &at_kernel_tiled,
    &at_kernel_append, /* of other operations */
    &at_kernel_merge,
    /* Behind the general one: raced, or asked for by name. The GEMMs keep S in a workspace that grows with its square.
     */
    &at_kernel_cublas,
    &at_kernel_cublas_qk,
#ifdef ATTUNE_IMAGE_CUTLASS /* by the build, where nvcc and CUTLASS's headers are */
    &at_kernel_cutlass,
#endif
    &at_kernel_guarded,
    &at_kernel_minimal,
    &at_kernel_wmma_acc16,
    NULL,
};

const attune_kernel *at_kernels_find(const attune_kernel *const *kernels, const char *name)
{
    for (; *kernels != NULL; ++kernels) {
        if (strcmp((*kernels)->name, name) == 0) {
            return *kernels;
        }
    }
    return NULL;
}

const attune_kernel *at_catalogue_find(const char *name)
{
    return at_kernels_find(at_catalogue, name);
}

const char *at_kernels_nearest(const attune_kernel *const *kernels, const char *name)
{
    const char *best = NULL;
    for (; *kernels != NULL; ++kernels) {
        const char *pair[] = {best, (*kernels)->name};
        best = at_text_nearest(name, pair, 2);
    }
    return best;
}

const char *at_catalogue_nearest(const char *name)
{
    return at_kernels_nearest(at_catalogue, name);
}

attune_status at_kernels_named(const attune_kernel *const *kernels, const char *name, const attune_kernel **kernel)
{
    *kernel = at_kernels_find(kernels, name);
    if (*kernel != NULL) {
        return ATTUNE_OK;
    }
    const char *nearest = at_kernels_nearest(kernels, name);
    return nearest == NULL
               ? at_fail(ATTUNE_NOT_FOUND, "there is no kernel \"%s\"; attune info lists them", name)
               : at_fail(ATTUNE_NOT_FOUND, "there is no kernel \"%s\"; did you mean \"%s\"?", name, nearest);
}

attune_status at_catalogue_named(const char *name, const attune_kernel **kernel)
{
    return at_kernels_named(at_catalogue, name, kernel);
}

attune_status at_catalogue_check(const char *text, const attune_kernel **kernel)
{
    char name[AT_KERNEL_TEXT_MAX];
    const char *params;
    const attune_kernel *found;
    attune_config config = {{0}};
    AT_FORWARD(at_kernel_text_split(text, name, sizeof name, &params));
    AT_FORWARD(at_catalogue_named(name, &found));
    at_config_at(found, 0, &config);
    if (kernel != NULL) {
        *kernel = found;
    }
    return at_config_parse(found, params, &config);
}

/* A parameter that the text does not name is 0: what the kernel did before it had the parameter. */
static bool read_config(const char *text, const attune_kernel **kernel, attune_config *config)
{
    char name[AT_KERNEL_TEXT_MAX];
    const char *params;
    memset(config, 0, sizeof *config);
    return at_kernel_text_split(text, name, sizeof name, &params) == ATTUNE_OK &&
           (*kernel = at_catalogue_find(name)) != NULL && at_config_parse(*kernel, params, config) == ATTUNE_OK;
}

bool at_catalogue_same(const char *a, const char *b)
{
    const attune_kernel *kernel_a, *kernel_b;
    attune_config config_a, config_b;
    return strcmp(a, b) == 0 || (read_config(a, &kernel_a, &config_a) && read_config(b, &kernel_b, &config_b) &&
                                 kernel_a == kernel_b && memcmp(&config_a, &config_b, sizeof config_a) == 0);
}

const char *at_catalogue_left_out(const char *name)
{
    for (size_t i = 0; i < sizeof optional / sizeof optional[0]; ++i) {
        if (strcmp(optional[i].name, name) == 0 && at_catalogue_find(name) == NULL) {
            return optional[i].needs;
        }
    }
    return NULL;
}

const attune_kernel *at_catalogue_general(attune_target_kind target)
{
    for (const attune_kernel *const *kernel = at_catalogue; *kernel != NULL; ++kernel) {
        if ((*kernel)->target == (int32_t)target && ((*kernel)->traits & ATTUNE_TRAIT_GENERAL) != 0) {
            return *kernel;
        }
    }
    return NULL;
}
