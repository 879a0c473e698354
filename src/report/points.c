#include "report/points.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "core/problem.h"
#include "report/verdicts.h"

/* ---- Problems ---------------------------------------------------------------------------------------------------- */

double at_point_bytes(const attune_problem *problem)
{
    double queries = (double)(problem->batch * problem->heads_q * problem->seqlen_q);
    double keys = (double)(problem->batch * problem->heads_kv * problem->seqlen_kv);
    return (queries + keys) * (problem->head_dim_qk + problem->head_dim_v) *
           (double)at_dtype_bytes((int)problem->dtype);
}

static bool says_how_long(const char *term)
{
    static const char *const sizes[] = {"b", "s", "skv"};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        size_t length = strlen(sizes[i]);
        if (strncmp(term, sizes[i], length) == 0 && isdigit((unsigned char)term[length])) {
            return true;
        }
    }
    return false;
}

/* Two problems whose texts are then equal differ in batch and lengths alone, and belong to one line. */
static void ask(const char *problem, char question[ATTUNE_PROBLEM_TEXT_MAX])
{
    at_text text;
    at_text_init_fixed(&text, question, ATTUNE_PROBLEM_TEXT_MAX);
    for (const char *term = problem; *term != '\0';) {
        int length = (int)strcspn(term, ",");
        if (!says_how_long(term)) {
            at_text_add(&text, "%s%.*s", text.length > 0 ? "," : "", length, term);
        }
        term += length + (term[length] == ',' ? 1 : 0);
    }
}

/* ---- Times ------------------------------------------------------------------------------------------------------- */

/* The arm's samples of a process, or of all (-1), in ascending order; returns how many. */
static size_t samples_of(const at_session *session, int arm, int process, double *us)
{
    size_t count = 0;
    for (size_t i = 0; i < session->block_count; ++i) {
        const at_block *block = &session->block[i];
        if (block->mode == AT_MODE_WARM && at_block_counts(block) && (process < 0 || block->process == process)) {
            us[count++] = block->us[arm][0];
            us[count++] = block->us[arm][1];
        }
    }
    at_sort(us, count);
    return count;
}

static void fill_middle(const at_session *session, int arm, double *us, at_interval *middle)
{
    double median[AT_SESSION_PROCESSES_MAX];
    size_t count = 0;
    for (int process = 0; process < AT_SESSION_PROCESSES_MAX; ++process) {
        size_t samples = samples_of(session, arm, process, us);
        if (samples > 0) {
            median[count++] = at_quantile(us, samples, 0.5);
        }
    }
    *middle = (at_interval){NAN, NAN, NAN};
    if (count >= 2) {
        (void)at_student_mean(median, count, 0.95, middle);
    }
}

/* False where the arm has no samples. */
static bool fill_times(const at_session *session, int arm, double *us, at_point *point)
{
    static const double share[AT_POINT_QUANTILES] = {0.05, 0.25, 0.5, 0.75, 0.95};
    size_t count = samples_of(session, arm, -1, us);
    for (int i = 0; i < AT_POINT_QUANTILES; ++i) {
        point->us[i] = at_quantile(us, count, share[i]);
    }
    if (count > 0) {
        fill_middle(session, arm, us, &point->middle);
    }
    return count > 0 && point->us[0] > 0;
}

static bool fill(const at_verdict *verdict, int arm, double *us, at_point *point)
{
    *point = (at_point){.verdict = verdict, .peer = arm > 0};
    if ((arm > 0 && !at_verdict_is_peer(verdict, arm)) ||
        attune_problem_parse(verdict->problem, &point->problem) != ATTUNE_OK ||
        !fill_times(&verdict->session, arm, us, point)) {
        return false;
    }
    ask(verdict->problem, point->question);
    if (point->peer) {
        (void)snprintf(point->name, sizeof point->name, "%s", verdict->arm[arm].name);
    } else {
        at_record_kernel(verdict, point->name);
    }
    point->tflops = at_verdict_tflops(verdict, point->us[2]);
    point->intensity =
        point->problem.varlen ? NAN : attune_problem_flops(&point->problem) / at_point_bytes(&point->problem);
    return true;
}

static attune_status add_verdict(const at_verdict *verdict, at_points *points)
{
    double *us = calloc(2 * verdict->session.block_count + 1, sizeof *us);
    AT_FAIL_IF(us == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu samples", 2 * verdict->session.block_count);
    for (int arm = 0; arm < verdict->session.arm_count; ++arm) {
        if (fill(verdict, arm, us, &points->point[points->count])) {
            ++points->count;
        }
    }
    free(us);
    return ATTUNE_OK;
}

/* ---- All --------------------------------------------------------------------------------------------------------- */

static void number_lines(at_points *points, bool peer)
{
    for (int i = 0; i < points->count; ++i) {
        at_point *point = &points->point[i];
        int earlier = 0;
        while (earlier < i &&
               (points->point[earlier].peer != point->peer || strcmp(points->point[earlier].name, point->name) != 0)) {
            ++earlier;
        }
        if (point->peer == peer) {
            point->line = earlier < i ? points->point[earlier].line : points->lines++;
        }
    }
}

attune_status at_points_of(const at_archive *archive, unsigned which, at_points *points)
{
    size_t room = 1;
    *points = (at_points){0};
    for (size_t i = 0; i < archive->count; ++i) {
        room += at_report_shows(&archive->record[i], which)
                    ? (size_t)archive->record[i].entry->verdict->session.arm_count
                    : 0;
    }
    points->point = calloc(room, sizeof *points->point);
    AT_FAIL_IF(points->point == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu arms", room);
    for (size_t i = 0; i < archive->count; ++i) {
        if (at_report_shows(&archive->record[i], which)) {
            AT_FORWARD(add_verdict(archive->record[i].entry->verdict, points));
        }
    }
    number_lines(points, false);
    number_lines(points, true);
    return ATTUNE_OK;
}

void at_points_free(at_points *points)
{
    free(points->point);
    *points = (at_points){0};
}
