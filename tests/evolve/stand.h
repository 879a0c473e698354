/* A stand made of numbers: the landscape's candidates, each with code of its own, on a synthetic machine. What the
 * origin of this project did wrong can be planted in it. */
#ifndef TESTS_EVOLVE_STAND_H
#define TESTS_EVOLVE_STAND_H

#include "evolve/landscape.h"
#include "evolve/search.h"
#include "evolve/synthetic.h"

typedef struct stand {
    synthetic machine;
    at_space *space;
    int built, ahead, proofs, mutants;
    double us;       /* of the best */
    double second_s; /* that a question takes, by its own clock */
    double clock_s;
    /* Planted. */
    bool one_module;                  /* one function is launched whatever is asked for */
    int dead_param;                   /* its value changes no code; -1: none */
    int idle_param;                   /* its value changes no time; -1: none */
    bool compiled_once;               /* configs are arguments of one code: nothing is made ahead */
    bool takes_mutant;                /* a wrong kernel is taken for right */
    bool flat;                        /* all take the same time */
    void (*passes)(struct stand *on); /* told of every question; may be NULL */
} stand;

static inline void stand_pass(stand *on)
{
    on->clock_s += on->second_s;
    if (on->passes != NULL) {
        on->passes(on);
    }
}

static inline double stand_us(const stand *on, int candidate)
{
    attune_config config;
    at_space_config(on->space, candidate, &config);
    if (on->idle_param >= 0) {
        config.value[on->idle_param] = 1;
    }
    return on->us * (on->flat ? 1 : exp(landscape_of(&config)));
}

static inline attune_status stand_try(void *self, int candidate, at_first_run *seen)
{
    stand *on = self;
    stand_pass(on);
    return synthetic_try(&on->machine, candidate, seen);
}

static inline attune_status stand_stage(void *self, const int *candidate, int count, int *culprit, at_first_run *seen)
{
    return synthetic_stage(&((stand *)self)->machine, candidate, count, culprit, seen);
}

static inline attune_status stand_block(void *self, const int *order, int count, double (*us)[2], int *culprit,
                                        at_first_run *seen)
{
    stand *on = self;
    stand_pass(on);
    return synthetic_block(&on->machine, order, count, us, culprit, seen);
}

static inline attune_status stand_unstage(void *self)
{
    return synthetic_unstage(&((stand *)self)->machine);
}

static inline attune_status stand_renew(void *self)
{
    return synthetic_renew(&((stand *)self)->machine);
}

static inline attune_status stand_ahead(void *self, int candidate)
{
    (void)candidate;
    ++((stand *)self)->ahead;
    return ATTUNE_OK;
}

/* The text of all values that reach the code. */
static inline attune_status stand_build(void *self, int candidate, at_variant *variant)
{
    stand *on = self;
    char text[256];
    attune_config config;
    at_space_config(on->space, candidate, &config);
    if (on->dead_param >= 0) {
        config.value[on->dead_param] = 0;
    }
    (void)snprintf(text, sizeof text, "%d %d %d %d %d", config.value[TILE], config.value[KEYS], config.value[STAGES],
                   config.value[UNROLL], config.value[ORDER]);
    ++on->built;
    *variant = (at_variant){.refused = landscape_refused(on->space, candidate) ? AT_REFUSED_COMPILE : AT_RAN};
    (void)snprintf(variant->why, sizeof variant->why, "%s", variant->refused == AT_RAN ? "" : "it gave up");
    at_digest_of(text, strlen(text), variant->code);
    at_digest_of("source", 6, variant->source);
    return ATTUNE_OK;
}

static inline attune_status stand_proof(void *self, int candidate, char function[AT_FUNCTION_TEXT_MAX])
{
    stand *on = self;
    ++on->proofs;
    (void)snprintf(function, AT_FUNCTION_TEXT_MAX, "%016x", on->one_module ? 0xf00d : 0x1000 + candidate);
    return ATTUNE_OK;
}

static inline attune_status stand_mutant(void *self, int candidate, at_first_run *seen)
{
    stand *on = self;
    (void)candidate;
    ++on->mutants;
    *seen = (at_first_run){.refused = on->takes_mutant ? AT_RAN : AT_REFUSED_WRONG};
    (void)snprintf(seen->why, sizeof seen->why, "rule 1");
    return ATTUNE_OK;
}

static inline double stand_seconds(void *self)
{
    return ((stand *)self)->clock_s;
}

static inline void stand_name(void *self, int candidate, char text[AT_KERNEL_TEXT_MAX])
{
    const stand *on = self;
    if (candidate < on->space->count) {
        at_space_print(on->space, candidate, text);
    } else {
        (void)snprintf(text, AT_KERNEL_TEXT_MAX, "rival:A=%d", candidate - on->space->count);
    }
}

/* Close with stand_close. */
static inline stand stand_open(uint64_t seed, double noise)
{
    stand made = {
        .machine = synthetic_of(seed, noise), .space = landscape_open(), .us = 100, .dead_param = -1, .idle_param = -1};
    assert_true(made.space->count + 1 < SYNTHETIC_MAX);
    return made;
}

static inline void stand_close(stand *on)
{
    at_space_close(on->space);
}

static inline at_stand stand_of(stand *on)
{
    for (int i = 0; i < on->space->count; ++i) {
        on->machine.us[i] = stand_us(on, i);
    }
    return (at_stand){.racer = {on, stand_try, stand_stage, stand_block, stand_unstage, stand_renew},
                      .self = on,
                      .ahead = on->compiled_once ? NULL : stand_ahead,
                      .build = stand_build,
                      .proof = stand_proof,
                      .mutant = stand_mutant,
                      .seconds = stand_seconds,
                      .name = stand_name};
}

#endif
