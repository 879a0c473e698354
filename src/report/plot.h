/* Plots inside a page of report/html.h. */
#ifndef REPORT_PLOT_H
#define REPORT_PLOT_H

#include "base/text.h"

/* One line of a plot: y[i] is at x = i + 1; values that are not finite are gaps. */
typedef struct at_plot_line {
    const char *name;
    const double *y;
    int count;
} at_plot_line;

enum { AT_PLOT_LINES_MAX = 8 };

/* Lines over a logarithmic x axis from 1, with a legend; y from `low` to `high`, what is outside lies on the border. */
void at_plot_lines(at_text *page, const char *x_name, const char *y_name, double low, double high,
                   const at_plot_line *lines, int count);

typedef struct at_plot_bar {
    const char *name;
    double value; /* of the longest bar, 1 */
    const char *label;
} at_plot_bar;

void at_plot_bars(at_text *page, const at_plot_bar *bars, int count);

#endif
