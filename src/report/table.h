/* Tables: rows of typed cells under named columns, printed for people (aligned text), for tools (TSV) or as JSON. */
#ifndef REPORT_TABLE_H
#define REPORT_TABLE_H

#include <stdint.h>
#include <stdio.h>

#include "base/text.h"

typedef enum at_format {
    AT_FORMAT_TEXT, /* columns aligned, numbers to the right; control characters escaped */
    AT_FORMAT_TSV,  /* a header, tabs between; tab, newline, return and backslash escaped as \t \n \r \\ */
    AT_FORMAT_JSON  /* an array of one object a row, keyed by column; NaN and infinities are null */
} at_format;

/* Reads "text", "tsv" or "json". */
attune_status at_format_parse(const char *text, at_format *format);

typedef enum at_column_kind { AT_COLUMN_TEXT, AT_COLUMN_INTEGER, AT_COLUMN_NUMBER } at_column_kind;

/* Texts are static: the table keeps the pointers. */
typedef struct at_column {
    const char *name;
    at_column_kind kind;
    const char *unit; /* comes after the name in the text format; NULL for none, or where the name carries it */
    int digits;       /* NUMBER: significant digits in the text format, 1 ... 9; TSV and JSON give more */
} at_column;

typedef struct at_table at_table;

/* Keeps the pointer to `columns`, which must outlive the table. */
attune_status at_table_create(const at_column *columns, int count, at_table **table);
void at_table_destroy(at_table *table);

/* The next cell, row by row from left to right; the function must be the one of the column's kind. Failing to get
 * memory is remembered and returned by at_table_print. */
void at_table_text(at_table *table, const char *text); /* copied; NULL is an empty cell, null in JSON */
void at_table_integer(at_table *table, int64_t value);
void at_table_number(at_table *table, double value);

/* Prints header and complete rows. ATTUNE_OUT_OF_MEMORY if a cell was lost. Errors of `out` stay in ferror(out). */
attune_status at_table_print(const at_table *table, at_format format, FILE *out);

/* The same as a table of a page, with the digits of the text format; numbers that are not finite are empty cells. */
attune_status at_table_html(const at_table *table, at_text *page);

/* Columns of a terminal that a UTF-8 text takes; a byte that is no UTF-8 takes one. */
int at_text_width(const char *text);
/* `value` with so many significant digits and no exponent (beyond 1e15 with one): 0.0123, 1.23, 123, 12346. */
void at_number_print(double value, int digits, char text[48]);

#endif
