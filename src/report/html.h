/* Pages in one file: no script, no font, no picture from elsewhere; plots are SVG. Everything is appended to a text;
 * words that come from outside are escaped. */
#ifndef REPORT_HTML_H
#define REPORT_HTML_H

#include "base/text.h"

void at_html_begin(at_text *page, const char *title);
void at_html_end(at_text *page);
/* Text with &, <, > and " escaped, control characters left out. */
void at_html_words(at_text *page, const char *words);
/* <TAG>words</TAG>. */
void at_html_element(at_text *page, const char *tag, const char *words);

/* What follows is folded until a reader opens it, up to at_html_unfold. */
void at_html_fold(at_text *page, const char *summary);
void at_html_unfold(at_text *page);

#endif
