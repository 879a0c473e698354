/* The record of a search for code: its ledger, and the answers beside it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "evolve/code_parts.h"

enum { PATH_BYTES = 4096, ANSWER_MAX = 32 << 20 };

void at_code_ledger_path(const char *folder, char *path, size_t bytes)
{
    (void)snprintf(path, bytes, "%s/code.jsonl", folder);
}

/* ---- Answers ----------------------------------------------------------------------------------------------------- */

static attune_status answer_path(const char *folder, const char *digest, char path[PATH_BYTES])
{
    AT_FAIL_IF(strspn(digest, "0123456789abcdef") != AT_DIGEST_TEXT_MAX - 1 || digest[AT_DIGEST_TEXT_MAX - 1] != '\0',
               ATTUNE_CORRUPT, "\"%.70s\" is no digest of an answer", digest);
    (void)snprintf(path, PATH_BYTES, "%s/answers/%s.json", folder, digest);
    return ATTUNE_OK;
}

attune_status at_code_answer_write(const char *folder, const char *digest, const at_sources *sources)
{
    char path[PATH_BYTES];
    at_text text;
    json_t *files = json_object();
    AT_FORWARD(answer_path(folder, digest, path));
    char *slash = strrchr(path, '/');
    *slash = '\0';
    AT_FORWARD(at_directory_make(path));
    *slash = '/';
    for (int i = 0; i < sources->count; ++i) { /* bytes, which need not be UTF-8: each as the letter of its number */
        const at_source_file *file = &sources->file[i];
        at_text letters;
        at_text_init(&letters);
        for (size_t k = 0; k < file->bytes; ++k) {
            unsigned char byte = (unsigned char)file->data[k];
            const unsigned letter = byte == 0 ? 0x100 : byte; /* 0 is no letter of JSON's readers */
            const char two[] = {(char)(0xc0 | letter >> 6), (char)(0x80 | (letter & 0x3f))};
            at_text_add_bytes(&letters, letter < 0x80 ? &file->data[k] : two, letter < 0x80 ? 1 : 2);
        }
        (void)json_object_set_new(files, file->name, json_stringn(letters.data, letters.length));
        at_text_free(&letters);
    }
    at_text_init(&text);
    at_json_print(files, &text);
    json_decref(files);
    attune_status status = at_text_status(&text, "an answer");
    status = status == ATTUNE_OK ? at_file_write(path, text.data, text.length) : status;
    at_text_free(&text);
    return status;
}

static attune_status put_letters(at_sources *sources, const char *name, const json_t *value)
{
    const unsigned char *from = (const unsigned char *)json_string_value(value);
    size_t length = json_string_length(value), bytes = 0;
    char *data = from != NULL ? malloc(length + 1) : NULL;
    AT_FAIL_IF(data == NULL, ATTUNE_CORRUPT, "an answer's file %.60s is no text", name);
    for (size_t i = 0; i < length; ++i) {
        bool two = from[i] >= 0xc0 && i + 1 < length;
        data[bytes++] = (char)(two ? (from[i] & 7) << 6 | (from[i + 1] & 0x3f) : from[i]);
        i += two;
    }
    attune_status status = at_sources_put(sources, name, data, bytes);
    free(data);
    return status;
}

static attune_status read_files(const char *path, const void *data, size_t bytes, at_sources *sources)
{
    json_t *files;
    const char *name;
    json_t *value;
    attune_status status = ATTUNE_OK;
    AT_FORWARD(at_json_parse(path, data, bytes, &files));
    json_object_foreach(files, name, value)
    {
        status = status == ATTUNE_OK ? put_letters(sources, name, value) : status;
    }
    json_decref(files);
    return status;
}

attune_status at_code_answer_read(const char *folder, const char *digest, at_sources *sources)
{
    char path[PATH_BYTES], found[AT_DIGEST_TEXT_MAX];
    void *data;
    size_t bytes;
    *sources = (at_sources){.count = 0};
    AT_FORWARD(answer_path(folder, digest, path));
    AT_FORWARD(at_file_read(path, ANSWER_MAX, &data, &bytes));
    attune_status status = read_files(path, data, bytes, sources);
    free(data);
    at_sources_digest(sources, found);
    if (status == ATTUNE_OK && strcmp(found, digest) != 0) {
        status = at_fail(ATTUNE_CORRUPT, "%s does not hold the answer of its name", path);
    }
    if (status != ATTUNE_OK) {
        at_sources_free(sources);
    }
    return status;
}

/* ---- Ledgers ----------------------------------------------------------------------------------------------------- */

static attune_status check_start(const char *path, const at_event_start *was, const at_event_start *is)
{
    const struct {
        const char *what, *was, *is;
    } fields[] = {{"kernel", was->kernel, is->kernel}, {"problem", was->problem, is->problem},
                  {"target", was->target, is->target}, {"source", was->source, is->source},
                  {"budget", was->budget, is->budget}, {"policy", was->policy, is->policy}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i) {
        AT_FAIL_IF(strcmp(fields[i].was, fields[i].is) != 0, ATTUNE_INVALID_ARGUMENT,
                   "ledger %.200s: its %s is \"%.120s\", not \"%.120s\": it is of another search", path, fields[i].what,
                   fields[i].was, fields[i].is);
    }
    AT_FAIL_IF(was->seed != is->seed, ATTUNE_INVALID_ARGUMENT, "ledger %.200s: its seed is %llu, not %llu", path,
               (unsigned long long)was->seed, (unsigned long long)is->seed);
    return ATTUNE_OK;
}

static attune_status create(at_code *on, const char *path)
{
    at_event start = {.kind = AT_EVENT_START, .as.start = on->options->start};
    AT_FORWARD(at_directory_make(on->options->folder));
    return at_ledger_create(path, &start, &on->ledger);
}

static attune_status open_before(at_code *on, const char *path)
{
    AT_FAIL_IF(on->before->count == 0, ATTUNE_CORRUPT, "%s holds no search", path);
    on->next = 1;
    on->before_s = on->before->event[on->before->count - 1].at_s;
    return check_start(path, &on->before->event[0].as.start, &on->options->start);
}

attune_status at_code_log_open(at_code *on)
{
    char path[PATH_BYTES];
    bool begun = false;
    if (on->options->replay != NULL) {
        at_code_ledger_path(on->options->replay, path, sizeof path);
        AT_FORWARD(at_ledger_read(path, &on->before));
        AT_FORWARD(open_before(on, path));
    }
    if (on->options->folder == NULL) {
        return ATTUNE_OK;
    }
    at_code_ledger_path(on->options->folder, path, sizeof path);
    AT_FORWARD(at_ledger_begun(path, &begun));
    AT_FAIL_IF(begun && !on->options->resume, ATTUNE_INVALID_ARGUMENT,
               "%s is there already, and none is overwritten: --resume goes on with it, another name begins anew",
               path);
    if (!begun) {
        return create(on, path);
    }
    AT_FORWARD(at_ledger_resume(path, &on->ledger, &on->before));
    return open_before(on, path);
}

double at_code_now(const at_code *on)
{
    return on->before_s + on->options->machine.seconds(on->options->machine.self);
}

void at_code_log_close(at_code *on)
{
    at_ledger_close(on->ledger);
    at_ledger_free(on->before);
}

/* ---- Going through a record -------------------------------------------------------------------------------------- */

static int id_of(const at_event *event)
{
    switch (event->kind) {
    case AT_EVENT_PROPOSAL:
        return event->as.proposal.id;
    case AT_EVENT_MADE:
        return event->as.made.id;
    case AT_EVENT_TUNED:
        return event->as.tuned.id;
    case AT_EVENT_DUEL:
        return event->as.duel.id;
    case AT_EVENT_LAST:
        return event->as.last.id;
    case AT_EVENT_JUDGED:
        return event->as.judged.id;
    default:
        return 0;
    }
}

bool at_code_comes(const at_code *on, at_event_kind kind, int id)
{
    const at_event *next = on->before != NULL && on->next < on->before->count ? &on->before->event[on->next] : NULL;
    return next != NULL && next->kind == kind && id_of(next) == id;
}

attune_status at_code_recall(at_code *on, at_event *event, int id, bool *recalled)
{
    *recalled = on->before != NULL && on->next < on->before->count;
    AT_FAIL_IF(!*recalled && on->options->replay != NULL, ATTUNE_NOT_FOUND, "the record ends here: its run was ended");
    if (!*recalled) {
        return ATTUNE_OK;
    }
    const at_event *was = &on->before->event[on->next];
    AT_FAIL_IF(was->kind != event->kind || id_of(was) != id, ATTUNE_CORRUPT,
               "line %zu of the ledger is \"%s\" of proposal %d; \"%s\" of proposal %d follows from those before it",
               on->next + 1, at_names_of_events[was->kind], id_of(was), at_names_of_events[event->kind], id);
    *event = *was;
    ++on->next;
    return ATTUNE_OK;
}

/* What goes on is what a ledger gives back: texts that are no UTF-8 are others there. */
static attune_status settle(at_event *event)
{
    at_event read;
    json_t *object = at_event_write(event);
    AT_FAIL_IF(object == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for an event");
    attune_status status = at_event_read(object, "an event", &read);
    json_decref(object);
    AT_FORWARD(status);
    *event = read;
    return ATTUNE_OK;
}

attune_status at_code_write(at_code *on, at_event *event, bool recalled)
{
    AT_FORWARD(recalled ? ATTUNE_OK : settle(event));
    on->at_s = event->at_s;
    if (on->ledger != NULL && (!recalled || on->options->replay != NULL)) {
        AT_FORWARD(at_ledger_append(on->ledger, event));
    }
    if (on->options->watch.event != NULL) {
        on->options->watch.event(on->options->watch.self, event, &on->lineage);
    }
    return ATTUNE_OK;
}

static attune_status print_event(const at_event *event, at_text *text)
{
    json_t *object = at_event_write(event);
    AT_FAIL_IF(object == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for an event");
    at_json_print(object, text);
    json_decref(object);
    return at_text_status(text, "an event");
}

attune_status at_code_decide(at_code *on, at_event *event)
{
    bool recalled;
    at_event was = {.kind = event->kind};
    at_text now, then;
    event->at_s = on->at_s;
    attune_status status = at_code_recall(on, &was, id_of(event), &recalled);
    if (status == ATTUNE_NOT_FOUND || !recalled) { /* a decision needs no machine: the record may end before it */
        return status == ATTUNE_OK || status == ATTUNE_NOT_FOUND ? at_code_write(on, event, false) : status;
    }
    AT_FORWARD(status);
    at_text_init(&now);
    at_text_init(&then);
    status = print_event(event, &now);
    status = status == ATTUNE_OK ? print_event(&was, &then) : status;
    if (status == ATTUNE_OK && strcmp(now.data, then.data) != 0) {
        status = at_fail(ATTUNE_CORRUPT, "line %zu of the ledger is another decision than follows: %.200s", on->next,
                         now.data);
    }
    at_text_free(&now);
    at_text_free(&then);
    return status == ATTUNE_OK ? at_code_write(on, event, true) : status;
}
