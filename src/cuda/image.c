#include "cuda/image.h"

#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "cuda/cubin.h"

/* NOTE: NVIDIA's fatbin, as far as it is used here, found by looking at what nvcc 13.0 writes: a head, then entries of
 * a head of their own (whose size it says) and a payload; kind 1 is PTX, kind 2 a cubin. Payloads may be compressed,
 * which a flag and the size without compression show; attune builds its images without. */
enum { KIND_PTX = 1, KIND_CUBIN = 2, FLAGS_COMPRESSED = 0x2000 | 0x8000 };

static const uint32_t fatbin_magic = 0xba55ed50U;

typedef struct fatbin_head {
    uint32_t magic;
    uint16_t version;
    uint16_t head_bytes;
    uint64_t bytes; /* of all entries */
} fatbin_head;

typedef struct fatbin_entry {
    uint16_t kind;
    uint16_t unknown;
    uint32_t head_bytes;
    uint64_t bytes;            /* of the payload */
    uint32_t compressed_bytes; /* 0 where it is not compressed */
    uint32_t rest[5];
    uint64_t flags;
} fatbin_entry;

static attune_status read_head(const void *data, size_t bytes, fatbin_head *head)
{
    AT_FAIL_IF(bytes < sizeof *head, ATTUNE_CORRUPT, "fatbin: %zu bytes are too few", bytes);
    memcpy(head, data, sizeof *head);
    AT_FAIL_IF(head->magic != fatbin_magic || head->version != 1 || head->head_bytes < sizeof *head, ATTUNE_CORRUPT,
               "not a fatbin: it begins with %08x, version %u", head->magic, head->version);
    AT_FAIL_IF(head->head_bytes > bytes || head->bytes > bytes - head->head_bytes, ATTUNE_CORRUPT,
               "fatbin: it says %llu bytes, %zu are there", (unsigned long long)head->bytes, bytes);
    return ATTUNE_OK;
}

/* The entry at the beginning of the `left` bytes. */
static attune_status read_entry(const unsigned char *at, uint64_t left, fatbin_entry *entry)
{
    AT_FAIL_IF(left < sizeof *entry, ATTUNE_CORRUPT, "fatbin: an entry's head is cut off");
    memcpy(entry, at, sizeof *entry);
    AT_FAIL_IF(entry->head_bytes < sizeof *entry || entry->head_bytes > left ||
                   entry->bytes > left - entry->head_bytes || entry->head_bytes + entry->bytes == 0,
               ATTUNE_CORRUPT, "fatbin: an entry of %u + %llu bytes, %llu are left", entry->head_bytes,
               (unsigned long long)entry->bytes, (unsigned long long)left);
    return ATTUNE_OK;
}

/* The architecture that PTX says it is for; 0 where it says none. */
static int32_t arch_of_ptx(const unsigned char *data, size_t bytes)
{
    static const char before[] = ".target sm_";
    const unsigned char *at = memmem(data, bytes, before, sizeof before - 1);
    int32_t arch = 0;
    for (at = at == NULL ? data + bytes : at + sizeof before - 1; at < data + bytes && arch < 1000; ++at) {
        if (*at < '0' || *at > '9') {
            break;
        }
        arch = 10 * arch + (*at - '0');
    }
    return arch;
}

static attune_status describe(const fatbin_entry *entry, const unsigned char *data, at_image_code *code)
{
    at_cubin cubin = {0};
    AT_FAIL_IF(entry->compressed_bytes != 0 || (entry->flags & FLAGS_COMPRESSED) != 0, ATTUNE_CORRUPT,
               "fatbin: compressed code; build it with nvcc --no-compress");
    if (entry->kind == KIND_PTX) {
        cubin.arch = arch_of_ptx(data, entry->bytes);
        AT_FAIL_IF(cubin.arch == 0, ATTUNE_CORRUPT, "fatbin: PTX for no architecture");
    } else {
        AT_FORWARD(at_cubin_inspect(data, entry->bytes, NULL, &cubin));
    }
    *code = (at_image_code){data, entry->bytes, cubin.arch};
    return ATTUNE_OK;
}

/* The index-th entry of this kind. */
static attune_status entry_at(const void *data, size_t bytes, int kind, int index, at_image_code *code)
{
    fatbin_head head;
    AT_FORWARD(read_head(data, bytes, &head));
    const unsigned char *at = (const unsigned char *)data + head.head_bytes;
    for (uint64_t left = head.bytes; left > 0;) {
        fatbin_entry entry;
        AT_FORWARD(read_entry(at, left, &entry));
        if (entry.kind == kind && index-- == 0) {
            return describe(&entry, at + entry.head_bytes, code);
        }
        at += entry.head_bytes + entry.bytes;
        left -= entry.head_bytes + entry.bytes;
    }
    return at_fail(ATTUNE_NOT_FOUND, "fatbin: no more code");
}

attune_status at_image_code_at(const void *data, size_t bytes, int index, at_image_code *code)
{
    return entry_at(data, bytes, KIND_CUBIN, index, code);
}

attune_status at_image_ptx(const at_embedded *image, const attune_target *target, at_image_code *code)
{
    at_image_code one;
    attune_status status;
    *code = (at_image_code){NULL, 0, 0};
    for (int i = 0; (status = entry_at(image->data, image->size, KIND_PTX, i, &one)) == ATTUNE_OK; ++i) {
        if (one.arch <= target->arch && one.arch > code->arch) {
            *code = one;
        }
    }
    if (status != ATTUNE_NOT_FOUND) {
        return at_fail_in(status, "%s", image->name);
    }
    AT_FAIL_IF(code->data == NULL, ATTUNE_NOT_FOUND, "%s has no PTX for sm_%d", image->name, (int)target->arch);
    return ATTUNE_OK;
}

attune_status at_image_choose(const at_embedded *image, const attune_target *target, at_image_code *code)
{
    char there[120] = "";
    at_text list;
    at_image_code one;
    attune_status status;
    int count = 0;
    *code = (at_image_code){NULL, 0, 0};
    at_text_init_fixed(&list, there, sizeof there);
    for (; (status = at_image_code_at(image->data, image->size, count, &one)) == ATTUNE_OK; ++count) {
        at_text_add(&list, " sm_%d", (int)one.arch);
        if (one.arch / 10 == target->arch / 10 && one.arch <= target->arch && one.arch > code->arch) {
            *code = one;
        }
    }
    if (status != ATTUNE_NOT_FOUND) {
        return at_fail_in(status, "%s", image->name);
    }
    AT_FAIL_IF(code->data == NULL, ATTUNE_UNSUPPORTED, "%s has code for%s, the device is sm_%d", image->name,
               count > 0 ? there : " nothing", (int)target->arch);
    return ATTUNE_OK;
}
