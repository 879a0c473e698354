/* One search: which candidate of a space is the fastest on one problem. Asks a strategy, has candidates made, races
 * them against the live champion, looks at itself, and writes every step into a ledger before it goes on. It knows no
 * machine: at_machine is one.
 *
 * The course is a function of the ledger so far: a search that was killed is gone through again, and whatever it had
 * measured is taken from the ledger instead of from the machine. */
#ifndef EVOLVE_SEARCH_H
#define EVOLVE_SEARCH_H

#include "evolve/ledger.h"
#include "evolve/measurer.h"

enum { AT_SEARCH_BATCH_MAX = AT_HEAT_MAX, AT_SEARCH_FIRST_MAX = 64, AT_FINALISTS_MAX = 6 };

typedef struct at_seed {
    int candidate;
    const char *from; /* "wisdom", "heuristic", "micro" */
} at_seed;

/* Called when something happens; any of them may be NULL. */
typedef struct at_search_watch {
    void *self;
    void (*tried)(void *self, const char *config, const at_entrant *entrant);
    void (*champion)(void *self, const char *config, double gain); /* the first one's time / its time */
    void (*checked)(void *self, const at_event_check *check);
    void (*note)(void *self, const char *text);
    void (*progress)(void *self, const char *doing, double done);
    bool (*stop)(void *self);
} at_search_watch;

typedef struct at_search_options {
    const at_space *space;
    const char *strategy; /* NULL: the default */
    at_fitness fitness;   /* of the strategy; races and verdicts go by time */
    uint64_t seed;
    double budget_s; /* 0: no limit */
    int budget_runs; /* candidates that are measured or refused by the machine; 0: no limit */
    bool exhaustive; /* every candidate, in order, all blocks: ground truth; no strategy */
    bool listed;     /* the candidates of `first` alone; no strategy */
    int batch;       /* raced together, 1 ... AT_SEARCH_BATCH_MAX */
    const at_seed *first;
    int first_count; /* at least one; the first that runs is the first champion */
    int baseline;    /* what would run without this search, where that is no candidate; -1: the first champion would */
    at_race_policy policy;
    int final_processes, final_processes_max, final_blocks; /* brief and 0: whoever won twice stays, without a final */
    double final_s; /* once it took so long, no more processes than the least; 0: no limit */
    bool brief; /* many problems wait: no final where nobody is near the champion, and no code is made to be compared */
    at_search_watch watch;
} at_search_options;

typedef enum at_search_end {
    AT_SEARCH_GAIN = 0, /* the winner is faster than what would run without it, by more than the band */
    AT_SEARCH_NO_GAIN,  /* it is not; the winner is then the best of the kernel's */
    AT_SEARCH_VOID      /* a self-check failed: nothing is said */
} at_search_end;

/* "gain", "no gain", "void". */
const char *at_search_end_name(at_search_end end);

typedef struct at_search_result {
    at_search_end end;
    int winner;   /* candidate */
    int opponent; /* what it was held against in the final: the baseline, else the first champion, else who came second;
                     -1: there was nobody */
    at_interval gain;  /* the opponent's time / the winner's, over the final's processes; 1s without a final */
    int author;        /* the first config of the kernel's own order, where the final timed it too; -1: it did not */
    at_interval tuned; /* the author's time / the winner's, over the final's processes; 1s where the two are one */
    double us;         /* of a call, in the final; without one, in the first heat */
    int measured, refused, duplicates, reused; /* candidates; reused: of these, those that the ledger had already */
    int champions;                             /* how often one was beaten */
    double seconds;
    char why[AT_EVENT_WHY_MAX]; /* a sentence */
    int top_count;              /* the fastest, as measured on the way: candidates and microseconds */
    int top[8];
    double top_us[8];
    double top_score[8]; /* their composite scores, of the speed-up over the first champion */
} at_search_result;

/* Runs to its end. `ledger` may be NULL; `before` is what it held, NULL for a new one. The ledger stays open: what
 * follows of the search (a verdict, a row of wisdom, the end) is its owner's to add. ATTUNE_OK however it ended. */
attune_status at_search_run(const at_search_options *options, const at_machine *machine, at_ledger *ledger,
                            const at_ledger_log *before, at_search_result *result);

#endif
