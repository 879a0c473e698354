/* Numbers in text forms, read and written alike in every locale. */
#ifndef CORE_NUMBER_H
#define CORE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum at_number { AT_NUMBER_OK, AT_NUMBER_MALFORMED, AT_NUMBER_TOO_LARGE } at_number;

/* Reads all `length` characters as a decimal integer: digits, for int64 with an optional minus sign before them. */
at_number at_number_int64(const char *text, size_t length, int64_t *value);
at_number at_number_uint64(const char *text, size_t length, uint64_t *value);
/* Reads all `length` characters as a decimal floating-point number ("-1.5", ".5", "3e-4"), rounded to nearest. No
 * infinities, NaNs or hexadecimal forms; what is beyond the range of float is AT_NUMBER_TOO_LARGE. */
at_number at_number_float(const char *text, size_t length, float *value);

#define AT_FLOAT_TEXT_MAX 24
/* Writes the fewest digits that read back equal. `value` is finite; minus zero is written as 0. */
void at_float_print(float value, char text[AT_FLOAT_TEXT_MAX]);

#endif
