#include "cuda/artifact.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* NOTE: little-endian in memory and in the file: CUDA has no other hosts. */
typedef struct header {
    char magic[8];
    uint32_t version;
    int32_t compiler;
    uint64_t cubin_bytes;
    uint64_t log_bytes;
    char build[AT_DIGEST_TEXT_MAX - 1];
} header;

_Static_assert(sizeof(header) == 96, "the file's header");

static const char magic[8] = {'a', 't', 't', 'u', 'n', 'e', 'c', 'b'};
enum { VERSION = 1 };

attune_status at_artifact_reserve(at_artifact *artifact, size_t cubin_bytes, size_t log_bytes)
{
    *artifact = (at_artifact){.cubin_bytes = cubin_bytes, .log_bytes = log_bytes};
    artifact->cubin = aligned_alloc(64, (cubin_bytes / 64 + 1) * 64);
    artifact->log = malloc(log_bytes + 1);
    if (artifact->cubin == NULL || artifact->log == NULL) {
        at_artifact_free(artifact);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a cubin of %zu bytes and a log of %zu", cubin_bytes,
                       log_bytes);
    }
    artifact->log[log_bytes] = '\0';
    return ATTUNE_OK;
}

void at_artifact_free(at_artifact *artifact)
{
    free(artifact->cubin);
    free(artifact->log);
    artifact->cubin = NULL;
    artifact->log = NULL;
}

static void digest_of(const unsigned char *data, size_t bytes, unsigned char digest[AT_DIGEST_BYTES])
{
    at_sha256 sha;
    at_sha256_init(&sha);
    at_sha256_add(&sha, data, bytes);
    at_sha256_end(&sha, digest);
}

attune_status at_artifact_encode(const at_artifact *artifact, unsigned char **data, size_t *bytes)
{
    header head = {.version = VERSION,
                   .compiler = artifact->compiler,
                   .cubin_bytes = artifact->cubin_bytes,
                   .log_bytes = artifact->log_bytes};
    size_t body = sizeof head + artifact->cubin_bytes + artifact->log_bytes;
    unsigned char *at = malloc(body + AT_DIGEST_BYTES);
    AT_FAIL_IF(at == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu bytes of compiled code", body + AT_DIGEST_BYTES);
    memcpy(head.magic, magic, sizeof magic);
    memcpy(head.build, artifact->build, sizeof head.build);
    memcpy(at, &head, sizeof head);
    memcpy(at + sizeof head, artifact->cubin, artifact->cubin_bytes);
    memcpy(at + sizeof head + artifact->cubin_bytes, artifact->log, artifact->log_bytes);
    digest_of(at, body, at + body);
    *data = at;
    *bytes = body + AT_DIGEST_BYTES;
    return ATTUNE_OK;
}

/* The header, if the bytes are long enough for what it promises and the digest is right. */
static attune_status check(const unsigned char *data, size_t bytes, header *head)
{
    unsigned char digest[AT_DIGEST_BYTES];
    AT_FAIL_IF(bytes < sizeof *head + AT_DIGEST_BYTES, ATTUNE_CORRUPT, "compiled code of %zu bytes: too short", bytes);
    memcpy(head, data, sizeof *head);
    AT_FAIL_IF(memcmp(head->magic, magic, sizeof magic) != 0 || head->version != VERSION, ATTUNE_CORRUPT,
               "not compiled code of version %d", VERSION);
    size_t body = bytes - AT_DIGEST_BYTES;
    AT_FAIL_IF(head->cubin_bytes > body || head->log_bytes > body ||
                   sizeof *head + head->cubin_bytes + head->log_bytes != body,
               ATTUNE_CORRUPT, "compiled code of %zu bytes promises %llu + %llu", bytes,
               (unsigned long long)head->cubin_bytes, (unsigned long long)head->log_bytes);
    digest_of(data, body, digest);
    AT_FAIL_IF(memcmp(digest, data + body, sizeof digest) != 0, ATTUNE_CORRUPT,
               "compiled code of %zu bytes: its digest is wrong", bytes);
    return ATTUNE_OK;
}

attune_status at_artifact_decode(const unsigned char *data, size_t bytes, at_artifact *artifact)
{
    header head;
    *artifact = (at_artifact){0};
    AT_FORWARD(check(data, bytes, &head));
    AT_FORWARD(at_artifact_reserve(artifact, (size_t)head.cubin_bytes, (size_t)head.log_bytes));
    artifact->compiler = head.compiler;
    memcpy(artifact->build, head.build, sizeof head.build);
    memcpy(artifact->cubin, data + sizeof head, artifact->cubin_bytes);
    memcpy(artifact->log, data + sizeof head + artifact->cubin_bytes, artifact->log_bytes);
    return ATTUNE_OK;
}
