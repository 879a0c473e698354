#include "report/scatter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "report/table.h"

enum { HEIGHT = 360, LEFT = 62, RIGHT = 150, TOP = 14, BOTTOM = 44 };

static int by_line(const void *a, const void *b, void *self)
{
    const at_point *one = *(const at_point *const *)a, *other = *(const at_point *const *)b;
    const at_scatter *in = self;
    if (one->line != other->line) {
        return one->line - other->line;
    }
    double x = in->x(one), y = in->x(other);
    return x != y ? (x < y ? -1 : 1) : strcmp(one->verdict->problem, other->verdict->problem);
}

static bool has_place(const at_scatter *in, const at_point *point)
{
    double x = in->x(point);
    return isfinite(x) && x > 0 && isfinite(point->tflops) && point->tflops > 0;
}

/* To each side of the values. */
static const double room = 1.3;

void at_scatter_widen(at_axis *axis, double value)
{
    axis->low = fmin(axis->low, value / room);
    axis->high = fmax(axis->high, value * room);
}

attune_status at_scatter_make(const at_points *points, const at_point *head,
                              bool (*belongs)(const at_point *head, const at_point *point), at_scatter *in)
{
    in->point = calloc((size_t)points->count + 1, sizeof *in->point);
    AT_FAIL_IF(in->point == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a plot");
    in->across = (at_axis){HUGE_VAL, 0, LEFT, AT_SVG_WIDTH - RIGHT, true};
    in->up = (at_axis){HUGE_VAL, 0, 0, TOP, true};
    for (int i = 0; i < points->count; ++i) {
        const at_point *point = &points->point[i];
        if (belongs(head, point) && has_place(in, point)) {
            in->point[in->count++] = point;
            at_scatter_widen(&in->across, in->x(point));
            at_scatter_widen(&in->up, point->tflops);
        }
    }
    qsort_r(in->point, (size_t)in->count, sizeof *in->point, by_line, in);
    return ATTUNE_OK;
}

static int count_lines(const at_scatter *in)
{
    int lines = 0;
    for (int i = 0; i < in->count; ++i) {
        lines += i == 0 || in->point[i]->line != in->point[i - 1]->line;
    }
    return lines;
}

static void add_tick(at_text *page, double x, double y, const char *anchor, double value)
{
    char label[48];
    at_text text;
    at_text_init_fixed(&text, label, sizeof label);
    at_text_add_float(&text, (float)value);
    at_svg_words(page, x, y, anchor, label);
}

static void add_up(const at_scatter *in)
{
    double tick[AT_TICKS_MAX];
    int count = at_axis_ticks(&in->up, tick);
    for (int i = 0; i < count; ++i) {
        double y = at_axis_place(&in->up, tick[i]);
        at_svg_line(in->page, LEFT, y, AT_SVG_WIDTH - RIGHT, y, "#ddd", 1, NULL);
        add_tick(in->page, LEFT - 6, y + 4, "end", tick[i]);
    }
}

void at_scatter_ticks(const at_scatter *in, const double *tick, int count)
{
    double y = in->height - BOTTOM;
    for (int i = 0; i < count; ++i) {
        double x = at_axis_place(&in->across, tick[i]);
        at_svg_line(in->page, x, y, x, y + 5, "#333", 1, NULL);
        add_tick(in->page, x, y + 18, "middle", tick[i]);
    }
    at_svg_line(in->page, LEFT, y, AT_SVG_WIDTH - RIGHT, y, "#333", 1, NULL);
}

void at_scatter_begin(at_scatter *in, const char *x_name, const char *y_name)
{
    in->lines = count_lines(in);
    int legend = TOP + 20 * in->lines + BOTTOM;
    in->height = legend > HEIGHT ? legend : HEIGHT;
    in->up.from = in->height - BOTTOM;
    at_svg_begin(in->page, in->height, y_name);
    add_up(in);
    at_svg_words(in->page, (LEFT + AT_SVG_WIDTH - RIGHT) / 2.0, in->height - 6, "middle", x_name);
}

/* Where points of the line with this number in the legend are: side by side where all have one x. */
static double across(const at_scatter *in, const at_point *point, int number)
{
    double x = in->x(point);
    bool alone = in->across.high <= in->across.low * room * room * 1.001;
    return alone ? LEFT + (AT_SVG_WIDTH - LEFT - RIGHT) * (number + 0.5) / in->lines : at_axis_place(&in->across, x);
}

static void add_mark(const at_scatter *in, const at_point *point, int number, double tflops)
{
    char label[AT_KERNEL_TEXT_MAX + ATTUNE_PROBLEM_TEXT_MAX + 64], speed[48];
    at_number_print(tflops, 4, speed);
    (void)snprintf(label, sizeof label, "%s, %s: %s TFLOP/s", point->name, point->verdict->problem, speed);
    at_svg_style style = {at_svg_colour(point->line), point->peer, point->peer};
    at_svg_mark(in->page, across(in, point, number), at_axis_place(&in->up, tflops), &style, label);
}

/* Points of one line and problem: all of a candidate's; of a peer, which was timed beside every candidate, the
 * middle one. Returns the y of the line there. */
static double add_run(const at_scatter *in, int number, int first, int end)
{
    double *all = calloc((size_t)(end - first), sizeof *all);
    if (all == NULL) {
        in->page->out_of_memory = true;
        return in->point[first]->tflops;
    }
    for (int i = first; i < end; ++i) {
        all[i - first] = in->point[i]->tflops;
    }
    at_sort(all, (size_t)(end - first));
    double middle = at_quantile(all, (size_t)(end - first), 0.5);
    for (int i = first; i < end && !in->point[first]->peer; ++i) {
        add_mark(in, in->point[i], number, in->point[i]->tflops);
    }
    if (in->point[first]->peer) {
        add_mark(in, in->point[first], number, middle);
    }
    free(all);
    return middle;
}

static void add_legend(const at_scatter *in, const at_point *point, int number)
{
    double x = AT_SVG_WIDTH - RIGHT + 12, y = TOP + 14 + 20.0 * number;
    at_svg_line(in->page, x, y - 4, x + 20, y - 4, at_svg_colour(point->line), 3, point->peer ? "4 3" : NULL);
    at_svg_words(in->page, x + 26, y, "start", point->name);
}

/* Where the run that begins at `first` ends. */
static int run_end(const at_scatter *in, int first)
{
    int end = first + 1;
    while (end < in->count && in->point[end]->line == in->point[first]->line &&
           strcmp(in->point[end]->verdict->problem, in->point[first]->verdict->problem) == 0) {
        ++end;
    }
    return end;
}

void at_scatter_points(const at_scatter *in)
{
    int number = -1;
    double x_before = NAN, y_before = NAN;
    for (int first = 0, end; first < in->count; first = end) {
        const at_point *point = in->point[first];
        bool goes_on = first > 0 && in->point[first - 1]->line == point->line;
        if (!goes_on) {
            add_legend(in, point, ++number);
        }
        end = run_end(in, first);
        double x = across(in, point, number), y = at_axis_place(&in->up, add_run(in, number, first, end));
        if (goes_on && in->joined) {
            at_svg_line(in->page, x_before, y_before, x, y, at_svg_colour(point->line), 2, point->peer ? "4 3" : NULL);
        }
        x_before = x;
        y_before = y;
    }
}
