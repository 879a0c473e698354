/* What changes of before did, for who proposes the next one by rules: where something was won or lost there is time to
 * be had, and where nothing moves there is none. */
#ifndef EVOLVE_TRIAL_H
#define EVOLVE_TRIAL_H

#include <stdbool.h>

enum { AT_RULE_NAME_MAX = 16, AT_PLACE_NAME_MAX = 48 };

/* One rule's change in one function. */
typedef struct at_trial {
    char rule[AT_RULE_NAME_MAX], place[AT_PLACE_NAME_MAX]; /* place: the function's name; "-" outside of any */
    bool timed;                                            /* false: it was refused, or changed no code */
    double saved, spread; /* of the time that the best source takes now, as shares; spread: the standard error */
    double share;         /* of the proposal's outcome that is this change's: 1 where it was the only one */
} at_trial;

typedef struct at_trials {
    const at_trial *trial;
    int count;
} at_trials;

/* How much likelier, or less likely, than by default a rule, a function, and the rule in that function are to be
 * drawn: 1 where nothing is known. A time saved in a function, or lost, says that time is spent there; a rule is to
 * have saved some. What was measured to 5 % counts as half of what is known for sure. */
double at_trials_of_rule(const at_trials *trials, const char *rule);
double at_trials_of_place(const at_trials *trials, const char *place);
double at_trials_of_both(const at_trials *trials, const char *rule, const char *place);

#endif
