#include "cuda/provide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cuda/cache.h"
#include "cuda/copies.h"
#include "cuda/delays.h"
#include "cuda/image.h"
#include "cuda/lanes.h"
#include "cuda/ptx.h"

static attune_status judge(const at_recipe *recipe, const attune_target *target, const at_artifact *artifact,
                           at_cubin *cubin)
{
    attune_status status = at_cubin_inspect(artifact->cubin, artifact->cubin_bytes, artifact->log, cubin);
    if (status != ATTUNE_OK) {
        return at_fail_in(status, "%s", recipe->kernel->name);
    }
    if (recipe->kernel->image != NULL && artifact->compiler > 0) {
        at_cubin_take_reserve(cubin); /* the driver made it of the image's PTX */
    }
    return at_cubin_check(cubin, recipe, target);
}

static attune_status compile(const at_provider *provider, const at_recipe *recipe, const attune_target *target,
                             const at_build *build, at_artifact *artifact, at_cubin *cubin)
{
    AT_FAIL_IF(
        provider->nvrtc == NULL, ATTUNE_COMPILE_ERROR,
        "%s must be compiled and NVRTC is not to be found%s; install it, name it by ATTUNE_NVRTC, or bring a pack "
        "(attune export)",
        recipe->kernel->name, provider->pack != NULL ? ", and the pack has no code for this problem" : "");
    AT_FORWARD(at_compile(provider->nvrtc, build, artifact));
    attune_status status = judge(recipe, target, artifact, cubin);
    if (status != ATTUNE_OK) {
        at_artifact_free(artifact);
        return status;
    }
    (void)at_cache_keep(provider->cache, artifact);
    return ATTUNE_OK;
}

/* Drivers load code of their own major version of CUDA and of earlier ones, and need not load later ones'. A target
 * that is not here has no driver. */
static bool find_packed(const at_provider *provider, const attune_target *target, const at_build *build,
                        at_artifact *artifact)
{
    if (!at_pack_find(provider->pack, build->digest, artifact)) {
        return false;
    }
    if (target->driver == 0 || artifact->compiler / 1000 <= target->driver / 1000) {
        return true;
    }
    at_artifact_free(artifact);
    return false;
}

/* What is kept was right when it was kept; a check that fails now means that something else went wrong on the disk. Of
 * sources that are not the library's, what was kept by an attune that did not ask for special registers, or did not
 * count globals, is no use. */
static bool kept(const at_provider *provider, const at_recipe *recipe, const attune_target *target,
                 const at_build *build, at_artifact *artifact, at_cubin *cubin)
{
    if (!find_packed(provider, target, build, artifact) &&
        (provider->nvrtc == NULL ||
         !at_cache_find(provider->cache, build->digest, provider->nvrtc->version, artifact))) {
        return false;
    }
    const bool is_sound = judge(recipe, target, artifact, cubin) == ATTUNE_OK;
    const bool says_all = cubin->lists_special && cubin->unused_globals >= 0;
    if (is_sound && (says_all || recipe->sources == NULL)) {
        return true;
    }
    at_artifact_free(artifact);
    return false;
}

/* ---- Built ahead ------------------------------------------------------------------------------------------------ */

static void digest_code(const at_image_code *code, const attune_target *target, char digest_text[AT_DIGEST_TEXT_MAX])
{
    unsigned char digest[AT_DIGEST_BYTES];
    at_sha256 sha;
    at_sha256_init(&sha);
    at_sha256_add(&sha, code->data, code->bytes);
    at_sha256_add(&sha, &target->arch, sizeof target->arch);
    at_sha256_end(&sha, digest);
    at_digest_text(digest, digest_text);
}

static attune_status copy_code(const at_image_code *code, const attune_target *target, at_artifact *artifact)
{
    AT_FORWARD(at_artifact_reserve(artifact, code->bytes, 0));
    memcpy(artifact->cubin, code->data, code->bytes);
    artifact->log[0] = '\0';
    artifact->compiler = 0;
    digest_code(code, target, artifact->build);
    return ATTUNE_OK;
}

static attune_status judge_or_free(const at_recipe *recipe, const attune_target *target, at_artifact *artifact,
                                   at_cubin *cubin)
{
    attune_status status = judge(recipe, target, artifact, cubin);
    if (status != ATTUNE_OK) {
        at_artifact_free(artifact);
    }
    return status;
}

static attune_status assemble(const at_assembler *assembler, const at_image_code *code, at_artifact *artifact)
{
    char *text = calloc(1, code->bytes + 1);
    AT_FAIL_IF(text == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu bytes of PTX", code->bytes);
    memcpy(text, code->data, code->bytes);
    attune_status status = assembler->assemble(assembler->context, text, strlen(text), artifact);
    free(text);
    return status;
}

/* For an architecture that came after the image: of its PTX, by the device's driver. That takes a while, so what comes
 * of it is kept. */
static attune_status take_from_ptx(const at_provider *provider, const at_recipe *recipe, const attune_target *target,
                                   const at_image_code *code, at_artifact *artifact, at_cubin *cubin)
{
    char digest[AT_DIGEST_TEXT_MAX];
    digest_code(code, target, digest);
    if (at_cache_find(provider->cache, digest, provider->assembler.version, artifact) &&
        judge_or_free(recipe, target, artifact, cubin) == ATTUNE_OK) {
        return ATTUNE_OK;
    }
    AT_FORWARD(assemble(&provider->assembler, code, artifact));
    artifact->log[0] = '\0';
    artifact->compiler = provider->assembler.version;
    memcpy(artifact->build, digest, sizeof digest);
    AT_FORWARD(judge_or_free(recipe, target, artifact, cubin));
    (void)at_cache_keep(provider->cache, artifact);
    return ATTUNE_OK;
}

static attune_status take_from(const at_embedded *image, const at_provider *provider, const at_recipe *recipe,
                               const attune_target *target, at_artifact *artifact, at_cubin *cubin)
{
    at_image_code code;
    attune_status status = at_image_choose(image, target, &code);
    if (status == ATTUNE_UNSUPPORTED && provider->assembler.assemble != NULL &&
        at_image_ptx(image, target, &code) == ATTUNE_OK) {
        return take_from_ptx(provider, recipe, target, &code, artifact, cubin);
    }
    AT_FORWARD(status);
    AT_FORWARD(copy_code(&code, target, artifact));
    return judge_or_free(recipe, target, artifact, cubin);
}

static attune_status take_from_image(const at_provider *provider, const at_recipe *recipe, const attune_target *target,
                                     at_artifact *artifact, at_cubin *cubin)
{
    const char *name = recipe->kernel->image;
    const at_embedded *image = recipe->sources;
    while (image != NULL && image->name != NULL && strcmp(image->name, name) != 0) {
        ++image;
    }
    if (image != NULL) {
        AT_FAIL_IF(image->name == NULL, ATTUNE_NOT_FOUND, "%s: the image %s is not among what was given",
                   recipe->kernel->name, name);
        return take_from(image, provider, recipe, target, artifact, cubin);
    }
    at_embedded own;
    attune_status status = at_image_read(name, &own);
    if (status != ATTUNE_OK) {
        return at_fail_in(status, "%s", recipe->kernel->name);
    }
    status = take_from(&own, provider, recipe, target, artifact, cubin);
    free((void *)own.data);
    return status;
}

/* ---- With delays ------------------------------------------------------------------------------------------------- */

/* PTX whose copies are late, whose lanes are apart, and that has delays. */
static attune_status upset(const char *name, const char *ptx, at_text *late, at_copies *made)
{
    at_text plain, copied, parted;
    int places = 0;
    at_text_init(&plain);
    at_text_init(&copied);
    at_text_init(&parted);
    at_ptx_plain(ptx, &plain);
    attune_status status = at_text_status(&plain, "plain PTX");
    if (status == ATTUNE_OK) {
        *made = at_ptx_copy_late(plain.data, &copied);
        status = at_text_status(&copied, "PTX with late copies");
    }
    if (status == ATTUNE_OK) {
        (void)at_ptx_part_lanes(copied.data, &parted);
        status = at_text_status(&parted, "PTX with lanes apart");
    }
    if (status == ATTUNE_OK) {
        places = at_ptx_delay(parted.data, late);
        status = at_text_status(late, "PTX with delays");
    }
    at_text_free(&plain);
    at_text_free(&copied);
    at_text_free(&parted);
    AT_FORWARD(status);
    AT_FAIL_IF(places == 0, ATTUNE_UNSUPPORTED, "%s: there is no place for a delay", name);
    AT_FAIL_IF(made->unknown, ATTUNE_UNSUPPORTED, "%s: there are asynchronous copies of an unknown kind", name);
    return ATTUNE_OK;
}

/* Where the driver takes a source's own PTX, and not what the passes made of it, nobody has looked at what that source
 * may hide from them: of those that are not the library's that is an error, and not something that cannot be done. */
static attune_status fail_upset(const at_assembler *assembler, const at_recipe *recipe, const char *ptx,
                                attune_status status)
{
    char detail[512];
    at_artifact own = {0};
    if (recipe->sources == NULL || (status != ATTUNE_COMPILE_ERROR && status != ATTUNE_UNSUPPORTED)) {
        return status;
    }
    (void)snprintf(detail, sizeof detail, "%s", attune_last_detail());
    const bool is_code = assembler->assemble(assembler->context, ptx, strlen(ptx), &own) == ATTUNE_OK;
    at_artifact_free(&own);
    return is_code ? at_fail(ATTUNE_INTERNAL,
                             "%s: with delays and late copies its PTX is no code, so that nobody can "
                             "say whether it is right by luck: %s",
                             recipe->kernel->name, detail)
                   : at_fail(status, "%s", detail);
}

/* The code that the driver makes of the PTX, and what the PTX says of it in the log's place. */
static attune_status assemble_delayed(const at_assembler *assembler, const at_recipe *recipe, const char *ptx,
                                      at_artifact *artifact, at_copies *made)
{
    at_text late, lines;
    at_text_init(&late);
    at_text_init(&lines);
    attune_status status = upset(recipe->kernel->name, ptx, &late, made);
    at_compile_name_uses(ptx, &lines);
    if (status == ATTUNE_OK) {
        status = assembler->assemble(assembler->context, late.data, late.length, artifact);
    }
    status = status == ATTUNE_OK ? status : fail_upset(assembler, recipe, ptx, status);
    at_text_free(&late);
    char *log = NULL;
    size_t bytes = 0;
    attune_status taken = at_text_take(&lines, "a log", &log, &bytes);
    if (status != ATTUNE_OK || taken != ATTUNE_OK) {
        free(log);
        return status != ATTUNE_OK ? status : taken;
    }
    free(artifact->log);
    artifact->log = log;
    artifact->log_bytes = bytes;
    return ATTUNE_OK;
}

/* Never kept: it is for one look. */
static attune_status provide_delayed(const at_provider *provider, const at_recipe *recipe, const attune_target *target,
                                     at_artifact *artifact, at_cubin *cubin)
{
    at_build build;
    at_copies made = {0};
    int64_t smem = 0;
    char *ptx = NULL;
    *artifact = (at_artifact){0};
    AT_FAIL_IF(recipe->kernel->image != NULL || provider->nvrtc == NULL || provider->assembler.assemble == NULL,
               ATTUNE_UNSUPPORTED, "%s: delays need a source, NVRTC and a driver", recipe->kernel->name);
    AT_FORWARD(at_build_gather(recipe, target, &build));
    AT_FORWARD(at_compile_ptx(provider->nvrtc, &build, &ptx));
    attune_status status = assemble_delayed(&provider->assembler, recipe, ptx, artifact, &made);
    free(ptx);
    if (status != ATTUNE_OK) {
        at_artifact_free(artifact);
        return status;
    }
    memcpy(artifact->build, build.digest, sizeof artifact->build);
    status = at_cubin_inspect(artifact->cubin, artifact->cubin_bytes, artifact->log, cubin);
    if (status == ATTUNE_OK) {
        at_cubin_take_reserve(cubin);
        status = made.shares ? at_cubin_check_fit(cubin, recipe, target, &smem) : at_cubin_check(cubin, recipe, target);
    }
    if (status != ATTUNE_OK) {
        at_artifact_free(artifact);
    }
    return status;
}

attune_status at_provide(const at_provider *provider, const at_recipe *recipe, const attune_target *target,
                         at_artifact *artifact, at_cubin *cubin)
{
    at_build build;
    at_cubin own;
    cubin = cubin != NULL ? cubin : &own;
    if (recipe->delays) {
        return provide_delayed(provider, recipe, target, artifact, cubin);
    }
    if (recipe->kernel->image != NULL) {
        return take_from_image(provider, recipe, target, artifact, cubin);
    }
    AT_FORWARD(at_build_gather(recipe, target, &build));
    if (kept(provider, recipe, target, &build, artifact, cubin)) {
        return ATTUNE_OK;
    }
    return compile(provider, recipe, target, &build, artifact, cubin);
}
