/* code_digests OUTPUT OBJECT...: writes a C file with the digest of the machine code in each object of a CPU kernel,
 * .../attune_cpu_TIER.dir/.../NAME.kernel.c.o, for the library to know what it runs (src/cpu/source.h). The build calls
 * it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/elf.h"
#include "base/file.h"
#include "base/text.h"

enum { OBJECT_BYTES_MAX = 64 << 20 };

/* What is loaded, without what unwinders and linkers alone read. */
static bool covers(const at_elf *file, const char *name, const Elf64_Shdr *section)
{
    (void)file;
    return (section->sh_flags & SHF_ALLOC) != 0 && section->sh_type != SHT_NOTE && strncmp(name, ".eh_frame", 9) != 0;
}

static attune_status digest_object(const void *data, size_t bytes, char digest[AT_DIGEST_TEXT_MAX])
{
    static const at_elf_rules rules = {.flags = UINT32_MAX, .covers = covers};
    Elf64_Ehdr head = {.e_machine = 0};
    at_elf file;
    memcpy(&head, data, bytes < sizeof head ? bytes : sizeof head);
    attune_status status = at_elf_open("object", head.e_machine, data, bytes, &file);
    return status == ATTUNE_OK ? at_elf_digest(&file, &rules, digest) : status;
}

/* A part of the path: what lies between two texts. */
static bool part(const char *path, const char *before, const char *behind, int *length, const char **begin)
{
    const char *at = strstr(path, before);
    const char *end = at == NULL ? NULL : strstr(at + strlen(before), behind);
    *begin = at == NULL ? NULL : at + strlen(before);
    *length = end == NULL ? 0 : (int)(end - *begin);
    return *length > 0;
}

static attune_status add_object(const char *path, at_text *text)
{
    void *data = NULL;
    size_t bytes = 0;
    char digest[AT_DIGEST_TEXT_MAX];
    const char *tier, *name;
    int tier_length, name_length;
    if (!part(path, "attune_cpu_", ".dir/", &tier_length, &tier) ||
        !part(path, "kernels/cpu/", ".kernel.c", &name_length, &name)) {
        return ATTUNE_OK; /* no kernel's */
    }
    attune_status status = at_file_read(path, OBJECT_BYTES_MAX, &data, &bytes);
    status = status == ATTUNE_OK ? digest_object(data, bytes, digest) : status;
    if (status == ATTUNE_OK) {
        at_text_add(text, "    {\"%.*s\", \"%.*s\", \"%s\"},\n", name_length, name, tier_length, tier, digest);
    }
    free(data);
    return status;
}

int main(int count, char **argument)
{
    at_text text;
    at_text_init(&text);
    at_text_add(&text, "/* Written by tools/code_digests.c. */\n#include \"cpu/source.h\"\n\n"
                       "const at_cpu_code at_cpu_codes[] = {\n");
    attune_status status = count > 1 ? ATTUNE_OK : ATTUNE_INVALID_ARGUMENT;
    for (int i = 2; i < count && status == ATTUNE_OK; ++i) {
        status = add_object(argument[i], &text);
    }
    at_text_add(&text, "    {NULL, NULL, NULL},\n};\n");
    status = status == ATTUNE_OK ? at_text_status(&text, "the digests") : status;
    status = status == ATTUNE_OK ? at_file_write(argument[1], text.data, text.length) : status;
    at_text_free(&text);
    if (status != ATTUNE_OK) {
        (void)fprintf(stderr, "code_digests: %s\n", attune_last_detail());
    }
    return status == ATTUNE_OK ? 0 : 1;
}
