/* Clouds: points of evidence over two logarithmic axes, TFLOP/s upwards, a colour and a place in the legend for each
 * name. */
#ifndef REPORT_SCATTER_H
#define REPORT_SCATTER_H

#include "report/points.h"
#include "report/svg.h"

typedef struct at_scatter {
    at_text *page;
    double (*x)(const at_point *point); /* what is not positive and finite is left out */
    bool joined;                        /* points of one name, by a line */

    const at_point **point; /* by line, then by x, then by problem; freed by the caller, also after an error */
    int count;
    at_axis across, up;
    int height, lines;
} at_scatter;

/* Takes those points that belong to the head's picture into a scatter plot that has a page and an x. */
attune_status at_scatter_make(const at_points *points, const at_point *head,
                              bool (*belongs)(const at_point *head, const at_point *point), at_scatter *in);
/* Makes room for a value, before anything is drawn. */
void at_scatter_widen(at_axis *axis, double value);

/* The picture with its upward axis; then the other axis, with these ticks; then points and legend. The caller ends the
 * picture (at_svg_end). */
void at_scatter_begin(at_scatter *in, const char *x_name, const char *y_name);
void at_scatter_ticks(const at_scatter *in, const double *tick, int count);
void at_scatter_points(const at_scatter *in);

#endif
