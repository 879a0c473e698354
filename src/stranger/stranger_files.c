#include "stranger/stranger_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "core/config.h"
#include "core/target.h"
#include "cuda/build.h"
#include "stranger/listing.h"
#include "stranger/object.h"
#include "stranger/sandbox.h"
#include "wire/process.h"

/* What strangers' files include of ours; written by the build. */
extern const at_embedded at_public_headers[];

enum { FILE_MAX = 1 << 20, OBJECT_MAX = 16 << 20, LISTING_MAX = 64 << 20, COMPILE_S = 120 };

__attribute__((format(printf, 2, 3))) static attune_status make_path(char **path, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int length = vasprintf(path, format, list);
    va_end(list);
    *path = length < 0 ? NULL : *path;
    AT_FAIL_IF(length < 0, ATTUNE_OUT_OF_MEMORY, "no memory for a path");
    return ATTUNE_OK;
}

static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name);
    return length > strlen(end) && strcmp(name + length - strlen(end), end) == 0;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

static attune_status add_file(at_stranger_files *files, const char *name)
{
    char *path;
    void *data;
    size_t bytes;
    AT_FAIL_IF(files->count == AT_STRANGER_FILES_MAX, ATTUNE_INVALID_ARGUMENT, "%s: its sources are more than %d files",
               files->folder, AT_STRANGER_FILES_MAX);
    AT_FAIL_IF(strlen(name) >= AT_STRANGER_NAME_MAX, ATTUNE_INVALID_ARGUMENT, "%s: the name of %s is too long",
               files->folder, name);
    AT_FORWARD(make_path(&path, "%s/%s", files->folder, name));
    attune_status status = at_file_read(path, FILE_MAX, &data, &bytes);
    free(path);
    AT_FORWARD(status);
    (void)snprintf(files->name[files->count], AT_STRANGER_NAME_MAX, "%s", name);
    files->file[files->count] = (at_embedded){files->name[files->count], data, bytes};
    ++files->count;
    return ATTUNE_OK;
}

static bool has_file(const at_stranger_files *files, const char *name)
{
    for (int i = 0; i < files->count; ++i) {
        if (strcmp(files->name[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static bool exists(const at_stranger_files *files, const char *name)
{
    struct stat about;
    char *path;
    if (name[0] == '/' || make_path(&path, "%s/%s", files->folder, name) != ATTUNE_OK) {
        return false;
    }
    bool found = stat(path, &about) == 0 && S_ISREG(about.st_mode);
    free(path);
    return found;
}

/* What a source includes is looked for beside it; what is not there is the library's, or an error of the compiler. */
static attune_status add_included(at_stranger_files *files, int index)
{
    char name[AT_STRANGER_NAME_MAX];
    const char *text = (const char *)files->file[index].data;
    while ((text = at_build_next_include(text, name, sizeof name)) != NULL) {
        if (!has_file(files, name) && exists(files, name)) {
            AT_FORWARD(add_file(files, name));
        }
    }
    return ATTUNE_OK;
}

/* What is no file has no end: whoever reads a pipe waits for who writes it. */
static attune_status take_name(at_stranger_files *files, const char *name)
{
    bool kernel = ends_with(name, ".kernel.c");
    if (!ends_with(name, ".cu") && !ends_with(name, ".c")) {
        return ATTUNE_OK;
    }
    AT_FAIL_IF(!exists(files, name), ATTUNE_INVALID_ARGUMENT, "%s/%s is no regular file", files->folder, name);
    if (ends_with(name, ".cu")) {
        return add_file(files, name);
    }
    char **place = kernel ? &files->kernel : &files->descriptor;
    AT_FAIL_IF(*place != NULL, ATTUNE_INVALID_ARGUMENT, "%s has more than one %s: %s, and %s before", files->folder,
               kernel ? "NAME.kernel.c" : "descriptor, NAME.c", name, *place);
    return make_path(place, "%s/%s", files->folder, name);
}

static attune_status read_folder(at_stranger_files *files)
{
    struct dirent **entry;
    int count = scandir(files->folder, &entry, NULL, alphasort);
    AT_FAIL_IF(count < 0, errno == ENOENT ? ATTUNE_NOT_FOUND : ATTUNE_IO_ERROR, "%s: %s", files->folder,
               strerror(errno));
    attune_status status = ATTUNE_OK;
    for (int i = 0; i < count; ++i) {
        status = status == ATTUNE_OK ? take_name(files, entry[i]->d_name) : status;
        free(entry[i]);
    }
    free(entry);
    AT_FORWARD(status);
    AT_FAIL_IF(files->descriptor == NULL, ATTUNE_NOT_FOUND, "%s has no descriptor: NAME.c is needed", files->folder);
    for (int i = 0; i < files->count; ++i) {
        AT_FORWARD(add_included(files, i));
    }
    return ATTUNE_OK;
}

/* C files that are in the digest by now. */
typedef struct digested {
    at_sha256 *sha;
    char *path[AT_STRANGER_FILES_MAX];
    int count;
} digested;

static bool is_digested(const digested *on, const char *path)
{
    for (int i = 0; i < on->count; ++i) {
        if (strcmp(on->path[i], path) == 0) {
            return true;
        }
    }
    return false;
}

/* The file, which need not be in the folder; what is drawn in behind the preprocessor's back is no source. */
static attune_status digest_file(digested *on, const char *path, void **text)
{
    size_t bytes;
    AT_FORWARD(at_file_read(path, FILE_MAX, text, &bytes));
    at_sha256_add(on->sha, &bytes, sizeof bytes);
    at_sha256_add(on->sha, *text, bytes);
    bool embeds = strstr(*text, "incbin") != NULL || strstr(*text, "#embed") != NULL;
    if (embeds) {
        free(*text);
        return at_fail(ATTUNE_COMPILE_ERROR, "%s: incbin and #embed draw in what is no source; write it as an array",
                       path);
    }
    return ATTUNE_OK;
}

/* A regular file beside `path`, resolved; NULL where there is none. */
static char *beside(const char *path, const char *name)
{
    struct stat about;
    char *joined = NULL;
    const int folder = name[0] == '/' ? 0 : (int)(strrchr(path, '/') - path) + 1;
    if (asprintf(&joined, "%.*s%s", folder, path, name) < 0) {
        return NULL;
    }
    bool found = stat(joined, &about) == 0 && S_ISREG(about.st_mode);
    char *resolved = found ? realpath(joined, NULL) : NULL;
    free(joined);
    return resolved;
}

static attune_status claim_file(digested *on, char *path)
{
    if (on->count == AT_STRANGER_FILES_MAX) {
        free(path);
        return at_fail(ATTUNE_INVALID_ARGUMENT, "its sources are more than %d files", AT_STRANGER_FILES_MAX);
    }
    on->path[on->count++] = path;
    return ATTUNE_OK;
}

/* A C file and what it includes, wherever that is; what is found nowhere is the library's, or the compiler's to refuse.
 */
static attune_status digest_source(digested *on, const char *path)
{
    char *first = realpath(path, NULL);
    AT_FAIL_IF(first == NULL, ATTUNE_IO_ERROR, "%s: %s", path, strerror(errno));
    const int begin = on->count;
    AT_FORWARD(claim_file(on, first));
    for (int i = begin; i < on->count; ++i) {
        char name[AT_STRANGER_NAME_MAX];
        void *data;
        AT_FORWARD(digest_file(on, on->path[i], &data));
        attune_status status = ATTUNE_OK;
        for (const char *text = data; status == ATTUNE_OK && text != NULL;) {
            text = at_build_next_include(text, name, sizeof name);
            char *found = text != NULL ? beside(on->path[i], name) : NULL;
            bool known = found == NULL || is_digested(on, found);
            status = known ? ATTUNE_OK : claim_file(on, found);
            if (known) {
                free(found);
            }
        }
        free(data);
        AT_FORWARD(status);
    }
    return ATTUNE_OK;
}

static attune_status digest_sources(const at_stranger_files *files, at_sha256 *sha)
{
    digested on = {.sha = sha};
    attune_status status = digest_source(&on, files->descriptor);
    if (status == ATTUNE_OK && files->kernel != NULL) {
        status = digest_source(&on, files->kernel);
    }
    for (int i = 0; i < on.count; ++i) {
        free(on.path[i]);
    }
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "%s", files->folder);
}

static attune_status digest_all(at_stranger_files *files)
{
    unsigned char digest[AT_DIGEST_BYTES];
    at_sha256 sha;
    at_sha256_init(&sha);
    AT_FORWARD(digest_sources(files, &sha));
    for (int i = 0; i < files->count; ++i) {
        at_sha256_add(&sha, files->name[i], AT_STRANGER_NAME_MAX);
        at_sha256_add(&sha, &files->file[i].size, sizeof files->file[i].size);
        at_sha256_add(&sha, files->file[i].data, files->file[i].size);
    }
    at_sha256_end(&sha, digest);
    at_digest_text(digest, files->digest);
    return ATTUNE_OK;
}

/* ---- The temporary folder --------------------------------------------------------------------------------------- */

static attune_status make_place(at_stranger_files *files)
{
    char *folder;
    AT_FORWARD(at_scratch_make(&files->place));
    AT_FORWARD(make_path(&folder, "%s/attune", files->place.path));
    attune_status status = at_directory_make(folder);
    free(folder);
    for (const at_embedded *header = at_public_headers; header->name != NULL && status == ATTUNE_OK; ++header) {
        char *path;
        AT_FORWARD(make_path(&path, "%s/attune/%s", files->place.path, header->name));
        status = at_file_write(path, header->data, header->size);
        free(path);
    }
    return status;
}

attune_status at_stranger_files_read(const char *folder, at_stranger_files *files)
{
    memset(files, 0, sizeof *files);
    files->folder = strdup(folder);
    AT_FAIL_IF(files->folder == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a path");
    AT_FORWARD(read_folder(files));
    AT_FORWARD(digest_all(files));
    return make_place(files);
}

void at_stranger_files_free(at_stranger_files *files)
{
    for (int i = 0; i < files->count; ++i) {
        free((void *)(uintptr_t)files->file[i].data);
    }
    at_scratch_remove(&files->place);
    free(files->folder);
    free(files->descriptor);
    free(files->kernel);
    *files = (at_stranger_files){0};
}

/* ---- Compiling -------------------------------------------------------------------------------------------------- */

static const char *const *tier_flags(attune_isa isa)
{
    static const char *const baseline[] = {NULL};
#if defined(__x86_64__)
    static const char *const avx2[] = {"-mavx2", "-mfma", "-mf16c", "-mtune=haswell", NULL};
    static const char *const avx512[] = {
        "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mf16c", "-mprefer-vector-width=512", NULL};
    static const char *const avx512_bf16[] = {"-mavx512f",
                                              "-mavx512bw",
                                              "-mavx512dq",
                                              "-mavx512vl",
                                              "-mavx512bf16",
                                              "-mfma",
                                              "-mf16c",
                                              "-mprefer-vector-width=512",
                                              NULL};
    static const char *const amx[] = {
        "-mavx512f",  "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512bf16",
        "-mamx-tile", "-mamx-bf16", "-mfma",      "-mf16c",     "-mprefer-vector-width=512",
        NULL};
    static const char *const *const tiers[ATTUNE_ISA_COUNT] = {baseline, avx2, avx512, avx512_bf16, amx};
    return tiers[isa];
#else
    (void)isa;
    return baseline;
#endif
}

typedef struct command {
    const char *word[64];
    int count;
} command;

static void add_words(command *to, const char *const *words)
{
    for (; *words != NULL && to->count < 63; ++words) {
        to->word[to->count++] = *words;
    }
}

/* Objects have a table of symbols that is plain to read, no code of the system's that would run when they are loaded,
 * and what the loader fills in is read-only afterwards. */
static void begin_command(const at_stranger_files *files, const at_stranger_tools *tools, command *made)
{
    const char *cc = tools->compiler != NULL ? tools->compiler : getenv("CC");
    const char *const words[] = {"/proc/self/exe",
                                 "sandbox",
                                 "compile",
                                 files->place.path,
                                 "--",
                                 cc != NULL && cc[0] != '\0' ? cc : "cc",
                                 "-std=c11",
                                 "-shared",
                                 "-fPIC",
                                 "-nostartfiles",
                                 "-fno-math-errno",
                                 "-fno-stack-protector", /* which some systems' compilers put in, and libc's checks */
                                 "-U_FORTIFY_SOURCE",
                                 "-Werror=date-time", /* equal sources are equal code on any day */
                                 "-Wl,--hash-style=sysv,-z,relro,-z,now,-z,noexecstack,--build-id=none",
                                 "-I",
                                 files->place.path,
                                 NULL};
    *made = (command){.count = 0};
    add_words(made, words);
}

static attune_status run_compiler(const command *made, const char *source, double seconds)
{
    char *said = malloc(AT_SAID_MAX);
    char how[160];
    int end = 0;
    AT_FAIL_IF(said == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for what a compiler says");
    attune_status status = at_process_run(made->word, seconds, said, &end);
    if (status == ATTUNE_OK && (!WIFEXITED(end) || WEXITSTATUS(end) != 0)) {
        status = at_fail(ATTUNE_COMPILE_ERROR, "%s does not compile (the compiler %s):\n%.600s", source,
                         at_process_end(end, how), said);
    }
    free(said);
    return status;
}

static attune_status look_at(const char *path, const char *what, at_object_kind kind)
{
    void *data;
    size_t bytes;
    AT_FORWARD(at_file_read(path, OBJECT_MAX, &data, &bytes));
    attune_status status = at_object_check(what, data, bytes, kind);
    free(data);
    return status;
}

/* `file` is the source, or what was made of it. */
static attune_status compile(command *made, const char *source, const char *file, const char *path, at_object_kind kind)
{
    const char *const last[] = {"-o", path, file, kind == AT_OBJECT_KERNEL ? "-lgcc" : "-lc", NULL};
    add_words(made, last);
    AT_FORWARD(run_compiler(made, source, COMPILE_S));
    return look_at(path, source, kind);
}

/* Text for the assembler first, which is looked at: what is said of it is said of what is linked. */
static attune_status list(const command *begun, const char *source, const char *path)
{
    command made = *begun;
    const char *const last[] = {"-S", "-o", path, source, NULL};
    void *text;
    size_t bytes;
    add_words(&made, last);
    AT_FORWARD(run_compiler(&made, source, COMPILE_S));
    AT_FORWARD(at_file_read(path, LISTING_MAX, &text, &bytes));
    attune_status status = strlen(text) == bytes
                               ? at_listing_check(source, text)
                               : at_fail(ATTUNE_COMPILE_ERROR, "%s: what its compiler wrote is no text", source);
    free(text);
    return status;
}

static attune_status compile_listed(command *made, const char *source, const char *path)
{
    char *listing;
    AT_FORWARD(make_path(&listing, "%s.s", path));
    attune_status status = list(made, source, listing);
    if (status == ATTUNE_OK) {
        status = compile(made, source, listing, path, AT_OBJECT_KERNEL);
    }
    free(listing);
    return status;
}

/* A descriptor of ABI 2 may ask for fields that are gone: the refusal names what came in their place. */
static attune_status explain_abi(attune_status status)
{
    char detail[1024];
    const char *said = attune_last_detail();
    if (status != ATTUNE_COMPILE_ERROR || (strstr(said, "causal") == NULL && strstr(said, "varlen_seed") == NULL)) {
        return status;
    }
    (void)snprintf(detail, sizeof detail, "%s", said);
    return at_fail(status, "%s\nThis attune is ABI %u%s", detail, ATTUNE_ABI, AT_ABI_2_CHANGES);
}

attune_status at_stranger_compile_descriptor(const at_stranger_files *files, const at_stranger_tools *tools,
                                             char **path)
{
    static const char *const words[] = {"-O1", "-DATTUNE_STRANGER=1", NULL};
    command made;
    AT_FORWARD(make_path(path, "%s/descriptor.so", files->place.path));
    begin_command(files, tools, &made);
    add_words(&made, words);
    attune_status status =
        explain_abi(compile(&made, files->descriptor, files->descriptor, *path, AT_OBJECT_DESCRIPTOR));
    if (status != ATTUNE_OK) {
        free(*path);
        *path = NULL;
    }
    return status;
}

attune_status at_stranger_compile_kernel(const at_stranger_files *files, const at_stranger_tools *tools, attune_isa isa,
                                         char **path)
{
    static const char *const words[] = {"-O3", "-ffp-contract=fast", "-nodefaultlibs", "-DATTUNE_TIER(symbol)=symbol",
                                        NULL};
    char tier[48];
    const char *const tier_words[] = {tier, NULL};
    command made;
    *path = NULL;
    AT_FAIL_IF(files->kernel == NULL, ATTUNE_NOT_FOUND, "%s has no kernel for a CPU: NAME.kernel.c is needed",
               files->folder);
    AT_FORWARD(make_path(path, "%s/%s.so", files->place.path, at_isa_name(isa)));
    (void)snprintf(tier, sizeof tier, "-DATTUNE_TIER_%s=1", at_isa_name(isa));
    begin_command(files, tools, &made);
    add_words(&made, words);
    add_words(&made, tier_flags(isa));
    add_words(&made, tier_words);
    attune_status status = compile_listed(&made, files->kernel, *path);
    if (status != ATTUNE_OK) {
        free(*path);
        *path = NULL;
    }
    return status;
}
