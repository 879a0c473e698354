/* Text: a builder that cannot overflow, and strict parsing that does not depend on the process's locale. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attune/attune.h"

/* A string under construction, always terminated. Appending never fails on the spot: the first failure is remembered,
 * later appends do nothing, and at_text_status reports it. */
typedef struct at_text {
    char *data; /* never NULL after init */
    size_t length;
    size_t capacity; /* bytes at data, the terminating zero included */
    size_t wanted;   /* the length that everything appended would have */
    bool grows;
    bool out_of_memory;
} at_text;

/* Grows as needed; release with at_text_free, or hand on with at_text_take. */
void at_text_init(at_text *text);
/* Writes into `data` of `bytes` >= 1 and never beyond. */
void at_text_init_fixed(at_text *text, char *data, size_t bytes);
/* Printf style. Numbers with fractions go through at_text_add_float: printf follows the locale. */
void at_text_add(at_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void at_text_add_bytes(at_text *text, const char *data, size_t bytes);
/* One word of a command that a reader pastes into a POSIX shell: as it is where a shell would take it so, else in
 * single quotes. */
void at_text_add_word(at_text *text, const char *word);
/* The shortest decimal that reads back as the same value, with a point in every locale; "inf", "-inf", "nan". */
void at_text_add_float(at_text *text, float value);
void at_text_add_double(at_text *text, double value);
/* ATTUNE_OK if all that was appended is there; else ATTUNE_OUT_OF_MEMORY, or ATTUNE_INVALID_ARGUMENT for a fixed
 * buffer, naming `what` and the bytes it needs. */
attune_status at_text_status(const at_text *text, const char *what);
/* Hands a growing text to the caller, who frees it; or fails as at_text_status does and frees it. `bytes`, without the
 * terminating zero, may be NULL. */
attune_status at_text_take(at_text *text, const char *what, char **data, size_t *bytes);
void at_text_free(at_text *text);

/* The whole text must be one decimal number: no blanks, no trailing letters, and within [least, most]. Failures are
 * ATTUNE_INVALID_ARGUMENT and name `what`, the text and the limit; *value is then untouched. */
attune_status at_parse_int64(const char *what, const char *text, int64_t least, int64_t most, int64_t *value);
attune_status at_parse_uint64(const char *what, const char *text, uint64_t *value);
/* Finite decimals such as "0.125", "-3" or "1e-3", and within the type's range; not "inf", "nan" or "0x1p3". */
attune_status at_parse_double(const char *what, const char *text, double *value);
attune_status at_parse_float(const char *what, const char *text, float *value);

/* Microseconds as people read a time, four digits and the unit that suits them: "931.2 us", "20.42 ms", "1.250 s"; "-"
 * for what is no number. */
enum { AT_TIME_TEXT = 32 };
void at_time_print(double us, char text[AT_TIME_TEXT]);

/* Fewest single-character insertions, deletions, replacements and swaps of neighbours that turn a into b. Texts are
 * compared up to AT_DISTANCE_MAX characters; longer ones are at least that far apart. */
enum { AT_DISTANCE_MAX = 64 };
int at_text_distance(const char *a, const char *b);
/* The candidate nearest to the text if it is near enough to be meant (about a third of its letters wrong), else NULL.
 * Candidates may be NULL and are then passed over. */
const char *at_text_nearest(const char *text, const char *const *candidates, size_t count);

#endif
