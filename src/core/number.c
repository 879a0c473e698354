#include "core/number.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

at_number at_number_uint64(const char *text, size_t length, uint64_t *value)
{
    uint64_t sum = 0;
    bool overflow = false;
    if (length == 0) {
        return AT_NUMBER_MALFORMED;
    }
    for (size_t i = 0; i < length; ++i) {
        if (text[i] < '0' || text[i] > '9') {
            return AT_NUMBER_MALFORMED;
        }
        overflow |= __builtin_mul_overflow(sum, (uint64_t)10, &sum);
        overflow |= __builtin_add_overflow(sum, (uint64_t)(text[i] - '0'), &sum);
    }
    if (overflow) {
        return AT_NUMBER_TOO_LARGE;
    }
    *value = sum;
    return AT_NUMBER_OK;
}

at_number at_number_int64(const char *text, size_t length, int64_t *value)
{
    uint64_t magnitude = 0;
    bool negative = length > 0 && text[0] == '-';
    at_number outcome = at_number_uint64(text + negative, length - negative, &magnitude);
    if (outcome != AT_NUMBER_OK) {
        return outcome;
    }
    if (magnitude > INT64_MAX) {
        return AT_NUMBER_TOO_LARGE;
    }
    *value = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return AT_NUMBER_OK;
}

static size_t digits(const char *text, size_t length)
{
    size_t count = 0;
    while (count < length && text[count] >= '0' && text[count] <= '9') {
        ++count;
    }
    return count;
}

/* Whether the text is -?digits[.digits][e[+-]digits], with a digit on either side of the point. */
static bool is_decimal(const char *text, size_t length)
{
    size_t at = length > 0 && text[0] == '-';
    size_t whole = digits(text + at, length - at);
    size_t fraction = 0;
    at += whole;
    if (at < length && text[at] == '.') {
        fraction = digits(text + at + 1, length - at - 1);
        at += 1 + fraction;
    }
    if (whole + fraction == 0) {
        return false;
    }
    if (at < length && (text[at] == 'e' || text[at] == 'E')) {
        ++at;
        at += at < length && (text[at] == '+' || text[at] == '-');
        size_t exponent = digits(text + at, length - at);
        return exponent > 0 && at + exponent == length;
    }
    return at == length;
}

/* The "C" locale, whatever the program has set: newlocale hands out a static object for it. */
static locale_t plain_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

at_number at_number_float(const char *text, size_t length, float *value)
{
    enum { LONGEST = 63 };
    char copy[LONGEST + 1];
    if (length > LONGEST || !is_decimal(text, length)) {
        return AT_NUMBER_MALFORMED;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    locale_t plain = plain_locale();
    locale_t before = uselocale(plain);
    float read = strtof(copy, NULL);
    (void)uselocale(before);
    freelocale(plain);
    if (!isfinite(read)) {
        return AT_NUMBER_TOO_LARGE;
    }
    *value = read;
    return AT_NUMBER_OK;
}

void at_float_print(float value, char text[AT_FLOAT_TEXT_MAX])
{
    /* %g would write 30 as 3e+01. */
    if (fabsf(value) < 1e5f && value == truncf(value)) {
        (void)snprintf(text, AT_FLOAT_TEXT_MAX, "%d", (int)value);
        return;
    }
    locale_t plain = plain_locale();
    locale_t before = uselocale(plain);
    /* Nine significant digits identify every float. */
    for (int precision = 1; precision <= 9; ++precision) {
        (void)snprintf(text, AT_FLOAT_TEXT_MAX, "%.*g", precision, (double)value);
        if (strtof(text, NULL) == value) {
            break;
        }
    }
    (void)uselocale(before);
    freelocale(plain);
}
