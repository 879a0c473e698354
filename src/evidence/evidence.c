#include "evidence/evidence.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "evidence/evidence_parts.h"
#include "evidence/packed.h"
#include "evidence/zip.h"

static const char format_name[] = "attune evidence";

/* ---- Digests ----------------------------------------------------------------------------------------------------- */

/* Of the object's text without its "digest". */
static attune_status digest_of(json_t *object, char digest[AT_DIGEST_TEXT_MAX])
{
    at_text text;
    json_t *rest = json_copy(object);
    if (rest != NULL) {
        (void)json_object_del(rest, "digest");
    }
    at_text_init(&text);
    at_json_print(rest, &text);
    attune_status status = rest == NULL ? at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a digest")
                                        : at_text_status(&text, "a verdict's text");
    if (status == ATTUNE_OK) {
        at_digest_of(text.data, text.length, digest);
    }
    at_text_free(&text);
    json_decref(rest);
    return status;
}

attune_status at_evidence_object(const at_verdict *verdict, char digest[AT_DIGEST_TEXT_MAX], json_t **object)
{
    json_t *whole = json_object();
    json_t *rest = at_evidence_write_verdict(verdict);
    attune_status status = rest == NULL
                               ? at_fail(ATTUNE_OUT_OF_MEMORY, "no memory to write a verdict on %s", verdict->kernel)
                               : digest_of(rest, digest);
    if (status == ATTUNE_OK &&
        (json_object_set_new(whole, "digest", json_string(digest)) != 0 || json_object_update(whole, rest) != 0)) {
        status = at_fail(ATTUNE_OUT_OF_MEMORY, "no memory to write a verdict on %s", verdict->kernel);
    }
    json_decref(rest);
    if (status != ATTUNE_OK) {
        json_decref(whole);
        whole = NULL;
    }
    *object = whole;
    return status;
}

attune_status at_verdict_print(const at_verdict *verdict, char **text, char digest[AT_DIGEST_TEXT_MAX])
{
    json_t *object = NULL;
    at_text printed;
    *text = NULL;
    AT_FORWARD(at_evidence_object(verdict, digest, &object));
    at_text_init(&printed);
    at_json_print(object, &printed);
    json_decref(object);
    return at_text_take(&printed, "a verdict", text, NULL);
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* The array of verdicts in a text; the object it belongs to must be released. */
static attune_status open_text(const char *what, const char *text, size_t bytes, json_t **object, json_t **list)
{
    const char *name;
    int64_t version = 0;
    AT_FORWARD(at_json_parse(what, text, bytes, object));
    attune_status status = at_json_string(*object, what, "format", &name);
    if (status == ATTUNE_OK && strcmp(name, format_name) != 0) {
        status = at_fail(ATTUNE_CORRUPT, "%s: its format is \"%.40s\", expected \"%s\"", what, name, format_name);
    }
    if (status == ATTUNE_OK) {
        status = at_json_int(*object, what, "version", 1, INT32_MAX, &version);
    }
    if (status == ATTUNE_OK && version > AT_EVIDENCE_VERSION) {
        status =
            at_fail(ATTUNE_UNSUPPORTED, "%s: evidence of version %d, this attune knows version %d: use a newer one",
                    what, (int)version, AT_EVIDENCE_VERSION);
    }
    if (status == ATTUNE_OK) {
        status = at_json_field(*object, what, "verdicts", JSON_ARRAY, list);
    }
    if (status != ATTUNE_OK) {
        json_decref(*object);
        *object = NULL;
    }
    return status;
}

static attune_status check_digest(json_t *object, const char *path, char digest[AT_DIGEST_TEXT_MAX])
{
    const char *recorded;
    AT_FORWARD(at_json_string(object, path, "digest", &recorded));
    AT_FORWARD(digest_of(object, digest));
    AT_FAIL_IF(strcmp(recorded, digest) != 0, ATTUNE_CORRUPT,
               "%s was changed: its digest is recorded as %.16s..., and is %.16s...", path, recorded, digest);
    return ATTUNE_OK;
}

static attune_status read_entry(json_t *object, const char *path, at_evidence_entry *entry)
{
    AT_FAIL_IF(!json_is_object(object), ATTUNE_CORRUPT, "%s is %s, expected an object", path, at_json_kind(object));
    AT_FORWARD(at_packed_open(object, path));
    AT_FORWARD(at_verdict_create(&entry->verdict));
    AT_FORWARD(at_evidence_read_verdict(object, path, entry->verdict));
    return check_digest(object, path, entry->digest);
}

static attune_status read_all(const char *what, const json_t *list, at_evidence *evidence)
{
    size_t count = json_array_size(list);
    evidence->entry = calloc(count + 1, sizeof *evidence->entry);
    AT_FAIL_IF(evidence->entry == NULL, ATTUNE_OUT_OF_MEMORY, "%s: no memory for %zu verdicts", what, count);
    for (size_t i = 0; i < count; ++i) {
        at_evidence_entry *entry = &evidence->entry[evidence->count++];
        char path[160];
        (void)snprintf(path, sizeof path, "%.120s: verdict %zu", what, i + 1);
        entry->status = read_entry(json_array_get(list, i), path, entry);
        if (entry->status == ATTUNE_OUT_OF_MEMORY) {
            return entry->status;
        }
        if (entry->status != ATTUNE_OK) {
            (void)snprintf(entry->what, sizeof entry->what, "%s", attune_last_detail());
            at_verdict_destroy(entry->verdict);
            entry->verdict = NULL;
        }
    }
    return ATTUNE_OK;
}

attune_status at_evidence_parse(const char *what, const char *text, size_t bytes, at_evidence *evidence)
{
    json_t *object, *list;
    *evidence = (at_evidence){0};
    AT_FORWARD(open_text(what, text, bytes, &object, &list));
    attune_status status = read_all(what, list, evidence);
    json_decref(object);
    if (status != ATTUNE_OK) {
        at_evidence_close(evidence);
    }
    return status;
}

/* A file's text, decompressed where it is compressed. */
static attune_status read_text(const char *path, at_text *text)
{
    void *data = NULL;
    size_t bytes = 0;
    AT_FORWARD(at_file_read(path, AT_EVIDENCE_BYTES_MAX, &data, &bytes));
    attune_status status = ATTUNE_OK;
    if (at_zip_is(data, bytes)) {
        status = at_zip_open(path, data, bytes, AT_EVIDENCE_BYTES_MAX, text);
    } else {
        at_text_add_bytes(text, data, bytes);
        status = at_text_status(text, path);
    }
    free(data);
    return status;
}

attune_status at_evidence_read(const char *path, at_evidence *evidence)
{
    at_text text;
    *evidence = (at_evidence){0};
    at_text_init(&text);
    attune_status status = read_text(path, &text);
    status = status == ATTUNE_OK ? at_evidence_parse(path, text.data, text.length, evidence) : status;
    at_text_free(&text);
    return status;
}

void at_evidence_close(at_evidence *evidence)
{
    for (size_t i = 0; i < evidence->count; ++i) {
        at_verdict_destroy(evidence->entry[i].verdict);
    }
    free(evidence->entry);
    *evidence = (at_evidence){0};
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

/* Of a packed verdict the bits stand last, a piece of their own: what they are made of is another alphabet. */
static attune_status zip_verdict(const json_t *verdict, const char *before, at_zip *zip)
{
    at_text line, bits;
    at_text_init(&line);
    at_text_init(&bits);
    json_t *packed = at_packed_close(verdict, &bits);
    at_text_add(&line, "%s", before);
    at_json_print(packed, &line);
    attune_status status = packed != NULL ? at_text_status(&line, "a verdict")
                                          : at_fail(ATTUNE_OUT_OF_MEMORY, "no memory to pack a verdict");
    status = status == ATTUNE_OK ? at_text_status(&bits, "a verdict's samples") : status;
    if (status == ATTUNE_OK && bits.length == 0) {
        status = at_zip_add(zip, line.data, line.length);
    } else if (status == ATTUNE_OK) {
        at_zip_part(zip, line.data, line.length - 1); /* without the brace that ends it */
        at_text_free(&line);
        at_text_init(&line);
        at_text_add(&line, ",\"bits\":\"%s\"}", bits.data);
        status = at_text_status(&line, "a verdict");
        status = status == ATTUNE_OK ? at_zip_add(zip, line.data, line.length) : status;
    }
    at_text_free(&line);
    at_text_free(&bits);
    json_decref(packed);
    return status;
}

/* Text of a file. */
static attune_status print_text(const char *text, at_zip *zip, at_text *file)
{
    if (zip != NULL) {
        return at_zip_add(zip, text, strlen(text));
    }
    at_text_add(file, "%s", text);
    return at_text_status(file, "evidence");
}

/* One verdict a line, each compressed by itself: versions of a file then differ in few places. `zip` NULL: as it is. */
static attune_status print_verdict(const json_t *verdict, const char *before, at_zip *zip, at_text *file)
{
    if (zip != NULL) {
        return zip_verdict(verdict, before, zip);
    }
    at_text_add(file, "%s", before);
    at_json_print(verdict, file);
    return at_text_status(file, "a verdict");
}

static attune_status print_file(const json_t *list, at_zip *zip, at_text *file)
{
    char head[80];
    (void)snprintf(head, sizeof head, "{\"format\":\"%s\",\"version\":%d,\"verdicts\":[", format_name,
                   AT_EVIDENCE_VERSION);
    AT_FORWARD(print_text(head, zip, file));
    for (size_t i = 0; i < json_array_size(list); ++i) {
        AT_FORWARD(print_verdict(json_array_get(list, i), i > 0 ? ",\n" : "\n", zip, file));
    }
    return print_text("\n]}\n", zip, file);
}

attune_status at_evidence_write(const char *path, const json_t *list)
{
    at_text text;
    at_zip *zip = NULL;
    at_text_init(&text);
    attune_status status = ends_with(path, ".gz") ? at_zip_create(&text, &zip) : ATTUNE_OK;
    status = status == ATTUNE_OK ? print_file(list, zip, &text) : status;
    attune_status ended = at_zip_end(zip);
    status = status == ATTUNE_OK ? ended : status;
    status = status == ATTUNE_OK ? at_text_status(&text, path) : status;
    if (status == ATTUNE_OK && text.length > AT_EVIDENCE_BYTES_MAX) {
        status =
            at_fail(ATTUNE_INVALID_ARGUMENT, "%s would have %zu bytes, at most %zu can be read back: use another file",
                    path, text.length, AT_EVIDENCE_BYTES_MAX);
    }
    if (status == ATTUNE_OK) {
        status = at_file_write(path, text.data, text.length);
    }
    at_text_free(&text);
    return status;
}

attune_status at_evidence_list(const char *path, json_t **object, json_t **list)
{
    at_text text;
    at_text_init(&text);
    attune_status status = read_text(path, &text);
    if (status == ATTUNE_OK) {
        status = open_text(path, text.data, text.length, object, list);
    }
    at_text_free(&text);
    for (size_t i = 0; status == ATTUNE_OK && i < json_array_size(*list); ++i) {
        (void)at_packed_open(json_array_get(*list, i), path); /* what cannot be opened stays as it is */
    }
    return status;
}

/* What the file holds; an empty list where there is no file. */
static attune_status read_list(const char *path, json_t **object, json_t **list)
{
    attune_status status = at_evidence_list(path, object, list);
    if (status == ATTUNE_NOT_FOUND) {
        *object = *list = json_array();
        status = *list != NULL ? ATTUNE_OK : at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for %s", path);
    }
    return status;
}

static attune_status append(const char *path, json_t *verdict)
{
    json_t *object, *list;
    AT_FORWARD(read_list(path, &object, &list));
    attune_status status = json_array_append(list, verdict) == 0
                               ? at_evidence_write(path, list)
                               : at_fail(ATTUNE_OUT_OF_MEMORY, "no memory to add to %s", path);
    json_decref(object);
    return status;
}

/* The directory is locked, not the file, because the file is replaced. Where locks do not work the file stays whole
 * without them. */
static int lock_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    int lock = folder == NULL ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    while (lock >= 0 && flock(lock, LOCK_EX) != 0 && errno == EINTR && !at_file_interrupted()) {
    }
    return lock;
}

attune_status at_evidence_add(const char *path, const at_verdict *verdict)
{
    json_t *object;
    char digest[AT_DIGEST_TEXT_MAX];
    AT_FORWARD(at_evidence_object(verdict, digest, &object));
    int lock = lock_directory(path);
    attune_status status = append(path, object);
    if (lock >= 0) {
        (void)close(lock);
    }
    json_decref(object);
    return status;
}

/* ---- Where evidence lies ----------------------------------------------------------------------------------------- */

/* As much of a text as belongs into a file's name. */
static void add_name(at_text *path, const char *text, const char *end)
{
    for (; *text != '\0' && strchr(end, *text) == NULL; ++text) {
        at_text_add(path, "%c", isalnum((unsigned char)*text) || strchr("_-.", *text) != NULL ? *text : '_');
    }
}

/* DIR/MODEL/NAME.json.gz, whose folder is made. */
static attune_status make_path(const char *dir, const char *model, const char *kernel, at_text *path)
{
    at_text_init(path);
    at_text_add(path, "%s/", dir);
    add_name(path, model, "");
    attune_status status = at_text_status(path, "a path");
    status = status == ATTUNE_OK ? at_directory_make(path->data) : status;
    at_text_add(path, "/");
    add_name(path, kernel, ":");
    at_text_add(path, ".json.gz");
    return status == ATTUNE_OK ? at_text_status(path, "a path") : status;
}

attune_status at_evidence_keep(const char *dir, const at_verdict *verdict)
{
    at_text path;
    attune_status status = make_path(dir, verdict->target.model, verdict->kernel, &path);
    status = status == ATTUNE_OK ? at_evidence_add(path.data, verdict) : status;
    at_text_free(&path);
    return status;
}

attune_status at_evidence_check(const char *dir, const char *model, const char *kernel)
{
    at_text path;
    AT_FORWARD(at_directory_check(dir));
    if (model == NULL || model[0] == '\0') {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_directory_make(dir));
    if (kernel == NULL) {
        return ATTUNE_OK;
    }
    attune_status status = make_path(dir, model, kernel, &path);
    status = status == ATTUNE_OK ? at_writer_check(path.data) : status;
    at_text_free(&path);
    return status;
}

typedef struct paths {
    char **item;
    size_t count, room;
} paths;

static attune_status add_path(paths *found, const char *path)
{
    if (found->count == found->room) {
        size_t room = found->room > 0 ? 2 * found->room : 16;
        char **grown = realloc(found->item, room * sizeof *grown);
        AT_FAIL_IF(grown == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu paths", room);
        found->item = grown;
        found->room = room;
    }
    found->item[found->count] = strdup(path);
    AT_FAIL_IF(found->item[found->count] == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a path");
    ++found->count;
    return ATTUNE_OK;
}

enum { DEPTH_MAX = 8 };

static attune_status find_below(const char *path, int depth, paths *found);

static attune_status find_entry(const char *path, const char *name, int depth, paths *found)
{
    struct stat about;
    char *inside = NULL;
    if (name[0] == '.') {
        return ATTUNE_OK;
    }
    AT_FAIL_IF(asprintf(&inside, "%s/%s", path, name) < 0, ATTUNE_OUT_OF_MEMORY, "no memory for a path");
    attune_status status = ATTUNE_OK;
    if (stat(inside, &about) == 0 && S_ISDIR(about.st_mode) && depth < DEPTH_MAX) {
        status = find_below(inside, depth + 1, found);
    } else if (ends_with(name, ".json") || ends_with(name, ".json.gz")) {
        status = add_path(found, inside);
    }
    free(inside);
    return status;
}

static attune_status find_below(const char *path, int depth, paths *found)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort);
    AT_FAIL_IF(count < 0, ATTUNE_IO_ERROR, "%s: %s", path, strerror(errno));
    attune_status status = ATTUNE_OK;
    for (int i = 0; i < count; ++i) {
        status = status == ATTUNE_OK ? find_entry(path, entries[i]->d_name, depth, found) : status;
        free(entries[i]);
    }
    free(entries);
    return status;
}

attune_status at_evidence_find(const char *path, char ***files, size_t *count)
{
    struct stat about;
    paths found = {0};
    *files = NULL;
    *count = 0;
    AT_FAIL_IF(stat(path, &about) != 0, ATTUNE_NOT_FOUND, "%s: %s", path, strerror(errno));
    attune_status status = S_ISDIR(about.st_mode) ? find_below(path, 0, &found) : add_path(&found, path);
    if (status != ATTUNE_OK) {
        for (size_t i = 0; i < found.count; ++i) {
            free(found.item[i]);
        }
        free(found.item);
        return status;
    }
    *files = found.item;
    *count = found.count;
    return ATTUNE_OK;
}
