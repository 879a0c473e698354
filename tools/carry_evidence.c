/* carry_evidence DIR WISDOM COMMIT TREE CACHE CODES: gives verdicts of evidence's version 1 the digest of their code.
 *
 * TREE is the repository as it was at COMMIT, CACHE the kernel cache that its `attune verify DIR` filled, CODES what
 * code_digests wrote of its build's objects. A verdict whose cubin (of a CPU kernel: whose source and compiler) that
 * tree gives again gets the digest of what of it runs, and says from which commit; no sample and no finding is touched.
 * Files below DIR become version 2, and rows of the files below WISDOM name verdicts by their new digests. Verdicts
 * that have a digest of their own are left as they are, so it may be called again. docs/evidence.md. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/code.h"
#include "base/file.h"
#include "base/status.h"
#include "core/target.h"
#include "cpu/source.h"
#include "cuda/cache.h"
#include "cuda/cubin.h"
#include "evidence/evidence.h"
#include "evidence/evidence_parts.h"
#include "library/wisdom.h"

enum { CUBINS_MAX = 4096, RENAMED_MAX = 65536, FILE_BYTES_MAX = 64 << 20, PATH_BYTES = 1024 };

typedef struct pair {
    char from[AT_DIGEST_TEXT_MAX], to[AT_DIGEST_TEXT_MAX];
} pair;

typedef struct carrier {
    const char *commit, *tree;
    char *codes; /* the text of CODES */
    size_t cubins, renamed, carried, left;
    pair *cubin;  /* digest of the file, and of what of it runs */
    pair *rename; /* digests of verdicts */
} carrier;

/* ---- What the old tree gives ------------------------------------------------------------------------------------- */

static attune_status read_cubin(const char *path, pair *found)
{
    void *data = NULL;
    size_t bytes = 0;
    at_artifact artifact = {.cubin = NULL};
    AT_FORWARD(at_file_read(path, FILE_BYTES_MAX, &data, &bytes));
    attune_status status = at_artifact_decode(data, bytes, &artifact);
    free(data);
    if (status == ATTUNE_OK) {
        at_digest_of(artifact.cubin, artifact.cubin_bytes, found->from);
        status = at_cubin_code(artifact.cubin, artifact.cubin_bytes, artifact.log, found->to);
    }
    at_artifact_free(&artifact);
    return status;
}

static attune_status read_cache(carrier *on, const char *cache)
{
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/cuda", cache);
    DIR *folder = opendir(path);
    AT_FAIL_IF(folder == NULL, ATTUNE_NOT_FOUND, "%s cannot be read", path);
    attune_status status = ATTUNE_OK;
    for (struct dirent *entry; status == ATTUNE_OK && (entry = readdir(folder)) != NULL && on->cubins < CUBINS_MAX;) {
        if (strstr(entry->d_name, ".cubin") != NULL) {
            (void)snprintf(path, sizeof path, "%s/cuda/%s", cache, entry->d_name);
            status = read_cubin(path, &on->cubin[on->cubins++]);
        }
    }
    (void)closedir(folder);
    return status;
}

static bool carry_cuda(const carrier *on, at_build_facts *build)
{
    for (size_t i = 0; i < on->cubins; ++i) {
        if (strcmp(on->cubin[i].from, build->cubin) == 0) {
            (void)snprintf(build->code, sizeof build->code, "%s", on->cubin[i].to);
            return true;
        }
    }
    return false;
}

static attune_status add_source(const carrier *on, const char *name, at_sha256 *sha)
{
    char path[PATH_BYTES];
    void *data = NULL;
    size_t bytes = 0;
    (void)snprintf(path, sizeof path, "%s/kernels/cpu/%s", on->tree, name);
    AT_FORWARD(at_file_read(path, FILE_BYTES_MAX, &data, &bytes));
    char *text = strndup(data, bytes);
    at_sha256_add(sha, name, strlen(name) + 1);
    at_code_add(sha, text == NULL ? "" : text);
    free(text);
    free(data);
    return ATTUNE_OK;
}

/* As at_cpu_source_digest does it with what is built in. */
static attune_status digest_source(const carrier *on, const char *kernel, char digest[AT_DIGEST_TEXT_MAX])
{
    unsigned char bytes[AT_DIGEST_BYTES];
    char name[PATH_BYTES];
    struct dirent **headers = NULL;
    at_sha256 sha;
    at_sha256_init(&sha);
    (void)snprintf(name, sizeof name, "%s/kernels/cpu/device", on->tree);
    int count = scandir(name, &headers, NULL, alphasort);
    attune_status status = count > 0 ? ATTUNE_OK : at_fail(ATTUNE_NOT_FOUND, "%s cannot be read", name);
    for (int i = 0; i < count; ++i) {
        (void)snprintf(name, sizeof name, "device/%s", headers[i]->d_name);
        if (strstr(name, ".h") != NULL && status == ATTUNE_OK) {
            status = add_source(on, name, &sha);
        }
        free(headers[i]);
    }
    free(headers);
    (void)snprintf(name, sizeof name, "%s.kernel.c", kernel);
    status = status == ATTUNE_OK ? add_source(on, name, &sha) : status;
    at_sha256_end(&sha, bytes);
    at_digest_text(bytes, digest);
    return status;
}

static bool find_code(const carrier *on, const char *kernel, int isa, char digest[AT_DIGEST_TEXT_MAX])
{
    for (; isa >= 0; --isa) {
        char row[AT_KERNEL_TEXT_MAX + 64];
        (void)snprintf(row, sizeof row, "{\"%s\", \"%s\", \"", kernel, at_isa_name((attune_isa)isa));
        const char *at = strstr(on->codes, row);
        if (at != NULL && strlen(at + strlen(row)) >= AT_DIGEST_TEXT_MAX) {
            memcpy(digest, at + strlen(row), AT_DIGEST_TEXT_MAX - 1);
            digest[AT_DIGEST_TEXT_MAX - 1] = '\0';
            return true;
        }
    }
    return false;
}

static bool carry_cpu(const carrier *on, const at_verdict *verdict, at_build_facts *build)
{
    char kernel[AT_KERNEL_TEXT_MAX], digest[AT_DIGEST_TEXT_MAX];
    (void)snprintf(kernel, sizeof kernel, "%.*s", (int)strcspn(verdict->kernel, ":"), verdict->kernel);
    return strcmp(build->compiler, at_cpu_compiler()) == 0 && digest_source(on, kernel, digest) == ATTUNE_OK &&
           strcmp(digest, build->source) == 0 && find_code(on, kernel, verdict->target.isa, build->code);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static void carry(carrier *on, at_verdict *verdict)
{
    at_build_facts *build = &verdict->build;
    if (build->code[0] != '\0' && build->carried[0] == '\0') {
        return;
    }
    bool cuda = verdict->target.kind == ATTUNE_TARGET_CUDA;
    if (cuda ? carry_cuda(on, build) : carry_cpu(on, verdict, build)) {
        (void)snprintf(build->carried, sizeof build->carried, "%s", on->commit);
        ++on->carried;
    } else {
        (void)printf("not carried: %s, %s\n", verdict->kernel, verdict->problem);
        ++on->left;
    }
}

/* One that cannot be read stays as it is, and broken. */
static attune_status carry_entry(carrier *on, at_evidence_entry *entry, json_t *list, size_t index)
{
    json_t *object = NULL;
    char digest[AT_DIGEST_TEXT_MAX];
    if (entry->verdict == NULL) {
        return ATTUNE_OK;
    }
    carry(on, entry->verdict);
    AT_FORWARD(at_evidence_object(entry->verdict, digest, &object));
    AT_FAIL_IF(on->renamed == RENAMED_MAX || json_array_set_new(list, index, object) != 0, ATTUNE_OUT_OF_MEMORY,
               "too many verdicts");
    pair *one = &on->rename[on->renamed++];
    (void)snprintf(one->from, sizeof one->from, "%s", entry->digest);
    (void)snprintf(one->to, sizeof one->to, "%s", digest);
    return ATTUNE_OK;
}

static attune_status carry_file(carrier *on, const char *path)
{
    char to[PATH_BYTES];
    at_evidence evidence;
    json_t *object, *list;
    bool plain = strlen(path) > 3 && strcmp(path + strlen(path) - 3, ".gz") != 0;
    (void)snprintf(to, sizeof to, "%s%s", path, plain ? ".gz" : "");
    AT_FORWARD(at_evidence_read(path, &evidence));
    attune_status status = at_evidence_list(path, &object, &list);
    if (status == ATTUNE_OK) {
        for (size_t i = 0; i < evidence.count && status == ATTUNE_OK; ++i) {
            status = carry_entry(on, &evidence.entry[i], list, i);
        }
        status = status == ATTUNE_OK ? at_evidence_write(to, list) : status;
        json_decref(object);
    }
    at_evidence_close(&evidence);
    if (status == ATTUNE_OK && plain) {
        (void)unlink(path);
    }
    return status;
}

static attune_status carry_files(carrier *on, const char *dir)
{
    char **files;
    size_t count;
    AT_FORWARD(at_evidence_find(dir, &files, &count));
    attune_status status = ATTUNE_OK;
    for (size_t i = 0; i < count; ++i) {
        status = status == ATTUNE_OK ? carry_file(on, files[i]) : status;
        free(files[i]);
    }
    free(files);
    return status;
}

/* ---- Wisdom ------------------------------------------------------------------------------------------------------ */

static attune_status rename_row(const carrier *on, const at_wisdom_row *row, at_wisdom *to)
{
    at_wisdom_row renamed = *row;
    for (size_t i = 0; i < on->renamed && row->verdict != NULL; ++i) {
        if (strcmp(on->rename[i].from, row->verdict) == 0) {
            renamed.verdict = on->rename[i].to;
        }
    }
    return at_wisdom_add(to, &renamed);
}

static attune_status rename_rows(const carrier *on, const char *path, at_wisdom *from, at_wisdom *to)
{
    const at_wisdom_row **rows;
    char *text = NULL;
    size_t bytes = 0;
    AT_FORWARD(at_wisdom_file_read(path, from));
    AT_FORWARD(at_wisdom_order(from, &rows));
    attune_status status = ATTUNE_OK;
    for (size_t i = 0; rows[i] != NULL && status == ATTUNE_OK; ++i) {
        status = rename_row(on, rows[i], to);
    }
    free(rows);
    AT_FORWARD(status);
    AT_FORWARD(at_wisdom_print(to, &text, &bytes));
    status = at_file_write(path, text, bytes);
    free(text);
    return status;
}

static attune_status rename_file(const carrier *on, const char *path)
{
    at_wisdom *from = NULL, *to = NULL;
    attune_status status = at_wisdom_create(&from);
    status = status == ATTUNE_OK ? at_wisdom_create(&to) : status;
    status = status == ATTUNE_OK ? rename_rows(on, path, from, to) : status;
    at_wisdom_destroy(from);
    at_wisdom_destroy(to);
    return status;
}

static attune_status rename_files(const carrier *on, const char *dir)
{
    DIR *folder = opendir(dir);
    AT_FAIL_IF(folder == NULL, ATTUNE_NOT_FOUND, "%s cannot be read", dir);
    attune_status status = ATTUNE_OK;
    for (struct dirent *entry; status == ATTUNE_OK && (entry = readdir(folder)) != NULL;) {
        if (strstr(entry->d_name, ".wisdom") != NULL) {
            char path[PATH_BYTES];
            (void)snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
            status = rename_file(on, path);
        }
    }
    (void)closedir(folder);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------------ */

static attune_status run(carrier *on, char **argument)
{
    void *codes = NULL;
    size_t bytes = 0;
    on->cubin = calloc(CUBINS_MAX, sizeof *on->cubin);
    on->rename = calloc(RENAMED_MAX, sizeof *on->rename);
    AT_FAIL_IF(on->cubin == NULL || on->rename == NULL, ATTUNE_OUT_OF_MEMORY, "no memory");
    AT_FORWARD(at_file_read(argument[6], FILE_BYTES_MAX, &codes, &bytes));
    on->codes = strndup(codes, bytes);
    free(codes);
    AT_FAIL_IF(on->codes == NULL, ATTUNE_OUT_OF_MEMORY, "no memory");
    AT_FORWARD(read_cache(on, argument[5]));
    AT_FORWARD(carry_files(on, argument[1]));
    return rename_files(on, argument[2]);
}

int main(int count, char **argument)
{
    if (count != 7) {
        (void)fprintf(stderr, "usage: carry_evidence DIR WISDOM COMMIT TREE CACHE CODES\n");
        return 2;
    }
    carrier on = {.commit = argument[3], .tree = argument[4]};
    attune_status status = run(&on, argument);
    if (status == ATTUNE_OK) {
        (void)printf("%zu verdicts carried from %s, %zu not, %zu cubins\n", on.carried, on.commit, on.left, on.cubins);
    } else {
        (void)fprintf(stderr, "carry_evidence: %s\n", attune_last_detail());
    }
    free(on.cubin);
    free(on.rename);
    free(on.codes);
    return status == ATTUNE_OK ? 0 : 1;
}
