/* attune new: a folder with a kernel of one's own, complete and right, to begin with. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/embedded.h"
#include "base/file.h"
#include "base/scratch.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cuda/build.h"

/* examples/new, by target; and what sources include. Written by the build. */
extern const at_embedded at_new_files[];
extern const at_embedded at_public_headers[];

enum { NAME_MAX_LENGTH = 31, PATH_BYTES = 4096 };
static const char sample_name[] = "my_kernel";

typedef struct folder {
    const char *path; /* as given, without slashes at its end */
    const char *name; /* the kernel's: its last part */
    const char *target;
    char place[PATH_BYTES]; /* where it is written, before it gets its name */
} folder;

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static attune_status write_file(const folder *to, const char *name, const void *data, size_t bytes)
{
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s", to->place, name);
    AT_FAIL_IF(length < 0 || (size_t)length >= sizeof path, ATTUNE_INVALID_ARGUMENT, "%s: its name is too long",
               to->path);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    AT_FORWARD(at_directory_make(path));
    *slash = '/';
    return at_file_write(path, data, bytes);
}

/* Copies text with the sample name replaced by the kernel's name. */
static void add_named(at_text *text, const char *from, size_t bytes, const char *name)
{
    const char *end = from + bytes;
    for (const char *at; (at = memmem(from, (size_t)(end - from), sample_name, sizeof sample_name - 1)) != NULL;
         from = at + sizeof sample_name - 1) {
        at_text_add(text, "%.*s%s", (int)(at - from), from, name);
    }
    at_text_add(text, "%.*s", (int)(end - from), from);
}

static attune_status write_named(const folder *to, const char *name, const at_embedded *file)
{
    at_text path, text;
    at_text_init(&path);
    at_text_init(&text);
    add_named(&path, name, strlen(name), to->name);
    add_named(&text, (const char *)file->data, file->size, to->name);
    attune_status status = at_text_status(&path, "a file's name");
    status = status == ATTUNE_OK ? at_text_status(&text, "a file") : status;
    status = status == ATTUNE_OK ? write_file(to, path.data, text.data, text.length) : status;
    at_text_free(&path);
    at_text_free(&text);
    return status;
}

/* What editors look headers up in; attune itself brings its own. */
static attune_status write_headers(const folder *to)
{
    char name[128];
    for (const at_embedded *file = at_public_headers; file->name != NULL; ++file) {
        (void)snprintf(name, sizeof name, ".attune/attune/%s", file->name);
        AT_FORWARD(write_file(to, name, file->data, file->size));
    }
    for (const at_embedded *file = at_cuda_sources; strcmp(to->target, "cuda") == 0 && file->name != NULL; ++file) {
        if (strncmp(file->name, "device/", strlen("device/")) == 0) {
            (void)snprintf(name, sizeof name, ".attune/%s", file->name);
            AT_FORWARD(write_file(to, name, file->data, file->size));
        }
    }
    return ATTUNE_OK;
}

static attune_status write_files(const folder *to)
{
    size_t length = strlen(to->target);
    for (const at_embedded *file = at_new_files; file->name != NULL; ++file) {
        if (strncmp(file->name, to->target, length) == 0 && file->name[length] == '/') {
            AT_FORWARD(write_named(to, file->name + length + 1, file));
        }
    }
    return write_headers(to);
}

/* ---- The folder, whole or not at all ------------------------------------------------------------------------------
 */

static attune_status check_name(const folder *to)
{
    size_t length = strlen(to->name);
    bool fine = length >= 1 && length <= NAME_MAX_LENGTH && islower((unsigned char)to->name[0]);
    for (size_t i = 0; i < length; ++i) {
        unsigned char one = (unsigned char)to->name[i];
        fine = fine && (islower(one) || isdigit(one) || one == '_');
    }
    AT_FAIL_IF(!fine, ATTUNE_INVALID_ARGUMENT,
               "%s: a kernel's name is lower-case letters, digits and underscores, a letter first, at most %d",
               to->name, NAME_MAX_LENGTH);
    AT_FAIL_IF(access(to->path, F_OK) == 0, ATTUNE_INVALID_ARGUMENT, "%s is there already", to->path);
    return ATTUNE_OK;
}

static attune_status make_folder(folder *to)
{
    AT_FORWARD(check_name(to));
    (void)snprintf(to->place, sizeof to->place, "%s.XXXXXX", to->path);
    AT_FAIL_IF(mkdtemp(to->place) == NULL, ATTUNE_IO_ERROR, "%s: %s", to->path, strerror(errno));
    attune_status status = write_files(to);
    if (status == ATTUNE_OK && (chmod(to->place, 0755) != 0 || rename(to->place, to->path) != 0)) {
        status = at_fail(ATTUNE_IO_ERROR, "%s: %s", to->path, strerror(errno));
    }
    if (status != ATTUNE_OK) {
        char why[512];
        (void)snprintf(why, sizeof why, "%s", attune_last_detail());
        at_directory_remove(to->place);
        return at_fail(status, "%s", why);
    }
    return ATTUNE_OK;
}

static void say_next(const folder *to, FILE *out)
{
    bool cuda = strcmp(to->target, "cuda") == 0;
    const char *slash = strchr(to->path, '/') == NULL ? "./" : "";
    (void)fprintf(out, "%s holds a kernel that is right, and slow. What is there, and what to do with it:\n\n",
                  to->path);
    (void)fprintf(out, "  %s.c%*s the descriptor: what it computes, needs and launches\n", to->name, cuda ? 8 : 7, "");
    (void)fprintf(out, "  %s%s the source\n\n", to->name, cuda ? ".cu       " : ".kernel.c");
    if (cuda) {
        (void)fprintf(out,
                      "  attune info %s%s --arch 80,90a    compile it, see registers and spills; no device needed\n",
                      slash, to->path);
    }
    (void)fprintf(out, "  attune check --kernel %s%s%s\n", slash, to->path,
                  cuda ? "    is it right? Where the device is" : "    is it right?");
    (void)fprintf(out, "  attune evolve %s%s --no-gate    which config is the fastest?\n", slash, to->path);
    (void)fprintf(out, "  attune gate %s%s --against auto    right, and faster than what attune has?\n\n", slash,
                  to->path);
    (void)fprintf(out, "docs/kernels.md explains it, step by step.\n");
}

static int run(const at_cli *cli)
{
    char path[PATH_BYTES];
    const char *target = at_cli_text(cli, "--target");
    if (cli->operand_count != 1) {
        return at_cli_usage(cli, "one NAME is needed, %d are given", cli->operand_count);
    }
    (void)snprintf(path, sizeof path, "%s", cli->operand[0]);
    for (size_t length = strlen(path); length > 1 && path[length - 1] == '/'; --length) {
        path[length - 1] = '\0';
    }
    const char *slash = strrchr(path, '/');
    folder to = {.path = path, .name = slash == NULL ? path : slash + 1, .target = target == NULL ? "cpu" : target};
    attune_status status = make_folder(&to);
    if (status != ATTUNE_OK) {
        return at_cli_fail(cli, status);
    }
    say_next(&to, cli->out);
    return AT_EXIT_OK;
}

static const at_option options[] = {
    {"--target", "TARGET", "cpu cuda", "what the kernel is for; without it cpu"},
    {NULL, NULL, NULL, NULL},
};

const at_verb at_verb_new = {
    .name = "new",
    .arguments = "NAME",
    .summary = "write a folder with a kernel of one's own to begin with",
    .help = "Writes the folder NAME with a descriptor and a source that compute attention in tiles with an online\n"
            "softmax: complete, right, with a parameter to search, and slow. Every verb that takes a kernel takes the\n"
            "folder in its place. docs/kernels.md explains it step by step. With compile_flags.txt, and headers in\n"
            "NAME/.attune for editors; attune itself uses its own.\n",
    .examples = "  attune new mine\n"
                "  attune new kernels/mine --target cuda\n",
    .options = options,
    .run = run,
};
