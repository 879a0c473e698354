/* The sources that a search for code has seen, and from which of them to go on. Knows no machine and no clock. */
#ifndef EVOLVE_CODE_LINEAGE_H
#define EVOLVE_CODE_LINEAGE_H

#include "base/random.h"
#include "evolve/event_code.h"
#include "evolve/trial.h"

/* One source, with what became of it. */
typedef struct at_program {
    int id, parent; /* of the first source 0 and -1 */
    int other;      /* of a cross: its other parent; else -1 */
    at_code_arm arm;
    at_code_kind kind;
    at_code_verdict verdict;
    int repairs; /* that its lineage has had in a row */
    at_sources sources;
    char digest[AT_DIGEST_TEXT_MAX], code[AT_DIGEST_TEXT_MAX];
    char config[AT_KERNEL_TEXT_MAX];
    char idea[AT_IDEA_MAX], tags[AT_TAGS_MAX], why[AT_CODE_WHY_MAX], facts[AT_CODE_FACTS_MAX],
        counters[AT_CODE_FACTS_MAX];
    char binds[AT_CODE_WORD_MAX];
    double us;                  /* tuned; 0: not timed */
    double log_time;            /* logarithm of its time over the first source's, by the duels that led to it */
    double spread;              /* standard error of that against `against`, which it was timed beside */
    int against;                /* -1: it was not timed to the end */
    double error, row_error[2]; /* as at_event_made has them */
} at_program;

typedef struct at_lineage {
    int count, room;
    at_program *program; /* program[i].id is i */
    int champion[AT_ARM_COUNT];
    int since[AT_ARM_COUNT]; /* proposals since the last gain */
    int last[AT_ARM_COUNT];  /* the last one; -1: none */
} at_lineage;

void at_lineage_init(at_lineage *lineage);
void at_lineage_free(at_lineage *lineage);
/* A program with the next id; its sources are the caller's to fill in. NULL for want of memory. */
at_program *at_lineage_add(at_lineage *lineage, at_code_arm arm, at_code_kind kind, int parent);
/* A program of the same arm before this one, of the same sources, or (where it has one) of the same code; -1: none. */
int at_lineage_same_sources(const at_lineage *lineage, int id);
int at_lineage_same_code(const at_lineage *lineage, int id);
/* Whether it is right and was timed: others can be made from it. */
bool at_program_runs(const at_program *program);
/* Takes a verdict into account. */
void at_lineage_judged(at_lineage *lineage, int id);
/* The fastest of an arm among those that are limited by the same thing and did not lose; -1: none. */
int at_lineage_elite(const at_lineage *lineage, at_code_arm arm, const char *binds);

typedef struct at_next {
    at_code_kind kind;
    int parent, other; /* other: of a cross; else -1 */
} at_next;

/* What to ask for next: repairs first (of what gave precision away; `repairs`: of what was refused, too), twice at
 * most; after eight proposals without a gain by turns a cross and something new, else an improvement: of the champion
 * (50 %), of one that tied with it (25 %), of an elite (15 %), or of a loser with an idea of its own (10 %). Who ties
 * may be better than was shown: which of them is drawn by what was measured and how surely. */
at_next at_lineage_next(const at_lineage *lineage, at_code_arm arm, bool repairs, at_random *random);
/* The nearest source that both came from. */
int at_lineage_base(const at_lineage *lineage, int one, int other);
/* The nearest source before this one that runs. */
const at_program *at_lineage_before(const at_lineage *lineage, int id);

/* What became of an arm's changes by rules, which are known by their tags ("RULE PLACE ..."), as shares of the time
 * that its champion takes. *trials is the caller's to free. */
attune_status at_lineage_trials(const at_lineage *lineage, at_code_arm arm, at_trial **trials, int *count);

#endif
