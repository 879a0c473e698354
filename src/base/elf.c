#include "base/elf.h"

#include <string.h>

#include "base/status.h"

static const void *piece(const at_elf *file, uint64_t offset, uint64_t bytes)
{
    return offset > file->bytes || bytes > file->bytes - offset ? NULL : file->data + offset;
}

const unsigned char *at_elf_content(const at_elf *file, const Elf64_Shdr *section)
{
    return section->sh_type == SHT_NOBITS ? NULL : piece(file, section->sh_offset, section->sh_size);
}

attune_status at_elf_section(const at_elf *file, uint32_t index, Elf64_Shdr *section)
{
    AT_FAIL_IF(index >= file->head.e_shnum, ATTUNE_CORRUPT, "%s: section %u of %u", file->what, index,
               file->head.e_shnum);
    const void *at = piece(file, file->head.e_shoff + (uint64_t)index * sizeof *section, sizeof *section);
    AT_FAIL_IF(at == NULL, ATTUNE_CORRUPT, "%s: section %u lies beyond the end", file->what, index);
    memcpy(section, at, sizeof *section);
    AT_FAIL_IF(section->sh_type != SHT_NOBITS && section->sh_type != SHT_NULL &&
                   piece(file, section->sh_offset, section->sh_size) == NULL,
               ATTUNE_CORRUPT, "%s: the content of section %u lies beyond the end", file->what, index);
    return ATTUNE_OK;
}

static attune_status string_table(const at_elf *file, uint32_t index, const char **strings, uint64_t *bytes)
{
    Elf64_Shdr section;
    AT_FORWARD(at_elf_section(file, index, &section));
    AT_FAIL_IF(section.sh_type != SHT_STRTAB || section.sh_size == 0, ATTUNE_CORRUPT,
               "%s: section %u is no table of strings", file->what, index);
    *strings = piece(file, section.sh_offset, section.sh_size);
    *bytes = section.sh_size;
    AT_FAIL_IF((*strings)[*bytes - 1] != '\0', ATTUNE_CORRUPT, "%s: strings without an end", file->what);
    return ATTUNE_OK;
}

static const char *string_at(const char *strings, uint64_t bytes, uint32_t offset)
{
    return offset < bytes ? strings + offset : "";
}

const char *at_elf_section_name(const at_elf *file, const Elf64_Shdr *section)
{
    return string_at(file->names, file->names_bytes, section->sh_name);
}

uint64_t at_elf_symbol_count(const at_elf *file)
{
    return file->symbols.sh_size / sizeof(Elf64_Sym);
}

Elf64_Sym at_elf_symbol(const at_elf *file, uint64_t index)
{
    Elf64_Sym symbol;
    memcpy(&symbol, file->data + file->symbols.sh_offset + index * sizeof symbol, sizeof symbol);
    return symbol;
}

const char *at_elf_symbol_name(const at_elf *file, const Elf64_Sym *symbol)
{
    return string_at(file->strings, file->strings_bytes, symbol->st_name);
}

attune_status at_elf_open(const char *what, uint32_t machine, const void *data, size_t bytes, at_elf *file)
{
    *file = (at_elf){.what = what, .data = data, .bytes = bytes};
    AT_FAIL_IF(bytes < sizeof file->head, ATTUNE_CORRUPT, "%s: %zu bytes are too few", what, bytes);
    memcpy(&file->head, data, sizeof file->head);
    const Elf64_Ehdr *head = &file->head;
    AT_FAIL_IF(memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64 ||
                   head->e_machine != machine,
               ATTUNE_CORRUPT, "not a %s: no 64-bit ELF file of machine %u", what, machine);
    AT_FAIL_IF(head->e_shentsize != sizeof(Elf64_Shdr) || head->e_shnum == 0, ATTUNE_CORRUPT,
               "%s: %u sections of %u bytes", what, head->e_shnum, head->e_shentsize);
    AT_FORWARD(string_table(file, head->e_shstrndx, &file->names, &file->names_bytes));
    for (uint32_t i = 1; i < head->e_shnum; ++i) {
        Elf64_Shdr section;
        AT_FORWARD(at_elf_section(file, i, &section));
        if (section.sh_type == SHT_SYMTAB) {
            file->symbols = section;
            return string_table(file, section.sh_link, &file->strings, &file->strings_bytes);
        }
    }
    return at_fail(ATTUNE_CORRUPT, "%s: no table of symbols", what);
}
