/* Format: System V ABI, gABI parts 4 and 5, and the processor supplements' relocation types. */
#include "stranger/object.h"

#include <dlfcn.h>
#include <elf.h>
#include <gnu/lib-names.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
static const uint32_t plain_relocations[] = {R_X86_64_RELATIVE, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, R_X86_64_64};
#elif defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
static const uint32_t plain_relocations[] = {R_AARCH64_RELATIVE, R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT,
                                             R_AARCH64_ABS64};
#else
enum { MACHINE = EM_NONE };
static const uint32_t plain_relocations[] = {0};
#endif

enum { SEGMENTS_MAX = 32, PAGE = 4096 };

typedef struct object {
    const char *what;
    const unsigned char *data;
    size_t bytes;
    at_object_kind kind;
    int segments;
    Elf64_Phdr segment[SEGMENTS_MAX];
    uint64_t sealed, sealed_end; /* addresses that the loader makes read-only again */
    const unsigned char *symbol; /* table of Elf64_Sym, maybe unaligned */
    uint64_t symbols;
    const char *text; /* string table */
    uint64_t text_bytes;
} object;

static attune_status unsound(const object *o, const char *how)
{
    return at_fail(ATTUNE_CORRUPT, "%s is no sound shared object: %s", o->what, how);
}

/* `bytes` at an offset of the file. */
static const unsigned char *file_at(const object *o, uint64_t offset, uint64_t bytes)
{
    return offset > o->bytes || bytes > o->bytes - offset ? NULL : o->data + offset;
}

/* `bytes` at an address, where they come from the file. */
static const unsigned char *memory_at(const object *o, uint64_t address, uint64_t bytes)
{
    for (int i = 0; i < o->segments; ++i) {
        const Elf64_Phdr *s = &o->segment[i];
        if (s->p_type == PT_LOAD && address >= s->p_vaddr && address - s->p_vaddr <= s->p_filesz &&
            bytes <= s->p_filesz - (address - s->p_vaddr)) {
            return file_at(o, s->p_offset + (address - s->p_vaddr), bytes);
        }
    }
    return NULL;
}

/* ---- Segments --------------------------------------------------------------------------------------------------- */

static attune_status read_header(object *o)
{
    Elf64_Ehdr header;
    if (o->bytes < sizeof header) {
        return unsound(o, "it is too short");
    }
    memcpy(&header, o->data, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_DYN || header.e_machine != MACHINE ||
        header.e_phentsize != sizeof(Elf64_Phdr)) {
        return unsound(o, "its header is of another kind");
    }
    const unsigned char *table = file_at(o, header.e_phoff, (uint64_t)header.e_phnum * sizeof(Elf64_Phdr));
    if (table == NULL || header.e_phnum > SEGMENTS_MAX) {
        return unsound(o, "its segments are not in it");
    }
    o->segments = header.e_phnum;
    memcpy(o->segment, table, (size_t)o->segments * sizeof(Elf64_Phdr));
    return ATTUNE_OK;
}

static attune_status check_segment(object *o, const Elf64_Phdr *s)
{
    AT_FAIL_IF(s->p_type == PT_TLS, ATTUNE_COMPILE_ERROR,
               "%s: it has thread-local data, which would outlive a call; what a call needs is in its workspace and "
               "scratch",
               o->what);
    AT_FAIL_IF(s->p_type == PT_GNU_STACK && (s->p_flags & PF_X) != 0, ATTUNE_COMPILE_ERROR,
               "%s: it wants an executable stack", o->what);
    AT_FAIL_IF(s->p_type == PT_LOAD && (s->p_flags & PF_W) != 0 && (s->p_flags & PF_X) != 0, ATTUNE_COMPILE_ERROR,
               "%s: it has code that can be changed", o->what);
    if (s->p_type == PT_INTERP || s->p_filesz > s->p_memsz || s->p_vaddr + s->p_memsz < s->p_vaddr ||
        (s->p_type == PT_LOAD && file_at(o, s->p_offset, s->p_filesz) == NULL)) {
        return unsound(o, "a segment is not in it");
    }
    if (s->p_type == PT_GNU_RELRO) {
        o->sealed = s->p_vaddr / PAGE * PAGE;
        o->sealed_end = (s->p_vaddr + s->p_memsz + PAGE - 1) / PAGE * PAGE;
    }
    return ATTUNE_OK;
}

/* What is writable and stays so is data that one call could leave to the next. */
static attune_status check_segments(object *o)
{
    for (int i = 0; i < o->segments; ++i) {
        AT_FORWARD(check_segment(o, &o->segment[i]));
    }
    for (int i = 0; i < o->segments && o->kind == AT_OBJECT_KERNEL; ++i) {
        const Elf64_Phdr *s = &o->segment[i];
        bool writable = s->p_type == PT_LOAD && (s->p_flags & PF_W) != 0;
        AT_FAIL_IF(writable && (s->p_vaddr < o->sealed || s->p_vaddr + s->p_memsz > o->sealed_end),
                   ATTUNE_COMPILE_ERROR,
                   "%s: it has global data that can change, which would outlive a call; what a call needs is in its "
                   "workspace and scratch",
                   o->what);
    }
    return ATTUNE_OK;
}

/* ---- The dynamic section ---------------------------------------------------------------------------------------- */

/* Tags below this are kept: all that the tables need. */
enum { TABLES = 40 };

typedef struct dynamic {
    uint64_t value[TABLES]; /* of the tags below TABLES; 0 where there is none */
} dynamic;

static attune_status check_tag(const object *o, uint64_t tag, uint64_t value)
{
    static const struct {
        uint64_t tag;
        const char *what;
    } refused[] = {
        {DT_INIT, "a constructor"},
        {DT_FINI, "a destructor"},
        {DT_PREINIT_ARRAY, "constructors"},
        {DT_TEXTREL, "relocations of its code"},
        {DT_RPATH, "a search path"},
        {DT_RUNPATH, "a search path"},
        {DT_REL, "relocations of a kind that is not looked at"},
        {DT_RELR, "relocations of a kind that is not looked at"},
        {DT_AUDIT, "an auditor"},
        {DT_DEPAUDIT, "an auditor"},
        {DT_AUXILIARY, "a filter"},
        {DT_FILTER, "a filter"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; ++i) {
        AT_FAIL_IF(tag == refused[i].tag, ATTUNE_COMPILE_ERROR,
                   "%s: it has %s; loading an object must run none of its code", o->what, refused[i].what);
    }
    AT_FAIL_IF((tag == DT_INIT_ARRAYSZ || tag == DT_FINI_ARRAYSZ) && value > 0, ATTUNE_COMPILE_ERROR,
               "%s: it has a %s; loading an object must run none of its code", o->what,
               tag == DT_INIT_ARRAYSZ ? "constructor" : "destructor");
    AT_FAIL_IF(tag == DT_NEEDED && o->kind == AT_OBJECT_KERNEL, ATTUNE_COMPILE_ERROR, "%s: it needs another object",
               o->what);
    AT_FAIL_IF(tag == DT_FLAGS && (value & (DF_TEXTREL | DF_STATIC_TLS)) != 0, ATTUNE_COMPILE_ERROR,
               "%s: it has relocations of its code, or thread-local data", o->what);
    return ATTUNE_OK;
}

static attune_status read_dynamic(const object *o, dynamic *found)
{
    const Elf64_Phdr *s = NULL;
    for (int i = 0; i < o->segments; ++i) {
        s = o->segment[i].p_type == PT_DYNAMIC ? &o->segment[i] : s;
    }
    const unsigned char *table = s == NULL ? NULL : memory_at(o, s->p_vaddr, s->p_filesz);
    if (table == NULL) {
        return unsound(o, "it has no dynamic section");
    }
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= s->p_filesz; at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        memcpy(&entry, table + at, sizeof entry);
        if (entry.d_tag == DT_NULL) {
            return ATTUNE_OK;
        }
        AT_FORWARD(check_tag(o, (uint64_t)entry.d_tag, entry.d_un.d_val));
        if (entry.d_tag > 0 && entry.d_tag < TABLES) {
            if (found->value[entry.d_tag] != 0 && entry.d_tag != DT_NEEDED) {
                return unsound(o, "its dynamic section says one thing twice");
            }
            found->value[entry.d_tag] = entry.d_un.d_val;
        }
    }
    return unsound(o, "its dynamic section does not end");
}

/* ---- Symbols ---------------------------------------------------------------------------------------------------- */

static attune_status find_tables(object *o, const dynamic *found)
{
    uint32_t hash[2];
    const unsigned char *head = memory_at(o, found->value[DT_HASH], sizeof hash);
    if (found->value[DT_HASH] == 0 || head == NULL) {
        return unsound(o, "it has no table of symbols");
    }
    memcpy(hash, head, sizeof hash);
    o->symbols = hash[1];
    o->symbol = memory_at(o, found->value[DT_SYMTAB], o->symbols * sizeof(Elf64_Sym));
    o->text_bytes = found->value[DT_STRSZ];
    o->text = (const char *)memory_at(o, found->value[DT_STRTAB], o->text_bytes);
    if (o->symbol == NULL || o->text == NULL || o->text_bytes == 0 || o->text[o->text_bytes - 1] != '\0') {
        return unsound(o, "its symbols are not in it");
    }
    return ATTUNE_OK;
}

/* Whether the name is of a function that libm itself exports. */
static bool is_in_libm(const char *name)
{
    Dl_info of_name, of_libm;
    void *libm = dlopen(LIBM_SO, RTLD_LAZY | RTLD_LOCAL);
    void *found = libm != NULL ? dlsym(libm, name) : NULL;
    void *known = libm != NULL ? dlsym(libm, "expf") : NULL;
    bool is = found != NULL && known != NULL && dladdr(found, &of_name) != 0 && dladdr(known, &of_libm) != 0 &&
              of_name.dli_fbase == of_libm.dli_fbase;
    if (libm != NULL) {
        (void)dlclose(libm);
    }
    return is;
}

/* What a kernel may call: it computes. Of libm all but what reads or leaves a state: the sign of lgamma and gamma, and
 * the floating-point environment. */
static bool is_allowed(const char *name)
{
    static const char *const memory[] = {"memcpy", "memmove", "memset", "memcmp"};
    static const char *const stateful[] = {"lgamma", "gamma", "fe", "signgam", "matherr", "_LIB_VERSION"};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; ++i) {
        if (strcmp(name, memory[i]) == 0) {
            return true;
        }
    }
    bool reentrant = strncmp(name, "lgamma", 6) == 0 && strstr(name, "_r") != NULL;
    for (size_t i = 0; i < sizeof stateful / sizeof stateful[0] && !reentrant; ++i) {
        if (strncmp(name, stateful[i], strlen(stateful[i])) == 0) {
            return false;
        }
    }
    return is_in_libm(name);
}

static attune_status check_symbols(const object *o)
{
    for (uint64_t i = 1; i < o->symbols; ++i) {
        Elf64_Sym symbol;
        memcpy(&symbol, o->symbol + i * sizeof symbol, sizeof symbol);
        if (symbol.st_name >= o->text_bytes) {
            return unsound(o, "a symbol's name is not in it");
        }
        const char *name = o->text + symbol.st_name;
        int type = ELF64_ST_TYPE(symbol.st_info);
        AT_FAIL_IF(type == STT_GNU_IFUNC, ATTUNE_COMPILE_ERROR,
                   "%s: '%.60s' is an indirect function; loading an object must run none of its code", o->what, name);
        AT_FAIL_IF(type == STT_TLS, ATTUNE_COMPILE_ERROR, "%s: '%.60s' is thread-local data", o->what, name);
        AT_FAIL_IF(o->kind == AT_OBJECT_KERNEL && symbol.st_shndx == SHN_UNDEF && !is_allowed(name),
                   ATTUNE_COMPILE_ERROR,
                   "%s: it uses '%.60s'; a kernel computes, with functions of libm and memcpy, memset, memmove and "
                   "memcmp",
                   o->what, name);
    }
    return ATTUNE_OK;
}

/* ---- Relocations ------------------------------------------------------------------------------------------------ */

static bool is_plain(uint32_t type)
{
    for (size_t i = 0; i < sizeof plain_relocations / sizeof plain_relocations[0]; ++i) {
        if (type == plain_relocations[i]) {
            return true;
        }
    }
    return false;
}

/* Whether all of these addresses are of one writable segment. */
static bool is_writable(const object *o, uint64_t address, uint64_t bytes)
{
    for (int i = 0; i < o->segments; ++i) {
        const Elf64_Phdr *s = &o->segment[i];
        if (s->p_type == PT_LOAD && (s->p_flags & PF_W) != 0 && address >= s->p_vaddr &&
            address - s->p_vaddr <= s->p_memsz && bytes <= s->p_memsz - (address - s->p_vaddr)) {
            return true;
        }
    }
    return false;
}

static attune_status check_relocations(const object *o, uint64_t table, uint64_t bytes)
{
    const unsigned char *at = memory_at(o, table, bytes);
    if (bytes > 0 && (at == NULL || bytes % sizeof(Elf64_Rela) != 0)) {
        return unsound(o, "its relocations are not in it");
    }
    for (uint64_t i = 0; i < bytes; i += sizeof(Elf64_Rela)) {
        Elf64_Rela one;
        memcpy(&one, at + i, sizeof one);
        AT_FAIL_IF(!is_plain((uint32_t)ELF64_R_TYPE(one.r_info)), ATTUNE_COMPILE_ERROR,
                   "%s: it has a relocation of type %u; only addresses can be filled in", o->what,
                   (unsigned)ELF64_R_TYPE(one.r_info));
        if (ELF64_R_SYM(one.r_info) >= o->symbols || !is_writable(o, one.r_offset, sizeof(uint64_t))) {
            return unsound(o, "a relocation is of nothing in it");
        }
    }
    return ATTUNE_OK;
}

attune_status at_object_check(const char *what, const void *data, size_t bytes, at_object_kind kind)
{
    object o = {.what = what, .data = data, .bytes = bytes, .kind = kind};
    dynamic found = {{0}};
    AT_FORWARD(read_header(&o));
    AT_FORWARD(check_segments(&o));
    AT_FORWARD(read_dynamic(&o, &found));
    AT_FORWARD(find_tables(&o, &found));
    AT_FORWARD(check_symbols(&o));
    if (found.value[DT_PLTRELSZ] > 0 && found.value[DT_PLTREL] != DT_RELA) {
        return unsound(&o, "its relocations are of another kind");
    }
    AT_FORWARD(check_relocations(&o, found.value[DT_RELA], found.value[DT_RELASZ]));
    return check_relocations(&o, found.value[DT_JMPREL], found.value[DT_PLTRELSZ]);
}
