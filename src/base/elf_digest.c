/* Each covered piece (section, relocation list, offered symbol) gives a digest of its own; these are sorted, so that
 * the order in which a tool wrote the pieces does not matter. */
#include <stdlib.h>
#include <string.h>

#include "base/elf.h"
#include "base/status.h"

typedef struct pieces {
    unsigned char (*digest)[AT_DIGEST_BYTES];
    size_t count, room;
} pieces;

static void add_number(at_sha256 *sha, uint64_t value)
{
    at_sha256_add(sha, &value, sizeof value);
}

static void add_text(at_sha256 *sha, const char *text)
{
    at_sha256_add(sha, text, strlen(text) + 1);
}

static attune_status add_piece(pieces *all, at_sha256 *sha)
{
    if (all->count == all->room) {
        size_t room = all->room > 0 ? 2 * all->room : 32;
        void *grown = realloc(all->digest, room * sizeof *all->digest);
        AT_FAIL_IF(grown == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a digest of %zu pieces", room);
        all->digest = grown;
        all->room = room;
    }
    at_sha256_end(sha, all->digest[all->count++]);
    return ATTUNE_OK;
}

/* ---- Symbols ----------------------------------------------------------------------------------------------------- */

/* The section that a symbol lies in; false for symbols without one. */
static bool section_of(const at_elf *file, const Elf64_Sym *symbol, Elf64_Shdr *section)
{
    return symbol->st_shndx != SHN_UNDEF && symbol->st_shndx < SHN_LORESERVE &&
           at_elf_section(file, symbol->st_shndx, section) == ATTUNE_OK;
}

void at_elf_add_symbol(const at_elf *file, uint64_t index, at_sha256 *sha)
{
    Elf64_Shdr section;
    if (index >= at_elf_symbol_count(file)) {
        add_number(sha, index);
        return;
    }
    Elf64_Sym symbol = at_elf_symbol(file, index);
    bool inside = section_of(file, &symbol, &section);
    add_text(sha, inside ? at_elf_section_name(file, &section) : at_elf_symbol_name(file, &symbol));
    add_number(sha, inside ? UINT64_MAX : symbol.st_shndx);
    add_number(sha, symbol.st_value);
    add_number(sha, ELF64_ST_TYPE(symbol.st_info));
}

/* What others can call or read by name. */
static attune_status add_offered(const at_elf *file, const at_elf_rules *rules, pieces *all)
{
    for (uint64_t i = 1; i < at_elf_symbol_count(file); ++i) {
        Elf64_Sym symbol = at_elf_symbol(file, i);
        Elf64_Shdr section;
        if (ELF64_ST_BIND(symbol.st_info) == STB_LOCAL || !section_of(file, &symbol, &section) ||
            !rules->covers(file, at_elf_section_name(file, &section), &section)) {
            continue;
        }
        at_sha256 sha;
        at_sha256_init(&sha);
        add_text(&sha, "symbol");
        add_text(&sha, at_elf_symbol_name(file, &symbol));
        at_elf_add_symbol(file, i, &sha);
        add_number(&sha, symbol.st_size);
        add_number(&sha, (uint64_t)symbol.st_info << 8 | symbol.st_other);
        AT_FORWARD(add_piece(all, &sha));
    }
    return ATTUNE_OK;
}

/* ---- Sections ---------------------------------------------------------------------------------------------------- */

static void add_relocations(const at_elf *file, const Elf64_Shdr *section, at_sha256 *sha)
{
    const unsigned char *at = at_elf_content(file, section);
    size_t step = section->sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
    for (uint64_t left = at == NULL ? 0 : section->sh_size; left >= step; left -= step, at += step) {
        Elf64_Rela one = {0};
        memcpy(&one, at, step);
        add_number(sha, one.r_offset);
        add_number(sha, ELF64_R_TYPE(one.r_info));
        add_number(sha, (uint64_t)one.r_addend);
        at_elf_add_symbol(file, ELF64_R_SYM(one.r_info), sha);
    }
}

static void add_content(const at_elf *file, const at_elf_rules *rules, const char *name, const Elf64_Shdr *section,
                        at_sha256 *sha)
{
    const unsigned char *content = at_elf_content(file, section);
    add_text(sha, "section");
    add_text(sha, name);
    add_number(sha, section->sh_type);
    add_number(sha, section->sh_flags);
    add_number(sha, section->sh_addralign);
    if (rules->add_content == NULL || !rules->add_content(file, name, section, sha)) {
        add_number(sha, section->sh_size);
        at_sha256_add(sha, content, content == NULL ? 0 : section->sh_size);
    }
}

/* The section that a list of relocations is for; the section itself where it is none. */
static attune_status find_subject(const at_elf *file, const Elf64_Shdr *section, Elf64_Shdr *subject)
{
    *subject = *section;
    bool list = section->sh_type == SHT_RELA || section->sh_type == SHT_REL;
    return list ? at_elf_section(file, section->sh_info, subject) : ATTUNE_OK;
}

static attune_status add_section(const at_elf *file, const at_elf_rules *rules, uint32_t index, pieces *all)
{
    Elf64_Shdr section, subject;
    at_sha256 sha;
    AT_FORWARD(at_elf_section(file, index, &section));
    AT_FORWARD(find_subject(file, &section, &subject));
    const char *name = at_elf_section_name(file, &subject);
    bool list = section.sh_type == SHT_RELA || section.sh_type == SHT_REL;
    if (!rules->covers(file, name, &subject) || (list && section.sh_size == 0)) {
        return ATTUNE_OK;
    }
    at_sha256_init(&sha);
    if (list) {
        add_text(&sha, "relocations");
        add_text(&sha, name);
        add_relocations(file, &section, &sha);
    } else {
        add_content(file, rules, name, &section, &sha);
    }
    return add_piece(all, &sha);
}

static int by_bytes(const void *left, const void *right)
{
    return memcmp(left, right, AT_DIGEST_BYTES);
}

static void add_head(const at_elf *file, const at_elf_rules *rules, at_sha256 *sha)
{
    add_number(sha, file->head.e_machine);
    add_number(sha, file->head.e_type);
    add_number(sha, file->head.e_flags & rules->flags);
    add_number(sha, (uint64_t)file->head.e_ident[EI_OSABI] << 8 | file->head.e_ident[EI_ABIVERSION]);
}

attune_status at_elf_digest(const at_elf *file, const at_elf_rules *rules, char digest[AT_DIGEST_TEXT_MAX])
{
    pieces all = {0};
    unsigned char bytes[AT_DIGEST_BYTES];
    at_sha256 sha;
    attune_status status = ATTUNE_OK;
    for (uint32_t i = 1; i < file->head.e_shnum && status == ATTUNE_OK; ++i) {
        status = add_section(file, rules, i, &all);
    }
    status = status == ATTUNE_OK ? add_offered(file, rules, &all) : status;
    if (status == ATTUNE_OK) {
        at_sha256_init(&sha);
        add_head(file, rules, &sha);
        if (all.count > 0) {
            qsort(all.digest, all.count, sizeof *all.digest, by_bytes);
            at_sha256_add(&sha, all.digest, all.count * sizeof *all.digest);
        }
        at_sha256_end(&sha, bytes);
        at_digest_text(bytes, digest);
    }
    free(all.digest);
    return status;
}
