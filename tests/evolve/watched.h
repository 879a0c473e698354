/* Searches on a machine made of numbers, and what their watch saw. */
#ifndef TESTS_EVOLVE_WATCHED_H
#define TESTS_EVOLVE_WATCHED_H

#include "evolve/fake_machine.h"

/* What a watch saw. */
typedef struct seen_events {
    int tried, champions, checks;
    int launch_refusals, last_launch_refusal;
    bool failed[5]; /* by check */
    char why[5][AT_EVENT_WHY_MAX];
} seen_events;

static inline void on_tried(void *self, const char *config, const at_entrant *entrant)
{
    seen_events *on = self;
    (void)config;
    ++on->tried;
    if (entrant->result == AT_RACE_REFUSED && entrant->first.refused == AT_REFUSED_LAUNCH) {
        ++on->launch_refusals;
        on->last_launch_refusal = entrant->candidate;
    }
}

static inline void on_champion(void *self, const char *config, double gain)
{
    (void)config, (void)gain;
    ++((seen_events *)self)->champions;
}

static inline void on_checked(void *self, const at_event_check *check)
{
    seen_events *on = self;
    ++on->checks;
    on->failed[check->check] = on->failed[check->check] || !check->holds;
    memcpy(on->why[check->check], check->why, sizeof check->why);
}

static inline at_search_options options_of(const fake_machine *on, const at_seed *first, int first_count,
                                           seen_events *seen)
{
    at_search_options options = {
        .space = on->space,
        .seed = 1,
        .budget_runs = 80,
        .batch = 8,
        .first = first,
        .first_count = first_count,
        .baseline = -1,
        .final_processes = 4,
        .final_processes_max = 4,
        .final_blocks = 6,
        .watch = {.self = seen, .tried = on_tried, .champion = on_champion, .checked = on_checked}};
    at_race_policy_init(&options.policy, 1);
    return options;
}

static inline at_search_result run_with(fake_machine *on, at_search_options *options)
{
    at_search_result result;
    const at_machine at = fake_of(on);
    assert_ok(at_search_run(options, &at, NULL, NULL, &result));
    return result;
}

static inline at_search_result run(fake_machine *on, seen_events *seen)
{
    const at_seed first[] = {{on->space->order[0], "heuristic"}};
    memset(seen, 0, sizeof *seen);
    at_search_options options = options_of(on, first, 1, seen);
    return run_with(on, &options);
}

#endif
