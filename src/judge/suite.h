/* The suite: is a kernel right on a problem? Runs cases through a plan-maker and applies every rule. */
#ifndef JUDGE_SUITE_H
#define JUDGE_SUITE_H

#include "core/device.h"
#include "judge/case_cache.h"
#include "judge/cases.h"
#include "reference/judge.h"

enum { AT_KEPT_FAILURES = 8, AT_KEPT_REFUSALS = 8 };

/* Makes a plan on suite->device. ATTUNE_UNSUPPORTED refuses the case. */
typedef attune_status (*at_plan_maker)(void *self, const attune_problem *problem, attune_plan **plan);

typedef struct at_suite {
    at_device *device;
    at_pool *pool; /* for references */
    at_plan_maker plan;
    at_plan_maker general; /* the general kernel, for the rows of big problems that the reference leaves out; or NULL */
    void *self;            /* of both */
    uint64_t seed;
    int64_t cases;        /* to execute */
    int64_t only;         /* -1, or the only case to run */
    at_case_cache *cache; /* references that are kept for other kernels; NULL: none are */
    double query_scale;   /* what the kernel's Q, and not the reference's, is multiplied by; 0: nothing */
    bool acc16;           /* the kernel declares ATTUNE_TRAIT_ACC16: at_case_make_acc16 */
    double big_flops;     /* above it the reference covers some rows only; 0: AT_BIG_FLOPS. For tests */
    const char *command;  /* how a failure is reproduced, up to the seed: "attune check --kernel tiled" */
    void (*progress)(void *watcher, double done); /* may be NULL */
    bool (*stop)(void *watcher);                  /* asked between cases; may be NULL */
    void *watcher;
} at_suite;

typedef struct at_failure {
    int64_t index;
    attune_status status;
    char problem[ATTUNE_PROBLEM_TEXT_MAX]; /* of the case */
    char how[80];                          /* stratum, family, gaps */
    char what[512];
    char command[ATTUNE_PROBLEM_TEXT_MAX + 256]; /* that reproduces it */
} at_failure;

typedef struct at_refusal {
    int64_t index;
    char problem[ATTUNE_PROBLEM_TEXT_MAX];
    char why[512];
} at_refusal;

/* Worst value over limit of each rule, over the cases executed; 1 is the edge. */
typedef struct at_margins {
    double error;            /* rule 1 */
    double l2;               /* rule 2 */
    double cosine;           /* rule 3: 1 - cosine over what is allowed */
    double lse;              /* rule 4 */
    double max_error;        /* rule 6: the largest |O - O64| where the fixed bar applies; 0 where it never did */
    int64_t allclose_missed; /* cases outside of atol = rtol = 1e-3; reported only */
} at_margins;

typedef struct at_suite_result {
    int64_t executed, exact, failed, refused;
    bool interrupted;
    char kernel[512]; /* of the first plan made */
    at_margins margins;
    /* The suite-wide half of rule 2, over all cases and over those with standard-normal inputs: families that push the
     * naive computation far off would else excuse everything. */
    at_bias bias, bias_normal;
    attune_status bias_status;
    char bias_what[256];
    int failures, refusals; /* kept below */
    at_failure failure[AT_KEPT_FAILURES];
    at_refusal refusal[AT_KEPT_REFUSALS];
} at_suite_result;

/* ATTUNE_OK when the suite ran, whatever it found: see at_suite_right. An error means that it could not run on. The
 * result is filled in as far as it got. */
attune_status at_suite_run(const at_suite *suite, const at_test_problem *test, at_suite_result *result);
/* How what a suite's cache holds is made ahead: for which of its scopes, by how many threads, and of which kernels. */
typedef struct at_ahead {
    int scope, threads;
    bool acc16;
} at_ahead;

/* Has inputs and truths of the first cases made ahead. */
attune_status at_suite_ahead(const at_suite *suite, const at_test_problem *test, const at_ahead *ahead);
/* Whether at least one case was executed and nothing was wrong. */
bool at_suite_right(const at_suite_result *result);

#endif
