/* UTF-8 as far as tables need it: how wide a text is, and texts that do no harm. */
#ifndef REPORT_UTF8_H
#define REPORT_UTF8_H

#include <stdint.h>
#include <stdio.h>

/* Reads one code point at *text and moves over it; 0 at the end; -1, moving over one byte, where it is no UTF-8. */
int32_t at_utf8_next(const char **text);
/* Prints a text with control characters as \t, \n or \xHH and bytes that are no UTF-8 as "?". NULL prints nothing. */
void at_utf8_put(const char *text, FILE *out);
/* A malloced copy that is valid UTF-8 (U+FFFD where it was not), or NULL without memory. */
char *at_utf8_clean(const char *text);

#endif
