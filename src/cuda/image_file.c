/* Where the images are. */
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "cuda/image.h"

enum { IMAGE_BYTES_MAX = 256 << 20 };

#ifndef ATTUNE_LIBDIR
#define ATTUNE_LIBDIR "lib" /* where an installed library lies beside an installed program's folder */
#endif

/* ---- Places ----------------------------------------------------------------------------------------------------- */

/* A path that holds the folder of a file, without its last slash; "" where it has none. */
static void cut_to_folder(char path[PATH_MAX])
{
    char *slash = strrchr(path, '/');
    *(slash != NULL ? slash : path) = '\0';
}

/* The folder of the library, or of the program that it is in. */
static void folder_of_code(char folder[PATH_MAX])
{
    Dl_info info;
    folder[0] = '\0';
    if (dladdr(at_cuda_images, &info) != 0 && info.dli_fname != NULL && strchr(info.dli_fname, '/') != NULL &&
        realpath(info.dli_fname, folder) != NULL) {
        cut_to_folder(folder);
    }
}

static void folder_of_program(char folder[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    folder[length > 0 ? length : 0] = '\0';
    cut_to_folder(folder);
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

static bool is_wanted(const void *data, size_t bytes, const char *wanted)
{
    char text[AT_DIGEST_TEXT_MAX];
    at_digest_of(data, bytes, text);
    return strcmp(text, wanted) == 0;
}

/* Looks in one folder, and adds it to the list of those where nothing was. */
static bool look(const char *folder, const char *inside, const at_cuda_image *known, at_embedded *image, at_text *seen)
{
    char path[PATH_MAX];
    void *data = NULL;
    size_t bytes = 0;
    if (folder[0] == '\0' ||
        snprintf(path, sizeof path, "%s%s/libattune-%s", folder, inside, known->name) >= (int)sizeof path) {
        return false;
    }
    if (at_file_read(path, IMAGE_BYTES_MAX, &data, &bytes) != ATTUNE_OK) {
        at_text_add(seen, " %s%s", folder, inside);
        return false;
    }
    if (!is_wanted(data, bytes, known->digest)) {
        at_text_add(seen, " %s (another build's)", path);
        free(data);
        return false;
    }
    *image = (at_embedded){known->name, data, bytes};
    return true;
}

static bool look_around(const char *folder, const at_cuda_image *known, at_embedded *image, at_text *seen)
{
    return look(folder, "", known, image, seen) || look(folder, "/../lib", known, image, seen) ||
           (strcmp(ATTUNE_LIBDIR, "lib") != 0 && look(folder, "/../" ATTUNE_LIBDIR, known, image, seen));
}

static attune_status find(const at_cuda_image *known, at_embedded *image)
{
    char code[PATH_MAX], program[PATH_MAX], list[800] = "";
    const char *given = getenv("ATTUNE_IMAGES");
    at_text seen;
    at_text_init_fixed(&seen, list, sizeof list);
    folder_of_code(code);
    folder_of_program(program);
    if ((given != NULL && look(given, "", known, image, &seen)) || look_around(code, known, image, &seen) ||
        (strcmp(code, program) != 0 && look_around(program, known, image, &seen))) {
        return ATTUNE_OK;
    }
    return at_fail(ATTUNE_NOT_FOUND,
                   "libattune-%s, code that is built ahead, is not in%s; ATTUNE_IMAGES names the folder that has it",
                   known->name, list);
}

attune_status at_image_read(const char *name, at_embedded *image)
{
    *image = (at_embedded){NULL, NULL, 0};
    for (const at_cuda_image *known = at_cuda_images; known->name != NULL; ++known) {
        if (strcmp(known->name, name) == 0) {
            return find(known, image);
        }
    }
    return at_fail(ATTUNE_NOT_FOUND, "the image %s is not in this build of the library", name);
}
