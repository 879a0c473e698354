#include "report/html.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 760, HEIGHT = 340, LEFT = 62, RIGHT = 150, TOP = 14, BOTTOM = 44, BAR = 22, BARS_LEFT = 150 };

/* Told apart by whoever sees few colours too (Okabe and Ito 2008). */
static const char *const colours[AT_HTML_LINES_MAX] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                       "#555555", "#e69f00", "#56b4e9", "#000000"};

void at_html_words(at_text *page, const char *words)
{
    for (; *words != '\0'; ++words) {
        switch (*words) {
        case '&':
            at_text_add(page, "&amp;");
            break;
        case '<':
            at_text_add(page, "&lt;");
            break;
        case '>':
            at_text_add(page, "&gt;");
            break;
        case '"':
            at_text_add(page, "&quot;");
            break;
        default:
            if ((unsigned char)*words >= ' ' || *words == '\n') {
                at_text_add(page, "%c", *words);
            }
        }
    }
}

void at_html_element(at_text *page, const char *tag, const char *words)
{
    at_text_add(page, "<%s>", tag);
    at_html_words(page, words);
    at_text_add(page, "</%s>\n", tag);
}

void at_html_begin(at_text *page, const char *title)
{
    at_text_add(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                      "<meta name=\"viewport\" content=\"width=device-width\">\n");
    at_html_element(page, "title", title);
    at_text_add(
        page,
        "<style>\nbody{font:15px/1.45 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;"
        "color:#1a1a1a;background:#fff}\nh1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}\n"
        "table{border-collapse:collapse;font-size:.9rem}\n"
        "td,th{padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top}td{overflow-wrap:anywhere}\n"
        "th{border-bottom:1px solid #999}.facts th{border:0}td.n{text-align:right;font-variant-numeric:tabular-nums}\n"
        "svg{max-width:100%%;height:auto}svg text{font:12px system-ui,sans-serif;fill:#333}\n"
        "code{font-size:.85rem}\n</style>\n</head>\n<body>\n");
    at_html_element(page, "h1", title);
}

void at_html_end(at_text *page)
{
    at_text_add(page, "</body>\n</html>\n");
}

/* ---- Plots ------------------------------------------------------------------------------------------------------- */

/* Where the plot's values lie on the page. */
typedef struct frame {
    double low, high, last; /* of y; of x, from 1 */
} frame;

static double x_of(const frame *in, double x)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * (in->last > 1 ? log(x) / log(in->last) : 0);
}

static double y_of(const frame *in, double y)
{
    double share = fmin(1, fmax(0, (y - in->low) / (in->high - in->low)));
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share);
}

/* With one decimal and a point in every locale. */
static void add_place(at_text *page, double at)
{
    int tenths = (int)lround(at * 10);
    at_text_add(page, "%d.%d", tenths / 10, tenths % 10);
}

static void add_segment(at_text *page, double x1, double y1, double x2, double y2, const char *colour, int width)
{
    at_text_add(page, "<line stroke=\"%s\" stroke-width=\"%d\" x1=\"", colour, width);
    add_place(page, x1);
    at_text_add(page, "\" y1=\"");
    add_place(page, y1);
    at_text_add(page, "\" x2=\"");
    add_place(page, x2);
    at_text_add(page, "\" y2=\"");
    add_place(page, y2);
    at_text_add(page, "\"/>\n");
}

static void add_label(at_text *page, double x, double y, const char *anchor, const char *words)
{
    at_text_add(page, "<text text-anchor=\"%s\" x=\"", anchor);
    add_place(page, x);
    at_text_add(page, "\" y=\"");
    add_place(page, y);
    at_text_add(page, "\">");
    at_html_words(page, words);
    at_text_add(page, "</text>\n");
}

static void add_y_axis(at_text *page, const frame *in)
{
    for (int i = 0; i <= 5; ++i) {
        double value = in->low + (in->high - in->low) * i / 5;
        int thousandths = (int)lround(value * 1000);
        char label[32];
        at_text text;
        at_text_init_fixed(&text, label, sizeof label);
        at_text_add(&text, "%d.%03d", thousandths / 1000, thousandths % 1000);
        add_segment(page, LEFT, y_of(in, value), WIDTH - RIGHT, y_of(in, value), "#ddd", 1);
        add_label(page, LEFT - 6, y_of(in, value) + 4, "end", label);
    }
}

static void add_x_axis(at_text *page, const frame *in)
{
    static const int steps[] = {1, 2, 5};
    for (int decade = 1; decade <= in->last; decade *= 10) {
        for (int i = 0; i < 3 && decade * steps[i] <= in->last; ++i) {
            double x = x_of(in, decade * steps[i]);
            char label[32];
            at_text text;
            at_text_init_fixed(&text, label, sizeof label);
            at_text_add(&text, "%d", decade * steps[i]);
            add_segment(page, x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 5, "#333", 1);
            add_label(page, x, HEIGHT - BOTTOM + 18, "middle", label);
        }
        if (decade > 100000000) {
            break;
        }
    }
    add_segment(page, LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "#333", 1);
}

static void add_line(at_text *page, const frame *in, const at_html_line *line, const char *colour)
{
    bool pen = false;
    at_text_add(page, "<path fill=\"none\" stroke-width=\"2\" stroke=\"%s\" d=\"", colour);
    for (int i = 0; i < line->count; ++i) {
        if (!isfinite(line->y[i])) {
            pen = false;
            continue;
        }
        at_text_add(page, "%s", pen ? "L" : "M");
        add_place(page, x_of(in, i + 1));
        at_text_add(page, " ");
        add_place(page, y_of(in, line->y[i]));
        pen = true;
    }
    at_text_add(page, "\"/>\n");
}

static void begin_picture(at_text *page, int height, const char *name)
{
    at_text_add(page, "<svg role=\"img\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\"><title>", WIDTH, height,
                WIDTH, height);
    at_html_words(page, name);
    at_text_add(page, "</title>\n");
}

void at_html_plot(at_text *page, const char *x_name, const char *y_name, double low, double high,
                  const at_html_line *lines, int count)
{
    frame in = {low, high > low ? high : low + 1, 1};
    for (int i = 0; i < count; ++i) {
        in.last = fmax(in.last, lines[i].count);
    }
    begin_picture(page, HEIGHT, y_name);
    add_y_axis(page, &in);
    add_x_axis(page, &in);
    add_label(page, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 6, "middle", x_name);
    for (int i = 0; i < count && i < AT_HTML_LINES_MAX; ++i) {
        double y = TOP + 14 + 20.0 * i;
        add_line(page, &in, &lines[i], colours[i]);
        add_segment(page, WIDTH - RIGHT + 12, y - 4, WIDTH - RIGHT + 32, y - 4, colours[i], 3);
        add_label(page, WIDTH - RIGHT + 38, y, "start", lines[i].name);
    }
    at_text_add(page, "</svg>\n");
    at_html_element(page, "p", y_name);
}

void at_html_bars(at_text *page, const at_html_bar *bars, int count)
{
    begin_picture(page, BAR * count + 8, "bars");
    for (int i = 0; i < count; ++i) {
        double y = 4 + (double)BAR * i;
        add_label(page, BARS_LEFT - 8, y + 15, "end", bars[i].name);
        at_text_add(page, "<rect fill=\"%s\" x=\"%d\" height=\"%d\" y=\"", colours[0], BARS_LEFT, BAR - 6);
        add_place(page, y + 2);
        at_text_add(page, "\" width=\"");
        add_place(page, fmax(1, (WIDTH - BARS_LEFT - 90) * bars[i].value));
        at_text_add(page, "\"/>\n");
        add_label(page, BARS_LEFT + fmax(1, (WIDTH - BARS_LEFT - 90) * bars[i].value) + 6, y + 15, "start",
                  bars[i].label);
    }
    at_text_add(page, "</svg>\n");
}
