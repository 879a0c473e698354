/* What happens in a search for code, as its ledger keeps it: who proposed what, what the machine answered, and what was
 * made of it. Decisions follow from answers and samples alone, so that a ledger can be gone through again without a
 * machine. */
#ifndef EVOLVE_EVENT_CODE_H
#define EVOLVE_EVENT_CODE_H

#include "base/digest.h"
#include "core/config.h"
#include "evolve/proposer_answer.h"
#include "evolve/race.h"

enum { AT_CODE_WHY_MAX = 480, AT_CODE_WORD_MAX = 32, AT_CODE_FACTS_MAX = 720, AT_CODE_FINALISTS_MAX = AT_HEAT_MAX };

/* What is asked for. */
typedef enum at_code_kind {
    AT_CODE_IMPROVE = 0,
    AT_CODE_REPAIR, /* the parent does not build, or is wrong */
    AT_CODE_CROSS,  /* the best of two lineages */
    AT_CODE_NEW     /* another way of doing it */
} at_code_kind;

/* How proposals follow from each other: the engine, and what it is held against. */
typedef enum at_code_arm {
    AT_ARM_ENGINE = 0,
    AT_ARM_PARAMETERS, /* no proposals: as many measurements of the first source's parameters */
    AT_ARM_SAMPLES,    /* all proposals from the first source */
    AT_ARM_REFINEMENT, /* each from the one before it that is right */
    AT_ARM_COUNT
} at_code_arm;

typedef struct at_event_proposal {
    int32_t id; /* counted from 1; 0 is the first source */
    int32_t parent;
    int32_t arm, kind;
    int32_t proposed;                 /* at_proposed */
    char request[AT_DIGEST_TEXT_MAX]; /* of task.md and request.json */
    char answer[AT_DIGEST_TEXT_MAX];  /* of the sources; "" where there are none */
    char why[AT_CODE_WHY_MAX];
    char idea[AT_IDEA_MAX], tags[AT_TAGS_MAX], model[AT_MODEL_MAX];
    char tokens_in[AT_CODE_WORD_MAX], tokens_out[AT_CODE_WORD_MAX], usd[AT_CODE_WORD_MAX]; /* or "unknown" */
    int64_t bytes_in, bytes_out;
    int32_t tries;
    double seconds;
} at_event_proposal;

/* A source was compiled, questioned and launched once. */
typedef struct at_event_made {
    int32_t id;
    int32_t refused; /* at_refused */
    char why[AT_CODE_WHY_MAX];
    char code[AT_DIGEST_TEXT_MAX]; /* of what runs, and of the configs that there are */
    char facts[AT_CODE_FACTS_MAX]; /* for people and proposers: registers, spills, instructions */
    char binds[AT_CODE_WORD_MAX];  /* what limits it, as far as is known: "issue", "memory", "spills", ... */
    double us;                     /* of the first launch, about */
    double error;                  /* relative error of its result, |O - O64| / |O64| */
    double row_error[2];           /* the same of rows: their median, and what 99 % of them do not exceed */
} at_event_made;

/* Its parameters were searched. */
typedef struct at_event_tuned {
    int32_t id;
    bool well; /* false: the search was void, or nothing ran */
    char why[AT_CODE_WHY_MAX];
    char config[AT_KERNEL_TEXT_MAX]; /* "PARAM=VALUE,..."; "" for none */
    int32_t measured;
    double us;
    char counters[AT_CODE_FACTS_MAX]; /* what the hardware's said of it so, or why they said nothing; "": not asked */
} at_event_tuned;

/* It was timed beside the champion: blocks of two samples of each, and of a copy of the champion. */
typedef struct at_event_duel {
    int32_t id, against;
    bool well; /* false: one of them broke */
    char why[AT_CODE_WHY_MAX];
    int32_t blocks; /* fewer than 3: it was far slower */
    double us[AT_HEAT_BLOCKS_MAX][2], champion_us[AT_HEAT_BLOCKS_MAX][2], placebo_us[AT_HEAT_BLOCKS_MAX][2];
} at_event_duel;

/* One finalist's times: medians of fresh processes, all finalists in each. */
typedef struct at_event_last {
    int32_t id;
    char config[AT_KERNEL_TEXT_MAX];
    bool well;
    char why[AT_CODE_WHY_MAX];
    int32_t processes;
    double us[AT_FINAL_PROCESSES_MAX];
} at_event_last;

typedef enum at_code_verdict {
    AT_CODE_ACCEPTED = 0, /* faster than its champion, twice over */
    AT_CODE_TIED,
    AT_CODE_SLOWER,
    AT_CODE_REFUSED,   /* it does not build, run, or is wrong */
    AT_CODE_DENIED,    /* its text has what no kernel may have */
    AT_CODE_DUPLICATE, /* of a source, or of code, that was seen */
    AT_CODE_ALARM,     /* right, but its errors are larger than its parent's or the first source's */
    AT_CODE_VOID,      /* the comparison was not fair */
    AT_CODE_NONE       /* no proposal came */
} at_code_verdict;

typedef struct at_event_judged {
    int32_t id;
    int32_t verdict; /* at_code_verdict */
    int32_t against;
    at_interval ratio; /* against's time / its time; 0s where it was not timed */
    double chance;     /* P value of being no faster than the first source, in the final; 1 else */
    char why[AT_CODE_WHY_MAX];
} at_event_judged;

/* Ends with NULL. */
extern const char *const at_names_of_code_kinds[], *const at_names_of_arms[], *const at_names_of_verdicts[];

#endif
