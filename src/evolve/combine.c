#include "evolve/combine.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"

enum { CELLS_MAX = 1 << 24 }; /* of the table that finds common lines */

typedef struct lines {
    const char **line; /* line[count] is the text's end */
    int32_t count;
} lines;

static attune_status split_lines(const char *text, lines *of)
{
    int32_t count = 0;
    for (const char *at = text; *at != '\0'; ++at) {
        count += *at == '\n' || at[1] == '\0';
    }
    *of = (lines){malloc(sizeof(char *) * ((size_t)count + 1)), 0};
    AT_FAIL_IF(of->line == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d lines", (int)count);
    for (const char *at = text; *at != '\0'; ++of->count) {
        of->line[of->count] = at;
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
    of->line[of->count] = text + strlen(text);
    return ATTUNE_OK;
}

static size_t length_of(const lines *of, int32_t first, int32_t end)
{
    return (size_t)(of->line[end] - of->line[first]);
}

static bool same_lines(const lines *a, int32_t a_first, int32_t a_end, const lines *b, int32_t b_first, int32_t b_end)
{
    const size_t length = length_of(a, a_first, a_end);
    return length == length_of(b, b_first, b_end) && memcmp(a->line[a_first], b->line[b_first], length) == 0;
}

static bool same_line(const lines *a, int32_t i, const lines *b, int32_t j)
{
    return same_lines(a, i, i + 1, b, j, j + 1);
}

/* ---- Common lines ----------------------------------------------------------------------------------------------- */

/* table[i][j]: the most lines that a from first + i on and b from first + j on have in common, in order. */
static void fill_table(const lines *a, const lines *b, int32_t first, int32_t rows, int32_t columns, uint16_t *table)
{
    for (int32_t i = rows - 1; i >= 0; --i) {
        for (int32_t j = columns - 1; j >= 0; --j) {
            uint16_t *at = &table[(size_t)i * (size_t)(columns + 1) + (size_t)j];
            const uint16_t below = at[columns + 1], right = at[1];
            *at = same_line(a, first + i, b, first + j) ? (uint16_t)(at[columns + 2] + 1)
                  : below > right                       ? below
                                                        : right;
        }
    }
}

static void follow_table(const lines *a, const lines *b, int32_t first, int32_t rows, int32_t columns,
                         const uint16_t *table, int32_t *match)
{
    for (int32_t i = 0, j = 0; i < rows && j < columns;) {
        const uint16_t *at = &table[(size_t)i * (size_t)(columns + 1) + (size_t)j];
        if (same_line(a, first + i, b, first + j)) {
            match[first + i++] = first + j++;
        } else if (at[columns + 1] >= at[1]) {
            ++i;
        } else {
            ++j;
        }
    }
}

/* match[i]: the line of b that line i of a is; -1: none. Ascending. */
static attune_status match_lines(const lines *a, const lines *b, int32_t *match)
{
    int32_t first = 0, rows = a->count, columns = b->count;
    memset(match, 0xff, sizeof *match * (size_t)(a->count + 1));
    for (; first < rows && first < columns && same_line(a, first, b, first); ++first) {
        match[first] = first;
    }
    for (; rows > first && columns > first && same_line(a, rows - 1, b, columns - 1); --rows, --columns) {
        match[rows - 1] = columns - 1;
    }
    rows -= first;
    columns -= first;
    AT_FAIL_IF((int64_t)(rows + 1) * (columns + 1) > CELLS_MAX, ATTUNE_NOT_FOUND, "%d and %d lines differ: too many",
               (int)rows, (int)columns);
    uint16_t *table = calloc((size_t)(rows + 1) * (size_t)(columns + 1), sizeof *table);
    AT_FAIL_IF(table == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to compare lines");
    fill_table(a, b, first, rows, columns, table);
    follow_table(a, b, first, rows, columns, table, match);
    free(table);
    return ATTUNE_OK;
}

/* ---- Merging ---------------------------------------------------------------------------------------------------- */

typedef struct merge {
    lines base, one, other;
    int32_t *in_one, *in_other; /* where base's lines are */
} merge;

static attune_status add_piece(const merge *of, const int32_t from[3], const int32_t to[3], at_text *text)
{
    const bool one = !same_lines(&of->one, from[1], to[1], &of->base, from[0], to[0]);
    const bool other = !same_lines(&of->other, from[2], to[2], &of->base, from[0], to[0]);
    AT_FAIL_IF(one && other && !same_lines(&of->one, from[1], to[1], &of->other, from[2], to[2]), ATTUNE_NOT_FOUND,
               "line %d: both have changed it", (int)from[0] + 1);
    const lines *source = other ? &of->other : &of->one;
    const int which = other ? 2 : 1;
    at_text_add_bytes(text, source->line[from[which]], length_of(source, from[which], to[which]));
    return ATTUNE_OK;
}

/* Piece by piece: lines that all three have, and what is between them. */
static attune_status merge_pieces(const merge *of, at_text *text)
{
    int32_t at[3] = {0};
    while (at[0] < of->base.count || at[1] < of->one.count || at[2] < of->other.count) {
        int32_t to[3] = {at[0], of->one.count, of->other.count};
        while (to[0] < of->base.count && (of->in_one[to[0]] < 0 || of->in_other[to[0]] < 0)) {
            ++to[0];
        }
        const bool common = to[0] < of->base.count;
        to[1] = common ? of->in_one[to[0]] : to[1];
        to[2] = common ? of->in_other[to[0]] : to[2];
        AT_FORWARD(add_piece(of, at, to, text));
        if (common) {
            at_text_add_bytes(text, of->base.line[to[0]], length_of(&of->base, to[0], to[0] + 1));
        }
        for (int i = 0; i < 3; ++i) {
            at[i] = to[i] + common;
        }
    }
    return ATTUNE_OK;
}

static attune_status prepare(const char *base, const char *one, const char *other, merge *of)
{
    AT_FORWARD(split_lines(base, &of->base));
    AT_FORWARD(split_lines(one, &of->one));
    AT_FORWARD(split_lines(other, &of->other));
    of->in_one = malloc(sizeof *of->in_one * ((size_t)of->base.count + 1));
    of->in_other = malloc(sizeof *of->in_other * ((size_t)of->base.count + 1));
    AT_FAIL_IF(of->in_one == NULL || of->in_other == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to compare lines");
    AT_FORWARD(match_lines(&of->base, &of->one, of->in_one));
    return match_lines(&of->base, &of->other, of->in_other);
}

attune_status at_combine(const char *base, const char *one, const char *other, char **combined)
{
    merge of = {0};
    at_text text;
    *combined = NULL;
    at_text_init(&text);
    attune_status status = prepare(base, one, other, &of);
    status = status == ATTUNE_OK ? merge_pieces(&of, &text) : status;
    if (status == ATTUNE_OK && (strcmp(text.data, one) == 0 || strcmp(text.data, other) == 0)) {
        status = at_fail(ATTUNE_NOT_FOUND, "what both changed together is one of the two");
    }
    free(of.base.line);
    free(of.one.line);
    free(of.other.line);
    free(of.in_one);
    free(of.in_other);
    if (status != ATTUNE_OK) {
        at_text_free(&text);
        return status;
    }
    return at_text_take(&text, "two changes together", combined, NULL);
}
