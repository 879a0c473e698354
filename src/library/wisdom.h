/* Wisdom: text rows (problem class, target) -> kernel and config. docs/wisdom.md has the format. */
#ifndef LIBRARY_WISDOM_H
#define LIBRARY_WISDOM_H

#include <stdbool.h>

#include "base/embedded.h"
#include "core/config.h"

#define AT_WISDOM_LINE_MAX 2048               /* bytes of a line, its newline excluded */
#define AT_WISDOM_BYTES_MAX ((size_t)1 << 24) /* of a file */

typedef enum at_row_kind { AT_MEASURED = 0, AT_PROVEN = 1 } at_row_kind;

typedef struct at_wisdom_row {
    at_row_kind kind;
    char *class_text;  /* at_problem_class */
    char *target_text; /* at_target_print */
    char *kernel_text; /* "NAME:PARAM=VALUE,..." */
    char *verdict;     /* proven: the digest of its verdict, 64 hex digits; measured: NULL */
} at_wisdom_row;

typedef struct at_wisdom at_wisdom;

/* The files that are shipped; ended by a NULL name. Written by the build. */
extern const at_embedded at_embedded_wisdom[];

attune_status at_wisdom_create(at_wisdom **wisdom);
void at_wisdom_destroy(at_wisdom *wisdom);
/* Adds a copy of the row, as the newest. It replaces one of the same class, target and kind.
 * ATTUNE_INVALID_ARGUMENT where a field is missing, too long or has characters that the format cannot hold. */
attune_status at_wisdom_add(at_wisdom *wisdom, const at_wisdom_row *row);
size_t at_wisdom_count(const at_wisdom *wisdom);
/* The index-th row, in the order of insertion (a replacement keeps its place); belongs to the wisdom. */
const at_wisdom_row *at_wisdom_at(const at_wisdom *wisdom, size_t index);
/* The best row: exact target before one alike, proven before measured, newer before older; NULL if none. With `after`,
 * a row that was found so: the next best. */
const at_wisdom_row *at_wisdom_find(const at_wisdom *wisdom, const char *class_text, const char *target_text,
                                    const at_wisdom_row *after);
/* The proven row of the device's nearest relative (at_target_distance), the newest of those as near; NULL if none. */
const at_wisdom_row *at_wisdom_of_relative(const at_wisdom *wisdom, const char *class_text, const char *target_text);
/* How well a row answers for a target, larger being better; 0: not at all. Equal ranks are decided by age. */
int at_wisdom_rank(const at_wisdom_row *row, const char *target_text);
/* Adds the rows of a text, so that those nearer its beginning are newer. Corrupt lines are skipped and counted; a
 * missing or unknown first line is ATTUNE_CORRUPT. */
attune_status at_wisdom_parse(at_wisdom *wisdom, const char *text, size_t bytes, size_t *skipped);
/* Every row, oldest first, in an array that ends with NULL and is the caller's to free. */
attune_status at_wisdom_order(const at_wisdom *wisdom, const at_wisdom_row ***rows);
/* Adds copies of every row of `from`, which count as newer. */
attune_status at_wisdom_merge(at_wisdom *wisdom, const at_wisdom *from);
/* The whole as text, proven rows before measured ones, newer before older; malloced, for the caller to free. */
attune_status at_wisdom_print(const at_wisdom *wisdom, char **text, size_t *bytes);

/* Adds a file's rows. ATTUNE_NOT_FOUND if there is no file. */
attune_status at_wisdom_file_read(const char *path, at_wisdom *wisdom);
/* Whether rows can be added to a file: asked before the work that finds them. ATTUNE_CORRUPT where it is no wisdom. */
attune_status at_wisdom_file_check(const char *path);
/* Adds a row, as the newest, to a file, which is made where it is not there. Programs that add to the same file take
 * turns; what is no wisdom of ours is left alone and reported. */
attune_status at_wisdom_file_add(const char *path, const at_wisdom_row *row);

#endif
