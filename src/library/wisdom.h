/* Wisdom: text rows (problem class, target) -> kernel and config. docs/wisdom.md has the format. */
#ifndef LIBRARY_WISDOM_H
#define LIBRARY_WISDOM_H

#include <stdbool.h>

#include "core/config.h"

typedef enum at_standing { AT_MEASURED = 0, AT_PROVEN = 1 } at_standing;

typedef struct at_wisdom_row {
    at_standing standing;
    char *class_text;  /* at_problem_class */
    char *target_text; /* at_target_print */
    char *kernel_text; /* "NAME:PARAM=VALUE,..." */
    char *verdict;     /* proven: the digest of its verdict, 64 hex digits; measured: NULL */
} at_wisdom_row;

typedef struct at_wisdom at_wisdom;

attune_status at_wisdom_create(at_wisdom **wisdom);
void at_wisdom_destroy(at_wisdom *wisdom);
/* Adds a copy of the row. It replaces one of the same class, target and standing. */
attune_status at_wisdom_add(at_wisdom *wisdom, const at_wisdom_row *row);
size_t at_wisdom_count(const at_wisdom *wisdom);
/* The index-th row, in insertion order; belongs to the wisdom. */
const at_wisdom_row *at_wisdom_at(const at_wisdom *wisdom, size_t index);
/* The best row: exact target before same model, proven before measured, newer before older; NULL if none. */
const at_wisdom_row *at_wisdom_find(const at_wisdom *wisdom, const char *class_text, const char *target_text);
/* Adds the rows of a text. Corrupt lines are skipped and counted; a missing or unknown first line is ATTUNE_CORRUPT. */
attune_status at_wisdom_parse(at_wisdom *wisdom, const char *text, size_t bytes, size_t *skipped);
/* The whole as text, malloced, for the caller to free. */
attune_status at_wisdom_print(const at_wisdom *wisdom, char **text, size_t *bytes);

#endif
