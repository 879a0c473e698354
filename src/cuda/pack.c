#include "cuda/pack.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"

/* The file: a header, then for each artifact its bytes as a u64 and the bytes, each with its own digest. Reading checks
 * all of them, so that a damaged pack is refused when the context is created and not in the middle of production. */
typedef struct header {
    char magic[8];
    uint32_t version;
    uint32_t count;
} header;

static const char magic[8] = {'a', 't', 't', 'u', 'n', 'e', 'p', 'k'};
enum { VERSION = 1, COUNT_MAX = 1 << 16 };
static const size_t pack_max = (size_t)1 << 31;

struct at_pack {
    size_t count;
    at_artifact artifact[];
};

void at_pack_destroy(at_pack *pack)
{
    for (size_t i = 0; pack != NULL && i < pack->count; ++i) {
        at_artifact_free(&pack->artifact[i]);
    }
    free(pack);
}

size_t at_pack_count(const at_pack *pack)
{
    return pack == NULL ? 0 : pack->count;
}

static attune_status parse_entries(const unsigned char *data, size_t bytes, uint32_t count, at_pack *pack)
{
    for (uint32_t i = 0; i < count; ++i) {
        uint64_t size = 0;
        AT_FAIL_IF(bytes < sizeof size, ATTUNE_CORRUPT, "pack: ends before entry %u of %u", i + 1, count);
        memcpy(&size, data, sizeof size);
        data += sizeof size;
        bytes -= sizeof size;
        AT_FAIL_IF(size > bytes, ATTUNE_CORRUPT, "pack: entry %u of %u promises %llu bytes, %zu are left", i + 1, count,
                   (unsigned long long)size, bytes);
        attune_status status = at_artifact_decode(data, (size_t)size, &pack->artifact[i]);
        if (status != ATTUNE_OK) {
            return at_fail_in(status, "pack: entry %u of %u", i + 1, count);
        }
        ++pack->count;
        data += size;
        bytes -= (size_t)size;
    }
    AT_FAIL_IF(bytes != 0, ATTUNE_CORRUPT, "pack: %zu bytes behind the last entry", bytes);
    return ATTUNE_OK;
}

attune_status at_pack_parse(const unsigned char *data, size_t bytes, at_pack **pack)
{
    header head;
    *pack = NULL;
    AT_FAIL_IF(bytes < sizeof head, ATTUNE_CORRUPT, "pack: %zu bytes are too few", bytes);
    memcpy(&head, data, sizeof head);
    AT_FAIL_IF(memcmp(head.magic, magic, sizeof magic) != 0, ATTUNE_CORRUPT, "not a pack written by attune export");
    AT_FAIL_IF(head.version != VERSION, ATTUNE_CORRUPT, "pack of version %u, this attune reads %d: export it again",
               head.version, VERSION);
    AT_FAIL_IF(head.count > COUNT_MAX || head.count > bytes / sizeof(uint64_t), ATTUNE_CORRUPT,
               "pack: %u entries in %zu bytes", head.count, bytes);
    at_pack *made = calloc(1, sizeof *made + head.count * sizeof made->artifact[0]);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a pack of %u entries", head.count);
    attune_status status = parse_entries(data + sizeof head, bytes - sizeof head, head.count, made);
    if (status != ATTUNE_OK) {
        at_pack_destroy(made);
        return status;
    }
    *pack = made;
    return ATTUNE_OK;
}

attune_status at_pack_read(const char *path, at_pack **pack)
{
    void *data = NULL;
    size_t bytes = 0;
    *pack = NULL;
    AT_FORWARD(at_file_read(path, pack_max, &data, &bytes));
    attune_status status = at_pack_parse(data, bytes, pack);
    free(data);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "%s", path);
}

static attune_status copy_artifact(const at_artifact *from, at_artifact *to)
{
    AT_FORWARD(at_artifact_reserve(to, from->cubin_bytes, from->log_bytes));
    to->compiler = from->compiler;
    memcpy(to->build, from->build, sizeof to->build);
    memcpy(to->cubin, from->cubin, from->cubin_bytes);
    memcpy(to->log, from->log, from->log_bytes);
    return ATTUNE_OK;
}

bool at_pack_find(const at_pack *pack, const char *build, at_artifact *artifact)
{
    for (size_t i = 0; i < at_pack_count(pack); ++i) {
        if (strcmp(pack->artifact[i].build, build) == 0) {
            return copy_artifact(&pack->artifact[i], artifact) == ATTUNE_OK;
        }
    }
    return false;
}

static bool first_of_its_build(const at_artifact *artifacts, size_t index)
{
    for (size_t i = 0; i < index; ++i) {
        if (strcmp(artifacts[i].build, artifacts[index].build) == 0) {
            return false;
        }
    }
    return true;
}

static attune_status write_entry(at_writer *writer, const at_artifact *artifact)
{
    unsigned char *data = NULL;
    size_t bytes = 0;
    AT_FORWARD(at_artifact_encode(artifact, &data, &bytes));
    uint64_t size = bytes;
    attune_status status = at_writer_add(writer, &size, sizeof size);
    if (status == ATTUNE_OK) {
        status = at_writer_add(writer, data, bytes);
    }
    free(data);
    return status;
}

static attune_status write_entries(at_writer *writer, const at_artifact *artifacts, size_t count)
{
    header head = {.version = VERSION, .count = 0};
    memcpy(head.magic, magic, sizeof magic);
    for (size_t i = 0; i < count; ++i) {
        head.count += first_of_its_build(artifacts, i);
    }
    AT_FORWARD(at_writer_add(writer, &head, sizeof head));
    for (size_t i = 0; i < count; ++i) {
        if (first_of_its_build(artifacts, i)) {
            AT_FORWARD(write_entry(writer, &artifacts[i]));
        }
    }
    return ATTUNE_OK;
}

attune_status at_pack_write(const char *path, const at_artifact *artifacts, size_t count)
{
    at_writer *writer = NULL;
    AT_FAIL_IF(count > COUNT_MAX, ATTUNE_INVALID_ARGUMENT, "a pack of %zu entries, at most %d", count, COUNT_MAX);
    AT_FORWARD(at_writer_open(path, &writer));
    attune_status status = write_entries(writer, artifacts, count);
    if (status != ATTUNE_OK) {
        at_writer_abandon(writer);
        return status;
    }
    return at_writer_commit(writer);
}
