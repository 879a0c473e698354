#include "evolve/code.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "evolve/code_parts.h"
#include "measure/ratio.h"

const char *const at_names_of_levels[] = {"free", "insight", "full", NULL};

/* ---- Arms ---------------------------------------------------------------------------------------------------------
 */

static bool is_spent(const at_code *on, at_code_arm arm)
{
    enum { NOTHINGS = 3 };
    const at_code_budget *budget = &on->options->budget;
    const at_code_turn *turn = &on->turn[arm];
    return on->result->proposals[arm] >= budget->proposals || turn->nothings >= NOTHINGS ||
           (budget->seconds > 0 && turn->spent_s >= budget->seconds) ||
           (budget->usd > 0 && turn->spent_usd >= budget->usd) ||
           (budget->tokens > 0 && turn->spent_tokens >= budget->tokens) ||
           (budget->all_s > 0 && turn->took_s >= budget->all_s);
}

/* Whether what comes next would end after the limit. What is recorded takes no time. */
static bool is_late(at_code *on)
{
    const at_code_machine *machine = &on->options->machine;
    const bool recorded = on->before != NULL && on->next < on->before->count;
    on->result->unfinished =
        on->result->unfinished || (on->options->limit_s > 0 && !recorded &&
                                   machine->seconds(machine->self) + on->longest_s >= on->options->limit_s);
    return on->result->unfinished;
}

/* Whose turn it is: of those with something left to spend the arm that took the least time so far, so that whatever
 * else happens on the machine happens to all alike; AT_ARM_COUNT: nobody's. */
static at_code_arm choose_arm(const at_code *on)
{
    static const at_code_arm arms[] = {AT_ARM_ENGINE, AT_ARM_SAMPLES, AT_ARM_REFINEMENT};
    const size_t count = on->options->controls ? sizeof arms / sizeof arms[0] : 1;
    at_code_arm chosen = AT_ARM_COUNT;
    for (size_t i = 0; i < count; ++i) {
        const bool less = chosen == AT_ARM_COUNT || on->turn[arms[i]].took_s < on->turn[chosen].took_s;
        chosen = less && !is_spent(on, arms[i]) ? arms[i] : chosen;
    }
    return chosen;
}

/* All arms that propose, until their budgets are spent or the proposer said three times in a row that it has nothing
 * more. */
static attune_status run_arms(at_code *on)
{
    for (int arm = 0; arm < AT_ARM_COUNT; ++arm) {
        on->turn[arm] = (at_code_turn){.random = at_random_seed(on->options->seed, 0x636f6465 + (uint64_t)arm)};
    }
    for (at_code_arm arm; (arm = choose_arm(on)) != AT_ARM_COUNT && !is_late(on);) {
        bool none = false;
        at_code_turn *turn = &on->turn[arm];
        const double began_s = on->at_s;
        AT_FAIL_IF(at_file_interrupted(), ATTUNE_INTERRUPTED, "interrupted");
        AT_FORWARD(at_code_propose(on, arm, &none));
        turn->nothings = none ? turn->nothings + 1 : 0;
        turn->took_s += on->at_s - began_s;
        on->longest_s = fmax(on->longest_s, on->at_s - began_s);
    }
    return ATTUNE_OK;
}

/* The first source once more, with as many measurements as the engine had: what parameters alone would have given. */
static attune_status run_parameters(at_code *on, int measured)
{
    at_program *program = at_lineage_add(&on->lineage, AT_ARM_PARAMETERS, AT_CODE_IMPROVE, 0);
    AT_FAIL_IF(program == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a control");
    const at_program *first = &on->lineage.program[0];
    const int id = program->id;
    memcpy(program->binds, first->binds, sizeof program->binds);
    memcpy(program->facts, first->facts, sizeof program->facts);
    (void)snprintf(program->idea, sizeof program->idea, "parameters alone, %d measurements", measured);
    program->error = first->error;
    memcpy(program->row_error, first->row_error, sizeof program->row_error);
    AT_FORWARD(at_sources_copy(&first->sources, &program->sources));
    AT_FORWARD(at_code_tune(on, id, measured));
    program = &on->lineage.program[id];
    return program->us <= 0 ? at_code_judge(on, id, AT_CODE_REFUSED, NULL, "its parameters cannot be searched")
                            : at_code_judge(on, id, AT_CODE_ACCEPTED, NULL, "%d measurements of parameters alone",
                                            on->turn[AT_ARM_PARAMETERS].measured);
}

static attune_status run_first(at_code *on)
{
    at_program *first = at_lineage_add(&on->lineage, AT_ARM_ENGINE, AT_CODE_IMPROVE, -1);
    AT_FAIL_IF(first == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a search");
    AT_FORWARD(at_sources_copy(on->options->first, &first->sources));
    at_sources_digest(&first->sources, first->digest);
    AT_FORWARD(at_sources_scan(&first->sources, on->options->allow));
    return at_code_assay(on, 0);
}

/* ---- The final ----------------------------------------------------------------------------------------------------
 */

typedef struct last {
    int count, id[AT_CODE_FINALISTS_MAX];
    at_event_last said[AT_CODE_FINALISTS_MAX];
    at_event_judged judged[AT_CODE_FINALISTS_MAX]; /* what the final says of it */
    bool wrong[AT_CODE_FINALISTS_MAX];             /* by the gate */
} last;

static void add_finalist(last *to, int id)
{
    bool in = false;
    for (int i = 0; i < to->count; ++i) {
        in = in || to->id[i] == id;
    }
    if (!in && to->count < AT_CODE_FINALISTS_MAX) {
        to->id[to->count++] = id;
    }
}

/* The first source, each arm's champion, and of the engine's line those before it as far as there is room. */
static void choose_finalists(const at_code *on, last *to)
{
    enum { LINE = 4 };
    to->count = 0;
    add_finalist(to, 0);
    for (int arm = 0; arm < AT_ARM_COUNT; ++arm) {
        add_finalist(to, on->lineage.champion[arm]);
    }
    int line = 0;
    for (int i = on->lineage.count - 1; i > 0 && line < LINE; --i) {
        const at_program *one = &on->lineage.program[i];
        if (one->arm == AT_ARM_ENGINE && one->verdict == AT_CODE_ACCEPTED) {
            add_finalist(to, i);
            ++line;
        }
    }
}

/* One that is recorded; a run that was killed within its final has had another. */
static attune_status recall_final(at_code *on, last *to, bool *recalled)
{
    at_event event = {.kind = AT_EVENT_LAST};
    int found = 0;
    while (found < to->count && (at_code_comes(on, AT_EVENT_LAST, to->id[0]) || found > 0)) {
        found = at_code_comes(on, AT_EVENT_LAST, to->id[found]) ? found : 0;
        event.kind = AT_EVENT_LAST;
        AT_FORWARD(at_code_recall(on, &event, to->id[found], recalled));
        if (!*recalled) {
            return ATTUNE_OK;
        }
        AT_FORWARD(at_code_write(on, &event, true));
        to->said[found++] = event.as.last;
    }
    return found == to->count ? ATTUNE_OK : at_code_recall(on, &event, to->id[0], recalled);
}

static attune_status ask_final(at_code *on, last *to)
{
    at_code_side side[AT_CODE_FINALISTS_MAX];
    bool recalled = false;
    for (int i = 0; i < to->count; ++i) {
        side[i] = at_code_side_of(on, to->id[i]);
    }
    AT_FORWARD(recall_final(on, to, &recalled));
    if (recalled) {
        return ATTUNE_OK;
    }
    for (int i = 0; i < to->count; ++i) {
        to->said[i] = (at_event_last){.id = to->id[i]};
    }
    AT_FORWARD(on->options->machine.final(on->options->machine.self, side, to->count, to->said));
    const double at_s = at_code_now(on);
    for (int i = 0; i < to->count; ++i) {
        at_event event = {.kind = AT_EVENT_LAST, .at_s = at_s, .as.last = to->said[i]};
        AT_FORWARD(at_code_write(on, &event, false));
        to->said[i] = event.as.last;
    }
    return ATTUNE_OK;
}

/* How likely times like these are if it is no faster than the first: Student's t over processes. */
static attune_status compare(const at_event_last *one, const at_event_last *first, at_interval *gain, double *chance)
{
    double difference[AT_FINAL_PROCESSES_MAX];
    at_race_policy policy;
    at_interval ratio;
    at_race_policy_init(&policy, 0);
    int count = one->processes;
    for (int i = 0; i < count; ++i) {
        difference[i] = log(one->us[i] / first->us[i]);
    }
    AT_FORWARD(at_trimmed_mean(difference, count, policy.confidence, &ratio));
    double spread = at_deviation(difference, (size_t)count) / sqrt((double)count);
    double mean = at_mean(difference, (size_t)count);
    *chance = spread > 0 ? at_student_above(-mean / spread, count - 1.0) : mean < 0 ? 0 : 1;
    *gain = (at_interval){exp(-ratio.middle), exp(-ratio.high), exp(-ratio.low)};
    return ATTUNE_OK;
}

/* What holds, holds of all together (Holm). */
static attune_status weigh_final(at_code *on, last *of)
{
    static const double level = 0.025, band = 1.02;
    double chance[AT_CODE_FINALISTS_MAX] = {1};
    bool holds[AT_CODE_FINALISTS_MAX] = {false};
    at_interval gain[AT_CODE_FINALISTS_MAX] = {{1, 1, 1}};
    for (int i = 1; i < of->count; ++i) {
        bool timed = of->said[i].well && of->said[0].well && of->said[i].processes == of->said[0].processes;
        chance[i] = 1;
        AT_FORWARD(timed ? compare(&of->said[i], &of->said[0], &gain[i], &chance[i]) : ATTUNE_OK);
    }
    at_holm(chance + 1, of->count - 1, level, holds + 1);
    for (int i = 1; i < of->count; ++i) {
        at_event event = {.kind = AT_EVENT_JUDGED,
                          .as.judged = {.id = of->id[i], .ratio = gain[i], .chance = chance[i]}};
        bool faster = holds[i] && gain[i].middle >= band;
        event.as.judged.verdict = (int32_t)(!of->said[i].well ? AT_CODE_REFUSED
                                            : faster          ? AT_CODE_ACCEPTED
                                                              : AT_CODE_TIED);
        (void)snprintf(event.as.judged.why, sizeof event.as.judged.why,
                       "final: %.3f times as fast (%.3f to %.3f) as the first source, P %.2g%s%.200s", gain[i].middle,
                       gain[i].low, gain[i].high, chance[i], holds[i] ? ", which holds among all finalists" : "",
                       of->said[i].why);
        of->judged[i] = event.as.judged;
        AT_FORWARD(at_code_decide(on, &event));
    }
    return ATTUNE_OK;
}

/* The fastest that the gate has not called wrong, and each arm's best of these; the first source where there is none.
 * The place among finalists; 0: none. */
static int choose_winner(at_code *on, const last *of)
{
    at_code_result *result = on->result;
    int best = 0;
    result->winner = 0;
    result->gain = result->gain_low = result->gain_high = 1;
    memset(result->gain_of, 0, sizeof result->gain_of);
    for (int i = 1; i < of->count; ++i) {
        const at_event_judged *one = &of->judged[i];
        if (of->wrong[i] || !of->said[i].well) {
            continue;
        }
        double *const most = &result->gain_of[on->lineage.program[of->id[i]].arm];
        *most = fmax(*most, one->ratio.middle);
        if (one->verdict == AT_CODE_ACCEPTED && one->ratio.middle > result->gain) {
            best = i;
            result->winner = of->id[i];
            result->gain = one->ratio.middle;
            result->gain_low = one->ratio.low;
            result->gain_high = one->ratio.high;
        }
    }
    return best;
}

/* An arm's best that the gate has not called wrong: its place among finalists; 0: none. */
static int best_of(const at_code *on, const last *of, at_code_arm arm)
{
    int best = 0;
    for (int i = 1; i < of->count; ++i) {
        const bool may = !of->wrong[i] && of->said[i].well && on->lineage.program[of->id[i]].arm == arm;
        best = may && (best == 0 || of->judged[i].ratio.middle > of->judged[best].ratio.middle) ? i : best;
    }
    return best;
}

/* Arms beside each other: two ratios to the first source have its noise twice. */
static attune_status compare_arms(at_code *on, const last *of)
{
    const int engine = best_of(on, of, AT_ARM_ENGINE);
    for (int arm = 0; arm < AT_ARM_COUNT; ++arm) {
        const int other = best_of(on, of, (at_code_arm)arm);
        double chance;
        on->result->beside[arm] = (at_interval){0, 0, 0};
        if (engine > 0 && other > 0 && arm != AT_ARM_ENGINE &&
            of->said[engine].processes == of->said[other].processes) {
            AT_FORWARD(compare(&of->said[engine], &of->said[other], &on->result->beside[arm], &chance));
        }
    }
    return ATTUNE_OK;
}

/* ---- The gate -----------------------------------------------------------------------------------------------------
 */

static attune_status prove(at_code *on)
{
    bool recalled;
    at_event event = {.kind = AT_EVENT_GATE};
    AT_FORWARD(at_code_recall(on, &event, 0, &recalled));
    if (!recalled) {
        const at_code_side winner = at_code_side_of(on, on->result->winner), first = at_code_side_of(on, 0);
        AT_FORWARD(on->options->machine.prove(on->options->machine.self, &winner, &first, &event.as.gate));
        event.at_s = at_code_now(on);
    }
    AT_FORWARD(at_code_write(on, &event, recalled));
    on->result->proven = event.as.gate.right == AT_PASS;
    on->result->wrong = event.as.gate.right == AT_FAIL;
    (void)snprintf(on->result->why, sizeof on->result->why, "%.470s", event.as.gate.why);
    return ATTUNE_OK;
}

/* What is wrong has no gain, however fast it was. */
static attune_status refute(at_code *on, last *of, int place)
{
    at_event event = {.kind = AT_EVENT_JUDGED, .as.judged = of->judged[place]};
    event.as.judged.verdict = AT_CODE_REFUSED;
    event.as.judged.ratio = (at_interval){0, 0, 0};
    (void)snprintf(event.as.judged.why, sizeof event.as.judged.why, "%.200s; the gate calls it wrong: %.230s",
                   of->judged[place].why, on->result->why);
    of->wrong[place] = true;
    ++on->result->refuted;
    return at_code_decide(on, &event);
}

/* Whom the gate calls wrong makes room for the next best. */
static attune_status prove_best(at_code *on, last *of)
{
    for (int place = choose_winner(on, of); place > 0 && on->options->prove && !is_late(on);) {
        AT_FORWARD(prove(on));
        if (!on->result->wrong) {
            return ATTUNE_OK;
        }
        AT_FORWARD(refute(on, of, place));
        place = choose_winner(on, of);
        if (on->result->refuted == AT_CODE_GATES_MAX) {
            on->result->winner = 0;
            on->result->gain = on->result->gain_low = on->result->gain_high = 1;
            return ATTUNE_OK;
        }
    }
    return ATTUNE_OK;
}

attune_status at_code_final(at_code *on)
{
    if (is_late(on)) {
        return ATTUNE_OK;
    }
    last *of = calloc(1, sizeof *of);
    AT_FAIL_IF(of == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a final");
    choose_finalists(on, of);
    attune_status status = of->count > 1 ? ask_final(on, of) : ATTUNE_OK;
    status = status == ATTUNE_OK && of->count > 1 ? weigh_final(on, of) : status;
    status = status == ATTUNE_OK && of->count > 1 ? prove_best(on, of) : status;
    status = status == ATTUNE_OK && of->count > 1 ? compare_arms(on, of) : status;
    free(of);
    return status;
}

/* ---- The whole ----------------------------------------------------------------------------------------------------
 */

static attune_status write_end(at_code *on)
{
    at_event event = {.kind = AT_EVENT_END, .as.end = {.measured = on->result->proposals[AT_ARM_ENGINE]}};
    const at_code_result *result = on->result;
    (void)snprintf(event.as.end.outcome, sizeof event.as.end.outcome, "%s",
                   result->wrong        ? "wrong"
                   : result->winner > 0 ? "gain"
                                        : "no gain");
    (void)snprintf(event.as.end.best, sizeof event.as.end.best, "%s", result->config);
    (void)snprintf(event.as.end.why, sizeof event.as.end.why, "proposal %d: %.3f times as fast as the first source",
                   result->winner, result->gain);
    return at_code_decide(on, &event);
}

static attune_status run_all(at_code *on, at_sources *winner)
{
    AT_FORWARD(at_code_log_open(on));
    AT_FORWARD(run_first(on));
    AT_FORWARD(run_arms(on));
    AT_FORWARD(on->options->controls && !is_late(on)
                   ? run_parameters(on, on->turn[AT_ARM_ENGINE].measured + on->options->tune_runs)
                   : ATTUNE_OK);
    AT_FORWARD(at_code_final(on));
    const at_program *best = &on->lineage.program[on->result->winner];
    (void)snprintf(on->result->config, sizeof on->result->config, "%s", best->config);
    memcpy(on->result->champion, on->lineage.champion, sizeof on->result->champion);
    AT_FORWARD(on->result->unfinished ? ATTUNE_OK : write_end(on));
    on->result->replayed = on->options->replay != NULL && on->next == on->before->count;
    return winner != NULL ? at_sources_copy(&best->sources, winner) : ATTUNE_OK;
}

attune_status at_code_run(const at_code_options *options, at_code_result *result, at_sources *winner)
{
    at_code on = {.options = options, .result = result};
    *result = (at_code_result){.gain = 1, .gain_low = 1, .gain_high = 1};
    at_lineage_init(&on.lineage);
    if (winner != NULL) {
        *winner = (at_sources){.count = 0};
    }
    attune_status status = run_all(&on, winner);
    at_code_log_close(&on);
    at_lineage_free(&on.lineage);
    return status;
}
