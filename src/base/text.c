#include "base/text.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static char nothing[1] = ""; /* what a growing text shows before its first append; capacity 1 keeps it unwritten */

void at_text_init(at_text *text)
{
    *text = (at_text){.data = nothing, .capacity = 1, .grows = true};
}

void at_text_init_fixed(at_text *text, char *data, size_t bytes)
{
    *text = (at_text){.data = data, .capacity = bytes};
    data[0] = '\0';
}

static bool complete(const at_text *text)
{
    return text->wanted == text->length && !text->out_of_memory;
}

/* Makes room for `more` characters; false leaves the text as it is, marked incomplete by the caller. */
static bool reserve(at_text *text, size_t more)
{
    if (more < text->capacity - text->length) {
        return true;
    }
    if (!text->grows || more > SIZE_MAX / 2 - text->length) {
        return false;
    }
    size_t capacity = text->capacity < 32 ? 64 : text->capacity * 2;
    capacity = capacity > text->length + more ? capacity : text->length + more + 1;
    char *data = realloc(text->data == nothing ? NULL : text->data, capacity);
    if (data == NULL) {
        text->out_of_memory = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void at_text_add_bytes(at_text *text, const char *data, size_t bytes)
{
    bool fits = complete(text) && reserve(text, bytes);
    text->wanted += bytes;
    if (!fits || bytes == 0) {
        return;
    }
    memcpy(text->data + text->length, data, bytes);
    text->length += bytes;
    text->data[text->length] = '\0';
}

void at_text_add_word(at_text *text, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=+@%";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        at_text_add_bytes(text, word, strlen(word));
        return;
    }
    at_text_add_bytes(text, "'", 1);
    for (size_t length; *word != '\0'; word += length) {
        length = strcspn(word, "'");
        at_text_add_bytes(text, word, length);
        if (length == 0) { /* a quote goes between the quoted parts, escaped */
            at_text_add_bytes(text, "'\\''", 4);
            length = 1;
        }
    }
    at_text_add_bytes(text, "'", 1);
}

void at_text_add(at_text *text, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int needed = vsnprintf(NULL, 0, format, list);
    va_end(list);
    if (needed < 0) {
        text->out_of_memory = true; /* glibc: only for want of memory, formats being checked by the compiler */
        return;
    }
    bool fits = complete(text) && reserve(text, (size_t)needed);
    text->wanted += (size_t)needed;
    if (!fits || needed == 0) {
        return;
    }
    va_start(list, format);
    (void)vsnprintf(text->data + text->length, (size_t)needed + 1, format, list);
    va_end(list);
    text->length += (size_t)needed;
}

/* NOTE: glibc hands out one static object for the C locale, so this neither allocates nor needs to be freed. */
static locale_t plain_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static void print_digits(char *text, size_t bytes, int digits, double value)
{
    locale_t before = uselocale(plain_locale());
    (void)snprintf(text, bytes, "%.*g", digits, value);
    (void)uselocale(before);
}

void at_text_add_float(at_text *text, float value)
{
    char digits[48];
    for (int precision = 6; precision <= 9; precision++) {
        print_digits(digits, sizeof digits, precision, (double)value);
        if (strtof_l(digits, NULL, plain_locale()) == value) {
            break;
        }
    }
    at_text_add(text, "%s", value != value ? "nan" : digits);
}

void at_text_add_double(at_text *text, double value)
{
    char digits[48];
    for (int precision = 15; precision <= 17; precision++) {
        print_digits(digits, sizeof digits, precision, value);
        if (strtod_l(digits, NULL, plain_locale()) == value) {
            break;
        }
    }
    at_text_add(text, "%s", value != value ? "nan" : digits);
}

attune_status at_text_status(const at_text *text, const char *what)
{
    AT_FAIL_IF(text->out_of_memory || (text->grows && !complete(text)), ATTUNE_OUT_OF_MEMORY,
               "no memory for the %zu bytes of %s", text->wanted + 1, what);
    AT_FAIL_IF(!complete(text), ATTUNE_INVALID_ARGUMENT, "%s needs %zu bytes, the buffer has %zu", what,
               text->wanted + 1, text->capacity);
    return ATTUNE_OK;
}

attune_status at_text_take(at_text *text, const char *what, char **data, size_t *bytes)
{
    *data = NULL;
    if (text->data == nothing) {
        (void)reserve(text, 1); /* the caller gets memory to free even for an empty text */
    }
    attune_status status = at_text_status(text, what);
    if (status != ATTUNE_OK) {
        at_text_free(text);
        return status;
    }
    text->data[text->length] = '\0';
    *data = text->data;
    if (bytes != NULL) {
        *bytes = text->length;
    }
    at_text_init(text);
    return ATTUNE_OK;
}

void at_text_free(at_text *text)
{
    if (text->grows && text->data != nothing) {
        free(text->data);
    }
    at_text_init(text);
}

/* ---- Numbers ---------------------------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static attune_status not_a_number(const char *what, const char *text, const char *expected)
{
    return at_fail(ATTUNE_INVALID_ARGUMENT, "%s is \"%.60s\", expected %s", what, text, expected);
}

/* Digits only, at least one. Saturates: *over says so. */
static bool read_digits(const char *text, uint64_t *value, bool *over)
{
    *value = 0;
    *over = false;
    const char *at = text;
    for (; is_digit(*at); at++) {
        *over |= __builtin_mul_overflow(*value, UINT64_C(10), value);
        *over |= __builtin_add_overflow(*value, (uint64_t)(*at - '0'), value);
    }
    return at != text && *at == '\0';
}

attune_status at_parse_int64(const char *what, const char *text, int64_t least, int64_t most, int64_t *value)
{
    bool negative = text[0] == '-';
    uint64_t magnitude;
    bool over;
    if (!read_digits(text + negative, &magnitude, &over)) {
        return not_a_number(what, text, "a whole number");
    }
    uint64_t bound = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    over |= magnitude > bound;
    /* Negating the unsigned value first keeps INT64_MIN free of overflow. */
    int64_t number = over ? 0 : (int64_t)(negative ? 0 - magnitude : magnitude);
    AT_FAIL_IF(over || number < least || number > most, ATTUNE_INVALID_ARGUMENT,
               "%s is %.60s, allowed are %lld ... %lld", what, text, (long long)least, (long long)most);
    *value = number;
    return ATTUNE_OK;
}

attune_status at_parse_uint64(const char *what, const char *text, uint64_t *value)
{
    uint64_t number;
    bool over;
    if (!read_digits(text, &number, &over)) {
        return not_a_number(what, text, "a whole number without a sign");
    }
    AT_FAIL_IF(over, ATTUNE_INVALID_ARGUMENT, "%s is %.60s, allowed are 0 ... %llu", what, text,
               (unsigned long long)UINT64_MAX);
    *value = number;
    return ATTUNE_OK;
}

/* strtod also takes blanks, hexadecimal, infinities and NaN, all of which begin or go on with other characters. */
static bool looks_decimal(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789.eE+-")] == '\0';
}

attune_status at_parse_double(const char *what, const char *text, double *value)
{
    char *end = NULL;
    double number = looks_decimal(text) ? strtod_l(text, &end, plain_locale()) : 0;
    if (end == NULL || end == text || *end != '\0') {
        return not_a_number(what, text, "a decimal number");
    }
    AT_FAIL_IF(__builtin_isinf(number), ATTUNE_INVALID_ARGUMENT, "%s is %.60s, at most 1.8e308 in magnitude is allowed",
               what, text);
    *value = number;
    return ATTUNE_OK;
}

attune_status at_parse_float(const char *what, const char *text, float *value)
{
    char *end = NULL;
    float number = looks_decimal(text) ? strtof_l(text, &end, plain_locale()) : 0;
    if (end == NULL || end == text || *end != '\0') {
        return not_a_number(what, text, "a decimal number");
    }
    AT_FAIL_IF(__builtin_isinf(number), ATTUNE_INVALID_ARGUMENT, "%s is %.60s, at most 3.4e38 in magnitude is allowed",
               what, text);
    *value = number;
    return ATTUNE_OK;
}

/* ---- "Did you mean" --------------------------------------------------------------------------------------------- */

static int least_of(int a, int b)
{
    return a < b ? a : b;
}

int at_text_distance(const char *a, const char *b)
{
    size_t rows = strnlen(a, AT_DISTANCE_MAX + 1), columns = strnlen(b, AT_DISTANCE_MAX + 1);
    if (rows > AT_DISTANCE_MAX || columns > AT_DISTANCE_MAX) {
        return strcmp(a, b) == 0 ? 0 : AT_DISTANCE_MAX;
    }
    /* Three rows of the usual table: a swap of neighbours looks two rows back. */
    int table[3][AT_DISTANCE_MAX + 1];
    for (size_t j = 0; j <= columns; j++) {
        table[0][j] = (int)j;
    }
    for (size_t i = 1; i <= rows; i++) {
        int *row = table[i % 3], *above = table[(i + 2) % 3], *above2 = table[(i + 1) % 3];
        row[0] = (int)i;
        for (size_t j = 1; j <= columns; j++) {
            int replaced = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = least_of(replaced, least_of(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = least_of(row[j], above2[j - 2] + 1);
            }
        }
    }
    return table[rows % 3][columns];
}

const char *at_text_nearest(const char *text, const char *const *candidates, size_t count)
{
    const char *nearest = NULL;
    int best = (int)strnlen(text, AT_DISTANCE_MAX) / 3 + 2; /* strictly nearer than this */
    for (size_t i = 0; i < count; i++) {
        int distance = candidates[i] == NULL ? best : at_text_distance(text, candidates[i]);
        /* A candidate of which nothing remains is not meant by anyone. */
        if (distance < best && distance < (int)strlen(candidates[i])) {
            nearest = candidates[i];
            best = distance;
        }
    }
    return nearest;
}

/* ---- Times ------------------------------------------------------------------------------------------------------- */

void at_time_print(double us, char text[AT_TIME_TEXT])
{
    static const char *const unit[] = {"ns", "us", "ms", "s"};
    double value = us * 1e3;
    int at = 0;
    for (; at < 3 && fabs(value) >= 999.95; ++at) {
        value /= 1e3;
    }
    int decimals = fabs(value) >= 999.95 ? 0 : fabs(value) >= 99.995 ? 1 : fabs(value) >= 9.9995 ? 2 : 3;
    if (isfinite(us)) {
        (void)snprintf(text, AT_TIME_TEXT, "%.*f %s", decimals, value, unit[at]);
    } else {
        (void)snprintf(text, AT_TIME_TEXT, "-");
    }
}
