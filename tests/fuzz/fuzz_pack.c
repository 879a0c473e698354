/* Any bytes are read as a pack of compiled kernels, or as one of them, or refused; what was read as one encodes to the
 * same bytes. */
#include <stdlib.h>
#include <string.h>

#include "cuda/pack.h"

/* A digest that fits, so that more than the first look at an entry is tried: the last bytes of the only entry. */
static at_pack *parse_repaired(const uint8_t *data, size_t size)
{
    enum { HEAD = 16 + 8 };
    at_pack *pack = NULL;
    unsigned char *copy = size < HEAD + AT_DIGEST_BYTES ? NULL : malloc(size);
    if (copy == NULL) {
        return NULL;
    }
    at_sha256 sha;
    memcpy(copy, data, size);
    at_sha256_init(&sha);
    at_sha256_add(&sha, copy + HEAD, size - HEAD - AT_DIGEST_BYTES);
    at_sha256_end(&sha, copy + size - AT_DIGEST_BYTES);
    if (at_pack_parse(copy, size, &pack) != ATTUNE_OK) {
        pack = NULL;
    }
    free(copy);
    return pack;
}

static void look_up(const at_pack *pack)
{
    at_artifact artifact;
    if (at_pack_find(pack, "0123456789012345678901234567890123456789012345678901234567890123", &artifact)) {
        at_artifact_free(&artifact);
    }
}

static void encode_again(const uint8_t *data, size_t size)
{
    at_artifact artifact;
    unsigned char *again = NULL;
    size_t bytes = 0;
    if (at_artifact_decode(data, size, &artifact) != ATTUNE_OK) {
        return;
    }
    if (at_artifact_encode(&artifact, &again, &bytes) != ATTUNE_OK || bytes != size || memcmp(again, data, size) != 0) {
        abort();
    }
    free(again);
    at_artifact_free(&artifact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    at_pack *pack = NULL;
    if (at_pack_parse(data, size, &pack) == ATTUNE_OK) {
        look_up(pack);
        at_pack_destroy(pack);
    }
    pack = parse_repaired(data, size);
    look_up(pack);
    at_pack_destroy(pack);
    encode_again(data, size);
    return 0;
}
