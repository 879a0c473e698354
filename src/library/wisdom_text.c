/* Wisdom as text: reading and printing. docs/wisdom.md has the format. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "library/wisdom.h"

#define FIRST_LINE "attune-wisdom 1"

enum { FIELDS = 6, CHECK_DIGITS = 16 };

static const char *const kind_name[] = {[AT_MEASURED] = "measured", [AT_PROVEN] = "proven"};

/* FNV-1a over the line up to the blank before the checksum. It finds accidents; it is no protection against intent,
 * which is what the verdict's digest is for. */
static uint64_t checksum(const char *line, size_t bytes)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; ++i) {
        hash = (hash ^ (unsigned char)line[i]) * 0x100000001b3u;
    }
    return hash;
}

/* Splits at single blanks; false unless there are exactly FIELDS parts, none empty. Writes into `line`. */
static bool split(char *line, char *field[FIELDS])
{
    char *at = line;
    for (int i = 0; i < FIELDS; ++i) {
        char *blank = strchr(at, ' ');
        if ((blank == NULL) != (i == FIELDS - 1) || blank == at || *at == '\0') {
            return false;
        }
        field[i] = at;
        if (blank != NULL) {
            *blank = '\0';
            at = blank + 1;
        }
    }
    return true;
}

static bool checksum_holds(const char *line, size_t bytes)
{
    char expected[CHECK_DIGITS + 1];
    if (bytes <= CHECK_DIGITS || line[bytes - CHECK_DIGITS - 1] != ' ') {
        return false;
    }
    (void)snprintf(expected, sizeof expected, "%016" PRIx64, checksum(line, bytes - CHECK_DIGITS - 1));
    return memcmp(line + bytes - CHECK_DIGITS, expected, CHECK_DIGITS) == 0;
}

/* Adds one line. ATTUNE_CORRUPT for anything that this library would not have written. */
static attune_status parse_line(at_wisdom *wisdom, const char *line, size_t bytes)
{
    char copy[AT_WISDOM_LINE_MAX + 1];
    char *field[FIELDS];
    if (bytes > AT_WISDOM_LINE_MAX || memchr(line, '\0', bytes) != NULL || !checksum_holds(line, bytes)) {
        return ATTUNE_CORRUPT;
    }
    memcpy(copy, line, bytes);
    copy[bytes] = '\0';
    if (!split(copy, field)) {
        return ATTUNE_CORRUPT;
    }
    bool proven = strcmp(field[0], kind_name[AT_PROVEN]) == 0;
    bool measured = strcmp(field[0], kind_name[AT_MEASURED]) == 0;
    if (!proven && !(measured && strcmp(field[4], "-") == 0)) {
        return ATTUNE_CORRUPT;
    }
    at_wisdom_row row = {proven ? AT_PROVEN : AT_MEASURED, field[1], field[2], field[3], proven ? field[4] : NULL};
    attune_status status = at_wisdom_add(wisdom, &row);
    return status == ATTUNE_INVALID_ARGUMENT ? ATTUNE_CORRUPT : status;
}

static attune_status check_first_line(const char *text, size_t bytes)
{
    size_t length = strlen(FIRST_LINE);
    if (bytes >= length && memcmp(text, FIRST_LINE, length) == 0 && (bytes == length || text[length] == '\n')) {
        return ATTUNE_OK;
    }
    return at_fail(ATTUNE_CORRUPT, "not wisdom that this version reads: the first line must be \"%s\"", FIRST_LINE);
}

attune_status at_wisdom_parse(at_wisdom *wisdom, const char *text, size_t bytes, size_t *skipped)
{
    size_t bad = 0;
    AT_FAIL_IF(bytes > AT_WISDOM_BYTES_MAX, ATTUNE_CORRUPT, "%zu bytes of wisdom, at most %zu are read", bytes,
               AT_WISDOM_BYTES_MAX);
    AT_FORWARD(check_first_line(text, bytes));
    /* From the last line to the second: what comes first in a file is newest, and what is added last is. */
    const char *first = text + strlen(FIRST_LINE);
    const char *end = text + bytes;
    while (end > first) {
        const char *newline = memrchr(first, '\n', (size_t)(end - first));
        const char *line = newline + 1;
        size_t length = (size_t)(end - line);
        if (length > 0 && *line != '#') {
            attune_status status = parse_line(wisdom, line, length);
            bad += status == ATTUNE_CORRUPT;
            if (status != ATTUNE_OK && status != ATTUNE_CORRUPT) {
                return status;
            }
        }
        end = newline;
    }
    if (skipped != NULL) {
        *skipped = bad;
    }
    return ATTUNE_OK;
}

static size_t row_room(const at_wisdom_row *row)
{
    return strlen(row->class_text) + strlen(row->target_text) + strlen(row->kernel_text) + 128;
}

static size_t print_row(const at_wisdom_row *row, char *to, size_t room)
{
    int used = snprintf(to, room, "%s %s %s %s %s", kind_name[row->kind], row->class_text, row->target_text,
                        row->kernel_text, row->verdict == NULL ? "-" : row->verdict);
    uint64_t check = checksum(to, (size_t)used);
    return (size_t)used + (size_t)snprintf(to + used, room - (size_t)used, " %016" PRIx64 "\n", check);
}

attune_status at_wisdom_print(const at_wisdom *wisdom, char **text, size_t *bytes)
{
    const at_wisdom_row **rows;
    AT_FORWARD(at_wisdom_order(wisdom, &rows));
    size_t count = at_wisdom_count(wisdom);
    size_t room = sizeof FIRST_LINE + 1;
    for (size_t i = 0; i < count; ++i) {
        room += row_room(rows[i]);
    }
    char *out = malloc(room);
    if (out == NULL) {
        free(rows);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "wisdom: no memory for %zu bytes of text", room);
    }
    size_t used = (size_t)snprintf(out, room, "%s\n", FIRST_LINE);
    for (int kind = AT_PROVEN; kind >= AT_MEASURED; --kind) {
        for (size_t i = count; i-- > 0;) {
            if ((int)rows[i]->kind == kind) {
                used += print_row(rows[i], out + used, room - used);
            }
        }
    }
    free(rows);
    *text = out;
    *bytes = used;
    return ATTUNE_OK;
}
