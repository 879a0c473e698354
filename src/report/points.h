/* What evidence says of times, arm by arm: what its page's pictures are drawn from. */
#ifndef REPORT_POINTS_H
#define REPORT_POINTS_H

#include "evidence/verify.h"

enum { AT_POINT_QUANTILES = 5 }; /* 5 %, 25 %, 50 %, 75 %, 95 % */

/* One arm of one verdict, from its warm blocks that count. */
typedef struct at_point {
    const at_verdict *verdict; /* belongs to the archive */
    attune_problem problem;
    char question[ATTUNE_PROBLEM_TEXT_MAX]; /* the problem without its batch and lengths: "h8,d64,fp16,causal" */
    char name[AT_KERNEL_TEXT_MAX];          /* a candidate's without its config */
    bool peer;                              /* else the candidate */
    int line;                               /* the number of this name, candidates first; the same on the whole page */
    double us[AT_POINT_QUANTILES];
    at_interval middle; /* of the processes' medians, 95 %, Student's t; NAN where there are fewer than two */
    double tflops;
    double intensity; /* operations a byte, each of Q, K, V and O moved once; NAN where lengths vary */
} at_point;

typedef struct at_points {
    at_point *point;
    int count;
    int lines;
} at_points;

/* Of those records that `which` shows (report/verdicts.h), in their order, each verdict's candidate first; none of what
 * was not timed. Fails for want of memory only. Free with at_points_free, also after an error. */
attune_status at_points_of(const at_archive *archive, unsigned which, at_points *points);
void at_points_free(at_points *points);

/* Bytes of Q, K, V and O. */
double at_point_bytes(const attune_problem *problem);

#endif
