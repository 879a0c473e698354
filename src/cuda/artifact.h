/* A compiled kernel as bytes: the cubin, what the compiler said, and a header and a digest that show whether it is
 * whole. The form in which the disk cache and packs keep it. */
#ifndef CUDA_ARTIFACT_H
#define CUDA_ARTIFACT_H

#include "attune/attune.h"
#include "base/digest.h"

enum { AT_ARTIFACT_MAX = 256 << 20 }; /* bytes: what claims to be larger is not read */

typedef struct at_artifact {
    char build[AT_DIGEST_TEXT_MAX]; /* at_build's digest */
    int compiler;                   /* 1000 * major + 10 * minor */
    size_t cubin_bytes;
    size_t log_bytes;     /* without the terminating zero */
    unsigned char *cubin; /* 64-byte aligned */
    char *log;            /* terminated */
} at_artifact;

/* Memory for a cubin and a log of these sizes, contents arbitrary. */
attune_status at_artifact_reserve(at_artifact *artifact, size_t cubin_bytes, size_t log_bytes);
void at_artifact_free(at_artifact *artifact);

/* As bytes that the caller frees. */
attune_status at_artifact_encode(const at_artifact *artifact, unsigned char **data, size_t *bytes);
/* Back again; ATTUNE_CORRUPT for anything that at_artifact_encode did not write. */
attune_status at_artifact_decode(const unsigned char *data, size_t bytes, at_artifact *artifact);

#endif
