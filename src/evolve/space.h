/* The space that a search walks through: the configs of one kernel that one problem on one target allows.
 *
 * A candidate is a config of allowed values that is valid and fits the target (at_kernel_fits); candidates are numbered
 * in the order of at_config_at. A space holds all that strategies need to know and points to no kernel, so that one
 * read from a ledger serves as well, whatever became of the kernel since.
 *
 * A parameter's values are seen by their positions: value 3 of 5 has position 2, a step is to the position beside it,
 * and a feature is the position between 0 and 1. Values of tuned parameters mostly grow geometrically, so a step means
 * about the same everywhere. */
#ifndef EVOLVE_SPACE_H
#define EVOLVE_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "attune/kernel.h"
#include "core/config.h"
#include "wire/json.h"

enum {
    AT_SPACE_TOTAL_MAX = 1 << 20, /* combinations of allowed values; each is asked about */
    AT_SPACE_VALUES_MAX = 64,     /* of one parameter */
    AT_SPACE_REFUSALS_MAX = 16,   /* reasons that are distinguished */
    AT_SPACE_NAME_MAX = 64
};

typedef struct at_space_param {
    char name[AT_SPACE_NAME_MAX];
    int count;
    int32_t value[AT_SPACE_VALUES_MAX]; /* ascending */
    bool live;                          /* candidates differ in it */
} at_space_param;

/* Combinations refused for one reason: reasons that differ in their numbers alone are one. */
typedef struct at_space_refusal {
    int count;
    attune_reason first;
} at_space_refusal;

typedef struct at_space {
    char kernel[AT_SPACE_NAME_MAX];
    int param_count;
    at_space_param param[ATTUNE_PARAMS_MAX];
    int64_t total;     /* combinations of allowed values */
    int count;         /* candidates */
    int64_t *code;     /* [count], ascending: each candidate's number among all combinations */
    uint8_t *position; /* [count][param_count] */
    int order_count;
    int *order; /* [order_count], the descriptor's heuristic order: candidates, the most promising first */
    int *rank;  /* [count], a candidate's place in that order; INT_MAX where it has none */
    int refusal_count;
    at_space_refusal refusal[AT_SPACE_REFUSALS_MAX]; /* the most frequent first; the last counts all others */
} at_space;

/* Asks the descriptor about every combination; of `fixed`, "PARAM=VALUE,...", only about those that have these values
 * ("": about all). ATTUNE_UNSUPPORTED, with the reason, where the kernel does not support the problem, no config fits
 * or there are more than AT_SPACE_TOTAL_MAX combinations; ATTUNE_INVALID_ARGUMENT for values that the kernel does not
 * have.
 */
attune_status at_space_open(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                            const char *fixed, at_space **space);
void at_space_close(at_space *space);

/* As a ledger keeps it. NULL for want of memory. */
json_t *at_space_write(const at_space *space);
/* ATTUNE_CORRUPT names `path` and the field. */
attune_status at_space_read(const json_t *object, const char *path, at_space **space);

/* "NAME:PARAM=VALUE,..." as --kernel takes it. */
void at_space_print(const at_space *space, int candidate, char text[AT_KERNEL_TEXT_MAX]);
/* The candidate of that text, every parameter given; -1 where it is none. */
int at_space_find_text(const at_space *space, const char *text);
void at_space_config(const at_space *space, int candidate, attune_config *config);
int at_space_find(const at_space *space, const attune_config *config);
/* The candidate at these positions, one for each parameter; -1 where there is none. */
int at_space_at(const at_space *space, const uint8_t *position);

/* A parameter's position scaled to 0 ... 1; 0 where the parameter has one value. */
double at_space_feature(const at_space *space, int candidate, int param);
/* Euclid's distance of the features of live parameters. */
double at_space_distance(const at_space *space, int a, int b);
int at_space_live(const at_space *space); /* how many parameters are */

#endif
