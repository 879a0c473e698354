/* A machine made of numbers: the landscape's candidates, each with code of its own, on a synthetic machine. What the
 * origin of this project did wrong can be planted in it. */
#ifndef TESTS_EVOLVE_FAKE_MACHINE_H
#define TESTS_EVOLVE_FAKE_MACHINE_H

#include "evolve/landscape.h"
#include "evolve/search.h"
#include "evolve/synthetic.h"

typedef struct fake_machine {
    synthetic machine;
    at_space *space;
    int built, prefetch, functions, mutants;
    double us;       /* of the best */
    double second_s; /* that a question takes, by its own clock */
    double clock_s;
    /* Planted. */
    bool one_module;                         /* one function is launched whatever is asked for */
    int dead_param;                          /* its value changes no code; -1: none */
    int idle_param;                          /* its value changes no time; -1: none */
    bool compiled_once;                      /* configs are arguments of one code: nothing is made ahead */
    bool takes_mutant;                       /* a wrong kernel is taken for right */
    bool flat;                               /* all take the same time */
    void (*passes)(struct fake_machine *on); /* seen_events of every question; may be NULL */
} fake_machine;

static inline void fake_pass(fake_machine *on)
{
    on->clock_s += on->second_s;
    if (on->passes != NULL) {
        on->passes(on);
    }
}

static inline double fake_us(const fake_machine *on, int candidate)
{
    attune_config config;
    at_space_config(on->space, candidate, &config);
    if (on->idle_param >= 0) {
        config.value[on->idle_param] = 1;
    }
    return on->us * (on->flat ? 1 : exp(landscape_of(&config)));
}

static inline attune_status fake_try(void *self, int candidate, at_first_run *seen)
{
    fake_machine *on = self;
    fake_pass(on);
    return synthetic_try(&on->machine, candidate, seen);
}

static inline attune_status fake_stage(void *self, const int *candidate, int count, int *culprit, at_first_run *seen)
{
    return synthetic_stage(&((fake_machine *)self)->machine, candidate, count, culprit, seen);
}

static inline attune_status fake_block(void *self, const int *order, int count, double (*us)[2], int *culprit,
                                       at_first_run *seen)
{
    fake_machine *on = self;
    fake_pass(on);
    return synthetic_block(&on->machine, order, count, us, culprit, seen);
}

static inline attune_status fake_unstage(void *self)
{
    return synthetic_unstage(&((fake_machine *)self)->machine);
}

static inline attune_status fake_renew(void *self)
{
    return synthetic_renew(&((fake_machine *)self)->machine);
}

static inline attune_status fake_ahead(void *self, int candidate)
{
    (void)candidate;
    ++((fake_machine *)self)->prefetch;
    return ATTUNE_OK;
}

/* The text of all values that reach the code. */
static inline attune_status fake_build(void *self, int candidate, at_variant *variant)
{
    fake_machine *on = self;
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

static inline attune_status fake_proof(void *self, int candidate, char function[AT_FUNCTION_TEXT_MAX])
{
    fake_machine *on = self;
    ++on->functions;
    (void)snprintf(function, AT_FUNCTION_TEXT_MAX, "%016x", on->one_module ? 0xf00d : 0x1000 + candidate);
    return ATTUNE_OK;
}

static inline attune_status fake_mutant(void *self, int candidate, at_first_run *seen)
{
    fake_machine *on = self;
    (void)candidate;
    ++on->mutants;
    *seen = (at_first_run){.refused = on->takes_mutant ? AT_RAN : AT_REFUSED_WRONG};
    (void)snprintf(seen->why, sizeof seen->why, "rule 1");
    return ATTUNE_OK;
}

static inline double fake_seconds(void *self)
{
    return ((fake_machine *)self)->clock_s;
}

static inline void fake_name(void *self, int candidate, char text[AT_KERNEL_TEXT_MAX])
{
    const fake_machine *on = self;
    if (candidate < on->space->count) {
        at_space_print(on->space, candidate, text);
    } else {
        (void)snprintf(text, AT_KERNEL_TEXT_MAX, "other:A=%d", candidate - on->space->count);
    }
}

/* Close with fake_close. */
static inline fake_machine fake_open(uint64_t seed, double noise)
{
    fake_machine made = {
        .machine = synthetic_of(seed, noise), .space = landscape_open(), .us = 100, .dead_param = -1, .idle_param = -1};
    assert_true(made.space->count + 1 < SYNTHETIC_MAX);
    return made;
}

static inline void fake_close(fake_machine *on)
{
    at_space_close(on->space);
}

static inline at_machine fake_of(fake_machine *on)
{
    for (int i = 0; i < on->space->count; ++i) {
        on->machine.us[i] = fake_us(on, i);
    }
    return (at_machine){.racer = {on, fake_try, fake_stage, fake_block, fake_unstage, fake_renew},
                        .self = on,
                        .prefetch = on->compiled_once ? NULL : fake_ahead,
                        .build = fake_build,
                        .function = fake_proof,
                        .mutant = fake_mutant,
                        .seconds = fake_seconds,
                        .name = fake_name};
}

#endif
