#include "report/svg.h"

#include <math.h>

#include "report/html.h"

/* Distinct for whoever sees few colours too (Okabe and Ito 2008); then shades of them. */
static const char *const colours[AT_SVG_COLOURS] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#555555", "#e69f00",
                                                    "#56b4e9", "#000000", "#7a4fbf", "#8c2d04", "#66a61e", "#a6761d",
                                                    "#e7298a", "#1b4f72", "#999999", "#b8860b"};

const char *at_svg_colour(int index)
{
    return colours[index % AT_SVG_COLOURS];
}

void at_svg_begin(at_text *page, int height, const char *name)
{
    at_text_add(page, "<svg role=\"img\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\"><title>", AT_SVG_WIDTH,
                height, AT_SVG_WIDTH, height);
    at_html_words(page, name);
    at_text_add(page, "</title>\n");
}

void at_svg_end(at_text *page)
{
    at_text_add(page, "</svg>\n");
}

void at_svg_number(at_text *page, double place)
{
    int tenths = (int)lround(place * 10);
    at_text_add(page, "%d.%d", tenths / 10, tenths % 10);
}

static void add_attribute(at_text *page, const char *name, double place)
{
    at_text_add(page, " %s=\"", name);
    at_svg_number(page, place);
    at_text_add(page, "\"");
}

void at_svg_line(at_text *page, double x1, double y1, double x2, double y2, const char *colour, int width,
                 const char *dashes)
{
    at_text_add(page, "<line stroke=\"%s\" stroke-width=\"%d\"", colour, width);
    if (dashes != NULL) {
        at_text_add(page, " stroke-dasharray=\"%s\"", dashes);
    }
    add_attribute(page, "x1", x1);
    add_attribute(page, "y1", y1);
    add_attribute(page, "x2", x2);
    add_attribute(page, "y2", y2);
    at_text_add(page, "/>\n");
}

void at_svg_box(at_text *page, double x, double y, double width, double height, const char *colour)
{
    at_text_add(page, "<rect fill=\"%s\"", colour);
    add_attribute(page, "x", x);
    add_attribute(page, "y", y);
    add_attribute(page, "width", width);
    add_attribute(page, "height", height);
    at_text_add(page, "/>\n");
}

void at_svg_words(at_text *page, double x, double y, const char *anchor, const char *words)
{
    at_text_add(page, "<text text-anchor=\"%s\"", anchor);
    add_attribute(page, "x", x);
    add_attribute(page, "y", y);
    at_text_add(page, ">");
    at_html_words(page, words);
    at_text_add(page, "</text>\n");
}

void at_svg_mark(at_text *page, double x, double y, const at_svg_style *style, const char *name)
{
    static const double radius = 4;
    if (style->square) {
        at_text_add(page, "<rect class=\"mark\" width=\"8\" height=\"8\"");
        add_attribute(page, "x", x - radius);
        add_attribute(page, "y", y - radius);
    } else {
        at_text_add(page, "<circle class=\"mark\" r=\"4\"");
        add_attribute(page, "cx", x);
        add_attribute(page, "cy", y);
    }
    at_text_add(page, " stroke=\"%s\" fill=\"%s\"><title>", style->colour, style->hollow ? "#fff" : style->colour);
    at_html_words(page, name);
    at_text_add(page, "</title></%s>\n", style->square ? "rect" : "circle");
}

/* ---- Axes -------------------------------------------------------------------------------------------------------- */

double at_axis_place(const at_axis *axis, double value)
{
    double share = axis->logarithmic ? log(value / axis->low) / log(axis->high / axis->low)
                                     : (value - axis->low) / (axis->high - axis->low);
    return axis->from + (axis->to - axis->from) * fmin(1, fmax(0, share));
}

int at_axis_ticks(const at_axis *axis, double tick[AT_TICKS_MAX])
{
    static const int steps[] = {1, 2, 5};
    static const double grain = 1e-9; /* an end of the axis may be a tick that was computed otherwise */
    int count = 0;
    bool few = log10(axis->high / axis->low) > 4;
    for (int decade = (int)floor(log10(axis->low)); decade <= (int)floor(log10(axis->high) + grain); ++decade) {
        for (int i = 0; i < (few ? 1 : 3) && count < AT_TICKS_MAX; ++i) {
            double value = steps[i] * pow(10, decade);
            if (value >= axis->low * (1 - grain) && value <= axis->high * (1 + grain)) {
                tick[count++] = value;
            }
        }
    }
    return count;
}
