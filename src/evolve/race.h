/* Racing: candidates against the live champion, interleaved with it in blocks (measure/order.h), so that each is
 * compared with what the champion took at that very moment, never with a time of long ago. Those that are shown slower
 * leave (successive elimination); what lies within a band is a tie, and ties change nothing: the luckiest of many equal
 * candidates does not become champion.
 *
 * Times and ratios here are a candidate's over the champion's, as logarithms: below 0 the candidate is faster.
 * Intervals are Student's over blocks with a share of the extremes trimmed at both ends (Tukey and McLaughlin 1963),
 * since a machine's interruptions only ever make one sample longer.
 *
 * Nothing here reads a clock or knows what a candidate is. */
#ifndef EVOLVE_RACE_H
#define EVOLVE_RACE_H

#include <stdbool.h>
#include <stdint.h>

#include "evolve/strategy.h"
#include "measure/statistics.h"

enum {
    AT_RACE_ARMS_MAX = 16,              /* timed beside each other */
    AT_HEAT_MAX = AT_RACE_ARMS_MAX - 2, /* of them not the champion, nor its copy */
    AT_HEAT_BLOCKS_MAX = 64,
    AT_FINAL_PROCESSES_MAX = 24,
    AT_RACE_WHY_MAX = 320
};

/* ---- Who times --------------------------------------------------------------------------------------------------- */

typedef struct at_first_run {
    at_refused refused; /* AT_RAN: it ran, and its result is right */
    char why[AT_RACE_WHY_MAX];
    double us;
} at_first_run;

/* What a block fails with where the device is too hot or others use it. Not ATTUNE_DEVICE_ERROR, for which somebody
 * among those that were timed may be to blame: this one is nobody's fault, and time cures it. */
#define AT_DISTURBED ATTUNE_NO_DEVICE

/* Times candidates, which are numbers. Functions fail for reasons that are no candidate's; what one candidate did wrong
 * is reported with ATTUNE_OK: `refused` is then set in what was seen, and who it was is in *culprit (else -1), an index
 * into the stage. */
typedef struct at_racer {
    void *self;
    /* The first launch of a candidate, its result judged: microseconds, about. */
    attune_status (*try)(void *self, int candidate, at_first_run *seen);
    /* Makes candidates ready beside each other. One that is listed twice is two arms. With a culprit nothing is staged.
     */
    attune_status (*stage)(void *self, const int *candidate, int count, int *culprit, at_first_run *seen);
    /* Times arms of the stage in this order, two samples of each: microseconds of a call. */
    attune_status (*block)(void *self, const int *order, int count, double (*us)[2], int *culprit, at_first_run *seen);
    attune_status (*unstage)(void *self);
    /* From here on in a process that has run nothing yet. */
    attune_status (*renew)(void *self);
} at_racer;

/* ---- A heat ------------------------------------------------------------------------------------------------------ */

typedef struct at_race_policy {
    double slow;       /* stopped after its first launch where that took so many times the champion's */
    double grain_us;   /* and so much longer at least: first launches are timed from afar */
    double far;        /* leaves after two blocks that are so many times slower, or one that is twice that */
    double band;       /* what differs by less is a tie: 0.02 */
    double confidence; /* of intervals: many looks at many candidates need more than 0.95 */
    int blocks_min;    /* of those that are not far off; at least 3 */
    int blocks_max;
    int blocks_more; /* at most so many where it is open whether someone is faster by more than the band; 0: no more */
    bool shorter;  /* of a block's two samples the shorter one counts: interruptions make samples longer, not shorter */
    bool whole;    /* all that are not far off run all blocks: for ground truth */
    uint64_t seed; /* of orders */
} at_race_policy;

/* slow 4, grain 2000 us, far 1.5, band 0.02, confidence 0.99, 3 to 12 blocks, and no more. */
void at_race_policy_init(at_race_policy *policy, uint64_t seed);

typedef enum at_race_result {
    AT_RACE_REFUSED = 0,
    AT_RACE_SLOW, /* by its first launch alone */
    AT_RACE_LOST, /* shown slower by more than the band */
    AT_RACE_TIED, /* within the band, or not shown otherwise */
    AT_RACE_WON   /* shown faster by more than the band */
} at_race_result;

/* "refused", "slow", "lost", "tied", "won". */
const char *at_race_result_name(at_race_result result);

/* One candidate in a heat, and all that was measured of it. */
typedef struct at_entrant {
    int candidate;
    at_race_result result;
    at_first_run first;
    int blocks;                       /* in which it was timed; the same blocks of the champion are the first ones */
    double us[AT_HEAT_BLOCKS_MAX][2]; /* microseconds of a call, two samples a block */
    at_interval ratio;                /* logarithm of its time / the champion's; SLOW: of first launches, no width */
} at_entrant;

typedef struct at_heat {
    at_entrant champion, placebo; /* the placebo is the champion once more */
    int count;
    at_entrant entrant[AT_HEAT_MAX];
    int blocks; /* of the champion */
    bool fair;  /* the placebo tied: differences that are seen are differences */
} at_heat;

/* Runs a heat: `heat` has champion.candidate, count and each entrant's candidate filled in, all different. ATTUNE_OK
 * whatever the candidates did. A champion that is refused fails the heat with its refusal, as does a racer. */
attune_status at_heat_run(const at_race_policy *policy, const at_racer *racer, at_heat *heat);

/* A winner wins twice: against the champion alone, staged anew, all blocks. What was the luck of one heat among many is
 * not faster here. `heat` has both candidates filled in, count 1; its entrant has WON where the challenger did. */
attune_status at_heat_duel(const at_race_policy *policy, const at_racer *racer, at_heat *heat);

/* What breaks ties: the same whatever was measured, the least wins. */
typedef int64_t (*at_key_of)(void *self, int candidate);

/* Which entrant is to be champion: of those that won, the fastest, or who of them ties with it and has the least key.
 * -1: the champion stays. */
int at_heat_winner(const at_race_policy *policy, const at_heat *heat, at_key_of key, void *self);

/* ---- The final --------------------------------------------------------------------------------------------------- */

/* Those that may be best, once more and for longer, each time in a fresh process and in another place among the arms:
 * what one process was lucky with (its addresses, its place) the next one is not.
 *
 * Whoever is not the fastest may win by its key only where it was shown to be within the band of the fastest: the whole
 * interval of its ratio over processes. So two finals whose winners differ are both within the band. While one that the
 * key prefers is neither shown to tie nor to be behind, more processes follow; at the most there may be, it ties where
 * it was not shown to be slower and its middle is within the band. */
typedef struct at_final {
    int count;
    int candidate[AT_HEAT_MAX];
    int from;                         /* index of the first of those that can win: those before are for comparison */
    int processes_min, processes_max; /* more than the least only while it is open who ties */
    int blocks;                       /* in each */
    bool (*may_go_on)(void *self);    /* whether there is time for more than the least; NULL: there is */
    int processes;                    /* that there were */
    int winner;                     /* an index: who has the least key of those that can win and tie with the fastest */
    double us[AT_HEAT_MAX];         /* median of the processes' medians */
    at_interval ratio[AT_HEAT_MAX]; /* against candidate[0], Student's over processes; of itself 0 */
    at_interval behind[AT_HEAT_MAX]; /* likewise against the fastest of those that can win */
    at_interval placebo;             /* of candidate[0] against itself */
    bool fair;
    double process_us[AT_HEAT_MAX][AT_FINAL_PROCESSES_MAX]; /* medians */
} at_final;

/* `last` has count, candidates, from, the numbers of processes and blocks, and who is asked for time filled in. `self`
 * is the key's and the time's. */
attune_status at_final_run(const at_race_policy *policy, const at_racer *racer, at_key_of key, void *self,
                           at_final *last);

/* ---- Arithmetic -------------------------------------------------------------------------------------------------- */

/* The trimmed mean with its interval, of at least 3 values; of fewer, the mean and an interval without bounds. */
attune_status at_trimmed_mean(const double *values, int count, double confidence, at_interval *interval);

/* The ratio of a candidate to the champion beside it, in `blocks` blocks of two samples each. */
attune_status at_race_ratio(const at_race_policy *policy, const double (*us)[2], const double (*champion_us)[2],
                            int blocks, at_interval *ratio);
/* What follows of a ratio after so many blocks. */
at_race_result at_race_result_of(const at_race_policy *policy, const at_interval *ratio, int blocks);

/* Whether two ratios to the same champion are a tie: their middles differ by less than the band, or their intervals
 * overlap. */
bool at_race_ties(const at_race_policy *policy, const at_interval *a, const at_interval *b);

#endif
