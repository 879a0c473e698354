/* Reading 64-bit ELF files that nobody vouches for: every offset, size and index is checked. And the digest of the code
 * in them, which names, line tables and the order of sections do not change. */
#ifndef BASE_ELF_H
#define BASE_ELF_H

#include <elf.h>
#include <stdbool.h>

#include "attune/attune.h"
#include "base/digest.h"

typedef struct at_elf {
    const char *what; /* for messages: "cubin" */
    const unsigned char *data;
    size_t bytes;
    Elf64_Ehdr head;
    const char *names; /* of sections; ends with a zero */
    uint64_t names_bytes;
    Elf64_Shdr symbols;
    const char *strings; /* of symbols */
    uint64_t strings_bytes;
} at_elf;

/* `data` must outlive the reader. ATTUNE_CORRUPT for what is no sound file of this machine with a table of symbols. */
attune_status at_elf_open(const char *what, uint32_t machine, const void *data, size_t bytes, at_elf *file);

/* ATTUNE_CORRUPT where there is no such section, or its content lies beyond the end. */
attune_status at_elf_section(const at_elf *file, uint32_t index, Elf64_Shdr *section);
/* NULL where it has none in the file. */
const unsigned char *at_elf_content(const at_elf *file, const Elf64_Shdr *section);
const char *at_elf_section_name(const at_elf *file, const Elf64_Shdr *section);

uint64_t at_elf_symbol_count(const at_elf *file);
Elf64_Sym at_elf_symbol(const at_elf *file, uint64_t index);
const char *at_elf_symbol_name(const at_elf *file, const Elf64_Sym *symbol);

/* ---- Digest of the code ------------------------------------------------------------------------------------------ */

/* What a digest covers. */
typedef struct at_elf_rules {
    uint32_t flags; /* bits of the head's e_flags that are covered */
    /* Whether a section is part of what is loaded and run; its relocations then are too. */
    bool (*covers)(const at_elf *file, const char *name, const Elf64_Shdr *section);
    /* Adds a content that is not taken as it is, and says true; NULL where all are. */
    bool (*add_content)(const at_elf *file, const char *name, const Elf64_Shdr *section, at_sha256 *sha);
} at_elf_rules;

/* Adds what a symbol refers to: section and value, or its name where the file does not define it. */
void at_elf_add_symbol(const at_elf *file, uint64_t index, at_sha256 *sha);

/* Of the covered sections (name, kind, alignment, content), their relocations by what these refer to, and the symbols
 * that the file offers to others. Other names, the order of sections, and sections that are not covered do not matter.
 */
attune_status at_elf_digest(const at_elf *file, const at_elf_rules *rules, char digest[AT_DIGEST_TEXT_MAX]);

#endif
