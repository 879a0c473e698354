#include "report/plot.h"

#include <math.h>

#include "report/html.h"
#include "report/svg.h"

enum { WIDTH = AT_SVG_WIDTH, HEIGHT = 340, LEFT = 62, RIGHT = 150, TOP = 14, BOTTOM = 44, BAR = 22, BARS_LEFT = 150 };

/* Where the plot's values lie on the page. */
typedef struct frame {
    at_axis x, y; /* x from 1, logarithmic */
} frame;

static void add_y_axis(at_text *page, const at_axis *axis)
{
    for (int i = 0; i <= 5; ++i) {
        double value = axis->low + (axis->high - axis->low) * i / 5, y = at_axis_place(axis, value);
        int thousandths = (int)lround(value * 1000);
        char label[32];
        at_text text;
        at_text_init_fixed(&text, label, sizeof label);
        at_text_add(&text, "%d.%03d", thousandths / 1000, thousandths % 1000);
        at_svg_line(page, LEFT, y, WIDTH - RIGHT, y, "#ddd", 1, NULL);
        at_svg_words(page, LEFT - 6, y + 4, "end", label);
    }
}

static void add_x_axis(at_text *page, const at_axis *axis)
{
    double tick[AT_TICKS_MAX];
    int count = at_axis_ticks(axis, tick);
    for (int i = 0; i < count; ++i) {
        double x = at_axis_place(axis, tick[i]);
        char label[32];
        at_text text;
        at_text_init_fixed(&text, label, sizeof label);
        at_text_add(&text, "%ld", lround(tick[i]));
        at_svg_line(page, x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 5, "#333", 1, NULL);
        at_svg_words(page, x, HEIGHT - BOTTOM + 18, "middle", label);
    }
    at_svg_line(page, LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "#333", 1, NULL);
}

static void add_line(at_text *page, const frame *in, const at_plot_line *line, const char *colour)
{
    bool pen = false;
    at_text_add(page, "<path fill=\"none\" stroke-width=\"2\" stroke=\"%s\" d=\"", colour);
    for (int i = 0; i < line->count; ++i) {
        if (!isfinite(line->y[i])) {
            pen = false;
            continue;
        }
        at_text_add(page, "%s", pen ? "L" : "M");
        at_svg_number(page, at_axis_place(&in->x, i + 1));
        at_text_add(page, " ");
        at_svg_number(page, at_axis_place(&in->y, line->y[i]));
        pen = true;
    }
    at_text_add(page, "\"/>\n");
}

static frame frame_of(double low, double high, const at_plot_line *lines, int count)
{
    frame in = {.x = {1, 2, LEFT, WIDTH - RIGHT, true},
                .y = {low, high > low ? high : low + 1, HEIGHT - BOTTOM, TOP, false}};
    for (int i = 0; i < count; ++i) {
        in.x.high = fmax(in.x.high, lines[i].count);
    }
    return in;
}

void at_plot_lines(at_text *page, const char *x_name, const char *y_name, double low, double high,
                   const at_plot_line *lines, int count)
{
    frame in = frame_of(low, high, lines, count);
    at_svg_begin(page, HEIGHT, y_name);
    add_y_axis(page, &in.y);
    add_x_axis(page, &in.x);
    at_svg_words(page, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 6, "middle", x_name);
    for (int i = 0; i < count && i < AT_PLOT_LINES_MAX; ++i) {
        double y = TOP + 14 + 20.0 * i;
        add_line(page, &in, &lines[i], at_svg_colour(i));
        at_svg_line(page, WIDTH - RIGHT + 12, y - 4, WIDTH - RIGHT + 32, y - 4, at_svg_colour(i), 3, NULL);
        at_svg_words(page, WIDTH - RIGHT + 38, y, "start", lines[i].name);
    }
    at_svg_end(page);
    at_html_element(page, "p", y_name);
}

void at_plot_bars(at_text *page, const at_plot_bar *bars, int count)
{
    at_svg_begin(page, BAR * count + 8, "bars");
    for (int i = 0; i < count; ++i) {
        double y = 4 + (double)BAR * i, length = fmax(1, (WIDTH - BARS_LEFT - 90) * bars[i].value);
        at_svg_words(page, BARS_LEFT - 8, y + 15, "end", bars[i].name);
        at_svg_box(page, BARS_LEFT, y + 2, length, BAR - 6, at_svg_colour(0));
        at_svg_words(page, BARS_LEFT + length + 6, y + 15, "start", bars[i].label);
    }
    at_svg_end(page);
}
