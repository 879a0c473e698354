/* Unified diffs as answers have them: line numbers are hints, context and counts are not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "evolve/proposer_answer.h"

enum { HUNK_LINES_MAX = 20000, HUNKS_MAX = 1000 /* of one file: each is looked for in all of it */ };

typedef struct line {
    const char *text;
    size_t length; /* its end included */
} line;

typedef struct reader {
    const char *at, *end;
} reader;

static bool peek(const reader *on, line *one)
{
    if (on->at >= on->end) {
        return false;
    }
    const char *newline = memchr(on->at, '\n', (size_t)(on->end - on->at));
    *one = (line){on->at, (size_t)((newline != NULL ? newline + 1 : on->end) - on->at)};
    return true;
}

static bool begins(const line *one, const char *with)
{
    return one->length >= strlen(with) && memcmp(one->text, with, strlen(with)) == 0;
}

/* "--- " with "+++ " on the next line. */
static bool is_header(const reader *on)
{
    line first = {"", 0}, second = {"", 0};
    reader next = *on;
    if (!peek(on, &first) || !begins(&first, "--- ")) {
        return false;
    }
    next.at += first.length;
    return peek(&next, &second) && begins(&second, "+++ ");
}

static bool find_header(reader *on)
{
    for (line one; peek(on, &one); on->at += one.length) {
        if (is_header(on)) {
            return true;
        }
    }
    return false;
}

bool at_answer_has_diff(const char *text, size_t bytes)
{
    reader on = {text, text + bytes};
    return find_header(&on);
}

const char *at_answer_name(const char *name)
{
    static const char *const prefixes[] = {"./", "a/", "b/", "candidate/"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; ++i) {
        size_t length = strlen(prefixes[i]);
        name += strncmp(name, prefixes[i], length) == 0 ? length : 0;
    }
    return name;
}

/* ---- Hunks ------------------------------------------------------------------------------------------------------- */

typedef struct hunk {
    long from; /* the line, from 1, where its old text is said to be */
    at_text old, new;
} hunk;

/* "N" or "N,M"; M is 1 where it is not said. */
static bool read_range(const char **at, char mark, long *first, long *count)
{
    char *after;
    if (**at != mark) {
        return false;
    }
    *first = strtol(*at + 1, &after, 10);
    *count = 1;
    bool well = after != *at + 1;
    if (well && *after == ',') {
        const char *number = after + 1;
        *count = strtol(number, &after, 10);
        well = after != number;
    }
    *at = after;
    return well && *first >= 0 && *count >= 0 && *count <= HUNK_LINES_MAX;
}

static attune_status read_hunk_head(const line *one, long *from, long *old_count, long *new_count)
{
    char head[96];
    long to;
    size_t length = one->length < sizeof head ? one->length : sizeof head - 1;
    memcpy(head, one->text, length);
    head[length] = '\0';
    head[strcspn(head, "\r\n")] = '\0';
    const char *at = head + strlen("@@ ");
    bool well = strncmp(head, "@@ ", 3) == 0 && read_range(&at, '-', from, old_count) && *at == ' ';
    at += well;
    well = well && read_range(&at, '+', &to, new_count) && strncmp(at, " @@", 3) == 0;
    AT_FAIL_IF(!well, ATTUNE_INVALID_ARGUMENT, "\"%.60s\" is no head of a hunk: \"@@ -LINE,COUNT +LINE,COUNT @@\" is",
               head);
    return ATTUNE_OK;
}

/* A line of a hunk goes into the old text, the new one, or both. An empty line is context whose blank was lost. */
static attune_status take_line(reader *on, hunk *into, long *old_left, long *new_left)
{
    line one;
    bool there = peek(on, &one) && strchr(" +-\r\n\\", one.text[0]) != NULL;
    AT_FAIL_IF(!there, ATTUNE_INVALID_ARGUMENT, "a hunk lacks %ld old and %ld new lines: the diff was cut off",
               *old_left, *new_left);
    on->at += one.length;
    if (one.text[0] == '\\') { /* "\ No newline at end of file" */
        return ATTUNE_OK;
    }
    bool bare = one.text[0] == '\n' || one.text[0] == '\r';
    bool is_old = one.text[0] != '+', is_new = one.text[0] != '-';
    const char *text = one.text + !bare;
    size_t length = one.length - !bare;
    *old_left -= is_old;
    *new_left -= is_new;
    AT_FAIL_IF(*old_left < 0 || *new_left < 0, ATTUNE_INVALID_ARGUMENT, "a hunk has more lines than its head says");
    at_text_add_bytes(&into->old, text, is_old ? length : 0);
    at_text_add_bytes(&into->new, text, is_new ? length : 0);
    return ATTUNE_OK;
}

static attune_status read_hunk(reader *on, hunk *into)
{
    line one;
    long old_left, new_left;
    AT_FAIL_IF(!peek(on, &one), ATTUNE_INVALID_ARGUMENT, "a file of the diff has no hunk");
    AT_FORWARD(read_hunk_head(&one, &into->from, &old_left, &new_left));
    on->at += one.length;
    while (old_left > 0 || new_left > 0) {
        AT_FORWARD(take_line(on, into, &old_left, &new_left));
    }
    AT_FORWARD(at_text_status(&into->old, "a hunk"));
    return at_text_status(&into->new, "a hunk");
}

/* ---- Applying ---------------------------------------------------------------------------------------------------- */

static const char *after_line(const char *at)
{
    const char *newline = strchr(at, '\n');
    return newline != NULL ? newline + 1 : at + strlen(at);
}

/* The place of a hunk's old text: whole lines, to the letter; where there are several the nearest to the line that it
 * says. NULL where there is none. */
static const char *find_old(const at_text *text, const hunk *one)
{
    const char *best = NULL;
    long best_far = 0, number = 1;
    if (one->old.length == 0) { /* it is put behind the line that is named */
        const char *at = text->data;
        for (long i = 0; i < one->from && *at != '\0'; ++i) {
            at = after_line(at);
        }
        return at;
    }
    for (const char *at = text->data; *at != '\0'; at = after_line(at), ++number) {
        size_t left = text->length - (size_t)(at - text->data);
        long far = labs(number - one->from);
        bool here = left >= one->old.length && memcmp(at, one->old.data, one->old.length) == 0;
        if (here && (best == NULL || far < best_far)) {
            best = at;
            best_far = far;
        }
    }
    return best;
}

static attune_status apply_hunk(at_text *text, const hunk *one, const char *name)
{
    at_text changed;
    const char *at = find_old(text, one);
    AT_FAIL_IF(at == NULL, ATTUNE_INVALID_ARGUMENT,
               "%s: the hunk at line %ld is not there: \"%.60s\"; context must be the file's to the letter", name,
               one->from, one->old.data);
    size_t before = (size_t)(at - text->data);
    at_text_init(&changed);
    at_text_add_bytes(&changed, text->data, before);
    at_text_add_bytes(&changed, one->new.data, one->new.length);
    at_text_add_bytes(&changed, at + one->old.length, text->length - before - one->old.length);
    attune_status status = at_text_status(&changed, name);
    if (status != ATTUNE_OK) {
        at_text_free(&changed);
        return status;
    }
    at_text_free(text);
    *text = changed;
    return ATTUNE_OK;
}

static attune_status apply_hunks(reader *on, const char *name, at_text *text)
{
    int hunks = 0;
    for (line one; peek(on, &one) && begins(&one, "@@");) {
        AT_FAIL_IF(++hunks > HUNKS_MAX, ATTUNE_INVALID_ARGUMENT, "%s: more than %d hunks", name, HUNKS_MAX);
        hunk this = {.from = 0};
        at_text_init(&this.old);
        at_text_init(&this.new);
        attune_status status = read_hunk(on, &this);
        status = status == ATTUNE_OK ? apply_hunk(text, &this, name) : status;
        at_text_free(&this.old);
        at_text_free(&this.new);
        AT_FORWARD(status);
        AT_FAIL_IF(text->length > AT_SOURCE_BYTES_MAX, ATTUNE_INVALID_ARGUMENT, "%s grows beyond %d bytes", name,
                   AT_SOURCE_BYTES_MAX);
    }
    return ATTUNE_OK;
}

/* The name of a header's line; "" for /dev/null. */
static void name_of(const line *one, char name[AT_SOURCE_NAME_MAX])
{
    char whole[AT_SOURCE_NAME_MAX];
    size_t length = one->length - strlen("--- ");
    length = length < sizeof whole ? length : sizeof whole - 1;
    memcpy(whole, one->text + strlen("--- "), length);
    whole[length] = '\0';
    whole[strcspn(whole, "\t\r\n")] = '\0';
    (void)snprintf(name, AT_SOURCE_NAME_MAX, "%s", strcmp(whole, "/dev/null") == 0 ? "" : at_answer_name(whole));
}

static attune_status apply_file(reader *on, at_sources *sources)
{
    char old[AT_SOURCE_NAME_MAX], new[AT_SOURCE_NAME_MAX];
    line one = {"", 0};
    (void)peek(on, &one);
    name_of(&one, old);
    on->at += one.length;
    (void)peek(on, &one);
    name_of(&one, new);
    on->at += one.length;
    const char *name = new[0] != '\0' ? new : old;
    AT_FORWARD(at_source_name_check(name));
    const at_source_file *file = old[0] != '\0' ? at_sources_find(sources, old) : NULL;
    AT_FAIL_IF(old[0] != '\0' && file == NULL, ATTUNE_INVALID_ARGUMENT, "the diff changes %s, which is not there", old);
    at_text text;
    at_text_init(&text);
    at_text_add_bytes(&text, file != NULL ? file->data : "", file != NULL ? file->bytes : 0);
    bool has_hunk = peek(on, &one) && begins(&one, "@@");
    attune_status status = has_hunk || new[0] == '\0'
                               ? apply_hunks(on, name, &text)
                               : at_fail(ATTUNE_INVALID_ARGUMENT, "%s has no hunk: the diff was cut off", name);
    if (status == ATTUNE_OK && (new[0] == '\0' || strcmp(old, new) != 0)) {
        at_sources_remove(sources, old);
    }
    status = status == ATTUNE_OK && new[0] != '\0' ? at_sources_put(sources, new, text.data, text.length) : status;
    at_text_free(&text);
    return status;
}

attune_status at_answer_apply_diff(const char *text, size_t bytes, at_sources *sources)
{
    enum { FILES_MAX = 64 };
    int files = 0;
    reader on = {text, text + bytes};
    AT_FAIL_IF(memchr(text, '\0', bytes) != NULL, ATTUNE_INVALID_ARGUMENT, "the diff holds a zero byte");
    while (find_header(&on)) {
        AT_FAIL_IF(++files > FILES_MAX, ATTUNE_INVALID_ARGUMENT, "the diff is of more than %d files", FILES_MAX);
        AT_FORWARD(apply_file(&on, sources));
    }
    return ATTUNE_OK;
}
