/* Drawing: pictures as SVG inside a page. Places are pixels from the upper left corner, printed with one decimal and a
 * point in every locale. */
#ifndef REPORT_SVG_H
#define REPORT_SVG_H

#include <stdbool.h>

#include "base/text.h"

enum { AT_SVG_WIDTH = 760, AT_SVG_COLOURS = 16 };

/* Colours that are distinguished; again from the first after AT_SVG_COLOURS. */
const char *at_svg_colour(int index);

void at_svg_begin(at_text *page, int height, const char *name);
void at_svg_end(at_text *page);
void at_svg_number(at_text *page, double place);
/* `dashes` as stroke-dasharray has them, or NULL. */
void at_svg_line(at_text *page, double x1, double y1, double x2, double y2, const char *colour, int width,
                 const char *dashes);
void at_svg_box(at_text *page, double x, double y, double width, double height, const char *colour);
/* Words from `anchor` ("start", "middle", "end"), escaped. */
void at_svg_words(at_text *page, double x, double y, const char *anchor, const char *words);

/* How a point is drawn. */
typedef struct at_svg_style {
    const char *colour;
    bool square, hollow; /* else a full circle */
} at_svg_style;

/* A point; `name`, escaped, is what a pointer over it shows. */
void at_svg_mark(at_text *page, double x, double y, const at_svg_style *style, const char *name);

/* Values low ... high drawn from place `from` to place `to`. */
typedef struct at_axis {
    double low, high; /* low < high; both > 0 where it is logarithmic */
    double from, to;
    bool logarithmic;
} at_axis;

/* Where a value lies; what is outside lies on the border. */
double at_axis_place(const at_axis *axis, double value);

enum { AT_TICKS_MAX = 32 };

/* 1, 2 and 5 times the powers of ten within a logarithmic axis, the powers alone where it spans more than four; returns
 * how many. */
int at_axis_ticks(const at_axis *axis, double tick[AT_TICKS_MAX]);

#endif
