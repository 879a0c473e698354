#include "report/table.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "report/html.h"
#include "report/utf8.h"

typedef union cell {
    char *text; /* TEXT: owned, NULL for an empty cell */
    int64_t integer;
    double number;
} cell;

struct at_table {
    const at_column *columns;
    int column_count;
    attune_status status; /* the first failure to add a cell */
    size_t count, room;   /* cells */
    cell *cells;
};

enum { TSV_DIGITS = 7, JSON_DIGITS = 12, CELL_TEXT = 48 };

attune_status at_format_parse(const char *text, at_format *format)
{
    static const char *const names[] = {[AT_FORMAT_TEXT] = "text", [AT_FORMAT_TSV] = "tsv", [AT_FORMAT_JSON] = "json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        if (strcmp(text, names[i]) == 0) {
            *format = (at_format)i;
            return ATTUNE_OK;
        }
    }
    return at_fail(ATTUNE_INVALID_ARGUMENT, "format %s: text, tsv or json is needed", text);
}

/* ---- Filling --------------------------------------------------------------------------------------------------------
 */

attune_status at_table_create(const at_column *columns, int count, at_table **table)
{
    *table = NULL;
    AT_FAIL_IF(count < 1, ATTUNE_INVALID_ARGUMENT, "a table of %d columns: at least 1 is needed", count);
    at_table *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a table");
    made->columns = columns;
    made->column_count = count;
    *table = made;
    return ATTUNE_OK;
}

static const at_column *column_of(const at_table *table, size_t index)
{
    return &table->columns[index % (size_t)table->column_count];
}

void at_table_destroy(at_table *table)
{
    if (table == NULL) {
        return;
    }
    for (size_t i = 0; i < table->count; ++i) {
        if (column_of(table, i)->kind == AT_COLUMN_TEXT) {
            free(table->cells[i].text);
        }
    }
    free(table->cells);
    free(table);
}

static attune_status whole(const at_table *table)
{
    AT_FAIL_IF(table->status != ATTUNE_OK, table->status, "no memory for the cells of a table");
    return ATTUNE_OK;
}

/* Of complete rows. */
static size_t cells_of(const at_table *table)
{
    return table->count - table->count % (size_t)table->column_count;
}

static bool grow(at_table *table)
{
    if (table->count < table->room) {
        return true;
    }
    size_t room = table->room == 0 ? 64 : table->room * 2;
    cell *cells = realloc(table->cells, room * sizeof *cells);
    if (cells == NULL) {
        table->status = ATTUNE_OUT_OF_MEMORY;
        return false;
    }
    table->cells = cells;
    table->room = room;
    return true;
}

/* Appends a cell. After a failure nothing is appended any more, so that cells never slip into other columns. */
static bool append(at_table *table, at_column_kind kind, cell value)
{
    assert(column_of(table, table->count)->kind == kind);
    (void)kind;
    if (table->status != ATTUNE_OK || !grow(table)) {
        return false;
    }
    table->cells[table->count++] = value;
    return true;
}

void at_table_text(at_table *table, const char *text)
{
    cell value = {.text = NULL};
    if (text != NULL) {
        value.text = strdup(text);
        if (value.text == NULL) {
            table->status = ATTUNE_OUT_OF_MEMORY;
        }
    }
    if (!append(table, AT_COLUMN_TEXT, value)) {
        free(value.text);
    }
}

void at_table_integer(at_table *table, int64_t value)
{
    (void)append(table, AT_COLUMN_INTEGER, (cell){.integer = value});
}

void at_table_number(at_table *table, double value)
{
    (void)append(table, AT_COLUMN_NUMBER, (cell){.number = value});
}

/* ---- Cells as text --------------------------------------------------------------------------------------------------
 */

void at_number_print(double value, int digits, char text[48])
{
    if (!isfinite(value)) {
        (void)snprintf(text, CELL_TEXT, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    double magnitude = fabs(value);
    if (magnitude >= 1e15 || (magnitude > 0 && magnitude < 1e-9)) {
        (void)snprintf(text, CELL_TEXT, "%.*e", digits - 1, value);
        return;
    }
    int before = magnitude > 0 ? (int)floor(log10(magnitude)) + 1 : 1; /* digits before the point; 0 or less: zeros */
    int decimals = before < digits ? digits - before : 0;
    (void)snprintf(text, CELL_TEXT, "%.*f", decimals, value);
}

/* The text of a cell that is not TEXT. */
static void print_cell(const at_column *column, cell value, int digits, char text[48])
{
    if (column->kind == AT_COLUMN_INTEGER) {
        (void)snprintf(text, CELL_TEXT, "%" PRId64, value.integer);
    } else {
        at_number_print(value.number, digits, text);
    }
}

/* ---- TSV ------------------------------------------------------------------------------------------------------------
 */

static void put_tsv(const char *text, FILE *out)
{
    for (; text != NULL && *text != '\0'; ++text) {
        static const char from[] = "\t\n\r\\", to[] = "tnr\\";
        const char *special = strchr(from, *text);
        if (special != NULL) {
            (void)fputc('\\', out);
        }
        (void)fputc(special != NULL ? to[special - from] : *text, out);
    }
}

static void print_tsv(const at_table *table, size_t cells, FILE *out)
{
    for (int c = 0; c < table->column_count; ++c) {
        (void)fprintf(out, "%s%s", c == 0 ? "" : "\t", table->columns[c].name);
    }
    (void)fputc('\n', out);
    for (size_t i = 0; i < cells; ++i) {
        const at_column *column = column_of(table, i);
        char text[CELL_TEXT];
        if (column->kind == AT_COLUMN_TEXT) {
            put_tsv(table->cells[i].text, out);
        } else {
            print_cell(column, table->cells[i], TSV_DIGITS, text);
            put_tsv(text, out);
        }
        (void)fputc((i + 1) % (size_t)table->column_count == 0 ? '\n' : '\t', out);
    }
}

/* ---- Text -----------------------------------------------------------------------------------------------------------
 */

static void put_pad(int blanks, FILE *out)
{
    (void)fprintf(out, "%*s", blanks > 0 ? blanks : 0, "");
}

static void heading(const at_column *column, char text[96])
{
    (void)snprintf(text, 96, column->unit != NULL ? "%s [%s]" : "%s", column->name, column->unit);
}

static int cell_width(const at_table *table, size_t index)
{
    const at_column *column = column_of(table, index);
    char text[CELL_TEXT];
    if (column->kind == AT_COLUMN_TEXT) {
        return table->cells[index].text != NULL ? at_text_width(table->cells[index].text) : 0;
    }
    print_cell(column, table->cells[index], column->digits, text);
    return (int)strlen(text);
}

static int column_width(const at_table *table, int index, size_t cells)
{
    char text[96];
    heading(&table->columns[index], text);
    int widest = at_text_width(text);
    for (size_t i = (size_t)index; i < cells; i += (size_t)table->column_count) {
        int width = cell_width(table, i);
        widest = width > widest ? width : widest;
    }
    return widest;
}

static void put_text_cell(const at_table *table, size_t index, FILE *out)
{
    const at_column *column = column_of(table, index);
    char text[CELL_TEXT];
    if (column->kind == AT_COLUMN_TEXT) {
        at_utf8_put(table->cells[index].text, out);
    } else {
        print_cell(column, table->cells[index], column->digits, text);
        (void)fputs(text, out);
    }
}

/* One line of the text format: cell i, or the heading where `cells` is NULL. Blanks never end a line. */
static void print_line(const at_table *table, const int *widths, size_t first, bool is_heading, FILE *out)
{
    char text[96];
    int owed = 0; /* blanks to print before the next thing that shows */
    for (int c = 0; c < table->column_count; ++c) {
        heading(&table->columns[c], text);
        int width = is_heading ? at_text_width(text) : cell_width(table, first + (size_t)c);
        int left = table->columns[c].kind == AT_COLUMN_TEXT ? 0 : widths[c] - width;
        if (width > 0) {
            put_pad(owed + left, out);
            if (is_heading) {
                (void)fputs(text, out);
            } else {
                put_text_cell(table, first + (size_t)c, out);
            }
            owed = widths[c] - width - left + 2;
        } else {
            owed += widths[c] + 2;
        }
    }
    (void)fputc('\n', out);
}

static attune_status print_text(const at_table *table, size_t cells, FILE *out)
{
    int *widths = calloc((size_t)table->column_count, sizeof *widths);
    AT_FAIL_IF(widths == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to lay out a table");
    for (int c = 0; c < table->column_count; ++c) {
        widths[c] = column_width(table, c, cells);
    }
    print_line(table, widths, 0, true, out);
    for (size_t i = 0; i < cells; i += (size_t)table->column_count) {
        print_line(table, widths, i, false, out);
    }
    free(widths);
    return ATTUNE_OK;
}

/* ---- JSON -----------------------------------------------------------------------------------------------------------
 */

/* A new reference, or NULL without memory. */
static json_t *json_cell(const at_column *column, cell value)
{
    if (column->kind == AT_COLUMN_INTEGER) {
        return json_integer(value.integer);
    }
    if (column->kind == AT_COLUMN_NUMBER) {
        return isfinite(value.number) ? json_real(value.number) : json_null();
    }
    if (value.text == NULL) {
        return json_null();
    }
    char *clean = at_utf8_clean(value.text);
    json_t *made = clean != NULL ? json_string(clean) : NULL;
    free(clean);
    return made;
}

static json_t *json_row(const at_table *table, size_t first)
{
    json_t *row = json_object();
    for (int c = 0; c < table->column_count; ++c) {
        if (json_object_set_new(row, table->columns[c].name,
                                json_cell(&table->columns[c], table->cells[first + (size_t)c])) != 0) {
            json_decref(row);
            return NULL;
        }
    }
    return row;
}

static attune_status print_json(const at_table *table, size_t cells, FILE *out)
{
    /* Row by row, so that memory does not grow with the table and each row is a line. */
    (void)fputs("[", out);
    for (size_t i = 0; i < cells; i += (size_t)table->column_count) {
        json_t *row = json_row(table, i);
        AT_FAIL_IF(row == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a row of JSON");
        (void)fputs(i == 0 ? "\n  " : ",\n  ", out);
        (void)json_dumpf(row, out, JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(JSON_DIGITS));
        json_decref(row);
    }
    (void)fputs("\n]\n", out);
    return ATTUNE_OK;
}

/* ---- HTML ---------------------------------------------------------------------------------------------------------
 */

static void add_html_cell(const at_table *table, size_t index, at_text *page)
{
    const at_column *column = column_of(table, index);
    char text[CELL_TEXT];
    if (column->kind == AT_COLUMN_TEXT) {
        at_html_element(page, "td", table->cells[index].text != NULL ? table->cells[index].text : "");
        return;
    }
    print_cell(column, table->cells[index], column->digits, text);
    bool empty = column->kind == AT_COLUMN_NUMBER && !isfinite(table->cells[index].number);
    at_text_add(page, "<td class=\"n\">%s</td>\n", empty ? "" : text);
}

attune_status at_table_html(const at_table *table, at_text *page)
{
    AT_FORWARD(whole(table));
    at_text_add(page, "<table class=\"rows\">\n<tr>");
    for (int c = 0; c < table->column_count; ++c) {
        char text[96];
        heading(&table->columns[c], text);
        at_html_element(page, "th", text);
    }
    for (size_t i = 0; i < cells_of(table); ++i) {
        at_text_add(page, "%s", i % (size_t)table->column_count == 0 ? "</tr>\n<tr>" : "");
        add_html_cell(table, i, page);
    }
    at_text_add(page, "</tr>\n</table>\n");
    return ATTUNE_OK;
}

/* ---- All formats --------------------------------------------------------------------------------------------------
 */

attune_status at_table_print(const at_table *table, at_format format, FILE *out)
{
    AT_FORWARD(whole(table));
    size_t cells = cells_of(table);
    switch (format) {
    case AT_FORMAT_TSV:
        print_tsv(table, cells, out);
        return ATTUNE_OK;
    case AT_FORMAT_JSON:
        return print_json(table, cells, out);
    default:
        return print_text(table, cells, out);
    }
}
