/* A short search with one event of every kind, for tests of ledgers. */
#ifndef TESTS_EVOLVE_EXAMPLE_LEDGER_H
#define TESTS_EVOLVE_EXAMPLE_LEDGER_H

#include <stdio.h>

#include "evolve/landscape.h"

#include "evolve/ledger.h"

#define EXAMPLE_CONFIG "landscape:TILE=8,KEYS=16,STAGES=1,UNROLL=1,ORDER=0,IDLE=7"
#define EXAMPLE_OTHER "landscape:TILE=64,KEYS=96,STAGES=3,UNROLL=2,ORDER=1,IDLE=7"
#define EXAMPLE_DIGEST "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static const at_event_start example_start = {
    .attune = "0.1.0",
    .kernel = "landscape",
    .problem = "b1,h1,s64,d64,fp32",
    .target = "cpu/any/baseline,threads=1",
    .source = EXAMPLE_DIGEST,
    .strategy = "random",
    .seed = UINT64_C(18446744073709551615),
    .budget = "200runs",
    .policy = "rounds of 3 pairs, \"quoted\", and \xc3\xa9",
};

static const at_event_build example_build = {
    .config = EXAMPLE_CONFIG,
    .source = EXAMPLE_DIGEST,
    .code = EXAMPLE_DIGEST,
    .entry = "attune_landscape",
    .same_as = EXAMPLE_OTHER,
    .smem_bytes = 49152,
    .figures = {.tensor_percent = 12.5, .sm_percent = 50, .barriers = 2, .registers = 168, .spill_bytes = 8},
    .seconds = 0.25,
};

static const at_event_measurement example_measurement = {
    .config = EXAMPLE_CONFIG,
    .champion = EXAMPLE_OTHER,
    .code = EXAMPLE_DIGEST,
    .round = 1,
    .censored = true,
    .pairs = 3,
    .us = {10.5, 11, 10.25},
    .champion_us = {10, 10.125, 9.875},
};

static const at_event_decision example_decision = {
    .decision = AT_DECIDED_ELIMINATED,
    .config = EXAMPLE_CONFIG,
    .against = EXAMPLE_OTHER,
    .ratio = {0.95, 0.94, 0.96},
    .why = "slower",
};

/* Events of searches for code. */
static inline void example_code_event(at_event *event)
{
    if (event->kind == AT_EVENT_PROPOSAL) {
        event->as.proposal = (at_event_proposal){.id = 3,
                                                 .parent = 1,
                                                 .arm = AT_ARM_SAMPLES,
                                                 .kind = AT_CODE_REPAIR,
                                                 .request = EXAMPLE_DIGEST,
                                                 .answer = EXAMPLE_DIGEST,
                                                 .idea = "wider",
                                                 .tokens_in = "unknown",
                                                 .tokens_out = "12",
                                                 .usd = "0.5",
                                                 .bytes_in = 7,
                                                 .tries = 2,
                                                 .seconds = 1.25};
    } else if (event->kind == AT_EVENT_MADE) {
        event->as.made = (at_event_made){
            .id = 3, .refused = AT_REFUSED_WRONG, .why = "rule 1", .code = EXAMPLE_DIGEST, .us = 12.5, .error = 1e-4};
    } else if (event->kind == AT_EVENT_TUNED) {
        event->as.tuned = (at_event_tuned){
            .id = 3, .well = true, .config = "ROWS=4", .measured = 8, .us = 11.5, .counters = "issue_percent 40"};
    } else if (event->kind == AT_EVENT_DUEL) {
        event->as.duel = (at_event_duel){
            .id = 3, .well = true, .blocks = 1, .us = {{1, 2}}, .champion_us = {{2, 3}}, .placebo_us = {{2, 2.5}}};
    } else if (event->kind == AT_EVENT_LAST) {
        event->as.last = (at_event_last){.id = 3, .config = "ROWS=4", .well = true, .processes = 2, .us = {9.5, 9.25}};
    } else {
        event->as.judged = (at_event_judged){
            .id = 3, .verdict = AT_CODE_TIED, .against = 1, .ratio = {1, 0.99, 1.01}, .chance = 0.5, .why = "a tie"};
    }
}

/* An event of that kind; the space belongs to the caller. */
static inline at_event example_event(at_event_kind kind, at_space *space)
{
    at_event event = {.kind = kind, .at_s = 0.5 * kind};
    switch (kind) {
    case AT_EVENT_START:
        event.as.start = example_start;
        break;
    case AT_EVENT_SPACE:
        event.as.space = space;
        break;
    case AT_EVENT_CANDIDATE:
        event.as.candidate = (at_event_candidate){.config = EXAMPLE_CONFIG, .from = "heuristic"};
        break;
    case AT_EVENT_REFUSAL:
        event.as.refusal =
            (at_event_refusal){.config = EXAMPLE_CONFIG, .refused = AT_REFUSED_LAUNCH, .why = "too many registers"};
        break;
    case AT_EVENT_BUILD:
        event.as.build = example_build;
        break;
    case AT_EVENT_MEASUREMENT:
        event.as.measurement = example_measurement;
        break;
    case AT_EVENT_DECISION:
        event.as.decision = example_decision;
        break;
    case AT_EVENT_CHECK:
        event.as.check = (at_event_check){.check = AT_CHECK_MUTANT, .holds = true, .why = "it was rejected"};
        break;
    case AT_EVENT_GATE:
        event.as.gate = (at_event_gate){.config = EXAMPLE_OTHER,
                                        .verdict = EXAMPLE_DIGEST,
                                        .right = AT_PASS,
                                        .fast = AT_INCONCLUSIVE,
                                        .why = "close"};
        break;
    case AT_EVENT_WISDOM:
        event.as.wisdom = (at_event_wisdom){.row = "a row of wisdom"};
        break;
    case AT_EVENT_END:
        event.as.end = (at_event_end){.outcome = "gain", .best = EXAMPLE_OTHER, .measured = 1, .why = "it was enough"};
        break;
    case AT_EVENT_RESUME:
    case AT_EVENT_KINDS:
        break;
    default:
        example_code_event(&event);
        break;
    }
    return event;
}

#endif
