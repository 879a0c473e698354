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

/* One line of a plot: y[i] stands at x = i + 1; values that are not finite are gaps. */
typedef struct at_html_line {
    const char *name;
    const double *y;
    int count;
} at_html_line;

enum { AT_HTML_LINES_MAX = 8 };

/* Lines over a logarithmic x axis from 1, with a legend; y from `low` to `high`, what is outside lies on the border. */
void at_html_plot(at_text *page, const char *x_name, const char *y_name, double low, double high,
                  const at_html_line *lines, int count);

typedef struct at_html_bar {
    const char *name;
    double value; /* of the longest bar, 1 */
    const char *label;
} at_html_bar;

void at_html_bars(at_text *page, const at_html_bar *bars, int count);

#endif
