#include "cuda/cubin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/elf.h"
#include "base/status.h"
#include "cuda/cubin_elf.h"
#include "cuda/ptx.h"

enum { SMEM_RESERVED = 1024 };

/* ---- Symbols: entries, and what must not be there -------------------------------------------------------------------
 */

static void keep_name(char kept[AT_CUBIN_NAME_MAX], const char *name)
{
    (void)snprintf(kept, AT_CUBIN_NAME_MAX, "%s", name);
}

static attune_status add_entry(at_cubin *cubin, const char *name)
{
    AT_FAIL_IF(cubin->entry_count == AT_CUBIN_ENTRIES_MAX, ATTUNE_UNSUPPORTED, "cubin: more than %d entries",
               AT_CUBIN_ENTRIES_MAX);
    AT_FAIL_IF(strlen(name) >= AT_CUBIN_NAME_MAX, ATTUNE_UNSUPPORTED, "cubin: an entry's name of %zu bytes, at most %d",
               strlen(name), AT_CUBIN_NAME_MAX - 1);
    at_cubin_entry *entry = &cubin->entry[cubin->entry_count++];
    *entry = (at_cubin_entry){.spill_bytes = -1};
    keep_name(entry->name, name);
    return ATTUNE_OK;
}

/* The linker's own marks for the shared memory that the system reserves; the driver fills them in. */
static bool reserved_by_system(const Elf64_Sym *symbol, const char *name)
{
    return ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && strncmp(name, ".nv.reservedSmem.", 17) == 0;
}

static attune_status read_symbols(const at_elf *file, at_cubin *cubin)
{
    for (uint64_t i = 1; i < at_elf_symbol_count(file); ++i) {
        Elf64_Sym symbol = at_elf_symbol(file, i);
        const char *name = at_elf_symbol_name(file, &symbol);
        if (symbol.st_shndx == SHN_UNDEF && name[0] != '\0' && !reserved_by_system(&symbol, name)) {
            keep_name(cubin->undefined_name, name);
        }
        if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF &&
            (symbol.st_other & AT_CUBIN_ENTRY) != 0) {
            AT_FORWARD(add_entry(cubin, name));
        }
    }
    return ATTUNE_OK;
}

static at_cubin_entry *entry_named(at_cubin *cubin, const char *name)
{
    for (int i = 0; i < cubin->entry_count; ++i) {
        if (strcmp(cubin->entry[i].name, name) == 0) {
            return &cubin->entry[i];
        }
    }
    return NULL;
}

const at_cubin_entry *at_cubin_find(const at_cubin *cubin, const char *name)
{
    for (int i = 0; i < cubin->entry_count; ++i) {
        if (strcmp(cubin->entry[i].name, name) == 0) {
            return &cubin->entry[i];
        }
    }
    return NULL;
}

/* The first variable in a section of globals, or the section's name; and how many there are. */
static void take_globals(const at_elf *file, uint32_t index, const char *section, at_cubin *cubin)
{
    const int before = cubin->global_count;
    keep_name(cubin->globals, section);
    for (uint64_t i = 1; i < at_elf_symbol_count(file); ++i) {
        Elf64_Sym symbol = at_elf_symbol(file, i);
        if (symbol.st_shndx == index && ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT &&
            cubin->global_count++ == before) {
            keep_name(cubin->globals, at_elf_symbol_name(file, &symbol));
        }
    }
}

/* ---- .nv.info -------------------------------------------------------------------------------------------------------
 */

static uint32_t word(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static at_cubin_entry *entry_of_symbol(const at_elf *file, at_cubin *cubin, uint32_t index)
{
    if (index >= at_elf_symbol_count(file)) {
        return NULL;
    }
    Elf64_Sym symbol = at_elf_symbol(file, index);
    return entry_named(cubin, at_elf_symbol_name(file, &symbol));
}

/* An attribute of the whole file names its function by symbol. */
static void read_file_attribute(const at_elf *file, at_cubin *cubin, int attribute, const unsigned char *payload,
                                uint32_t bytes)
{
    at_cubin_entry *entry = bytes >= 8 ? entry_of_symbol(file, cubin, word(payload)) : NULL;
    if (entry != NULL && attribute == AT_INFO_REGISTERS) {
        entry->registers = (int32_t)word(payload + 4);
    } else if (entry != NULL && attribute == AT_INFO_FRAME_SIZE) {
        entry->local_bytes = (int32_t)word(payload + 4);
        entry->stack_bytes = larger(entry->stack_bytes, entry->local_bytes);
    } else if (entry != NULL && attribute == AT_INFO_MIN_STACK) {
        uint32_t stack = word(payload + 4);
        entry->stack_bytes = larger(entry->stack_bytes, stack > INT32_MAX ? INT32_MAX : (int32_t)stack);
    }
}

static void read_entry_attribute(at_cubin_entry *entry, int attribute, const unsigned char *payload, uint32_t bytes)
{
    if (attribute == AT_INFO_PARAM && bytes >= 12) {
        ++entry->param_count;
        entry->param_bytes = (int32_t)(word(payload + 8) >> 18);
    } else if (attribute == AT_INFO_MAX_THREADS && bytes >= 12) {
        uint64_t threads = (uint64_t)word(payload) * word(payload + 4);
        threads = threads > 65536 ? threads : threads * word(payload + 8);
        entry->max_threads = threads > 65536 ? 65536 : (int32_t)threads;
    }
}

/* `entry` NULL: the whole file's list. */
static attune_status read_info(const at_elf *file, const Elf64_Shdr *section, at_cubin *cubin, at_cubin_entry *entry)
{
    const unsigned char *at = at_elf_content(file, section);
    uint64_t left = at == NULL ? 0 : section->sh_size;
    while (left >= 4) {
        uint32_t size = at[0] == AT_INFO_SIZED ? (uint32_t)at[2] | (uint32_t)at[3] << 8 : 0;
        AT_FAIL_IF(size > left - 4, ATTUNE_CORRUPT, "cubin: an attribute of %u bytes, %llu are left", size,
                   (unsigned long long)(left - 4));
        if (size > 0 && entry == NULL) {
            read_file_attribute(file, cubin, at[1], at + 4, size);
        } else if (size > 0) {
            read_entry_attribute(entry, at[1], at + 4, size);
        }
        at += 4 + size;
        left -= 4 + size;
    }
    return ATTUNE_OK;
}

/* ---- Sections --------------------------------------------------------------------------------------------------- */

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static attune_status read_section(const at_elf *file, uint32_t index, at_cubin *cubin, bool *reserves)
{
    Elf64_Shdr section;
    at_cubin_entry *entry = NULL;
    AT_FORWARD(at_elf_section(file, index, &section));
    const char *name = at_elf_section_name(file, &section);
    if (strcmp(name, ".nv.info") == 0) {
        return read_info(file, &section, cubin, NULL);
    }
    if (starts(name, ".nv.info.") && (entry = entry_named(cubin, name + 9)) != NULL) {
        return read_info(file, &section, cubin, entry);
    }
    if (starts(name, ".nv.shared.reserved.")) {
        *reserves = true;
    } else if (starts(name, ".nv.shared.") && (entry = entry_named(cubin, name + 11)) != NULL) {
        AT_FAIL_IF(section.sh_size > INT32_MAX, ATTUNE_CORRUPT, "cubin: %llu bytes of shared memory",
                   (unsigned long long)section.sh_size);
        entry->smem_static = (int32_t)section.sh_size;
    } else if (starts(name, ".nv.global") && section.sh_size > 0) {
        take_globals(file, index, name, cubin);
    }
    return ATTUNE_OK;
}

static void take_reserve(at_cubin *cubin)
{
    for (int i = 0; i < cubin->entry_count; ++i) {
        at_cubin_entry *entry = &cubin->entry[i];
        entry->smem_static -= entry->smem_static >= SMEM_RESERVED ? SMEM_RESERVED : entry->smem_static;
    }
}

void at_cubin_take_reserve(at_cubin *cubin)
{
    if (cubin->arch >= 90 && !cubin->names_reserve) {
        take_reserve(cubin);
        cubin->names_reserve = true;
    }
}

static attune_status read_sections(const at_elf *file, at_cubin *cubin)
{
    bool reserves = false;
    for (uint32_t i = 1; i < file->head.e_shnum; ++i) {
        AT_FORWARD(read_section(file, i, cubin, &reserves));
    }
    cubin->names_reserve = reserves;
    if (reserves) {
        take_reserve(cubin);
    }
    return ATTUNE_OK;
}

/* ---- The log ------------------------------------------------------------------------------------------------------
 */

/* The number before `what` in the line, 0 if it is not there. */
static long number_before(const char *line, size_t length, const char *what)
{
    const char *at = memmem(line, length, what, strlen(what));
    while (at != NULL && at > line && at[-1] >= '0' && at[-1] <= '9') {
        --at;
    }
    return at == NULL ? 0 : strtol(at, NULL, 10);
}

static void read_line(const char *line, size_t length, at_cubin *cubin, at_cubin_entry **of)
{
    static const char properties[] = "Function properties for ";
    const char *at = memmem(line, length, properties, strlen(properties));
    char name[AT_CUBIN_NAME_MAX];
    if (at != NULL) {
        at += strlen(properties);
        (void)snprintf(name, sizeof name, "%.*s", (int)(line + length - at), at);
        *of = entry_named(cubin, name);
    } else if (*of != NULL && memmem(line, length, "spill stores", 12) != NULL) {
        (*of)->spill_bytes = (int32_t)(number_before(line, length, " bytes spill stores") +
                                       number_before(line, length, " bytes spill loads"));
        *of = NULL;
    } else if (number_before(line, length, " bytes stack frame") > 0) { /* of a function that entries call */
        cubin->called_bytes = larger(cubin->called_bytes, (int32_t)number_before(line, length, " bytes stack frame"));
    } else if (memmem(line, length, "(C75", 4) != NULL && cubin->warnings++ == 0) {
        (void)snprintf(cubin->warning, sizeof cubin->warning, "%.*s", (int)length, line);
    }
}

/* Keeps what is behind the mark; false for a line that does not begin with it. */
static bool read_marked(const char *line, size_t length, const char *mark, char kept[AT_CUBIN_NAME_MAX])
{
    const size_t bytes = strlen(mark);
    if (length < bytes || strncmp(line, mark, bytes) != 0) {
        return false;
    }
    size_t from = length > bytes ? bytes + 1 : bytes;
    (void)snprintf(kept, AT_CUBIN_NAME_MAX, "%.*s", (int)(length - from), line + from);
    return true;
}

/* What compiling found out about globals outranks the sections: see cuda/ptx.h. The last such lines are ours, whatever
 * a source made the compiler print before. */
static void read_ours(const char *line, size_t length, at_cubin *cubin)
{
    char number[AT_CUBIN_NAME_MAX];
    (void)read_marked(line, length, AT_PTX_GLOBALS, cubin->globals);
    if (read_marked(line, length, AT_PTX_UNUSED, number)) {
        cubin->unused_globals = (int32_t)strtol(number, NULL, 10);
    }
    if (read_marked(line, length, AT_PTX_SPECIAL, cubin->special)) {
        cubin->lists_special = true;
    }
}

/* NOTE: where another number of globals is in the cubin than the PTX showed, some are there that nobody saw. */
static void read_log(const char *log, at_cubin *cubin)
{
    at_cubin_entry *of = NULL;
    char first[AT_CUBIN_NAME_MAX];
    keep_name(first, cubin->globals);
    cubin->unused_globals = -1;
    while (*log != '\0') {
        size_t length = strcspn(log, "\n");
        read_ours(log, length < 4096 ? length : 4096, cubin);
        read_line(log, length < 4096 ? length : 4096, cubin, &of);
        log += length + (log[length] == '\n');
    }
    if (cubin->globals[0] == '\0' && cubin->unused_globals >= 0 && cubin->unused_globals != cubin->global_count) {
        keep_name(cubin->globals, first[0] != '\0' ? first : "unknown");
    }
}

/* NOTE: of an entry that calls a function which calls itself the compiler says that its stack is 0 bytes. */
static void find_recursion(at_cubin *cubin)
{
    int32_t most = 0;
    for (int i = 0; i < cubin->entry_count; ++i) {
        most = larger(most, cubin->entry[i].stack_bytes);
    }
    for (int i = 0; i < cubin->entry_count && most < cubin->called_bytes; ++i) {
        cubin->entry[i].stack_bytes = INT32_MAX;
    }
}

attune_status at_cubin_inspect(const void *data, size_t bytes, const char *log, at_cubin *cubin)
{
    at_elf file;
    memset(cubin, 0, sizeof *cubin);
    AT_FORWARD(at_elf_open("cubin", AT_MACHINE_CUDA, data, bytes, &file));
    uint32_t flags = file.head.e_flags;
    cubin->arch = (int32_t)(file.head.e_ident[EI_ABIVERSION] >= 8 ? flags >> 8 & 0xff : flags & 0xff);
    cubin->linked = file.head.e_type == ET_EXEC;
    AT_FORWARD(read_symbols(&file, cubin));
    AT_FORWARD(read_sections(&file, cubin));
    if (log != NULL) {
        read_log(log, cubin);
    }
    find_recursion(cubin);
    for (int i = 0; i < cubin->entry_count; ++i) {
        at_cubin_entry *entry = &cubin->entry[i];
        /* What is spilled goes into the stack frame: without one there is nothing. */
        entry->spill_bytes = entry->spill_bytes < 0 && entry->local_bytes == 0 ? 0 : entry->spill_bytes;
    }
    return ATTUNE_OK;
}
