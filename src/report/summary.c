#include "report/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "report/html.h"
#include "report/svg.h"
#include "report/table.h"
#include "report/verdicts.h"

/* ---- The table --------------------------------------------------------------------------------------------------- */

/* The peer whose ratio is least: the fastest of them. -1 where nobody was timed. */
static int best_peer(const at_verdict *verdict)
{
    int best = -1;
    for (int arm = 0; arm < verdict->session.arm_count; ++arm) {
        const at_speed *speed = &verdict->speed[arm];
        if (at_verdict_is_peer(verdict, arm) && speed->known[AT_MODE_WARM] &&
            (best < 0 || speed->ratio[AT_MODE_WARM].r.middle < verdict->speed[best].ratio[AT_MODE_WARM].r.middle)) {
            best = arm;
        }
    }
    return best;
}

/* A cell that is sorted by its value and shows words; empty where the value is no number. */
static void add_number(at_text *page, double value, const char *words)
{
    if (!isfinite(value)) {
        at_text_add(page, "<td class=\"n\" data-v=\"-1\"></td>");
        return;
    }
    at_text_add(page, "<td class=\"n\" data-v=\"%.9g\">", value);
    at_html_words(page, words);
    at_text_add(page, "</td>");
}

static void add_time(at_text *page, double us)
{
    char words[AT_TIME_TEXT];
    at_time_print(us, words);
    add_number(page, us, words);
}

static void add_value(at_text *page, double value, int digits)
{
    char words[48];
    at_number_print(value, digits, words);
    add_number(page, value, words);
}

enum { BAR_WIDTH = 130, BAR_HEIGHT = 14 };

/* From a quarter to four times as fast, 1 in the middle. */
static void add_bar(at_text *page, const at_interval *r)
{
    static const at_axis axis = {0.25, 4, 3, BAR_WIDTH - 3, true};
    double low = at_axis_place(&axis, r->low), high = at_axis_place(&axis, r->high), one = at_axis_place(&axis, 1);
    const char *colour = r->low > 1 ? "#009e73" : r->high < 1 ? "#d55e00" : "#888888";
    at_text_add(page, "<td data-v=\"%.9g\"><svg class=\"bar\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">",
                r->middle, BAR_WIDTH, BAR_HEIGHT, BAR_WIDTH, BAR_HEIGHT);
    at_svg_line(page, one, 0, one, BAR_HEIGHT, "#333", 1, NULL);
    at_svg_line(page, one, 7, at_axis_place(&axis, r->middle), 7, colour, 1, NULL);
    at_svg_box(page, low, 4, fmax(2, high - low), 6, colour);
    at_text_add(page, "</svg></td>");
}

static void add_peer(at_text *page, const at_verdict *verdict, int peer)
{
    static const at_ratio none = {.peer_us = NAN};
    const at_ratio *ratio = peer < 0 ? &none : &verdict->speed[peer].ratio[AT_MODE_WARM];
    at_html_element(page, "td", peer < 0 ? "" : verdict->arm[peer].name);
    add_time(page, ratio->peer_us);
    if (peer < 0) {
        at_text_add(page, "<td class=\"n\" data-v=\"-1\"></td><td data-v=\"-1\"></td>");
        return;
    }
    add_value(page, ratio->r.middle, 3);
    add_bar(page, &ratio->r);
}

/* The device's name, which may be long: a line may end behind each of its words. */
static void add_device(at_text *page, const char *model)
{
    at_text_add(page, "<td>");
    for (const char *at = model; *at != '\0';) {
        char word[64];
        const size_t bytes = strcspn(at, "_") + 1;
        (void)snprintf(word, sizeof word, "%.*s", (int)bytes, at);
        at_html_words(page, word);
        at_text_add(page, "%s", strlen(at) > bytes ? "<wbr/>" : "");
        at += strlen(word);
    }
    at_text_add(page, "</td>");
}

static void add_row(at_text *page, const at_record *record)
{
    const at_verdict *verdict = record->entry->verdict;
    const int peer = best_peer(verdict);
    const double us = peer < 0 ? NAN : verdict->speed[peer].ratio[AT_MODE_WARM].candidate_us;
    char name[AT_KERNEL_TEXT_MAX];
    at_record_kernel(verdict, name);
    at_text_add(page, "<tr>");
    add_device(page, verdict->target.model);
    at_html_element(page, "td", verdict->problem);
    at_html_element(page, "td", name);
    add_time(page, us);
    add_value(page, at_verdict_tflops(verdict, us), 3);
    add_peer(page, verdict, peer);
    at_html_element(page, "td", at_outcome_name(verdict->right));
    at_html_element(page, "td", at_outcome_name(verdict->fast));
    at_html_element(page, "td", at_freshness_name(record->state));
    at_text_add(page, "</tr>\n");
}

void at_summary_table(at_text *page, const at_archive *archive, unsigned which)
{
    static const char *const heads[] = {"device",   "problem",       "kernel",
                                        "time",     "TFLOP/s",       "best peer",
                                        "its time", "times as fast", "95 % interval, ¼ … 1 … 4",
                                        "right",    "faster",        "state"};
    at_html_element(page, "h2", "Summary");
    at_html_element(page, "p",
                    "Warm times. Times as fast: the peer's time / the kernel's, beside the fastest of its peers; above "
                    "1, to the right of the line, the kernel is faster. A click on a heading sorts.");
    at_text_add(
        page,
        "<p><label>find, such as <i>wgmma causal</i>: <input id=\"find\" type=\"search\" size=\"40\"/></label></p>\n"
        "<div class=\"wide\"><table class=\"sort\">\n<thead><tr>");
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; ++i) {
        at_html_element(page, "th", heads[i]);
    }
    at_text_add(page, "</tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < archive->count; ++i) {
        if (at_report_shows(&archive->record[i], which)) {
            add_row(page, &archive->record[i]);
        }
    }
    at_text_add(page, "</tbody></table></div>\n");
}

/* ---- Small pictures ---------------------------------------------------------------------------------------------- */

enum { WIDE = 300, HIGH = 190, LEFT = 44, RIGHT = 10, TOP = 24, BOTTOM = 30 };

typedef struct picture {
    at_text *page;
    const at_point *head;
    at_axis across, up;
} picture;

static const char *mask_of(const attune_problem *problem)
{
    return problem->mask                 ? "given mask"
           : attune_is_windowed(problem) ? "window"
           : attune_is_causal(problem)   ? "causal"
                                         : "no mask";
}

/* Groups: by device, head dims and mask. */
static int by_group(const void *a, const void *b)
{
    const at_point *one = *(const at_point *const *)a, *other = *(const at_point *const *)b;
    int order = strcmp(one->verdict->target.model, other->verdict->target.model);
    order = order != 0 ? order : one->problem.head_dim_qk - other->problem.head_dim_qk;
    order = order != 0 ? order : one->problem.head_dim_v - other->problem.head_dim_v;
    return order != 0 ? order : strcmp(mask_of(&one->problem), mask_of(&other->problem));
}

static bool has_place(const at_point *point)
{
    return isfinite(point->tflops) && point->tflops > 0 && point->problem.seqlen_kv > 0;
}

static void widen(at_axis *axis, double value)
{
    axis->low = fmin(axis->low, value / 1.2);
    axis->high = fmax(axis->high, value * 1.2);
}

static void add_label(const picture *in, double x, double y, const char *anchor, double value)
{
    char words[48];
    at_number_print(value, value < 10 ? 2 : 3, words);
    at_svg_words(in->page, x, y, anchor, words);
}

static void begin(const picture *in)
{
    char title[160];
    const attune_problem *of = &in->head->problem;
    (void)snprintf(title, sizeof title, "%s, d%d%s%.0d, %s", in->head->verdict->target.model, of->head_dim_qk,
                   of->head_dim_v != of->head_dim_qk ? ", dv" : "",
                   of->head_dim_v != of->head_dim_qk ? of->head_dim_v : 0, mask_of(of));
    at_text_add(in->page, "<svg role=\"img\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\"><title>", WIDE, HIGH,
                WIDE, HIGH);
    at_html_words(in->page, title);
    at_text_add(in->page, "</title>\n");
    at_svg_words(in->page, LEFT, 14, "start", title);
    at_svg_line(in->page, LEFT, HIGH - BOTTOM, WIDE - RIGHT, HIGH - BOTTOM, "#333", 1, NULL);
    at_svg_line(in->page, LEFT, TOP, LEFT, HIGH - BOTTOM, "#333", 1, NULL);
    add_label(in, LEFT, HIGH - BOTTOM + 16, "start", ceil(in->across.low * 1.2));
    add_label(in, WIDE - RIGHT, HIGH - BOTTOM + 16, "end", round(in->across.high / 1.2));
    at_svg_words(in->page, (LEFT + WIDE - RIGHT) / 2.0, HIGH - BOTTOM + 16, "middle", "keys");
    add_label(in, LEFT - 4, HIGH - BOTTOM, "end", in->up.low * 1.2);
    add_label(in, LEFT - 4, TOP + 8, "end", in->up.high / 1.2);
}

static void add_point(const picture *in, const at_point *point)
{
    char name[AT_KERNEL_TEXT_MAX + ATTUNE_PROBLEM_TEXT_MAX + 64], number[48];
    const at_svg_style style = {at_svg_colour(point->line), point->peer, point->peer};
    at_number_print(point->tflops, 3, number);
    (void)snprintf(name, sizeof name, "%s, %s: %s TFLOP/s", point->name, point->verdict->problem, number);
    at_svg_mark(in->page, at_axis_place(&in->across, (double)point->problem.seqlen_kv),
                at_axis_place(&in->up, point->tflops), &style, name);
}

static void add_picture(at_text *page, const at_point **point, int count)
{
    picture in = {.page = page,
                  .head = point[0],
                  .across = {HUGE_VAL, 0, LEFT, WIDE - RIGHT, true},
                  .up = {HUGE_VAL, 0, HIGH - BOTTOM, TOP, true}};
    for (int i = 0; i < count; ++i) {
        widen(&in.across, (double)point[i]->problem.seqlen_kv);
        widen(&in.up, point[i]->tflops);
    }
    begin(&in);
    for (int i = 0; i < count; ++i) {
        add_point(&in, point[i]);
    }
    at_svg_end(page);
}

/* Every name with its colour, once. */
static void add_legend(at_text *page, const at_points *points)
{
    at_text_add(page, "<p class=\"legend\">");
    for (int line = 0; line < points->lines; ++line) {
        const at_point *of = NULL;
        for (int i = 0; i < points->count && of == NULL; ++i) {
            of = points->point[i].line == line ? &points->point[i] : NULL;
        }
        if (of != NULL) {
            at_text_add(page, "<span><b style=\"color:%s\">%s</b> ", at_svg_colour(line), of->peer ? "□" : "●");
            at_html_words(page, of->name);
            at_text_add(page, "</span> ");
        }
    }
    at_text_add(page, "</p>\n");
}

attune_status at_summary_pictures(at_text *page, const at_points *points)
{
    const at_point **sorted = calloc((size_t)points->count + 1, sizeof *sorted);
    int count = 0;
    AT_FAIL_IF(sorted == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a report");
    for (int i = 0; i < points->count; ++i) {
        if (has_place(&points->point[i])) {
            sorted[count++] = &points->point[i];
        }
    }
    qsort(sorted, (size_t)count, sizeof *sorted, by_group);
    at_html_element(page, "h2", "Speed by head dim and mask");
    at_html_element(page, "p",
                    "TFLOP/s against the length of a sequence, warm; a full mark is a kernel, a hollow one a peer. "
                    "Batches, heads and dtypes are in one picture: a pointer over a mark says which it is.");
    add_legend(page, points);
    at_text_add(page, "<div class=\"multiples\">\n");
    for (int i = 0, end = 0; i < count; i = end) {
        for (end = i + 1; end < count && by_group(&sorted[i], &sorted[end]) == 0;) {
            ++end;
        }
        add_picture(page, sorted + i, end - i);
    }
    at_text_add(page, "</div>\n");
    free(sorted);
    return ATTUNE_OK;
}

/* ---- The script -------------------------------------------------------------------------------------------------- */

/* NOTE: without "<" and "&", so that the page is XML too. */
void at_summary_script(at_text *page)
{
    at_text_add(page, "%s",
                "<script>\n"
                "const key = cell => cell.dataset.v ?? cell.textContent;\n"
                "const order = (a, b) => isNaN(a - b) ? a.localeCompare(b) : a - b;\n"
                "for (const head of document.querySelectorAll('table.sort th')) {\n"
                "  head.addEventListener('click', () => {\n"
                "    const body = head.closest('table').tBodies[0], down = head.dataset.way === 'up';\n"
                "    const sign = down ? -1 : 1;\n"
                "    head.dataset.way = down ? 'down' : 'up';\n"
                "    const at = row => key(row.cells[head.cellIndex]);\n"
                "    body.append(...[...body.rows].sort((a, b) => sign * order(at(a), at(b))));\n"
                "  });\n"
                "}\n"
                "const field = document.getElementById('find');\n"
                "field.addEventListener('input', () => {\n"
                "  const words = field.value.toLowerCase().split(' ');\n"
                "  for (const row of document.querySelector('table.sort').tBodies[0].rows) {\n"
                "    const text = row.textContent.toLowerCase();\n"
                "    row.hidden = !words.every(word => text.includes(word));\n"
                "  }\n"
                "});\n"
                "</script>\n");
}
