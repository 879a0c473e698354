/* Tensors of a run: which file each role comes from, and reading it. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/npy.h"
#include "cli/run.h"
#include "core/problem.h"

bool at_run_has_extension(const char *path, const char *extension)
{
    size_t length = strlen(path), tail = strlen(extension);
    return length > tail && strcasecmp(path + length - tail, extension) == 0;
}

static void set_source(at_run_tensor *tensor, const char *path, const char *name)
{
    at_text text;
    at_text_init_fixed(&text, tensor->source, sizeof tensor->source);
    /* The end of a long path says more than its beginning. */
    size_t length = strlen(path);
    at_text_add(&text, "%s%s", length > 120 ? "..." : "", length > 120 ? path + length - 117 : path);
    if (name != NULL) {
        at_text_add(&text, ": tensor \"%.50s\"", name);
    }
}

/* The tensor of this name, exactly or else in either case; *twice: several differ in case alone. */
static const at_named_array *find_named(const at_safetensors *tensors, const char *name, bool *twice)
{
    const at_named_array *found = at_safetensors_find(tensors, name);
    *twice = false;
    for (size_t i = 0; found == NULL && i < at_safetensors_count(tensors); i++) {
        const at_named_array *tensor = at_safetensors_at(tensors, i);
        if (strcasecmp(tensor->name, name) == 0) {
            found = tensor;
        }
    }
    for (size_t i = 0; found != NULL && strcmp(found->name, name) != 0 && i < at_safetensors_count(tensors); i++) {
        const at_named_array *tensor = at_safetensors_at(tensors, i);
        *twice |= tensor != found && strcasecmp(tensor->name, name) == 0;
    }
    return found;
}

/* Takes the view of a named tensor; absent ones are left ungiven. */
static attune_status take_named(const char *path, const at_safetensors *tensors, const char *name,
                                at_run_tensor *tensor)
{
    bool twice;
    const at_named_array *found = find_named(tensors, name, &twice);
    AT_FAIL_IF(twice, ATTUNE_INVALID_ARGUMENT, "%s: several of its tensors are called %s but for upper and lower case",
               path, name);
    if (found == NULL) {
        return ATTUNE_OK;
    }
    set_source(tensor, path, found->name);
    AT_FAIL_IF(found->array.dtype < 0, ATTUNE_UNSUPPORTED,
               "%s: its type is %s, attune reads F32, F16, BF16, I32, BOOL and U8", tensor->source, found->type);
    tensor->array = found->array;
    tensor->given = true;
    return ATTUNE_OK;
}

static attune_status load_safetensors(const char *path, const char *name, at_run_tensor *tensor)
{
    AT_FORWARD(at_safetensors_read(path, &tensor->tensors));
    AT_FORWARD(take_named(path, tensor->tensors, name, tensor));
    AT_FAIL_IF(!tensor->given, ATTUNE_NOT_FOUND, "%s: has no tensor \"%s\"", path, name);
    return ATTUNE_OK;
}

static attune_status load_npy(const char *path, bool v2_is_bf16, at_run_tensor *tensor)
{
    const at_npy_options options = {.v2_is_bf16 = v2_is_bf16};
    set_source(tensor, path, NULL);
    AT_FORWARD(at_npy_read(path, &options, &tensor->file, &tensor->array));
    tensor->given = true;
    return ATTUNE_OK;
}

/* How much of "FILE" or "FILE.safetensors:NAME" is the file's path. */
static size_t path_length(const char *spec)
{
    const char *colon = strcasestr(spec, ".safetensors:");
    return colon != NULL ? (size_t)(colon - spec) + strlen(".safetensors") : strlen(spec);
}

bool at_run_reads(const char *spec, const char *path)
{
    char *file = strndup(spec, path_length(spec));
    bool same = file != NULL && at_file_same(file, path);
    free(file);
    return same;
}

attune_status at_run_load(const char *spec, const char *name, bool v2_is_bf16, at_run_tensor *tensor)
{
    size_t length = path_length(spec);
    char *path = strndup(spec, length);
    AT_FAIL_IF(path == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to read %s", spec);
    name = spec[length] == ':' ? spec + length + 1 : name;
    attune_status status;
    if (at_run_has_extension(path, ".safetensors")) {
        status = load_safetensors(path, name, tensor);
    } else if (at_run_has_extension(path, ".npy")) {
        status = load_npy(path, v2_is_bf16, tensor);
    } else {
        status = at_fail(ATTUNE_INVALID_ARGUMENT, "%s: its name ends in neither .npy nor .safetensors", path);
    }
    free(path);
    return status;
}

void at_run_unload(at_run_tensor *tensor)
{
    at_safetensors_destroy(tensor->tensors);
    free(tensor->file);
    *tensor = (at_run_tensor){.given = false};
}

attune_status at_run_gather(const at_cli *cli, at_run_job *job)
{
    static const struct {
        const char *option;
        attune_role role;
    } options[] = {
        {"--q", ATTUNE_Q},         {"--k", ATTUNE_K},
        {"--v", ATTUNE_V},         {"--bias", ATTUNE_BIAS},
        {"--mask", ATTUNE_MASK},   {"--alibi", ATTUNE_SLOPES},
        {"--sink", ATTUNE_SINK},   {"--cu-q", ATTUNE_CU_Q},
        {"--cu-kv", ATTUNE_CU_KV}, {"--seqused", ATTUNE_USED_KV},
    };
    const char *in = at_cli_text(cli, "--in");
    if (in != NULL) {
        AT_FAIL_IF(!at_run_has_extension(in, ".safetensors"), ATTUNE_INVALID_ARGUMENT,
                   "%s: --in takes a .safetensors file; .npy files are given one by one", in);
        AT_FORWARD(at_safetensors_read(in, &job->in));
    }
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        at_run_tensor *tensor = &job->input[options[i].role];
        const char *name = at_role_name((int)options[i].role), *spec = at_cli_text(cli, options[i].option);
        if (spec != NULL) {
            AT_FORWARD(at_run_load(spec, name, at_cli_given(cli, "--bf16"), tensor));
        } else if (in != NULL) {
            AT_FORWARD(take_named(in, job->in, name, tensor));
        }
    }
    return ATTUNE_OK;
}
