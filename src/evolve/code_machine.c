#include "evolve/code_machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "cpu/cpu.h"
#include "evidence/evidence.h"
#include "evolve/code_facts.h"
#include "evolve/code_machine_parts.h"
#include "evolve/measurer.h"
#include "evolve/search.h"
#include "judge/executor.h"
#include "stranger/stranger.h"

/* ---- Opening ------------------------------------------------------------------------------------------------------
 */

void at_opened_close(at_opened *one)
{
    at_measurer_close(one->measurer);
    at_space_close(one->space);
    at_stranger_close(one->stranger);
    at_scratch_remove(&one->place);
    *one = (at_opened){.id = -1};
}

/* The folder is named as its descriptor is, for evidence and messages. */
static attune_status write_folder(at_opened *one, const at_sources *sources, char folder[4096])
{
    AT_FORWARD(at_scratch_make(&one->place));
    (void)snprintf(folder, 4096, "%s/candidate", one->place.path);
    return at_sources_write(sources, folder);
}

static attune_status open_spaces(const at_code_bench *on, at_opened *one)
{
    const attune_kernel *kernel = at_stranger_kernel(one->stranger);
    const at_code_bench_options *options = &on->options;
    AT_FAIL_IF(kernel->target != options->target.kind, ATTUNE_UNSUPPORTED, "kernel %s is for another target",
               kernel->name);
    for (int i = options->problem_count - 1; i >= 0; --i) { /* the first stays */
        at_space_close(one->space);
        one->space = NULL;
        AT_FORWARD(at_space_open(kernel, &options->problem[i].problem, &options->target, "", &one->space));
    }
    return ATTUNE_OK;
}

attune_status at_opened_measurer(at_code_bench *on, at_opened *one)
{
    at_remote_options worker = on->options.worker;
    worker.confined = on->options.target.kind == ATTUNE_TARGET_CPU;
    on->options.worker.confined = worker.confined;
    const at_measurer_options options = {.space = one->space,
                                         .kernel = at_stranger_kernel(one->stranger),
                                         .test = on->options.problem[0],
                                         .target = on->options.target,
                                         .worker = &on->options.worker,
                                         .source = at_stranger_digest(one->stranger),
                                         .pool = on->options.pool,
                                         .seed = one->seed};
    return at_measurer_open(&options, &one->measurer);
}

static attune_status open_into(at_code_bench *on, at_opened *one, const at_sources *sources)
{
    char folder[4096];
    AT_FORWARD(write_folder(one, sources, folder));
    AT_FORWARD(at_stranger_open(folder, NULL, &one->stranger));
    AT_FORWARD(open_spaces(on, one));
    AT_FAIL_IF(one->space->count == 0, ATTUNE_UNSUPPORTED, "no config fits");
    return at_opened_measurer(on, one);
}

void at_opened_words(const char *place, const char *why, char *to, size_t bytes)
{
    at_text text;
    at_text_init_fixed(&text, to, bytes);
    size_t length = place != NULL ? strlen(place) : 0;
    for (const char *at; length > 0 && (at = strstr(why, place)) != NULL; why = at + length + (at[length] == '/')) {
        at_text_add(&text, "%.*s", (int)(at - why), why);
    }
    at_text_add(&text, "%s", why);
}

/* The source, at_opened already or now; that which was not used for the longest makes room. */
attune_status at_opened_find(at_code_bench *on, int id, uint64_t seed, const at_sources *sources, at_opened **found)
{
    at_opened *place = &on->open[0];
    for (int i = 0; i < OPEN_MAX; ++i) {
        at_opened *one = &on->open[i];
        if (one->id == id && one->seed == seed && id >= 0) {
            one->used = ++on->clock;
            *found = one;
            return ATTUNE_OK;
        }
        place = one->id == -1 || (place->id != -1 && one->used < place->used) ? one : place;
    }
    at_opened_close(place);
    *place = (at_opened){.id = id, .seed = seed, .place = {NULL, -1}, .used = ++on->clock};
    attune_status status = open_into(on, place, sources);
    if (status != ATTUNE_OK) {
        char why[AT_SENTENCE_MAX];
        at_opened_words(place->place.path, attune_last_detail(), why, sizeof why);
        at_opened_close(place);
        return at_fail(status, "%s", why);
    }
    *found = place;
    return ATTUNE_OK;
}

attune_status at_opened_alone(at_code_bench *on, const at_opened *one)
{
    for (int i = 0; on->options.target.kind == ATTUNE_TARGET_CUDA && i < OPEN_MAX; ++i) {
        if (&on->open[i] != one && on->open[i].measurer != NULL) {
            const at_machine machine = at_measurer_machine(on->open[i].measurer);
            AT_FORWARD(machine.racer.renew(machine.self));
        }
    }
    return ATTUNE_OK;
}

/* What ends a search rather than a source. */
static bool ends_search(attune_status status)
{
    return status == ATTUNE_INTERRUPTED || status == ATTUNE_NO_DEVICE || status == ATTUNE_OUT_OF_MEMORY ||
           at_file_interrupted();
}

static at_refused refusal_of(attune_status status)
{
    return status == ATTUNE_UNSUPPORTED    ? AT_REFUSED_RESOURCES
           : status == ATTUNE_WRONG_RESULT ? AT_REFUSED_WRONG
           : status == ATTUNE_DEVICE_ERROR ? AT_REFUSED_LAUNCH
                                           : AT_REFUSED_COMPILE;
}

/* ---- First launches -----------------------------------------------------------------------------------------------
 */

int at_opened_first(const at_space *space)
{
    return space->order_count > 0 ? space->order[0] : 0;
}

/* "" is the first; -1: this source has no such config. */
static int find_config(const at_space *space, const char *config)
{
    char text[AT_KERNEL_TEXT_MAX];
    (void)snprintf(text, sizeof text, "%.120s:%s", space->kernel, config);
    return config[0] != '\0' ? at_space_find_text(space, text) : at_opened_first(space);
}

static attune_status ask_recipe(const at_code_bench *on, const at_opened *one, int config, at_recipe *recipe)
{
    char params[AT_KERNEL_TEXT_MAX];
    at_space_print(one->space, config, params);
    const char *colon = strchr(params, ':');
    return at_stranger_recipe(one->stranger, &on->options.problem[0].problem, &on->options.target,
                              colon != NULL ? colon + 1 : "", recipe);
}

/* Of what runs: the code of the first config, and the values that there are. */
static attune_status digest_code(const at_opened *one, const at_recipe *recipe, const at_build_facts *built,
                                 char digest[AT_DIGEST_TEXT_MAX])
{
    at_text text;
    json_t *space = at_space_write(one->space);
    AT_FAIL_IF(space == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a digest");
    at_text_init(&text);
    at_json_print(space, &text);
    json_decref(space);
    at_code_facts_identify(recipe, built, &text);
    attune_status status = at_text_status(&text, "a digest");
    at_digest_of(text.data, text.length, digest);
    at_text_free(&text);
    return status;
}

static attune_status describe(const at_code_bench *on, const at_opened *one, int config, at_event_made *made)
{
    at_recipe recipe;
    at_finding found;
    at_build_facts built = {.registers = 0};
    AT_FORWARD(at_measurer_found(one->measurer, &found));
    AT_FORWARD(ask_recipe(on, one, config, &recipe));
    AT_FORWARD(on->options.target.kind == ATTUNE_TARGET_CUDA ? at_measurer_built(one->measurer, config, &built)
                                                             : ATTUNE_OK);
    made->error = found.l2;
    AT_FORWARD(at_measurer_spread(one->measurer, made->row_error));
    AT_FORWARD(digest_code(one, &recipe, &built, made->code));
    at_code_facts_print(&recipe, &built, on->options.target.compiler, made);
    return ATTUNE_OK;
}

static attune_status launch(const at_code_bench *on, const at_opened *one, at_event_made *made)
{
    at_first_run seen;
    const at_machine machine = at_measurer_machine(one->measurer);
    const int config = at_opened_first(one->space);
    AT_FORWARD(machine.racer.try(machine.self, config, &seen));
    made->refused = (int32_t)seen.refused;
    made->us = seen.us;
    at_opened_words(one->place.path, seen.why, made->why, sizeof made->why);
    return seen.refused == AT_RAN ? describe(on, one, config, made) : ATTUNE_OK;
}

static attune_status make(void *self, const at_code_side *side, at_event_made *made)
{
    at_code_bench *on = self;
    at_opened *one = NULL;
    attune_status status = at_opened_find(on, side->id, on->options.seed, side->sources, &one);
    status = status == ATTUNE_OK ? at_opened_alone(on, one) : status;
    status = status == ATTUNE_OK ? launch(on, one, made) : status;
    if (status != ATTUNE_OK) {
        AT_FAIL_IF(ends_search(status), status, "%s", attune_last_detail());
        made->refused = (int32_t)refusal_of(status);
        at_opened_words(one != NULL ? one->place.path : NULL, attune_last_detail(), made->why, sizeof made->why);
    }
    return ATTUNE_OK;
}

/* ---- Parameters ---------------------------------------------------------------------------------------------------
 */

enum { SEEDS = 4 };

/* Where the search begins: with the parent's config, where this source has it too, then as its author has it; half of
 * what is measured is the strategy's. */
static int find_seeds(const at_space *space, const char *config, int runs, at_seed seed[SEEDS])
{
    const int parents = find_config(space, config), most = runs / 2 < SEEDS ? runs / 2 : SEEDS;
    const int begin = parents >= 0 ? parents : at_opened_first(space);
    int seeds = 0;
    seed[seeds++] = (at_seed){begin, "parent"};
    for (int i = 0; i < space->order_count && seeds < most; ++i) {
        if (space->order[i] != begin) {
            seed[seeds++] = (at_seed){space->order[i], "heuristic"};
        }
    }
    return seeds;
}

static attune_status search(const at_code_bench *on, const at_opened *one, const at_code_side *side, int runs,
                            at_search_result *result)
{
    enum { BATCH = 8 };
    const at_machine machine = at_measurer_machine(one->measurer);
    at_seed seed[SEEDS];
    const int seeds = find_seeds(one->space, side->config, runs, seed);
    at_search_options options = {.space = one->space,
                                 .strategy = on->options.strategy,
                                 .seed = on->options.seed + (uint64_t)side->id, /* each source tries others */
                                 .budget_runs = runs,
                                 .batch = BATCH,
                                 .first = seed,
                                 .first_count = seeds,
                                 .baseline = -1,
                                 .brief = true}; /* what comes of it is compared afterwards: no final */
    at_race_policy_init(&options.policy, on->options.seed);
    options.policy.shorter = true;
    return at_search_run(&options, &machine, NULL, NULL, result);
}

static void take_config(const at_space *space, int candidate, char config[AT_KERNEL_TEXT_MAX])
{
    char text[AT_KERNEL_TEXT_MAX];
    at_space_print(space, candidate, text);
    const char *colon = strchr(text, ':');
    (void)snprintf(config, AT_KERNEL_TEXT_MAX, "%s", colon != NULL ? colon + 1 : "");
}

static void name_of(const at_scratch *place, const char *config, char text[4096])
{
    (void)snprintf(text, 4096, "%s/candidate%s%s", place->path, config[0] != '\0' ? ":" : "", config);
}

/* Of the config that the search chose. */
static attune_status count(at_code_bench *on, const at_opened *one, at_event_tuned *tuned)
{
    char text[4096];
    at_counters counters;
    at_text words;
    at_gate_options gate = *on->options.gate;
    const char *candidates[] = {text};
    name_of(&one->place, tuned->config, text);
    gate.candidate = candidates;
    gate.candidate_count = 1;
    gate.problem = on->options.problem;
    gate.problem_count = 1;
    gate.peer_count = 0;
    gate.target = on->options.worker.target;
    gate.watch = (at_gate_watch){.self = NULL};
    AT_FORWARD(at_opened_alone(on, NULL));
    AT_FORWARD(at_gate_count(&gate, &on->options.target, &counters));
    at_text_init_fixed(&words, tuned->counters, sizeof tuned->counters);
    at_code_facts_counters(&counters, &words);
    return ATTUNE_OK;
}

static attune_status tune(void *self, const at_code_side *side, int runs, at_event_tuned *tuned)
{
    at_code_bench *on = self;
    at_opened *one;
    at_search_result result = {.winner = -1};
    attune_status status = at_opened_find(on, side->id, on->options.seed, side->sources, &one);
    status = status == ATTUNE_OK ? at_opened_alone(on, one) : status;
    status = status == ATTUNE_OK ? search(on, one, side, runs, &result) : status;
    if (status != ATTUNE_OK) {
        AT_FAIL_IF(ends_search(status), status, "%s", attune_last_detail());
        (void)snprintf(tuned->why, sizeof tuned->why, "%.470s", attune_last_detail());
        return ATTUNE_OK;
    }
    tuned->well = result.end != AT_SEARCH_VOID && result.winner >= 0;
    tuned->measured = result.measured;
    tuned->us = result.us;
    (void)snprintf(tuned->why, sizeof tuned->why, "%.470s", result.why);
    if (tuned->well) {
        take_config(one->space, result.winner, tuned->config);
    }
    return tuned->well && on->options.counters ? count(on, one, tuned) : ATTUNE_OK;
}

/* ---- Races between sources ----------------------------------------------------------------------------------------
 */

static attune_status race_try(void *self, int arm, at_first_run *seen)
{
    const at_code_bench *on = self;
    const at_machine machine = at_measurer_machine(on->racer[arm]->measurer);
    return machine.racer.try(machine.self, on->candidate[arm], seen);
}

/* Nobody's stage is left half made: what broke is at_opened anew. */
static attune_status give_up(at_code_bench *on, attune_status status)
{
    char why[AT_SENTENCE_MAX];
    (void)snprintf(why, sizeof why, "%s", attune_last_detail());
    for (int i = 0; i < OPEN_MAX; ++i) {
        at_opened_close(&on->open[i]);
    }
    memset(on->staged, 0, sizeof on->staged);
    return at_fail(status, "%s", why);
}

/* Each source stages those of its arms that are asked for. */
static attune_status race_stage(void *self, const int *candidate, int count, int *culprit, at_first_run *seen)
{
    at_code_bench *on = self;
    on->distinct = 0;
    for (int i = 0; i < count; ++i) {
        at_opened *one = on->racer[candidate[i]];
        int own[AT_RACE_ARMS_MAX], owned = 0, place = -1;
        bool first = true;
        for (int k = 0; k < count; ++k) {
            if (on->racer[candidate[k]] == one) {
                first = first && k >= i;
                place = k == i ? owned : place;
                own[owned++] = on->candidate[candidate[k]];
            }
        }
        on->staged[i] = one;
        on->place[i] = place;
        if (!first) {
            continue;
        }
        const at_machine machine = at_measurer_machine(one->measurer);
        int at_fault = -1;
        AT_FORWARD(machine.racer.stage(machine.self, own, owned, &at_fault, seen));
        *culprit = at_fault >= 0 ? i : *culprit;
        AT_FORWARD(at_fault >= 0 ? at_fail(ATTUNE_WRONG_RESULT, "%.300s", seen->why) : ATTUNE_OK);
    }
    return ATTUNE_OK;
}

/* One sample after the other, each in the worker that has its source. */
static attune_status race_block(void *self, const int *order, int count, double (*us)[2], int *culprit,
                                at_first_run *seen)
{
    at_code_bench *on = self;
    int taken[AT_RACE_ARMS_MAX] = {0};
    if (on->options.target.kind == ATTUNE_TARGET_CUDA) {
        const at_machine machine = at_measurer_machine(on->staged[0]->measurer);
        return machine.racer.block(machine.self, order, count, us, culprit, seen);
    }
    for (int i = 0; i < count; ++i) {
        const int arm = order[i];
        const at_machine machine = at_measurer_machine(on->staged[arm]->measurer);
        double sample[AT_RACE_ARMS_MAX][2] = {{0}};
        int at_fault = -1;
        AT_FORWARD(machine.racer.block(machine.self, &on->place[arm], 1, sample, &at_fault, seen));
        *culprit = at_fault >= 0 && *culprit < 0 ? arm : *culprit;
        us[arm][taken[arm]++ % 2] = sample[on->place[arm]][0];
    }
    return ATTUNE_OK;
}

/* Calls `one` for each source of the race once. */
static attune_status each_source(at_opened *const *list, int count, attune_status (*one)(const at_machine *machine))
{
    for (int i = 0; i < count; ++i) {
        bool first = true;
        for (int k = 0; k < i; ++k) {
            first = first && list[k] != list[i];
        }
        if (first && list[i] != NULL) {
            const at_machine machine = at_measurer_machine(list[i]->measurer);
            AT_FORWARD(one(&machine));
        }
    }
    return ATTUNE_OK;
}

static attune_status unstage_one(const at_machine *machine)
{
    return machine->racer.unstage(machine->self);
}

static attune_status renew_one(const at_machine *machine)
{
    return machine->racer.renew(machine->self);
}

static attune_status race_unstage(void *self)
{
    at_code_bench *on = self;
    attune_status status = each_source(on->staged, AT_RACE_ARMS_MAX, unstage_one);
    memset(on->staged, 0, sizeof on->staged);
    return status;
}

static attune_status race_renew(void *self)
{
    at_code_bench *on = self;
    return each_source(on->racer, AT_RACE_ARMS_MAX, renew_one);
}

/* On a GPU all sources of a race are in the worker of the first. */
static attune_status join_first(at_code_bench *on, int arm, const char *config)
{
    at_opened *first = on->racer[0], *one = on->racer[arm];
    if (on->options.target.kind != ATTUNE_TARGET_CUDA) {
        return ATTUNE_OK;
    }
    if (arm == 0) {
        at_measurer_forget(first->measurer);
        return at_opened_alone(on, first);
    }
    on->racer[arm] = first;
    return at_measurer_add_folder(first->measurer, one->stranger, config, &on->candidate[arm]);
}

/* Puts a source into the race as number `arm`. */
static attune_status enter(at_code_bench *on, int arm, const at_code_side *side, uint64_t seed)
{
    AT_FORWARD(at_opened_find(on, side->id, seed, side->sources, &on->racer[arm]));
    on->candidate[arm] = find_config(on->racer[arm]->space, side->config);
    AT_FAIL_IF(on->candidate[arm] < 0, ATTUNE_INVALID_ARGUMENT, "%s is no config of proposal %d", side->config,
               side->id);
    return join_first(on, arm, side->config);
}

static at_racer racer_of(at_code_bench *on)
{
    return (at_racer){on, race_try, race_stage, race_block, race_unstage, race_renew};
}

static void copy_samples(const at_entrant *from, double to[AT_HEAT_BLOCKS_MAX][2], int blocks)
{
    memcpy(to, from->us, (size_t)blocks * sizeof to[0]);
}

static attune_status fight(at_code_bench *on, const at_code_side *side, const at_code_side *champion, int round,
                           at_heat *heat)
{
    at_race_policy policy;
    const at_racer racer = racer_of(on);
    memset(on->racer, 0, sizeof on->racer);
    AT_FORWARD(enter(on, 0, champion, on->options.seed));
    AT_FORWARD(enter(on, 1, side, on->options.seed));
    at_code_race_policy(&policy, on->options.seed + 7919U * (uint64_t)side->id + (uint64_t)round);
    heat->champion.candidate = 0;
    heat->entrant[0].candidate = 1;
    heat->count = 1;
    /* Who is shown slower leaves the first one; who may win twice runs the second to the end. */
    attune_status status = round == 0 ? at_heat_run(&policy, &racer, heat) : at_heat_duel(&policy, &racer, heat);
    return status == ATTUNE_OK ? ATTUNE_OK : give_up(on, status);
}

static attune_status duel(void *self, const at_code_side *side, const at_code_side *champion, int round,
                          at_event_duel *said)
{
    at_heat *heat = calloc(1, sizeof *heat);
    AT_FAIL_IF(heat == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a duel");
    attune_status status = fight(self, side, champion, round, heat);
    const at_entrant *one = &heat->entrant[0];
    int blocks = one->blocks < heat->blocks ? one->blocks : heat->blocks;
    blocks = blocks < heat->placebo.blocks ? blocks : heat->placebo.blocks;
    if (status == ATTUNE_OK && one->result != AT_RACE_REFUSED && blocks >= 3) {
        said->well = true;
        said->blocks = blocks;
        copy_samples(one, said->us, blocks);
        copy_samples(&heat->champion, said->champion_us, blocks);
        copy_samples(&heat->placebo, said->placebo_us, blocks);
    } else if (status == ATTUNE_OK) {
        said->well = one->result != AT_RACE_REFUSED; /* so slow that it was not timed to the end */
        (void)snprintf(said->why, sizeof said->why, "%s", said->well ? "far slower than its champion" : one->first.why);
    } else if (!ends_search(status)) {
        (void)snprintf(said->why, sizeof said->why, "%.470s", attune_last_detail());
        status = ATTUNE_OK;
    }
    free(heat);
    return status;
}

/* ---- The final ----------------------------------------------------------------------------------------------------
 */

static int64_t by_number(void *self, int candidate)
{
    (void)self;
    return candidate;
}

/* Inputs and orders that no race had. */
static const uint64_t fresh = 0x66696e616c;

static attune_status run_final(at_code_bench *on, const at_code_side *side, int count, at_final *last)
{
    enum { PROCESSES = 5, PROCESSES_MAX = 8, BLOCKS = 10 };
    at_race_policy policy;
    const at_racer racer = racer_of(on);
    memset(on->racer, 0, sizeof on->racer);
    for (int i = 0; i < count; ++i) {
        AT_FORWARD(enter(on, i, &side[i], on->options.seed ^ fresh));
        last->candidate[i] = i;
    }
    last->count = count;
    last->processes_min = PROCESSES;
    last->processes_max = PROCESSES_MAX; /* while it is open whether others tie with the fastest */
    last->blocks = BLOCKS;
    at_code_race_policy(&policy, on->options.seed ^ fresh);
    attune_status status = at_final_run(&policy, &racer, by_number, NULL, last);
    return status == ATTUNE_OK ? ATTUNE_OK : give_up(on, status);
}

static attune_status final(void *self, const at_code_side *side, int count, at_event_last *said)
{
    at_code_bench *on = self;
    at_final *last = calloc(1, sizeof *last);
    AT_FAIL_IF(last == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a final");
    attune_status status = run_final(on, side, count, last);
    bool fine = status == ATTUNE_OK && last->fair;
    for (int i = 0; i < count; ++i) {
        (void)snprintf(said[i].config, sizeof said[i].config, "%s", side[i].config);
        said[i].well = fine;
        said[i].processes = fine ? last->processes : 0;
        memcpy(said[i].us, last->process_us[i], (size_t)said[i].processes * sizeof said[i].us[0]);
        (void)snprintf(said[i].why, sizeof said[i].why, "%.470s",
                       fine                  ? ""
                       : status == ATTUNE_OK ? "a copy did not tie with its original"
                                             : attune_last_detail());
    }
    free(last);
    return status == ATTUNE_OK || ends_search(status) ? status : ATTUNE_OK;
}

/* ---- The gate -----------------------------------------------------------------------------------------------------
 */

typedef struct proof {
    at_event_gate *to;
    int seen;
} proof;

/* The worst of the problems' verdicts. */
static void keep(void *keeper, const at_verdict *verdict)
{
    proof *on = keeper;
    char *text;
    if (on->seen++ > 0 && (on->to->right != AT_PASS || verdict->right == AT_PASS)) {
        return;
    }
    on->to->right = verdict->right;
    on->to->fast = verdict->fast;
    if (at_verdict_print(verdict, &text, on->to->verdict) == ATTUNE_OK) {
        free(text);
    }
    for (int stage = 0; stage < AT_STAGE_COUNT; ++stage) {
        if (verdict->finding[stage].outcome != AT_NOT_RUN) {
            (void)snprintf(on->to->why, sizeof on->to->why, "%.470s", verdict->finding[stage].sentence);
        }
    }
}

static attune_status run_gate(const at_code_bench *on, const char *candidate, const char *first, proof *of)
{
    at_gate_result result;
    at_gate_options gate = *on->options.gate;
    const char *candidates[] = {candidate}, *peers[] = {first};
    gate.candidate = candidates;
    gate.candidate_count = 1;
    gate.problem = on->options.problem;
    gate.problem_count = on->options.problem_count;
    gate.peer = gate.peer_count > 0 ? gate.peer : peers;
    gate.peer_count = gate.peer_count > 0 ? gate.peer_count : 1;
    gate.target = on->options.worker.target;
    gate.watch.keeper = of;
    gate.watch.keep = keep;
    return at_gate_run(&gate, &result);
}

static attune_status prove(void *self, const at_code_side *winner, const at_code_side *first, at_event_gate *gate)
{
    at_code_bench *on = self;
    at_opened *one, *other;
    char text[4096], peer[4096];
    proof of = {.to = gate};
    AT_FORWARD(at_opened_find(on, first->id, on->options.seed, first->sources, &other));
    AT_FORWARD(at_opened_find(on, winner->id, on->options.seed, winner->sources, &one));
    name_of(&one->place, winner->config, text);
    name_of(&other->place, first->config, peer);
    AT_FORWARD(at_opened_alone(on, NULL));
    gate->right = gate->fast = AT_NOT_RUN;
    (void)snprintf(gate->config, sizeof gate->config, "%s", winner->config);
    AT_FORWARD(run_gate(on, text, peer, &of));
    char why[sizeof gate->why];
    at_opened_words(other->place.path, gate->why, why, sizeof why);
    at_opened_words(one->place.path, why, gate->why, sizeof gate->why);
    return ATTUNE_OK;
}

static double seconds(void *self)
{
    return at_timed_seconds() - ((const at_code_bench *)self)->began_s;
}

/* ---- The whole ----------------------------------------------------------------------------------------------------
 */

attune_status at_code_bench_open(const at_code_bench_options *options, at_code_bench **bench)
{
    at_code_bench *made = calloc(1, sizeof *made);
    *bench = NULL;
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a search");
    made->options = *options;
    made->began_s = at_timed_seconds();
    for (int i = 0; i < OPEN_MAX; ++i) {
        made->open[i] = (at_opened){.id = -1, .place = {NULL, -1}};
    }
    *bench = made;
    return ATTUNE_OK;
}

void at_code_bench_close(at_code_bench *bench)
{
    for (int i = 0; bench != NULL && i < OPEN_MAX; ++i) {
        at_opened_close(&bench->open[i]);
    }
    free(bench);
}

at_code_machine at_code_bench_machine(at_code_bench *bench)
{
    return (at_code_machine){bench, make, tune, duel, final, prove, seconds};
}
