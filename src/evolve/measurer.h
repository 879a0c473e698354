/* Candidates on a real machine: compiled ahead by a pool of processes, loaded, launched and timed in a worker of the
 * gate's, which alone holds the device. What a candidate does to that worker (it crashes, hangs, poisons the device)
 * costs that worker: the next question is put to a fresh one.
 *
 * Several candidates of one kernel are loaded at once, each as an arm of its own; what is timed is bound to the digests
 * of source and code and to the function that is launched (at_variant). */
#ifndef EVOLVE_MEASURER_H
#define EVOLVE_MEASURER_H

#include "evolve/compilers.h"
#include "evolve/race.h"
#include "judge/built.h"
#include "reference/judge.h"
#include "stranger/stranger.h"
#include "worker/remote.h"

/* How a candidate was made: what its times are bound to. */
typedef struct at_variant {
    at_refused refused; /* AT_RAN: it was made */
    char why[AT_RACE_WHY_MAX];
    char source[AT_DIGEST_TEXT_MAX]; /* digest of what was given to the compiler */
    char code[AT_DIGEST_TEXT_MAX];   /* of what runs: code, resources and steps; of a CPU's, source and config too */
    char entry[64];                  /* that is launched first */
    at_build_facts build;
    double seconds; /* that compiling took */
} at_variant;

/* Everything that a search asks of the machine. Tests bring one made of numbers. */
typedef struct at_machine {
    at_racer racer;
    void *self;
    /* Begins to make a candidate; returns at once. NULL: nothing is made ahead. */
    attune_status (*prefetch)(void *self, int candidate);
    attune_status (*build)(void *self, int candidate, at_variant *variant);
    /* The function that is launched for a candidate that was tried: another text for every function. */
    attune_status (*function)(void *self, int candidate, char function[AT_FUNCTION_TEXT_MAX]);
    /* The first launch of a kernel that is wrong on purpose: the candidate on queries that are 2 % off. */
    attune_status (*mutant)(void *self, int candidate, at_first_run *seen);
    double (*seconds)(void *self); /* a clock that never goes back */
    void (*name)(void *self, int candidate, char text[AT_KERNEL_TEXT_MAX]);
} at_machine;

typedef struct at_measurer_options {
    const at_space *space;       /* whose candidates they are; outlives it, as do the others */
    const attune_kernel *kernel; /* of the space */
    at_test_problem test;
    attune_target target;
    const at_remote_options *worker;
    at_compilers *compilers; /* NULL: workers compile what they load */
    const char *source;      /* digest of a folder's files, whose configs travel as recipes; NULL: one of the library */
    at_pool *pool;           /* for the reference */
    uint64_t seed;
} at_measurer_options;

typedef struct at_measurer at_measurer;

/* Draws the inputs; starts no worker yet. Close with at_measurer_close. */
attune_status at_measurer_open(const at_measurer_options *options, at_measurer **measurer);
void at_measurer_close(at_measurer *measurer);
at_machine at_measurer_machine(at_measurer *measurer);
/* The errors of the last result that was found right. */
attune_status at_measurer_found(const at_measurer *measurer, at_finding *found);
/* Of its rows' relative errors the median, and what 99 % do not exceed. */
attune_status at_measurer_spread(const at_measurer *measurer, double quantile[2]);
/* What the worker says of how a candidate was made. */
attune_status at_measurer_built(at_measurer *measurer, int candidate, at_build_facts *built);
/* Lets something else take part, by its text ("NAME:PARAM=VALUE,..."), and says its number, which no candidate has. */
attune_status at_measurer_add(at_measurer *measurer, const char *kernel_text, int *number);
/* The same for a folder's kernel, which outlives the measurer or its forgetting. CUDA alone: a CPU's worker is locked
 * for one folder. `params` is "PARAM=VALUE,...". */
attune_status at_measurer_add_folder(at_measurer *measurer, at_stranger *stranger, const char *params, int *number);
/* Forgets all that were added. */
void at_measurer_forget(at_measurer *measurer);

#endif
