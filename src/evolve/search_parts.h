/* What the files of a search share. */
#ifndef EVOLVE_SEARCH_PARTS_H
#define EVOLVE_SEARCH_PARTS_H

#include "evolve/recall.h"
#include "evolve/search.h"

/* What is known of a candidate. */
typedef struct at_known_candidate {
    bool seen;        /* chosen */
    bool built;       /* variant's digests are there */
    bool has_outcome; /* its outcome is there */
    int same_as;      /* a candidate before it with the same code; -1: none */
    at_refused refused;
    bool censored;
    double log_us, half;
    char source[AT_DIGEST_TEXT_MAX], code[AT_DIGEST_TEXT_MAX];
    at_figures figures;
    double ratio_half; /* half the width of the ratio's interval, by the race's confidence */
} at_known_candidate;

typedef struct at_search {
    const at_search_options *options;
    const at_space *space;
    const at_machine *machine;
    at_ledger *ledger;
    const at_ledger_log *before;
    at_recall *recall;     /* of it */
    at_strategy *strategy; /* NULL: exhaustive, or listed */
    at_search_result *result;
    at_known_candidate *known; /* [space->count] */
    int champion, first_champion;
    double champion_log_us, first_log_us; /* NAN until the first heat */
    int next;                             /* of the space or the list, where there is no strategy */
    int launched;                         /* candidates whose functions were distinguished */
    double began_s, before_s, final_began_s;
    bool is_void;
} at_search;

/* Seconds of the search so far, those before a resume included. */
double at_search_seconds(const at_search *on);
attune_status at_search_stopped(const at_search *on);
void at_search_note(const at_search *on, const char *format, ...) __attribute__((format(printf, 2, 3)));
void at_search_text(const at_search *on, int candidate, char text[AT_KERNEL_TEXT_MAX]);
attune_status at_search_write(const at_search *on, at_event *event);
/* Records a look at itself; one that fails voids the search where `voids`. */
attune_status at_search_checked(at_search *on, at_self_check check, bool holds, bool voids, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Makes the batch (all of it not seen before): who cannot be made is reported; `ready` receives who can race. */
attune_status at_search_build(at_search *on, const int *batch, int count, const char *const *from, int *ready,
                              int *ready_count);
/* Races them against the champion, records what came of it, and promotes who wins twice. */
attune_status at_search_race(at_search *on, const int *ready, int count);
/* Records that a candidate cannot take part. */
attune_status at_search_refuse(at_search *on, int candidate, at_refused refused, const char *why);
attune_status at_search_decide(const at_search *on, at_decision decision, int candidate, int against,
                               const at_interval *ratio, const char *why);
/* Breaks ties: the kernel's own order first, then the space's; what is no candidate before all. `self` is the search.
 */
int64_t at_search_key(void *self, int candidate);
/* The final among the best and what would run without them. */
attune_status at_search_final(at_search *on);

/* Whether the ledger said this before: a search that was resumed comes by again. */
bool at_search_is_written(const at_search *on, const at_event *event);
/* The ledger's measurement of a candidate against this champion in this round, as an entrant; false: there is none. */
bool at_search_recall(const at_search *on, int candidate, int champion, int round, at_entrant *entrant,
                      double champion_us[AT_HEAT_BLOCKS_MAX][2]);
/* Whether a duel was decided against the challenger, which its times alone do not show: it may not have been fair. */
bool at_search_recall_no_champion(const at_search *on, int challenger, int champion);
/* Whether the ledger has a refusal of the candidate by the machine. */
bool at_search_recall_refusal(const at_search *on, int candidate, at_entrant *entrant);

/* A wrong kernel must be rejected. */
attune_status at_search_check_mutant(at_search *on);
/* Functions that are launched differ where their code does; the champion's is the first. */
attune_status at_search_check_execution(at_search *on, const int *candidate, int count);
/* At the end: that it held. */
attune_status at_search_record_execution(at_search *on);
/* Not all variants may answer with one time; every parameter that is live should change the code, or where all share
 * their code, the time. */
attune_status at_search_check_alarm(at_search *on);
attune_status at_search_check_dead(at_search *on);

#endif
