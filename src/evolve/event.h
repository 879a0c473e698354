/* What happens in a search, as a ledger keeps it: one struct for each kind of event. docs/evolve.md lists the fields.
 */
#ifndef EVOLVE_EVENT_H
#define EVOLVE_EVENT_H

#include "base/digest.h"
#include "core/target.h"
#include "evidence/fields.h"
#include "evolve/event_code.h"
#include "evolve/strategy.h"
#include "measure/ratio.h"

enum {
    AT_EVENT_WORD_MAX = 64,
    AT_EVENT_WHY_MAX = 480,
    AT_EVENT_ROW_MAX = 1536,
    AT_EVENT_PAIRS_MAX = 128 /* of one measurement */
};

typedef enum at_event_kind {
    AT_EVENT_START = 0,   /* first in every ledger, and there alone: the question */
    AT_EVENT_SPACE,       /* the candidates */
    AT_EVENT_CANDIDATE,   /* one was chosen to be looked at */
    AT_EVENT_REFUSAL,     /* one cannot run, or is wrong */
    AT_EVENT_BUILD,       /* one was compiled: what its times are bound to */
    AT_EVENT_MEASUREMENT, /* one was timed beside the champion */
    AT_EVENT_DECISION,    /* the race's */
    AT_EVENT_CHECK,       /* the search looked at itself */
    AT_EVENT_GATE,        /* a verdict */
    AT_EVENT_WISDOM,      /* a row that was learned */
    AT_EVENT_RESUME,      /* another process took over */
    AT_EVENT_PROPOSAL,    /* of a search for code (event_code.h), as what follows */
    AT_EVENT_MADE,
    AT_EVENT_TUNED,
    AT_EVENT_DUEL,
    AT_EVENT_LAST,
    AT_EVENT_JUDGED,
    AT_EVENT_END,
    AT_EVENT_KINDS
} at_event_kind;

/* "start", "space", ...; ends with NULL. */
extern const char *const at_names_of_events[];

typedef struct at_event_start {
    char attune[AT_EVENT_WORD_MAX]; /* its version */
    char kernel[AT_EVENT_WORD_MAX];
    char problem[ATTUNE_PROBLEM_TEXT_MAX];
    char target[AT_TARGET_TEXT_MAX];
    char source[AT_DIGEST_TEXT_MAX]; /* digest of the kernel's source */
    char strategy[AT_EVENT_WORD_MAX];
    uint64_t seed;
    char budget[AT_EVENT_WORD_MAX]; /* as it was asked for: "10m", "200runs", "exhaustive" */
    char policy[AT_EVENT_WHY_MAX];  /* how candidates are timed, in words */
    char one[AT_KERNEL_TEXT_MAX];   /* the one config that is asked about; "" in a search */
    char fixed[AT_KERNEL_TEXT_MAX]; /* parameters that stay as they are; "" for none */
} at_event_start;

typedef struct at_event_candidate {
    char config[AT_KERNEL_TEXT_MAX]; /* "NAME:PARAM=VALUE,...", here as in all that follow */
    char from[AT_EVENT_WORD_MAX];    /* whose idea: "wisdom", "heuristic", "micro", or a strategy */
} at_event_candidate;

typedef struct at_event_refusal {
    char config[AT_KERNEL_TEXT_MAX];
    at_refused refused; /* never AT_RAN */
    char why[AT_EVENT_WHY_MAX];
} at_event_refusal;

typedef struct at_event_build {
    char config[AT_KERNEL_TEXT_MAX];
    char source[AT_DIGEST_TEXT_MAX];  /* digests; of what was given to the compiler, */
    char code[AT_DIGEST_TEXT_MAX];    /* and of what will run: cubin and steps */
    char entry[AT_EVENT_WORD_MAX];    /* the function that is launched */
    char same_as[AT_KERNEL_TEXT_MAX]; /* a config before it that has the same code; "" for none */
    int32_t smem_bytes;
    at_figures figures;
    double seconds; /* that it took */
} at_event_build;

typedef struct at_event_measurement {
    char config[AT_KERNEL_TEXT_MAX];
    char champion[AT_KERNEL_TEXT_MAX]; /* timed beside it */
    char code[AT_DIGEST_TEXT_MAX];     /* of the candidate's build */
    int32_t round;                     /* of the race, from 0 */
    bool censored;                     /* stopped: hopeless */
    int32_t pairs;
    double us[AT_EVENT_PAIRS_MAX];          /* of one call: the candidate's, */
    double champion_us[AT_EVENT_PAIRS_MAX]; /* and the champion's in the same pair */
} at_event_measurement;

typedef enum at_decision {
    AT_DECIDED_ELIMINATED = 0, /* slower than the champion */
    AT_DECIDED_CHAMPION,       /* the new one */
    AT_DECIDED_TIE,            /* broken by the fixed key, for the one that is named first */
    AT_DECIDED_CONFIRMED,      /* in fresh workers */
    AT_DECIDED_NOT_CONFIRMED
} at_decision;

typedef struct at_event_decision {
    at_decision decision;
    char config[AT_KERNEL_TEXT_MAX];
    char against[AT_KERNEL_TEXT_MAX];
    at_interval ratio; /* against's time / config's time: above 1, config is faster */
    char why[AT_EVENT_WHY_MAX];
} at_event_decision;

typedef enum at_self_check {
    AT_CHECK_PLACEBO = 0, /* a copy of the champion ties */
    AT_CHECK_MUTANT,      /* a wrong kernel is rejected */
    AT_CHECK_EXECUTION,   /* what was timed is what was compiled */
    AT_CHECK_ALARM,       /* variants do not all answer with one time */
    AT_CHECK_DEAD         /* every live parameter changes the code */
} at_self_check;

typedef struct at_event_check {
    at_self_check check;
    bool holds;
    char why[AT_EVENT_WHY_MAX];
} at_event_check;

typedef struct at_event_gate {
    char config[AT_KERNEL_TEXT_MAX];
    char verdict[AT_DIGEST_TEXT_MAX];
    at_outcome right, fast;
    char why[AT_EVENT_WHY_MAX];
} at_event_gate;

typedef struct at_event_wisdom {
    char row[AT_EVENT_ROW_MAX];
} at_event_wisdom;

typedef struct at_event_end {
    char outcome[AT_EVENT_WORD_MAX]; /* "gain", "no gain", "void", "interrupted", "exhausted" */
    char best[AT_KERNEL_TEXT_MAX];
    int32_t measured; /* candidates that were timed */
    char why[AT_EVENT_WHY_MAX];
} at_event_end;

typedef struct at_event {
    at_event_kind kind;
    int64_t seq; /* set by whoever writes or reads */
    double at_s; /* seconds of the search so far, those before a resume included */
    union {
        at_event_start start;
        at_space *space; /* read: the ledger's */
        at_event_candidate candidate;
        at_event_refusal refusal;
        at_event_build build;
        at_event_measurement measurement;
        at_event_decision decision;
        at_event_check check;
        at_event_gate gate;
        at_event_wisdom wisdom;
        at_event_end end;
        at_event_proposal proposal;
        at_event_made made;
        at_event_tuned tuned;
        at_event_duel duel;
        at_event_last last;
        at_event_judged judged;
    } as;
} at_event;

/* An object with kind, at_s and the kind's fields. NULL for want of memory. */
json_t *at_event_write(const at_event *event);
/* ATTUNE_CORRUPT names `path` and the field; ATTUNE_NOT_FOUND for a kind that this version does not know. A space
 * belongs to the caller then. */
attune_status at_event_read(const json_t *object, const char *path, at_event *event);

extern const char *const at_names_of_decisions[], *const at_names_of_checks[];

#endif
