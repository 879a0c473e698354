/* What the files of a search's machine share: sources that are open. */
#ifndef EVOLVE_CODE_MACHINE_PARTS_H
#define EVOLVE_CODE_MACHINE_PARTS_H

#include "base/scratch.h"
#include "evolve/code_machine.h"
#include "evolve/measurer.h"
#include "evolve/race.h"
#include "stranger/stranger.h"

/* A source that is open: its folder, its kernel, and a worker of its own. */
typedef struct at_opened {
    int id; /* -1: none */
    uint64_t seed;
    at_scratch place;
    at_stranger *stranger;
    at_space *space;
    at_measurer *measurer;
    unsigned used;
} at_opened;

enum { OPEN_MAX = AT_HEAT_MAX + 2 };

struct at_code_bench {
    at_code_bench_options options;
    at_opened open[OPEN_MAX];
    unsigned clock; /* of uses */
    double began_s;
    /* Who races: arms of a stage. */
    at_opened *racer[AT_RACE_ARMS_MAX];
    int candidate[AT_RACE_ARMS_MAX]; /* its config's, by its space */
    int distinct;                    /* sources on the stage */
    at_opened *staged[AT_RACE_ARMS_MAX];
    int place[AT_RACE_ARMS_MAX]; /* of an arm, in its source's own stage */
};

/* The source, opened already or now; that which was not used for the longest makes room. */
attune_status at_opened_find(at_code_bench *on, int id, uint64_t seed, const at_sources *sources, at_opened **found);
void at_opened_close(at_opened *one);
/* A worker for its kernel, with inputs of its seed. */
attune_status at_opened_measurer(at_code_bench *on, at_opened *one);
/* A GPU is to have one process at work, else nothing is timed: workers of other sources end. */
attune_status at_opened_alone(at_code_bench *on, const at_opened *one);
/* The first config of its own order. */
int at_opened_first(const at_space *space);
/* Failures name files below a folder that is gone when they are read. */
void at_opened_words(const char *place, const char *why, char *to, size_t bytes);

#endif
