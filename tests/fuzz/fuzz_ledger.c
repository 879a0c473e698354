/* Any bytes are read as a ledger or refused. Digests keep changed lines from being read, so each line is also taken
 * without: what is read as an event is written, and reads back as the same. */
#include <stdlib.h>
#include <string.h>

#include "evolve/ledger.h"

static void close_event(at_event *event)
{
    if (event->kind == AT_EVENT_SPACE) {
        at_space_close(event->as.space);
    }
}

static void read_back(const at_event *event)
{
    json_t *object = at_event_write(event);
    at_event copy;
    if (object == NULL || at_event_read(object, "written", &copy) != ATTUNE_OK) {
        abort();
    }
    json_t *again = at_event_write(&copy);
    if (!json_equal(object, again)) {
        abort();
    }
    close_event(&copy);
    json_decref(object);
    json_decref(again);
}

static void take_line(const char *line, size_t bytes)
{
    json_t *object;
    at_event event;
    if (at_json_parse("fuzz", line, bytes, &object) != ATTUNE_OK) {
        return;
    }
    if (at_event_read(object, "fuzz", &event) == ATTUNE_OK) {
        read_back(&event);
        close_event(&event);
    }
    json_decref(object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    at_ledger_log *log;
    if (at_ledger_parse("fuzz", text, size, &log) == ATTUNE_OK) {
        at_ledger_free(log);
    }
    for (size_t begin = 0; begin < size;) {
        const char *newline = memchr(text + begin, '\n', size - begin);
        size_t bytes = newline == NULL ? size - begin : (size_t)(newline - text) - begin;
        take_line(text + begin, bytes);
        begin += bytes + 1;
    }
    return 0;
}
