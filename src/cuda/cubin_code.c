/* What of a cubin is loaded and run, as a digest. docs/evidence.md says what it covers. */
#include <string.h>

#include "base/elf.h"
#include "base/status.h"
#include "cuda/cubin.h"
#include "cuda/cubin_elf.h"

/* NOTE: attributes that name functions and banks by their index among the symbols, found by looking at what NVRTC 13.0
 * writes. An index in any other attribute is covered as it is, which at worst takes equal code for different. */
enum { INFO_PARAM_BANK = 0x0a, INFO_EXTERNS = 0x0f, INFO_STACK_MOST = 0x23 };

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* ---- Attributes -------------------------------------------------------------------------------------------------- */

/* How many of an attribute's words are symbols. */
static uint32_t symbols_of(int attribute, uint32_t bytes)
{
    switch (attribute) {
    case INFO_EXTERNS:
        return bytes / 4;
    case INFO_PARAM_BANK:
    case AT_INFO_FRAME_SIZE:
    case AT_INFO_MIN_STACK:
    case INFO_STACK_MOST:
    case AT_INFO_REGISTERS:
        return bytes >= 4 ? 1 : 0;
    default:
        return 0;
    }
}

static void add_attribute(const at_elf *file, const unsigned char *at, uint32_t bytes, at_sha256 *sha)
{
    uint32_t symbols = symbols_of(at[1], bytes);
    at_sha256_add(sha, at, 4);
    for (uint32_t i = 0; i < symbols; ++i) {
        uint32_t index;
        memcpy(&index, at + 4 + 4 * i, sizeof index);
        at_elf_add_symbol(file, index, sha);
    }
    at_sha256_add(sha, at + 4 + 4 * symbols, bytes - 4 * symbols);
}

static void add_attributes(const at_elf *file, const Elf64_Shdr *section, at_sha256 *sha)
{
    const unsigned char *at = at_elf_content(file, section);
    uint64_t left = at == NULL ? 0 : section->sh_size;
    while (left >= 4) {
        uint32_t size = at[0] == AT_INFO_SIZED ? (uint32_t)at[2] | (uint32_t)at[3] << 8 : 0;
        size = size > left - 4 ? (uint32_t)left - 4 : size;
        add_attribute(file, at, size, sha);
        at += 4 + size;
        left -= 4 + size;
    }
    at_sha256_add(sha, &section->sh_size, sizeof section->sh_size);
}

static bool add_content(const at_elf *file, const char *name, const Elf64_Shdr *section, at_sha256 *sha)
{
    if (!starts(name, ".nv.info")) {
        return false;
    }
    add_attributes(file, section, sha);
    return true;
}

/* ---- Sections ---------------------------------------------------------------------------------------------------- */

/* Names, line tables, notes, unwinding, what linkers alone read, and the second form of the code (Mercury) that sm_100
 * and later carry for other architectures. */
static bool covers(const at_elf *file, const char *name, const Elf64_Shdr *section)
{
    static const char *const others[] = {".debug",         ".nv_debug", ".note",       ".nv.callgraph",
                                         ".nv.rel.action", ".nv.merc.", ".nv.capmerc."};
    (void)file;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; ++i) {
        if (starts(name, others[i])) {
            return false;
        }
    }
    return section->sh_type != SHT_STRTAB && section->sh_type != SHT_SYMTAB && section->sh_type != SHT_NULL;
}

static bool refers_to_global(const at_elf *file, uint64_t index)
{
    Elf64_Shdr section;
    if (index >= at_elf_symbol_count(file)) {
        return false;
    }
    Elf64_Sym symbol = at_elf_symbol(file, index);
    return symbol.st_shndx != SHN_UNDEF && at_elf_section(file, symbol.st_shndx, &section) == ATTUNE_OK &&
           starts(at_elf_section_name(file, &section), ".nv.global");
}

/* How many relocations a list has; 0 where one of them is not to a device global. */
static uint64_t count_globals(const at_elf *file, const Elf64_Shdr *list)
{
    const unsigned char *at = at_elf_content(file, list);
    uint64_t step = list->sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
    uint64_t count = at == NULL ? 0 : list->sh_size / step;
    for (uint64_t i = 0; i < count; ++i) {
        Elf64_Rel one;
        memcpy(&one, at + i * step, sizeof one);
        if (!refers_to_global(file, ELF64_R_SYM(one.r_info))) {
            return 0;
        }
    }
    return count;
}

/* Whether all that a bank holds are addresses of device globals. */
static bool holds_globals_alone(const at_elf *file, const char *bank, uint64_t bytes)
{
    uint64_t addresses = 0;
    for (uint32_t i = 1; i < file->head.e_shnum; ++i) {
        Elf64_Shdr list, subject;
        if (at_elf_section(file, i, &list) == ATTUNE_OK && (list.sh_type == SHT_RELA || list.sh_type == SHT_REL) &&
            at_elf_section(file, list.sh_info, &subject) == ATTUNE_OK &&
            strcmp(at_elf_section_name(file, &subject), bank) == 0) {
            addresses += count_globals(file, &list);
        }
    }
    return 8 * addresses == bytes;
}

/* NOTE: every namespace-scope constexpr is a global, with its address in bank 4, used or not (cuda/ptx.h). Where the
 * compilation's log says that none is used, nothing that runs reaches them. */
static bool covers_without_globals(const at_elf *file, const char *name, const Elf64_Shdr *section)
{
    return covers(file, name, section) && !starts(name, ".nv.global") &&
           (strcmp(name, ".nv.constant4") != 0 || !holds_globals_alone(file, name, section->sh_size));
}

attune_status at_cubin_code(const void *data, size_t bytes, const char *log, char digest[AT_DIGEST_TEXT_MAX])
{
    at_cubin cubin;
    at_elf file;
    AT_FORWARD(at_cubin_inspect(data, bytes, log, &cubin));
    AT_FORWARD(at_elf_open("cubin", AT_MACHINE_CUDA, data, bytes, &file));
    /* NOTE: of ABI 8 the flags' last byte is the number of a section of notes, which line tables move. */
    const at_elf_rules rules = {.flags = file.head.e_ident[EI_ABIVERSION] >= 8 ? 0xffffff : UINT32_MAX,
                                .covers = cubin.globals[0] == '\0' ? covers_without_globals : covers,
                                .add_content = add_content};
    return at_elf_digest(&file, &rules, digest);
}
