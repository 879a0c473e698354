/* Strategies: which candidate to look at next, from what was seen so far.
 *
 * Whoever drives one asks for candidates and tells what became of them. Several may be asked for before the first is
 * reported (they are compiled ahead). A strategy never asks for the same candidate twice, and is a function of the
 * space, its options and the order of its calls: the same seed gives the same search. It knows neither clock nor
 * device.
 *
 *     at_strategy_create("surrogate", space, &options, &strategy);
 *     while ((candidate = at_strategy_ask(strategy)) >= 0) {
 *         ... build and time it ...
 *         at_strategy_tell(strategy, &tried);
 *     }
 *
 * To add a strategy: strategy_NAME.c with one const at_strategy_kind, and its row in strategy.c. */
#ifndef EVOLVE_STRATEGY_H
#define EVOLVE_STRATEGY_H

#include "base/random.h"
#include "evolve/boundary.h"
#include "evolve/space.h"

/* Where a candidate's way ended. Everything but AT_RAN is a boundary, and taught as such. */
typedef enum at_refused {
    AT_RAN = 0,
    AT_REFUSED_RESOURCES, /* before it was compiled */
    AT_REFUSED_COMPILE,
    AT_REFUSED_LAUNCH,
    AT_REFUSED_WRONG /* it ran, and its results broke the rules for numbers */
} at_refused;

/* "ran", "resources", "compile", "launch", "wrong"; ends with NULL. */
extern const char *const at_names_of_refused[];

/* What profilers and compilers say about one candidate, for the composite score. Fields not known are 0. */
typedef struct at_figures {
    double tensor_percent; /* of the tensor pipe's peak */
    double sm_percent;     /* of the multiprocessors' peak */
    int32_t barriers;      /* in the code */
    int32_t registers;     /* of a thread */
    int32_t spill_bytes;   /* of a thread */
} at_figures;

/* The score that this project's origin gave a kernel: 1000 x speed-up + 2 x tensor pipe % + multiprocessor %, less 5
 * for each barrier, 1 for each register above 128, and 1 for each spilled byte. Activity is no speed, so it decides
 * nothing unless it is chosen as the fitness of a search; it is reported. */
double at_composite(double speedup, const at_figures *figures);

/* What became of a candidate. */
typedef struct at_tried {
    int candidate;
    at_refused refused;
    double log_us; /* natural logarithm of one call's time in microseconds; drift taken out by the champion beside it */
    double half;   /* half the width of its 95 % interval, as a difference of logarithms; 0: not known */
    bool censored; /* it was stopped, hopeless: the time is at least that */
    at_figures figures;
} at_tried;

typedef enum at_fitness {
    AT_FITNESS_TIME = 0, /* the verdict */
    AT_FITNESS_COMPOSITE /* at_composite, its speed-up over the first candidate that ran */
} at_fitness;

typedef struct at_strategy_options {
    uint64_t seed;
    at_fitness fitness;
    int budget;       /* candidates that may be looked at, for schedules; 0: all */
    const int *first; /* [first_count], candidates to look at before anything else (wisdom, micro-benchmark); copied */
    int first_count;
} at_strategy_options;

typedef struct at_strategy at_strategy;

/* One kind of strategy. Functions see the state that all kinds share, and their own at strategy->self. */
typedef struct at_strategy_kind {
    const char *name;
    const char *summary;
    attune_status (*create)(at_strategy *strategy);             /* sets self; NULL: none is needed */
    int (*ask)(at_strategy *strategy);                          /* an open candidate, or -1 for no idea */
    void (*tell)(at_strategy *strategy, const at_tried *tried); /* after it was added to the history; may be NULL */
    void (*destroy)(at_strategy *strategy);                     /* may be NULL */
} at_strategy_kind;

struct at_strategy {
    const at_strategy_kind *kind;
    const at_space *space;
    at_strategy_options options;
    at_random random;
    int horizon; /* candidates that schedules reckon with: the budget; where there is none, some hundred */
    at_boundary *boundary;
    bool *asked;     /* [space->count] */
    int asked_count; /* of those */
    at_tried *tried; /* [tried_count], in the order of at_strategy_tell */
    int tried_count;
    double *cost;    /* [space->count], what was seen, smaller is better; NaN where nothing was, or it was refused */
    int best;        /* the candidate of least cost; -1: none yet */
    double baseline; /* log_us of the first that ran */
    int *first;
    void *self;
};

/* Every kind, the default first; ends with NULL. */
extern const at_strategy_kind *const at_strategy_kinds[];
/* NULL, and the names in the thread's detail, where there is none of that name. */
const at_strategy_kind *at_strategy_find(const char *name);

/* The space must outlive the strategy. ATTUNE_NOT_FOUND for an unknown name; NULL is the default. */
attune_status at_strategy_create(const char *name, const at_space *space, const at_strategy_options *options,
                                 at_strategy **strategy);
void at_strategy_destroy(at_strategy *strategy);

/* A candidate that was not asked for before, by chance where the strategy has no idea; -1 when there are none left. */
int at_strategy_ask(at_strategy *strategy);
/* Someone else's choice (a resumed search, a champion): counts as asked. */
void at_strategy_offer(at_strategy *strategy, int candidate);
/* What became of a candidate that was asked or offered. A second telling of one (a longer race) replaces the first.
 * ATTUNE_INVALID_ARGUMENT for one that was neither, or a time that is no number. */
attune_status at_strategy_tell(at_strategy *strategy, const at_tried *tried);

/* ---- For strategies ---------------------------------------------------------------------------------------------- */

/* Whether a candidate was neither asked nor offered. */
static inline bool at_strategy_open(const at_strategy *strategy, int candidate)
{
    return !strategy->asked[candidate];
}
/* An open candidate by chance, each as likely; -1 where there are none. */
int at_strategy_any(at_strategy *strategy);
/* The first open candidate of the heuristic order; -1 where there are none. */
int at_strategy_next_of_order(const at_strategy *strategy);
/* Whether to ask for a candidate that may be refused: not where that is as likely as not, and below that by chance. */
bool at_strategy_accepts(at_strategy *strategy, int candidate);

#endif
