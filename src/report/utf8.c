#include "report/utf8.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "report/table.h"

int32_t at_utf8_next(const char **text)
{
    const unsigned char *at = (const unsigned char *)*text;
    static const int32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000}; /* of a sequence of so many bytes */
    if (*at == 0) {
        return 0;
    }
    *text += 1;
    if (*at < 0x80) {
        return *at;
    }
    int length = *at >= 0xf0 && *at < 0xf8 ? 4 : *at >= 0xe0 && *at < 0xf0 ? 3 : *at >= 0xc2 && *at < 0xe0 ? 2 : 0;
    int32_t point = length > 0 ? *at & (0xff >> (length + 1)) : 0;
    for (int i = 1; i < length; ++i) {
        if ((at[i] & 0xc0) != 0x80) {
            return -1;
        }
        point = point << 6 | (at[i] & 0x3f);
    }
    if (length == 0 || point < smallest[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) {
        return -1;
    }
    *text += length - 1;
    return point;
}

typedef struct range {
    int32_t first, last;
} range;

/* Marks that combine with what is before them, and characters that do not show. */
static const range zero_wide[] = {{0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},
                                  {0x64b, 0x65f},   {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200f},
                                  {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}};
/* Scripts and pictures that take two columns (Unicode's East Asian Width W and F, in blocks). */
static const range two_wide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},  {0xac00, 0xd7a3},
                                 {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},  {0xffe0, 0xffe6},
                                 {0x1f300, 0x1f64f}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};

static int within(const range *ranges, size_t count, int32_t point)
{
    for (size_t i = 0; i < count; ++i) {
        if (point >= ranges[i].first && point <= ranges[i].last) {
            return 1;
        }
    }
    return 0;
}

/* How a control character is shown; returns the columns that takes. */
static int escape(int32_t point, char text[8])
{
    if (point == '\t' || point == '\n' || point == '\r') {
        return snprintf(text, 8, "\\%c", point == '\t' ? 't' : point == '\n' ? 'n' : 'r');
    }
    return snprintf(text, 8, "\\x%02x", (unsigned)point & 0xffu);
}

static int is_control(int32_t point)
{
    return (point > 0 && point < 0x20) || (point >= 0x7f && point < 0xa0);
}

int at_text_width(const char *text)
{
    int width = 0;
    int32_t point;
    char shown[8];
    while ((point = at_utf8_next(&text)) != 0) {
        if (is_control(point)) {
            width += escape(point, shown);
        } else if (!within(zero_wide, sizeof zero_wide / sizeof zero_wide[0], point)) {
            width += 1 + within(two_wide, sizeof two_wide / sizeof two_wide[0], point);
        }
    }
    return width;
}

void at_utf8_put(const char *text, FILE *out)
{
    char shown[8];
    while (text != NULL && *text != '\0') {
        const char *start = text;
        int32_t point = at_utf8_next(&text);
        if (point < 0) {
            (void)fputc('?', out);
        } else if (is_control(point)) {
            (void)escape(point, shown);
            (void)fputs(shown, out);
        } else {
            (void)fwrite(start, 1, (size_t)(text - start), out);
        }
    }
}

char *at_utf8_clean(const char *text)
{
    char *clean = malloc(strlen(text) * 3 + 1); /* a bad byte becomes three */
    char *at = clean;
    while (clean != NULL && *text != '\0') {
        const char *start = text;
        int good = at_utf8_next(&text) > 0;
        size_t bytes = good ? (size_t)(text - start) : 3;
        memcpy(at, good ? start : "\xef\xbf\xbd", bytes);
        at += bytes;
    }
    if (clean != NULL) {
        *at = '\0';
    }
    return clean;
}
