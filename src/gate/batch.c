#include "gate/batch.h"

#include <math.h>

static const double start_s = 15;   /* eight processes with the devices and libraries of their arms */
static const double unknown_s = 60; /* one candidate of a problem against its peers, with what judges it */
static const double timed_s = 60;   /* its timing alone, where none has been timed yet */

static double each_s(const at_batch_pace *pace)
{
    if (pace->problems == 0) {
        return unknown_s;
    }
    double started = fmin(start_s, pace->seconds / 2); /* where processes start in no time, problems cost it all */
    return 1.1 * (pace->seconds - started) / pace->problems;
}

void at_batch_note(at_batch_pace *pace, int problems, double seconds)
{
    const at_batch_pace batch = {.problems = problems, .seconds = seconds};
    if (pace->problems == 0 || each_s(&batch) > each_s(pace)) {
        *pace = batch;
    }
}

int at_batch_size(const at_batch_pace *pace, int most, double left_s)
{
    double start = pace->problems > 0 ? fmin(start_s, pace->seconds / 2) : start_s;
    double fit = floor((left_s - start) / fmax(each_s(pace), 1e-9));
    int least = pace->problems == 0 ? 1 : 0;
    return fit >= most ? most : fit <= least ? least : (int)fit;
}

bool at_batch_goes_on(const at_batch_pace *timing, int judged, int candidates, double judging_s, double left_s)
{
    double next_s = 1.1 * judging_s / judged;
    double one_s = timing->problems > 0 ? each_s(timing) : candidates * timed_s;
    return next_s + start_s + (judged + 1) * one_s <= left_s;
}

int at_batch_timed(const at_batch_pace *timing, int judged, int candidates, double left_s)
{
    if (timing->problems > 0) {
        return at_batch_size(timing, judged, left_s);
    }
    double fit = floor((left_s - start_s) / (candidates * timed_s));
    return fit >= judged ? judged : fit <= 1 ? 1 : (int)fit;
}
