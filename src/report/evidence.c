#include "report/evidence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/problem.h"
#include "report/html.h"
#include "report/points.h"
#include "report/svg.h"

enum { HEIGHT = 360, LEFT = 62, RIGHT = 150, TOP = 14, BOTTOM = 44, ROW = 16, NAMES = 190, TIMES = 210 };

typedef struct sheet {
    const at_archive *archive;
    unsigned which;
    at_points points;
    at_text *page;
} sheet;

/* ---- How verdicts stand ------------------------------------------------------------------------------------------ */

static void add_standings(const sheet *of)
{
    int count[AT_BROKEN + 1] = {0}, shown = 0;
    for (size_t i = 0; i < of->archive->count; ++i) {
        const at_record *record = &of->archive->record[i];
        if (at_report_shows(record, of->which) || record->standing == AT_BROKEN) {
            ++count[record->standing];
            ++shown;
        }
    }
    at_text_add(of->page, "<p>%d verdicts: %d fresh, %d stale, %d unchecked, %d broken.</p>\n", shown, count[AT_FRESH],
                count[AT_STALE], count[AT_UNCHECKED], count[AT_BROKEN]);
    for (size_t i = 0; i < of->archive->count; ++i) {
        if (of->archive->record[i].standing == AT_BROKEN) {
            at_html_element(of->page, "p", of->archive->record[i].why);
        }
    }
}

/* ---- Clouds: points over two logarithmic axes, a line for each name ---------------------------------------------- */

typedef struct cloud {
    at_text *page;
    const at_point **point; /* by line, then by x, then by problem */
    int count;
    double (*x)(const at_point *point);
    at_axis across, up;
    int height;
    bool joined; /* points of a line */
    int lines;
} cloud;

static double length_of(const at_point *point)
{
    return (double)point->problem.seqlen_kv;
}

static double intensity_of(const at_point *point)
{
    return point->intensity;
}

static int by_line(const void *a, const void *b, void *self)
{
    const at_point *one = *(const at_point *const *)a, *other = *(const at_point *const *)b;
    const cloud *in = self;
    if (one->line != other->line) {
        return one->line - other->line;
    }
    double x = in->x(one), y = in->x(other);
    return x != y ? (x < y ? -1 : 1) : strcmp(one->verdict->problem, other->verdict->problem);
}

static bool can_stand(const cloud *in, const at_point *point)
{
    double x = in->x(point);
    return isfinite(x) && x > 0 && isfinite(point->tflops) && point->tflops > 0;
}

/* To each side of the values. */
static const double room = 1.3;

/* An axis over all values that were put in, with some room at its ends. */
static void widen(at_axis *axis, double value)
{
    axis->low = fmin(axis->low, value / room);
    axis->high = fmax(axis->high, value * room);
}

/* Takes those points that belong to the head's picture. Free in->point in any case. */
static attune_status cloud_make(const sheet *of, const at_point *head,
                                bool (*belongs)(const at_point *head, const at_point *point), cloud *in)
{
    in->page = of->page;
    in->point = calloc((size_t)of->points.count + 1, sizeof *in->point);
    AT_FAIL_IF(in->point == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a plot");
    in->across = (at_axis){HUGE_VAL, 0, LEFT, AT_SVG_WIDTH - RIGHT, true};
    in->up = (at_axis){HUGE_VAL, 0, 0, TOP, true};
    for (int i = 0; i < of->points.count; ++i) {
        const at_point *point = &of->points.point[i];
        if (belongs(head, point) && can_stand(in, point)) {
            in->point[in->count++] = point;
            widen(&in->across, in->x(point));
            widen(&in->up, point->tflops);
        }
    }
    qsort_r(in->point, (size_t)in->count, sizeof *in->point, by_line, in);
    return ATTUNE_OK;
}

static int count_lines(const cloud *in)
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

static void add_up(const cloud *in)
{
    double tick[AT_TICKS_MAX];
    int count = at_axis_ticks(&in->up, tick);
    for (int i = 0; i < count; ++i) {
        double y = at_axis_place(&in->up, tick[i]);
        at_svg_line(in->page, LEFT, y, AT_SVG_WIDTH - RIGHT, y, "#ddd", 1, NULL);
        add_tick(in->page, LEFT - 6, y + 4, "end", tick[i]);
    }
}

static void add_across(const cloud *in, const double *tick, int count)
{
    double y = in->height - BOTTOM;
    for (int i = 0; i < count; ++i) {
        double x = at_axis_place(&in->across, tick[i]);
        at_svg_line(in->page, x, y, x, y + 5, "#333", 1, NULL);
        add_tick(in->page, x, y + 18, "middle", tick[i]);
    }
    at_svg_line(in->page, LEFT, y, AT_SVG_WIDTH - RIGHT, y, "#333", 1, NULL);
}

static void cloud_begin(cloud *in, const char *x_name, const char *y_name)
{
    in->lines = count_lines(in);
    int legend = TOP + 20 * in->lines + BOTTOM;
    in->height = legend > HEIGHT ? legend : HEIGHT;
    in->up.from = in->height - BOTTOM;
    at_svg_begin(in->page, in->height, y_name);
    add_up(in);
    at_svg_words(in->page, (LEFT + AT_SVG_WIDTH - RIGHT) / 2.0, in->height - 6, "middle", x_name);
}

/* Where points of the line with this number in the legend stand: side by side where all have one x. */
static double across(const cloud *in, const at_point *point, int number)
{
    double x = in->x(point);
    bool alone = in->across.high <= in->across.low * room * room * 1.001;
    return alone ? LEFT + (AT_SVG_WIDTH - LEFT - RIGHT) * (number + 0.5) / in->lines : at_axis_place(&in->across, x);
}

static void add_mark(const cloud *in, const at_point *point, int number, double tflops)
{
    char label[AT_KERNEL_TEXT_MAX + ATTUNE_PROBLEM_TEXT_MAX + 64], speed[48];
    at_number_print(tflops, 4, speed);
    (void)snprintf(label, sizeof label, "%s, %s: %s TFLOP/s", point->name, point->verdict->problem, speed);
    at_svg_style style = {at_svg_colour(point->line), point->peer, point->peer};
    at_svg_mark(in->page, across(in, point, number), at_axis_place(&in->up, tflops), &style, label);
}

/* Points of one line and problem: all of a candidate's; of a peer, which was timed beside every candidate, the
 * middle one. Returns the y of the line there. */
static double add_run(const cloud *in, int number, int first, int end)
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

static void add_legend(const cloud *in, const at_point *point, int number)
{
    double x = AT_SVG_WIDTH - RIGHT + 12, y = TOP + 14 + 20.0 * number;
    at_svg_line(in->page, x, y - 4, x + 20, y - 4, at_svg_colour(point->line), 3, point->peer ? "4 3" : NULL);
    at_svg_words(in->page, x + 26, y, "start", point->name);
}

/* Where the run that begins at `first` ends. */
static int run_end(const cloud *in, int first)
{
    int end = first + 1;
    while (end < in->count && in->point[end]->line == in->point[first]->line &&
           strcmp(in->point[end]->verdict->problem, in->point[first]->verdict->problem) == 0) {
        ++end;
    }
    return end;
}

static void add_points(const cloud *in)
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

/* ---- Speed against length ---------------------------------------------------------------------------------------- */

static bool same_device(const at_point *head, const at_point *point)
{
    return strcmp(head->verdict->target.model, point->verdict->target.model) == 0;
}

static bool same_question(const at_point *head, const at_point *point)
{
    return same_device(head, point) && strcmp(head->question, point->question) == 0;
}

static const char *mask_of(const attune_problem *problem)
{
    bool window = problem->window_left >= 0 || problem->window_right >= 0;
    return problem->mask ? "a mask that is given" : window ? "window" : problem->causal ? "causal" : "no mask";
}

/* Groups: by device, head dims, mask, and what else is asked. */
static int by_question(const void *a, const void *b)
{
    const at_point *one = *(const at_point *const *)a, *other = *(const at_point *const *)b;
    int order = strcmp(one->verdict->target.model, other->verdict->target.model);
    order = order != 0 ? order : one->problem.head_dim_qk - other->problem.head_dim_qk;
    order = order != 0 ? order : one->problem.head_dim_v - other->problem.head_dim_v;
    order = order != 0 ? order : strcmp(mask_of(&one->problem), mask_of(&other->problem));
    return order != 0 ? order : strcmp(one->question, other->question);
}

/* The lengths that there are, where they do not stand too close. */
static void add_lengths(const cloud *in)
{
    double tick[AT_TICKS_MAX];
    int count = 0;
    for (double at = 0; count < AT_TICKS_MAX;) {
        double next = HUGE_VAL;
        for (int i = 0; i < in->count; ++i) {
            double x = in->x(in->point[i]);
            next = x > at * 1.15 ? fmin(next, x) : next;
        }
        if (!isfinite(next)) {
            break;
        }
        tick[count++] = at = next;
    }
    add_across(in, tick, count);
}

static attune_status plot_speed(const sheet *of, const at_point *head)
{
    char title[ATTUNE_PROBLEM_TEXT_MAX + 256];
    cloud in = {.x = length_of, .joined = true};
    attune_status status = cloud_make(of, head, same_question, &in);
    if (status == ATTUNE_OK && in.count > 0) {
        (void)snprintf(title, sizeof title, "%s, head dim %d, %s: %s", head->verdict->target.model,
                       head->problem.head_dim_qk, mask_of(&head->problem), head->question);
        at_html_element(of->page, "h3", title);
        cloud_begin(&in, "keys in a sequence", "TFLOP/s by length");
        add_lengths(&in);
        add_points(&in);
        at_svg_end(of->page);
    }
    free(in.point);
    return status;
}

static attune_status add_speeds(const sheet *of)
{
    const at_point **head = calloc((size_t)of->points.count + 1, sizeof *head);
    attune_status status = ATTUNE_OK;
    AT_FAIL_IF(head == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a report");
    for (int i = 0; i < of->points.count; ++i) {
        head[i] = &of->points.point[i];
    }
    qsort(head, (size_t)of->points.count, sizeof *head, by_question);
    at_html_element(of->page, "h2", "Speed");
    at_html_element(
        of->page, "p",
        "TFLOP/s against the length of a sequence, warm; a full mark is a verdict's candidate, a hollow one "
        "a peer, at the middle of its medians where it was timed beside several candidates. Masked work is "
        "not counted.");
    for (int i = 0; i < of->points.count && status == ATTUNE_OK; ++i) {
        if (i == 0 || by_question(&head[i - 1], &head[i]) != 0) {
            status = plot_speed(of, head[i]);
        }
    }
    free(head);
    return status;
}

/* ---- Roofline ---------------------------------------------------------------------------------------------------- */

/* The bound below which a session held a time to be impossible, as a rate: of arithmetic by dtype, in TFLOP/s, and of
 * the memory, in TB/s; 0 where the evidence does not say. */
typedef struct roof {
    double tflops[ATTUNE_BF16 + 1], terabytes;
} roof;

static bool moves_everything(const attune_problem *p)
{
    return !p->varlen && !p->seqused_kv && !p->mask && !p->causal && p->window_left < 0 && p->window_right < 0;
}

static void look_up(const at_point *point, roof *above)
{
    const double *floor_us = point->verdict->session.policy.floor_us;
    if (floor_us[AT_MODE_WARM] > 0) {
        above->tflops[point->problem.dtype] = at_verdict_tflops(point->verdict, floor_us[AT_MODE_WARM]);
    }
    /* A cold floor that is longer than the warm one is the memory's; of all keys only where none may be masked. */
    if (floor_us[AT_MODE_WARM] > 0 && floor_us[AT_MODE_COLD] > floor_us[AT_MODE_WARM] * (1 + 1e-6) &&
        moves_everything(&point->problem)) {
        above->terabytes = at_point_bytes(&point->problem) / floor_us[AT_MODE_COLD] * 1e-6;
    }
}

static void add_flat(const cloud *in, const roof *above, int dtype)
{
    char name[96], number[48];
    double y = at_axis_place(&in->up, above->tflops[dtype]);
    bool again = dtype > 0 && fabs(above->tflops[dtype] / above->tflops[dtype - 1] - 1) < 0.01;
    at_svg_line(in->page, LEFT, y, AT_SVG_WIDTH - RIGHT, y, "#333", 1, "6 3");
    at_number_print(above->tflops[dtype], 4, number);
    (void)snprintf(name, sizeof name, "%s: %s TFLOP/s", at_dtype_name(dtype), number);
    at_svg_words(in->page, LEFT + 4, y + (again ? 14 : -4), "start", name);
}

/* From where the rate of the memory enters the picture to where it leaves it. */
static void add_slope(const cloud *in, const roof *above)
{
    double left = fmax(in->across.low, in->up.low / above->terabytes);
    double right = fmin(in->across.high, in->up.high / above->terabytes);
    if (left < right) {
        at_svg_line(in->page, at_axis_place(&in->across, left), at_axis_place(&in->up, left * above->terabytes),
                    at_axis_place(&in->across, right), at_axis_place(&in->up, right * above->terabytes), "#333", 1,
                    "6 3");
    }
}

static void say_roof(at_text *page, const roof *above, bool flat)
{
    if (!flat) {
        at_html_element(page, "p", "This evidence records no ceilings of the device, so none are drawn.");
        return;
    }
    at_html_element(page, "p",
                    "The dashed ceiling is the rate above which the sessions held a time to be impossible, from the "
                    "floor that their policy records.");
    if (above->terabytes > 0) {
        char number[48];
        at_number_print(above->terabytes, 4, number);
        at_text_add(page, "<p>The slope is the memory's rate by the same rule: %s TB/s.</p>\n", number);
    } else {
        at_html_element(page, "p", "What it records does not give the memory's rate, so no slope is drawn.");
    }
}

static void draw_roof(cloud *in)
{
    roof above = {0};
    double tick[AT_TICKS_MAX];
    bool flat = false;
    for (int i = 0; i < in->count; ++i) {
        look_up(in->point[i], &above);
    }
    for (int dtype = 0; dtype <= ATTUNE_BF16; ++dtype) {
        if (above.tflops[dtype] > 0) {
            widen(&in->up, above.tflops[dtype]);
            flat = true;
        }
    }
    cloud_begin(in, "operations a byte of Q, K, V and O", "TFLOP/s by arithmetic intensity");
    add_across(in, tick, at_axis_ticks(&in->across, tick));
    for (int dtype = 0; dtype <= ATTUNE_BF16; ++dtype) {
        if (above.tflops[dtype] > 0) {
            add_flat(in, &above, dtype);
        }
    }
    if (above.terabytes > 0) {
        add_slope(in, &above);
    }
    add_points(in);
    at_svg_end(in->page);
    say_roof(in->page, &above, flat);
}

static attune_status plot_roof(const sheet *of, const at_point *head)
{
    cloud in = {.x = intensity_of};
    attune_status status = cloud_make(of, head, same_device, &in);
    if (status == ATTUNE_OK && in.count > 0) {
        at_html_element(of->page, "h3", head->verdict->target.model);
        draw_roof(&in);
    }
    free(in.point);
    return status;
}

static attune_status add_roofs(const sheet *of)
{
    at_html_element(of->page, "h2", "Roofline");
    at_html_element(of->page, "p",
                    "TFLOP/s against arithmetic intensity: the problem's operations / the bytes of Q, K, V and O, each "
                    "moved once. Problems whose lengths vary are left out.");
    for (int i = 0; i < of->points.count; ++i) {
        int earlier = 0;
        while (earlier < i && !same_device(&of->points.point[earlier], &of->points.point[i])) {
            ++earlier;
        }
        if (earlier == i) {
            AT_FORWARD(plot_roof(of, &of->points.point[i]));
        }
    }
    return ATTUNE_OK;
}

/* ---- Distributions ----------------------------------------------------------------------------------------------- */

/* Times of an arm / its own median, so that one scale serves slow arms and fast ones. */
static void add_spread(const sheet *of, const at_axis *axis, double y, const at_point *point)
{
    double at[AT_POINT_QUANTILES];
    const char *colour = at_svg_colour(point->line);
    for (int i = 0; i < AT_POINT_QUANTILES; ++i) {
        at[i] = at_axis_place(axis, point->us[i] / point->us[2]);
    }
    at_svg_line(of->page, at[0], y, at[4], y, colour, 1, NULL);
    at_svg_box(of->page, at[1], y - 4, fmax(1, at[3] - at[1]), 8, colour);
    at_svg_line(of->page, at[2], y - 5, at[2], y + 5, "#000", 1, NULL);
    if (isfinite(point->middle.low)) {
        double low = at_axis_place(axis, point->middle.low / point->us[2]);
        double high = at_axis_place(axis, point->middle.high / point->us[2]);
        at_svg_line(of->page, low, y + 6, fmax(high, low + 1), y + 6, "#000", 2, NULL);
    }
}

static void add_times(const sheet *of, double y, const at_point *point)
{
    char words[200], median[48], low[48], high[48];
    at_number_print(point->us[2], 4, median);
    at_number_print(point->middle.low, 4, low);
    at_number_print(point->middle.high, 4, high);
    if (isfinite(point->middle.low)) {
        (void)snprintf(words, sizeof words, "%s us (%s to %s)", median, low, high);
    } else {
        (void)snprintf(words, sizeof words, "%s us", median);
    }
    at_svg_words(of->page, AT_SVG_WIDTH - TIMES + 12, y + 4, "start", words);
    at_svg_words(of->page, NAMES - 8, y + 4, "end", point->name);
}

static bool same_picture(const at_point *head, const at_point *point)
{
    return same_device(head, point) && strcmp(head->verdict->problem, point->verdict->problem) == 0;
}

/* As much as the picture's arms need, from 0.5 % to 20 % to each side of the median. */
static at_axis spread_axis(const sheet *of, const at_point *head)
{
    double reach = 0.005;
    for (int i = 0; i < of->points.count; ++i) {
        const at_point *point = &of->points.point[i];
        if (same_picture(head, point)) {
            reach = fmax(reach, fmax(1 - point->us[0] / point->us[2], point->us[4] / point->us[2] - 1));
        }
    }
    reach = fmin(reach, 0.2);
    return (at_axis){1 - reach, 1 + reach, NAMES, AT_SVG_WIDTH - TIMES, false};
}

static void add_spread_axis(const sheet *of, const at_axis *axis, int height)
{
    for (int i = -2; i <= 2; ++i) {
        char label[64], number[48];
        double value = 1 + i * (axis->high - 1) / 2, x = at_axis_place(axis, value);
        at_number_print(100 * (value - 1), 2, number);
        (void)snprintf(label, sizeof label, "%s%s %%", i > 0 ? "+" : "", i == 0 ? "0" : number);
        at_svg_line(of->page, x, 4, x, height - 22, "#ddd", 1, NULL);
        at_svg_words(of->page, x, height - 6, "middle", label);
    }
}

static void plot_spread(const sheet *of, const at_point *head)
{
    char title[ATTUNE_PROBLEM_TEXT_MAX + 256];
    int rows = 0, gaps = 0;
    at_axis axis = spread_axis(of, head);
    for (const at_point *point = head; point < of->points.point + of->points.count; ++point) {
        rows += same_picture(head, point);
        gaps += same_picture(head, point) && !point->peer;
    }
    (void)snprintf(title, sizeof title, "%s on %s", head->verdict->problem, head->verdict->target.model);
    at_html_element(of->page, "h3", title);
    at_svg_begin(of->page, ROW * rows + 8 * gaps + 40, "distribution of times");
    add_spread_axis(of, &axis, ROW * rows + 8 * gaps + 40);
    double y = 4;
    for (const at_point *point = head; point < of->points.point + of->points.count; ++point) {
        if (same_picture(head, point)) {
            y += ROW + (point->peer ? 0 : 8);
            add_spread(of, &axis, y - ROW / 2.0, point);
            add_times(of, y - ROW / 2.0, point);
        }
    }
    at_svg_end(of->page);
}

static void add_distributions(const sheet *of)
{
    at_html_element(of->page, "h2", "Distributions");
    at_html_element(
        of->page, "p",
        "Warm samples of each verdict's candidate, and below it of its peers in the same session, as times / "
        "the arm's median: 5 % to 95 % (line), quartiles (box), median, and below the box the 95 % interval "
        "of the processes' medians, where two or more ran. What is beyond the scale lies at its end.");
    for (int i = 0; i < of->points.count; ++i) {
        int earlier = 0;
        while (earlier < i && !same_picture(&of->points.point[earlier], &of->points.point[i])) {
            ++earlier;
        }
        if (earlier == i) {
            plot_spread(of, &of->points.point[i]);
        }
    }
}

/* ---- Verdicts ---------------------------------------------------------------------------------------------------- */

static attune_status add_notes(const sheet *of, size_t first)
{
    char *notes = NULL;
    size_t bytes;
    FILE *out = open_memstream(&notes, &bytes);
    AT_FAIL_IF(out == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a report");
    for (size_t i = first; i < of->archive->count; ++i) {
        if (at_report_same_section(of->archive, first, i, of->which)) {
            at_report_notes(&of->archive->record[i], out);
        }
    }
    bool whole = ferror(out) == 0;
    whole = fclose(out) == 0 && whole;
    if (whole) {
        at_html_element(of->page, "pre", notes);
    }
    free(notes);
    AT_FAIL_IF(!whole, ATTUNE_OUT_OF_MEMORY, "no memory for a report");
    return ATTUNE_OK;
}

static attune_status add_section(const sheet *of, size_t first)
{
    const at_verdict *head = of->archive->record[first].exhibit->verdict;
    char title[ATTUNE_PROBLEM_TEXT_MAX + 256];
    at_table *table = NULL;
    (void)snprintf(title, sizeof title, "%s on %s", head->problem, head->target.model);
    at_html_element(of->page, "h3", title);
    attune_status status = at_report_section(of->archive, first, of->which, &table);
    if (status == ATTUNE_OK) {
        status = at_table_html(table, of->page);
    }
    at_table_destroy(table);
    AT_FORWARD(status);
    return add_notes(of, first);
}

static attune_status add_verdicts(const sheet *of)
{
    at_html_element(of->page, "h2", "Verdicts");
    at_html_element(
        of->page, "p",
        "Times faster: the peer's time / the kernel's, with its 95 % interval; above 1 the kernel is faster.");
    for (size_t i = 0; i < of->archive->count; ++i) {
        if (at_report_opens(of->archive, i, of->which)) {
            AT_FORWARD(add_section(of, i));
        }
    }
    return ATTUNE_OK;
}

/* ---- The page ---------------------------------------------------------------------------------------------------- */

static attune_status add_all(const sheet *of)
{
    at_html_begin(of->page, "Evidence");
    add_standings(of);
    if (of->points.count > 0) {
        AT_FORWARD(add_speeds(of));
        AT_FORWARD(add_roofs(of));
        add_distributions(of);
    } else {
        at_html_element(of->page, "p", "Nothing was timed.");
    }
    AT_FORWARD(add_verdicts(of));
    at_html_end(of->page);
    return ATTUNE_OK;
}

attune_status at_report_evidence_page(const at_archive *archive, unsigned which, char **page, size_t *bytes)
{
    at_text text;
    sheet of = {.archive = archive, .which = which, .page = &text};
    *page = NULL;
    at_text_init(&text);
    attune_status status = at_points_of(archive, which, &of.points);
    if (status == ATTUNE_OK) {
        status = add_all(&of);
    }
    at_points_free(&of.points);
    if (status != ATTUNE_OK) {
        at_text_free(&text);
        return status;
    }
    return at_text_take(&text, "a page", page, bytes);
}
