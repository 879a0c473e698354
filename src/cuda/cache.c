#include "cuda/cache.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"

char *at_cache_place(const char *directory)
{
    char *place = NULL;
    if (directory == NULL) {
        return at_path_user(AT_PLACE_CACHE, "cuda", &place) == ATTUNE_OK ? place : NULL;
    }
    if (directory[0] == '\0') {
        return NULL;
    }
    at_text text;
    at_text_init(&text);
    at_text_add(&text, "%s/cuda", directory);
    return at_text_take(&text, "the cache's directory", &place, NULL) == ATTUNE_OK ? place : NULL;
}

/* One file for what one compiler made of one build; the caller frees the path. */
static char *path_of(const char *place, const char *build, int compiler)
{
    char name[AT_DIGEST_TEXT_MAX];
    char *path = NULL;
    at_text text;
    at_text_init(&text);
    at_text_add(&text, "%s %d", build, compiler);
    at_digest_of(text.data, text.length, name);
    at_text_free(&text);
    at_text_init(&text);
    at_text_add(&text, "%s/%s.cubin", place, name);
    return at_text_take(&text, "a cached file's path", &path, NULL) == ATTUNE_OK ? path : NULL;
}

bool at_cache_find(const char *place, const char *build, int compiler, at_artifact *artifact)
{
    void *data = NULL;
    size_t bytes = 0;
    bool found = false;
    *artifact = (at_artifact){0};
    char *path = place == NULL ? NULL : path_of(place, build, compiler);
    if (path != NULL && at_file_read(path, AT_ARTIFACT_MAX, &data, &bytes) == ATTUNE_OK &&
        at_artifact_decode(data, bytes, artifact) == ATTUNE_OK) {
        /* A file copied to another name is sound and still wrong. */
        found = strcmp(artifact->build, build) == 0 && artifact->compiler == compiler;
        if (!found) {
            at_artifact_free(artifact);
        }
    }
    free(data);
    free(path);
    return found;
}

bool at_cache_keep(const char *place, const at_artifact *artifact)
{
    unsigned char *data = NULL;
    size_t bytes = 0;
    char *path = place == NULL ? NULL : path_of(place, artifact->build, artifact->compiler);
    bool kept = path != NULL && at_directory_make(place) == ATTUNE_OK &&
                at_artifact_encode(artifact, &data, &bytes) == ATTUNE_OK &&
                at_file_write(path, data, bytes) == ATTUNE_OK;
    free(data);
    free(path);
    return kept;
}
