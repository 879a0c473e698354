#include "report/evidence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/problem.h"
#include "report/html.h"
#include "report/points.h"
#include "report/scatter.h"
#include "report/summary.h"
#include "report/svg.h"

enum { ROW = 16, NAMES = 190, TIMES = 210 };

typedef struct sheet {
    const at_archive *archive;
    unsigned which;
    at_points points;
    at_text *page;
} sheet;

/* ---- How fresh verdicts are
 * ------------------------------------------------------------------------------------------ */

static void add_freshness(const sheet *of)
{
    int count[AT_BROKEN + 1] = {0}, shown = 0;
    for (size_t i = 0; i < of->archive->count; ++i) {
        const at_record *record = &of->archive->record[i];
        if (at_report_shows(record, of->which) || record->state == AT_BROKEN) {
            ++count[record->state];
            ++shown;
        }
    }
    at_text_add(of->page, "<p>%d verdicts: %d fresh, %d stale, %d unchecked, %d broken.</p>\n", shown, count[AT_FRESH],
                count[AT_STALE], count[AT_UNCHECKED], count[AT_BROKEN]);
    for (size_t i = 0; i < of->archive->count; ++i) {
        if (of->archive->record[i].state == AT_BROKEN) {
            at_html_element(of->page, "p", of->archive->record[i].why);
        }
    }
}

/* ---- Speed against length ---------------------------------------------------------------------------------------- */

static double length_of(const at_point *point)
{
    return (double)point->problem.seqlen_kv;
}

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
    return problem->mask                 ? "a mask that is given"
           : attune_is_windowed(problem) ? "window"
           : attune_is_causal(problem)   ? "causal"
                                         : "no mask";
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

/* The lengths that there are, where they are not too close. */
static void add_lengths(const at_scatter *in)
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
    at_scatter_ticks(in, tick, count);
}

static attune_status plot_speed(const sheet *of, const at_point *head)
{
    char title[ATTUNE_PROBLEM_TEXT_MAX + 256];
    at_scatter in = {.page = of->page, .x = length_of, .joined = true};
    attune_status status = at_scatter_make(&of->points, head, same_question, &in);
    if (status == ATTUNE_OK && in.count > 0) {
        (void)snprintf(title, sizeof title, "%s, head dim %d, %s: %s", head->verdict->target.model,
                       head->problem.head_dim_qk, mask_of(&head->problem), head->question);
        at_html_element(of->page, "h3", title);
        at_scatter_begin(&in, "keys in a sequence", "TFLOP/s by length");
        add_lengths(&in);
        at_scatter_points(&in);
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
    at_html_fold(of->page, "Speed against length, question by question");
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
    at_html_unfold(of->page);
    free(head);
    return status;
}

/* ---- Roofline ---------------------------------------------------------------------------------------------------- */

static double intensity_of(const at_point *point)
{
    return point->intensity;
}

/* The bound below which a session held a time to be impossible, as a rate: of arithmetic by dtype, in TFLOP/s, and of
 * the memory, in TB/s; 0 where the evidence does not say. */
typedef struct roof {
    double tflops[ATTUNE_BF16 + 1], terabytes;
} roof;

static bool moves_everything(const attune_problem *p)
{
    return !p->varlen && !p->seqused_kv && !p->mask && p->window_left < 0 && p->window_right < 0;
}

static void look_up(const at_point *point, roof *above)
{
    const double *floor_us = point->verdict->session.policy.floor_us;
    /* NOTE: floors of drawn lengths were of the longest before they were of those drawn. */
    if (floor_us[AT_MODE_WARM] > 0 && !point->problem.varlen && !point->problem.seqused_kv) {
        above->tflops[point->problem.dtype] = at_verdict_tflops(point->verdict, floor_us[AT_MODE_WARM]);
    }
    /* A cold floor that is longer than the warm one is the memory's; of all keys only where none may be masked. */
    if (floor_us[AT_MODE_WARM] > 0 && floor_us[AT_MODE_COLD] > floor_us[AT_MODE_WARM] * (1 + 1e-6) &&
        moves_everything(&point->problem)) {
        above->terabytes = at_point_bytes(&point->problem) / floor_us[AT_MODE_COLD] * 1e-6;
    }
}

/* A dtype's ceiling; its name goes below the line where the ceiling `before`, 0 for none, has its own above it. */
static void add_flat(const at_scatter *in, int dtype, double tflops, double before)
{
    char name[96], number[48];
    double y = at_axis_place(&in->up, tflops);
    bool again = before > 0 && fabs(tflops / before - 1) < 0.01;
    at_svg_line(in->page, in->across.from, y, in->across.to, y, "#333", 1, "6 3");
    at_number_print(tflops, 4, number);
    (void)snprintf(name, sizeof name, "%s: %s TFLOP/s", at_dtype_name(dtype), number);
    at_svg_words(in->page, in->across.from + 4, y + (again ? 14 : -4), "start", name);
}

/* From where the rate of the memory enters the picture to where it leaves it. */
static void add_slope(const at_scatter *in, const roof *above)
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

static void draw_roof(at_scatter *in)
{
    roof above = {0};
    double tick[AT_TICKS_MAX];
    double before = 0;
    bool flat = false;
    for (int i = 0; i < in->count; ++i) {
        look_up(in->point[i], &above);
    }
    for (int dtype = 0; dtype <= ATTUNE_BF16; ++dtype) {
        if (above.tflops[dtype] > 0) {
            at_scatter_widen(&in->up, above.tflops[dtype]);
            flat = true;
        }
    }
    at_scatter_begin(in, "operations a byte of Q, K, V and O", "TFLOP/s by arithmetic intensity");
    at_scatter_ticks(in, tick, at_axis_ticks(&in->across, tick));
    for (int dtype = 0; dtype <= ATTUNE_BF16; ++dtype) {
        if (above.tflops[dtype] > 0) {
            add_flat(in, dtype, above.tflops[dtype], before);
            before = above.tflops[dtype];
        }
    }
    if (above.terabytes > 0) {
        add_slope(in, &above);
    }
    at_scatter_points(in);
    at_svg_end(in->page);
    say_roof(in->page, &above, flat);
}

static attune_status plot_roof(const sheet *of, const at_point *head)
{
    at_scatter in = {.page = of->page, .x = intensity_of};
    attune_status status = at_scatter_make(&of->points, head, same_device, &in);
    if (status == ATTUNE_OK && in.count > 0) {
        at_html_element(of->page, "h3", head->verdict->target.model);
        draw_roof(&in);
    }
    free(in.point);
    return status;
}

static attune_status add_roofs(const sheet *of)
{
    at_html_fold(of->page, "Roofline");
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
    at_html_unfold(of->page);
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
    char words[200], median[AT_TIME_TEXT], low[AT_TIME_TEXT], high[AT_TIME_TEXT];
    at_time_print(point->us[2], median);
    at_time_print(point->middle.low, low);
    at_time_print(point->middle.high, high);
    if (isfinite(point->middle.low)) {
        (void)snprintf(words, sizeof words, "%s (%s to %s)", median, low, high);
    } else {
        (void)snprintf(words, sizeof words, "%s", median);
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
    at_html_fold(of->page, "Distributions of times");
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
    at_html_unfold(of->page);
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
    const at_verdict *head = of->archive->record[first].entry->verdict;
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
    at_html_fold(of->page, "Verdicts, with what was found wrong and the session's controls");
    at_html_element(
        of->page, "p",
        "Times faster: the peer's time / the kernel's, with its 95 % interval; above 1 the kernel is faster.");
    for (size_t i = 0; i < of->archive->count; ++i) {
        if (at_report_opens(of->archive, i, of->which)) {
            AT_FORWARD(add_section(of, i));
        }
    }
    at_html_unfold(of->page);
    return ATTUNE_OK;
}

/* ---- The page ---------------------------------------------------------------------------------------------------- */

static attune_status add_all(const sheet *of)
{
    at_html_begin(of->page, "Evidence");
    add_freshness(of);
    at_summary_table(of->page, of->archive, of->which);
    if (of->points.count > 0) {
        AT_FORWARD(at_summary_pictures(of->page, &of->points));
        AT_FORWARD(add_roofs(of));
        AT_FORWARD(add_speeds(of));
        add_distributions(of);
    } else {
        at_html_element(of->page, "p", "Nothing was timed.");
    }
    AT_FORWARD(add_verdicts(of));
    at_summary_script(of->page);
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
