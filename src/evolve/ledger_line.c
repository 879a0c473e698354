#include "evolve/ledger_line.h"

#include <string.h>

#include "base/status.h"

void at_ledger_digest(const char *before, const char *body, size_t bytes, char digest[AT_DIGEST_TEXT_MAX])
{
    at_sha256 sha;
    unsigned char raw[AT_DIGEST_BYTES];
    at_sha256_init(&sha);
    at_sha256_add(&sha, before, strlen(before));
    at_sha256_add(&sha, body, bytes);
    at_sha256_end(&sha, raw);
    at_digest_text(raw, digest);
}

attune_status at_ledger_line(const at_event *event, int64_t seq, char digest[AT_DIGEST_TEXT_MAX], at_text *line)
{
    json_t *object = at_event_write(event);
    AT_FAIL_IF(object == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a line of a ledger");
    at_text fields;
    at_text_init(&fields);
    at_json_print(object, &fields);
    json_decref(object);
    size_t begin = line->length;
    /* The object without its braces. */
    at_text_add(line, "{\"seq\":%lld,", (long long)seq);
    at_text_add_bytes(line, fields.data + 1, fields.length > 1 ? fields.length - 2 : 0);
    attune_status status = at_text_status(&fields, "a line of a ledger");
    at_text_free(&fields);
    if (status == ATTUNE_OK) {
        status = at_text_status(line, "a line of a ledger");
    }
    AT_FORWARD(status);
    at_ledger_digest(digest, line->data + begin, line->length - begin, digest);
    at_text_add(line, AT_LEDGER_DIGEST "%s\"}\n", digest);
    return at_text_status(line, "a line of a ledger");
}

size_t at_ledger_next_line(const char *text, size_t bytes)
{
    const char *newline = memchr(text, '\n', bytes);
    size_t length = newline == NULL ? 0 : (size_t)(newline - text) + 1;
    return length == bytes && memchr(text, '\0', length) != NULL ? 0 : length;
}

bool at_ledger_is_torn_start(const char *text, size_t bytes)
{
    static const char start[] = "{\"seq\":0,\"kind\":\"start\",";
    size_t known = 0;
    while (known < bytes && known < strlen(start) && text[known] == start[known]) {
        ++known;
    }
    bool fits = known == bytes || known == strlen(start) || text[known] == '\0';
    return bytes > 0 && fits && at_ledger_next_line(text, bytes) == 0;
}
