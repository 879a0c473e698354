#include "cuda/compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "cuda/ptx.h"

enum {
    QUOTED = 700, /* bytes of the log in an error */
    /* NOTE: headers come from memory; by default the compiler also looks into the working directory. */
    KNOWS_NO_SOURCE_INCLUDE = 13000
};

/* Copies the log's lines that report errors, as many as fit; all of its beginning where none does. */
static void quote_errors(const char *log, char quoted[QUOTED])
{
    size_t used = 0;
    for (const char *line = log; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        bool shows = memmem(line, length, "error", 5) != NULL || memmem(line, length, "fatal", 5) != NULL;
        if (shows && used + length + 2 < QUOTED) {
            memcpy(quoted + used, line, length);
            used += length;
            quoted[used++] = '\n';
        }
        line += length + (line[length] == '\n');
    }
    if (used == 0) {
        used = strnlen(log, QUOTED - 1);
        memcpy(quoted, log, used);
    }
    while (used > 0 && quoted[used - 1] == '\n') {
        --used;
    }
    quoted[used] = '\0';
}

static attune_status refuse(const at_nvrtc *nvrtc, at_nvrtc_program program, const at_build *build, unsigned int error)
{
    char quoted[QUOTED] = "no log";
    size_t bytes = 0;
    char *log = NULL;
    if (nvrtc->nvrtcGetProgramLogSize(program, &bytes) == AT_NVRTC_SUCCESS && bytes > 1) {
        log = calloc(1, bytes + 1);
    }
    if (log != NULL && nvrtc->nvrtcGetProgramLog(program, log) == AT_NVRTC_SUCCESS) {
        quote_errors(log, quoted);
    }
    free(log);
    return at_fail(error == AT_NVRTC_OUT_OF_MEMORY ? ATTUNE_OUT_OF_MEMORY : ATTUNE_COMPILE_ERROR,
                   "%s does not compile for %s (NVRTC %d.%d: %s):\n%s", build->source.name,
                   strchr(build->option[0], '=') + 1, nvrtc->version / 1000, nvrtc->version % 1000 / 10,
                   nvrtc->nvrtcGetErrorString(error), quoted);
}

/* For the caller to free. */
static attune_status read_ptx(const at_nvrtc *nvrtc, at_nvrtc_program program, const at_build *build, char **ptx)
{
    size_t bytes = 0;
    unsigned int error = nvrtc->nvrtcGetPTXSize(program, &bytes);
    *ptx = error == AT_NVRTC_SUCCESS && bytes > 1 ? calloc(1, bytes + 1) : NULL;
    if (*ptx == NULL || nvrtc->nvrtcGetPTX(program, *ptx) != AT_NVRTC_SUCCESS) {
        free(*ptx);
        *ptx = NULL;
        return at_fail(ATTUNE_COMPILE_ERROR, "%s: NVRTC gives no PTX of %zu bytes (%s)", build->source.name, bytes,
                       nvrtc->nvrtcGetErrorString(error));
    }
    for (char *at = *ptx; (at = strchr(at, '\f')) != NULL; ++at) {
        *at = ' '; /* which is a blank too, that nobody looks for */
    }
    const char *hides = at_ptx_hides(*ptx);
    if (hides != NULL) {
        free(*ptx);
        *ptx = NULL;
        return at_fail(ATTUNE_COMPILE_ERROR, "%s: its assembler has %s, behind which statements go unread",
                       build->source.name, hides);
    }
    return ATTUNE_OK;
}

void at_compile_name_uses(const char *ptx, at_text *lines)
{
    char global[128] = "";
    char special[128] = "";
    bool used = at_ptx_uses_global(ptx, global, sizeof global);
    bool read = at_ptx_reads_special(ptx, special, sizeof special);
    at_text_add(lines, "\n%s%s%s\n%s%s%s\n", AT_PTX_GLOBALS, used ? " " : "", global, AT_PTX_SPECIAL, read ? " " : "",
                special);
}

/* The compiler's log with our lines behind it, for the caller to free. */
static attune_status read_log(const at_nvrtc *nvrtc, at_nvrtc_program program, const at_build *build, char **log,
                              size_t *bytes)
{
    at_text text;
    size_t size = 0;
    char *own = NULL;
    char *ptx = NULL;
    AT_FORWARD(read_ptx(nvrtc, program, build, &ptx));
    if (nvrtc->nvrtcGetProgramLogSize(program, &size) == AT_NVRTC_SUCCESS && size > 1) {
        own = calloc(1, size + 1);
    }
    if (own != NULL && nvrtc->nvrtcGetProgramLog(program, own) != AT_NVRTC_SUCCESS) {
        own[0] = '\0';
    }
    at_text_init(&text);
    at_text_add(&text, "%s", own != NULL ? own : "");
    free(own);
    at_compile_name_uses(ptx, &text);
    at_text_add(&text, "%s %d\n", AT_PTX_UNUSED, at_ptx_unused_globals(ptx));
    free(ptx);
    return at_text_take(&text, "a compiler's log", log, bytes);
}

static attune_status read_cubin(const at_nvrtc *nvrtc, at_nvrtc_program program, const at_build *build, const char *log,
                                size_t log_bytes, at_artifact *artifact)
{
    size_t bytes = 0;
    unsigned int error = nvrtc->nvrtcGetCUBINSize(program, &bytes);
    AT_FAIL_IF(error != AT_NVRTC_SUCCESS || bytes == 0, ATTUNE_COMPILE_ERROR, "%s: NVRTC gives no cubin (%s)",
               build->source.name, nvrtc->nvrtcGetErrorString(error));
    AT_FORWARD(at_artifact_reserve(artifact, bytes, log_bytes));
    error = nvrtc->nvrtcGetCUBIN(program, (char *)artifact->cubin);
    if (error != AT_NVRTC_SUCCESS) {
        at_artifact_free(artifact);
        return at_fail(ATTUNE_COMPILE_ERROR, "%s: NVRTC: %s", build->source.name, nvrtc->nvrtcGetErrorString(error));
    }
    memcpy(artifact->log, log, log_bytes);
    artifact->compiler = nvrtc->version;
    memcpy(artifact->build, build->digest, sizeof artifact->build);
    return ATTUNE_OK;
}

static attune_status collect(const at_nvrtc *nvrtc, at_nvrtc_program program, const at_build *build,
                             at_artifact *artifact)
{
    char *log = NULL;
    size_t bytes = 0;
    AT_FORWARD(read_log(nvrtc, program, build, &log, &bytes));
    attune_status status = read_cubin(nvrtc, program, build, log, bytes, artifact);
    free(log);
    return status;
}

/* `arch` instead of the build's own. */
static attune_status run_compiler(const at_nvrtc *nvrtc, const at_build *build, const char *arch,
                                  at_nvrtc_program *program)
{
    const char *option[AT_BUILD_OPTIONS_MAX + 1] = {arch};
    int options = 1;
    unsigned int error = nvrtc->nvrtcCreateProgram(program, (const char *)build->source.data, build->source.name,
                                                   build->header_count, build->header_text, build->header_name);
    AT_FAIL_IF(error != AT_NVRTC_SUCCESS, ATTUNE_COMPILE_ERROR, "%s: NVRTC: %s", build->source.name,
               nvrtc->nvrtcGetErrorString(error));
    while (options < build->option_count) {
        option[options] = build->option[options];
        ++options;
    }
    if (nvrtc->version >= KNOWS_NO_SOURCE_INCLUDE) {
        option[options++] = "--no-source-include";
    }
    error = nvrtc->nvrtcCompileProgram(*program, options, option);
    return error == AT_NVRTC_SUCCESS ? ATTUNE_OK : refuse(nvrtc, *program, build, error);
}

attune_status at_compile(const at_nvrtc *nvrtc, const at_build *build, at_artifact *artifact)
{
    at_nvrtc_program program = NULL;
    *artifact = (at_artifact){0};
    attune_status status = run_compiler(nvrtc, build, build->option[0], &program);
    status = status == ATTUNE_OK ? collect(nvrtc, program, build, artifact) : status;
    if (program != NULL) {
        (void)nvrtc->nvrtcDestroyProgram(&program);
    }
    return status;
}

attune_status at_compile_ptx(const at_nvrtc *nvrtc, const at_build *build, char **ptx)
{
    at_nvrtc_program program = NULL;
    char arch[AT_BUILD_OPTION_BYTES];
    *ptx = NULL;
    (void)snprintf(arch, sizeof arch, "--gpu-architecture=compute_%s", strstr(build->option[0], "=sm_") + 4);
    attune_status status = run_compiler(nvrtc, build, arch, &program);
    status = status == ATTUNE_OK ? read_ptx(nvrtc, program, build, ptx) : status;
    if (program != NULL) {
        (void)nvrtc->nvrtcDestroyProgram(&program);
    }
    return status;
}
